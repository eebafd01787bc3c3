//! Finds out which numbers marks mean.

use std::ops::Range;

use globset::{GlobBuilder, GlobMatcher};

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::path::EntryPath;
use crate::tui::effect::MarksRequest;
use crate::tui::event::Event;
use crate::tui::rows::{self, Scope, Want};
use crate::tui::work::told;

/// Rows that are fetched at once.
const PAGE: usize = 4_096;

/// Answers a request.
pub fn answer(archive: &dyn Archive, request: MarksRequest) -> Event {
    match request {
        MarksRequest::Numbers(numbers, change) => {
            let ranges: Result<_> = numbers.into_iter().map(|number| whole(archive, number, &archive.entry(number)?)).collect();
            Event::Marked(ranges.map_err(|error| told(&error)), change)
        }
        MarksRequest::Glob(directory, pattern, change) => {
            Event::Marked(glob(archive, directory, &pattern).map_err(|error| told(&error)), change)
        }
        MarksRequest::Totals(generation, ranges) => {
            // A sum that does not read is a sum that is not shown.
            let sums = ranges.into_iter().map(|range| Ok(archive.totals(range)?.content_bytes)).sum::<Result<u64>>();
            Event::MarkTotals(generation, sums.ok())
        }
    }
}

/// Returns the numbers of an entry and everything below it.
fn whole(archive: &dyn Archive, number: u64, entry: &Entry) -> Result<Range<u64>> {
    match entry.kind {
        Kind::Directory => rows::subtree(archive, &entry.path),
        _ => Ok(number..number + 1),
    }
}

/// Returns what a glob means below a directory: among its children, or at any depth when it has `/` or `**`.
fn glob(archive: &dyn Archive, directory: Option<EntryPath>, pattern: &str) -> Result<Vec<Range<u64>>> {
    let usage = |error: globset::Error| Error::Usage { detail: format!("{pattern}: {}", error.kind()) };
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build().map_err(usage)?.compile_matcher();
    let front = directory.as_ref().map_or(0, |directory| directory.as_bytes().len() + 1);
    let matches = |path: &EntryPath, glob: &GlobMatcher| {
        let below = path.as_bytes().get(front..).unwrap_or_default();
        glob.is_match(std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(below)))
    };
    let mut ranges = Vec::new();
    if pattern.contains('/') || pattern.contains("**") {
        let below = rows::below(archive, directory.as_ref())?;
        let mut number = Some(below.start);
        for entry in archive.entries(below) {
            let Ok(entry) = entry else {
                // Numbers can't be counted over what does not read.
                number = None;
                continue;
            };
            if matches(&entry.path, &glob) {
                let at = match number {
                    Some(number) => Some(number),
                    None => archive.find(entry.path.as_bytes())?.map(|(number, _)| number),
                };
                ranges.extend(at.map(|at| whole(archive, at, &entry)).transpose()?);
            }
            number = number.map(|number| number + 1);
        }
        return Ok(ranges);
    }
    let scope = Scope { directory, ..Scope::default() };
    let mut want = Want::Start;
    loop {
        let page = rows::page(archive, &scope, &want, PAGE)?;
        for row in page.rows.iter().filter(|row| matches(&row.entry.path, &glob)) {
            ranges.push(whole(archive, row.number, &row.entry)?);
        }
        match page.rows.last() {
            Some(last) if !page.last => want = Want::After(last.place),
            _ => return Ok(ranges),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::sample;

    #[test]
    fn globs_mean_children_or_anything_below() {
        let archive = sample::archive(&["a.txt", "b.md", "d/x.txt", "d/y.md", "e.txt"]);
        // a.txt, b.md, d, d/x.txt, d/y.md, e.txt
        assert_eq!(glob(&*archive, None, "*.txt").unwrap(), [0..1, 5..6]);
        assert_eq!(glob(&*archive, None, "**/*.txt").unwrap(), [0..1, 3..4, 5..6]);
        assert_eq!(glob(&*archive, None, "d").unwrap().first(), Some(&(2..5)));
        assert_eq!(glob(&*archive, Some(EntryPath::try_from("d").unwrap()), "*.md").unwrap().first(), Some(&(4..5)));
        assert!(glob(&*archive, None, "[").is_err());
    }
}
