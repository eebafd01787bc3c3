//! Sizes as numbers, bars or a map.

use crate::effect::{Effect, Request};
use crate::layout::Column;
use crate::state::{Arrangement, Map, Sizes, State, Tiles, Tone};
use crate::update::arrange;

/// Switches between numbers, bars and map.
pub fn switch(state: &mut State, effects: &mut Vec<Effect>) {
    state.layout.sizes = match std::mem::take(&mut state.layout.sizes) {
        Sizes::Numbers => Sizes::Bars,
        Sizes::Bars => Sizes::Map(Map { before: state.arrangement.wanted.clone(), ..Map::default() }),
        Sizes::Map(map) => {
            arrange::change(state, map.before, effects);
            Sizes::Numbers
        }
    };
    if matches!(state.layout.sizes, Sizes::Map(_)) {
        // The cursor moves through the areas from the largest to the smallest.
        state.tree.on = false;
        arrange::change(state, Arrangement { sort: Column::Size, ..Arrangement::default() }, effects);
        request(state, effects);
    }
}

/// Requests the map of the directory if one is shown.
pub fn request(state: &mut State, effects: &mut Vec<Effect>) {
    let Sizes::Map(map) = &mut state.layout.sizes else { return };
    let before = std::mem::take(&mut map.before);
    *map = Map { before, ..Map::default() };
    let directory = state.listing.scope.directory.clone();
    effects.push(state.request(Request::Map(directory)));
}

pub fn show_map(state: &mut State, tiles: Result<Tiles, String>) {
    let Sizes::Map(map) = &mut state.layout.sizes else { return };
    map.loaded = true;
    match tiles {
        Ok((tiles, rest)) => (map.tiles, map.rest) = (tiles, rest),
        Err(error) => state.notify(Tone::Error, error),
    }
}
