//! Passwords for content, in archives whose names are not encrypted.

use crate::effect::Effect;
use crate::open_target::OpenTarget;
use crate::state::{Dialog, Prompt, PromptKind, State};
use crate::update::input;

/// Returns whether the entry under the cursor is known to need a password: `Some(true)` if a wrong
/// one was given.
fn sealed(state: &State) -> Option<bool> {
    state.preview.sealed.filter(|_| state.preview.entry() == state.listing.entry())
}

/// Asks for the password if the entry under the cursor is known to need one. Returns whether it
/// does.
pub fn ask_first(state: &mut State) -> bool {
    let is_sealed = sealed(state);
    if let Some(wrong) = is_sealed {
        ask(state, wrong);
    }
    is_sealed.is_some()
}

pub fn ask(state: &mut State, wrong: bool) {
    let (note, error) = if state.archive.has_keys_only() {
        ("content is encrypted; enter the key (64 hexadecimal digits):", "wrong key")
    } else {
        ("content is encrypted; password:", "wrong password")
    };
    state.status.message = None;
    let prompt =
        Prompt::new(PromptKind::Password(Box::new(OpenTarget::Unlocked)), format!("Read {}", state.archive.name), note, "");
    state.dialogs.push(Dialog::Prompt(Prompt { error: wrong.then(|| error.to_owned()), ..prompt }));
}

/// Asks for the password that a job or the preview needs, as soon as no dialog is open and nothing
/// is awaited. A user who gave none is not asked again for each file.
pub fn ask_in_turn(state: &mut State, _: &mut Vec<Effect>) {
    if input::awaits_response(state) || !state.dialogs.iter().all(Dialog::is_independent) {
        return;
    }
    let is_shown = !state.passwords.declined && state.dialogs.is_empty() && !state.areas().preview.is_empty();
    if let Some(wrong) = state.passwords.question.take().or_else(|| sealed(state).filter(|_| is_shown)) {
        ask(state, wrong);
    }
}

/// Records that no password was given.
pub fn decline(state: &mut State, target: &OpenTarget) {
    state.passwords.declined |= *target == OpenTarget::Unlocked;
    state.passwords.forget();
}

/// Restarts the jobs that waited for a password.
pub fn resume(state: &mut State, effects: &mut Vec<Effect>) {
    state.passwords.declined = false;
    for (title, task, marks) in std::mem::take(&mut state.passwords.tasks) {
        state.start_job(title, task, effects).marks = marks;
    }
}
