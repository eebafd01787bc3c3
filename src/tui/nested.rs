//! Nested archives, opened in memory.

use std::sync::Arc;

use nra_format::archive::{self, Archive, OpenOptions};
use nra_format::crypt::Secret;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::source::MemorySource;

pub const MAX_DEPTH: usize = 4;
/// Cache for decoded blocks of a nested archive, bytes.
const CACHE: u64 = 16 << 20;
/// Extensions of files that are tried as archives.
const EXTENSIONS: [&str; 19] = [
    ".nra", ".zip", ".jar", ".whl", ".epub", ".npz", ".tar", ".tgz", ".tbz2", ".txz", ".tzst", ".gz", ".bz2", ".xz", ".zst",
    ".lz4", ".lzma", ".shard", ".7z",
];

/// Returns whether the name of a file suggests an archive. Opening it detects the format.
pub fn may_be_archive(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    EXTENSIONS.iter().any(|extension| name.ends_with(extension.as_bytes()))
}

/// Opens the content of an entry as an archive in memory. The content, and a decompressed stream in
/// it, have at most `limit` bytes.
pub fn open(outer: &dyn Archive, entry: &Entry, key: Option<Secret>, limit: u64) -> Result<Arc<dyn Archive>> {
    if entry.size > limit {
        return Err(Error::Limit { what: "length of an archive that is opened within another one", found: entry.size, limit });
    }
    let bytes = outer.read_all(entry, limit)?;
    let options = OpenOptions { cache_bytes: CACHE, index_bytes: limit, stream_limit: limit, key, ..OpenOptions::default() };
    archive::open(Arc::new(MemorySource::named(bytes, entry.path.as_bytes())), &options).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn nested_archive_is_detected_from_content() {
        let inner = sample::bytes(&[("deep/file", b"hello")]);
        let outer = sample::with_contents(&[("in.nra", &inner), ("not.zip", b"text")]);
        let (entry, other) = (outer.entry(0).unwrap(), outer.entry(1).unwrap());
        let limit = inner.len() as u64;
        let archive = open(&*outer, &entry, None, limit).unwrap();
        let (_, file) = archive.find(b"deep/file").unwrap().unwrap();
        assert_eq!(archive.read_all(&file, 100).unwrap(), b"hello");
        assert!(may_be_archive(b"IN.NRA") && may_be_archive(b"a.tar.gz") && !may_be_archive(b"a.txt"));
        assert!(matches!(open(&*outer, &other, None, limit), Err(Error::NotAnArchive { .. })));
        assert!(matches!(open(&*outer, &entry, None, limit - 1), Err(Error::Limit { .. })));
    }
}
