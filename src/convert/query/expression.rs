//! Parses expressions into a [`Condition`].
//!
//! ```text
//! expr  = all { "or" all }
//! all   = one { "and" one }
//! one   = "not" one | "(" expr ")" | test
//! test  = FIELD OP VALUE | "newer" TIME | "older" TIME | "attr" NAME [ OP VALUE ] | "has" REGEX | "is" STATE
//! FIELD = size | stored | ratio | modified | type | name | path | target | user | group
//! OP    = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
//! STATE = intact | damaged
//! ```
//!
//! The parser makes one pass without a tokenizer, because the meaning of a word depends on its
//! position (`name = and`). It limits length and nesting, because the text may be untrusted.

use std::fmt;
use std::sync::Arc;

use super::{Comparison, Condition, Field, Matcher, RATIO_UNIT, Test, content, parse_kind};
use crate::select::Selection;
use nra_format::path::Quoted;

/// Deepest nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;
/// Longest text, bytes.
const MAX_LENGTH: usize = 64 << 10;
/// Longest part of the text that a message shows, characters.
const SHOWN: usize = 24;

/// An expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The reason.
    message: String,
    /// Number of the character at which the error begins, from 1.
    at: usize,
    /// The text from there on, shortened.
    rest: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rest.is_empty() {
            return write!(f, "{} at the end", self.message);
        }
        write!(f, "{} at character {}: {}", self.message, self.at, Quoted::new(self.rest.as_bytes()))
    }
}

impl std::error::Error for ParseError {}

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Condition, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    if text.len() > MAX_LENGTH {
        return Err(parser.error(0, format!("longer than {MAX_LENGTH} bytes")));
    }
    let condition = parser.any()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.error(parser.at, "expected 'and' or 'or'"));
    }
    Ok(condition)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// The operator between a field and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Compare(Comparison),
    /// The text matches (`true`) or does not (`false`).
    Match(bool),
}

const OPERATORS: [(&str, Operator); 9] = [
    ("<=", Operator::Compare(Comparison::AtMost)),
    (">=", Operator::Compare(Comparison::AtLeast)),
    ("!=", Operator::Compare(Comparison::NotEqual)),
    ("==", Operator::Compare(Comparison::Equal)),
    ("!~", Operator::Match(false)),
    ("<", Operator::Compare(Comparison::Less)),
    (">", Operator::Compare(Comparison::Greater)),
    ("=", Operator::Compare(Comparison::Equal)),
    ("~", Operator::Match(true)),
];

impl<'a> Parser<'a> {
    fn error(&self, at: usize, message: impl Into<String>) -> ParseError {
        let rest = self.text[at..].chars().take(SHOWN).collect();
        ParseError { message: message.into(), at: self.text[..at].chars().count() + 1, rest }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Returns the next word without consuming it.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())]
    }

    fn consume_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn any(&mut self) -> Result<Condition, ParseError> {
        let mut parts = vec![self.all()?];
        while self.consume_word("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self) -> Result<Condition, ParseError> {
        let mut parts = vec![self.one()?];
        while self.consume_word("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Condition::All(parts) })
    }

    fn one(&mut self) -> Result<Condition, ParseError> {
        self.skip_space();
        let start = self.at;
        if self.depth == MAX_DEPTH {
            return Err(self.error(start, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        self.depth += 1;
        let condition = if self.consume_word("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.rest().starts_with('(') {
            self.at += 1;
            let inner = self.any()?;
            self.skip_space();
            if !self.rest().starts_with(')') {
                return Err(self.error(self.at, "expected ')'"));
            }
            self.at += 1;
            inner
        } else {
            Condition::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Test, ParseError> {
        let word = self.word();
        let start = self.at;
        self.at += word.len();
        match word {
            "newer" | "older" => {
                let comparison = if word == "newer" { Comparison::AtLeast } else { Comparison::Less };
                Ok(Test::Modified(comparison, self.value_as(nra_text::parse_time)?))
            }
            "attr" => self.attribute(),
            "has" => Ok(Test::Content(self.value_as(content::regex)?)),
            "is" => Ok(Test::Intact(self.value_as(parse_state)?)),
            "size" => Ok(Test::Size(self.comparison("size")?, self.value_as(nra_text::parse_size)?)),
            "stored" => Ok(Test::Stored(self.comparison("stored")?, self.value_as(nra_text::parse_size)?)),
            "ratio" => Ok(Test::Ratio(self.comparison("ratio")?, self.value_as(parse_ratio)?)),
            "modified" => Ok(Test::Modified(self.comparison("modified")?, self.value_as(nra_text::parse_time)?)),
            "type" | "kind" => {
                self.skip_space();
                let start = self.at;
                match self.operator()? {
                    Operator::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual)) => {
                        Ok(Test::Kind(self.value_as(parse_kind)?, comparison == Comparison::Equal))
                    }
                    _ => Err(self.error(start, format!("{word} supports only = and !="))),
                }
            }
            "name" => self.text_test(Field::Name),
            "path" => self.text_test(Field::Path),
            "target" => self.text_test(Field::Target),
            "user" => self.text_test(Field::User),
            "group" => self.text_test(Field::Group),
            _ => {
                let fields =
                    "size, stored, ratio, modified, type, name, path, target, user, group, attr, newer, older, has or is";
                Err(self.error(start, format!("expected a test ({fields})")))
            }
        }
    }

    fn attribute(&mut self) -> Result<Test, ParseError> {
        let name = self
            .value("an attribute name", |c| c.is_whitespace() || matches!(c, ')' | '=' | '~' | '!' | '<' | '>'))?
            .1
            .into_bytes();
        self.skip_space();
        if self.rest().starts_with(['=', '~', '!', '<', '>']) {
            self.text_test(Field::Attribute(name))
        } else {
            Ok(Test::Attribute(name))
        }
    }

    fn text_test(&mut self, field: Field) -> Result<Test, ParseError> {
        self.skip_space();
        let start = self.at;
        match self.operator()? {
            Operator::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual)) => {
                let value = self.any_value()?.1.into_bytes();
                Ok(Test::Text(field, Matcher::Equals(value), comparison == Comparison::Equal))
            }
            Operator::Compare(_) => Err(self.error(start, "text supports only =, !=, ~ and !~")),
            Operator::Match(wanted) => {
                let (at, value) = self.any_value()?;
                let matcher = if field == Field::Path {
                    let selection = Selection::new([value.as_bytes()]).map_err(|error| self.error(at, error.to_string()))?;
                    Matcher::Selected(Arc::new(selection))
                } else {
                    Matcher::glob(&value).map_err(|error| self.error(at, error))?
                };
                Ok(Test::Text(field, matcher, wanted))
            }
        }
    }

    /// Parses an operator that compares quantities.
    fn comparison(&mut self, field: &str) -> Result<Comparison, ParseError> {
        self.skip_space();
        let start = self.at;
        match self.operator()? {
            Operator::Compare(comparison) => Ok(comparison),
            Operator::Match(_) => Err(self.error(start, format!("{field} supports only =, !=, <, <=, > and >="))),
        }
    }

    fn operator(&mut self) -> Result<Operator, ParseError> {
        self.skip_space();
        let found = OPERATORS.iter().find(|(sign, _)| self.rest().starts_with(sign));
        let (sign, operator) = found.ok_or_else(|| self.error(self.at, "expected an operator (=, !=, <, <=, >, >=, ~ or !~)"))?;
        self.at += sign.len();
        Ok(*operator)
    }

    fn value_as<T>(&mut self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, ParseError> {
        let (at, value) = self.any_value()?;
        read(&value).map_err(|why| self.error(at, why))
    }

    fn any_value(&mut self) -> Result<(usize, String), ParseError> {
        self.value("a value", |c| c.is_whitespace() || c == ')')
    }

    /// Parses a value, in quotes or up to a character that ends it. Returns its position, too.
    fn value(&mut self, what: &str, ends: impl Fn(char) -> bool) -> Result<(usize, String), ParseError> {
        self.skip_space();
        let start = self.at;
        let rest = self.rest();
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let length = rest.find(ends).unwrap_or(rest.len());
            if length == 0 {
                return Err(self.error(start, format!("expected {what}")));
            }
            self.at += length;
            return Ok((start, rest[..length].to_owned()));
        };
        let mut value = String::new();
        let mut characters = rest.char_indices().skip(1).peekable();
        while let Some((offset, character)) = characters.next() {
            if character == quote {
                self.at = start + offset + 1;
                return Ok((start, value));
            }
            // A backslash escapes only the quote.
            match characters.next_if(|(_, next)| character == '\\' && *next == quote) {
                Some(_) => value.push(quote),
                None => value.push(character),
            }
        }
        Err(self.error(start, format!("missing closing {quote}")))
    }
}

/// Parses `intact` (`true`) or `damaged` (`false`).
fn parse_state(text: &str) -> Result<bool, String> {
    match text {
        "intact" => Ok(true),
        "damaged" => Ok(false),
        _ => Err("unknown state (use intact or damaged)".to_owned()),
    }
}

/// Parses `0.9`, `1` or `90%` into units of 1/[`RATIO_UNIT`].
fn parse_ratio(text: &str) -> Result<u64, String> {
    let bad = || "invalid ratio (examples: 0.5, 50%)".to_owned();
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), RATIO_UNIT / 100),
        None => (text, RATIO_UNIT),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = usize::try_from(unit.ilog10()).expect("at most 6");
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(bad());
    }
    let fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(digits).collect();
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit)).ok_or_else(bad)?;
    whole.checked_add(fraction.parse().map_err(|_| bad())?).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_problem_and_position() {
        for (text, expected) in [
            ("size >", "expected a value at the end"),
            ("size 5", "expected an operator (=, !=, <, <=, >, >=, ~ or !~) at character 6: 5"),
            ("size ~ 5", "size supports only =, !=, <, <=, > and >= at character 6: '~ 5'"),
            ("(size > 5", "expected ')' at the end"),
            ("size > 5)", "expected 'and' or 'or' at character 9: ')'"),
            ("size > 5 name = x", "expected 'and' or 'or' at character 10: 'name = x'"),
            ("size > 1.2.3", "invalid size (examples: 4096, 64K, 1.5G) at character 8: 1.2.3"),
            ("ratio > -1", "invalid ratio (examples: 0.5, 50%) at character 9: -1"),
            ("name = \"x", "missing closing \" at character 8: '\"x'"),
            ("attr = x", "expected an attribute name at character 6: '= x'"),
            ("name < x", "text supports only =, !=, ~ and !~ at character 6: '< x'"),
            ("type ~ f", "type supports only = and != at character 6: '~ f'"),
            ("is new", "unknown state (use intact or damaged) at character 4: new"),
            ("has (", "invalid regular expression at character 5: '('"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
        assert!(error("").starts_with("expected a test (size, "));
        assert!(error("größe > 5").ends_with(") at character 1: 'größe > 5'"));
        assert!(error("name ~ [").starts_with("invalid glob: "));
        assert!(error("type = é").starts_with("unknown type"));
        assert!(error(&"x".repeat(MAX_LENGTH + 1)).starts_with("longer than"));
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let nested = |depth: usize| format!("{}type = f{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(MAX_DEPTH - 1)).is_ok());
        assert!(error(&nested(MAX_DEPTH)).starts_with("nested more than"));
        assert!(error(&"not ".repeat(10_000)).starts_with("nested more than"));
        assert!(parse(&vec!["(type = f)"; 1_000].join(" and ")).is_ok());
    }

    #[test]
    fn ratios_are_parsed_exactly() {
        for (text, parts) in [("1", 1_000_000), ("0.25", 250_000), ("25%", 250_000), ("12.5%", 125_000), ("0.1234567", 123_456)] {
            assert_eq!(parse_ratio(text), Ok(parts), "{text}");
        }
        for text in ["", "%", ".", "1.", "-1", "+1", "1e3", "99999999999999999999"] {
            assert!(parse_ratio(text).is_err(), "{text}");
        }
    }
}
