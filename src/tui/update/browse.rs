//! The list: enters and leaves directories, shows rows.

use crate::effect::{Effect, Request, RequestKind};
use crate::glyphs;
use crate::keymap::Action;
use crate::rows::{Order, Scope};
use crate::state::{Focus, Listing, RowsError, RowsRequest, RowsResponse, State, Tone};
use crate::update::{arrange, history, nested, preview, sizes};
use nra_format::entry::Kind;
use nra_format::path::EntryPath;

/// Lists a directory, with the cursor on `at` or on its last position.
pub fn go(state: &mut State, directory: Option<EntryPath>, at: Option<EntryPath>, effects: &mut Vec<Effect>) {
    state.save_cursor();
    let at = at.or_else(|| state.places.cursors.get(&directory).cloned());
    // Filter and query belong to one directory.
    if directory != state.listing.scope.directory {
        state.arrangement.wanted.filter.clear();
        state.arrangement.wanted.query.clear();
    }
    list(state, directory, Order::Path, at, effects);
    arrange::request(state, effects);
    sizes::request(state, effects);
}

/// Goes to an entry, wherever it is.
pub fn reach(state: &mut State, path: EntryPath, effects: &mut Vec<Effect>) {
    // A filter may hide it.
    state.arrangement.wanted.filter.clear();
    state.arrangement.wanted.query.clear();
    go(state, path.parent(), Some(path), effects);
}

pub fn list(state: &mut State, directory: Option<EntryPath>, order: Order, at: Option<EntryPath>, effects: &mut Vec<Effect>) {
    let scope = Scope { directory, open: state.tree.expanded(), order };
    // A range of marks belongs to one list.
    state.marks.anchor = None;
    state.arrangement.shown = state.arrangement.wanted.clone();
    if scope.order == Order::Path {
        (state.arrangement.found, state.arrangement.shown) = Default::default();
    }
    let height = state.list_height();
    let (listing, request) = Listing::open(scope, at, height);
    state.listing = listing;
    // Rows of another list have other places.
    state.requests.cancel(RequestKind::Details);
    state.requests.cancel(RequestKind::Jump);
    effects.push(state.request(Request::Rows(request)));
}

pub fn rows(state: &mut State, response: RowsResponse, effects: &mut Vec<Effect>) {
    if response.page == Err(RowsError::Gone)
        && let Some(directory) = state.listing.scope.directory.clone()
    {
        // Go to the nearest parent that exists.
        go(state, directory.parent(), None, effects);
        let gone = format!("{} does not exist in it", glyphs::printable(directory.as_bytes()));
        return state.notify_also(Tone::Warning, &gone);
    }
    let is_new = !state.archive.damaged;
    let damage = response.page.as_ref().ok().and_then(|page| page.damage.clone()).filter(|_| is_new);
    let request = state.listing.add_rows(response);
    if let Some(remarks) = damage {
        // The damage has just been detected.
        state.archive.remarks = remarks;
        state.archive.set_damaged([]);
        history::remark(state);
    }
    moved(state, request, effects);
}

/// Fits list and preview to their areas.
pub fn fit(state: &mut State, effects: &mut Vec<Effect>) {
    let areas = state.areas();
    let request = if areas.list.is_empty() { None } else { state.listing.resize(state.list_height()) };
    moved(state, request, effects);
    if !areas.preview.is_empty() {
        state.preview.set_columns(state.layout.inner(areas.preview).width);
        preview::load(state, effects, |pane| pane.resize((areas.preview.width, areas.preview.height)));
    }
}

/// Fits the list to its height, which depends on the number of pending rows.
pub fn fit_rows(state: &mut State, effects: &mut Vec<Effect>) {
    if !state.areas().list.is_empty() && state.listing.loaded && state.listing.height != state.list_height() {
        let height = state.list_height();
        scroll(state, effects, |listing| listing.resize(height));
    }
}

/// Moves the cursor or the rows of the list.
pub fn scroll(state: &mut State, effects: &mut Vec<Effect>, scroll: impl FnOnce(&mut Listing) -> Option<RowsRequest>) {
    let request = scroll(&mut state.listing);
    moved(state, request, effects);
}

/// Updates details and preview after rows or cursor have changed.
fn moved(state: &mut State, request: Option<RowsRequest>, effects: &mut Vec<Effect>) {
    effects.extend(request.map(|request| state.request(Request::Rows(request))));
    let entries = state.listing.missing_details(|line| matches!(line.row.entry.kind, Kind::File | Kind::Directory));
    if !entries.is_empty() {
        effects.push(state.request(Request::Details(entries)));
    }
    if state.areas().preview.is_empty() {
        state.layout.focus = Focus::List;
    } else {
        state.preview.show(state.listing.entry(), state.now);
    }
}

pub fn move_cursor(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    scroll(state, effects, |listing| match action {
        Action::First => listing.to_first(),
        Action::Last => listing.to_last(),
        _ => listing.step(action.step(listing.height)?),
    });
}

/// Enters a directory or an archive, or zooms the preview of a file.
pub fn enter(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(entry) = state.listing.entry() else { return };
    let path = entry.path.clone();
    match entry.kind {
        Kind::Directory if state.tree.on => {
            if state.tree.open.contains(&path) {
                scroll(state, effects, |listing| listing.step(1));
            } else {
                fold(state, path, true, effects);
            }
        }
        Kind::Directory => go(state, Some(path), None, effects),
        Kind::File => {
            let entry = entry.clone();
            if !nested::enter(state, &entry, effects) {
                preview::zoom(state, true, effects);
            }
        }
        _ => preview::zoom(state, true, effects),
    }
}

/// Goes to the parent directory, or collapses a directory of the tree.
pub fn parent(state: &mut State, effects: &mut Vec<Effect>) {
    if state.tree.on
        && let Some(entry) = state.listing.entry()
    {
        let path = entry.path.clone();
        let above = path.parent().filter(|above| state.tree.open.contains(above));
        if state.tree.open.contains(&path) {
            return fold(state, path, false, effects);
        }
        if let Some(above) = above {
            return scroll(state, effects, |listing| listing.to_path(above));
        }
    }
    if let Some(directory) = state.listing.scope.directory.clone() {
        go(state, directory.parent(), Some(directory), effects);
    } else {
        nested::leave(state, effects);
    }
}

/// Expands or collapses a directory of the tree.
fn fold(state: &mut State, path: EntryPath, open: bool, effects: &mut Vec<Effect>) {
    state.tree.fold(path.clone(), open);
    if state.arrangement.wanted.is_natural() {
        again(state, Some(path), effects);
    } else {
        // The rows stay until the new ones have been loaded.
        arrange::request(state, effects);
    }
}

/// Reloads the list and keeps the screen row of `at`.
pub fn again(state: &mut State, at: Option<EntryPath>, effects: &mut Vec<Effect>) {
    let row = state.listing.cursor - state.listing.top.min(state.listing.cursor);
    list(state, state.listing.scope.directory.clone(), Order::Path, at, effects);
    state.listing.keep_row(row);
}
