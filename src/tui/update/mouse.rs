//! The mouse: click, double click, right click, wheel, the divider.

use std::time::Duration;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use crate::effect::Effect;
use crate::glyphs;
use crate::hints;
use crate::keymap::Action;
use crate::layout::{Column, SHARES};
use crate::path_bar;
use crate::state::SEPARATOR;
use crate::state::{Dialog, Focus, Pane, Sizes, State};
use crate::update::{actions, arrange, browse, dialogs, marks, preview};

/// Two clicks on one row within this time are a double click.
const DOUBLE: Duration = Duration::from_millis(400);
/// Rows per step of the wheel.
const WHEEL: isize = 3;

pub fn handle(state: &mut State, event: MouseEvent, effects: &mut Vec<Effect>) {
    let at = Position { x: event.column, y: event.row };
    match event.kind {
        MouseEventKind::ScrollDown => wheel(state, at, WHEEL, effects),
        MouseEventKind::ScrollUp => wheel(state, at, -WHEEL, effects),
        MouseEventKind::Down(MouseButton::Left) if dialogs::click(state, at, effects) => click(state, at, effects),
        MouseEventKind::Down(MouseButton::Right) if state.dialogs.is_empty() => mark(state, at, effects),
        MouseEventKind::Drag(MouseButton::Left) if state.layout.dragging => {
            let width = state.screen.width.max(1);
            state.layout.list_share =
                u16::try_from(u32::from(at.x) * 100 / u32::from(width)).unwrap_or(50).clamp(*SHARES.start(), *SHARES.end());
            browse::fit(state, effects);
        }
        MouseEventKind::Up(MouseButton::Left) => state.layout.dragging = false,
        _ => {}
    }
}

fn wheel(state: &mut State, at: Position, rows: isize, effects: &mut Vec<Effect>) {
    let areas = state.areas();
    if matches!(state.dialogs.last(), Some(Dialog::Jump(_) | Dialog::Bookmark(_))) {
        state.dialogs.pop();
    }
    if let Some(Dialog::Finder(finder)) = state.dialogs.last_mut() {
        finder.step(rows);
    } else if !state.dialogs.is_empty() {
        let action = if rows > 0 { Action::Down } else { Action::Up };
        (0..WHEEL).for_each(|_| actions::run(state, action, effects));
    } else if areas.preview.contains(at) || areas.title.contains(at) {
        preview::load(state, effects, |pane| pane.step(rows, usize::from(areas.preview.height)));
    } else if areas.list.contains(at) {
        browse::scroll(state, effects, |listing| listing.scroll(rows));
    }
}

fn click(state: &mut State, at: Position, effects: &mut Vec<Effect>) {
    let areas = state.areas();
    if areas.divider.contains(at) {
        state.layout.dragging = true;
    } else if areas.list.contains(at) {
        state.layout.focus = Focus::List;
        if let Sizes::Map(map) = &state.layout.sizes {
            let places = map.places(areas.list);
            let tile = map.tiles.iter().zip(places).find(|(_, place)| place.contains(at));
            let Some(path) = tile.map(|(tile, _)| tile.path.clone()) else { return };
            let again = state.listing.entry().is_some_and(|entry| entry.path == path);
            browse::scroll(state, effects, |listing| listing.to_path(path));
            if again {
                actions::run(state, Action::Enter, effects);
            }
            return;
        }
        let Some(index) = row(state, at) else { return };
        browse::scroll(state, effects, |listing| listing.select(index));
        let place = state.listing.lines[index].row.place;
        let double = state.layout.last_click.is_some_and(|(time, clicked)| clicked == place && state.now - time < DOUBLE);
        state.layout.last_click = (!double).then_some((state.now, place));
        if double {
            actions::run(state, Action::Enter, effects);
        }
    } else if areas.preview.contains(at) || areas.title.contains(at) {
        state.layout.focus = Focus::Preview;
        let row = at.y.checked_sub(areas.preview.y);
        if row.is_some_and(|row| state.preview.click_row(usize::from(row))) {
            actions::run(state, Action::Fold, effects);
        }
        preview::load(state, effects, Pane::load_now);
    } else if areas.column_headers.contains(at) && !matches!(state.layout.sizes, Sizes::Map(_)) {
        sort(state, state.columns_in(areas.column_headers.width).at(at.x - areas.column_headers.x), effects);
    } else if areas.header.contains(at) {
        part(state, areas.header, at.x, effects);
    } else if let Some(action) = hints::at(state, at) {
        actions::run(state, action, effects);
    }
}

/// Returns the index of the row at a position on the screen.
fn row(state: &State, at: Position) -> Option<usize> {
    let list = state.areas().list;
    let index = state.listing.top + usize::from(at.y.checked_sub(list.y)?);
    // Pending rows follow the last row.
    (list.contains(at) && state.listing.visible().contains(&index)).then_some(index)
}

/// Marks or unmarks the clicked row.
fn mark(state: &mut State, at: Position, effects: &mut Vec<Effect>) {
    if let Some(index) = row(state, at).filter(|_| !matches!(state.layout.sizes, Sizes::Map(_))) {
        state.layout.focus = Focus::List;
        browse::scroll(state, effects, |listing| listing.select(index));
        marks::toggle(state, effects);
    }
}

/// Sorts by the clicked column, or reverses the order if it is sorted by it.
fn sort(state: &mut State, column: Column, effects: &mut Vec<Effect>) {
    let column = if column == Column::Bar { Column::Size } else { column };
    let sort = arrange::SORTS.iter().find(|(_, _, sort, _)| *sort == column);
    let action = sort.map_or(Action::SortName, |(.., action)| *action);
    let before = state.arrangement.wanted.clone();
    actions::run(state, action, effects);
    if state.arrangement.wanted == before {
        actions::run(state, Action::Reverse, effects);
    }
}

/// Goes to the clicked directory of the path.
fn part(state: &mut State, header: Rect, x: u16, effects: &mut Vec<Effect>) {
    let mut from = usize::from(header.x) + 1;
    for part in path_bar::parts(state, path_bar::room(state, header.width)) {
        let to = from + glyphs::width(&part.text);
        if (from..to).contains(&usize::from(x)) {
            let Some(directory) = state.listing.scope.directory.clone() else { return };
            let Some(depth) = part.depth else { return };
            let target = directory.first(depth);
            if target.as_ref() != Some(&directory) {
                browse::go(state, target, None, effects);
            }
            return;
        }
        from = to + glyphs::width(SEPARATOR);
    }
}
