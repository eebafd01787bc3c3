//! Archives that were made to look as if they had other recovery data, or other ends, than they have.

use std::sync::Arc;

use super::find::at;
use super::frames::{fill_front, write_frames};
use super::geometry::FRONT_LEN;
use super::group::{count, write_group};
use super::survey::survey;
use super::view::View;
use super::*;
use crate::compact;
use crate::frame::HEADER_LEN;
use crate::head::TAIL_LEN;
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

/// Where recovery data of somebody's making lies in the file, and where the content that holds it does.
const FORGED: usize = 40_000;
const CONTENT: usize = SUPERBLOCK_LEN + HEADER_LEN;

/// Recovery data for whatever is in front of it, without a tail.
fn forged() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = FileStore::open(file.path()).unwrap();
    store.truncate(FORGED as u64).unwrap();
    let geometry = Geometry::choose(FORGED as u64, 100, 1, 256 << 20).unwrap();
    (0..geometry.groups).for_each(|group| write_group(&store, &geometry, group).unwrap());
    write_frames(&store, &geometry, &Recorder::default()).unwrap();
    std::fs::read(file.path()).unwrap()
}

fn add<W: std::io::Write + Send>(writer: &mut Writer<W>, name: &str, bytes: &[u8]) {
    let whole = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: true };
    writer.add(Entry::new(EntryPath::try_from(name).unwrap(), Kind::File), whole).unwrap();
}

/// Two commits, the second with a file of this content, and the end of recovery data that would begin behind the first.
fn with_forged_end(second: &dyn Fn(&Geometry, &[u8]) -> Vec<u8>) -> (MemoryStore, Geometry) {
    let store = MemoryStore::default();
    let options = || WriterOptions { threads: 1, ..WriterOptions::balanced() };
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    add(&mut writer, "old", &[1; 40_000]);
    let first = writer.finish(&Recorder::default()).unwrap().0;
    store.write_all_at(0, &first).unwrap();
    let geometry = Geometry::choose(first.len() as u64, 100, 1, 1 << 20).unwrap();
    let mut writer = Writer::append(Arc::new(store.open()), options()).unwrap();
    add(&mut writer, "new", &second(&geometry, &first));
    writer.finish(&Recorder::default()).unwrap();
    let mut front = vec![0; FRONT_LEN];
    fill_front(&geometry, geometry.frames() - 1, &mut front);
    let place = geometry.tail_place() - FRONT_LEN as u64;
    assert!(store.open().len() < place);
    store.write_all_at(place, &front).unwrap();
    let tail = View::new(&MemorySource::new(first.clone())).tail_before(first.len() as u64).unwrap();
    store.write_all_at(geometry.tail_place(), &tail.encode(geometry.tail_place())).unwrap();
    (store.open(), geometry)
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
    assert!(reader.remarks()[0].contains("belong to nothing"), "{:?}", reader.remarks());
    assert!(reader.info().recovery.is_none() && standing(&*source).unwrap().is_none());
    assert!(matches!(protect(store, 10, 1 << 20, &Recorder::default()), Err(Error::Corrupt { .. })));
    assert!(bytes_of(store) == bytes);
    assert_eq!(find(&*source, &Recorder::default()).unwrap(), None);
    let planned = compact::plan(&source, 9, &WriterOptions::balanced(), &Recorder::default()).unwrap();
    assert_eq!((planned.commits, planned.dropped_commits, planned.recovery_percent), (2, 0, None));
    // Nor does it go where its tail is damaged, too.
    let mut damaged = bytes.clone();
    let is_tail = |window: &[u8]| window.starts_with(b"NRATAIL\n") && window[48] == 2;
    let tail = damaged.windows(TAIL_LEN).position(is_tail).unwrap();
    damaged[tail + 9] ^= 1;
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(damaged));
    let refused = compact::plan(&source, 9, &WriterOptions::balanced(), &Recorder::default());
    assert!(refused.unwrap_err().to_string().contains("that of commit 2 is lost"));
    // An append cuts what belongs to nothing, and nothing else.
    let mut writer = Writer::append(Arc::new(store.open()), WriterOptions::balanced()).unwrap();
    add(&mut writer, "newer", b"newer");
    assert_eq!(writer.finish(&Recorder::default()).unwrap().1.entries, 3);
}

#[test]
fn a_forged_end_does_not_hide_a_later_commit() {
    let (store, geometry) = with_forged_end(&|_, _| b"new".to_vec());
    assert_eq!(end(&store).ok().and_then(|end| end.recovery), Some(geometry));
    assert_commit_2_stays(&store);
}

#[test]
fn content_behind_a_commit_is_no_recovery_data() {
    let content = |geometry: &Geometry, _: &[u8]| {
        let mut content = geometry.encode(0, geometry.protected + HEADER_LEN as u64).to_vec();
        content.extend([7; 3_000]);
        content
    };
    let (store, geometry) = with_forged_end(&content);
    // All but the header is there.
    assert_eq!(at(View::new(&store), geometry.protected).unwrap(), Some(geometry));
    assert_eq!(begins(&store, geometry.protected).unwrap(), None);
    assert_commit_2_stays(&store);
}

#[test]
fn recovery_data_of_an_earlier_commit_that_is_content_restores_nothing() {
    let content = |geometry: &Geometry, first: &[u8]| {
        let store = MemoryStore::default();
        store.write_all_at(0, first).unwrap();
        assert_eq!(protect(&store.open(), 100, 1 << 20, &Recorder::default()).unwrap(), *geometry);
        let bytes = bytes_of(&store);
        bytes[first.len() + HEADER_LEN..first.len() + (bytes.len() - first.len()) / 2].to_vec()
    };
    let (store, geometry) = with_forged_end(&content);
    // It would make the file what it was at the first commit.
    let report = survey(View::new(&store), geometry, &Recorder::default()).unwrap();
    assert!(report.damaged_shards == 0 && report.is_restorable() && !report.is_whole());
    assert_commit_2_stays(&store);
}

#[test]
fn content_that_looks_like_recovery_data_is_none() {
    let file = forged();
    assert!(find(&MemorySource::new(file.clone()), &Recorder::default()).unwrap().is_some());
    let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..WriterOptions::balanced() }).unwrap();
    add(&mut writer, "a", &[&file[CONTENT..], &[1; 999]].concat());
    let archive = writer.finish(&Recorder::default()).unwrap().0;
    assert!(archive[FORGED..].starts_with(&file[FORGED..]));
    for len in [archive.len(), archive.len() - 1, archive.len() - TAIL_LEN] {
        let found = find(&MemorySource::new(archive[..len].to_vec()), &Recorder::default()).unwrap();
        assert_eq!(found, None, "{len} of {} bytes", archive.len());
    }
}
