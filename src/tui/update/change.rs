//! Changes of the archive: planned, taken back, written as one commit.

use std::os::unix::ffi::OsStrExt;

use crate::format::path::EntryPath;
use crate::text;
use crate::tui::action::Action;
use crate::tui::effect::{Check, Door, Effect, Task};
use crate::tui::glyphs;
use crate::tui::state::dialog::{Choice, Menu, Prompt, Purpose, Way};
use crate::tui::state::jobs::JobId;
use crate::tui::state::staged::Stage;
use crate::tui::state::{Dialog, Staged, State, Tone, Writing};
use crate::tui::update::jobs;

/// Does what the user asked for; says whether it was about changes.
pub fn act(state: &mut State, action: Action) -> bool {
    use Action::{Add, MakeDirectory, Plans, Remove, Rename, Undo, Write};
    if !matches!(action, Add | MakeDirectory | Plans | Remove | Rename | Undo | Write) {
        return false;
    }
    // What was planned before damage came to light can be looked at and taken back.
    let is_about_plans = matches!(action, Plans | Undo) && !state.staged.is_empty();
    if let Err(why) = state.archive.plannable()
        && !is_about_plans
    {
        state.say(Tone::Warning, why);
        return true;
    }
    if state.writing.is_some() && action != Plans {
        state.say(Tone::Warning, WRITING);
        return true;
    }
    match action {
        Remove => remove(state),
        Rename => ask_name(state),
        Add => ask(state, Purpose::Add, "Add to", "a file, or a directory with all that is in it"),
        MakeDirectory => ask(state, Purpose::MakeDirectory, "Make a directory in", "its name, or a path with several"),
        Undo if !state.staged.is_empty() => take_back(state, state.staged.list().len() - 1),
        Plans if !state.staged.is_empty() => state.dialogs.push(Dialog::Plans { cursor: state.staged.list().len() - 1 }),
        _ if state.staged.is_empty() => state.say(Tone::Warning, "nothing is planned: a adds, d removes, r renames"),
        _ => ask_message(state),
    }
    true
}

/// Why nothing is planned for a while.
const WRITING: &str = "what was planned is being written: more can be planned when it is";

fn remove(state: &mut State) {
    let Some(ranges) = jobs::chosen(state) else {
        state.say(Tone::Warning, "still reading the directory; try again");
        return;
    };
    let count: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    if count == 0 {
        return;
    }
    if state.marks.is_empty() && state.listing.entry().is_some_and(|entry| state.staged.renames_below(&entry.path)) {
        return state.say(Tone::Warning, "it is to be renamed, or something in it: take that back first (P)");
    }
    let subject = jobs::subject(state);
    state.unmark();
    plan(state, Stage::Remove(ranges, subject));
}

/// Takes a plan back and says which.
pub fn take_back(state: &mut State, index: usize) {
    if let Some(stage) = state.staged.take_back(index) {
        state.say(Tone::Calm, format!("taken back: {}", stage.told()));
    }
    let left = state.staged.list().len();
    if let Some(Dialog::Plans { cursor }) = state.dialogs.last_mut() {
        *cursor = (*cursor).min(left.saturating_sub(1));
        if left == 0 {
            state.dialogs.pop();
        }
    }
}

/// Plans a change and says which.
pub fn plan(state: &mut State, stage: Stage) {
    if state.writing.is_some() {
        return state.say(Tone::Warning, WRITING);
    }
    let told = match &stage {
        Stage::Remove(ranges, what) => {
            let count = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
            format!("{what}: {} will be removed", text::counted(count, "entry", "entries"))
        }
        Stage::Rename(from, to) => format!("{} will be renamed to {}", place(from), place(to)),
        Stage::Add(path, _, meets) => {
            let meets = if *meets { ", and replaces what is there" } else { "" };
            format!("{} will be added{meets}", glyphs::shown(path.as_os_str().as_bytes()))
        }
        Stage::MakeDirectory(path) => format!("{} will be made", place(path)),
    };
    state.staged.push(stage);
    state.say(Tone::Calm, format!("{told}: W writes it, u takes it back"));
}

fn ask_name(state: &mut State) {
    let Some(entry) = state.listing.entry() else { return };
    // One that can't be typed is offered as nothing.
    let planned = state.staged.renamed(&entry.path).filter(|to| to.parent() == entry.path.parent());
    let name = std::str::from_utf8(planned.unwrap_or(&entry.path).name()).unwrap_or_default();
    let title = format!("Rename {}", glyphs::shown(entry.path.name()));
    let note = "to a name here, or to a path from the top that begins with /";
    state.dialogs.push(Dialog::Prompt(Prompt::new(Purpose::Rename, title, note, name)));
}

/// Asks for something that goes into the directory shown.
fn ask(state: &mut State, purpose: Purpose, what: &str, note: &str) {
    let place = state.listing.scope.directory.as_ref().map_or_else(|| state.archive.name.clone(), place);
    state.dialogs.push(Dialog::Prompt(Prompt::new(purpose, format!("{what} {place}"), note, "")));
}

fn place(directory: &EntryPath) -> String {
    glyphs::shown(directory.as_bytes())
}

/// Plans to make a directory; says what is wrong with its name.
pub fn make_directory(state: &State, text: &str, effects: &mut Vec<Effect>) -> Result<(), String> {
    let path = match (text.strip_prefix('/'), &state.listing.scope.directory) {
        (Some(path), _) => EntryPath::try_from(path),
        (None, Some(parent)) => parent.join(text.as_bytes()),
        (None, None) => EntryPath::try_from(text),
    };
    let stage = Stage::MakeDirectory(path.map_err(|error| error.to_string())?);
    effects.push(Effect::Check(Check::Plan(stage, state.staged.clone())));
    Ok(())
}

/// Takes the new name of the entry under the cursor; says what is wrong with it.
pub fn rename(state: &mut State, text: &str, effects: &mut Vec<Effect>) -> Result<(), String> {
    let Some(entry) = state.listing.entry().cloned() else { return Ok(()) };
    let path = match (text.strip_prefix('/'), entry.path.parent()) {
        (Some(path), _) => EntryPath::try_from(path),
        (None, Some(parent)) => parent.join(text.as_bytes()),
        (None, None) => EntryPath::try_from(text),
    };
    let path = path.map_err(|error| error.to_string())?;
    if path.is_below(&entry.path) {
        return Err("an entry can't go below itself".to_owned());
    }
    // What was planned for it before is not in the way.
    let mut staged = state.staged.clone();
    staged.keep_path(&entry.path);
    if path != entry.path {
        effects.push(Effect::Check(Check::Plan(Stage::Rename(entry.path, path), staged)));
    } else if staged != state.staged {
        state.staged = staged;
        state.say(Tone::Calm, format!("{} keeps its name", place(&entry.path)));
    }
    Ok(())
}

fn ask_message(state: &mut State) {
    let title = format!("Write to {}: {}", state.archive.name, state.staged.told());
    let note = match state.archive.info.recovery {
        Some(_) => "as one commit; earlier commits stay (H), recovery data goes. Message:",
        None => "as one commit; earlier commits stay (H). Message:",
    };
    state.dialogs.push(Dialog::Prompt(Prompt::new(Purpose::Message, title, note, state.staged.told())));
}

/// Starts writing what is planned.
pub fn write(state: &mut State, message: String, effects: &mut Vec<Effect>) {
    let (Ok(file), Some(commit)) = (state.archive.plannable().cloned(), state.archive.info.commit) else { return };
    let job = state.jobs.add(format!("write {}: {}", state.archive.name, state.staged.told()), state.now);
    let plans = std::mem::take(&mut state.staged);
    effects.push(Effect::Start(job, Task::Change { file, commit, message, changes: plans.list().to_vec() }));
    state.writing = Some(Writing { job, plans, done: false });
}

/// Takes that a job has written what it was given.
pub fn written(state: &mut State, job: JobId) {
    if let Some(writing) = state.writing.as_mut().filter(|writing| writing.job == job) {
        writing.plans = Staged::default();
        writing.done = true;
    }
}

/// Takes the end of a job: what it has not written is planned again.
pub fn ended(state: &mut State, job: JobId) {
    if let Some(writing) = state.writing.take_if(|writing| writing.job == job && !writing.done) {
        state.staged = writing.plans;
    }
}

/// Shows the commit that has been written, as soon as nothing is being typed or chosen over the one before.
pub fn show_written(state: &mut State, effects: &mut Vec<Effect>) {
    let over = |dialog: &Dialog| !matches!(dialog, Dialog::Jobs { .. } | Dialog::Help { .. });
    let Some(writing) = state.writing.as_ref().filter(|writing| writing.done) else { return };
    let ended = state.jobs.list.iter().all(|job| job.id != writing.job || job.ending.is_some());
    if ended && !state.opening && !state.dialogs.iter().any(over) {
        effects.push(Effect::Open(Door::Commit(None)));
    }
}

/// Plans that are named one by one where there is a question about them.
const TOLD: usize = 5;
/// Title of the question on leaving.
const LEAVING: &str = "Changes are not written";

/// Asks what becomes of planned changes when the program ends; says whether there are any.
pub fn ask_on_leaving(state: &mut State, way: Way) -> bool {
    let asked = matches!(state.dialogs.last(), Some(Dialog::Menu(menu)) if menu.title == LEAVING);
    !asked && ask_before(state, "drop them and quit", Choice::Drop(way))
}

/// Opens something else, or asks what becomes of planned changes first: numbers would mean other entries there.
pub fn open(state: &mut State, door: Door, effects: &mut Vec<Effect>) {
    if state.writing.is_some() {
        return state.say(Tone::Warning, "changes of this archive are being written: x stops that");
    }
    // What goes by name is still planned when the archive is read anew.
    let stays = door == Door::Commit(None) && state.staged == state.staged.by_name();
    let words = if door == Door::Commit(None) { "go on, and remove nothing" } else { "drop them and go on" };
    if stays || !ask_before(state, words, Choice::Open(door.clone())) {
        effects.push(Effect::Open(door));
    }
}

fn ask_before(state: &mut State, words: &str, choice: Choice) -> bool {
    let plans = state.staged.list();
    if plans.is_empty() {
        return false;
    }
    let mut lines: Vec<String> = plans.iter().take(TOLD).map(Stage::told).collect();
    if plans.len() > TOLD {
        lines.push(format!("… in all: {}", state.staged.told()));
    }
    state.dialogs.push(Dialog::Menu(Menu {
        title: LEAVING.to_owned(),
        lines,
        items: vec![
            ('b', "back".to_owned(), Choice::Nothing),
            ('w', "write them".to_owned(), Choice::Do(Action::Write)),
            ('d', words.to_owned(), choice),
        ],
        cursor: 0,
        waits: false,
    }));
    true
}
