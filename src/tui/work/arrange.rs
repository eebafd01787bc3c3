//! Puts the children of a directory into another order, or keeps some of them only.

use std::cell::Cell;

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind, Timestamp};
use crate::format::error::{Error, Result};
use crate::text;
use crate::tui::query::{Filter, Query};
use crate::tui::rows::{self, Scope, Want};
use crate::tui::state::arrange::{ArrangeAnswer, ArrangeRequest, Arrangement, Found, Sort};
use crate::tui::work::duplicates::{self, Duplicates};
use crate::tui::work::told;

/// Rows that are fetched at once.
const PAGE: usize = 4_096;

/// Arranges; `share` takes how far it is, 0 to 1, and says whether anybody still waits. `None` when nobody does, or when there is nothing to arrange.
pub fn arrange(archive: &dyn Archive, request: &ArrangeRequest, share: &dyn Fn(f64) -> bool) -> Option<ArrangeAnswer> {
    if request.arrangement.is_natural() {
        return None;
    }
    let found = match found(archive, request, share) {
        Ok(found) => Ok(found?),
        Err(error) => Err(told(&error)),
    };
    Some(ArrangeAnswer { generation: request.generation, arrangement: request.arrangement.clone(), found })
}

fn found(archive: &dyn Archive, request: &ArrangeRequest, share: &dyn Fn(f64) -> bool) -> Result<Option<Found>> {
    let Arrangement { sort, reverse, filter, query } = &request.arrangement;
    let filter = Filter::new(filter);
    let listed = |keyed| Found { numbers: sorted(keyed, *reverse).into(), ..Found::default() };
    if query.is_empty() {
        return Ok(children(archive, request, &filter, share)?.map(listed));
    }
    let query = Query::parse(query).map_err(|detail| Error::Usage { detail })?;
    let below = rows::below(archive, request.directory.as_ref())?;
    // Content takes long to be searched, and nobody may wait for the end of it.
    let last = Cell::new(0.0);
    let keep = |entry: &Entry| filter.matches(entry.path.name()) && query.matches(archive, entry, &|| share(last.get()));
    let share = |done: f64| {
        last.set(done);
        share(done)
    };
    if query.duplicates {
        let Some(Duplicates { mut numbers, firsts, told }) = duplicates::find(archive, below, &keep, &share)? else {
            return Ok(None);
        };
        if (*sort, *reverse) == (Sort::Name, false) {
            return Ok(Some(Found { numbers: numbers.into(), firsts, told }));
        }
        let keyed = numbers.drain(..).map(|number| {
            let key = archive.entry(number).and_then(|entry| key(archive, &entry, *sort));
            (key.unwrap_or(i64::MAX), number)
        });
        return Ok(Some(Found { told, ..listed(keyed.collect()) }));
    }
    let mut keyed: Vec<(i64, u64)> = Vec::new();
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
            keyed.push((key(archive, &entry, *sort).unwrap_or(i64::MAX), number));
        }
    }
    // They can't be among what is listed, whatever was asked.
    let told = match lost {
        0 => String::new(),
        _ => format!("{}; {} lost with the index", request.arrangement.query, text::counted(lost, "entry is", "entries are")),
    };
    Ok(Some(Found { told, ..listed(keyed) }))
}

/// Returns the children of the directory that the filter keeps, with what they are sorted by.
fn children(
    archive: &dyn Archive,
    request: &ArrangeRequest,
    filter: &Filter,
    share: &dyn Fn(f64) -> bool,
) -> Result<Option<Vec<(i64, u64)>>> {
    let scope = Scope { directory: request.directory.clone(), ..Scope::default() };
    let sort = request.arrangement.sort;
    let mut keyed: Vec<(i64, u64)> = Vec::new();
    let mut want = Want::Start;
    loop {
        let page = rows::page(archive, &scope, &want, PAGE)?;
        for row in page.rows.iter().filter(|row| filter.matches(row.entry.path.name())) {
            // What can't be told sorts last.
            keyed.push((key(archive, &row.entry, sort).unwrap_or(i64::MAX), row.number));
        }
        let below = (page.below.end - page.below.start).max(1) as f64;
        let at = page.rows.last().map_or(0, |row| row.number.saturating_sub(page.below.start));
        if !share(at as f64 / below) {
            return Ok(None);
        }
        match page.rows.last() {
            Some(last) if !page.last => want = Want::After(last.place),
            _ => return Ok(Some(keyed)),
        }
    }
}

fn sorted(mut keyed: Vec<(i64, u64)>, reverse: bool) -> Vec<u64> {
    keyed.sort_unstable();
    if reverse {
        keyed.reverse();
    }
    keyed.into_iter().map(|(_, number)| number).collect()
}

/// What an order goes by, the smallest first: eight bytes, for there may be millions.
fn key(archive: &dyn Archive, entry: &Entry, sort: Sort) -> Result<i64> {
    let down = |bytes: u64| -i64::try_from(bytes).unwrap_or(i64::MAX);
    let size = |entry: &Entry| match entry.kind {
        Kind::Directory => Ok(rows::totals(archive, &entry.path, &|| true)?.map_or(0, |totals| totals.content_bytes)),
        _ => Ok(entry.size),
    };
    let stored = |entry: &Entry| match entry.kind {
        Kind::File => archive.stored_bytes(entry).map(Option::unwrap_or_default),
        _ => Ok(0),
    };
    Ok(match sort {
        Sort::Name => 0,
        Sort::Size => down(size(entry)?),
        Sort::Stored => down(stored(entry)?),
        // A share, to the billionth.
        Sort::Ratio => -(stored(entry)? as f64 / entry.size.max(1) as f64 * 1e9) as i64,
        Sort::Time => {
            // Nanoseconds since 1970, as far as they go: to the year 2262.
            let ticks = |time: Timestamp| time.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nanoseconds));
            entry.modified.map_or(i64::MAX, |time| ticks(time).saturating_neg())
        }
        Sort::Kind => match entry.kind {
            Kind::Directory => 0,
            Kind::File => 1,
            _ => 2,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::sample;

    fn names(sort: Sort, reverse: bool, filter: &str) -> Vec<String> {
        let archive = sample::with_contents(&[("B.txt", b"12345"), ("a.txt", b"123"), ("dir/x", b"1234"), ("c.md", b"")]);
        let arrangement = Arrangement { sort, reverse, filter: filter.to_owned(), query: String::new() };
        let request = ArrangeRequest { generation: 1, directory: None, arrangement };
        let answer = arrange(&*archive, &request, &|_| true).unwrap();
        answer.found.unwrap().numbers.iter().map(|&number| archive.entry(number).unwrap().path.to_string()).collect()
    }

    #[test]
    fn orders() {
        assert_eq!(names(Sort::Name, true, ""), ["dir", "c.md", "a.txt", "B.txt"]);
        assert_eq!(names(Sort::Size, false, ""), ["B.txt", "dir", "a.txt", "c.md"]);
        assert_eq!(names(Sort::Size, true, ""), ["c.md", "a.txt", "dir", "B.txt"]);
        assert_eq!(names(Sort::Kind, false, ""), ["dir", "B.txt", "a.txt", "c.md"]);
        assert_eq!(names(Sort::Time, false, "*.TXT"), ["B.txt", "a.txt"]);
    }

    #[test]
    fn filters() {
        assert_eq!(names(Sort::Name, false, "b"), ["B.txt"]);
        assert_eq!(names(Sort::Name, false, "*.md"), ["c.md"]);
        assert_eq!(names(Sort::Name, false, "[x"), Vec::<String>::new());
    }
}
