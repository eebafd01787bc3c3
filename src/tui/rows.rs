//! The rows of a list, fetched in windows: only the part of the index that a window needs is read.
//!
//! A row has a *place*: in path order the number of its entry, in any other order its index. The
//! rows before and after a place are found without reading those in between, so a directory with a
//! million entries costs as much as one with fifty.

pub mod jump;
mod walk;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use nra_format::archive::{Archive, Totals};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::path::EntryPath;

use walk::Walk;

/// Maximum number of entries below a directory that are summed up one by one: about one second.
const MAX_SUMMED: u64 = 200_000;

/// Maximum number of entries searched one by one for a directory or name if the index is damaged
/// and its order is unreliable.
const MAX_SCANNED: u64 = 20_000;

/// Interval, in entries, for checking whether the request was cancelled.
pub const STRIDE: u64 = 1_024;

/// Number of rows fetched at a time when iterating over all rows.
const PAGE_ROWS: usize = 4_096;

/// Total length of names at which a page ends. A path and a link target may have 64 KiB each.
const MAX_NAMES: usize = 1 << 20;

/// The order of entries in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Order {
    /// Archive order. Needs no preparation.
    #[default]
    Path,
    /// These entry numbers in this order: sorted, filtered or found.
    Listed(Arc<Vec<u64>>),
}

/// The content of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Directory whose children are listed; `None` for the top.
    pub directory: Option<EntryPath>,
    /// Expanded directories, whose children follow them (tree view).
    pub open: Arc<BTreeSet<EntryPath>>,
    pub order: Order,
}

impl Scope {
    /// Returns the number of expanded directories above a row.
    fn depth(&self, path: &EntryPath) -> u16 {
        let base = self.directory.as_ref().map_or(0, |directory| directory.components().count());
        u16::try_from(path.components().count().saturating_sub(base + 1)).unwrap_or(u16::MAX)
    }
}

/// The requested rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anchor {
    Start,
    End,
    After(u64),
    Before(u64),
    /// Rows around a place, half of them before it.
    Around(u64),
    /// Rows around the row of a path, or of the directory that contains it.
    AroundPath(EntryPath),
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub place: u64,
    pub number: u64,
    /// Number of expanded directories above it.
    pub depth: u16,
    pub entry: Entry,
}

impl Row {
    /// Returns the total length of its names, in bytes.
    pub fn names(&self) -> usize {
        self.entry.path.as_bytes().len() + self.entry.target.len()
    }
}

/// A window of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub rows: Vec<Row>,
    /// No rows precede them.
    pub first: bool,
    /// No rows follow them.
    pub last: bool,
    /// Index of the requested row.
    pub at: usize,
    /// Number of unreadable entries.
    pub lost: u64,
    /// Numbers of all entries below the directory.
    pub below: Range<u64>,
    /// Remarks on the damage, if the index is damaged.
    pub damage: Option<Vec<String>>,
}

/// Fetches up to `count` rows, fewer if their names are long. Stops when `awaited` returns false.
/// Single unreadable entries are counted, not errors.
pub fn page(archive: &dyn Archive, scope: &Scope, anchor: &Anchor, count: usize, awaited: &dyn Fn() -> bool) -> Result<Page> {
    let below = below(archive, scope.directory.as_ref(), awaited)?;
    let page = match &scope.order {
        Order::Path => Walk::new(archive, scope, below, awaited).page(anchor, count),
        Order::Listed(numbers) => listed(archive, scope, numbers, below, anchor, count, awaited),
    }?;
    // Damage may have been detected only now.
    let damage = (page.lost > 0 || archive.is_index_damaged()).then(|| archive.remarks());
    Ok(Page { damage, ..page })
}

/// Passes all rows of a scope to `take` in order, one page at a time, with the numbers of all
/// entries below it. Stops when `take` or `awaited` returns false. Returns whether it ran to the end.
pub fn for_each_page(
    archive: &dyn Archive,
    scope: &Scope,
    awaited: &dyn Fn() -> bool,
    mut take: impl FnMut(Vec<Row>, &Range<u64>) -> Result<bool>,
) -> Result<bool> {
    let mut anchor = Anchor::Start;
    loop {
        let page = match page(archive, scope, &anchor, PAGE_ROWS, awaited) {
            Err(Error::Cancelled) => return Ok(false),
            page => page?,
        };
        let last = page.rows.last().map(|row| row.place);
        if !take(page.rows, &page.below)? {
            return Ok(false);
        }
        match last {
            Some(last) if !page.last => anchor = Anchor::After(last),
            _ => return Ok(true),
        }
    }
}

/// Returns the numbers of all entries below `directory`. Fails with `NotFound` if there is no such
/// directory.
pub fn below(archive: &dyn Archive, directory: Option<&EntryPath>, awaited: &dyn Fn() -> bool) -> Result<Range<u64>> {
    let Some(path) = directory else { return Ok(0..archive.entry_count()) };
    let range = subtree(archive, path, awaited)?;
    if range.is_empty() {
        return Err(Error::NotFound { path: path.as_bytes().to_vec() });
    }
    Ok(range.start + 1..range.end)
}

/// Returns the numbers of `directory` and all entries below it. If the index is too damaged,
/// readable entries are searched one by one as long as `awaited` returns true.
pub fn subtree(archive: &dyn Archive, directory: &EntryPath, awaited: &dyn Fn() -> bool) -> Result<Range<u64>> {
    let damage = match archive.subtree(Some(directory.as_bytes())) {
        Err(error @ Error::Corrupt { .. }) if archive.is_index_damaged() => error,
        found => return found,
    };
    let belongs = |entry: &Entry| entry.path == *directory || entry.path.is_below(directory);
    let found = scan(archive, 0..archive.entry_count(), awaited, belongs)?;
    let (first, last) = found.first().zip(found.last()).ok_or(damage)?;
    Ok(*first..last + 1)
}

/// Returns the numbers in a range whose entries match, checking a limited number of entries one by
/// one as long as `awaited` returns true.
fn scan(
    archive: &dyn Archive,
    range: Range<u64>,
    awaited: &dyn Fn() -> bool,
    matches: impl Fn(&Entry) -> bool,
) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    for number in range.start..range.end.min(range.start.saturating_add(MAX_SCANNED)) {
        if number.is_multiple_of(STRIDE) && !awaited() {
            return Err(Error::Cancelled);
        }
        if archive.entry(number).is_ok_and(|entry| matches(&entry)) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Sums up a directory and all entries below it. If the index is damaged, readable entries are
/// summed one by one. Returns `None` if `awaited` returns false or there are too many entries.
pub fn totals(archive: &dyn Archive, directory: &EntryPath, awaited: &dyn Fn() -> bool) -> Result<Option<Totals>> {
    let numbers = subtree(archive, directory, awaited)?;
    if !archive.is_index_damaged() {
        return archive.totals(numbers).map(Some);
    }
    let mut totals = Totals { entries: 1, content_bytes: 0 };
    for (index, entry) in (0u64..).zip(archive.entries(numbers)) {
        if index >= MAX_SUMMED || index.is_multiple_of(STRIDE) && !awaited() {
            return Ok(None);
        }
        // The numbers may include other entries, because the order is unreliable.
        if let Some(entry) = entry.ok().filter(|entry| entry.path.is_below(directory)) {
            totals.entries += 1;
            totals.content_bytes = totals.content_bytes.saturating_add(entry.size);
        }
    }
    Ok(Some(totals))
}

fn listed(
    archive: &dyn Archive,
    scope: &Scope,
    numbers: &[u64],
    below: Range<u64>,
    anchor: &Anchor,
    count: usize,
    awaited: &dyn Fn() -> bool,
) -> Result<Page> {
    let len = numbers.len();
    let clamp = |place: u64| usize::try_from(place).unwrap_or(len).min(len);
    // Rows before a place, and from it on.
    let around = |place: usize| (place, count.saturating_sub(count / 2).max(count.saturating_sub(place)));
    let (at, after) = match anchor {
        Anchor::Start => (0, count),
        Anchor::End => (len, 0),
        Anchor::After(place) => (clamp(place.saturating_add(1)), count),
        Anchor::Before(place) => (clamp(*place), 0),
        Anchor::Around(place) => around(clamp(*place)),
        Anchor::AroundPath(path) => {
            let number = archive.find(path.as_bytes())?.map(|(number, _)| number);
            around(number.and_then(|number| numbers.iter().position(|&other| other == number)).unwrap_or(0))
        }
    };
    let mut page = Page { below, ..Page::default() };
    // No rows are needed before the start or before an `After` place.
    let front = if matches!(anchor, Anchor::Start | Anchor::After(_)) { 0 } else { count - after };
    let mut read = |places: &mut dyn Iterator<Item = usize>, rows: &mut Vec<Row>| -> Result<Option<usize>> {
        let (mut names, mut reached) = (0, None);
        while names < MAX_NAMES
            && let Some(index) = places.next()
        {
            if !awaited() {
                return Err(Error::Cancelled);
            }
            reached = Some(index);
            let number = numbers[index];
            match archive.entry(number) {
                Ok(entry) => {
                    let depth = if scope.open.is_empty() { 0 } else { scope.depth(&entry.path) };
                    let row = Row { place: index as u64, number, depth, entry };
                    names += row.names();
                    rows.push(row);
                }
                Err(Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. }) => page.lost += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(reached)
    };
    let (mut rows, mut later) = (Vec::new(), Vec::new());
    let first = read(&mut (at.saturating_sub(front)..at).rev(), &mut rows)?.unwrap_or(at);
    let last = read(&mut (at..at.saturating_add(after).min(len)), &mut later)?.map_or(at, |last| last + 1);
    rows.reverse();
    page.at = if matches!(anchor, Anchor::Around(_) | Anchor::AroundPath(_)) { rows.len() } else { 0 };
    rows.extend(later);
    page.at = page.at.min(rows.len().saturating_sub(1));
    Ok(Page { rows, first: first == 0, last: last == len, ..page })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::tests::sample;

    fn page(archive: &dyn Archive, scope: &Scope, anchor: &Anchor, count: usize) -> Result<Page> {
        super::page(archive, scope, anchor, count, &|| true)
    }

    fn paths(page: &Page) -> Vec<String> {
        page.rows.iter().map(|row| row.entry.path.to_string()).collect()
    }

    #[test]
    fn rows_are_fetched_in_windows() {
        let archive = sample::archive(&["a/1", "a/2", "a/deep/x", "b", "c/1", "d"]);
        let top = Scope::default();
        let all = page(&*archive, &top, &Anchor::Start, 10).unwrap();
        assert_eq!(paths(&all), ["a", "b", "c", "d"]);
        assert!(all.first && all.last);
        let two = page(&*archive, &top, &Anchor::Start, 2).unwrap();
        assert!(two.first && !two.last);
        let more = page(&*archive, &top, &Anchor::After(two.rows[1].place), 2).unwrap();
        assert_eq!(paths(&more), ["c", "d"]);
        assert!(more.last);
        let end = page(&*archive, &top, &Anchor::End, 3).unwrap();
        assert_eq!(paths(&end), ["b", "c", "d"]);
        assert!(!end.first && end.last);
        let before = page(&*archive, &top, &Anchor::Before(end.rows[0].place), 3).unwrap();
        assert_eq!(paths(&before), ["a"]);
        assert!(before.first);
        let around = page(&*archive, &top, &Anchor::AroundPath(EntryPath::try_from("c/1").unwrap()), 2).unwrap();
        assert_eq!(paths(&around), ["b", "c"]);
        assert_eq!(around.at, 1);
        let inside = Scope { directory: Some(EntryPath::try_from("a").unwrap()), ..top };
        assert_eq!(paths(&page(&*archive, &inside, &Anchor::Start, 9).unwrap()), ["a/1", "a/2", "a/deep"]);
    }

    #[test]
    fn expanded_directories_show_their_entries() {
        let archive = sample::archive(&["a/1", "a/deep/x", "b"]);
        let open = BTreeSet::from([EntryPath::try_from("a").unwrap()]);
        let scope = Scope { open: Arc::new(open), ..Scope::default() };
        let shown = page(&*archive, &scope, &Anchor::End, 9).unwrap();
        assert_eq!(paths(&shown), ["a", "a/1", "a/deep", "b"]);
        assert_eq!(shown.rows.iter().map(|row| row.depth).collect::<Vec<_>>(), [0, 1, 1, 0]);
    }

    #[test]
    fn listed_numbers_keep_their_order() {
        let archive = sample::archive(&["a", "b", "c"]);
        let scope = Scope { order: Order::Listed(vec![2, 0].into()), ..Scope::default() };
        let both = page(&*archive, &scope, &Anchor::Start, 9).unwrap();
        assert_eq!(paths(&both), ["c", "a"]);
        let found = page(&*archive, &scope, &Anchor::AroundPath(EntryPath::try_from("a").unwrap()), 9).unwrap();
        assert_eq!(found.at, 1);
        assert_eq!(paths(&page(&*archive, &scope, &Anchor::After(0), 9).unwrap()), ["a"]);
    }

    #[test]
    fn cancelled_rows_are_not_read() {
        let archive = sample::archive(&["a/1", "b", "c"]);
        let listed = Order::Listed(Arc::new(vec![2, 0]));
        for order in [Order::Path, listed] {
            let scope = Scope { order, ..Scope::default() };
            let page = super::page(&*archive, &scope, &Anchor::Start, 9, &|| false);
            assert!(matches!(page, Err(Error::Cancelled)), "{page:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn windows_join_to_whole_list(
            names in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,3}", 1..30),
            open in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,2}", 0..6),
            step in 1usize..5,
        ) {
            // A file cannot contain entries.
            let names: Vec<&str> = names.iter().map(String::as_str)
                .filter(|name| !names.iter().any(|other| other.starts_with(&format!("{name}/"))))
                .collect();
            let archive = sample::archive(&names);
            let open: BTreeSet<EntryPath> = open.iter().map(|path| EntryPath::try_from(path.as_str()).unwrap()).collect();
            let all: Vec<EntryPath> = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path).collect();
            let visible = |path: &EntryPath| path.above().all(|above| open.contains(&above));
            let expected: Vec<String> = all.iter().filter(|path| visible(path)).map(ToString::to_string).collect();
            let scope = Scope { open: Arc::new(open.clone()), ..Scope::default() };

            let mut down = page(&*archive, &scope, &Anchor::Start, step).unwrap();
            let mut forward = paths(&down);
            while !down.last {
                down = page(&*archive, &scope, &Anchor::After(down.rows.last().unwrap().place), step).unwrap();
                forward.extend(paths(&down));
            }
            prop_assert_eq!(&forward, &expected);

            let mut up = page(&*archive, &scope, &Anchor::End, step).unwrap();
            let mut backward = paths(&up);
            while !up.first {
                up = page(&*archive, &scope, &Anchor::Before(up.rows[0].place), step).unwrap();
                backward.splice(0..0, paths(&up));
            }
            prop_assert_eq!(&backward, &expected);
        }
    }
}
