//! Return to an earlier commit: asks first, then writes it as a new commit, so nothing is lost.

use std::ops::Range;

use crate::effect::Effect;
use crate::state::task::Task;
use crate::state::{Choice, Dialog, Menu, PendingChanges, State, Tone};
use crate::update::{changes, jobs};

/// Asks whether to undo the last commit or, if an earlier one is shown, what to restore from it.
pub fn ask(state: &mut State) {
    if let Err(reason) = state.archive.file {
        return state.notify(Tone::Warning, reason);
    }
    if let Some(reason) = changes::write_obstacle(state) {
        return state.notify(Tone::Warning, reason);
    }
    let Some(shown) = state.archive.info.commit else { return };
    let back = ('b', "back".to_owned(), Choice::Nothing);
    let (title, items) = if state.archive.is_past {
        // An empty commit can only be restored as a whole.
        let is_chosen = !state.marks.is_empty() || state.listing.entry().is_some();
        let chosen = is_chosen.then(|| jobs::selected(state)).flatten();
        let chosen = chosen.map(|chosen| ('m', format!("restore {}", chosen.label), Choice::BringBack(shown, chosen)));
        let whole = format!("everything as of commit {shown}");
        let title = format!("Return to commit {shown}");
        (title, [Some(back), chosen, Some(('a', whole, Choice::Return(shown)))].into_iter().flatten().collect())
    } else if shown > 1 {
        let before = shown - 1;
        let label = format!("undo it: everything as of commit {before}");
        (format!("Undo commit {shown}"), vec![back, ('u', label, Choice::Return(before))])
    } else {
        return state.notify(Tone::Warning, "This is the first commit: nothing to undo");
    };
    let mut lines = vec!["as a new commit (H shows all)".to_owned()];
    if state.archive.info.recovery.is_some() {
        lines.push("the recovery data is removed".to_owned());
    }
    state.status.message = None;
    state.dialogs.push(Dialog::Menu(Menu { lines, ..Menu::new(title, items) }));
}

/// Starts a return to a commit, or restores entries from it.
pub fn start(state: &mut State, commit: u64, ranges: Option<Vec<Range<u64>>>, effects: &mut Vec<Effect>) {
    let file = match &state.archive.file {
        Ok(file) => file.clone(),
        // Damage was detected while the menu was open.
        Err(reason) => return state.notify(Tone::Warning, *reason),
    };
    // Only the commit that was shown is undone, not a newer one.
    let over = state.archive.info.commit.filter(|_| !state.archive.is_past);
    let title = format!("return {} to commit {commit}", state.archive.name);
    state.start_writing(title, Task::Revert { file, commit, ranges, over }, PendingChanges::default(), effects);
}
