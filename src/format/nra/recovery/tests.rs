//! Archives that imitate other recovery data or another end.

use std::sync::Arc;

use super::check::check_groups;
use super::find::{at, search};
use super::frames::{fill_frame_start, write_frames};
use super::group::{count, write_group};
use super::header::FRAME_START_LEN;
use super::view::View;
use super::*;
use crate::compact;
use crate::footer::FOOTER_LEN;
use crate::frame::HEADER_LEN;
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::NraReader;
use crate::writer::{NewContent, Writer, WriterOptions};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::Error;
use nra_core::path::EntryPath;
use nra_core::progress::Recorder;
use nra_core::source::{FileStore, MemorySource, MemoryStore, ReadAt, Store};

/// Offset of forged recovery data, and of the content that holds it.
const FORGED: usize = 40_000;
const CONTENT: usize = SUPERBLOCK_LEN + HEADER_LEN;

/// Returns recovery data for the bytes before it, without a footer.
fn forged() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = FileStore::open(file.path()).unwrap();
    store.truncate(FORGED as u64).unwrap();
    let recovery_header = RecoveryHeader::choose(FORGED as u64, 100, 1, 256 << 20).unwrap();
    (0..recovery_header.groups).for_each(|group| write_group(&store, &recovery_header, group).unwrap());
    write_frames(&store, &recovery_header, &Recorder::default()).unwrap();
    std::fs::read(file.path()).unwrap()
}

fn add<W: std::io::Write + Send>(writer: &mut Writer<W>, name: &str, bytes: &[u8]) {
    let whole = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: true };
    writer.add(Entry::new(EntryPath::try_from(name).unwrap(), Kind::File), whole).unwrap();
}

/// Two commits. The second holds a file with this content and the end of recovery data that would
/// start after the first.
fn with_forged_end(second: &dyn Fn(&RecoveryHeader, &[u8]) -> Vec<u8>) -> (MemoryStore, RecoveryHeader) {
    let store = MemoryStore::default();
    let options = || WriterOptions { threads: 1, ..WriterOptions::balanced() };
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    add(&mut writer, "old", &[1; 40_000]);
    let first = writer.finish(&Recorder::default()).unwrap().0;
    store.write_all_at(0, &first).unwrap();
    let recovery_header = RecoveryHeader::choose(first.len() as u64, 100, 1, 1 << 20).unwrap();
    let mut writer = Writer::append(Arc::new(store.open()), options()).unwrap();
    add(&mut writer, "new", &second(&recovery_header, &first));
    writer.finish(&Recorder::default()).unwrap();
    let mut front = vec![0; FRAME_START_LEN];
    fill_frame_start(&recovery_header, recovery_header.frames() - 1, &mut front);
    let place = recovery_header.footer_offset() - FRAME_START_LEN as u64;
    assert!(store.open().len() < place);
    store.write_all_at(place, &front).unwrap();
    let footer = View::new(&MemorySource::new(first.clone())).footer_before(first.len() as u64).unwrap();
    store.write_all_at(recovery_header.footer_offset(), &footer.encode(recovery_header.footer_offset())).unwrap();
    (store.open(), recovery_header)
}

fn bytes_of(store: &MemoryStore) -> Vec<u8> {
    let store = store.open();
    let mut bytes = vec![0; count(store.len())];
    store.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn assert_commit_2_stays(store: &MemoryStore) {
    let bytes = bytes_of(store);
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(bytes.clone()));
    let reader = NraReader::open(Arc::clone(&source), &OpenOptions::default()).unwrap();
    assert!(reader.find(b"new").unwrap().is_some() && reader.info().commit == Some(2));
    assert!(reader.remarks()[0].contains("belong to no commit"), "{:?}", reader.remarks());
    assert!(reader.info().recovery.is_none() && find_current(&*source).unwrap().is_none());
    assert!(matches!(protect(store, 10, 1 << 20, &Recorder::default()), Err(Error::Corrupt { .. })));
    assert!(bytes_of(store) == bytes);
    assert_eq!(search(&*source, &Recorder::default()).unwrap(), None);
    let planned = compact::plan(&source, 9, &WriterOptions::balanced(), &Recorder::default()).unwrap();
    assert_eq!((planned.commits, planned.dropped_commits, planned.recovery_percent), (2, 0, None));
    // Nor is it lost if its footer is damaged, too.
    let mut damaged = bytes.clone();
    let is_footer = |window: &[u8]| window.starts_with(b"NRATAIL\n") && window[48] == 2;
    let footer = damaged.windows(FOOTER_LEN).position(is_footer).unwrap();
    damaged[footer + 9] ^= 1;
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(damaged));
    let refused = compact::plan(&source, 9, &WriterOptions::balanced(), &Recorder::default());
    assert!(refused.unwrap_err().to_string().contains("the footer of commit 2 is lost"));
    // An append cuts off stray bytes and nothing else.
    let mut writer = Writer::append(Arc::new(store.open()), WriterOptions::balanced()).unwrap();
    add(&mut writer, "newer", b"newer");
    assert_eq!(writer.finish(&Recorder::default()).unwrap().1.entries, 3);
}

#[test]
fn forged_footer_does_not_hide_a_later_commit() {
    let (store, recovery_header) = with_forged_end(&|_, _| b"new".to_vec());
    assert_eq!(read_end(&store).ok().and_then(|end| end.recovery), Some(recovery_header));
    assert_commit_2_stays(&store);
}

#[test]
fn content_after_a_commit_is_not_taken_for_recovery_data() {
    let content = |recovery_header: &RecoveryHeader, _: &[u8]| {
        let mut content = recovery_header.encode(0, recovery_header.protected + HEADER_LEN as u64).to_vec();
        content.extend([7; 3_000]);
        content
    };
    let (store, recovery_header) = with_forged_end(&content);
    // Everything except the header is there.
    assert_eq!(at(View::new(&store), recovery_header.protected).unwrap(), Some(recovery_header));
    assert_eq!(find_at(&store, recovery_header.protected).unwrap(), None);
    assert_commit_2_stays(&store);
}

#[test]
fn stored_copy_of_old_recovery_data_restores_nothing() {
    let content = |recovery_header: &RecoveryHeader, first: &[u8]| {
        let store = MemoryStore::default();
        store.write_all_at(0, first).unwrap();
        assert_eq!(protect(&store.open(), 100, 1 << 20, &Recorder::default()).unwrap(), *recovery_header);
        let bytes = bytes_of(&store);
        bytes[first.len() + HEADER_LEN..first.len() + (bytes.len() - first.len()) / 2].to_vec()
    };
    let (store, recovery_header) = with_forged_end(&content);
    // Restoring would revert the file to the first commit.
    let report = check_groups(View::new(&store), recovery_header, &Recorder::default()).unwrap();
    assert!(report.damaged_shards == 0 && report.is_restorable() && !report.is_whole());
    assert_commit_2_stays(&store);
}

#[test]
fn content_that_imitates_recovery_data_is_ignored() {
    let file = forged();
    assert!(search(&MemorySource::new(file.clone()), &Recorder::default()).unwrap().is_some());
    let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..WriterOptions::balanced() }).unwrap();
    add(&mut writer, "a", &[&file[CONTENT..], &[1; 999]].concat());
    let archive = writer.finish(&Recorder::default()).unwrap().0;
    assert!(archive[FORGED..].starts_with(&file[FORGED..]));
    for len in [archive.len(), archive.len() - 1, archive.len() - FOOTER_LEN] {
        let found = search(&MemorySource::new(archive[..len].to_vec()), &Recorder::default()).unwrap();
        assert_eq!(found, None, "{len} of {} bytes", archive.len());
    }
}
