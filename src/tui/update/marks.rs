//! Marks: by row, range, glob; and what they add up to.

use std::ops::Range;
use std::sync::Arc;

use crate::tui::action::Action;
use crate::tui::effect::{Effect, MarksRequest, TotalsRequest};
use crate::tui::rows::Order;
use crate::tui::state::dialog::{Prompt, Purpose};
use crate::tui::state::marks::{Change, Marked};
use crate::tui::state::{Dialog, Focus, State, Tone};
use crate::tui::update::browse;

/// Does what the user asked for; says whether it was about marks.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) -> bool {
    match action {
        Action::Mark => {
            toggle(state, effects);
            let request = state.listing.step(1);
            browse::moved(state, request, effects);
        }
        Action::MarkRange => match state.anchor.take() {
            None => state.anchor = state.listing.current().map(|line| line.row.place),
            Some(anchor) => range(state, anchor, effects),
        },
        Action::MarkAll => whole(state, Change::Add, effects),
        Action::MarkInvert => whole(state, Change::Invert, effects),
        Action::MarkGlob => ask(state, Change::Add, "Mark"),
        Action::UnmarkGlob => ask(state, Change::Remove, "Unmark"),
        _ => return false,
    }
    true
}

/// Ends a range that was begun, or takes all marks away; says whether there was something.
pub fn step_back(state: &mut State) -> bool {
    if state.anchor.take().is_some() {
        return true;
    }
    let any = !state.marks.is_empty() && state.focus == Focus::List && !state.zoom;
    if any {
        state.unmark();
    }
    any
}

/// Marks the row under the cursor, or takes its mark away.
pub fn toggle(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(line) = state.listing.current() else { return };
    match state.listing.numbers(state.listing.cursor) {
        Some(numbers) => {
            let change = if state.marks.of(&numbers) == Marked::Yes { Change::Remove } else { Change::Add };
            set(state, vec![numbers], change, effects);
        }
        None => {
            let change =
                if state.marks.of(&(line.row.number..line.row.number + 1)) == Marked::No { Change::Add } else { Change::Remove };
            effects.push(Effect::Marks(MarksRequest::Numbers([line.row.number].into(), change)));
        }
    }
}

/// Marks the rows from a place to the cursor.
fn range(state: &mut State, anchor: u64, effects: &mut Vec<Effect>) {
    let Some(line) = state.listing.current() else { return };
    let (from, to) = (anchor.min(line.row.place), anchor.max(line.row.place));
    match &state.listing.scope.order {
        Order::Listed(numbers) => {
            let index = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(numbers.len().saturating_sub(1));
            let numbers = numbers[index(from)..=index(to)].into();
            effects.push(Effect::Marks(MarksRequest::Numbers(numbers, Change::Add)));
        }
        Order::Path => {
            set(state, std::iter::once(from..to).collect(), Change::Add, effects);
            // The last row with all below it.
            effects.push(Effect::Marks(MarksRequest::Numbers([to].into(), Change::Add)));
        }
    }
}

/// Changes the marks of everything in the list.
fn whole(state: &mut State, change: Change, effects: &mut Vec<Effect>) {
    match &state.listing.scope.order {
        Order::Path => set(state, vec![state.listing.below.clone()], change, effects),
        Order::Listed(numbers) => effects.push(Effect::Marks(MarksRequest::Numbers(Arc::clone(numbers), change))),
    }
}

fn ask(state: &mut State, change: Change, title: &str) {
    let note = "a glob: *.json here, **/*.json at any depth";
    state.dialogs.push(Dialog::Prompt(Prompt::new(Purpose::Mark(change), title, note, "*")));
}

fn set(state: &mut State, numbers: Vec<Range<u64>>, change: Change, effects: &mut Vec<Effect>) {
    state.marks.change(numbers, change);
    let (generation, ranges) = (state.marks.generation, Arc::clone(state.marks.ranges()));
    effects.push(Effect::Totals(TotalsRequest { generation, ranges }));
}

/// Takes numbers whose marks change.
pub fn take(state: &mut State, ranges: Result<Vec<Range<u64>>, String>, change: Change, effects: &mut Vec<Effect>) {
    match ranges {
        Ok(ranges) if ranges.is_empty() => state.say(Tone::Warning, "nothing matches"),
        Ok(ranges) => set(state, ranges, change, effects),
        Err(error) => state.say(Tone::Error, error),
    }
}

/// Takes how much the marks hold.
pub fn totals(state: &mut State, generation: u64, bytes: Option<u64>) {
    if generation == state.marks.generation {
        state.marks.content_bytes = bytes;
    }
}
