//! Manifest: a list of other files in the metadata, or of the chunks of an episode in an entry.
//!
//! Specification: shard.md, section 5.4.

use serde_json::Value;

use super::{RoleReader, json, named_json};
use crate::Shard;
use nra_core::description::{Description, known};
use nra_core::error::Result;

/// Name of the entry with the chunks of an episode.
const CHUNKS_ENTRY: &str = "meta/manifest";

pub struct Manifest {
    files: Value,
    /// The list of chunks of an episode.
    chunks: Value,
}

impl Manifest {
    pub fn read(shard: &Shard, metadata: &Value, problems: &mut Vec<String>) -> Result<Self> {
        Ok(Self { files: metadata["manifest"].clone(), chunks: named_json(shard, CHUNKS_ENTRY, false, problems)? })
    }

    fn describe_files(&self, table: &mut Description) {
        let files = self.files["files"].as_array().map_or(&[][..], Vec::as_slice);
        table.fact("files", files.len().to_string());
        table.heads = vec!["file", "role", "profile", "entries", "first", "last", "sha256"];
        for file in files {
            let cell = |key: &str| json::text(&file[key]).unwrap_or_default();
            let cells = ["uri", "role", "profile", "entry_count", "start_key", "end_key", "sha256"].map(cell);
            table.row(&cells.each_ref().map(String::as_str));
        }
        json::add_fact(table, "partitions", &self.files["partitions"]);
        check_uris(table, files);
    }

    fn describe_chunks(&self, table: &mut Description) {
        let chunks = self.chunks["chunks"].as_array().map_or(&[][..], Vec::as_slice);
        json::add_fact(table, "episode", &self.chunks["episode_id"]);
        json::add_fact(table, "environment", &self.chunks["env_id"]);
        table.fact("chunks", chunks.len().to_string());
        let total = json::number(&self.chunks["total_timesteps"]);
        table.fact("steps", known(total));
        table.heads = vec!["chunk", "file", "steps", "from", "to", "sha256"];
        let mut ranges = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let cell = |key: &str| json::text(&chunk[key]).unwrap_or_default();
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
            table.fact("but", format!("the chunks have {} steps in total", known(steps)));
        }
        let expected = json::number(&self.chunks["total_chunks"]);
        if expected.is_some_and(|expected| expected != chunks.len() as u64) {
            table.fact("but", format!("{} chunks expected", known(expected)));
        }
        ranges.sort_by_key(|range| range.0);
        if let Some((at, _)) = (0u64..).zip(&ranges).find(|(at, range)| range.0 != Some(*at)) {
            table.fact("but", format!("chunk {at} is missing"));
        } else if let Some(at) = ranges.windows(2).position(|pair| pair[1].1 != pair[0].2.and_then(|to| to.checked_add(1))) {
            table.fact("but", format!("chunk {} does not start where the preceding chunk ends", at + 1));
        }
        check_uris(table, chunks);
    }
}

/// Adds a warning about a URI that leads outside the folder of the manifest.
fn check_uris(table: &mut Description, files: &[Value]) {
    let leads_outside = |uri: &&str| uri.starts_with('/') || uri.split(['/', '\\']).any(|part| part == "..");
    if let Some(uri) = files.iter().filter_map(|file| file["uri"].as_str()).find(leads_outside) {
        table.fact("but", format!("{uri} leads outside the folder"));
    }
}

impl RoleReader for Manifest {
    fn describe_entry(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        if shard.name(number) != CHUNKS_ENTRY.as_bytes() || self.chunks.is_null() {
            return Ok(None);
        }
        let mut table = Description::new("chunk manifest", &[]);
        self.describe_chunks(&mut table);
        table.brief = format!("manifest of {} chunks", table.row_count);
        Ok(Some(table))
    }

    fn describe_file(&self, _: &Shard, table: &mut Description) -> Result<()> {
        if self.chunks.is_null() {
            self.describe_files(table)
        } else {
            self.describe_chunks(table)
        }
        Ok(())
    }
}
