//! Commits of the archive, and what follows when another archive is open.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::door::Door;
use crate::effect::{Effect, Request};
use crate::glyphs;
use crate::state::dialog::{Prompt, Purpose};
use crate::state::finder::Trail;
use crate::state::jobs::Ending;
use crate::state::marks::Change;
use crate::state::{Dialog, Facts, Listing, Renames, Spot, Staged, State, Tone};
use crate::update::{browse, change, dialogs, marks, recall, sealed};
use nra_format::archive::CommitInfo;

/// Takes the commits.
pub fn take(state: &mut State, commits: Result<Vec<CommitInfo>, String>) {
    let is_list = |dialog: &Dialog| matches!(dialog, Dialog::Commits { .. });
    if !commits.as_ref().is_ok_and(|list| !list.is_empty()) {
        dialogs::without_rows(state, is_list);
    }
    match commits {
        Ok(list) if list.is_empty() => state.say(Tone::Warning, "this archive keeps no history"),
        Ok(list) => {
            let cursor = list.iter().position(|commit| Some(commit.number) == state.archive.info.commit).unwrap_or(0);
            // Unless it has been closed meanwhile.
            if let Some(commits @ Dialog::Commits { .. }) = state.dialogs.iter_mut().find(|dialog| is_list(dialog)) {
                *commits = Dialog::Commits { list, cursor };
            }
        }
        Err(error) => state.say(Tone::Error, error),
    }
}

/// Asks for the commits.
pub fn ask(state: &mut State, effects: &mut Vec<Effect>) {
    if has_history(state) {
        state.dialogs.push(Dialog::Commits { list: Vec::new(), cursor: 0 });
        effects.push(state.request(Request::Commits));
    }
}

/// Says whether commits can be gone to, and tells why not.
fn has_history(state: &mut State) -> bool {
    if state.archive.depth > 0 {
        state.say(Tone::Warning, "an archive within another one is shown as of its newest commit");
    }
    state.archive.depth == 0
}

/// Reads the archive anew. One within another one is what that holds.
pub fn reload(state: &mut State, effects: &mut Vec<Effect>) {
    if state.archive.depth > 0 {
        return state.say(Tone::Warning, "what lies within an archive does not change: h goes back to the one around it");
    }
    change::open(state, Door::Commit(None), effects);
}

/// Goes to the commit before or behind.
pub fn step(state: &mut State, later: bool, effects: &mut Vec<Effect>) {
    if !has_history(state) {
        return;
    }
    let Some(number) = state.archive.info.commit else {
        state.say(Tone::Warning, "this archive keeps no history");
        return;
    };
    // With plans there would be a question that leads nowhere.
    if later && !state.archive.is_past {
        return state.say(Tone::Warning, "this is the newest commit: ctrl-r looks for a later one");
    }
    match if later { number.checked_add(1) } else { number.checked_sub(1).filter(|number| *number > 0) } {
        Some(other) => change::open(state, Door::Commit(Some(other)), effects),
        None => state.say(Tone::Warning, "this is the first commit"),
    }
}

/// Asks for the password of an archive.
pub fn locked(state: &mut State, door: Door, wrong: bool) {
    if door == Door::Content {
        // In its turn: something may be typed by now.
        state.passwords.question = Some(wrong);
        return;
    }
    state.status.message = None;
    let name = match &door {
        Door::File(path) => glyphs::shown(path.as_os_str().as_bytes()),
        Door::Inside(entry) => glyphs::shown(entry.path.name()),
        Door::Commit(_) | Door::Outside | Door::Content => state.archive.name.clone(),
    };
    let prompt = Prompt::new(Purpose::Password(Box::new(door)), format!("Open {name}"), "it is encrypted; password:", "");
    let error = wrong.then(|| "the password is wrong".to_owned());
    state.dialogs.push(Dialog::Prompt(Prompt { error, ..prompt }));
}

/// Says what is unusual about the archive.
pub fn remark(state: &mut State) {
    let ending = if state.archive.damaged { Ending::Failed } else { Ending::Degraded };
    for remark in state.archive.remarks.clone().iter().rev() {
        state.jobs.note(state.archive.name.clone(), ending, glyphs::shown(remark.as_bytes()), state.now);
    }
    if let Some(first) = state.archive.remarks.first().cloned() {
        let (tone, way) = if state.archive.damaged { (Tone::Error, " (R: what reads)") } else { (Tone::Warning, "") };
        state.say(tone, format!("{}{way}", glyphs::shown(first.as_bytes())));
    }
}

/// Keeps where to come back to when an archive within this one is entered; returns it when this one is left.
fn turn(state: &mut State, door: Option<&Door>) -> Option<Spot> {
    match door {
        Some(Door::Inside(_)) => {
            let (directory, at) = (state.listing.scope.directory.clone(), state.listing.entry().map(|entry| entry.path.clone()));
            let (marks, staged) = (Arc::clone(state.marks.ranges()), std::mem::take(&mut state.changes.pending));
            state.places.outer.push(Spot { directory, at, marks, staged, home: state.archive.home.clone() });
            None
        }
        Some(Door::Outside) => state.places.outer.pop(),
        Some(Door::Commit(_) | Door::Content) => None,
        Some(Door::File(_)) | None => {
            state.places.outer.clear();
            None
        }
    }
}

/// Lays over what is known of the archive that is shown what was found by reading all of it. It holds until it is read anew: it may have been repaired.
fn found_before(state: &mut State, door: Option<&Door>) {
    let Some(archive) = state.archive.info.archive_id else { return };
    if matches!(door, Some(Door::Commit(None) | Door::File(_)) | None) {
        state.jobs.damage.remove(&archive);
    } else if let Some(remarks) = state.jobs.damage.get(&archive).filter(|_| !state.archive.damaged) {
        state.archive.turn_out_damaged(remarks.iter().cloned());
    }
}

/// Shows what a door has led to. Whether that is the archive shown so far, at the same place, is told by the door: other archives may have its name.
pub fn opened(state: &mut State, door: Option<Door>, facts: Facts, effects: &mut Vec<Effect>) {
    let same = matches!(door, Some(Door::Commit(_) | Door::Content));
    let commit = facts.info.commit.filter(|_| same);
    if facts.depth == 0 && !same && !state.opening.no_archive {
        recall::keep(state);
    }
    let back = turn(state, door.as_ref());
    let known = std::mem::take(&mut state.archive.remarks);
    let was_damaged = state.archive.damaged;
    state.opening.no_archive = false;
    (state.opening.door, state.input.copying) = (None, false);
    state.requests.cancel_all();
    state.archive = facts;
    // What was found by reading all of it holds for its other commits, too; read anew it may have been repaired.
    if was_damaged && !state.archive.damaged && matches!(door, Some(Door::Commit(Some(_)) | Door::Content)) {
        state.archive.remarks = known;
        state.archive.turn_out_damaged([]);
    }
    found_before(state, door.as_ref());
    remark(state);
    // What tells of jobs and keys holds in any archive.
    state.dialogs.retain(Dialog::stays_aside);
    state.input.checking = None;
    // Numbers mean other entries now, until one comes back; with a password they mean the same. A job that goes on has taken its marks.
    let is_same = door == Some(Door::Content);
    let taken = state.passwords.tasks.iter().any(|(_, _, marks)| !marks.is_empty());
    let marks = if is_same && !taken { Arc::clone(state.marks.ranges()) } else { Arc::default() };
    let marked = if is_same || matches!(door, Some(Door::Inside(_))) { 0 } else { state.marks.count() };
    state.unmark();
    // What is planned for another commit was dropped with a question.
    let stays = matches!(door, Some(Door::Commit(None) | Door::Content));
    state.changes.pending = if stays { state.changes.pending.by_name() } else { Staged::default() };
    if let Some(written) = state.changes.writing.take().filter(|writing| writing.done && door == Some(Door::Commit(None))) {
        state.follow(&Renames::of(written.plans.list()));
    }
    state.preview = state.preview.renewed();
    state.places.results = Trail::default();
    let marks = back.as_ref().map_or(marks, |spot| Arc::clone(&spot.marks));
    if !marks.is_empty() {
        marks::set(state, marks.to_vec(), Change::Add, effects);
    }
    if let Some(spot) = back {
        state.places.cursors.clear();
        state.changes.pending = spot.staged;
        browse::go(state, spot.directory, spot.at, effects);
    } else if same {
        let at = state.listing.entry().map(|entry| entry.path.clone());
        browse::go(state, state.listing.scope.directory.clone(), at, effects);
    } else {
        // Nothing of the other archive is here; `go` keeps nothing of it.
        state.listing = Listing::default();
        state.places.cursors.clear();
        state.places.bookmarks.clear();
        recall::begin(state, effects);
    }
    if same {
        sealed::resume(state, effects);
    } else {
        state.passwords.forget();
        state.passwords.declined = false;
    }
    if let Some(number) = commit.filter(|_| state.status.message.is_none()) {
        state.say(Tone::Calm, format!("commit {number}"));
    }
    if marked > 0 {
        state.say_more(
            Tone::Warning,
            &format!("{} gone: they were of what was shown", nra_text::counted(marked, "mark is", "marks are")),
        );
    }
}
