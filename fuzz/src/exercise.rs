//! All operations on an archive, and what must hold for any archive.

use std::sync::{Arc, Once};

use nra::format::archive::{Access, Archive, Depth, OpenOptions, Part, Verdict, open as open_source};
use nra::format::entry::Entry;
use nra::format::error::Result;
use nra::format::describe::MAX_ROWS;
use nra::format::path::is_unsafe_to_show;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;

/// Most content that is read, bytes.
pub const MAX_CONTENT: u64 = 1 << 20;
/// Most entries that are visited.
const MAX_ENTRIES: usize = 300;

/// Opens an archive in memory.
pub fn open(bytes: Vec<u8>) -> Result<Box<dyn Archive>> {
    let mut options = OpenOptions::default();
    options.cache_bytes = 32 << 20;
    open_source(Arc::new(MemorySource::new(bytes)), &options)
}

/// Returns options that limit the memory for caches and the index.
pub fn limited_options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.cache_bytes = 32 << 20;
    options.index_bytes = 64 << 20;
    options
}

/// Checks the remarks of an archive, exercises it, and verifies it in both ways.
pub fn check_archive(archive: &dyn Archive) {
    archive.info().remarks.iter().for_each(|remark| check_text(remark));
    exercise(archive);
    let _ = verify(archive, Depth::Quick);
    let _ = verify(archive, Depth::Full);
}

/// Verifies an archive, on this thread.
pub fn verify(archive: &dyn Archive, depth: Depth) -> Result<Verdict> {
    static ONE_THREAD: Once = Once::new();
    ONE_THREAD.call_once(|| {
        // Idle worker threads cost more than the work.
        rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global().expect("it is built once");
    });
    let verdict = archive.verify(depth, None, &Recorder::default())?;
    for damage in &verdict.damage {
        check_text(&damage.structure);
        check_text(&damage.detail);
    }
    Ok(verdict)
}

/// Asserts that a message contains no characters that control a terminal.
pub fn check_text(text: &str) {
    assert!(!text.chars().any(is_unsafe_to_show), "{text:?}");
}

/// Returns a value. Of an error, only the message is checked.
fn checked<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|error| check_text(&error.to_string())).ok()
}

/// Reads the content of an entry in one way. Returns `None` if that fails or it is too long.
pub fn content_of(archive: &dyn Archive, entry: &Entry, access: Option<Access>) -> Option<Vec<u8>> {
    let Some(access) = access else { return checked(archive.read_all(entry, MAX_CONTENT)) };
    if entry.size > MAX_CONTENT {
        return None;
    }
    let mut content = Vec::new();
    let read = archive.with_content(entry, access, &mut |part| {
        match part {
            Part::Data(bytes) => content.extend_from_slice(bytes),
            Part::Hole(len) => content.resize(content.len() + usize::try_from(len).expect("not longer than the entry"), 0),
        }
        assert!(content.len() as u64 <= entry.size, "more than the size of the entry");
        Ok(())
    });
    checked(read).map(|()| content)
}

/// Lists, looks up and reads an archive in every way, and compares the results.
pub fn exercise(archive: &dyn Archive) {
    let count = archive.entry_count();
    let _ = checked(archive.totals(0..count));
    let _ = checked(archive.totals(count / 3..count / 2));
    for (listed, number) in archive.entries(0..count).take(MAX_ENTRIES).zip(0u64..) {
        let Some(entry) = checked(listed) else { continue };
        describe(archive, Some(&entry));
        survey(archive, &entry);
        // Neighbors behave alike, so some stand for all.
        if number < 8 || number % 8 == 0 {
            check_content(archive, &entry);
            look_up(archive, &entry, number);
        } else {
            let _ = content_of(archive, &entry, None);
        }
    }
    for child in archive.children(None).take(MAX_ENTRIES) {
        if let Some(child) = checked(child) {
            assert_eq!(child.path.parent(), None);
        }
    }
    for path in [&b"a"[..], b"d/text", b"\xff", b"many/042.json/x"] {
        let _ = checked(archive.find(path));
        let _ = checked(archive.subtree(Some(path)));
    }
    archive.remarks().iter().for_each(|remark| check_text(remark));
    describe(archive, None);
}

/// Requests the header fields of an entry or of the archive.
fn describe(archive: &dyn Archive, entry: Option<&Entry>) {
    if let Some(Some(table)) = checked(archive.describe(entry)) {
        assert!(table.rows.len() <= MAX_ROWS && table.rows.len() as u64 <= table.row_count);
        assert!(table.rows.iter().all(|row| row.len() == table.heads.len()), "{table:?}");
    }
}

/// Requests the location of the content of an entry. Content is not read.
fn survey(archive: &dyn Archive, entry: &Entry) {
    let _ = checked(archive.stored_bytes(entry));
    if let Some(holes) = checked(archive.holes(entry)) {
        assert!(holes.iter().all(|hole| hole.start < hole.end && hole.end <= entry.size), "{holes:?}");
        assert!(holes.is_sorted_by_key(|hole| hole.start), "{holes:?}");
    }
    if let Some(Some((runs, count))) = checked(archive.runs(entry, 8)) {
        assert!(runs.len() as u64 == count.min(8));
    }
}

/// Looks up a listed entry and everything below it.
fn look_up(archive: &dyn Archive, entry: &Entry, number: u64) {
    if let Some(Some((found, again))) = checked(archive.find(entry.path.as_bytes())) {
        assert_eq!(again.path, entry.path);
        assert!(found < archive.entry_count());
    }
    let _ = checked(archive.entry(number));
    if let Some(range) = checked(archive.subtree(Some(entry.path.as_bytes()))) {
        let _ = checked(archive.totals(range));
    }
    for child in archive.children(Some(entry.path.as_bytes())).take(20) {
        if let Some(child) = checked(child) {
            assert!(child.path.is_below(&entry.path));
        }
    }
    if entry.size <= MAX_CONTENT {
        let _ = checked(archive.digest(entry));
    }
}

/// Reads content in every way. Two successful ways return the same bytes.
fn check_content(archive: &dyn Archive, entry: &Entry) {
    let ways = [None, Some(Access::Random), Some(Access::Sequential)];
    let contents: Vec<Vec<u8>> = ways.into_iter().filter_map(|way| content_of(archive, entry, way)).collect();
    let Some(first) = contents.first() else { return };
    assert_eq!(first.len() as u64, entry.size, "{entry:?}");
    assert!(contents.iter().all(|other| other == first), "different content by different ways: {entry:?}");
    let middle = first.len() / 2;
    let mut part = vec![0xa5; 64];
    if let Some(read) = checked(archive.read_at(entry, middle as u64, &mut part)) {
        assert_eq!(&part[..read], &first[middle..(middle + 64).min(first.len())], "a part of {entry:?}");
    }
    assert_eq!(checked(archive.read_at(entry, entry.size, &mut part)).unwrap_or(0), 0, "past the end");
}
