//! Manifest: other files, listed in the metadata, or the chunks of an episode, listed in an entry.
//!
//! Specification: shard.md, section 5.4.

use serde_json::Value;

use super::{Face, json, named_json};
use crate::Shard;
use nra_core::description::{Description, known};
use nra_core::error::Result;

/// Entry with the chunks of an episode.
const CHUNKS: &str = "meta/manifest";

/// What a manifest lists.
pub struct Manifest {
    /// Of files, from the metadata.
    files: Value,
    /// Of chunks of an episode.
    chunks: Value,
}

impl Manifest {
    /// Reads the list.
    pub fn read(shard: &Shard, metadata: &Value, problems: &mut Vec<String>) -> Result<Self> {
        Ok(Self { files: metadata["manifest"].clone(), chunks: named_json(shard, CHUNKS, false, problems)? })
    }

    fn sum_up_files(&self, table: &mut Description) {
        let files = self.files["files"].as_array().map_or(&[][..], Vec::as_slice);
        table.fact("files", files.len().to_string());
        table.heads = vec!["file", "role", "profile", "entries", "first", "last", "sha256"];
        for file in files {
            let cell = |key: &str| json::word(&file[key]).unwrap_or_default();
            let cells = ["uri", "role", "profile", "entry_count", "start_key", "end_key", "sha256"].map(cell);
            table.row(&cells.each_ref().map(String::as_str));
        }
        json::fact(table, "partitions", &self.files["partitions"]);
        places(table, files);
    }

    fn sum_up_chunks(&self, table: &mut Description) {
        let chunks = self.chunks["chunks"].as_array().map_or(&[][..], Vec::as_slice);
        json::fact(table, "episode", &self.chunks["episode_id"]);
        json::fact(table, "environment", &self.chunks["env_id"]);
        table.fact("chunks", chunks.len().to_string());
        let total = json::number(&self.chunks["total_timesteps"]);
        table.fact("steps", known(total));
        table.heads = vec!["chunk", "file", "steps", "from", "to", "sha256"];
        let mut ranges = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let cell = |key: &str| json::word(&chunk[key]).unwrap_or_default();
            let range = json::numbers(&chunk["timestep_range"]);
            let (from, to) = match range.as_deref() {
                Some([from, to]) => (Some(*from), Some(*to)),
                _ => (None, None),
            };
            let steps = json::number(&chunk["length_T"]);
            ranges.push((json::number(&chunk["chunk_index"]), from, to, steps));
            table.row(&[&cell("chunk_index"), &cell("uri"), &known(steps), &known(from), &known(to), &cell("sha256")]);
        }
        let steps = ranges.iter().try_fold(0u64, |sum, (.., steps)| sum.checked_add((*steps)?));
        if total.is_some() && steps != total {
            table.fact("but", format!("its chunks have {} steps together", known(steps)));
        }
        let expected = json::number(&self.chunks["total_chunks"]);
        if expected.is_some_and(|expected| expected != chunks.len() as u64) {
            table.fact("but", format!("{} chunks are announced", known(expected)));
        }
        ranges.sort_by_key(|range| range.0);
        if let Some((at, _)) = (0u64..).zip(&ranges).find(|(at, range)| range.0 != Some(*at)) {
            table.fact("but", format!("chunk {at} is missing"));
        } else if let Some(at) = ranges.windows(2).position(|pair| pair[1].1 != pair[0].2.and_then(|to| to.checked_add(1))) {
            table.fact("but", format!("chunk {} does not begin where the one before it ends", at + 1));
        }
        places(table, chunks);
    }
}

/// Tells of files that are not meant to lie beside the manifest: whoever reads them must not follow.
fn places(table: &mut Description, files: &[Value]) {
    let leads_out = |uri: &&str| uri.starts_with('/') || uri.split(['/', '\\']).any(|part| part == "..");
    if let Some(uri) = files.iter().filter_map(|file| file["uri"].as_str()).find(leads_out) {
        table.fact("but", format!("{uri} leads out of its folder"));
    }
}

impl Face for Manifest {
    fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        if shard.name(number) != CHUNKS.as_bytes() || self.chunks.is_null() {
            return Ok(None);
        }
        let mut table = Description::new("chunk manifest", &[]);
        self.sum_up_chunks(&mut table);
        table.brief = format!("manifest of {} chunks", table.row_count);
        Ok(Some(table))
    }

    fn sum_up(&self, _: &Shard, table: &mut Description) -> Result<()> {
        if self.chunks.is_null() {
            self.sum_up_files(table)
        } else {
            self.sum_up_chunks(table)
        }
        Ok(())
    }
}
