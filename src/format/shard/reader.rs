//! Opens files, finds entries by name and reads their content.
//!
//! Specification: shard.md, section 4.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh64::xxh64;

use crate::content;
use crate::entry_paths::quote_name;
use crate::layout::{
    HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAGIC, MAX_CONTENT_LEN, MAX_ENTRIES, Role, aligned, check_names_len, flags,
};
use nra_core::error::{Error, Result};
use nra_core::limits::{self, to_len};
use nra_core::source::ReadAt;

/// Bytes read at a time for the checksum of a long entry.
const READ_LEN: usize = 1 << 20;
/// Index records read at a time.
const RECORDS_PER_READ: usize = 16_384;
/// Low bits of a word in [`NameLookup`] that hold the number of an entry.
const NUMBER_BITS: u32 = 24;
const _: () = assert!(MAX_ENTRIES < 1 << NUMBER_BITS);

/// An open file. The index is in memory; content is read on demand.
///
/// Entries are numbered from 0 in the order of the index. Several threads can read at the same time.
pub struct Shard {
    source: Arc<dyn ReadAt>,
    header: Header,
    entries: Vec<IndexEntry>,
    names: Vec<u8>,
    lookup: OnceLock<NameLookup>,
    /// For each entry, whether its checksum was verified.
    verified: Vec<AtomicBool>,
    data_end: u64,
}

impl Shard {
    /// Returns whether the first bytes of a file are those of a Shard file.
    pub fn has_magic(first: &[u8]) -> bool {
        first.starts_with(&MAGIC)
    }

    /// Opens a file: reads and checks header, index and names.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version; `Limit` or `Corrupt` for an invalid file; `Io`.
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
        let verified = entries.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { source, header, entries, names, lookup: OnceLock::new(), verified, data_end })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the index.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Returns the name of an entry, which may be any bytes, or empty.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn name(&self, number: usize) -> &[u8] {
        &self.names[name_range(&self.entries[number])]
    }

    /// Returns the number of the first entry with this name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let hash = xxh64(name, 0) >> NUMBER_BITS;
        let words = &self.lookup().words;
        let at = words.partition_point(|&word| (word >> NUMBER_BITS, self.name(number_of(word))) < (hash, name));
        words.get(at).map(|&word| number_of(word)).filter(|&number| self.name(number) == name)
    }

    fn lookup(&self) -> &NameLookup {
        self.lookup.get_or_init(|| NameLookup::new(self))
    }

    /// Returns the stored metadata in JSON, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// `Corrupt` if they do not follow the content; `Limit`; `Io`.
    pub fn metadata(&self) -> Result<Option<Vec<u8>>> {
        let Some(Range { start, end }) = self.metadata_range()? else { return Ok(None) };
        let mut bytes = vec![0; to_len("length of the metadata", end - start, MAX_CONTENT_LEN)?];
        self.source.read_exact_at(start, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Returns the range of the metadata in the file, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// `Corrupt` if they do not follow the content.
    pub fn metadata_range(&self) -> Result<Option<Range<u64>>> {
        let Header { metadata_offset: start, file_len, .. } = self.header;
        if start == 0 {
            return Ok(None);
        }
        if start < self.data_end || start > file_len {
            let detail = format!("expected between the end of the content ({}) and of the file ({file_len})", self.data_end);
            return Err(Error::corrupt("Shard metadata", start, detail));
        }
        Ok(Some(start..file_len))
    }

    /// Returns the offset at which the content of the last entry ends.
    pub(super) fn data_end(&self) -> u64 {
        self.data_end
    }

    /// Reads and verifies the content of an entry, of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` if length, compression or checksum are wrong; `Limit` if the content is too long; `Io`.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn read(&self, number: usize, limit: u64) -> Result<Vec<u8>> {
        let entry = &self.entries[number];
        let longest = entry.stored_len.max(entry.content_len);
        if entry.is_compressed() {
            content::checked_len(entry).map_err(|detail| self.damaged(number, &detail))?;
        }
        limits::check("length of the content", longest, limit)?;
        self.check_uncompressed_len(number)?;
        let mut stored = vec![0; to_len("length of the content", entry.stored_len, limit)?];
        self.source.read_exact_at(entry.data_offset, &mut stored)?;
        let content = content::decompress_entry(&self.header, entry, stored).map_err(|detail| self.damaged(number, &detail))?;
        self.verified[number].store(true, Ordering::Relaxed);
        Ok(content)
    }

    /// Reads the first `len` bytes of the content of an entry, or all of it if it is shorter.
    ///
    /// No checksum is compared, and only the necessary bytes are read and decompressed.
    ///
    /// # Errors
    ///
    /// `Corrupt` if lengths or compression are wrong; `Io`.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn read_prefix(&self, number: usize, len: usize) -> Result<Vec<u8>> {
        let entry = &self.entries[number];
        self.check_uncompressed_len(number)?;
        let limited = |len: u64, limit: usize| usize::try_from(len).map_or(limit, |len| len.min(limit));
        let len = limited(entry.content_len, len);
        let damaged = |detail: String| self.damaged(number, &detail);
        let needed = content::stored_len_for_prefix(&self.header, entry, len).map_err(damaged)?;
        let mut stored = vec![0; limited(entry.stored_len, needed)];
        self.source.read_exact_at(entry.data_offset, &mut stored)?;
        content::decompress_prefix_of_entry(&self.header, entry, &stored, len).map_err(damaged)
    }

    /// Returns the range of an uncompressed entry in the file, after verifying its checksum. Returns
    /// `None` for a compressed entry.
    ///
    /// The range starts at a multiple of [`Header::alignment`]. A caller that has mapped the file can
    /// use this range of the mapping without a copy.
    ///
    /// # Errors
    ///
    /// `Corrupt` if length or checksum are wrong; `Io`.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn uncompressed_range(&self, number: usize) -> Result<Option<Range<u64>>> {
        let entry = &self.entries[number];
        if entry.is_compressed() {
            return Ok(None);
        }
        self.check_uncompressed_len(number)?;
        let range = entry.data_offset..entry.data_offset + entry.stored_len;
        if !self.verified[number].load(Ordering::Relaxed) {
            self.verify_stored(number, &range)?;
        }
        Ok(Some(range))
    }

    /// Returns the content of an uncompressed entry as a slice of `file`, the bytes of the whole file.
    /// Returns `None` for a compressed entry.
    ///
    /// # Errors
    ///
    /// As [`Shard::uncompressed_range`]; `Usage` if the length of `file` differs from that of the file.
    ///
    /// # Panics
    ///
    /// If there is no such entry.
    pub fn uncompressed_slice<'a>(&self, number: usize, file: &'a [u8]) -> Result<Option<&'a [u8]>> {
        if file.len() as u64 != self.header.file_len {
            let detail =
                format!("cannot return a slice: {} bytes passed for a file of {} bytes", file.len(), self.header.file_len);
            return Err(Error::usage(detail));
        }
        let Some(range) = self.uncompressed_range(number)? else { return Ok(None) };
        let index = |offset| usize::try_from(offset).expect("at most the length of the slice");
        Ok(Some(&file[index(range.start)..index(range.end)]))
    }

    /// Returns remarks about problems that do not prevent reading, such as duplicate names, wrong hashes or
    /// damaged metadata.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let quote = |affected: &AffectedEntries| {
            let more = match affected.count - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("{}{more}", quote_name(self.name(affected.first)))
        };
        let NameLookup { wrong_hashes, duplicates, .. } = self.lookup();
        if let Some(wrong_hashes) = wrong_hashes {
            remarks.push(format!("the stored hash of name {} is wrong", quote(wrong_hashes)));
        }
        if let Some(duplicates) = duplicates {
            remarks.push(format!("duplicate name {}; the first entry is used", quote(duplicates)));
        }
        if let Err(error) = self.metadata_range() {
            remarks.push(error.to_string());
        }
        match self.trailing_bytes() {
            0 => {}
            1 => remarks.push("1 byte after the content is not used".to_owned()),
            more => remarks.push(format!("{more} bytes after the content are not used")),
        }
        remarks
    }

    /// Returns the number of bytes after the content of a file without metadata, unless they are padding.
    fn trailing_bytes(&self) -> u64 {
        let Header { metadata_offset, file_len, alignment, .. } = self.header;
        let is_padding = aligned(self.data_end, alignment) == Some(file_len);
        if metadata_offset != 0 || is_padding { 0 } else { file_len.saturating_sub(self.data_end) }
    }

    /// Returns whether the index has a property that nra does not write: wrong hashes, no checksums, or
    /// content in another order.
    pub(super) fn is_unusual(&self) -> bool {
        let lacks_checksums = !self.header.has(flags::HAS_CHECKSUMS);
        let has_no_checksum = |entry: &IndexEntry| entry.checksum == 0 && entry.stored_len > 0;
        self.lookup().wrong_hashes.is_some()
            || (lacks_checksums && self.entries.iter().any(has_no_checksum))
            || !self.entries.is_sorted_by_key(|entry| entry.data_offset)
    }

    /// Checks that the content of an uncompressed entry is as long as its stored bytes.
    fn check_uncompressed_len(&self, number: usize) -> Result<()> {
        let entry = &self.entries[number];
        if entry.is_compressed() || entry.stored_len == entry.content_len {
            return Ok(());
        }
        Err(self.damaged(
            number,
            &format!("{} bytes of content, but {} stored bytes without compression", entry.content_len, entry.stored_len),
        ))
    }

    /// Verifies the checksum of an uncompressed entry.
    fn verify_stored(&self, number: usize, range: &Range<u64>) -> Result<()> {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(READ_LEN).min(READ_LEN)];
        let (mut at, mut checksum) = (range.start, 0);
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(READ_LEN).min(READ_LEN);
            self.source.read_exact_at(at, &mut buffer[..len])?;
            checksum = crc32c::crc32c_append(checksum, &buffer[..len]);
            at += len as u64;
        }
        content::check_checksum(&self.header, &self.entries[number], checksum).map_err(|detail| self.damaged(number, &detail))?;
        self.verified[number].store(true, Ordering::Relaxed);
        Ok(())
    }

    fn damaged(&self, number: usize, detail: &str) -> Error {
        Error::corrupt("Shard entry", self.entries[number].data_offset, detail)
    }
}

/// The entries that a remark is about.
struct AffectedEntries {
    first: usize,
    /// Number of entries, at least 1.
    count: usize,
}

impl AffectedEntries {
    fn of(numbers: impl Iterator<Item = usize>) -> Option<Self> {
        numbers.fold(None, |affected, number| match affected {
            None => Some(Self { first: number, count: 1 }),
            Some(Self { first, count }) => Some(Self { first: first.min(number), count: count + 1 }),
        })
    }
}

/// An index of entries by name.
///
/// It uses computed hashes, as those in the file may be wrong.
struct NameLookup {
    /// For each entry, the high bits of the hash and the number, sorted by these bits, the name and the
    /// number. Sorting by name keeps look-ups fast even if many names have the same hash.
    words: Vec<u64>,
    wrong_hashes: Option<AffectedEntries>,
    /// Entries with the name of a preceding entry.
    duplicates: Option<AffectedEntries>,
}

impl NameLookup {
    fn new(shard: &Shard) -> Self {
        let mut words = Vec::with_capacity(shard.entries.len());
        let wrong_hashes = AffectedEntries::of(shard.entries.iter().enumerate().filter_map(|(number, entry)| {
            let hash = xxh64(shard.name(number), 0);
            words.push(hash >> NUMBER_BITS << NUMBER_BITS | number as u64);
            (entry.name_hash != hash).then_some(number)
        }));
        words.sort_unstable();
        let name = |word: u64| shard.name(number_of(word));
        let mut duplicates = Vec::new();
        let collisions = words.chunk_by_mut(|a, b| a >> NUMBER_BITS == b >> NUMBER_BITS).filter(|words| words.len() > 1);
        for words in collisions {
            words.sort_unstable_by(|&a, &b| name(a).cmp(name(b)).then(a.cmp(&b)));
            let pairs = words.windows(2).filter(|pair| name(pair[0]) == name(pair[1]));
            duplicates.extend(pairs.map(|pair| number_of(pair[1])));
        }
        let duplicates = AffectedEntries::of(duplicates.into_iter());
        Self { words, wrong_hashes, duplicates }
    }
}

/// Returns the number of the entry in a word of [`NameLookup`].
fn number_of(word: u64) -> usize {
    usize::try_from(word & ((1 << NUMBER_BITS) - 1)).expect("less than the limit of entries")
}

fn read_index(source: &dyn ReadAt, header: &Header) -> Result<Vec<IndexEntry>> {
    let count = header.entry_count as usize;
    let mut entries = Vec::with_capacity(count);
    let mut buffer = vec![0; count.min(RECORDS_PER_READ) * INDEX_ENTRY_LEN];
    let mut at = HEADER_LEN as u64;
    while entries.len() < count {
        let bytes = &mut buffer[..(count - entries.len()).min(RECORDS_PER_READ) * INDEX_ENTRY_LEN];
        source.read_exact_at(at, bytes)?;
        at += bytes.len() as u64;
        let (records, _) = bytes.as_chunks();
        entries.extend(records.iter().map(IndexEntry::parse));
    }
    Ok(entries)
}

/// Checks that the content of the entries is in index order, without overlap and within the file. Returns
/// the end of the last entry.
fn check_order(header: &Header, entries: &[IndexEntry]) -> Result<u64> {
    let mut end = header.data_offset;
    let mut check_next = |number: usize| {
        let entry = &entries[number];
        let damaged = |detail: String| {
            let offset = HEADER_LEN as u64 + (number * INDEX_ENTRY_LEN) as u64;
            Err(Error::corrupt("Shard index record", offset, format!("entry {number}: {detail}")))
        };
        if entry.data_offset < end {
            return damaged(format!("content starts at {}, {end} or more expected", entry.data_offset));
        }
        match entry.data_end() {
            Some(data_end) if data_end <= header.file_len => end = data_end,
            _ => {
                let (IndexEntry { stored_len, data_offset, .. }, Header { file_len, .. }) = (entry, header);
                return damaged(format!("{stored_len} bytes at {data_offset} are not within the file ({file_len} bytes)"));
            }
        }
        Ok(())
    };
    if header.role == Role::EPISODE {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|&number| (entries[number].data_offset, entries[number].stored_len));
        order.into_iter().try_for_each(check_next)?;
    } else {
        (0..entries.len()).try_for_each(&mut check_next)?;
    }
    Ok(end)
}

/// Reads the names, but not the gap after them, which streaming writers leave and which may be long.
fn read_names(source: &dyn ReadAt, header: &Header, entries: &[IndexEntry]) -> Result<Vec<u8>> {
    let names_len = header.data_offset - header.names_offset;
    let (mut used_len, mut total_len) = (0, 0u64);
    for (number, entry) in entries.iter().enumerate() {
        let end = u64::from(entry.name_offset) + u64::from(entry.name_len);
        if end > names_len {
            let offset = HEADER_LEN as u64 + (number * INDEX_ENTRY_LEN) as u64;
            let detail = format!("entry {number}: the name ends at {end}, past the end of the names ({names_len} bytes)");
            return Err(Error::corrupt("Shard index record", offset, detail));
        }
        used_len = used_len.max(end);
        total_len += u64::from(entry.name_len);
    }
    // Only overlapping names can exceed the limit. Many records that share a long name would be slow.
    check_names_len(total_len)?;
    let mut names = vec![0; usize::try_from(used_len).expect("at most the limit of the names")];
    source.read_exact_at(header.names_offset, &mut names)?;
    Ok(names)
}

fn name_range(entry: &IndexEntry) -> Range<usize> {
    let start = entry.name_offset as usize;
    start..start + usize::from(entry.name_len)
}
