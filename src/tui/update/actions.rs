//! The table of actions: each has one handler. Layers above the list see an action first.

use crate::effect::Effect;
use crate::keymap::Action;
use crate::state::{Dialog, State, Tone};
use crate::update::{
    arrange, bookmarks, browse, changes, compact, dialogs, entry, find, history, jobs, jump, marks, preview, revert, salvage,
    sizes,
};

type Handler = fn(&mut State, Action, &mut Vec<Effect>);

/// Handles an action and returns true, or leaves it to the layers below.
type Layer = fn(&mut State, Action, &mut Vec<Effect>) -> bool;

/// The layers above the list, from the top: an open dialog, marks that are still unknown, a focused
/// preview.
const LAYERS: [Layer; 3] = [dialogs::handle, marks::wait_for_marks, preview::handle];

pub fn run(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    if is_for_program(action) || !LAYERS.iter().any(|layer| layer(state, action, effects)) {
        handler(action)(state, action, effects);
    }
}

/// Returns whether an action has the same meaning in every layer.
fn is_for_program(action: Action) -> bool {
    use Action::{Back, Help, Quit, QuitNow, Redraw, Suspend};
    matches!(action, Back | Help | Quit | QuitNow | Redraw | Suspend)
}

/// Returns the handler of an action.
#[rustfmt::skip]
fn handler(action: Action) -> Handler {
    use Action as A;
    match action {
        // The program.
        A::Help => |state, _, _| help(state),
        A::Back => |state, _, effects| back(state, effects),
        A::Quit => |state, _, effects| quit(state, effects),
        A::QuitNow => |state, _, effects| jobs::leave(state, effects),
        A::Suspend => |_, _, effects| effects.push(Effect::Suspend),
        A::Redraw => |_, _, effects| effects.push(Effect::Redraw),
        A::Palette => |state, _, _| find::commands(state),
        // The list.
        A::Down | A::Up | A::HalfDown | A::HalfUp | A::PageDown | A::PageUp | A::First | A::Last => browse::move_cursor,
        A::Enter => |state, _, effects| browse::enter(state, effects),
        A::Parent => |state, _, effects| browse::parent(state, effects),
        A::Jump => |state, _, _| jump::start(state),
        A::Find => |state, _, effects| find::paths(state, effects),
        A::SeekNext => |state, _, effects| bookmarks::step(state, 1, effects),
        A::SeekPrevious => |state, _, effects| bookmarks::step(state, -1, effects),
        A::Bookmark => |state, _, _| bookmarks::keep(state),
        A::Bookmarks => |state, _, _| bookmarks::choose(state),
        // Sort order, filter, tree, columns.
        A::SortName | A::SortSize | A::SortStored | A::SortRatio | A::SortTime | A::SortMode | A::SortKind
        | A::SortMenu | A::Reverse | A::Tree | A::Columns => arrange::sort,
        A::Filter => |state, _, _| arrange::ask_filter(state),
        A::Query => |state, _, _| arrange::ask_query(state),
        A::Duplicates => |state, _, effects| arrange::duplicates(state, effects),
        A::Sizes => |state, _, effects| sizes::switch(state, effects),
        // Marks.
        A::Mark | A::MarkRange | A::MarkAll | A::MarkInvert | A::MarkGlob | A::UnmarkGlob => marks::mark,
        // The preview.
        A::AsAuto | A::AsText | A::AsHex | A::AsImage | A::AsTable | A::AsInfo => preview::choose_form,
        A::Preview | A::Zoom | A::Focus | A::Wrap | A::Left | A::Right | A::Seek | A::Goto
        | A::Fold | A::FoldAll | A::UnfoldAll => preview::control,
        // The entry under the cursor.
        A::Inspect => |state, _, effects| entry::inspect(state, effects),
        A::Copy => |state, _, effects| entry::copy_path(state, effects),
        A::CopyContent => |state, _, effects| entry::copy_content(state, effects),
        A::Page => |state, _, effects| entry::page(state, effects),
        A::Edit => |state, _, effects| entry::edit(state, effects),
        A::Launch => |state, _, effects| entry::launch(state, effects),
        // Jobs.
        A::Extract => |state, _, effects| jobs::ask_target(state, effects),
        A::ExtractHere => |state, _, effects| jobs::extract_here(state, effects),
        A::Verify => |state, _, effects| jobs::verify(state, effects),
        A::VerifyEntry => |state, _, effects| jobs::verify_entry(state, effects),
        A::Convert => |state, _, _| jobs::ask_output(state),
        A::Jobs => |state, _, _| jobs::show(state),
        A::StopShown => |state, _, effects| jobs::stop_shown(state, effects),
        // In the list of jobs only.
        A::Stop | A::Pause => |_, _, _| {},
        // Changes of the archive.
        A::Add | A::MakeDirectory | A::Remove | A::Rename | A::Undo | A::PendingChanges | A::Write => changes::act,
        A::Compact => |state, _, effects| compact::ask(state, effects),
        A::Revert => |state, _, _| revert::ask(state),
        A::Salvage => |state, _, _| salvage::ask(state),
        A::ListDamaged | A::ListIntact => salvage::list,
        A::SalvageTo => |state, _, _| salvage::ask_output(state),
        // Other archives and commits.
        A::Archives => |state, _, effects| find::other_archives(state, effects),
        A::History => |state, _, effects| history::ask(state, effects),
        A::PreviousCommit | A::NextCommit => history::step,
        A::Reload => |state, _, effects| history::reload(state, effects),
    }
}

fn help(state: &mut State) {
    if !matches!(state.dialogs.last(), Some(Dialog::Help { .. })) {
        state.dialogs.push(Dialog::Help { place: state.place(), top: 0 });
    }
}

/// Closes what is on top, or quits.
fn quit(state: &mut State, effects: &mut Vec<Effect>) {
    if !close_top(state, effects) {
        jobs::leave(state, effects);
    }
}

/// Closes what is on top.
fn back(state: &mut State, effects: &mut Vec<Effect>) {
    if !close_top(state, effects) {
        let quit = state.settings.keymap.key(Action::Quit).map_or_else(String::new, |key| format!(": {key} quits"));
        state.notify(Tone::Info, format!("Nothing to close{quit}"));
    }
}

/// Closes what is on top: a dialog, marks, the preview, a filter. Returns whether there was
/// something.
fn close_top(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    state.dialogs.pop().is_some()
        || marks::step_back(state)
        || preview::step_back(state, effects)
        || arrange::step_back(state, effects)
}
