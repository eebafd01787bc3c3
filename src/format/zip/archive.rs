//! A zip file behind the reading face of all archives.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::end::{self, Directory};
use crate::member::{Located, MEMBER, Sink, locate};
use crate::names::name;
use crate::record::{AES, CENTRAL_LEN, LOCAL_LEN, Record, record_len};
use crate::scan::{self, Rebuilt};
use nra_core::archive::{Access, ContentSink, Damage, Depth, Info, OpenOptions, Part};
use nra_core::cache::DecodedCache;
use nra_core::container::Container;
use nra_core::crypt::Secret;
use nra_core::entry::{Device, Kind, Metadata};
use nra_core::error::{Error, Result};
use nra_core::limits::{MAX_MESSAGE, MAX_TARGET};
use nra_core::names::NameEncoding;
use nra_core::path::{EntryPath, Quoted};
use nra_core::progress::Monitor;
use nra_core::source::{ReadAt, is_zero_from};
use nra_core::table::{ContentRef, Duplicates, TableArchive, TableBackend, TableBuilder, TableEntry, clean};

/// Usual length of a decoded member, bytes.
const TYPICAL: u64 = 64 << 10;
/// Members up to this length are decoded whole, so that their checksum is known before a byte goes out.
const WHOLE: u64 = 8 << 20;
/// Bytes of the directory read at once.
const STEP: usize = 1 << 20;
/// Stored content is handed out in runs of this length, bytes.
const RUN: u64 = 256 << 10;
/// Bytes of a name in a remark.
const SHOWN_BYTES: usize = 200;
/// Members whose end was not found that are named.
const NAMED_LOST: usize = 10;
/// Members that are listed with what damages them.
const MAX_DAMAGED: usize = 1_000;
/// Members that are asked whether a key is right.
const ASKED: usize = 16;

/// Members of which something is told, counted.
#[derive(Default)]
struct Odd {
    count: u64,
    /// The name of the first one.
    first: Vec<u8>,
}

impl Odd {
    fn note(&mut self, name: &[u8]) {
        if self.count == 0 {
            self.first = name[..name.len().min(SHOWN_BYTES)].to_vec();
        }
        self.count += 1;
    }

    /// Tells of them, if there are any.
    fn told(&self, what: &str) -> Option<String> {
        let more = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        (self.count > 0).then(|| format!("{}{more}: {what}", Quoted::new(&self.first)))
    }
}

/// What was found of members while the table was made.
#[derive(Default)]
struct Found {
    /// Symlinks that are kept as files.
    links: Odd,
    /// Directories whose content is skipped.
    directories: Odd,
}

/// A zip file as an archive.
pub type ZipArchive = TableArchive<ZipMembers>;

/// Content of the members of a zip file. A member's number is the offset of its record.
pub struct ZipMembers {
    source: Arc<dyn ReadAt>,
    directory: Directory,
    decoded: DecodedCache<u64, Arc<Vec<u8>>>,
    /// Password of encrypted members.
    key: Option<Secret>,
    /// Encoding of names that is not told.
    names: Option<NameEncoding>,
    /// Members that share bytes with another one.
    overlapping: HashSet<u64>,
    /// What is wrong with the directory, where it had to be made anew.
    damage: Vec<Damage>,
    /// Members that are not in the table.
    omitted: u64,
    /// Something of the file is not served, which a remark tells.
    omits: bool,
    /// Long stored members whose checksum was found right.
    checked: Mutex<HashSet<u64>>,
    /// Other members say, too, that the key is right, once that was asked.
    key_is_right: OnceLock<bool>,
}

impl ZipMembers {
    /// Opens a zip file; `None` when it is another one.
    ///
    /// # Errors
    ///
    /// `Corrupt` when there is no central directory and no member either, `Unsupported` for a split archive, `Limit` when the index takes more
    /// memory than it may.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<ZipArchive>> {
        let is_one = begins_like_one(&**source)?;
        let lost = match end::find(&**source) {
            Ok(Some(directory)) => match Self::open(source, directory, None, options) {
                Err(error @ Error::Corrupt { .. }) => error,
                opened => return opened.map(Some),
            },
            Ok(None) if !is_one => return Ok(None),
            Ok(None) => {
                let detail = "the record at its end is missing: the file is truncated or not a zip archive";
                Error::corrupt("zip archive", source.len(), detail)
            }
            Err(error) => error,
        };
        let Error::Corrupt { structure, offset, detail } = &lost else { return if is_one { Err(lost) } else { Ok(None) } };
        let rebuilt = if options.recover { scan::rebuild(source, options.index_bytes / 4)? } else { None };
        // In any bytes something may look like an end record, and something else like a header.
        match rebuilt.filter(|rebuilt| is_one || rebuilt.by_header < rebuilt.directory.count) {
            Some(rebuilt) => {
                let damage = Damage::new(structure, *offset, detail.clone());
                let (file, directory) = (Arc::clone(&rebuilt.source), rebuilt.directory);
                Self::open(&file, directory, Some((rebuilt, damage, source.len())), options).map(Some)
            }
            None if is_one => Err(lost),
            None => Ok(None),
        }
    }

    /// Opens the file with this directory, which may have been made for it.
    fn open(
        source: &Arc<dyn ReadAt>,
        directory: Directory,
        rebuilt: Option<(Rebuilt, Damage, u64)>,
        options: &OpenOptions,
    ) -> Result<ZipArchive> {
        let mut reader = Self {
            source: Arc::clone(source),
            directory,
            damage: Vec::new(),
            omitted: 0,
            decoded: DecodedCache::new(options.cache_bytes, TYPICAL),
            key: options.key.clone(),
            names: options.names,
            overlapping: HashSet::new(),
            omits: false,
            checked: Mutex::default(),
            key_is_right: OnceLock::new(),
        };
        let mut table = TableBuilder::new(Duplicates::KeepLast, options.index_bytes);
        // Targets of symlinks are content: which members share bytes is known before any is decoded.
        let mut spans = Vec::new();
        let mut stored_bytes = 0u64;
        let mut count = 0u64;
        let mut encrypted = false;
        reader.each_record(|place, record| {
            count += 1;
            encrypted |= record.is_encrypted();
            let kind = record.kind(&name(record, reader.names.as_ref()));
            if matches!(kind, Kind::File | Kind::Symlink) {
                stored_bytes = stored_bytes.saturating_add(record.stored_len);
                let len = (LOCAL_LEN + record.name.len()) as u64;
                spans.push((
                    record.local_offset,
                    record.local_offset.saturating_add(len).saturating_add(record.stored_len),
                    place,
                ));
            }
            Ok(())
        })?;
        reader.overlapping = overlapping(spans);
        let mut found = Found::default();
        reader.each_record(|place, record| reader.add(&mut table, &mut found, place, record))?;
        let mut remarks = Vec::new();
        remarks.extend(found.links.told("kept as a file: a symlink whose target is none"));
        remarks.extend(found.directories.told("a directory with content, which is skipped"));
        let Directory { count: told, is_narrow, trailing, .. } = directory;
        if count != told && !(is_narrow && count % 65_536 == told) {
            remarks.push(format!("the end record counts {told} members, the directory has {count}"));
        }
        if trailing > 0 && !is_zero_from(&**source, source.len() - trailing)? {
            remarks.push(format!("{trailing} bytes behind the end record do not belong to the archive"));
        }
        if !reader.overlapping.is_empty() {
            remarks.push(format!("{} members share bytes with others and are not read", reader.overlapping.len()));
        }
        let mut comment = vec![0; usize::from(directory.comment_len)];
        source.read_exact_at(directory.comment, &mut comment)?;
        let mut message = text(comment, options.names.as_ref());
        if message.len() > MAX_MESSAGE {
            remarks.push(format!("its comment has {} bytes of UTF-8, and is skipped", message.len()));
            message.clear();
        }
        let mut archive_bytes = source.len();
        if let Some((rebuilt, damage, len)) = rebuilt {
            archive_bytes = len;
            reader.lost(rebuilt, damage, &mut remarks);
        }
        reader.omits = !remarks.is_empty();
        let info = Info {
            container: Container::Zip,
            message,
            archive_bytes,
            stored_bytes: Some(stored_bytes),
            encrypted,
            remarks,
            ..Info::default()
        };
        Ok(TableArchive::new(table.finish()?, reader, info))
    }

    /// Tells what is lost with the directory.
    fn lost(&mut self, rebuilt: Rebuilt, mut damage: Damage, remarks: &mut Vec<String>) {
        let Rebuilt { by_header, cut, lost, gaps, .. } = rebuilt;
        remarks.push(format!("{} at offset {} is damaged: {}", damage.structure, damage.offset, damage.detail));
        if by_header > 0 {
            let members = if by_header == 1 { "1 member was".to_owned() } else { format!("{by_header} members were") };
            remarks.push(format!("{members} found without the directory: modes, and which of them are symlinks, are not known"));
        }
        if gaps > 0 {
            let places = if gaps == 1 { "1 place".to_owned() } else { format!("{gaps} places") };
            remarks.push(format!("in {places} something is no member; there may have been more"));
        }
        let shown = |name: &[u8]| Quoted::new(&name[..name.len().min(SHOWN_BYTES)]).to_string();
        if let Some(name) = &cut {
            remarks.push(format!("{}: skipped: the file ends within it", shown(name)));
        }
        for name in lost.iter().take(NAMED_LOST) {
            remarks.push(format!("{}: skipped: its end was not found; what follows may be a part of it", shown(name)));
        }
        if let Some(more) = lost.len().checked_sub(NAMED_LOST).filter(|&more| more > 0) {
            remarks.push(format!("{more} more members whose end was not found are skipped"));
        }
        let missing = cut.iter().chain(&lost);
        let path = |name: &Vec<u8>| {
            let mut path = Vec::new();
            clean(name, &mut path).ok().and_then(|_| EntryPath::new(path).ok())
        };
        self.omitted += missing.clone().count() as u64;
        damage.entry_count = missing.clone().filter_map(path).count() as u64;
        damage.entries = missing.filter_map(path).take(MAX_DAMAGED).collect();
        self.damage.push(damage);
    }

    /// Goes through the central directory.
    fn each_record(&self, mut each: impl FnMut(u64, &Record<'_>) -> Result<()>) -> Result<()> {
        let Directory { start, end, .. } = self.directory;
        let mut buffer: Vec<u8> = Vec::new();
        let (mut place, mut read) = (start, start);
        while place < end {
            let have = buffer.len();
            if record_len(&buffer).is_none_or(|len| len > have) && read < end {
                let len = usize::try_from(end - read).unwrap_or(STEP).min(STEP);
                buffer.resize(have + len, 0);
                self.source.read_exact_at(read, &mut buffer[have..])?;
                read += len as u64;
            }
            let mut at = 0;
            // As many as are in the buffer as a whole.
            while let Some(len) = record_len(&buffer[at..]).filter(|&len| len <= buffer.len() - at) {
                let record = Record::parse(&buffer[at..at + len]).expect("its length was told");
                each(place, &record)?;
                at += len;
                place += len as u64;
            }
            buffer.drain(..at);
            let is_cut = buffer.len() < CENTRAL_LEN || record_len(&buffer).is_some();
            if place < end && (!is_cut || read == end) {
                let detail = "no record of a member there, although the directory goes on";
                return Err(Error::corrupt("zip directory", place, detail));
            }
        }
        Ok(())
    }

    /// Adds a member to the table.
    fn add(&self, table: &mut TableBuilder, found: &mut Found, place: u64, record: &Record<'_>) -> Result<()> {
        let name = name(record, self.names.as_ref());
        let mut kind = record.kind(&name);
        let mut target = Vec::new();
        if kind == Kind::Symlink {
            // The target is the content. A link that can't be read is kept as a file, whose reading tells why.
            match self.target(place, record) {
                Ok(content) => {
                    target = match &self.names {
                        Some(names) if !record.is_utf8() => names.decode(&content).into_owned(),
                        _ => content,
                    };
                }
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => {
                    kind = Kind::File;
                    if !matches!(error, Error::KeyNeeded | Error::WrongKey | Error::Unsupported { .. }) {
                        found.links.note(&name);
                    }
                }
            }
        }
        if kind == Kind::Directory && record.size > 0 {
            found.directories.note(&name);
        }
        let metadata = Metadata { mode: record.mode(kind), owner: record.owner(), ..Metadata::default() };
        let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
        let item = TableEntry {
            size: if kind == Kind::File { record.size } else { 0 },
            modified: record.modified(),
            metadata: Arc::new(metadata),
            target: target.into(),
            device: is_device.then_some(Device { major: 0, minor: 0 }),
            number: place,
            place: (record.local_offset, place),
            ..TableEntry::new(kind)
        };
        table.add(&name, item)
    }

    fn target(&self, place: u64, record: &Record<'_>) -> Result<Vec<u8>> {
        let limit = MAX_TARGET as u64;
        // However it is compressed and encrypted, it does not take much more.
        let found = record.size.max(record.stored_len / 2);
        if found > limit {
            return Err(Error::Limit { what: "length of a symlink target", found, limit });
        }
        let target = self.whole(&self.located(place)?)?;
        if target.is_empty() || target.contains(&0) {
            return Err(Error::corrupt("zip member", record.local_offset, "a symlink without a target"));
        }
        Ok(target)
    }

    fn located(&self, number: u64) -> Result<Located> {
        if self.overlapping.contains(&number) {
            let detail = "it shares bytes with another member, as in an archive made to fill the disk";
            return Err(Error::corrupt("zip member", number, detail));
        }
        locate(&*self.source, number, self.directory.end, self.directory.shift)
    }

    /// Hands the content of a member to `sink`. What does not decode with a key that may be wrong is told as a matter of the key.
    fn decode(&self, located: &Located, sink: Sink<'_>) -> Result<()> {
        let result = located.decode(&self.source, self.key.as_ref(), sink);
        match (&result, &self.key) {
            (Err(Error::Corrupt { .. } | Error::Unsupported { what: MEMBER, .. }), Some(Secret::Password(password)))
                if located.is_weakly_encrypted() && !*self.key_is_right.get_or_init(|| self.is_right(password)) =>
            {
                Err(Error::WrongKey)
            }
            _ => result,
        }
    }

    /// Says whether all of the first members that are encrypted in the old way take a password, and there are several.
    fn is_right(&self, password: &[u8]) -> bool {
        let mut asked = Vec::new();
        // What is wrong with the directory was told.
        let _ = self.each_record(|place, record| {
            if record.is_encrypted() && record.method != AES && record.stored_len > 0 && asked.len() < ASKED {
                asked.push(place);
            }
            Ok(())
        });
        let takes = |place: &u64| self.located(*place).is_ok_and(|located| located.takes(&self.source, password));
        asked.len() > 1 && asked.iter().all(takes)
    }

    /// Decodes a member of at most [`WHOLE`] bytes.
    fn whole(&self, located: &Located) -> Result<Vec<u8>> {
        // The size is a claim: memory grows with what comes.
        let mut content = Vec::new();
        self.decode(located, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(content)
    }

    /// Hands out a range of a member that is stored as it is, once its checksum is known to be right.
    fn plain(&self, number: u64, located: &Located, range: Range<u64>, sink: ContentSink<'_>) -> Result<()> {
        let is_checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner).contains(&number);
        if !is_checked() {
            self.decode(located, &mut |_| Ok(ControlFlow::Continue(())))?;
            self.checked.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        }
        let mut buffer = vec![0; within(RUN.min(range.end - range.start))];
        let mut at = range.start;
        while at < range.end {
            let bytes = &mut buffer[..within(RUN.min(range.end - at))];
            self.source.read_exact_at(located.start + at, bytes)?;
            at += bytes.len() as u64;
            sink(Part::Data(bytes))?;
        }
        Ok(())
    }
}

impl TableBackend for ZipMembers {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, access: Access, sink: ContentSink<'_>) -> Result<()> {
        let located = &self.located(member.number)?;
        if located.size <= WHOLE {
            let is_all = range == (0..member.size) && access == Access::Sequential;
            let content = if is_all {
                Arc::new(self.whole(located)?)
            } else {
                self.decoded.get_or_decode(&member.number, || Ok(Arc::new(self.whole(located)?)))?
            };
            return sink(Part::Data(content.get(within(range.start)..within(range.end)).unwrap_or_default()));
        }
        if located.is_plain() && range != (0..member.size) {
            return self.plain(member.number, located, range, sink);
        }
        let mut at = 0u64;
        self.decode(located, &mut |bytes| {
            let from = range.start.saturating_sub(at).min(bytes.len() as u64);
            let to = range.end.saturating_sub(at).min(bytes.len() as u64);
            at += bytes.len() as u64;
            if from < to {
                sink(Part::Data(&bytes[within(from)..within(to)]))?;
            }
            // Nothing behind the range is decoded, unless the member ends there and its checksum can be compared.
            let is_enough = at >= range.end && range.end < member.size;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    fn check(&self, member: &ContentRef, depth: Depth) -> Result<()> {
        let located = &self.located(member.number)?;
        // Nothing tells damage but decoding.
        if depth == Depth::Full { self.decode(located, &mut |_| Ok(ControlFlow::Continue(()))) } else { Ok(()) }
    }

    fn check_container(&self, _: Depth, _: &mut u64, _: &dyn Monitor) -> Result<Vec<Damage>> {
        Ok(self.damage.clone())
    }

    fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    fn skipped_entries(&self) -> u64 {
        self.omitted
    }

    fn skips_entries(&self) -> bool {
        self.omits
    }

    fn reads_ranges(&self, member: &ContentRef) -> bool {
        self.located(member.number).is_ok_and(|located| located.is_plain())
    }

    fn is_encrypted(&self, member: &ContentRef) -> bool {
        self.located(member.number).is_ok_and(|located| located.is_encrypted)
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        self.located(member.number).ok().map(|located| located.stored_len)
    }
}

/// Says whether a file begins like a zip archive, although its end is missing.
fn begins_like_one(source: &dyn ReadAt) -> Result<bool> {
    let mut first = [0; 4];
    if source.len() < first.len() as u64 {
        return Ok(false);
    }
    source.read_exact_at(0, &mut first)?;
    Ok([*b"PK\x03\x04", *b"PK\x05\x06", *b"PK\x07\x08"].contains(&first))
}

/// Returns the members (third of each span) that begin before an earlier one has ended, or in which another one begins.
fn overlapping(mut spans: Vec<(u64, u64, u64)>) -> HashSet<u64> {
    spans.sort_unstable();
    let mut found = HashSet::new();
    let mut last: Option<(u64, u64)> = None;
    for (start, end, place) in spans {
        match last {
            Some((last_end, last_place)) if start < last_end => {
                found.extend([last_place, place]);
                if end > last_end {
                    last = Some((end, place));
                }
            }
            _ => last = Some((end, place)),
        }
    }
    found
}

/// Returns a comment as text: it has the encoding that is told, else UTF-8 if it is valid in that, else the one of DOS.
fn text(comment: Vec<u8>, names: Option<&NameEncoding>) -> String {
    String::from_utf8(comment).unwrap_or_else(|error| {
        let decoded = names.copied().unwrap_or(NameEncoding::cp437()).decode(error.as_bytes()).into_owned();
        String::from_utf8_lossy(&decoded).into_owned()
    })
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_are_found() {
        assert_eq!(overlapping(vec![(0, 10, 1), (10, 20, 2), (30, 40, 3)]), HashSet::new());
        assert_eq!(overlapping(vec![(10, 20, 2), (0, 11, 1), (30, 40, 3)]), HashSet::from([1, 2]));
        assert_eq!(overlapping(vec![(0, 100, 1), (10, 20, 2), (30, 40, 3), (100, 101, 4)]), HashSet::from([1, 2, 3]));
        assert_eq!(overlapping(vec![(0, 10, 1), (0, 10, 2)]), HashSet::from([1, 2]));
    }
}
