use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use nra_format::Error;
use nra_format::archive::{OpenOptions, open};
use nra_format::codec::looks_incompressible;
use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
use nra_format::path::EntryPath;
use nra_format::progress::Recorder;
use nra_format::source::{FileStore, MemorySource, RecordingSource};

/// An archive of files with these contents.
fn archive(files: &[(&str, &[u8])]) -> Box<dyn Archive> {
    let mut writer =
        Writer::create(Vec::new(), WriterOptions { reproducible: true, threads: 1, ..WriterOptions::balanced() }).unwrap();
    for (path, bytes) in files {
        let mut entry = Entry::new(EntryPath::try_from(*path).unwrap(), Kind::File);
        entry.modified = Some(Timestamp { seconds: 1_000, nanoseconds: 7 });
        let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) };
        writer.add(entry, content).unwrap();
    }
    let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
    open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap()
}

fn run(before: &dyn Tree, after: &dyn Tree, compare: Compare) -> (Vec<String>, Counts) {
    let mut lines = Vec::new();
    let counts = diff::<Error>(
        before,
        after,
        compare,
        &Recorder::default(),
        &mut |difference| {
            lines.push(match difference {
                Difference::Added(entry) => format!("+{}", entry.path),
                Difference::Removed(entry) => format!("-{}", entry.path),
                Difference::Changed(_, entry, aspects) => {
                    let aspects: Vec<&str> = aspects.iter().map(|aspect| aspect.name()).collect();
                    format!("~{} {}", entry.path, aspects.join(","))
                }
            });
            Ok(())
        },
        &mut |_, error| Err(error),
    );
    (lines, counts.unwrap())
}

#[test]
fn deep_directory_is_compared_completely() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than any path that the system accepts.
    let name = "d".repeat(200);
    let mut at = rustix::fs::open(folder.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..45 {
        rustix::fs::mkdirat(&at, &*name, rustix::fs::Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &*name, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    drop(rustix::fs::openat(&at, "f", flags, rustix::fs::Mode::RUSR).unwrap());
    let path = format!("{}/f", vec![&*name; 45].join("/"));
    let before = &*archive(&[(&path, b"")]);
    let (lines, counts) = run(&before, &Folder::new(folder.path()), Compare::Content);
    assert_eq!(counts, Counts { unchanged: 46, ..Counts::default() }, "{lines:?}");
}

#[test]
fn differences_are_reported_in_path_order() {
    let before = archive(&[("a/x", b"1"), ("a/y", b"same"), ("a-", b"gone"), ("b", b"1234"), ("c", b"1")]);
    let after = archive(&[("a/x", b"2"), ("a/y", b"same"), ("a/z", b""), ("b", b"12345"), ("c/d", b"1")]);
    let (before, after) = (&*before, &*after);
    let (lines, counts) = run(&before, &after, Compare::Facts);
    assert_eq!(lines, ["+a/z", "-a-", "~b size", "~c kind", "+c/d"]);
    assert_eq!(counts, Counts { added: 2, removed: 1, changed: 2, unchanged: 3 });
    let (lines, _) = run(&before, &after, Compare::Content);
    assert_eq!(lines, ["~a/x content", "+a/z", "-a-", "~b content", "~c kind", "+c/d"]);
    assert!(run(&before, &before, Compare::Content).1.is_same());
    let empty = archive(&[]);
    assert_eq!(run(&&*empty, &after, Compare::Facts).1.added, 7);
    assert_eq!(run(&after, &&*empty, Compare::Facts).1.removed, 7);
}

#[test]
fn directories_on_disk_are_compared() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let make = |root: &Path| {
        std::fs::create_dir_all(root.join("a/deep")).unwrap();
        for (name, text) in [("a/deep/f", "text"), ("a-", "x"), ("b", "y"), ("m", "mode"), ("t", "time")] {
            std::fs::write(root.join(name), text).unwrap();
            std::fs::File::open(root.join(name)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        symlink("b", root.join("link")).unwrap();
    };
    make(one.path());
    make(two.path());
    let folders = || (Folder::new(one.path()), Folder::new(two.path()));
    assert_eq!(run(&folders().0, &folders().1, Compare::Facts).0, [""; 0]);
    std::fs::write(two.path().join("b"), "z").unwrap();
    std::fs::File::open(two.path().join("b")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    std::fs::set_permissions(two.path().join("m"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::File::open(two.path().join("t")).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    std::fs::remove_file(two.path().join("link")).unwrap();
    symlink("a-", two.path().join("link")).unwrap();
    std::fs::write(two.path().join("a/new"), "").unwrap();
    let (facts, counts) = run(&folders().0, &folders().1, Compare::Facts);
    assert_eq!(facts, ["+a/new", "~link target", "~m mode", "~t time"]);
    assert_eq!(counts.unchanged, 5);
    assert_eq!(run(&folders().0, &folders().1, Compare::Content).0, ["+a/new", "~b content", "~link target"]);
}

#[test]
fn read_errors_are_passed_to_caller() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "1").unwrap();
    let archive = archive(&[("a", b"1"), ("b", b"2")]);
    let here = Folder::new(folder.path());
    let mut errors = Vec::new();
    let mut found = 0;
    let missing = Folder::new(folder.path().join("none"));
    let counts = diff::<Error>(
        &missing,
        &&*archive,
        Compare::Facts,
        &Recorder::default(),
        &mut |_| {
            found += 1;
            Ok(())
        },
        &mut |_, error| {
            errors.push(error.to_string());
            Ok(())
        },
    );
    assert_eq!((errors.len(), found, counts.unwrap().added), (1, 2, 2));
    assert_eq!(run(&here, &&*archive, Compare::Content).0, ["+b"]);
}

#[test]
fn times_are_compared_at_lower_resolution() {
    let time = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
    assert!(is_same_time(time(1, 2), time(1, 2)) && is_same_time(time(1, 0), time(1, 2)) && is_same_time(None, time(1, 2)));
    assert!(!is_same_time(time(1, 3), time(1, 2)) && !is_same_time(time(1, 0), time(2, 0)));
}

#[test]
fn pages_shared_by_commits_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a.nra");
    let options = || WriterOptions { threads: 1, ..WriterOptions::balanced() };
    let entry = |path: &str| Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
    let mut writer = Writer::create(std::fs::File::create(&at).unwrap(), options()).unwrap();
    for i in 0..40_000 {
        let name = Digest::of(&[i as u8, (i >> 8) as u8]).to_string();
        writer.add(entry(&format!("{:02}/{i:05} {name}", i % 100)), NewContent::None).unwrap();
    }
    writer.finish(&Recorder::default()).unwrap();
    let mut writer = Writer::append(Arc::new(FileStore::open(&at).unwrap()), options()).unwrap();
    writer.add(entry("57/new"), NewContent::None).unwrap();
    writer.finish(&Recorder::default()).unwrap();
    let source = Arc::new(RecordingSource::new(MemorySource::new(std::fs::read(&at).unwrap())));
    let state = |commit| open(Arc::clone(&source) as _, &OpenOptions { commit: Some(commit), ..OpenOptions::default() }).unwrap();
    let (before, after) = (state(1), state(2));
    source.take();
    let (lines, counts) = run(&&*before, &&*after, Compare::Facts);
    assert_eq!((lines.as_slice(), counts.unchanged), (&["+57/new".to_owned()][..], 40_100));
    let reads = source.take();
    assert!(reads.len() <= 12, "{reads:?}");
    assert!(reads.iter().map(|read| read.1).sum::<u64>() < 128 << 10, "{reads:?}");
    assert!(run(&&*after, &&*after, Compare::Content).1.is_same());
    assert!(source.take().is_empty(), "the root pages are the same");
}

proptest! {
    #[test]
    fn result_is_the_difference_of_the_sets(before in names(), after in names()) {
        let with = |paths: &std::collections::BTreeSet<String>| {
            let files: Vec<(&str, &[u8])> = paths.iter().map(|path| (path.as_str(), path.as_bytes())).collect();
            archive(&files)
        };
        let (old, new) = (with(&before), with(&after));
        let (lines, counts) = run(&&*old, &&*new, Compare::Facts);
        let list = |archive: &dyn Archive| -> Vec<String> {
            archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect()
        };
        let (old, new) = (list(&*old), list(&*new));
        let added: Vec<String> = new.iter().filter(|path| !old.contains(path)).map(|path| format!("+{path}")).collect();
        let removed: Vec<String> = old.iter().filter(|path| !new.contains(path)).map(|path| format!("-{path}")).collect();
        prop_assert_eq!(lines.iter().filter(|line| line.starts_with('+')).cloned().collect::<Vec<_>>(), added);
        prop_assert_eq!(lines.iter().filter(|line| line.starts_with('-')).cloned().collect::<Vec<_>>(), removed);
        prop_assert_eq!(counts.unchanged, old.iter().filter(|path| new.contains(path)).count() as u64);
    }
}

fn names() -> impl Strategy<Value = std::collections::BTreeSet<String>> {
    prop::collection::btree_set("d[ab]!?/[a-c]{1,2}", 0..20)
}
