//! Numbers as bytes: fixed little-endian integers and canonical varints.
//!
//! Spec: nra.md, section 2.

/// A description of malformed bytes. Callers add the structure and its offset.
pub type Malformed = String;

/// Reads values from a byte string, one after another.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) =
            self.rest.split_at_checked(len).ok_or_else(|| format!("{len} bytes expected, {} left", self.rest.len()))?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a little-endian number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Returns the bytes up to a later cursor in the same string.
    pub fn until(&self, later: &Self) -> &'a [u8] {
        &self.rest[..self.rest.len() - later.rest.len()]
    }

    /// Reads an unsigned varint. Rejects encodings that are longer than needed.
    pub fn uv(&mut self) -> Result<u64, Malformed> {
        match *self.rest {
            [byte @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_uv(),
        }
    }

    fn long_uv(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if i == 9 && byte > 1 {
                return Err("varint of more than 64 bits".into());
            }
            value |= bits << (7 * i);
            if byte & 0x80 == 0 {
                if byte == 0 && i > 0 {
                    return Err("varint longer than needed".into());
                }
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err("varint without an end".into())
    }

    /// Reads a signed (zigzag) varint.
    pub fn sv(&mut self) -> Result<i64, Malformed> {
        let zigzag = self.uv()?;
        Ok((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
    }

    /// Reads an unsigned varint of at most `limit`.
    pub fn uv_max(&mut self, what: &str, limit: u64) -> Result<u64, Malformed> {
        let value = self.uv()?;
        if value > limit { Err(format!("{what} is {value}, more than {limit}")) } else { Ok(value) }
    }

    /// Reads a count of values that need at least one of the remaining bytes each.
    pub fn count(&mut self, what: &str, limit: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.uv()?).unwrap_or(usize::MAX);
        if count > limit || count > self.remaining() {
            return Err(format!("{count} {what}: more than {limit} or than the bytes that follow"));
        }
        Ok(count)
    }

    /// Reads a varint length of at most `limit`, and as many bytes.
    pub fn bytes(&mut self, what: &str, limit: usize) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.uv()?).unwrap_or(usize::MAX);
        if len > limit {
            return Err(format!("{what} of {len} bytes, more than {limit}"));
        }
        self.take(len)
    }

    /// Fails if bytes remain.
    pub fn end(&self, what: &str) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes left over in {what}", self.rest.len())) }
    }
}

/// Appends an unsigned varint.
pub fn put_uv(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed (zigzag) varint.
pub fn put_sv(out: &mut Vec<u8>, value: i64) {
    put_uv(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Appends a varint length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_uv(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(unsigned: u64, signed: i64) {
            let mut bytes = Vec::new();
            put_uv(&mut bytes, unsigned);
            put_sv(&mut bytes, signed);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.uv(), Ok(unsigned));
            prop_assert_eq!(cursor.sv(), Ok(signed));
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn accepted_varints_are_canonical(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut cursor = Cursor::new(&bytes);
            if let Ok(value) = cursor.uv() {
                let mut again = Vec::new();
                put_uv(&mut again, value);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - cursor.remaining()]);
            }
        }
    }

    #[test]
    fn malformed_varints_are_rejected() {
        for bytes in [&[0x80, 0x00][..], &[0xff; 10], &[0x80; 11], &[0x80], &[]] {
            assert!(Cursor::new(bytes).uv().is_err(), "{bytes:?}");
        }
    }
}
