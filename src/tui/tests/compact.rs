//! Compaction: estimated, confirmed, run, shown.

use super::jobs::{open, paths};
use super::{Story, asks, everything};
use crate::effect::{Effect, Request};
use crate::open_target::OpenTarget;
use crate::state::task::Task;
use crate::tests::sample;

/// An archive of two commits. The content of a file is in the first one only.
fn two_commits(story: &mut Story, file: &std::path::Path) {
    let noise: Vec<u8> = (0..200_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(file, sample::bytes(&[("a.txt", b"a"), ("noise", &noise)])).unwrap();
    open(story, file);
    story.then("G d W enter");
    open(story, file);
    story.outside.clear();
}

#[test]
fn compacting_lists_what_it_removes() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    two_commits(&mut story, &file);
    let before = std::fs::metadata(&file).unwrap().len();
    story.then("Z").sees("Compact a.nra").sees("removes 1 earlier commit for good").sees("→ about");
    // Enter does nothing.
    story.then("enter");
    // Damage detected while the menu is open prevents compacting and reverting.
    let (facts, jobs) = (story.state.archive.clone(), story.state.jobs.list.len());
    for keys in ["Z", "U"] {
        story.then(keys).state.archive.set_damaged(vec!["a block".to_owned()]);
        story.then(if keys == "Z" { "c" } else { "u" }).sees("A damaged archive cannot be changed");
        assert!(story.state.changes.writing.is_none() && story.state.jobs.list.len() == jobs);
        story.state.archive = facts.clone();
    }
    assert_eq!(std::fs::metadata(&file).unwrap().len(), before);
    story.then("Z c").sees("1 commit is gone");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Commit(None), None))]);
    assert!(std::fs::metadata(&file).unwrap().len() < before / 10);
    open(&mut story, &file);
    assert_eq!((paths(&*story.archive), story.archive.info().commit), (vec!["a.txt".to_owned()], Some(1)));
    story.then("Z").sees("Compacting would save nothing");
}

#[test]
fn pending_changes_block_compacting() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    story.then("Z").sees("Only NRA 5 archives in files can be changed");
    two_commits(&mut story, &file);
    story.then("d Z").sees("Pending changes: press W to write them first");
    story.then("u");
    story.works = false;
    story.then("Z c");
    // No other changes can be made while it runs.
    story.then("d").sees("being written");
    let Some(Effect::Start(_, Task::Compact { commit: 2, .. })) = story.outside.last() else { panic!("{:?}", story.outside) };
    // Another program has written a commit.
    story.state.changes.writing = None;
    story.state.archive.info.commit = Some(1);
    story.works = true;
    story.then("Z c").sees("the archive has changed; open it again");
}

#[test]
fn keys_during_estimate_do_not_compact() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = Story::begin(everything(), 100, 24);
    two_commits(&mut story, &file);
    let before = std::fs::metadata(&file).unwrap().len();
    for (typed, asks) in [("/ a c", true), ("esc / a c", false)] {
        story.held_back = true;
        story.then("Z").sees("estimating the savings");
        story.then(typed);
        story.held_back = false;
        for effect in std::mem::take(&mut story.back) {
            story.perform(vec![effect]);
        }
        assert_eq!(story.screen().contains("removes 1 earlier commit for good"), asks, "{}", story.screen());
        assert_eq!(std::fs::metadata(&file).unwrap().len(), before);
        story.then("esc esc");
    }
}
