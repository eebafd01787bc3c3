//! The preview: scrolled, zoomed, shown in another form.

use crate::tui::action::Action;
use crate::tui::effect::Effect;
use crate::tui::layout::TWO_PANES;
use crate::tui::preview::Form;
use crate::tui::state::{Focus, State};
use crate::tui::update::browse::fit;

/// Columns of a step to the side.
const SIDE: isize = 8;

/// Returns the form that an action chooses.
fn form(action: Action) -> Option<Form> {
    match action {
        Action::AsAuto => Some(Form::Auto),
        Action::AsText => Some(Form::Text),
        Action::AsHex => Some(Form::Hex),
        Action::AsImage => Some(Form::Image),
        Action::AsTable => Some(Form::Table),
        Action::AsInfo => Some(Form::Info),
        _ => None,
    }
}

/// Says whether an action is about the preview wherever the focus is.
pub fn is_about(action: Action) -> bool {
    form(action).is_some() || matches!(action, Action::Preview | Action::Zoom | Action::Focus | Action::Wrap)
}

/// Closes the preview if it is in front; says whether it was.
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

/// Shows the preview over the whole screen, or no longer.
pub fn zoom(state: &mut State, zoom: bool, effects: &mut Vec<Effect>) {
    state.zoom = zoom;
    state.focus = if zoom { Focus::Preview } else { Focus::List };
    fit(state, effects);
    effects.extend(state.pane.hurry().map(Effect::Preview));
}

/// Does what the user asked for.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    if let Some(form) = form(action) {
        if state.areas().preview.is_empty() {
            zoom(state, true, effects);
        }
        effects.extend(state.pane.set_form(form).map(Effect::Preview));
        return;
    }
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
        _ => return act_aside(state, action, effects),
    };
    effects.extend(request.map(Effect::Preview));
}

/// What does not scroll up or down.
fn act_aside(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        // At the left edge the way back leads to the list.
        Action::Left if state.pane.scroll.left == 0 => drop(step_back(state, effects)),
        Action::Left => state.pane.side(-SIDE),
        Action::Right => state.pane.side(SIDE),
        Action::Preview if state.zoom => zoom(state, false, effects),
        Action::Preview if state.screen.width < TWO_PANES => zoom(state, true, effects),
        Action::Preview => {
            state.preview = !state.preview;
            state.focus = Focus::List;
            fit(state, effects);
        }
        Action::Zoom => zoom(state, !state.zoom, effects),
        Action::Focus if state.focus == Focus::Preview => drop(step_back(state, effects)),
        Action::Focus if state.areas().preview.is_empty() => zoom(state, true, effects),
        Action::Focus => {
            state.focus = Focus::Preview;
            effects.extend(state.pane.hurry().map(Effect::Preview));
        }
        Action::Wrap => {
            state.pane.scroll.wrap = !state.pane.scroll.wrap;
            state.pane.scroll.left = 0;
        }
        _ => {}
    }
}
