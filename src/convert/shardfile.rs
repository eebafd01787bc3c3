//! Any archive to a Shard file.
//!
//! Entries that came from a Shard file carry its facts as attributes ([`Origin`], [`RECORD`], metadata): order, flags, types and tags come
//! back from them, and with an unchanged list of names the file has the bytes of the first one, unless something else is asked for. What
//! Shard can't hold is told.
//! Specification: `docs/format/shard.md`.

use std::io::{self, Seek, SeekFrom};

use super::loss::{Container, attributes_lost, holes_filled, tell_whole};
use super::outgoing::{Counted, Leaving, Outgoing, OutgoingOptions, OutgoingStats};
use super::output::{Destination, Output};
use super::pack::named;
use super::transfer::within;
use nra_format::archive::{Archive, Part};
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::shard::{
    ALIGNMENTS, Compression, Dialect, Layout, MAX_PAYLOAD, Marks, NAME, NewEntry, Origin, RECORD, Record, Role, ShardWriter,
    Style, described, description, flags, is_own, metadata_of, stands_for, value, with_description,
};
use nra_format::zeros::each_run;

/// Content up to this length is held in memory as a whole, bytes; longer one that is not compressed goes out as it comes.
const HOLD: u64 = 8 << 20;
/// Alignment of a new file, bytes: that of all programs unless they are told otherwise.
const ALIGNMENT: u8 = 64;

/// How a Shard file is written. What is `None` is as in the file that the entries came from, if they came from one.
#[derive(Debug, Clone, Default)]
pub struct ShardOptions {
    /// Whose files are imitated; else [`Dialect::Go`].
    pub dialect: Option<Dialect>,
    /// Profile; else none.
    pub role: Option<Role>,
    /// Alignment, bytes; else 64.
    pub alignment: Option<u8>,
    /// Compression of all entries, `Some(None)` for no compression; else new entries are not compressed.
    pub compression: Option<Option<Compression>>,
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
    let name = output.name().clone();
    let named = |error: Error| named(error, &name);
    tell_whole(archive, Container::Shard, monitor);
    let mut from = Outgoing::new(archive, Container::Shard, &options.outgoing, monitor)?;
    let planned = plan(&mut from)?;
    let names: Vec<Box<[u8]>> = planned.iter().map(|planned| planned.name.clone()).collect();
    let former = Origin::parse(&archive.info().attributes);
    let metadata = metadata(archive, options, former.is_some());
    let role = role(options.role, former.as_ref().map(|former| former.header.role), monitor);
    let (style, layout) = shape(options, role, former.as_ref(), names, metadata.is_some());
    let buffered = io::BufWriter::with_capacity(1 << 20, output);
    let mut writer = ShardWriter::create(buffered, style, layout).map_err(named)?;
    for Planned { path, name, record } in &planned {
        monitor.check()?;
        let Some((_, stored)) = archive.find(path)? else {
            return Err(Error::io("read", path, io::Error::other("the archive changed while it was read")));
        };
        monitor.current(path);
        let compression = options.compression.unwrap_or_else(|| record.and_then(|record| record.compression()));
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
    if former.is_some_and(|former| differs(&former, len, options, &planned)) {
        let message = "the file has other bytes than the Shard file that its entries came from";
        monitor.warn(Warning::remark([], message));
    }
    from.publish(Counted::whole(output, len))
}

/// Says whether a file of that length has other bytes than the one that all of its entries came from, though nothing else was asked for.
fn differs(former: &Origin, len: u64, options: &ShardOptions, planned: &[Planned]) -> bool {
    let ShardOptions { dialect, role, alignment, compression, outgoing, .. } = options;
    let is_asked = dialect.is_some()
        || role.is_some_and(|role| role != former.header.role)
        || alignment.is_some()
        || compression.is_some()
        || !outgoing.message.is_empty();
    let number = |at: usize| u32::try_from(at).ok();
    let all = number(planned.len()) == Some(former.header.entry_count)
        && planned.iter().enumerate().all(|(at, planned)| planned.record.map(|record| record.number) == number(at));
    let is_other =
        former.unusual || len != former.header.file_len || possible(former.header.alignment) != former.header.alignment;
    !is_asked && all && is_other
}

/// An entry that is going to be written.
struct Planned {
    path: Box<[u8]>,
    /// Its path, unless it came from a Shard file under another name.
    name: Box<[u8]>,
    record: Option<Record>,
}

/// Chooses what is written, in the order of the file that it came from; what came from none follows in the order of storage. Content is written
/// in the order of the index, and nothing but a Shard file or an archive made of one, which are read in any order, has entries that came from one.
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
            && let Err(error) = from.trial(&stored, &mut |_| Ok(()))
        {
            from.leave_out(error, Some((&stored, stored.size)))?;
            continue;
        }
        if link.is_some() {
            from.lost(&entry.path, "a hard link becomes an entry of its own in a Shard file".into());
        }
        let record = value(&entry.metadata.attributes, RECORD).and_then(Record::parse);
        let lost = entry.metadata.attributes.iter().filter(|attribute| !is_own(attribute)).count();
        if lost > 0 {
            from.lost(&entry.path, attributes_lost(lost, "Shard file"));
        }
        facts |= record.is_none();
        // An entry that has got another path since has the name of that.
        let name = record.and_then(|_| value(&entry.metadata.attributes, NAME)).filter(|name| stands_for(name, path));
        let name = name.unwrap_or(path);
        planned.push(Planned { path: path.into(), name: name.into(), record });
    }
    planned.sort_by_key(|planned| planned.record.map_or(u32::MAX, |record| record.number));
    if facts {
        let message = "modes, times and owners can't be kept in a Shard file";
        from.monitor.warn(Warning::remark([], message));
    }
    Ok(planned)
}

/// Returns an alignment that writers give: readers take more of them.
fn possible(alignment: u8) -> u8 {
    if ALIGNMENTS.contains(&alignment) { alignment } else { ALIGNMENT }
}

/// Returns the metadata that are written: those of the file that the entries came from, with what is said of the archive as a whole as their
/// description.
fn metadata(archive: &dyn Archive, options: &ShardOptions, came: bool) -> Option<Vec<u8>> {
    let message = options.outgoing.message_of(archive);
    let former = if came { metadata_of(&archive.info().attributes) } else { None };
    let Some(former) = former else {
        return (!message.is_empty()).then(|| described(message));
    };
    if message.is_empty() || description(&former).as_deref() == Some(message) {
        return Some(former);
    }
    Some(with_description(&former, message).unwrap_or(former))
}

/// Returns the role that is written: what is asked for, even if content of another one is not what that promises, or the former one.
fn role(asked: Option<Role>, former: Option<Role>, monitor: &dyn Monitor) -> Role {
    let role = match (asked, former) {
        // The manifest of an episode in parts is called as episodes are.
        (Some(Role::EPISODE), Some(Role::MANIFEST)) => Role::MANIFEST,
        (asked, former) => asked.or(former).unwrap_or_default(),
    };
    if let (Some(was), Some(is)) = (former.filter(|former| *former != role).and_then(Role::name), role.name()) {
        let message = format!("OUT says that it is a {is}, its entries are still those of a {was}");
        monitor.warn(Warning::remark([], message));
    }
    role
}

/// Returns style and layout: those of the file that entries came from, but for what was asked for.
fn shape(
    options: &ShardOptions,
    role: Role,
    former: Option<&Origin>,
    names: Vec<Box<[u8]>>,
    has_metadata: bool,
) -> (Style, Layout) {
    let header = former.map(|former| &former.header);
    let alignment = options.alignment.or(header.map(|header| possible(header.alignment))).unwrap_or(ALIGNMENT);
    let terminated = former.is_none_or(|former| options.dialect.is_some() || former.terminated);
    let layout = match header {
        // A streamed file has no metadata, and room for no more than it was made for.
        Some(header) if header.has(flags::STREAMING) && !has_metadata => {
            let expected = Layout::expected(header.data_offset);
            if Layout::streaming_takes(expected, &names, terminated) { Layout::Streaming(expected) } else { Layout::Names(names) }
        }
        _ => Layout::Names(names),
    };
    let default = match (options.compression, header) {
        (Some(asked), _) => asked,
        (None, header) => header.and_then(|header| Compression::from_number(header.compression_default)),
    };
    let style = Style::new(options.dialect.unwrap_or_default(), role, alignment, default, &layout);
    let Some(Origin { header, padded_end, .. }) = former.filter(|_| options.dialect.is_none()) else {
        // The room may be that of the other dialect.
        return (Style { counts_entries: false, ..style }, layout);
    };
    let mut kept = header.flags & !(flags::HAS_SCHEMA | flags::STREAMING);
    kept |= if matches!(layout, Layout::Streaming(_)) { flags::STREAMING } else { 0 };
    let style = match options.compression {
        Some(_) => Style { flags: kept & !flags::COMPRESSED, ..style },
        // Whether an entry is compressed is said in its record.
        None => Style {
            flags: kept,
            compression_default: header.compression_default,
            compress_from: 0,
            keeps_compressed: true,
            ..style
        },
    };
    let style = Style {
        marks_types: false,
        counts_entries: false,
        terminated,
        padded_end: *padded_end,
        reserved: header.reserved,
        ..style
    };
    (style, layout)
}

/// Hands the content of an entry to `sink`, holes as zero bytes.
fn each(from: &Outgoing<'_>, stored: &Entry, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (mut len, mut has_holes) = (0u64, false);
    let mut take = |bytes: &[u8]| {
        len += bytes.len() as u64;
        from.monitor.add(Counter::Bytes, bytes.len() as u64);
        sink(bytes)
    };
    let read = from.content(stored, &mut |part| {
        has_holes |= matches!(part, Part::Hole(_));
        each_run(part, &mut take)
    });
    read.map_err(|error| within(error, &stored.path))?;
    if has_holes {
        from.lost(&stored.path, holes_filled(Container::Shard));
    }
    if len == stored.size {
        return Ok(());
    }
    Err(within(Error::corrupt("content", 0, format!("{} bytes expected, {len} found", stored.size)), &stored.path))
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
