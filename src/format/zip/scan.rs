//! What is left of a zip archive whose directory is lost or damaged: members are found by their own headers, one behind the other, and get
//! a directory anew, which is shown as if it stood behind the file.
//!
//! Promises: the file is gone through once, no byte of it is read twice; once more only from a member on whose end can't be told. What only a record of the old directory tells (the mode), one that is whole still tells.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::end::Directory;
use crate::record::{CENTRAL, CENTRAL_LEN, LOCAL, LOCAL_LEN, Record, fields, record_len, u16_at, u32_at, u64_at};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Bytes read at a time.
const STEP: usize = 256 << 10;
/// Bytes in front of a place that may be asked for again: as long as what tells lengths behind content.
const BACK: usize = 24;
/// What a list takes for each member beside what it holds, bytes.
const PER_MEMBER: u64 = 64;
/// First bytes of what some writers put behind content whose length they did not know before.
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Flag: the lengths stand behind the content.
const BEHIND: u16 = 0x0008;
/// Number of the extra field with numbers of 64 bits.
const WIDE: u16 = 0x0001;
/// A number that stands in that field.
const NARROW_MAX: u32 = u32::MAX;
/// Where a record has the system of its writer.
const MADE_BY: Range<usize> = 4..6;
/// Where a record has the attributes that the system has for the file.
const ATTRIBUTES: Range<usize> = 38..42;

/// A file, and behind it the directory that was made for it.
struct WithDirectory {
    file: Arc<dyn ReadAt>,
    directory: Vec<u8>,
}

impl ReadAt for WithDirectory {
    fn len(&self) -> u64 {
        self.file.len() + self.directory.len() as u64
    }

    fn name(&self) -> &[u8] {
        self.file.name()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let of_file = usize::try_from(self.file.len().saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let (front, rest) = buffer.split_at_mut(of_file);
        if !front.is_empty() {
            self.file.read_exact_at(offset, front)?;
        }
        let at = usize::try_from(offset.saturating_sub(self.file.len())).unwrap_or(usize::MAX);
        match at.checked_add(rest.len()).and_then(|end| self.directory.get(at..end)) {
            Some(bytes) => {
                rest.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Error::io("read", self.name(), std::io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// What was found.
pub(super) struct Rebuilt {
    /// The file with a directory.
    pub source: Arc<dyn ReadAt>,
    pub directory: Directory,
    /// Members of which nothing but a header tells.
    pub by_header: u64,
    /// Name of the member that the file ends in.
    pub cut: Option<Vec<u8>>,
    /// Names of members whose end can't be told, with others behind them.
    pub lost: Vec<Vec<u8>>,
    /// Stretches between members that are none.
    pub gaps: u64,
}

/// Looks for members from the start of `file` on; `None` when there are none. A directory takes at most `limit` bytes.
///
/// # Errors
///
/// `Limit`; those of the source.
pub(super) fn rebuild(file: &Arc<dyn ReadAt>, limit: u64) -> Result<Option<Rebuilt>> {
    let room = usize::try_from(limit / PER_MEMBER).unwrap_or(usize::MAX);
    let mut scan = Scan { file: &**file, buffer: Vec::new(), start: 0, room, known: None };
    let mut found = Found::default();
    let mut at = 0;
    while let Some(place) = scan.next(at, &[LOCAL, CENTRAL])? {
        // A descriptor takes no more than that.
        found.gaps += u64::from(place - at > 24);
        at = if scan.starts(place, &LOCAL)? { found.member(&mut scan, place)? } else { found.record(&mut scan, place)? };
        if found.len > limit {
            return Err(Error::Limit { what: "memory for the index", found: found.len, limit });
        }
    }
    let ends_well = match found.end {
        Some(end) => scan.is_between(end)?,
        None => false,
    };
    if !found.lost.is_empty() && (!ends_well || found.members.len() == found.before.0) {
        found.forget();
    }
    if found.members.is_empty() && found.cut.is_none() {
        return Ok(None);
    }
    let Found { members, records, cut, lost, gaps, .. } = found;
    let mut directory = Vec::new();
    let (mut by_header, count) = (0, members.len() as u64);
    for mut record in members {
        match Record::parse(&record).and_then(|record| records.get(&key(&record))) {
            Some(marks) => {
                record[MADE_BY].copy_from_slice(&marks[..2]);
                record[ATTRIBUTES].copy_from_slice(&marks[2..]);
            }
            None => by_header += 1,
        }
        directory.extend_from_slice(&record);
    }
    let start = file.len();
    let end = start + directory.len() as u64;
    let place = Directory { start, end, shift: 0, count, is_narrow: false, comment: end, comment_len: 0, trailing: 0 };
    let source: Arc<dyn ReadAt> = Arc::new(WithDirectory { file: Arc::clone(file), directory });
    Ok(Some(Rebuilt { source, directory: place, by_header, cut, lost, gaps }))
}

/// What a member is known by: its name, its checksum and its length as stored. Places may be wrong when bytes in front are missing.
type Key = (u128, u32, u64);

fn key(record: &Record<'_>) -> Key {
    (xxh3_128(record.name), record.crc, record.stored_len)
}

/// Members so far.
#[derive(Default)]
struct Found {
    /// Records made of headers.
    members: Vec<Vec<u8>>,
    /// What only the records of the old directory tell.
    records: HashMap<Key, [u8; 6]>,
    /// Bytes of both.
    len: u64,
    cut: Option<Vec<u8>>,
    lost: Vec<Vec<u8>>,
    /// How many members and gaps came before the first of these.
    before: (usize, u64),
    /// Where the member or record ends that came last; `None` behind one whose end can't be told.
    end: Option<u64>,
    gaps: u64,
}

impl Found {
    /// Lets go what came behind a member whose end can't be told: the file ends within it, and what looks like members is its content.
    fn forget(&mut self) {
        self.members.truncate(self.before.0);
        self.gaps = self.before.1;
        self.cut = self.lost.drain(..).next();
    }

    /// Takes the member whose header stands at `place`; returns where it ends.
    fn member(&mut self, scan: &mut Scan<'_>, place: u64) -> Result<u64> {
        let whole = scan.file.len();
        let Some(header) = scan.get(place, LOCAL_LEN)? else { return Ok(whole) };
        let header: [u8; LOCAL_LEN] = header.try_into().expect("as long as asked for");
        let (name_len, extra_len) = (usize::from(u16_at(&header, 26)), usize::from(u16_at(&header, 28)));
        let Some(rest) = scan.get(place + LOCAL_LEN as u64, name_len + extra_len)? else { return Ok(whole) };
        let (name, extra) = rest.split_at(name_len);
        let (name, extra) = (name.to_vec(), extra.to_vec());
        let start = place + (LOCAL_LEN + name_len + extra_len) as u64;
        let mut lengths =
            Lengths { crc: u32_at(&header, 14), stored: u32_at(&header, 18).into(), size: u32_at(&header, 22).into() };
        if let Some((_, wide)) = fields(&extra).find(|(id, data)| *id == WIDE && data.len() >= 16)
            && u32_at(&header, 18) == NARROW_MAX
        {
            (lengths.size, lengths.stored) = (u64_at(wide, 0), u64_at(wide, 8));
        }
        let mut end = start.checked_add(lengths.stored).filter(|&end| end <= whole);
        // Directories have no content, and with some writers no lengths behind it.
        let is_directory =
            name.ends_with(b"/") && (start == whole || scan.starts(start, &LOCAL)? || scan.starts(start, &CENTRAL)?);
        if u16_at(&header, 6) & BEHIND != 0 && lengths.stored == 0 && !is_directory {
            end = match scan.lengths_behind(start)? {
                Some((found, behind)) => {
                    lengths = found;
                    Some(behind)
                }
                None => None,
            };
        }
        let Some(end) = end else {
            if self.lost.is_empty() {
                self.before = (self.members.len(), self.gaps);
            }
            self.len += name.len() as u64 + PER_MEMBER;
            self.lost.push(name);
            self.end = None;
            return Ok(start);
        };
        self.end = Some(end);
        let record = record(&header, &name, &extra, &lengths, place);
        // Room for the list, too.
        self.len += record.len() as u64 + PER_MEMBER;
        self.members.push(record);
        Ok(end)
    }

    /// Takes a record of the old directory; returns where it ends.
    fn record(&mut self, scan: &mut Scan<'_>, place: u64) -> Result<u64> {
        let whole = scan.file.len();
        let Some(head) = scan.get(place, CENTRAL_LEN)? else { return Ok(whole) };
        let len = record_len(head).expect("its first bytes were found");
        let Some(bytes) = scan.get(place, len)? else { return Ok(whole) };
        if let Some(record) = Record::parse(bytes) {
            let mut marks = [0; 6];
            marks[..2].copy_from_slice(&bytes[MADE_BY]);
            marks[2..].copy_from_slice(&bytes[ATTRIBUTES]);
            self.len += PER_MEMBER;
            self.records.insert(key(&record), marks);
        }
        self.end = Some(place + len as u64);
        Ok(place + len as u64)
    }
}

/// What a header or a descriptor says of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    crc: u32,
    stored: u64,
    size: u64,
}

/// Makes the record of a member whose header stands at `place`.
fn record(header: &[u8; LOCAL_LEN], name: &[u8], extra: &[u8], lengths: &Lengths, place: u64) -> Vec<u8> {
    let mut wide = Vec::new();
    let mut narrow = |number: u64| {
        let fits = u32::try_from(number).ok().filter(|&number| number < NARROW_MAX);
        fits.unwrap_or_else(|| {
            wide.extend(number.to_le_bytes());
            NARROW_MAX
        })
    };
    // In the order in which the field has them.
    let (size, stored, offset) = (narrow(lengths.size), narrow(lengths.stored), narrow(place));
    let mut own = Vec::new();
    if !wide.is_empty() {
        own.extend(WIDE.to_le_bytes());
        own.extend(u16::try_from(wide.len()).expect("three numbers").to_le_bytes());
        own.extend(wide);
    }
    for (id, data) in fields(extra).filter(|(id, _)| *id != WIDE) {
        own.extend(id.to_le_bytes());
        own.extend(u16::try_from(data.len()).expect("it was told by 16 bits").to_le_bytes());
        own.extend(data);
    }
    // With the numbers in front it may have become too long, by a field at its end.
    own.truncate(usize::from(u16::MAX));
    let mut record = Vec::with_capacity(CENTRAL_LEN + name.len() + own.len());
    record.extend(CENTRAL);
    // The system of the writer is not known: DOS, without attributes.
    record.extend([header[4], 0]);
    record.extend(&header[4..14]);
    record.extend(lengths.crc.to_le_bytes());
    record.extend(stored.to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend(u16::try_from(name.len()).expect("it was told by 16 bits").to_le_bytes());
    record.extend(u16::try_from(own.len()).expect("it was cut").to_le_bytes());
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
    /// Where the buffer begins in the file.
    start: u64,
    /// Lengths that are kept at most.
    room: usize,
    /// All lengths behind the first content whose end was not found, by where their content begins.
    known: Option<HashMap<u64, (Lengths, u64)>>,
}

impl Scan<'_> {
    /// Returns what is in the buffer from `at` on, at least `least` bytes; `None` where the file ends before.
    ///
    /// No byte is read twice as long as `at` goes back by no more than `BACK` bytes.
    fn have(&mut self, at: u64, least: usize) -> Result<Option<&[u8]>> {
        let whole = self.file.len();
        if at.checked_add(least as u64).is_none_or(|end| end > whole) {
            return Ok(None);
        }
        let place = |start: u64, at: u64| at.checked_sub(start).and_then(|place| usize::try_from(place).ok());
        let known = place(self.start, at).filter(|&place| place <= self.buffer.len());
        let skip = match known {
            Some(skip) if self.buffer.len() - skip >= least => skip,
            known => {
                // What may be looked back at stays.
                let kept = known.map_or(0, |known| known.min(BACK));
                self.buffer.drain(..known.map_or(self.buffer.len(), |known| known - kept));
                self.start = at - kept as u64;
                let had = self.buffer.len();
                let next = self.start + had as u64;
                let left = usize::try_from(whole - next).unwrap_or(usize::MAX);
                self.buffer.resize(had + left.min(least.max(STEP)), 0);
                self.file.read_exact_at(next, &mut self.buffer[had..])?;
                kept
            }
        };
        Ok(Some(&self.buffer[skip..]))
    }

    /// Returns `len` bytes at `at`; `None` where the file ends before.
    fn get(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>> {
        Ok(self.have(at, len)?.map(|bytes| &bytes[..len]))
    }

    /// Says whether the bytes at `at` begin so.
    fn starts(&mut self, at: u64, with: &[u8; 4]) -> Result<bool> {
        Ok(self.get(at, 4)?.is_some_and(|bytes| bytes == with))
    }

    /// Returns the first place from `at` on where one of these stands.
    fn next(&mut self, mut at: u64, wanted: &[[u8; 4]]) -> Result<Option<u64>> {
        while let Some(bytes) = self.have(at, 4)? {
            let found = bytes.windows(4).position(|four| four[0] == b'P' && wanted.iter().any(|wanted| four == wanted));
            match found {
                Some(place) => return Ok(Some(at + place as u64)),
                // One may begin in the last bytes.
                None => at += (bytes.len() - 3) as u64,
            }
        }
        Ok(None)
    }

    /// Says whether a member may end at `at`: the file does, or something begins there.
    fn is_between(&mut self, at: u64) -> Result<bool> {
        Ok(at == self.file.len() || self.get(at, 2)?.is_some_and(|bytes| bytes == b"PK"))
    }

    /// Looks for the lengths behind content that begins at `start`; returns them and where they end. The rest of the file is gone through in
    /// vain once at most.
    fn lengths_behind(&mut self, start: u64) -> Result<Option<(Lengths, u64)>> {
        if let Some(known) = &self.known {
            return Ok(known.get(&start).copied());
        }
        let mut known = HashMap::new();
        let mut at = start;
        while let Some(place) = self.next(at, &[DESCRIPTOR, LOCAL, CENTRAL])? {
            // With a mark in front they stand behind it, without one in front of what comes next.
            let marked = self.starts(place, &DESCRIPTOR)?;
            let from = |len: u64| if marked { Some(place + 4) } else { place.checked_sub(len).filter(|&from| from >= start) };
            // The narrow ones are a part of the wide ones: those are told by what follows.
            for (len, is_wide) in [(20, true), (12, false)] {
                let Some(from) = from(len) else { continue };
                let Some(bytes) = self.get(from, usize::try_from(len).expect("short"))? else { continue };
                let lengths = if is_wide {
                    Lengths { crc: u32_at(bytes, 0), stored: u64_at(bytes, 4), size: u64_at(bytes, 12) }
                } else {
                    Lengths { crc: u32_at(bytes, 0), stored: u32_at(bytes, 4).into(), size: u32_at(bytes, 8).into() }
                };
                let content_end = if marked { place } else { from };
                let Some(of) = content_end.checked_sub(lengths.stored).filter(|&of| of >= start) else { continue };
                if is_wide && !self.is_between(from + len)? {
                    continue;
                }
                if of == start {
                    return Ok(Some((lengths, from + len)));
                }
                if known.len() < self.room {
                    known.entry(of).or_insert((lengths, from + len));
                }
            }
            at = place + 4;
        }
        self.known = Some(known);
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

    /// Name, lengths and place of a member.
    type Told = (String, Lengths, u64);

    fn found(bytes: &[u8]) -> Option<(Vec<Told>, Rebuilt)> {
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

    /// Counts the bytes that are read, and how often.
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

    /// Looks for members; the file has to be read once, in long steps.
    fn found_once(bytes: &[u8]) -> Option<Rebuilt> {
        let reads = Arc::new(Reads(MemorySource::new(bytes), AtomicU64::new(0), AtomicU64::new(0)));
        let rebuilt = rebuild(&(Arc::clone(&reads) as Arc<dyn ReadAt>), 1 << 30).unwrap();
        let (read, times) = (reads.1.load(Ordering::Relaxed), reads.2.load(Ordering::Relaxed));
        let passes = 1 + u64::from(rebuilt.as_ref().is_some_and(|rebuilt| rebuilt.cut.is_some() || !rebuilt.lost.is_empty()));
        let most = passes * (reads.len() / STEP as u64 + 2);
        assert!(read <= passes * reads.len() && times <= most, "{read} of {} bytes, {times} times", reads.len());
        rebuilt
    }

    #[test]
    fn a_file_is_gone_through_once() {
        let headers: Vec<u8> = (0..20_000).flat_map(|number| header(&format!("f{number:07}"), 0, NONE)).collect();
        assert_eq!(found_once(&headers).unwrap().directory.count, 20_000);
        // What could be lengths, over and over.
        for mark in [DESCRIPTOR, LOCAL, CENTRAL] {
            let marks = [header("a", BEHIND, NONE), mark.repeat(150_000)].concat();
            assert_eq!(found_once(&marks).unwrap().cut, Some(b"a".to_vec()));
        }
        // Members without lengths, over and over.
        let endless = header("a", BEHIND, NONE).repeat(10_000);
        let rebuilt = found_once(&[endless, header("b", 0, NONE)].concat()).unwrap();
        assert_eq!((rebuilt.directory.count, rebuilt.lost.len(), rebuilt.cut), (1, 10_000, None));
        // Lengths where one step ends and the next begins.
        let first = header("a", BEHIND, NONE);
        for len in STEP - first.len() - 30..STEP - first.len() + 30 {
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
    fn members_are_found_behind_one_whose_end_is_not() {
        let known = Lengths { crc: 7, stored: 5, size: 9 };
        let good = |name: &str| [&header(name, 0, known)[..], b"12345"].concat();
        let streamed = |name: &str, crc: u32| {
            let lengths = [&crc.to_le_bytes()[..], &[5, 0, 0, 0], &[5, 0, 0, 0]].concat();
            [&header(name, BEHIND, NONE)[..], b"hello", &DESCRIPTOR, &lengths].concat()
        };
        let far = [&header("bad", 0, Lengths { crc: 0, stored: 1 << 30, size: 5 })[..], b"hello"].concat();
        let unmarked = [&header("bad", BEHIND, NONE)[..], b"hello no lengths at all"].concat();
        for bad in [far, unmarked] {
            let bytes = [&good("a")[..], &bad, &good("b"), &streamed("c", 3), &bad, &good("d")].concat();
            let (members, rebuilt) = found(&bytes).unwrap();
            assert_eq!(members.iter().map(|(name, ..)| &name[..]).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
            assert_eq!((rebuilt.lost, rebuilt.cut), (vec![b"bad".to_vec(); 2], None));
            // A file that ends in a member: what is in that are no members.
            for inner in [&good("x")[..15], &[&good("x")[..], b"rest"].concat()] {
                let (members, rebuilt) = found(&[&good("a")[..], &bad, &good("b"), inner].concat()).unwrap();
                let names: Vec<_> = members.iter().map(|(name, ..)| &name[..]).collect();
                assert!(names == ["a"] || inner.len() == 15 && names == ["a", "b"], "{names:?} {:?}", rebuilt.cut);
            }
        }
        // A directory has no lengths behind it.
        let (members, rebuilt) = found(&[&header("dir/", BEHIND, NONE)[..], &good("dir/a")].concat()).unwrap();
        assert_eq!((members.len(), rebuilt.lost.len(), rebuilt.cut), (2, 0, None));
    }

    #[test]
    fn members_are_found_by_their_headers() {
        let known = Lengths { crc: 7, stored: 5, size: 9 };
        let content = b"PK\x07\x08PK\x03\x04PK\x01\x02 no descriptor, no header";
        let behind = Lengths { crc: 3, stored: content.len() as u64, size: 1 << 33 };
        let mut wide = behind.crc.to_le_bytes().to_vec();
        wide.extend(behind.stored.to_le_bytes());
        wide.extend(behind.size.to_le_bytes());
        let marked = [&header("b", BEHIND, NONE)[..], content, &DESCRIPTOR, &wide].concat();
        let unmarked = [&header("c", BEHIND, NONE)[..], content, &wide].concat();
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
        assert_eq!((rebuilt.by_header, rebuilt.cut, rebuilt.gaps), (3, Some(b"d".to_vec()), 0));
        // Narrow numbers behind nothing, which could be a part of wide ones.
        let empty = [&header("e", BEHIND, NONE)[..], b"\x03\0", &DESCRIPTOR, &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]].concat();
        let (members, _) = found(&[&empty[..], &first].concat()).unwrap();
        assert_eq!(members[0], ("e".to_owned(), Lengths { crc: 0, stored: 2, size: 0 }, 0));
        assert_eq!(members.len(), 2);
        // What lies between two members is passed over.
        let (members, rebuilt) = found(&[&first[..], &[b'x'; 100], &marked, b"PK\x03\x04"].concat()).unwrap();
        assert_eq!((members.len(), rebuilt.gaps, rebuilt.cut), (2, 1, None));
        assert!(found(b"PK\x05\x06 nothing").is_none());
    }
}
