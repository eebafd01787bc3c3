//! Keys typed before rows and responses arrive.

use std::time::Duration;

use super::{Story, asks, everything};
use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Response};
use crate::open_target::OpenTarget;
use crate::state::Dialog;
use crate::update::update;
use nra_format::archive::CommitInfo;

/// Presses keys before any response, and returns the effects.
fn quickly(story: &mut Story, keys: &str) -> Vec<Effect> {
    let press = |key: &str| update(&mut story.state, Event::Key(key.parse().unwrap()), Duration::from_secs(1));
    keys.split_whitespace().flat_map(press).collect()
}

#[test]
fn keys_wait_for_rows() {
    let mut story = Story::begin(everything(), 100, 30);
    // Enters train/, goes to its second file and marks it.
    let effects = quickly(&mut story, "G k enter j space");
    assert!(!story.state.listing.loaded);
    story.perform(effects);
    assert_eq!(story.name(), "train/0002.json");
    assert_eq!(story.state.marks.count(), 1);
    // Enters several directories, whose rows arrive one after the other. Letters typed in the
    // search are text.
    let effects = quickly(&mut story, "h k k k enter j enter enter enter h / q x");
    story.perform(effects);
    assert_eq!(story.state.listing.scope.directory.as_ref().unwrap().to_string(), "docs/more/deep");
    story.sees("› qx");
}

#[test]
fn keys_wait_for_rows_of_dialog() {
    let commit = |number| CommitInfo { number, ..CommitInfo::default() };
    let commits = |story: &mut Story, list| {
        let id = story.state.requests.newest(RequestKind::Commits);
        story.event(Event::Response(id, Response::Commits(list)));
    };
    for (keys, number) in [("H G enter", 1), ("H G k enter", 2), ("H ? q k enter", 4)] {
        let mut story = Story::begin(everything(), 100, 30);
        story.state.archive.info.commit = Some(3);
        story.keys(keys).sees("reading …");
        commits(&mut story, Ok((1..=5).rev().map(commit).collect()));
        let expected = asks(Request::Open(OpenTarget::Commit(Some(number)), None));
        assert_eq!(story.outside.last(), Some(&expected), "{keys}");
    }
    // If there are no commits, the keys have no effect on the list, and the dialog closes.
    let mut story = Story::begin(everything(), 100, 30);
    let name = story.name();
    story.keys("H G space");
    commits(&mut story, Ok(Vec::new()));
    assert!(story.state.marks.is_empty() && story.name() == name && story.state.input.queue.is_empty());
    story.keys("H q");
    assert!(story.state.dialogs.is_empty());
    // The properties of an entry.
    story.held_back = true;
    story.keys("i G").sees("reading …");
    story.held_back = false;
    let asked = std::mem::take(&mut story.back);
    story.perform(asked);
    assert!(matches!(story.state.dialogs.last(), Some(Dialog::Details { top: 1.., .. })));
    // The second hit for the whole typed text.
    for keys in ["down enter", "ctrl-n enter j"] {
        let mut story = Story::begin(everything(), 100, 30);
        story.held_back = true;
        story.keys("/").types("json");
        story.keys(keys);
        story.held_back = false;
        let asked = std::mem::take(&mut story.back);
        story.perform(asked);
        assert_eq!(story.state.places.results.at, 1, "{keys}");
    }
}

#[test]
fn keys_after_pager_are_dropped() {
    let mut story = Story::begin(everything(), 100, 30);
    let effects = quickly(&mut story, "G k enter o q d");
    story.perform(effects);
    assert!(matches!(story.outside.as_slice(), [Effect::Page(_)]), "{:?}", story.outside);
}

#[test]
fn quitting_never_waits() {
    let mut story = Story::begin(everything(), 100, 30);
    drop(quickly(&mut story, "G k enter j"));
    assert_eq!(quickly(&mut story, "q"), []);
    assert_eq!(quickly(&mut story, "ctrl-c"), [Effect::Quit]);
    // Escape drops queued keys.
    assert_eq!(quickly(&mut story, "esc"), []);
    assert_eq!(quickly(&mut story, "q"), [Effect::Quit]);
    // Keys that need no row work at once.
    let mut story = Story::begin(everything(), 100, 30);
    drop(quickly(&mut story, "G k enter ?"));
    story.sees("Keys: list");
    // The number of queued keys is limited.
    drop(quickly(&mut story, "esc"));
    for _ in 0..5_000 {
        drop(quickly(&mut story, "j"));
    }
    assert_eq!(story.state.input.queue.len(), 4_096);
    drop(quickly(&mut story, "esc"));
    assert_eq!(story.state.input.queue.len(), 0);
}

#[test]
fn keys_wait_for_long_cursor_move() {
    let names: Vec<String> = (0..3_000).map(|number| format!("{number:04}")).collect();
    let archive = crate::tests::sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut story = Story::begin(archive, 100, 30);
    let mut effects = Vec::new();
    for _ in 0..1_500 {
        effects.extend(quickly(&mut story, "j"));
    }
    effects.extend(quickly(&mut story, "space j"));
    story.perform(effects);
    assert_eq!(story.name(), "1502");
    assert_eq!(story.state.marks.ranges().first(), Some(&(1_500..1_501)));
    assert_eq!(story.state.marks.ranges().len(), 1);
}
