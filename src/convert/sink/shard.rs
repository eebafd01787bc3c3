//! Any archive to a Shard file.
//!
//! Entries that came from a Shard file carry its facts as attributes ([`Origin`], [`RECORD_ATTRIBUTE`], metadata): order, flags, types and tags come
//! back from them, and with an unchanged list of names the file has the bytes of the first one, unless something else is asked for. What
//! Shard can't hold is told.
//! Specification: `docs/format/shard.md`.

use std::io::{self, Seek, SeekFrom};

use super::export::{Counted, EntrySink, ExportEntry, Exporter};
use super::loss::{Container, attributes_lost, holes_filled};
use super::output::Output;
use super::within::within;
use nra_format::archive::Part;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::shard::{
    ALIGNMENTS, Compression, Dialect, Layout, MAX_CONTENT_LEN, NAME_ATTRIBUTE, NewEntry, Origin, RECORD_ATTRIBUTE,
    RecordAttribute, RecordFields, Role, ShardWriter, Style, attribute_value, description, flags, is_shard_attribute,
    metadata_from_attributes, metadata_with_description, name_has_path, replace_description,
};
use nra_format::zeros::each_run;

/// Content up to this length is held in memory as a whole, bytes; longer one that is not compressed goes out as it comes.
const HOLD: u64 = 8 << 20;
/// Alignment of a new file, bytes: that of all programs unless they are told otherwise.
const ALIGNMENT: u8 = 64;

/// How a Shard file is written. What is `None` is as in the file that the entries came from, if they came from one.
#[derive(Debug, Clone, Default)]
pub struct ShardSink {
    /// Whose files are imitated; else [`Dialect::Go`].
    pub dialect: Option<Dialect>,
    /// Profile; else none.
    pub role: Option<Role>,
    /// Alignment, bytes; else 64.
    pub alignment: Option<u8>,
    /// Compression of all entries, `Some(None)` for no compression; else new entries are not compressed.
    pub compression: Option<Option<Compression>>,
}

/// Writes a Shard file: entries are collected first, since names precede content.
pub(super) struct ShardFileWriter {
    output: Output,
    sink: ShardSink,
    planned: Vec<Planned>,
    /// Entries had metadata that only other formats have a place for.
    loses_metadata: bool,
}

impl ShardFileWriter {
    /// Starts a file.
    ///
    /// # Errors
    ///
    /// `Usage` for an output that can only be written in order.
    pub(super) fn create(mut output: Output, sink: ShardSink) -> Result<Self> {
        if output.seek(SeekFrom::Start(0)).is_err() {
            return Err(Error::Usage { detail: "a Shard file needs a file: its first bytes are written last".into() });
        }
        Ok(Self { output, sink, planned: Vec::new(), loses_metadata: false })
    }
}

impl EntrySink for ShardFileWriter {
    fn begin(&mut self, _: &mut Exporter<'_>) -> Result<()> {
        Ok(())
    }

    /// Decides whether an entry is written, and under which name.
    fn entry(&mut self, export: ExportEntry, exporter: &mut Exporter<'_>) -> Result<()> {
        let ExportEntry { stored, entry, link } = export;
        let path = entry.path.as_bytes();
        match entry.kind {
            Kind::File => {}
            // The entries below it bring it back.
            Kind::Directory if exporter.archive.children(Some(path)).next().is_some() => {
                self.loses_metadata = true;
                return Ok(());
            }
            Kind::Directory => {
                exporter.omit(path, "a Shard file holds no empty directories", false);
                return Ok(());
            }
            Kind::Symlink | Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => {
                exporter.omit(path, "a Shard file holds nothing but files", false);
                return Ok(());
            }
        }
        exporter.count(&stored, stored.size)?;
        // Names are written before content: an entry that can't be read must be known by then.
        if exporter.reads_first()
            && let Err(error) = exporter.trial(&stored, &mut |_| Ok(()))
        {
            return exporter.skip(error, Some((&stored, stored.size)));
        }
        if link.is_some() {
            exporter.lost(&entry.path, "a hard link becomes an entry of its own in a Shard file".into());
        }
        let record = attribute_value(&entry.metadata.attributes, RECORD_ATTRIBUTE).and_then(RecordAttribute::parse);
        let lost = entry.metadata.attributes.iter().filter(|attribute| !is_shard_attribute(attribute)).count();
        if lost > 0 {
            exporter.lost(&entry.path, attributes_lost(lost, "Shard file"));
        }
        self.loses_metadata |= record.is_none();
        // An entry that has another path by now is stored under that.
        let name = record
            .and_then(|_| attribute_value(&entry.metadata.attributes, NAME_ATTRIBUTE))
            .filter(|name| name_has_path(name, path));
        let name = name.unwrap_or(path);
        self.planned.push(Planned { path: path.into(), name: name.into(), record });
        Ok(())
    }

    /// Writes all entries, in the order of the file that they came from, the others in the order of storage. Only a Shard file or an archive made
    /// of one, which are read in any order, has entries that came from one.
    fn finish(self: Box<Self>, exporter: &mut Exporter<'_>) -> Result<Counted> {
        let Self { output, sink, mut planned, loses_metadata } = *self;
        let (archive, monitor) = (exporter.archive, exporter.monitor);
        planned.sort_by_key(|planned| planned.record.map_or(u32::MAX, |record| record.number));
        if loses_metadata {
            let message = "modes, times and owners can't be kept in a Shard file";
            monitor.warn(Warning::remark([], message));
        }
        let name = output.name().clone();
        let names: Vec<Box<[u8]>> = planned.iter().map(|planned| planned.name.clone()).collect();
        let former = Origin::parse(&archive.info().attributes);
        let metadata = metadata(exporter, former.is_some());
        let role = role(sink.role, former.as_ref().map(|former| former.header.role), monitor);
        let (style, layout) = shape(&sink, role, former.as_ref(), names, metadata.is_some());
        let buffered = io::BufWriter::with_capacity(1 << 20, output);
        let mut writer = ShardWriter::create(buffered, style, layout)?;
        for Planned { path, name, record } in &planned {
            monitor.check()?;
            let Some((_, stored)) = archive.find(path)? else {
                return Err(Error::io("read", path, io::Error::other("the archive changed while it was read")));
            };
            monitor.current(path);
            let compression = sink.compression.unwrap_or_else(|| record.and_then(|record| record.compression()));
            let fields = |record: RecordAttribute| RecordFields {
                content_type: record.content_type,
                tags: record.tags,
                flags: record.flags,
            };
            let fields = record.map(fields).unwrap_or_default();
            if stored.size <= HOLD || (compression.is_some() && stored.size <= MAX_CONTENT_LEN) {
                let content = whole(exporter, &stored)?;
                writer.add(NewEntry { name, content: &content, compression, fields })?;
            } else {
                writer.start_entry(name, fields)?;
                each(exporter, &stored, &mut |bytes| writer.write(bytes))?;
                writer.finish_entry()?;
            }
            exporter.written();
        }
        let buffered = writer.finish(metadata.as_deref())?;
        let mut output = buffered.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))?;
        let len = output.seek(SeekFrom::End(0)).map_err(|error| Error::io("write", &name, error))?;
        let message = &exporter.options.message;
        if former.is_some_and(|former| differs(&former, len, &sink, message, &planned)) {
            let message = "the file has other bytes than the Shard file that its entries came from";
            monitor.warn(Warning::remark([], message));
        }
        Ok(Counted::whole(output, len))
    }
}

/// Says whether a file of that length has other bytes than the one that all of its entries came from, though nothing else was asked for.
fn differs(former: &Origin, len: u64, sink: &ShardSink, message: &str, planned: &[Planned]) -> bool {
    let ShardSink { dialect, role, alignment, compression } = sink;
    let is_asked = dialect.is_some()
        || role.is_some_and(|role| role != former.header.role)
        || alignment.is_some()
        || compression.is_some()
        || !message.is_empty();
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
    record: Option<RecordAttribute>,
}

/// Returns an alignment that writers give: readers take more of them.
fn possible(alignment: u8) -> u8 {
    if ALIGNMENTS.contains(&alignment) { alignment } else { ALIGNMENT }
}

/// Returns the metadata that are written: those of the file that the entries came from, with what is said of the archive as a whole as their
/// description.
fn metadata(exporter: &Exporter<'_>, came: bool) -> Option<Vec<u8>> {
    let message = exporter.message();
    let former = if came { metadata_from_attributes(&exporter.archive.info().attributes) } else { None };
    let Some(former) = former else {
        return (!message.is_empty()).then(|| metadata_with_description(message));
    };
    if message.is_empty() || description(&former).as_deref() == Some(message) {
        return Some(former);
    }
    Some(replace_description(&former, message).unwrap_or(former))
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
fn shape(options: &ShardSink, role: Role, former: Option<&Origin>, names: Vec<Box<[u8]>>, has_metadata: bool) -> (Style, Layout) {
    let header = former.map(|former| &former.header);
    let alignment = options.alignment.or(header.map(|header| possible(header.alignment))).unwrap_or(ALIGNMENT);
    let nul_terminated = former.is_none_or(|former| options.dialect.is_some() || former.nul_terminated);
    let layout = match header {
        // A streamed file has no metadata, and room for no more than it was made for.
        Some(header) if header.has(flags::STREAMING) && !has_metadata => {
            let expected = Layout::expected_entries(header.data_offset);
            if Layout::fits_streaming(expected, &names, nul_terminated) {
                Layout::Streaming(expected)
            } else {
                Layout::Names(names)
            }
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
        return (Style { limits_entry_count: false, ..style }, layout);
    };
    let mut kept = header.flags & !(flags::HAS_METADATA | flags::STREAMING);
    kept |= if matches!(layout, Layout::Streaming(_)) { flags::STREAMING } else { 0 };
    let style = match options.compression {
        Some(_) => Style { flags: kept & !flags::COMPRESSED, ..style },
        // Whether an entry is compressed is said in its record.
        None => Style {
            flags: kept,
            compression_default: header.compression_default,
            compress_from: 0,
            keeps_poor_compression: true,
            ..style
        },
    };
    let style = Style {
        sets_content_type_flag: false,
        limits_entry_count: false,
        nul_terminated,
        padded_end: *padded_end,
        reserved: header.reserved,
        ..style
    };
    (style, layout)
}

/// Hands the content of an entry to `sink`, holes as zero bytes.
fn each(exporter: &Exporter<'_>, stored: &Entry, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (mut len, mut has_holes) = (0u64, false);
    let mut take = |bytes: &[u8]| {
        len += bytes.len() as u64;
        exporter.monitor.add(Counter::Bytes, bytes.len() as u64);
        sink(bytes)
    };
    let read = exporter.content(stored, &mut |part| {
        has_holes |= matches!(part, Part::Hole(_));
        each_run(part, &mut take)
    });
    read.map_err(|error| within(error, &stored.path))?;
    if has_holes {
        exporter.lost(&stored.path, holes_filled(Container::Shard));
    }
    if len == stored.size {
        return Ok(());
    }
    Err(within(Error::corrupt("content", 0, format!("{} bytes expected, {len} found", stored.size)), &stored.path))
}

fn whole(exporter: &Exporter<'_>, stored: &Entry) -> Result<Vec<u8>> {
    // The size is a claim: memory grows with what comes.
    let mut content = Vec::new();
    each(exporter, stored, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(content)
}
