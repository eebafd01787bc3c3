//! Recovers a zip archive whose directory is missing or damaged. Members are found by their local
//! headers and listed in a new directory, which appears to follow the file.
//!
//! The file is read once, and once more from the first member whose end is not found. Modes come
//! only from intact records of the old directory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::encode::push_field;
use crate::end::Directory;
use crate::record::{
    CENTRAL, CENTRAL_LEN, DESCRIPTOR, HAS_DESCRIPTOR, LOCAL, LOCAL_LEN, Record, SATURATED, ZIP64_FIELD, fields, record_len,
    u16_at, u32_at, u64_at,
};
use nra_core::error::{Error, Result};
use nra_core::source::{ReadAt, Spliced};

/// Bytes read at a time.
const READ_LEN: usize = 256 << 10;
/// Bytes kept before the current offset: the longest descriptor.
const LOOK_BACK: usize = 24;
/// Memory overhead of a member, bytes.
const MEMBER_BYTES: u64 = 64;
/// Offset of the writer's system in a record.
const MADE_BY: Range<usize> = 4..6;
/// Offset of the external attributes in a record.
const ATTRIBUTES: Range<usize> = 38..42;

/// The result of a scan.
pub(super) struct Rebuilt {
    /// The file followed by the new directory.
    pub source: Arc<dyn ReadAt>,
    pub directory: Directory,
    /// Number of members that have a local header only.
    pub header_only: u64,
    /// Name of the member within which the file ends.
    pub truncated: Option<Vec<u8>>,
    /// Names of members whose end was not found, although others follow.
    pub unterminated: Vec<Vec<u8>>,
    /// Number of ranges between members that contain other data.
    pub gaps: u64,
}

/// Finds the members of `file`. Returns `None` if there are none. The new directory uses at most
/// `limit` bytes.
pub(super) fn rebuild(file: &Arc<dyn ReadAt>, limit: u64) -> Result<Option<Rebuilt>> {
    let max_descriptors = usize::try_from(limit / MEMBER_BYTES).unwrap_or(usize::MAX);
    let mut scan = Scan { file: &**file, buffer: Vec::new(), start: 0, max_descriptors, descriptors: None };
    let mut found = Found::default();
    let mut at = 0;
    while let Some(offset) = scan.find_next(at, &[LOCAL, CENTRAL])? {
        // A descriptor is not longer than that.
        found.gaps += u64::from(offset - at > 24);
        at =
            if scan.starts_with(offset, &LOCAL)? { found.member(&mut scan, offset)? } else { found.record(&mut scan, offset)? };
        if found.len > limit {
            return Err(Error::Limit { what: "memory for the index", found: found.len, limit });
        }
    }
    let ends_well = found.end.map_or(Ok(false), |end| scan.is_boundary(end))?;
    if !found.unterminated.is_empty() && (!ends_well || found.members.len() == found.before_unterminated.0) {
        found.drop_members_after_unterminated();
    }
    if found.members.is_empty() && found.truncated.is_none() {
        return Ok(None);
    }
    let Found { members, records, truncated, unterminated, gaps, .. } = found;
    let mut directory = Vec::new();
    let (mut header_only, count) = (0, members.len() as u64);
    for mut record in members {
        match Record::parse(&record).and_then(|record| records.get(&key(&record))) {
            Some(attributes) => {
                record[MADE_BY].copy_from_slice(&attributes[..2]);
                record[ATTRIBUTES].copy_from_slice(&attributes[2..]);
            }
            None => header_only += 1,
        }
        directory.extend_from_slice(&record);
    }
    let start = file.len();
    let end = start + directory.len() as u64;
    let location = Directory { start, end, shift: 0, count, is_zip64: true, comment: end, comment_len: 0, trailing: 0 };
    let source: Arc<dyn ReadAt> = Arc::new(Spliced::new(Vec::new(), Arc::clone(file), 0..start, directory));
    Ok(Some(Rebuilt { source, directory: location, header_only, truncated, unterminated, gaps }))
}

/// Identifies a member: name, checksum and stored length. Offsets may be wrong if the start of the
/// file is missing.
type Key = (u128, u32, u64);

fn key(record: &Record<'_>) -> Key {
    (xxh3_128(record.name), record.crc, record.stored_len)
}

/// The members found so far.
#[derive(Default)]
struct Found {
    /// Records made from local headers.
    members: Vec<Vec<u8>>,
    /// System and external attributes in records of the old directory.
    records: HashMap<Key, [u8; 6]>,
    /// Memory used by both, bytes.
    len: u64,
    truncated: Option<Vec<u8>>,
    unterminated: Vec<Vec<u8>>,
    /// Number of members and gaps before the first unterminated member.
    before_unterminated: (usize, u64),
    /// End of the last member or record; `None` after an unterminated member.
    end: Option<u64>,
    gaps: u64,
}

impl Found {
    /// Drops the members after the first unterminated one: the file ends within it, and they are
    /// part of its content.
    fn drop_members_after_unterminated(&mut self) {
        self.members.truncate(self.before_unterminated.0);
        self.gaps = self.before_unterminated.1;
        self.truncated = self.unterminated.drain(..).next();
    }

    /// Adds the member whose header is at `offset`. Returns its end.
    fn member(&mut self, scan: &mut Scan<'_>, offset: u64) -> Result<u64> {
        let file_len = scan.file.len();
        let Some(header) = scan.get(offset, LOCAL_LEN)? else { return Ok(file_len) };
        let header: [u8; LOCAL_LEN] = header.try_into().expect("get returns the requested length");
        let (name_len, extra_len) = (usize::from(u16_at(&header, 26)), usize::from(u16_at(&header, 28)));
        let Some(rest) = scan.get(offset + LOCAL_LEN as u64, name_len + extra_len)? else { return Ok(file_len) };
        let (name, extra) = rest.split_at(name_len);
        let (name, extra) = (name.to_vec(), extra.to_vec());
        let start = offset + (LOCAL_LEN + name_len + extra_len) as u64;
        let mut lengths =
            Lengths { crc: u32_at(&header, 14), stored: u32_at(&header, 18).into(), size: u32_at(&header, 22).into() };
        if let Some((_, wide)) = fields(&extra).find(|(id, data)| *id == ZIP64_FIELD && data.len() >= 16)
            && u32_at(&header, 18) == SATURATED
        {
            (lengths.size, lengths.stored) = (u64_at(wide, 0), u64_at(wide, 8));
        }
        let mut end = start.checked_add(lengths.stored).filter(|&end| end <= file_len);
        // Directories have no content, and some writers omit their descriptor.
        let is_directory = name.ends_with(b"/")
            && (start == file_len || scan.starts_with(start, &LOCAL)? || scan.starts_with(start, &CENTRAL)?);
        if u16_at(&header, 6) & HAS_DESCRIPTOR != 0 && lengths.stored == 0 && !is_directory {
            let descriptor = scan.find_descriptor(start)?;
            end = descriptor.map(|(_, end)| end);
            lengths = descriptor.map_or(lengths, |(found, _)| found);
        }
        let Some(end) = end else {
            if self.unterminated.is_empty() {
                self.before_unterminated = (self.members.len(), self.gaps);
            }
            self.len += name.len() as u64 + MEMBER_BYTES;
            self.unterminated.push(name);
            self.end = None;
            return Ok(start);
        };
        self.end = Some(end);
        let record = record(&header, &name, &extra, &lengths, offset);
        self.len += record.len() as u64 + MEMBER_BYTES;
        self.members.push(record);
        Ok(end)
    }

    /// Adds a record of the old directory. Returns its end.
    fn record(&mut self, scan: &mut Scan<'_>, offset: u64) -> Result<u64> {
        let file_len = scan.file.len();
        let Some(start) = scan.get(offset, CENTRAL_LEN)? else { return Ok(file_len) };
        let len = record_len(start).expect("the signature was found");
        let Some(bytes) = scan.get(offset, len)? else { return Ok(file_len) };
        if let Some(record) = Record::parse(bytes) {
            let mut attributes = [0; 6];
            attributes[..2].copy_from_slice(&bytes[MADE_BY]);
            attributes[2..].copy_from_slice(&bytes[ATTRIBUTES]);
            self.len += MEMBER_BYTES;
            self.records.insert(key(&record), attributes);
        }
        self.end = Some(offset + len as u64);
        Ok(offset + len as u64)
    }
}

/// The checksum and lengths in a header or descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    crc: u32,
    stored: u64,
    size: u64,
}

/// Returns the record of a member whose local header is at `offset`.
fn record(header: &[u8; LOCAL_LEN], name: &[u8], extra: &[u8], lengths: &Lengths, offset: u64) -> Vec<u8> {
    let mut wide = Vec::new();
    let mut saturate = |number: u64| {
        let fits = u32::try_from(number).ok().filter(|&number| number < SATURATED);
        fits.unwrap_or_else(|| {
            wide.extend(number.to_le_bytes());
            SATURATED
        })
    };
    // In the order of the zip64 field.
    let (size, stored, offset) = (saturate(lengths.size), saturate(lengths.stored), saturate(offset));
    let mut own = Vec::new();
    if !wide.is_empty() {
        push_field(&mut own, ZIP64_FIELD, &wide);
    }
    for (id, data) in fields(extra).filter(|(id, _)| *id != ZIP64_FIELD) {
        push_field(&mut own, id, data);
    }
    // The zip64 field may make it too long, so the last field is cut.
    own.truncate(usize::from(u16::MAX));
    let mut record = Vec::with_capacity(CENTRAL_LEN + name.len() + own.len());
    record.extend(CENTRAL);
    // The system of the writer is unknown: DOS without attributes.
    record.extend([header[4], 0]);
    record.extend(&header[4..14]);
    record.extend(lengths.crc.to_le_bytes());
    record.extend(stored.to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend(u16::try_from(name.len()).expect("its length had 16 bits").to_le_bytes());
    record.extend(u16::try_from(own.len()).expect("it was truncated").to_le_bytes());
    record.extend([0; 10]);
    record.extend(offset.to_le_bytes());
    record.extend(name);
    record.extend(own);
    record
}

/// Reads a file forward.
struct Scan<'a> {
    file: &'a dyn ReadAt,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    start: u64,
    /// Most descriptors in `descriptors`.
    max_descriptors: usize,
    /// All descriptors after the first unterminated content: lengths and end, by the start of the
    /// content.
    descriptors: Option<HashMap<u64, (Lengths, u64)>>,
}

impl Scan<'_> {
    /// Returns the buffered bytes from `at` on, at least `min_len`, or `None` if the file ends
    /// before.
    ///
    /// No byte is read twice unless `at` goes back by more than [`LOOK_BACK`] bytes.
    fn buffered(&mut self, at: u64, min_len: usize) -> Result<Option<&[u8]>> {
        let file_len = self.file.len();
        if at.checked_add(min_len as u64).is_none_or(|end| end > file_len) {
            return Ok(None);
        }
        let index = at.checked_sub(self.start).and_then(|index| usize::try_from(index).ok());
        let index = index.filter(|&index| index <= self.buffer.len());
        let skip = match index {
            Some(skip) if self.buffer.len() - skip >= min_len => skip,
            index => {
                let kept = index.map_or(0, |index| index.min(LOOK_BACK));
                self.buffer.drain(..index.map_or(self.buffer.len(), |index| index - kept));
                self.start = at - kept as u64;
                let old_len = self.buffer.len();
                let next = self.start + old_len as u64;
                let left = usize::try_from(file_len - next).unwrap_or(usize::MAX);
                self.buffer.resize(old_len + left.min(min_len.max(READ_LEN)), 0);
                self.file.read_exact_at(next, &mut self.buffer[old_len..])?;
                kept
            }
        };
        Ok(Some(&self.buffer[skip..]))
    }

    /// Returns `len` bytes at `at`, or `None` if the file ends before.
    fn get(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>> {
        Ok(self.buffered(at, len)?.map(|bytes| &bytes[..len]))
    }

    /// Returns whether a signature is at `at`.
    fn starts_with(&mut self, at: u64, signature: &[u8; 4]) -> Result<bool> {
        Ok(self.get(at, 4)?.is_some_and(|bytes| bytes == signature))
    }

    /// Returns the offset of the first of these signatures from `at` on.
    fn find_next(&mut self, mut at: u64, signatures: &[[u8; 4]]) -> Result<Option<u64>> {
        while let Some(bytes) = self.buffered(at, 4)? {
            let found = bytes.windows(4).position(|four| four[0] == b'P' && signatures.iter().any(|signature| four == signature));
            match found {
                Some(index) => return Ok(Some(at + index as u64)),
                // A signature may start in the last bytes.
                None => at += (bytes.len() - 3) as u64,
            }
        }
        Ok(None)
    }

    /// Returns whether a member may end at `at`: the file ends, or a signature follows.
    fn is_boundary(&mut self, at: u64) -> Result<bool> {
        Ok(at == self.file.len() || self.get(at, 2)?.is_some_and(|bytes| bytes == b"PK"))
    }

    /// Finds the descriptor of content that starts at `start`. Returns the lengths and its end. The
    /// rest of the file is searched at most once without success.
    fn find_descriptor(&mut self, start: u64) -> Result<Option<(Lengths, u64)>> {
        if let Some(descriptors) = &self.descriptors {
            return Ok(descriptors.get(&start).copied());
        }
        let mut descriptors = HashMap::new();
        let mut at = start;
        while let Some(offset) = self.find_next(at, &[DESCRIPTOR, LOCAL, CENTRAL])? {
            // The lengths follow the signature of a descriptor. Without that signature they precede
            // the next header.
            let marked = self.starts_with(offset, &DESCRIPTOR)?;
            let from = |len: u64| if marked { Some(offset + 4) } else { offset.checked_sub(len).filter(|&from| from >= start) };
            // 32-bit lengths are contained in 64-bit lengths; the following bytes distinguish them.
            for (len, is_zip64) in [(20, true), (12, false)] {
                let Some(from) = from(len) else { continue };
                let Some(bytes) = self.get(from, usize::try_from(len).expect("short"))? else { continue };
                let lengths = if is_zip64 {
                    Lengths { crc: u32_at(bytes, 0), stored: u64_at(bytes, 4), size: u64_at(bytes, 12) }
                } else {
                    Lengths { crc: u32_at(bytes, 0), stored: u32_at(bytes, 4).into(), size: u32_at(bytes, 8).into() }
                };
                let content_end = if marked { offset } else { from };
                let Some(of) = content_end.checked_sub(lengths.stored).filter(|&of| of >= start) else { continue };
                if is_zip64 && !self.is_boundary(from + len)? {
                    continue;
                }
                if of == start {
                    return Ok(Some((lengths, from + len)));
                }
                if descriptors.len() < self.max_descriptors {
                    descriptors.entry(of).or_insert((lengths, from + len));
                }
            }
            at = offset + 4;
        }
        self.descriptors = Some(descriptors);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use nra_core::source::MemorySource;

    fn header(name: &str, flags: u16, lengths: Lengths) -> Vec<u8> {
        let mut bytes = LOCAL.to_vec();
        bytes.extend([20, 0]);
        bytes.extend(flags.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(lengths.crc.to_le_bytes());
        bytes.extend(u32::try_from(lengths.stored).unwrap().to_le_bytes());
        bytes.extend(u32::try_from(lengths.size).unwrap().to_le_bytes());
        bytes.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(name.as_bytes());
        bytes
    }

    /// Name, lengths and offset of a member.
    type FoundMember = (String, Lengths, u64);

    fn found(bytes: &[u8]) -> Option<(Vec<FoundMember>, Rebuilt)> {
        let file: Arc<dyn ReadAt> = Arc::new(MemorySource::new(bytes));
        let rebuilt = rebuild(&file, 1 << 20).unwrap()?;
        let Directory { start, end, .. } = rebuilt.directory;
        let mut directory = vec![0; usize::try_from(end - start).unwrap()];
        rebuilt.source.read_exact_at(start, &mut directory).unwrap();
        let (mut members, mut at) = (Vec::new(), 0);
        while at < directory.len() {
            let record = Record::parse(&directory[at..]).unwrap();
            let lengths = Lengths { crc: record.crc, stored: record.stored_len, size: record.size };
            members.push((String::from_utf8(record.name.to_vec()).unwrap(), lengths, record.local_offset));
            at += record_len(&directory[at..]).unwrap();
        }
        Some((members, rebuilt))
    }

    const NONE: Lengths = Lengths { crc: 0, stored: 0, size: 0 };

    /// Counts the bytes that are read, and the reads.
    struct Reads(MemorySource, AtomicU64, AtomicU64);

    impl ReadAt for Reads {
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn name(&self) -> &[u8] {
            self.0.name()
        }
        fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            self.2.fetch_add(1, Ordering::Relaxed);
            self.0.read_exact_at(offset, buffer)
        }
    }

    /// Rebuilds an archive, and asserts that the file is read once in long steps.
    fn found_once(bytes: &[u8]) -> Option<Rebuilt> {
        let reads = Arc::new(Reads(MemorySource::new(bytes), AtomicU64::new(0), AtomicU64::new(0)));
        let rebuilt = rebuild(&(Arc::clone(&reads) as Arc<dyn ReadAt>), 1 << 30).unwrap();
        let (read, times) = (reads.1.load(Ordering::Relaxed), reads.2.load(Ordering::Relaxed));
        let passes =
            1 + u64::from(rebuilt.as_ref().is_some_and(|found| found.truncated.is_some() || !found.unterminated.is_empty()));
        let most = passes * (reads.len() / READ_LEN as u64 + 2);
        assert!(read <= passes * reads.len() && times <= most, "{read} of {} bytes, {times} times", reads.len());
        rebuilt
    }

    #[test]
    fn file_is_read_once() {
        let headers: Vec<u8> = (0..20_000).flat_map(|number| header(&format!("f{number:07}"), 0, NONE)).collect();
        assert_eq!(found_once(&headers).unwrap().directory.count, 20_000);
        // Many possible descriptors.
        for mark in [DESCRIPTOR, LOCAL, CENTRAL] {
            let marks = [header("a", HAS_DESCRIPTOR, NONE), mark.repeat(150_000)].concat();
            assert_eq!(found_once(&marks).unwrap().truncated, Some(b"a".to_vec()));
        }
        // Many members without lengths.
        let endless = header("a", HAS_DESCRIPTOR, NONE).repeat(10_000);
        let rebuilt = found_once(&[endless, header("b", 0, NONE)].concat()).unwrap();
        assert_eq!((rebuilt.directory.count, rebuilt.unterminated.len(), rebuilt.truncated), (1, 10_000, None));
        // Descriptors at the boundary of two reads.
        let first = header("a", HAS_DESCRIPTOR, NONE);
        for len in READ_LEN - first.len() - 30..READ_LEN - first.len() + 30 {
            let stored = u32::try_from(len).unwrap().to_le_bytes();
            for mark in [&DESCRIPTOR[..], &[]] {
                let lengths = [mark, &[7; 4], &stored, &stored].concat();
                let bytes = [&first[..], &vec![b'x'; len], &lengths, &header("b", 0, NONE)].concat();
                let rebuilt = found_once(&bytes).unwrap();
                assert_eq!((rebuilt.directory.count, rebuilt.gaps), (2, 0), "{len}");
            }
        }
    }

    #[test]
    fn members_after_an_unterminated_one_are_found() {
        let known = Lengths { crc: 7, stored: 5, size: 9 };
        let good = |name: &str| [&header(name, 0, known)[..], b"12345"].concat();
        let streamed = |name: &str, crc: u32| {
            let lengths = [&crc.to_le_bytes()[..], &[5, 0, 0, 0], &[5, 0, 0, 0]].concat();
            [&header(name, HAS_DESCRIPTOR, NONE)[..], b"hello", &DESCRIPTOR, &lengths].concat()
        };
        let far = [&header("bad", 0, Lengths { crc: 0, stored: 1 << 30, size: 5 })[..], b"hello"].concat();
        let unmarked = [&header("bad", HAS_DESCRIPTOR, NONE)[..], b"hello no lengths at all"].concat();
        for bad in [far, unmarked] {
            let bytes = [&good("a")[..], &bad, &good("b"), &streamed("c", 3), &bad, &good("d")].concat();
            let (members, rebuilt) = found(&bytes).unwrap();
            assert_eq!(members.iter().map(|(name, ..)| &name[..]).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
            assert_eq!((rebuilt.unterminated, rebuilt.truncated), (vec![b"bad".to_vec(); 2], None));
            // If the file ends in a member, its content contains no members.
            for inner in [&good("x")[..15], &[&good("x")[..], b"rest"].concat()] {
                let (members, rebuilt) = found(&[&good("a")[..], &bad, &good("b"), inner].concat()).unwrap();
                let names: Vec<_> = members.iter().map(|(name, ..)| &name[..]).collect();
                assert!(names == ["a"] || inner.len() == 15 && names == ["a", "b"], "{names:?} {:?}", rebuilt.truncated);
            }
        }
        // A directory has no descriptor.
        let (members, rebuilt) = found(&[&header("dir/", HAS_DESCRIPTOR, NONE)[..], &good("dir/a")].concat()).unwrap();
        assert_eq!((members.len(), rebuilt.unterminated.len(), rebuilt.truncated), (2, 0, None));
    }

    #[test]
    fn members_are_found_by_local_headers() {
        let known = Lengths { crc: 7, stored: 5, size: 9 };
        let content = b"PK\x07\x08PK\x03\x04PK\x01\x02 no descriptor, no header";
        let behind = Lengths { crc: 3, stored: content.len() as u64, size: 1 << 33 };
        let mut wide = behind.crc.to_le_bytes().to_vec();
        wide.extend(behind.stored.to_le_bytes());
        wide.extend(behind.size.to_le_bytes());
        let marked = [&header("b", HAS_DESCRIPTOR, NONE)[..], content, &DESCRIPTOR, &wide].concat();
        let unmarked = [&header("c", HAS_DESCRIPTOR, NONE)[..], content, &wide].concat();
        let first = [&header("a", 0, known)[..], b"12345"].concat();
        let cut = [&header("d", 0, known)[..], b"123"].concat();
        let bytes = [&first[..], &marked, &unmarked, &cut].concat();
        let (members, rebuilt) = found(&bytes).unwrap();
        let expected = [
            ("a".to_owned(), known, 0),
            ("b".to_owned(), behind, first.len() as u64),
            ("c".to_owned(), behind, (first.len() + marked.len()) as u64),
        ];
        assert_eq!(members, expected);
        assert_eq!((rebuilt.header_only, rebuilt.truncated, rebuilt.gaps), (3, Some(b"d".to_vec()), 0));
        // 32-bit lengths that could be part of 64-bit lengths.
        let empty =
            [&header("e", HAS_DESCRIPTOR, NONE)[..], b"\x03\0", &DESCRIPTOR, &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]].concat();
        let (members, _) = found(&[&empty[..], &first].concat()).unwrap();
        assert_eq!(members[0], ("e".to_owned(), Lengths { crc: 0, stored: 2, size: 0 }, 0));
        assert_eq!(members.len(), 2);
        // Data between two members is skipped.
        let (members, rebuilt) = found(&[&first[..], &[b'x'; 100], &marked, b"PK\x03\x04"].concat()).unwrap();
        assert_eq!((members.len(), rebuilt.gaps, rebuilt.truncated), (2, 1, None));
        assert!(found(b"PK\x05\x06 nothing").is_none());
    }
}
