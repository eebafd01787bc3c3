//! Earlier commits: content, listing and broken chains.

use std::sync::Arc;

use crate::reader::tests::build::{Builder, path, small, text};
use nra_core::archive::{Archive, CommitInfo, Depth, OpenOptions};
use nra_core::codec::Method;
use nra_core::entry::Timestamp;
use nra_core::error::{Error, Result};
use nra_core::progress::Recorder;
use nra_core::source::{MemorySource, RecordingSource};
use nra_core::testing::noise;

/// Paths and sizes of all entries.
type List = Vec<(String, u64)>;

/// Three commits: `small`, one file added, one file removed and other content. Also returns the
/// listing and end of each.
fn three() -> (Vec<u8>, Vec<List>, Vec<u64>) {
    let mut builder = small();
    let (mut lists, mut ends) = (vec![list(&builder)], vec![builder.bytes.len() as u64]);
    builder.note_slot();
    builder.commit.message = "second".into();
    builder.commit.time = Some(Timestamp { seconds: 5, nanoseconds: 6 });
    builder.block(Method::zstd(3), &[("new", &text(70_000, 5))]);
    builder.commit();
    lists.push(list(&builder));
    ends.push(builder.bytes.len() as u64);
    builder.note_slot();
    builder.commit.message = String::new();
    builder.entries.remove(&path("raw3"));
    builder.block(Method::NONE, &[("t3", b"changed")]);
    builder.commit();
    lists.push(list(&builder));
    ends.push(builder.bytes.len() as u64);
    (builder.bytes, lists, ends)
}

fn list(builder: &Builder) -> List {
    builder.entries.values().map(|entry| (entry.path.to_string(), entry.size)).collect()
}

fn open_at(bytes: &[u8], number: u64) -> Result<Box<dyn Archive>> {
    let options = OpenOptions { commit: Some(number), ..OpenOptions::default() };
    crate::testing::open(Arc::new(MemorySource::new(bytes.to_vec())), &options)
}

#[test]
fn every_commit_reads_as_written() {
    let (bytes, lists, _) = three();
    for (number, expected) in (1..).zip(&lists) {
        let archive = open_at(&bytes, number).unwrap();
        let found: List = archive
            .entries(0..archive.entry_count())
            .map(|entry| entry.map(|entry| (entry.path.to_string(), entry.size)).unwrap())
            .collect();
        assert_eq!(found, *expected);
        assert_eq!(archive.info().commit, Some(number));
        let verdict = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
        assert_eq!(verdict.damage, []);
        let (_, changed) = archive.find(b"t3").unwrap().unwrap();
        assert_eq!(archive.read_all(&changed, 100).unwrap() == b"changed", number == 3);
    }
}

#[test]
fn history_starts_at_the_open_commit() {
    let (bytes, lists, ends) = three();
    let commits = |number| open_at(&bytes, number).unwrap().commits().collect::<Result<Vec<CommitInfo>>>().unwrap();
    let all = commits(3);
    assert_eq!(all.iter().map(|commit| commit.number).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(commits(2), all[1..]);
    assert_eq!(all[1].message, "second");
    assert_eq!(all[1].time, Some(Timestamp { seconds: 5, nanoseconds: 6 }));
    assert_eq!(all[1].entries, lists[1].len() as u64);
    assert_eq!(all[1].files, all[2].files + 1);
    assert_eq!(all[1].content_bytes, all[2].content_bytes + 70_000);
    assert_eq!(all.iter().map(|commit| commit.added_bytes).collect::<Vec<_>>(), [ends[2] - ends[1], ends[1] - ends[0], ends[0]]);
}

#[test]
fn missing_commit_is_rejected_with_the_available_range() {
    let refused = |bytes: &[u8], number| open_at(bytes, number).err().unwrap().to_string();
    let bytes = three().0;
    assert_eq!(refused(&bytes, 4), "there is no commit 4; the archive has commits 1 to 3");
    assert_eq!(refused(&bytes, 0), "there is no commit 0; the archive has commits 1 to 3");
    assert_eq!(refused(&small().bytes, 2), "there is no commit 2; the archive has only commit 1");
}

#[test]
fn damaged_commit_ends_the_history_only() {
    let (mut bytes, lists, ends) = three();
    let payload = usize::try_from(ends[0]).unwrap() - 64 - 100;
    bytes[payload] ^= 1;
    let commits: Vec<Result<CommitInfo>> = open_at(&bytes, 3).unwrap().commits().collect();
    assert_eq!(commits.len(), 3);
    assert!(matches!(commits[2], Err(Error::Corrupt { .. })));
    assert_eq!(open_at(&bytes, 2).unwrap().entry_count(), lists[1].len() as u64);
    assert!(matches!(open_at(&bytes, 1), Err(Error::Corrupt { .. })));
}

#[test]
fn inconsistent_commit_chain_is_rejected() {
    let attempt = |change: &dyn Fn(&mut Builder)| {
        let mut builder = small();
        change(&mut builder);
        builder.commit();
        let commits: Vec<Result<CommitInfo>> = open_at(&builder.bytes, builder.commit.number - 1).unwrap().commits().collect();
        (commits.len(), matches!(commits.last(), Some(Err(Error::Corrupt { .. }))))
    };
    assert_eq!(attempt(&|_| {}), (2, false));
    assert_eq!(attempt(&|builder| builder.commit.number = 7), (2, true));
    assert_eq!(attempt(&|builder| builder.commit.archive_id = [9; 16]), (2, true));
}

#[test]
fn earlier_commit_is_located_with_one_read() {
    let mut builder = small();
    let first = list(&builder);
    builder.block(Method::NONE, &[("much", &noise(300_000, 7))]);
    builder.commit();
    let source = Arc::new(RecordingSource::new(MemorySource::new(builder.bytes)));
    let options = OpenOptions { commit: Some(1), ..OpenOptions::default() };
    let archive = crate::testing::open(Arc::clone(&source) as _, &options).unwrap();
    assert_eq!(archive.entries(0..archive.entry_count()).count(), first.len());
    assert_eq!(source.take().len(), 3, "the end of the file, the commit before, the bytes in front of its end");
}
