//! Navigation and previews.

use std::sync::Arc;

use super::{Story, everything};
use crate::effect::Effect;
use crate::event::Event;
use crate::state::{Facts, JobEvent};
use crate::tests::sample;

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
    // The top directory has no parent.
    story.then("h");
    assert_eq!(story.name(), "docs");
    // The cursor is restored.
    story.then("l");
    assert_eq!(story.name(), "docs/more");
}

#[test]
fn header_shows_size_and_read_only_where_it_fits() {
    let mut story = Story::begin(everything(), 120, 40);
    story.misses("stored").misses("read-only");
    story.then("p s z").sees("stored ▾");
    story.state.archive.file = Err(crate::state::READ_ONLY);
    story.sees("read-only · 14 entries");
}

#[test]
fn job_log_scrolls() {
    let mut story = Story::begin(everything(), 80, 24);
    let id = story.state.jobs.add("verify".to_owned(), story.now).id;
    for number in 0..100 {
        story.event(Event::Job(id, JobEvent::Warning(format!("remark {number:02}"))));
    }
    story.then("J").sees("remark 00").misses("remark 20");
    story.then("pagedown pagedown pagedown").sees("remark 30").misses("remark 20");
    story.then("pageup pageup pageup").sees("remark 00");
    story.then("G").sees("remark 99").misses("remark 80");
    story.then("k").sees("remark 98").misses("remark 99");
    for _ in 0..40 {
        story.then("ctrl-d");
    }
    story.sees("remark 99");
    story.then("g").sees("remark 00");
    // The log of another job starts with its first line.
    story.state.jobs.add("convert".to_owned(), story.now);
    story.then("G j ctrl-d").misses("remark 00");
    story.then("k j").sees("remark 00");
}

#[test]
fn directories_show_their_size() {
    let story = Story::begin(everything(), 80, 24);
    let screen = story.screen();
    let train = screen.lines().find(|line| line.contains("train/")).unwrap();
    assert!(train.contains("18 B"), "{train}");
}

#[test]
fn file_opens_as_text_or_bytes() {
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
}

#[test]
fn names_are_escaped_everywhere() {
    // The drawing library drops such characters. Their replacements show that nra has escaped them.
    let (name, shown) = ("d\x1b]0;t\x07/a\u{9b}31m\u{202e}\n.md", "a·31m·␊.md");
    let archive = sample::with_contents(&[(name, b"x"), ("d\x1b]0;t\x07/b", b"x")]);
    let facts = |story: &Story| Facts { file: Ok("a.nra".into()), ..story.state.archive.clone() };
    let mut story = Story::begin(Arc::clone(&archive), 120, 30);
    story.state.archive = facts(&story);
    story.sees("d␛]0;t␇/");
    story.then("enter").sees("▸ d␛]0;t␇").sees(shown);
    for (keys, title) in
        [("e", "Extract"), ("r", "Rename"), ("i", "d␛]0;t␇/"), ("/ m d", "Find in this directory"), ("a", "Add to d␛]0;t␇")]
    {
        story.then(keys).sees(title).sees(shown);
        story.then("esc");
    }
    story.then("y").sees("Copied");
    story.then("m a '").sees(shown);
    story.then("esc");
    story.then("d").sees(&format!("{shown}: 1 entry will be removed"));
    story.then("P").sees(&format!("remove {shown}"));
    story.then("esc");
    story.then("Q").sees(&format!("remove {shown}"));
    story.then("esc V J").sees("verify a.nra");
}

#[test]
fn bars_keep_their_scale() {
    let mut contents: Vec<(String, Vec<u8>)> = (0..600).map(|number| (format!("{number:04}"), vec![b'x'; 10])).collect();
    contents[0].1 = vec![b'x'; 1_000];
    let contents: Vec<(&str, &[u8])> = contents.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let mut story = Story::begin(sample::with_contents(&contents), 120, 30);
    story.then("p b");
    let bar = |story: &Story, name: &str| {
        let screen = story.screen();
        let row =
            screen.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{screen}")).to_owned();
        row.chars().filter(|c| ('█'..='▏').contains(c)).count()
    };
    assert!(bar(&story, "0000") > 3 && bar(&story, "0001") <= 1);
    // The row of the large file is no longer loaded.
    story.then("G");
    assert!(story.state.listing.lines.iter().all(|line| line.row.entry.size == 10));
    assert!(bar(&story, "0599") <= 1);
}

#[test]
fn preview_follows_resting_cursor() {
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
fn long_list_has_both_ends() {
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
fn help_lists_keys_of_place() {
    let mut story = Story::begin(everything(), 80, 40);
    story.then("?");
    story.sees("Keys: list").sees("Go to the parent directory");
    story.then("esc enter ?");
    story.sees("Keys: preview").misses("Go to the parent directory");
    story.then("q q");
    story.sees("docs/");
}
