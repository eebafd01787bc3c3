//! Nested archives: entered and left like directories.

use crate::effect::Effect;
use crate::nested::{MAX_DEPTH, may_be_archive};
use crate::open_target::OpenTarget;
use crate::state::{State, Tone};
use crate::update::changes;
use nra_format::entry::Entry;

/// Opens a file that may be an archive. Returns whether its name suggests one.
pub fn enter(state: &mut State, entry: &Entry, effects: &mut Vec<Effect>) -> bool {
    if !may_be_archive(entry.path.name()) {
        return false;
    }
    if state.archive.depth >= MAX_DEPTH {
        state.notify(Tone::Warning, format!("Archives are nested {MAX_DEPTH} deep here; f3 shows the file as it is"));
    } else {
        changes::open(state, OpenTarget::Nested(entry.clone()), effects);
    }
    true
}

/// Goes back to the outer archive, if there is one.
pub fn leave(state: &mut State, effects: &mut Vec<Effect>) {
    if state.archive.depth > 0 {
        changes::open(state, OpenTarget::Parent, effects);
    }
}
