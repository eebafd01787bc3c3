//! ColumnShard: a table, a chunk of a column an entry.
//!
//! Specification: shard.md, section 5.5.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value;

use super::{Face, json, named_json};
use crate::Shard;
use nra_core::description::{Description, Elements, known, short};
use nra_core::error::{Error, Result};

/// Entry with the columns and their statistics.
const SCHEMA: &str = "__schema__";
/// Bytes in front of the values of a chunk: encoding and count.
const CHUNK_HEADER: usize = 5;
/// Types of values by number, from 1.
const TYPES: [&str; 17] = [
    "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "string", "bytes", "datetime", "uuid",
    "bf16",
];
/// Encodings by number.
const ENCODINGS: [&str; 5] = ["plain", "dictionary", "runs", "delta", "split bytes"];
/// Writers cut texts in statistics to this length, bytes.
const CUT: usize = 64;

/// A column of the table.
struct Column {
    name: String,
    dtype: String,
    nullable: bool,
    encoding: String,
    /// One for each row group.
    stats: Vec<Stats>,
}

/// What is said of the values of a chunk, or of all chunks of a column.
#[derive(Clone, Default)]
struct Stats {
    count: Option<u64>,
    nulls: Option<u64>,
    least: Value,
    most: Value,
    distinct: Option<u64>,
}

impl Stats {
    fn new(value: &Value) -> Self {
        Self {
            count: json::number(&value["count"]),
            nulls: json::number(&value["null_count"]),
            least: value["min"].clone(),
            most: value["max"].clone(),
            distinct: json::number(&value["distinct_count"]),
        }
    }

    /// Sums up those of all chunks; how many values differ can't be told for more than one.
    fn merged(all: &[Self]) -> Self {
        let sum = |number: fn(&Self) -> Option<u64>| {
            all.iter().try_fold(0u64, |sum, stats| sum.checked_add(number(stats)?)).filter(|_| !all.is_empty())
        };
        let bound = |value: fn(&Self) -> &Value, wanted: Ordering| {
            let bounds = all.iter().map(value).filter(|value| !value.is_null());
            let best = bounds.reduce(|best, other| if compare(other, best) == wanted { other } else { best });
            best.cloned().unwrap_or_default()
        };
        Self {
            count: sum(|stats| stats.count),
            nulls: sum(|stats| stats.nulls),
            least: bound(|stats| &stats.least, Ordering::Less),
            most: bound(|stats| &stats.most, Ordering::Greater),
            distinct: if let [one] = all { one.distinct } else { None },
        }
    }

    fn least(&self) -> String {
        json::word(&self.least).unwrap_or_default()
    }

    /// The greatest value; one that was cut is not as great as what it stands for.
    fn most(&self) -> String {
        let text = json::word(&self.most).unwrap_or_default();
        if self.most.as_str().is_some_and(|text| text.len() >= CUT) { format!("{text}…") } else { text }
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return a.cmp(&b);
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

/// What the schema says.
pub struct Columns {
    rows: Option<u64>,
    group_rows: Option<u64>,
    groups: Option<u64>,
    columns: Vec<Column>,
    /// Names of the columns, and where they stand among them.
    by_name: HashMap<String, usize>,
}

impl Columns {
    /// Reads the schema.
    pub fn read(shard: &Shard, problems: &mut Vec<String>) -> Result<Self> {
        let schema = named_json(shard, SCHEMA, true, problems)?;
        let column = |value: &Value| Column {
            name: json::word(&value["name"]).unwrap_or_default(),
            dtype: named(&TYPES, json::number(&value["type"]).and_then(|number| number.checked_sub(1)), &value["type"], "type"),
            nullable: value["nullable"] == true,
            encoding: named(&ENCODINGS, json::number(&value["encoding"]), &value["encoding"], "encoding"),
            stats: value["stats"].as_array().into_iter().flatten().map(Stats::new).collect(),
        };
        let columns: Vec<Column> = schema["columns"].as_array().into_iter().flatten().map(column).collect();
        Ok(Self {
            by_name: columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at)).collect(),
            columns,
            rows: json::number(&schema["row_count"]),
            group_rows: json::number(&schema["row_group_size"]),
            groups: json::number(&schema["row_group_count"]),
        })
    }
}

fn named(names: &[&str], at: Option<u64>, value: &Value, what: &str) -> String {
    let name = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| names.get(at));
    name.map_or_else(|| format!("{what} {}", json::brief(value)), |name| (*name).to_owned())
}

impl Face for Columns {
    fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let Ok(name) = std::str::from_utf8(shard.name(number)) else { return Ok(None) };
        if name == SCHEMA {
            // Its content type is another one.
            return Ok(Some(Description { brief: "JSON".to_owned(), ..Description::new("ColumnShard schema", &[]) }));
        }
        let Some((group, name)) = name.split_once(':').and_then(|(group, name)| Some((group.parse::<u64>().ok()?, name))) else {
            return Ok(None);
        };
        let column = self.by_name.get(name).and_then(|at| self.columns.get(*at));
        let entry = &shard.entries()[number];
        let header = shard.prefix(number, CHUNK_HEADER)?;
        let Some((&[encoding, count @ ..], _)) = header.split_first_chunk::<CHUNK_HEADER>() else {
            let detail = format!("{CHUNK_HEADER} bytes expected, {} found", header.len());
            return Err(Error::corrupt("header of a column chunk", entry.data_offset, detail));
        };
        let count = u64::from(u32::from_le_bytes(count));
        let encoding = named(&ENCODINGS, Some(encoding.into()), &encoding.into(), "encoding");
        let mut table = Description::new("ColumnShard chunk", &[]);
        table.fact("column", name);
        table.fact("row group", group.to_string());
        let Some(column) = column else {
            table.brief = format!("{count} values, {encoding}");
            table.fact("values", count.to_string());
            table.fact("encoding", encoding);
            table.fact("but", format!("{SCHEMA} does not list the column"));
            return Ok(Some(table));
        };
        table.array(Elements { dtype: column.dtype.clone(), shape: vec![count] });
        table.brief = format!("{}, {encoding}", table.brief);
        table.fact("encoding", encoding);
        table.fact("nullable", if column.nullable { "yes" } else { "no" });
        let Some(stats) = usize::try_from(group).ok().and_then(|group| column.stats.get(group)) else { return Ok(Some(table)) };
        for (label, value) in [
            ("nulls", stats.nulls.map(|nulls| nulls.to_string()).unwrap_or_default()),
            ("min", stats.least()),
            ("max", stats.most()),
            ("distinct", stats.distinct.map(|distinct| distinct.to_string()).unwrap_or_default()),
        ] {
            if !value.is_empty() {
                table.fact(label, value);
            }
        }
        if let Some(expected) = stats.count.filter(|expected| *expected != count) {
            table.fact("but", format!("{SCHEMA} tells of {expected} values"));
        }
        Ok(Some(table))
    }

    fn sum_up(&self, _: &Shard, table: &mut Description) -> Result<()> {
        table.fact("rows", known(self.rows));
        let size = self.group_rows.map(|rows| format!(" of up to {rows} rows")).unwrap_or_default();
        table.fact("row groups", format!("{}{size}", known(self.groups)));
        table.heads = vec!["column", "type", "nullable", "encoding", "nulls", "min", "max", "distinct"];
        for column in &self.columns {
            let stats = Stats::merged(&column.stats);
            table.row(&[
                &column.name,
                &column.dtype,
                if column.nullable { "yes" } else { "no" },
                &column.encoding,
                &known(stats.nulls),
                &short(&stats.least()),
                &short(&stats.most()),
                &known(stats.distinct),
            ]);
            if let Some((expected, found)) = self.rows.zip(stats.count).filter(|(expected, found)| expected != found) {
                table.fact("but", format!("column {} has {found} values for {expected} rows", column.name));
            }
        }
        table.fact("columns", table.row_count.to_string());
        Ok(())
    }
}
