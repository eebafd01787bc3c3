//! A header block: its fields and its checksum.

/// Length of a header; everything is padded to a multiple of it, bytes.
pub(crate) const BLOCK: usize = 512;
/// A block of a tar file.
pub(crate) type Block = [u8; BLOCK];

/// The variant of a header, detected from its magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    /// No magic: the oldest form.
    V7,
    /// `ustar` and a NUL byte.
    Posix,
    /// `ustar` and spaces.
    Gnu,
    /// POSIX magic, and star's fields at the end of the prefix.
    Star,
}

/// A header whose checksum matches, unless it was created by [`Header::unchecked`].
pub(super) struct Header<'a>(&'a Block);

/// The mismatch of a checksum; `stored` is `None` if the field is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrongChecksum {
    pub(super) stored: Option<i64>,
    pub(super) computed: i64,
}

impl<'a> Header<'a> {
    /// Returns the block as a header if its checksum matches.
    pub(super) fn parse(block: &'a Block) -> Result<Self, WrongChecksum> {
        // An empty field is rejected: it would match any block whose signed bytes add up to 0.
        let stored = Some(&block[148..156]).filter(|field| field.iter().any(|&byte| !matches!(byte, 0 | b' '))).and_then(number);
        // The field itself counts as spaces. Some old programs summed signed bytes.
        let outside = || block[..148].iter().chain(&block[156..]);
        let unsigned: i64 = outside().map(|&byte| i64::from(byte)).sum::<i64>() + 8 * 32;
        let signed: i64 = outside().map(|&byte| i64::from(byte.cast_signed())).sum::<i64>() + 8 * 32;
        if stored == Some(unsigned) || stored == Some(signed) {
            Ok(Self(block))
        } else {
            Err(WrongChecksum { stored, computed: unsigned })
        }
    }

    /// Returns the block as a header without comparing the checksum. Its fields may be wrong.
    pub(super) fn unchecked(block: &'a Block) -> Self {
        Self(block)
    }

    /// Returns whether a block with a wrong checksum looks like a header: it has the magic, or
    /// numbers in numeric fields.
    pub(super) fn resembles(block: &Block) -> bool {
        let is_octal = |field: &[u8]| {
            field.iter().any(u8::is_ascii_digit) && field.iter().all(|byte| matches!(byte, b'0'..=b'7' | b' ' | 0))
        };
        // Mode, size, time, checksum.
        &block[257..262] == b"ustar" || [100..108, 124..136, 136..148, 148..156].into_iter().all(|field| is_octal(&block[field]))
    }

    pub(super) fn flavour(&self) -> Flavour {
        match &self.0[257..265] {
            b"ustar  \0" => Flavour::Gnu,
            magic if magic.starts_with(b"ustar") && &self.0[508..512] == b"tar\0" => Flavour::Star,
            magic if magic.starts_with(b"ustar") => Flavour::Posix,
            _ => Flavour::V7,
        }
    }

    /// Returns the name with its prefix.
    pub(super) fn path(&self) -> Vec<u8> {
        let name = text(&self.0[..100]);
        let prefix = match self.flavour() {
            Flavour::Posix => text(&self.0[345..500]),
            Flavour::Star => text(&self.0[345..476]),
            Flavour::V7 | Flavour::Gnu => &[],
        };
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }

    pub(super) fn mode(&self) -> Option<i64> {
        number(&self.0[100..108])
    }

    pub(super) fn user_id(&self) -> Option<i64> {
        number(&self.0[108..116])
    }

    pub(super) fn group_id(&self) -> Option<i64> {
        number(&self.0[116..124])
    }

    pub(super) fn size(&self) -> Option<i64> {
        number(&self.0[124..136])
    }

    pub(super) fn modified(&self) -> Option<i64> {
        number(&self.0[136..148])
    }

    pub(super) fn kind(&self) -> u8 {
        self.0[156]
    }

    pub(super) fn link(&self) -> &'a [u8] {
        text(&self.0[157..257])
    }

    pub(super) fn user(&self) -> &'a [u8] {
        if self.flavour() == Flavour::V7 { &[] } else { text(&self.0[265..297]) }
    }

    pub(super) fn group(&self) -> &'a [u8] {
        if self.flavour() == Flavour::V7 { &[] } else { text(&self.0[297..329]) }
    }

    /// Returns the major and minor number.
    pub(super) fn device(&self) -> Option<(u32, u32)> {
        let part = |field: &[u8]| number(field).and_then(|number| u32::try_from(number).ok());
        part(&self.0[329..337]).zip(part(&self.0[337..345]))
    }

    /// Returns the start of GNU's map of a sparse file: four pairs, whether more follow, and the
    /// length including holes.
    pub(super) fn sparse(&self) -> (&'a [u8], bool, Option<i64>) {
        (&self.0[386..482], self.0[482] != 0, number(&self.0[483..495]))
    }
}

/// Rounds up to a multiple of the block length.
pub(super) fn padded(len: u64) -> u64 {
    len.next_multiple_of(BLOCK as u64)
}

/// Returns a field up to its first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    &field[..end]
}

/// Parses a number: octal digits between spaces, or binary if the highest bit is set. Returns
/// `None` if it is neither or too large.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Two's complement. The highest bit marks a binary number, the one below it is the sign.
        let negative = first & 0x40 != 0;
        let start = i128::from(first & 0x3f) - if negative { 0x40 } else { 0 };
        let value = rest.iter().try_fold(start, |value, &byte| value.checked_mul(256)?.checked_add(byte.into()))?;
        return i64::try_from(value).ok();
    }
    let digits = text(field).trim_ascii();
    // An empty field is 0: old programs omit irrelevant fields.
    digits.iter().try_fold(0i64, |value, &byte| match byte {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        for (field, expected) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"00000644", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"12x4567\0", None),
            (b"-0000001", None),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\0", Some(256)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Some(-1)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", Some(-2)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
        ] {
            assert_eq!(number(field), expected, "{field:02x?}");
        }
    }

    #[test]
    fn empty_checksum_is_rejected() {
        let mut block = [0u8; BLOCK];
        block[0] = 0x40;
        block[1..6].fill(0xc0);
        assert_eq!(block.iter().map(|&byte| i32::from(byte.cast_signed())).sum::<i32>(), -256);
        assert!(Header::parse(&block).is_err(), "the sum is that of the spaces in the field, negated");
    }

    #[test]
    fn signed_and_unsigned_checksums_are_accepted() {
        let mut block = [0u8; BLOCK];
        block[..3].copy_from_slice(b"\xe9\xe8\xe7");
        block[148..156].fill(b' ');
        for signed in [false, true] {
            let sum: i64 = block[..148]
                .iter()
                .chain(&block[156..])
                .map(|&b| if signed { i64::from(b as i8) } else { i64::from(b) })
                .sum::<i64>()
                + 256;
            let mut block = block;
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            assert!(Header::parse(&block).is_ok());
            block[0] ^= 1;
            assert!(Header::parse(&block).is_err());
        }
    }
}
