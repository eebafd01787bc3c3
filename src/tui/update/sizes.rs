//! Where the space goes: numbers, bars, a map.

use crate::effect::Effect;
use crate::state::arrange::Sort;
use crate::state::sizes::{Map, MapAnswer, MapRequest, Sizes};
use crate::state::{Arrangement, State, Tone};
use crate::update::arrange;

/// Shows sizes in the next way.
pub fn turn(state: &mut State, effects: &mut Vec<Effect>) {
    state.layout.sizes = match std::mem::take(&mut state.layout.sizes) {
        Sizes::Numbers => Sizes::Bars,
        Sizes::Bars => Sizes::Map(Map { before: state.arrangement.wanted.clone(), ..Map::default() }),
        Sizes::Map(map) => {
            arrange::change(state, map.before, effects);
            Sizes::Numbers
        }
    };
    if matches!(state.layout.sizes, Sizes::Map(_)) {
        // The cursor goes through the areas from the largest on.
        state.tree.on = false;
        arrange::change(state, Arrangement { sort: Sort::Size, ..Arrangement::default() }, effects);
        request(state, effects);
    }
}

/// Asks for the map of the directory if one is shown.
pub fn request(state: &mut State, effects: &mut Vec<Effect>) {
    let Sizes::Map(map) = &mut state.layout.sizes else { return };
    let before = std::mem::take(&mut map.before);
    *map = Map { generation: state.generation, before, ..Map::default() };
    effects.push(Effect::Map(MapRequest { generation: state.generation, directory: state.listing.scope.directory.clone() }));
}

/// Takes a map. One of a directory that was left changes nothing.
pub fn take(state: &mut State, answer: MapAnswer) {
    let Sizes::Map(map) = &mut state.layout.sizes else { return };
    if answer.generation != map.generation {
        return;
    }
    map.loaded = true;
    match answer.map {
        Ok((tiles, rest)) => (map.tiles, map.rest) = (tiles, rest),
        Err(error) => state.say(Tone::Error, error),
    }
}
