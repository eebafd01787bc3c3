//! Front coding: each string stores only the part that differs from the preceding one.
//!
//! Spec: nra.md, section 8 (columns 0 to 2) and section 9 (keys).

use std::cmp::Ordering;

use nra_core::limits::MAX_LIST_PATHS;
use nra_core::path;
use nra_core::wire::{Cursor, Malformed, put_uv};

/// Builds the three columns.
#[derive(Debug, Default)]
pub(crate) struct FrontEncoder {
    pub(crate) shared: Vec<u8>,
    pub(crate) rest_len: Vec<u8>,
    pub(crate) rest: Vec<u8>,
    last: Vec<u8>,
}

impl FrontEncoder {
    pub(crate) fn push(&mut self, string: &[u8]) {
        let shared = self.last.iter().zip(string).take_while(|(a, b)| a == b).count();
        let rest = &string[shared..];
        put_uv(&mut self.shared, shared as u64);
        put_uv(&mut self.rest_len, rest.len() as u64);
        self.rest.extend_from_slice(rest);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }
}

/// Decodes the strings one by one.
#[derive(Debug)]
pub(crate) struct FrontDecoder<'a> {
    shared: Cursor<'a>,
    rest_len: Cursor<'a>,
    rest: Cursor<'a>,
    limit: usize,
    current: Vec<u8>,
    total: usize,
}

impl<'a> FrontDecoder<'a> {
    /// Creates a decoder that rejects strings longer than `limit`.
    pub(crate) fn new(shared: &'a [u8], rest_len: &'a [u8], rest: &'a [u8], limit: usize) -> Self {
        Self {
            shared: Cursor::new(shared),
            rest_len: Cursor::new(rest_len),
            rest: Cursor::new(rest),
            limit,
            current: Vec::new(),
            total: 0,
        }
    }

    /// Decodes the next string. Returns the number of bytes shared with the preceding string, and
    /// the comparison with it in path order.
    pub(crate) fn advance(&mut self) -> Result<(usize, Ordering), Malformed> {
        let shared = usize::try_from(self.shared.uv()?).unwrap_or(usize::MAX);
        if shared > self.current.len() {
            return Err(format!("{shared} bytes shared with {} bytes", self.current.len()));
        }
        let rest = usize::try_from(self.rest_len.uv()?).unwrap_or(usize::MAX);
        let len = shared.saturating_add(rest);
        if len > self.limit {
            return Err(format!("{len} bytes, more than {}", self.limit));
        }
        // Front coding amplifies: a few bytes can stand for a long string.
        self.total += len;
        if self.total > MAX_LIST_PATHS {
            return Err(format!("more than {MAX_LIST_PATHS} bytes of paths"));
        }
        let rest = self.rest.take(rest)?;
        let order = match (rest.first(), self.current.get(shared)) {
            (Some(new), Some(old)) if new == old => return Err("fewer bytes are shared than possible".into()),
            (Some(new), Some(old)) => path::compare(&[*new], &[*old]),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => Ordering::Equal,
        };
        self.current.truncate(shared);
        self.current.extend_from_slice(rest);
        Ok((shared, order))
    }

    /// Returns the string that was decoded last.
    pub(crate) fn current(&self) -> &[u8] {
        &self.current
    }

    /// Rejects surplus bytes.
    pub(crate) fn end(&self, what: &str) -> Result<(), Malformed> {
        self.shared.end(what)?;
        self.rest_len.end(what)?;
        self.rest.end(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(shared: &[u8], rest_len: &[u8], rest: &[u8], n: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut decoder = FrontDecoder::new(shared, rest_len, rest, 100);
        let strings = (0..n).map(|_| decoder.advance().map(|_| decoder.current().to_vec())).collect::<Result<_, _>>()?;
        decoder.end("test")?;
        Ok(strings)
    }

    proptest! {
        #[test]
        fn strings_round_trip_with_their_order(strings in prop::collection::vec("[a-c/!]{0,6}", 0..20)) {
            let mut encoder = FrontEncoder::default();
            strings.iter().for_each(|string| encoder.push(string.as_bytes()));
            let mut decoder = FrontDecoder::new(&encoder.shared, &encoder.rest_len, &encoder.rest, 6);
            let mut before: &[u8] = b"";
            for string in &strings {
                let (_, order) = decoder.advance().unwrap();
                prop_assert_eq!(decoder.current(), string.as_bytes());
                prop_assert_eq!(order, path::compare(string.as_bytes(), before));
                before = string.as_bytes();
            }
            prop_assert_eq!(decoder.end("test"), Ok(()));
        }
    }

    #[test]
    fn non_canonical_encodings_are_rejected() {
        assert_eq!(decode(&[0, 1], &[2, 1], b"abc", 2), Ok(vec![b"ab".to_vec(), b"ac".to_vec()]));
        for (why, shared, rest_len, rest, n) in [
            ("less shared than could be", &[0, 0][..], &[2, 2][..], &b"abac"[..], 2),
            ("more shared than there is", &[0, 3], &[2, 1], b"abc", 2),
            ("shares with nothing", &[1], &[1], b"a", 1),
            ("bytes missing", &[0], &[3], b"ab", 1),
            ("too long", &[0], &[101], &[b'a'; 101], 1),
            ("left over", &[0], &[1], b"ab", 1),
            ("a length left over", &[0], &[1, 1], b"a", 1),
        ] {
            assert!(decode(shared, rest_len, rest, n).is_err(), "{why}");
        }
    }

    #[test]
    fn path_bomb_is_rejected() {
        let mut encoder = FrontEncoder::default();
        for i in 0..1_100u32 {
            encoder.push(&[&[b'a'; 65_500][..], &i.to_string().into_bytes()].concat());
        }
        let mut decoder = FrontDecoder::new(&encoder.shared, &encoder.rest_len, &encoder.rest, 65_535);
        assert!((0..1_100).any(|_| decoder.advance().is_err()));
    }
}
