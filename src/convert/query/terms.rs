//! Parses the short form that the browser accepts: `*.json size>1M newer:7d type:file has:"two
//! words"`. All terms must match.

use super::{Comparison, Condition, Field, Matcher, NameFilter, Query, Test, content, parse_kind};
use nra_text::{parse_size, parse_time};

/// A summary of the terms, for prompts.
pub const TERMS_HELP: &str =
    "name or *.glob  size>1M  newer:7d  older:2026-01-31  type:file  has:\"some text\"  is:duplicate  is:damaged";

/// The term for files whose content another file shares.
pub const DUPLICATE: &str = "is:duplicate";
/// The term for files with damaged content.
pub const DAMAGED: &str = "is:damaged";
/// The term for files with undamaged content.
pub const INTACT: &str = "is:intact";

/// A term as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// A name or a test.
    Plain(String),
    /// Begins with a quotation mark: always a name.
    Quoted(String),
}

/// Parses terms. The error names the invalid term and the reason.
pub(super) fn parse(text: &str) -> Result<Query, String> {
    let (duplicates, others): (Vec<_>, _) = split(text)?.into_iter().partition(|term| *term == Term::Plain(DUPLICATE.to_owned()));
    let read = |term: Term| match term {
        Term::Plain(text) => parse_term(&text),
        Term::Quoted(name) => Ok(name_test(&name)),
    };
    let mut tests = others.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    // Tests that read content run last.
    tests.sort_by_key(Test::reads_content);
    let condition = Condition::All(tests.into_iter().map(Condition::Test).collect());
    Ok(Query { condition, duplicates_only: !duplicates.is_empty() })
}

/// Splits text at spaces outside quotation marks. Within them, two quotation marks stand for one.
fn split(text: &str) -> Result<Vec<Term>, String> {
    let mut terms = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(first) = rest.peek().copied() else { return Ok(terms) };
        let (mut term, mut quoted) = (String::new(), false);
        while let Some(c) = rest.next_if(|c| quoted || !c.is_whitespace()) {
            match c {
                '"' if quoted && rest.next_if_eq(&'"').is_some() => term.push('"'),
                '"' => quoted = !quoted,
                c => term.push(c),
            }
        }
        if quoted {
            return Err(format!("{term}: missing closing quotation mark"));
        }
        terms.push(if first == '"' { Term::Quoted(term) } else { Term::Plain(term) });
    }
}

fn name_test(name: &str) -> Test {
    Test::Text(Field::Name, Matcher::Name(NameFilter::new(name)), true)
}

fn parse_term(text: &str) -> Result<Test, String> {
    let invalid = |error: String| format!("{text}: {error}");
    if let Some(size) = text.strip_prefix("size>") {
        return parse_size(size).map(|size| Test::Size(Comparison::Greater, size)).map_err(invalid);
    }
    if let Some(size) = text.strip_prefix("size<") {
        return parse_size(size).map(|size| Test::Size(Comparison::Less, size)).map_err(invalid);
    }
    match text.split_once(':') {
        Some(("newer", time)) => parse_time(time).map(|time| Test::Modified(Comparison::AtLeast, time)).map_err(invalid),
        Some(("older", time)) => parse_time(time).map(|time| Test::Modified(Comparison::Less, time)).map_err(invalid),
        Some(("type", kind)) => parse_kind(kind).map(|kind| Test::Kind(kind, true)).map_err(invalid),
        Some(("is", "damaged")) => Ok(Test::Intact(false)),
        Some(("is", "intact")) => Ok(Test::Intact(true)),
        Some(("is", _)) => Err(invalid("unknown state (use duplicate, damaged or intact)".to_owned())),
        Some(("has", text)) => content::regex(text).map(Test::Content).map_err(invalid),
        _ if is_misspelt(text) => Err(invalid(
            "unknown test (use size>, size<, newer:, older:, type:, has: or is:); in quotation marks it is a name".to_owned(),
        )),
        _ => Ok(name_test(text)),
    }
}

/// Returns whether a term looks like a test rather than a name.
fn is_misspelt(text: &str) -> bool {
    let letters = text.len() - text.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
    letters > 0 && text[letters..].starts_with([':', '<', '>', '='])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::ArchiveFacts;
    use super::super::content::WINDOW;
    use super::*;
    use nra_format::archive::{Archive, OpenOptions, open};
    use nra_format::digest::Digest;
    use nra_format::entry::{Entry, Kind, Timestamp};
    use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
    use nra_format::path::EntryPath;
    use nra_format::progress::Recorder;
    use nra_format::source::MemorySource;

    /// Returns an archive of files modified on 2026-01-02; directories are implied.
    fn archive(files: &[(&str, &[u8])]) -> Box<dyn Archive> {
        let mut files = files.to_vec();
        files.sort_by_key(|(path, _)| EntryPath::try_from(*path).unwrap());
        let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
        for (path, bytes) in files {
            let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
            entry.modified = Some(Timestamp { seconds: 1_767_323_045, nanoseconds: 0 });
            let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
            writer.add(entry, content).unwrap();
        }
        let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
        open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap()
    }

    fn found(query: &str) -> Vec<String> {
        let long = [b"x".repeat(WINDOW), b"needle".to_vec(), b"y".repeat(100)].concat();
        let archive =
            archive(&[("a.json", b"{\"cat\": 1}"), ("b.txt", b"Cat and dog"), ("d/long.bin", &long), ("d/e.json", b"")]);
        let query = Query::parse_terms(query).unwrap();
        let facts = ArchiveFacts { archive: &*archive, keep_going: &|| true };
        let entries = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap());
        entries.filter(|entry| query.matches(entry, &facts).unwrap()).map(|entry| entry.path.to_string()).collect()
    }

    #[test]
    fn all_terms_must_match() {
        assert_eq!(found("*.json"), ["a.json", "d/e.json"]);
        assert_eq!(found("*.JSON size<1"), ["d/e.json"]);
        assert_eq!(found("size>1M"), ["d/long.bin"]);
        assert_eq!(found("type:d"), ["d"]);
        assert_eq!(found("has:cat"), ["a.json", "b.txt"]);
        assert_eq!(found("has:Cat type:file"), ["b.txt"]);
        // A match across the border of two windows.
        assert_eq!(found("has:xneedley"), ["d/long.bin"]);
        assert_eq!(found("older:2026-01-03 json").len(), 2);
        assert_eq!(found("newer:2026-01-03"), Vec::<String>::new());
        assert_eq!(found("newer:2026-01-02 b.").len(), 1);
        assert_eq!(found("has:\"Cat and\"  type:file"), ["b.txt"]);
        assert_eq!(found("has:\"\"\"cat\"\"\""), ["a.json"]);
        assert_eq!(found("is:intact").len(), 4);
        assert_eq!(found("is:damaged"), Vec::<String>::new());
    }

    #[test]
    fn quotation_marks_keep_words_together() {
        let plain = |text: &str| Term::Plain(text.to_owned());
        assert_eq!(split(" a  has:\"b c\"d ").unwrap(), [plain("a"), plain("has:b cd")]);
        assert_eq!(
            split("\"is:duplicate\" \"\"").unwrap(),
            [Term::Quoted("is:duplicate".to_owned()), Term::Quoted(String::new())]
        );
        assert!(split("has:\"b c").unwrap_err().contains("missing closing"));
        assert!(!parse("\"is:duplicate\"").unwrap().duplicates_only && parse("x is:duplicate").unwrap().duplicates_only);
        let Condition::All(parts) = parse("\"size>x y\"").unwrap().condition else { panic!("terms are joined by and") };
        assert!(matches!(&parts[..], [Condition::Test(Test::Text(Field::Name, Matcher::Name(NameFilter::Contains(name)), true))]
                if name == "size>x y"));
    }

    #[test]
    fn invalid_terms_are_named() {
        for (text, why) in [
            ("size>x", "size>x"),
            ("newer:soon", "invalid time"),
            ("type:pink", "unknown type"),
            ("is:pink", "unknown state"),
            ("has:(", "regular"),
            ("sise>1M", "unknown test"),
            ("size=1", "unknown test"),
            ("bogus:1", "quotation"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(parse("newer:99999999999999999w").is_err());
    }
}
