//! Pending changes: made, undone, written as one commit.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::effect::{Check, Effect, Request};
use crate::event::Checked;
use crate::glyphs;
use crate::keymap::Action;
use crate::open_target::OpenTarget;
use crate::state::pending::count;
use crate::state::task::Task;
use crate::state::{
    About, Choice, Dialog, JobId, Menu, PendingChange, PendingChanges, PendingCheck, Prompt, PromptKind, QuitMode, State, Tone,
};
use crate::update::{entry, jobs};
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

/// Makes a pending change, or shows, undoes or writes pending changes.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    use Action::{Add, MakeDirectory, PendingChanges as Show, Remove, Rename, Undo};
    // Changes made before damage was detected can still be shown and undone.
    let shows_or_undoes = matches!(action, Show | Undo) && !state.changes.pending.is_empty();
    if let Err(reason) = state.archive.writable_file()
        && !shows_or_undoes
    {
        return state.notify(Tone::Warning, reason);
    }
    if state.changes.writing.is_some() && action != Show {
        return state.notify(Tone::Warning, WRITING);
    }
    let here = state.listing.scope.directory.clone();
    match action {
        Remove => remove(state, effects),
        Rename => ask_name(state),
        Add => ask(state, PromptKind::Add(here), "Add to", "a file, or a directory with all that is in it"),
        MakeDirectory => ask(state, PromptKind::MakeDirectory(here), "Make a directory in", "its name, or a path with several"),
        Undo if !state.changes.pending.is_empty() => undo_change(state, state.changes.pending.list().len() - 1, effects),
        Show if !state.changes.pending.is_empty() => {
            state.dialogs.push(Dialog::PendingChanges { cursor: state.changes.pending.list().len() - 1 })
        }
        _ if state.changes.pending.is_empty() => state.notify(Tone::Warning, "No pending changes: a adds, d removes, r renames"),
        _ => ask_message(state),
    }
}

/// Returns why the archive cannot be written in another way now, if there is a reason.
pub fn write_obstacle(state: &State) -> Option<&'static str> {
    if state.changes.writing.is_some() {
        return Some("The archive is being written: try again when the job has ended (J)");
    }
    (!state.changes.pending.is_empty()).then_some("Pending changes: press W to write them first, P to show them")
}

/// Returns the file of the archive if it can be written in another way now. Shows a message if not.
pub fn file_to_write(state: &mut State) -> Option<PathBuf> {
    let file = state.archive.writable_file().cloned();
    let file = file.and_then(|file| write_obstacle(state).map_or(Ok(file), Err));
    file.map_err(|reason| state.notify(Tone::Warning, reason)).ok()
}

/// The message while a job writes changes.
const WRITING: &str = "Changes are being written: try again when the job has ended (J)";

fn remove(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(chosen) = jobs::selected(state) {
        let change = PendingChange::Remove(Arc::clone(&chosen.ranges), chosen.label);
        state.input.checking = Some(PendingCheck::Change);
        effects.push(state.request(Request::Check(Check::Change(change, state.changes.pending.clone()))));
    }
}

/// Processes the check of a change that a key has made or undone.
pub fn checked(state: &mut State, checking: &PendingCheck, result: Result<Checked, String>) {
    match (checking, result) {
        (_, Err(reason)) => state.notify(Tone::Warning, reason),
        (PendingCheck::Undo(index), Ok(Checked::Remaining(rest))) => keep_remaining(state, *index, rest),
        (_, Ok(Checked::Change(change))) => {
            state.clear_marks();
            stage(state, change);
        }
        (_, Ok(Checked::Possible | Checked::Remaining(_))) => {}
    }
}

/// Undoes a pending change, and those that depend on it.
pub fn undo_change(state: &mut State, index: usize, effects: &mut Vec<Effect>) {
    // Changes that cannot be written can be undone in any order.
    if state.changes.pending.list().len() < 2 || state.archive.writable_file().is_err() {
        let mut rest = state.changes.pending.clone();
        rest.remove(index);
        return keep_remaining(state, index, rest);
    }
    state.input.checking = Some(PendingCheck::Undo(index));
    effects.push(state.request(Request::Check(Check::Undo(index, state.changes.pending.clone()))));
}

/// Keeps the remaining changes, and shows which one was undone.
fn keep_remaining(state: &mut State, index: usize, rest: PendingChanges) {
    if let Some(message) = state.changes.pending.list().get(index).map(PendingChange::describe) {
        keep(state, rest, &format!("undone: {message}"));
    }
}

/// Keeps the remaining changes. The message includes how many others were undone with it.
pub fn keep(state: &mut State, rest: PendingChanges, message: &str) {
    let more = state.changes.pending.list().len().saturating_sub(rest.list().len() + 1);
    state.changes.pending = rest;
    let more = if more > 0 { format!(", and {more} more that depend on it") } else { String::new() };
    state.notify(Tone::Info, format!("{message}{more}"));
    let left = state.changes.pending.list().len();
    if let Some(Dialog::PendingChanges { cursor }) = state.dialogs.last_mut() {
        *cursor = (*cursor).min(left.saturating_sub(1));
        if left == 0 {
            state.dialogs.pop();
        }
    }
}

pub fn stage(state: &mut State, change: PendingChange) {
    if state.changes.writing.is_some() {
        return state.notify(Tone::Warning, WRITING);
    }
    let message = match &change {
        PendingChange::Remove(ranges, what) => {
            format!("{what}: {} will be removed", nra_text::counted(count(ranges), "entry", "entries"))
        }
        PendingChange::Rename(from, to) => format!("{} will be renamed to {}", place(from), place(to)),
        PendingChange::Add(path, _, meets) => {
            let meets = if *meets { " over the existing one" } else { "" };
            format!("{} will be added{meets}", glyphs::printable(path.as_os_str().as_bytes()))
        }
        PendingChange::MakeDirectory(path) => format!("{} will be created", place(path)),
    };
    state.changes.pending.push(change);
    // The consent to drop changes was for others.
    if let Some(leaving) = &mut state.quit {
        leaving.drops = false;
    }
    state.notify(Tone::Info, format!("{message}: W writes it, u undoes it"));
}

fn ask_name(state: &mut State) {
    let Some(Entry { path, .. }) = entry::current(state) else { return };
    // A name that is not UTF-8 cannot be typed: the line is empty.
    let planned = state.changes.pending.renamed(&path).filter(|to| to.parent() == path.parent());
    let name = std::str::from_utf8(planned.unwrap_or(&path).name()).unwrap_or_default().to_owned();
    let title = format!("Rename {}", glyphs::printable(path.name()));
    let note = "to a name here, or to a path from the top that begins with /";
    state.prompt(PromptKind::Rename(path), title, note, name);
}

/// Asks for something to put into the directory shown.
fn ask(state: &mut State, purpose: PromptKind, what: &str, note: &str) {
    let place = state.listing.scope.directory.as_ref().map_or_else(|| state.archive.name.clone(), place);
    state.prompt(purpose, format!("{what} {place}"), note, "");
}

pub fn place(directory: &EntryPath) -> String {
    glyphs::printable(directory.as_bytes())
}

/// Returns the check for a new directory, or what is wrong with its name.
pub fn make_directory(state: &State, directory: Option<&EntryPath>, text: &str) -> Result<Check, String> {
    Ok(Check::Change(PendingChange::MakeDirectory(typed(directory, text)?), state.changes.pending.clone()))
}

/// Returns the typed path: relative to a directory, or from the top directory if it starts with
/// `/`.
fn typed(directory: Option<&EntryPath>, text: &str) -> Result<EntryPath, String> {
    let path = match (text.strip_prefix('/'), directory) {
        (Some(path), _) => EntryPath::try_from(path),
        (None, Some(directory)) => directory.join(text.as_bytes()),
        (None, None) => EntryPath::try_from(text),
    };
    let path = path.map_err(|error| error.to_string())?;
    // It would be invisible on the screen.
    if path.name().trim_ascii().is_empty() {
        return Err("a name needs a character other than spaces".to_owned());
    }
    Ok(path)
}

/// Returns the check for a new name, if it differs, or what is wrong with it.
pub fn rename(state: &State, from: &EntryPath, text: &str) -> Result<Option<Check>, String> {
    let to = typed(from.parent().as_ref(), text)?;
    let planned = state
        .changes
        .pending
        .list()
        .iter()
        .position(|change| matches!(change, PendingChange::Rename(planned, _) if planned == from));
    if to != *from {
        // It replaces an earlier pending name.
        let mut pending = state.changes.pending.clone();
        pending.remove_rename(from);
        return Ok(Some(Check::Change(PendingChange::Rename(from.clone(), to), pending)));
    }
    Ok(planned.map(|index| Check::Undo(index, state.changes.pending.clone())))
}

fn ask_message(state: &mut State) {
    let title = format!("Write to {}: {}", state.archive.name, state.changes.pending.summary());
    let note = match state.archive.info.recovery {
        Some(_) => "one commit; earlier commits are kept (H), recovery data is not. Message:",
        None => "one commit; earlier commits are kept (H). Message:",
    };
    state.prompt(PromptKind::Message(None), title, note, state.changes.pending.summary());
}

/// Asks for the message of a commit, after which the program quits.
pub fn write_and_leave(state: &mut State, mode: QuitMode, effects: &mut Vec<Effect>) {
    act(state, Action::Write, effects);
    if let Some(Dialog::Prompt(Prompt { purpose: PromptKind::Message(leaving), .. })) = state.dialogs.last_mut() {
        *leaving = Some(mode);
    }
}

/// Starts writing the pending changes, and quits afterwards if `leaving` is set.
pub fn write(state: &mut State, message: String, leaving: Option<QuitMode>, effects: &mut Vec<Effect>) {
    let file = match state.archive.writable_file() {
        Ok(file) => file.clone(),
        // Damage was detected while the message was typed.
        Err(reason) => return state.notify(Tone::Warning, reason),
    };
    let Some(commit) = state.archive.info.commit else { return };
    let title = format!("write {}: {}", state.archive.name, state.changes.pending.summary());
    let changes = std::mem::take(&mut state.changes.pending);
    // The changes to be dropped are written instead.
    if let Some(leaving) = &mut state.quit {
        leaving.drops = false;
    }
    let task = Task::Change { file, commit, message, changes: changes.list().to_vec() };
    let job = state.start_writing(title, task, changes, effects);
    let Some(mode) = leaving else { return };
    if mode == QuitMode::Stop {
        effects.extend(state.jobs.running().map(|other| other.id).filter(|other| *other != job).map(Effect::Stop));
    }
    jobs::end(state, if mode == QuitMode::Stop { QuitMode::Wait } else { mode }, false, effects);
}

/// Records that a job has written its changes.
pub fn written(state: &mut State, job: JobId) {
    if let Some(writing) = state.changes.writing.as_mut().filter(|writing| writing.job == job) {
        writing.done = true;
    }
}

/// Processes the end of a job: changes it has not written are pending again.
pub fn ended(state: &mut State, job: JobId) {
    if let Some(writing) = state.changes.writing.take_if(|writing| writing.job == job && !writing.done) {
        state.changes.pending = writing.changes;
    }
}

/// Shows the new commit as soon as no prompt or menu is open, unless the program quits.
pub fn show_written(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(writing) = state.changes.writing.as_ref().filter(|writing| writing.done) else { return };
    let ended = state.jobs.list.iter().all(|job| job.id != writing.job || job.ending.is_some());
    let is_idle = state.opening.target.is_none() && !state.input.copying && state.quit.is_none();
    if ended && is_idle && state.dialogs.iter().all(Dialog::is_independent) {
        effects.push(state.request(Request::Open(OpenTarget::Commit(None), None)));
    }
}

/// Asks what to do with pending changes before quitting. Returns whether there are any.
pub fn ask_on_leaving(state: &mut State, mode: QuitMode) -> bool {
    let is_asking = matches!(state.dialogs.last(), Some(Dialog::Menu(Menu { about: About::PendingChanges, .. })));
    let changes = state.unwritten_changes();
    if is_asking || changes.is_empty() {
        return false;
    }
    ask_before(state, changes, "drop them and quit", Choice::Drop(mode));
    true
}

/// Opens something else, after asking about pending changes that would be lost.
pub fn open(state: &mut State, target: OpenTarget, effects: &mut Vec<Effect>) {
    if state.changes.writing.is_some() {
        return state.notify(Tone::Warning, WRITING);
    }
    let reloads = target == OpenTarget::Commit(None);
    let describe = |is_dropped: fn(&&PendingChange) -> bool| {
        state.changes.pending.list().iter().filter(is_dropped).map(PendingChange::describe).collect()
    };
    let changes: Vec<String> = match &target {
        // The changes stay with the outer archive.
        OpenTarget::Nested(_) | OpenTarget::Parent => Vec::new(),
        // Only changes with entry numbers are lost when the archive is reloaded.
        OpenTarget::Commit(None) => describe(|change| matches!(change, PendingChange::Remove(..))),
        OpenTarget::Commit(Some(_)) | OpenTarget::Unlocked => describe(|_| true),
        OpenTarget::File(_) => state.unwritten_changes(),
    };
    if changes.is_empty() {
        return effects.push(state.request(Request::Open(target, None)));
    }
    let label = if reloads { "drop the removals and continue" } else { "drop them and continue" };
    ask_before(state, changes, label, Choice::Open(target));
}

/// Asks before pending changes are dropped.
fn ask_before(state: &mut State, changes: Vec<String>, label: &str, choice: Choice) {
    // The menu shortens long lists.
    let mut lines = changes;
    let mut items = vec![('b', "back".to_owned(), Choice::Nothing), ('d', label.to_owned(), choice.clone())];
    if choice == Choice::Open(OpenTarget::Commit(None)) {
        // Writing is not offered: reloading may be needed because they cannot be written.
        lines.insert(0, "the entries to remove may be others by now".to_owned());
    } else if !state.changes.pending.is_empty() {
        items.insert(
            1,
            match choice {
                Choice::Drop(mode) => ('w', "write them and quit".to_owned(), Choice::Write(mode)),
                _ => ('w', "write them and stay".to_owned(), Choice::Do(Action::Write)),
            },
        );
    }
    let menu = Menu { lines, about: About::PendingChanges, ..Menu::new("Unwritten changes", items) };
    state.dialogs.push(Dialog::Menu(menu));
}
