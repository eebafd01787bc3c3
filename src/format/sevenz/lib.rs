//! 7z archives, read by their own header.
//!
//! The header is parsed here: what it claims is compared with the bytes that are there, and its entries go to a table of rows, so that a million
//! members cost no more memory than their rows. Content lies in *folders*: rows of members that are compressed as one. They are decoded by the
//! crate `sevenz-rust2`, which is shown a file with that one folder.
//!
//! What is believed: the header, whose checksum was compared. Each member's content is compared with its checksum.

mod archive;
mod decode;
mod folders;
mod header;
mod start;
mod streams;

pub use archive::{SevenzArchive, SevenzMembers};

use nra_core::wire::{Cursor, Malformed};

/// Takes a number as 7z writes it: the first byte tells by its leading ones how many follow.
fn number(cursor: &mut Cursor<'_>) -> Result<u64, Malformed> {
    let first = cursor.u8()?;
    let more = usize::try_from(first.leading_ones()).expect("at most 8");
    let mut bytes = [0; 8];
    bytes[..more].copy_from_slice(cursor.take(more)?);
    if more < 7 {
        // The bits behind the first zero are the highest.
        bytes[more] = first & (0x7f >> more);
    }
    Ok(u64::from_le_bytes(bytes))
}

/// Takes a count of things of which each needs at least one byte of what is left.
fn count(cursor: &mut Cursor<'_>, what: &str) -> Result<usize, Malformed> {
    let count = number(cursor)?;
    let left = cursor.remaining();
    usize::try_from(count).ok().filter(|&count| count <= left).ok_or_else(|| format!("{count} {what} in {left} bytes"))
}

/// Takes a length and as many bytes.
fn sized<'a>(cursor: &mut Cursor<'a>, what: &str) -> Result<&'a [u8], Malformed> {
    let len = count(cursor, what)?;
    cursor.take(len)
}

/// A bit for each of some things.
struct Bits<'a>(Option<&'a [u8]>);

impl<'a> Bits<'a> {
    /// Takes one bit for each of `count` things.
    fn take(cursor: &mut Cursor<'a>, count: usize) -> Result<Self, Malformed> {
        Ok(Self(Some(cursor.take(count.div_ceil(8))?)))
    }

    /// Takes a byte that says that all bits are set, or the bits.
    fn take_all_or(cursor: &mut Cursor<'a>, count: usize) -> Result<Self, Malformed> {
        if cursor.u8()? != 0 { Ok(Self(None)) } else { Self::take(cursor, count) }
    }

    fn get(&self, number: usize) -> bool {
        match self.0 {
            None => true,
            Some(bytes) => bytes.get(number / 8).is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0),
        }
    }
}

/// Appends a number as 7z writes it.
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
    fn numbers_come_back() {
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
    fn bits_begin_with_the_highest() {
        let bytes = [0, 0b1010_0000, 0b0100_0000, 7];
        let mut cursor = Cursor::new(&bytes);
        let bits = Bits::take_all_or(&mut cursor, 10).unwrap();
        assert_eq!((0..11).filter(|&number| bits.get(number)).collect::<Vec<_>>(), [0, 2, 9]);
        assert!(Bits::take_all_or(&mut cursor, 10).unwrap().get(9));
        assert!(Bits::take_all_or(&mut Cursor::new(&[0, 1]), 10).is_err());
    }
}
