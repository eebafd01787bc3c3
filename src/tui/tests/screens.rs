//! What each screen looks like, in three sizes.

use insta::assert_snapshot;

use super::{Story, everything};
use crate::tui::event::Event;
use crate::tui::sample;

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 10)];

fn snapshots(name: &str, keys: &str) {
    for (width, height) in SIZES {
        let mut story = Story::begin(everything(), width, height);
        story.then(keys);
        assert_snapshot!(format!("{name}-{width}x{height}"), story.screen());
    }
}

#[test]
fn list() {
    snapshots("list", "j");
}

#[test]
fn directory() {
    snapshots("directory", "j j j enter");
}

#[test]
fn text() {
    snapshots("text", "j j j enter enter");
}

#[test]
fn text_wrapped() {
    snapshots("wrapped", "j j j enter enter w");
}

#[test]
fn bytes() {
    snapshots("hex", "j j j j j f3");
}

#[test]
fn facts() {
    snapshots("info", "5");
}

#[test]
fn help() {
    snapshots("help", "?");
}

#[test]
fn an_empty_archive_says_so() {
    let story = Story::begin(sample::archive(&[]), 80, 24);
    story.sees("the archive is empty").sees("0 entries");
}

#[test]
fn a_tiny_screen_says_so() {
    let mut story = Story::begin(everything(), 80, 24);
    for (width, height) in [(19, 24), (80, 4), (1, 1), (0, 0)] {
        story.event(Event::Resize(width, height));
        assert!(story.screen().trim().len() <= "too small".len());
    }
    story.event(Event::Resize(20, 5));
    story.sees("README.md");
}

#[test]
fn every_size_can_be_drawn() {
    for keys in ["", "?", "f3", "j j j enter", "5"] {
        let mut story = Story::begin(everything(), 80, 24);
        story.then(keys);
        for width in (0..130).step_by(7) {
            for height in 0..30 {
                story.event(Event::Resize(width, height));
                story.rest().screen();
            }
        }
    }
}
