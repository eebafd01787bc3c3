//! Sort order, tree and columns of the list.

use super::{Story, everything};
use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Response};
use crate::layout::Column;

fn heads(story: &Story) -> String {
    story.screen().lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn sort_key_is_shown() {
    let mut story = Story::begin(everything(), 80, 24);
    assert!(!heads(&story).contains("stored"));
    story.then("s z");
    assert!(heads(&story).contains("stored ▾"), "{}", heads(&story));
    story.then("s m");
    assert!(heads(&story).contains("mode ▾"), "{}", heads(&story));
    story.then("s d");
    assert!(heads(&story).contains("kind ▾"), "{}", heads(&story));
    story.sees("directory");
    story.then("s n");
    assert!(!heads(&story).contains("kind"), "{}", heads(&story));
}

#[test]
fn columns_can_be_chosen() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("C").sees("[x] stored, no room");
    story.then("t").sees("[ ] modified").sees("[x] stored");
    story.then("esc");
    assert!(heads(&story).contains("stored") && !heads(&story).contains("modified"), "{}", heads(&story));
    story.then("C r s z m d");
    assert_eq!(story.state.layout.columns, [] as [Column; 0]);
    story.then("d esc").sees("directory");
    assert_eq!(story.state.layout.columns, [Column::Kind]);
    // The cursor of the menu stays.
    story.then("C down down space down enter").sees("[ ] stored").sees("[x] modified");
}

#[test]
fn tree_is_sorted_and_filtered() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("t j j j l").then("s s");
    assert!(story.state.tree.on);
    assert_eq!(story.names()[..4], ["model.bin", "docs", "docs/guide.md", "docs/more"]);
    // Directories are expanded and collapsed, and the cursor stays on its row.
    story.then("g j j j l");
    assert_eq!(story.name(), "docs/more");
    assert!(story.names().contains(&"docs/more/deep".to_owned()));
    story.then("h h h");
    assert_eq!((story.name().as_str(), story.names().len()), ("docs", 8));
    story.then("l S");
    assert_eq!(story.names().last().map(String::as_str), Some("model.bin"));
    story.then("f").types("guide");
    story.then("enter");
    assert_eq!(story.names(), ["docs", "docs/guide.md"]);
    story.then("t");
    assert_eq!(story.names(), [] as [&str; 0]);
    story.then("t esc s n");
    assert!(story.state.tree.on && story.state.arrangement.wanted.is_natural());
    // Results at any depth are not shown as a tree.
    story.then("D");
    assert!(!story.state.tree.on);
}

#[test]
fn stopped_sort_keeps_tree() {
    for fails in [false, true] {
        let mut story = Story::begin(everything(), 80, 24);
        story.then("t s s");
        let (rows, at) = (story.names(), story.names().iter().position(|name| name == "docs").unwrap());
        // Expanding a directory of a sorted tree, and a search at any depth, take some time.
        for keys in ["l", "D"] {
            story.state.listing.cursor = at;
            story.held_back = true;
            story.keys(keys);
            assert!(story.state.arrangement.loading, "{keys}");
            if fails {
                let Some(Effect::Request(id, Request::Arrange(_))) = story.back.pop() else { panic!("{:?}", story.back) };
                story.event(Event::Response(id, Response::Arranged(Err("no".to_owned()))));
            } else {
                story.keys("esc");
            }
            story.held_back = false;
            story.rest();
            assert!(!story.state.arrangement.loading && story.state.tree.on && story.names() == rows, "{keys}");
        }
        story.then("l");
        assert!(story.names().contains(&"docs/guide.md".to_owned()));
    }
}

#[test]
fn sorting_can_be_stopped() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("s s");
    let before = story.names();
    story.held_back = true;
    story.keys("s t");
    assert!(story.state.arrangement.loading);
    story.respond(Response::ArrangeProgress(0.4));
    story.sees("arranging … 40 %, esc stops it");
    let id = story.state.requests.newest(RequestKind::Arrange);
    let asked = std::mem::take(&mut story.back);
    story.keys("esc");
    assert!(!story.state.arrangement.loading && story.state.arrangement.wanted.sort == Column::Size);
    // The worker stops a cancelled request.
    assert!(story.back.is_empty() && !story.state.requests.awaits(id));
    // A late response changes nothing.
    story.held_back = false;
    story.perform(asked);
    assert_eq!(story.names(), before);
    assert!(heads(&story).contains("size ▾"));
}

#[test]
fn cancelled_filter_restores_previous_one() {
    let mut story = Story::begin(everything(), 80, 24);
    story.then("f").types("zz").rest();
    story.then("esc").misses("filter:");
    story.then("f").types("READ").rest();
    story.then("enter").sees("filter: READ");
    for end in ["esc", "ctrl-c"] {
        story.then("f ctrl-u").types("zz").rest();
        story.then(end).sees("filter: READ").sees("README.md");
    }
}
