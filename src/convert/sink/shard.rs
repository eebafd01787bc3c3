//! Writes Shard files.
//!
//! Entries that came from a Shard file have its properties as attributes ([`Origin`],
//! [`RECORD_ATTRIBUTE`], metadata), which restore order, flags, types and tags. If the list of
//! names is unchanged and no options are given, the file is identical to the original. Properties
//! that Shard cannot store are reported. Specification: `docs/format/shard.md`.

use std::io::{self, Seek, SeekFrom};

use super::export::{Counted, EntrySink, ExportEntry, Exporter};
use super::loss::{attributes_lost, without_holes};
use super::output::Output;
use nra_format::container::Engine;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::progress::{Monitor, Warning};
use nra_format::shard::{
    ALIGNMENTS, Compression, Dialect, Layout, MAX_CONTENT_LEN, NAME_ATTRIBUTE, NewEntry, Origin, RECORD_ATTRIBUTE,
    RecordAttribute, RecordFields, Role, ShardWriter, Style, attribute_value, description, flags, is_shard_attribute,
    metadata_from_attributes, metadata_with_description, name_has_path, replace_description,
};

/// Longest content buffered as a whole, bytes. Longer uncompressed content is streamed.
const HOLD: u64 = 8 << 20;
/// Alignment of a new file, bytes: the default of all programs.
const ALIGNMENT: u8 = 64;

/// How a Shard file is written. For `None`, the setting is that of the file the entries came from,
/// or the default.
#[derive(Debug, Clone, Default)]
pub struct ShardSink {
    /// Program whose files are imitated. Default: [`Dialect::Go`].
    pub dialect: Option<Dialect>,
    /// Profile. Default: none.
    pub role: Option<Role>,
    /// Alignment, bytes. Default: 64.
    pub alignment: Option<u8>,
    /// Compression of all entries, `Some(None)` for no compression. Default: new entries are not
    /// compressed.
    pub compression: Option<Option<Compression>>,
}

/// Writes a Shard file. Collects the entries first, because names precede content.
pub(super) struct ShardFileWriter {
    output: Output,
    sink: ShardSink,
    planned: Vec<Planned>,
    /// Entries had metadata that Shard files cannot store.
    loses_metadata: bool,
}

impl ShardFileWriter {
    /// Starts a file. Fails if the output is not seekable.
    pub(super) fn create(mut output: Output, sink: ShardSink) -> Result<Self> {
        if output.seek(SeekFrom::Start(0)).is_err() {
            return Err(Error::Usage {
                detail: "cannot write a Shard file to a stream: its first bytes are written last".into(),
            });
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
            // The paths below it imply it.
            Kind::Directory if exporter.archive.children(Some(path)).next().is_some() => {
                self.loses_metadata = true;
                return Ok(());
            }
            Kind::Directory => {
                exporter.omit(path, "a Shard file cannot contain empty directories", false);
                return Ok(());
            }
            Kind::Symlink | Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => {
                exporter.omit(path, "a Shard file can contain only files", false);
                return Ok(());
            }
        }
        exporter.count(&stored, stored.size)?;
        // Names are written before content, so unreadable entries must be known before.
        if exporter.reads_first()
            && let Err(error) = exporter.trial(&stored, &mut |_| Ok(()))
        {
            return exporter.skip(error, Some((&stored, stored.size)));
        }
        if link.is_some() {
            exporter.lost(&entry.path, "a hard link becomes a separate entry in a Shard file".into());
        }
        let record = attribute_value(&entry.metadata.attributes, RECORD_ATTRIBUTE).and_then(RecordAttribute::parse);
        let lost = entry.metadata.attributes.iter().filter(|attribute| !is_shard_attribute(attribute)).count();
        if lost > 0 {
            exporter.lost(&entry.path, attributes_lost(lost, Engine::Shard));
        }
        self.loses_metadata |= record.is_none();
        // A renamed entry is stored under its new path.
        let name = record
            .and_then(|_| attribute_value(&entry.metadata.attributes, NAME_ATTRIBUTE))
            .filter(|name| name_has_path(name, path));
        let name = name.unwrap_or(path);
        self.planned.push(Planned { path: path.into(), name: name.into(), record });
        Ok(())
    }

    /// Writes all entries: those from a Shard file in its order, then the others in storage order.
    /// Only a Shard file or an archive made from one has entries from a Shard file, and both can be
    /// read in any order.
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
                without_holes(exporter, &stored, Engine::Shard, &mut |bytes| writer.write(bytes))?;
                writer.finish_entry()?;
            }
            exporter.written();
        }
        let buffered = writer.finish(metadata.as_deref())?;
        let mut output = buffered.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))?;
        let len = output.seek(SeekFrom::End(0)).map_err(|error| Error::io("write", &name, error))?;
        let message = &exporter.options.message;
        if former.is_some_and(|former| differs(&former, len, &sink, message, &planned)) {
            let message = "the file differs from the Shard file that its entries came from";
            monitor.warn(Warning::remark([], message));
        }
        Ok(Counted::whole(output, len))
    }
}

/// Returns whether a file of length `len` differs from the one that all its entries came from,
/// although no option requests it.
fn differs(former: &Origin, len: u64, sink: &ShardSink, message: &str, planned: &[Planned]) -> bool {
    let ShardSink { dialect, role, alignment, compression } = sink;
    let is_requested = dialect.is_some()
        || role.is_some_and(|role| role != former.header.role)
        || alignment.is_some()
        || compression.is_some()
        || !message.is_empty();
    let number = |at: usize| u32::try_from(at).ok();
    let all = number(planned.len()) == Some(former.header.entry_count)
        && planned.iter().enumerate().all(|(at, planned)| planned.record.map(|record| record.number) == number(at));
    let is_different =
        former.unusual || len != former.header.file_len || writable(former.header.alignment) != former.header.alignment;
    !is_requested && all && is_different
}

/// An entry to write.
struct Planned {
    path: Box<[u8]>,
    /// Its path, or its name in the Shard file that it came from.
    name: Box<[u8]>,
    record: Option<RecordAttribute>,
}

/// Returns the alignment if writers may use it, else the default. Readers accept more alignments.
fn writable(alignment: u8) -> u8 {
    if ALIGNMENTS.contains(&alignment) { alignment } else { ALIGNMENT }
}

/// Returns the metadata to write: that of the original Shard file, with the commit message as its
/// description.
fn metadata(exporter: &Exporter<'_>, has_origin: bool) -> Option<Vec<u8>> {
    let message = exporter.message();
    let former = if has_origin { metadata_from_attributes(&exporter.archive.info().attributes) } else { None };
    let Some(former) = former else {
        return (!message.is_empty()).then(|| metadata_with_description(message));
    };
    if message.is_empty() || description(&former).as_deref() == Some(message) {
        return Some(former);
    }
    Some(replace_description(&former, message).unwrap_or(former))
}

/// Returns the role to write: the requested one, else the former one. Warns if the content is that
/// of another role.
fn role(requested: Option<Role>, former: Option<Role>, monitor: &dyn Monitor) -> Role {
    let role = match (requested, former) {
        // The manifest of a multi-part episode has the extension of episodes.
        (Some(Role::EPISODE), Some(Role::MANIFEST)) => Role::MANIFEST,
        (requested, former) => requested.or(former).unwrap_or_default(),
    };
    if let (Some(was), Some(is)) = (former.filter(|former| *former != role).and_then(Role::name), role.name()) {
        let message = format!("OUT is labelled as a {is}, but its entries are those of a {was}");
        monitor.warn(Warning::remark([], message));
    }
    role
}

/// Returns style and layout: those of the file the entries came from, except for requested
/// settings.
fn shape(options: &ShardSink, role: Role, former: Option<&Origin>, names: Vec<Box<[u8]>>, has_metadata: bool) -> (Style, Layout) {
    let header = former.map(|former| &former.header);
    let alignment = options.alignment.or(header.map(|header| writable(header.alignment))).unwrap_or(ALIGNMENT);
    let nul_terminated = former.is_none_or(|former| options.dialect.is_some() || former.nul_terminated);
    let layout = match header {
        // A streamed file has no metadata and a fixed space for its names.
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
        (Some(requested), _) => requested,
        (None, header) => header.and_then(|header| Compression::from_number(header.compression_default)),
    };
    let style = Style::new(options.dialect.unwrap_or_default(), role, alignment, default, &layout);
    let Some(Origin { header, padded_end, .. }) = former.filter(|_| options.dialect.is_none()) else {
        // The space may be that of the other dialect.
        return (Style { limits_entry_count: false, ..style }, layout);
    };
    let mut kept = header.flags & !(flags::HAS_METADATA | flags::STREAMING);
    kept |= if matches!(layout, Layout::Streaming(_)) { flags::STREAMING } else { 0 };
    let style = match options.compression {
        Some(_) => Style { flags: kept & !flags::COMPRESSED, ..style },
        // The record of each entry contains its compression.
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

/// Returns the content of an entry.
fn whole(exporter: &Exporter<'_>, stored: &Entry) -> Result<Vec<u8>> {
    // The size is not trusted: the buffer grows with the content.
    let mut content = Vec::new();
    without_holes(exporter, stored, Engine::Shard, &mut |bytes| {
        content.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(content)
}
