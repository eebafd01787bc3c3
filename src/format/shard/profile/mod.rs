//! Descriptions of Shard files and their entries, according to the profile of the file.
//!
//! A [`Profile`] is read once for a file, from the metadata and the JSON entries of its role. It describes
//! the file, and each entry by the first bytes of its content. Nothing else is read, and checksums of other
//! content are not compared. Damage is reported and only affects the facts that depend on the damaged part.
//! Entries of roles without a layout are described by their content types.
//!
//! Specification: shard.md, section 5.

mod columns;
mod cowrie;
mod episode;
mod json;
mod manifest;
mod model;
mod sample_record;
mod samples;
mod tensor;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Role, Shard};
use nra_core::description::Description;
use nra_core::error::{Error, Result};
use nra_core::limits;

/// The content type of entries without one (shard.md, section 1.3).
const UNTYPED: u16 = 0;
/// The content type of tensors.
const TENSOR: u16 = 1;
/// Names of content types by number; empty if a number is ambiguous.
const TYPE_NAMES: [&str; 18] = [
    "", "tensor", "JSON", "Cowrie", "GLYPH", "text", "image", "audio", "video", "protobuf", "blob", "", "", "", "", "", "",
    "column",
];
/// Name of JSON entries in messages.
const JSON: &str = "JSON of the profile";
/// Name of the metadata in messages.
const METADATA: &str = "Shard metadata";
/// Keys of the metadata that are shown, with their labels.
const FILE_KEYS: [(&str, &str); 12] = [
    ("schema_version", "schema"),
    ("schema_uri", "schema URI"),
    ("schema_id", "schema ID"),
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
/// Keys of an entry in the metadata that are shown, with their labels.
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
/// The time that Go writes if there is none.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

trait RoleReader: Send + Sync {
    /// Describes an entry. Returns `None` if its name and type have no meaning in this role.
    fn describe_entry(&self, shard: &Shard, number: usize) -> Result<Option<Description>>;

    /// Adds facts about the file.
    fn describe_file(&self, shard: &Shard, table: &mut Description) -> Result<()>;
}

/// The role and the metadata of a file, which describe it.
pub struct Profile {
    role: Role,
    metadata: Value,
    reader: Box<dyn RoleReader>,
    /// Parts that could not be read.
    problems: Vec<String>,
}

impl Profile {
    /// Reads the metadata and the JSON entries of the role.
    pub fn read(shard: &Shard) -> Result<Self> {
        let mut problems = Vec::new();
        let metadata = value_or_problem(metadata(shard), &mut problems)?;
        let reader: Box<dyn RoleReader> = match shard.header().role {
            Role::MODEL => Box::new(model::Model),
            Role::SAMPLES => Box::new(samples::Samples::new(&metadata)),
            Role::MANIFEST => Box::new(manifest::Manifest::read(shard, &metadata, &mut problems)?),
            Role::EPISODE => Box::new(episode::Episode::read(shard, &mut problems)?),
            Role::COLUMNS => Box::new(columns::Columns::read(shard, &mut problems)?),
            _ => Box::new(PlainContainer),
        };
        Ok(Self { role: shard.header().role, metadata, reader, problems })
    }

    /// Describes an entry. Returns `None` if nothing is known about it.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn describe_entry(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let entry = &shard.entries()[number];
        let table = match self.reader.describe_entry(shard, number)? {
            Some(table) => Some(table),
            // Other roles have tensors as well, but not all with this header.
            None if entry.content_type == TENSOR => {
                model::read_tensor(shard, number).or_else(default_unless_io)?.map(|tensor| model::describe_tensor(&tensor))
            }
            None => None,
        };
        let mut table = table.unwrap_or_else(|| Description::new("Shard entry", &[]));
        if table.brief.is_empty() {
            table.brief = type_name(entry.content_type);
        }
        if let Ok(name) = std::str::from_utf8(shard.name(number)) {
            let metadata = &self.metadata["entry_metadata"][name];
            ENTRY_KEYS.iter().for_each(|(key, label)| json::add_fact(&mut table, label, &metadata[key]));
        }
        if let Some(names) = self.metadata["tag_dictionary"].as_array().filter(|_| entry.tags != 0) {
            let names = names.iter().take(16).enumerate().filter(|(bit, _)| entry.tags >> bit & 1 != 0);
            let names: Vec<String> = names.filter_map(|(_, name)| json::text(name)).collect();
            table.fact("marked", names.join(", "));
        }
        Ok((!table.brief.is_empty() || !table.facts.is_empty()).then_some(table))
    }

    /// Describes the file.
    pub fn describe_file(&self, shard: &Shard) -> Result<Description> {
        let mut table = Description::new(self.role.name().unwrap_or("Shard"), &[]);
        self.reader.describe_file(shard, &mut table)?;
        for (key, label) in FILE_KEYS {
            let value = &self.metadata[key];
            if value != NO_TIME {
                json::add_fact(&mut table, label, value);
            }
        }
        self.problems.iter().for_each(|problem| table.fact("but", problem.as_str()));
        Ok(table)
    }
}

/// A role without a published layout.
struct PlainContainer;

impl RoleReader for PlainContainer {
    fn describe_entry(&self, _: &Shard, _: usize) -> Result<Option<Description>> {
        Ok(None)
    }

    fn describe_file(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        let role = shard.header().role;
        let text = match role.name() {
            Some(name) => format!("{name} (role {}) has no published layout: a plain container", role.0),
            None if role.0 == 0 => "none: a plain container".to_owned(),
            None => format!("unknown role {}: a plain container", role.0),
        };
        table.fact("role", text);
        let mut types = BTreeMap::<u16, u64>::new();
        shard.entries().iter().for_each(|entry| *types.entry(entry.content_type).or_default() += 1);
        let named = types.iter().filter(|(number, _)| **number != UNTYPED).take(TYPE_NAMES.len());
        let named: Vec<String> = named.map(|(number, count)| format!("{} ({count})", type_name(*number))).collect();
        if !named.is_empty() {
            table.fact("content types", named.join(", "));
        }
        Ok(())
    }
}

/// Returns the name of a content type, which is empty for entries without one.
fn type_name(number: u16) -> String {
    match TYPE_NAMES.get(usize::from(number)) {
        Some(name) if !name.is_empty() || number == UNTYPED => (*name).to_owned(),
        _ => format!("content type {number}"),
    }
}

/// Reads the metadata. Returns `Null` if there are none.
fn metadata(shard: &Shard) -> Result<Value> {
    let Some(range) = shard.metadata_range()? else { return Ok(Value::Null) };
    limits::check("length of the metadata", range.end - range.start, json::MAX_JSON_LEN)?;
    shard.metadata()?.map_or(Ok(Value::Null), |bytes| json::parse(METADATA, range.start, &bytes))
}

fn entry_json(shard: &Shard, number: usize, structure: &'static str) -> Result<Value> {
    json::parse(structure, shard.entries()[number].data_offset, &shard.read(number, json::MAX_JSON_LEN)?)
}

/// Reads the entry with this name as JSON. If it is missing or damaged, adds a problem and returns `Null`.
fn named_json(shard: &Shard, name: &str, is_required: bool, problems: &mut Vec<String>) -> Result<Value> {
    match shard.find(name.as_bytes()) {
        Some(number) => value_or_problem(entry_json(shard, number, JSON), problems),
        None => {
            if is_required {
                problems.push(format!("missing entry {name}"));
            }
            Ok(Value::Null)
        }
    }
}

/// Returns the value, or a default after adding the error to `problems`. `Io` remains an error.
fn value_or_problem<T: Default>(result: Result<T>, problems: &mut Vec<String>) -> Result<T> {
    result.or_else(|error| match error {
        Error::Io { .. } => Err(error),
        other => {
            problems.push(other.to_string());
            Ok(T::default())
        }
    })
}

/// Returns a default for any error other than `Io`.
fn default_unless_io<T: Default>(error: Error) -> Result<T> {
    if matches!(error, Error::Io { .. }) { Err(error) } else { Ok(T::default()) }
}
