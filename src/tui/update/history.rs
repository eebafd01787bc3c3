//! Commits of the archive, and what follows when another archive is open.

use crate::format::archive::CommitInfo;
use crate::format::path::EntryPath;
use crate::tui::effect::{Door, Effect};
use crate::tui::state::{Dialog, Facts, State, Tone};
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

/// Shows another archive, or another commit: the same place if it is there.
pub fn opened(state: &mut State, facts: Facts, effects: &mut Vec<Effect>) {
    let same = facts.name == state.archive.name && !state.vacant;
    let commit = facts.info.commit.filter(|_| same);
    state.vacant = false;
    state.archive = facts;
    state.dialogs.clear();
    // Numbers mean other entries now.
    state.marks.clear();
    state.pane = state.pane.renewed();
    let (directory, at): (Option<EntryPath>, Option<EntryPath>) = if same {
        (state.listing.scope.directory.clone(), state.listing.entry().map(|entry| entry.path.clone()))
    } else {
        state.remembered.clear();
        (None, None)
    };
    browse::go(state, directory, at, effects);
    if let Some(number) = commit {
        state.say(Tone::Calm, format!("commit {number}"));
    }
}
