//! Going to a row by its first letters.

use insta::assert_snapshot;

use super::{Story, everything};
use crate::effect::{Effect, Request};
use crate::event::Event;
use crate::state::{Dialog, Jump};
use crate::tests::sample;
use crate::update::update;

#[test]
fn typed_letters_move_to_row() {
    for (width, height) in [(120, 40), (80, 24)] {
        let mut story = Story::begin(everything(), width, height);
        story.then("; t");
        assert_snapshot!(format!("jump-{width}x{height}"), story.screen());
    }
    let mut story = Story::begin(everything(), 80, 24);
    story.then("; t");
    assert_eq!(story.name(), "train");
    // Letters are not commands. Lowercase letters match both cases.
    story.then("esc ; r e a");
    assert_eq!(story.name(), "README.md");
    story.then("q").sees("no match");
    assert_eq!(story.name(), "README.md");
    story.then("backspace").misses("no match");
    // Other keys end typing and keep their effect.
    story.then("down").misses("esc close");
    assert_ne!(story.name(), "README.md");
    story.then("; t enter l");
    assert_eq!(story.name(), "train/0001.json");
    // Goes to the next match, and from the last one to the first.
    story.then("; 0");
    assert_eq!(story.name(), "train/0001.json");
    story.then("tab");
    assert_eq!(story.name(), "train/0002.json");
    story.then("ctrl-s");
    assert_eq!(story.name(), "train/0001.json");
    story.then("esc");
    story.sees("train");
}

#[test]
fn jump_works_on_small_screen_and_in_any_order() {
    let mut story = Story::begin(everything(), 40, 10);
    story.then("s z S");
    story.then("; t r");
    assert_eq!(story.name(), "train");
    assert_snapshot!("jump-40x10", story.screen());
    story.then("esc");
    // In the tree: siblings come first, then rows of the parent directories.
    let mut story = Story::begin(everything(), 80, 24);
    story.then("t ; t enter l j ; 0 0 0 2");
    assert_eq!(story.name(), "train/0002.json");
    story.then("esc ; d o");
    assert_eq!(story.name(), "docs");
}

#[test]
fn keys_wait_for_jump_to_far_row() {
    let names: Vec<String> = (0..30_000).map(|number| format!("{number:05}")).collect();
    let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut story = Story::begin(archive, 80, 24);
    story.then("; 2 3 4 5 6");
    assert_eq!(story.name(), "23456");
    story.then("esc j");
    assert_eq!(story.name(), "23457");
    story.then("g");
    // Typed before any response.
    let mut asked = Vec::new();
    for key in [";", "1", "9", "enter", "j", "space"] {
        asked.extend(update(&mut story.state, Event::Key(key.parse().unwrap()), story.now));
    }
    let requests: Vec<&Effect> = asked.iter().filter(|effect| matches!(effect, Effect::Request(_, Request::Jump(_)))).collect();
    assert_eq!(requests.len(), 1);
    story.perform(asked);
    assert_eq!((story.name().as_str(), story.state.marks.count()), ("19002", 1));
}

#[test]
fn jump_applies_to_newest_list() {
    let mut story = Story::begin(sample::archive(&["a1", "a2", "b1", "b2"]), 80, 24);
    story.held_back = true;
    story.then("s s ; b");
    // The sorted list arrives first, so the jump in the previous list gets no response.
    story.back.retain(|effect| !matches!(effect, Effect::Request(_, Request::Jump(_))));
    story.held_back = false;
    let back = std::mem::take(&mut story.back);
    story.perform(back);
    assert!(matches!(story.state.dialogs.last(), Some(Dialog::Jump(Jump { waiting: false, .. }))));
    assert_eq!(story.name(), "b1");
    story.then("2 enter space");
    assert_eq!((story.name().as_str(), story.state.marks.count()), ("b2", 1));
}

#[test]
fn queued_keys_keep_their_order() {
    let mut story = Story::begin(sample::archive(&["a", "maQxz", "z"]), 80, 24);
    story.held_back = true;
    story.keys("; m a Q");
    story.event(Event::Paste("x".to_owned()));
    story.keys("z");
    story.held_back = false;
    let back = std::mem::take(&mut story.back);
    story.perform(back);
    story.sees("maQxz");
    assert!(matches!(story.state.dialogs.last(), Some(Dialog::Jump(jump)) if jump.typed == "maQxz"));
    assert_eq!(story.outside, []);
}
