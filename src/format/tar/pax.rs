//! Records of pax headers: `length key=value`, one per line.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::sparse::{self, Segment};
use nra_core::entry::Timestamp;
use nra_core::error::{Error, Result};

/// Memory overhead of a record, bytes.
const RECORD_BYTES: u64 = 64;

/// The records of pax headers, for the next entry or for all following ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Memory used by `values`, bytes.
    bytes: u64,
    /// Pairs of `GNU.sparse.offset` and `GNU.sparse.numbytes`, in order.
    pub(super) sparse: Vec<Segment>,
    sparse_offset: Option<u64>,
}

/// Why a header is invalid: a detail for the error message, or a complete error.
#[derive(Debug)]
pub(super) enum Invalid {
    Detail(String),
    Error(Error),
}

impl Invalid {
    /// Returns the error for a structure at this offset.
    pub(super) fn at(self, structure: &'static str, offset: u64) -> Error {
        match self {
            Self::Detail(detail) => Error::corrupt(structure, offset, detail),
            Self::Error(error) => error,
        }
    }
}

impl From<&str> for Invalid {
    fn from(detail: &str) -> Self {
        Self::Detail(detail.into())
    }
}

impl From<String> for Invalid {
    fn from(detail: String) -> Self {
        Self::Detail(detail)
    }
}

impl From<Error> for Invalid {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Records {
    /// Adds the records of a header. Later ones replace earlier ones. All records together may use
    /// `limit` bytes.
    pub(super) fn parse(&mut self, mut bytes: &[u8], limit: u64) -> Result<(), Invalid> {
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
                return Err(format!("a record of {len} bytes, but only {} are left", bytes.len()).into());
            }
            let (record, rest) = bytes.split_at(len);
            bytes = rest;
            let record = record[space + 1..].strip_suffix(b"\n").ok_or("a record does not end with a newline")?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or("a record without '='")?;
            self.set(&record[..equals], &record[equals + 1..])?;
            if self.bytes > limit {
                return Err(Error::Limit { what: "memory for pax records", found: self.bytes, limit }.into());
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Invalid> {
        match key {
            b"GNU.sparse.offset" => {
                self.sparse_offset = Some(number(value).ok_or("the offset of a sparse segment is not a number")?)
            }
            b"GNU.sparse.numbytes" => {
                let offset = self.sparse_offset.take().ok_or("a sparse segment has a length but no offset")?;
                let len = number(value).ok_or("the length of a sparse segment is not a number")?;
                sparse::push(&mut self.sparse, (offset, len))?;
            }
            _ => {
                let memory = |value: &[u8]| RECORD_BYTES + (key.len() + value.len()) as u64;
                // An empty value deletes the record, except for attributes.
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

    /// Returns whether there are no records.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.sparse.is_empty()
    }

    /// Returns a value.
    pub(super) fn get(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.values.get(key.as_ref()).map(|value| &**value)
    }

    /// Returns a numeric value.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Invalid> {
        self.get(key).map(|value| number(value).ok_or_else(|| format!("{key} is not a number").into())).transpose()
    }

    /// Returns a value that is a time.
    pub(super) fn time(&self, key: &str) -> Option<Timestamp> {
        time(self.get(key)?)
    }

    /// Returns the records whose key starts with `prefix`, in order, without the prefix.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        let from = (Bound::Included(prefix.as_bytes()), Bound::Unbounded);
        let records = self.values.range::<[u8], _>(from);
        records.map_while(move |(key, value)| Some((key.strip_prefix(prefix.as_bytes())?, &**value)))
    }
}

/// Parses a decimal number.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value.trim_ascii()).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Parses a time: seconds since 1970 with an optional fraction, of which nine digits are used.
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
    fn parse_reads_records_and_rejects_invalid_ones() {
        let mut records = Records::default();
        records.parse(b"13 path=a/bc\n\n13 size=0123\n\0\0", 1000).unwrap();
        assert_eq!(records.get("path"), Some(&b"a/bc"[..]));
        assert_eq!(records.number("size").unwrap(), Some(123));
        records.parse(b"8 path=\n", 1000).unwrap();
        assert_eq!(records.get("path"), None);
        for wrong in [&b"0 a=b\n"[..], b"6 a=b", b"99 a=b\n", b"x a=b\n", b"6 abc\n", b"7 a=b\nx", b"-6 a=b\n", b"3 \n"] {
            assert!(matches!(Records::default().parse(wrong, 1000), Err(Invalid::Detail(_))), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn memory_of_all_records_is_limited() {
        let mut records = Records::default();
        // Replaced and deleted records do not count.
        for _ in 0..100 {
            records.parse(b"13 path=a/bc\n13 size=0123\n", 146).unwrap();
            records.parse(b"8 size=\n", 146).unwrap();
        }
        assert_eq!(records.bytes, 72);
        let found = records.parse(b"6 a=b\n6 c=d\n", 146);
        assert!(matches!(found, Err(Invalid::Error(Error::Limit { found: 204, limit: 146, .. }))), "{found:?}");
        let pair = b"23 GNU.sparse.offset=0\n25 GNU.sparse.numbytes=1\n".repeat(1 << 14);
        let mut records = Records::default();
        for _ in 0..64 {
            records.parse(&pair, 1000).unwrap();
        }
        assert_eq!(records.sparse.len(), 1 << 20);
        assert!(records.parse(&pair, 1000).is_err() && records.sparse.len() == 1 << 20);
    }

    #[test]
    fn with_prefix_returns_only_matching_records() {
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
