//! Puts the children of a directory into another order, or keeps some of them only.

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
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
    let mut keyed: Vec<(i128, u64)> = Vec::new();
    if !request.arrangement.query.is_empty() {
        let query = Query::parse(&request.arrangement.query).map_err(|detail| Error::Usage { detail })?;
        let below = rows::below(archive, request.directory.as_ref())?;
        for number in below {
            if !go_on() {
                return Ok(None);
            }
            let Ok(entry) = archive.entry(number) else { continue };
            if filter.matches(entry.path.name()) && query.matches(archive, &entry, go_on) {
                keyed.push((key(archive, &entry, sort).unwrap_or(i128::MAX), number));
            }
        }
        return Ok(Some(sorted(keyed, request.arrangement.reverse)));
    }
    let mut want = Want::Start;
    loop {
        let page = rows::page(archive, &scope, &want, PAGE)?;
        for row in page.rows.iter().filter(|row| filter.matches(row.entry.path.name())) {
            // What can't be told sorts last.
            keyed.push((key(archive, &row.entry, sort).unwrap_or(i128::MAX), row.number));
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

fn sorted(mut keyed: Vec<(i128, u64)>, reverse: bool) -> Vec<u64> {
    keyed.sort_unstable();
    if reverse {
        keyed.reverse();
    }
    keyed.into_iter().map(|(_, number)| number).collect()
}

/// What an order goes by: the smallest first.
fn key(archive: &dyn Archive, entry: &Entry, sort: Sort) -> Result<i128> {
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
        Sort::Size => -i128::from(size(entry)?),
        Sort::Stored => -i128::from(stored(entry)?),
        Sort::Ratio => -(i128::from(stored(entry)?) << 40) / i128::from(entry.size.max(1)),
        Sort::Time => {
            entry.modified.map_or(i128::MAX, |time| -(i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)))
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
