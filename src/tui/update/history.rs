//! Commits of the archive, and the change to another archive or commit.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::effect::{Effect, Request};
use crate::glyphs;
use crate::keymap::Action;
use crate::open_target::OpenTarget;
use crate::state::{
    Change, Dialog, Ending, Facts, Listing, OuterPosition, PendingChanges, Prompt, PromptKind, Renames, SearchResults, State,
    Tone,
};
use crate::update::{browse, changes, dialogs, marks, passwords, stored_position};
use nra_format::archive::CommitInfo;

pub fn show_commits(state: &mut State, commits: Result<Vec<CommitInfo>, String>) {
    let is_list = |dialog: &Dialog| matches!(dialog, Dialog::Commits { .. });
    if !commits.as_ref().is_ok_and(|list| !list.is_empty()) {
        dialogs::close_empty(state, is_list);
    }
    match commits {
        Ok(list) if list.is_empty() => state.notify(Tone::Warning, "This archive has no history"),
        Ok(list) => {
            let cursor = list.iter().position(|commit| Some(commit.number) == state.archive.info.commit).unwrap_or(0);
            // The dialog may have been closed.
            if let Some(commits @ Dialog::Commits { .. }) = state.dialogs.iter_mut().find(|dialog| is_list(dialog)) {
                *commits = Dialog::Commits { list, cursor };
            }
        }
        Err(error) => state.notify(Tone::Error, error),
    }
}

/// Requests the commits.
pub fn ask(state: &mut State, effects: &mut Vec<Effect>) {
    if has_history(state) {
        state.dialogs.push(Dialog::Commits { list: Vec::new(), cursor: 0 });
        effects.push(state.request(Request::Commits));
    }
}

/// Returns whether commits can be shown, with a message if not.
fn has_history(state: &mut State) -> bool {
    if state.archive.depth > 0 {
        state.notify(Tone::Warning, "A nested archive is shown as of its newest commit");
    }
    state.archive.depth == 0
}

/// Reloads the archive.
pub fn reload(state: &mut State, effects: &mut Vec<Effect>) {
    if state.archive.depth > 0 {
        return state.notify(Tone::Warning, "A nested archive does not change: h goes back to the outer archive");
    }
    changes::open(state, OpenTarget::Commit(None), effects);
}

/// Goes to the previous or next commit.
pub fn step(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let later = action == Action::NextCommit;
    if !has_history(state) {
        return;
    }
    let Some(number) = state.archive.info.commit else {
        state.notify(Tone::Warning, "This archive has no history");
        return;
    };
    // Otherwise pending changes would be asked about for nothing.
    if later && !state.archive.is_past {
        return state.notify(Tone::Warning, "This is the newest commit: ctrl-r looks for a newer one");
    }
    match if later { number.checked_add(1) } else { number.checked_sub(1).filter(|number| *number > 0) } {
        Some(other) => changes::open(state, OpenTarget::Commit(Some(other)), effects),
        None => state.notify(Tone::Warning, "This is the first commit"),
    }
}

/// Asks for the password of an archive.
pub fn locked(state: &mut State, target: OpenTarget, wrong: bool) {
    if target == OpenTarget::Unlocked {
        // Asked later: something may be typed now.
        state.passwords.question = Some(wrong);
        return;
    }
    state.status.message = None;
    let name = match &target {
        OpenTarget::File(path) => glyphs::printable(path.as_os_str().as_bytes()),
        OpenTarget::Nested(entry) => glyphs::printable(entry.path.name()),
        OpenTarget::Commit(_) | OpenTarget::Parent | OpenTarget::Unlocked => state.archive.name.clone(),
    };
    let prompt = Prompt::new(PromptKind::Password(Box::new(target)), format!("Open {name}"), "encrypted; password:", "");
    let error = wrong.then(|| "wrong password".to_owned());
    state.dialogs.push(Dialog::Prompt(Prompt { error, ..prompt }));
}

/// Shows remarks about the archive.
pub fn remark(state: &mut State) {
    let ending = if state.archive.damaged { Ending::Failed } else { Ending::Degraded };
    for remark in state.archive.remarks.clone().iter().rev() {
        state.jobs.note(state.archive.name.clone(), ending, glyphs::printable(remark.as_bytes()), state.now);
    }
    if let Some(first) = state.archive.remarks.first().cloned() {
        let (tone, hint) = if state.archive.damaged { (Tone::Error, " (R lists readable files)") } else { (Tone::Warning, "") };
        state.notify(tone, format!("{}{hint}", glyphs::printable(first.as_bytes())));
    }
}

/// Stores the position when a nested archive is entered, and returns it when that is left.
fn enter_or_leave(state: &mut State, target: Option<&OpenTarget>) -> Option<OuterPosition> {
    match target {
        Some(OpenTarget::Nested(_)) => {
            let (directory, at) = (state.listing.scope.directory.clone(), state.listing.entry().map(|entry| entry.path.clone()));
            let (marks, pending) = (Arc::clone(state.marks.ranges()), std::mem::take(&mut state.changes.pending));
            state.places.outer.push(OuterPosition { directory, at, marks, pending, home: state.archive.home.clone() });
            None
        }
        Some(OpenTarget::Parent) => state.places.outer.pop(),
        Some(OpenTarget::Commit(_) | OpenTarget::Unlocked) => None,
        Some(OpenTarget::File(_)) | None => {
            state.places.outer.clear();
            None
        }
    }
}

/// Applies damage that a job has found. It is dropped when the archive is opened again, because it
/// may have been repaired.
fn found_before(state: &mut State, target: Option<&OpenTarget>) {
    let Some(archive) = state.archive.info.archive_id else { return };
    if matches!(target, Some(OpenTarget::Commit(None) | OpenTarget::File(_)) | None) {
        state.jobs.damage.remove(&archive);
    } else if let Some(remarks) = state.jobs.damage.get(&archive).filter(|_| !state.archive.damaged) {
        state.archive.set_damaged(remarks.iter().cloned());
    }
}

/// Shows an opened archive or commit. The target tells whether it is the same archive: another one
/// may have its name.
pub fn opened(state: &mut State, target: Option<OpenTarget>, facts: Facts, effects: &mut Vec<Effect>) {
    let same = matches!(target, Some(OpenTarget::Commit(_) | OpenTarget::Unlocked));
    let commit = facts.info.commit.filter(|_| same);
    if facts.depth == 0 && !same && !state.opening.no_archive {
        stored_position::keep(state);
    }
    let back = enter_or_leave(state, target.as_ref());
    let known = std::mem::take(&mut state.archive.remarks);
    let was_damaged = state.archive.damaged;
    state.opening.no_archive = false;
    (state.opening.target, state.input.copying) = (None, false);
    state.requests.cancel_all();
    state.archive = facts;
    // Damage found by reading everything is valid for other commits, too. Reloading drops it: the
    // archive may have been repaired.
    if was_damaged && !state.archive.damaged && matches!(target, Some(OpenTarget::Commit(Some(_)) | OpenTarget::Unlocked)) {
        state.archive.remarks = known;
        state.archive.set_damaged([]);
    }
    found_before(state, target.as_ref());
    remark(state);
    // Jobs and help are the same in any archive.
    state.dialogs.retain(Dialog::is_independent);
    state.input.checking = None;
    // Marks are numbers of the previous archive, except after a password. Jobs that continue have
    // their own.
    let is_same = target == Some(OpenTarget::Unlocked);
    let belong_to_jobs = state.passwords.tasks.iter().any(|(_, _, marks)| !marks.is_empty());
    let marks = if is_same && !belong_to_jobs { Arc::clone(state.marks.ranges()) } else { Arc::default() };
    let marked = if is_same || matches!(target, Some(OpenTarget::Nested(_))) { 0 } else { state.marks.count() };
    state.clear_marks();
    // Changes for another commit were dropped after asking.
    let stays = matches!(target, Some(OpenTarget::Commit(None) | OpenTarget::Unlocked));
    state.changes.pending = if stays { state.changes.pending.by_name() } else { PendingChanges::default() };
    if let Some(written) = state.changes.writing.take().filter(|writing| writing.done && target == Some(OpenTarget::Commit(None)))
    {
        state.apply_renames(&Renames::of(written.changes.list()));
    }
    state.preview.clear();
    state.places.results = SearchResults::default();
    let marks = back.as_ref().map_or(marks, |position| Arc::clone(&position.marks));
    if !marks.is_empty() {
        marks::set(state, marks.to_vec(), Change::Add, effects);
    }
    if let Some(position) = back {
        state.places.cursors.clear();
        state.changes.pending = position.pending;
        browse::go(state, position.directory, position.at, effects);
    } else if same {
        let at = state.listing.entry().map(|entry| entry.path.clone());
        browse::go(state, state.listing.scope.directory.clone(), at, effects);
    } else {
        // `go` must not store positions of the previous archive.
        state.listing = Listing::default();
        state.places.cursors.clear();
        state.places.bookmarks.clear();
        stored_position::restore(state, effects);
    }
    if same {
        passwords::resume(state, effects);
    } else {
        state.passwords.forget();
        state.passwords.declined = false;
    }
    if let Some(number) = commit.filter(|_| state.status.message.is_none()) {
        state.notify(Tone::Info, format!("commit {number}"));
    }
    if marked > 0 {
        state.notify_also(Tone::Warning, &format!("{} cleared", nra_text::counted(marked, "mark", "marks")));
    }
}
