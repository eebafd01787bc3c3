//! Changes the state when something happens. No input or output, no clock: time comes with the event.

mod browse;

use std::time::Duration;

use ratatui::layout::Rect;

use crate::tui::action::Action;
use crate::tui::effect::Effect;
use crate::tui::event::Event;
use crate::tui::key::Key;
use crate::tui::state::{Dialog, State};

/// Returns what has to be done before the first event.
pub fn start(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    browse::go(state, None, None, &mut effects);
    effects
}

/// Takes an event at a time and returns what has to be done outside.
pub fn update(state: &mut State, event: Event, now: Duration) -> Vec<Effect> {
    state.now = now;
    if state.message.as_ref().is_some_and(|message| message.until <= now) {
        state.message = None;
    }
    let mut effects = Vec::new();
    match event {
        Event::Key(key) => press(state, key, &mut effects),
        Event::Paste(_) | Event::Mouse(_) => {}
        Event::Resize(width, height) => {
            state.screen = Rect::new(0, 0, width, height);
            browse::fit(state, &mut effects);
        }
        Event::Rows(answer) => browse::rows(state, answer, &mut effects),
        Event::Facts(generation, facts) => browse::facts(state, generation, &facts),
        Event::Preview(answer) => {
            state.pane.take(answer);
            browse::fit(state, &mut effects);
        }
        Event::Tick => {}
        Event::Terminate => effects.push(Effect::Quit),
    }
    effects.extend(state.pane.wake(now).map(Effect::Preview));
    effects
}

fn press(state: &mut State, key: Key, effects: &mut Vec<Effect>) {
    if let Some(action) = state.keymap.action(state.place(), key) {
        act(state, action, effects);
    }
}

/// Does what the user asked for.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        Action::Help => {
            if !matches!(state.dialogs.last(), Some(Dialog::Help { .. })) {
                state.dialogs.push(Dialog::Help { place: state.place(), top: 0 });
            }
        }
        Action::Quit => quit(state, effects),
        Action::QuitNow => effects.push(Effect::Quit),
        Action::Suspend => effects.push(Effect::Suspend),
        Action::Redraw => effects.push(Effect::Redraw),
        _ => match state.dialogs.last_mut() {
            Some(Dialog::Help { top, .. }) => scroll(top, action),
            None => browse::act(state, action, effects),
        },
    }
    state.last_action = Some(action);
}

/// Closes what is open on top, or ends.
fn quit(state: &mut State, effects: &mut Vec<Effect>) {
    if state.dialogs.pop().is_some() {
        return;
    }
    if !browse::step_back(state, effects) {
        effects.push(Effect::Quit);
    }
}

/// Scrolls a page that is short enough to be drawn as a whole; drawing stops at its end.
fn scroll(top: &mut usize, action: Action) {
    *top = match action {
        Action::Down => *top + 1,
        Action::Up => top.saturating_sub(1),
        Action::HalfDown => *top + 8,
        Action::HalfUp => top.saturating_sub(8),
        Action::PageDown => *top + 16,
        Action::PageUp => top.saturating_sub(16),
        Action::First => 0,
        Action::Last => usize::MAX / 2,
        _ => *top,
    };
}
