//! A 7z archive behind the reading face of all archives.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::decode::Decoding;
use super::folders::{BLOCK, Folders};
use super::header::{File, Stopped, parse};
use super::start::{Header, find, read};
use super::streams::Streams;
use nra_core::archive::{Access, ContentSink, Depth, Info, OpenOptions, Part};
use nra_core::container::Container;
use nra_core::entry::{Device, Kind, Metadata};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_TARGET;
use nra_core::source::{ReadAt, is_zero_from};
use nra_core::table::{ContentRef, Duplicates, TableArchive, TableBackend, TableBuilder, TableEntry};
use nra_stream::check_ratio;

/// Members up to this length are decoded whole, so that their checksum is known before a byte goes out.
const WHOLE: u64 = 8 << 20;
/// Memory that the dictionaries of a folder may take unless `--memory` allows more, bytes: the largest that 7-Zip's levels ask for.
const DICTIONARY: u64 = 256 << 20;
/// Bytes of memory that a byte of the header may become.
const GROWTH: u64 = 16;

/// A 7z archive.
pub type SevenzArchive = TableArchive<SevenzMembers>;

/// Content of the members of a 7z archive. A member's number is that of its content; its place is counted in blocks over all folders.
pub struct SevenzMembers {
    folders: Folders,
    /// For each folder the number of its first block.
    blocks: Vec<u64>,
    header: u64,
    /// Something of the file is not served, which a remark tells.
    omits: bool,
    /// Entries that say what is to be removed.
    anti: u64,
    /// The password was found to be right.
    is_open: AtomicBool,
    /// Length of the file, and decoded bytes for each of its bytes that finding symlinks may take.
    bound: (u64, u64),
    /// Members whose checksum was found right.
    checked: Mutex<HashSet<u64>>,
}

impl SevenzMembers {
    /// Opens a 7z archive, or one behind a program that extracts it; `None` when it is another file.
    ///
    /// # Errors
    ///
    /// `Corrupt` when its header is damaged, `Unsupported` when it has something that is not known, `Limit` when the index takes more memory
    /// than it may, `KeyNeeded` and `WrongKey` when the header is encrypted.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<SevenzArchive>> {
        let Some(base) = find(&**source)? else { return Ok(None) };
        let decoding = Decoding { memory: options.cache_bytes.max(DICTIONARY), key: options.key.clone() };
        let limit = (options.index_bytes / GROWTH).min(decoding.memory);
        let Header { body, bytes, is_encrypted, trailing, .. } = read(source, base, limit, &decoding)?;
        let place = base + super::start::START_LEN + body;
        // Entries are there twice for a moment: as the header has them, and as rows.
        let half = options.index_bytes / 2;
        let mut files = Vec::new();
        let mut taken = bytes.len() as u64;
        let mut each = |file: File| {
            taken += file.name.len() as u64 + size_of::<File>() as u64;
            if taken > half {
                return Err(Error::Limit { what: "memory for the index", found: taken, limit: half });
            }
            files.push(file);
            Ok(())
        };
        let streams = if bytes.is_empty() { Ok(Streams::default()) } else { parse(&bytes, body, &mut each) };
        let streams = streams.map_err(|stopped| match stopped {
            Stopped::Refused(refused) => refused.at(place),
            Stopped::Failed(error) => error,
        })?;
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
            info.remarks.push(format!("{trailing} bytes behind the header do not belong to the archive"));
        }
        let left = half.saturating_sub(streams.memory());
        let folders = Folders::new(Arc::new(streams), Arc::clone(source), base, decoding, options.cache_bytes);
        let is_open = AtomicBool::new(is_encrypted);
        let bound = (source.len(), options.stream_ratio);
        let mut members =
            Self { folders, blocks, header: place, omits: false, anti: 0, is_open, bound, checked: Mutex::default() };
        members.anti = files.iter().filter(|file| file.is_anti).count() as u64;
        let table = members.table(files, left, &mut info)?;
        members.omits = !info.remarks.is_empty();
        Ok(Some(TableArchive::new(table.finish()?, members, info)))
    }

    /// Returns the length of all folders as they claim it, bytes.
    pub fn decoded_bytes(&self) -> u64 {
        self.folders.streams.folders.iter().map(|folder| folder.size).fold(0, u64::saturating_add)
    }

    /// Makes the table. Contents belong to the files that have any, in order.
    fn table(&self, files: Vec<File>, limit: u64, info: &mut Info) -> Result<TableBuilder> {
        let mut table = TableBuilder::new(Duplicates::KeepLast, limit);
        let streams = &self.folders.streams;
        let mut places = streams.counts.iter().enumerate().flat_map(|(folder, &count)| std::iter::repeat_n(folder, count));
        let (mut number, mut folder, mut offset) = (0, 0, 0);
        for file in files {
            let mut item = TableEntry::new(Kind::File);
            let (mut kind, mode) = file.kind();
            if file.has_content {
                let size = streams.parts[number].size;
                let next = places.next().expect("each content lies in a folder");
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
                // The target is the content. A link that can't be read is kept as a file, whose reading tells why.
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
        let anti = self.anti;
        if anti > 0 {
            let entries = if anti == 1 { "1 entry says" } else { "entries say" };
            let count = if anti == 1 { String::new() } else { format!("{anti} ") };
            info.remarks.push(format!("{count}{entries} that something is to be removed, and is skipped"));
        }
        Ok(table)
    }

    fn target(&self, item: &TableEntry) -> Result<Vec<u8>> {
        let limit = MAX_TARGET as u64;
        if item.size > limit {
            return Err(Error::Limit { what: "length of a symlink target", found: item.size, limit });
        }
        // What lies before it has to be decoded.
        check_ratio(item.place.0.saturating_mul(BLOCK), self.bound.0, self.bound.1)?;
        let member = ContentRef { number: item.number, place: item.place, size: item.size };
        let target = if item.size > 0 { self.whole(&member)? } else { Vec::new() };
        if target.is_empty() || target.contains(&0) {
            return Err(Error::corrupt("7z member", self.header, "a symlink without a target"));
        }
        Ok(target)
    }

    /// Returns the folder of a member and where it begins in it.
    fn located(&self, member: &ContentRef) -> (usize, u64) {
        let folder = self.blocks.partition_point(|&block| block <= member.place.0).saturating_sub(1);
        (folder, (member.place.0 - self.blocks[folder]) * BLOCK + member.place.1)
    }

    /// Hands a range of a member to `sink`; all of it is compared with its checksum.
    fn decode(&self, member: &ContentRef, range: Range<u64>, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (folder, offset) = self.located(member);
        let is_encrypted = self.folders.streams.folders[folder].is_encrypted;
        let expected = usize::try_from(member.number).ok().and_then(|number| self.folders.streams.parts.get(number)?.crc);
        let expected = expected.filter(|_| range == (0..member.size));
        let mut crc = crc32fast::Hasher::new();
        let mut taken = true;
        let mut result = self.folders.read(folder, offset + range.start, range.end - range.start, &mut |bytes| {
            if expected.is_some() {
                crc.update(bytes);
            }
            let result = sink(bytes);
            taken = result.is_ok();
            result
        });
        if let (Ok(()), Some(expected)) = (&result, expected) {
            let found = crc.finalize();
            if found == expected {
                self.is_open.fetch_or(is_encrypted, Ordering::Relaxed);
            } else {
                let place = self.folders.place(folder);
                result = Err(Error::corrupt("7z member", place, format!("CRC {expected:08x} expected, {found:08x} found")));
            }
        }
        match result {
            // Nothing else tells a wrong password.
            Err(Error::Corrupt { .. }) if taken && is_encrypted && !self.is_open.load(Ordering::Relaxed) => Err(Error::WrongKey),
            result => result,
        }
    }

    /// Decodes a member of at most [`WHOLE`] bytes.
    fn whole(&self, member: &ContentRef) -> Result<Vec<u8>> {
        // The size is a claim: memory grows with what comes.
        let mut content = Vec::new();
        self.decode(member, 0..member.size, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(content)
    }
}

impl TableBackend for SevenzMembers {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, _access: Access, sink: ContentSink<'_>) -> Result<()> {
        let is_checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner).contains(&member.number);
        if member.size > WHOLE || (range != (0..member.size) && is_checked()) {
            return self.decode(member, range, &mut |bytes| sink(Part::Data(bytes)));
        }
        let content = self.whole(member)?;
        if range != (0..member.size) {
            self.checked.lock().unwrap_or_else(PoisonError::into_inner).insert(member.number);
        }
        let within = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        sink(Part::Data(content.get(within(range.start)..within(range.end)).unwrap_or_default()))
    }

    fn check(&self, member: &ContentRef, depth: Depth) -> Result<()> {
        // Nothing tells damage but decoding.
        match depth {
            Depth::Full if member.size > 0 => self.decode(member, 0..member.size, &mut |_| Ok(())),
            _ => Ok(()),
        }
    }

    fn skips_entries(&self) -> bool {
        self.omits
    }

    fn skipped_entries(&self) -> u64 {
        self.anti
    }

    fn is_sequential(&self) -> bool {
        // Several threads have nothing to share when one folder holds most of the content.
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
