//! Writes files: first the content, then header, index and names into the space reserved before it.
//!
//! A [`Style`] holds everything in which writers differ. The two dialects are styles.
//!
//! Specification: shard.md, section 3.

use std::collections::HashSet;
use std::io::{Seek, SeekFrom, Write};

use xxhash_rust::xxh64::xxh64;

use crate::layout::{
    Compression, HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAX_CONTENT_LEN, Role, aligned, check_count, check_names_len,
    flags, index_end,
};
use nra_core::error::{Error, Result, Subject};
use nra_core::limits;
use nra_core::zeros::each_zero;

/// Valid alignments of entries, bytes; 0 = none.
pub const ALIGNMENTS: [u8; 4] = [0, 16, 32, 64];
/// Space reserved for each expected name in a streamed file, bytes.
const RESERVED_NAME_LEN: u64 = 64;
/// Zstd level of both dialects.
const ZSTD_LEVEL: i32 = 3;

/// The program whose files are reproduced, byte for byte where possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// The reference implementation in Go.
    #[default]
    Go,
    /// The published Python package.
    Python,
}

/// How the space for index and names is determined before content is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// The names are known and follow in this order. No space is wasted.
    Names(Vec<Box<[u8]>>),
    /// The names are not known. Space for about this many entries is reserved.
    Streaming(u32),
}

impl Layout {
    /// Returns the number of entries for which a streamed file reserved space, from its data offset.
    pub fn expected_entries(data_offset: u64) -> u32 {
        let count = data_offset.saturating_sub(index_end(0)) / (INDEX_ENTRY_LEN as u64 + RESERVED_NAME_LEN);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns whether these names fit into a streamed file for `expected` entries.
    pub fn fits_streaming(expected: u32, names: &[Box<[u8]>], nul_terminated: bool) -> bool {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        index_end(count) + names_len(names, nul_terminated) <= reserved_len(expected)
    }
}

/// The properties in which writers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Profile.
    pub role: Role,
    /// Header flags that are always set.
    pub flags: u16,
    /// Sets the flag for content types if an entry has one.
    pub sets_content_type_flag: bool,
    /// Alignment of the entries, bytes: one of [`ALIGNMENTS`].
    pub alignment: u8,
    /// Number of the default compression in the header.
    pub compression_default: u8,
    /// Shortest content that is compressed, bytes.
    pub compress_from: usize,
    /// Keeps compressed content even if it saves less than a tenth.
    pub keeps_poor_compression: bool,
    /// Rejects more entries than a streamed file reserved space for.
    pub limits_entry_count: bool,
    /// Each name is followed by a NUL byte.
    pub nul_terminated: bool,
    /// The last entry is padded as well.
    pub padded_end: bool,
    /// Reserved bytes of the header.
    pub reserved: [u8; 16],
}

impl Style {
    /// Returns the style of a dialect. `compression` is the default in the header.
    pub fn new(dialect: Dialect, role: Role, alignment: u8, compression: Option<Compression>, layout: &Layout) -> Self {
        let is_streaming = matches!(layout, Layout::Streaming(_));
        let is_go = dialect == Dialect::Go;
        Self {
            role,
            flags: flags::LITTLE_ENDIAN
                | flags::HAS_CHECKSUMS
                | if is_streaming { flags::STREAMING } else { 0 }
                | if is_go { 0 } else { flags::HAS_CONTENT_TYPES },
            sets_content_type_flag: is_go,
            alignment,
            compression_default: if is_go || is_streaming { compression.map_or(0, |compression| compression as u8) } else { 0 },
            compress_from: if is_go { 257 } else { 256 },
            keeps_poor_compression: false,
            limits_entry_count: is_go,
            nul_terminated: true,
            padded_end: false,
            reserved: [0; 16],
        }
    }
}

/// An entry to add.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// The name, at most 65,535 bytes.
    pub name: &'a [u8],
    /// The content.
    pub content: &'a [u8],
    /// The compression, used if it saves enough.
    pub compression: Option<Compression>,
    /// Other fields of its index record.
    pub fields: RecordFields,
}

/// Fields of an index record that the container stores but does not act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecordFields {
    /// Content type (section 1.3).
    pub content_type: u16,
    /// One bit for each tag of the dictionary in the metadata.
    pub tags: u16,
    /// Flags other than those of the compression, which are undefined.
    pub flags: u16,
}

/// A writer for one file.
///
/// If it is dropped before [`ShardWriter::finish`], the file has no magic and does not open.
pub struct ShardWriter<W: Write + Seek> {
    out: W,
    style: Style,
    layout: Layout,
    data_offset: u64,
    position: u64,
    entries: Vec<IndexEntry>,
    names: Vec<u8>,
    used_names: HashSet<Box<[u8]>>,
    open_entry: Option<IndexEntry>,
    /// Buffer for compressed content.
    compressed: Vec<u8>,
}

impl<W: Write + Seek> ShardWriter<W> {
    /// Creates a file in `out`, which must be empty.
    ///
    /// # Errors
    ///
    /// `Usage` or `Limit` for options that the format or its readers do not accept; `Io`.
    pub fn create(mut out: W, style: Style, layout: Layout) -> Result<Self> {
        if !ALIGNMENTS.contains(&style.alignment) {
            let detail = format!("invalid alignment {} (valid: 0, 16, 32, 64)", style.alignment);
            return Err(Error::usage(detail));
        }
        let reserved = match &layout {
            Layout::Names(names) => {
                let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
                check_count(count)?;
                index_end(count) + names_len(names, style.nul_terminated)
            }
            Layout::Streaming(count) => {
                check_count(*count)?;
                reserved_len(*count)
            }
        };
        let data_offset = aligned(reserved, style.alignment).expect("the limits keep it far below 64 bits");
        let names_offset = match &layout {
            Layout::Names(names) => index_end(u32::try_from(names.len()).expect("checked above")),
            // With fewer entries than expected, more of the space counts as names.
            Layout::Streaming(_) => index_end(0),
        };
        check_names_len(data_offset - names_offset)?;
        out.seek(SeekFrom::Start(data_offset)).map_err(write_error)?;
        Ok(Self {
            out,
            style,
            layout,
            data_offset,
            position: data_offset,
            entries: Vec::new(),
            names: Vec::new(),
            used_names: HashSet::new(),
            open_entry: None,
            compressed: Vec::new(),
        })
    }

    /// Adds an entry with all its content. It is compressed if requested and if that saves a tenth.
    ///
    /// # Errors
    ///
    /// `Usage` for a duplicate or unexpected name, or if there is no space; `Limit` for a name that is
    /// too long; `Io`.
    pub fn add(&mut self, entry: NewEntry<'_>) -> Result<()> {
        let mut compressed = std::mem::take(&mut self.compressed);
        let compression = entry.compression.filter(|_| entry.content.len() >= self.style.compress_from);
        let compression = match compression {
            Some(compression) => {
                let is_smaller = compress(compression, entry.content, &mut compressed)?;
                let is_kept = self.style.keeps_poor_compression && !compressed.is_empty() && !entry.content.is_empty();
                (is_smaller || is_kept).then_some(compression)
            }
            None => None,
        };
        self.start_entry(entry.name, entry.fields)?;
        let open = self.open_entry.as_mut().expect("just started");
        open.checksum = crc32c::crc32c(entry.content);
        open.content_len = entry.content.len() as u64;
        if let Some(compression) = compression {
            open.flags |= compression.entry_flags();
            self.put(&compressed)?;
        } else {
            self.put(entry.content)?;
        }
        self.compressed = compressed;
        self.finish_entry()
    }

    /// Starts an uncompressed entry, whose content follows in parts.
    ///
    /// # Errors
    ///
    /// As [`ShardWriter::add`].
    pub fn start_entry(&mut self, name: &[u8], fields: RecordFields) -> Result<()> {
        if self.open_entry.is_some() {
            return Err(Error::usage("cannot start an entry: the previous entry is not finished"));
        }
        limits::check("length of a name", name.len() as u64, u16::MAX.into())?;
        let name_len = u16::try_from(name.len()).expect("checked above");
        let name_offset = self.check_name(name)?;
        let (found, limit) = (self.position, u64::MAX);
        let start = aligned(self.position, self.style.alignment);
        let start = start.ok_or(Error::Limit { what: "length of the file", found, limit })?;
        self.put_zeros(start - self.position)?;
        self.used_names.insert(name.into());
        self.names.extend_from_slice(name);
        if self.style.nul_terminated {
            self.names.push(0);
        }
        self.open_entry = Some(IndexEntry {
            name_hash: xxh64(name, 0),
            name_offset,
            name_len,
            flags: fields.flags & !flags::ENTRY_STORED,
            data_offset: start,
            content_type: fields.content_type,
            tags: fields.tags,
            ..IndexEntry::default()
        });
        Ok(())
    }

    /// Appends bytes to the current entry.
    ///
    /// # Errors
    ///
    /// `Usage` if none was started; `Io`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let open = self.open_entry.as_mut().ok_or_else(no_open_entry)?;
        open.checksum = crc32c::crc32c_append(open.checksum, bytes);
        open.content_len += bytes.len() as u64;
        self.put(bytes)
    }

    /// Finishes the current entry.
    ///
    /// # Errors
    ///
    /// `Usage` if none was started.
    pub fn finish_entry(&mut self) -> Result<()> {
        let mut entry = self.open_entry.take().ok_or_else(no_open_entry)?;
        entry.stored_len = self.position - entry.data_offset;
        self.entries.push(entry);
        Ok(())
    }

    /// Writes metadata (JSON), index, names and header. Returns `out`, flushed.
    ///
    /// # Errors
    ///
    /// `Usage` if entries are missing or unfinished, or if a streamed file would have metadata; `Io`.
    pub fn finish(mut self, metadata: Option<&[u8]>) -> Result<W> {
        if self.open_entry.is_some() {
            return Err(Error::usage("cannot finish the file: an entry is not finished"));
        }
        if let Layout::Names(names) = &self.layout
            && names.len() != self.entries.len()
        {
            let detail = format!("cannot finish the file: {} entries expected, {} added", names.len(), self.entries.len());
            return Err(Error::usage(detail));
        }
        if metadata.is_some() && matches!(self.layout, Layout::Streaming(_)) {
            return Err(Error::usage("a streamed Shard file cannot have metadata"));
        }
        if self.style.padded_end {
            let end = aligned(self.position, self.style.alignment).unwrap_or(self.position);
            self.put_zeros(end - self.position)?;
        }
        let mut flags = self.style.flags;
        if self.style.sets_content_type_flag && self.entries.iter().any(|entry| entry.content_type != 0) {
            flags |= flags::HAS_CONTENT_TYPES;
        }
        let mut metadata_offset = 0;
        if let Some(metadata) = metadata {
            flags |= flags::HAS_METADATA;
            metadata_offset = self.position;
            self.put(metadata)?;
        }
        let entry_count = u32::try_from(self.entries.len()).expect("checked when they were added");
        let header = Header {
            role: self.style.role,
            flags,
            alignment: self.style.alignment,
            compression_default: self.style.compression_default,
            entry_count,
            names_offset: index_end(entry_count),
            data_offset: self.data_offset,
            metadata_offset,
            file_len: self.position,
            reserved: self.style.reserved,
        };
        let mut start = Vec::with_capacity(HEADER_LEN + self.entries.len() * INDEX_ENTRY_LEN + self.names.len());
        start.extend_from_slice(&header.encode());
        for entry in &self.entries {
            start.extend_from_slice(&entry.encode());
        }
        start.extend_from_slice(&self.names);
        self.out.seek(SeekFrom::Start(0)).map_err(write_error)?;
        self.position = 0;
        self.put(&start)?;
        self.put_zeros(self.data_offset - start.len() as u64)?;
        self.out.flush().map_err(write_error)?;
        Ok(self.out)
    }

    /// Checks that an entry with this name is allowed and fits. Returns the offset of its name.
    fn check_name(&self, name: &[u8]) -> Result<u32> {
        let quoted = || nra_core::path::Quoted::new(name).to_string();
        if self.used_names.contains(name) {
            return Err(Error::usage(format!("duplicate name {}", quoted())));
        }
        let count = self.entries.len() as u32 + 1;
        check_count(count)?;
        match &self.layout {
            Layout::Names(names) => {
                if names.get(self.entries.len()).is_none_or(|expected| **expected != *name) {
                    return Err(Error::usage(format!("unexpected name {}: not the next name of the layout", quoted())));
                }
            }
            Layout::Streaming(expected) => {
                let end = index_end(count) + (self.names.len() + name.len()) as u64 + u64::from(self.style.nul_terminated);
                if end > self.data_offset || (self.style.limits_entry_count && count > *expected) {
                    let detail = format!("no space for entry {}: the file has space for {expected} entries", quoted());
                    return Err(Error::usage(detail));
                }
            }
        }
        Ok(u32::try_from(self.names.len()).expect("the limit of the names is far below"))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(write_error)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn put_zeros(&mut self, len: u64) -> Result<()> {
        each_zero(len, |bytes| self.put(bytes))
    }
}

/// Compresses `content`. Returns whether that saves more than a tenth.
fn compress(compression: Compression, content: &[u8], compressed: &mut Vec<u8>) -> Result<bool> {
    compressed.clear();
    if content.len() as u64 > MAX_CONTENT_LEN {
        return Ok(false);
    }
    match compression {
        Compression::Zstd => {
            compressed.reserve(zstd_safe::compress_bound(content.len()));
            zstd_safe::compress(compressed, content, ZSTD_LEVEL)
                .map_err(|code| Error::io("compress", "content", std::io::Error::other(zstd_safe::get_error_name(code))))?;
        }
        Compression::Lz4 => {
            *compressed = lz4::block::compress(content, None, false).map_err(|error| Error::io("compress", "content", error))?;
        }
    }
    let limit = (content.len() as u128 * 9 / 10) as usize;
    Ok(compressed.len() < limit)
}

/// Returns the space that a streamed file reserves for header, index and names, bytes.
fn reserved_len(expected: u32) -> u64 {
    index_end(expected) + RESERVED_NAME_LEN * u64::from(expected)
}

fn names_len(names: &[Box<[u8]>], nul_terminated: bool) -> u64 {
    names.iter().map(|name| name.len() as u64 + u64::from(nul_terminated)).sum()
}

fn no_open_entry() -> Error {
    Error::usage("no entry was started")
}

fn write_error(source: std::io::Error) -> Error {
    Error::io("write", Subject::Output, source)
}
