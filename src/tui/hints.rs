//! Key hints at the bottom of the screen. Drawing and mouse clicks use the same positions.

use ratatui::layout::{Position, Rect};

use crate::glyphs;
use crate::keymap::Action;
use crate::state::State;

/// A key hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Its position on the screen.
    pub area: Rect,
    pub key: String,
    /// One word for the action.
    pub word: &'static str,
    pub action: Action,
}

/// Returns the hints that fit.
///
/// On a low screen, which has no line for hints, the first hint is shown at the end of the status
/// line unless there is a message. Dialogs show their keys themselves.
pub fn hints(state: &State) -> Vec<Hint> {
    if !state.dialogs.is_empty() {
        return Vec::new();
    }
    let areas = state.areas();
    let mut known = state.settings.keymap.hints(state.place()).map(|(key, word, action)| (key.to_string(), word, action));
    let width = |key: &str, word: &str| u16::try_from(glyphs::width(key) + 1 + glyphs::width(word)).unwrap_or(u16::MAX);
    if areas.hints.is_empty() {
        let first = known.next().filter(|_| state.status.message.is_none() && areas.status.width > 2);
        return first
            .map(|(key, word, action)| {
                let width = width(&key, word).min(areas.status.width - 2);
                let area = Rect { x: areas.status.right() - 1 - width, width, ..areas.status };
                Hint { area, key, word, action }
            })
            .into_iter()
            .collect();
    }
    let right = areas.hints.right().saturating_sub(1);
    let mut x = areas.hints.x + 1;
    let mut hints = Vec::new();
    for (key, word, action) in known {
        let width = width(&key, word);
        if x.saturating_add(width) > right {
            break;
        }
        hints.push(Hint { area: Rect { x, width, ..areas.hints }, key, word, action });
        x += width + 2;
    }
    hints
}

/// Returns the action of the hint at a position of the screen.
pub fn at(state: &State, at: Position) -> Option<Action> {
    hints(state).into_iter().find(|hint| hint.area.contains(at)).map(|hint| hint.action)
}
