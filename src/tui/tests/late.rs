//! What comes later than the user: plans while others are written, the end of work on leaving.

use std::path::Path;
use std::sync::Arc;

use super::{Story, everything};
use crate::format::archive::{OpenOptions, open_path};
use crate::tui::effect::{Door, Effect};
use crate::tui::event::Event;
use crate::tui::state::dialog::Dialog;
use crate::tui::state::jobs::{Ending, News};

/// Begins on an archive file that can be changed.
fn begin(file: &Path, contents: &[(&str, &[u8])]) -> Story {
    std::fs::write(file, crate::tui::sample::bytes(contents)).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, file);
    story
}

fn open(story: &mut Story, file: &Path) {
    story.archive = Arc::from(open_path(file, &OpenOptions::default()).unwrap());
    let mut facts = story.state.archive.clone();
    facts.info = story.archive.info().clone();
    facts.path = Some(file.to_owned());
    story.event(Event::Opened(Box::new(facts)));
    story.rest();
}

#[test]
fn what_is_written_with_a_remark_is_written() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    // A socket can't be stored.
    let directory = work.path().join("new");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("x"), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("socket")).unwrap();
    story.then("a");
    story.event(Event::Paste(directory.display().to_string()));
    story.then("enter W enter");
    story.sees("commit 2 is written").sees("left out");
    assert_eq!(story.outside, [Effect::Open(Door::Commit(None))]);
    assert!(story.state.staged.is_empty());
    open(&mut story, &work.path().join("a.nra"));
    story.sees("new/").misses("to add");
}

#[test]
fn nothing_is_planned_while_plans_are_written() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = begin(&file, &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d");
    story.held_back = true;
    story.then("W enter");
    for keys in ["d", "W", "u", "r", "f7", "a"] {
        story.then(keys);
        story.sees("is being written");
        assert!(story.state.dialogs.is_empty());
    }
    story.then("]");
    story.sees("are being written");
    let id = story.state.jobs.list.last().unwrap().id;
    // What fails is planned again, and can be changed again.
    story.event(Event::Job(id, News::End(Ending::Failed, "no".to_owned())));
    story.rest();
    assert_eq!(story.state.staged.list().len(), 1);
    story.then("j d");
    assert_eq!(story.state.staged.list().len(), 2);
}

#[test]
fn what_has_been_written_is_shown_when_nothing_is_being_typed() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d");
    story.held_back = true;
    story.then("W enter f").types("b");
    let effects = std::mem::take(&mut story.back);
    story.held_back = false;
    story.perform(effects);
    story.rest();
    assert!(story.outside.is_empty(), "{:?}", story.outside);
    story.sees("› b");
    story.then("esc");
    assert_eq!(story.outside, [Effect::Open(Door::Commit(None))]);
}

#[test]
fn leaving_asks_about_work_and_then_about_plans() {
    let work = tempfile::tempdir().unwrap();
    for key in ["s", "l", "w"] {
        let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
        story.then("d");
        let id = story.state.jobs.add("verify a.nra".to_owned(), story.now);
        story.then("Q").sees("Work is under way");
        story.then(key).sees("Changes are not written").sees("remove a.txt: 1 entry");
        assert!(story.outside.is_empty(), "{key}");
        story.then("b");
        assert!(!story.state.staged.is_empty() && story.state.leaving.is_none());
        story.then("Q").then(key).then("d");
        let expected = match key {
            "s" => vec![Effect::Quit],
            "l" => vec![Effect::Detach],
            _ => Vec::new(),
        };
        assert_eq!(story.outside, expected, "{key}");
        story.outside.clear();
        story.event(Event::Job(id, News::End(Ending::Done, "done".to_owned())));
        assert_eq!(story.outside.contains(&Effect::Quit), key != "s", "{key}");
    }
}

#[test]
fn waiting_for_the_end_can_be_taken_back() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    let end = |id| Event::Job(id, News::End(Ending::Done, "done".to_owned()));
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now);
    story.then("Q w").sees("to quit again takes that back");
    story.then("Q b");
    story.event(end(id));
    assert!(story.outside.is_empty());
    // Plans made meanwhile are asked about.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now);
    story.then("Q w d");
    story.event(end(id));
    assert!(story.outside.is_empty());
    story.sees("Changes are not written");
    story.then("b u");
    // A line that is being typed is typed to its end.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now);
    story.then("Q w e");
    story.event(end(id));
    assert!(story.outside.is_empty() && matches!(story.state.dialogs.last(), Some(Dialog::Prompt(_))));
    story.keys("esc");
    assert_eq!(story.outside, [Effect::Quit]);
}
