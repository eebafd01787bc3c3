//! SampleShard: one training sample an entry.
//!
//! Specification: shard.md, section 5.2.

use serde_json::Value;

use super::record::{self, Record};
use super::{Face, harmless, json};
use crate::Shard;
use nra_core::description::{Description, short};
use nra_core::error::{Error, Result};

/// Bytes of a record that are looked at.
const HEAD: usize = 64 << 10;
/// Characters of the fields in a line of a list.
const MAX_LINE: usize = 100;

/// What the metadata say of the samples.
pub struct Samples {
    facts: Value,
}

/// Returns the number of a sample, which is its name; other entries have two underscores in front.
fn id(name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok()?;
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain)
}

fn record_of(shard: &Shard, number: usize) -> Result<Option<Record>> {
    if id(shard.name(number)).is_none() {
        return Ok(None);
    }
    let entry = &shard.entries()[number];
    let head = shard.prefix(number, HEAD)?;
    let is_whole = head.len() as u64 == entry.content_len;
    let record = record::read(&head, is_whole);
    record.map(Some).map_err(|detail| Error::corrupt("sample", entry.data_offset, detail))
}

impl Samples {
    /// Takes what the metadata say.
    pub fn new(metadata: &Value) -> Self {
        Self { facts: metadata["sample_shard"].clone() }
    }
}

impl Face for Samples {
    fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let Some(record) = record_of(shard, number)? else { return Ok(None) };
        let mut table = Description::new("sample", &["field", "type"]);
        table.fact("record", record.format);
        record.fill(&mut table);
        let mut line = String::new();
        for row in &table.rows {
            let field = format!("{}{}: {}", if line.is_empty() { "" } else { ", " }, row[0], row[1]);
            if line.len() + field.len() > MAX_LINE {
                line.push_str(", …");
                break;
            }
            line.push_str(&field);
        }
        table.brief = if line.is_empty() { short(&record.kind) } else { line };
        Ok(Some(table))
    }

    fn sum_up(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        let mut ids: Vec<(u64, usize)> =
            (0..shard.entries().len()).filter_map(|number| Some((id(shard.name(number))?, number))).collect();
        ids.sort_unstable();
        table.fact("samples", ids.len().to_string());
        if let (Some((first, _)), Some((last, _))) = (ids.first(), ids.last()) {
            table.fact("ids", format!("{first} to {last}"));
        }
        let declared = json::number(&self.facts["sample_count"]);
        if let Some(declared) = declared.filter(|declared| *declared != ids.len() as u64) {
            table.fact("but", format!("the metadata tell of {declared} samples"));
        }
        for (key, label) in [
            ("dataset_name", "dataset"),
            ("key_encoding", "key encoding"),
            ("sample_id_type", "id type"),
            ("splits", "splits"),
            ("label_map", "labels"),
            ("feature_stats", "statistics"),
        ] {
            json::fact(table, label, &self.facts[key]);
        }
        table.heads = vec!["field", "type"];
        let Some((first, number)) = ids.first() else { return Ok(()) };
        match record_of(shard, *number) {
            Ok(Some(record)) => {
                table.fact("record", format!("{}; fields are those of sample {first}", record.format));
                record.fill(table);
            }
            Ok(None) => {}
            Err(error) => {
                table.fact("but", format!("sample {first}: {error}"));
                harmless::<()>(error)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_without_zeros_in_front() {
        for (name, expected) in
            [("0", Some(0)), ("18446744073709551615", Some(u64::MAX)), ("01", None), ("+1", None), ("__x", None), ("", None)]
        {
            assert_eq!(id(name.as_bytes()), expected, "{name}");
        }
    }
}
