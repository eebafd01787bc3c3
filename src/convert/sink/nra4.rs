//! Writes NRA 4.5 archives.
//!
//! Entries are read in storage order; blocks are compressed in parallel. Metadata without a field
//! in that version is stored where its tools ignore it, and entries that they ignore are reported.

use std::io::{self, Seek, SeekFrom, Write};

use super::export::{Counted, EntrySink, ExportEntry, Exporter};
use super::loss::holes_filled;
use super::output::Output;
use crate::options::Options;
use nra_format::archive::{Archive, Part};
use nra_format::container::Engine;
use nra_format::crypt::KeyBytes;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result, Subject};
use nra_format::nra4::writer::{Codec, Writer, WriterOptions};
use nra_format::progress::Counter;

/// How an NRA 4.5 archive is written.
#[derive(Clone)]
pub struct Nra4Sink {
    /// Name of the archive if neither the options nor the input have a message.
    pub name: String,
    /// Compression of blocks.
    pub codec: Codec,
    /// Key that encrypts the blocks. Names and sizes are not encrypted.
    pub key: Option<KeyBytes>,
}

impl Default for Nra4Sink {
    fn default() -> Self {
        let WriterOptions { name, codec, key, .. } = WriterOptions::default();
        Self { name, codec, key }
    }
}

impl std::fmt::Debug for Nra4Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nra4Sink").field("name", &self.name).field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// Writes an NRA 4.5 archive.
pub(super) struct Nra4Writer {
    writer: Writer<io::BufWriter<Output>>,
    name: Subject,
}

impl Nra4Writer {
    /// Starts an archive. Fails if the output is not seekable, or for a level that zstd does not
    /// have.
    pub(super) fn create(mut output: Output, sink: Nra4Sink, archive: &dyn Archive, options: &Options) -> Result<Self> {
        if output.seek(SeekFrom::Start(0)).is_err() {
            let detail = "cannot write an NRA 4.5 archive to a stream: its first bytes are written last".into();
            return Err(Error::Usage { detail });
        }
        let subject = output.name().clone();
        let Nra4Sink { name, codec, key } = sink;
        let mut titles = [&options.message, &archive.info().message].into_iter();
        let name = titles.find(|text| !text.is_empty()).cloned().unwrap_or(name);
        let out = io::BufWriter::with_capacity(1 << 20, output);
        let writer = WriterOptions { name, codec, key, threads: options.threads, memory_bytes: options.memory_bytes };
        Ok(Self { writer: Writer::create(out, writer)?, name: subject })
    }
}

impl EntrySink for Nra4Writer {
    fn begin(&mut self, _: &mut Exporter<'_>) -> Result<()> {
        Ok(())
    }

    fn entry(&mut self, export: ExportEntry, exporter: &mut Exporter<'_>) -> Result<()> {
        add(&export, exporter, &mut self.writer)
    }

    fn finish(self: Box<Self>, _: &mut Exporter<'_>) -> Result<Counted> {
        let Self { writer, name } = *self;
        let (buffered, written) = writer.finish()?;
        let output = buffered.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))?;
        Ok(Counted::whole(output, written.archive_bytes))
    }
}

/// Adds an entry, or skips it.
fn add<W: Write + Seek>(export: &ExportEntry, exporter: &mut Exporter<'_>, writer: &mut Writer<W>) -> Result<()> {
    let ExportEntry { stored, entry, link } = export;
    let content = if link.is_none() { stored.size } else { 0 };
    exporter.count(stored, content)?;
    writer.start_entry(entry)?;
    let mut has_holes = false;
    if entry.kind == Kind::File {
        // A write error is not an error of the entry.
        let mut failed = None;
        let mut write = |part: Part<'_>| {
            let (written, len) = match part {
                Part::Data(bytes) => (writer.write(bytes), bytes.len() as u64),
                Part::Hole(len) => (writer.write_hole(len), len),
            };
            has_holes |= matches!(part, Part::Hole(_));
            exporter.monitor.add(Counter::Bytes, len);
            written.map_err(|error| {
                failed = Some(error);
                Error::Cancelled
            })
        };
        // The content of a hard link was counted with its first name.
        let read = if link.is_none() { exporter.content(stored, &mut write) } else { exporter.trial(stored, &mut write) };
        if let Some(error) = failed {
            return Err(error);
        }
        if let Err(error) = read {
            writer.abandon_entry();
            return exporter.skip(error, Some((stored, content)));
        }
    }
    writer.finish_entry()?;
    if has_holes {
        exporter.lost(&entry.path, holes_filled(Engine::Nra4));
    }
    if let Some(why) = hidden(exporter.archive, entry) {
        exporter.lost(&entry.path, format!("ignored by nra before version 5: {why}"));
    }
    exporter.written();
    Ok(())
}

/// Returns why earlier versions ignore an entry. They create a directory if there are entries below
/// it.
fn hidden(archive: &dyn Archive, entry: &Entry) -> Option<&'static str> {
    let is_full = || entry.kind == Kind::Directory && archive.children(Some(entry.path.as_bytes())).next().is_some();
    Writer::<Output>::hidden_reason(entry).filter(|_| !is_full())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::select::Selection;
    use crate::sink::{Destination, NewArchive};
    use crate::stats::Stats;
    use crate::{Sink, Source, convert};
    use nra_format::archive::{Depth, OpenOptions, open, open_path};
    use nra_format::entry::Device;
    use nra_format::path::EntryPath;
    use nra_format::progress::{Recorder, Severity};
    use nra_format::source::MemorySource;

    fn opened(bytes: Vec<u8>) -> Box<dyn Archive> {
        open(Arc::new(MemorySource::new(bytes)) as Arc<_>, &OpenOptions::default()).unwrap()
    }

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nra4").join(name)).unwrap()
    }

    /// Converts an archive and opens the result.
    fn converted(archive: &dyn Archive, keep_going: bool, monitor: &Recorder) -> Result<(Box<dyn Archive>, Stats)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.nra");
        let options = Options { keep_going, ..Options::default() };
        let sink = Sink::Archive(Destination::new_file(&path), NewArchive::Nra4(Nra4Sink::default()));
        let stats = convert(Source::Archive(archive, &Selection::all()), sink, &options, monitor)?;
        Ok((open_path(&path, &OpenOptions::default()).unwrap(), stats))
    }

    #[test]
    fn entries_that_earlier_versions_ignore_are_reported() {
        let mut writer = Writer::create(Cursor::new(Vec::new()), WriterOptions::default()).unwrap();
        for (path, kind) in [
            (&b"bare"[..], Kind::Directory),
            (b"device", Kind::BlockDevice),
            (b"fifo", Kind::Fifo),
            (b"full", Kind::Directory),
            (b"full/file", Kind::File),
            (b"link", Kind::Symlink),
            (b"not UTF-8 \xff", Kind::File),
        ] {
            let mut entry = Entry::new(EntryPath::new(path).unwrap(), kind);
            entry.target = if kind == Kind::Symlink { b"full".as_slice().into() } else { Box::default() };
            entry.device = (kind == Kind::BlockDevice).then_some(Device { major: 8, minor: 1 });
            writer.start_entry(&entry).unwrap();
            writer.finish_entry().unwrap();
        }
        let archive = opened(writer.finish().unwrap().0.into_inner());
        let monitor = Recorder::default();
        let (again, stats) = converted(&*archive, false, &monitor).unwrap();
        let mut warnings: Vec<String> = monitor.take_warnings().iter().map(ToString::to_string).collect();
        warnings.sort();
        let hidden = |path: &str, why: &str| format!("{path}: ignored by nra before version 5: {why}");
        assert_eq!(
            warnings,
            [
                hidden("$'not UTF-8 \\xff'", "its name is not UTF-8"),
                hidden("bare", "it is an empty directory"),
                hidden("device", "it is neither a file nor a directory"),
                hidden("fifo", "it is neither a file nor a directory"),
                hidden("link", "it is a symlink"),
            ]
        );
        assert_eq!((stats.written.entries, again.entry_count()), (7, 7));
    }

    #[test]
    fn keep_going_skips_damaged_entries() {
        let mut bytes = fixture("beta-multiblock.nra");
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        let archive = opened(bytes);
        let monitor = Recorder::default();
        assert!(matches!(converted(&*archive, false, &monitor), Err(Error::Corrupt { .. })));
        let (kept, stats) = converted(&*archive, true, &monitor).unwrap();
        assert_eq!((stats.written.entries, stats.skipped, kept.entry_count()), (2, 1, 2));
        assert!(monitor.take_warnings().iter().any(|warning| warning.severity == Severity::Damage));
        assert!(kept.verify(Depth::Full, None, &monitor).unwrap().damage.is_empty());
    }

    #[test]
    fn write_errors_are_not_damage_of_an_entry() {
        let archive = opened(fixture("beta-multiblock.nra"));
        // Blocks are written once there are two per thread.
        let one_thread = WriterOptions { threads: 1, ..WriterOptions::default() };
        let mut writer = Writer::create(Cursor::new(Vec::new()), one_thread).unwrap();
        writer.fill_table();
        let monitor = Recorder::default();
        let options = Options { keep_going: true, ..Options::default() };
        let mut exporter = Exporter::new(&*archive, None, Engine::Nra4, &options, &monitor).unwrap();
        let mut add_all = || {
            while let Some(export) = exporter.next()? {
                add(&export, &mut exporter, &mut writer)?;
            }
            Ok(())
        };
        let result: Result<()> = add_all();
        assert!(matches!(result, Err(Error::Limit { what: "number of records", .. })));
        assert!(monitor.take_warnings().is_empty());
    }
}
