//! A MessagePack deserializer that reads its input in parts: a manifest is never in memory as a whole.
//!
//! Values are passed to serde's visitors. Skipping a value needs no recursion, so that nesting is
//! limited by the visitors of the records.

use serde::de::value::Error as DecodeError;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use nra_core::error::Error;
use nra_core::source::ReadAt;

/// Bytes read at a time. Longer texts are read at once.
const READ_LEN: usize = 256 << 10;

/// A reader for the MessagePack values in a range of a source.
pub(super) struct MessagePackReader<'s> {
    source: &'s dyn ReadAt,
    /// Offset of the first byte that is not in the buffer yet.
    next: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Start of the unconsumed bytes in the buffer.
    start: usize,
    /// End of the unconsumed bytes in the buffer.
    filled: usize,
    /// The error of the source that ended reading.
    error: Option<Error>,
}

impl<'s> MessagePackReader<'s> {
    /// Creates a reader for `len` bytes of `source` from `offset` on. The range must be within the source.
    pub(super) fn new(source: &'s dyn ReadAt, offset: u64, len: u64) -> Self {
        Self { source, next: offset, end: offset + len, buffer: Vec::new(), start: 0, filled: 0, error: None }
    }

    /// Removes and returns the error of the source, if one ended reading.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Skips `prefix` if it comes next. Returns whether it did.
    pub(super) fn skip_prefix(&mut self, prefix: &[u8]) -> bool {
        let is_next = self.fill(prefix.len()).is_ok() && self.buffer[self.start..self.filled].starts_with(prefix);
        if is_next {
            self.start += prefix.len();
        }
        is_next
    }

    /// Returns up to `len` of the next bytes without consuming them.
    pub(super) fn peek(&mut self, len: usize) -> &[u8] {
        let available = usize::try_from(self.end - self.next).unwrap_or(usize::MAX).saturating_add(self.filled - self.start);
        let len = len.min(available);
        match self.fill(len) {
            Ok(()) => &self.buffer[self.start..][..len],
            Err(_) => &[],
        }
    }

    /// Consumes the next `len` bytes.
    #[inline]
    fn read(&mut self, len: usize) -> Result<&[u8], DecodeError> {
        if self.filled - self.start < len {
            self.fill(len)?;
        }
        let start = self.start;
        self.start += len;
        Ok(&self.buffer[start..self.start])
    }

    /// Consumes the next `N` bytes.
    #[inline]
    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        // The fast path: a manifest has many thousands of numbers.
        if let Some(bytes) = self.buffer[self.start..self.filled].first_chunk() {
            self.start += N;
            return Ok(*bytes);
        }
        Ok(*self.read(N)?.first_chunk().expect("N bytes were read"))
    }

    /// Fills the buffer so that it holds at least `len` unconsumed bytes.
    #[cold]
    fn fill(&mut self, len: usize) -> Result<(), DecodeError> {
        let buffered = self.filled - self.start;
        if buffered >= len {
            return Ok(());
        }
        let left = self.end - self.next;
        if ((len - buffered) as u64) > left {
            return Err(DecodeError::custom("unexpected end"));
        }
        self.buffer.copy_within(self.start..self.filled, 0);
        (self.start, self.filled) = (0, buffered);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(READ_LEN.max(len) - buffered);
        if self.buffer.len() < buffered + wanted {
            self.buffer.resize(buffered + wanted, 0);
        }
        if let Err(error) = self.source.read_exact_at(self.next, &mut self.buffer[buffered..][..wanted]) {
            self.error = Some(error);
            return Err(DecodeError::custom("read failed"));
        }
        self.next += wanted as u64;
        self.filled += wanted;
        Ok(())
    }

    /// Skips the next `count` values, including nested ones.
    fn skip_values(&mut self, count: u64) -> Result<(), DecodeError> {
        let mut left = count;
        while left > 0 {
            left -= 1;
            let (len, values) = match self.read_marker()? {
                Marker::Text(len) | Marker::Bytes(len) | Marker::Extension(len) => (len, 0),
                Marker::Array(len) => (0, u64::from(len)),
                Marker::Map(len) => (0, u64::from(len) * 2),
                _ => (0, 0),
            };
            left = left.checked_add(values).ok_or_else(|| DecodeError::custom("too many values"))?;
            self.skip_bytes(len)?;
        }
        Ok(())
    }

    fn skip_bytes(&mut self, len: u32) -> Result<(), DecodeError> {
        let mut left = len as usize;
        while left > 0 {
            let step = left.min(READ_LEN);
            self.read(step)?;
            left -= step;
        }
        Ok(())
    }

    /// Reads the first part of a value: all of a number, the length of any other value.
    #[inline]
    fn read_marker(&mut self) -> Result<Marker, DecodeError> {
        let [first] = self.read_array()?;
        Ok(match first {
            0x00..=0x7f => Marker::Number(first.into()),
            0x80..=0x8f => Marker::Map((first & 15).into()),
            0x90..=0x9f => Marker::Array((first & 15).into()),
            0xa0..=0xbf => Marker::Text((first & 31).into()),
            0xc0 => Marker::Nil,
            0xc1 => return Err(DecodeError::custom("invalid byte c1")),
            0xc2 | 0xc3 => Marker::Bool(first == 0xc3),
            0xc4 => Marker::Bytes(u8::from_be_bytes(self.read_array()?).into()),
            0xc5 => Marker::Bytes(u16::from_be_bytes(self.read_array()?).into()),
            0xc6 => Marker::Bytes(u32::from_be_bytes(self.read_array()?)),
            // Extension types: a byte for the type precedes the content.
            0xc7 => Marker::Extension(u32::from(u8::from_be_bytes(self.read_array()?)) + 1),
            0xc8 => Marker::Extension(u32::from(u16::from_be_bytes(self.read_array()?)) + 1),
            0xc9 => Marker::Extension(u32::from_be_bytes(self.read_array()?).saturating_add(1)),
            0xca => Marker::Float(f32::from_be_bytes(self.read_array()?).into()),
            0xcb => Marker::Float(f64::from_be_bytes(self.read_array()?)),
            0xcc => Marker::Number(u8::from_be_bytes(self.read_array()?).into()),
            0xcd => Marker::Number(u16::from_be_bytes(self.read_array()?).into()),
            0xce => Marker::Number(u32::from_be_bytes(self.read_array()?).into()),
            0xcf => Marker::Number(u64::from_be_bytes(self.read_array()?)),
            0xd0 => Marker::Signed(i8::from_be_bytes(self.read_array()?).into()),
            0xd1 => Marker::Signed(i16::from_be_bytes(self.read_array()?).into()),
            0xd2 => Marker::Signed(i32::from_be_bytes(self.read_array()?).into()),
            0xd3 => Marker::Signed(i64::from_be_bytes(self.read_array()?)),
            0xd4..=0xd8 => Marker::Extension((1 << (first - 0xd4)) + 1),
            0xd9 => Marker::Text(u8::from_be_bytes(self.read_array()?).into()),
            0xda => Marker::Text(u16::from_be_bytes(self.read_array()?).into()),
            0xdb => Marker::Text(u32::from_be_bytes(self.read_array()?)),
            0xdc => Marker::Array(u16::from_be_bytes(self.read_array()?).into()),
            0xdd => Marker::Array(u32::from_be_bytes(self.read_array()?)),
            0xde => Marker::Map(u16::from_be_bytes(self.read_array()?).into()),
            0xdf => Marker::Map(u32::from_be_bytes(self.read_array()?)),
            0xe0..=0xff => Marker::Signed(i8::from_be_bytes([first]).into()),
        })
    }

    fn read_text(&mut self, len: u32) -> Result<&str, DecodeError> {
        std::str::from_utf8(self.read(len as usize)?).map_err(|_| DecodeError::custom("text is not UTF-8"))
    }
}

/// The first part of a value.
enum Marker {
    Nil,
    Bool(bool),
    Number(u64),
    Signed(i64),
    Float(f64),
    Text(u32),
    Bytes(u32),
    Array(u32),
    Map(u32),
    /// A value of an extension type: length of type and content.
    Extension(u32),
}

impl<'de> Deserializer<'de> for &mut MessagePackReader<'_> {
    type Error = DecodeError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.read_marker()? {
            Marker::Nil => visitor.visit_unit(),
            Marker::Bool(value) => visitor.visit_bool(value),
            Marker::Number(value) => visitor.visit_u64(value),
            Marker::Signed(value) => visitor.visit_i64(value),
            Marker::Float(value) => visitor.visit_f64(value),
            Marker::Text(len) => visitor.visit_str(self.read_text(len)?),
            Marker::Bytes(len) => visitor.visit_bytes(self.read(len as usize)?),
            Marker::Array(len) => {
                let mut elements = Elements { reader: self, remaining: len };
                let value = visitor.visit_seq(&mut elements)?;
                elements.expect_end().map(|()| value)
            }
            Marker::Map(len) => {
                let mut elements = Elements { reader: self, remaining: len };
                let value = visitor.visit_map(&mut elements)?;
                elements.expect_end().map(|()| value)
            }
            Marker::Extension(_) => Err(DecodeError::custom("unsupported extension type")),
        }
    }

    #[inline]
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        // The fast path: most values of a manifest are short numbers.
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
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.fill(1)?;
        if self.buffer[self.start] == 0xc0 {
            self.start += 1;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.skip_values(1)?;
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

/// The remaining elements of an array or a map.
struct Elements<'w, 's> {
    reader: &'w mut MessagePackReader<'s>,
    remaining: u32,
}

impl Elements<'_, '_> {
    /// Returns an error unless all elements were read.
    fn expect_end(&self) -> Result<(), DecodeError> {
        if self.remaining == 0 { Ok(()) } else { Err(DecodeError::custom("too many elements in a list")) }
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, '_> {
    type Error = DecodeError;

    #[inline]
    fn next_element_seed<T: serde::de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        if self.remaining == 0 {
            return Ok(None);
        }
        self.remaining -= 1;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.remaining as usize)
    }
}

impl<'de> MapAccess<'de> for &mut Elements<'_, '_> {
    type Error = DecodeError;

    fn next_key_seed<K: serde::de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<T: serde::de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.remaining as usize)
    }
}

impl MessagePackReader<'_> {
    /// Reads the next value if it is a text.
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
        fn deserialize_reads_output_of_another_encoder(records in proptest::collection::vec(record(), 0..20), named in any::<bool>()) {
            let bytes = if named { rmp_serde::to_vec_named(&records) } else { rmp_serde::to_vec(&records) }.unwrap();
            let source = MemorySource::new([b"in front".to_vec(), bytes.clone(), b"\xa3end".to_vec()].concat());
            let mut reader = MessagePackReader::new(&source, 8, bytes.len() as u64 + 4);
            prop_assert_eq!(Vec::<Record>::deserialize(&mut reader).unwrap(), records);
            prop_assert_eq!(reader.next_text(), Some("end".to_owned()));
            prop_assert!(reader.peek(9).is_empty());
            let mut reader = MessagePackReader::new(&source, 8, bytes.len() as u64 + 4);
            IgnoredAny::deserialize(&mut reader).unwrap();
            prop_assert_eq!(reader.peek(9), b"\xa3end");
            // Truncated input is an error and never a panic.
            for cut in 1..bytes.len().min(40) {
                let mut reader = MessagePackReader::new(&source, 8, (bytes.len() - cut) as u64);
                prop_assert!(IgnoredAny::deserialize(&mut reader).is_err());
            }
        }

        #[test]
        fn deserialize_never_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let source = MemorySource::new(bytes.clone());
            let _ = Vec::<Record>::deserialize(&mut MessagePackReader::new(&source, 0, bytes.len() as u64));
            let _ = IgnoredAny::deserialize(&mut MessagePackReader::new(&source, 0, bytes.len() as u64));
        }
    }

    #[test]
    fn texts_longer_than_the_buffer_are_read_and_skipped() {
        let texts = vec!["x".repeat(3 * READ_LEN), "y".repeat(READ_LEN - 1), String::new()];
        let bytes = rmp_serde::to_vec(&(&texts, &texts, 7u8)).unwrap();
        let source = MemorySource::new(bytes.clone());
        let mut reader = MessagePackReader::new(&source, 0, bytes.len() as u64);
        let (read, _, last) = <(Vec<String>, IgnoredAny, u8)>::deserialize(&mut reader).unwrap();
        assert_eq!((read, last), (texts, 7));
    }
}
