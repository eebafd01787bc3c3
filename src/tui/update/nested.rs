//! Archives within archives: entered like directories, and left.

use crate::door::Door;
use crate::effect::Effect;
use crate::nested::{MAX_DEPTH, may_be_archive};
use crate::state::{State, Tone};
use crate::update::change;
use nra_format::entry::Entry;

/// Enters a file that may be an archive; says whether it is looked at as one.
pub fn enter(state: &mut State, entry: &Entry, effects: &mut Vec<Effect>) -> bool {
    if !may_be_archive(entry.path.name()) {
        return false;
    }
    if state.archive.depth >= MAX_DEPTH {
        state.say(Tone::Warning, format!("{MAX_DEPTH} archives lie in each other here; f3 shows the file as it is"));
    } else {
        change::open(state, Door::Inside(entry.clone()), effects);
    }
    true
}

/// Goes back to the archive around this one, if there is one.
pub fn leave(state: &mut State, effects: &mut Vec<Effect>) {
    if state.archive.depth > 0 {
        change::open(state, Door::Outside, effects);
    }
}
