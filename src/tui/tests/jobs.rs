//! Actions on entries: marking, extracting, verifying, copying; and quitting.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Story, asks, everything};
use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Failure, Response};
use crate::open_target::{OpenTarget, Password};
use crate::state::{Ending, Facts, JobEvent, Progress};
use nra_convert::repair::{MEMORY_BYTES, protect};
use nra_format::archive::{Archive, OpenOptions, open_path};
use nra_format::path::EntryPath;
use nra_format::progress::Recorder;

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut queue = vec![directory.to_owned()];
    while let Some(next) = queue.pop() {
        for item in std::fs::read_dir(next).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                queue.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

fn extract_to(story: &mut Story, target: &Path) {
    story.then("e ctrl-u");
    story.event(Event::Paste(target.display().to_string()));
    story.then("enter");
}

#[test]
fn file_opens_in_default_program() {
    let mut story = Story::begin(everything(), 120, 30);
    story.then("f2").sees("Opened a copy of README.md, which is deleted on exit");
    let entry = story.archive.entry(story.state.listing.lines[0].row.number).unwrap();
    assert_eq!(story.outside, [Effect::Launch(entry)]);
    story.then("j j j f2").sees("Only files have content");
}

#[test]
fn file_is_found_and_extracted() {
    let work = tempfile::tempdir().unwrap();
    let mut story = Story::begin(everything(), 100, 30);
    story.then("/").types("guide");
    story.then("enter");
    extract_to(&mut story, work.path());
    story.sees("extracted 1 file");
    // Parent directories are not extracted.
    assert_eq!(files(work.path()), ["guide.md"]);
    // A second extraction keeps the existing file.
    std::fs::write(work.path().join("guide.md"), "mine").unwrap();
    extract_to(&mut story, work.path());
    assert_eq!(std::fs::read_to_string(work.path().join("guide.md")).unwrap(), "mine");
    assert_eq!(files(work.path()).len(), 2);
    story.then("J").sees("docs/guide.md extracted as guide");
    story.then("esc e down down down").sees("back it up as name~");
    story.then("enter J").sees("guide.md: existing file backed up");
    assert_eq!(files(work.path()).len(), 3);
    std::fs::remove_file(work.path().join("guide.md~")).unwrap();
    story.then("esc");
    // Chooses the policy: skip.
    story.then("e down");
    story.sees("keep it, skip the entry");
    story.then("enter");
    story.sees("1 entry skipped");
    assert_eq!(files(work.path()).len(), 2);
}

#[test]
fn marked_entries_are_extracted() {
    let work = tempfile::tempdir().unwrap();
    let mut story = Story::begin(everything(), 120, 30);
    story.then("space G k space");
    story.sees("4 marked, 43 B");
    extract_to(&mut story, work.path());
    assert_eq!(files(work.path()), ["README.md", "train/0001.json", "train/0002.json"]);
    story.misses("marked");
}

#[test]
fn marks_follow_ranges_and_globs() {
    let mut story = Story::begin(everything(), 120, 30);
    story.then("v j j j");
    story.sees("marking a range");
    story.then("v");
    // Three files, and docs with everything below it.
    assert_eq!(story.state.marks.count(), 3 + 5);
    story.then("*");
    assert_eq!(story.state.marks.count(), 14 - 8);
    story.then("A");
    assert_eq!(story.state.marks.count(), 14);
    story.then("- ctrl-u").types("**/*.json");
    story.then("enter");
    assert_eq!(story.state.marks.count(), 14 - 3);
    // A directory with some marked entries has its own sign.
    let screen = story.screen();
    let train = screen.lines().find(|line| line.contains("train/")).unwrap();
    assert!(train.starts_with('◐'), "{train}");
    // Another order, where its entries are not adjacent, shows it too, and marks the directory as a
    // whole.
    story.then("s s");
    let screen = story.screen();
    let train = screen.lines().find(|line| line.contains("train/")).unwrap();
    assert!(train.starts_with('◐'), "{train}");
    let index = story.state.listing.lines.iter().position(|line| line.row.entry.path.as_bytes() == b"train").unwrap();
    assert_eq!(story.state.listing.numbers(index), Some(10..13));
    story.then("s n");
    story.then("esc");
    assert_eq!(story.state.marks.count(), 0);
    story.then("+ ctrl-u").types("*.nothing");
    story.then("enter");
    story.sees("No matches");
    // Marks of a directory include its entries.
    story.then("l j space h");
    assert_eq!(story.state.marks.count(), 3);
}

#[test]
fn marks_work_in_sorted_list() {
    let mut story = Story::begin(everything(), 120, 30);
    story.then("s s j space");
    assert_eq!(story.state.marks.count(), 5);
    story.then("g v j v");
    assert_eq!(story.state.marks.count(), 6);
    story.then("*");
    assert_eq!(story.state.marks.count(), 14 - 6);
}

#[test]
fn archive_is_verified() {
    let mut story = Story::begin(everything(), 120, 30);
    story.then("V");
    story.sees("no damage (14 entries, 3.3 KiB checked)");
    story.then("J");
    story.sees("verify a.nra").sees("✓");
}

#[test]
fn path_is_copied() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("j j y");
    assert_eq!(story.outside, [Effect::Copy(b"bad\x1b[31mname\n.txt".to_vec())]);
    story.sees("Copied $'bad\\x1b[31mname\\n.txt'");
}

#[test]
fn paths_on_disk_are_completed() {
    let work = tempfile::tempdir().unwrap();
    for name in ["photos of May", "photos of June", "x"] {
        std::fs::create_dir(work.path().join(name)).unwrap();
    }
    let mut story = Story::begin(everything(), 120, 30);
    story.then("e ctrl-u");
    story.event(Event::Paste(format!("{}/ph", work.path().display())));
    story.then("tab");
    story.sees("photos of June/  photos of May/");
    story.types("M").then("tab");
    story.misses("photos of June/");
    story.then("tab");
    story.sees("photos of May/");
    story.types("q").then("tab");
    story.sees("no such path on disk");
    story.then("backspace enter");
    assert_eq!(files(&work.path().join("photos of May")), ["README.md"]);
}

#[test]
fn content_is_copied() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("Y");
    story.sees("Copied the content, 25 B");
    assert_eq!(story.outside, [Effect::Copy(b"# Hello\n\nThis is a test.\n".to_vec())]);
    story.then("G k Y");
    story.sees("Only files have content");
    let mut story = Story::begin(crate::tests::sample::with_contents(&[("long", &[0; 100_000])]), 80, 24);
    story.then("Y");
    story.sees("too large for the clipboard");
}

#[test]
fn bookmarks_lead_back() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("'");
    story.sees("m sets one");
    story.then("j j j enter m enter");
    story.sees("Bookmark a set");
    let there = story.name();
    story.then("h G m enter g '");
    story.sees(&format!("a  {there}")).sees("b  日本語のファイル名.txt");
    story.then("a");
    assert_eq!(story.name(), there);
    // As in vi, a letter names a bookmark.
    story.then("m x g ' x");
    assert_eq!(story.name(), there);
    story.then("m del ' b");
    assert_eq!(story.name(), "日本語のファイル名.txt");
    story.then("m 1");
    story.sees("Bookmarks are named a to z");
    story.then("m del '");
    story.sees("No bookmarks");
    // The bookmark belongs to the entry it was opened for.
    let at = story.name();
    story.keys("m").sees("bookmark (a-z");
    story.state.listing.cursor = 0;
    story.then("x ' x");
    assert_eq!(story.name(), at);
    story.then("m esc").misses("Bookmarks are named").misses("bookmark (");
}

#[test]
fn single_entry_is_verified() {
    let mut story = Story::begin(everything(), 100, 24);
    story.then("alt-v").sees("no damage (1 entry, 25 B checked)");
    // A directory with everything below it. With marks, both keys verify the marked entries.
    story.then("G k alt-v J").sees("verify train").sees("(3 entries, 18 B checked)");
    story.then("esc g space j space alt-v").sees("2 entries");
    story.then("V").sees("2 entries");
    assert_eq!(story.state.jobs.list.len(), 4);
}

#[test]
fn search_results_are_stepped_through() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("n");
    story.sees("No search yet");
    story.then("/").types("json");
    story.then("enter");
    let first = story.name();
    story.then("n");
    let second = story.name();
    assert!(first != second && second.ends_with(".json"), "{second}");
    story.sees("2 of 3 found");
    story.then("N");
    assert_eq!(story.name(), first);
    story.then("N");
    story.sees("No more results");
}

#[test]
fn help_is_searched() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("? /").types("bookmark");
    story.sees("bookmarks: Go to a bookmark (')");
}

#[test]
fn quitting_with_running_job_asks() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("q");
    story.sees("Jobs are running");
    story.then("b");
    assert!(story.outside.is_empty());
    story.then("q w");
    assert!(story.outside.is_empty());
    story.event(Event::Job(id, JobEvent::End(Ending::Done, "done".to_owned())));
    assert_eq!(story.outside, [Effect::Quit]);
}

#[test]
fn job_continues_in_terminal() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    // A paused job is resumed, because it could not be resumed without a screen.
    story.then("J p esc q l");
    assert_eq!(story.outside, [Effect::Pause(id, true), Effect::Pause(id, false), Effect::Detach]);
}

#[test]
fn content_is_passed_to_other_programs() {
    let mut story = Story::begin(everything(), 80, 24);
    let entry = story.state.listing.entry().unwrap().clone();
    story.then("o f4");
    assert_eq!(story.outside, [Effect::Page(entry.clone()), asks(Request::Copy(entry))]);
    // Keys typed while the copy is made are dropped or passed to the editor.
    let copied = Event::Response(story.state.requests.newest(RequestKind::Copy), Response::CopyReady("copy/README.md".into()));
    story.keys("G j");
    story.event(copied.clone());
    assert_eq!((story.outside.last(), story.name()), (Some(&Effect::Edit("copy/README.md".into())), "README.md".to_owned()));
    // It can be cancelled.
    story.then("f4").sees("Copying README.md; esc cancels");
    story.then("G esc").sees("Copy cancelled");
    let count = story.outside.len();
    story.event(copied);
    assert_eq!((story.outside.len(), story.name()), (count, "README.md".to_owned()));
    story.then("G k f4");
    story.sees("Only files have content");
}

#[test]
fn job_is_stopped() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("J x");
    assert_eq!(story.outside, [Effect::Stop(id)]);
    story.sees("stopping …");
    story.event(Event::Job(id, JobEvent::End(Ending::Cancelled, "stopped".to_owned())));
    story.sees("■");
}

#[test]
fn waiting_job_is_shown_as_waiting() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.event(Event::Job(id, JobEvent::Waiting(true)));
    story.sees("verify a.nra queued");
    // Waiting does not count as running time.
    story.now += Duration::from_secs(60);
    story.then("J").sees("queued: x");
    story.event(Event::Job(id, JobEvent::Waiting(false)));
    story.misses("queued");
    story.event(Event::Job(id, JobEvent::End(Ending::Done, "no damage".to_owned())));
    assert_eq!(story.state.jobs.list[0].elapsed(), Duration::ZERO);
}

#[test]
fn remaining_time_is_shown_where_it_fits() {
    for (width, height) in [(120, 30), (80, 24), (40, 10), (20, 5)] {
        let mut story = Story::begin(everything(), width, height);
        let id = story.state.jobs.add("extract 250,250 marked entries, 1.8 GiB to somewhere".to_owned(), story.now).id;
        for step in 1..=20 {
            story.now += Duration::from_millis(500);
            let progress = Progress { bytes: step * 5_000, all_bytes: 2_250_000, ..Progress::default() };
            story.event(Event::Job(id, JobEvent::Progress(progress, "x".to_owned())));
        }
        let shows =
            |story: &Story, sign: &str| story.screen().lines().any(|line| line.contains(sign) && line.contains("ETA 3:35"));
        assert!(shows(&story, if width > 20 { "extrac" } else { "" }), "{}", story.screen());
        assert!(width < 80 || shows(&story, "9.8 KiB/s"), "{}", story.screen());
        assert!(width == 20 || shows(story.then("J"), "▶ extrac"), "{}", story.screen());
    }
}

#[test]
fn marks_are_shown_beside_job() {
    let mut story = Story::begin(everything(), 80, 24);
    story.state.jobs.add("extract 250,250 marked entries, 1.8 GiB to somewhere".to_owned(), story.now);
    story.then("space space").sees("extract 250").sees("2 marked");
}

#[test]
fn job_is_paused_and_resumed() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("J p");
    story.sees("‖").sees("paused: p resumes");
    story.then("p");
    story.misses("paused: p resumes");
    story.then("p esc");
    // Waiting for the end resumes paused jobs.
    story.then("q w");
    assert_eq!(story.outside, [true, false, true, false].map(|pause| Effect::Pause(id, pause)));
}

/// Opens an archive file as the program does: as the requested target, or as another archive.
pub fn open(story: &mut Story, file: &Path) {
    story.archive = Arc::from(open_path(file, &OpenOptions::default()).unwrap());
    let target = story.state.opening.target.clone().unwrap_or_else(|| OpenTarget::File(file.to_owned()));
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let facts = Facts { name, info: story.archive.info().clone(), file: Ok(file.to_owned()), ..Facts::default() };
    story.opens(target, facts);
}

/// Returns the paths of all entries.
pub fn paths(archive: &dyn Archive) -> Vec<String> {
    archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect()
}

#[test]
fn changes_are_made_undone_and_written() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b/c.txt", b"c"), ("b/d.txt", b"d"), ("e.txt", b"e")]))
        .unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    story.then("d");
    story.sees("Only NRA 5 archives in files can be changed");
    open(&mut story, &file);
    story.then("j d");
    // The directory with everything below it.
    story.sees("3 entries will be removed").sees("✗ b/");
    story.then("u");
    story.misses("✗");
    story.then("j space k k r ctrl-u").types("z.txt");
    story.then("enter");
    story.sees("→ z.txt");
    story.then("d j");
    story.sees("1 to remove, 1 to rename: W write, u undo");
    story.then("q");
    story.sees("Unwritten changes");
    story.then("w ctrl-u").types("tidied up");
    story.then("enter");
    story.sees("commit 2 is written");
    assert!(story.outside.iter().all(|effect| *effect == Effect::Quit) && !story.outside.is_empty());
    story.outside.clear();
    story.state.quit = None;
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["b", "b/c.txt", "b/d.txt", "z.txt"]);
    assert_eq!(story.archive.info().message, "tidied up");
    // The first commit is unchanged.
    let first = open_path(&file, &OpenOptions { commit: Some(1), ..OpenOptions::default() }).unwrap();
    assert_eq!(paths(&*first), ["a.txt", "b", "b/c.txt", "b/d.txt", "e.txt"]);
}

#[test]
fn pending_changes_are_listed_and_undone() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b/c.txt", b"c"), ("e.txt", b"e")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("P");
    story.sees("No pending changes");
    story.then("d");
    story.sees("a.txt: 1 entry will be removed");
    story.then("f7").types("new/deep");
    story.then("enter");
    story.sees("new/deep will be created");
    // Added entries are shown below the existing rows.
    assert!(story.screen().lines().any(|line| line.starts_with("+ new/")), "{}", story.screen());
    story.then("G r").types("f.txt");
    story.then("enter");
    story.sees("e.txt will be renamed to f.txt");
    // Conflicts are shown in the prompt. Names that pending changes have freed are not conflicts.
    for (keys, name, why) in [
        ("f7", "new/deep", "new/deep already has a pending change"),
        ("f7", "b", "b already exists"),
        ("f7", "b/c.txt/d", "b/c.txt is not a directory"),
        ("r", "b", "b already exists"),
        ("k r", "f.txt", "f.txt already has a pending change"),
    ] {
        story.then(keys).types(name);
        story.then("enter");
        story.sees(why);
        story.then("esc");
    }
    story.then("G f7").types("a.txt");
    story.then("enter");
    story.sees("a.txt will be created");
    story.then("P");
    story.sees("Pending changes").sees("remove a.txt: 1 entry").sees("rename e.txt to f.txt").sees("make a.txt");
    for (width, height) in [(120, 40), (80, 24), (40, 10)] {
        story.event(Event::Resize(width, height));
        insta::assert_snapshot!(format!("plans-{width}x{height}"), story.screen());
    }
    story.event(Event::Resize(100, 24));
    // Undoes a change in the middle, then the last one.
    story.then("k k u");
    story.sees("undone: make new/deep");
    story.then("esc u");
    story.sees("undone: make a.txt");
    story.then("k");
    story.sees("1 to remove, 1 to rename");
}

#[test]
fn pending_changes_are_not_dropped_without_asking() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b.nra", b"b")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.state.opening.archives = vec!["other.nra".into()];
    story.then("f7").types("made");
    story.then("enter W enter");
    open(&mut story, &file);
    story.outside.clear();
    let commits: Vec<_> = story.archive.commits().map(|commit| commit.unwrap()).collect();
    story.then("d j");
    // There is no newer commit, so no menu is shown.
    story.then("]").sees("This is the newest commit");
    for keys in ["[", "ctrl-r", "O enter"] {
        story.then(keys);
        story.sees("Unwritten changes").sees("remove a.txt: 1 entry");
        story.then("b");
        assert!(story.outside.is_empty() && !story.state.changes.pending.is_empty(), "{keys}");
    }
    // The choices are visible below any number of changes.
    for name in ["one", "two", "three", "four", "five"] {
        story.then("f7").types(name);
        story.then("enter");
    }
    story.event(Event::Resize(40, 10));
    story.then("[");
    story.sees("remove a.txt: 1 entry").sees("b  back").sees("d  drop them and continue");
    story.then("esc");
    story.event(Event::Resize(100, 24));
    story.then("H");
    story.outside.clear();
    story.respond(Response::Commits(Ok(commits.clone())));
    story.then("enter").sees("This commit is already shown");
    story.then("H");
    story.outside.clear();
    story.respond(Response::Commits(Ok(commits)));
    story.then("j enter");
    story.sees("Unwritten changes");
    story.then("d");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Commit(Some(1)), None))]);
}

#[test]
fn nothing_is_kept_for_archive_of_same_name() {
    let work = tempfile::tempdir().unwrap();
    let (file, other) = (work.path().join("a.nra"), work.path().join("sub/a.nra"));
    std::fs::create_dir(work.path().join("sub")).unwrap();
    for path in [&file, &other] {
        std::fs::write(path, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b/c.txt", b"b")])).unwrap();
    }
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.state.opening.archives = vec![other.clone()];
    story.then("r ctrl-u").types("z.txt");
    story.then("enter j m q enter f7").types("made");
    story.then("enter O enter").sees("rename a.txt to z.txt").sees("drop them and continue");
    story.then("d");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::File(other.clone()), None))]);
    // The changes are kept until it is open.
    assert_eq!(story.state.changes.pending.list().len(), 2);
    open(&mut story, &other);
    assert!(story.state.changes.pending.is_empty() && story.state.places.bookmarks.is_empty());
    assert!(story.state.listing.scope.directory.is_none());
    // The same archive is opened again, and the changes are dropped.
    story.state.opening.archives = vec![other.clone()];
    story.then("d O enter d");
    open(&mut story, &other);
    assert!(story.state.changes.pending.is_empty());
}

#[test]
fn typing_replaces_suggestion() {
    let work = tempfile::tempdir().unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    story.then("e").types("x/y");
    story.sees("› x/y").misses("./x/y");
    story.then("esc e");
    story.event(Event::Paste(work.path().join("out").display().to_string()));
    story.then("enter");
    assert_eq!(files(work.path()), ["out/README.md"]);
    // Moving into the suggestion keeps it.
    story.then("esc r").misses("Rename");
    story.then("e end").types("/more");
    story.sees("out/more");
    story.then("esc e backspace enter");
    story.sees("type something first");
}

#[test]
fn conflict_keeps_prompt_open() {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("there.tar"), "mine").unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    story.then("c");
    story.event(Event::Paste(work.path().join("there.tar").display().to_string()));
    story.then("enter");
    story.sees("the file exists").sees("Convert ");
    assert_eq!(std::fs::read_to_string(work.path().join("there.tar")).unwrap(), "mine");
    // For a nested archive, the suggestion contains its own name only.
    story.then("esc");
    story.state.archive.name = "a.nra ▸ inner.zip".to_owned();
    story.then("c");
    story.sees("› inner.nra");
}

#[test]
fn suspending_works_while_typing() {
    let mut story = Story::begin(everything(), 100, 24);
    for keys in ["/", "f", "e", ":", "F"] {
        story.then(keys).then("ctrl-z esc");
    }
    assert_eq!(story.outside, vec![Effect::Suspend; 5]);
}

#[test]
fn escape_does_not_quit() {
    let mut story = Story::begin(everything(), 100, 24);
    story.then("esc");
    story.sees("Nothing to close: q quits");
    assert!(story.outside.is_empty());
    // The job in the status line.
    story.then("x");
    story.sees("No job is running");
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    story.then("x");
    assert_eq!(story.outside, [Effect::Stop(id)]);
}

#[test]
fn changes_of_modified_archive_fail() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b.txt", b"b")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("d");
    let mut other = Story::begin(everything(), 100, 24);
    open(&mut other, &file);
    other.then("j d W enter");
    other.sees("commit 2 is written");
    story.then("W enter");
    story.sees("the archive has another commit by now");
    assert!(story.outside.is_empty() && !story.state.changes.pending.is_empty());
    let archive = open_path(&file, &OpenOptions::default()).unwrap();
    assert_eq!(archive.find(b"a.txt").unwrap().map(|found| found.1.path), Some(EntryPath::try_from("a.txt").unwrap()));
}

#[test]
fn invalid_names_are_rejected_in_prompt() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("b/c.txt", b"c")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("r ctrl-u").types("x//y");
    story.then("enter");
    story.sees("empty component");
    story.then("ctrl-u").types("b/below");
    story.then("enter");
    story.sees("into itself");
    story.then("esc");
    assert!(story.state.changes.pending.is_empty());
}

#[test]
fn password_is_never_shown() {
    let mut story = Story::begin(everything(), 80, 24);
    let target = OpenTarget::File("secret.nra".into());
    story.respond(Response::Failed(Failure::Locked(target.clone(), false)));
    story.sees("Open secret.nra").sees("encrypted; password");
    story.types("hush word");
    story.misses("hush").sees("•••••••••");
    story.then("enter");
    assert_eq!(story.outside, [asks(Request::Open(target.clone(), Some(Password(b"hush word".to_vec().into()))))]);
    assert!(!format!("{:?}", story.outside).contains("hush"));
    story.respond(Response::Failed(Failure::Locked(target, true)));
    story.sees("wrong password");
    story.then("esc");
    story.sees("README.md");
}

#[test]
fn files_and_directories_are_added() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("b/c.txt", b"c"), ("e.txt", b"e")])).unwrap();
    std::fs::create_dir(work.path().join("new")).unwrap();
    std::fs::write(work.path().join("new/x.txt"), "x").unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("enter a");
    story.sees("Add to b");
    story.event(Event::Paste(work.path().join("missing").display().to_string()));
    story.then("enter");
    story.sees("no such file").misses("to add");
    story.then("esc a");
    story.event(Event::Paste(work.path().join("new").display().to_string()));
    story.then("enter h f7").types("x//y");
    story.then("enter");
    story.sees("empty component");
    story.then("ctrl-u").types("fresh/deep");
    story.then("enter j");
    story.sees("1 to add, 1 to make: W write, u undo");
    story.then("W enter");
    story.sees("commit 2 is written");
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["b", "b/c.txt", "b/new", "b/new/x.txt", "e.txt", "fresh", "fresh/deep"]);
}

#[test]
fn writing_reports_lost_recovery_data() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b.txt", b"b")])).unwrap();
    protect(&file, 10, MEMORY_BYTES, &Recorder::default()).unwrap();
    let mut story = Story::begin(everything(), 120, 24);
    open(&mut story, &file);
    story.then("d W");
    story.sees("recovery data is");
    story.then("enter");
    story.sees("commit 2 is written").sees("nra protect adds it again");
    open(&mut story, &file);
    story.then("d W");
    story.sees("one commit; earlier").misses("recovery data");
}

#[test]
fn archive_is_converted() {
    let work = tempfile::tempdir().unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    story.then("c");
    story.sees("Convert a.nra to").sees("a.tar.zst");
    story.then("ctrl-u").types("a.rar");
    story.then("enter");
    story.sees("known extensions: .nra .nra4 .tar");
    for name in ["copy.tar.gz", "copy.nra"] {
        story.then("ctrl-u");
        let output = work.path().join(name);
        story.event(Event::Paste(output.display().to_string()));
        story.then("enter");
        story.sees("10 files");
        let copy = open_path(&output, &OpenOptions::default()).unwrap();
        assert_eq!(paths(&*copy).len(), 14, "{name}");
        story.then("c");
    }
    // An existing file is not replaced.
    story.then("ctrl-u");
    story.event(Event::Paste(work.path().join("copy.nra").display().to_string()));
    story.then("enter");
    story.sees("the file exists");
}

#[test]
fn encrypted_archive_is_changed_with_its_key() {
    use nra_format::crypt::{Argon2Cost, Keyring, Secret};
    use nra_format::nra::writer::{Writer, WriterOptions};
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let secret = Secret::UserKey([7; 32].into());
    let encryption = Some(Keyring::create(&secret, Argon2Cost::default(), "").unwrap());
    let writer = Writer::create(Vec::new(), WriterOptions { encryption, ..WriterOptions::default() }).unwrap();
    let (bytes, _) = writer.finish(&nra_format::progress::Recorder::default()).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let with_key = OpenOptions { key: Some(secret), ..OpenOptions::default() };
    let mut story = Story::begin(everything(), 100, 24);
    story.archive = Arc::from(open_path(&file, &with_key).unwrap());
    let facts = Facts { info: story.archive.info().clone(), file: Ok(file.clone()), ..Facts::default() };
    story.opens(OpenTarget::File(file.clone()), facts);
    story.then("f7").types("sealed");
    story.then("enter W enter");
    story.sees("commit 2 is written");
    assert_eq!(paths(&*open_path(&file, &with_key).unwrap()), ["sealed"]);
    assert!(open_path(&file, &OpenOptions::default()).is_err());
}

#[test]
fn open_range_counts_as_marked() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let files: [(&str, &[u8]); 5] = [("a", b"a"), ("b/1", b"1"), ("b/2", b"2"), ("c", b"c"), ("d", b"d")];
    std::fs::write(&file, crate::tests::sample::bytes(&files)).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("v j d").sees("4 entries will be removed");
    assert_eq!((story.state.marks.anchor, story.state.marks.count()), (None, 0));
    story.then("u j v j j e").sees("Extract 2 marked entries");
    story.then("esc esc g v j alt-v").sees("(4 entries");
    // Another list ends the range, because its rows are others.
    for keys in ["v j t", "v j enter", "v j s s"] {
        story.then("esc esc g").then(keys);
        assert_eq!(story.state.marks.anchor, None, "{keys}");
    }
}

#[test]
fn empty_list_shows_message() {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.archive.file = Ok("a.nra".into());
    story.then("f").types("nothing like that");
    story.then("enter");
    for key in ["e", "E", "d", "r", "i", "y", "Y", "alt-v"] {
        story.then("f1 esc").misses("Empty directory");
        story.then(key).sees("No entry here");
    }
    assert!(story.outside.is_empty() && story.state.changes.pending.is_empty());
}

#[test]
fn failed_job_restores_marks() {
    let mut story = Story::begin(everything(), 100, 24);
    story.works = false;
    let start = |story: &mut Story| {
        story.then("j space space e ctrl-u").types("out");
        story.then("enter");
        assert!(story.state.marks.is_empty());
        story.state.jobs.list.last().unwrap().id
    };
    for ending in [Ending::Failed, Ending::Cancelled] {
        let id = start(&mut story);
        story.event(Event::Job(id, JobEvent::End(ending, "no".to_owned())));
        assert_eq!(story.state.marks.count(), 2);
        story.then("esc g");
    }
    let id = start(&mut story);
    story.event(Event::Job(id, JobEvent::End(Ending::Degraded, "mostly".to_owned())));
    assert!(story.state.marks.is_empty());
    story.then("g");
    // Newer marks are kept.
    let id = start(&mut story);
    story.then("g space");
    story.event(Event::Job(id, JobEvent::End(Ending::Failed, "no".to_owned())));
    assert_eq!(story.state.marks.count(), 1);
    // A job that waited for a password also restores its marks.
    story.then("esc g");
    let id = start(&mut story);
    let Some(Effect::Start(_, task)) = story.outside.pop() else { panic!("{:?}", story.outside) };
    story.event(Event::Job(id, JobEvent::NeedsPassword(Box::new(task), false)));
    story.event(Event::Job(id, JobEvent::End(Ending::Cancelled, "its content needs a password".to_owned())));
    story.rest().types("open sesame").then("enter");
    let facts = story.state.archive.clone();
    story.opens(OpenTarget::Unlocked, facts);
    assert!(story.state.marks.is_empty());
    let id = story.state.jobs.list.last().unwrap().id;
    story.event(Event::Job(id, JobEvent::End(Ending::Failed, "no".to_owned())));
    assert_eq!(story.state.marks.count(), 2);
    assert!(story.state.jobs.list.iter().all(|job| job.marks.is_empty()), "those that have ended keep none");
}

#[test]
fn stop_applies_to_chosen_job() {
    let mut story = Story::begin(everything(), 80, 24);
    let [first, _] = ["verify a.nra", "verify b.nra"].map(|title| story.state.jobs.add(title.to_owned(), story.now).id);
    story.then("J j");
    let now = story.now;
    story.state.jobs.note("a.nra".to_owned(), Ending::Degraded, "something comes in between".to_owned(), now);
    story.state.jobs.add("verify c.nra".to_owned(), now);
    story.then("p x");
    assert_eq!(story.outside, [Effect::Pause(first, true), Effect::Stop(first)]);
}

#[test]
fn large_directory_is_selected_whole() {
    let names: Vec<String> = (0..3_000).map(|number| format!("d/{number:04}")).chain(["e".to_owned()]).collect();
    let archive = crate::tests::sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut story = Story::begin(archive, 100, 24);
    story.state.archive.file = Ok("a.nra".into());
    story.then("t enter");
    assert_eq!((story.name().as_str(), story.state.listing.is_whole()), ("d", false));
    story.then("d").sees("d: 3,001 entries will be removed");
}
