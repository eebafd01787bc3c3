//! The properties of an entry: facts, the position of its content, and entries that share it.

use crate::glyphs;
use crate::preview::details::{self, Details};
use crate::preview::summary;
use nra_format::archive::{Access, Archive};
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::zeros::each_run;
use nra_text::{self, SizeStyle};

/// Maximum number of runs of content that are listed.
const RUNS: usize = 12;
/// Maximum number of entries with the same content that are listed.
const PARTNERS: usize = 20;
/// Interval, in entries, for checking whether the request was cancelled.
const STRIDE: usize = 4_096;

/// Collects the properties that need no other entries.
pub fn facts(archive: &dyn Archive, entry: &Entry, awaited: &dyn Fn() -> bool) -> Result<Details> {
    let mut details = details::load(archive, entry, true, 0, awaited)?;
    if entry.kind != Kind::File {
        return Ok(details);
    }
    if let Some((runs, count)) = archive.runs(entry, RUNS)? {
        details.field("lies in", &nra_text::counted(count, "run of a block", "runs of blocks"));
        for run in &runs {
            let codec = run.codec.map_or_else(|| "unknown codec".to_owned(), |codec| codec.name().to_owned());
            let size = |bytes: u64| SizeStyle::Binary.show(bytes);
            let within =
                format!("{} from {} of {} → {}", size(run.len), size(run.offset), size(run.raw_bytes), size(run.stored_bytes));
            details.field("", &format!("block at {}: {within}, {codec}", nra_text::count(run.block)));
        }
        if count > runs.len() as u64 {
            details.field("", "…");
        }
    }
    Ok(details)
}

/// Maximum length of content whose digest is computed, bytes.
const DIGEST_BYTES: u64 = 256 << 20;

/// Adds properties that take longer: the digest of content and the entries that share it, or the
/// summary of a directory. Returns `None` if cancelled.
pub fn more(archive: &dyn Archive, entry: &Entry, mut details: Details, awaited: &dyn Fn() -> bool) -> Option<Details> {
    match entry.kind {
        Kind::Directory => {
            let numbers = archive.subtree(Some(entry.path.as_bytes())).unwrap_or_default();
            details.fields(summary::summary(archive, numbers, entry.path.as_bytes().len() + 1, awaited)?);
        }
        Kind::File => {
            digest(archive, entry, &mut details, awaited)?;
            partners(archive, entry, &mut details, awaited)?;
        }
        _ => {}
    }
    Some(details)
}

fn digest(archive: &dyn Archive, entry: &Entry, details: &mut Details, awaited: &dyn Fn() -> bool) -> Option<()> {
    if entry.size > DIGEST_BYTES {
        return Some(());
    }
    let mut digest = blake3::Hasher::new();
    let read = archive.with_content(entry, Access::Random, &mut |part| {
        each_run(part, &mut |bytes| {
            digest.update(bytes);
            if awaited() { Ok(()) } else { Err(Error::Cancelled) }
        })
    });
    match read {
        Err(Error::Cancelled) => return None,
        // Unreadable content has no digest.
        Err(_) => {}
        Ok(()) => details.field("digest", &Digest::from(digest.finalize()).to_string()),
    }
    Some(())
}

fn partners(archive: &dyn Archive, entry: &Entry, details: &mut Details, awaited: &dyn Fn() -> bool) -> Option<()> {
    if entry.size == 0 {
        return Some(());
    }
    let (mut first, mut count) = (Vec::new(), 0);
    for (index, other) in archive.entries(0..archive.entry_count()).enumerate() {
        if index % STRIDE == 0 && !awaited() {
            return None;
        }
        let Ok(other) = other else { continue };
        if other.size == entry.size && other.shares_content(entry) && other.path != entry.path {
            count += 1;
            if first.len() < PARTNERS {
                first.push(other.path);
            }
        }
    }
    let value = if count == 0 { "no other entry".to_owned() } else { nra_text::counted(count, "other entry", "other entries") };
    details.field("shared with", &value);
    for path in &first {
        details.field("", &glyphs::printable(path.as_bytes()));
    }
    if count > first.len() as u64 {
        details.field("", "…");
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preview::details::Line;
    use crate::tests::sample;

    #[test]
    fn properties_list_blocks_and_shared_entries() {
        let archive = sample::with_contents(&[("a", b"same"), ("b", b"other"), ("d/c", b"same")]);
        let entry = archive.entry(0).unwrap();
        let details = more(&*archive, &entry, facts(&*archive, &entry, &|| true).unwrap(), &|| true).unwrap();
        let value = |label: &str| {
            details.lines.iter().find_map(|line| match line {
                Line::Field(own, value) if own == label => Some(value.clone()),
                _ => None,
            })
        };
        assert_eq!(value("lies in").unwrap(), "1 run of a block");
        assert_eq!(value("digest").unwrap(), nra_format::digest::Digest::of(b"same").to_string());
        assert_eq!(value("shared with").unwrap(), "1 other entry");
        assert!(details.lines.contains(&Line::Field(String::new(), "d/c".to_owned())));
        assert_eq!(more(&*archive, &entry, Details::default(), &|| false), None);
        let (_, directory) = archive.find(b"d").unwrap().unwrap();
        // One file needs no summary.
        assert_eq!(more(&*archive, &directory, Details::default(), &|| true), Some(Details::default()));
    }
}
