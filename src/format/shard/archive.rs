//! A Shard file as an archive.
//!
//! Everything in the file except for content is kept in attributes, so that an identical file can be
//! written from the archive.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::attributes::{NAME_ATTRIBUTE, Origin, RECORD_ATTRIBUTE, foreign_attribute, metadata_attributes};
use crate::description::{self, description};
use crate::entry_paths::{EntryPaths, escaped_path};
use crate::{Header, IndexEntry, MAX_CONTENT_LEN, Profile, RecordAttribute, Shard};
use nra_core::archive::{Access, ContentSink, Damage, Depth, Info, OpenOptions, Part};
use nra_core::cache::DecodedCache;
use nra_core::container::Container;
use nra_core::description::Description;
use nra_core::entry::{Entry, Kind, Location, Metadata};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_MESSAGE;
use nra_core::path::EntryPath;
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;
use nra_core::table::{ContentRef, Duplicates, Table, TableArchive, TableBackend, TableBuilder, TableEntry};

/// Length of the parts in which uncompressed content is read, bytes.
const READ_LEN: u64 = 256 << 10;

/// Usual length of a decoded entry, bytes.
const TYPICAL_ENTRY_LEN: u64 = 64 << 10;

/// Longest metadata that are kept as attributes, bytes.
const MAX_KEPT_METADATA_LEN: u64 = 12 << 20;

/// A Shard file as an archive.
pub type ShardArchive = TableArchive<ShardBackend>;

/// The content of a Shard file, as the backend of a [`ShardArchive`].
pub struct ShardBackend {
    shard: Shard,
    source: Arc<dyn ReadAt>,
    decoded: DecodedCache<u64, Arc<Vec<u8>>>,
    profile: OnceLock<Profile>,
    paths: EntryPaths,
}

impl ShardBackend {
    /// Opens `source`. Returns `None` if it is not a Shard file.
    ///
    /// # Errors
    ///
    /// As [`Shard::open`]; `Limit` if the index exceeds the memory limit.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<ShardArchive>> {
        let mut first = [0; 4];
        if source.len() < first.len() as u64 {
            return Ok(None);
        }
        source.read_exact_at(0, &mut first)?;
        if !Shard::has_magic(&first) {
            return Ok(None);
        }
        let shard = Shard::open(Arc::clone(source))?;
        let paths = EntryPaths::of(&shard)?;
        let mut info = archive_info(&shard)?;
        info.remarks.extend_from_slice(&paths.remarks);
        let decoded = DecodedCache::new(options.cache_bytes, TYPICAL_ENTRY_LEN);
        let backend = Self { shard, source: Arc::clone(source), decoded, profile: OnceLock::new(), paths };
        Ok(Some(if backend.paths.table_bytes <= options.index_bytes {
            let table = |backend: &Self| backend.table(u64::MAX).expect("the size was checked when the file was opened");
            TableArchive::on_demand(backend, info, table)
        } else {
            TableArchive::new(backend.table(options.index_bytes)?, backend, info)
        }))
    }

    /// Builds the table of entries, of at most `limit` bytes.
    fn table(&self, limit: u64) -> Result<Table> {
        let mut table = TableBuilder::new(Duplicates::KeepFirst, limit);
        let common = TableEntry::new(Kind::File);
        table.reserve(self.shard.entries().len());
        for (number, entry) in self.shard.entries().iter().enumerate() {
            let name = self.shard.name(number);
            let ContentRef { number, place, size } = content_ref(number, entry);
            let table_entry = TableEntry { size, number, place, ..common.clone() };
            table.add(escaped_path(name).as_ref().map_or(name, |(path, _)| path), table_entry)?;
        }
        table.finish()
    }

    /// Returns the Shard file.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Checks that the metadata follow the content and are JSON. Metadata too long to be kept are not read.
    fn check_metadata(&self) -> Result<()> {
        let Some(Range { start, end }) = self.shard.metadata_range()? else { return Ok(()) };
        if end - start > MAX_KEPT_METADATA_LEN {
            return Ok(());
        }
        let metadata = self.shard.metadata()?.unwrap_or_default();
        description::check(start, &metadata)
    }

    fn profile(&self) -> Result<&Profile> {
        if let Some(profile) = self.profile.get() {
            return Ok(profile);
        }
        let profile = Profile::read(&self.shard)?;
        Ok(self.profile.get_or_init(|| profile))
    }
}

impl TableBackend for ShardBackend {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, _: Access, sink: ContentSink<'_>) -> Result<()> {
        let number = to_usize(member.number);
        let Some(stored) = self.shard.uncompressed_range(number)? else {
            let content =
                self.decoded.get_or_decode(&member.number, || Ok(Arc::new(self.shard.read(number, MAX_CONTENT_LEN)?)))?;
            return sink(Part::Data(content.get(to_usize(range.start)..to_usize(range.end)).unwrap_or_default()));
        };
        let mut buffer = vec![0; to_usize(READ_LEN.min(range.end - range.start))];
        let mut at = range.start;
        while at < range.end {
            let bytes = &mut buffer[..to_usize(READ_LEN.min(range.end - at))];
            self.source.read_exact_at(stored.start + at, bytes)?;
            at += bytes.len() as u64;
            sink(Part::Data(bytes))?;
        }
        Ok(())
    }

    fn reads_ranges(&self, member: &ContentRef) -> bool {
        self.shard.uncompressed_range(to_usize(member.number)).is_ok_and(|stored| stored.is_some())
    }

    fn check(&self, member: &ContentRef, _: Depth) -> Result<()> {
        let number = to_usize(member.number);
        match self.shard.uncompressed_range(number)? {
            Some(_) => Ok(()),
            None => self.shard.read(number, MAX_CONTENT_LEN).map(drop),
        }
    }

    fn check_container(&self, _: Depth, blocks: &mut u64, _: &dyn Monitor) -> Result<Vec<Damage>> {
        *blocks += self.shard.entries().len() as u64;
        match self.check_metadata() {
            Err(Error::Corrupt { structure, offset, detail }) => Ok(vec![Damage::new(structure, offset, detail)]),
            Err(error) => Err(error),
            Ok(()) => Ok(Vec::new()),
        }
    }

    fn find(&self, path: &[u8]) -> Option<Entry> {
        let number = self.paths.find(&self.shard, path)?;
        let member = content_ref(number, &self.shard.entries()[number]);
        let location = Location::numbered(member.number, member.place);
        let mut entry = Entry { size: member.size, location, ..Entry::new(EntryPath::from_checked(path), Kind::File) };
        self.complete(&member, &mut entry);
        Some(entry)
    }

    fn complete(&self, member: &ContentRef, entry: &mut Entry) {
        let number = to_usize(member.number);
        let entry_record = &self.shard.entries()[number];
        let record = RecordAttribute {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            flags: entry_record.flags,
            content_type: entry_record.content_type,
            tags: entry_record.tags,
        };
        let name = self.paths.keeps_name(number).then(|| foreign_attribute(NAME_ATTRIBUTE, self.shard.name(number).to_vec()));
        let attributes = name.into_iter().chain([foreign_attribute(RECORD_ATTRIBUTE, record.encode().into_bytes())]).collect();
        entry.metadata = Arc::new(Metadata { attributes, ..Metadata::clone(&entry.metadata) });
    }

    fn describe(&self, member: Option<&ContentRef>) -> Result<Option<Description>> {
        let profile = self.profile()?;
        match member {
            Some(member) => profile.describe_entry(&self.shard, to_usize(member.number)),
            None => profile.describe_file(&self.shard).map(Some),
        }
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        Some(self.shard.entries()[to_usize(member.number)].stored_len)
    }
}

fn archive_info(shard: &Shard) -> Result<Info> {
    let header: &Header = shard.header();
    let mut attributes = Origin::of(shard).attributes();
    let mut remarks = shard.remarks();
    let mut message = String::new();
    if let Ok(Some(Range { start, end })) = shard.metadata_range() {
        let len = end - start;
        let metadata = if len <= MAX_KEPT_METADATA_LEN { shard.metadata()? } else { None };
        match metadata.as_deref().and_then(metadata_attributes) {
            Some(parts) => attributes.extend(parts),
            None => remarks.push(format!("metadata of {len} bytes is too long to be kept")),
        }
        if let Some(metadata) = metadata {
            if let Err(error) = description::check(start, &metadata) {
                remarks.push(error.to_string());
            }
            // A longer description is not used as the message.
            message = description(&metadata).filter(|text| text.len() <= MAX_MESSAGE).unwrap_or_default();
        }
    }
    Ok(Info {
        container: Container::Shard(header.role),
        archive_bytes: header.file_len,
        stored_bytes: Some(shard.entries().iter().map(|entry| entry.stored_len).fold(0, u64::saturating_add)),
        message,
        attributes,
        remarks,
        ..Info::default()
    })
}

fn content_ref(number: usize, entry: &IndexEntry) -> ContentRef {
    let number = number as u64;
    ContentRef { number, place: (entry.data_offset, number), size: entry.content_len }
}

/// Converts an offset in content that is in memory, or the number of an entry.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
