//! Finding and filtering.

use super::{Story, everything};
use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Response};
use crate::open_target::OpenTarget;

#[test]
fn query_finds_entries_by_properties() {
    let mut story = Story::begin(everything(), 120, 30);
    story.then("F").types("size>x");
    story.then("enter");
    story.sees("size>x: ").sees("invalid size");
    story.then("ctrl-u").types("has:deep");
    story.then("enter");
    assert_eq!(story.names(), ["docs/more/deep/file"]);
    story.sees("docs/more/deep/file").sees("query: has:deep");
    story.then("F ctrl-u").types("*.json size<10");
    story.then("enter");
    assert_eq!(story.names().len(), 3);
    // Marks and jobs apply to the results.
    story.then("A");
    assert_eq!(story.state.marks.count(), 3);
    story.then("esc esc");
    assert_eq!(story.names()[0], "README.md");
    story.then("F").types("nothing-is-called-so");
    story.then("enter");
    story.sees("No matches");
}

#[test]
fn enter_waits_for_search_results() {
    let mut story = Story::begin(everything(), 80, 24);
    story.held_back = true;
    story.keys("/").types("guide");
    story.keys("enter j");
    assert!(!story.state.dialogs.is_empty());
    story.held_back = false;
    let asked = std::mem::take(&mut story.back);
    story.perform(asked);
    assert!(story.state.dialogs.is_empty());
    // The following key applies to the list.
    assert_eq!(story.name(), "docs/more");
}

#[test]
fn query_accepts_quoted_words() {
    let mut story = Story::begin(everything(), 120, 30);
    story.then("F").types("has:\"this is");
    story.then("enter").sees("missing closing");
    story.types("\"");
    story.then("enter");
    assert_eq!(story.names(), ["README.md"]);
}

#[test]
fn matches_are_highlighted_with_accents() {
    let mut story = Story::begin(crate::tests::sample::archive(&["a\u{308}o\u{308}u\u{308}/schön.txt", "שלום/x"]), 80, 24);
    story.then("/").types("txt");
    story.sees("a\u{308}o\u{308}u\u{308}/schön.txt");
    let mut buffer = ratatui::buffer::Buffer::empty(story.state.screen);
    crate::view::view(&story.state, story.state.screen, &mut buffer);
    let underlined = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(ratatui::style::Modifier::UNDERLINED);
    let hits: String = buffer.content().iter().filter(underlined).map(ratatui::buffer::Cell::symbol).collect();
    assert_eq!(hits, "txt");
}

#[test]
fn cleared_query_restores_list() {
    let mut story = Story::begin(everything(), 80, 24);
    let before = story.state.requests.newest(RequestKind::Arrange);
    story.held_back = true;
    story.keys("F").types("has:deep").keys("enter");
    let request = story.state.requests.newest(RequestKind::Arrange);
    assert!(story.state.arrangement.loading && request != before && story.state.requests.awaits(request));
    story.keys("esc");
    assert!(!story.state.arrangement.loading && !story.state.requests.awaits(request));
}

#[test]
fn finder_finds_path() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("/").types("gdmd");
    story.sees("docs/guide.md").sees("1 of 14");
    story.then("enter");
    story.sees("a.nra ▸ docs");
    assert_eq!(story.name(), "docs/guide.md");
    // Typed letters are not commands.
    story.then("/").types("q?x");
    story.sees("No matches").sees("q?x");
    story.then("esc");
    story.misses("No matches");
}

#[test]
fn filter_applies_while_typing() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("f").types("*.md");
    assert_eq!(story.names(), ["README.md"]);
    story.then("enter");
    story.sees("filter: *.md");
    story.then("esc");
    assert_eq!(story.names().len(), 8);
    story.then("f").types("zzz");
    story.sees("No matches. Esc clears the filter");
}

#[test]
fn list_is_sorted() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("s s");
    story.sees("size ▾");
    assert_eq!(story.names()[..2], ["model.bin", "docs"]);
    assert_eq!(story.name(), "model.bin");
    story.then("S");
    story.sees("size ▴");
    assert_eq!(story.names()[0], "empty");
    // The order applies to other directories, and the cursor returns to its entry.
    story.then("s d j l");
    story.then("h");
    assert_eq!(story.name(), "train");
    story.then("s n");
    assert_eq!(story.names()[0], "README.md");
    story.sees("name ▾").misses("size ▾");
}

#[test]
fn tree_expands_directories() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("t j j j l");
    assert_eq!(story.names()[3..6], ["docs", "docs/guide.md", "docs/more"]);
    story.sees("▾ docs/").sees("▸ more/");
    story.then("j j l j");
    assert_eq!(story.name(), "docs/more/deep");
    story.then("h");
    assert_eq!(story.name(), "docs/more");
    story.then("h h h");
    assert_eq!(story.name(), "docs");
    assert_eq!(story.names()[3..5], ["docs", "empty"]);
    story.then("t");
    story.misses("▸ docs");
}

#[test]
fn palette_finds_every_command() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then(":").types("largest first");
    story.then("enter");
    assert_eq!(story.names()[0], "model.bin");
}

#[test]
fn finder_shows_no_stale_counts() {
    let mut story = Story::begin(everything(), 80, 24);
    story.keys("/").sees("docs/guide.md").sees(" of ");
    story.held_back = true;
    story.types("x");
    story.sees("reading …").misses(" of ");
    story.held_back = false;
    story.types("x");
    story.sees("0 of ").misses("reading …");
    // A separate thread lists the commits.
    story.keys("esc H").sees("Commits").sees("reading …");
}

#[test]
fn archives_are_listed_on_demand() {
    let mut story = Story::begin(everything(), 80, 24);
    story.held_back = true;
    story.keys("O").sees("Open an archive").sees("reading …").misses("No matches");
    let asked = |story: &Story, what: Request| match story.back.last() {
        Some(Effect::Request(id, asked)) if *asked == what => *id,
        other => panic!("{other:?}"),
    };
    let found = |names: &[&str]| Response::Archives(names.iter().map(Into::into).collect());
    let more = found(&["a.nra", "photos.nra", "pictures.nra"]);
    let id = asked(&story, Request::Archives);
    // Keys typed before the list has loaded apply to it, including enter.
    story.types("pho").keys("enter");
    story.event(Event::Response(id, found(&["a.nra", "photos.nra"])));
    asked(&story, Request::Open(OpenTarget::File("photos.nra".into()), None));
    // A response that is no longer awaited changes nothing. The next time, the known archives are
    // shown until the new list has loaded.
    story.event(Event::Response(id, more.clone()));
    story.keys("esc O").sees("photos.nra").misses("pictures.nra");
    story.event(Event::Response(asked(&story, Request::Archives), more));
    story.sees("pictures.nra");
}

#[test]
fn glob_matches_listed_rows() {
    let mut story = Story::begin(crate::tests::sample::archive(&["a1", "a2", "b1", "d/a1", "d/c1"]), 100, 24);
    story.then("f").types("a");
    story.then("enter +").types("*1");
    story.then("enter").sees("1 marked");
    story.then("esc esc F").types("type:file a1");
    story.then("enter").sees("d/a1");
    story.then("+").types("*1");
    story.then("enter").sees("2 marked");
    // Without a filter, a glob matches all rows of the directory.
    story.then("esc esc esc +").types("*1");
    story.then("enter").sees("2 marked");
    story.then("esc +").types("**/*1");
    story.then("enter").sees("4 marked");
}
