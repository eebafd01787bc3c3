//! Opens a file, finds entries by name and reads their content.
//!
//! Specification: shard.md, section 4.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh64::xxh64;

use crate::layout::{
    HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAGIC, MAX_ENTRIES, MAX_NAMES_LEN, MAX_PAYLOAD, Role, aligned, flags,
};
use crate::names::in_remark;
use crate::payload;
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Bytes read at once while the checksum of a long entry is taken.
const STEP: usize = 1 << 20;
/// Index records read at once.
const RECORDS: usize = 16_384;
/// Low bits of a word of the [`Lookup`], which hold the number of an entry.
const NUMBER_BITS: u32 = 24;
const _: () = assert!(MAX_ENTRIES < 1 << NUMBER_BITS);

/// An opened file: its index, and content on demand.
///
/// Entries are numbered from 0 in the order of the index. Reading is safe to share between threads.
pub struct Shard {
    source: Arc<dyn ReadAt>,
    header: Header,
    entries: Vec<IndexEntry>,
    names: Vec<u8>,
    lookup: OnceLock<Lookup>,
    /// Whole content was read and its checksum found right.
    checked: Vec<AtomicBool>,
    data_end: u64,
}

impl Shard {
    /// Says whether a file begins like one of this kind.
    pub fn is_magic(first: &[u8]) -> bool {
        first.starts_with(&MAGIC)
    }

    /// Opens a file: reads header, index and names and checks that they make sense together.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version, `Limit` and `Corrupt` for what contradicts the format, `Io`.
    pub fn open(source: Arc<dyn ReadAt>) -> Result<Self> {
        let file_len = source.len();
        let mut first = [0; HEADER_LEN];
        if file_len < HEADER_LEN as u64 {
            return Err(Error::corrupt("Shard header", 0, format!("{HEADER_LEN} bytes expected, the file has {file_len}")));
        }
        source.read_exact_at(0, &mut first)?;
        let header = Header::parse(&first, file_len)?;
        let entries = read_index(&*source, &header)?;
        let data_end = check_order(&header, &entries)?;
        let names = read_names(&*source, &header, &entries)?;
        let checked = entries.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { source, header, entries, names, lookup: OnceLock::new(), checked, data_end })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the index.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Returns the name of an entry: any bytes, also none.
    ///
    /// # Panics
    ///
    /// When there is no such entry.
    pub fn name(&self, number: usize) -> &[u8] {
        &self.names[name_range(&self.entries[number])]
    }

    /// Returns the number of the first entry of this name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let hash = xxh64(name, 0) >> NUMBER_BITS;
        let words = &self.lookup().words;
        let at = words.partition_point(|&word| (word >> NUMBER_BITS, self.name(number_of(word))) < (hash, name));
        words.get(at).map(|&word| number_of(word)).filter(|&number| self.name(number) == name)
    }

    fn lookup(&self) -> &Lookup {
        self.lookup.get_or_init(|| Lookup::new(self))
    }

    /// Returns the metadata, JSON as it stands in the file, or `None` when there is none.
    ///
    /// # Errors
    ///
    /// `Corrupt` when it does not lie behind the data; `Io`.
    pub fn metadata(&self) -> Result<Option<Vec<u8>>> {
        let Some(Range { start, end }) = self.metadata_range()? else { return Ok(None) };
        let limit = MAX_PAYLOAD;
        let found = end - start;
        let len = usize::try_from(found).ok().filter(|_| found <= limit);
        let mut bytes = vec![0; len.ok_or(Error::Limit { what: "length of the metadata", found, limit })?];
        self.source.read_exact_at(start, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Returns where the metadata lie in the file, or `None` when there are none.
    ///
    /// # Errors
    ///
    /// `Corrupt` when that is not behind the data.
    pub fn metadata_range(&self) -> Result<Option<Range<u64>>> {
        let Header { metadata_offset: start, file_len, .. } = self.header;
        if start == 0 {
            return Ok(None);
        }
        if start < self.data_end || start > file_len {
            let detail = format!("it starts there, the data ends at {} and the file at {file_len}", self.data_end);
            return Err(Error::corrupt("Shard metadata", start, detail));
        }
        Ok(Some(start..file_len))
    }

    /// Returns where the content of the last entry ends, bytes.
    pub(super) fn data_end(&self) -> u64 {
        self.data_end
    }

    /// Reads the whole content of an entry and checks it, at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` when length, compression or checksum are wrong; `Limit` when the content is longer.
    ///
    /// # Panics
    ///
    /// When there is no such entry.
    pub fn read(&self, number: usize, limit: u64) -> Result<Vec<u8>> {
        let entry = &self.entries[number];
        let longest = entry.stored_len.max(entry.content_len);
        if entry.is_compressed() {
            payload::check_len(entry).map_err(|detail| self.damaged(number, &detail))?;
        }
        let len = usize::try_from(entry.stored_len).ok().filter(|_| longest <= limit);
        let len = len.ok_or(Error::Limit { what: "length of the content", found: longest, limit })?;
        self.check_plain(number)?;
        let mut stored = vec![0; len];
        self.source.read_exact_at(entry.data_offset, &mut stored)?;
        let content = payload::unpack(&self.header, entry, stored).map_err(|detail| self.damaged(number, &detail))?;
        self.checked[number].store(true, Ordering::Relaxed);
        Ok(content)
    }

    /// Reads the first `len` bytes of the content of an entry, or all of it if that is shorter. No checksum is compared, and no more is read and
    /// decompressed than these bytes need.
    ///
    /// # Errors
    ///
    /// `Corrupt` when lengths or compression are wrong.
    ///
    /// # Panics
    ///
    /// When there is no such entry.
    pub fn prefix(&self, number: usize, len: usize) -> Result<Vec<u8>> {
        let entry = &self.entries[number];
        self.check_plain(number)?;
        let fits = |len: u64, most: usize| usize::try_from(len).map_or(most, |len| len.min(most));
        let len = fits(entry.content_len, len);
        let damaged = |detail: String| self.damaged(number, &detail);
        let needed = payload::needed_for_prefix(&self.header, entry, len).map_err(damaged)?;
        let mut stored = vec![0; fits(entry.stored_len, needed)];
        self.source.read_exact_at(entry.data_offset, &mut stored)?;
        payload::unpack_prefix(&self.header, entry, &stored, len).map_err(damaged)
    }

    /// Returns where in the file the content of an entry lies as it is, or `None` for a compressed entry. The checksum has been checked.
    ///
    /// The content starts at a multiple of [`Header::alignment`]: a caller that has mapped the file gets the entry without a copy as this range
    /// of its mapping.
    ///
    /// # Errors
    ///
    /// `Corrupt` when length or checksum are wrong.
    ///
    /// # Panics
    ///
    /// When there is no such entry.
    pub fn plain_range(&self, number: usize) -> Result<Option<Range<u64>>> {
        let entry = &self.entries[number];
        if entry.is_compressed() {
            return Ok(None);
        }
        self.check_plain(number)?;
        let range = entry.data_offset..entry.data_offset + entry.stored_len;
        if !self.checked[number].load(Ordering::Relaxed) {
            self.check_stored(number, &range)?;
        }
        Ok(Some(range))
    }

    /// Returns the content of an entry as a part of `file`, the bytes of the whole file that the caller has in memory or mapped; `None` for a
    /// compressed entry. Nothing is copied.
    ///
    /// # Errors
    ///
    /// As [`Shard::plain_range`]; `Usage` when `file` is not as long as the file was.
    ///
    /// # Panics
    ///
    /// When there is no such entry.
    pub fn plain_slice<'a>(&self, number: usize, file: &'a [u8]) -> Result<Option<&'a [u8]>> {
        if file.len() as u64 != self.header.file_len {
            let detail = format!("{} bytes given for a file of {}", file.len(), self.header.file_len);
            return Err(Error::Usage { detail });
        }
        let Some(range) = self.plain_range(number)? else { return Ok(None) };
        let within = |offset| usize::try_from(offset).expect("no more than the length of a slice");
        Ok(Some(&file[within(range.start)..within(range.end)]))
    }

    /// Says what is odd about the file, although it reads: duplicate names, hashes that are not those of the names, damaged metadata.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let told = |found: &Found| {
            let more = match found.count - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("{}{more}", in_remark(self.name(found.first)))
        };
        let Lookup { wrong, again, .. } = self.lookup();
        if let Some(wrong) = wrong {
            remarks.push(format!("the stored hash of name {} is wrong", told(wrong)));
        }
        if let Some(again) = again {
            remarks.push(format!("name {} stands more than once; the first one counts", told(again)));
        }
        if let Err(error) = self.metadata_range() {
            remarks.push(error.to_string());
        }
        match self.bytes_behind() {
            0 => {}
            1 => remarks.push("1 byte behind the data is no metadata and belongs to nothing".to_owned()),
            more => remarks.push(format!("{more} bytes behind the data are no metadata and belong to nothing")),
        }
        remarks
    }

    /// Returns how many bytes come behind the data of a file without metadata, but for padding of the last entry.
    fn bytes_behind(&self) -> u64 {
        let Header { metadata_offset, file_len, alignment, .. } = self.header;
        let is_padding = aligned(self.data_end, alignment) == Some(file_len);
        if metadata_offset != 0 || is_padding { 0 } else { file_len.saturating_sub(self.data_end) }
    }

    /// Says whether the index has something that no file written by nra has: a wrong hash, no checksums, content in another order.
    pub(super) fn is_unusual(&self) -> bool {
        let lacks_checksums = !self.header.has(flags::HAS_CHECKSUMS);
        let unchecked = |entry: &IndexEntry| entry.checksum == 0 && entry.stored_len > 0;
        self.lookup().wrong.is_some()
            || (lacks_checksums && self.entries.iter().any(unchecked))
            || !self.entries.is_sorted_by_key(|entry| entry.data_offset)
    }

    /// A plain entry is as long as its stored bytes.
    fn check_plain(&self, number: usize) -> Result<()> {
        let entry = &self.entries[number];
        if entry.is_compressed() || entry.stored_len == entry.content_len {
            return Ok(());
        }
        Err(self
            .damaged(number, &format!("{} bytes of content in {} that are not compressed", entry.content_len, entry.stored_len)))
    }

    fn check_stored(&self, number: usize, range: &Range<u64>) -> Result<()> {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(STEP).min(STEP)];
        let (mut at, mut sum) = (range.start, 0);
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(STEP).min(STEP);
            self.source.read_exact_at(at, &mut buffer[..len])?;
            sum = crc32c::crc32c_append(sum, &buffer[..len]);
            at += len as u64;
        }
        payload::check_sum(&self.header, &self.entries[number], sum).map_err(|detail| self.damaged(number, &detail))?;
        self.checked[number].store(true, Ordering::Relaxed);
        Ok(())
    }

    fn damaged(&self, number: usize, detail: &str) -> Error {
        Error::corrupt("Shard entry", self.entries[number].data_offset, detail)
    }
}

/// Entries that something is odd about.
struct Found {
    /// Number of the first one.
    first: usize,
    /// How many there are, at least 1.
    count: usize,
}

impl Found {
    fn of(numbers: impl Iterator<Item = usize>) -> Option<Self> {
        numbers.fold(None, |found, number| match found {
            None => Some(Self { first: number, count: 1 }),
            Some(Self { first, count }) => Some(Self { first: first.min(number), count: count + 1 }),
        })
    }
}

/// Finds entries by the hashes of their names, which are computed: those in the file may be wrong.
struct Lookup {
    /// The first bits of the hash and the number of each entry, in the order of these bits, the name and the number: names of equal hash can be
    /// made at will, and must not be searched one by one.
    words: Vec<u64>,
    /// Entries whose hash in the file is another one.
    wrong: Option<Found>,
    /// Entries that have the name of one in front of them.
    again: Option<Found>,
}

impl Lookup {
    fn new(shard: &Shard) -> Self {
        let mut words = Vec::with_capacity(shard.entries.len());
        let wrong = Found::of(shard.entries.iter().enumerate().filter_map(|(number, entry)| {
            let hash = xxh64(shard.name(number), 0);
            words.push(hash >> NUMBER_BITS << NUMBER_BITS | number as u64);
            (entry.name_hash != hash).then_some(number)
        }));
        words.sort_unstable();
        let name = |word: u64| shard.name(number_of(word));
        let mut again = Vec::new();
        let alike = words.chunk_by_mut(|a, b| a >> NUMBER_BITS == b >> NUMBER_BITS).filter(|alike| alike.len() > 1);
        for alike in alike {
            alike.sort_unstable_by(|&a, &b| name(a).cmp(name(b)).then(a.cmp(&b)));
            let pairs = alike.windows(2).filter(|pair| name(pair[0]) == name(pair[1]));
            again.extend(pairs.map(|pair| number_of(pair[1])));
        }
        let again = Found::of(again.into_iter());
        Self { words, wrong, again }
    }
}

/// Returns the number in a word of the [`Lookup`].
fn number_of(word: u64) -> usize {
    usize::try_from(word & ((1 << NUMBER_BITS) - 1)).expect("less than the limit of entries")
}

fn read_index(source: &dyn ReadAt, header: &Header) -> Result<Vec<IndexEntry>> {
    let count = header.entry_count as usize;
    let mut entries = Vec::with_capacity(count);
    let mut buffer = vec![0; count.min(RECORDS) * INDEX_ENTRY_LEN];
    let mut at = HEADER_LEN as u64;
    while entries.len() < count {
        let bytes = &mut buffer[..(count - entries.len()).min(RECORDS) * INDEX_ENTRY_LEN];
        source.read_exact_at(at, bytes)?;
        at += bytes.len() as u64;
        let (records, _) = bytes.as_chunks();
        entries.extend(records.iter().map(IndexEntry::parse));
    }
    Ok(entries)
}

/// Checks that the entries lie in the data, in the order of the index and apart from each other; returns where the last one ends.
fn check_order(header: &Header, entries: &[IndexEntry]) -> Result<u64> {
    let mut end = header.data_offset;
    let mut follow = |number: usize| {
        let entry = &entries[number];
        let damaged = |detail: String| {
            let offset = HEADER_LEN as u64 + (number * INDEX_ENTRY_LEN) as u64;
            Err(Error::corrupt("Shard index record", offset, format!("entry {number}: {detail}")))
        };
        if entry.data_offset < end {
            return damaged(format!("content at {}, {end} or more expected", entry.data_offset));
        }
        match entry.data_end() {
            Some(data_end) if data_end <= header.file_len => end = data_end,
            _ => {
                let (IndexEntry { stored_len, data_offset, .. }, Header { file_len, .. }) = (entry, header);
                return damaged(format!("{stored_len} bytes at {data_offset} do not lie in a file of {file_len}"));
            }
        }
        Ok(())
    };
    if header.role == Role::EPISODE {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|&number| (entries[number].data_offset, entries[number].stored_len));
        order.into_iter().try_for_each(follow)?;
    } else {
        (0..entries.len()).try_for_each(&mut follow)?;
    }
    Ok(end)
}

/// Reads the names as far as there are any: a streaming writer leaves a gap behind them that may be long.
fn read_names(source: &dyn ReadAt, header: &Header, entries: &[IndexEntry]) -> Result<Vec<u8>> {
    let room = header.data_offset - header.names_offset;
    let (mut len, mut sum) = (0, 0u64);
    for (number, entry) in entries.iter().enumerate() {
        let end = u64::from(entry.name_offset) + u64::from(entry.name_len);
        if end > room {
            let offset = HEADER_LEN as u64 + (number * INDEX_ENTRY_LEN) as u64;
            let detail = format!("entry {number}: a name that ends at {end} of {room} bytes of names");
            return Err(Error::corrupt("Shard index record", offset, detail));
        }
        len = len.max(end);
        sum += u64::from(entry.name_len);
    }
    // Names that lie apart fit. Records that share one long name would be work without end.
    if sum > MAX_NAMES_LEN {
        return Err(Error::Limit { what: "length of the names", found: sum, limit: MAX_NAMES_LEN });
    }
    let mut names = vec![0; usize::try_from(len).expect("at most the limit of the names")];
    source.read_exact_at(header.names_offset, &mut names)?;
    Ok(names)
}

fn name_range(entry: &IndexEntry) -> Range<usize> {
    let start = entry.name_offset as usize;
    start..start + usize::from(entry.name_len)
}
