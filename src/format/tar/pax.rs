//! Records of pax headers: `length key=value`, one a line.

use std::collections::HashMap;

use crate::format::entry::Timestamp;

/// What pax headers say of the entries that follow: all of them, or the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    values: HashMap<Box<[u8]>, Box<[u8]>>,
    /// Pairs of `GNU.sparse.offset` and `GNU.sparse.numbytes`, whose order counts.
    pub(super) sparse: Vec<(u64, u64)>,
    sparse_offset: Option<u64>,
}

impl Records {
    /// Adds the records of one header; later ones replace earlier ones.
    ///
    /// # Errors
    ///
    /// A sentence about the first record that is wrong.
    pub(super) fn parse(&mut self, mut bytes: &[u8]) -> Result<(), String> {
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
                return Err(format!("a record of {len} bytes, where {} are left", bytes.len()));
            }
            let (record, rest) = bytes.split_at(len);
            bytes = rest;
            let record = record[space + 1..].strip_suffix(b"\n").ok_or("a record that does not end with its line")?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or("a record without '='")?;
            self.set(&record[..equals], &record[equals + 1..])?;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        match key {
            b"GNU.sparse.offset" => self.sparse_offset = Some(number(value).ok_or("a wrong sparse offset")?),
            b"GNU.sparse.numbytes" => {
                let offset = self.sparse_offset.take().ok_or("a sparse length without its offset")?;
                self.sparse.push((offset, number(value).ok_or("a wrong sparse length")?));
            }
            // An empty value takes back what was said before.
            _ if value.is_empty() && !key.starts_with(b"SCHILY.xattr.") => drop(self.values.remove(key)),
            _ => drop(self.values.insert(key.into(), value.into())),
        }
        Ok(())
    }

    /// Returns whether anything is said.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.sparse.is_empty()
    }

    /// Returns a value.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        self.values.get(key.as_bytes()).map(|value| &**value)
    }

    /// Returns a value that is a number.
    ///
    /// # Errors
    ///
    /// A sentence when it is none.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, String> {
        self.get(key).map(|value| number(value).ok_or_else(|| format!("{key} is not a number"))).transpose()
    }

    /// Returns a value that is a time.
    pub(super) fn time(&self, key: &str) -> Option<Timestamp> {
        time(self.get(key)?)
    }

    /// Returns the records whose key begins with `prefix`, without it.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.iter().filter_map(move |(key, value)| Some((key.strip_prefix(prefix.as_bytes())?, &**value)))
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
        records.parse(b"13 path=a/bc\n\n13 size=0123\n\0\0").unwrap();
        assert_eq!(records.get("path"), Some(&b"a/bc"[..]));
        assert_eq!(records.number("size"), Ok(Some(123)));
        records.parse(b"8 path=\n").unwrap();
        assert_eq!(records.get("path"), None);
        for wrong in [&b"0 a=b\n"[..], b"6 a=b", b"99 a=b\n", b"x a=b\n", b"6 abc\n", b"7 a=b\nx", b"-6 a=b\n", b"3 \n"] {
            assert!(Records::default().parse(wrong).is_err(), "{}", wrong.escape_ascii());
        }
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
