//! Small archives for tests.

use std::sync::Arc;

use nra_format::archive::{Archive, OpenOptions, open};
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
use nra_format::path::EntryPath;
use nra_format::progress::Recorder;
use nra_format::source::MemorySource;

/// 2026-01-02 03:04:05 UTC.
pub const TIME: Timestamp = Timestamp { seconds: 1_767_323_045, nanoseconds: 0 };

/// Returns an archive of files with their paths as content.
pub fn archive(paths: &[&str]) -> Arc<dyn Archive> {
    with_contents(&paths.iter().map(|path| (*path, path.as_bytes())).collect::<Vec<_>>())
}

/// Returns an archive of files; directories are implied.
pub fn with_contents(files: &[(&str, &[u8])]) -> Arc<dyn Archive> {
    Arc::from(open(Arc::new(MemorySource::new(bytes(files))), &OpenOptions::default()).expect("just written"))
}

/// Returns the bytes of an archive of files; directories are implied.
pub fn bytes(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut files = files.to_vec();
    let path = |text: &str| EntryPath::try_from(text).expect("a valid path");
    files.sort_by_key(|(name, _)| path(name));
    let mut writer = Writer::create(Vec::new(), WriterOptions::default()).expect("memory takes it");
    for (name, bytes) in files {
        let mut entry = Entry::new(path(name), Kind::File);
        entry.modified = Some(TIME);
        let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
        writer.add(entry, content).expect("paths are in order");
    }
    writer.finish(&Recorder::default()).expect("memory takes it").0
}
