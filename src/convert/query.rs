//! Filters over entries.
//!
//! The flags and expressions of `nra find` and the search terms of the browser are parsed into a
//! [`Query`] by [`Query::parse_expression`], [`Query::parse_terms`], and [`Query::and`] with a
//! [`Condition`] for a flag.
//!
//! A test of a property that an entry does not have is false, whatever the operator.

pub mod content;
mod expression;
mod name_filter;
mod terms;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::Arc;

use globset::{Candidate, GlobBuilder, GlobMatcher};
use regex::bytes::Regex;

use crate::select::Selection;
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind, Timestamp};

pub use self::expression::ParseError;
pub use self::name_filter::NameFilter;
pub use self::terms::{DAMAGED, DUPLICATE, INTACT, TERMS_HELP};

/// Ratios are counted in millionths.
const RATIO_UNIT: u64 = 1_000_000;

/// Kinds of entries with their letter and words.
pub const KINDS: [(Kind, &str, &[&str]); 6] = [
    (Kind::File, "f", &["file"]),
    (Kind::Directory, "d", &["directory", "dir"]),
    (Kind::Symlink, "l", &["symlink", "link"]),
    (Kind::Fifo, "p", &["fifo"]),
    (Kind::CharacterDevice, "c", &["character-device"]),
    (Kind::BlockDevice, "b", &["block-device"]),
];

/// Parses a kind of entry: a letter or a word.
///
/// # Errors
///
/// Lists the letters if the text is none of them.
pub fn parse_kind(text: &str) -> Result<Kind, String> {
    let kind = KINDS.iter().find(|(_, letter, words)| *letter == text || words.contains(&text));
    kind.map(|(kind, ..)| *kind)
        .ok_or_else(|| "unknown type (use f file, d directory, l symlink, p fifo, c or b device)".to_owned())
}

/// A filter over the entries of an archive.
#[derive(Debug, Clone)]
pub struct Query {
    condition: Condition,
    /// Keep only files whose content is shared by another file that matches.
    pub duplicates_only: bool,
}

/// A condition on one entry.
#[derive(Debug, Clone)]
pub enum Condition {
    /// All of these are true.
    All(Vec<Condition>),
    /// At least one of these is true.
    Any(Vec<Condition>),
    /// This is false.
    Not(Box<Condition>),
    /// The test succeeds.
    Test(Test),
}

/// A test of one property.
#[derive(Debug, Clone)]
pub enum Test {
    /// Length of a file, bytes.
    Size(Comparison, u64),
    /// Stored size of a file, bytes.
    Stored(Comparison, u64),
    /// Stored size divided by length, in millionths.
    Ratio(Comparison, u64),
    /// Time of modification.
    Modified(Comparison, Timestamp),
    /// The kind equals this one (`true`) or differs from it (`false`).
    Kind(Kind, bool),
    /// The text of a field matches (`true`) or does not (`false`).
    Text(Field, Matcher, bool),
    /// An attribute of this name exists.
    Attribute(Vec<u8>),
    /// The content of a file matches.
    Content(Regex),
    /// The content of a file is undamaged (`true`) or damaged (`false`).
    Intact(bool),
}

/// How a quantity is compared with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    AtLeast,
    /// `>`
    Greater,
}

impl Comparison {
    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::AtLeast => ordering.is_ge(),
            Self::Greater => ordering.is_gt(),
        }
    }
}

/// A property of an entry that is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// The last component of the path.
    Name,
    /// The whole path.
    Path,
    /// The target of a symlink.
    Target,
    /// Name of the owner.
    User,
    /// Name of the group.
    Group,
    /// Value of the attribute of this name.
    Attribute(Vec<u8>),
}

impl Field {
    fn of<'a>(&self, entry: &'a Entry) -> Option<&'a [u8]> {
        let owner = entry.metadata.owner.as_ref();
        match self {
            Self::Name => Some(entry.path.name()),
            Self::Path => Some(entry.path.as_bytes()),
            Self::Target => (entry.kind == Kind::Symlink).then_some(&*entry.target),
            Self::User => owner.map(|owner| &*owner.user).filter(|name| !name.is_empty()),
            Self::Group => owner.map(|owner| &*owner.group).filter(|name| !name.is_empty()),
            Self::Attribute(name) => attributes(entry, name).next(),
        }
    }
}

/// Values of the attributes of this name, from all namespaces.
fn attributes<'a>(entry: &'a Entry, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    entry.metadata.attributes.iter().filter(move |attribute| *attribute.name == *name).map(|attribute| &*attribute.value)
}

/// How text is matched.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Equals these bytes.
    Equals(Vec<u8>),
    /// Matches a glob in which `*` matches `/` too.
    Glob(Box<GlobMatcher>),
    /// Matches a name as typed in the browser.
    Name(NameFilter),
    /// The path is selected by patterns; a directory selects everything below it.
    Selected(Arc<Selection>),
}

impl Matcher {
    /// Compiles a glob.
    ///
    /// # Errors
    ///
    /// Why the glob is invalid.
    pub fn glob(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text).backslash_escape(true).build();
        let glob = glob.map_err(|error| format!("invalid glob: {}", nra_text::harmless(&error.kind().to_string())))?;
        Ok(Self::Glob(Box::new(glob.compile_matcher())))
    }

    fn matches(&self, text: &[u8], entry: &Entry) -> bool {
        match self {
            Self::Equals(expected) => text == expected,
            Self::Glob(glob) => glob.is_match_candidate(&Candidate::from_bytes(text)),
            Self::Name(filter) => filter.matches(text),
            Self::Selected(selection) => selection.matches(entry),
        }
    }
}

/// Properties of an entry that are looked up only if the result depends on them.
pub trait Facts {
    /// Why a property cannot be determined.
    type Error;

    /// Returns the stored size of a file, bytes; `None` if the archive does not record it.
    ///
    /// # Errors
    ///
    /// If reading the archive fails.
    fn stored_bytes(&self, entry: &Entry) -> Result<Option<u64>, Self::Error>;

    /// Returns whether the content of a file matches.
    ///
    /// # Errors
    ///
    /// If reading the archive fails.
    fn contains_match(&self, entry: &Entry, regex: &Regex) -> Result<bool, Self::Error>;

    /// Returns whether the content of a file is undamaged.
    ///
    /// # Errors
    ///
    /// If reading the archive fails.
    fn is_intact(&self, entry: &Entry) -> Result<bool, Self::Error>;
}

/// Facts from an archive in which unreadable content matches nothing and counts as damaged.
pub struct ArchiveFacts<'a> {
    /// The archive of the entries.
    pub archive: &'a dyn Archive,
    /// Returns whether the result is still needed.
    pub keep_going: &'a dyn Fn() -> bool,
}

impl Facts for ArchiveFacts<'_> {
    type Error = Infallible;

    fn stored_bytes(&self, entry: &Entry) -> Result<Option<u64>, Infallible> {
        Ok(self.archive.stored_bytes(entry).ok().flatten())
    }

    fn contains_match(&self, entry: &Entry, regex: &Regex) -> Result<bool, Infallible> {
        Ok(content::contains_match(self.archive, entry, regex, self.keep_going).unwrap_or(false))
    }

    fn is_intact(&self, entry: &Entry) -> Result<bool, Infallible> {
        Ok(content::is_intact(self.archive, entry, self.keep_going).unwrap_or(false))
    }
}

impl Query {
    /// Returns the query that matches every entry.
    pub fn all() -> Self {
        Self { condition: Condition::All(Vec::new()), duplicates_only: false }
    }

    /// Parses an expression such as `size > 1M and not name ~ *.json`.
    ///
    /// # Errors
    ///
    /// If the expression is invalid: the reason and its position.
    pub fn parse_expression(text: &str) -> Result<Self, ParseError> {
        expression::parse(text).map(|condition| Self { condition, duplicates_only: false })
    }

    /// Parses search terms such as `*.json size>1M has:"two words"`.
    ///
    /// # Errors
    ///
    /// The invalid term and the reason.
    pub fn parse_terms(text: &str) -> Result<Self, String> {
        terms::parse(text)
    }

    /// Restricts the query to entries that also match the other one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut conditions = Vec::new();
        for condition in [self.condition, other.condition] {
            match condition {
                Condition::All(parts) => conditions.extend(parts),
                single => conditions.push(single),
            }
        }
        Self { condition: Condition::All(conditions), duplicates_only: self.duplicates_only || other.duplicates_only }
    }

    /// Returns whether an entry matches. The caller must apply [`Self::duplicates_only`], because
    /// it needs all entries.
    ///
    /// # Errors
    ///
    /// Errors of `facts`.
    pub fn matches<F: Facts>(&self, entry: &Entry, facts: &F) -> Result<bool, F::Error> {
        self.condition.matches(entry, facts)
    }
}

impl From<Condition> for Query {
    fn from(condition: Condition) -> Self {
        Self { condition, duplicates_only: false }
    }
}

impl From<Test> for Condition {
    fn from(test: Test) -> Self {
        Self::Test(test)
    }
}

impl Condition {
    // The parser bounds the depth.
    fn matches<F: Facts>(&self, entry: &Entry, facts: &F) -> Result<bool, F::Error> {
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.matches(entry, facts)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.matches(entry, facts)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(part) => Ok(!part.matches(entry, facts)?),
            Self::Test(test) => test.matches(entry, facts),
        }
    }
}

impl Test {
    /// Returns whether the test reads the content of files.
    fn reads_content(&self) -> bool {
        matches!(self, Self::Content(_) | Self::Intact(_))
    }

    fn matches<F: Facts>(&self, entry: &Entry, facts: &F) -> Result<bool, F::Error> {
        let is_file = entry.kind == Kind::File;
        Ok(match self {
            Self::Size(comparison, value) => is_file && comparison.accepts(entry.size.cmp(value)),
            Self::Stored(comparison, value) => {
                is_file && facts.stored_bytes(entry)?.is_some_and(|stored| comparison.accepts(stored.cmp(value)))
            }
            Self::Ratio(comparison, value) => {
                is_file
                    && entry.size > 0
                    && facts.stored_bytes(entry)?.is_some_and(|stored| {
                        let limit = u128::from(entry.size) * u128::from(*value);
                        comparison.accepts((u128::from(stored) * u128::from(RATIO_UNIT)).cmp(&limit))
                    })
            }
            Self::Modified(comparison, value) => entry.modified.is_some_and(|time| comparison.accepts(time.cmp(value))),
            Self::Kind(kind, expected) => (entry.kind == *kind) == *expected,
            Self::Text(field, matcher, expected) => field.of(entry).is_some_and(|text| matcher.matches(text, entry) == *expected),
            Self::Attribute(name) => attributes(entry, name).next().is_some(),
            Self::Content(regex) => is_file && facts.contains_match(entry, regex)?,
            Self::Intact(expected) => is_file && facts.is_intact(entry)? == *expected,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use nra_format::entry::{Attribute, Metadata, Namespace, Owner};
    use nra_format::path::EntryPath;

    fn entry(path: &str, kind: Kind, size: u64) -> Entry {
        let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), kind);
        entry.size = size;
        entry
    }

    /// Facts of an archive that compresses to a quarter, with the content `text` in each file.
    struct Quarter;

    impl Facts for Quarter {
        type Error = Infallible;

        fn stored_bytes(&self, entry: &Entry) -> Result<Option<u64>, Infallible> {
            Ok(Some(entry.size / 4))
        }

        fn contains_match(&self, _: &Entry, regex: &Regex) -> Result<bool, Infallible> {
            Ok(regex.is_match(b"text"))
        }

        fn is_intact(&self, _: &Entry) -> Result<bool, Infallible> {
            Ok(true)
        }
    }

    /// Facts that must not be looked up.
    struct NoFacts;

    impl Facts for NoFacts {
        type Error = Infallible;

        fn stored_bytes(&self, _: &Entry) -> Result<Option<u64>, Infallible> {
            panic!("unneeded look-up")
        }

        fn contains_match(&self, _: &Entry, _: &Regex) -> Result<bool, Infallible> {
            panic!("unneeded look-up")
        }

        fn is_intact(&self, _: &Entry) -> Result<bool, Infallible> {
            panic!("unneeded look-up")
        }
    }

    fn matches(text: &str, entry: &Entry) -> bool {
        Query::parse_expression(text).unwrap().matches(entry, &Quarter).unwrap()
    }

    #[test]
    fn each_test_matches_its_property() {
        let mut file = entry("docs/a b.json", Kind::File, 2 << 20);
        file.modified = Some(Timestamp { seconds: 1_700_000_000, nanoseconds: 5 });
        let owner = Owner { user_id: 7, group_id: 8, user: (*b"ada").into(), group: [].into() };
        let attribute = |namespace, name: &[u8], value: &[u8]| Attribute { namespace, name: name.into(), value: value.into() };
        file.metadata = Arc::new(Metadata {
            owner: Some(owner),
            attributes: Arc::new([attribute(Namespace::User, b"licence", b"MIT"), attribute(Namespace::Xattr, b"user.x", b"y")]),
            ..Metadata::default()
        });
        for (text, expected) in [
            ("size > 1M", true),
            ("size>1M and name ~ \"*.json\" and not type = d", true),
            ("size <= 2M", true),
            ("size < 2M or size != 2M", false),
            ("size == 2M", true),
            ("stored = 512K", true),
            ("ratio = 25%", true),
            ("ratio <= 0.25 and ratio > 0.2499", true),
            ("ratio < 25.0%", false),
            ("name = 'a b.json'", true),
            ("name ~ 'a?b*'", true),
            ("name !~ *.json", false),
            ("path ~ docs", true),
            ("path ~ /*.json", false),
            ("path != \"docs/a b.json\"", false),
            ("newer @1700000000 and older @1700000001", true),
            ("modified > @1700000000", true),
            ("modified <= @1700000000", false),
            ("type = file", true),
            ("kind != f", false),
            ("user = ada", true),
            ("group = ada or group != ada", false),
            ("target ~ *", false),
            ("attr licence", true),
            ("attr licence = MIT", true),
            ("attr licence~[ML]*", true),
            ("attr user.x", true),
            ("attr user.x = y", true),
            ("attr user.y", false),
            ("attr other != MIT", false),
            ("not attr other", true),
            ("(size > 3M or type = f) and (not (name = x))", true),
            ("size > 3M or type = f and name = x", false),
            ("not not type = f", true),
            ("name = and or name = or or type = f", true),
            ("has text", true),
            ("has 'T.xt'", false),
            ("is intact and not is damaged", true),
        ] {
            assert_eq!(matches(text, &file), expected, "{text}");
        }
        let directory = entry("docs", Kind::Directory, 0);
        for text in [
            "size = 0",
            "size != 1",
            "stored >= 0",
            "ratio >= 0",
            "modified != @0",
            "older 1s",
            "has text",
            "is intact",
            "is damaged",
        ] {
            assert!(!matches(text, &directory) && matches(&format!("not {text}"), &directory), "{text}");
        }
    }

    #[test]
    fn facts_are_looked_up_only_if_they_decide() {
        let query = "name = x and (ratio > 1 or has x) or type = d and (type = d or stored > 1 or is damaged)";
        let query = Query::parse_expression(query).unwrap();
        assert!(query.matches(&entry("d", Kind::Directory, 0), &NoFacts).unwrap());
    }

    #[test]
    fn queries_are_joined_by_and() {
        let large = Condition::from(Test::Size(Comparison::AtLeast, 10));
        let query = Query::all().and(large.into()).and(Query::parse_expression("name = a or name = b").unwrap());
        for (path, size, expected) in [("a", 10, true), ("b", 11, true), ("a", 9, false), ("c", 10, false)] {
            assert_eq!(query.matches(&entry(path, Kind::File, size), &NoFacts), Ok(expected), "{path} {size}");
        }
        assert_eq!(Query::all().matches(&entry("x", Kind::Directory, 0), &NoFacts), Ok(true));
        assert!(Query::parse_terms("is:duplicate").unwrap().and(Query::all()).duplicates_only);
    }

    /// An expression with its expected result for the entry of the property test.
    fn expression() -> impl Strategy<Value = (String, bool)> {
        let size = 100u64;
        let test = prop_oneof![
            (0u64..200, 0usize..6).prop_map(move |(value, operator)| {
                let (sign, expected) = [
                    ("<", size < value),
                    ("<=", size <= value),
                    ("=", size == value),
                    ("!=", size != value),
                    (">=", size >= value),
                    (">", size > value),
                ][operator];
                (format!("size {sign} {value}"), expected)
            }),
            any::<bool>().prop_map(|file| (format!("type = {}", if file { "f" } else { "d" }), file)),
            "[ab]{1,2}".prop_map(|name| (format!("name ~ '{name}*'"), "ab".starts_with(&name))),
        ];
        test.prop_recursive(5, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| {
                    let texts: Vec<String> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                    (texts.join(" and "), parts.iter().all(|(_, expected)| *expected))
                }),
                prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| {
                    let texts: Vec<String> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                    (texts.join(" or "), parts.iter().any(|(_, expected)| *expected))
                }),
                inner.prop_map(|(text, expected)| (format!("not ({text})"), !expected)),
            ]
        })
    }

    proptest! {
        #[test]
        fn nested_expressions_combine_their_parts((text, expected) in expression()) {
            prop_assert_eq!(matches(&text, &entry("ab", Kind::File, 100)), expected, "{}", text);
        }

        #[test]
        fn parsing_arbitrary_text_does_not_panic(text in "\\PC{0,40}") {
            let _ = Query::parse_expression(&text);
        }

        #[test]
        fn parsing_shuffled_tokens_does_not_panic(
            words in prop::collection::vec(
                prop::sample::select(vec!["size", "name", "attr", "has", "is", "not", "and", "or", "(", ")", "=", "~", "!", "'", "\"", "\\", "1", "é", " "]),
                0..30,
            ),
        ) {
            let _ = Query::parse_expression(&words.concat());
            let _ = Query::parse_expression(&words.join(" "));
        }
    }
}
