//! Any archive to a Shard file.
//!
//! Entries that came from a Shard file carry its facts as attributes ([`Origin`], [`RECORD`], metadata): order, flags, types and tags come
//! back from them, and with an unchanged list of names the file has the bytes of the first one. What Shard can't hold is told.
//! Specification: `docs/format/shard.md`.

use std::io::{self, Seek, SeekFrom};

use super::loss::{Target, tell_whole};
use super::outgoing::{Counted, Leaving, Outgoing, OutgoingOptions, OutgoingStats};
use super::output::{Destination, Output};
use super::transfer::within;
use super::zeros::each_run;
use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::progress::{Counter, Monitor, Warning};
use crate::format::shard::{
    ALIGNMENTS, Compression, Dialect, Header, Layout, MAX_PAYLOAD, Marks, NAME, NewEntry, Origin, RECORD, Record, Role,
    ShardWriter, Style, flags, is_own, metadata_of, value,
};

/// Content up to this length is held in memory as a whole, bytes; longer one that is not compressed goes out as it comes.
const HOLD: u64 = 8 << 20;
/// Alignment of a new file, bytes: that of all programs unless they are told otherwise.
const ALIGNMENT: u8 = 64;

/// How a Shard file is written.
#[derive(Debug, Clone, Default)]
pub struct ShardOptions {
    /// Whose files are imitated; `None`: the file that the entries came from, else [`Dialect::Go`].
    pub dialect: Option<Dialect>,
    /// Profile of a file whose entries did not come from one.
    pub role: Role,
    /// Alignment of a file whose entries did not come from one; `None` = 64 bytes.
    pub alignment: Option<u8>,
    /// Compression of entries that did not come from a Shard file.
    pub compression: Option<Compression>,
    /// What is kept, and how far.
    pub outgoing: OutgoingOptions,
}

/// Writes the files of `archive` into a new Shard file.
///
/// # Errors
///
/// `Usage` for a destination that can only be written in order; `Limit` for more entries or names than the format takes; `Corrupt` for damage (with
/// [`OutgoingOptions::keep_going`] that is a warning); `Io` when writing fails; `Cancelled`. Then nothing is left under the name of the destination.
pub fn write_shard(
    archive: &dyn Archive,
    destination: Destination,
    options: &ShardOptions,
    monitor: &dyn Monitor,
) -> Result<OutgoingStats> {
    let mut output = Output::create(destination)?;
    if output.seek(SeekFrom::Start(0)).is_err() {
        return Err(Error::Usage { detail: "a Shard file needs a file: its first bytes are written last".into() });
    }
    let name = output.name().to_vec();
    let named = |error: Error| match error {
        Error::Io { action: "write", source, .. } => Error::io("write", &name, source),
        other => other,
    };
    tell_whole(archive, Target::Shard, monitor)?;
    let mut from = Outgoing::new(archive, &options.outgoing, monitor)?;
    let planned = plan(&mut from)?;
    let names: Vec<Box<[u8]>> = planned.iter().map(|planned| planned.name.clone()).collect();
    let info = archive.info();
    let former = Origin::parse(&info.attributes);
    let metadata = metadata_of(&info.attributes);
    let (style, layout) = match former {
        Some(former) if options.dialect.is_none() && unchanged(&former.header, &planned) => imitation(&former, names),
        former => {
            let layout = Layout::Names(names);
            let role = former.map_or(options.role, |former| former.header.role);
            let alignment = options.alignment.or(former.map(|former| possible(former.header.alignment))).unwrap_or(ALIGNMENT);
            (Style::new(options.dialect.unwrap_or_default(), role, alignment, options.compression, &layout), layout)
        }
    };
    let buffered = io::BufWriter::with_capacity(1 << 20, output);
    let mut writer = ShardWriter::create(buffered, style, layout).map_err(named)?;
    for Planned { path, name, record } in &planned {
        monitor.check()?;
        let Some((_, stored)) = archive.find(path)? else {
            return Err(Error::Usage { detail: "the archive changed while it was read".into() });
        };
        monitor.current(path);
        let compression = record.map_or(options.compression, |record| record.compression());
        let marks = |record: Record| Marks { content_type: record.content_type, tags: record.tags, flags: record.flags };
        let marks = record.map(marks).unwrap_or_default();
        if stored.size <= HOLD || (compression.is_some() && stored.size <= MAX_PAYLOAD) {
            let content = whole(&from, &stored)?;
            writer.add(NewEntry { name, content: &content, compression, marks }).map_err(named)?;
        } else {
            writer.begin(name, marks).map_err(named)?;
            each(&from, &stored, &mut |bytes| writer.write(bytes).map_err(named))?;
            writer.end()?;
        }
        from.written();
    }
    let buffered = writer.finish(metadata.as_deref()).map_err(named)?;
    let mut output = buffered.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))?;
    let len = output.seek(SeekFrom::End(0)).map_err(|error| Error::io("write", &name, error))?;
    from.publish(Counted::whole(output, len))
}

/// An entry that is going to be written.
struct Planned {
    path: Box<[u8]>,
    /// Its path, unless it came from a Shard file under another name.
    name: Box<[u8]>,
    record: Option<Record>,
}

/// Chooses what is written, in the order of the file that it came from; what came from none follows in the order of paths.
fn plan(from: &mut Outgoing<'_>) -> Result<Vec<Planned>> {
    let mut planned = Vec::new();
    let mut facts = false;
    while let Some(Leaving { stored, entry, link }) = from.next()? {
        let path = entry.path.as_bytes();
        match entry.kind {
            Kind::File => {}
            // What lies below brings it back.
            Kind::Directory if from.archive.children(Some(path)).next().is_some() => {
                facts = true;
                continue;
            }
            Kind::Directory => {
                from.omit(path, "a Shard file holds no empty directories", false);
                continue;
            }
            Kind::Symlink | Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => {
                from.omit(path, "a Shard file holds nothing but files", false);
                continue;
            }
        }
        from.count(&stored, stored.size)?;
        // Names are written before content: what does not read must be known by now.
        if from.reads_first()
            && let Err(error) = from.content(&stored, &mut |_| Ok(()))
        {
            from.leave_out(error, Some((&stored, stored.size)))?;
            continue;
        }
        if link.is_some() {
            from.lost(&entry.path, "a hard link becomes an entry of its own in a Shard file".into());
        }
        let record = value(&entry.metadata.attributes, RECORD).and_then(Record::parse);
        match entry.metadata.attributes.iter().filter(|attribute| !is_own(attribute)).count() {
            0 => {}
            1 => from.lost(&entry.path, "an attribute can't be kept in a Shard file".into()),
            count => from.lost(&entry.path, format!("{count} attributes can't be kept in a Shard file")),
        }
        facts |= record.is_none();
        let name = record.and_then(|_| value(&entry.metadata.attributes, NAME)).unwrap_or(path);
        planned.push(Planned { path: path.into(), name: name.into(), record });
    }
    planned.sort_by(|a, b| {
        let number = |planned: &Planned| planned.record.map_or(u32::MAX, |record| record.number);
        number(a).cmp(&number(b)).then_with(|| a.name.cmp(&b.name))
    });
    if facts {
        let message = "modes, times and owners can't be kept in a Shard file".into();
        from.monitor.warn(Warning { path: Vec::new(), message, degraded: false, damage: false });
    }
    Ok(planned)
}

/// Returns an alignment that writers give: readers take more of them.
fn possible(alignment: u8) -> u8 {
    if ALIGNMENTS.contains(&alignment) { alignment } else { ALIGNMENT }
}

/// Says whether the entries are those of the file that a header is of, one for one.
fn unchanged(former: &Header, planned: &[Planned]) -> bool {
    let mut records = planned.iter().zip(0u32..);
    planned.len() == former.entry_count as usize
        && records.all(|(planned, at)| planned.record.is_some_and(|record| record.number == at))
}

/// Returns style and layout of the file that entries came from.
fn imitation(former: &Origin, names: Vec<Box<[u8]>>) -> (Style, Layout) {
    let header = &former.header;
    let streamed = header.has(flags::STREAMING);
    let layout = if streamed { Layout::Streaming(Layout::expected(header.data_offset)) } else { Layout::Names(names) };
    let style = Style {
        flags: header.flags & !flags::HAS_SCHEMA,
        marks_types: false,
        compression_default: header.compression_default,
        // Whether an entry is compressed is said in its record.
        compress_from: 0,
        keeps_compressed: true,
        counts_entries: false,
        terminated: former.terminated,
        padded_end: former.padded_end,
        reserved: header.reserved,
        ..Style::new(Dialect::Go, header.role, possible(header.alignment), None, &layout)
    };
    (style, layout)
}

/// Hands the content of an entry to `sink`, holes as zero bytes.
fn each(from: &Outgoing<'_>, stored: &Entry, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut len = 0u64;
    let mut take = |bytes: &[u8]| {
        len += bytes.len() as u64;
        from.monitor.add(Counter::Bytes, bytes.len() as u64);
        sink(bytes)
    };
    let read = from.content(stored, &mut |part| each_run(part, &mut take));
    read.map_err(|error| within(error, &stored.path))?;
    if len == stored.size {
        return Ok(());
    }
    Err(Error::Usage { detail: format!("{}: {} bytes expected, {len} found", stored.path, stored.size) })
}

fn whole(from: &Outgoing<'_>, stored: &Entry) -> Result<Vec<u8>> {
    // The size is a claim: memory grows with what comes.
    let mut content = Vec::new();
    each(from, stored, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(content)
}
