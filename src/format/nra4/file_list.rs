//! A list of the files of a manifest that has only names and sizes, as almost all have.
//!
//! The list answers a few look-ups itself. For more, it is converted to a table.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::manifest::LINEAR_LOOKUPS;
use nra_core::entry::{Kind, Metadata};
use nra_core::error::Result;
use nra_core::limits::MAX_OFFSET;
use nra_core::path;
use nra_core::table::{Duplicates, Table, TableBuilder, TableEntry};

/// Names and sizes of the files of a manifest, by number. Each name is a valid path.
pub(super) struct FileList {
    /// Limit for the memory of a table of these files, bytes.
    limit: u64,
    /// The names, concatenated.
    paths: Vec<u8>,
    /// For each file, the end of its name in `paths`.
    ends: Vec<u32>,
    sizes: Vec<u64>,
    slashes: u64,
    content_bytes: u64,
    /// Number of look-ups so far.
    lookups: AtomicUsize,
}

impl FileList {
    /// Creates an empty list. A table of its files will have at most `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let (paths, ends, sizes) = (Vec::new(), Vec::new(), Vec::new());
        Self { limit, paths, ends, sizes, slashes: 0, content_bytes: 0, lookups: AtomicUsize::new(0) }
    }

    /// Reserves memory for `count` more files.
    pub(super) fn reserve(&mut self, count: usize) {
        self.ends.reserve(count);
        self.sizes.reserve(count);
        // Names are often about 20 bytes long. Unused memory is never touched.
        self.paths.reserve(count.saturating_mul(24));
    }

    /// Returns the number of files that fit into the reserved memory.
    pub(super) fn free_capacity(&self) -> usize {
        self.ends.capacity() - self.ends.len()
    }

    /// Adds the next file. Returns `false` without adding it if its name is not a valid path or if a table
    /// might exceed the limit.
    pub(super) fn add(&mut self, name: &[u8], size: u64) -> bool {
        let Ok(end) = u32::try_from(self.paths.len() + name.len()) else { return false };
        let content_bytes = self.content_bytes.saturating_add(size);
        if content_bytes > MAX_OFFSET || path::check(name).is_err() {
            return false;
        }
        let slashes = self.slashes + name.iter().filter(|&&byte| byte == b'/').count() as u64;
        // Each slash may imply a directory, which needs two rows while it is added. All share two metadata.
        let rows = (self.ends.len() as u64 + 1).saturating_add(slashes.saturating_mul(2));
        let table = Table::bytes(end.into(), rows).saturating_add(4 * size_of::<Metadata>() as u64);
        if table > self.limit {
            return false;
        }
        self.paths.extend_from_slice(name);
        self.ends.push(end);
        self.sizes.push(size);
        (self.slashes, self.content_bytes) = (slashes, content_bytes);
        true
    }

    /// Returns the number and the size of the file with this path.
    ///
    /// Returns `None` if a table must answer: there is no such file, several have this path, others are
    /// below it, or there were too many look-ups.
    pub(super) fn find(&self, path: &[u8]) -> Option<(u64, u64)> {
        if self.lookups.fetch_add(1, Ordering::Relaxed) >= LINEAR_LOOKUPS {
            return None;
        }
        let mut found = None;
        for (number, (name, size)) in self.iter().enumerate() {
            match name.strip_prefix(path) {
                Some([]) if found.is_none() => found = Some((number as u64, size)),
                Some([] | [b'/', ..]) => return None,
                _ => {}
            }
        }
        found
    }

    /// Returns a table builder with these files and their positions.
    pub(super) fn to_table(&self, limit: u64, position: impl Fn(u64) -> (u64, u64)) -> Result<TableBuilder> {
        let mut table = TableBuilder::new(Duplicates::KeepFirst, limit);
        table.reserve(self.ends.len());
        let metadata = Arc::clone(&TableEntry::new(Kind::File).metadata);
        for (number, (name, size)) in self.iter().enumerate() {
            let number = number as u64;
            let common = TableEntry::with_metadata(Kind::File, Arc::clone(&metadata));
            table.add(name, TableEntry { number, size, place: position(number), ..common })?;
        }
        Ok(table)
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let mut start = 0;
        self.ends.iter().zip(&self.sizes).map(move |(&end, &size)| {
            let name = &self.paths[start..end as usize];
            start = end as usize;
            (name, size)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde::Serialize;

    use super::super::extra_metadata::ExtraRecord;
    use super::super::header::{HEADER_LEN, Header};
    use super::super::manifest::MESSAGEPACK_PREFIX;
    use super::super::{Nra4, open};
    use super::*;
    use nra_core::archive::{Archive, OpenOptions};
    use nra_core::crypt::Secret;
    use nra_core::entry::Entry;
    use nra_core::path::EntryPath;
    use nra_core::source::{MemorySource, ReadAt};
    use nra_core::table::{TableArchive, TableBackend as _};

    /// A record of a file, encoded as a map.
    #[derive(Serialize)]
    struct Record {
        id: String,
        original_size: u64,
        chunks: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        nra5: Option<ExtraRecord>,
    }

    impl Record {
        fn plain((id, original_size): &(String, u64)) -> Self {
            Self { id: id.clone(), original_size: *original_size, chunks: Vec::new(), nra5: None }
        }
    }

    /// Returns an archive with these files, without content.
    fn archive(files: &[Record], as_json: bool) -> Arc<dyn ReadAt> {
        let no_chunks: [u8; 0] = [];
        let summary = ("name", files.len(), 0, 1.0, 0, 0, false);
        let manifest = if as_json {
            serde_json::to_vec(&serde_json::json!({"summary": summary, "chunk_table": no_chunks, "files": files})).unwrap()
        } else {
            [MESSAGEPACK_PREFIX.to_vec(), rmp_serde::to_vec_named(&("4.5", summary, no_chunks, files)).unwrap()].concat()
        };
        let header = Header { manifest_offset: HEADER_LEN, manifest_len: manifest.len() as u64 };
        Arc::new(MemorySource::new([header.encode(HEADER_LEN).to_vec(), manifest].concat()))
    }

    fn opened(source: &Arc<dyn ReadAt>) -> TableArchive<Nra4> {
        let key = Secret::user_key(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        open(source, &OpenOptions { key: Some(key), ..OpenOptions::default() }).unwrap()
    }

    fn files() -> impl Strategy<Value = Vec<(String, u64)>> {
        let size = prop_oneof![8 => 0u64..9, 1 => MAX_OFFSET / 2..=MAX_OFFSET];
        proptest::collection::vec(("[/.ab\0]{0,5}|[ab]/[ab]|[ab]|[ab]", size), 0..12)
    }

    proptest! {
        #[test]
        fn find_returns_the_same_entry_with_and_without_table(
            files in proptest::collection::vec(("[/.ab\0]{0,5}|[ab]/[ab]|[ab]|[a-d]{3}", 0u64..9), 0..12),
            directory in proptest::option::weighted(0.2, 0usize..12),
            path in "[/.ab]{0,5}|[ab]/[ab]|[ab]",
            as_json in any::<bool>(),
        ) {
            let mut records: Vec<Record> = files.iter().map(Record::plain).collect();
            if let Some(at) = directory {
                let entry = Entry::new(EntryPath::new(&b"a"[..]).unwrap(), Kind::Directory);
                let record = Record { nra5: Some(ExtraRecord::of(&entry)), ..Record::plain(&("a".to_owned(), 0)) };
                records.insert(at.min(records.len()), record);
            }
            // Records of other kinds contain byte strings, which JSON does not have.
            let source = archive(&records, as_json && directory.is_none());
            let with_table = opened(&source);
            prop_assert!(with_table.entry_count() >= with_table.info().files);
            let many = opened(&source);
            for path in files.iter().map(|(name, _)| name.as_bytes()).chain([path.as_bytes()]) {
                let expected = with_table.find(path).unwrap().map(|(_, entry)| entry);
                prop_assert_eq!(opened(&source).find_entry(path).unwrap(), expected.clone());
                prop_assert_eq!(many.find_entry(path).unwrap(), expected);
            }
        }

        #[test]
        fn table_of_accepted_names_is_within_the_limit(files in files(), limit in 0u64..4_000) {
            let mut names = FileList::new(limit);
            if files.iter().all(|(name, size)| names.add(name.as_bytes(), *size)) {
                let finished = names.to_table(limit, |_| (0, 0)).and_then(TableBuilder::finish);
                prop_assert!(finished.is_ok_and(|table| table.remarks().iter().all(|remark| !remark.contains("absolute"))));
            }
        }
    }

    #[test]
    fn find_returns_the_same_entry_with_and_without_table_in_all_fixtures() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/nra4");
        let mut found_without_table = 0;
        for file in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(std::fs::read(file.path()).unwrap()));
            if Header::read(&*source).ok().flatten().is_none() {
                continue;
            }
            let with_table = opened(&source);
            for entry in with_table.entries(0..with_table.entry_count()).map(Result::unwrap) {
                let path = entry.path.as_bytes();
                let archive = opened(&source);
                let found = archive.find_entry(path).unwrap().unwrap();
                assert_eq!(found, entry, "{}", file.path().display());
                if entry.kind == Kind::File {
                    let read = |archive: &dyn Archive| archive.read_all(&found, 1 << 30).map_err(|error| error.to_string());
                    assert_eq!(read(&archive), read(&with_table));
                    found_without_table += usize::from(opened(&source).members().find(path).is_some());
                }
            }
        }
        assert!(found_without_table > 20, "{found_without_table} files were found without a table");
    }

    #[test]
    fn find_leaves_ambiguous_names_and_many_lookups_to_a_table() {
        let names = |list: &[&str]| {
            let mut names = FileList::new(1 << 20);
            assert!(list.iter().all(|name| names.add(name.as_bytes(), 1)));
            names
        };
        assert_eq!(names(&["a/b", "b", "bc"]).find(b"b"), Some((1, 1)));
        for other in [names(&["b", "a", "b"]), names(&["b", "b/c"]), names(&["b/c", "b"]), names(&["a"]), names(&["b/c"])] {
            assert_eq!(other.find(b"b"), None);
        }
        for invalid in ["", "/a", "a/", "./a", "a//b", "..", "a\0"] {
            assert!(!FileList::new(1 << 20).add(invalid.as_bytes(), 1), "{invalid}");
        }
        let many = names(&["a"]);
        let found = (0..2 * LINEAR_LOOKUPS).filter(|_| many.find(b"a").is_some()).count();
        assert_eq!(found, LINEAR_LOOKUPS);
    }
}
