//! Sort order, filter, query, columns and tree of the list.

use std::sync::Arc;

use crate::effect::{Effect, Request};
use crate::keymap::Action;
use crate::layout::Column;
use crate::rows::Order;
use crate::state::{ArrangeRequest, Arrangement, Choice, Dialog, Found, Menu, PromptKind, Sizes, State, Tone};
use crate::update::browse;
use nra_convert::query::{DUPLICATE, Query, TERMS_HELP};

/// The sort orders: key in the menu, name, action.
pub const SORTS: [(char, &str, Column, Action); 7] = [
    ('n', "name", Column::Name, Action::SortName),
    ('s', "size", Column::Size, Action::SortSize),
    ('z', "stored size", Column::Stored, Action::SortStored),
    ('r', "ratio", Column::Ratio, Action::SortRatio),
    ('t', "time", Column::Time, Action::SortTime),
    ('m', "mode", Column::Mode, Action::SortMode),
    ('d', "kind, directories first", Column::Kind, Action::SortKind),
];

/// Requests the list in the wanted arrangement, unless that is the order of the archive.
pub fn request(state: &mut State, effects: &mut Vec<Effect>) {
    state.arrangement.loading = !state.arrangement.wanted.is_natural();
    state.arrangement.progress = 0.0;
    if state.arrangement.loading {
        let wanted = wanted(state);
        effects.push(state.request(Request::Arrange(wanted)));
    }
}

fn wanted(state: &State) -> ArrangeRequest {
    ArrangeRequest {
        directory: state.listing.scope.directory.clone(),
        // Results of a query are not a tree.
        open: if state.arrangement.wanted.query.is_empty() { state.tree.expanded() } else { Arc::default() },
        arrangement: state.arrangement.wanted.clone(),
    }
}

/// Shows the list in the wanted arrangement. The cursor stays on its entry.
pub fn show(state: &mut State, found: Result<Found, String>, effects: &mut Vec<Effect>) {
    match found {
        Ok(found) => {
            state.arrangement.loading = false;
            state.tree.on &= state.arrangement.wanted.query.is_empty();
            let numbers = Arc::clone(&found.numbers);
            state.arrangement.found = found;
            let touched = state.listing.cursor > 0 || state.places.cursors.contains_key(&state.listing.scope.directory);
            let at = state.listing.entry().map(|entry| entry.path.clone()).filter(|_| touched);
            let row = state.listing.cursor.saturating_sub(state.listing.top);
            browse::list(state, state.listing.scope.directory.clone(), Order::Listed(numbers), at, effects);
            if state.tree.on {
                state.listing.keep_row(row);
            }
        }
        Err(error) => {
            stay(state);
            state.notify(Tone::Error, error);
        }
    }
}

/// Keeps the arrangement that is shown.
fn stay(state: &mut State) {
    state.arrangement.loading = false;
    state.arrangement.wanted = state.arrangement.shown.clone();
    if state.tree.on {
        state.tree.open = Arc::clone(&state.listing.scope.open);
    }
}

pub fn change(state: &mut State, arrangement: Arrangement, effects: &mut Vec<Effect>) {
    if arrangement == state.arrangement.wanted {
        return;
    }
    state.arrangement.wanted = arrangement;
    if state.arrangement.wanted.is_natural() {
        let at = state.listing.entry().map(|entry| entry.path.clone());
        browse::again(state, at, effects);
    }
    request(state, effects);
}

/// Cancels sorting, or clears filter and query. Returns whether there was anything to do.
pub fn step_back(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    if state.arrangement.loading && !matches!(state.layout.sizes, Sizes::Map(_)) {
        // The worker stops, because the request is cancelled.
        stay(state);
        return true;
    }
    if state.arrangement.wanted.filter.is_empty() && state.arrangement.wanted.query.is_empty() {
        return false;
    }
    change(state, Arrangement { filter: String::new(), query: String::new(), ..state.arrangement.wanted.clone() }, effects);
    true
}

/// Lists files below here with the same content, or goes back to the list.
pub fn duplicates(state: &mut State, effects: &mut Vec<Effect>) {
    let query = if state.arrangement.wanted.query == DUPLICATE { String::new() } else { DUPLICATE.to_owned() };
    change(state, Arrangement { query, ..state.arrangement.wanted.clone() }, effects);
}

pub fn filter(state: &mut State, filter: String, effects: &mut Vec<Effect>) {
    change(state, Arrangement { filter, ..state.arrangement.wanted.clone() }, effects);
}

/// Lists the entries that match a query, or returns what is wrong with it.
pub fn find_by(state: &mut State, query: &str, effects: &mut Vec<Effect>) -> Result<(), String> {
    Query::parse_terms(query)?;
    change(state, Arrangement { query: query.to_owned(), ..state.arrangement.wanted.clone() }, effects);
    Ok(())
}

/// Shows or hides a column, and keeps the menu open.
pub fn toggle_column(state: &mut State, column: Column) {
    if state.layout.columns.contains(&column) {
        state.layout.columns.retain(|other| *other != column);
    } else {
        state.layout.columns.push(column);
    }
    ask_columns(state, column);
}

/// Shows the menu of columns, with the cursor on one of them.
fn ask_columns(state: &mut State, at: Column) {
    let shown = state.columns_in(state.areas().list.width);
    let item = |(key, _, column, _): &(char, &str, Column, Action)| {
        let sign = if state.layout.columns.contains(column) { "[x]" } else { "[ ]" };
        let room = if state.layout.columns.contains(column) && !shown.has(*column) { ", no room" } else { "" };
        (*key, format!("{sign} {}{room}", column.title()), Choice::Column(*column))
    };
    // The name is always shown.
    let columns = &SORTS[1..];
    let cursor = columns.iter().position(|(.., column, _)| *column == at).unwrap_or(0);
    let items = columns.iter().map(item).collect();
    state.dialogs.push(Dialog::Menu(Menu { cursor, ..Menu::new("Columns", items) }));
}

pub fn ask_query(state: &mut State) {
    let typed = state.arrangement.wanted.query.clone();
    state.prompt(PromptKind::Query, "Find below here", &format!("all terms must match: {TERMS_HELP}"), typed);
}

pub fn ask_filter(state: &mut State) {
    let (note, typed) = ("part of the name, or a glob such as *.json", state.arrangement.wanted.filter.clone());
    state.prompt(PromptKind::Filter(typed.clone()), "Filter", note, typed);
}

/// Changes the sort order, the columns, or between list and tree. The map has an order of its own.
pub fn sort(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    if matches!(state.layout.sizes, Sizes::Map(_)) {
        return state.notify(Tone::Warning, "The map has its own order: b goes back to the list");
    }
    if let Some((.., sort, _)) = SORTS.iter().find(|(.., sorting)| *sorting == action) {
        change(state, Arrangement { sort: *sort, reverse: false, ..state.arrangement.wanted.clone() }, effects);
        return;
    }
    match action {
        Action::SortMenu => {
            let item = |(key, name, _, action): &(char, &str, Column, Action)| (*key, (*name).to_owned(), Choice::Do(*action));
            let mut items: Vec<_> = SORTS.iter().map(item).collect();
            items.push(('v', "reverse".to_owned(), Choice::Do(Action::Reverse)));
            let cursor = SORTS.iter().position(|(.., sort, _)| *sort == state.arrangement.wanted.sort).unwrap_or(0);
            state.dialogs.push(Dialog::Menu(Menu { cursor, ..Menu::new("Sort by", items) }));
        }
        Action::Columns => ask_columns(state, Column::Size),
        Action::Reverse => {
            let reverse = !state.arrangement.wanted.reverse;
            change(state, Arrangement { reverse, ..state.arrangement.wanted.clone() }, effects);
        }
        Action::Tree => {
            state.tree.on = !state.tree.on;
            state.arrangement.wanted.query.clear();
            let at = state.listing.entry().map(|entry| entry.path.clone());
            browse::again(state, at, effects);
            request(state, effects);
        }
        _ => {}
    }
}
