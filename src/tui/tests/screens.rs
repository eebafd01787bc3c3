//! Snapshots of each screen, in three sizes.

use std::time::Duration;

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use insta::assert_snapshot;

use super::{Story, asks, everything};
use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Failure, Response};
use crate::open_target::OpenTarget;
use crate::state::{Facts, JobEvent, ONLY_NRA, Progress};
use crate::tests::sample;
use crate::update::update;
use nra_convert::compact::Compaction;
use nra_format::archive::CommitInfo;

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 10)];

fn snapshots(name: &str, keys: &str) {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.then(keys);
        assert_snapshot!(format!("{name}-{width}x{height}"), story.screen());
    }
}

#[test]
fn list_is_drawn() {
    snapshots("list", "j");
}

#[test]
fn large_screens_are_filled() {
    for (width, height) in [(200, 60), (300, 100)] {
        let mut story = Story::begin(everything(), width, height);
        story.then("b j e");
        assert_snapshot!(format!("large-{width}x{height}"), story.screen());
    }
}

#[test]
fn directory_is_drawn() {
    snapshots("directory", "j j j enter");
}

#[test]
fn text_preview_is_drawn() {
    snapshots("text", "j j j enter enter");
}

#[test]
fn wrapped_text_is_drawn() {
    snapshots("wrapped", "j j j enter enter w");
}

#[test]
fn bytes_are_drawn() {
    snapshots("hex", "j j j j j f3");
}

#[test]
fn metadata_is_drawn() {
    snapshots("info", "5");
}

#[test]
fn marks_are_drawn() {
    snapshots("marks", "space j space j j");
}

#[test]
fn extraction_prompt_is_drawn() {
    snapshots("extract", "e");
}

#[test]
fn convert_prompt_is_drawn() {
    snapshots("convert", "c");
}

#[test]
fn search_is_drawn() {
    snapshots("find", "/ m d");
}

#[test]
fn palette_is_drawn() {
    snapshots("palette", ": s o r t");
}

#[test]
fn bars_are_drawn() {
    snapshots("bars", "b s s");
}

#[test]
fn map_of_sizes_is_drawn() {
    snapshots("map", "b b j");
}

#[test]
fn query_results_are_drawn() {
    snapshots("found", "F m d space t y p e : f i l e enter");
}

#[test]
fn ascii_mode_draws_ascii_only() {
    for keys in ["j", "?", "b s s", "b b", "V J", "/ m d", "space e", "t j j j l", "j j j enter enter"] {
        let mut story = Story::begin(everything(), 100, 30);
        story.state.settings.ascii = true;
        story.then(keys);
        assert!(story.screen().is_ascii(), "{}", story.screen());
    }
    let mut story = Story::begin(everything(), 80, 24);
    story.state.settings.ascii = true;
    story.then("space space e");
    assert_snapshot!("plain", story.screen());
}

#[test]
fn duplicates_are_drawn() {
    for (width, height) in SIZES {
        let content = |text: &str| text.repeat(100).into_bytes();
        let files = [
            ("a/cat.png", content("cat")),
            ("a/dog.png", content("dog")),
            ("b/cat (copy).png", content("cat")),
            ("b/cat.png", content("cat")),
            ("c/hound.png", content("dog")),
            ("c/owl.png", content("owl")),
        ];
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (*name, content.as_slice())).collect();
        let mut story = Story::begin(sample::with_contents(&files), width, height);
        story.then("D");
        assert_snapshot!(format!("duplicates-{width}x{height}"), story.screen());
        story.then("D");
        story.sees("a/").misses("=");
    }
}

#[test]
fn damaged_archive_is_shown_as_damaged() {
    let mut story = Story::begin(everything(), 80, 24);
    let remark = "the root of the entry tree is damaged".to_owned();
    let facts = Facts { damaged: true, remarks: vec![remark], ..story.state.archive.clone() };
    story.respond(Response::Opened(Box::new(facts)));
    story.sees("the root of the entry tree is damaged").sees("README.md");
    story.then("j");
    story.sees("the archive is damaged: readable entries are shown");
    story.then("f7");
    story.sees(ONLY_NRA);
}

#[test]
fn terminal_cursor_follows_focus_for_screen_readers() {
    let mut story = Story::begin(everything(), 80, 24);
    assert_eq!(story.cursor(), None);
    story.state.settings.linear = true;
    assert_eq!(story.cursor(), Some((0, 2)));
    story.then("j j");
    assert_eq!(story.cursor(), Some((0, 4)));
    // The cursor is on a message until the next key. The message stays visible.
    story.then("y");
    assert_eq!(story.cursor(), Some((0, 22)));
    story.then("j y j");
    let screen = story.screen();
    let lines: Vec<&str> = screen.lines().skip(20).take(2).map(str::trim).collect();
    assert_eq!(lines, ["Copied $'bad\\x1b[31mname\\n.txt'", "Copied docs"]);
    story.then("k k");
    story.then("s down");
    let row = story.screen().lines().position(|line| line.contains("stored size")).unwrap();
    assert_eq!(story.cursor().map(|at| usize::from(at.1) + 1), Some(row));
}

#[test]
fn commits_are_drawn() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.then("H");
        assert_eq!(story.outside, [asks(Request::Commits)]);
        let commit = |number: u64, message: &str| {
            let (time, message) = (Some(sample::TIME), message.to_owned());
            CommitInfo { number, time, message, entries: number * 1_000, added_bytes: number << 16, ..CommitInfo::default() }
        };
        let list = vec![commit(2, "photos of May, and everything else that had been left out before"), commit(1, "")];
        story.respond(Response::Commits(Ok(list)));
        assert_snapshot!(format!("commits-{width}x{height}"), story.screen());
        story.state.archive.info.commit = Some(2);
        story.then("j enter");
        assert_eq!(story.outside[1], asks(Request::Open(OpenTarget::Commit(Some(1)), None)));
    }
}

#[test]
fn earlier_commit_is_always_indicated() {
    for (width, label) in [(120, "earlier commit 2 · 14 entries"), (60, "earlier commit 2"), (40, "commit 2"), (20, "@2")] {
        let mut story = Story::begin(everything(), width, 12);
        (story.state.archive.is_past, story.state.archive.info.commit) = (true, Some(2));
        for keys in ["", "j j j enter", "f3", "esc e"] {
            story.then(keys);
            let header = story.screen().lines().next().unwrap_or_default().to_owned();
            assert!(header.ends_with(label) || header.contains(label), "{keys}: {header}");
        }
    }
}

#[test]
fn password_prompt_is_drawn() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.respond(Response::Failed(Failure::Locked(OpenTarget::File("secret.nra".into()), true)));
        story.types("secret");
        assert_snapshot!(format!("password-{width}x{height}"), story.screen());
    }
}

/// Opens an archive that can be changed.
fn changeable(width: u16, height: u16) -> Story {
    let mut story = Story::begin(everything(), width, height);
    story.state.archive.file = Ok("a.nra".into());
    story
}

#[test]
fn menus_and_prompts_are_drawn() {
    let screens = [
        ("rename", "r"),
        ("rename-long", "j r"),
        ("add", "a"),
        ("message", "d W"),
        ("goto", "enter ctrl-g"),
        ("search", "enter /"),
        ("query", "F"),
        ("query-fault", "F s i z e > 1 0 q enter"),
        ("convert-fault", "c x . f o o enter"),
        ("extract-long", "j e"),
        ("columns", "C"),
        ("bookmarks", "m a j m b '"),
        ("plans-leaving", "d j d j d j d j d j d j d Q"),
    ];
    for (name, keys) in screens {
        for (width, height) in SIZES {
            let mut story = changeable(width, height);
            story.then(keys);
            assert!(!story.state.dialogs.is_empty(), "{name}");
            assert_snapshot!(format!("{name}-{width}x{height}"), story.screen());
        }
    }
}

#[test]
fn compact_and_return_ask_first() {
    for (width, height) in SIZES {
        let mut story = changeable(width, height);
        story.state.archive.info.commit = Some(12);
        story.then("U");
        assert_snapshot!(format!("undo-{width}x{height}"), story.screen());
        story.held_back = true;
        story.then("b Z");
        let saved = Compaction { before_bytes: 5 << 30, after_bytes: 3 << 30, dropped_commits: 11, ..Compaction::default() };
        let id = story.state.requests.newest(RequestKind::CompactEstimate);
        story.event(Event::Response(id, Response::CompactEstimate(Ok(saved))));
        assert_snapshot!(format!("compact-{width}x{height}"), story.screen());
    }
}

#[test]
fn long_rows_are_wrapped_in_dialogs() {
    let words = |story: &Story| story.screen().replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let sees = |story: &Story, what: &str| assert!(words(story).contains(what), "{what:?}\n{}", story.screen());
    let mut story = changeable(40, 10);
    story.state.archive.info.commit = Some(12);
    story.then("F").types("size>10q").then("enter");
    sees(&story, "unknown unit 'q' (use K, M, G, T, P or E, optionally followed by iB or B)");
    story.then("esc c ctrl-u").types("x.foo").then("enter");
    sees(&story, "known extensions:");
    story.then("esc :").types("sort-by-st");
    sees(&story, "sort-by-stored-size: Sort by stored size, largest first");
    // Hidden changes are counted.
    story.then("esc d j d j d j d Q");
    sees(&story, "Unwritten changes");
    sees(&story, "more b back");
    story.then("b u u u u U");
    sees(&story, "undo it: everything as of commit 11");
    story.then("b");
    // The log of a job starts with its first line.
    let id = story.state.jobs.add("verify a.nra".to_owned(), story.now).id;
    let damage = "rand.bin: block at offset 1234 is damaged: its checksum is 0123456789abcdef, not fedcba9876543210, and that of its record neither";
    story.event(Event::Job(id, JobEvent::Warning(damage.to_owned())));
    story.then("J").sees("rand.bin: block at offset");
    story.then("end").misses("rand.bin");
    story.then("home").sees("rand.bin: block at offset");
}

#[test]
fn choice_of_archives_is_drawn() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.state.opening.archives = vec!["a.nra".into(), "photos.nra".into(), "back up.zip".into()];
        story.then("O");
        assert_snapshot!(format!("archives-{width}x{height}"), story.screen());
    }
    let mut story = Story::begin(everything(), 80, 24);
    story.state.opening.archives = vec!["a.nra".into(), "photos.nra".into(), "back up.zip".into()];
    story.then("O");
    story.types("ph");
    story.then("enter");
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::File("photos.nra".into()), None))]);
    story.respond(Response::Opened(Box::new(story.state.archive.clone())));
    story.sees("README.md");
}

#[test]
fn sort_menu_is_drawn() {
    snapshots("sort", "s");
}

#[test]
fn sorted_list_is_drawn() {
    snapshots("sorted", "s s");
}

#[test]
fn filtered_list_is_drawn() {
    snapshots("filtered", "f m d enter");
}

#[test]
fn tree_is_drawn() {
    snapshots("tree", "t j j j l j j l");
}

#[test]
fn details_are_drawn() {
    snapshots("entry", "i");
}

#[test]
fn jobs_are_drawn() {
    snapshots("jobs", "V J");
}

#[test]
fn running_job_is_drawn() {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        let id = story.state.jobs.add("extract train to out".to_owned(), story.now).id;
        for tenth in 1..8 {
            let progress = Progress { bytes: tenth << 20, all_bytes: 10 << 20, entries: tenth, all_entries: 10 };
            story.now = Duration::from_millis(100 * tenth);
            story.event(Event::Job(id, JobEvent::Progress(progress, "train/0001.json".to_owned())));
        }
        assert_snapshot!(format!("working-{width}x{height}"), story.screen());
        story.then("J");
        assert_snapshot!(format!("working-list-{width}x{height}"), story.screen());
        story.then("q q");
        assert_snapshot!(format!("leaving-{width}x{height}"), story.screen());
    }
}

#[test]
fn help_is_drawn() {
    snapshots("help", "?");
}

#[test]
fn empty_archive_is_drawn() {
    let story = Story::begin(sample::archive(&[]), 80, 24);
    story.sees("Empty archive").sees("0 entries");
}

#[test]
fn tiny_screen_shows_message() {
    let mut story = Story::begin(everything(), 80, 24);
    for (width, height) in [(19, 24), (80, 4), (1, 1), (0, 0)] {
        story.event(Event::Resize(width, height));
        let shown = story.screen().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!("too small: needs 20x5".starts_with(&shown) || width < 10, "{shown}");
        assert!(width < 19 || shown.ends_with("20x5"), "{shown}");
        assert!(width < 10 || shown.starts_with("too small"), "{shown}");
    }
    // On an invisible screen, keys have no effect except quitting.
    story.event(Event::Resize(19, 24));
    story.keys("G space s n");
    story.event(Event::Paste("x".to_owned()));
    story.event(Event::Resize(20, 5));
    story.sees("README.md");
    assert!(story.state.marks.is_empty() && story.state.dialogs.is_empty());
    story.event(Event::Resize(19, 24));
    story.state.jobs.add("verify a.nra".to_owned(), story.now);
    story.keys("ctrl-c").sees("jobs are running:");
    story.keys("ctrl-c");
    assert_eq!(story.outside, [Effect::Quit]);
}

#[test]
fn every_size_can_be_drawn() {
    for keys in [
        "",
        "?",
        "f3",
        "j j j enter",
        "5",
        "e",
        "/ m",
        ":",
        "s",
        "i",
        "V J",
        "t j j j l",
        "f x",
        "b b",
        "F x enter",
        "m a '",
        ";",
        "R",
        "c",
        "V J pageup",
        "V q",
    ] {
        let mut story = Story::begin(everything(), 80, 24);
        story.then(keys);
        at_every_size(&mut story);
    }
    // Dialogs of archives that can be changed, have a history, or are encrypted.
    let commits = Response::Commits(Ok(vec![CommitInfo::default(); 40]));
    let begun = [
        ("d j r b enter P", None),
        ("d Q", None),
        ("d W", None),
        ("H", Some(commits)),
        ("j", Some(Response::Failed(Failure::Locked(OpenTarget::Commit(None), true)))),
    ];
    for (keys, event) in begun {
        let mut story = Story::begin(everything(), 80, 24);
        story.state.archive.file = Ok("a.nra".into());
        story.then(keys);
        if let Some(event) = event {
            let id = story.state.requests.newest(if keys == "H" { RequestKind::Commits } else { RequestKind::Open });
            story.event(Event::Response(id, event));
        }
        assert!(!story.state.dialogs.is_empty(), "{keys}");
        at_every_size(&mut story);
    }
}

/// Draws the screen in every size, and clicks on dialogs.
fn at_every_size(story: &mut Story) {
    let small = (0..130).step_by(7).flat_map(|width| (0..30).map(move |height| (width, height)));
    for (width, height) in small.chain([(200, 60), (300, 100)]) {
        story.event(Event::Resize(width, height));
        story.rest().screen();
        let mut clicked = story.state.clone();
        for (column, row) in [(width / 2, height / 2), (width / 2, height.saturating_sub(1)), (0, 0)] {
            let kind = MouseEventKind::Down(MouseButton::Left);
            let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
            drop(update(&mut clicked, Event::Mouse(event), story.now));
        }
    }
}
