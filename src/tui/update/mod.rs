//! Updates the state with events. It does no input or output and uses no clock: each event has its
//! time.

mod actions;
mod arrange;
mod bookmarks;
mod browse;
mod changes;
mod compact;
mod dialogs;
mod entry;
mod find;
mod history;
mod input;
mod jobs;
mod jump;
mod marks;
mod mouse;
mod nested;
mod passwords;
mod preview;
mod requests;
mod revert;
mod salvage;
mod sizes;
mod stored_position;

use std::time::Duration;

use ratatui::layout::Rect;
use zeroize::Zeroizing;

use crate::effect::{Effect, RequestId, RequestKind};
use crate::event::{Event, Failure, Response};
use crate::state::{Dialog, State, Tone, Typed};
use nra_text::SizeStyle;

pub use stored_position::keep;

/// Returns the effects to perform before the first event.
pub fn start(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    history::remark(state);
    if state.opening.no_archive {
        find::archives(state);
    } else {
        stored_position::restore(state, &mut effects);
    }
    requests::cancel_unneeded(state);
    effects
}

/// Updates the state with an event and returns the effects to perform.
pub fn update(state: &mut State, event: Event, now: Duration) -> Vec<Effect> {
    state.now = now;
    if state.status.message.as_ref().is_some_and(|message| message.until <= now) {
        state.status.message = None;
    }
    let mut effects = Vec::new();
    process(state, event, &mut effects);
    FOLLOW_UPS.iter().for_each(|follow_up| follow_up(state, &mut effects));
    requests::cancel_unneeded(state);
    effects
}

/// Run in this order after each event: they complete what earlier events have started.
const FOLLOW_UPS: [fn(&mut State, &mut Vec<Effect>); 6] =
    [input::resume, jobs::quit_after_last, changes::show_written, passwords::ask_in_turn, browse::fit_rows, preview::load_due];

fn process(state: &mut State, event: Event, effects: &mut Vec<Effect>) {
    match event {
        Event::Response(id, _) if !state.requests.awaits(id) => {}
        Event::Response(id, response) => handle_response(state, id, response, effects),
        Event::Key(_) | Event::Paste(_) | Event::Mouse(_) if state.is_too_small() => {
            input::press_on_tiny_screen(state, &event, effects)
        }
        // A click must not change what a check or an opening depends on.
        Event::Mouse(_) if input::awaits_response(state) => {}
        Event::Key(key) => input::handle(state, Typed::Key(key), effects),
        Event::Paste(text) => input::handle(state, Typed::Text(Zeroizing::new(text)), effects),
        Event::Mouse(event) => mouse::handle(state, event, effects),
        Event::Tick => {}
        Event::Resize(width, height) => {
            state.screen = Rect::new(0, 0, width, height);
            browse::fit(state, effects);
        }
        Event::Font(width, height) => {
            preview::load(state, effects, |pane| pane.set_font((width, height)));
        }
        Event::Job(id, event) => jobs::handle_event(state, id, event, effects),
        Event::Failed(failure) => show_failure(state, failure),
        Event::Suspended => effects.push(Effect::Suspend),
        Event::Continued => effects.push(Effect::Retake),
        Event::Terminate(_) => effects.push(Effect::Quit),
    }
}

fn handle_response(state: &mut State, id: RequestId, response: Response, effects: &mut Vec<Effect>) {
    state.requests.record_response(id);
    state.input.copying &= id.kind != RequestKind::Copy;
    let opens = id.kind == RequestKind::Open;
    let target = state.opening.target.take_if(|_| opens);
    if opens && !matches!(response, Response::Opened(_)) {
        if !matches!(response, Response::Failed(Failure::Locked(..))) {
            state.passwords.forget();
        }
        // The new commit cannot be opened.
        state.changes.writing.take_if(|writing| writing.done);
    }
    match response {
        Response::Rows(rows) => browse::rows(state, rows, effects),
        Response::Details(facts) => state.listing.add_details(&facts),
        Response::Preview(preview) => preview::show(state, preview, effects),
        Response::Occurrences(occurrences) => state.preview.counted(occurrences),
        Response::FreeSpace(free) => jobs::show_free_space(state, free),
        Response::Mapped(tiles) => sizes::show_map(state, tiles),
        Response::ArrangeProgress(share) => state.arrangement.progress = share,
        Response::Arranged(found) => arrange::show(state, found, effects),
        Response::Jumped(place) => jump::move_to_row(state, place, effects),
        Response::Found(found) => find::show_results(state, found),
        Response::Marked(ranges, change) => marks::apply(state, ranges, change, effects),
        Response::Completions(paths) => dialogs::complete(state, &paths, effects),
        Response::CheckDone(checked) => dialogs::checked(state, checked, effects),
        Response::MarkTotals(bytes) => state.marks.content_bytes = bytes,
        Response::Inspected(Ok(more)) => {
            let is_details = |dialog: &&mut Dialog| matches!(dialog, Dialog::Details { .. });
            if let Some(Dialog::Details { details, .. }) = state.dialogs.iter_mut().rev().find(is_details) {
                *details = more;
            }
        }
        Response::Inspected(Err(error)) => {
            dialogs::close_empty(state, |dialog| matches!(dialog, Dialog::Details { .. }));
            state.notify(Tone::Error, error);
        }
        Response::Content(Ok(content)) => {
            state.notify(Tone::Info, format!("Copied the content, {}", SizeStyle::Binary.show(content.len() as u64)));
            effects.push(Effect::Copy(content));
        }
        Response::Content(Err(error)) => state.notify(Tone::Warning, error),
        Response::CopyReady(copy) => {
            state.status.message = None;
            effects.push(Effect::Edit(copy));
        }
        Response::CompactEstimate(saved) => compact::show_estimate(state, saved),
        Response::Commits(commits) => history::show_commits(state, commits),
        Response::Archives(archives) => find::set_archives(state, archives, effects),
        Response::Opened(facts) => history::opened(state, target, *facts, effects),
        Response::Failed(failure) => show_failure(state, failure),
    }
}

/// Asks for a missing password, or shows an error.
fn show_failure(state: &mut State, failure: Failure) {
    let error = match failure {
        Failure::Locked(target, wrong) => return history::locked(state, target, wrong),
        Failure::Error(error) => error,
    };
    // If no archive is open, another one can be chosen.
    if state.opening.no_archive && state.dialogs.is_empty() {
        find::archives(state);
    }
    if let Some(Dialog::Finder(finder)) = state.dialogs.last_mut().filter(|_| state.opening.no_archive) {
        finder.results.error = Some(error.clone());
    }
    state.notify(Tone::Error, error);
}
