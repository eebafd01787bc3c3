//! Thrift's compact notation, gone through field by field without building anything.

use nra_core::error::{Error, Result};

/// Structures within structures that are followed.
const MAX_DEPTH: usize = 32;
/// Name for messages.
const STRUCTURE: &str = "Parquet footer";

/// Type of a value in the notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false; the field itself says which.
    Bool,
    /// One byte.
    Byte,
    /// A number of 16 to 64 bits.
    Number,
    /// Eight bytes.
    Double,
    /// Bytes.
    Bytes,
    /// A list, or a set.
    List,
    /// Fields.
    Structure,
}

/// A place in the bytes.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Begins with the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// Returns an error about this place.
    pub fn wrong(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(STRUCTURE, self.at as u64, detail)
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.wrong("it ends early"))?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len)).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.wrong("it ends early"))?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn unsigned(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.wrong("a number of more than 64 bits"))
    }

    /// Reads a number.
    pub fn number(&mut self) -> Result<i64> {
        let number = self.unsigned()?;
        let half = i64::try_from(number >> 1).expect("63 bits");
        Ok(if number & 1 == 1 { -1 - half } else { half })
    }

    /// Reads bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.unsigned()?;
        self.take(len)
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
            _ => return Err(self.wrong(format!("a value of type {number}"))),
        })
    }

    /// Hands the fields of a structure to `field`, which reads the value or returns `false` to have it skipped.
    pub fn structure(&mut self, field: &mut dyn FnMut(&mut Self, i64, Kind) -> Result<bool>) -> Result<()> {
        self.deeper()?;
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                break;
            }
            id = match head >> 4 {
                0 => self.number()?,
                step => id.saturating_add(i64::from(step)),
            };
            let kind = self.kind(head & 0x0f)?;
            if !field(self, id, kind)? {
                self.skip(kind, false)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Hands the items of a list to `item`, which reads them or returns `false` to have them skipped. Returns how many there are.
    pub fn list(&mut self, item: &mut dyn FnMut(&mut Self, Kind) -> Result<bool>) -> Result<u64> {
        self.deeper()?;
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.unsigned()?,
            count => u64::from(count),
        };
        let kind = self.kind(head & 0x0f)?;
        // Every item takes a byte at least.
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(self.wrong(format!("a list of {count} items")));
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
        if self.depth > MAX_DEPTH { Err(self.wrong("structures lie too deep in each other")) } else { Ok(()) }
    }

    /// Goes behind a value. Truth takes a byte only in a list.
    fn skip(&mut self, kind: Kind, in_list: bool) -> Result<()> {
        match kind {
            Kind::Bool if !in_list => {}
            Kind::Bool | Kind::Byte => drop(self.byte()?),
            Kind::Number => drop(self.unsigned()?),
            Kind::Double => drop(self.take(8)?),
            Kind::Bytes => drop(self.bytes()?),
            // As deep as `deeper` allows.
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
    fn structures_do_not_lie_as_deep_as_the_stack() {
        let deep = vec![0x1c; 100_000];
        assert!(Reader::new(&deep).structure(&mut |_, _, _| Ok(false)).is_err());
        let lists = [[0x19].as_slice(), &vec![0x19; 100_000]].concat();
        assert!(Reader::new(&lists).structure(&mut |_, _, _| Ok(false)).is_err());
    }

    #[test]
    fn numbers() {
        for (bytes, number) in [(&[0u8][..], 0), (&[1], -1), (&[2], 1), (&[0x80, 1], 64)] {
            assert_eq!(Reader::new(bytes).number().unwrap(), number);
        }
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).number().unwrap(), i64::MIN);
        assert!(Reader::new(&[0xff; 12]).number().is_err());
    }
}
