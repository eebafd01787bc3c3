//! Goes to the row that starts with the typed letters.

use crossterm::event::KeyCode;

use crate::effect::{Effect, JumpRequest, Request, RequestKind};
use crate::key::Key;
use crate::keymap::{Action, Place};
use crate::state::dialog::{MAX_LINE, one_line};
use crate::state::{Dialog, Jump, State, Tone};
use crate::update::{actions, browse};

pub fn start(state: &mut State) {
    if let Some(line) = state.listing.current() {
        let from = line.row.place;
        state.dialogs.push(Dialog::Jump(Jump { typed: String::new(), from, again: false, waiting: false, missed: false }));
    }
}

/// Returns whether the row is requested and not known yet.
pub fn is_awaited(state: &State) -> bool {
    matches!(state.dialogs.last(), Some(Dialog::Jump(Jump { waiting: true, .. })))
}

/// Handles a key: letters continue, others end typing and keep their meaning.
pub fn press(state: &mut State, key: Key, effects: &mut Vec<Effect>) {
    let here = state.listing.current().map_or(0, |line| line.row.place);
    let again =
        key.code == KeyCode::Tab || state.settings.keymap.action(Place::List, key) == Some(Action::Jump) && key.typed().is_none();
    let Some(Dialog::Jump(jump)) = state.dialogs.last_mut() else { return };
    match (key.code, key.typed()) {
        (_, Some(c)) => jump.typed.push(c),
        (KeyCode::Backspace, _) => drop(jump.typed.pop()),
        // Searches the next row from here.
        _ if again => (jump.from, jump.again) = (here, true),
        _ => {
            state.dialogs.pop();
            if !matches!(key.code, KeyCode::Enter | KeyCode::Esc)
                && let Some(action) = state.settings.keymap.action(state.place(), key)
            {
                actions::run(state, action, effects);
            }
            return;
        }
    }
    ask(state, effects);
}

/// Inserts pasted text. Returns whether all of it fit.
pub fn paste(state: &mut State, text: &str, effects: &mut Vec<Effect>) -> bool {
    let Some(Dialog::Jump(jump)) = state.dialogs.last_mut() else { return true };
    let (line, whole) = one_line(text, MAX_LINE.saturating_sub(jump.typed.len()));
    jump.typed.push_str(&line);
    ask(state, effects);
    whole
}

fn ask(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(Dialog::Jump(jump)) = state.dialogs.last_mut() else { return };
    jump.missed = false;
    if !jump.typed.is_empty() {
        jump.waiting = true;
        let (from, after, typed) = (jump.from, jump.again, jump.typed.clone());
        let scope = state.listing.scope.clone();
        effects.push(state.request(Request::Jump(JumpRequest { scope, from, after, typed })));
    }
}

/// Requests the row again when another list is shown: rows have other places there.
pub fn ask_again(state: &mut State, effects: &mut Vec<Effect>) {
    if !is_awaited(state) || state.requests.is_unanswered(RequestKind::Jump) {
        return;
    }
    let here = state.listing.current().map(|line| line.row.place);
    if let (Some(Dialog::Jump(jump)), Some(here)) = (state.dialogs.last_mut(), here) {
        jump.from = here;
        ask(state, effects);
    }
}

pub fn move_to_row(state: &mut State, place: Result<Option<u64>, String>, effects: &mut Vec<Effect>) {
    let Some(Dialog::Jump(jump)) = state.dialogs.last_mut() else { return };
    jump.waiting = false;
    match place {
        Ok(Some(place)) => {
            if std::mem::take(&mut jump.again) {
                jump.from = place;
            }
            browse::scroll(state, effects, |listing| listing.to_place(place));
        }
        Ok(None) => jump.missed = true,
        Err(error) => state.notify(Tone::Error, error),
    }
}
