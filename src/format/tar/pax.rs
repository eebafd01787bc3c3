//! Records of pax headers: `length key=value`, one a line.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::sparse::{self, Segment};
use nra_core::entry::Timestamp;
use nra_core::error::{Error, Result};

/// Memory that a record takes beside its key and value, bytes.
const RECORD_BYTES: u64 = 64;

/// What pax headers say of the entries that follow: all of them, or the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Memory that `values` takes, bytes.
    bytes: u64,
    /// Pairs of `GNU.sparse.offset` and `GNU.sparse.numbytes`, whose order counts.
    pub(super) sparse: Vec<Segment>,
    sparse_offset: Option<u64>,
}

/// What is wrong with a header: a sentence about it, or an error.
#[derive(Debug)]
pub(super) enum Wrong {
    Detail(String),
    Error(Error),
}

impl Wrong {
    /// Returns the error for a structure at this offset of the archive.
    pub(super) fn at(self, structure: &'static str, offset: u64) -> Error {
        match self {
            Self::Detail(detail) => Error::corrupt(structure, offset, detail),
            Self::Error(error) => error,
        }
    }
}

impl From<&str> for Wrong {
    fn from(detail: &str) -> Self {
        Self::Detail(detail.into())
    }
}

impl From<String> for Wrong {
    fn from(detail: String) -> Self {
        Self::Detail(detail)
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Records {
    /// Adds the records of one header; later ones replace earlier ones. All that hold together may take `limit` bytes.
    ///
    /// # Errors
    ///
    /// A sentence about the first record that is wrong; `Limit`.
    pub(super) fn parse(&mut self, mut bytes: &[u8], limit: u64) -> Result<(), Wrong> {
        // Some programs pad with NUL bytes or blank lines.
        while let Some((&first, rest)) = bytes.split_first() {
            if first == b'\n' || first == 0 {
                bytes = rest;
                continue;
            }
            let space = bytes.iter().take(20).position(|&byte| byte == b' ').ok_or("a record without a length")?;
            let digits = &bytes[..space];
            let number = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
            let len: usize = number.and_then(|digits| digits.parse().ok()).ok_or("a record without a length")?;
            if len <= space + 1 || len > bytes.len() {
                return Err(format!("a record of {len} bytes, where {} are left", bytes.len()).into());
            }
            let (record, rest) = bytes.split_at(len);
            bytes = rest;
            let record = record[space + 1..].strip_suffix(b"\n").ok_or("a record that does not end with its line")?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or("a record without '='")?;
            self.set(&record[..equals], &record[equals + 1..])?;
            if self.bytes > limit {
                return Err(Error::Limit { what: "memory for pax records", found: self.bytes, limit }.into());
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Wrong> {
        match key {
            b"GNU.sparse.offset" => self.sparse_offset = Some(number(value).ok_or("a wrong sparse offset")?),
            b"GNU.sparse.numbytes" => {
                let offset = self.sparse_offset.take().ok_or("a sparse length without its offset")?;
                sparse::push(&mut self.sparse, (offset, number(value).ok_or("a wrong sparse length")?))?;
            }
            _ => {
                let memory = |value: &[u8]| RECORD_BYTES + (key.len() + value.len()) as u64;
                // An empty value takes back what was said before.
                let former = if value.is_empty() && !key.starts_with(b"SCHILY.xattr.") {
                    self.values.remove(key)
                } else {
                    self.bytes += memory(value);
                    self.values.insert(key.into(), value.into())
                };
                self.bytes -= former.map_or(0, |former| memory(&former));
            }
        }
        Ok(())
    }

    /// Returns whether anything is said.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.sparse.is_empty()
    }

    /// Returns a value.
    pub(super) fn get(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.values.get(key.as_ref()).map(|value| &**value)
    }

    /// Returns a value that is a number.
    ///
    /// # Errors
    ///
    /// A sentence when it is none.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Wrong> {
        self.get(key).map(|value| number(value).ok_or_else(|| format!("{key} is not a number").into())).transpose()
    }

    /// Returns a value that is a time.
    pub(super) fn time(&self, key: &str) -> Option<Timestamp> {
        time(self.get(key)?)
    }

    /// Returns the records whose key begins with `prefix`, without it, in order. No other record is looked at.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        let from = (Bound::Included(prefix.as_bytes()), Bound::Unbounded);
        let records = self.values.range::<[u8], _>(from);
        records.map_while(move |(key, value)| Some((key.strip_prefix(prefix.as_bytes())?, &**value)))
    }
}

/// Reads a decimal number.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value.trim_ascii()).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Reads a time: seconds since 1970 with an optional fraction, of which nine digits count.
fn time(value: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (negative, digits) = match whole.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, whole),
    };
    if !digits.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = digits.parse().ok()?;
    let nanoseconds =
        fraction.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
    Some(match (negative, nanoseconds) {
        (false, _) => Timestamp { seconds, nanoseconds },
        (true, 0) => Timestamp { seconds: -seconds, nanoseconds },
        // −1.25 s is 0.75 s after −2 s.
        (true, _) => Timestamp { seconds: (-seconds).checked_sub(1)?, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let mut records = Records::default();
        records.parse(b"13 path=a/bc\n\n13 size=0123\n\0\0", 1000).unwrap();
        assert_eq!(records.get("path"), Some(&b"a/bc"[..]));
        assert_eq!(records.number("size").unwrap(), Some(123));
        records.parse(b"8 path=\n", 1000).unwrap();
        assert_eq!(records.get("path"), None);
        for wrong in [&b"0 a=b\n"[..], b"6 a=b", b"99 a=b\n", b"x a=b\n", b"6 abc\n", b"7 a=b\nx", b"-6 a=b\n", b"3 \n"] {
            assert!(matches!(Records::default().parse(wrong, 1000), Err(Wrong::Detail(_))), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn the_memory_of_all_records_is_bounded() {
        let mut records = Records::default();
        // What is replaced or taken back counts no more.
        for _ in 0..100 {
            records.parse(b"13 path=a/bc\n13 size=0123\n", 146).unwrap();
            records.parse(b"8 size=\n", 146).unwrap();
        }
        assert_eq!(records.bytes, 72);
        let found = records.parse(b"6 a=b\n6 c=d\n", 146);
        assert!(matches!(found, Err(Wrong::Error(Error::Limit { found: 204, limit: 146, .. }))), "{found:?}");
        let pair = b"23 GNU.sparse.offset=0\n25 GNU.sparse.numbytes=1\n".repeat(1 << 14);
        let mut records = Records::default();
        for _ in 0..64 {
            records.parse(&pair, 1000).unwrap();
        }
        assert_eq!(records.sparse.len(), 1 << 20);
        assert!(records.parse(&pair, 1000).is_err() && records.sparse.len() == 1 << 20);
    }

    #[test]
    fn a_prefix_finds_its_records_alone() {
        let mut records = Records::default();
        records.parse(b"6 p=0\n9 p.b=12\n8 p.a=1\n7 p/=1\n7 p0=1\n", 1000).unwrap();
        assert_eq!(records.with_prefix("p.").collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..]), (b"b", b"12")]);
    }

    #[test]
    fn times_have_fractions_and_signs() {
        let at = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        assert_eq!(time(b"1600000000.123456789"), at(1_600_000_000, 123_456_789));
        assert_eq!(time(b"1.5"), at(1, 500_000_000));
        assert_eq!(time(b"-1.25"), at(-2, 750_000_000));
        assert_eq!(time(b"-3"), at(-3, 0));
        assert_eq!(time(b"7.1234567891"), at(7, 123_456_789));
        for wrong in [&b""[..], b"x", b"1.x", b"--1", b"99999999999999999999", b"-9223372036854775808.5"] {
            assert_eq!(time(wrong), None);
        }
    }
}
