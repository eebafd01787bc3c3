//! A Shard file behind the reading face of all archives.
//!
//! Everything that the file says beside content is kept in attributes, so that the same file can be written again.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::attributes::{NAME, Origin, RECORD, foreign, metadata_attributes};
use crate::description::{self, description};
use crate::names::{Names, path_of};
use crate::{Header, IndexEntry, MAX_PAYLOAD, Profile, Record, Shard};
use nra_core::archive::{Access, Damage, Depth, Info, OpenOptions, Part};
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

/// Raw content is handed out in runs of this length, bytes.
const STEP: u64 = 256 << 10;

/// Usual length of a decoded entry, bytes.
const TYPICAL: u64 = 64 << 10;

/// Length of metadata that are kept as attributes, bytes.
const MAX_KEPT: u64 = 12 << 20;

/// A Shard file as an archive.
pub type ShardArchive = TableArchive<ShardMembers>;

/// Content of the entries of a Shard file.
pub struct ShardMembers {
    shard: Shard,
    source: Arc<dyn ReadAt>,
    decoded: DecodedCache<u64, Arc<Vec<u8>>>,
    profile: OnceLock<Profile>,
    names: Names,
}

impl ShardMembers {
    /// Opens a file of this kind; `None` when it is another one.
    ///
    /// # Errors
    ///
    /// As [`Shard::open`]; `Limit` when the index takes more memory than it may.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<ShardArchive>> {
        let mut first = [0; 4];
        if source.len() < first.len() as u64 {
            return Ok(None);
        }
        source.read_exact_at(0, &mut first)?;
        if !Shard::is_magic(&first) {
            return Ok(None);
        }
        let shard = Shard::open(Arc::clone(source))?;
        let names = Names::of(&shard)?;
        let mut info = describe(&shard)?;
        info.remarks.extend_from_slice(&names.remarks);
        let decoded = DecodedCache::new(options.cache_bytes, TYPICAL);
        let members = Self { shard, source: Arc::clone(source), decoded, profile: OnceLock::new(), names };
        Ok(Some(if members.names.table_bytes <= options.index_bytes {
            let table = |members: &Self| members.table(u64::MAX).expect("its size was checked when the file was opened");
            TableArchive::on_demand(members, info, table)
        } else {
            TableArchive::new(members.table(options.index_bytes)?, members, info)
        }))
    }

    /// Returns a table of at most `limit` bytes.
    fn table(&self, limit: u64) -> Result<Table> {
        let mut table = TableBuilder::new(Duplicates::KeepFirst, limit);
        let common = TableEntry::new(Kind::File);
        table.reserve(self.shard.entries().len());
        for (number, entry) in self.shard.entries().iter().enumerate() {
            let name = self.shard.name(number);
            let ContentRef { number, place, size } = member(number, entry);
            let item = TableEntry { size, number, place, ..common.clone() };
            table.add(path_of(name).as_ref().map_or(name, |(path, _)| path), item)?;
        }
        table.finish()
    }

    /// Returns the file.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Metadata must lie behind the data and be JSON; longer ones than are kept are not read.
    fn check_metadata(&self) -> Result<()> {
        let Some(Range { start, end }) = self.shard.metadata_range()? else { return Ok(()) };
        if end - start > MAX_KEPT {
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

impl TableBackend for ShardMembers {
    fn with_range(
        &self,
        member: &ContentRef,
        range: Range<u64>,
        _: Access,
        sink: &mut dyn FnMut(Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let number = within(member.number);
        let Some(stored) = self.shard.plain_range(number)? else {
            let content = self.decoded.get_or_decode(&member.number, || Ok(Arc::new(self.shard.read(number, MAX_PAYLOAD)?)))?;
            return sink(Part::Data(content.get(within(range.start)..within(range.end)).unwrap_or_default()));
        };
        let mut buffer = vec![0; within(STEP.min(range.end - range.start))];
        let mut at = range.start;
        while at < range.end {
            let bytes = &mut buffer[..within(STEP.min(range.end - at))];
            self.source.read_exact_at(stored.start + at, bytes)?;
            at += bytes.len() as u64;
            sink(Part::Data(bytes))?;
        }
        Ok(())
    }

    fn reads_ranges(&self, member: &ContentRef) -> bool {
        self.shard.plain_range(within(member.number)).is_ok_and(|stored| stored.is_some())
    }

    fn check(&self, member: &ContentRef, _: Depth) -> Result<()> {
        let number = within(member.number);
        match self.shard.plain_range(number)? {
            Some(_) => Ok(()),
            None => self.shard.read(number, MAX_PAYLOAD).map(drop),
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
        let number = self.names.find(&self.shard, path)?;
        let member = member(number, &self.shard.entries()[number]);
        let location = Location::numbered(member.number, member.place);
        let mut entry = Entry { size: member.size, location, ..Entry::new(EntryPath::from_checked(path), Kind::File) };
        self.complete(&member, &mut entry);
        Some(entry)
    }

    fn complete(&self, member: &ContentRef, entry: &mut Entry) {
        let number = within(member.number);
        let found = &self.shard.entries()[number];
        let record = Record {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            flags: found.flags,
            content_type: found.content_type,
            tags: found.tags,
        };
        let name = self.names.keeps(number).then(|| foreign(NAME, self.shard.name(number).to_vec()));
        let attributes = name.into_iter().chain([foreign(RECORD, record.encode().into_bytes())]).collect();
        entry.metadata = Arc::new(Metadata { attributes, ..Metadata::clone(&entry.metadata) });
    }

    fn describe(&self, member: Option<&ContentRef>) -> Result<Option<Description>> {
        let profile = self.profile()?;
        match member {
            Some(member) => profile.describe(&self.shard, within(member.number)),
            None => profile.whole(&self.shard).map(Some),
        }
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        Some(self.shard.entries()[within(member.number)].stored_len)
    }
}

fn describe(shard: &Shard) -> Result<Info> {
    let header: &Header = shard.header();
    let mut attributes = Origin::of(shard).attributes();
    let mut remarks = shard.remarks();
    let mut message = String::new();
    if let Ok(Some(Range { start, end })) = shard.metadata_range() {
        let len = end - start;
        let metadata = if len <= MAX_KEPT { shard.metadata()? } else { None };
        match metadata.as_deref().and_then(metadata_attributes) {
            Some(parts) => attributes.extend(parts),
            None => remarks.push(format!("its metadata of {len} bytes is too long to be kept")),
        }
        if let Some(metadata) = metadata {
            if let Err(error) = description::check(start, &metadata) {
                remarks.push(error.to_string());
            }
            // A longer one is no message.
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

/// Returns what is known of the content of an entry.
fn member(number: usize, entry: &IndexEntry) -> ContentRef {
    let number = number as u64;
    ContentRef { number, place: (entry.data_offset, number), size: entry.content_len }
}

/// Offsets within content that is in memory, and numbers of entries, fit.
fn within(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
