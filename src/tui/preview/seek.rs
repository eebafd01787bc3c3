//! Places in content: of a text, of a line.

use regex::bytes::{Regex, RegexBuilder};

use crate::format::archive::Archive;
use crate::format::entry::Entry;
use crate::format::error::{Error, Result};

/// Bytes looked at in one step.
const STEP: u64 = 256 << 10;

/// What is sought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seek {
    /// A text.
    Text {
        /// The text. Without capitals it stands for both cases.
        needle: String,
        /// The first place that counts when going forwards; the first that does not when going back, bytes.
        from: u64,
        /// Go back.
        back: bool,
    },
    /// The line of this number, counted from 1.
    Line(u64),
    /// An offset, bytes.
    Offset(u64),
}

/// Makes a pattern of a text that is typed.
pub fn pattern(needle: &str) -> Option<Regex> {
    let any_case = !needle.chars().any(char::is_uppercase);
    RegexBuilder::new(&regex::escape(needle)).case_insensitive(any_case).build().ok()
}

/// Finds a place in the content of an entry, as long as it is awaited. Returns its offset, `None` when there is no such place.
///
/// # Errors
///
/// As reading the archive does; `Cancelled` when nobody waits any more.
pub fn place(archive: &dyn Archive, entry: &Entry, seek: &Seek, awaited: &dyn Fn() -> bool) -> Result<Option<u64>> {
    match seek {
        Seek::Offset(offset) => Ok(Some((*offset).min(entry.size.saturating_sub(1)))),
        Seek::Line(number) => line(archive, entry, *number, awaited),
        Seek::Text { needle, from, back } => {
            let Some(pattern) = pattern(needle) else { return Ok(None) };
            // A match may lie across the end of a step, and take more bytes than what was typed.
            let overlap = 4 * needle.len() as u64;
            if *back {
                before(archive, entry, &pattern, *from, overlap, awaited)
            } else {
                behind(archive, entry, &pattern, *from, overlap, awaited)
            }
        }
    }
}

fn read(archive: &dyn Archive, entry: &Entry, from: u64, end: u64, awaited: &dyn Fn() -> bool) -> Result<Vec<u8>> {
    if !awaited() {
        return Err(Error::Cancelled);
    }
    let len = end.min(entry.size).saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(len).expect("little more than a step")];
    let read = archive.read_at(entry, from, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn behind(
    archive: &dyn Archive,
    entry: &Entry,
    pattern: &Regex,
    from: u64,
    overlap: u64,
    awaited: &dyn Fn() -> bool,
) -> Result<Option<u64>> {
    let mut at = from;
    while at < entry.size {
        let bytes = read(archive, entry, at, at + STEP + overlap, awaited)?;
        if let Some(found) = pattern.find(&bytes) {
            return Ok(Some(at + found.start() as u64));
        }
        at += STEP;
    }
    Ok(None)
}

fn before(
    archive: &dyn Archive,
    entry: &Entry,
    pattern: &Regex,
    from: u64,
    overlap: u64,
    awaited: &dyn Fn() -> bool,
) -> Result<Option<u64>> {
    let mut end = from.min(entry.size);
    while end > 0 {
        let at = end.saturating_sub(STEP);
        let bytes = read(archive, entry, at, end + overlap, awaited)?;
        let found = pattern.find_iter(&bytes).map(|found| at + found.start() as u64).take_while(|found| *found < end).last();
        if found.is_some() {
            return Ok(found);
        }
        end = at;
    }
    Ok(None)
}

/// Finds where a line begins; behind the last one, where the last one does.
fn line(archive: &dyn Archive, entry: &Entry, number: u64, awaited: &dyn Fn() -> bool) -> Result<Option<u64>> {
    let (mut at, mut begins, mut current) = (0, 0, 1);
    while at < entry.size && current < number {
        let bytes = read(archive, entry, at, at + STEP, awaited)?;
        let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| at + index as u64 + 1);
        for next in newlines.filter(|next| *next < entry.size) {
            begins = next;
            current += 1;
            if current == number {
                break;
            }
        }
        at += STEP;
    }
    Ok(Some(begins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::sample;

    fn content() -> Vec<u8> {
        (1..=60_000).flat_map(|number| format!("This is line {number}\n").into_bytes()).collect()
    }

    fn find(seek: Seek) -> Option<u64> {
        let archive = sample::with_contents(&[("text", &content())]);
        place(&*archive, &archive.entry(0).unwrap(), &seek, &|| true).unwrap()
    }

    fn text(needle: &str, from: u64, back: bool) -> Seek {
        Seek::Text { needle: needle.to_owned(), from, back }
    }

    #[test]
    fn texts_are_found_forwards_and_back() {
        let content = content();
        let offset = |needle: &str| content.windows(needle.len()).position(|part| part == needle.as_bytes()).map(|at| at as u64);
        let there = offset("line 50000");
        assert_eq!(find(text("line 50000", 0, false)), there);
        assert_eq!(find(text("LINE 50000", 0, false)), None);
        assert_eq!(find(text("this is line 50000", 0, false)), offset("This is line 50000"));
        assert_eq!(find(text("line 50000", there.unwrap() + 1, false)), None);
        assert_eq!(find(text("line 777\n", u64::MAX, true)), offset("line 777\n"));
        assert_eq!(find(text("line 50000", there.unwrap(), true)), None);
    }

    #[test]
    fn a_text_across_the_end_of_a_step_is_found() {
        for at in (STEP - 6)..(STEP + 2) {
            let mut content = vec![b'.'; 600 << 10];
            content[usize::try_from(at).unwrap()..][..4].copy_from_slice(b"here");
            let archive = sample::with_contents(&[("text", &content)]);
            let entry = archive.entry(0).unwrap();
            for (from, back) in [(0, false), (u64::MAX, true)] {
                assert_eq!(place(&*archive, &entry, &text("here", from, back), &|| true).unwrap(), Some(at));
            }
        }
    }

    #[test]
    fn lines_are_counted() {
        let content = content();
        for number in [1, 2, 40_000, 60_000] {
            let at = usize::try_from(find(Seek::Line(number)).unwrap()).unwrap();
            assert!(content[at..].starts_with(format!("This is line {number}\n").as_bytes()));
        }
        assert_eq!(find(Seek::Line(u64::MAX)), find(Seek::Line(60_000)));
        assert_eq!(find(Seek::Line(0)), Some(0));
    }

    #[test]
    fn nobody_waits() {
        let archive = sample::with_contents(&[("text", b"abc")]);
        let found = place(&*archive, &archive.entry(0).unwrap(), &text("x", 0, false), &|| false);
        assert!(matches!(found, Err(Error::Cancelled)));
    }
}
