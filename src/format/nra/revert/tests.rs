use std::path::Path;

use super::*;
use nra_core::archive::{Depth, OpenOptions};

use crate::testing::open_path;
use crate::writer::{AppendDestination, NewContent, WriterOptions};
use nra_core::entry::{Attribute, Namespace};
use nra_core::progress::Recorder;
use nra_core::source::FileStore;

fn path(text: &str) -> EntryPath {
    EntryPath::try_from(text).unwrap()
}

fn add<W: Write + Send>(writer: &mut Writer<W>, text: &str, kind: Kind) {
    writer.add(Entry::new(path(text), kind), NewContent::None).unwrap();
}

/// Commits: files `a/x`, `a/y`, `b`; then file `a`, new `b/z` and `c/w`; then `d` and an archive
/// attribute.
fn archive(file: &Path) {
    let mut writer = Writer::create(std::fs::File::create(file).unwrap(), WriterOptions::balanced()).unwrap();
    ["a/x", "a/y", "b"].into_iter().for_each(|text| add(&mut writer, text, Kind::File));
    writer.finish(&Recorder::default()).unwrap();
    let mut writer = append(file);
    ["a", "b/z", "c/w"].into_iter().for_each(|text| add(&mut writer, text, Kind::File));
    writer.finish(&Recorder::default()).unwrap();
    let mut writer = append(file);
    add(&mut writer, "d", Kind::File);
    writer
        .set_attributes(vec![Attribute {
            namespace: Namespace::Nra,
            name: b"description"[..].into(),
            value: b"third"[..].into(),
        }])
        .unwrap();
    writer.finish(&Recorder::default()).unwrap();
}

fn append(file: &Path) -> Writer<AppendDestination> {
    Writer::append(std::sync::Arc::new(FileStore::open(file).unwrap()), WriterOptions::balanced()).unwrap()
}

/// Reverts to a commit. Returns the undone changes and the entries of the new commit.
fn go_back(file: &Path, commit: u64, is_selected: Option<&dyn Fn(&Change) -> bool>) -> (Vec<String>, Vec<String>) {
    let mut writer = append(file);
    let mut undone = Vec::new();
    let recorder = Recorder::default();
    let done = revert::<_, Error>(&mut writer, commit, is_selected, &recorder, &mut |change| {
        let sign = match change {
            Change::Added(_) => '+',
            Change::Removed(_) => '-',
            Change::Changed(..) => '~',
        };
        undone.push(format!("{sign}{}", change.entry().path));
        Ok(())
    });
    let (done, told) = (done.unwrap(), recorder.take_warnings());
    assert_eq!((done.entries, done.skipped), (undone.len() as u64, told.len() as u64));
    undone.extend(told.into_iter().map(|told| format!("!{} {}", String::from_utf8(told.path).unwrap(), told.message)));
    writer.finish(&Recorder::default()).unwrap();
    let archive = open_path(file, &OpenOptions::default()).unwrap();
    assert_eq!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
    let entries = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path.to_string());
    (undone, entries.collect())
}

#[test]
fn revert_restores_a_commit_with_its_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nra");
    archive(&file);
    let (undone, entries) = go_back(&file, 1, None);
    assert_eq!(undone, ["~a", "+a/x", "+a/y", "~b", "-b/z", "-c", "-c/w", "-d"]);
    assert_eq!(entries, ["a", "a/x", "a/y", "b"]);
    let newest = open_path(&file, &OpenOptions::default()).unwrap();
    assert_eq!((newest.info().commit, newest.info().attributes.len()), (Some(4), 0));
    // And forward again.
    let (undone, entries) = go_back(&file, 3, None);
    assert_eq!((undone.len(), entries.join(" ").as_str()), (8, "a b b/z c c/w d"));
    assert_eq!(open_path(&file, &OpenOptions::default()).unwrap().info().attributes.len(), 1);
    // No differences are left, so nothing is written.
    let (undone, _) = go_back(&file, 3, None);
    assert_eq!((undone.len(), open_path(&file, &OpenOptions::default()).unwrap().info().commit), (0, Some(5)));
}

#[test]
fn partial_revert_restores_parents_and_removes_nothing_else() {
    let meant = |change: &Change| ["a/x", "c"].contains(&&*change.entry().path.to_string());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nra");
    archive(&file);
    // An unselected file takes the place of the directory; `c` still holds an unselected entry.
    let (undone, entries) = go_back(&file, 1, Some(&meant));
    assert_eq!(undone, [format!("!a/x {NO_PARENT}")]);
    assert_eq!(entries, ["a", "b", "b/z", "c", "c/w", "d"]);
    // A selected file makes room; a missing directory returns with its selected content.
    let meant = |change: &Change| ["a", "a/x"].contains(&&*change.entry().path.to_string());
    let (undone, entries) = go_back(&file, 1, Some(&meant));
    assert_eq!(undone, ["~a", "+a/x"]);
    assert_eq!(entries, ["a", "a/x", "b", "b/z", "c", "c/w", "d"]);
    let mut writer = append(&file);
    writer.remove(&path("a")).unwrap();
    writer.finish(&Recorder::default()).unwrap();
    let meant = |change: &Change| change.entry().path == path("a/x");
    assert_eq!(go_back(&file, 1, Some(&meant)).0, ["+a", "+a/x"]);
    let newest = open_path(&file, &OpenOptions::default()).unwrap();
    assert_eq!(newest.info().attributes.len(), 1, "they are not part of it");
    // A file does not replace a directory with an entry that stays.
    let meant = |change: &Change| change.entry().path == path("b");
    assert_eq!(go_back(&file, 1, Some(&meant)).0, [format!("!b {OCCUPIED}")]);
}

#[test]
fn missing_commit_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nra");
    archive(&file);
    for commit in [0, 4] {
        let mut writer = append(&file);
        let error = revert::<_, Error>(&mut writer, commit, None, &Recorder::default(), &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no commit {commit}; the archive has commits 1 to 3"));
    }
    let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
    assert!(matches!(revert::<_, Error>(&mut writer, 1, None, &Recorder::default(), &mut |_| Ok(())), Err(Error::Usage { .. })));
}
