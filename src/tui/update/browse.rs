//! The list and the preview.

use crate::format::entry::Kind;
use crate::format::path::EntryPath;
use crate::tui::action::Action;
use crate::tui::effect::{Effect, FactsRequest};
use crate::tui::preview::Form;
use crate::tui::rows::Scope;
use crate::tui::state::listing::{Facts, RowsAnswer, RowsRequest};
use crate::tui::state::{Focus, Listing, State};

/// Columns of a step to the side.
const SIDE: isize = 8;

/// Lists a directory, with the cursor on `at`, or where it was the last time.
pub fn go(state: &mut State, directory: Option<EntryPath>, at: Option<EntryPath>, effects: &mut Vec<Effect>) {
    state.remember();
    let at = at.or_else(|| state.remembered.get(&directory).cloned());
    let scope = Scope { directory, ..Scope::default() };
    state.generation += 1;
    let height = usize::from(state.areas().list.height);
    let (listing, request) = Listing::open(scope, state.generation, at, height);
    state.listing = listing;
    effects.push(Effect::Rows(request));
}

/// Takes rows.
pub fn rows(state: &mut State, answer: RowsAnswer, effects: &mut Vec<Effect>) {
    let request = state.listing.take(answer);
    moved(state, request, effects);
}

/// Takes facts about rows.
pub fn facts(state: &mut State, generation: u64, facts: &[(u64, Facts)]) {
    if generation != state.listing.generation {
        return;
    }
    for line in &mut state.listing.lines {
        if let Ok(index) = facts.binary_search_by_key(&line.row.number, |(number, _)| *number) {
            line.facts = Some(facts[index].1);
        }
    }
}

/// Fits list and preview into their areas.
pub fn fit(state: &mut State, effects: &mut Vec<Effect>) {
    let areas = state.areas();
    let request = if areas.list.is_empty() { None } else { state.listing.resize(usize::from(areas.list.height)) };
    moved(state, request, effects);
    if !areas.preview.is_empty() {
        effects.extend(state.pane.resize(areas.preview.width).map(Effect::Preview));
    }
}

/// Does what follows when rows or the cursor have changed.
pub fn moved(state: &mut State, request: Option<RowsRequest>, effects: &mut Vec<Effect>) {
    effects.extend(request.map(Effect::Rows));
    let visible = state.listing.visible();
    let lacking = |kind| matches!(kind, Kind::File | Kind::Directory);
    let entries: Vec<_> = state.listing.lines[visible]
        .iter_mut()
        .filter(|line| line.facts.is_none() && lacking(line.row.entry.kind))
        .map(|line| {
            // Asked for once.
            line.facts = Some(Facts::default());
            (line.row.number, line.row.entry.clone())
        })
        .collect();
    if !entries.is_empty() {
        effects.push(Effect::Facts(FactsRequest { generation: state.listing.generation, entries }));
    }
    if state.areas().preview.is_empty() {
        if !state.zoom {
            state.focus = Focus::List;
        }
    } else {
        state.pane.show(state.listing.entry(), state.now);
    }
}

/// Closes what is open in the browser; says whether there was something.
pub fn step_back(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    if state.zoom {
        zoom(state, false, effects);
        return true;
    }
    if state.focus == Focus::Preview {
        state.focus = Focus::List;
        return true;
    }
    false
}

fn zoom(state: &mut State, zoom: bool, effects: &mut Vec<Effect>) {
    state.zoom = zoom;
    state.focus = if zoom { Focus::Preview } else { Focus::List };
    fit(state, effects);
    effects.extend(state.pane.hurry().map(Effect::Preview));
}

/// Does what the user asked for.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let form = match action {
        Action::AsAuto => Form::Auto,
        Action::AsText => Form::Text,
        Action::AsHex => Form::Hex,
        Action::AsInfo => Form::Info,
        _ => {
            match state.focus {
                Focus::List => act_list(state, action, effects),
                Focus::Preview => act_preview(state, action, effects),
            }
            return;
        }
    };
    if state.areas().preview.is_empty() {
        zoom(state, true, effects);
    }
    effects.extend(state.pane.set_form(form).map(Effect::Preview));
}

fn act_list(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let page = isize::try_from(state.listing.height.max(2)).unwrap_or(isize::MAX);
    let request = match action {
        Action::Down => state.listing.step(1),
        Action::Up => state.listing.step(-1),
        Action::HalfDown => state.listing.step(page / 2),
        Action::HalfUp => state.listing.step(-page / 2),
        Action::PageDown => state.listing.step(page - 1),
        Action::PageUp => state.listing.step(1 - page),
        Action::First => state.listing.to_first(),
        Action::Last => state.listing.to_last(),
        Action::Enter => return enter(state, effects),
        Action::Parent => return parent(state, effects),
        _ => return act_either(state, action, effects),
    };
    moved(state, request, effects);
}

fn enter(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(entry) = state.listing.entry() else { return };
    match entry.kind {
        Kind::Directory => {
            let path = entry.path.clone();
            go(state, Some(path), None, effects);
        }
        _ => zoom(state, true, effects),
    }
}

fn parent(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(directory) = state.listing.scope.directory.clone() {
        go(state, directory.parent(), Some(directory), effects);
    }
}

fn act_preview(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let height = usize::from(state.areas().preview.height);
    let page = isize::try_from(height.max(2)).unwrap_or(isize::MAX);
    let request = match action {
        Action::Down => state.pane.step(1, height),
        Action::Up => state.pane.step(-1, height),
        Action::HalfDown => state.pane.step(page / 2, height),
        Action::HalfUp => state.pane.step(-page / 2, height),
        Action::PageDown => state.pane.step(page - 1, height),
        Action::PageUp => state.pane.step(1 - page, height),
        Action::First => state.pane.to_end(false, height),
        Action::Last => state.pane.to_end(true, height),
        Action::Left => {
            // At the left edge the way back leads to the list.
            if state.pane.scroll.left == 0 {
                step_back(state, effects);
            }
            state.pane.side(-SIDE);
            None
        }
        Action::Right => {
            state.pane.side(SIDE);
            None
        }
        _ => return act_either(state, action, effects),
    };
    effects.extend(request.map(Effect::Preview));
}

fn act_either(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        Action::Preview if state.zoom => zoom(state, false, effects),
        Action::Preview if state.screen.width < crate::tui::layout::TWO_PANES => zoom(state, true, effects),
        Action::Preview => {
            state.preview = !state.preview;
            state.focus = Focus::List;
            fit(state, effects);
        }
        Action::Zoom => zoom(state, !state.zoom, effects),
        Action::Focus => match state.focus {
            Focus::Preview => {
                step_back(state, effects);
            }
            Focus::List if state.areas().preview.is_empty() => zoom(state, true, effects),
            Focus::List => {
                state.focus = Focus::Preview;
                effects.extend(state.pane.hurry().map(Effect::Preview));
            }
        },
        Action::Wrap => {
            state.pane.scroll.wrap = !state.pane.scroll.wrap;
            state.pane.scroll.left = 0;
        }
        _ => {}
    }
}
