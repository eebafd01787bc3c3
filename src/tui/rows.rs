//! The rows of a list, fetched by window: never more of the index than the window needs.
//!
//! A row has a *place*: in path order the number of its entry, in any other order its index there. From a place the rows behind it and in
//! front of it are found without those between, so a directory of a million entries costs as much as one of fifty.

pub mod typed;
mod walk;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use nra_format::archive::{Archive, Totals};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::path::EntryPath;

use walk::Walk;

/// Entries of a directory that are summed up one by one: a second's work.
const MAX_SUMMED: u64 = 200_000;

/// Entries among which those of a directory, or of a name, are sought one by one where the index is damaged, and their order is not to be relied on.
const MAX_SOUGHT: u64 = 20_000;

/// After so many entries that are looked at one by one it is time to ask whether somebody still waits.
pub const STRIDE: u64 = 1_024;

/// Rows that are fetched at once by whoever goes through all of them.
const PAGE: usize = 4_096;

/// Bytes of names at which a page ends: a path may have 64 KiB, and the target of a link as many.
const MAX_NAMES: usize = 1 << 20;

/// In which order entries are listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Order {
    /// As the archive has them. Nothing has to be known in advance.
    #[default]
    Path,
    /// These numbers in this order: sorted, filtered, found.
    Listed(Arc<Vec<u64>>),
}

/// What is listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Directory whose children are listed, `None` = the top.
    pub directory: Option<EntryPath>,
    /// Directories whose children follow them (tree).
    pub open: Arc<BTreeSet<EntryPath>>,
    /// Order.
    pub order: Order,
}

impl Scope {
    /// Returns how many open directories a row is below.
    fn depth(&self, path: &EntryPath) -> u16 {
        let base = self.directory.as_ref().map_or(0, |directory| directory.components().count());
        u16::try_from(path.components().count().saturating_sub(base + 1)).unwrap_or(u16::MAX)
    }
}

/// Which rows are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The first ones.
    Start,
    /// The last ones.
    End,
    /// Those behind a place.
    After(u64),
    /// Those in front of a place.
    Before(u64),
    /// Those around a place; half of them in front.
    Around(u64),
    /// Those around the row of a path, or of what contains it.
    AroundPath(EntryPath),
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it stands.
    pub place: u64,
    /// Number of the entry.
    pub number: u64,
    /// How many open directories it is below.
    pub depth: u16,
    /// What it shows.
    pub entry: Entry,
}

impl Row {
    /// Returns how many bytes its names have.
    pub fn names(&self) -> usize {
        self.entry.path.as_bytes().len() + self.entry.target.len()
    }
}

/// A window of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The rows in order.
    pub rows: Vec<Row>,
    /// Nothing comes before them.
    pub first: bool,
    /// Nothing comes after them.
    pub last: bool,
    /// Index of the row that was asked for.
    pub at: usize,
    /// Entries that did not read.
    pub lost: u64,
    /// Numbers of everything below the directory.
    pub below: Range<u64>,
    /// The index is damaged: what is known of that.
    pub damage: Option<Vec<String>>,
}

/// Fetches up to `count` rows, less where their names are long, as long as `go_on` says so.
///
/// # Errors
///
/// As reading the index does; single entries that do not read are counted instead. `Cancelled` when `go_on` says no.
pub fn page(archive: &dyn Archive, scope: &Scope, want: &Want, count: usize, go_on: &dyn Fn() -> bool) -> Result<Page> {
    let below = below(archive, scope.directory.as_ref(), go_on)?;
    let page = match &scope.order {
        Order::Path => Walk::new(archive, scope, below, go_on).page(want, count),
        Order::Listed(numbers) => listed(archive, scope, numbers, below, want, count, go_on),
    }?;
    // It may have come to light only now.
    let damage = (page.lost > 0 || archive.is_index_damaged()).then(|| archive.remarks());
    Ok(Page { damage, ..page })
}

/// Hands over all rows of a scope in their order, a page at a time, with the numbers of everything below it, until `take` says that nobody waits any
/// more; returns whether somebody does.
///
/// # Errors
///
/// As [`page`] and `take` do.
pub fn each(
    archive: &dyn Archive,
    scope: &Scope,
    go_on: &dyn Fn() -> bool,
    mut take: impl FnMut(Vec<Row>, &Range<u64>) -> Result<bool>,
) -> Result<bool> {
    let mut want = Want::Start;
    loop {
        let page = match page(archive, scope, &want, PAGE, go_on) {
            Err(Error::Cancelled) => return Ok(false),
            page => page?,
        };
        let last = page.rows.last().map(|row| row.place);
        if !take(page.rows, &page.below)? {
            return Ok(false);
        }
        match last {
            Some(last) if !page.last => want = Want::After(last),
            _ => return Ok(true),
        }
    }
}

/// Returns the numbers of everything below `directory`.
///
/// # Errors
///
/// `NotFound` when there is no such directory; otherwise as [`subtree`].
pub fn below(archive: &dyn Archive, directory: Option<&EntryPath>, go_on: &dyn Fn() -> bool) -> Result<Range<u64>> {
    let Some(path) = directory else { return Ok(0..archive.entry_count()) };
    let range = subtree(archive, path, go_on)?;
    if range.is_empty() {
        return Err(Error::NotFound { path: path.as_bytes().to_vec() });
    }
    Ok(range.start + 1..range.end)
}

/// Returns the numbers of `directory` and everything below it; where the index is too damaged to tell, of what of it reads, which is looked for as long
/// as `go_on` says so.
///
/// # Errors
///
/// As reading the index does. `Cancelled` when `go_on` says no.
pub fn subtree(archive: &dyn Archive, directory: &EntryPath, go_on: &dyn Fn() -> bool) -> Result<Range<u64>> {
    let damage = match archive.subtree(Some(directory.as_bytes())) {
        Err(error @ Error::Corrupt { .. }) if archive.is_index_damaged() => error,
        told => return told,
    };
    let belongs = |entry: &Entry| entry.path == *directory || entry.path.is_below(directory);
    let found = sought(archive, 0..archive.entry_count(), go_on, belongs)?;
    let (first, last) = found.first().zip(found.last()).ok_or(damage)?;
    Ok(*first..last + 1)
}

/// Returns the numbers of the first entries of a range that are so: looked at one by one, as long as `go_on` says so.
fn sought(
    archive: &dyn Archive,
    range: Range<u64>,
    go_on: &dyn Fn() -> bool,
    is_so: impl Fn(&Entry) -> bool,
) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    for number in range.start..range.end.min(range.start.saturating_add(MAX_SOUGHT)) {
        if number.is_multiple_of(STRIDE) && !go_on() {
            return Err(Error::Cancelled);
        }
        if archive.entry(number).is_ok_and(|entry| is_so(&entry)) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Sums up what lies below a directory, itself counted: where the index is damaged of what reads, entry by entry, as long as `go_on` says so. `None`
/// when it does not, or when there is too much of it.
///
/// # Errors
///
/// As reading the index does.
pub fn totals(archive: &dyn Archive, directory: &EntryPath, go_on: &dyn Fn() -> bool) -> Result<Option<Totals>> {
    let numbers = subtree(archive, directory, go_on)?;
    if !archive.is_index_damaged() {
        return archive.totals(numbers).map(Some);
    }
    let mut totals = Totals { entries: 1, content_bytes: 0 };
    for (index, entry) in (0u64..).zip(archive.entries(numbers)) {
        if index >= MAX_SUMMED || index.is_multiple_of(STRIDE) && !go_on() {
            return Ok(None);
        }
        // There may be others among them: numbers are not to be relied on.
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
    want: &Want,
    count: usize,
    go_on: &dyn Fn() -> bool,
) -> Result<Page> {
    let len = numbers.len();
    let clamp = |place: u64| usize::try_from(place).unwrap_or(len).min(len);
    // Rows in front of a place, and from it on.
    let around = |place: usize| (place, count.saturating_sub(count / 2).max(count.saturating_sub(place)));
    let (at, behind) = match want {
        Want::Start => (0, count),
        Want::End => (len, 0),
        Want::After(place) => (clamp(place.saturating_add(1)), count),
        Want::Before(place) => (clamp(*place), 0),
        Want::Around(place) => around(clamp(*place)),
        Want::AroundPath(path) => {
            let number = archive.find(path.as_bytes())?.map(|(number, _)| number);
            around(number.and_then(|number| numbers.iter().position(|&other| other == number)).unwrap_or(0))
        }
    };
    let mut page = Page { below, ..Page::default() };
    // Nothing is in front of what comes first, or behind what is asked for.
    let front = if matches!(want, Want::Start | Want::After(_)) { 0 } else { count - behind };
    let mut read = |places: &mut dyn Iterator<Item = usize>, rows: &mut Vec<Row>| -> Result<Option<usize>> {
        let (mut names, mut reached) = (0, None);
        while names < MAX_NAMES
            && let Some(index) = places.next()
        {
            if !go_on() {
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
    let last = read(&mut (at..at.saturating_add(behind).min(len)), &mut later)?.map_or(at, |last| last + 1);
    rows.reverse();
    page.at = if matches!(want, Want::Around(_) | Want::AroundPath(_)) { rows.len() } else { 0 };
    rows.extend(later);
    page.at = page.at.min(rows.len().saturating_sub(1));
    Ok(Page { rows, first: first == 0, last: last == len, ..page })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::sample;

    fn page(archive: &dyn Archive, scope: &Scope, want: &Want, count: usize) -> Result<Page> {
        super::page(archive, scope, want, count, &|| true)
    }

    fn paths(page: &Page) -> Vec<String> {
        page.rows.iter().map(|row| row.entry.path.to_string()).collect()
    }

    #[test]
    fn windows_are_cut_from_a_directory() {
        let archive = sample::archive(&["a/1", "a/2", "a/deep/x", "b", "c/1", "d"]);
        let top = Scope::default();
        let all = page(&*archive, &top, &Want::Start, 10).unwrap();
        assert_eq!(paths(&all), ["a", "b", "c", "d"]);
        assert!(all.first && all.last);
        let two = page(&*archive, &top, &Want::Start, 2).unwrap();
        assert!(two.first && !two.last);
        let more = page(&*archive, &top, &Want::After(two.rows[1].place), 2).unwrap();
        assert_eq!(paths(&more), ["c", "d"]);
        assert!(more.last);
        let end = page(&*archive, &top, &Want::End, 3).unwrap();
        assert_eq!(paths(&end), ["b", "c", "d"]);
        assert!(!end.first && end.last);
        let before = page(&*archive, &top, &Want::Before(end.rows[0].place), 3).unwrap();
        assert_eq!(paths(&before), ["a"]);
        assert!(before.first);
        let around = page(&*archive, &top, &Want::AroundPath(EntryPath::try_from("c/1").unwrap()), 2).unwrap();
        assert_eq!(paths(&around), ["b", "c"]);
        assert_eq!(around.at, 1);
        let inside = Scope { directory: Some(EntryPath::try_from("a").unwrap()), ..top };
        assert_eq!(paths(&page(&*archive, &inside, &Want::Start, 9).unwrap()), ["a/1", "a/2", "a/deep"]);
    }

    #[test]
    fn open_directories_show_what_is_below() {
        let archive = sample::archive(&["a/1", "a/deep/x", "b"]);
        let open = BTreeSet::from([EntryPath::try_from("a").unwrap()]);
        let scope = Scope { open: Arc::new(open), ..Scope::default() };
        let shown = page(&*archive, &scope, &Want::End, 9).unwrap();
        assert_eq!(paths(&shown), ["a", "a/1", "a/deep", "b"]);
        assert_eq!(shown.rows.iter().map(|row| row.depth).collect::<Vec<_>>(), [0, 1, 1, 0]);
    }

    #[test]
    fn listed_numbers_come_in_their_order() {
        let archive = sample::archive(&["a", "b", "c"]);
        let scope = Scope { order: Order::Listed(vec![2, 0].into()), ..Scope::default() };
        let both = page(&*archive, &scope, &Want::Start, 9).unwrap();
        assert_eq!(paths(&both), ["c", "a"]);
        let found = page(&*archive, &scope, &Want::AroundPath(EntryPath::try_from("a").unwrap()), 9).unwrap();
        assert_eq!(found.at, 1);
        assert_eq!(paths(&page(&*archive, &scope, &Want::After(0), 9).unwrap()), ["a"]);
    }

    #[test]
    fn rows_that_nobody_waits_for_are_not_read() {
        let archive = sample::archive(&["a/1", "b", "c"]);
        let listed = Order::Listed(Arc::new(vec![2, 0]));
        for order in [Order::Path, listed] {
            let scope = Scope { order, ..Scope::default() };
            let page = super::page(&*archive, &scope, &Want::Start, 9, &|| false);
            assert!(matches!(page, Err(Error::Cancelled)), "{page:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn windows_put_together_are_the_list(
            names in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,3}", 1..30),
            open in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,2}", 0..6),
            step in 1usize..5,
        ) {
            // A file can't have anything below it.
            let names: Vec<&str> = names.iter().map(String::as_str)
                .filter(|name| !names.iter().any(|other| other.starts_with(&format!("{name}/"))))
                .collect();
            let archive = sample::archive(&names);
            let open: BTreeSet<EntryPath> = open.iter().map(|path| EntryPath::try_from(path.as_str()).unwrap()).collect();
            let all: Vec<EntryPath> = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path).collect();
            let visible = |path: &EntryPath| path.above().all(|above| open.contains(&above));
            let expected: Vec<String> = all.iter().filter(|path| visible(path)).map(ToString::to_string).collect();
            let scope = Scope { open: Arc::new(open.clone()), ..Scope::default() };

            let mut down = page(&*archive, &scope, &Want::Start, step).unwrap();
            let mut forward = paths(&down);
            while !down.last {
                down = page(&*archive, &scope, &Want::After(down.rows.last().unwrap().place), step).unwrap();
                forward.extend(paths(&down));
            }
            prop_assert_eq!(&forward, &expected);

            let mut up = page(&*archive, &scope, &Want::End, step).unwrap();
            let mut backward = paths(&up);
            while !up.first {
                up = page(&*archive, &scope, &Want::Before(up.rows[0].place), step).unwrap();
                backward.splice(0..0, paths(&up));
            }
            prop_assert_eq!(&backward, &expected);
        }
    }
}
