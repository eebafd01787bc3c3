//! MessagePack as manifests have it, decoded while it is read: a manifest is never in memory as a whole.
//!
//! Values are handed to visitors of serde. What is skipped is skipped without recursion, and records are as deep as their visitors.

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use nra_core::error::Error;
use nra_core::source::ReadAt;

/// Bytes read at a time; longer texts are read at once.
const STEP: usize = 256 << 10;

/// A part of a source that is read in order.
pub(super) struct Window<'s> {
    source: &'s dyn ReadAt,
    /// Offset of the first byte that was not read.
    next: u64,
    /// Where the part ends.
    end: u64,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read and not taken.
    start: usize,
    filled: usize,
    /// Why reading failed.
    failed: Option<Error>,
}

impl<'s> Window<'s> {
    /// Reads `len` bytes of `source` from `offset` on, which lie within it.
    pub(super) fn new(source: &'s dyn ReadAt, offset: u64, len: u64) -> Self {
        Self { source, next: offset, end: offset + len, buffer: Vec::new(), start: 0, filled: 0, failed: None }
    }

    /// Takes the error that ended reading, if one did.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Takes `prefix` if it comes next.
    pub(super) fn skip_prefix(&mut self, prefix: &[u8]) -> bool {
        let is_next = self.fill(prefix.len()).is_ok() && self.buffer[self.start..self.filled].starts_with(prefix);
        if is_next {
            self.start += prefix.len();
        }
        is_next
    }

    /// Returns up to `len` of the bytes that come next, without taking them.
    pub(super) fn peek(&mut self, len: usize) -> &[u8] {
        let there = usize::try_from(self.end - self.next).unwrap_or(usize::MAX).saturating_add(self.filled - self.start);
        let len = len.min(there);
        match self.fill(len) {
            Ok(()) => &self.buffer[self.start..][..len],
            Err(_) => &[],
        }
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&[u8], Problem> {
        if self.filled - self.start < len {
            self.fill(len)?;
        }
        let start = self.start;
        self.start += len;
        Ok(&self.buffer[start..self.start])
    }

    #[inline]
    fn number<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        // Almost always they are there: a manifest has many thousands of numbers.
        if let Some(bytes) = self.buffer[self.start..self.filled].first_chunk() {
            self.start += N;
            return Ok(*bytes);
        }
        Ok(*self.take(N)?.first_chunk().expect("so many were taken"))
    }

    /// Reads on, so that `len` bytes are there.
    #[cold]
    fn fill(&mut self, len: usize) -> Result<(), Problem> {
        let there = self.filled - self.start;
        if there >= len {
            return Ok(());
        }
        let left = self.end - self.next;
        if ((len - there) as u64) > left {
            return Err(Problem::new("it ends in the middle"));
        }
        self.buffer.copy_within(self.start..self.filled, 0);
        (self.start, self.filled) = (0, there);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(STEP.max(len) - there);
        if self.buffer.len() < there + wanted {
            self.buffer.resize(there + wanted, 0);
        }
        if let Err(error) = self.source.read_exact_at(self.next, &mut self.buffer[there..][..wanted]) {
            self.failed = Some(error);
            return Err(Problem::new("it does not read"));
        }
        self.next += wanted as u64;
        self.filled += wanted;
        Ok(())
    }

    /// Passes over the next `count` values and all that is in them.
    fn skip(&mut self, count: u64) -> Result<(), Problem> {
        let mut left = count;
        while left > 0 {
            left -= 1;
            let (len, values) = match self.head()? {
                Head::Text(len) | Head::Bytes(len) | Head::Other(len) => (len, 0),
                Head::Array(len) => (0, u64::from(len)),
                Head::Map(len) => (0, u64::from(len) * 2),
                _ => (0, 0),
            };
            left = left.checked_add(values).ok_or_else(|| Problem::new("it has too many values"))?;
            self.pass(len)?;
        }
        Ok(())
    }

    /// Takes bytes that nobody wants.
    fn pass(&mut self, len: u32) -> Result<(), Problem> {
        let mut left = len as usize;
        while left > 0 {
            let step = left.min(STEP);
            self.take(step)?;
            left -= step;
        }
        Ok(())
    }

    /// Takes the first bytes of a value: all of a number, the length of everything else.
    #[inline]
    fn head(&mut self) -> Result<Head, Problem> {
        let [first] = self.number()?;
        Ok(match first {
            0x00..=0x7f => Head::Number(first.into()),
            0x80..=0x8f => Head::Map((first & 15).into()),
            0x90..=0x9f => Head::Array((first & 15).into()),
            0xa0..=0xbf => Head::Text((first & 31).into()),
            0xc0 => Head::Nil,
            0xc1 => return Err(Problem::new("a byte c1, which stands for nothing")),
            0xc2 | 0xc3 => Head::Bool(first == 0xc3),
            0xc4 => Head::Bytes(u8::from_be_bytes(self.number()?).into()),
            0xc5 => Head::Bytes(u16::from_be_bytes(self.number()?).into()),
            0xc6 => Head::Bytes(u32::from_be_bytes(self.number()?)),
            // Values of types that the format does not know: a type comes before them.
            0xc7 => Head::Other(u32::from(u8::from_be_bytes(self.number()?)) + 1),
            0xc8 => Head::Other(u32::from(u16::from_be_bytes(self.number()?)) + 1),
            0xc9 => Head::Other(u32::from_be_bytes(self.number()?).saturating_add(1)),
            0xca => Head::Float(f32::from_be_bytes(self.number()?).into()),
            0xcb => Head::Float(f64::from_be_bytes(self.number()?)),
            0xcc => Head::Number(u8::from_be_bytes(self.number()?).into()),
            0xcd => Head::Number(u16::from_be_bytes(self.number()?).into()),
            0xce => Head::Number(u32::from_be_bytes(self.number()?).into()),
            0xcf => Head::Number(u64::from_be_bytes(self.number()?)),
            0xd0 => Head::Signed(i8::from_be_bytes(self.number()?).into()),
            0xd1 => Head::Signed(i16::from_be_bytes(self.number()?).into()),
            0xd2 => Head::Signed(i32::from_be_bytes(self.number()?).into()),
            0xd3 => Head::Signed(i64::from_be_bytes(self.number()?)),
            0xd4..=0xd8 => Head::Other((1 << (first - 0xd4)) + 1),
            0xd9 => Head::Text(u8::from_be_bytes(self.number()?).into()),
            0xda => Head::Text(u16::from_be_bytes(self.number()?).into()),
            0xdb => Head::Text(u32::from_be_bytes(self.number()?)),
            0xdc => Head::Array(u16::from_be_bytes(self.number()?).into()),
            0xdd => Head::Array(u32::from_be_bytes(self.number()?)),
            0xde => Head::Map(u16::from_be_bytes(self.number()?).into()),
            0xdf => Head::Map(u32::from_be_bytes(self.number()?)),
            0xe0..=0xff => Head::Signed(i8::from_be_bytes([first]).into()),
        })
    }

    fn text(&mut self, len: u32) -> Result<&str, Problem> {
        std::str::from_utf8(self.take(len as usize)?).map_err(|_| Problem::new("a text that is not UTF-8"))
    }
}

/// What a value begins with.
enum Head {
    Nil,
    Bool(bool),
    Number(u64),
    Signed(i64),
    Float(f64),
    Text(u32),
    Bytes(u32),
    Array(u32),
    Map(u32),
    /// So many bytes of a type that is not known.
    Other(u32),
}

/// What is wrong with the bytes.
#[derive(Debug)]
pub(super) struct Problem(Box<str>);

impl Problem {
    fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

impl serde::de::Error for Problem {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(text.to_string())
    }
}

impl<'de> Deserializer<'de> for &mut Window<'_> {
    type Error = Problem;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.head()? {
            Head::Nil => visitor.visit_unit(),
            Head::Bool(value) => visitor.visit_bool(value),
            Head::Number(value) => visitor.visit_u64(value),
            Head::Signed(value) => visitor.visit_i64(value),
            Head::Float(value) => visitor.visit_f64(value),
            Head::Text(len) => visitor.visit_str(self.text(len)?),
            Head::Bytes(len) => visitor.visit_bytes(self.take(len as usize)?),
            Head::Array(len) => {
                let mut values = Values { window: self, left: len };
                let value = visitor.visit_seq(&mut values)?;
                values.end().map(|()| value)
            }
            Head::Map(len) => {
                let mut values = Values { window: self, left: len };
                let value = visitor.visit_map(&mut values)?;
                values.end().map(|()| value)
            }
            Head::Other(_) => Err(Problem::new("a value of a type that is not known")),
        }
    }

    #[inline]
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        // Most values of a manifest are numbers of a few bytes.
        let (len, value) = match self.buffer[self.start..self.filled] {
            [value @ 0..=0x7f, ..] => (1, value.into()),
            [0xcd, a, b, ..] => (3, u16::from_be_bytes([a, b]).into()),
            [0xce, a, b, c, d, ..] => (5, u32::from_be_bytes([a, b, c, d]).into()),
            _ => return self.deserialize_any(visitor),
        };
        self.start += len;
        visitor.visit_u64(value)
    }

    #[inline]
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.fill(1)?;
        if self.buffer[self.start] == 0xc0 {
            self.start += 1;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.skip(1)?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct enum identifier
    }
}

/// What is left of an array, or of a map.
struct Values<'w, 's> {
    window: &'w mut Window<'s>,
    left: u32,
}

impl Values<'_, '_> {
    /// All must have been taken.
    fn end(&self) -> Result<(), Problem> {
        if self.left == 0 { Ok(()) } else { Err(Problem::new("a list is longer than it may be")) }
    }
}

impl<'de> SeqAccess<'de> for &mut Values<'_, '_> {
    type Error = Problem;

    #[inline]
    fn next_element_seed<T: serde::de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Problem> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.window).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl<'de> MapAccess<'de> for &mut Values<'_, '_> {
    type Error = Problem;

    fn next_key_seed<K: serde::de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.window).map(Some)
    }

    fn next_value_seed<T: serde::de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Problem> {
        seed.deserialize(&mut *self.window)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl Window<'_> {
    /// Takes the text that comes next, if one does.
    pub(super) fn next_text(&mut self) -> Option<String> {
        String::deserialize(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;
    use serde::de::IgnoredAny;

    use super::*;
    use nra_core::source::MemorySource;

    #[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
    struct Record {
        name: String,
        numbers: Vec<u64>,
        signed: i32,
        ratio: f64,
        nested: Option<Vec<(bool, Option<u16>)>>,
    }

    fn record() -> impl Strategy<Value = Record> {
        let nested = proptest::option::of(proptest::collection::vec((any::<bool>(), proptest::option::of(any::<u16>())), 0..20));
        let numbers = proptest::collection::vec(prop_oneof![0u64..300, any::<u64>()], 0..40);
        ("\\PC{0,300}", numbers, any::<i32>(), -1e9..1e9f64, nested).prop_map(|(name, numbers, signed, ratio, nested)| Record {
            name,
            numbers,
            signed,
            ratio,
            nested,
        })
    }

    proptest! {
        #[test]
        fn what_another_encoder_writes_is_read(records in proptest::collection::vec(record(), 0..20), named in any::<bool>()) {
            let bytes = if named { rmp_serde::to_vec_named(&records) } else { rmp_serde::to_vec(&records) }.unwrap();
            let source = MemorySource::new([b"in front".to_vec(), bytes.clone(), b"\xa3end".to_vec()].concat());
            let mut window = Window::new(&source, 8, bytes.len() as u64 + 4);
            prop_assert_eq!(Vec::<Record>::deserialize(&mut window).unwrap(), records);
            prop_assert_eq!(window.next_text(), Some("end".to_owned()));
            prop_assert!(window.peek(9).is_empty());
            let mut window = Window::new(&source, 8, bytes.len() as u64 + 4);
            IgnoredAny::deserialize(&mut window).unwrap();
            prop_assert_eq!(window.peek(9), b"\xa3end");
            // Whatever is cut off is missed, without a panic.
            for cut in 1..bytes.len().min(40) {
                let mut window = Window::new(&source, 8, (bytes.len() - cut) as u64);
                prop_assert!(IgnoredAny::deserialize(&mut window).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let source = MemorySource::new(bytes.clone());
            let _ = Vec::<Record>::deserialize(&mut Window::new(&source, 0, bytes.len() as u64));
            let _ = IgnoredAny::deserialize(&mut Window::new(&source, 0, bytes.len() as u64));
        }
    }

    #[test]
    fn texts_longer_than_a_step_are_read_and_passed_over() {
        let texts = vec!["x".repeat(3 * STEP), "y".repeat(STEP - 1), String::new()];
        let bytes = rmp_serde::to_vec(&(&texts, &texts, 7u8)).unwrap();
        let source = MemorySource::new(bytes.clone());
        let mut window = Window::new(&source, 0, bytes.len() as u64);
        let (read, _, last) = <(Vec<String>, IgnoredAny, u8)>::deserialize(&mut window).unwrap();
        assert_eq!((read, last), (texts, 7));
    }
}
