//! Text into [`Expression`]: one pass, no table of tokens, because what a word means depends on where it stands (`name = and`).

use std::fmt;

use clap::ValueEnum;
use globset::GlobBuilder;

use super::super::KindArg;
use super::{Expression, Field, Matcher, Order, RATIO_UNIT, Test};
use nra_convert::select::Selection;
use nra_format::path::Quoted;

/// Deepest nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;
/// Longest text, bytes.
const MAX_LENGTH: usize = 64 << 10;
/// Most of the rest of the text that a message shows, characters.
const SHOWN: usize = 24;

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Fault {
    /// What is wrong.
    what: String,
    /// Number of the character at which it begins, from 1.
    at: usize,
    /// What stands there.
    rest: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at ", self.what)?;
        if self.rest.is_empty() {
            return f.write_str("its end");
        }
        write!(f, "character {}: {}", self.at, Quoted::new(self.rest.as_bytes()))
    }
}

impl std::error::Error for Fault {}

/// Reads an expression.
///
/// # Errors
///
/// What is wrong with it, and where.
pub(in super::super) fn parse(text: &str) -> Result<Expression, Fault> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    if text.len() > MAX_LENGTH {
        return Err(parser.fault(0, format!("it has more than {MAX_LENGTH} bytes")));
    }
    let expression = parser.any()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.fault(parser.at, "and or or is missing"));
    }
    Ok(expression)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// What stands between a field and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Order(Order),
    /// The text matches, or does not.
    Match(bool),
}

const OPERATORS: [(&str, Operator); 9] = [
    ("<=", Operator::Order(Order::AtMost)),
    (">=", Operator::Order(Order::AtLeast)),
    ("!=", Operator::Order(Order::NotEqual)),
    ("==", Operator::Order(Order::Equal)),
    ("!~", Operator::Match(false)),
    ("<", Operator::Order(Order::Less)),
    (">", Operator::Order(Order::More)),
    ("=", Operator::Order(Order::Equal)),
    ("~", Operator::Match(true)),
];

impl<'a> Parser<'a> {
    fn fault(&self, at: usize, what: impl Into<String>) -> Fault {
        let rest = self.text[at..].chars().take(SHOWN).collect();
        Fault { what: what.into(), at: self.text[..at].chars().count() + 1, rest }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Returns the word that comes next, without taking it.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())]
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn any(&mut self) -> Result<Expression, Fault> {
        let mut parts = vec![self.all()?];
        while self.takes_word("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self) -> Result<Expression, Fault> {
        let mut parts = vec![self.one()?];
        while self.takes_word("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expression::All(parts) })
    }

    fn one(&mut self) -> Result<Expression, Fault> {
        self.skip_space();
        let start = self.at;
        if self.depth == MAX_DEPTH {
            return Err(self.fault(start, format!("it nests deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let expression = if self.takes_word("not") {
            Expression::Not(Box::new(self.one()?))
        } else if self.rest().starts_with('(') {
            self.at += 1;
            let inner = self.any()?;
            self.skip_space();
            if !self.rest().starts_with(')') {
                return Err(self.fault(self.at, ") is missing"));
            }
            self.at += 1;
            inner
        } else {
            Expression::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn test(&mut self) -> Result<Test, Fault> {
        let word = self.word();
        let start = self.at;
        self.at += word.len();
        match word {
            "newer" | "older" => {
                let order = if word == "newer" { Order::AtLeast } else { Order::Less };
                Ok(Test::Modified(order, self.value_as(nra_text::parse_time)?))
            }
            "attr" => self.attribute(),
            "size" => Ok(Test::Size(self.order("size")?, self.value_as(nra_text::parse_size)?)),
            "stored" => Ok(Test::Stored(self.order("stored")?, self.value_as(nra_text::parse_size)?)),
            "ratio" => Ok(Test::Ratio(self.order("ratio")?, self.value_as(parse_ratio)?)),
            "modified" => Ok(Test::Modified(self.order("modified")?, self.value_as(nra_text::parse_time)?)),
            "type" | "kind" => {
                self.skip_space();
                let start = self.at;
                match self.operator()? {
                    Operator::Order(order @ (Order::Equal | Order::NotEqual)) => {
                        let kind = |text: &str| {
                            KindArg::from_str(text, false)
                                .map_err(|_| "not a kind (f file, d directory, l symlink, p fifo, c, b device)".to_owned())
                        };
                        Ok(Test::Type(self.value_as(kind)?.kind(), order == Order::Equal))
                    }
                    _ => Err(self.fault(start, format!("{word} goes with = and !=, not with this"))),
                }
            }
            "name" => self.text_test(Field::Name),
            "path" => self.text_test(Field::Path),
            "target" => self.text_test(Field::Target),
            "user" => self.text_test(Field::User),
            "group" => self.text_test(Field::Group),
            _ => {
                let fields = "size, stored, ratio, modified, type, name, path, target, user, group, attr, newer, older";
                Err(self.fault(start, format!("a test is missing (one of {fields})")))
            }
        }
    }

    fn attribute(&mut self) -> Result<Test, Fault> {
        let name = self.value("a NAME", |c| c.is_whitespace() || matches!(c, ')' | '=' | '~' | '!' | '<' | '>'))?.1.into_bytes();
        self.skip_space();
        if self.rest().starts_with(['=', '~', '!', '<', '>']) {
            self.text_test(Field::Attribute(name))
        } else {
            Ok(Test::Attribute(name))
        }
    }

    fn text_test(&mut self, field: Field) -> Result<Test, Fault> {
        self.skip_space();
        let start = self.at;
        match self.operator()? {
            Operator::Order(order @ (Order::Equal | Order::NotEqual)) => {
                let value = self.any_value()?.1.into_bytes();
                Ok(Test::Text(field, Matcher::Exactly(value), order == Order::Equal))
            }
            Operator::Order(_) => Err(self.fault(start, "text goes with =, !=, ~ and !~, not with this")),
            Operator::Match(wanted) => {
                let (at, value) = self.any_value()?;
                let matcher = if field == Field::Path {
                    let selection = Selection::new([value.as_bytes()]).map_err(|error| self.fault(at, error.to_string()))?;
                    Matcher::Pattern(Box::new(selection))
                } else {
                    let glob = GlobBuilder::new(&value).backslash_escape(true).build();
                    let glob = glob.map_err(|error| {
                        self.fault(at, format!("not a glob: {}", nra_text::harmless(&error.kind().to_string())))
                    })?;
                    Matcher::Glob(Box::new(glob.compile_matcher()))
                };
                Ok(Test::Text(field, matcher, wanted))
            }
        }
    }

    /// Takes an operator that orders.
    fn order(&mut self, field: &str) -> Result<Order, Fault> {
        self.skip_space();
        let start = self.at;
        match self.operator()? {
            Operator::Order(order) => Ok(order),
            Operator::Match(_) => Err(self.fault(start, format!("{field} is no text: it goes with =, !=, <, <=, > and >="))),
        }
    }

    fn operator(&mut self) -> Result<Operator, Fault> {
        self.skip_space();
        let found = OPERATORS.iter().find(|(sign, _)| self.rest().starts_with(sign));
        let (sign, operator) = found.ok_or_else(|| self.fault(self.at, "one of =, !=, <, <=, >, >=, ~, !~ is missing"))?;
        self.at += sign.len();
        Ok(*operator)
    }

    fn value_as<T>(&mut self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Fault> {
        let (at, value) = self.any_value()?;
        read(&value).map_err(|why| self.fault(at, why))
    }

    fn any_value(&mut self) -> Result<(usize, String), Fault> {
        self.value("a value", |c| c.is_whitespace() || c == ')')
    }

    /// Takes a value, in quotes or up to a character that ends it; returns where it began, too.
    fn value(&mut self, what: &str, ends: impl Fn(char) -> bool) -> Result<(usize, String), Fault> {
        self.skip_space();
        let start = self.at;
        let rest = self.rest();
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let length = rest.find(ends).unwrap_or(rest.len());
            if length == 0 {
                return Err(self.fault(start, format!("{what} is missing")));
            }
            self.at += length;
            return Ok((start, rest[..length].to_owned()));
        };
        let mut value = String::new();
        let mut characters = rest.char_indices().skip(1).peekable();
        while let Some((place, character)) = characters.next() {
            if character == quote {
                self.at = start + place + 1;
                return Ok((start, value));
            }
            // A backslash is one of the value, unless a quote is behind it.
            match characters.next_if(|(_, next)| character == '\\' && *next == quote) {
                Some(_) => value.push(quote),
                None => value.push(character),
            }
        }
        Err(self.fault(start, format!("{quote} at its end is missing")))
    }
}

/// Reads `0.9`, `1` or `90%` in parts of [`RATIO_UNIT`].
fn parse_ratio(text: &str) -> Result<u64, String> {
    let bad = || "not a ratio (examples: 0.5, 50%)".to_owned();
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

    fn fault(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn faults_say_what_and_where() {
        for (text, expected) in [
            ("size >", "a value is missing, at its end"),
            ("size 5", "one of =, !=, <, <=, >, >=, ~, !~ is missing, at character 6: 5"),
            ("size ~ 5", "size is no text: it goes with =, !=, <, <=, > and >=, at character 6: '~ 5'"),
            ("(size > 5", ") is missing, at its end"),
            ("size > 5)", "and or or is missing, at character 9: ')'"),
            ("size > 5 name = x", "and or or is missing, at character 10: 'name = x'"),
            ("size > 1.2.3", "not a size (examples: 4096, 64K, 1.5G), at character 8: 1.2.3"),
            ("ratio > -1", "not a ratio (examples: 0.5, 50%), at character 9: -1"),
            ("name = \"x", "\" at its end is missing, at character 8: '\"x'"),
            ("attr = x", "a NAME is missing, at character 6: '= x'"),
            ("name < x", "text goes with =, !=, ~ and !~, not with this, at character 6: '< x'"),
            ("type ~ f", "type goes with = and !=, not with this, at character 6: '~ f'"),
        ] {
            assert_eq!(fault(text), expected, "{text}");
        }
        assert!(fault("").starts_with("a test is missing (one of size, "));
        assert!(fault("größe > 5").ends_with("), at character 1: 'größe > 5'"));
        assert!(fault("name ~ [").starts_with("not a glob: "));
        assert!(fault("type = é").starts_with("not a kind"));
        assert!(fault(&"x".repeat(MAX_LENGTH + 1)).starts_with("it has more than"));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}type = f{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(MAX_DEPTH - 1)).is_ok());
        assert!(fault(&nested(MAX_DEPTH)).starts_with("it nests deeper"));
        assert!(fault(&"not ".repeat(10_000)).starts_with("it nests deeper"));
        assert!(parse(&vec!["(type = f)"; 1_000].join(" and ")).is_ok());
    }

    #[test]
    fn ratios_are_exact() {
        for (text, parts) in [("1", 1_000_000), ("0.25", 250_000), ("25%", 250_000), ("12.5%", 125_000), ("0.1234567", 123_456)] {
            assert_eq!(parse_ratio(text), Ok(parts), "{text}");
        }
        for text in ["", "%", ".", "1.", "-1", "+1", "1e3", "99999999999999999999"] {
            assert!(parse_ratio(text).is_err(), "{text}");
        }
    }
}
