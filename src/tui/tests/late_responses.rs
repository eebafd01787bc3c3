//! Late events: changes made while others are written, jobs that end while quitting, responses to
//! cancelled requests.

use std::path::Path;

use super::jobs::open;
use super::{Story, asks, everything};
use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Failure, Response};
use crate::open_target::OpenTarget;
use crate::rows::{Anchor, Page};
use crate::state::task::Task;
use crate::state::{DAMAGED, Dialog, Ending, Facts, JobEvent, RowsResponse};
use nra_format::archive::Info;

/// Opens an archive file that can be changed.
fn begin(file: &Path, contents: &[(&str, &[u8])]) -> Story {
    std::fs::write(file, crate::tests::sample::bytes(contents)).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, file);
    story
}

#[test]
fn commit_with_warnings_counts_as_written() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    // A socket cannot be stored.
    let directory = work.path().join("new");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("x"), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("socket")).unwrap();
    story.then("a");
    story.event(Event::Paste(directory.display().to_string()));
    story.then("enter W enter");
    story.sees("commit 2 is written").sees("skipped");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Commit(None), None))]);
    assert!(story.state.changes.pending.is_empty());
    open(&mut story, &work.path().join("a.nra"));
    story.sees("new/").misses("to add");
}

#[test]
fn changes_are_rejected_while_others_are_written() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = begin(&file, &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d");
    story.held_back = true;
    story.then("W enter");
    for keys in ["d", "W", "u", "r", "f7", "a"] {
        story.then(keys);
        story.sees("being written");
        assert!(story.state.dialogs.is_empty());
    }
    story.then("ctrl-r").sees("are being written: try again");
    story.then("Z").sees("try again when the job has ended (J)");
    let id = story.state.jobs.list.last().unwrap().id;
    // After a failure, the changes are pending again.
    story.event(Event::Job(id, JobEvent::End(Ending::Failed, "no".to_owned())));
    story.rest();
    assert_eq!(story.state.changes.pending.list().len(), 1);
    story.held_back = false;
    story.then("j d");
    assert_eq!(story.state.changes.pending.list().len(), 2);
}

/// Performs the effects that were held back, in reverse order if `backwards`.
fn release(story: &mut Story, backwards: bool) {
    let mut effects = std::mem::take(&mut story.back);
    if backwards {
        effects.reverse();
    }
    story.held_back = false;
    effects.into_iter().for_each(|effect| story.perform(vec![effect]));
    story.rest();
}

#[test]
fn cancelled_check_does_not_affect_next_prompt() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.held_back = true;
    story.then("c ctrl-u");
    story.event(Event::Paste(work.path().join("new.tar").display().to_string()));
    story.then("enter");
    // Text pasted now is not part of the check.
    story.event(Event::Paste("more".to_owned()));
    story.then("esc r ctrl-u").types("c.txt");
    story.then("enter");
    release(&mut story, false);
    story.sees("a.txt will be renamed to c.txt");
    assert!(story.state.jobs.list.is_empty() && !work.path().join("new.tar").exists());
}

#[test]
fn late_marks_are_ignored() {
    for another in [false, true] {
        let mut story = Story::begin(everything(), 100, 24);
        story.held_back = true;
        story.then("+ ctrl-u").types("*.md");
        story.then("enter");
        if another {
            story.respond(Response::Opened(Box::new(story.state.archive.clone())));
        } else {
            story.state.clear_marks();
        }
        release(&mut story, false);
        assert!(story.state.marks.is_empty(), "{another}");
    }
}

#[test]
fn closed_details_stay_closed() {
    let mut story = Story::begin(everything(), 100, 24);
    story.held_back = true;
    story.then("i");
    story.sees("reading …");
    story.then("esc j i");
    // The response for the first file arrives last.
    release(&mut story, true);
    story.sees("a-very-long").sees("2 B");
    story.held_back = true;
    story.then("esc i esc /").types("x");
    release(&mut story, false);
    assert!(matches!(story.state.dialogs.as_slice(), [Dialog::Finder(_)]));
    // Neither does a late list of commits.
    story.then("esc H esc");
    story.respond(Response::Commits(Ok(vec![Default::default()])));
    assert!(story.state.dialogs.is_empty());
}

#[test]
fn keys_wait_while_archive_is_opened() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = begin(&file, &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("ctrl-r d");
    story.sees("opening …");
    assert!(story.state.changes.pending.is_empty());
    let late = story.state.requests.newest(RequestKind::Open);
    open(&mut story, &file);
    story.sees("a.txt: 1 entry will be removed");
    // Escape cancels opening. An archive that opens later is not shown.
    story.then("u ctrl-r d esc");
    story.sees("Opening cancelled");
    story.then("j d");
    story.event(Event::Response(late, Response::Opened(Box::new(story.state.archive.clone()))));
    story.event(Event::Response(late, Response::Failed(Failure::Locked(OpenTarget::Unlocked, false))));
    story.sees("b.txt: 1 entry will be removed");
    assert!(story.state.dialogs.is_empty() && story.state.changes.pending.list().len() == 1);
}

#[test]
fn unwritable_changes_show_reason() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d W");
    // The damage is detected while the message is typed.
    story.state.archive.set_damaged(vec!["a block".to_owned()]);
    story.then("enter").sees("A damaged archive cannot be changed");
    assert!(story.state.jobs.list.is_empty() && !story.state.changes.pending.is_empty());
}

#[test]
fn job_asks_for_password_after_open_dialogs() {
    let task = || Box::new(Task::Verify { ranges: None });
    let mut story = Story::begin(everything(), 100, 24);
    story.held_back = true;
    story.then("V f").types("half");
    let id = story.state.jobs.list[0].id;
    story.event(Event::Job(id, JobEvent::NeedsPassword(task(), false)));
    story.event(Event::Job(id, JobEvent::End(Ending::Cancelled, String::new())));
    story.types("x");
    story.misses("encrypted");
    story.then("esc");
    story.sees("content is encrypted");
    // A job of another archive does not ask here.
    release(&mut story, false);
    story.then("esc V");
    let id = story.state.jobs.list.last().unwrap().id;
    story.respond(Response::Opened(Box::new(story.state.archive.clone())));
    story.event(Event::Job(id, JobEvent::NeedsPassword(task(), false)));
    story.rest();
    assert!(story.state.passwords.tasks.is_empty());
    story.misses("encrypted");
}

#[test]
fn new_commit_is_shown_after_prompt_closes() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d");
    story.held_back = true;
    story.then("W enter f").types("b");
    release(&mut story, false);
    assert!(story.outside.is_empty(), "{:?}", story.outside);
    story.sees("› b");
    story.then("esc");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Commit(None), None))]);
}

#[test]
fn quitting_asks_about_jobs_then_pending_changes() {
    let work = tempfile::tempdir().unwrap();
    for key in ["s", "l", "w"] {
        let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
        story.then("d");
        let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
        story.then("Q").sees("Jobs are running");
        story.then(key).sees("Unwritten changes").sees("remove a.txt: 1 entry");
        assert!(story.outside.is_empty(), "{key}");
        story.then("b");
        assert!(!story.state.changes.pending.is_empty() && story.state.quit.is_none());
        story.then("Q").then(key).then("d");
        let expected = match key {
            "s" => vec![Effect::Quit],
            "l" => vec![Effect::Detach],
            _ => Vec::new(),
        };
        assert_eq!(story.outside, expected, "{key}");
        story.outside.clear();
        story.event(Event::Job(id, JobEvent::End(Ending::Done, "done".to_owned())));
        assert_eq!(story.outside.contains(&Effect::Quit), key != "s", "{key}");
    }
}

#[test]
fn waiting_to_quit_can_be_cancelled() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    let end = |id| Event::Job(id, JobEvent::End(Ending::Done, "done".to_owned()));
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("Q w").sees("quit again to cancel");
    story.then("Q b");
    story.event(end(id));
    assert!(story.outside.is_empty());
    // Quitting asks about changes made meanwhile.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("Q w d");
    story.event(end(id));
    assert!(story.outside.is_empty());
    story.sees("Unwritten changes");
    story.then("b u");
    // Changes to be dropped at the end are kept until then.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("d Q w d Q b");
    assert_eq!((story.state.changes.pending.list().len(), story.state.quit), (1, None));
    story.event(end(id));
    story.then("u");
    assert!(story.outside.is_empty());
    // If writing changes that were to be dropped fails, quitting asks again.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.works = false;
    story.then("d Q w d W enter");
    let writing = story.state.jobs.list.last().unwrap().id;
    story.outside.clear();
    story.event(end(id));
    story.event(Event::Job(writing, JobEvent::End(Ending::Failed, "no".to_owned())));
    assert!(story.outside.is_empty(), "{:?}", story.outside);
    story.sees("Unwritten changes");
    story.then("b u");
    // Quitting waits while a line is typed.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("Q w e");
    story.event(end(id));
    assert!(story.outside.is_empty() && matches!(story.state.dialogs.last(), Some(Dialog::Prompt(_))));
    story.keys("esc");
    assert_eq!(story.outside, [Effect::Quit]);
}

#[test]
fn closed_parts_cancel_their_requests() {
    let awaited = |story: &Story, kind| story.state.requests.is_made(kind);
    let mut story = Story::begin(everything(), 100, 24);
    story.held_back = true;
    // Closing a dialog cancels its requests.
    for (keys, subject) in [
        ("i", RequestKind::Inspect),
        ("H", RequestKind::Commits),
        ("e tab", RequestKind::FreeSpace),
        ("e tab", RequestKind::Completions),
    ] {
        story.then(keys);
        let id = story.state.requests.newest(subject);
        story.keys("esc");
        assert!(!story.state.requests.awaits(id), "{keys}");
    }
    // The same holds for a search, a map and a sort order.
    for (keys, back, subject) in
        [("/", "esc", RequestKind::Find), ("b b", "b", RequestKind::Map), ("s s", "s n", RequestKind::Arrange)]
    {
        let mut story = Story::begin(everything(), 100, 24);
        story.held_back = true;
        story.keys(keys);
        assert!(awaited(&story, subject), "{keys}");
        story.keys(back);
        assert!(!awaited(&story, subject), "{keys}");
    }
    // A preview is awaited until the cursor moves or the preview is closed.
    let mut story = Story::begin(everything(), 100, 24);
    story.held_back = true;
    for leave in ["k", "p"] {
        story.then("j");
        assert!(awaited(&story, RequestKind::Preview));
        story.keys(leave);
        assert!(!awaited(&story, RequestKind::Preview), "{leave}");
    }
    // In a list longer than the screen, details are awaited as long as the list is shown.
    let details = story.state.requests.newest(RequestKind::Details);
    story.then("j j j");
    assert!(story.state.requests.awaits(details));
    story.then("k enter");
    assert!(!story.state.requests.awaits(details));
}

#[test]
fn matches_are_counted_until_search_ends() {
    let text = "word\n".repeat(100);
    let mut story = Story::begin(crate::tests::sample::with_contents(&[("a.txt", text.as_bytes()), ("b.txt", b"b")]), 100, 24);
    story.then("enter /").types("word");
    story.keys("enter");
    let position = |story: &Story| story.state.preview.match_position();
    assert_eq!(position(&story).as_deref(), Some("1 of 100"));
    // A complete count stays. An incomplete one does not.
    story.then("esc tab");
    assert_eq!(position(&story).as_deref(), Some("1 of 100"));
    story.then("/ ctrl-u").types("wo");
    story.held_back = true;
    story.keys("enter");
    let preview = story.back.pop().unwrap();
    story.held_back = false;
    let Effect::Request(_, Request::Preview(_)) = preview else { panic!("{preview:?}") };
    let events = crate::workers::tests::perform_now(&story.archive, preview).unwrap();
    story.held_back = true;
    events.into_iter().for_each(|event| story.event(event));
    assert_eq!(position(&story).as_deref(), Some("? of 0+"));
    assert!(story.state.preview.is_counting());
    story.keys("esc");
    assert_eq!((position(&story), story.state.preview.is_counting()), (None, false));
}

#[test]
fn prompt_keeps_its_entry() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"bbbbbb"), ("c.txt", b"cc")]);
    // A sorted list arrives while a name or a directory is typed.
    for key in ["r", "e"] {
        story.state.places.cursors.clear();
        story.held_back = true;
        story.then("s s").then(key);
        story.types("target");
        release(&mut story, false);
        assert_eq!(story.name(), "b.txt", "the order is there");
        story.works = false;
        story.then("enter s n g");
    }
    story.sees("a.txt");
    assert_eq!(story.state.changes.pending.list()[0].describe(), "rename a.txt to target");
    let Some(Effect::Start(_, Task::Extract { ranges, .. })) = story.outside.last() else { panic!("{:?}", story.outside) };
    assert_eq!(ranges.first(), Some(&(0..1)));
}

#[test]
fn keys_wait_for_unknown_marks() {
    let work = tempfile::tempdir().unwrap();
    let files: [(&str, &[u8]); 5] = [("a.txt", b"a"), ("d/1.tmp", b"1"), ("d/2.tmp", b"2"), ("e/3.tmp", b"3"), ("f.txt", b"f")];
    let mut story = begin(&work.path().join("a.nra"), &files);
    story.held_back = true;
    story.then("+ ctrl-u").types("**/*.tmp");
    story.then("enter d j W");
    assert!(story.state.changes.pending.is_empty() && story.state.dialogs.is_empty());
    release(&mut story, false);
    story.sees("3 to remove");
    story.then("esc u");
    // If the end of a directory is unknown, it is determined before the action runs.
    story.then("s d");
    for line in &mut story.state.listing.lines {
        line.facts = None;
    }
    assert_eq!(story.name(), "d");
    for keys in ["space d", "d"] {
        story.held_back = true;
        story.then("g").then(keys);
        release(&mut story, false);
        assert_eq!(story.state.changes.pending.summary(), "3 to remove", "{keys}");
        story.then("u");
    }
    // A glob without matches removes nothing. Escape drops the waiting action.
    for (glob, keys, wait) in [("*.none", "d W", ""), ("*.txt", "d W", "esc")] {
        story.held_back = true;
        story.then("+ ctrl-u").types(glob);
        story.then("enter").then(keys).then(wait);
        release(&mut story, false);
        assert!(
            story.state.changes.pending.is_empty() && story.state.marks.is_empty() && story.state.dialogs.is_empty(),
            "{glob}"
        );
    }
}

#[test]
fn password_restarts_all_waiting_jobs() {
    let task = || Box::new(Task::Verify { ranges: None });
    let mut story = Story::begin(everything(), 100, 24);
    story.works = false;
    story.then("V V");
    for job in 0..2 {
        let id = story.state.jobs.list[job].id;
        story.event(Event::Job(id, JobEvent::NeedsPassword(task(), false)));
        story.event(Event::Job(id, JobEvent::End(Ending::Cancelled, String::new())));
    }
    story.outside.clear();
    story.rest().sees("content is encrypted");
    story.types("open sesame").then("enter");
    let facts = story.state.archive.clone();
    story.opens(OpenTarget::Unlocked, facts);
    let begun = story.outside.iter().filter(|effect| matches!(effect, Effect::Start(..))).count();
    assert_eq!((begun, story.state.passwords.tasks.len()), (2, 0));
}

#[test]
fn damage_found_by_job_stays_until_reload() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let mut story = begin(&file, &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.held_back = true;
    story.then("V");
    let id = story.state.jobs.list[0].id;
    let facts = story.state.archive.clone();
    // Another commit is shown when the damage is detected.
    story.opens(OpenTarget::Commit(Some(1)), Facts { is_past: true, ..facts.clone() });
    story.event(Event::Job(id, JobEvent::Damage(vec!["a block".to_owned()])));
    assert!(story.state.archive.damaged);
    story.opens(OpenTarget::Commit(Some(2)), facts.clone());
    assert!(story.state.archive.damaged && story.state.archive.remarks == ["a block"]);
    // A nested archive is not damaged. Its parent still is.
    let inside = Facts { depth: 1, info: Info::default(), ..facts.clone() };
    story.opens(OpenTarget::Nested(story.archive.entry(0).unwrap()), inside);
    assert!(!story.state.archive.damaged);
    story.opens(OpenTarget::Parent, facts.clone());
    assert_eq!(story.state.archive.writable_file(), Err(DAMAGED));
    // Reloading drops the damage, because the archive may have been repaired.
    story.opens(OpenTarget::Commit(None), facts);
    assert!(story.state.archive.writable_file().is_ok());
}

#[test]
fn stale_rows_report_no_damage() {
    let mut story = Story::begin(everything(), 100, 24);
    let stale = story.state.requests.newest(RequestKind::Rows);
    story.state.requests.make(RequestKind::Rows);
    for (id, damaged) in [(stale, false), (story.state.requests.newest(RequestKind::Rows), true)] {
        let page = Page { damage: Some(vec!["a block".to_owned()]), ..Page::default() };
        let rows = Response::Rows(RowsResponse { anchor: Anchor::Start, page: Ok(page) });
        story.event(Event::Response(id, rows));
        assert_eq!(story.state.archive.damaged, damaged);
    }
}

#[test]
fn quitting_twice_quits() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d");
    story.state.jobs.add("verify a.nra".to_owned(), story.now);
    story.then("ctrl-c").sees("Jobs are running");
    story.then("ctrl-c").sees("Unwritten changes");
    story.then("ctrl-c");
    assert_eq!(story.outside, [Effect::Quit]);
}

#[test]
fn closing_prompt_cancels_check() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.held_back = true;
    story.then("c ctrl-u").types("x.tar").then("enter");
    assert!(story.state.input.checking.is_some());
    story.then("ctrl-c");
    assert!(story.state.input.checking.is_none() && story.state.dialogs.is_empty());
}

#[test]
fn closing_prompt_drops_queued_keys() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.held_back = true;
    story.then("r ctrl-u").types("x");
    story.then("enter d ctrl-c");
    release(&mut story, false);
    assert!(story.state.changes.pending.is_empty() && story.state.dialogs.is_empty());
}

#[test]
fn new_commit_is_shown_after_copy_for_editor() {
    let work = tempfile::tempdir().unwrap();
    let mut story = begin(&work.path().join("a.nra"), &[("a.txt", b"a"), ("b.txt", b"b")]);
    story.then("d");
    story.held_back = true;
    story.then("W enter j f4");
    release(&mut story, false);
    assert!(matches!(story.outside.as_slice(), [Effect::Request(_, Request::Copy(_))]), "{:?}", story.outside);
    let copied = Event::Response(story.state.requests.newest(RequestKind::Copy), Response::CopyReady("copy/b.txt".into()));
    story.event(copied);
    assert_eq!(story.outside[1..], [Effect::Edit("copy/b.txt".into()), asks(Request::Open(OpenTarget::Commit(None), None))]);
}
