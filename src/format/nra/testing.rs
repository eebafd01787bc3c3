//! Archives and assertions shared by the tests of several crates.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::Path;
use std::sync::Arc;

use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind, Metadata};
use nra_core::error::Result;
use nra_core::links::NO_LINK;
use nra_core::path::EntryPath;
use nra_core::progress::{Recorder, Severity};
use nra_core::source::{FileSource, ReadAt};

use crate::reader::NraReader;
use crate::writer::{NewContent, Writer, WriterOptions};

/// Returns an archive with one link group in which only `a` and `b` are hard links of each other.
/// `c` has other content and `d` another mode.
pub fn archive_with_false_links() -> Vec<u8> {
    let options = WriterOptions { reproducible: true, threads: 1, ..WriterOptions::balanced() };
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    let file = |path: &str| Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
    let whole = |bytes| NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
    let a = writer.add(file("a"), whole(b"a true one")).unwrap();
    writer.add_link(file("b"), a).unwrap();
    let c = writer.add(file("c"), whole(b"of another")).unwrap();
    let metadata = Arc::new(Metadata { mode: 0o600, ..Metadata::default() });
    let d = writer.add(Entry { metadata, ..file("d") }, whole(b"a true one")).unwrap();
    [c, d].into_iter().for_each(|id| writer.force_group(id, 1));
    writer.finish(&Recorder::default()).unwrap().0
}

/// Opens an archive of this engine as the registry does.
pub fn open(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Box<dyn Archive>> {
    Ok(Box::new(NraReader::open(source, options)?))
}

/// Opens an archive file of this engine.
pub fn open_path(path: &Path, options: &OpenOptions) -> Result<Box<dyn Archive>> {
    open(Arc::new(FileSource::open(path)?), options)
}

/// Asserts links, modes and content of an archive made from [`archive_with_false_links`].
pub fn assert_links_kept(archive: &dyn Archive) {
    assert_eq!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
    let entries: Vec<Entry> = archive.entries(0..archive.entry_count()).map(Result::unwrap).collect();
    let groups: Vec<u64> = entries.iter().map(|entry| entry.link_group).collect();
    assert!(groups[0] != 0 && groups == [groups[0], groups[0], 0, 0], "{groups:?}");
    let contents: Vec<Vec<u8>> = entries.iter().map(|entry| archive.read_all(entry, 100).unwrap()).collect();
    assert_eq!(contents, [b"a true one", b"a true one", b"of another", b"a true one"]);
    let modes: Vec<u16> = entries.iter().map(|entry| entry.metadata.mode).collect();
    assert_eq!(modes, [0o644, 0o644, 0o644, 0o600]);
}

/// Asserts that `c` and `d` were reported, and nothing else.
pub fn assert_links_reported(monitor: &Recorder) {
    let reported: Vec<_> =
        monitor.take_warnings().into_iter().map(|reported| (reported.path, reported.message, reported.severity)).collect();
    assert_eq!(reported, [b"c", b"d"].map(|path| (path.to_vec(), NO_LINK.to_owned(), Severity::Degraded)));
}

#[cfg(test)]
mod tests {
    use nra_core::source::MemorySource;

    use super::*;
    #[test]
    fn verify_reports_entries_with_false_links() {
        let source = Arc::new(MemorySource::new(archive_with_false_links()));
        let archive = NraReader::open(source, &OpenOptions::default()).unwrap();
        let damage = archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].entries.iter().map(ToString::to_string).collect::<Vec<_>>(), ["c", "d"]);
    }
}
