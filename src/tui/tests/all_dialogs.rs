//! Every dialog and every key on screens of all sizes: everything is visible, and the program
//! continues.

use super::{Story, everything};
use crate::effect::Effect;
use crate::frames;
use crate::keymap::{Action, Keymap};
use crate::state::Dialog;

const SIZES: [(u16, u16); 6] = [(300, 100), (200, 60), (120, 40), (80, 24), (40, 10), (20, 5)];

/// Keys that open a dialog, its title, and a characteristic line.
const DIALOGS: [(&str, &str, &str); 14] = [
    ("?", "Keys: list", "Move"),
    ("enter ?", "Keys: preview", "Move"),
    ("J ?", "Keys: jobs", "Move"),
    ("V J", "Jobs", "verify a.nra"),
    ("i", "README.md", "path"),
    ("/", "Find in this directory", "README.md"),
    (":", "Commands", "help: Show the keys"),
    ("f", "Filter", "part of the name"),
    ("F", "Find below here", "size"),
    ("s", "Sort by", "size"),
    ("e", "Extract README.md", "target directory"),
    ("+", "Mark", "glob"),
    ("c", "Convert a.nra to", "the extension"),
    ("enter ctrl-g", "Go to", "line or row"),
];

/// Asserts that title and keys of the topmost dialog are visible.
fn is_whole(story: &Story, keys: &str) {
    let screen = story.screen();
    let Some(dialog) = story.state.dialogs.last() else { return };
    let Some(frame) = frames::frame(dialog, &story.state) else {
        let what = if matches!(dialog, Dialog::Jump(_)) { "to:" } else { "bookmark" };
        assert!(matches!(dialog, Dialog::Jump(_) | Dialog::Bookmark(_)) && screen.contains(what), "{keys}\n{screen}");
        assert!(story.state.screen.width < 40 || screen.contains("esc c"), "{keys}\n{screen}");
        return;
    };
    assert_eq!(frame.area.union(story.state.screen), story.state.screen, "{keys}");
    if story.state.screen.width >= 40 {
        assert!(screen.contains(&frame.keys), "{:?} of {keys}\n{screen}", frame.keys);
        for line in frame.title_lines.iter().chain([&frame.title]) {
            assert!(screen.contains(line.trim()), "{line:?} of {keys}\n{screen}");
        }
        assert!(matches!(dialog, Dialog::Details { .. }) || !frame.title.contains('…'), "{keys}\n{screen}");
    }
}

#[test]
fn dialogs_show_title_and_keys() {
    for (width, height) in &SIZES[..5] {
        for (keys, title, line) in DIALOGS {
            let mut story = Story::begin(everything(), *width, *height);
            story.then(keys).sees(title).sees(line);
            is_whole(&story, keys);
            story.then("esc");
            assert!(story.state.dialogs.len() < 2, "{keys}");
        }
    }
}

#[test]
fn every_key_works_at_every_size() {
    let keymap = Keymap::default();
    for (width, height) in SIZES {
        let openings = DIALOGS.iter().map(|(keys, ..)| *keys).chain(["", "f3", "b b", "t", ";", "j j j", "v"]);
        // Drawing large screens is slow, so the keys are only tried at the start.
        for opening in openings.filter(|opening| width <= 120 || opening.is_empty()) {
            let begun = Story::begin(everything(), width, height);
            let mut story = begun;
            story.then(opening);
            // Some keys would write files to the current directory.
            story.works = false;
            let (state, now) = (story.state.clone(), story.now);
            for (command, keys) in keymap.commands() {
                for key in keys {
                    story.state = state.clone();
                    story.now = now;
                    let key = key.to_string();
                    story.then(&key);
                    is_whole(&story, &format!("{opening} {key}"));
                    let ends = story.outside.drain(..).any(|effect| effect == Effect::Quit);
                    assert!(!ends || matches!(command.action, Action::Quit | Action::QuitNow), "{opening} {key}");
                }
            }
        }
    }
}
