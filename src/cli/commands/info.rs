//! `nra info`

use std::sync::Arc;

use crate::archive_errors;
use crate::args::{ArchiveArg, ResourceArgs};
use crate::attributes::AttributeRecord;
use crate::commands::key;
use crate::description::DescriptionRecord;
use crate::exit_code::Code;
use crate::open_archive;
use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_format::archive::Info;
use nra_format::crypt::{KeyInfo, is_accelerated};
use nra_format::entry::{Attribute, Namespace};
use nra_format::nra::reader::NraReader;
use nra_format::source::{FileSource, ReadAt};
use nra_text::{self, ArchiveField};

/// Arguments of `nra info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra info photos.nra\n  nra info photos.nra --json | jq .entries")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Prints the properties of an archive.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = match open_archive::open(&args.archive, &args.resources, ui) {
        Err(failure) if failure.code() == Code::Key && !ui.is_json() => {
            // Print the properties that are readable without a key.
            if let Some(rows) = locked_rows(&args.archive, ui) {
                for (key, value) in rows {
                    ui.line(format_args!("{key:<13} {}", nra_text::harmless(&value)))?;
                }
                ui.flush()?;
            }
            return Err(failure);
        }
        opened => opened?,
    };
    let info = opened.archive.info();
    let has_earlier = info.commit.map(|_| opened.archive.commits().nth(1).is_some());
    if !ui.is_json() {
        for (key, value) in rows(info, has_earlier, &opened.name, ui) {
            ui.line(format_args!("{key:<13} {}", nra_text::harmless(&value)))?;
        }
    }
    let description = opened.archive.describe(None).map_err(|error| archive_errors::explain(error, &opened.name))?;
    if let Some(table) = description.as_ref().filter(|_| !ui.is_json()) {
        for (label, value) in &table.facts {
            ui.line(format_args!("{:<13} {}", nra_text::harmless(label), nra_text::harmless(value)))?;
        }
        for (number, line) in crate::description::lines(table).into_iter().enumerate() {
            if number == 0 {
                ui.line("")?;
            }
            ui.line(line)?;
        }
    }
    ui.flush()?;
    open_archive::report_remarks(&opened, ui);
    let record = record! {
        ..ArchiveField::new(&opened.path),
        format: info.container.to_string(),
        archive_bytes: info.archive_bytes,
        entries: info.entries,
        files: info.files,
        content_bytes: info.content_bytes,
        chunk_bytes: info.chunk_bytes,
        stored_bytes: info.stored_bytes,
        blocks: info.blocks,
        chunks: info.chunks,
        encrypted: info.encrypted,
        encryption: (!info.keys.is_empty()).then(|| record! {
            cipher: "AES-256-GCM",
            hardware_accelerated: is_accelerated(),
            keys: info.keys.len(),
        }),
        archive_id: info.archive_id.map(|id| hex(&id)),
        commit: info.commit,
        time: info.time.map(nra_text::rfc3339),
        has_earlier_commits: has_earlier,
        recovery: info.recovery.map(|data| record! { percent: data.percent, bytes: data.bytes, groups: data.groups }),
        message: &info.message,
        attributes: info.attributes.iter().map(AttributeRecord::new).collect::<Vec<_>>(),
        inside: description.map(DescriptionRecord::from),
        remarks: opened.archive.remarks(),
    };
    ui.finish(Outcome::Done, "info", &record)
}

/// Returns the properties that are readable without a key.
fn locked_rows(archive: &ArchiveArg, ui: &Ui) -> Option<Vec<(&'static str, String)>> {
    let (path, _) = open_archive::locate(&archive.archive, archive.at).ok()?;
    let source = Arc::new(FileSource::open(&path).ok()?);
    let length = source.len();
    let keys = NraReader::keys(source).ok()??;
    let mut rows = vec![("format", "NRA 5, encrypted".to_owned())];
    rows.extend(key_rows(&keys, ui));
    rows.push(("archive", ui.size(length)));
    Some(rows)
}

fn key_rows(keys: &[KeyInfo], ui: &Ui) -> Vec<(&'static str, String)> {
    let hardware = if is_accelerated() { "hardware-accelerated" } else { "not hardware-accelerated" };
    let mut rows = vec![("encryption", format!("AES-256-GCM ({hardware})"))];
    for (number, info) in (1..).zip(keys) {
        let label = if info.label.is_empty() { String::new() } else { format!(" '{}'", info.label) };
        rows.push(("key", format!("{number}{label}: {}", key::describe(info, ui))));
    }
    rows
}

fn rows(info: &Info, has_earlier: Option<bool>, archive: &str, ui: &Ui) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut row = |key: &str, value: String| rows.push((key.to_owned(), value));
    row("format", if info.encrypted { format!("{}, encrypted", info.container) } else { info.container.to_string() });
    if !info.keys.is_empty() {
        key_rows(&info.keys, ui).into_iter().for_each(|(key, value)| row(key, value));
    }
    row("entries", format!("{} ({})", nra_text::count(info.entries), nra_text::counted(info.files, "file", "files")));
    row("content", ui.size(info.content_bytes));
    if let Some(bytes) = info.chunk_bytes {
        // Chunks of earlier commits stay until the archive is compacted.
        let compared = match info.content_bytes.checked_sub(bytes) {
            Some(saved) => format!("{} saved", nra_text::percent(saved, info.content_bytes)),
            None => "including earlier commits".to_owned(),
        };
        row("deduplicated", format!("{} ({compared})", ui.size(bytes)));
    }
    if let Some(bytes) = info.stored_bytes {
        row("compressed", ui.size(bytes));
    }
    let share = nra_text::share(info.archive_bytes, info.content_bytes);
    let share = share.map_or_else(String::new, |share| format!(" ({share} of the content)"));
    row("archive", ui.size(info.archive_bytes) + &share);
    if let (Some(blocks), Some(chunks)) = (info.blocks, info.chunks) {
        row("blocks", format!("{} with {}", nra_text::count(blocks), nra_text::counted(chunks, "chunk", "chunks")));
    }
    if let Some(recovery) = info.recovery {
        let groups = nra_text::counted(recovery.groups.into(), "group", "groups");
        row("recovery", format!("can restore {} % of damage; {} in {groups}", recovery.percent, ui.size(recovery.bytes)));
    }
    if let Some(id) = info.archive_id {
        row("id", hex(&id));
    }
    if let Some(commit) = info.commit {
        let time = info.time.map_or_else(String::new, |time| format!(", {} UTC", nra_text::table_time(time)));
        row("commit", format!("{commit}{time}"));
    }
    if !info.message.is_empty() {
        row("message", info.message.clone());
    }
    if has_earlier == Some(true) {
        row("history", format!("use nra log {archive} to list earlier commits"));
    }
    // Attributes of the format itself are only in JSON, except embedding spaces.
    let shown = |attribute: &&Attribute| match attribute.namespace {
        Namespace::Nra => attribute.is_embedding(),
        Namespace::Foreign => !attribute.name.starts_with(b"shard:"),
        Namespace::Xattr | Namespace::User => true,
    };
    for attribute in info.attributes.iter().filter(shown) {
        let record = AttributeRecord::new(attribute);
        row(&nra_text::harmless(&record.name), record.value);
    }
    rows
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
