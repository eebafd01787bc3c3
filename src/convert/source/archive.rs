//! Archives with an index: several threads read entries, in the order of storage.

use std::collections::HashMap;

use super::fact::SourceFact;
use super::input::Indexed;
use super::order::{Arrangement, Scattered};
use crate::entry_error::within;
use crate::limits::{LimitCounter, Limits};
use crate::metadata::MetadataFilter;
use crate::options::Options;
use crate::pipeline::{Content, EntryPart, EntryReader, EntrySource, HASHED_HOLES_MAX, Outlet, Stopped};
use crate::select::Selection;
use nra_format::archive::{Access, Archive, Part};
use nra_format::chunker::MAX_SINGLE_CHUNK_LEN;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::links::{LinkGroups, NO_LINK};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Severity, Warning};

/// The entries of an archive in the order in which they are read, and which of them are hard links
/// of an earlier one.
#[derive(Default)]
pub(crate) struct Order {
    /// Positions in the listing, which are the numbers of entries while nothing is damaged.
    numbers: Vec<u64>,
    /// Hard links: the path of the earlier file in this order.
    links: HashMap<u64, EntryPath>,
    /// The listing itself, if the index is damaged: numbers are not reliable then.
    listing: Option<Vec<Entry>>,
    /// Entries that share a link group with a different file.
    no_links: Vec<EntryPath>,
    /// Unreadable parts of the index.
    unreadable: u64,
}

impl Order {
    /// Orders the selected entries of `archive` as [`Arrangement`] does. All of its index is read.
    ///
    /// # Errors
    ///
    /// As reading the index does. `Corrupt` also if parts of it are lost, unless `on_unreadable`
    /// skips them.
    pub(crate) fn new(
        archive: &dyn Archive,
        selection: Option<&Selection>,
        scattered: Scattered,
        on_unreadable: OnUnreadable,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        let mut order = Self::default();
        if !archive.is_index_damaged() {
            order.list(archive, selection, scattered, &mut |_| Ok(()), monitor)?;
        }
        if archive.is_index_damaged() || order.unreadable > 0 {
            order = Self { listing: Some(Vec::new()), ..Self::default() };
            let mut lost = |error| skip_unreadable(error, Vec::new(), on_unreadable, monitor);
            order.list(archive, selection, scattered, &mut lost, monitor)?;
        }
        for path in std::mem::take(&mut order.no_links) {
            let path = path.as_bytes().to_vec();
            monitor.warn(Warning::degraded(path, NO_LINK));
        }
        Ok(order)
    }

    /// Reads the listing. Unreadable parts are passed to `lost` and counted.
    fn list(
        &mut self,
        archive: &dyn Archive,
        selection: Option<&Selection>,
        scattered: Scattered,
        lost: &mut dyn FnMut(Error) -> Result<()>,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let mut arrangement = Arrangement::default();
        let (mut links, mut grouped) = (LinkGroups::<()>::of(archive), Vec::new());
        let mut bytes = 0u64;
        for entry in archive.entries(0..archive.entry_count()) {
            monitor.check()?;
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.unreadable += 1;
                    lost(error)?;
                    continue;
                }
            };
            if selection.is_some_and(|selection| !selection.matches(&entry)) {
                // The listing of a damaged archive holds only the selected entries.
                if self.listing.is_none() {
                    arrangement.skip();
                }
                continue;
            }
            let leaf = arrangement.add(&entry);
            if let Some(key) = links.key(&entry) {
                if links.differs(key) {
                    self.no_links.push(entry.path.clone());
                }
                grouped.push((key, leaf, entry.path.clone()));
            }
            bytes = bytes.saturating_add(entry.size);
            if let Some(listing) = &mut self.listing {
                listing.push(entry);
            }
        }
        monitor.expect(Counter::Bytes, bytes);
        grouped.sort_by_key(|(key, leaf, _)| (*key, *leaf));
        for group in grouped.chunk_by(|a, b| a.0 == b.0) {
            self.links.extend(group[1..].iter().map(|(_, (_, number), _)| (*number, group[0].2.clone())));
        }
        self.numbers = arrangement.finish(scattered);
        Ok(())
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the number of unreadable parts of the index, each of which was reported.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Returns the entry at a position in this order.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    pub(crate) fn entry(&self, archive: &dyn Archive, position: usize) -> Result<Entry> {
        let number = self.numbers[position];
        let listed = self.listing.as_ref().map(|listing| &listing[usize::try_from(number).expect("a listing in memory")]);
        listed.map_or_else(|| archive.entry(number), |entry| Ok(entry.clone()))
    }

    /// Returns the path of the earlier entry that the entry at a position is a hard link to.
    pub(crate) fn link(&self, position: usize) -> Option<&EntryPath> {
        self.links.get(&self.numbers[position])
    }
}

/// How unreadable parts of an archive are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUnreadable {
    /// The conversion fails.
    Fail,
    /// They are skipped.
    Skip,
    /// They are skipped. The archive is known to be damaged, so each loss is reported as damage.
    Recover,
}

impl OnUnreadable {
    /// Returns how `options` handle an archive that is not known to be damaged.
    pub(crate) fn of(options: &Options) -> Self {
        if options.keep_going { Self::Skip } else { Self::Fail }
    }
}

/// Skips something unreadable with a warning, or fails. `path`: empty for a part of the index.
///
/// # Errors
///
/// `error`, unless unreadable parts are skipped and the input is the cause, rather than the system
/// or a missing key.
pub(crate) fn skip_unreadable(error: Error, path: Vec<u8>, on_unreadable: OnUnreadable, monitor: &dyn Monitor) -> Result<()> {
    let is_cause = !matches!(error, Error::Io { .. } | Error::Cancelled | Error::KeyNeeded | Error::WrongKey);
    if on_unreadable == OnUnreadable::Fail || !is_cause {
        return Err(error);
    }
    let is_damage = on_unreadable == OnUnreadable::Recover || matches!(error, Error::Corrupt { .. });
    let severity = if is_damage { Severity::Damage } else { Severity::Degraded };
    let lost = if path.is_empty() { "some entries are lost" } else { "skipped" };
    monitor.warn(Warning::new(severity, path, format!("{lost}: {error}")));
    Ok(())
}

/// Reports problems of `archive` that were found while its whole index was read. Fails if its index
/// is damaged, unless `keep_going` is set.
pub(crate) fn report_index_state(archive: &dyn Archive, keep_going: bool, monitor: &dyn Monitor) -> Result<()> {
    let damage = archive.is_index_damaged();
    let mut remarks = archive.remarks();
    if damage && !keep_going {
        let detail = if remarks.is_empty() { "entries may be missing".to_owned() } else { remarks.join("; ") };
        return Err(Error::corrupt("index", 0, detail));
    }
    if damage && remarks.is_empty() {
        remarks.push("the index is damaged; entries were found without it".to_owned());
    }
    let severity = match (archive.is_index_damaged(), archive.skips_entries()) {
        (true, _) => Severity::Damage,
        (false, true) => Severity::Degraded,
        (false, false) => Severity::Remark,
    };
    for message in remarks {
        monitor.warn(Warning::new(severity, [], message));
    }
    Ok(())
}

/// An archive as a source of parts.
pub(crate) struct ArchiveSource<'a> {
    pub(crate) archive: &'a dyn Archive,
    pub(crate) order: Order,
    on_unreadable: OnUnreadable,
    limit_counter: LimitCounter,
    options: &'a Options,
    monitor: &'a dyn Monitor,
}

impl<'a> ArchiveSource<'a> {
    /// Puts the selected entries of `input` into order and reports problems of its index. Recovery
    /// leaves that to its caller.
    pub(crate) fn new(input: &'a Indexed<'_>, limits: Limits, options: &'a Options, monitor: &'a dyn Monitor) -> Result<Self> {
        let archive = &*input.archive;
        let on_unreadable = if input.is_damaged { OnUnreadable::Recover } else { OnUnreadable::of(options) };
        let order = Order::new(archive, input.selection, Scattered::Before, on_unreadable, monitor)?;
        if !input.is_damaged {
            report_index_state(archive, options.keep_going, monitor)?;
        }
        Ok(Self { archive, order, on_unreadable, limit_counter: LimitCounter::new(limits), options, monitor })
    }

    /// Reads a hard link as a file of its own.
    ///
    /// # Errors
    ///
    /// If the conversion was stopped.
    pub(crate) fn read_as_file(&self, position: u32, outlet: &mut Outlet<SourceFact>) -> Result<(), Stopped> {
        self.entry_reader().read(position, false, outlet)
    }

    fn entry_reader(&self) -> ArchiveReader<'_> {
        ArchiveReader { source: self, metadata_filter: MetadataFilter::new(&self.options.metadata) }
    }
}

impl EntrySource<SourceFact> for ArchiveSource<'_> {
    fn reader(&self) -> Box<dyn EntryReader<SourceFact> + '_> {
        Box::new(self.entry_reader())
    }

    fn is_sequential(&self) -> bool {
        self.archive.is_sequential()
    }
}

struct ArchiveReader<'a> {
    source: &'a ArchiveSource<'a>,
    metadata_filter: MetadataFilter<'a>,
}

impl EntryReader<SourceFact> for ArchiveReader<'_> {
    fn read_entry(&mut self, position: u32, outlet: &mut Outlet<SourceFact>) -> Result<(), Stopped> {
        self.read(position, true, outlet)
    }
}

impl ArchiveReader<'_> {
    /// Reads the entry at `position`. `links`: a further name of a file becomes a link.
    fn read(&mut self, position: u32, links: bool, outlet: &mut Outlet<SourceFact>) -> Result<(), Stopped> {
        let ArchiveSource { archive, order, limit_counter, .. } = self.source;
        let mut entry = match order.entry(*archive, position as usize) {
            Ok(entry) => entry,
            Err(error) => return self.failed(position, None, error, outlet),
        };
        let stored = entry.clone();
        self.metadata_filter.narrow(&mut entry);
        entry.link_group = 0;
        if let Err(error) = limit_counter.entry() {
            outlet.push(position, None, EntryPart::Other(SourceFact::Failed(Box::new(error), None)));
            return Ok(());
        }
        if let Some(target) = order.link(position as usize).filter(|_| links) {
            outlet.push(position, None, EntryPart::Other(SourceFact::Link(Box::new(entry), target.clone())));
            return Ok(());
        }
        if entry.kind != Kind::File {
            outlet.push(position, None, EntryPart::Plain(entry));
            return Ok(());
        }
        // Only short files without holes become one chunk. Damage is reported when all content is
        // read.
        let is_short = usize::try_from(stored.size).is_ok_and(|size| size <= MAX_SINGLE_CHUNK_LEN);
        let plain = is_short && archive.holes(&stored).map_or(true, |holes| holes.is_empty());
        let mut content = Content::begin(position, entry, stored.size, plain, outlet)?;
        let (mut stopped, mut beyond, mut room) = (false, None, HASHED_HOLES_MAX);
        let stored_bytes = archive.info().archive_bytes;
        let read = archive.with_content(&stored, Access::Sequential, &mut |part| {
            let len = match part {
                Part::Data(bytes) => bytes.len() as u64,
                Part::Hole(len) => len,
            };
            if let Err(error) = limit_counter.content(len, stored_bytes) {
                beyond = Some(error);
                return Err(Error::Cancelled);
            }
            let taken = match part {
                Part::Data(bytes) => content.data(bytes, outlet),
                Part::Hole(len) => content.hole(len, &mut room, outlet),
            };
            stopped = taken.is_err() || self.source.monitor.cancelled();
            if stopped { Err(Error::Cancelled) } else { Ok(()) }
        });
        match read {
            _ if stopped => Err(Stopped),
            Ok(()) => {
                content.end(outlet);
                Ok(())
            }
            Err(error) => {
                content.abandon(outlet);
                if let Some(error) = beyond {
                    outlet.push(position, None, EntryPart::Other(SourceFact::Failed(Box::new(error), None)));
                    return Ok(());
                }
                self.failed(position, Some(&stored), error, outlet)
            }
        }
    }

    /// Skips an unreadable entry, or fails.
    fn failed(&self, position: u32, entry: Option<&Entry>, error: Error, outlet: &mut Outlet<SourceFact>) -> Result<(), Stopped> {
        let path = entry.map_or_else(Vec::new, |entry| entry.path.as_bytes().to_vec());
        let Err(error) = skip_unreadable(error, path, self.source.on_unreadable, self.source.monitor) else {
            if entry.is_none() {
                outlet.push(position, None, EntryPart::Nothing);
            }
            return Ok(());
        };
        let error = match entry {
            Some(entry) => within(error, &entry.path),
            None => error,
        };
        outlet.push(position, None, EntryPart::Other(SourceFact::Failed(Box::new(error), None)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nra_format::archive::{OpenOptions, open};
    use nra_format::nra::testing::{archive_with_false_links, assert_links_reported};
    use nra_format::progress::Recorder;
    use nra_format::source::MemorySource;

    #[test]
    fn false_link_groups_are_separated() {
        let archive = open(Arc::new(MemorySource::new(archive_with_false_links())), &OpenOptions::default()).unwrap();
        let monitor = Recorder::default();
        let order = Order::new(&*archive, None, Scattered::Before, OnUnreadable::Fail, &monitor).unwrap();
        assert_links_reported(&monitor);
        let links = (0..order.len()).filter_map(|position| {
            let entry = order.entry(&*archive, position).unwrap();
            order.link(position).map(|first| (entry.path.to_string(), first.to_string()))
        });
        let links: Vec<_> = links.collect();
        assert!(links == [("b".into(), "a".into())] || links == [("a".into(), "b".into())], "{links:?}");
    }

    #[test]
    fn keep_going_skips_damage_but_not_system_errors() {
        let monitor = Recorder::default();
        let skip = |error| skip_unreadable(error, b"a".to_vec(), OnUnreadable::Skip, &monitor);
        assert!(matches!(skip(Error::WrongKey), Err(Error::WrongKey)));
        let full = std::io::ErrorKind::StorageFull;
        let Err(Error::Io { source, .. }) = skip(Error::io("read", "a", full.into())) else { panic!("not a reason to skip") };
        assert_eq!(source.kind(), full);
        assert!(monitor.take_warnings().is_empty());
        skip(Error::corrupt("block", 0, "gone")).unwrap();
        skip(Error::Usage { detail: "x cannot be stored: it has more than fits".into() }).unwrap();
        let [damage, loss] = &monitor.take_warnings()[..] else { panic!("two warnings") };
        assert_eq!((damage.severity, loss.severity), (Severity::Damage, Severity::Degraded));
        assert_eq!(loss.message, "skipped: x cannot be stored: it has more than fits");
    }

    #[test]
    fn recovery_reports_every_loss_as_damage() {
        let monitor = Recorder::default();
        let skip = |error, path: &[u8]| skip_unreadable(error, path.to_vec(), OnUnreadable::Recover, &monitor);
        skip(Error::Usage { detail: "x cannot be stored: it has more than fits".into() }, b"x").unwrap();
        skip(Error::Limit { what: "length of the page", found: 2, limit: 1 }, b"").unwrap();
        assert!(matches!(skip(Error::WrongKey, b"x"), Err(Error::WrongKey)));
        let [entry, index] = &monitor.take_warnings()[..] else { panic!("two warnings") };
        assert_eq!((entry.severity, index.severity), (Severity::Damage, Severity::Damage));
        assert_eq!(entry.message, "skipped: x cannot be stored: it has more than fits");
        assert!(index.message.starts_with("some entries are lost: "), "{}", index.message);
    }

    #[test]
    fn usage_error_of_an_entry_becomes_damage() {
        let path = EntryPath::try_from("a").unwrap();
        let error = within(Error::Usage { detail: "it does not fit".into() }, &path);
        assert!(matches!(&error, Error::Corrupt { detail, .. } if detail == "it does not fit (entry a)"), "{error}");
    }
}
