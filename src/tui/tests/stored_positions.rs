//! Stored positions: restored in the next run, or in a commit without that entry.

use super::{Story, everything};
use crate::event::Response;
use crate::layout::Column;
use crate::open_target::OpenTarget;
use crate::state::Facts;
use crate::state::stored_positions::StoredPositions;
use crate::tests::sample;
use crate::update::keep;

/// Opens an archive with a name for its stored position, and stored positions.
fn open(home: Option<&str>, memory: StoredPositions) -> Story {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.places.memory = memory;
    story.state.opening.no_archive = true;
    let facts = Facts { home: home.map(str::to_owned), ..story.state.archive.clone() };
    story.respond(Response::Opened(Box::new(facts)));
    story.rest();
    story
}

/// Ends a run and returns the stored positions.
fn end(story: &mut Story) -> StoredPositions {
    keep(&mut story.state);
    story.state.places.memory.clone()
}

#[test]
fn position_is_restored_in_next_run() {
    let mut story = open(Some("/a.nra"), StoredPositions::default());
    story.then("G k enter j s s");
    let memory = end(&mut story);
    assert_eq!(story.state.places.visited, ["/a.nra"]);
    let mut again = open(Some("/a.nra"), memory.clone());
    assert_eq!((again.name().as_str(), again.state.arrangement.wanted.sort), ("train/0002.json", Column::Size));
    again.then("s n t");
    let memory = end(&mut again);
    let again = open(Some("/a.nra"), memory.clone());
    assert!(again.state.tree.on && again.state.arrangement.wanted.is_natural());
    // Another archive opens at the top.
    let other = open(Some("/b.nra"), memory);
    assert_eq!((other.name().as_str(), other.state.tree.on), ("README.md", false));
}

#[test]
fn archive_without_key_has_no_stored_position() {
    let mut story = open(None, StoredPositions::default());
    story.then("G k enter");
    assert_eq!(end(&mut story), StoredPositions::default());
    assert!(story.state.places.visited.is_empty());
}

#[test]
fn outermost_archive_has_stored_position() {
    let mut story = open(Some("/a.nra"), StoredPositions::default());
    story.then("G k enter j");
    let facts = Facts { name: "inner".to_owned(), depth: 1, home: None, ..story.state.archive.clone() };
    let entry = story.state.listing.entry().unwrap().clone();
    story.opens(OpenTarget::Nested(entry), facts);
    story.then("G");
    let memory = end(&mut story);
    let place = memory.place("/a.nra").unwrap();
    assert_eq!((place.directory.as_str(), place.entry.as_str()), ("train", "train/0002.json"));
    // The position is also stored when another archive is opened.
    let next = Facts { name: "b.nra".to_owned(), home: Some("/b.nra".to_owned()), depth: 0, ..story.state.archive.clone() };
    story.respond(Response::Opened(Box::new(next)));
    story.then("j");
    assert_eq!(end(&mut story).place("/a.nra"), Some(place));
    assert_eq!(story.state.places.visited, ["/a.nra", "/b.nra"]);
}

#[test]
fn missing_directory_leads_to_parent() {
    let mut story = Story::begin(everything(), 100, 24);
    story.then("j j j enter j enter enter");
    assert_eq!(story.state.listing.scope.directory.as_ref().unwrap().to_string(), "docs/more/deep");
    story.archive = sample::archive(&["docs/guide.md", "other"]);
    let facts = Facts { info: story.archive.info().clone(), ..story.state.archive.clone() };
    story.opens(OpenTarget::Commit(None), facts);
    assert_eq!(story.names(), ["docs/guide.md"]);
    story.sees("docs/more does not exist in it");
    story.archive = sample::archive(&["other"]);
    let facts = Facts { info: story.archive.info().clone(), ..story.state.archive.clone() };
    story.opens(OpenTarget::Commit(None), facts);
    assert_eq!(story.names(), ["other"]);
    story.sees("docs does not");
}
