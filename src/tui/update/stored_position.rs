//! The position in an archive: stored when it is left, restored when it is opened again.

use crate::effect::Effect;
use crate::state::stored_positions::StoredPosition;
use crate::state::{Arrangement, Focus, Sizes, State};
use crate::update::browse;
use nra_format::path::EntryPath;

/// Lists the directory of the stored position, or the top directory.
pub fn restore(state: &mut State, effects: &mut Vec<Effect>) {
    let place = state.archive.home.as_ref().and_then(|home| state.places.memory.place(home)).cloned().unwrap_or_default();
    state.arrangement.wanted = Arrangement { sort: place.sort, reverse: place.reverse, ..Arrangement::default() };
    // The view of the previous archive is not kept.
    if let Sizes::Map(_) = state.layout.sizes {
        state.layout.sizes = Sizes::default();
    }
    state.tree.open = Default::default();
    (state.layout.zoom, state.layout.focus) = (false, Focus::List);
    state.tree.on = place.tree;
    let path = |text: &str| EntryPath::try_from(text).ok();
    browse::go(state, path(&place.directory), path(&place.entry), effects);
}

/// Stores the position in the archive shown, or in the outermost around it, if that is allowed.
pub fn keep(state: &mut State) {
    let home = state.places.outer.first().map_or(&state.archive.home, |position| &position.home);
    let Some(home) = home.clone() else { return };
    let text =
        |path: Option<&EntryPath>| path.and_then(|path| std::str::from_utf8(path.as_bytes()).ok()).unwrap_or_default().to_owned();
    let (directory, entry) = match state.places.outer.first() {
        Some(position) => (position.directory.as_ref(), position.at.as_ref()),
        None => (state.listing.scope.directory.as_ref(), state.listing.entry().map(|entry| &entry.path)),
    };
    let arrangement = match &state.layout.sizes {
        // The map has its own order.
        Sizes::Map(map) => &map.before,
        _ => &state.arrangement.wanted,
    };
    let place = StoredPosition {
        archive: home.clone(),
        directory: text(directory),
        entry: text(entry),
        sort: arrangement.sort,
        reverse: arrangement.reverse,
        tree: state.tree.on,
    };
    state.places.memory.keep(place);
    if !state.places.visited.contains(&home) {
        state.places.visited.push(home);
    }
}
