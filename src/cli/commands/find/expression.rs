//! The language of `--expr`: tests over one entry, joined by `and`, `or`, `not` and parentheses.
//!
//! ```text
//! expr  = all { "or" all }
//! all   = one { "and" one }
//! one   = "not" one | "(" expr ")" | test
//! test  = FIELD OP VALUE | "newer" TIME | "older" TIME | "attr" NAME [ OP VALUE ]
//! FIELD = size | stored | ratio | modified | type | name | path | target | user | group
//! OP    = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
//! ```
//!
//! A test about something that an entry does not have is false, whatever the operator. Nesting and length are bounded, so that the text may come
//! from anybody.

mod parse;

use std::cmp::Ordering;

use globset::{Candidate, GlobMatcher};

use crate::report::CommandResult;
use nra_convert::select::Selection;
use nra_format::entry::{Entry, Kind, Timestamp};

pub(super) use self::parse::{Fault, parse};

/// Parts of a whole that ratios are counted in.
const RATIO_UNIT: u64 = 1_000_000;

/// A condition on entries.
#[derive(Debug)]
pub(super) enum Expression {
    /// All of these hold.
    All(Vec<Expression>),
    /// One of these holds.
    Any(Vec<Expression>),
    /// This does not hold.
    Not(Box<Expression>),
    /// This holds.
    Test(Test),
}

/// One test.
#[derive(Debug)]
pub(super) enum Test {
    /// Length of the content of a file, bytes.
    Size(Order, u64),
    /// What its content takes in the archive, bytes.
    Stored(Order, u64),
    /// The second by the first, in parts of a million.
    Ratio(Order, u64),
    /// Time of modification.
    Modified(Order, Timestamp),
    /// The kind is this one, or is not.
    Type(Kind, bool),
    /// The text of a field matches, or does not.
    Text(Field, Matcher, bool),
    /// There is an attribute of this name.
    Attribute(Vec<u8>),
}

/// How a quantity compares with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    AtMost,
    Equal,
    NotEqual,
    AtLeast,
    More,
}

impl Order {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::AtLeast => ordering.is_ge(),
            Self::More => ordering.is_gt(),
        }
    }
}

/// A part of an entry that is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    /// The last part of the path.
    Name,
    /// The whole path.
    Path,
    /// Where a symlink leads.
    Target,
    /// Name of the user that owns it.
    User,
    /// Name of the group that owns it.
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

/// Values of the attributes of this name, of whatever origin.
fn attributes<'a>(entry: &'a Entry, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    entry.metadata.attributes.iter().filter(move |attribute| *attribute.name == *name).map(|attribute| &*attribute.value)
}

/// What text is compared with.
#[derive(Debug)]
pub(super) enum Matcher {
    /// It is exactly this.
    Exactly(Vec<u8>),
    /// A glob over the whole text, in which `*` matches `/` too.
    Glob(Box<GlobMatcher>),
    /// A PATTERN over a path: a directory brings all below it.
    Pattern(Box<Selection>),
}

impl Expression {
    /// Says whether it holds for an entry. What its content takes in the archive is asked for only when that decides.
    ///
    /// # Errors
    ///
    /// What `stored` gives.
    pub(super) fn holds(&self, entry: &Entry, stored: &dyn Fn(&Entry) -> CommandResult<Option<u64>>) -> CommandResult<bool> {
        // As deep as the parser allows.
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(entry, stored)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(entry, stored)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(part) => Ok(!part.holds(entry, stored)?),
            Self::Test(test) => test.holds(entry, stored),
        }
    }
}

impl Test {
    fn holds(&self, entry: &Entry, stored: &dyn Fn(&Entry) -> CommandResult<Option<u64>>) -> CommandResult<bool> {
        let is_file = entry.kind == Kind::File;
        Ok(match self {
            Self::Size(order, value) => is_file && order.holds(entry.size.cmp(value)),
            Self::Stored(order, value) => is_file && stored(entry)?.is_some_and(|stored| order.holds(stored.cmp(value))),
            Self::Ratio(order, value) => {
                is_file
                    && entry.size > 0
                    && stored(entry)?.is_some_and(|stored| {
                        let whole = u128::from(entry.size) * u128::from(*value);
                        order.holds((u128::from(stored) * u128::from(RATIO_UNIT)).cmp(&whole))
                    })
            }
            Self::Modified(order, value) => entry.modified.is_some_and(|time| order.holds(time.cmp(value))),
            Self::Type(kind, wanted) => (entry.kind == *kind) == *wanted,
            Self::Text(field, matcher, wanted) => field.of(entry).is_some_and(|text| matcher.matches(text, entry) == *wanted),
            Self::Attribute(name) => attributes(entry, name).next().is_some(),
        })
    }
}

impl Matcher {
    fn matches(&self, text: &[u8], entry: &Entry) -> bool {
        match self {
            Self::Exactly(wanted) => text == wanted,
            Self::Glob(glob) => glob.is_match_candidate(&Candidate::from_bytes(text)),
            Self::Pattern(selection) => selection.matches(entry),
        }
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

    fn holds(text: &str, entry: &Entry) -> bool {
        // A quarter of the content is stored.
        parse(text).unwrap().holds(entry, &|entry| Ok(Some(entry.size / 4))).unwrap()
    }

    #[test]
    fn tests_mean_what_they_say() {
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
        ] {
            assert_eq!(holds(text, &file), expected, "{text}");
        }
        let directory = entry("docs", Kind::Directory, 0);
        for text in ["size = 0", "size != 1", "stored >= 0", "ratio >= 0", "modified != @0", "older 1s"] {
            assert!(!holds(text, &directory) && holds(&format!("not {text}"), &directory), "{text}");
        }
    }

    #[test]
    fn what_is_stored_is_asked_for_only_when_it_decides() {
        let never = |_: &Entry| -> CommandResult<Option<u64>> { panic!("asked") };
        let expression = parse("name = x and ratio > 1 or type = d and (type = d or stored > 1)").unwrap();
        assert!(expression.holds(&entry("d", Kind::Directory, 0), &never).unwrap());
    }

    /// An expression as text, and what it gives for the entry of the property.
    fn expression() -> impl Strategy<Value = (String, bool)> {
        let size = 100u64;
        let test = prop_oneof![
            (0u64..200, 0usize..6).prop_map(move |(value, operator)| {
                let (sign, holds) = [
                    ("<", size < value),
                    ("<=", size <= value),
                    ("=", size == value),
                    ("!=", size != value),
                    (">=", size >= value),
                    (">", size > value),
                ][operator];
                (format!("size {sign} {value}"), holds)
            }),
            any::<bool>().prop_map(|file| (format!("type = {}", if file { "f" } else { "d" }), file)),
            "[ab]{1,2}".prop_map(|name| (format!("name ~ '{name}*'"), "ab".starts_with(&name))),
        ];
        test.prop_recursive(5, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| {
                    let texts: Vec<String> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                    (texts.join(" and "), parts.iter().all(|(_, holds)| *holds))
                }),
                prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| {
                    let texts: Vec<String> = parts.iter().map(|(text, _)| format!("({text})")).collect();
                    (texts.join(" or "), parts.iter().any(|(_, holds)| *holds))
                }),
                inner.prop_map(|(text, holds)| (format!("not ({text})"), !holds)),
            ]
        })
    }

    proptest! {
        #[test]
        fn expressions_give_what_their_parts_give((text, expected) in expression()) {
            prop_assert_eq!(holds(&text, &entry("ab", Kind::File, 100)), expected, "{}", text);
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn nothing_made_of_its_words_is_too_odd(
            words in prop::collection::vec(
                prop::sample::select(vec!["size", "name", "attr", "not", "and", "or", "(", ")", "=", "~", "!", "'", "\"", "\\", "1", "é", " "]),
                0..30,
            ),
        ) {
            let _ = parse(&words.concat());
            let _ = parse(&words.join(" "));
        }
    }
}
