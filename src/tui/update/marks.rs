//! Marks: by row, range and glob, and their total size.

use std::ops::Range;
use std::sync::Arc;

use crate::effect::{Effect, MarksRequest, Request, RequestKind};
use crate::keymap::Action;
use crate::rows::Order;
use crate::state::{Among, Change, Focus, Marked, PromptKind, State, Tone};
use crate::update::entry::NO_ENTRY;
use crate::update::{actions, browse};

pub fn mark(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let is_of_rows = matches!(action, Action::Mark | Action::MarkRange | Action::MarkAll | Action::MarkInvert);
    match action {
        _ if is_of_rows && state.listing.entry().is_none() => state.notify(Tone::Warning, NO_ENTRY),
        Action::Mark => {
            toggle(state, effects);
            browse::scroll(state, effects, |listing| listing.step(1));
        }
        Action::MarkRange => match state.marks.anchor.take() {
            None => state.marks.anchor = state.listing.current().map(|line| line.row.place),
            Some(anchor) => range(state, anchor, effects),
        },
        Action::MarkAll => whole(state, Change::Add, effects),
        Action::MarkInvert => whole(state, Change::Invert, effects),
        Action::MarkGlob => ask(state, Change::Add, "Mark"),
        Action::UnmarkGlob => ask(state, Change::Remove, "Unmark"),
        _ => {}
    }
}

/// Delays an action on marked entries until the marks are known: of an open range, which it ends,
/// or of the directory under the cursor. Returns whether the action waits.
pub fn wait_for_marks(state: &mut State, action: Action, effects: &mut Vec<Effect>) -> bool {
    let changes = matches!(
        action,
        Action::Mark | Action::MarkRange | Action::MarkAll | Action::MarkInvert | Action::MarkGlob | Action::UnmarkGlob
    );
    let entry = matches!(action, Action::Extract | Action::ExtractHere | Action::Remove | Action::VerifyEntry)
        || action == Action::Revert && state.archive.is_past;
    if !changes && !entry && action != Action::Verify {
        return false;
    }
    if !changes && let Some(anchor) = state.marks.anchor.take() {
        range(state, anchor, effects);
    }
    if !state.requests.is_unanswered(RequestKind::Marks)
        && entry
        && state.marks.is_empty()
        && state.listing.numbers(state.listing.cursor).is_none()
        && let Some(line) = state.listing.current()
    {
        effects.push(state.request(Request::Marks(MarksRequest::Numbers(vec![line.row.number].into(), Change::Add))));
    }
    state.input.after_marks = state.requests.is_unanswered(RequestKind::Marks).then_some(action);
    state.input.after_marks.is_some()
}

/// Ends an open range, or clears the marks. Returns whether there was anything to do.
pub fn step_back(state: &mut State) -> bool {
    if state.marks.anchor.take().is_some() {
        return true;
    }
    let any = (!state.marks.is_empty() || state.requests.is_unanswered(RequestKind::Marks))
        && state.layout.focus == Focus::List
        && !state.layout.zoom;
    if any {
        state.clear_marks();
    }
    any
}

/// Marks or unmarks the row under the cursor.
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
            effects.push(state.request(Request::Marks(MarksRequest::Numbers(vec![line.row.number].into(), change))));
        }
    }
}

/// Marks the rows between a place and the cursor.
fn range(state: &mut State, anchor: u64, effects: &mut Vec<Effect>) {
    let Some(line) = state.listing.current() else { return };
    let (from, to) = (anchor.min(line.row.place), anchor.max(line.row.place));
    match &state.listing.scope.order {
        Order::Listed(numbers) => {
            let index = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(numbers.len().saturating_sub(1));
            let numbers = Arc::new(numbers[index(from)..=index(to)].to_vec());
            effects.push(state.request(Request::Marks(MarksRequest::Numbers(numbers, Change::Add))));
        }
        Order::Path => {
            set(state, std::iter::once(from..to).collect(), Change::Add, effects);
            // The last row, with everything below it.
            effects.push(state.request(Request::Marks(MarksRequest::Numbers(vec![to].into(), Change::Add))));
        }
    }
}

/// Changes the marks of everything in the list.
fn whole(state: &mut State, change: Change, effects: &mut Vec<Effect>) {
    match &state.listing.scope.order {
        Order::Path => set(state, vec![state.listing.below.clone()], change, effects),
        Order::Listed(numbers) => effects.push(state.request(Request::Marks(MarksRequest::Numbers(Arc::clone(numbers), change)))),
    }
}

fn ask(state: &mut State, change: Change, title: &str) {
    // In a filtered list, only its rows can be marked.
    let rows = match &state.listing.scope.order {
        Order::Listed(numbers) if state.arrangement.wanted.is_narrow() => Some(Arc::clone(numbers)),
        _ => None,
    };
    let note = match rows {
        Some(_) => "glob, among the rows listed: *.json",
        None => "glob: *.json here, **/*.json at any depth",
    };
    let purpose = PromptKind::Mark(Among { directory: state.listing.scope.directory.clone(), rows }, change);
    state.prompt(purpose, title, note, "*");
}

pub fn set(state: &mut State, numbers: Vec<Range<u64>>, change: Change, effects: &mut Vec<Effect>) {
    state.marks.change(numbers, change);
    let ranges = Arc::clone(state.marks.ranges());
    effects.push(state.request(Request::Totals(ranges)));
}

/// Changes marks and runs the action that waits for them. It does not run if there are none,
/// because it was not meant for the entry under the cursor.
pub fn apply(state: &mut State, ranges: Result<Vec<Range<u64>>, String>, change: Change, effects: &mut Vec<Effect>) {
    let (tone, message) = match ranges {
        Ok(ranges) if ranges.is_empty() => (Tone::Warning, "No matches".to_owned()),
        Ok(ranges) => {
            set(state, ranges, change, effects);
            if let Some(action) = state.input.after_marks.take_if(|_| !state.requests.is_unanswered(RequestKind::Marks)) {
                actions::run(state, action, effects);
            }
            return;
        }
        Err(error) => (Tone::Error, error),
    };
    if state.input.after_marks.take().is_some() {
        state.input.queue.clear();
    }
    state.notify(tone, message);
}
