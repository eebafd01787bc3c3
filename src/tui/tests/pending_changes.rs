//! Several pending changes, and changes of the archive shown.

use super::jobs::{open, paths};
use super::{Story, everything};
use crate::effect::{Effect, Request};
use crate::event::{Event, Failure, Response};
use crate::keymap::Place;
use crate::open_target::OpenTarget;
use crate::state::{Dialog, Facts, PendingChange};

#[test]
fn changes_below_renamed_directory_are_written() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let files: [(&str, &[u8]); 5] = [("d/x/1", b"1"), ("d/x/2", b"2"), ("d/y", b"y"), ("e", b"e"), ("f", b"f")];
    std::fs::write(&file, crate::tests::sample::bytes(&files)).unwrap();
    std::fs::write(work.path().join("new"), "new").unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    // Parent directories first, as a user would meet them.
    story.then("r ctrl-u").types("top");
    story.then("enter l r ctrl-u").types("deep");
    story.then("enter l d h f7").types("made");
    story.then("enter a");
    story.event(Event::Paste(work.path().join("new").display().to_string()));
    story.then("enter h G r ctrl-u").types("/d/f");
    story.then("enter");
    // A renamed entry cannot be removed, and a removed one cannot be renamed.
    story.then("g d").sees("d is to be removed and renamed: undo one of the two first");
    story.then("l l d r").types("z");
    story.then("enter").sees("d/x/1 is to be removed and renamed");
    story.then("esc W enter").sees("commit 2 is written");
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["e", "top", "top/deep", "top/deep/2", "top/f", "top/made", "top/new", "top/y"]);
}

#[test]
fn position_follows_rename() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let files: [(&str, &[u8]); 5] =
        [("data/1", b"1"), ("deep/a/b/x", b"x"), ("deep/a/b/y", b"y"), ("deep/a/z", b"z"), ("else", b"e")];
    std::fs::write(&file, crate::tests::sample::bytes(&files)).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    // Renames apply to the directory shown and to bookmarks.
    story.then("r ctrl-u").types("deep2");
    story.then("enter j r ctrl-u").types("data");
    story.then("enter l l r ctrl-u").types("c");
    story.then("enter l j m x f").types("y");
    story.then("enter W enter").sees("commit 2 is written");
    open(&mut story, &file);
    story.sees("commit 2 is written").sees("data ▸ a ▸ c");
    assert_eq!(story.names(), ["data/a/c/y"]);
    story.then("g ' x");
    assert_eq!(story.name(), "data/a/c/y");
    // The cursor of the parent directory follows, too.
    story.then("h");
    assert_eq!(story.name(), "data/a/c");
    // If the directory shown is removed, the message still reports the commit.
    story.then("d l W enter");
    open(&mut story, &file);
    story.sees("commit 3 is written; H goes back; data/a/c does not exist in it");
    assert_eq!(story.names(), ["data/a/z"]);
}

#[test]
fn addition_shows_what_it_replaces() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a.txt", b"a"), ("b/c.txt", b"c")])).unwrap();
    std::fs::write(work.path().join("a.txt"), "anew").unwrap();
    std::fs::write(work.path().join("b"), "no directory").unwrap();
    let mut story = Story::begin(everything(), 120, 24);
    open(&mut story, &file);
    for (name, message) in [("b", "b already exists and is a directory"), ("a.txt", "will be added over the existing one")] {
        story.then("a");
        story.event(Event::Paste(work.path().join(name).display().to_string()));
        story.then("enter").sees(message);
        story.then("esc");
    }
    story.then("P").sees("over the existing one");
    story.then("W enter");
    open(&mut story, &file);
    assert_eq!(story.archive.entry(0).unwrap().size, 4);
}

#[test]
fn addition_conflicts_with_pending_change() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("x", b"x"), ("y", b"y")])).unwrap();
    for directory in ["one", "two"] {
        std::fs::create_dir(work.path().join(directory)).unwrap();
        std::fs::write(work.path().join(directory).join("f.txt"), directory).unwrap();
    }
    let mut story = Story::begin(everything(), 120, 24);
    open(&mut story, &file);
    let add = |story: &mut Story, directory: &str| {
        story.then("a");
        story.event(Event::Paste(work.path().join(directory).join("f.txt").display().to_string()));
        story.then("enter");
    };
    story.then("r ctrl-u").types("f.txt");
    story.then("enter");
    add(&mut story, "one");
    story.sees("f.txt already has a pending change");
    story.then("esc u");
    add(&mut story, "one");
    story.misses("replaces");
    add(&mut story, "two");
    story.sees("f.txt already has a pending change");
    story.then("esc W enter").sees("commit 2 is written");
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["f.txt", "x", "y"]);
}

#[test]
fn names_keep_spaces() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[(" a", b"a")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("r end").types("x ");
    story.then("enter").sees("will be renamed to  ax ");
    for keys in ["r ctrl-u", "f7"] {
        story.then(keys).types("  ");
        story.then("enter").sees("a name needs a character other than spaces");
        story.then("esc");
    }
}

#[test]
fn named_changes_survive_unwritable_archive() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a", b"a")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("r ctrl-u").types("b");
    story.then("enter").sees("will be renamed to b");
    let facts = Facts { file: Err(crate::state::WRITE_PROTECTED), ..story.state.archive.clone() };
    story.opens(OpenTarget::Commit(None), facts);
    story.then("W").sees(crate::state::WRITE_PROTECTED);
    story.then("P").sees("rename a to b");
}

#[test]
fn nested_archive_is_not_reloaded() {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.archive.depth = 1;
    story.then("ctrl-r").sees("does not change");
    assert!(story.outside.is_empty());
}

#[test]
fn menu_letters_do_not_move_cursor() {
    let mut story = Story::begin(everything(), 100, 24);
    for opening in ["s", "R", "C"] {
        story.then(opening);
        let Some(Dialog::Menu(menu)) = story.state.dialogs.last() else { panic!("{opening} opens no menu") };
        for (letter, words, _) in &menu.items {
            let action = story.state.settings.keymap.action(Place::Panel, letter.to_string().parse().unwrap());
            assert_eq!(action, None, "{words}: {letter}");
        }
        story.then("esc");
    }
}

#[test]
fn opening_other_archive_resets_view() {
    let mut story = Story::begin(everything(), 100, 24);
    story.then("b b").sees("areas by size");
    story.then("s").sees("The map has its own order");
    let facts = Facts { name: "other.nra".to_owned(), ..story.state.archive.clone() };
    story.respond(Response::Opened(Box::new(facts)));
    story.rest().misses("areas by size").sees("README.md");
    assert!(story.state.arrangement.wanted.is_natural());
}

#[test]
fn failed_opening_keeps_choice_of_archives() {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.opening.archives = vec!["a.nra".into(), "b.nra".into()];
    story.state.opening.no_archive = true;
    story.then("O enter");
    story.respond(Response::Failed(Failure::Error("a.nra is no archive".to_owned())));
    story.sees("Open an archive").sees("b.nra").sees("a.nra is no archive");
    // Without its password, another archive can be chosen.
    story.then("enter");
    story.respond(Response::Failed(Failure::Locked(OpenTarget::File("a.nra".into()), false)));
    story.sees("encrypted; password");
    story.then("esc").sees("Open an archive").sees("b.nra");
    assert!(!story.outside.contains(&Effect::Quit));
    story.then("esc");
    assert!(story.outside.contains(&Effect::Quit));
}

#[test]
fn entry_has_one_pending_name() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a", b"a"), ("b", b"b")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    for name in ["c", "d"] {
        story.then("r ctrl-u").types(name);
        story.then("enter");
    }
    story.then("P").sees("rename a to d").misses("rename a to c");
    // The prompt suggests the pending name. Typing the present name undoes the change.
    story.then("esc r").sees("› d");
    story.then("ctrl-u").types("a");
    story.then("enter").sees("a keeps its name");
    assert!(story.state.changes.pending.is_empty());
    story.then("r ctrl-u").types("d");
    story.then("enter f7").types("dd");
    story.then("enter W enter").sees("commit 2 is written");
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["b", "d", "dd"]);
}

#[test]
fn archive_is_not_added_to_itself() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a", b"a")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("a");
    story.event(Event::Paste(file.display().to_string()));
    story.then("enter").sees("an archive cannot be added to itself");
    // An addition of the archive made in another way is skipped, and the message reports that
    // nothing changed.
    story.state.changes.pending.push(PendingChange::Add(file, None, false));
    story.then("esc W ctrl-u enter").sees("nothing has changed, no commit written");
}

#[test]
fn named_changes_survive_foreign_commit() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a", b"a"), ("b", b"b"), ("c", b"c")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("r ctrl-u").types("z");
    story.then("enter f7").types("made");
    story.then("enter");
    // Another program writes a commit first.
    let mut other = Story::begin(everything(), 100, 24);
    open(&mut other, &file);
    other.then("G d W enter").sees("commit 2 is written");
    story.then("W enter").sees("another commit by now: reload it (ctrl-r)");
    story.then("ctrl-r");
    assert!(
        matches!(story.outside.pop(), Some(Effect::Request(_, Request::Open(OpenTarget::Commit(None), None)))),
        "nothing is lost, so nothing is asked"
    );
    open(&mut story, &file);
    story.then("W enter").sees("commit 3 is written");
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["b", "made", "z"]);
    // Entry numbers would refer to other entries.
    story.then("d f7").types("more");
    story.then("enter ctrl-r").sees("drop the removals and continue").sees("remove z: 1 entry").misses("make more");
    // Writing them would fail again.
    story.misses("write them");
    story.then("d");
    open(&mut story, &file);
    assert_eq!(story.state.changes.pending.summary(), "1 to make");
}

#[test]
fn pending_rows_are_shown_below_any_list() {
    let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut story = Story::begin(crate::tests::sample::archive(&names), 80, 24);
    story.state.archive.file = Ok("a.nra".into());
    let height = story.state.listing.height;
    story.then("f7").types("made/deep");
    story.then("enter");
    // The new directory is shown once all rows are loaded, because only then is it known to be new.
    story.sees("+ made/");
    assert_eq!(story.state.listing.height, height - 1);
    for keys in ["G", "g", "pagedown"] {
        story.then(keys);
        story.sees("+ made/").sees(&story.name());
    }
    story.then("u").misses("+ made/");
    assert_eq!(story.state.listing.height, height);
}

#[test]
fn policy_for_existing_files_is_reset() {
    let mut story = Story::begin(everything(), 80, 24);
    story.works = false;
    story.then("e").sees("rename the new file");
    story.then("down enter e").sees("rename the new file").misses("keep it, skip the entry");
}

#[test]
fn pending_changes_are_written_before_quitting() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a", b"a"), ("b", b"b")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("d q").sees("write them and quit");
    story.then("w").sees("Message");
    story.then("esc");
    assert!(story.outside.is_empty() && !story.state.changes.pending.is_empty(), "nothing is done without the message");
    story.then("q w enter");
    assert!(story.outside.contains(&Effect::Quit));
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["b"]);
    // Before another commit is shown, changes can be written without quitting.
    story.state.quit = None;
    story.then("d [").sees("write them and stay").misses("and quit");
}

#[test]
fn unwritable_changes_keep_program_running() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tests::sample::bytes(&[("a", b"a"), ("b", b"b")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("d");
    std::fs::remove_file(&file).unwrap();
    story.then("q w enter").sees("Unwritten changes");
    assert!(!story.outside.contains(&Effect::Quit) && !story.state.changes.pending.is_empty());
}

#[test]
fn hidden_pending_rows_are_counted() {
    let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut story = Story::begin(crate::tests::sample::archive(&names), 80, 24);
    story.state.archive.file = Ok("a.nra".into());
    for number in 0..10 {
        story.then("f7").types(&format!("made{number}"));
        story.then("enter");
    }
    story.sees("made0/").misses("+ made9/").sees("more (P: all)");
}
