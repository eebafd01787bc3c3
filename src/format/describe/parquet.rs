//! Describes Parquet files: columns and row groups, from the footer.

use std::collections::HashMap;

use crate::describe::thrift::{Kind, Reader};
use crate::describe::{Description, MAX_ROWS, bytes};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Longest footer that is read, bytes.
const MAX_FOOTER: u64 = 8 << 20;
/// The structure in error messages.
const FOOTER: &str = "Parquet footer";
/// Most metadata entries that are shown.
const MAX_FACTS: usize = 20;

const TYPES: [&str; 8] = ["boolean", "int32", "int64", "int96", "float", "double", "bytes", "fixed bytes"];
const CODECS: [&str; 8] = ["none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4 raw"];
const REPETITIONS: [&str; 3] = ["required", "optional", "repeated"];
/// Converted types, which older writers use for logical types.
const CONVERTED_TYPES: [&str; 22] = [
    "text",
    "map",
    "key and value",
    "list",
    "enum",
    "decimal",
    "date",
    "time (ms)",
    "time (µs)",
    "time (ms)",
    "time (µs)",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "json",
    "bson",
    "interval",
];

/// A node of the schema tree.
#[derive(Default)]
struct Node {
    name: String,
    kind: Option<i64>,
    repetition: Option<i64>,
    converted_type: Option<i64>,
    children: i64,
}

/// The totals of a column in the row groups.
#[derive(Default)]
struct Stored {
    raw: u64,
    stored: u64,
    codec: Option<i64>,
}

fn word(words: &[&'static str], number: Option<i64>) -> &'static str {
    number.and_then(|number| usize::try_from(number).ok()).and_then(|number| words.get(number)).copied().unwrap_or("")
}

/// Describes a Parquet file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let end_at = source.len().checked_sub(8).filter(|at| *at >= 4);
    let end_at = end_at.ok_or_else(|| Error::corrupt(FOOTER, 0, "the file is too short"))?;
    let end = bytes::up_to(source, end_at, 8)?;
    if end[4..] != *b"PAR1" {
        let detail = "the file does not end with PAR1: it is truncated, or its footer is encrypted";
        return Err(Error::corrupt(FOOTER, end_at, detail));
    }
    let len = bytes::little(&end[..4]);
    let at = end_at.checked_sub(len).ok_or_else(|| Error::corrupt(FOOTER, end_at, "it is longer than the file"))?;
    read(&bytes::exactly(source, FOOTER, at, len, MAX_FOOTER)?)
}

fn read(footer: &[u8]) -> Result<Description> {
    let mut table = Description::new("Parquet", &["column", "type", "", "codec", "bytes", "stored"]);
    let (mut nodes, mut node_count, mut groups, mut rows) = (Vec::new(), 0, 0, None);
    let mut columns: HashMap<String, Stored> = HashMap::new();
    let mut facts = Vec::new();
    Reader::new(footer).structure(&mut |reader, id, kind| {
        match (id, kind) {
            (2, Kind::List) => {
                node_count = reader.list(&mut |reader, kind| {
                    let node = if kind == Kind::Structure { node(reader)? } else { return Ok(false) };
                    if nodes.len() < 2 * MAX_ROWS {
                        nodes.push(node);
                    }
                    Ok(true)
                })?;
            }
            (3, Kind::Number) => rows = Some(reader.number()?),
            (4, Kind::List) => {
                groups = reader.list(&mut |reader, kind| {
                    if kind == Kind::Structure {
                        group(reader, &mut columns)?;
                    }
                    Ok(kind == Kind::Structure)
                })?;
            }
            (5, Kind::List) => drop(reader.list(&mut |reader, kind| {
                if kind == Kind::Structure && facts.len() < MAX_FACTS {
                    facts.push(pair(reader)?);
                    return Ok(true);
                }
                Ok(false)
            })?),
            (6, Kind::Bytes) => facts.insert(0, ("written by".to_owned(), reader.text()?)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    table.fact("rows", rows.map_or_else(|| "?".to_owned(), |rows| rows.to_string()));
    table.fact("row groups", groups.to_string());
    add_rows(&nodes, &columns, &mut table);
    if node_count > nodes.len() as u64 {
        table.fact("not shown", format!("{} parts of the schema", node_count - nodes.len() as u64));
    }
    facts.iter().for_each(|(label, value)| table.fact(label, value.as_str()));
    Ok(table)
}

fn node(reader: &mut Reader<'_>) -> Result<Node> {
    let mut node = Node::default();
    reader.structure(&mut |reader, id, kind| {
        match (id, kind) {
            (1, Kind::Number) => node.kind = Some(reader.number()?),
            (3, Kind::Number) => node.repetition = Some(reader.number()?),
            (4, Kind::Bytes) => node.name = super::short(&reader.text()?),
            (5, Kind::Number) => node.children = reader.number()?,
            (6, Kind::Number) => node.converted_type = Some(reader.number()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(node)
}

fn pair(reader: &mut Reader<'_>) -> Result<(String, String)> {
    let mut pair = (String::new(), String::new());
    reader.structure(&mut |reader, id, kind| {
        match (id, kind) {
            (1, Kind::Bytes) => pair.0 = super::short(&reader.text()?),
            (2, Kind::Bytes) => pair.1 = super::short(&reader.text()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(pair)
}

/// Adds the columns of a row group.
fn group(reader: &mut Reader<'_>, columns: &mut HashMap<String, Stored>) -> Result<()> {
    reader.structure(&mut |reader, id, kind| {
        if (id, kind) != (1, Kind::List) {
            return Ok(false);
        }
        reader.list(&mut |reader, kind| {
            if kind != Kind::Structure {
                return Ok(false);
            }
            reader.structure(&mut |reader, id, kind| {
                if (id, kind) != (3, Kind::Structure) {
                    return Ok(false);
                }
                let (path, found) = chunk(reader)?;
                if columns.len() < MAX_ROWS || columns.contains_key(&path) {
                    let column = columns.entry(path).or_default();
                    column.raw = column.raw.saturating_add(found.raw);
                    column.stored = column.stored.saturating_add(found.stored);
                    column.codec = column.codec.or(found.codec);
                }
                Ok(true)
            })?;
            Ok(true)
        })?;
        Ok(true)
    })
}

fn chunk(reader: &mut Reader<'_>) -> Result<(String, Stored)> {
    let (mut path, mut stored) = (String::new(), Stored::default());
    reader.structure(&mut |reader, id, kind| {
        match (id, kind) {
            (3, Kind::List) => drop(reader.list(&mut |reader, kind| {
                if kind != Kind::Bytes {
                    return Ok(false);
                }
                let part = super::short(&reader.text()?);
                if path.len() < super::MAX_TEXT {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(&part);
                }
                Ok(true)
            })?),
            (4, Kind::Number) => stored.codec = Some(reader.number()?),
            (6, Kind::Number) => stored.raw = u64::try_from(reader.number()?).unwrap_or(0),
            (7, Kind::Number) => stored.stored = u64::try_from(reader.number()?).unwrap_or(0),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((path, stored))
}

/// Adds rows for the leaves of the schema tree, which is stored in pre-order.
fn add_rows(nodes: &[Node], columns: &HashMap<String, Stored>, table: &mut Description) {
    // The open groups: length of the path, and number of remaining children.
    let mut open: Vec<(usize, i64)> = Vec::new();
    let mut path = String::new();
    for node in nodes.iter().skip(1) {
        while let Some((_, 0)) = open.last() {
            open.pop();
        }
        path.truncate(open.last().map_or(0, |(len, _)| *len));
        if let Some((_, left)) = open.last_mut() {
            *left -= 1;
        }
        if path.len() < super::MAX_TEXT {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(&node.name);
        }
        if node.children > 0 {
            open.push((path.len(), node.children));
            continue;
        }
        let (kind, converted) = (word(&TYPES, node.kind), word(&CONVERTED_TYPES, node.converted_type));
        let kind = if converted.is_empty() { kind.to_owned() } else { format!("{kind} ({converted})") };
        let stored = columns.get(&path);
        let number = |of: fn(&Stored) -> u64| stored.map_or_else(String::new, |stored| of(stored).to_string());
        let codec = word(&CODECS, stored.and_then(|stored| stored.codec));
        let repetition = word(&REPETITIONS, node.repetition);
        table.row(&[&path, &kind, repetition, codec, &number(|stored| stored.raw), &number(|stored| stored.stored)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    /// Written by the crate `parquet` 60: two row groups of `message m { required int64 id;
    /// optional group who { optional binary name (UTF8); repeated double score; } }`.
    const SMALL: &[u8] = include_bytes!("small.parquet");

    #[test]
    fn columns_are_described() {
        let table = describe(&MemorySource::new(SMALL.to_vec())).unwrap();
        let columns: Vec<[&str; 4]> =
            table.rows.iter().map(|row| [row[0].as_str(), row[1].as_str(), row[2].as_str(), row[3].as_str()]).collect();
        assert_eq!(
            columns,
            [
                ["id", "int64", "required", "none"],
                ["who.name", "bytes (text)", "optional", "none"],
                ["who.score", "double", "repeated", "none"]
            ]
        );
        assert!(table.rows.iter().all(|row| row[4].parse::<u64>().unwrap() > 0));
        assert_eq!(table.facts[..2], [("rows".to_owned(), "5".to_owned()), ("row groups".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn damaged_footer_never_panics() {
        for at in 4..SMALL.len() {
            for flip in [0xff, 0x80, 0x01] {
                let mut bytes = SMALL.to_vec();
                bytes[at] ^= flip;
                if let Ok(table) = describe(&MemorySource::new(bytes)) {
                    assert!(table.rows.len() <= 20);
                }
            }
        }
        assert!(describe(&MemorySource::new(SMALL[..SMALL.len() - 1].to_vec())).is_err());
    }
}
