//! Order, filter and tree of the list.

use std::sync::Arc;

use crate::tui::action::Action;
use crate::tui::effect::Effect;
use crate::tui::query::{DUPLICATE, Query, WORDS};
use crate::tui::rows::Order;
use crate::tui::state::arrange::{ArrangeAnswer, ArrangeRequest, Sort};
use crate::tui::state::dialog::{Choice, Menu, Prompt, Purpose};
use crate::tui::state::{Arrangement, Dialog, Sizes, State, Tone};
use crate::tui::update::browse;

/// The orders: key in the menu, name, action.
const SORTS: [(char, &str, Sort, Action); 6] = [
    ('n', "name", Sort::Name, Action::SortName),
    ('s', "size", Sort::Size, Action::SortSize),
    ('z', "stored size", Sort::Stored, Action::SortStored),
    ('r', "ratio", Sort::Ratio, Action::SortRatio),
    ('t', "time", Sort::Time, Action::SortTime),
    ('d', "kind, directories first", Sort::Kind, Action::SortKind),
];

/// Asks for the arrangement of the list, unless it is that of the archive; then what is under way for another one ends.
pub fn request(state: &mut State, effects: &mut Vec<Effect>) {
    let before = std::mem::replace(&mut state.arranging, !state.arrangement.is_natural());
    state.arranged = 0.0;
    if before || state.arranging {
        effects.push(Effect::Arrange(ArrangeRequest {
            generation: state.listing.generation,
            directory: state.listing.scope.directory.clone(),
            arrangement: state.arrangement.clone(),
        }));
    }
}

/// Takes an arrangement. The cursor stays on its entry.
pub fn take(state: &mut State, answer: ArrangeAnswer, effects: &mut Vec<Effect>) {
    if answer.generation != state.listing.generation || answer.arrangement != state.arrangement {
        return;
    }
    state.arranging = false;
    match answer.found {
        Ok(found) => {
            let numbers = Arc::clone(&found.numbers);
            state.groups = found;
            let touched = state.listing.cursor > 0 || state.remembered.contains_key(&state.listing.scope.directory);
            let at = state.listing.entry().map(|entry| entry.path.clone()).filter(|_| touched);
            browse::list(state, state.listing.scope.directory.clone(), Order::Listed(numbers), at, effects);
        }
        Err(error) => {
            // The rows are as the archive has them; so are their heads.
            state.arrangement = Arrangement::default();
            state.say(Tone::Error, error);
        }
    }
}

/// Arranges the list in another way.
pub fn change(state: &mut State, arrangement: Arrangement, effects: &mut Vec<Effect>) {
    if arrangement == state.arrangement {
        return;
    }
    state.arrangement = arrangement;
    state.anchor = None;
    if !state.arrangement.is_natural() {
        state.tree = false;
    } else {
        let at = state.listing.entry().map(|entry| entry.path.clone());
        browse::again(state, at, effects);
    }
    request(state, effects);
}

/// Ends an order that is under way, or takes filter and query away; says whether there was something.
pub fn step_back(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    let is_map = matches!(state.sizes, Sizes::Map(_));
    if state.arranging && state.arrangement.filter.is_empty() && state.arrangement.query.is_empty() && !is_map {
        change(state, Arrangement::default(), effects);
        return true;
    }
    if state.arrangement.filter.is_empty() && state.arrangement.query.is_empty() {
        return false;
    }
    change(state, Arrangement { filter: String::new(), query: String::new(), ..state.arrangement.clone() }, effects);
    true
}

/// Lists files below here that have their content in common, or no longer.
pub fn duplicates(state: &mut State, effects: &mut Vec<Effect>) {
    let query = if state.arrangement.query == DUPLICATE { String::new() } else { DUPLICATE.to_owned() };
    change(state, Arrangement { query, ..state.arrangement.clone() }, effects);
}

/// Lists what is looked for; says what is wrong with it.
pub fn find_by(state: &mut State, query: &str, effects: &mut Vec<Effect>) -> Result<(), String> {
    Query::parse(query)?;
    change(state, Arrangement { query: query.to_owned(), ..state.arrangement.clone() }, effects);
    Ok(())
}

/// Does what the user asked for; says whether it was about arranging.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) -> bool {
    let orders = SORTS.iter().any(|(.., sorting)| *sorting == action)
        || matches!(action, Action::SortMenu | Action::Reverse | Action::Tree);
    if orders && matches!(state.sizes, Sizes::Map(_)) {
        state.say(Tone::Warning, "the map has an order of its own: b goes back to the rows");
        return true;
    }
    if let Some((.., sort, _)) = SORTS.iter().find(|(.., sorting)| *sorting == action) {
        change(state, Arrangement { sort: *sort, reverse: false, ..state.arrangement.clone() }, effects);
        return true;
    }
    match action {
        Action::SortMenu => {
            let item = |(key, name, _, action): &(char, &str, Sort, Action)| (*key, (*name).to_owned(), Choice::Do(*action));
            let mut items: Vec<_> = SORTS.iter().map(item).collect();
            items.push(('v', "the other way round".to_owned(), Choice::Do(Action::Reverse)));
            let cursor = SORTS.iter().position(|(.., sort, _)| *sort == state.arrangement.sort).unwrap_or(0);
            state.dialogs.push(Dialog::Menu(Menu { title: "Sort by".to_owned(), lines: Vec::new(), items, cursor }));
        }
        Action::Reverse => {
            let reverse = !state.arrangement.reverse;
            change(state, Arrangement { reverse, ..state.arrangement.clone() }, effects);
        }
        Action::Query => {
            let typed = state.arrangement.query.clone();
            let prompt = Prompt::new(Purpose::Query, "Find below here: all of these words hold", WORDS, typed);
            state.dialogs.push(Dialog::Prompt(prompt));
        }
        Action::Filter => {
            let (note, typed) = ("a part of the name, or a glob such as *.json", state.arrangement.filter.clone());
            state.dialogs.push(Dialog::Prompt(Prompt::new(Purpose::Filter, "Keep rows with", note, typed)));
        }
        Action::Tree => {
            state.tree = !state.tree;
            state.arrangement = Arrangement::default();
            request(state, effects);
            let at = state.listing.entry().map(|entry| entry.path.clone());
            browse::again(state, at, effects);
        }
        _ => return false,
    }
    true
}
