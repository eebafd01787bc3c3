use std::fs::File;
use std::path::Path;

use super::*;
use crate::testing::open;
use crate::testing::{archive_with_false_links, assert_links_kept, assert_links_reported};
use crate::writer::DictionaryPolicy;
use nra_core::archive::{CommitInfo, Depth};
use nra_core::codec::looks_incompressible;
use nra_core::digest::Digest;
use nra_core::entry::{Attribute, Device, Metadata, Namespace, Owner, Timestamp};
use nra_core::progress::Recorder;
use nra_core::source::{FileSource, FileStore};
use nra_core::testing::noise;

/// All entries of a commit without their locations, the other names of each, and the digest of its
/// content.
type CommitContents = Vec<(Entry, Vec<String>, Digest)>;

fn options(message: &str) -> WriterOptions {
    let time = Some(Timestamp { seconds: 7, nanoseconds: 8 });
    WriterOptions { threads: 2, message: message.into(), time, ..WriterOptions::balanced() }
}

fn path(text: &str) -> EntryPath {
    EntryPath::try_from(text).unwrap()
}

fn file(text: &str) -> Entry {
    let mut entry = Entry::new(path(text), Kind::File);
    entry.modified = Some(Timestamp { seconds: 1, nanoseconds: 2 });
    entry
}

fn add<W: Write + Send>(writer: &mut Writer<W>, name: &str, bytes: &[u8]) {
    let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) };
    writer.add(file(name), content).unwrap();
}

fn text(lines: usize, seed: usize) -> Vec<u8> {
    (0..lines).flat_map(|i| format!("{} is line {i} of {seed}\n", (i * 7919 + seed) % 10_007).into_bytes()).collect()
}

/// Four commits: much content, some of it replaced and removed, links, a file in chunks with a
/// hole, attributes.
fn archive(at: &Path, first: WriterOptions) {
    let mut writer = Writer::create(File::create(at).unwrap(), WriterOptions { message: "first".into(), ..first }).unwrap();
    for i in 0..300 {
        add(&mut writer, &format!("text/{i:03}"), &text(300, i));
        add(&mut writer, &format!("noise/{i:03}"), &noise(9_000, i as u64));
    }
    let one = writer.add(file("empty"), NewContent::None).unwrap();
    writer.add_link(file("empty too"), one).unwrap();
    for (kind, number) in Kind::ALL.into_iter().zip(0u8..) {
        let mut entry = Entry::new(path(&format!("kinds/{number}")), kind);
        let owner = Owner { user_id: 1_000 + u64::from(number), group_id: 7, user: b"some"[..].into(), group: b"one"[..].into() };
        let attribute = Attribute { namespace: Namespace::Xattr, name: b"user.x"[..].into(), value: Box::new([number; 9]) };
        entry.metadata =
            Arc::new(Metadata { mode: 0o4710 + u16::from(number), owner: Some(owner), attributes: [attribute].into() });
        entry.modified = Some(Timestamp { seconds: -5, nanoseconds: number.into() });
        match kind {
            Kind::Symlink => entry.target = b"somewhere"[..].into(),
            Kind::CharacterDevice | Kind::BlockDevice => entry.device = Some(Device { major: number.into(), minor: 3 }),
            Kind::File | Kind::Directory | Kind::Fifo => {}
        }
        writer.add(entry, NewContent::None).unwrap();
    }
    writer.begin_file(file("large")).unwrap();
    for i in 0..4 {
        let chunk = text(2_000, 1_000 + i);
        writer.add_chunk(&chunk, Digest::of(&chunk), false).unwrap();
        writer.add_hole(10_000).unwrap();
    }
    let large = writer.end_file(None).unwrap();
    writer.add_link(file("large again"), large).unwrap();
    writer.finish(&Recorder::default()).unwrap();
    let append = |message: &str, change: &dyn Fn(&mut Writer<crate::writer::AppendDestination>)| {
        let mut writer = Writer::append(Arc::new(FileStore::open(at).unwrap()), options(message)).unwrap();
        change(&mut writer);
        writer.finish(&Recorder::default()).unwrap();
    };
    append("second", &|writer| {
        (0..290).for_each(|i| writer.remove(&path(&format!("text/{i:03}"))).unwrap());
        (0..100).for_each(|i| add(writer, &format!("noise/{i:03}"), &noise(9_000, 10_000 + i)));
        add(writer, "new/a", &text(5_000, 77));
        // Another name of a file with two names, and a second name of a file with one.
        for (name, more) in [("large", "a large one"), ("text/295", "new/text"), ("text/295", "new/text again")] {
            let first = writer.reference_entry(&path(name)).unwrap();
            writer.add_link(file(more), first).unwrap();
        }
    });
    append("third", &|writer| {
        writer.rename(&path("noise"), &path("random")).unwrap();
        writer.rename(&path("large"), &path("very large")).unwrap();
        let attribute = Attribute { namespace: Namespace::User, name: b"name"[..].into(), value: b"x"[..].into() };
        writer.set_attributes(vec![attribute]).unwrap();
        add(writer, "new", b"a file now");
    });
    append("fourth", &|writer| {
        writer.remove(&path("random")).unwrap();
        // One name of a file, and a directory, get another mode.
        for name in ["a large one", "kinds/1"] {
            writer
                .change(&path(name), |entry| {
                    entry.metadata = Arc::new(Metadata { mode: 0o600, ..Metadata::clone(&entry.metadata) })
                })
                .unwrap();
        }
        add(writer, "text/000", &text(300, 0));
    });
}

/// Compacts to a new file.
fn compact_to(old: &Path, keep: u64, new: &Path, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Compaction> {
    File::create(new).unwrap();
    let open = || FileStore::open(new).map(|store| Arc::new(store) as Arc<dyn Store>);
    compact(&source(old), keep, &open, options, monitor)
}

fn source(at: &Path) -> Arc<dyn ReadAt> {
    Arc::new(FileSource::open(at).unwrap())
}

fn state(at: &Path, number: u64) -> CommitContents {
    let archive = open(source(at), &OpenOptions { commit: Some(number), ..OpenOptions::default() }).unwrap();
    assert_eq!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, [], "commit {number}");
    let entries: Vec<Entry> = archive.entries(0..archive.entry_count()).map(Result::unwrap).collect();
    let names = |of: &Entry| {
        let same =
            entries.iter().filter(|entry| entry.link_group == of.link_group && of.link_group != 0 && entry.path != of.path);
        same.map(|entry| entry.path.to_string()).collect()
    };
    entries
        .iter()
        .map(|entry| {
            let content = if entry.kind == Kind::File { archive.read_all(entry, u64::MAX).unwrap() } else { Vec::new() };
            let mut bare = Entry { link_group: 0, ..entry.clone() };
            *bare.content_mut() = Content::None;
            (bare, names(entry), Digest::of(&content))
        })
        .collect()
}

fn commits(at: &Path) -> Vec<CommitInfo> {
    open(source(at), &OpenOptions::default()).unwrap().commits().map(Result::unwrap).collect()
}

#[test]
fn compaction_preserves_kept_commits() {
    for first in [options(""), WriterOptions { dictionary: DictionaryPolicy::Auto, align: 64, ..options("") }] {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        archive(&old, first);
        let before = std::fs::metadata(&old).unwrap().len();
        let mut lengths = Vec::new();
        for keep in 1..=5 {
            let new = folder.path().join(format!("new{keep}"));
            let monitor = Recorder::default();
            let done = compact_to(&old, keep, &new, &options(""), &monitor).unwrap();
            let kept = keep.min(4);
            assert_eq!((done.commits, done.dropped_commits, done.before_bytes), (kept, 4 - kept, before));
            assert_eq!(done.after_bytes, std::fs::metadata(&new).unwrap().len());
            let planned = plan(&source(&old), keep, &WriterOptions::balanced(), &monitor).unwrap();
            assert_eq!((planned.moved_blocks, planned.repacked_blocks), (done.moved_blocks, done.repacked_blocks));
            for number in 1..=kept {
                assert_eq!(state(&new, number), state(&old, 4 - kept + number), "keep {keep}, commit {number}");
            }
            let facts =
                |commit: &CommitInfo| (commit.message.clone(), commit.time, commit.entries, commit.files, commit.content_bytes);
            let (now, then) = (commits(&new), commits(&old));
            assert!(now.iter().map(facts).eq(then[..now.len()].iter().map(facts)));
            let attributes = |at: &Path| open(source(at), &OpenOptions::default()).unwrap().info().attributes.clone();
            assert_eq!(attributes(&new), attributes(&old));
            lengths.push(done.after_bytes);
        }
        assert!(lengths[0] * 4 < before, "{lengths:?} of {before}");
        assert!(lengths.is_sorted() && lengths[4] <= before + 2_000, "{lengths:?} of {before}");
    }
}

#[test]
fn dense_blocks_are_copied_and_sparse_ones_repacked() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    archive(&old, options(""));
    let done = plan(&source(&old), 1, &WriterOptions::balanced(), &Recorder::default()).unwrap();
    assert!(done.repacked_blocks > 0 && done.dropped_bytes > 1_000_000, "{done:?}");
    // Without dropped commits every block is copied. With another level, recompressed blocks would
    // differ.
    let level = WriterOptions { method: nra_core::codec::Method::zstd(19), ..options("") };
    let done = compact_to(&old, 4, &new, &level, &Recorder::default()).unwrap();
    assert_eq!(done.repacked_blocks, 0);
    let stored = |at: &Path| open(source(at), &OpenOptions::default()).unwrap().info().stored_bytes;
    assert_eq!(stored(&new), stored(&old));
}

#[test]
fn compaction_rejects_damaged_archives() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    archive(&old, options(""));
    let mut bytes = std::fs::read(&old).unwrap();
    assert!(matches!(compact_to(&old, 0, &new, &options(""), &Recorder::default()), Err(Error::Usage { .. })));
    let monitor = Recorder::default();
    monitor.cancel();
    assert!(matches!(compact_to(&old, 1, &new, &options(""), &monitor), Err(Error::Cancelled)));
    bytes[20_000..21_000].fill(0x55);
    std::fs::write(&old, bytes).unwrap();
    let failed = compact_to(&old, 4, &new, &options(""), &Recorder::default());
    assert!(matches!(failed, Err(Error::Corrupt { .. })), "{failed:?}");
}

#[test]
fn memory_does_not_grow_with_the_number_of_commits() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    archive(&old, options(""));
    for number in 5..25 {
        let mut writer = Writer::append(Arc::new(FileStore::open(&old).unwrap()), options("more")).unwrap();
        add(&mut writer, &format!("more/{number}"), b"little");
        writer.finish(&Recorder::default()).unwrap();
    }
    File::create(&new).unwrap();
    let source = source(&old);
    // Each open reader shares the source.
    let most = std::cell::Cell::new(0);
    let open = || {
        most.set(most.get().max(Arc::strong_count(&source)));
        FileStore::open(&new).map(|store| Arc::new(store) as Arc<dyn Store>)
    };
    compact(&source, 24, &open, &options(""), &Recorder::default()).unwrap();
    assert_eq!(state(&new, 24), state(&old, 24));
    // The source itself, the preceding commit and the current one, each with as many shares as a
    // reader takes.
    let alone = {
        let _reader = open_commit(&source, None, &options("")).unwrap();
        Arc::strong_count(&source) - 1
    };
    assert!(most.get() <= 1 + 2 * alone, "{} shares, {alone} a reader", most.get());
}

#[test]
fn false_link_groups_do_not_mix_files() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    std::fs::write(&old, archive_with_false_links()).unwrap();
    let monitor = Recorder::default();
    compact_to(&old, 1, &new, &options(""), &monitor).unwrap();
    assert_links_reported(&monitor);
    assert_links_kept(&*open(source(&new), &OpenOptions::default()).unwrap());
    let archive = open_commit(&source(&old), None, &options("")).unwrap();
    let mut writer = Writer::create(File::create(&new).unwrap(), options("")).unwrap();
    copy(&archive, &mut writer, &mut |_| Ok(()), &monitor).unwrap();
    writer.finish(&monitor).unwrap();
    assert_links_reported(&monitor);
    assert_links_kept(&*open(source(&new), &OpenOptions::default()).unwrap());
}

#[test]
fn false_links_take_no_content_from_an_earlier_commit() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let mut writer = Writer::create(File::create(&old).unwrap(), options("")).unwrap();
    let one = writer.add(file("a"), NewContent::None).unwrap();
    writer.add_link(file("b"), one).unwrap();
    writer.finish(&Recorder::default()).unwrap();
    let mut writer = Writer::append(Arc::new(FileStore::open(&old).unwrap()), options("")).unwrap();
    let bytes = b"something else";
    let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
    let id = writer.add(file("c"), content).unwrap();
    writer.force_group(id, 1);
    writer.finish(&Recorder::default()).unwrap();
    let monitor = Recorder::default();
    compact_to(&old, 2, &new, &options(""), &monitor).unwrap();
    assert_eq!(monitor.take_warnings().iter().map(|told| &*told.path).collect::<Vec<_>>(), [b"c"]);
    let made = state(&new, 2);
    assert_eq!(made.iter().map(|entry| entry.1.len()).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(made[2].2, Digest::of(bytes));
}

#[test]
fn content_shared_by_many_names_is_written_once() {
    const EXTENTS: usize = 10_000;
    const NAMES: usize = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let mut writer = Writer::create(File::create(&old).unwrap(), options("")).unwrap();
    writer.begin_file(file("f")).unwrap();
    for _ in 0..EXTENTS {
        writer.add_chunk(b"x", Digest::of(b"x"), false).unwrap();
        writer.add_hole(1).unwrap();
    }
    let first = writer.end_file(None).unwrap();
    for i in 0..NAMES {
        writer.add_link(file(&format!("link {i}")), first).unwrap();
        writer.add_copy(file(&format!("name {i}")), first).unwrap();
    }
    writer.finish(&Recorder::default()).unwrap();
    let archive = open_commit(&source(&old), None, &options("")).unwrap();
    let mut needs = NeededBlocks::default();
    for entry in archive.entries(0..archive.entry_count()) {
        needs.add_entry(&archive, &entry.unwrap()).unwrap();
    }
    assert_eq!(needs.maps.len(), 1);
    assert_eq!(needs.blocks.blocks().map(|(_, bytes)| bytes).collect::<Vec<_>>(), [1]);
    let done = compact_to(&old, 1, &new, &options(""), &Recorder::default()).unwrap();
    assert!(done.after_bytes <= done.before_bytes + 4_096, "{done:?}");
    let mut writer = Writer::create(Vec::new(), options("")).unwrap();
    copy(&archive, &mut writer, &mut |_| Ok(()), &Recorder::default()).unwrap();
    let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
    assert!(bytes.len() as u64 <= done.before_bytes + 4_096, "{} of {}", bytes.len(), done.before_bytes);
    let made = open(source(&new), &OpenOptions::default()).unwrap();
    assert_eq!(made.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
    let entries: Vec<Entry> = made.entries(0..made.entry_count()).map(Result::unwrap).collect();
    assert_eq!(entries.len(), 2 * NAMES + 1);
    assert!(entries.iter().all(|entry| entry.content() == entries[0].content() && entry.size == 2 * EXTENTS as u64));
    assert_eq!(entries.iter().filter(|entry| entry.link_group == entries[0].link_group).count(), NAMES + 1);
}
