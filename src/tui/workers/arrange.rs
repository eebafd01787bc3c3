//! Sorts and filters the children of a directory, and runs queries.

use std::cell::Cell;
use std::sync::Arc;

use crate::layout::Column;
use crate::rows::{self, Scope};
use crate::state::{ArrangeRequest, Arrangement, Found};
use crate::workers::duplicates;
use crate::workers::errors::error_message;
use crate::workers::room_for;
use nra_convert::query::{ArchiveFacts, NameFilter, Query};
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::{Error, Result};

/// Sorts, filters or queries. `share` receives the progress, 0 to 1, and returns false to cancel.
/// Returns `None` if cancelled, or for the natural order.
pub fn arrange(
    archive: &dyn Archive,
    request: &ArrangeRequest,
    share: &dyn Fn(f64) -> bool,
) -> Option<std::result::Result<Found, String>> {
    if request.arrangement.is_natural() {
        return None;
    }
    found(archive, request, share).map_err(|error| error_message(&error)).transpose()
}

fn found(archive: &dyn Archive, request: &ArrangeRequest, share: &dyn Fn(f64) -> bool) -> Result<Option<Found>> {
    let Arrangement { sort, reverse, filter, query } = &request.arrangement;
    let filter = NameFilter::new(filter);
    let listed = |keyed| Found { numbers: sorted(keyed, *reverse).into(), ..Found::default() };
    if query.is_empty() {
        let found = |numbers: Vec<u64>| Found { numbers: numbers.into(), ..Found::default() };
        return Ok(children(archive, request, &filter, share)?.map(found));
    }
    let query = Query::parse_terms(query).map_err(|detail| Error::Usage { detail })?;
    // Searching content takes long and can be cancelled in between.
    let last = Cell::new(0.0);
    let awaited = || share(last.get());
    let share = |done: f64| {
        last.set(done);
        share(done)
    };
    let below = rows::below(archive, request.directory.as_ref(), &awaited)?;
    let facts = ArchiveFacts { archive, keep_going: &awaited };
    let keep = |entry: &Entry| {
        filter.matches(entry.path.name()) && {
            let Ok(matches) = query.matches(entry, &facts);
            matches
        }
    };
    let key = |entry: &Entry| key(archive, entry, *sort, &awaited).unwrap_or(i64::MAX);
    if query.duplicates_only {
        let Some(found) = duplicates::find(archive, below, &keep, &share)? else { return Ok(None) };
        if (*sort, *reverse) == (Column::Name, false) {
            return Ok(Some(found));
        }
        let mut numbers = Arc::unwrap_or_clone(found.numbers);
        // In the order of the index, so that neighbours are read together.
        numbers.sort_unstable();
        let mut keyed = room_for(numbers.len() as u64);
        for number in numbers {
            if !awaited() {
                return Ok(None);
            }
            keyed.push((archive.entry(number).map_or(i64::MAX, |entry| key(&entry)), number));
        }
        return Ok(Some(Found { summary: found.summary, ..listed(keyed) }));
    }
    let mut keyed: Vec<(i64, u64)> = room_for(below.end - below.start);
    let mut lost = 0;
    for number in below.clone() {
        if !share((number - below.start) as f64 / (below.end - below.start) as f64) {
            return Ok(None);
        }
        let Ok(entry) = archive.entry(number) else {
            lost += 1;
            continue;
        };
        if keep(&entry) {
            keyed.push((key(&entry), number));
        }
    }
    // Unreadable entries cannot match.
    let summary = match lost {
        0 => String::new(),
        _ => format!("{}; {} lost with the index", request.arrangement.query, nra_text::counted(lost, "entry is", "entries are")),
    };
    Ok(Some(Found { summary, ..listed(keyed) }))
}

/// Returns the sorted children of the directory, and in a tree those of expanded directories below
/// it, that match the filter. Expanded directories are kept with their children.
fn children(
    archive: &dyn Archive,
    request: &ArrangeRequest,
    filter: &NameFilter,
    share: &dyn Fn(f64) -> bool,
) -> Result<Option<Vec<u64>>> {
    let scope = Scope { directory: request.directory.clone(), open: Arc::clone(&request.open), ..Scope::default() };
    let Arrangement { sort, reverse, .. } = request.arrangement;
    let below = rows::below(archive, request.directory.as_ref(), &|| share(0.0))?;
    let mut keyed: Vec<(i64, u64)> = room_for(below.end - below.start);
    let mut depths: Vec<u16> = Vec::new();
    let last = Cell::new(0.0);
    let awaited = || share(last.get());
    let whole = rows::for_each_page(archive, &scope, &awaited, |rows, below| {
        let is_kept = |entry: &Entry| filter.matches(entry.path.name()) || scope.open.contains(&entry.path);
        for row in rows {
            last.set(row.number.saturating_sub(below.start) as f64 / (below.end - below.start).max(1) as f64);
            if !awaited() {
                return Ok(false);
            }
            if is_kept(&row.entry) {
                // Entries without a key are last.
                keyed.push((key(archive, &row.entry, sort, &awaited).unwrap_or(i64::MAX), row.number));
                if !scope.open.is_empty() {
                    depths.push(row.depth);
                }
            }
        }
        Ok(true)
    })?;
    let numbers = || if depths.is_empty() { sorted(keyed, reverse) } else { nested(&keyed, &depths, reverse) };
    Ok(whole.then(numbers))
}

fn sorted(mut keyed: Vec<(i64, u64)>, reverse: bool) -> Vec<u64> {
    keyed.sort_unstable();
    if reverse {
        keyed.reverse();
    }
    let mut numbers = room_for(keyed.len() as u64);
    numbers.extend(keyed.iter().map(|(_, number)| number));
    numbers
}

/// Sorts the rows of a tree, given with their depths: rows of one directory among themselves, each
/// followed by the rows below it.
fn nested(keyed: &[(i64, u64)], depths: &[u16], reverse: bool) -> Vec<u64> {
    // Row above each row, counted from 1 (0 = the top), its key, and its own index.
    let mut rows: Vec<(usize, (i64, u64), usize)> = Vec::with_capacity(keyed.len());
    let mut above: Vec<usize> = Vec::new();
    for (index, (key, depth)) in keyed.iter().zip(depths).enumerate() {
        above.truncate(usize::from(*depth));
        rows.push((above.last().copied().unwrap_or(0), *key, index + 1));
        above.push(index + 1);
    }
    rows.sort_unstable_by(|(above, key, _), (other_above, other, _)| {
        above.cmp(other_above).then(if reverse { other.cmp(key) } else { key.cmp(other) })
    });
    let below = |above: usize| {
        let start = rows.partition_point(|row| row.0 < above);
        start..start + rows[start..].partition_point(|row| row.0 == above)
    };
    let mut numbers = Vec::with_capacity(rows.len());
    let mut open = vec![below(0)];
    while let Some(range) = open.last_mut() {
        match range.next() {
            Some(at) => {
                let (_, (_, number), index) = rows[at];
                numbers.push(number);
                open.push(below(index));
            }
            None => drop(open.pop()),
        }
    }
    numbers
}

/// Returns the sort key, smallest first. Eight bytes, because there may be millions.
fn key(archive: &dyn Archive, entry: &Entry, sort: Column, awaited: &dyn Fn() -> bool) -> Result<i64> {
    let down = |bytes: u64| -i64::try_from(bytes).unwrap_or(i64::MAX);
    let size = |entry: &Entry| match entry.kind {
        Kind::Directory => Ok(rows::totals(archive, &entry.path, awaited)?.map_or(0, |totals| totals.content_bytes)),
        _ => Ok(entry.size),
    };
    let stored = |entry: &Entry| match entry.kind {
        Kind::File => archive.stored_bytes(entry).map(Option::unwrap_or_default),
        _ => Ok(0),
    };
    Ok(match sort {
        Column::Name | Column::Bar => 0,
        Column::Size => down(size(entry)?),
        Column::Stored => down(stored(entry)?),
        // In billionths.
        Column::Ratio => -(stored(entry)? as f64 / entry.size.max(1) as f64 * 1e9) as i64,
        Column::Time => {
            // Nanoseconds since 1970, saturated in 2262.
            let ticks = |time: Timestamp| time.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nanoseconds));
            entry.modified.map_or(i64::MAX, |time| ticks(time).saturating_neg())
        }
        Column::Mode => -i64::from(entry.metadata.mode),
        Column::Kind => match entry.kind {
            Kind::Directory => 0,
            Kind::File => 1,
            _ => 2,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use nra_format::path::EntryPath;

    fn names(sort: Column, reverse: bool, filter: &str) -> Vec<String> {
        let files: [(&str, &[u8]); 4] = [("B.txt", b"12345"), ("a.txt", b"123"), ("dir/x", b"1234"), ("c.md", b"")];
        in_tree(&files, &[], sort, reverse, filter)
    }

    fn in_tree(files: &[(&str, &[u8])], open: &[&str], sort: Column, reverse: bool, filter: &str) -> Vec<String> {
        let archive = sample::with_contents(files);
        let arrangement = Arrangement { sort, reverse, filter: filter.to_owned(), query: String::new() };
        let open = Arc::new(open.iter().map(|path| EntryPath::try_from(*path).unwrap()).collect());
        let request = ArrangeRequest { directory: None, open, arrangement };
        let found = arrange(&*archive, &request, &|_| true).unwrap().unwrap();
        found.numbers.iter().map(|&number| archive.entry(number).unwrap().path.to_string()).collect()
    }

    #[test]
    fn entries_are_sorted_by_each_column() {
        assert_eq!(names(Column::Name, true, ""), ["dir", "c.md", "a.txt", "B.txt"]);
        assert_eq!(names(Column::Size, false, ""), ["B.txt", "dir", "a.txt", "c.md"]);
        assert_eq!(names(Column::Size, true, ""), ["c.md", "a.txt", "dir", "B.txt"]);
        assert_eq!(names(Column::Kind, false, ""), ["dir", "B.txt", "a.txt", "c.md"]);
        assert_eq!(names(Column::Time, false, "*.TXT"), ["B.txt", "a.txt"]);
    }

    #[test]
    fn tree_is_sorted_per_directory() {
        let files: [(&str, &[u8]); 6] =
            [("a", b"1"), ("d/e/x", b"123"), ("d/e/y", b"1234"), ("d/z", b"12345678"), ("f/g", b""), ("h", &[0; 99])];
        let open = ["d", "d/e"];
        let sorted = |reverse, filter| in_tree(&files, &open, Column::Size, reverse, filter);
        assert_eq!(sorted(false, ""), ["h", "d", "d/z", "d/e", "d/e/y", "d/e/x", "a", "f"]);
        assert_eq!(sorted(true, ""), ["f", "a", "d", "d/e", "d/e/x", "d/e/y", "d/z", "h"]);
        // Expanded directories are kept with their children.
        assert_eq!(sorted(false, "y"), ["d", "d/e", "d/e/y"]);
    }

    #[test]
    fn cancelled_sort_stops_at_next_row() {
        let names: Vec<String> = (0..3_000).map(|number| format!("{number:04}")).collect();
        let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let arrangement = Arrangement { sort: Column::Size, ..Arrangement::default() };
        let request = ArrangeRequest { directory: None, open: Arc::default(), arrangement };
        let asked = Cell::new(0);
        let share = |_| {
            asked.set(asked.get() + 1);
            asked.get() < 9
        };
        assert_eq!((arrange(&*archive, &request, &share), asked.get()), (None, 9));
        let request =
            ArrangeRequest { arrangement: Arrangement { query: "is:duplicate".to_owned(), ..request.arrangement }, ..request };
        assert_eq!((arrange(&*archive, &request, &share), asked.get()), (None, 10));
    }

    #[test]
    fn filter_keeps_matching_names() {
        assert_eq!(names(Column::Name, false, "b"), ["B.txt"]);
        assert_eq!(names(Column::Name, false, "*.md"), ["c.md"]);
        assert_eq!(names(Column::Name, false, "[x"), Vec::<String>::new());
    }
}
