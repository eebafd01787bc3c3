//! Containers with an index: entries are read by several threads, in the order of storage.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::fidelity::{Fidelity, Narrower};
use super::limits::{Ledger, Limits};
use super::store::Special;
use crate::convert::feed::{Content, Item, Outlet, PlaceReader, Readers, Stopped};
use crate::format::archive::{Access, Archive, Part};
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::path::{EntryPath, Quoted};
use crate::format::progress::{Counter, Monitor, Warning};

/// The entries of an archive in the order in which they are read, and which of them are hard links of an earlier one.
pub(in crate::convert) struct Order {
    numbers: Vec<u64>,
    /// For a file whose group has an earlier member in this order: the path of that.
    links: HashMap<u64, EntryPath>,
}

impl Order {
    /// Orders the entries of `archive`: directories and other entries without content first, then files by their place.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    pub(in crate::convert) fn new(archive: &dyn Archive, monitor: &dyn Monitor) -> Result<Self> {
        let mut places = Vec::new();
        let mut grouped = Vec::new();
        for (entry, number) in archive.entries(0..archive.entry_count()).zip(0u64..) {
            let entry = entry?;
            monitor.check()?;
            let place = if entry.kind == Kind::File { Some(entry.place()) } else { None };
            places.push((place, number));
            if entry.link_group != 0 {
                grouped.push((entry.link_group, place, number, entry.path));
            }
            monitor.expect(Counter::Bytes, entry.size);
        }
        places.sort_unstable();
        grouped.sort_by_key(|(group, place, number, _)| (*group, *place, *number));
        let mut links = HashMap::new();
        for group in grouped.chunk_by(|a, b| a.0 == b.0) {
            links.extend(group[1..].iter().map(|(_, _, number, _)| (*number, group[0].3.clone())));
        }
        Ok(Self { numbers: places.into_iter().map(|(_, number)| number).collect(), links })
    }

    /// Returns the number of entries.
    pub(in crate::convert) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the number of the entry at a place in this order.
    pub(in crate::convert) fn number(&self, place: usize) -> u64 {
        self.numbers[place]
    }

    /// Returns the path of the earlier entry that this one is a hard link of.
    pub(in crate::convert) fn link(&self, number: u64) -> Option<&EntryPath> {
        self.links.get(&number)
    }
}

/// An archive as a source of items.
pub(super) struct Source<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) order: Order,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) fidelity: &'a Fidelity,
    pub(super) keep_going: bool,
    pub(super) monitor: &'a dyn Monitor,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        archive: &'a dyn Archive,
        limits: Limits,
        fidelity: &'a Fidelity,
        keep_going: bool,
        monitor: &'a dyn Monitor,
    ) -> Result<Self> {
        let order = Order::new(archive, monitor)?;
        Ok(Self { archive, order, ledger: Mutex::new(Ledger::new(limits)), fidelity, keep_going, monitor })
    }
}

impl Readers<Special> for Source<'_> {
    fn reader(&self) -> Box<dyn PlaceReader<Special> + '_> {
        Box::new(EntryReader { source: self, narrower: Narrower::new(self.fidelity) })
    }
}

struct EntryReader<'a> {
    source: &'a Source<'a>,
    narrower: Narrower<'a>,
}

impl PlaceReader<Special> for EntryReader<'_> {
    fn read_place(&mut self, place: u32, outlet: &mut Outlet<Special>) -> Result<(), Stopped> {
        let Source { archive, order, .. } = self.source;
        let number = order.number(place as usize);
        let mut entry = match archive.entry(number) {
            Ok(entry) => entry,
            Err(error) => return self.failed(place, None, error, outlet),
        };
        let stored = entry.clone();
        self.narrower.narrow(&mut entry);
        entry.link_group = 0;
        {
            let mut ledger = self.source.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = ledger.entry().and_then(|()| ledger.bytes(entry.size)) {
                outlet.push(place, None, Item::Other(Special::Failed(Box::new(error))));
                return Ok(());
            }
        }
        if let Some(target) = order.link(number) {
            outlet.push(place, None, Item::Other(Special::Link(Box::new(entry), target.clone())));
            return Ok(());
        }
        if entry.kind != Kind::File {
            outlet.push(place, None, Item::Plain(entry));
            return Ok(());
        }
        let mut content = Content::begin(place, entry, stored.size, true, outlet)?;
        let mut stopped = false;
        let read = archive.with_content(&stored, Access::Sequential, &mut |part| {
            let taken = match part {
                Part::Data(bytes) => content.data(bytes, outlet),
                Part::Hole(len) => {
                    content.hole(len, outlet);
                    Ok(())
                }
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
                self.failed(place, Some(&stored), error, outlet)
            }
        }
    }
}

impl EntryReader<'_> {
    /// An entry does not read: that ends the work, or it is left out.
    fn failed(&self, place: u32, entry: Option<&Entry>, error: Error, outlet: &mut Outlet<Special>) -> Result<(), Stopped> {
        if self.source.keep_going && !matches!(error, Error::Io { .. } | Error::Cancelled) {
            let path = entry.map_or_else(Vec::new, |entry| entry.path.as_bytes().to_vec());
            let message = format!("left out: {error}");
            self.source.monitor.warn(Warning { path, message, degraded: true, damage: matches!(error, Error::Corrupt { .. }) });
            if entry.is_none() {
                outlet.push(place, None, Item::Nothing);
            }
            return Ok(());
        }
        let error = match entry {
            Some(entry) => within(error, &entry.path),
            None => error,
        };
        outlet.push(place, None, Item::Other(Special::Failed(Box::new(error))));
        Ok(())
    }
}

/// Puts the path of the entry that was read into an error.
pub(in crate::convert) fn within(error: Error, path: &EntryPath) -> Error {
    let path = Quoted::new(path.as_bytes());
    match error {
        Error::Corrupt { structure, offset, detail } => {
            Error::Corrupt { structure, offset, detail: format!("{detail} (entry {path})") }
        }
        Error::Unsupported { what, found, known } => Error::Unsupported { what, found: format!("{found} (entry {path})"), known },
        Error::Usage { detail } => Error::Usage { detail: format!("{detail} (entry {path})") },
        error => error,
    }
}
