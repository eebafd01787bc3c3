//! ColumnShard: a table. Each entry holds the values of one column in one row group.
//!
//! Specification: shard.md, section 5.5.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value;

use super::{RoleReader, json, named_json};
use crate::Shard;
use nra_core::description::{Description, Elements, known, short};
use nra_core::error::{Error, Result};

/// Name of the entry with columns and statistics.
const SCHEMA: &str = "__schema__";
/// Length of the header of a column chunk: encoding and count, bytes.
const CHUNK_HEADER_LEN: usize = 5;
/// Names of types by number, from 1.
const TYPES: [&str; 17] = [
    "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "string", "bytes", "datetime", "uuid",
    "bf16",
];
/// Names of encodings by number.
const ENCODINGS: [&str; 5] = ["plain", "dictionary", "run-length", "delta", "split bytes"];
/// Length to which writers cut texts in statistics, bytes.
const CUT_TEXT_LEN: usize = 64;

struct Column {
    name: String,
    dtype: String,
    nullable: bool,
    encoding: String,
    /// Statistics by row group.
    stats: Vec<Stats>,
}

/// Statistics of a column in one or all row groups.
#[derive(Clone, Default)]
struct Stats {
    count: Option<u64>,
    nulls: Option<u64>,
    min: Value,
    max: Value,
    distinct: Option<u64>,
}

impl Stats {
    fn new(value: &Value) -> Self {
        Self {
            count: json::number(&value["count"]),
            nulls: json::number(&value["null_count"]),
            min: value["min"].clone(),
            max: value["max"].clone(),
            distinct: json::number(&value["distinct_count"]),
        }
    }

    /// Combines the statistics of all row groups. The number of distinct values is only known for one.
    fn merged(all: &[Self]) -> Self {
        let sum = |number: fn(&Self) -> Option<u64>| {
            all.iter().try_fold(0u64, |sum, stats| sum.checked_add(number(stats)?)).filter(|_| !all.is_empty())
        };
        let bound = |value: fn(&Self) -> &Value, ordering: Ordering| {
            let bounds = all.iter().map(value).filter(|value| !value.is_null());
            let best = bounds.reduce(|best, other| if compare(other, best) == ordering { other } else { best });
            best.cloned().unwrap_or_default()
        };
        Self {
            count: sum(|stats| stats.count),
            nulls: sum(|stats| stats.nulls),
            min: bound(|stats| &stats.min, Ordering::Less),
            max: bound(|stats| &stats.max, Ordering::Greater),
            distinct: if let [one] = all { one.distinct } else { None },
        }
    }

    /// Returns the smallest value.
    fn min_text(&self) -> String {
        json::text(&self.min).unwrap_or_default()
    }

    /// Returns the largest value, with an ellipsis if its text was cut.
    fn max_text(&self) -> String {
        let text = json::text(&self.max).unwrap_or_default();
        if self.max.as_str().is_some_and(|text| text.len() >= CUT_TEXT_LEN) { format!("{text}…") } else { text }
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    let integer = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
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

/// The schema of a table.
pub struct Columns {
    rows: Option<u64>,
    rows_per_group: Option<u64>,
    groups: Option<u64>,
    columns: Vec<Column>,
    /// Indexes of the columns by name.
    by_name: HashMap<String, usize>,
}

impl Columns {
    pub fn read(shard: &Shard, problems: &mut Vec<String>) -> Result<Self> {
        let schema = named_json(shard, SCHEMA, true, problems)?;
        let column = |value: &Value| Column {
            name: json::text(&value["name"]).unwrap_or_default(),
            dtype: name_or_number(
                &TYPES,
                json::number(&value["type"]).and_then(|number| number.checked_sub(1)),
                &value["type"],
                "type",
            ),
            nullable: value["nullable"] == true,
            encoding: name_or_number(&ENCODINGS, json::number(&value["encoding"]), &value["encoding"], "encoding"),
            stats: value["stats"].as_array().into_iter().flatten().map(Stats::new).collect(),
        };
        let columns: Vec<Column> = schema["columns"].as_array().into_iter().flatten().map(column).collect();
        Ok(Self {
            by_name: columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at)).collect(),
            columns,
            rows: json::number(&schema["row_count"]),
            rows_per_group: json::number(&schema["row_group_size"]),
            groups: json::number(&schema["row_group_count"]),
        })
    }
}

/// Returns the name at an index of a table, or a text with the value itself.
fn name_or_number(names: &[&str], at: Option<u64>, value: &Value, what: &str) -> String {
    let name = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| names.get(at));
    name.map_or_else(|| format!("{what} {}", json::brief(value)), |name| (*name).to_owned())
}

impl RoleReader for Columns {
    fn describe_entry(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let Ok(name) = std::str::from_utf8(shard.name(number)) else { return Ok(None) };
        if name == SCHEMA {
            // Its content type is not that of JSON.
            return Ok(Some(Description { brief: "JSON".to_owned(), ..Description::new("ColumnShard schema", &[]) }));
        }
        let Some((group, name)) = name.split_once(':').and_then(|(group, name)| Some((group.parse::<u64>().ok()?, name))) else {
            return Ok(None);
        };
        let column = self.by_name.get(name).and_then(|at| self.columns.get(*at));
        let entry = &shard.entries()[number];
        let header = shard.read_prefix(number, CHUNK_HEADER_LEN)?;
        let Some((&[encoding, count @ ..], _)) = header.split_first_chunk::<CHUNK_HEADER_LEN>() else {
            let detail = format!("{CHUNK_HEADER_LEN} bytes expected, {} found", header.len());
            return Err(Error::corrupt("header of a column chunk", entry.data_offset, detail));
        };
        let count = u64::from(u32::from_le_bytes(count));
        let encoding = name_or_number(&ENCODINGS, Some(encoding.into()), &encoding.into(), "encoding");
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
            ("min", stats.min_text()),
            ("max", stats.max_text()),
            ("distinct", stats.distinct.map(|distinct| distinct.to_string()).unwrap_or_default()),
        ] {
            if !value.is_empty() {
                table.fact(label, value);
            }
        }
        if let Some(expected) = stats.count.filter(|expected| *expected != count) {
            table.fact("but", format!("{SCHEMA} declares {expected} values"));
        }
        Ok(Some(table))
    }

    fn describe_file(&self, _: &Shard, table: &mut Description) -> Result<()> {
        table.fact("rows", known(self.rows));
        let size = self.rows_per_group.map(|rows| format!(" of up to {rows} rows")).unwrap_or_default();
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
                &short(&stats.min_text()),
                &short(&stats.max_text()),
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
