//! [`Archive`] for engines that keep their entries in a [`Table`].

use std::ops::Range;
use std::sync::OnceLock;

use super::rows::Table;
use super::verify;
use crate::archive::{Access, Archive, ContentSink, Damage, Depth, Info, Part, Totals, Verdict};
use crate::container::Container;
use crate::digest::Digest;
use crate::entry::{Entry, Kind};
use crate::error::{Error, Result};
use crate::progress::Monitor;
use crate::top::Top;
use crate::zeros::each_run;

/// A reference to the content of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRef {
    /// The number that the engine assigned to it.
    pub number: u64,
    /// Its storage position.
    pub place: (u64, u64),
    /// Length of the content, bytes.
    pub size: u64,
}

impl ContentRef {
    fn of(entry: &Entry) -> Result<Option<Self>> {
        if entry.kind != Kind::File {
            return Ok(None);
        }
        match entry.location.number() {
            Some((number, place)) => Ok(Some(Self { number, place, size: entry.size })),
            None => Err(Error::Usage { detail: format!("{} is an entry of another archive", entry.path) }),
        }
    }
}

/// The engine behind a table: reads the content of its entries. Called from several threads.
///
/// Ranges are never empty and lie within the size of the content.
pub trait TableBackend: Send + Sync {
    /// Passes the content in `range` to `sink`, run by run in order.
    ///
    /// With [`Access::Sequential`], several threads read contents in the order of their positions. Decoded bytes should be cached for the contents
    /// that follow. Bytes are passed on after their checksum was compared, if the container allows it.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the content is damaged. No damage was detected in the preceding bytes. Errors of `sink` end the work.
    fn with_range(&self, member: &ContentRef, range: Range<u64>, access: Access, sink: ContentSink<'_>) -> Result<()>;

    /// Verifies a content. `Quick` compares checksums of stored bytes, if there are any; `Full` decodes the content and compares digests.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it is damaged.
    fn check(&self, member: &ContentRef, depth: Depth) -> Result<()> {
        match depth {
            Depth::Full if member.size > 0 => read(self, member, 0..member.size, Access::Sequential, &mut |_| Ok(())),
            _ => Ok(()),
        }
    }

    /// Verifies structures outside of contents, such as the index. Adds the number of verified blocks to `blocks`.
    ///
    /// # Errors
    ///
    /// Only what prevents the verification; damage is returned.
    fn check_container(&self, _depth: Depth, _blocks: &mut u64, _monitor: &dyn Monitor) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    /// See [`Archive::is_sequential`].
    fn is_sequential(&self) -> bool {
        false
    }

    /// See [`Archive::reads_ranges`].
    fn reads_ranges(&self, _member: &ContentRef) -> bool {
        false
    }

    /// See [`Archive::is_encrypted`].
    fn is_encrypted(&self, _member: &ContentRef) -> bool {
        false
    }

    /// See [`Archive::holes`].
    fn holes(&self, _member: &ContentRef) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// See [`Archive::stored_bytes`].
    fn stored_bytes(&self, _member: &ContentRef) -> Option<u64> {
        None
    }

    /// Describes a content, or the whole archive: see [`Archive::describe`].
    ///
    /// # Errors
    ///
    /// `Corrupt` if the header is damaged.
    fn describe(&self, _member: Option<&ContentRef>) -> Result<Option<crate::description::Description>> {
        Ok(None)
    }

    /// Looks up a path before the table is built ([`TableArchive::on_demand`]). `None`: look it up in the table.
    fn find(&self, _path: &[u8]) -> Option<Entry> {
        None
    }

    /// Adds to an entry the metadata that is not in the table.
    fn complete(&self, _member: &ContentRef, _entry: &mut Entry) {}

    /// Returns the digest of a content if the container stores it.
    fn digest(&self, _member: &ContentRef) -> Option<Digest> {
        None
    }
}

/// Reads a non-empty range and checks that the engine returns exactly its length.
pub(super) fn read<M: TableBackend + ?Sized>(
    members: &M,
    member: &ContentRef,
    range: Range<u64>,
    access: Access,
    sink: ContentSink<'_>,
) -> Result<()> {
    let expected = range.end - range.start;
    let mut given = 0u64;
    let wrong = |found: String| {
        Error::corrupt("member", member.place.0, format!("its content has {found} than the {} bytes of the index", member.size))
    };
    members.with_range(member, range, access, &mut |part| {
        given = given.saturating_add(match part {
            Part::Data(bytes) => bytes.len() as u64,
            Part::Hole(len) => len,
        });
        if given > expected {
            return Err(wrong("more".into()));
        }
        sink(part)
    })?;
    if given < expected { Err(wrong("less".into())) } else { Ok(()) }
}

/// Parts of a container that are not in the table. The remarks of the archive describe them.
#[derive(Debug, Default)]
pub struct Losses {
    /// Damage of the container, so that entries may be missing.
    pub damage: Vec<Damage>,
    /// Whether entries or parts of them were skipped.
    pub skips_entries: bool,
    /// Number of skipped entries.
    pub skipped_entries: u64,
}

/// An archive that consists of a table and the engine that reads its contents.
pub struct TableArchive<M> {
    pub(super) members: M,
    pub(super) losses: Losses,
    /// Facts that do not depend on the table.
    known: Info,
    whole: OnceLock<Whole>,
    make: fn(&M) -> Table,
}

/// The table and the facts that depend on it.
struct Whole {
    table: Table,
    info: Info,
}

impl Whole {
    fn new(mut table: Table, mut info: Info) -> Self {
        info.attributes.extend(table.top.take().map(Top::into_attributes).unwrap_or_default());
        info.remarks.extend_from_slice(table.remarks());
        (info.entries, info.files, info.content_bytes) = (table.len() as u64, table.files(), table.content_bytes());
        Self { table, info }
    }
}

impl<M: TableBackend> TableArchive<M> {
    /// Returns an archive. Metadata of the top directory become attributes of the archive. Counts and sums of `info` are taken from the table, and the
    /// remarks of the table are appended to those of `info`.
    pub fn new(table: Table, members: M, info: Info) -> Self {
        let whole = Whole::new(table, info);
        let known = Info { container: whole.info.container, ..Info::default() };
        Self {
            members,
            losses: Losses::default(),
            known,
            whole: OnceLock::from(whole),
            make: |_| unreachable!("the table is there"),
        }
    }

    /// As [`new`](Self::new), but builds the table when it is first needed. Looking up a path ([`Archive::find_entry`]) may not need it. Remarks
    /// about names appear once it is built.
    pub fn on_demand(members: M, info: Info, make: fn(&M) -> Table) -> Self {
        Self { members, losses: Losses::default(), known: info, whole: OnceLock::new(), make }
    }

    /// Sets the parts that are not in the table.
    #[must_use]
    pub fn with_losses(self, losses: Losses) -> Self {
        Self { losses, ..self }
    }

    fn whole(&self) -> &Whole {
        self.whole.get_or_init(|| Whole::new((self.make)(&self.members), self.known.clone()))
    }

    /// Returns the table.
    pub(super) fn table(&self) -> &Table {
        &self.whole().table
    }

    /// Returns the engine.
    pub fn members(&self) -> &M {
        &self.members
    }

    /// Returns an entry by number.
    fn at(&self, number: usize) -> Option<Entry> {
        let mut entry = self.table().entry(number)?;
        if let Ok(Some(member)) = ContentRef::of(&entry) {
            self.members.complete(&member, &mut entry);
        }
        Some(entry)
    }

    fn range(&self, range: Range<u64>) -> Range<usize> {
        let within = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(self.table().len());
        within(range.start)..within(range.end)
    }
}

impl<M: TableBackend> Archive for TableArchive<M> {
    fn info(&self) -> &Info {
        &self.whole().info
    }

    fn container(&self) -> Container {
        self.known.container
    }

    fn remarks(&self) -> Vec<String> {
        self.whole.get().map_or(&self.known, |whole| &whole.info).remarks.clone()
    }

    fn is_index_damaged(&self) -> bool {
        !self.losses.damage.is_empty()
    }

    fn skips_entries(&self) -> bool {
        self.whole.get().is_some_and(|whole| whole.table.skips_entries()) || self.losses.skips_entries
    }

    fn skipped_entries(&self) -> u64 {
        self.whole.get().map_or(0, |whole| whole.table.skipped_entries()) + self.losses.skipped_entries
    }

    fn is_sequential(&self) -> bool {
        self.members.is_sequential()
    }

    fn entry(&self, number: u64) -> Result<Entry> {
        let entry = usize::try_from(number).ok().and_then(|number| self.at(number));
        entry.ok_or_else(|| Error::Usage {
            detail: format!("there is no entry number {number}, the archive has {}", self.table().len()),
        })
    }

    fn find(&self, path: &[u8]) -> Result<Option<(u64, Entry)>> {
        let found = self.table().find(path).and_then(|number| Some((number as u64, self.at(number)?)));
        Ok(found)
    }

    fn find_entry(&self, path: &[u8]) -> Result<Option<Entry>> {
        let found = if self.whole.get().is_none() { self.members.find(path) } else { None };
        Ok(match found {
            Some(entry) => Some(entry),
            None => self.find(path)?.map(|(_, entry)| entry),
        })
    }

    fn subtree(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        let range = self.table().subtree(directory);
        Ok(range.start as u64..range.end as u64)
    }

    fn totals(&self, range: Range<u64>) -> Result<Totals> {
        Ok(self.table().totals(self.range(range)))
    }

    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(self.range(range).filter_map(|number| self.at(number)).map(Ok))
    }

    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        let Range { start, end } = self.table().subtree(directory);
        let table = self.table();
        let mut next = if directory.is_some() { start + 1 } else { start };
        Box::new(std::iter::from_fn(move || {
            let number = next;
            (number < end).then(|| next = table.behind(number))?;
            self.at(number).map(Ok)
        }))
    }

    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let len = entry.size.saturating_sub(offset).min(buffer.len() as u64);
        let mut at = 0;
        self.with_range(entry, offset..offset.saturating_add(len), Access::Random, &mut |part| {
            match part {
                Part::Data(bytes) => {
                    buffer[at..at + bytes.len()].copy_from_slice(bytes);
                    at += bytes.len();
                }
                Part::Hole(len) => {
                    let len = usize::try_from(len).expect("no more than the buffer holds");
                    buffer[at..at + len].fill(0);
                    at += len;
                }
            }
            Ok(())
        })?;
        Ok(at)
    }

    fn with_content(&self, entry: &Entry, access: Access, sink: ContentSink<'_>) -> Result<()> {
        self.with_range(entry, 0..entry.size, access, sink)
    }

    fn with_range(&self, entry: &Entry, range: Range<u64>, access: Access, sink: ContentSink<'_>) -> Result<()> {
        let range = range.start..range.end.min(entry.size);
        match ContentRef::of(entry)? {
            Some(member) if range.start < range.end => read(&self.members, &member, range, access, sink),
            _ => Ok(()),
        }
    }

    fn reads_ranges(&self, entry: &Entry) -> bool {
        matches!(ContentRef::of(entry), Ok(Some(member)) if self.members.reads_ranges(&member))
    }

    fn is_encrypted(&self, entry: &Entry) -> bool {
        matches!(ContentRef::of(entry), Ok(Some(member)) if self.members.is_encrypted(&member))
    }

    fn holes(&self, entry: &Entry) -> Result<Vec<Range<u64>>> {
        Ok(ContentRef::of(entry)?.map_or_else(Vec::new, |member| self.members.holes(&member)))
    }

    fn stored_bytes(&self, entry: &Entry) -> Result<Option<u64>> {
        Ok(match ContentRef::of(entry)? {
            Some(member) => self.members.stored_bytes(&member),
            None => Some(0),
        })
    }

    fn describe(&self, entry: Option<&Entry>) -> Result<Option<crate::description::Description>> {
        let Some(entry) = entry else { return self.members.describe(None) };
        ContentRef::of(entry)?.map_or(Ok(None), |member| self.members.describe(Some(&member)))
    }

    fn digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        let Some(member) = ContentRef::of(entry)? else { return Ok(None) };
        if let Some(digest) = self.members.digest(&member) {
            return Ok(Some(digest));
        }
        let mut hasher = blake3::Hasher::new();
        self.with_content(entry, Access::Random, &mut |part| {
            each_run(part, &mut |bytes| {
                hasher.update(bytes);
                Ok(())
            })
        })?;
        Ok(Some(hasher.finalize().into()))
    }

    fn verify(&self, depth: Depth, select: Option<&(dyn Fn(&Entry) -> bool + Sync)>, monitor: &dyn Monitor) -> Result<Verdict> {
        verify::run(self, depth, select, monitor)
    }
}
