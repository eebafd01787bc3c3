//! What entries are looked for by size, time, kind, name and content: `*.json size>1M newer:7d type:file has:"two words"`. All words must hold.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};

use crate::glyphs;
use nra_format::archive::{Access, Archive};
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::{Error, Result};
use nra_text::{parse_size, parse_time};

/// Content that is searched at once, bytes.
const WINDOW: usize = 4 << 20;
/// A hit may reach so far into the next window, bytes.
const OVERLAP: usize = 64 << 10;
/// The words that are known, for people.
pub const WORDS: &str =
    "name or *.glob  size>1M  newer:7d  older:2026-01-31  type:file  has:\"some text\"  is:duplicate  is:damaged";

/// The word for files whose content another one has as well.
pub const DUPLICATE: &str = "is:duplicate";

/// The word for files that do not read whole.
pub const DAMAGED: &str = "is:damaged";
/// The word for files that do.
pub const INTACT: &str = "is:intact";

/// One word.
#[derive(Debug, Clone)]
enum Word {
    Name(Filter),
    Larger(u64),
    Smaller(u64),
    Newer(Timestamp),
    Older(Timestamp),
    Kind(fn(Kind) -> bool),
    Has(Regex),
    /// Whether all of it reads.
    Whole(bool),
}

/// Everything that must hold.
#[derive(Debug, Clone)]
pub struct Query {
    words: Vec<Word>,
    /// Only files are meant whose content another one has as well.
    pub duplicates: bool,
}

impl Query {
    /// Reads words.
    ///
    /// # Errors
    ///
    /// Which word makes no sense, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (duplicates, others): (Vec<_>, _) =
            split(text)?.into_iter().partition(|typed| *typed == Typed::Plain(DUPLICATE.to_owned()));
        let read = |typed: Typed| match typed {
            Typed::Plain(text) => word(&text),
            Typed::Quoted(name) => Ok(Word::Name(Filter::new(&name))),
        };
        let mut words = others.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        // What is cheap to know comes first.
        words.sort_by_key(|word| matches!(word, Word::Has(_) | Word::Whole(_)));
        Ok(Self { words, duplicates: !duplicates.is_empty() })
    }

    /// Says whether an entry is meant, as far as it alone tells. Content that does not read has no words. `go_on` says whether anybody still waits.
    pub fn matches(&self, archive: &dyn Archive, entry: &Entry, go_on: &dyn Fn() -> bool) -> bool {
        self.words.iter().all(|word| match word {
            Word::Name(filter) => filter.matches(entry.path.name()),
            Word::Larger(size) => entry.kind == Kind::File && entry.size > *size,
            Word::Smaller(size) => entry.kind == Kind::File && entry.size < *size,
            Word::Newer(time) => entry.modified.is_some_and(|modified| modified >= *time),
            Word::Older(time) => entry.modified.is_some_and(|modified| modified < *time),
            Word::Kind(is) => is(entry.kind),
            Word::Whole(whole) => entry.kind == Kind::File && is_whole(archive, entry, go_on) == *whole,
            Word::Has(regex) => entry.kind == Kind::File && has(archive, entry, regex, go_on).unwrap_or(false),
        })
    }
}

/// A word as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Typed {
    /// It may ask for more than a name.
    Plain(String),
    /// It began with a quotation mark: a name, whatever it looks like.
    Quoted(String),
}

/// Splits what was typed at spaces outside of quotation marks; within them two stand for one.
fn split(text: &str) -> Result<Vec<Typed>, String> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(first) = rest.peek().copied() else { return Ok(words) };
        let (mut word, mut quoted) = (String::new(), false);
        while let Some(c) = rest.next_if(|c| quoted || !c.is_whitespace()) {
            match c {
                '"' if quoted && rest.next_if_eq(&'"').is_some() => word.push('"'),
                '"' => quoted = !quoted,
                c => word.push(c),
            }
        }
        if quoted {
            return Err(format!("{word}: the quotation mark is not closed"));
        }
        words.push(if first == '"' { Typed::Quoted(word) } else { Typed::Plain(word) });
    }
}

fn word(text: &str) -> Result<Word, String> {
    let told = |error: String| format!("{text}: {error}");
    if let Some(size) = text.strip_prefix("size>") {
        return parse_size(size).map(Word::Larger).map_err(told);
    }
    if let Some(size) = text.strip_prefix("size<") {
        return parse_size(size).map(Word::Smaller).map_err(told);
    }
    match text.split_once(':') {
        Some(("newer", time)) => parse_time(time).map(Word::Newer).map_err(told),
        Some(("older", time)) => parse_time(time).map(Word::Older).map_err(told),
        Some(("type", "f" | "file")) => Ok(Word::Kind(|kind| kind == Kind::File)),
        Some(("type", "d" | "dir" | "directory")) => Ok(Word::Kind(|kind| kind == Kind::Directory)),
        Some(("type", "l" | "link" | "symlink")) => Ok(Word::Kind(|kind| kind == Kind::Symlink)),
        Some(("type", _)) => Err(told("known are file, directory and link".to_owned())),
        Some(("is", "damaged")) => Ok(Word::Whole(false)),
        Some(("is", "intact")) => Ok(Word::Whole(true)),
        Some(("is", _)) => Err(told("known are duplicate, damaged and intact".to_owned())),
        Some(("has", words)) => {
            // A capital letter asks for exactly that.
            let any_case = !words.chars().any(char::is_uppercase);
            let regex = RegexBuilder::new(words).case_insensitive(any_case).multi_line(true).build();
            regex.map(Word::Has).map_err(|_| told("no regular expression".to_owned()))
        }
        _ if is_misspelt(text) => Err(told(
            "no such question (known: size> size< newer: older: type: has: is:); in quotation marks it is a name".to_owned(),
        )),
        _ => Ok(Word::Name(Filter::new(text))),
    }
}

/// Says whether a word asks for something as the known ones do.
fn is_misspelt(text: &str) -> bool {
    let letters = text.len() - text.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
    letters > 0 && text[letters..].starts_with([':', '<', '>', '='])
}

/// Says whether all content of a file reads, as far as anybody waits for it.
fn is_whole(archive: &dyn Archive, entry: &Entry, go_on: &dyn Fn() -> bool) -> bool {
    let read = archive.with_content(entry, Access::Sequential, &mut |_| if go_on() { Ok(()) } else { Err(Error::Cancelled) });
    matches!(read, Ok(()) | Err(Error::Cancelled))
}

/// Searches content window by window, however long it is.
fn has(archive: &dyn Archive, entry: &Entry, regex: &Regex, go_on: &dyn Fn() -> bool) -> Result<bool> {
    let len = usize::try_from(entry.size).unwrap_or(usize::MAX).min(WINDOW);
    let mut window = vec![0; len];
    let mut offset = 0;
    while go_on() {
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

/// Which names are kept: those that match a glob, or contain a text whatever its case.
#[derive(Debug, Clone)]
pub enum Filter {
    /// Every name.
    All,
    /// Those that match.
    Glob(GlobMatcher),
    /// Those with this text in lower case.
    Text(String),
}

impl Filter {
    /// Reads what was typed; what is no glob is a text.
    pub fn new(text: &str) -> Self {
        let glob = text.contains(['*', '?', '[', '{']).then(|| GlobBuilder::new(text).case_insensitive(true).build().ok());
        match glob.flatten() {
            Some(glob) => Self::Glob(glob.compile_matcher()),
            None if text.is_empty() => Self::All,
            None => Self::Text(text.to_lowercase()),
        }
    }

    /// Says whether a name is kept.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Glob(glob) => glob.is_match(Path::new(std::ffi::OsStr::new(&*String::from_utf8_lossy(name)))),
            Self::Text(text) => glyphs::shown(name).to_lowercase().contains(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn found(query: &str) -> Vec<String> {
        let long = [b"x".repeat(WINDOW), b"needle".to_vec(), b"y".repeat(100)].concat();
        let archive = sample::with_contents(&[
            ("a.json", b"{\"cat\": 1}"),
            ("b.txt", b"Cat and dog"),
            ("d/long.bin", &long),
            ("d/e.json", b""),
        ]);
        let query = Query::parse(query).unwrap();
        let entries = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap());
        entries.filter(|entry| query.matches(&*archive, entry, &|| true)).map(|entry| entry.path.to_string()).collect()
    }

    #[test]
    fn all_words_must_hold() {
        assert_eq!(found("*.json"), ["a.json", "d/e.json"]);
        assert_eq!(found("*.JSON size<1"), ["d/e.json"]);
        assert_eq!(found("size>1M"), ["d/long.bin"]);
        assert_eq!(found("type:d"), ["d"]);
        assert_eq!(found("has:cat"), ["a.json", "b.txt"]);
        assert_eq!(found("has:Cat type:file"), ["b.txt"]);
        // Across the end of a window.
        assert_eq!(found("has:xneedley"), ["d/long.bin"]);
        assert_eq!(found("older:2026-01-03 json").len(), 2);
        assert_eq!(found("newer:2026-01-03"), Vec::<String>::new());
        assert_eq!(found("newer:2026-01-02 b.").len(), 1);
        assert_eq!(found("has:\"Cat and\"  type:file"), ["b.txt"]);
        assert_eq!(found("has:\"\"\"cat\"\"\""), ["a.json"]);
    }

    #[test]
    fn quotation_marks_keep_words_together() {
        let plain = |text: &str| Typed::Plain(text.to_owned());
        assert_eq!(split(" a  has:\"b c\"d ").unwrap(), [plain("a"), plain("has:b cd")]);
        assert_eq!(
            split("\"is:duplicate\" \"\"").unwrap(),
            [Typed::Quoted("is:duplicate".to_owned()), Typed::Quoted(String::new())]
        );
        assert!(split("has:\"b c").unwrap_err().contains("not closed"));
        assert!(!Query::parse("\"is:duplicate\"").unwrap().duplicates && Query::parse("x is:duplicate").unwrap().duplicates);
        assert!(
            matches!(&Query::parse("\"size>x y\"").unwrap().words[..], [Word::Name(Filter::Text(name))] if name == "size>x y")
        );
    }

    #[test]
    fn words_that_make_no_sense_are_named() {
        for (text, why) in [
            ("size>x", "size>x"),
            ("newer:soon", "not a time"),
            ("type:pink", "known are"),
            ("has:(", "regular"),
            ("sise>1M", "no such"),
            ("size=1", "no such"),
            ("bogus:1", "quotation"),
        ] {
            let error = Query::parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(Query::parse("newer:99999999999999999w").is_err());
    }
}
