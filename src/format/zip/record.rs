//! Parses records of the central directory.

use std::ops::Range;

use nra_core::entry::{Kind, Owner, Timestamp};

/// Signature of a record of the central directory.
pub(super) const CENTRAL: [u8; 4] = *b"PK\x01\x02";
/// Length of a record without name, extra fields and comment, bytes.
pub(super) const CENTRAL_LEN: usize = 46;
/// Signature of a local header.
pub(super) const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Length of a local header without name and extra fields, bytes.
pub(super) const LOCAL_LEN: usize = 30;
/// Signature of the descriptor that follows content of unknown length.
pub(super) const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Flag: the content is encrypted.
const ENCRYPTED: u16 = 0x0001;
/// Flag: a descriptor with the lengths follows the content.
pub(super) const HAS_DESCRIPTOR: u16 = 0x0008;
/// Flag: name and comment are UTF-8.
pub(super) const UTF8: u16 = 0x0800;

/// Method: no compression.
pub(super) const STORED: u16 = 0;
/// Method: deflate.
pub(super) const DEFLATE: u16 = 8;
/// Method: lzma with a header of its own.
pub(super) const LZMA: u16 = 14;
/// Method: an xz stream.
pub(super) const XZ: u16 = 95;
/// Method of a member encrypted with AES; an extra field has the compression method.
pub(super) const AES: u16 = 99;

/// Offset of the method in a record.
pub(super) const METHOD: Range<usize> = 10..12;

/// Extra field with 64-bit numbers.
pub(super) const ZIP64_FIELD: u16 = 0x0001;
/// Value of a 32-bit number that is stored in the zip64 field.
pub(super) const SATURATED: u32 = u32::MAX;
/// Extra field that describes the AES encryption: version, `AE`, strength, method.
const AES_FIELD: u16 = 0x9901;

/// Seconds between 1601, the epoch of NTFS, and 1970.
pub(super) const NTFS_EPOCH: i64 = 11_644_473_600;

/// A record of the central directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    /// System of the writer: 0 is DOS, 3 is Unix.
    pub host: u8,
    pub flags: u16,
    pub method: u16,
    pub dos_time: u16,
    pub dos_date: u16,
    pub crc: u32,
    pub stored_len: u64,
    pub size: u64,
    pub attributes: u32,
    /// Offset of the local header, without the shift of the directory.
    pub local_offset: u64,
    pub name: &'a [u8],
    pub extra: &'a [u8],
}

/// Returns the length of the record that starts with these bytes (46 at least), or `None` if there
/// is none.
pub(super) fn record_len(bytes: &[u8]) -> Option<usize> {
    (bytes.len() >= CENTRAL_LEN && bytes.starts_with(&CENTRAL)).then(|| {
        let variable: usize = [28, 30, 32].iter().map(|&at| usize::from(u16_at(bytes, at))).sum();
        CENTRAL_LEN + variable
    })
}

impl<'a> Record<'a> {
    /// Parses a complete record.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let len = record_len(bytes)?;
        let bytes = bytes.get(..len)?;
        let name_end = CENTRAL_LEN + usize::from(u16_at(bytes, 28));
        let extra_end = name_end + usize::from(u16_at(bytes, 30));
        let mut record = Self {
            host: bytes[5],
            flags: u16_at(bytes, 8),
            method: u16_at(bytes, 10),
            dos_time: u16_at(bytes, 12),
            dos_date: u16_at(bytes, 14),
            crc: u32_at(bytes, 16),
            stored_len: u32_at(bytes, 20).into(),
            size: u32_at(bytes, 24).into(),
            attributes: u32_at(bytes, 38),
            local_offset: u32_at(bytes, 42).into(),
            name: &bytes[CENTRAL_LEN..name_end],
            extra: &bytes[name_end..extra_end],
        };
        record.read_zip64_field();
        Some(record)
    }

    pub fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }

    pub fn is_utf8(&self) -> bool {
        self.flags & UTF8 != 0
    }

    /// Returns the data of the first extra field with this ID.
    pub fn field(&self, id: u16) -> Option<&'a [u8]> {
        fields(self.extra).find(|field| field.0 == id).map(|(_, data)| data)
    }

    /// Replaces saturated numbers with those of the zip64 field, which contains only these.
    fn read_zip64_field(&mut self) {
        let Some(mut wide) = self.field(ZIP64_FIELD) else { return };
        for number in [&mut self.size, &mut self.stored_len, &mut self.local_offset] {
            if *number == u64::from(SATURATED)
                && let Some((value, rest)) = wide.split_first_chunk()
            {
                *number = u64::from_le_bytes(*value);
                wide = rest;
            }
        }
    }

    /// Returns the Unix mode if the writer stored one.
    fn unix_mode(&self) -> Option<u32> {
        // 3 is Unix, 19 is OS X.
        let mode = self.attributes >> 16;
        ([3, 19].contains(&self.host) && mode != 0).then_some(mode)
    }

    /// Returns the kind of the member. Its name, with `/` between the components, decides if
    /// nothing else does. Pipes and devices with content are files.
    pub fn kind(&self, name: &[u8]) -> Kind {
        const DOS_DIRECTORY: u32 = 0x10;
        match self.unix_mode().unwrap_or(0) & 0o170_000 {
            0o010_000 | 0o020_000 | 0o060_000 if self.size > 0 => Kind::File,
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Symlink,
            0o010_000 => Kind::Fifo,
            0o020_000 => Kind::CharacterDevice,
            0o060_000 => Kind::BlockDevice,
            0o100_000 if !name.ends_with(b"/") => Kind::File,
            _ if name.ends_with(b"/") || self.attributes & DOS_DIRECTORY != 0 => Kind::Directory,
            _ => Kind::File,
        }
    }

    /// Returns the permission bits.
    pub fn mode(&self, kind: Kind) -> u16 {
        const DOS_READ_ONLY: u32 = 0x01;
        // A mode of zero without a file type was not set by a system.
        let known = self.unix_mode().map(|mode| (mode & 0o7777, mode & 0o170_000)).filter(|&mode| mode != (0, 0));
        let known = known.map(|(mode, _)| mode);
        let mode = known.unwrap_or(match kind {
            Kind::Directory => 0o755,
            _ if self.attributes & DOS_READ_ONLY != 0 => 0o444,
            _ => 0o644,
        });
        u16::try_from(mode).expect("twelve bits")
    }

    /// Returns the modification time from the Unix or NTFS field, or else the DOS time, interpreted
    /// as UTC.
    pub fn modified(&self) -> Option<Timestamp> {
        // "UT": flags, then seconds. Without the flag there is no modification time.
        if let Some([flags, rest @ ..]) = self.field(0x5455)
            && flags & 1 != 0
            && let Some(seconds) = rest.first_chunk()
        {
            return Some(self.unix_time(*seconds));
        }
        if let Some(time) = self.field(0x000a).and_then(ntfs_time) {
            return Some(time);
        }
        // Info-ZIP, first version: access time, modification time.
        if let Some(seconds) = self.field(0x5855).and_then(|data| data.get(4..8)?.first_chunk()) {
            return Some(self.unix_time(*seconds));
        }
        dos_time(self.dos_date, self.dos_time)
    }

    /// Returns a 32-bit time. Some writers treat it as signed, others as unsigned. The DOS time,
    /// which starts at 1980, decides.
    fn unix_time(&self, seconds: [u8; 4]) -> Timestamp {
        // From 2038 on, with a tolerance for time zones.
        const LATE: i64 = i32::MAX as i64 - 2 * 86_400;
        let is_late = dos_time(self.dos_date, self.dos_time).is_some_and(|time| time.seconds >= LATE);
        let seconds = if is_late { u32::from_le_bytes(seconds).into() } else { i32::from_le_bytes(seconds).into() };
        Timestamp { seconds, nanoseconds: 0 }
    }

    /// Returns the user and group ID if the writer stored them.
    pub fn owner(&self) -> Option<Owner> {
        let data = self.field(0x7875)?;
        let (&1, rest) = data.split_first()? else { return None };
        let (user_id, rest) = sized_number(rest)?;
        let (group_id, _) = sized_number(rest)?;
        Some(Owner { user_id, group_id, ..Owner::default() })
    }
}

/// Iterates over extra fields. A truncated field is ignored.
pub(super) fn fields(mut extra: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = extra.split_first_chunk::<4>()?;
        let len = usize::from(u16_at(head, 2));
        let data = rest.get(..len)?;
        extra = &rest[len..];
        Some((u16_at(head, 0), data))
    })
}

/// Parses a number that is preceded by its length.
fn sized_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let digits = rest.get(..usize::from(len)).filter(|digits| digits.len() <= 8)?;
    let mut number = [0; 8];
    number[..digits.len()].copy_from_slice(digits);
    Some((u64::from_le_bytes(number), &rest[digits.len()..]))
}

/// Parses the NTFS field: four reserved bytes, then attributes. Attribute 1 has three times in
/// units of 100 ns.
fn ntfs_time(data: &[u8]) -> Option<Timestamp> {
    let (_, times) = fields(data.get(4..)?).find(|&(id, _)| id == 1)?;
    let ticks = u64::from_le_bytes(*times.first_chunk()?);
    let seconds = i64::try_from(ticks / 10_000_000).ok()? - NTFS_EPOCH;
    let nanoseconds = u32::try_from(ticks % 10_000_000 * 100).expect("less than a second");
    Some(Timestamp { seconds, nanoseconds })
}

/// Converts a DOS time. Returns `None` if it is invalid, such as month 13.
fn dos_time(date: u16, time: u16) -> Option<Timestamp> {
    let (year, month, day) = (1980 + i64::from(date >> 9), i64::from(date >> 5 & 15), i64::from(date & 31));
    let (hour, minute, second) = (i64::from(time >> 11), i64::from(time >> 5 & 63), i64::from(time & 31) * 2);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days of the civil calendar, counted from March so that leap days come last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(Timestamp { seconds: ((days * 24 + hour) * 60 + minute) * 60 + second, nanoseconds: 0 })
}

/// The content of an encrypted member.
pub(super) struct EncryptedContent {
    /// Compression method.
    pub method: u16,
    /// The checksum of the record is that of the content.
    pub has_crc: bool,
    /// The member's record with the method "stored". Reading with it returns the decrypted,
    /// compressed content.
    pub stored_record: Vec<u8>,
}

/// Returns the content of the encrypted member with this record if it is lzma or xz, or else
/// `None`.
pub(super) fn encrypted_content(bytes: &[u8]) -> Option<EncryptedContent> {
    let record = Record::parse(bytes)?;
    let mut stored_record = bytes.to_vec();
    let (mut method, mut has_crc) = (record.method, true);
    if method != AES {
        stored_record[METHOD].fill(0);
    }
    // The compressed content may be longer than the declared length, which is set to a maximum.
    let is_wide = stored_record[24..28] == [0xff; 4];
    if !is_wide {
        stored_record[24..28].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
    }
    let mut at = CENTRAL_LEN + record.name.len();
    for (id, data) in fields(record.extra) {
        at += 4;
        match id {
            0x0001 if is_wide && data.len() >= 8 => stored_record[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes()),
            // Any of several such fields may be the relevant one.
            AES_FIELD if record.method == AES && data.len() >= 7 => {
                let real = u16_at(data, 5);
                if ![LZMA, XZ].contains(&method) {
                    method = real;
                }
                has_crc = u16_at(data, 0) == 1;
                stored_record[at + 5..at + 7].fill(0);
            }
            _ => {}
        }
        at += data.len();
    }
    [LZMA, XZ].contains(&method).then_some(EncryptedContent { method, has_crc, stored_record })
}

/// Returns the name of a method.
pub(super) fn method_name(method: u16) -> &'static str {
    match method {
        STORED => "stored",
        1 => "shrink",
        2..=5 => "reduce",
        6 => "implode",
        DEFLATE => "deflate",
        9 => "deflate64",
        12 => "bzip2",
        LZMA => "lzma",
        93 => "zstd",
        XZ => "xz",
        98 => "ppmd",
        AES => "aes",
        _ => "unknown",
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("a fixed layout"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a fixed layout"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("a fixed layout"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(host: u8, attributes: u32, extra: &[u8]) -> Vec<u8> {
        let mut bytes = CENTRAL.to_vec();
        bytes.resize(CENTRAL_LEN, 0);
        bytes[5] = host;
        bytes[12..14].copy_from_slice(&(23u16 << 11 | 59 << 5 | 29).to_le_bytes());
        bytes[14..16].copy_from_slice(&(20u16 << 9 | 2 << 5 | 29).to_le_bytes());
        for at in [20, 24, 42] {
            bytes[at..at + 4].fill(0xff);
        }
        bytes[28..30].copy_from_slice(&1u16.to_le_bytes());
        bytes[30..32].copy_from_slice(&u16::try_from(extra.len()).unwrap().to_le_bytes());
        bytes[38..42].copy_from_slice(&attributes.to_le_bytes());
        bytes.push(b'n');
        bytes.extend(extra);
        bytes
    }

    #[test]
    fn zip64_field_replaces_saturated_numbers() {
        let extra = [&[1, 0, 24, 0][..], &5u64.to_le_bytes(), &(1u64 << 40).to_le_bytes(), &7u64.to_le_bytes()].concat();
        let bytes = record(3, 0, &extra);
        let parsed = Record::parse(&bytes).unwrap();
        assert_eq!((parsed.size, parsed.stored_len, parsed.local_offset), (5, 1 << 40, 7));
        assert_eq!(parsed.name, b"n");
        let truncated = record(3, 0, &extra[..12]);
        let parsed = Record::parse(&truncated).unwrap();
        assert_eq!(parsed.stored_len, u64::from(u32::MAX), "a truncated field is ignored");
    }

    #[test]
    fn record_of_encrypted_content_is_stored() {
        let wide = [&[1, 0, 24, 0][..], &5u64.to_le_bytes(), &(1u64 << 40).to_le_bytes(), &7u64.to_le_bytes()].concat();
        let field = |version: u8, method: u16| [&[1, 0x99, 7, 0, version, 0, b'A', b'E', 3][..], &method.to_le_bytes()].concat();
        let with = |method: u16, extra: &[u8]| {
            let mut bytes = record(3, 0, extra);
            bytes[10..12].copy_from_slice(&method.to_le_bytes());
            encrypted_content(&bytes)
        };
        let found = with(AES, &[wide.clone(), field(1, LZMA)].concat()).unwrap();
        assert_eq!((found.method, found.has_crc), (LZMA, true));
        let shown = Record::parse(&found.stored_record).unwrap();
        assert_eq!((shown.method, shown.stored_len, shown.local_offset), (AES, 1 << 40, 7));
        assert!(shown.size > shown.stored_len);
        assert_eq!(u16_at(shown.field(AES_FIELD).unwrap(), 5), STORED);
        assert!(!with(AES, &field(2, XZ)).unwrap().has_crc);
        let found = with(XZ, &wide).unwrap();
        assert_eq!((found.method, Record::parse(&found.stored_record).unwrap().method), (XZ, STORED));
        // All of several fields are changed.
        for fields in [[field(1, DEFLATE), field(1, LZMA)], [field(1, LZMA), field(1, DEFLATE)]] {
            let found = with(AES, &fields.concat()).unwrap();
            assert_eq!(found.method, LZMA);
            assert!(
                !found.stored_record.ends_with(&LZMA.to_le_bytes()) && !found.stored_record.ends_with(&DEFLATE.to_le_bytes())
            );
        }
        assert!(with(AES, &field(1, DEFLATE)).is_none() && with(DEFLATE, &wide).is_none());
    }

    #[test]
    fn dos_times_are_utc() {
        let bytes = record(0, 0, &[]);
        let expected = Timestamp { seconds: 951_868_798, nanoseconds: 0 }; // 2000-02-29T23:59:58Z
        assert_eq!(Record::parse(&bytes).unwrap().modified(), Some(expected));
        assert_eq!(dos_time(0, 0), None);
        assert_eq!(dos_time(0x0021, 0), Some(Timestamp { seconds: 315_532_800, nanoseconds: 0 }));
        assert_eq!(dos_time(13 << 5 | 1, 0), None);
    }

    #[test]
    fn extra_fields_have_precedence_over_dos_time() {
        let unix = [&[0x55, 0x54, 5, 0, 1][..], &1_700_000_000i32.to_le_bytes()].concat();
        assert_eq!(Record::parse(&record(3, 0, &unix)).unwrap().modified().unwrap().seconds, 1_700_000_000);
        let ticks = (1_700_000_000u64 + 11_644_473_600) * 10_000_000 + 1;
        let ntfs = [&[10, 0, 32, 0, 0, 0, 0, 0, 1, 0, 24, 0][..], &ticks.to_le_bytes(), &[0; 16]].concat();
        let expected = Timestamp { seconds: 1_700_000_000, nanoseconds: 100 };
        assert_eq!(Record::parse(&record(0, 0, &ntfs)).unwrap().modified(), Some(expected));
        for empty in [&[0x55, 0x54, 0, 0][..], &[0x55, 0x54, 1, 0, 1]] {
            assert_eq!(Record::parse(&record(3, 0, empty)).unwrap().modified().unwrap().seconds, 951_868_798);
        }
    }

    #[test]
    fn dos_time_selects_sign_of_32_bit_time() {
        for (seconds, year, expected) in [
            (0x7fff_ffffu32, 2038u16, 0x7fff_ffff_i64),
            (0x8000_0000, 2038, 0x8000_0000),
            (0xffff_ffff, 2106, 0xffff_ffff),
            (0xffff_ffff, 1980, -1),
            (0x8000_0000, 1980, -0x8000_0000),
            (1, 2107, 1),
        ] {
            let extra = [&[0x55, 0x54, 5, 0, 1][..], &seconds.to_le_bytes()].concat();
            let mut bytes = record(3, 0, &extra);
            bytes[14..16].copy_from_slice(&((year - 1980) << 9 | 1 << 5 | 20).to_le_bytes());
            assert_eq!(Record::parse(&bytes).unwrap().modified().unwrap().seconds, expected, "{seconds} {year}");
        }
    }

    #[test]
    fn kind_and_mode_depend_on_the_writer() {
        for (host, attributes, name, kind, mode) in [
            (3, 0o100_755 << 16, &b"f"[..], Kind::File, 0o755),
            (3, 0o120_777 << 16, b"l", Kind::Symlink, 0o777),
            (3, 0o040_700 << 16, b"d/", Kind::Directory, 0o700),
            (0, 0x10, b"d", Kind::Directory, 0o755),
            (0, 0x01, b"f", Kind::File, 0o444),
            (0, 0o120_777 << 16, b"f", Kind::File, 0o644),
            (3, 0, b"d/", Kind::Directory, 0o755),
            (3, 0o100_000 << 16, b"f", Kind::File, 0),
            (3, 0o040_000 << 16, b"d/", Kind::Directory, 0),
        ] {
            let bytes = record(host, attributes, &[]);
            let parsed = Record::parse(&bytes).unwrap();
            assert_eq!((parsed.kind(name), parsed.mode(kind)), (kind, mode), "{host} {attributes:o}");
        }
    }

    #[test]
    fn pipes_and_devices_with_content_are_files() {
        for mode in [0o010_644, 0o020_644, 0o060_644] {
            let mut bytes = record(3, mode << 16, &[]);
            bytes[24..28].copy_from_slice(&0u32.to_le_bytes());
            assert_ne!(Record::parse(&bytes).unwrap().kind(b"f"), Kind::File);
            bytes[24] = 1;
            assert_eq!(Record::parse(&bytes).unwrap().kind(b"f"), Kind::File);
        }
    }

    #[test]
    fn owner_is_read_from_extra_field() {
        let extra = [0x75, 0x78, 8, 0, 1, 2, 0xe8, 3, 3, 1, 0, 1];
        let owner = Record::parse(&record(3, 0, &extra)).unwrap().owner().unwrap();
        assert_eq!((owner.user_id, owner.group_id), (1000, 65_537));
        assert_eq!(Record::parse(&record(3, 0, &extra[..8])).unwrap().owner(), None);
    }
}
