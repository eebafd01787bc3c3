//! Parses Thrift's compact protocol field by field.

use nra_core::error::{Error, Result};
use nra_core::wire::{Cursor, Malformed};

/// Most nested structures.
const MAX_DEPTH: usize = 32;
/// The structure in error messages.
const STRUCTURE: &str = "Parquet footer";

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false, encoded in the type.
    Bool,
    /// One byte.
    Byte,
    /// A 16 to 64-bit number.
    Number,
    /// Eight bytes.
    Double,
    /// Bytes or text.
    Bytes,
    /// A list or set.
    List,
    /// A structure of fields.
    Structure,
}

/// A parser at a position in the bytes.
pub struct Reader<'a> {
    rest: Cursor<'a>,
    len: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: Cursor::new(bytes), len: bytes.len(), depth: 0 }
    }

    /// Returns an error about the current position.
    fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(STRUCTURE, (self.len - self.rest.remaining()) as u64, detail)
    }

    fn read<T>(&mut self, read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Malformed>) -> Result<T> {
        read(&mut self.rest).map_err(|detail| self.corrupt(detail))
    }

    /// Reads a signed number.
    pub fn number(&mut self) -> Result<i64> {
        self.read(Cursor::sv)
    }

    /// Reads bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        self.read(|rest| rest.bytes("a text", usize::MAX))
    }

    /// Reads bytes as text.
    pub fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn kind(&self, number: u8) -> Result<Kind> {
        Ok(match number {
            1 | 2 => Kind::Bool,
            3 => Kind::Byte,
            4..=6 => Kind::Number,
            7 => Kind::Double,
            8 => Kind::Bytes,
            9 | 10 => Kind::List,
            12 => Kind::Structure,
            _ => return Err(self.corrupt(format!("unknown type {number}"))),
        })
    }

    /// Passes the fields of a structure to `field`, which reads the value or returns `false` to
    /// skip it.
    pub fn structure(&mut self, field: &mut dyn FnMut(&mut Self, i64, Kind) -> Result<bool>) -> Result<()> {
        self.deeper()?;
        let mut id = 0i64;
        loop {
            let header = self.read(Cursor::u8)?;
            if header == 0 {
                break;
            }
            id = match header >> 4 {
                0 => self.number()?,
                step => id.saturating_add(i64::from(step)),
            };
            let kind = self.kind(header & 0x0f)?;
            if !field(self, id, kind)? {
                self.skip(kind, false)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Passes the items of a list to `item`, which reads them or returns `false` to skip them.
    /// Returns their number.
    pub fn list(&mut self, item: &mut dyn FnMut(&mut Self, Kind) -> Result<bool>) -> Result<u64> {
        self.deeper()?;
        let header = self.read(Cursor::u8)?;
        let count = match header >> 4 {
            15 => self.read(Cursor::uv)?,
            count => u64::from(count),
        };
        let kind = self.kind(header & 0x0f)?;
        // Each item takes at least one byte.
        if count > self.rest.remaining() as u64 {
            return Err(self.corrupt(format!("a list of {count} items exceeds the footer")));
        }
        for _ in 0..count {
            if !item(self, kind)? {
                self.skip(kind, true)?;
            }
        }
        self.depth -= 1;
        Ok(count)
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.corrupt("structures are nested too deeply")) } else { Ok(()) }
    }

    /// Skips a value. A boolean takes a byte only in a list.
    fn skip(&mut self, kind: Kind, in_list: bool) -> Result<()> {
        match kind {
            Kind::Bool if !in_list => {}
            Kind::Bool | Kind::Byte => drop(self.read(Cursor::u8)?),
            Kind::Number => drop(self.read(Cursor::uv)?),
            Kind::Double => drop(self.read(|rest| rest.take(8))?),
            Kind::Bytes => drop(self.bytes()?),
            // `deeper` limits the depth.
            Kind::List => drop(self.list(&mut |_, _| Ok(false))?),
            Kind::Structure => self.structure(&mut |_, _, _| Ok(false))?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeply_nested_structures_are_rejected() {
        let deep = vec![0x1c; 100_000];
        assert!(Reader::new(&deep).structure(&mut |_, _, _| Ok(false)).is_err());
        let lists = [[0x19].as_slice(), &vec![0x19; 100_000]].concat();
        assert!(Reader::new(&lists).structure(&mut |_, _, _| Ok(false)).is_err());
    }

    #[test]
    fn numbers_are_decoded() {
        for (bytes, number) in [(&[0u8][..], 0), (&[1], -1), (&[2], 1), (&[0x80, 1], 64)] {
            assert_eq!(Reader::new(bytes).number().unwrap(), number);
        }
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).number().unwrap(), i64::MIN);
        assert!(Reader::new(&[0xff; 12]).number().is_err());
    }
}
