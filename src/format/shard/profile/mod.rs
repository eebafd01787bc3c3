//! What is inside a Shard file: what its role promises and its headers say.
//!
//! A [`Profile`] is made once for a file, from the few pieces of JSON that its role has; it describes the whole, and each entry by the first bytes of
//! its content. Nothing else is read, and what does not read is told and costs only what it would have said. Checksums of content are not
//! compared. Entries of a role without a layout are described by their content types alone.
//!
//! Specification: shard.md, section 5.

mod columns;
mod cowrie;
mod episode;
mod json;
mod manifest;
mod model;
mod record;
mod samples;
mod tensor;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Role, Shard};
use nra_core::description::Description;
use nra_core::error::{Error, Result};

/// Content types that are looked at (shard.md, section 1.3).
const UNTYPED: u16 = 0;
const TENSOR: u16 = 1;
/// What a content is, by its type; empty where the numbers have no one meaning.
const TYPES: [&str; 18] = [
    "", "tensor", "JSON", "Cowrie", "GLYPH", "text", "image", "audio", "video", "protobuf", "blob", "", "", "", "", "", "",
    "column",
];
/// Name for messages about JSON in entries.
const JSON: &str = "JSON of the profile";
/// Name for messages about the metadata.
const METADATA: &str = "Shard metadata";
/// Keys of the metadata that are told, and what they are called.
const KEYS: [(&str, &str); 12] = [
    ("schema_version", "schema"),
    ("schema_uri", "schema URI"),
    ("schema_id", "schema id"),
    ("created_at", "created"),
    ("source_uri", "source"),
    ("producer", "producer"),
    ("description", "description"),
    ("tags", "tags"),
    ("tag_dictionary", "tag names"),
    ("profile", "profile"),
    ("profile_meta", "profile facts"),
    ("extra", "extra"),
];
/// Keys of an entry in the metadata that are told, and what they are called.
const ENTRY_KEYS: [(&str, &str); 13] = [
    ("content_type", "content type"),
    ("semantic_type", "meaning"),
    ("description", "description"),
    ("tags", "tags"),
    ("row_count", "rows"),
    ("shape", "declared shape"),
    ("codec", "codec"),
    ("codec_version", "codec version"),
    ("schema_fingerprint", "schema"),
    ("canonical_hash", "canonical hash"),
    ("base_hash", "base hash"),
    ("stats", "statistics"),
    ("extra", "extra"),
];
/// A time that Go writes for none.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// What the entries of a file mean.
trait Face: Send + Sync {
    /// Describes an entry; `None` when its name or type say nothing.
    fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>>;

    /// Adds what there is to say about the whole.
    fn sum_up(&self, shard: &Shard, table: &mut Description) -> Result<()>;
}

/// What a file is for, and what its metadata says.
pub struct Profile {
    role: Role,
    metadata: Value,
    face: Box<dyn Face>,
    /// What did not read of it.
    problems: Vec<String>,
}

impl Profile {
    /// Reads what belongs to the whole file.
    ///
    /// # Errors
    ///
    /// `Io` only: what is damaged is told by [`Profile::whole`].
    pub fn read(shard: &Shard) -> Result<Self> {
        let mut problems = Vec::new();
        let metadata = told(metadata(shard), &mut problems)?;
        let face: Box<dyn Face> = match shard.header().role {
            Role::MODEL => Box::new(model::Model),
            Role::SAMPLES => Box::new(samples::Samples::new(&metadata)),
            Role::MANIFEST => Box::new(manifest::Manifest::read(shard, &metadata, &mut problems)?),
            Role::EPISODE => Box::new(episode::Episode::read(shard, &mut problems)?),
            Role::COLUMNS => Box::new(columns::Columns::read(shard, &mut problems)?),
            _ => Box::new(Plain),
        };
        Ok(Self { role: shard.header().role, metadata, face, problems })
    }

    /// Describes an entry; `None` when nothing is known of it.
    ///
    /// # Errors
    ///
    /// `Corrupt` when its header is not what the profile promises; `Io`.
    ///
    /// # Panics
    ///
    /// When there is no such entry.
    pub fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let entry = &shard.entries()[number];
        let table = match self.face.describe(shard, number)? {
            Some(table) => Some(table),
            // Other roles have tensors too, though not all have this header.
            None if entry.content_type == TENSOR => {
                model::tensor_of(shard, number).or_else(harmless)?.map(|tensor| model::table_of(&tensor))
            }
            None => None,
        };
        let mut table = table.unwrap_or_else(|| Description::new("Shard entry", &[]));
        if table.brief.is_empty() {
            table.brief = type_name(entry.content_type);
        }
        if let Ok(name) = std::str::from_utf8(shard.name(number)) {
            let own = &self.metadata["entry_metadata"][name];
            ENTRY_KEYS.iter().for_each(|(key, label)| json::fact(&mut table, label, &own[key]));
        }
        if let Some(names) = self.metadata["tag_dictionary"].as_array().filter(|_| entry.tags != 0) {
            let names = names.iter().take(16).enumerate().filter(|(bit, _)| entry.tags >> bit & 1 != 0);
            let names: Vec<String> = names.filter_map(|(_, name)| json::word(name)).collect();
            table.fact("marked", names.join(", "));
        }
        Ok((!table.brief.is_empty() || !table.facts.is_empty()).then_some(table))
    }

    /// Describes the file.
    ///
    /// # Errors
    ///
    /// `Io` only.
    pub fn whole(&self, shard: &Shard) -> Result<Description> {
        let mut table = Description::new(self.role.name().unwrap_or("Shard"), &[]);
        self.face.sum_up(shard, &mut table)?;
        for (key, label) in KEYS {
            let value = &self.metadata[key];
            if value != NO_TIME {
                json::fact(&mut table, label, value);
            }
        }
        self.problems.iter().for_each(|problem| table.fact("but", problem.as_str()));
        Ok(table)
    }
}

/// A file whose role has no layout.
struct Plain;

impl Face for Plain {
    fn describe(&self, _: &Shard, _: usize) -> Result<Option<Description>> {
        Ok(None)
    }

    fn sum_up(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        let role = shard.header().role;
        let why = match role.name() {
            Some(name) => format!("{name} (role {}) has no published layout: a plain container", role.0),
            None if role.0 == 0 => "none: a plain container".to_owned(),
            None => format!("role {} is not known: a plain container", role.0),
        };
        table.fact("role", why);
        let mut types = BTreeMap::<u16, u64>::new();
        shard.entries().iter().for_each(|entry| *types.entry(entry.content_type).or_default() += 1);
        let named = types.iter().filter(|(number, _)| **number != UNTYPED).take(TYPES.len());
        let named: Vec<String> = named.map(|(number, count)| format!("{} ({count})", type_name(*number))).collect();
        if !named.is_empty() {
            table.fact("content types", named.join(", "));
        }
        Ok(())
    }
}

/// Returns what a content type is called; nothing for entries without one.
fn type_name(number: u16) -> String {
    match TYPES.get(usize::from(number)) {
        Some(name) if !name.is_empty() || number == UNTYPED => (*name).to_owned(),
        _ => format!("content type {number}"),
    }
}

/// Reads the metadata; nothing where there is none.
fn metadata(shard: &Shard) -> Result<Value> {
    let Some(range) = shard.metadata_range()? else { return Ok(Value::Null) };
    let (found, limit) = (range.end - range.start, json::MAX_JSON);
    if found > limit {
        return Err(Error::Limit { what: "length of metadata that is described", found, limit });
    }
    shard.metadata()?.map_or(Ok(Value::Null), |bytes| json::read(METADATA, range.start, &bytes))
}

/// Reads a whole entry as JSON.
fn entry_json(shard: &Shard, number: usize, structure: &'static str) -> Result<Value> {
    json::read(structure, shard.entries()[number].data_offset, &shard.read(number, json::MAX_JSON)?)
}

/// Reads the entry of this name as JSON; nothing, and a problem, when it is not there or does not read.
fn named_json(shard: &Shard, name: &str, is_needed: bool, problems: &mut Vec<String>) -> Result<Value> {
    match shard.find(name.as_bytes()) {
        Some(number) => told(entry_json(shard, number, JSON), problems),
        None => {
            if is_needed {
                problems.push(format!("there is no entry {name}"));
            }
            Ok(Value::Null)
        }
    }
}

/// Takes what was read, or nothing and a problem.
fn told<T: Default>(result: Result<T>, problems: &mut Vec<String>) -> Result<T> {
    result.or_else(|error| match error {
        Error::Io { .. } => Err(error),
        other => {
            problems.push(other.to_string());
            Ok(T::default())
        }
    })
}

/// Takes damage for nothing known.
fn harmless<T: Default>(error: Error) -> Result<T> {
    if matches!(error, Error::Io { .. }) { Err(error) } else { Ok(T::default()) }
}
