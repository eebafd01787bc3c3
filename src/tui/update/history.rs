//! Commits of the archive, and what follows when another archive is open.

use std::os::unix::ffi::OsStrExt;

use tui_input::Input;

use crate::format::archive::CommitInfo;
use crate::format::path::EntryPath;
use crate::tui::effect::{Door, Effect};
use crate::tui::glyphs;
use crate::tui::state::dialog::{Prompt, Purpose};
use crate::tui::state::{Dialog, Facts, Staged, State, Tone};
use crate::tui::update::browse;

/// Takes the commits.
pub fn take(state: &mut State, commits: Result<Vec<CommitInfo>, String>) {
    match commits {
        Ok(list) if list.is_empty() => state.say(Tone::Warning, "this archive keeps no history"),
        Ok(list) => {
            let cursor = list.iter().position(|commit| Some(commit.number) == state.archive.info.commit).unwrap_or(0);
            state.dialogs.push(Dialog::Commits { list, cursor });
        }
        Err(error) => state.say(Tone::Error, error),
    }
}

/// Goes to the commit before or behind.
pub fn step(state: &mut State, later: bool, effects: &mut Vec<Effect>) {
    let Some(number) = state.archive.info.commit else {
        state.say(Tone::Warning, "this archive keeps no history");
        return;
    };
    match if later { number.checked_add(1) } else { number.checked_sub(1).filter(|number| *number > 0) } {
        Some(other) => effects.push(Effect::Open(Door::Commit(Some(other)))),
        None => state.say(Tone::Warning, "this is the first commit"),
    }
}

/// Asks for the password of an archive.
pub fn locked(state: &mut State, door: Door, wrong: bool) {
    state.message = None;
    state.opening = false;
    let name = match &door {
        Door::File(path) => glyphs::shown(path.as_os_str().as_bytes()),
        Door::Commit(_) => state.archive.name.clone(),
    };
    state.door = Some(door);
    state.dialogs.push(Dialog::Prompt(Prompt {
        purpose: Purpose::Password,
        title: format!("Open {name}"),
        note: "it is encrypted; password:".to_owned(),
        input: Input::default(),
        policy: None,
        error: wrong.then(|| "the password is wrong".to_owned()),
    }));
}

/// Says what is unusual about the archive.
pub fn remark(state: &mut State) {
    if let Some(first) = state.archive.remarks.first().cloned() {
        let tone = if state.archive.damaged { Tone::Error } else { Tone::Warning };
        state.say(tone, glyphs::shown(first.as_bytes()));
    }
}

/// Shows another archive, or another commit: the same place if it is there.
pub fn opened(state: &mut State, facts: Facts, effects: &mut Vec<Effect>) {
    let same = facts.name == state.archive.name && !state.vacant;
    let commit = facts.info.commit.filter(|_| same);
    state.vacant = false;
    state.opening = false;
    state.archive = facts;
    remark(state);
    state.dialogs.clear();
    // Numbers mean other entries now.
    state.marks.clear();
    state.staged = Staged::default();
    state.pane = state.pane.renewed();
    let (directory, at): (Option<EntryPath>, Option<EntryPath>) = if same {
        (state.listing.scope.directory.clone(), state.listing.entry().map(|entry| entry.path.clone()))
    } else {
        state.remembered.clear();
        (None, None)
    };
    browse::go(state, directory, at, effects);
    if let Some(number) = commit.filter(|_| state.message.is_none()) {
        state.say(Tone::Calm, format!("commit {number}"));
    }
}
