//! Any archive to one of NRA 4.5, for tools of that version.
//!
//! Entries are read in the order of storage; blocks are compressed side by side. What that version has no field for is kept where its tools
//! skip it, and told entry by entry.

use std::io::{self, Seek, SeekFrom, Write};

use crate::loss::{Container, holes_filled, tell_secrecy, tell_whole};
use crate::outgoing::{Counted, Leaving, Outgoing, OutgoingOptions, OutgoingStats};
use crate::output::{Destination, Output};
use crate::pack::named;
use nra_format::archive::{Archive, Part};
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::nra4::writer::{Writer, WriterOptions};
use nra_format::progress::{Counter, Monitor};

/// How an archive of NRA 4.5 is written.
pub struct EarlierOptions {
    /// Name, compression, key.
    pub writer: WriterOptions,
    /// What is kept, and how far.
    pub outgoing: OutgoingOptions,
}

/// Writes all entries of `archive` into a new archive of NRA 4.5. What tools of that version will not see is kept, and told entry by entry.
///
/// # Errors
///
/// `Usage` for a destination that can only be written in order, or a level that zstd does not have; `Corrupt` for damage (with
/// [`OutgoingOptions::keep_going`] that is a warning); `Limit` for an input beyond its limits or more than the format takes; `Io` when writing
/// fails; `Cancelled`. Then nothing is left under the name of the destination.
pub fn write_earlier(
    archive: &dyn Archive,
    destination: Destination,
    options: EarlierOptions,
    monitor: &dyn Monitor,
) -> Result<OutgoingStats> {
    let mut output = Output::create(destination)?;
    if output.seek(SeekFrom::Start(0)).is_err() {
        let detail = "an archive of NRA 4.5 needs a file: its first bytes are written last".into();
        return Err(Error::Usage { detail });
    }
    let name = output.name().clone();
    let named = |error: Error| named(error, &name);
    let EarlierOptions { writer, outgoing } = options;
    tell_secrecy(archive, writer.key.is_some(), monitor);
    tell_whole(archive, Container::Nra4, monitor);
    let mut from = Outgoing::new(archive, Container::Nra4, &outgoing, monitor)?;
    let mut writer = Writer::create(io::BufWriter::with_capacity(1 << 20, output), writer).map_err(named)?;
    while let Some(leaving) = from.next()? {
        add(&mut from, &leaving, &mut writer).map_err(named)?;
    }
    let (buffered, written) = writer.finish().map_err(named)?;
    let output = buffered.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))?;
    from.publish(Counted::whole(output, written.archive_bytes))
}

/// Adds an entry, or leaves it out.
fn add<W: Write + Seek>(from: &mut Outgoing<'_>, leaving: &Leaving, writer: &mut Writer<W>) -> Result<()> {
    let Leaving { stored, entry, link } = leaving;
    let content = if link.is_none() { stored.size } else { 0 };
    from.count(stored, content)?;
    writer.begin(entry)?;
    let mut has_holes = false;
    if entry.kind == Kind::File {
        // What writing refuses says nothing of the entry that is read.
        let mut refused = None;
        let mut take = |part: Part<'_>| {
            let (written, len) = match part {
                Part::Data(bytes) => (writer.write(bytes), bytes.len() as u64),
                Part::Hole(len) => (writer.hole(len), len),
            };
            has_holes |= matches!(part, Part::Hole(_));
            from.monitor.add(Counter::Bytes, len);
            written.map_err(|error| {
                refused = Some(error);
                Error::Cancelled
            })
        };
        // The content of a hard link was counted with the first of its names.
        let read = if link.is_none() { from.content(stored, &mut take) } else { from.trial(stored, &mut take) };
        if let Some(error) = refused {
            return Err(error);
        }
        if let Err(error) = read {
            writer.abandon();
            return from.leave_out(error, Some((stored, content)));
        }
    }
    writer.end()?;
    if has_holes {
        from.lost(&entry.path, holes_filled(Container::Nra4));
    }
    if let Some(why) = hidden::<W>(from.archive, entry) {
        from.lost(&entry.path, format!("earlier versions will not see it: {why}"));
    }
    from.written();
    Ok(())
}

/// Says why earlier versions will not see an entry; directories they see by what lies below.
fn hidden<W: Write + Seek>(archive: &dyn Archive, entry: &Entry) -> Option<&'static str> {
    let is_full = || entry.kind == Kind::Directory && archive.children(Some(entry.path.as_bytes())).next().is_some();
    Writer::<W>::hides(entry).filter(|_| !is_full())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
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

    /// Converts an archive and opens what comes of it.
    fn converted(archive: &dyn Archive, keep_going: bool, monitor: &Recorder) -> Result<(Box<dyn Archive>, OutgoingStats)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.nra");
        let outgoing = OutgoingOptions { keep_going, ..OutgoingOptions::default() };
        let options = EarlierOptions { writer: WriterOptions::default(), outgoing };
        let destination = Destination::File { path: path.clone(), overwrite: false };
        let stats = write_earlier(archive, destination, options, monitor)?;
        Ok((open_path(&path, &OpenOptions::default()).unwrap(), stats))
    }

    #[test]
    fn entries_that_earlier_versions_do_not_see_are_said() {
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
            writer.begin(&entry).unwrap();
            writer.end().unwrap();
        }
        let archive = opened(writer.finish().unwrap().0.into_inner());
        let monitor = Recorder::default();
        let (again, stats) = converted(&*archive, false, &monitor).unwrap();
        let mut said: Vec<String> = monitor.take_warnings().iter().map(ToString::to_string).collect();
        said.sort();
        let hidden = |path: &str, why: &str| format!("{path}: earlier versions will not see it: {why}");
        assert_eq!(
            said,
            [
                hidden("$'not UTF-8 \\xff'", "its name is not UTF-8"),
                hidden("bare", "it is an empty directory"),
                hidden("device", "it is neither file nor directory"),
                hidden("fifo", "it is neither file nor directory"),
                hidden("link", "it is a symlink"),
            ]
        );
        assert_eq!((stats.entries, again.entry_count()), (7, 7));
    }

    #[test]
    fn damaged_entries_are_left_out_if_wanted() {
        let mut bytes = fixture("beta-multiblock.nra");
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        let archive = opened(bytes);
        let monitor = Recorder::default();
        assert!(matches!(converted(&*archive, false, &monitor), Err(Error::Corrupt { .. })));
        let (kept, stats) = converted(&*archive, true, &monitor).unwrap();
        assert_eq!((stats.entries, stats.left_out, kept.entry_count()), (2, 1, 2));
        assert!(monitor.take_warnings().iter().any(|warning| warning.severity == Severity::Damage));
        assert!(kept.verify(Depth::Full, None, &monitor).unwrap().damage.is_empty());
    }

    #[test]
    fn what_the_writer_refuses_is_no_damage_of_an_entry() {
        let archive = opened(fixture("beta-multiblock.nra"));
        let mut writer = Writer::create(Cursor::new(Vec::new()), WriterOptions::default()).unwrap();
        writer.fill_table();
        let monitor = Recorder::default();
        let options = OutgoingOptions { keep_going: true, ..OutgoingOptions::default() };
        let mut from = Outgoing::new(&*archive, Container::Nra4, &options, &monitor).unwrap();
        // Blocks are written when there are two for each thread.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let mut add_all = || {
            while let Some(leaving) = from.next()? {
                add(&mut from, &leaving, &mut writer)?;
            }
            Ok(())
        };
        let refused: Result<()> = pool.install(&mut add_all);
        assert!(matches!(refused, Err(Error::Limit { what: "number of records", .. })));
        assert!(monitor.take_warnings().is_empty());
    }
}
