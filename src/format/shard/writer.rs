//! Writes a file: content as it comes, header, index and names at the end into the room in front of it.
//!
//! Specification: shard.md, section 3. A [`Style`] says all in which writers differ; the two dialects are styles.

use std::collections::HashSet;
use std::io::{Seek, SeekFrom, Write};

use xxhash_rust::xxh64::xxh64;

use crate::layout::{
    Compression, HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAX_ENTRIES, MAX_NAMES_LEN, MAX_PAYLOAD, Role, aligned, flags,
    index_end,
};
use nra_core::error::{Error, Result, Subject};
use nra_core::zeros::each_zero;

/// What entries are aligned to, bytes; 0 = nothing.
pub const ALIGNMENTS: [u8; 4] = [0, 16, 32, 64];
/// Room for each expected name in a streamed file, bytes.
const NAME_ROOM: u64 = 64;
/// Level of zstd in both dialects.
const ZSTD_LEVEL: i32 = 3;

/// Whose files are imitated, byte for byte where that is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// The reference of the format.
    #[default]
    Go,
    /// The published Python package.
    Python,
}

/// How the room for index and names is found before the first content is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Exactly these names follow, in this order: no byte is wasted.
    Names(Vec<Box<[u8]>>),
    /// Names are not known: room for about so many entries is kept.
    Streaming(u32),
}

impl Layout {
    /// Returns for how many entries a streamed file was made whose content starts at `data_offset`.
    pub fn expected(data_offset: u64) -> u32 {
        let room = data_offset.saturating_sub(index_end(0)) / (INDEX_ENTRY_LEN as u64 + NAME_ROOM);
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// Says whether a streamed file made for `expected` entries has room for these names.
    pub fn streaming_takes(expected: u32, names: &[Box<[u8]>], terminated: bool) -> bool {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        index_end(count) + names_len(names, terminated) <= streaming_room(expected)
    }
}

/// In what writers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Profile.
    pub role: Role,
    /// Flags of the header that are always set.
    pub flags: u16,
    /// The flag for content types is set when an entry has one.
    pub marks_types: bool,
    /// Each entry starts at a multiple of this many bytes: 0, 16, 32 or 64.
    pub alignment: u8,
    /// Number of the default compression in the header.
    pub compression_default: u8,
    /// Shortest content that is compressed, bytes.
    pub compress_from: usize,
    /// What was compressed is kept also if it saves less than a tenth.
    pub keeps_compressed: bool,
    /// No more entries than a streamed file was made for.
    pub counts_entries: bool,
    /// Each name is followed by a NUL byte.
    pub terminated: bool,
    /// The end of the last entry is padded, too.
    pub padded_end: bool,
    /// Last bytes of the header, which have no meaning.
    pub reserved: [u8; 16],
}

impl Style {
    /// Returns the style of a dialect; `compression` is what the header names as the default.
    pub fn new(dialect: Dialect, role: Role, alignment: u8, compression: Option<Compression>, layout: &Layout) -> Self {
        let streaming = matches!(layout, Layout::Streaming(_));
        let go = dialect == Dialect::Go;
        Self {
            role,
            flags: flags::LITTLE_ENDIAN
                | flags::HAS_CHECKSUMS
                | if streaming { flags::STREAMING } else { 0 }
                | if go { 0 } else { flags::HAS_CONTENT_TYPES },
            marks_types: go,
            alignment,
            compression_default: if go || streaming { compression.map_or(0, |compression| compression as u8) } else { 0 },
            compress_from: if go { 257 } else { 256 },
            keeps_compressed: false,
            counts_entries: go,
            terminated: true,
            padded_end: false,
            reserved: [0; 16],
        }
    }
}

/// An entry that is added.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// Name, up to 65,535 bytes.
    pub name: &'a [u8],
    /// The content.
    pub content: &'a [u8],
    /// How it is to be compressed, if that pays.
    pub compression: Option<Compression>,
    /// What its record says beside that.
    pub marks: Marks,
}

/// What the index says of an entry that nothing here depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marks {
    /// Content type (section 1.3).
    pub content_type: u16,
    /// One bit for each tag of the dictionary in the metadata.
    pub tags: u16,
    /// Flags beside those of the compression: none of them has a meaning.
    pub flags: u16,
}

/// Writes a file. Dropping it without [`ShardWriter::finish`] leaves a file without magic, which does not open.
pub struct ShardWriter<W: Write + Seek> {
    out: W,
    style: Style,
    layout: Layout,
    data_offset: u64,
    place: u64,
    entries: Vec<IndexEntry>,
    names: Vec<u8>,
    seen: HashSet<Box<[u8]>>,
    open: Option<IndexEntry>,
    stored: Vec<u8>,
}

impl<W: Write + Seek> ShardWriter<W> {
    /// Begins a file: `out` is empty.
    ///
    /// # Errors
    ///
    /// `Usage` and `Limit` for what the format or its readers don't take; `Io`.
    pub fn create(mut out: W, style: Style, layout: Layout) -> Result<Self> {
        if !ALIGNMENTS.contains(&style.alignment) {
            let detail = format!("alignment of {} bytes (possible: 0, 16, 32, 64)", style.alignment);
            return Err(Error::Usage { detail });
        }
        let room = match &layout {
            Layout::Names(names) => {
                let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
                check_count(count)?;
                index_end(count) + names_len(names, style.terminated)
            }
            Layout::Streaming(count) => {
                check_count(*count)?;
                streaming_room(*count)
            }
        };
        let data_offset = aligned(room, style.alignment).expect("the limits keep it far below 64 bits");
        let names_offset = match &layout {
            Layout::Names(names) => index_end(u32::try_from(names.len()).expect("checked above")),
            // The fewer entries come, the more of the room counts as names.
            Layout::Streaming(_) => index_end(0),
        };
        check_names(data_offset - names_offset)?;
        out.seek(SeekFrom::Start(data_offset)).map_err(fail)?;
        Ok(Self {
            out,
            style,
            layout,
            data_offset,
            place: data_offset,
            entries: Vec::new(),
            names: Vec::new(),
            seen: HashSet::new(),
            open: None,
            stored: Vec::new(),
        })
    }

    /// Adds an entry with all of its content. It is stored as it is unless compression was asked for and saves a tenth.
    ///
    /// # Errors
    ///
    /// `Usage` for a name that is there already, `Limit` for what has no room; `Io`.
    pub fn add(&mut self, entry: NewEntry<'_>) -> Result<()> {
        let mut stored = std::mem::take(&mut self.stored);
        let compression = entry.compression.filter(|_| entry.content.len() >= self.style.compress_from);
        let compression = match compression {
            Some(compression) => {
                let pays = compress(compression, entry.content, &mut stored)?;
                let is_kept = self.style.keeps_compressed && !stored.is_empty() && !entry.content.is_empty();
                (pays || is_kept).then_some(compression)
            }
            None => None,
        };
        self.begin(entry.name, entry.marks)?;
        let open = self.open.as_mut().expect("just begun");
        open.checksum = crc32c::crc32c(entry.content);
        open.content_len = entry.content.len() as u64;
        if let Some(compression) = compression {
            open.flags |= compression.entry_flags();
            self.put(&stored)?;
        } else {
            self.put(entry.content)?;
        }
        self.stored = stored;
        self.end()
    }

    /// Begins an entry that is stored as it is and given in pieces.
    ///
    /// # Errors
    ///
    /// As [`ShardWriter::add`].
    pub fn begin(&mut self, name: &[u8], marks: Marks) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::Usage { detail: "an entry was begun before the one in front of it has ended".into() });
        }
        let found = name.len() as u64;
        let limit = u16::MAX;
        let name_len =
            u16::try_from(name.len()).map_err(|_| Error::Limit { what: "length of a name", found, limit: limit.into() })?;
        let name_offset = self.admit(name)?;
        let start = aligned(self.place, self.style.alignment).ok_or(Error::Limit {
            what: "length of the file",
            found: self.place,
            limit: u64::MAX,
        })?;
        self.zeros(start - self.place)?;
        self.seen.insert(name.into());
        self.names.extend_from_slice(name);
        if self.style.terminated {
            self.names.push(0);
        }
        self.open = Some(IndexEntry {
            name_hash: xxh64(name, 0),
            name_offset,
            name_len,
            flags: marks.flags & !flags::ENTRY_STORED,
            data_offset: start,
            stored_len: 0,
            content_len: 0,
            checksum: 0,
            content_type: marks.content_type,
            tags: marks.tags,
        });
        Ok(())
    }

    /// Adds the next bytes of the entry that was begun.
    ///
    /// # Errors
    ///
    /// `Usage` when none was begun; `Io`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(nothing_begun)?;
        open.checksum = crc32c::crc32c_append(open.checksum, bytes);
        open.content_len += bytes.len() as u64;
        self.put(bytes)
    }

    /// Ends the entry that was begun.
    ///
    /// # Errors
    ///
    /// `Usage` when none was begun.
    pub fn end(&mut self) -> Result<()> {
        let mut entry = self.open.take().ok_or_else(nothing_begun)?;
        entry.stored_len = self.place - entry.data_offset;
        self.entries.push(entry);
        Ok(())
    }

    /// Writes metadata (JSON), index, names and header; returns `out`, flushed.
    ///
    /// # Errors
    ///
    /// `Usage` when a declared name is missing or when a streamed file is given metadata; `Io`.
    pub fn finish(mut self, metadata: Option<&[u8]>) -> Result<W> {
        if self.open.is_some() {
            return Err(Error::Usage { detail: "an entry was begun and not ended".into() });
        }
        if let Layout::Names(names) = &self.layout
            && names.len() != self.entries.len()
        {
            let detail = format!("{} entries were announced, {} came", names.len(), self.entries.len());
            return Err(Error::Usage { detail });
        }
        if metadata.is_some() && matches!(self.layout, Layout::Streaming(_)) {
            return Err(Error::Usage { detail: "a streamed Shard file has no metadata".into() });
        }
        if self.style.padded_end {
            let end = aligned(self.place, self.style.alignment).unwrap_or(self.place);
            self.zeros(end - self.place)?;
        }
        let mut flags = self.style.flags;
        if self.style.marks_types && self.entries.iter().any(|entry| entry.content_type != 0) {
            flags |= flags::HAS_CONTENT_TYPES;
        }
        let mut metadata_offset = 0;
        if let Some(metadata) = metadata {
            flags |= flags::HAS_SCHEMA;
            metadata_offset = self.place;
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
            file_len: self.place,
            reserved: self.style.reserved,
        };
        let mut head = Vec::with_capacity(HEADER_LEN + self.entries.len() * INDEX_ENTRY_LEN + self.names.len());
        head.extend_from_slice(&header.encode());
        for entry in &self.entries {
            head.extend_from_slice(&entry.encode());
        }
        head.extend_from_slice(&self.names);
        self.out.seek(SeekFrom::Start(0)).map_err(fail)?;
        self.place = 0;
        self.put(&head)?;
        self.zeros(self.data_offset - head.len() as u64)?;
        self.out.flush().map_err(fail)?;
        Ok(self.out)
    }

    /// Checks that there is room for an entry of this name and that it is the one announced; returns where the name will start.
    fn admit(&self, name: &[u8]) -> Result<u32> {
        let quoted = || nra_core::path::Quoted::new(name).to_string();
        if self.seen.contains(name) {
            return Err(Error::Usage { detail: format!("name {} is given twice", quoted()) });
        }
        let count = self.entries.len() as u32 + 1;
        check_count(count)?;
        match &self.layout {
            Layout::Names(names) => {
                if names.get(self.entries.len()).is_none_or(|expected| **expected != *name) {
                    return Err(Error::Usage { detail: format!("name {} was not announced in this place", quoted()) });
                }
            }
            Layout::Streaming(expected) => {
                let end = index_end(count) + (self.names.len() + name.len()) as u64 + u64::from(self.style.terminated);
                if end > self.data_offset || (self.style.counts_entries && count > *expected) {
                    let detail = format!("no room for entry {}: the file was made for {expected} entries", quoted());
                    return Err(Error::Usage { detail });
                }
            }
        }
        Ok(u32::try_from(self.names.len()).expect("the limit of the names is far below"))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(fail)?;
        self.place += bytes.len() as u64;
        Ok(())
    }

    fn zeros(&mut self, len: u64) -> Result<()> {
        each_zero(len, |bytes| self.put(bytes))
    }
}

/// Compresses `content` and says whether that saves more than a tenth.
fn compress(compression: Compression, content: &[u8], stored: &mut Vec<u8>) -> Result<bool> {
    stored.clear();
    if content.len() as u64 > MAX_PAYLOAD {
        return Ok(false);
    }
    match compression {
        Compression::Zstd => {
            stored.reserve(zstd_safe::compress_bound(content.len()));
            zstd_safe::compress(stored, content, ZSTD_LEVEL)
                .map_err(|code| Error::io("compress", "content", std::io::Error::other(zstd_safe::get_error_name(code))))?;
        }
        Compression::Lz4 => {
            *stored = lz4::block::compress(content, None, false).map_err(|error| Error::io("compress", "content", error))?;
        }
    }
    let keep = (content.len() as u128 * 9 / 10) as usize;
    Ok(stored.len() < keep)
}

/// Returns what a streamed file keeps for header, index and names of so many entries, bytes.
fn streaming_room(expected: u32) -> u64 {
    index_end(expected) + NAME_ROOM * u64::from(expected)
}

fn names_len(names: &[Box<[u8]>], terminated: bool) -> u64 {
    names.iter().map(|name| name.len() as u64 + u64::from(terminated)).sum()
}

fn check_count(count: u32) -> Result<()> {
    if count <= MAX_ENTRIES {
        return Ok(());
    }
    Err(Error::Limit { what: "number of entries", found: count.into(), limit: MAX_ENTRIES.into() })
}

fn check_names(len: u64) -> Result<()> {
    if len <= MAX_NAMES_LEN {
        Ok(())
    } else {
        Err(Error::Limit { what: "length of the names", found: len, limit: MAX_NAMES_LEN })
    }
}

fn nothing_begun() -> Error {
    Error::Usage { detail: "no entry was begun".into() }
}

fn fail(source: std::io::Error) -> Error {
    Error::io("write", Subject::Output, source)
}
