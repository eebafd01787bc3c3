//! The preview: scrolling, zooming, searching, forms.

use crate::effect::{Effect, Request};
use crate::keymap::Action;
use crate::layout::TWO_PANES;
use crate::preview::Form;
use crate::preview::json::Fold;
use crate::state::{Focus, Pane, PreviewRequest, PreviewResponse, PromptKind, SeekResult, State, Tone};
use crate::update::browse::fit;
use crate::update::entry::NO_ENTRY;
use crate::update::passwords;
use nra_format::entry::Kind;

/// Columns of a horizontal step.
const SIDE: isize = 8;

/// Changes the preview, and requests what it needs.
pub fn load(state: &mut State, effects: &mut Vec<Effect>, change: impl FnOnce(&mut Pane) -> Option<PreviewRequest>) {
    let request = change(&mut state.preview);
    effects.extend(request.map(|request| state.request(Request::Preview(request))));
}

/// Drops a preview that is hidden, and a count of matches whose search has ended.
pub fn cancel_hidden(state: &mut State) {
    if state.areas().preview.is_empty() && state.preview.is_waiting() {
        state.preview.clear();
    }
    if state.layout.focus == Focus::List {
        state.preview.stop_counting();
    }
}

/// Stops a search, or closes the preview if it is zoomed or has the focus. Returns whether there
/// was anything to do.
pub fn step_back(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    if state.preview.is_seeking() {
        load(state, effects, Pane::stop_seeking);
        state.notify(Tone::Info, "Search stopped");
        return true;
    }
    if state.layout.zoom {
        zoom(state, false, effects);
        return true;
    }
    if state.layout.focus == Focus::Preview {
        state.layout.focus = Focus::List;
        return true;
    }
    false
}

/// Shows the preview on the whole screen, or beside the list.
pub fn zoom(state: &mut State, zoom: bool, effects: &mut Vec<Effect>) {
    // Zooming asks for a password again.
    state.passwords.declined &= !zoom;
    if zoom {
        passwords::ask_first(state);
    }
    state.layout.zoom = zoom;
    state.layout.focus = if zoom { Focus::Preview } else { Focus::List };
    fit(state, effects);
    load(state, effects, Pane::load_now);
}

pub fn load_due(state: &mut State, effects: &mut Vec<Effect>) {
    let now = state.now;
    load(state, effects, |pane| pane.load_due(now));
}

pub fn choose_form(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let form = match action {
        Action::AsText => Form::Text,
        Action::AsHex => Form::Hex,
        Action::AsImage => Form::Image,
        Action::AsTable => Form::Table,
        Action::AsInfo => Form::Info,
        _ => Form::Auto,
    };
    if state.areas().preview.is_empty() {
        zoom(state, true, effects);
    }
    load(state, effects, |pane| pane.set_form(form));
    match state.listing.entry() {
        None => state.notify(Tone::Warning, NO_ENTRY),
        Some(entry) if entry.kind != Kind::File && !matches!(form, Form::Auto | Form::Info) => {
            state.notify(Tone::Warning, "Only files have other forms: files are shown in this one from now on");
        }
        Some(_) => {}
    }
}

/// Handles an action that has another meaning while the preview has the focus.
pub fn handle(state: &mut State, action: Action, effects: &mut Vec<Effect>) -> bool {
    if state.layout.focus != Focus::Preview {
        return false;
    }
    let height = usize::from(state.areas().preview.height);
    match action {
        Action::First | Action::Last => load(state, effects, |pane| pane.to_end(action == Action::Last, height)),
        Action::SeekNext | Action::SeekPrevious => find(state, action == Action::SeekPrevious, true, effects),
        // These belong to the list.
        Action::Enter | Action::Parent => {}
        _ => match action.step(height) {
            Some(rows) => load(state, effects, |pane| pane.step(rows, height)),
            None => return false,
        },
    }
    true
}

/// Shows, hides, scrolls, searches and folds the preview.
pub fn control(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        // At the left edge it folds the parent, then returns to the list.
        Action::Left if state.preview.scroll.left > 0 => state.preview.scroll_sideways(-SIDE),
        Action::Left if state.preview.fold(Fold::Close) => {}
        Action::Left => drop(step_back(state, effects)),
        Action::Right if state.preview.fold(Fold::Open) => {}
        Action::Right => state.preview.scroll_sideways(SIDE),
        Action::Preview if state.layout.zoom => zoom(state, false, effects),
        Action::Preview if state.screen.width < TWO_PANES => zoom(state, true, effects),
        Action::Preview => {
            state.layout.preview = !state.layout.preview;
            state.layout.focus = Focus::List;
            fit(state, effects);
        }
        Action::Zoom => zoom(state, !state.layout.zoom, effects),
        Action::Focus if state.layout.focus == Focus::Preview => drop(step_back(state, effects)),
        Action::Focus if state.areas().preview.is_empty() => zoom(state, true, effects),
        Action::Focus => {
            state.layout.focus = Focus::Preview;
            load(state, effects, Pane::load_now);
        }
        Action::Seek => {
            let title = "Search in the content";
            let note = "case is ignored unless you type a capital letter";
            let typed = state.preview.needle.text().to_owned();
            state.prompt(PromptKind::Seek, title, note, typed);
        }
        Action::Goto => {
            state.prompt(PromptKind::Goto, "Go to", "line or row number, in bytes an offset; 0x… is hexadecimal", "");
        }
        Action::Fold => drop(state.preview.fold(Fold::Toggle)),
        Action::FoldAll => drop(state.preview.fold(Fold::CloseAll)),
        Action::UnfoldAll => drop(state.preview.fold(Fold::OpenAll)),
        Action::Wrap => state.preview.wrap(usize::from(state.areas().preview.height)),
        _ => {}
    }
}

/// Goes to the next or previous match.
pub fn find(state: &mut State, back: bool, again: bool, effects: &mut Vec<Effect>) {
    if state.preview.needle.text().is_empty() {
        return state.notify(Tone::Warning, "No search yet");
    }
    match state.preview.find(back, again) {
        Ok(request) => load(state, effects, |_| Some(request)),
        Err(found) => notify_found(state, found),
    }
}

/// Shows the result of a search if it is not visible.
fn notify_found(state: &mut State, found: SeekResult) {
    match found {
        SeekResult::Around(_) => state.notify(Tone::Info, "Search wrapped"),
        SeekResult::Nowhere => state.notify(Tone::Warning, "Not found"),
        SeekResult::At(_) | SeekResult::Unsought => {}
    }
}

pub fn show(state: &mut State, response: PreviewResponse, effects: &mut Vec<Effect>) {
    let (found, seeks) = (response.found, state.preview.is_seeking_text());
    match state.preview.show_loaded(response) {
        Some(damage) => {
            let found = if seeks && found == SeekResult::Unsought { "Not found in the readable part: " } else { "" };
            state.notify(Tone::Error, format!("{found}{damage}"));
        }
        None => notify_found(state, found),
    }
    let count = state.preview.count();
    effects.extend(count.map(|count| state.request(Request::Occurrences(count))));
    fit(state, effects);
}

/// Goes to the typed line or offset.
pub fn jump(state: &mut State, text: &str, effects: &mut Vec<Effect>) -> Result<(), String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.map_err(|_| format!("'{text}' is not a number"))?;
    load(state, effects, |pane| pane.jump(number));
    Ok(())
}
