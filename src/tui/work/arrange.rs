//! Puts the children of a directory into another order, or keeps some of them only.

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind, Timestamp};
use crate::format::error::{Error, Result};
use crate::tui::query::{Filter, Query};
use crate::tui::rows::{self, Scope, Want};
use crate::tui::state::arrange::{ArrangeAnswer, ArrangeRequest, Sort};
use crate::tui::work::told;

/// Rows that are fetched at once.
const PAGE: usize = 4_096;

/// Arranges; `go_on` says whether anybody still waits. `None` when nobody does.
pub fn arrange(archive: &dyn Archive, request: &ArrangeRequest, go_on: &dyn Fn() -> bool) -> Option<ArrangeAnswer> {
    let numbers = match numbers(archive, request, go_on) {
        Ok(numbers) => Ok(numbers?.into()),
        Err(error) => Err(told(&error)),
    };
    Some(ArrangeAnswer { generation: request.generation, arrangement: request.arrangement.clone(), numbers })
}

fn numbers(archive: &dyn Archive, request: &ArrangeRequest, go_on: &dyn Fn() -> bool) -> Result<Option<Vec<u64>>> {
    let scope = Scope { directory: request.directory.clone(), ..Scope::default() };
    let filter = Filter::new(&request.arrangement.filter);
    let sort = request.arrangement.sort;
    let mut keyed: Vec<(i64, u64)> = Vec::new();
    if !request.arrangement.query.is_empty() {
        let query = Query::parse(&request.arrangement.query).map_err(|detail| Error::Usage { detail })?;
        let below = rows::below(archive, request.directory.as_ref())?;
        for number in below {
            if !go_on() {
                return Ok(None);
            }
            let Ok(entry) = archive.entry(number) else { continue };
            if filter.matches(entry.path.name()) && query.matches(archive, &entry, go_on) {
                keyed.push((key(archive, &entry, sort).unwrap_or(i64::MAX), number));
            }
        }
        return Ok(Some(sorted(keyed, request.arrangement.reverse)));
    }
    let mut want = Want::Start;
    loop {
        let page = rows::page(archive, &scope, &want, PAGE)?;
        for row in page.rows.iter().filter(|row| filter.matches(row.entry.path.name())) {
            // What can't be told sorts last.
            keyed.push((key(archive, &row.entry, sort).unwrap_or(i64::MAX), row.number));
        }
        if !go_on() {
            return Ok(None);
        }
        match page.rows.last() {
            Some(last) if !page.last => want = Want::After(last.place),
            _ => break,
        }
    }
    Ok(Some(sorted(keyed, request.arrangement.reverse)))
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
        Kind::Directory => Ok(archive.totals(archive.subtree(Some(entry.path.as_bytes()))?)?.content_bytes),
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
    use crate::tui::state::arrange::Arrangement;

    fn names(sort: Sort, reverse: bool, filter: &str) -> Vec<String> {
        let archive = sample::with_contents(&[("B.txt", b"12345"), ("a.txt", b"123"), ("dir/x", b"1234"), ("c.md", b"")]);
        let arrangement = Arrangement { sort, reverse, filter: filter.to_owned(), query: String::new() };
        let request = ArrangeRequest { generation: 1, directory: None, arrangement };
        let answer = arrange(&*archive, &request, &|| true).unwrap();
        answer.numbers.unwrap().iter().map(|&number| archive.entry(number).unwrap().path.to_string()).collect()
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
