//! Looking around and looking inside.

use super::{Story, everything};
use crate::tui::effect::Effect;
use crate::tui::event::Event;
use crate::tui::sample;
use crate::tui::state::jobs::News;

#[test]
fn directories_are_entered_and_left() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("j j j l");
    story.sees("a.nra ▸ docs");
    assert_eq!(story.name(), "docs/guide.md");
    story.then("j l l");
    story.sees("a.nra ▸ docs ▸ more ▸ deep");
    assert_eq!(story.name(), "docs/more/deep/file");
    story.then("h h h");
    assert_eq!(story.name(), "docs");
    // At the top there is nowhere to go.
    story.then("h");
    assert_eq!(story.name(), "docs");
    // The cursor is where it was.
    story.then("l");
    assert_eq!(story.name(), "docs/more");
}

#[test]
fn what_files_take_and_that_nothing_is_changed_is_shown_where_there_is_room() {
    let mut story = Story::begin(everything(), 120, 40);
    story.misses("stored").misses("read-only");
    story.then("p s z").sees("stored ▾");
    story.state.archive.fixed = crate::tui::state::READ_ONLY;
    story.sees("read-only · 14 entries");
}

#[test]
fn what_a_job_said_is_scrolled() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify".to_owned(), story.now);
    for number in 0..100 {
        story.event(Event::Job(id, News::Warning(format!("remark {number:02}"))));
    }
    story.then("J").sees("remark 99").misses("remark 80");
    story.then("pageup pageup pageup pageup pageup").sees("remark 70").misses("remark 99");
    story.then("pagedown pagedown pagedown pagedown pagedown").sees("remark 99");
    for _ in 0..40 {
        story.then("ctrl-u");
    }
    story.sees("remark 00");
}

#[test]
fn directories_tell_their_size() {
    let story = Story::begin(everything(), 80, 24);
    let screen = story.screen();
    let train = screen.lines().find(|line| line.contains("train/")).unwrap();
    assert!(train.contains("18 B"), "{train}");
}

#[test]
fn a_file_opens_as_text_or_bytes() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("enter");
    story.sees("1 # Hello").sees("text · 25 B");
    story.then("2");
    story.sees("00000000  23 20 48 65").sees("hex · 25 B");
    story.then("1 q");
    story.misses("# Hello").sees("docs/");
    assert!(story.outside.is_empty());
    story.then("q");
    assert_eq!(story.outside, [Effect::Quit]);
}

#[test]
fn control_characters_are_shown_not_sent() {
    let mut story = Story::begin(everything(), 120, 40);
    story.sees("bad␛[31mname␊.txt");
    story.then("j j j l");
    story.sees("indented␛[31m");
    assert!(!story.screen().contains('\x1b'));
}

#[test]
fn the_preview_follows_a_resting_cursor() {
    let mut story = Story::begin(everything(), 120, 40);
    story.sees("This is a test.");
    story.keys("j j j j j");
    story.misses("This is a test.").sees("reading …");
    story.rest();
    story.sees("00000000  00 01 02 03");
    story.then("p");
    story.misses("00000000").misses("│");
}

#[test]
fn a_long_list_has_both_ends() {
    let names: Vec<String> = (0..3_000).map(|number| format!("{number:04}")).collect();
    let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut story = Story::begin(archive, 80, 24);
    story.then("G");
    assert_eq!(story.name(), "2999");
    story.sees("100 %");
    story.then("pageup");
    assert_eq!(story.name(), "2980");
    story.then("g");
    assert_eq!(story.name(), "0000");
    story.then("ctrl-d ctrl-d");
    assert_eq!(story.name(), "0020");
}

#[test]
fn help_lists_the_keys_of_the_place() {
    let mut story = Story::begin(everything(), 80, 40);
    story.then("?");
    story.sees("Keys: list").sees("Go to the directory above");
    story.then("esc enter ?");
    story.sees("Keys: preview").misses("Go to the directory above");
    story.then("q q");
    story.sees("docs/");
}
