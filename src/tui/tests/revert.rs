//! Returning to an earlier commit: confirmed, written as a new commit, undone.

use super::jobs::{open, paths};
use super::{Story, asks, everything};
use crate::effect::{Effect, Request};
use crate::open_target::OpenTarget;
use crate::state::Facts;
use crate::state::task::Task;
use crate::tests::sample;
use nra_format::archive::{OpenOptions, open_path};

/// An archive of files `a` and `b/c`, and a second commit without the directory.
fn two_commits(story: &mut Story, file: &std::path::Path) {
    std::fs::write(file, sample::bytes(&[("a", b"one"), ("b/c", b"two"), ("b/d", b"three")])).unwrap();
    open(story, file);
    story.then("U").sees("This is the first commit: nothing to undo");
    story.then("G d W enter").sees("commit 2 is written");
    open(story, file);
    story.outside.clear();
}

/// Shows commit 1 as an earlier one.
fn step_back(story: &mut Story, file: &std::path::Path) {
    let options = OpenOptions { commit: Some(1), ..OpenOptions::default() };
    story.archive = std::sync::Arc::from(open_path(file, &options).unwrap());
    let facts = Facts { info: story.archive.info().clone(), is_past: true, ..story.state.archive.clone() };
    story.opens(OpenTarget::Commit(Some(1)), facts);
}

fn newest(file: &std::path::Path) -> (Option<u64>, Vec<String>) {
    let archive = open_path(file, &OpenOptions::default()).unwrap();
    (archive.info().commit, paths(&*archive))
}

#[test]
fn undo_of_commit_can_be_undone() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    two_commits(&mut story, &file);
    story.then("U").sees("Undo commit 2").sees("everything as of commit 1").sees("as a new commit (H shows all)");
    // Enter does nothing.
    story.then("enter");
    assert_eq!(newest(&file).0, Some(2));
    story.then("U u").sees("3 entries reset to commit 1; commit 3 is written");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Commit(None), None))]);
    assert_eq!(newest(&file), (Some(3), ["a", "b", "b/c", "b/d"].map(str::to_owned).to_vec()));
    open(&mut story, &file);
    story.then("U u");
    assert_eq!(newest(&file), (Some(4), vec!["a".to_owned()]));
}

#[test]
fn marked_entries_are_restored_from_earlier_commit() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    two_commits(&mut story, &file);
    step_back(&mut story, &file);
    story.then("d").sees("U returns to this");
    // Marks apply even if the list is empty.
    story.then("G space f").types("zzz");
    story.then("enter U").sees("restore 3 marked entries");
    story.then("b esc esc");
    story.then("G l G U").sees("Return to commit 1").sees("restore d").sees("everything as of commit 1");
    story.then("m").sees("2 entries restored from commit 1");
    assert_eq!(newest(&file), (Some(3), ["a", "b", "b/d"].map(str::to_owned).to_vec()), "with the directory above it");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Commit(None), None))]);
    step_back(&mut story, &file);
    story.then("U a");
    assert_eq!(newest(&file), (Some(4), ["a", "b", "b/c", "b/d"].map(str::to_owned).to_vec()));
    step_back(&mut story, &file);
    story.then("U a").sees("nothing differs from commit 1");
    assert_eq!(newest(&file).0, Some(4));
}

#[test]
fn pending_changes_block_undo_of_commit() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    story.then("U").sees("Only NRA 5 archives in files can be changed");
    two_commits(&mut story, &file);
    story.then("d U").sees("Pending changes: press W to write them first");
    story.then("u");
    // Another program has written a commit.
    story.state.archive.info.commit = Some(3);
    story.works = false;
    story.then("U u");
    let Some(Effect::Start(_, Task::Revert { commit: 2, ranges: None, over: Some(3), .. })) = story.outside.last() else {
        panic!("{:?}", story.outside)
    };
    story.state.changes.writing = None;
    story.works = true;
    story.then("U u").sees("another commit by now");
    assert_eq!(newest(&file).0, Some(2));
}

#[test]
fn return_reports_conflicts_and_compacted_archive() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    two_commits(&mut story, &file);
    // A file has the name of its former directory.
    std::fs::write(work.path().join("b"), "new").unwrap();
    story.then("g a").types(work.path().join("b").to_str().unwrap());
    story.then("enter W enter");
    step_back(&mut story, &file);
    story.then("G l U m").sees("nothing can be restored");
    assert_eq!(newest(&file), (Some(3), vec!["a".to_owned(), "b".to_owned()]));
    // After compacting, the numbers refer to other commits.
    step_back(&mut story, &file);
    let options = nra_format::nra::writer::WriterOptions::default();
    let monitor = nra_format::progress::Recorder::default();
    let target = nra_convert::compact::Target::InPlace;
    nra_convert::compact::compact(&file, 1, None, &target, &options, &monitor).unwrap();
    story.then("U a").sees("another commit by now");
    assert_eq!(newest(&file).0, Some(1));
}

#[test]
fn archive_attributes_are_restored() {
    use nra_format::entry::{Attribute, Namespace};
    use nra_format::nra::writer::{Writer, WriterOptions};
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, sample::bytes(&[("a", b"one")])).unwrap();
    let store = std::sync::Arc::new(nra_format::source::FileStore::open(&file).unwrap());
    let mut writer = Writer::append(store, WriterOptions::balanced()).unwrap();
    let attribute = Attribute { namespace: Namespace::Nra, name: b"name"[..].into(), value: b"it"[..].into() };
    writer.set_attributes(vec![attribute]).unwrap();
    writer.finish(&nra_format::progress::Recorder::default()).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("U u").sees("attributes of the archive reset to commit 1; commit 3 is written");
}
