//! Encoding of record lists.

use crate::content::{Content, EntryContent as _, Extent, Segment};
use crate::front_coding::FrontEncoder;
use crate::records::extents::{ExtentEncoder, are_one, encode_extent_list};
use crate::records::metadata::{self, MetadataEncoder};
use crate::records::{COLUMNS, IMPLIED, column, form, is_unknown};
use nra_core::entry::{Device, Entry, Kind};
use nra_core::limits::{MAX_LIST_ENTRIES, MAX_LIST_EXTENTS, MAX_LIST_PATHS, MAX_LIST_SEGMENTS, MAX_OFFSET, MAX_PATH, MAX_TARGET};
use nra_core::wire::{Malformed, put_bytes, put_sv, put_uv};

/// The structure that holds a record list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A leaf page of the entry tree.
    Leaf,
    /// A block index. Uncompressed entries are written in form 1.
    BlockIndex,
}

/// A record list under construction.
///
/// Entries are appended to the columns, so the length is always known.
#[derive(Debug)]
pub(crate) struct RecordList {
    holder: Holder,
    count: usize,
    path_bytes: usize,
    segments: usize,
    paths: FrontEncoder,
    metadata: MetadataEncoder,
    extents: ExtentEncoder,
    /// Columns that none of the encoders builds.
    columns: [Vec<u8>; COLUMNS],
    seconds: i64,
}

impl RecordList {
    pub(crate) fn new(holder: Holder) -> Self {
        Self {
            holder,
            count: 0,
            path_bytes: 0,
            segments: 0,
            paths: FrontEncoder::default(),
            metadata: MetadataEncoder::default(),
            extents: ExtentEncoder::default(),
            columns: Default::default(),
            seconds: 0,
        }
    }

    /// Returns the number of entries so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether the list is full by the limits of the format.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= MAX_LIST_ENTRIES
            || self.path_bytes > MAX_LIST_PATHS - MAX_PATH
            || self.segments > MAX_LIST_SEGMENTS - MAX_LIST_EXTENTS
    }

    /// Returns the raw length of the list so far, bytes. It is slightly overestimated.
    pub(crate) fn raw_len(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::len).sum();
        let paths = self.paths.shared.len() + self.paths.rest_len.len() + self.paths.rest.len();
        let extents = self.extents.table_len() + self.extents.blocks.len() + self.extents.offsets.len();
        columns + paths + extents + self.metadata.len() + 4 * COLUMNS
    }

    /// Adds an entry that passes [`check`]. The list must not be full.
    pub(crate) fn push(&mut self, entry: &Entry) {
        debug_assert_eq!(check(entry), Ok(()));
        debug_assert!(!self.is_full());
        self.count += 1;
        self.path_bytes += entry.path.as_bytes().len();
        self.paths.push(entry.path.as_bytes());
        let metadata = self.metadata.index(&entry.metadata, entry.modified.is_some());
        let columns = &mut self.columns;
        put_uv(&mut columns[column::METADATA], metadata);
        if let Some(time) = entry.modified {
            put_sv(&mut columns[column::SECONDS], time.seconds.wrapping_sub(self.seconds));
            put_uv(&mut columns[column::NANOSECONDS], time.nanoseconds.into());
            self.seconds = time.seconds;
        }
        if entry.kind == Kind::File {
            put_uv(&mut columns[column::LINK_GROUP], entry.link_group);
        }
        if entry.kind == Kind::Symlink {
            put_bytes(&mut columns[column::TARGET], &entry.target);
        }
        if let Some(Device { major, minor }) = entry.device {
            put_uv(&mut columns[column::DEVICE], major.into());
            put_uv(&mut columns[column::DEVICE], minor.into());
        }
        let form = self.push_content(entry);
        let implied = if entry.implied { IMPLIED } else { 0 };
        self.columns[column::KIND].push(entry.kind as u8 | form << 4 | implied);
    }

    /// Adds the content of an entry and returns its form.
    fn push_content(&mut self, entry: &Entry) -> u8 {
        let columns = &mut self.columns;
        if *entry.content() != Content::None {
            put_uv(&mut columns[column::SIZE], entry.size);
        }
        let (form, digest) = match entry.content() {
            Content::None => return form::NONE,
            Content::Uncompressed(extent, sum) if self.holder == Holder::Leaf => {
                self.extents.push(extent);
                columns[column::CONTENT_CHECKSUM].extend_from_slice(&sum.to_le_bytes());
                return form::UNCOMPRESSED;
            }
            Content::Extent(extent) | Content::Uncompressed(extent, _) => {
                self.extents.push(extent);
                return form::EXTENT;
            }
            Content::List(segments, digest) => {
                self.segments += segments.len();
                encode_extent_list(segments, &mut columns[column::EXTENT_LISTS], &mut self.extents);
                (form::LIST, digest)
            }
            Content::Map(root, digest) => {
                root.put(&mut columns[column::EXTENT_MAPS]);
                (form::MAP, digest)
            }
        };
        let digests = &mut columns[column::FILE_DIGEST];
        match digest {
            Some(digest) => {
                digests.push(1);
                digests.extend_from_slice(&digest.0);
            }
            None => digests.push(0),
        }
        form
    }

    /// Appends the list to `out`. The list has at least one entry.
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        debug_assert!(self.count > 0);
        out.reserve(self.raw_len());
        put_uv(out, self.count as u64);
        let tables = self.metadata.tables();
        let blocks = self.extents.block_table();
        for (number, own) in self.columns.iter().enumerate() {
            let bytes = match number {
                column::PATH_SHARED => &self.paths.shared,
                column::PATH_REST_LENGTH => &self.paths.rest_len,
                column::PATH_REST => &self.paths.rest,
                column::METADATA_TABLE => &tables[0],
                column::ATTRIBUTE_TABLE => &tables[1],
                column::BLOCK_TABLE => &blocks,
                column::EXTENT_BLOCK => &self.extents.blocks,
                column::EXTENT_OFFSET => &self.extents.offsets,
                _ => own,
            };
            put_bytes(out, bytes);
        }
    }
}

/// Checks that an entry can be encoded: consistent fields, values within limits. The error completes
/// "the entry has".
pub(crate) fn check(entry: &Entry) -> Result<(), Malformed> {
    metadata::check(&entry.metadata)?;
    if entry.modified.is_some_and(|time| time.nanoseconds > 999_999_999) {
        return Err("more than 999,999,999 nanoseconds".into());
    }
    if entry.implied && (entry.kind != Kind::Directory || !is_unknown(&entry.metadata) || entry.modified.is_some()) {
        return Err("metadata although it is implied".into());
    }
    if entry.link_group != 0 && entry.kind != Kind::File {
        return Err("a link group although it is not a file".into());
    }
    let target = &entry.target;
    let good = if entry.kind == Kind::Symlink {
        !target.is_empty() && target.len() <= MAX_TARGET && !target.contains(&0)
    } else {
        target.is_empty()
    };
    if !good {
        return Err(format!("an invalid link target of {} bytes", target.len()));
    }
    if entry.device.is_some() != matches!(entry.kind, Kind::CharacterDevice | Kind::BlockDevice) {
        return Err("missing or unexpected device numbers".into());
    }
    if entry.size > MAX_OFFSET || (entry.size > 0) != (*entry.content() != Content::None) {
        return Err(format!("a size of {} bytes that contradicts its content", entry.size));
    }
    if entry.kind != Kind::File && *entry.content() != Content::None {
        return Err("content although it is not a file".into());
    }
    check_content(entry)
}

fn check_content(entry: &Entry) -> Result<(), Malformed> {
    let inside = |extent: &Extent| {
        u64::from(extent.offset).checked_add(extent.len).is_some_and(|end| end <= extent.block.raw_len.into()) && extent.len > 0
    };
    let good = match entry.content() {
        Content::None => true,
        Content::Extent(extent) | Content::Uncompressed(extent, _) => inside(extent) && extent.len == entry.size,
        Content::Map(root, _) => root.validate().is_ok(),
        Content::List(segments, _) => {
            let sum = segments.iter().try_fold(0u64, |sum, segment| sum.checked_add(segment.len()));
            (1..=MAX_LIST_EXTENTS).contains(&segments.len())
                && sum == Some(entry.size)
                && !segments.windows(2).any(|pair| are_one(&pair[0], &pair[1]))
                && segments.iter().all(|segment| match segment {
                    Segment::Data(extent) => inside(extent),
                    Segment::Hole(len) => *len > 0,
                })
                && (segments.len() > 1 || matches!(segments[0], Segment::Hole(_)))
        }
    };
    if good { Ok(()) } else { Err("content with invalid extents".into()) }
}
