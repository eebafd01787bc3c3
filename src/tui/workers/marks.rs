//! Determines the entries to mark, and their size.

use std::ops::Range;

use globset::{GlobBuilder, GlobMatcher};

use crate::effect::MarksRequest;
use crate::event::Response;
use crate::rows::{self, STRIDE, Scope};
use crate::state::Among;
use crate::state::marks::tidy;
use crate::workers::errors::error_message;
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::path::EntryPath;

/// Responds to a request. Returns `None` if cancelled.
pub fn answer(archive: &dyn Archive, request: MarksRequest, awaited: &dyn Fn() -> bool) -> Option<Response> {
    let (ranges, change) = match request {
        MarksRequest::Numbers(numbers, change) => (whole_of(archive, &numbers, awaited), change),
        MarksRequest::Glob(among, pattern, change) => (glob(archive, among, &pattern, awaited), change),
    };
    if matches!(ranges, Err(Error::Cancelled)) {
        return None;
    }
    let marked = |ranges: Result<Vec<_>>| Response::Marked(ranges.map(tidy).map_err(|error| error_message(&error)), change);
    ranges.transpose().map(marked)
}

/// Returns the numbers of entries and everything below them.
fn whole_of(archive: &dyn Archive, numbers: &[u64], awaited: &dyn Fn() -> bool) -> Result<Option<Vec<Range<u64>>>> {
    // In the order of the index, so that neighbours are read together.
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let mut ranges = Vec::new();
    for (index, &number) in (0u64..).zip(&numbers) {
        if index.is_multiple_of(STRIDE) && !awaited() {
            return Ok(None);
        }
        join(&mut ranges, whole(archive, number, &archive.entry(number)?, awaited)?);
    }
    Ok(Some(ranges))
}

/// Adds a range, or extends the last one if they are adjacent: millions may become one.
fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut().filter(|last| (last.start..=last.end).contains(&range.start)) {
        Some(last) => last.end = last.end.max(range.end),
        None => ranges.push(range),
    }
}

/// Returns the size of the marked entries, which is unknown if part of the index is unreadable.
/// Returns `None` if cancelled.
pub fn totals(archive: &dyn Archive, ranges: &[Range<u64>], awaited: &dyn Fn() -> bool) -> Option<Response> {
    let mut bytes = Some(0u64);
    for (index, range) in (0u64..).zip(ranges) {
        if index.is_multiple_of(STRIDE) && !awaited() {
            return None;
        }
        let more = archive.totals(range.clone()).ok();
        bytes = bytes.zip(more).map(|(bytes, more)| bytes.saturating_add(more.content_bytes));
    }
    Some(Response::MarkTotals(bytes))
}

/// Returns the numbers of an entry and everything below it.
fn whole(archive: &dyn Archive, number: u64, entry: &Entry, awaited: &dyn Fn() -> bool) -> Result<Range<u64>> {
    match entry.kind {
        Kind::Directory => rows::subtree(archive, &entry.path, awaited),
        _ => Ok(number..number + 1),
    }
}

/// Returns the matches of a glob: among the children of a directory, or at any depth below it if it
/// has `/` or `**`. If only some rows count, it is matched with their names or paths.
fn glob(
    archive: &dyn Archive,
    Among { directory, rows }: Among,
    pattern: &str,
    awaited: &dyn Fn() -> bool,
) -> Result<Option<Vec<Range<u64>>>> {
    let usage = |error: globset::Error| Error::Usage { detail: format!("{pattern}: {}", error.kind()) };
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build().map_err(usage)?.compile_matcher();
    let front = directory.as_ref().map_or(0, |directory| directory.as_bytes().len() + 1);
    let matches = |path: &EntryPath, glob: &GlobMatcher| {
        let below = path.as_bytes().get(front..).unwrap_or_default();
        glob.is_match(std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(below)))
    };
    let mut ranges = Vec::new();
    let is_deep = pattern.contains('/') || pattern.contains("**");
    if let Some(rows) = rows {
        // In the order of the index, so that neighbours are read together.
        let mut numbers = rows.to_vec();
        numbers.sort_unstable();
        for (index, &number) in (0u64..).zip(&numbers) {
            if index.is_multiple_of(STRIDE) && !awaited() {
                return Ok(None);
            }
            // An unreadable entry cannot match.
            let Ok(entry) = archive.entry(number) else { continue };
            let name = || std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(entry.path.name()));
            if if is_deep { matches(&entry.path, &glob) } else { glob.is_match(name()) } {
                join(&mut ranges, whole(archive, number, &entry, awaited)?);
            }
        }
        return Ok(Some(ranges));
    }
    if is_deep {
        let below = rows::below(archive, directory.as_ref(), awaited)?;
        let mut number = Some(below.start);
        for (index, entry) in (0u64..).zip(archive.entries(below)) {
            if index.is_multiple_of(STRIDE) && !awaited() {
                return Ok(None);
            }
            let Ok(entry) = entry else {
                // After an unreadable entry, the numbers are unknown.
                number = None;
                continue;
            };
            if matches(&entry.path, &glob) {
                let at = match number {
                    Some(number) => Some(number),
                    None => archive.find(entry.path.as_bytes())?.map(|(number, _)| number),
                };
                if let Some(at) = at {
                    join(&mut ranges, whole(archive, at, &entry, awaited)?);
                }
            }
            number = number.map(|number| number + 1);
        }
        return Ok(Some(ranges));
    }
    let scope = Scope { directory, ..Scope::default() };
    let whole = rows::for_each_page(archive, &scope, awaited, |rows, _| {
        for row in rows.iter().filter(|row| matches(&row.entry.path, &glob)) {
            join(&mut ranges, whole(archive, row.number, &row.entry, awaited)?);
        }
        Ok(true)
    })?;
    Ok(whole.then_some(ranges))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::Change;
    use crate::tests::sample;

    #[test]
    fn globs_match_children_or_descendants() {
        let archive = sample::archive(&["a.txt", "b.md", "d/x.txt", "d/y.md", "e.txt"]);
        // a.txt, b.md, d, d/x.txt, d/y.md, e.txt
        let everywhere = || Among { directory: None, rows: None };
        let found = |directory: Option<EntryPath>, pattern: &str| {
            glob(&*archive, Among { directory, rows: None }, pattern, &|| true).unwrap()
        };
        assert_eq!(found(None, "*.txt").unwrap(), [0..1, 5..6]);
        assert_eq!(found(None, "**/*.txt").unwrap(), [0..1, 3..4, 5..6]);
        assert_eq!(found(None, "d").unwrap().first(), Some(&(2..5)));
        // Among rows their names count, at whatever depth they lie.
        let rows = |pattern: &str| {
            let among = Among { directory: None, rows: Some(Arc::new(vec![5, 3, 1, 4])) };
            glob(&*archive, among, pattern, &|| true).unwrap().unwrap()
        };
        assert_eq!(rows("*.txt"), [3..4, 5..6]);
        assert_eq!(rows("**/*.md"), [1..2, 4..5]);
        assert_eq!((rows("d/*").first(), rows("a*").first()), (Some(&(3..5)), None));
        assert_eq!(found(Some(EntryPath::try_from("d").unwrap()), "*.md").unwrap().first(), Some(&(4..5)));
        assert!(glob(&*archive, everywhere(), "[", &|| true).is_err());
        assert_eq!(glob(&*archive, everywhere(), "**/*.txt", &|| false).unwrap(), None);
        assert_eq!(glob(&*archive, everywhere(), "*.txt", &|| false).unwrap(), None);
        assert_eq!(answer(&*archive, MarksRequest::Numbers(vec![0, 1].into(), Change::Add), &|| false), None);
        let ranges = Arc::new(vec![0..1, 2..3]);
        assert_eq!(totals(&*archive, &ranges, &|| false), None);
    }
}
