//! Encodes the records of new archives, with zip64 fields where a number needs them.

use super::end::{END, LOCATOR, ZIP64_END};
use super::record::{CENTRAL, DEFLATE, DESCRIPTOR, HAS_DESCRIPTOR, LOCAL, NTFS_EPOCH, SATURATED, STORED, UTF8, ZIP64_FIELD};
use nra_core::entry::{Kind, Timestamp};

/// Version that made the archive: Unix, and the newest version of the format whose features are
/// used.
const MADE_BY: u16 = 3 << 8 | 63;
/// The earliest DOS time: 1980-01-01T00:00:00.
const DOS_ORIGIN: (u16, u16) = (1 << 5 | 1, 0);
/// Content of this length may exceed 32 bits when compressed, bytes.
const ZIP64_FROM: u64 = 0xf000_0000;
/// Longest name and longest comment, bytes.
pub const MAX_NAME: usize = 0xffff;

/// Compression method of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// No compression.
    Stored,
    /// Deflate.
    Deflate,
    /// Zstandard.
    Zstd,
}

impl Method {
    fn number(self) -> u16 {
        match self {
            Self::Stored => STORED,
            Self::Deflate => DEFLATE,
            Self::Zstd => 93,
        }
    }
}

/// The properties of a member that are known before its content.
#[derive(Debug, Clone)]
pub struct Header<'a> {
    /// Path of at most [`MAX_NAME`] bytes, with a trailing slash for directories.
    pub name: &'a [u8],
    /// File, directory or symlink.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u16,
    /// User and group ID.
    pub owner: Option<(u64, u64)>,
    /// Time of last modification.
    pub modified: Option<Timestamp>,
    /// Compression method.
    pub method: Method,
    /// Length of the content, bytes.
    pub size: u64,
    /// The compressed content; `None` if a descriptor follows the content.
    pub packed: Option<Packed>,
}

/// The compressed content of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// CRC-32 of the content.
    pub crc: u32,
    /// Length as stored, bytes.
    pub stored_len: u64,
}

impl Header<'_> {
    /// Appends the local header.
    pub fn local(&self, out: &mut Vec<u8>) {
        let is_zip64 = self.is_zip64();
        // Values that a descriptor has are zero here.
        let size = if self.packed.is_some() { self.size } else { 0 };
        let Packed { crc, stored_len } = self.packed.unwrap_or(Packed { crc: 0, stored_len: 0 });
        let mut extra = Vec::new();
        if is_zip64 {
            push_field(&mut extra, ZIP64_FIELD, &[size.to_le_bytes(), stored_len.to_le_bytes()].concat());
        }
        self.unix_fields(&mut extra);
        out.extend(LOCAL);
        let lengths = [stored_len, size].map(|number| if is_zip64 { SATURATED } else { saturate(number) });
        self.common(is_zip64, crc, lengths, &extra, out);
        out.extend(self.name);
        out.extend(extra);
    }

    /// Appends the descriptor.
    pub fn descriptor(&self, packed: Packed, out: &mut Vec<u8>) {
        out.extend(DESCRIPTOR);
        out.extend(packed.crc.to_le_bytes());
        if self.is_zip64() {
            out.extend(packed.stored_len.to_le_bytes());
            out.extend(self.size.to_le_bytes());
        } else {
            out.extend(saturate(packed.stored_len).to_le_bytes());
            out.extend(saturate(self.size).to_le_bytes());
        }
    }

    /// Appends the record of the central directory. `offset` is that of the local header.
    pub fn central(&self, packed: Packed, offset: u64, out: &mut Vec<u8>) {
        let mut wide = Vec::new();
        // The zip64 field has only the numbers that exceed 32 bits, in this order.
        let mut put = |number: u64| {
            let saturated = saturate(number);
            if saturated == SATURATED {
                wide.extend(number.to_le_bytes());
            }
            saturated
        };
        let size = put(self.size);
        let stored_len = put(packed.stored_len);
        let offset = put(offset);
        let mut extra = Vec::new();
        if !wide.is_empty() {
            push_field(&mut extra, ZIP64_FIELD, &wide);
        }
        self.unix_fields(&mut extra);
        let is_zip64 = !wide.is_empty() || self.is_zip64();
        out.extend(CENTRAL);
        out.extend(MADE_BY.to_le_bytes());
        self.common(is_zip64, packed.crc, [stored_len, size], &extra, out);
        // No comment, first disk, no internal attributes.
        out.extend([0; 6]);
        out.extend(self.attributes().to_le_bytes());
        out.extend(offset.to_le_bytes());
        out.extend(self.name);
        out.extend(extra);
    }

    /// Appends the common fields: version, flags, method, time, checksum, lengths (stored first),
    /// lengths of name and extra fields.
    fn common(&self, is_zip64: bool, crc: u32, sizes: [u32; 2], extra: &[u8], out: &mut Vec<u8>) {
        let needed: u16 = match self.method {
            Method::Zstd => 63,
            _ if is_zip64 => 45,
            _ => 20,
        };
        let mut flags = if self.packed.is_none() { HAS_DESCRIPTOR } else { 0 };
        // ASCII needs no flag. A name that is not UTF-8 has the bytes of a Unix file system.
        if !self.name.is_ascii() && std::str::from_utf8(self.name).is_ok() {
            flags |= UTF8;
        }
        let (date, time) = self.modified.and_then(dos_time).unwrap_or(DOS_ORIGIN);
        for number in [needed, flags, self.method.number(), time, date] {
            out.extend(number.to_le_bytes());
        }
        out.extend(crc.to_le_bytes());
        sizes.iter().for_each(|size| out.extend(size.to_le_bytes()));
        for len in [self.name.len(), extra.len()] {
            out.extend(u16::try_from(len).expect("names are limited, extra fields are short").to_le_bytes());
        }
    }

    fn is_zip64(&self) -> bool {
        let stored_len = self.packed.map_or(0, |packed| packed.stored_len);
        self.size.max(stored_len) >= ZIP64_FROM
    }

    fn attributes(&self) -> u32 {
        let kind = match self.kind {
            Kind::Directory => 0o040_000,
            Kind::Symlink => 0o120_000,
            _ => 0o100_000,
        };
        let dos = if self.kind == Kind::Directory { 0x10 } else { 0 };
        (kind | u32::from(self.mode)) << 16 | dos
    }

    /// Appends the time in seconds, or in the NTFS field if it is negative or exceeds 31 bits, and
    /// the user and group ID.
    fn unix_fields(&self, extra: &mut Vec<u8>) {
        if let Some(time) = self.modified {
            if let Some(seconds) = i32::try_from(time.seconds).ok().filter(|&seconds| seconds >= 0) {
                push_field(extra, 0x5455, &[&[1], &seconds.to_le_bytes()[..]].concat());
            } else if let Some(ticks) = ntfs_ticks(time) {
                let times = ticks.to_le_bytes().repeat(3);
                push_field(extra, 0x000a, &[&[0, 0, 0, 0, 1, 0, 24, 0], &times[..]].concat());
            }
        }
        if let Some((user, group)) = self.owner {
            let mut data = vec![1];
            for id in [user, group] {
                match u32::try_from(id) {
                    Ok(id) => data.extend([&[4], &id.to_le_bytes()[..]].concat()),
                    Err(_) => data.extend([&[8], &id.to_le_bytes()[..]].concat()),
                }
            }
            push_field(extra, 0x7875, &data);
        }
    }
}

/// Returns whether a time can be stored, apart from fractions of a second.
pub fn keeps_time(time: Timestamp) -> bool {
    ntfs_ticks(time).is_some()
}

/// Returns whether a text can be the comment of an archive: it is short enough and does not contain
/// the signature of an end record.
pub fn fits_comment(comment: &[u8]) -> bool {
    u16::try_from(comment.len()).is_ok() && !comment.windows(END.len()).any(|window| window == END)
}

/// Appends the end of an archive of `count` members with `directory` bytes of records from `start`.
/// The comment must [fit](fits_comment).
pub fn end(count: u64, start: u64, directory: u64, comment: &[u8], out: &mut Vec<u8>) {
    let narrow_count = u16::try_from(count).unwrap_or(u16::MAX);
    let is_zip64 = narrow_count == u16::MAX || saturate(directory) == SATURATED || saturate(start) == SATURATED;
    if is_zip64 {
        out.extend(ZIP64_END);
        out.extend(44u64.to_le_bytes());
        out.extend(MADE_BY.to_le_bytes());
        out.extend(45u16.to_le_bytes());
        out.extend([0; 8]);
        for number in [count, count, directory, start] {
            out.extend(number.to_le_bytes());
        }
        out.extend(LOCATOR);
        out.extend([0; 4]);
        out.extend((start + directory).to_le_bytes());
        out.extend(1u32.to_le_bytes());
    }
    out.extend(END);
    out.extend([0; 4]);
    out.extend(narrow_count.to_le_bytes());
    out.extend(narrow_count.to_le_bytes());
    out.extend(saturate(directory).to_le_bytes());
    out.extend(saturate(start).to_le_bytes());
    out.extend(u16::try_from(comment.len()).expect("comments are limited").to_le_bytes());
    out.extend(comment);
}

fn saturate(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(SATURATED)
}

/// Appends an extra field.
pub(super) fn push_field(extra: &mut Vec<u8>, id: u16, data: &[u8]) {
    extra.extend(id.to_le_bytes());
    extra.extend(u16::try_from(data.len()).expect("fields are short").to_le_bytes());
    extra.extend(data);
}

/// Converts a time to units of 100 ns since 1601.
fn ntfs_ticks(time: Timestamp) -> Option<u64> {
    let seconds = u64::try_from(time.seconds.checked_add(NTFS_EPOCH)?).ok()?;
    seconds.checked_mul(10_000_000)?.checked_add(u64::from(time.nanoseconds / 100))
}

/// Converts a time to DOS date and time in UTC. Returns `None` outside of the years 1980 to 2107.
fn dos_time(time: Timestamp) -> Option<(u16, u16)> {
    let (days, second) = (time.seconds.div_euclid(86_400), time.seconds.rem_euclid(86_400));
    // Days to the civil calendar, counted from March so that leap days come last.
    let days = days.checked_add(719_468)?;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next - 1980;
    let date = u16::try_from(year).ok().filter(|&year| year < 128)? << 9 | u16::try_from(month << 5 | day).ok()?;
    let clock = (second / 3_600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
    Some((date, u16::try_from(clock).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Record, record_len};
    use super::*;
    use proptest::prelude::*;

    fn header(name: &[u8]) -> Header<'_> {
        Header {
            name,
            kind: Kind::File,
            mode: 0o640,
            owner: None,
            modified: None,
            method: Method::Stored,
            size: 0,
            packed: Some(Packed { crc: 0, stored_len: 0 }),
        }
    }

    #[test]
    fn dos_time_covers_1980_to_2107() {
        let dos = |seconds| dos_time(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(dos(951_868_799), Some((20 << 9 | 2 << 5 | 29, 23 << 11 | 59 << 5 | 29)), "2000-02-29T23:59:59Z");
        assert_eq!(dos(315_532_800), Some(DOS_ORIGIN));
        assert_eq!(dos(315_532_799), None);
        assert_eq!(dos(4_354_819_199).map(|(date, _)| date), Some(127 << 9 | 12 << 5 | 31));
        assert_eq!(dos(4_354_819_200), None);
        assert_eq!(dos(i64::MIN).or(dos(i64::MAX)), None);
    }

    #[test]
    fn large_local_header_and_descriptor_use_zip64() {
        let mut out = Vec::new();
        let large = Header { size: 5 << 30, packed: None, method: Method::Deflate, ..header(b"n") };
        large.local(&mut out);
        assert_eq!(out[..8], *b"PK\x03\x04\x2d\0\x08\0");
        assert_eq!(out[18..26], [0xff; 8], "both lengths are in the zip64 field");
        assert_eq!(out[31..35], [1, 0, 16, 0]);
        out.clear();
        large.descriptor(Packed { crc: 1, stored_len: 7 }, &mut out);
        assert_eq!(out.len(), 24);
        out.clear();
        header(b"n").descriptor(Packed { crc: 1, stored_len: 7 }, &mut out);
        assert_eq!(out.len(), 16);
    }

    #[test]
    fn end_uses_zip64_if_a_number_needs_it() {
        for (count, start, directory, wide) in [
            (0u64, 0u64, 0u64, false),
            (65_534, 0xffff_fffe, 0xffff_fffe, false),
            (65_535, 0, 0, true),
            (1, 0xffff_ffff, 0, true),
            (1, 0, 0xffff_ffff, true),
        ] {
            let mut out = Vec::new();
            end(count, start, directory, b"hello", &mut out);
            assert_eq!(out.len(), 22 + 5 + if wide { 76 } else { 0 });
            assert!(out.ends_with(b"\x05\0hello"));
        }
    }

    proptest! {
        /// The reader returns the values that were encoded.
        #[test]
        fn records_round_trip(
            name in proptest::collection::vec(1u8.., 1..300),
            is_directory: bool,
            mode in 0u16..0o10000,
            owner in proptest::option::of((any::<u64>(), any::<u64>())),
            seconds in proptest::option::of(-11_644_473_600i64..1 << 38),
            size: u64, stored_len: u64, crc: u32, offset: u64,
        ) {
            let modified = seconds.map(|seconds| Timestamp { seconds, nanoseconds: 0 });
            let packed = Packed { crc, stored_len };
            let kind = if is_directory { Kind::Directory } else { Kind::Symlink };
            let header = Header { kind, mode, owner, modified, size, packed: Some(packed), ..header(&name) };
            let mut out = Vec::new();
            header.central(packed, offset, &mut out);
            prop_assert_eq!(record_len(&out), Some(out.len()));
            let record = Record::parse(&out).unwrap();
            prop_assert_eq!(record.name, &name[..]);
            prop_assert_eq!(record.is_utf8(), !name.is_ascii() && std::str::from_utf8(&name).is_ok());
            prop_assert_eq!((record.kind(&name), record.mode(kind)), (kind, mode));
            prop_assert_eq!((record.size, record.stored_len, record.local_offset, record.crc), (size, stored_len, offset, crc));
            prop_assert_eq!(record.owner().map(|owner| (owner.user_id, owner.group_id)), owner);
            if modified.is_some() {
                prop_assert_eq!(record.modified(), modified);
            }
        }
    }
}
