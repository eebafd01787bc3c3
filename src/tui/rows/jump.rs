//! Finds rows by the first letters of their names, using binary search on the sorted index.

use std::ops::Range;

use crate::rows::{self, Order, STRIDE, Scope};
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::path::{self, EntryPath};

/// Maximum number of spellings that are searched, of those that occur.
const MAX_SPELLINGS: usize = 64;

/// Returns the place of the first row that starts with `typed`, searching from place `at` (after it
/// with `after`) to the end and then from the start. Stops when `awaited` returns false.
///
/// Lower-case letters match both cases. In path order, siblings of the row at `at` come first, then
/// the rows of its ancestors.
pub fn place(
    archive: &dyn Archive,
    scope: &Scope,
    at: u64,
    after: bool,
    typed: &str,
    awaited: &dyn Fn() -> bool,
) -> Result<Option<u64>> {
    let from = at.saturating_add(u64::from(after));
    match &scope.order {
        Order::Listed(numbers) => {
            // In a tree, the names to compare start at different depths.
            let mut ranges = Vec::new();
            for directory in std::iter::once(scope.directory.as_ref()).chain(scope.open.iter().map(Some)) {
                match spelling_ranges(archive, directory, typed, awaited) {
                    Err(Error::NotFound { .. }) if directory != scope.directory.as_ref() => {}
                    found => ranges.extend(found?.into_iter().map(|range| (directory, range))),
                }
            }
            let is_child = |number: u64, directory: Option<&EntryPath>| {
                scope.open.is_empty() || archive.entry(number).is_ok_and(|entry| entry.path.parent().as_ref() == directory)
            };
            let is_one =
                |number: u64| ranges.iter().any(|(directory, range)| range.contains(&number) && is_child(number, *directory));
            let from = usize::try_from(from).unwrap_or(numbers.len()).min(numbers.len());
            for (count, index) in (0u64..).zip((from..numbers.len()).chain(0..from)) {
                if count.is_multiple_of(STRIDE) && !awaited() {
                    return Err(Error::Cancelled);
                }
                if is_one(numbers[index]) {
                    return Ok(Some(index as u64));
                }
            }
            Ok(None)
        }
        Order::Path => {
            let mut directory = archive.entry(at)?.path.parent();
            loop {
                let found = first(archive, directory.as_ref(), from, typed, awaited)?;
                if found.is_some() || directory == scope.directory {
                    return Ok(found);
                }
                let Some(inner) = directory else { return Ok(None) };
                directory = inner.parent();
            }
        }
    }
}

/// Returns the first row of a directory that starts with `typed`, from a number on or else from the
/// start.
fn first(
    archive: &dyn Archive,
    directory: Option<&EntryPath>,
    from: u64,
    typed: &str,
    awaited: &dyn Fn() -> bool,
) -> Result<Option<u64>> {
    let mut ranges = spelling_ranges(archive, directory, typed, awaited)?;
    ranges.sort_by_key(|range| range.start);
    for range in &ranges {
        if range.start >= from {
            return Ok(Some(range.start));
        }
        if range.contains(&from) {
            // The number lies below a row: continue with the next row.
            let entry = archive.entry(from)?;
            if entry.path.parent().as_ref() == directory {
                return Ok(Some(from));
            }
            let front = directory.map_or(0, |directory| directory.as_bytes().len() + 1);
            let end = entry.path.as_bytes().iter().skip(front).position(|byte| *byte == b'/').map_or(0, |at| front + at);
            let row = EntryPath::from_checked(&entry.path.as_bytes()[..end]);
            let next = rows::subtree(archive, &row, awaited)?.end;
            if range.contains(&next) {
                return Ok(Some(next));
            }
        }
    }
    Ok(ranges.first().map(|range| range.start))
}

/// Returns the number ranges below a directory that start with `typed`, one for each spelling that
/// occurs.
fn spelling_ranges(
    archive: &dyn Archive,
    directory: Option<&EntryPath>,
    typed: &str,
    awaited: &dyn Fn() -> bool,
) -> Result<Vec<Range<u64>>> {
    let below = rows::below(archive, directory, awaited)?;
    let front = directory.map_or_else(Vec::new, |directory| [directory.as_bytes(), b"/"].concat());
    if archive.is_index_damaged() {
        let wanted = typed.to_lowercase();
        let begins = |entry: &Entry| {
            let name = entry.path.as_bytes().strip_prefix(front.as_slice());
            name.is_some_and(|name| String::from_utf8_lossy(name).to_lowercase().starts_with(&wanted))
        };
        let found = rows::scan(archive, below, awaited, begins)?;
        return Ok(found.into_iter().map(|number| number..number + 1).collect());
    }
    let mut spellings = vec![(front, below)];
    for c in typed.chars() {
        if !awaited() {
            return Err(Error::Cancelled);
        }
        let mut longer = Vec::new();
        for (spelling, range) in &spellings {
            let capitals = c.to_uppercase().collect::<String>();
            let letters = [c.to_string(), capitals];
            let alike = usize::from(letters[0] == letters[1]);
            for letter in &letters[alike..] {
                let spelling = [spelling.as_slice(), letter.as_bytes()].concat();
                let range = prefix_range(archive, range, &spelling)?;
                if !range.is_empty() && longer.len() < MAX_SPELLINGS {
                    longer.push((spelling, range));
                }
            }
        }
        spellings = longer;
    }
    Ok(spellings.into_iter().map(|(_, range)| range).collect())
}

/// Returns the numbers in `range` whose paths start with `bytes`.
fn prefix_range(archive: &dyn Archive, range: &Range<u64>, bytes: &[u8]) -> Result<Range<u64>> {
    let start = partition_point(archive, range, |path| path::compare(path, bytes).is_lt())?;
    let end = partition_point(archive, &(start..range.end), |path| path.starts_with(bytes))?;
    Ok(start..end)
}

/// Returns the first number whose path fails a predicate. All paths that pass it come first.
fn partition_point(archive: &dyn Archive, range: &Range<u64>, matches: impl Fn(&[u8]) -> bool) -> Result<u64> {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if matches(archive.entry(middle)?.path.as_bytes()) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::rows::{Anchor, page};
    use crate::tests::sample;

    fn name(archive: &dyn Archive, scope: &Scope, at: u64, typed: &str) -> Option<String> {
        let place = place(archive, scope, at, false, typed, &|| true).unwrap()?;
        let page = page(archive, scope, &Anchor::Around(place), 2, &|| true).unwrap();
        let row = page.rows.iter().find(|row| row.place == place).expect("it is a row");
        Some(row.entry.path.to_string())
    }

    #[test]
    fn rows_are_found_in_any_order() {
        let archive = sample::archive(&["Makefile", "main/a", "main/b", "mode", "src/main", "src/x"]);
        let scope = Scope::default();
        // Makefile, main, main/a, main/b, mode, src, src/main, src/x.
        assert_eq!(name(&*archive, &scope, 0, "m").as_deref(), Some("Makefile"));
        assert_eq!(name(&*archive, &scope, 1, "m").as_deref(), Some("main"));
        assert_eq!(name(&*archive, &scope, 4, "m").as_deref(), Some("mode"));
        assert_eq!(name(&*archive, &scope, 0, "mo").as_deref(), Some("mode"));
        // From the last row to the first.
        assert_eq!(name(&*archive, &scope, 5, "M").as_deref(), Some("Makefile"));
        assert_eq!(name(&*archive, &scope, 0, "x"), None);
        let inside = Scope { directory: Some(EntryPath::try_from("src").unwrap()), ..Scope::default() };
        assert_eq!(name(&*archive, &inside, 6, "x").as_deref(), Some("src/x"));
        // In a tree, siblings come first, then the rows above.
        let open = Arc::new(BTreeSet::from([EntryPath::try_from("src").unwrap()]));
        let tree = Scope { open, ..Scope::default() };
        assert_eq!(name(&*archive, &tree, 7, "m").as_deref(), Some("src/main"));
        assert_eq!(name(&*archive, &tree, 7, "mo").as_deref(), Some("mode"));
        let listed = Scope { order: Order::Listed(vec![5, 4, 1, 0].into()), ..Scope::default() };
        assert_eq!(name(&*archive, &listed, 0, "ma").as_deref(), Some("main"));
        assert_eq!(name(&*archive, &listed, 3, "ma").as_deref(), Some("Makefile"));
        // The rows of a sorted tree: src, src/x, src/main, mode, main.
        let sorted = Scope { order: Order::Listed(vec![5, 7, 6, 4, 1].into()), ..tree };
        assert_eq!(name(&*archive, &sorted, 0, "m").as_deref(), Some("src/main"));
        assert_eq!(name(&*archive, &sorted, 3, "m").as_deref(), Some("mode"));
        assert_eq!(name(&*archive, &sorted, 1, "s").as_deref(), Some("src"));
    }

    proptest! {
        #[test]
        fn binary_search_agrees_with_linear_search(
            names in proptest::collection::btree_set("[aAb]{1,3}(/[ab]{1,2})?", 1..20),
            typed in "[aAb]{0,2}",
            from in 0u64..40,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str)
                .filter(|name| !names.iter().any(|other| other.starts_with(&format!("{name}/"))))
                .collect();
            let archive = sample::archive(&names);
            let scope = Scope::default();
            let rows = page(&*archive, &scope, &Anchor::Start, 100, &|| true).unwrap().rows;
            let from = rows[usize::try_from(from).unwrap() % rows.len()].place;
            let fits = |path: &str| path.len() >= typed.len() && path.chars().zip(typed.chars())
                .all(|(c, t)| c == t || c.to_lowercase().eq(t.to_string().chars()));
            let all: Vec<u64> = rows.iter().filter(|row| fits(&row.entry.path.to_string())).map(|row| row.place).collect();
            let expected = all.iter().find(|place| **place >= from).or(all.first()).copied();
            prop_assert_eq!(place(&*archive, &scope, from, false, &typed, &|| true).unwrap(), expected);
            let expected = all.iter().find(|place| **place > from).or(all.first()).copied();
            prop_assert_eq!(place(&*archive, &scope, from, true, &typed, &|| true).unwrap(), expected);
        }
    }
}
