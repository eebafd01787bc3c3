//! The archive interface of zip files.

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
use nra_core::source::{ReadAt, is_zero_from};
use nra_core::table::{ContentRef, Duplicates, Losses, TableArchive, TableBackend, TableBuilder, TableEntry, clean};

/// Typical length of a decoded member, bytes.
const TYPICAL_LEN: u64 = 64 << 10;
/// Members up to this length are decoded whole, so that the checksum is compared before any byte is
/// returned.
const MAX_WHOLE_LEN: u64 = 8 << 20;
/// Bytes of the directory read at once.
const READ_LEN: usize = 1 << 20;
/// Length of the parts in which stored content is returned, bytes.
const PART_LEN: u64 = 256 << 10;
/// Most members without an end that are named in remarks.
const MAX_NAMED: usize = 10;
/// Most members listed with a damage.
const MAX_DAMAGED: usize = 1_000;
/// Most members used to check a password.
const MAX_PASSWORD_CHECKS: usize = 16;

/// Members that share a remark.
#[derive(Default)]
struct RemarkedMembers {
    count: u64,
    /// The name of the first one.
    first: Vec<u8>,
}

impl RemarkedMembers {
    fn add(&mut self, name: &[u8]) {
        if self.count == 0 {
            self.first = name.to_vec();
        }
        self.count += 1;
    }

    /// Returns the remark if it applies to any member.
    fn remark(&self, text: &str) -> Option<String> {
        let more = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        (self.count > 0).then(|| format!("{}{more}: {text}", shortened(&self.first)))
    }
}

/// Remarks on members, collected while the table is built.
#[derive(Default)]
struct MemberRemarks {
    /// Symlinks that are served as files.
    links: RemarkedMembers,
    /// Directories whose content is skipped.
    directories: RemarkedMembers,
}

/// A zip file as an archive.
pub type ZipArchive = TableArchive<ZipBackend>;

/// The contents of a zip file. A member's number is the offset of its record.
pub struct ZipBackend {
    source: Arc<dyn ReadAt>,
    directory: Directory,
    decoded: DecodedCache<u64, Arc<Vec<u8>>>,
    /// Password of encrypted members.
    key: Option<Secret>,
    /// Encoding of names whose encoding is not declared.
    names: Option<NameEncoding>,
    /// Members that overlap another one.
    overlapping: HashSet<u64>,
    /// Long stored members whose checksum matched.
    verified: Mutex<HashSet<u64>>,
    /// Whether other members accept the password, once that was checked.
    password_fits: OnceLock<bool>,
}

impl ZipBackend {
    /// Opens a zip file. Returns `None` if the source is not one.
    ///
    /// # Errors
    ///
    /// `Corrupt` if there is neither a central directory nor a member, `Unsupported` for a split
    /// archive, `Limit` if the index is too large.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<ZipArchive>> {
        let is_zip = starts_like_zip(&**source)?;
        let lost = match end::find(&**source) {
            Ok(Some(directory)) => match Self::open(source, directory, None, options) {
                Err(error @ Error::Corrupt { .. }) => error,
                opened => return opened.map(Some),
            },
            Ok(None) if !is_zip => return Ok(None),
            Ok(None) => {
                let detail = "the end record is missing: the file is truncated or not a zip archive";
                Error::corrupt("zip archive", source.len(), detail)
            }
            Err(error) => error,
        };
        let Error::Corrupt { structure, offset, detail } = &lost else { return if is_zip { Err(lost) } else { Ok(None) } };
        let rebuilt = if options.recover { scan::rebuild(source, options.index_bytes / 4)? } else { None };
        // Arbitrary data can contain signatures of end records and headers.
        match rebuilt.filter(|rebuilt| is_zip || rebuilt.header_only < rebuilt.directory.count) {
            Some(rebuilt) => {
                let damage = Damage::new(structure, *offset, detail.clone());
                let (file, directory) = (Arc::clone(&rebuilt.source), rebuilt.directory);
                Self::open(&file, directory, Some((rebuilt, damage, source.len())), options).map(Some)
            }
            None if is_zip => Err(lost),
            None => Ok(None),
        }
    }

    /// Opens a file with this directory, which may be a rebuilt one.
    fn open(
        source: &Arc<dyn ReadAt>,
        directory: Directory,
        rebuilt: Option<(Rebuilt, Damage, u64)>,
        options: &OpenOptions,
    ) -> Result<ZipArchive> {
        let mut backend = Self {
            source: Arc::clone(source),
            directory,
            decoded: DecodedCache::new(options.cache_bytes, TYPICAL_LEN),
            key: options.key.clone(),
            names: options.names,
            overlapping: HashSet::new(),
            verified: Mutex::default(),
            password_fits: OnceLock::new(),
        };
        let mut table = TableBuilder::new(Duplicates::KeepLast, options.index_bytes);
        // Symlink targets are contents, so overlaps are found before any content is decoded.
        let mut spans = Vec::new();
        let mut stored_bytes = 0u64;
        let mut count = 0u64;
        let mut encrypted = false;
        backend.each_record(|position, record| {
            count += 1;
            encrypted |= record.is_encrypted();
            let kind = record.kind(&name(record, backend.names.as_ref()));
            if matches!(kind, Kind::File | Kind::Symlink) {
                stored_bytes = stored_bytes.saturating_add(record.stored_len);
                let header_end = record.local_offset.saturating_add((LOCAL_LEN + record.name.len()) as u64);
                spans.push((record.local_offset, header_end.saturating_add(record.stored_len), position));
            }
            Ok(())
        })?;
        backend.overlapping = overlapping(spans);
        let mut found = MemberRemarks::default();
        backend.each_record(|position, record| backend.add(&mut table, &mut found, position, record))?;
        let mut remarks = Vec::new();
        remarks.extend(found.links.remark("kept as a file: a symlink without a valid target"));
        remarks.extend(found.directories.remark("a directory whose content is skipped"));
        let Directory { count: declared, is_zip64, trailing, .. } = directory;
        if count != declared && (is_zip64 || count % 65_536 != declared) {
            remarks.push(format!("the end record declares {declared} members, but the directory has {count}"));
        }
        if trailing > 0 && !is_zero_from(&**source, source.len() - trailing)? {
            remarks.push(format!("the {trailing} bytes after the end record are not part of the archive"));
        }
        if !backend.overlapping.is_empty() {
            remarks.push(format!("{} members overlap others and are not readable", backend.overlapping.len()));
        }
        let mut comment = vec![0; usize::from(directory.comment_len)];
        source.read_exact_at(directory.comment, &mut comment)?;
        let mut message = text(comment, options.names.as_ref());
        if message.len() > MAX_MESSAGE {
            remarks.push(format!("the comment is skipped: it has {} bytes of UTF-8", message.len()));
            message.clear();
        }
        let (mut archive_bytes, mut losses) = (source.len(), Losses::default());
        if let Some((rebuilt, damage, len)) = rebuilt {
            archive_bytes = len;
            losses = rebuilt_losses(rebuilt, damage, &mut remarks);
        }
        losses.skips_entries = !remarks.is_empty();
        let info = Info {
            container: Container::Zip,
            message,
            archive_bytes,
            stored_bytes: Some(stored_bytes),
            encrypted,
            remarks,
            ..Info::default()
        };
        Ok(TableArchive::new(table.finish()?, backend, info).with_losses(losses))
    }

    /// Passes each record of the central directory to `each`, with its position.
    fn each_record(&self, mut each: impl FnMut(u64, &Record<'_>) -> Result<()>) -> Result<()> {
        let Directory { start, end, .. } = self.directory;
        let mut buffer: Vec<u8> = Vec::new();
        let (mut position, mut read) = (start, start);
        while position < end {
            let have = buffer.len();
            if record_len(&buffer).is_none_or(|len| len > have) && read < end {
                let len = usize::try_from(end - read).unwrap_or(READ_LEN).min(READ_LEN);
                buffer.resize(have + len, 0);
                self.source.read_exact_at(read, &mut buffer[have..])?;
                read += len as u64;
            }
            let mut at = 0;
            // All records that are complete in the buffer.
            while let Some(len) = record_len(&buffer[at..]).filter(|&len| len <= buffer.len() - at) {
                let record = Record::parse(&buffer[at..at + len]).expect("the record is complete");
                each(position, &record)?;
                at += len;
                position += len as u64;
            }
            buffer.drain(..at);
            let is_incomplete = buffer.len() < CENTRAL_LEN || record_len(&buffer).is_some();
            if position < end && (!is_incomplete || read == end) {
                return Err(Error::corrupt("zip directory", position, "a record was expected"));
            }
        }
        Ok(())
    }

    /// Adds a member to the table.
    fn add(&self, table: &mut TableBuilder, found: &mut MemberRemarks, position: u64, record: &Record<'_>) -> Result<()> {
        let name = name(record, self.names.as_ref());
        let mut kind = record.kind(&name);
        let mut target = Vec::new();
        if kind == Kind::Symlink {
            // The target is the content. A link that cannot be read becomes a file; reading it
            // returns the error.
            match self.target(position, record) {
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
                        found.links.add(&name);
                    }
                }
            }
        }
        if kind == Kind::Directory && record.size > 0 {
            found.directories.add(&name);
        }
        let metadata = Metadata { mode: record.mode(kind), owner: record.owner(), ..Metadata::default() };
        let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
        let item = TableEntry {
            size: if kind == Kind::File { record.size } else { 0 },
            modified: record.modified(),
            metadata: Arc::new(metadata),
            target: target.into(),
            device: is_device.then_some(Device { major: 0, minor: 0 }),
            number: position,
            place: (record.local_offset, position),
            ..TableEntry::new(kind)
        };
        table.add(&name, item)
    }

    fn target(&self, position: u64, record: &Record<'_>) -> Result<Vec<u8>> {
        let limit = MAX_TARGET as u64;
        // Compression and encryption do not make a valid target much longer.
        let found = record.size.max(record.stored_len / 2);
        if found > limit {
            return Err(Error::Limit { what: "length of a symlink target", found, limit });
        }
        let target = self.decode_whole(&self.located(position)?)?;
        if target.is_empty() || target.contains(&0) {
            return Err(Error::corrupt("zip member", record.local_offset, "a symlink without a target"));
        }
        Ok(target)
    }

    fn located(&self, number: u64) -> Result<Located> {
        if self.overlapping.contains(&number) {
            let detail = "it overlaps another member, as in an archive made to fill the disk";
            return Err(Error::corrupt("zip member", number, detail));
        }
        locate(&*self.source, number, self.directory.end, self.directory.shift)
    }

    /// Passes the content of a member to `sink`. If the password may be wrong, a decoding error
    /// becomes `WrongKey`.
    fn decode(&self, located: &Located, sink: Sink<'_>) -> Result<()> {
        let result = located.decode(&self.source, self.key.as_ref(), sink);
        match (&result, &self.key) {
            (Err(Error::Corrupt { .. } | Error::Unsupported { what: MEMBER, .. }), Some(Secret::Password(password)))
                if located.is_weakly_encrypted() && !*self.password_fits.get_or_init(|| self.password_fits(password)) =>
            {
                Err(Error::WrongKey)
            }
            _ => result,
        }
    }

    /// Returns whether the first members with the weak encryption, if there are several, accept a
    /// password.
    fn password_fits(&self, password: &[u8]) -> bool {
        let mut positions = Vec::new();
        // Damage of the directory was reported on opening.
        let _ = self.each_record(|position, record| {
            if record.is_encrypted() && record.method != AES && record.stored_len > 0 && positions.len() < MAX_PASSWORD_CHECKS {
                positions.push(position);
            }
            Ok(())
        });
        let accepts = |&position: &u64| self.located(position).is_ok_and(|located| located.accepts(&self.source, password));
        positions.len() > 1 && positions.iter().all(accepts)
    }

    /// Decodes a member of at most [`MAX_WHOLE_LEN`] bytes.
    fn decode_whole(&self, located: &Located) -> Result<Vec<u8>> {
        // The declared size is not trusted: memory grows with the decoded bytes.
        let mut content = Vec::new();
        self.decode(located, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(content)
    }

    /// Passes a range of a stored member to `sink` after comparing the member's checksum once.
    fn stored_range(&self, number: u64, located: &Located, range: Range<u64>, sink: ContentSink<'_>) -> Result<()> {
        let verified = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let is_verified = verified().contains(&number);
        if !is_verified {
            self.decode(located, &mut |_| Ok(ControlFlow::Continue(())))?;
            verified().insert(number);
        }
        let mut buffer = vec![0; to_usize(PART_LEN.min(range.end - range.start))];
        let mut at = range.start;
        while at < range.end {
            let bytes = &mut buffer[..to_usize(PART_LEN.min(range.end - at))];
            self.source.read_exact_at(located.start + at, bytes)?;
            at += bytes.len() as u64;
            sink(Part::Data(bytes))?;
        }
        Ok(())
    }
}

impl TableBackend for ZipBackend {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, access: Access, sink: ContentSink<'_>) -> Result<()> {
        let located = &self.located(member.number)?;
        if located.size <= MAX_WHOLE_LEN {
            let is_all = range == (0..member.size) && access == Access::Sequential;
            let content = if is_all {
                Arc::new(self.decode_whole(located)?)
            } else {
                self.decoded.get_or_decode(&member.number, || Ok(Arc::new(self.decode_whole(located)?)))?
            };
            return sink(Part::Data(content.get(to_usize(range.start)..to_usize(range.end)).unwrap_or_default()));
        }
        if located.is_stored() && range != (0..member.size) {
            return self.stored_range(member.number, located, range, sink);
        }
        let mut at = 0u64;
        self.decode(located, &mut |bytes| {
            let from = range.start.saturating_sub(at).min(bytes.len() as u64);
            let to = range.end.saturating_sub(at).min(bytes.len() as u64);
            at += bytes.len() as u64;
            if from < to {
                sink(Part::Data(&bytes[to_usize(from)..to_usize(to)]))?;
            }
            // Decoding stops after the range, unless it extends to the end, where the checksum is
            // compared.
            let is_enough = at >= range.end && range.end < member.size;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    fn check(&self, member: &ContentRef, depth: Depth) -> Result<()> {
        let located = &self.located(member.number)?;
        // Damage is only detected by decoding.
        if depth == Depth::Full { self.decode(located, &mut |_| Ok(ControlFlow::Continue(()))) } else { Ok(()) }
    }

    fn reads_ranges(&self, member: &ContentRef) -> bool {
        self.located(member.number).is_ok_and(|located| located.is_stored())
    }

    fn is_encrypted(&self, member: &ContentRef) -> bool {
        self.located(member.number).is_ok_and(|located| located.is_encrypted)
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        self.located(member.number).ok().map(|located| located.stored_len)
    }
}

/// Returns the losses of a rebuilt archive.
fn rebuilt_losses(rebuilt: Rebuilt, mut damage: Damage, remarks: &mut Vec<String>) -> Losses {
    let Rebuilt { header_only, truncated, unterminated, gaps, .. } = rebuilt;
    remarks.push(format!("{} at offset {} is damaged: {}", damage.structure, damage.offset, damage.detail));
    if header_only > 0 {
        let members = if header_only == 1 { "1 member was".to_owned() } else { format!("{header_only} members were") };
        remarks.push(format!("{members} found without the directory: their modes and types are unknown"));
    }
    if gaps > 0 {
        let places = if gaps == 1 { "1 place".to_owned() } else { format!("{gaps} places") };
        remarks.push(format!("data that is not a member at {places}; members may be missing"));
    }
    if let Some(name) = &truncated {
        remarks.push(format!("{}: skipped: the file ends within it", shortened(name)));
    }
    for name in unterminated.iter().take(MAX_NAMED) {
        remarks.push(format!("{}: skipped: its end was not found; the following members may be part of it", shortened(name)));
    }
    if let Some(more) = unterminated.len().checked_sub(MAX_NAMED).filter(|&more| more > 0) {
        remarks.push(format!("{more} more members whose end was not found are skipped"));
    }
    let missing = truncated.iter().chain(&unterminated);
    let path = |name: &Vec<u8>| {
        let mut path = Vec::new();
        clean(name, &mut path).ok().and_then(|_| EntryPath::new(path).ok())
    };
    let skipped_entries = missing.clone().count() as u64;
    damage.entry_count = missing.clone().filter_map(path).count() as u64;
    damage.entries = missing.filter_map(path).take(MAX_DAMAGED).collect();
    Losses { damage: vec![damage], skips_entries: true, skipped_entries }
}

/// Returns whether a file starts like a zip archive, even if its end is missing.
fn starts_like_zip(source: &dyn ReadAt) -> Result<bool> {
    let mut first = [0; 4];
    if source.len() < first.len() as u64 {
        return Ok(false);
    }
    source.read_exact_at(0, &mut first)?;
    Ok([*b"PK\x03\x04", *b"PK\x05\x06", *b"PK\x07\x08"].contains(&first))
}

/// Returns the members (third of each span) that overlap another one.
fn overlapping(mut spans: Vec<(u64, u64, u64)>) -> HashSet<u64> {
    spans.sort_unstable();
    let mut found = HashSet::new();
    let mut last: Option<(u64, u64)> = None;
    for (start, end, position) in spans {
        match last {
            Some((last_end, last_position)) if start < last_end => {
                found.extend([last_position, position]);
                if end > last_end {
                    last = Some((end, position));
                }
            }
            _ => last = Some((end, position)),
        }
    }
    found
}

/// Decodes a comment: in the encoding of `names`, or else as UTF-8 or code page 437.
fn text(comment: Vec<u8>, names: Option<&NameEncoding>) -> String {
    String::from_utf8(comment).unwrap_or_else(|error| {
        let decoded = names.copied().unwrap_or(NameEncoding::cp437()).decode(error.as_bytes()).into_owned();
        String::from_utf8_lossy(&decoded).into_owned()
    })
}

fn to_usize(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Returns the start of a name for a remark.
fn shortened(name: &[u8]) -> Quoted<'_> {
    Quoted::new(&name[..name.len().min(200)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_members_are_found() {
        assert_eq!(overlapping(vec![(0, 10, 1), (10, 20, 2), (30, 40, 3)]), HashSet::new());
        assert_eq!(overlapping(vec![(10, 20, 2), (0, 11, 1), (30, 40, 3)]), HashSet::from([1, 2]));
        assert_eq!(overlapping(vec![(0, 100, 1), (10, 20, 2), (30, 40, 3), (100, 101, 4)]), HashSet::from([1, 2, 3]));
        assert_eq!(overlapping(vec![(0, 10, 1), (0, 10, 2)]), HashSet::from([1, 2]));
    }
}
