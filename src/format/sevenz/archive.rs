//! The archive interface of 7z files.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::decode::Decoding;
use super::folders::{BLOCK, Folders};
use super::header::{File, parse};
use super::start::{Header, find, read};
use super::streams::Streams;
use nra_core::archive::{Access, ContentSink, Info, OpenOptions, Part};
use nra_core::container::Container;
use nra_core::entry::{Device, Kind, Metadata};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_TARGET;
use nra_core::source::{ReadAt, is_zero_from};
use nra_core::table::{ContentRef, Duplicates, Losses, TableArchive, TableBackend, TableBuilder, TableEntry};
use nra_stream::check_ratio;

/// Members up to this length are decoded whole, so that the checksum is compared before any byte is
/// returned.
const MAX_WHOLE_LEN: u64 = 8 << 20;
/// Memory for the dictionaries of a folder unless `--memory` allows more, bytes: the maximum of
/// 7-Zip's levels.
const MIN_DICTIONARY_BYTES: u64 = 256 << 20;
/// Memory that a byte of the header may use once parsed, bytes.
const MEMORY_PER_HEADER_BYTE: u64 = 16;

/// A 7z archive.
pub type SevenzArchive = TableArchive<SevenzBackend>;

/// The contents of a 7z archive. A member's number is the index of its content. Its position is
/// counted in blocks over all folders.
pub struct SevenzBackend {
    folders: Folders,
    /// Number of the first block of each folder.
    blocks: Vec<u64>,
    /// Offset of the header.
    header: u64,
    /// The password is known to be right.
    password_fits: AtomicBool,
    /// Length of the file, and the most decoded bytes per byte of the file when symlinks are read.
    ratio_limit: (u64, u64),
    /// Members whose checksum matched.
    verified: Mutex<HashSet<u64>>,
}

impl SevenzBackend {
    /// Opens a 7z archive, which a self-extracting program may precede. Returns `None` if the
    /// source is not one.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the header is damaged, `Unsupported` if it contains something unknown, `Limit`
    /// if the index is too large, `KeyNeeded` and `WrongKey` if the header is encrypted.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<SevenzArchive>> {
        let Some(base) = find(&**source)? else { return Ok(None) };
        let decoding = Decoding { memory: options.cache_bytes.max(MIN_DICTIONARY_BYTES), key: options.key.clone() };
        let limit = (options.index_bytes / MEMORY_PER_HEADER_BYTE).min(decoding.memory);
        let Header { body, bytes, is_encrypted, trailing, .. } = read(source, base, limit, &decoding)?;
        let header_offset = base + super::start::START_LEN + body;
        // Entries are in memory twice for a moment: as parsed, and as rows.
        let half = options.index_bytes / 2;
        let mut files = Vec::new();
        let mut used = bytes.len() as u64;
        let mut each = |file: File| {
            used += file.name.len() as u64 + size_of::<File>() as u64;
            if used > half {
                return Err(Error::Limit { what: "memory for the index", found: used, limit: half });
            }
            files.push(file);
            Ok(())
        };
        let streams = if bytes.is_empty() { Ok(Streams::default()) } else { parse(&bytes, body, &mut each) };
        let streams = streams.map_err(|error| error.at(header_offset))?;
        drop(bytes);
        let mut blocks = Vec::with_capacity(streams.folders.len());
        let mut block = 0u64;
        for folder in &streams.folders {
            blocks.push(block);
            block = block.saturating_add(folder.size / BLOCK + 1);
        }
        let mut info = Info {
            container: Container::SevenZ,
            archive_bytes: source.len(),
            stored_bytes: Some(streams.folders.iter().map(|folder| streams.packed(folder)).fold(0, u64::saturating_add)),
            blocks: Some(streams.folders.len() as u64),
            encrypted: is_encrypted || streams.folders.iter().any(|folder| folder.is_encrypted),
            ..Info::default()
        };
        if trailing > 0 && !is_zero_from(&**source, source.len() - trailing)? {
            info.remarks.push(format!("the {trailing} bytes after the header are not part of the archive"));
        }
        let left = half.saturating_sub(streams.memory());
        let folders = Folders::new(Arc::new(streams), Arc::clone(source), base, decoding, options.cache_bytes);
        let skipped_entries = files.iter().filter(|file| file.is_anti).count() as u64;
        match skipped_entries {
            0 => {}
            1 => info.remarks.push("1 entry requests a deletion and is skipped".into()),
            count => info.remarks.push(format!("{count} entries request a deletion and are skipped")),
        }
        let backend = Self {
            folders,
            blocks,
            header: header_offset,
            password_fits: AtomicBool::new(is_encrypted),
            ratio_limit: (source.len(), options.stream_ratio),
            verified: Mutex::default(),
        };
        let table = backend.table(files, left)?.finish()?;
        let losses = Losses { damage: Vec::new(), skips_entries: !info.remarks.is_empty(), skipped_entries };
        Ok(Some(TableArchive::new(table, backend, info).with_losses(losses)))
    }

    /// Returns the declared length of all folders, bytes.
    pub fn decoded_bytes(&self) -> u64 {
        self.folders.streams.folders.iter().map(|folder| folder.size).fold(0, u64::saturating_add)
    }

    /// Builds the table. Contents belong, in order, to the files that have content.
    fn table(&self, files: Vec<File>, limit: u64) -> Result<TableBuilder> {
        let mut table = TableBuilder::new(Duplicates::KeepLast, limit);
        let streams = &self.folders.streams;
        let mut folder_of = streams.counts.iter().enumerate().flat_map(|(folder, &count)| std::iter::repeat_n(folder, count));
        let (mut number, mut folder, mut offset) = (0, 0, 0);
        for file in files {
            let mut item = TableEntry::new(Kind::File);
            let (mut kind, mode) = file.kind();
            if file.has_content {
                let size = streams.contents[number].size;
                let next = folder_of.next().expect("each content is in a folder");
                if next != folder {
                    (folder, offset) = (next, 0);
                }
                item.size = size;
                item.number = number as u64;
                item.place = (self.blocks[folder] + offset / BLOCK, offset % BLOCK);
                number += 1;
                offset += size;
            }
            if file.is_anti {
                continue;
            }
            if kind == Kind::Symlink {
                // The target is the content. A link that cannot be read becomes a file; reading it
                // returns the error.
                match self.target(&item) {
                    Ok(target) => item.target = target.into(),
                    Err(error @ Error::Io { .. }) => return Err(error),
                    Err(_) => kind = Kind::File,
                }
            }
            item.kind = kind;
            if kind != Kind::File {
                item.size = 0;
            }
            item.modified = file.modified;
            item.metadata = Arc::new(Metadata { mode, ..Metadata::default() });
            let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
            item.device = is_device.then_some(Device { major: 0, minor: 0 });
            table.add(&file.name, item)?;
        }
        Ok(table)
    }

    fn target(&self, item: &TableEntry) -> Result<Vec<u8>> {
        let limit = MAX_TARGET as u64;
        if item.size > limit {
            return Err(Error::Limit { what: "length of a symlink target", found: item.size, limit });
        }
        // The preceding content of the folders is decoded, too.
        check_ratio(item.place.0.saturating_mul(BLOCK), self.ratio_limit.0, self.ratio_limit.1)?;
        let member = ContentRef { number: item.number, place: item.place, size: item.size };
        let target = if item.size > 0 { self.decode_whole(&member)? } else { Vec::new() };
        if target.is_empty() || target.contains(&0) {
            return Err(Error::corrupt("7z member", self.header, "a symlink without a target"));
        }
        Ok(target)
    }

    /// Returns the folder of a member and its offset in the folder.
    fn located(&self, member: &ContentRef) -> (usize, u64) {
        let folder = self.blocks.partition_point(|&block| block <= member.place.0).saturating_sub(1);
        (folder, (member.place.0 - self.blocks[folder]) * BLOCK + member.place.1)
    }

    /// Passes a range of a member to `sink`. If it is the whole member, its checksum is compared.
    fn decode(&self, member: &ContentRef, range: Range<u64>, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (folder, offset) = self.located(member);
        let is_encrypted = self.folders.streams.folders[folder].is_encrypted;
        let number = usize::try_from(member.number).ok();
        let expected = number.and_then(|number| self.folders.streams.contents.get(number)?.crc);
        let expected = expected.filter(|_| range == (0..member.size));
        let mut crc = crc32fast::Hasher::new();
        let mut sink_failed = false;
        let mut result = self.folders.read(folder, offset + range.start, range.end - range.start, &mut |bytes| {
            if expected.is_some() {
                crc.update(bytes);
            }
            let result = sink(bytes);
            sink_failed = result.is_err();
            result
        });
        if let (Ok(()), Some(expected)) = (&result, expected) {
            let found = crc.finalize();
            if found == expected {
                self.password_fits.fetch_or(is_encrypted, Ordering::Relaxed);
            } else {
                let offset = self.folders.place(folder);
                result = Err(Error::corrupt("7z member", offset, format!("CRC {expected:08x} expected, {found:08x} found")));
            }
        }
        let may_be_wrong_key = is_encrypted && !sink_failed && !self.password_fits.load(Ordering::Relaxed);
        match result {
            // A wrong password is only detected by decoding.
            Err(Error::Corrupt { .. }) if may_be_wrong_key => Err(Error::WrongKey),
            result => result,
        }
    }

    /// Decodes a member of at most [`MAX_WHOLE_LEN`] bytes.
    fn decode_whole(&self, member: &ContentRef) -> Result<Vec<u8>> {
        // The declared size is not trusted: memory grows with the decoded bytes.
        let mut content = Vec::new();
        self.decode(member, 0..member.size, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(content)
    }
}

impl TableBackend for SevenzBackend {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, _access: Access, sink: ContentSink<'_>) -> Result<()> {
        let verified = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let is_whole = range == (0..member.size);
        if member.size > MAX_WHOLE_LEN || (!is_whole && verified().contains(&member.number)) {
            return self.decode(member, range, &mut |bytes| sink(Part::Data(bytes)));
        }
        let content = self.decode_whole(member)?;
        if !is_whole {
            verified().insert(member.number);
        }
        let to_usize = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        sink(Part::Data(content.get(to_usize(range.start)..to_usize(range.end)).unwrap_or_default()))
    }

    fn is_sequential(&self) -> bool {
        // Several threads cannot share the work if one folder has most of the content.
        let largest = self.folders.streams.folders.iter().map(|folder| folder.size).max();
        largest.unwrap_or_default() > self.decoded_bytes() / 2
    }

    fn is_encrypted(&self, member: &ContentRef) -> bool {
        self.folders.streams.folders.get(self.located(member).0).is_some_and(|folder| folder.is_encrypted)
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        let (folder, _) = self.located(member);
        let streams = &self.folders.streams;
        let folder = streams.folders.get(folder)?;
        let share = u128::from(streams.packed(folder)) * u128::from(member.size) / u128::from(folder.size.max(1));
        u64::try_from(share).ok()
    }
}
