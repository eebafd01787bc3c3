//! Recovers readable entries of a damaged archive into a new one.
//!
//! An entry is recovered if all of its content can be read, with its name, metadata and links. Others are skipped with a warning. Unreadable
//! sectors are handled like other damage ([`UnreadableAsZero`]).

mod unreadable;

use std::collections::HashMap;

use crate::options::Options;
use crate::sink::output::Output;
use crate::sink::{Destination, NraSink, named};
use crate::stats::Stats;
use nra_format::archive::{Access, Archive, Part};
use nra_format::chunker::{MAX_PIECE, WHOLE_MAX, next_piece};
use nra_format::codec::looks_incompressible;
use nra_format::digest::Digest;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::links::{LinkGroups, LinkKey, NO_LINK};
use nra_format::nra::writer::{EntryId, NewContent, Writer, WriterOptions};
use nra_format::progress::{Counter, Monitor, Warning};

pub use unreadable::UnreadableAsZero;

/// Writes the entries of `archive` that can be read completely into a new .nra archive.
pub(crate) fn recover(
    archive: &dyn Archive,
    destination: Destination,
    sink: &NraSink,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let mut writer = options.writer(&sink.writer).0;
    // Nothing is read ahead.
    writer.memory_bytes = options.memory_bytes;
    writer.attributes.clone_from(&archive.info().attributes);
    let output = Output::create(destination)?;
    let name = output.name().clone();
    take_all(archive, output, writer, options.sync, monitor).map_err(|error| named(error, name))
}

fn take_all(archive: &dyn Archive, output: Output, options: WriterOptions, sync: bool, monitor: &dyn Monitor) -> Result<Stats> {
    let mut taker = Taker {
        archive,
        writer: Writer::create(output, options)?,
        links: LinkGroups::of(archive),
        taken: HashMap::new(),
        buffer: Vec::new(),
        monitor,
    };
    let mut stats = Stats::default();
    monitor.expect(Counter::Entries, archive.info().entries);
    monitor.expect(Counter::Bytes, archive.info().content_bytes);
    for entry in archive.entries(0..archive.info().entries) {
        monitor.check()?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                stats.unreadable += 1;
                lost(error, &[], "some entries are lost", monitor)?;
                continue;
            }
        };
        monitor.current(entry.path.as_bytes());
        monitor.add(Counter::Entries, 1);
        monitor.add(Counter::Bytes, entry.size);
        if let Err(error) = taker.take(&entry) {
            stats.damaged += 1;
            stats.skipped += 1;
            lost(error, entry.path.as_bytes(), "skipped", monitor)?;
        }
    }
    let (output, written) = taker.writer.finish(monitor)?;
    output.publish(sync)?;
    stats.written = written;
    Ok(stats)
}

/// Reports a loss, or returns the error if the archive is not its cause.
fn lost(error: Error, path: &[u8], what: &str, monitor: &dyn Monitor) -> Result<()> {
    // Entries that the writer rejects come from the archive.
    if !matches!(
        error,
        Error::Corrupt { .. }
            | Error::Limit { .. }
            | Error::ResourceLimit { .. }
            | Error::Unsupported { .. }
            | Error::Usage { .. }
    ) {
        return Err(error);
    }
    monitor.warn(Warning::damage(path, format!("{what}: {error}")));
    Ok(())
}

struct Taker<'a> {
    archive: &'a dyn Archive,
    writer: Writer<Output>,
    links: LinkGroups,
    /// The first recovered entry of each group of hard links.
    taken: HashMap<LinkKey, EntryId>,
    buffer: Vec<u8>,
    monitor: &'a dyn Monitor,
}

impl Taker<'_> {
    fn take(&mut self, entry: &Entry) -> Result<()> {
        let key = self.links.key(entry);
        let mut new = entry.clone();
        // Links refer to their first entry: link groups of the old archive have no meaning in the new one.
        new.link_group = 0;
        if key.is_some_and(|key| self.links.differs(key)) {
            let path = entry.path.as_bytes().to_vec();
            self.monitor.warn(Warning::degraded(path, NO_LINK));
        }
        if let Some(&first) = key.and_then(|key| self.taken.get(&key)) {
            self.writer.add_link(new, first)?;
            return Ok(());
        }
        let id = if entry.size > WHOLE_MAX as u64 {
            self.writer.begin_file(new)?;
            match self.pieces(entry) {
                Ok(()) => self.writer.end_file(None)?,
                Err(error) => {
                    self.writer.abandon_file();
                    return Err(error);
                }
            }
        } else {
            let bytes = if entry.size == 0 { Vec::new() } else { self.archive.read_all(entry, WHOLE_MAX as u64)? };
            let content = if bytes.is_empty() {
                NewContent::None
            } else {
                let (digest, incompressible) = (Digest::of(&bytes), looks_incompressible(&bytes));
                NewContent::Whole { bytes: &bytes, digest, incompressible }
            };
            self.writer.add(new, content)?
        };
        if let Some(key) = key {
            self.taken.insert(key, id);
        }
        Ok(())
    }

    /// Writes the content of a large file chunk by chunk.
    fn pieces(&mut self, entry: &Entry) -> Result<()> {
        let Self { archive, writer, buffer, .. } = self;
        buffer.clear();
        archive.with_content(entry, Access::Sequential, &mut |part| match part {
            Part::Data(bytes) => {
                for bytes in bytes.chunks(MAX_PIECE) {
                    buffer.extend_from_slice(bytes);
                    cut(writer, buffer, false)?;
                }
                Ok(())
            }
            Part::Hole(len) => {
                cut(writer, buffer, true)?;
                writer.add_hole(len)
            }
        })?;
        cut(writer, buffer, true)
    }
}

/// Writes the complete chunks of `buffer`; all of it if `last`.
fn cut(writer: &mut Writer<Output>, buffer: &mut Vec<u8>, last: bool) -> Result<()> {
    let mut from = 0;
    while let Some(len) = buffer.get(from..).filter(|rest| !rest.is_empty()).and_then(|rest| next_piece(rest, last)) {
        let piece = &buffer[from..from + len];
        writer.add_chunk(piece, Digest::of(piece), looks_incompressible(piece))?;
        from += len;
    }
    buffer.drain(..from);
    Ok(())
}

#[cfg(test)]
mod tests;
