//! Records of archives that are written: pure bytes, wide (zip64) wherever a number needs it.

use super::end::{END, LOCATOR, WIDE};
use super::record::{CENTRAL, DEFLATE, LOCAL, NTFS_EPOCH, STORED};
use nra_core::entry::{Kind, Timestamp};

/// What stands in a narrow field when the number is in the wide one.
const WIDE_MARK: u32 = u32::MAX;
/// Version that made the archive: Unix, and the newest version of the format whose features are used.
const MADE_BY: u16 = 3 << 8 | 63;
/// Flag: sizes and checksum stand behind the content.
const DESCRIBED: u16 = 0x0008;
/// Flag: the name is UTF-8.
const UTF8: u16 = 0x0800;
/// The earliest time of DOS: 1980-01-01T00:00:00.
const DOS_ORIGIN: (u16, u16) = (1 << 5 | 1, 0);
/// Content from this length on may be compressed to more than a narrow field holds, bytes.
const WIDE_FROM: u64 = 0xf000_0000;
/// Longest name and longest comment, bytes.
pub const MAX_NAME: usize = 0xffff;

/// How the content of a member is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// As it is.
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

/// What is known of a member before its content.
#[derive(Debug, Clone)]
pub struct Header<'a> {
    /// Path, with a slash at the end for directories; at most [`MAX_NAME`] bytes.
    pub name: &'a [u8],
    /// File, directory or symlink.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u16,
    /// User and group id.
    pub owner: Option<(u64, u64)>,
    /// Time of last modification.
    pub modified: Option<Timestamp>,
    /// How the content is stored.
    pub method: Method,
    /// Length of the content, bytes.
    pub size: u64,
    /// What else the content has; `None`: it is told behind the content.
    pub packed: Option<Packed>,
}

/// What is known of the content of a member once it is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// CRC-32 of the content.
    pub crc: u32,
    /// Length as stored, bytes.
    pub stored_len: u64,
}

impl Header<'_> {
    /// Appends the header that stands before the content.
    pub fn local(&self, out: &mut Vec<u8>) {
        let wide = self.is_wide();
        let Packed { crc, stored_len } = self.packed.unwrap_or(Packed { crc: 0, stored_len: 0 });
        let mut extra = Vec::new();
        if wide {
            // What is told behind the content is zero here.
            let size = if self.packed.is_some() { self.size } else { 0 };
            field(&mut extra, 0x0001, &[size.to_le_bytes(), stored_len.to_le_bytes()].concat());
        }
        self.unix_fields(&mut extra);
        let size = if self.packed.is_some() { self.size } else { 0 };
        out.extend(LOCAL);
        self.common(wide, crc, [stored_len, size].map(|number| if wide { WIDE_MARK } else { narrow(number) }), &extra, out);
        out.extend(self.name);
        out.extend(extra);
    }

    /// Appends what stands behind content whose header did not tell it.
    pub fn descriptor(&self, packed: Packed, out: &mut Vec<u8>) {
        out.extend(b"PK\x07\x08");
        out.extend(packed.crc.to_le_bytes());
        if self.is_wide() {
            out.extend(packed.stored_len.to_le_bytes());
            out.extend(self.size.to_le_bytes());
        } else {
            out.extend(narrow(packed.stored_len).to_le_bytes());
            out.extend(narrow(self.size).to_le_bytes());
        }
    }

    /// Appends the record of the central directory; `offset`: where the local header is.
    pub fn central(&self, packed: Packed, offset: u64, out: &mut Vec<u8>) {
        let mut wide = Vec::new();
        // Only numbers that do not fit are in the wide field, in this order.
        let mut put = |number: u64| {
            let narrow = narrow(number);
            if narrow == WIDE_MARK {
                wide.extend(number.to_le_bytes());
            }
            narrow
        };
        let size = put(self.size);
        let stored_len = put(packed.stored_len);
        let offset = put(offset);
        let mut extra = Vec::new();
        if !wide.is_empty() {
            field(&mut extra, 0x0001, &wide);
        }
        self.unix_fields(&mut extra);
        let is_wide = !wide.is_empty() || self.is_wide();
        out.extend(CENTRAL);
        out.extend(MADE_BY.to_le_bytes());
        self.common(is_wide, packed.crc, [stored_len, size], &extra, out);
        // No comment, first disk, no internal attributes.
        out.extend([0; 6]);
        out.extend(self.attributes().to_le_bytes());
        out.extend(offset.to_le_bytes());
        out.extend(self.name);
        out.extend(extra);
    }

    /// The part that both headers have: version, flags, method, time, checksum, sizes (stored first), lengths.
    fn common(&self, wide: bool, crc: u32, sizes: [u32; 2], extra: &[u8], out: &mut Vec<u8>) {
        let needed: u16 = match self.method {
            Method::Zstd => 63,
            _ if wide => 45,
            _ => 20,
        };
        let mut flags = if self.packed.is_none() { DESCRIBED } else { 0 };
        // Plain ASCII is the same in all encodings; what is neither has the bytes that a Unix system gave it.
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
            out.extend(u16::try_from(len).expect("names are bounded, extra fields short").to_le_bytes());
        }
    }

    fn is_wide(&self) -> bool {
        let stored_len = self.packed.map_or(0, |packed| packed.stored_len);
        self.size.max(stored_len) >= WIDE_FROM
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

    /// The time in seconds, or, where others may take that for another one or it does not fit, in the wider form of NTFS; the ids.
    fn unix_fields(&self, extra: &mut Vec<u8>) {
        if let Some(time) = self.modified {
            if let Some(seconds) = i32::try_from(time.seconds).ok().filter(|&seconds| seconds >= 0) {
                field(extra, 0x5455, &[&[1], &seconds.to_le_bytes()[..]].concat());
            } else if let Some(ticks) = ntfs_ticks(time) {
                let times = ticks.to_le_bytes().repeat(3);
                field(extra, 0x000a, &[&[0, 0, 0, 0, 1, 0, 24, 0], &times[..]].concat());
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
            field(extra, 0x7875, &data);
        }
    }
}

/// Says whether a time can be kept, but for the part of its second.
pub fn keeps_time(time: Timestamp) -> bool {
    ntfs_ticks(time).is_some()
}

/// Says whether a text can be the comment of an archive: it is not too long, and programs that look for the end don't find one in it.
pub fn fits_comment(comment: &[u8]) -> bool {
    u16::try_from(comment.len()).is_ok() && !comment.windows(END.len()).any(|window| window == END)
}

/// Appends what ends an archive of `count` members: `directory` bytes of records that begin at `start`, and a comment that
/// [fits](fits_comment).
pub fn end(count: u64, start: u64, directory: u64, comment: &[u8], out: &mut Vec<u8>) {
    let narrow_count = u16::try_from(count).unwrap_or(u16::MAX);
    let is_wide = narrow_count == u16::MAX || narrow(directory) == WIDE_MARK || narrow(start) == WIDE_MARK;
    if is_wide {
        out.extend(WIDE);
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
    out.extend(narrow(directory).to_le_bytes());
    out.extend(narrow(start).to_le_bytes());
    out.extend(u16::try_from(comment.len()).expect("comments are bounded").to_le_bytes());
    out.extend(comment);
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(WIDE_MARK)
}

fn field(extra: &mut Vec<u8>, id: u16, data: &[u8]) {
    extra.extend(id.to_le_bytes());
    extra.extend(u16::try_from(data.len()).expect("fields are short").to_le_bytes());
    extra.extend(data);
}

/// Units of 100 ns since 1601.
fn ntfs_ticks(time: Timestamp) -> Option<u64> {
    let seconds = u64::try_from(time.seconds.checked_add(NTFS_EPOCH)?).ok()?;
    seconds.checked_mul(10_000_000)?.checked_add(u64::from(time.nanoseconds / 100))
}

/// Date and time as DOS counts them, in UTC; `None` outside the years from 1980 to 2107.
fn dos_time(time: Timestamp) -> Option<(u16, u16)> {
    let (days, second) = (time.seconds.div_euclid(86_400), time.seconds.rem_euclid(86_400));
    // From days to the civil calendar, counted from March so that leap days come last.
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
    fn dos_times() {
        let dos = |seconds| dos_time(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(dos(951_868_799), Some((20 << 9 | 2 << 5 | 29, 23 << 11 | 59 << 5 | 29)), "2000-02-29T23:59:59Z");
        assert_eq!(dos(315_532_800), Some(DOS_ORIGIN));
        assert_eq!(dos(315_532_799), None);
        assert_eq!(dos(4_354_819_199).map(|(date, _)| date), Some(127 << 9 | 12 << 5 | 31));
        assert_eq!(dos(4_354_819_200), None);
        assert_eq!(dos(i64::MIN).or(dos(i64::MAX)), None);
    }

    #[test]
    fn a_local_header_tells_wide_numbers_and_a_descriptor_follows_suit() {
        let mut out = Vec::new();
        let large = Header { size: 5 << 30, packed: None, method: Method::Deflate, ..header(b"n") };
        large.local(&mut out);
        assert_eq!(out[..8], *b"PK\x03\x04\x2d\0\x08\0");
        assert_eq!(out[18..26], [0xff; 8], "both sizes are in the wide field");
        assert_eq!(out[31..35], [1, 0, 16, 0]);
        out.clear();
        large.descriptor(Packed { crc: 1, stored_len: 7 }, &mut out);
        assert_eq!(out.len(), 24);
        out.clear();
        header(b"n").descriptor(Packed { crc: 1, stored_len: 7 }, &mut out);
        assert_eq!(out.len(), 16);
    }

    #[test]
    fn the_end_is_wide_when_a_number_needs_it() {
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
        /// The reader takes from a record what the writer put there.
        #[test]
        fn records_come_back(
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
