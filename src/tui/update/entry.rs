//! Actions on the entry under the cursor: properties, clipboard, other programs.

use crate::effect::{Effect, Request};
use crate::glyphs;
use crate::preview::details::Details;
use crate::state::{Dialog, State, Tone};
use crate::update::passwords;
use nra_format::entry::{Entry, Kind};

pub const NO_ENTRY: &str = "No entry here";

/// Returns the entry under the cursor, or shows that there is none.
pub fn current(state: &mut State) -> Option<Entry> {
    let entry = state.listing.entry().cloned();
    if entry.is_none() {
        state.notify(Tone::Warning, NO_ENTRY);
    }
    entry
}

/// Returns the file under the cursor, or shows that there is none, or asks for its password first.
fn file(state: &mut State) -> Option<Entry> {
    if passwords::ask_first(state) {
        return None;
    }
    let entry = current(state)?;
    if entry.kind != Kind::File {
        state.notify(Tone::Warning, "Only files have content");
        return None;
    }
    Some(entry)
}

pub fn inspect(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(entry) = current(state) {
        let (title, details) = (glyphs::printable_within(entry.path.name(), 60), Details::default());
        state.dialogs.push(Dialog::Details { title, details, top: 0 });
        effects.push(state.request(Request::Inspect(entry)));
    }
}

pub fn copy_path(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(entry) = current(state) {
        let text = format!("Copied {}", entry.path);
        effects.push(Effect::Copy(entry.path.as_bytes().to_vec()));
        state.notify(Tone::Info, text);
    }
}

pub fn copy_content(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(entry) = file(state) {
        effects.push(state.request(Request::Content(entry)));
    }
}

/// Shows the content in a pager.
pub fn page(state: &mut State, effects: &mut Vec<Effect>) {
    effects.extend(file(state).map(Effect::Page));
}

/// Shows a copy of the content in an editor.
pub fn edit(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(entry) = file(state) {
        state.notify(Tone::Info, format!("Copying {}; esc cancels", glyphs::printable(entry.path.name())));
        effects.push(state.request(Request::Copy(entry)));
    }
}

/// Opens a copy of the content in the default program.
pub fn launch(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(entry) = file(state) {
        let name = glyphs::printable(entry.path.name());
        state.notify(Tone::Info, format!("Opened a copy of {name}, which is deleted on exit"));
        effects.push(Effect::Launch(entry));
    }
}
