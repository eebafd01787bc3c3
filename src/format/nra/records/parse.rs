//! Parsing of record lists from untrusted bytes.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::content::{Content, FrameRef, Segment};
use crate::front_coding::FrontDecoder;
use crate::records::extents::{ExtentDecoder, parse_extent_list};
use crate::records::metadata::{self, MetadataRow};
use crate::records::{COLUMNS, IMPLIED, column, form, is_unknown};
use nra_core::digest::Digest;
use nra_core::entry::{Device, Entry, Kind, Timestamp};
use nra_core::limits::{MAX_LIST_ENTRIES, MAX_OFFSET, MAX_PATH, MAX_TARGET};
use nra_core::path::{self, EntryPath};
use nra_core::wire::{Cursor, Malformed};

/// Parses a record list up to the end of `cursor`. In a block index, `own_block` is the offset of
/// its block.
pub(crate) fn parse(cursor: Cursor<'_>, own_block: Option<u64>) -> Result<Vec<Entry>, Malformed> {
    Parser::new(cursor, own_block)?.run(false)
}

/// Parses a record list that is sorted by path.
pub(crate) fn parse_sorted(cursor: Cursor<'_>) -> Result<Vec<Entry>, Malformed> {
    Parser::new(cursor, None)?.run(true)
}

struct Parser<'a> {
    count: usize,
    paths: FrontDecoder<'a>,
    columns: [Cursor<'a>; COLUMNS],
    rows: Vec<MetadataRow>,
    used_rows: usize,
    extents: ExtentDecoder<'a>,
    in_block_index: bool,
    seconds: i64,
    content_bytes: u64,
}

impl<'a> Parser<'a> {
    fn new(mut cursor: Cursor<'a>, own_block: Option<u64>) -> Result<Self, Malformed> {
        let count = cursor.count("entries", MAX_LIST_ENTRIES)?;
        if count == 0 {
            return Err("a record list without entries".into());
        }
        let mut bytes: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        for column in &mut bytes {
            *column = cursor.bytes("a column", usize::MAX)?;
        }
        cursor.end("the record list")?;
        // The other columns are checked entry by entry. This check precedes the allocation of the
        // entries.
        if bytes[column::KIND].len() != count {
            return Err(format!("{} kinds of {count} entries", bytes[column::KIND].len()));
        }
        Ok(Self {
            count,
            paths: FrontDecoder::new(
                bytes[column::PATH_SHARED],
                bytes[column::PATH_REST_LENGTH],
                bytes[column::PATH_REST],
                MAX_PATH,
            ),
            rows: metadata::parse(bytes[column::METADATA_TABLE], bytes[column::ATTRIBUTE_TABLE])?,
            used_rows: 0,
            extents: ExtentDecoder::new(
                bytes[column::BLOCK_TABLE],
                bytes[column::EXTENT_BLOCK],
                bytes[column::EXTENT_OFFSET],
                own_block,
            )?,
            columns: bytes.map(Cursor::new),
            in_block_index: own_block.is_some(),
            seconds: 0,
            content_bytes: 0,
        })
    }

    fn run(mut self, sorted: bool) -> Result<Vec<Entry>, Malformed> {
        let mut entries = Vec::with_capacity(self.count);
        for i in 0..self.count {
            entries.push(self.entry(sorted).map_err(|detail| format!("entry {i}: {detail}"))?);
        }
        self.end()?;
        Ok(entries)
    }

    fn entry(&mut self, sorted: bool) -> Result<Entry, Malformed> {
        let path = self.path(sorted)?;
        let [byte] = self.columns[column::KIND].array()?;
        let kind = Kind::from_number(byte & 0x0f).ok_or_else(|| format!("unknown kind {}", byte & 0x0f))?;
        let form = byte >> 4 & 7;
        let implied = byte & IMPLIED != 0;
        let is_file = kind == Kind::File;
        if (form != form::NONE && !is_file) || (implied && kind != Kind::Directory) {
            return Err(format!("kind {byte:#04x}"));
        }
        let (metadata, modified) = self.metadata()?;
        if implied && (modified.is_some() || !is_unknown(&metadata)) {
            return Err("an implied directory with metadata".into());
        }
        let link_group = if is_file { self.columns[column::LINK_GROUP].uv()? } else { 0 };
        let target = if kind == Kind::Symlink { self.target()? } else { Box::default() };
        let device = match kind {
            Kind::CharacterDevice | Kind::BlockDevice => Some(self.device()?),
            _ => None,
        };
        let (size, content) = if form == form::NONE { (0, Content::None) } else { self.content(form)? };
        Ok(Entry { path, kind, metadata, modified, size, link_group, target, device, implied, location: content.into() })
    }

    fn path(&mut self, sorted: bool) -> Result<EntryPath, Malformed> {
        let (shared, order) = self.paths.advance().map_err(|detail| format!("path: {detail}"))?;
        if sorted && order != Ordering::Greater {
            return Err("it does not follow the preceding entry in path order".into());
        }
        let bytes = self.paths.current();
        // The components before the last slash of the shared part were checked with the preceding
        // entry.
        let start = bytes[..shared].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        path::check(&bytes[start..]).map_err(|error| error.to_string())?;
        Ok(EntryPath::from_checked(bytes))
    }

    fn metadata(&mut self) -> Result<(Arc<nra_core::entry::Metadata>, Option<Timestamp>), Malformed> {
        let index = self.columns[column::METADATA].uv()?;
        let index = usize::try_from(index).ok().filter(|&i| i < self.rows.len() && i <= self.used_rows);
        let index = index.ok_or("a metadata row that does not exist or breaks the order of first use")?;
        self.used_rows = self.used_rows.max(index + 1);
        let row = &self.rows[index];
        let mut modified = None;
        if row.has_time {
            self.seconds = self.seconds.wrapping_add(self.columns[column::SECONDS].sv()?);
            let nanoseconds = self.columns[column::NANOSECONDS].uv_max("nanoseconds", 999_999_999)?;
            let nanoseconds = u32::try_from(nanoseconds).expect("less than 2^30");
            modified = Some(Timestamp { seconds: self.seconds, nanoseconds });
        }
        Ok((Arc::clone(&row.metadata), modified))
    }

    fn target(&mut self) -> Result<Box<[u8]>, Malformed> {
        let target = self.columns[column::TARGET].bytes("target", MAX_TARGET)?;
        if target.is_empty() || target.contains(&0) {
            return Err("a target that is empty or has a NUL byte".into());
        }
        Ok(target.into())
    }

    fn device(&mut self) -> Result<Device, Malformed> {
        let numbers = &mut self.columns[column::DEVICE];
        let mut number = |what| -> Result<u32, Malformed> {
            let value = numbers.uv_max(what, u32::MAX.into())?;
            Ok(u32::try_from(value).expect("not more than 32 bits"))
        };
        Ok(Device { major: number("major number")?, minor: number("minor number")? })
    }

    fn content(&mut self, form: u8) -> Result<(u64, Content), Malformed> {
        let size = self.columns[column::SIZE].uv_max("size", MAX_OFFSET)?;
        if size == 0 {
            return Err("content of 0 bytes".into());
        }
        // Cannot overflow: both are below 2^63.
        self.content_bytes += size;
        if self.content_bytes > MAX_OFFSET {
            return Err("more than 2^63 bytes of content".into());
        }
        let content = match form {
            form::EXTENT => Content::Extent(self.extents.next(size)?),
            form::UNCOMPRESSED => {
                let extent = self.extents.next(size)?;
                if self.in_block_index || extent.block.stored_len != extent.block.raw_len {
                    return Err("an uncompressed extent in a block index or a compressed block".into());
                }
                Content::Uncompressed(extent, self.columns[column::CONTENT_CHECKSUM].u32()?)
            }
            form::LIST => {
                let (segments, sum) = parse_extent_list(&mut self.columns[column::EXTENT_LISTS], &mut self.extents)?;
                if sum != size {
                    return Err(format!("extents of {sum} bytes, size {size}"));
                }
                if let [Segment::Data(_)] = *segments {
                    return Err("a list of one extent".into());
                }
                Content::List(segments, self.digest()?)
            }
            form::MAP => {
                let root = FrameRef::read(&mut self.columns[column::EXTENT_MAPS])?;
                Content::Map(root, self.digest()?)
            }
            _ => return Err(format!("unknown form {form}")),
        };
        Ok((size, content))
    }

    fn digest(&mut self) -> Result<Option<Box<Digest>>, Malformed> {
        let digests = &mut self.columns[column::FILE_DIGEST];
        match digests.u8()? {
            0 => Ok(None),
            1 => Ok(Some(Box::new(Digest(digests.array()?)))),
            other => Err(format!("digest of kind {other}")),
        }
    }

    fn end(&self) -> Result<(), Malformed> {
        self.paths.end("the paths")?;
        self.extents.end()?;
        for (number, name) in column::NAMES.iter().enumerate() {
            let by_others = [
                column::PATH_SHARED,
                column::PATH_REST_LENGTH,
                column::PATH_REST,
                column::METADATA_TABLE,
                column::ATTRIBUTE_TABLE,
                column::BLOCK_TABLE,
                column::EXTENT_BLOCK,
                column::EXTENT_OFFSET,
            ];
            if !by_others.contains(&number) {
                self.columns[number].end(name)?;
            }
        }
        if self.used_rows != self.rows.len() {
            return Err(format!("{} of {} metadata rows are used", self.used_rows, self.rows.len()));
        }
        Ok(())
    }
}
