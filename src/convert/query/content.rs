//! Tests that read the content of an entry.

use regex::bytes::{Regex, RegexBuilder};

use nra_format::archive::{Access, Archive};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};

/// Bytes searched at once.
pub(super) const WINDOW: usize = 4 << 20;
/// Overlap of consecutive windows, bytes, so that a match across their border is found.
const OVERLAP: usize = 64 << 10;

/// Compiles a regular expression for content. It ignores case unless it contains an upper-case
/// letter.
pub(super) fn regex(text: &str) -> std::result::Result<Regex, String> {
    let ignore_case = !text.chars().any(char::is_uppercase);
    let regex = RegexBuilder::new(text).case_insensitive(ignore_case).multi_line(true).build();
    regex.map_err(|_| "invalid regular expression".to_owned())
}

/// Searches the content of a file, window by window. Returns `false` when `keep_going` ends the
/// search.
///
/// # Errors
///
/// If the content cannot be read.
pub fn contains_match(archive: &dyn Archive, entry: &Entry, regex: &Regex, keep_going: &dyn Fn() -> bool) -> Result<bool> {
    let len = usize::try_from(entry.size).unwrap_or(usize::MAX).min(WINDOW);
    let mut window = vec![0; len];
    let mut offset = 0;
    while keep_going() {
        let read = archive.read_at(entry, offset, &mut window)?;
        if regex.is_match(&window[..read]) {
            return Ok(true);
        }
        if read <= OVERLAP || offset + read as u64 >= entry.size {
            break;
        }
        offset += (read - OVERLAP) as u64;
    }
    Ok(false)
}

/// Reads the content of a file until `keep_going` ends it. Returns whether it is undamaged so far.
///
/// # Errors
///
/// If the content cannot be read for another reason than damage.
pub fn is_intact(archive: &dyn Archive, entry: &Entry, keep_going: &dyn Fn() -> bool) -> Result<bool> {
    let read =
        archive.with_content(entry, Access::Sequential, &mut |_| if keep_going() { Ok(()) } else { Err(Error::Cancelled) });
    match read {
        Ok(()) | Err(Error::Cancelled) => Ok(true),
        Err(Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. } | Error::Unsupported { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
