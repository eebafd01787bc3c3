//! Reads 7z archives.
//!
//! The header is parsed here: its claims are compared with the available bytes, and its entries
//! become rows of a table. Content is stored in *folders*, which are sequences of members
//! compressed as one. The crate `sevenz-rust2` decodes them; it gets a file that contains only that
//! folder.
//!
//! The header is authoritative; its checksum is compared. So is the checksum of each member's
//! content.

mod archive;
mod decode;
mod folders;
mod header;
mod start;
mod streams;

pub use archive::{SevenzArchive, SevenzBackend};

use nra_core::wire::{Cursor, Malformed};

/// Reads a number of 7z: the leading ones of the first byte are the count of following bytes.
fn number(cursor: &mut Cursor<'_>) -> Result<u64, Malformed> {
    let first = cursor.u8()?;
    let more = usize::try_from(first.leading_ones()).expect("at most 8");
    let mut bytes = [0; 8];
    bytes[..more].copy_from_slice(cursor.take(more)?);
    if more < 7 {
        // The remaining bits of the first byte are the highest.
        bytes[more] = first & (0x7f >> more);
    }
    Ok(u64::from_le_bytes(bytes))
}

/// Reads a count of things that take at least one byte each.
fn count(cursor: &mut Cursor<'_>, what: &str) -> Result<usize, Malformed> {
    let count = number(cursor)?;
    let left = cursor.remaining();
    usize::try_from(count).ok().filter(|&count| count <= left).ok_or_else(|| format!("{count} {what} in {left} bytes"))
}

/// Reads a length and as many bytes.
fn sized<'a>(cursor: &mut Cursor<'a>, what: &str) -> Result<&'a [u8], Malformed> {
    let len = count(cursor, what)?;
    cursor.take(len)
}

/// A list of bits, or all ones.
struct Bits<'a>(Option<&'a [u8]>);

impl<'a> Bits<'a> {
    /// Reads `count` bits.
    fn read(cursor: &mut Cursor<'a>, count: usize) -> Result<Self, Malformed> {
        Ok(Self(Some(cursor.take(count.div_ceil(8))?)))
    }

    /// Reads a byte that says whether all bits are set and, if it is 0, the bits.
    fn read_all_or(cursor: &mut Cursor<'a>, count: usize) -> Result<Self, Malformed> {
        if cursor.u8()? != 0 { Ok(Self(None)) } else { Self::read(cursor, count) }
    }

    fn get(&self, number: usize) -> bool {
        match self.0 {
            None => true,
            Some(bytes) => bytes.get(number / 8).is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0),
        }
    }
}

/// Appends a number of 7z.
fn put_number(out: &mut Vec<u8>, number: u64) {
    let bytes = number.to_le_bytes();
    for more in 0..8u32 {
        if number < 1 << (7 * (more + 1)) {
            let more = usize::try_from(more).expect("less than 8");
            let ones = !(0xff >> more);
            let high = if more < 8 { bytes[more] } else { 0 };
            out.push(ones | high);
            out.extend_from_slice(&bytes[..more]);
            return;
        }
    }
    out.push(0xff);
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]);
        for expected in edges {
            let mut bytes = Vec::new();
            put_number(&mut bytes, expected);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(number(&mut cursor).unwrap(), expected, "{bytes:x?}");
            assert_eq!(cursor.remaining(), 0);
        }
        assert!(number(&mut Cursor::new(&[0xc0, 1])).is_err());
    }

    #[test]
    fn bits_start_with_the_highest() {
        let bytes = [0, 0b1010_0000, 0b0100_0000, 7];
        let mut cursor = Cursor::new(&bytes);
        let bits = Bits::read_all_or(&mut cursor, 10).unwrap();
        assert_eq!((0..11).filter(|&number| bits.get(number)).collect::<Vec<_>>(), [0, 2, 9]);
        assert!(Bits::read_all_or(&mut cursor, 10).unwrap().get(9));
        assert!(Bits::read_all_or(&mut Cursor::new(&[0, 1]), 10).is_err());
    }
}
