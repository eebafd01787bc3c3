//! Changes that are planned together, and what follows when another archive is shown.

use super::deeds::{open, paths};
use super::{Story, everything};
use crate::tui::event::Event;
use crate::tui::keymap::Place;
use crate::tui::state::{Dialog, Facts};

#[test]
fn changes_within_what_is_renamed_are_written() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let files: [(&str, &[u8]); 5] = [("d/x/1", b"1"), ("d/x/2", b"2"), ("d/y", b"y"), ("e", b"e"), ("f", b"f")];
    std::fs::write(&file, crate::tui::sample::bytes(&files)).unwrap();
    std::fs::write(work.path().join("new"), "new").unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    // What lies above first, as it comes while looking around.
    story.then("r ctrl-u").types("top");
    story.then("enter l r ctrl-u").types("deep");
    story.then("enter l d h f7").types("made");
    story.then("enter a");
    story.event(Event::Paste(work.path().join("new").display().to_string()));
    story.then("enter h G r ctrl-u").types("/d/f");
    story.then("enter");
    // What is renamed is not removed, and the other way round.
    story.then("g d").sees("take that back first");
    story.then("l l d r").types("z");
    story.then("enter").sees("it is to be removed");
    story.then("esc W enter").sees("commit 2 is written");
    open(&mut story, &file);
    assert_eq!(paths(&*story.archive), ["e", "top", "top/deep", "top/deep/2", "top/f", "top/made", "top/new", "top/y"]);
}

#[test]
fn what_an_addition_replaces_is_told() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tui::sample::bytes(&[("a.txt", b"a"), ("b/c.txt", b"c")])).unwrap();
    std::fs::write(work.path().join("a.txt"), "anew").unwrap();
    std::fs::write(work.path().join("b"), "no directory").unwrap();
    let mut story = Story::begin(everything(), 120, 24);
    open(&mut story, &file);
    for (name, told) in [("b", "b is there already, and a directory"), ("a.txt", "will be added, and replaces what is there")] {
        story.then("a");
        story.event(Event::Paste(work.path().join(name).display().to_string()));
        story.then("enter").sees(told);
        story.then("esc");
    }
    story.then("P").sees("replacing what is there");
    story.then("W enter");
    open(&mut story, &file);
    assert_eq!(story.archive.entry(0).unwrap().size, 4);
}

#[test]
fn names_are_taken_as_they_are_typed() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    std::fs::write(&file, crate::tui::sample::bytes(&[(" a", b"a")])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("r end").types("x ");
    story.then("enter").sees("will be renamed to  ax ");
}

#[test]
fn what_lies_in_an_archive_is_not_read_anew() {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.archive.depth = 1;
    story.then("ctrl-r").sees("does not change");
    assert!(story.outside.is_empty());
}

#[test]
fn letters_of_menus_are_no_keys_that_move() {
    let mut story = Story::begin(everything(), 100, 24);
    for opening in ["s", "R", "C"] {
        story.then(opening);
        let Some(Dialog::Menu(menu)) = story.state.dialogs.last() else { panic!("{opening} opens no menu") };
        for (letter, words, _) in &menu.items {
            let action = story.state.keymap.action(Place::Panel, letter.to_string().parse().unwrap());
            assert_eq!(action, None, "{words}: {letter}");
        }
        story.then("esc");
    }
}

#[test]
fn another_archive_is_looked_at_anew() {
    let mut story = Story::begin(everything(), 100, 24);
    story.then("b b").sees("areas by size");
    story.then("s").sees("the map has an order of its own");
    let facts = Facts { name: "other.nra".to_owned(), ..story.state.archive.clone() };
    story.event(Event::Opened(Box::new(facts)));
    story.rest().misses("areas by size").sees("README.md");
    assert!(story.state.arrangement.is_natural());
}

#[test]
fn an_archive_that_does_not_open_leaves_the_others_to_choose() {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.archives = vec!["a.nra".into(), "b.nra".into()];
    story.state.vacant = true;
    story.then("O enter");
    story.event(Event::Trouble("a.nra is no archive".to_owned()));
    story.sees("Open an archive").sees("b.nra").sees("a.nra is no archive");
}
