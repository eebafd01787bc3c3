//! SampleShard: one training sample per entry.
//!
//! Specification: shard.md, section 5.2.

use serde_json::Value;

use super::sample_record::{self, SampleRecord};
use super::{RoleReader, default_unless_io, json};
use crate::Shard;
use nra_core::description::{Description, short};
use nra_core::error::{Error, Result};

/// Length of the part of a record that is read, bytes.
const PREFIX_LEN: usize = 64 << 10;
/// Longest summary of the fields, bytes.
const MAX_SUMMARY_LEN: usize = 100;

pub struct Samples {
    facts: Value,
}

/// Returns the ID of a sample, which is its name as a number, or `None` for other entries.
fn sample_id(name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok()?;
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain)
}

fn read_record(shard: &Shard, number: usize) -> Result<Option<SampleRecord>> {
    if sample_id(shard.name(number)).is_none() {
        return Ok(None);
    }
    let entry = &shard.entries()[number];
    let bytes = shard.read_prefix(number, PREFIX_LEN)?;
    let is_whole = bytes.len() as u64 == entry.content_len;
    let record = sample_record::parse(&bytes, is_whole);
    record.map(Some).map_err(|detail| Error::corrupt("sample", entry.data_offset, detail))
}

impl Samples {
    pub fn new(metadata: &Value) -> Self {
        Self { facts: metadata["sample_shard"].clone() }
    }
}

impl RoleReader for Samples {
    fn describe_entry(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let Some(record) = read_record(shard, number)? else { return Ok(None) };
        let mut table = Description::new("sample", &["field", "type"]);
        table.fact("record", record.format);
        record.add_rows(&mut table);
        let mut line = String::new();
        for row in &table.rows {
            let field = format!("{}{}: {}", if line.is_empty() { "" } else { ", " }, row[0], row[1]);
            if line.len() + field.len() > MAX_SUMMARY_LEN {
                line.push_str(", …");
                break;
            }
            line.push_str(&field);
        }
        table.brief = if line.is_empty() { short(&record.kind) } else { line };
        Ok(Some(table))
    }

    fn describe_file(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        let mut ids: Vec<(u64, usize)> =
            (0..shard.entries().len()).filter_map(|number| Some((sample_id(shard.name(number))?, number))).collect();
        ids.sort_unstable();
        table.fact("samples", ids.len().to_string());
        if let (Some((first, _)), Some((last, _))) = (ids.first(), ids.last()) {
            table.fact("IDs", format!("{first} to {last}"));
        }
        let declared = json::number(&self.facts["sample_count"]);
        if let Some(declared) = declared.filter(|declared| *declared != ids.len() as u64) {
            table.fact("but", format!("the metadata declare {declared} samples"));
        }
        for (key, label) in [
            ("dataset_name", "dataset"),
            ("key_encoding", "key encoding"),
            ("sample_id_type", "ID type"),
            ("splits", "splits"),
            ("label_map", "labels"),
            ("feature_stats", "statistics"),
        ] {
            json::add_fact(table, label, &self.facts[key]);
        }
        table.heads = vec!["field", "type"];
        let Some((first, number)) = ids.first() else { return Ok(()) };
        match read_record(shard, *number) {
            Ok(Some(record)) => {
                table.fact("record", format!("{}; fields are those of sample {first}", record.format));
                record.add_rows(table);
            }
            Ok(None) => {}
            Err(error) => {
                table.fact("but", format!("sample {first}: {error}"));
                default_unless_io::<()>(error)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_id_rejects_leading_zeros_and_signs() {
        for (name, expected) in
            [("0", Some(0)), ("18446744073709551615", Some(u64::MAX)), ("01", None), ("+1", None), ("__x", None), ("", None)]
        {
            assert_eq!(sample_id(name.as_bytes()), expected, "{name}");
        }
    }
}
