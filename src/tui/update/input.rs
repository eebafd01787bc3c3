//! Keys: run at once, or queued until the rows and responses they depend on have arrived.

use crossterm::event::KeyCode;

use crate::effect::{Effect, RequestKind};
use crate::event::Event;
use crate::key::Key;
use crate::keymap::{Action, Place};
use crate::state::{State, Tone, Typed};
use crate::update::{actions, dialogs, find, jobs, jump};

/// Most keys that are queued; more than anybody types meanwhile.
const MAX_QUEUED: usize = 4_096;

/// Processes queued keys, as far as the rows and responses they wait for have arrived.
pub fn resume(state: &mut State, effects: &mut Vec<Effect>) {
    jump::ask_again(state, effects);
    // A key may start another list, whose rows are not loaded.
    while !is_busy(state)
        && let Some(typed) = state.input.queue.pop_front()
    {
        // Keys after one that starts another program were for that.
        if effects.iter().any(Effect::hands_over) {
            state.input.queue.clear();
            break;
        }
        press(state, typed, effects);
    }
}

/// Handles keys on a screen too small to show anything: only quitting, suspending and redrawing.
pub fn press_on_tiny_screen(state: &mut State, event: &Event, effects: &mut Vec<Effect>) {
    let Event::Key(key) = event else { return };
    match state.settings.keymap.action(Place::List, *key) {
        // A dialog it opens is invisible: pressing the key again confirms it.
        Some(Action::QuitNow) => jobs::leave(state, effects),
        Some(Action::Suspend) => effects.push(Effect::Suspend),
        Some(Action::Redraw) => effects.push(Effect::Redraw),
        _ => {}
    }
}

/// Cancels what keys wait for. Returns whether a message was shown.
fn give_up(state: &mut State) -> bool {
    state.input.queue.clear();
    state.input.checking = None;
    if state.input.after_marks.take().is_some() {
        state.requests.cancel(RequestKind::Marks);
    }
    if std::mem::take(&mut state.input.copying) {
        state.requests.cancel(RequestKind::Copy);
        state.notify(Tone::Info, "Copy cancelled");
        return true;
    }
    if state.opening.target.take().is_none() {
        return false;
    }
    state.requests.cancel(RequestKind::Open);
    state.changes.writing.take_if(|writing| writing.done);
    state.passwords.forget();
    if state.opening.no_archive && state.dialogs.is_empty() {
        find::archives(state);
    }
    state.notify(Tone::Info, "Opening cancelled");
    true
}

/// Handles a key or pasted text, or queues it.
pub fn handle(state: &mut State, typed: Typed, effects: &mut Vec<Effect>) {
    let queued = match &typed {
        Typed::Key(key) if key.code == KeyCode::Esc && is_busy(state) => {
            if give_up(state) {
                return;
            }
            false
        }
        Typed::Key(key) => hold(state, *key),
        Typed::Text(_) => awaits_response(state) || !state.input.queue.is_empty(),
    };
    if !queued {
        press(state, typed, effects);
    } else if state.input.queue.len() < MAX_QUEUED {
        state.input.queue.push_back(typed);
    }
}

/// Returns whether a key is queued.
fn hold(state: &State, key: Key) -> bool {
    if !is_busy(state) {
        return false;
    }
    let action = state.settings.keymap.action(state.place(), key);
    match action {
        // Quitting never waits. A letter belongs to the line being typed.
        Some(Action::QuitNow | Action::Suspend | Action::Redraw) if !state.is_typing() || key.typed().is_none() => false,
        _ if !state.input.queue.is_empty()
            || awaits_response(state)
            || dialogs::is_early(state, key)
            || state.listing.is_jumping() =>
        {
            true
        }
        // Steps add up without rows.
        Some(Action::Down | Action::Up | Action::HalfDown | Action::HalfUp | Action::PageDown | Action::PageUp)
            if state.listing.loaded =>
        {
            false
        }
        _ => state.dialogs.is_empty() && action.is_some_and(needs_rows),
    }
}

/// Returns whether any key has to wait for a response.
pub fn awaits_response(state: &State) -> bool {
    let requested = state.opening.target.is_some()
        || state.input.copying
        || state.input.checking.is_some()
        || state.input.after_marks.is_some();
    requested || jump::is_awaited(state)
}

/// Returns whether keys about rows have to wait.
fn is_busy(state: &State) -> bool {
    let rows = state.listing.has_owed_rows() || state.listing.is_jumping() || !state.listing.loaded && !state.opening.no_archive;
    awaits_response(state) || dialogs::awaits_rows(state) || rows
}

pub fn needs_rows(action: Action) -> bool {
    use Action::{Archives, Back, Find, Help, History, Jobs, Palette, Preview, Query, Quit};
    !matches!(action, Archives | Back | Find | Help | History | Jobs | Palette | Preview | Query | Quit)
}

fn press(state: &mut State, typed: Typed, effects: &mut Vec<Effect>) {
    let key = match typed {
        Typed::Key(key) => key,
        Typed::Text(text) => return dialogs::paste(state, &text, effects),
    };
    // The user has read the message by now.
    state.status.message = None;
    let action = state.settings.keymap.action(state.place(), key);
    // Suspending works while a line is typed.
    if action == Some(Action::Suspend) && key.typed().is_none() {
        return effects.push(Effect::Suspend);
    }
    if dialogs::press(state, key, effects) {
        return;
    }
    match action {
        Some(action) => actions::run(state, action, effects),
        None if state.dialogs.is_empty() => {
            let help = state.settings.keymap.key(Action::Help);
            let help = help.map_or_else(String::new, |help| format!(": {help} shows the keys"));
            state.notify(Tone::Warning, format!("{key} is not assigned here{help}"));
        }
        None => {}
    }
}
