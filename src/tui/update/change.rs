//! Changes of the archive: planned, taken back, written as one commit.

use crate::format::path::EntryPath;
use crate::text;
use crate::tui::action::Action;
use crate::tui::effect::{Effect, Task};
use crate::tui::glyphs;
use crate::tui::state::dialog::{Choice, Menu, Prompt, Purpose};
use crate::tui::state::staged::Stage;
use crate::tui::state::{Dialog, State, Tone};
use crate::tui::update::jobs;

/// Does what the user asked for; says whether it was about changes.
pub fn act(state: &mut State, action: Action) -> bool {
    use Action::{Add, MakeDirectory, Remove, Rename, Undo, Write};
    if !matches!(action, Add | MakeDirectory | Remove | Rename | Undo | Write) {
        return false;
    }
    if state.archive.path.is_none() {
        state.say(Tone::Warning, state.archive.fixed);
        return true;
    }
    match action {
        Remove => remove(state),
        Rename => ask_name(state),
        Add => ask(state, Purpose::Add, "Add to", "a file, or a directory with all that is in it"),
        MakeDirectory => ask(state, Purpose::MakeDirectory, "Make a directory in", "its name, or a path with several"),
        Undo => {
            let undone = state.staged.undo();
            state.say(Tone::Calm, if undone { "taken back" } else { "nothing is planned" });
        }
        _ if state.staged.is_empty() => state.say(Tone::Warning, "nothing is planned: a adds, d removes, r renames"),
        _ => ask_message(state),
    }
    true
}

fn remove(state: &mut State) {
    let Some(ranges) = jobs::chosen(state) else {
        state.say(Tone::Warning, "still reading the directory; try again");
        return;
    };
    let count: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    if count == 0 {
        return;
    }
    state.staged.push(Stage::Remove(ranges));
    state.marks.clear();
    state.say(Tone::Calm, format!("{} will be removed: W writes it, u takes it back", text::counted(count, "entry", "entries")));
}

fn ask_name(state: &mut State) {
    let Some(entry) = state.listing.entry() else { return };
    let name = String::from_utf8_lossy(entry.path.name()).into_owned();
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

/// Plans to add what was found.
pub fn add(state: &mut State, stage: Result<Stage, String>) {
    match stage {
        Ok(stage) => {
            state.staged.push(stage);
            state.say(Tone::Calm, "will be added: W writes it, u takes it back");
        }
        Err(error) => state.say(Tone::Error, error),
    }
}

/// Plans to make a directory; says what is wrong with its name.
pub fn make_directory(state: &mut State, text: &str) -> Result<(), String> {
    let path = match (text.strip_prefix('/'), &state.listing.scope.directory) {
        (Some(path), _) => EntryPath::try_from(path),
        (None, Some(parent)) => parent.join(text.as_bytes()),
        (None, None) => EntryPath::try_from(text),
    };
    state.staged.push(Stage::MakeDirectory(path.map_err(|error| error.to_string())?));
    state.say(Tone::Calm, "will be made: W writes it, u takes it back");
    Ok(())
}

/// Takes the new name of the entry under the cursor; says what is wrong with it.
pub fn rename(state: &mut State, text: &str) -> Result<(), String> {
    let Some(entry) = state.listing.entry() else { return Ok(()) };
    let path = match (text.strip_prefix('/'), entry.path.parent()) {
        (Some(path), _) => EntryPath::try_from(path),
        (None, Some(parent)) => parent.join(text.as_bytes()),
        (None, None) => EntryPath::try_from(text),
    };
    let path = path.map_err(|error| error.to_string())?;
    if path.is_below(&entry.path) {
        return Err("an entry can't go below itself".to_owned());
    }
    if path != entry.path {
        state.staged.push(Stage::Rename(entry.path.clone(), path));
        state.say(Tone::Calm, "will be renamed: W writes it, u takes it back");
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
    let (Some(file), Some(commit)) = (state.archive.path.clone(), state.archive.info.commit) else { return };
    let id = state.jobs.add(format!("write {}: {}", state.archive.name, state.staged.told()), state.now);
    state.writing = Some(id);
    effects.push(Effect::Start(id, Task::Change { file, commit, message, changes: state.staged.list().to_vec() }));
}

/// Title of the question on leaving.
const LEAVING: &str = "Changes are not written";

/// Asks what becomes of planned changes; says whether there are any.
pub fn ask_on_leaving(state: &mut State) -> bool {
    if state.staged.is_empty() || matches!(state.dialogs.last(), Some(Dialog::Menu(menu)) if menu.title == LEAVING) {
        return false;
    }
    state.dialogs.push(Dialog::Menu(Menu {
        title: LEAVING.to_owned(),
        lines: vec![state.staged.told()],
        items: vec![
            ('b', "back".to_owned(), Choice::Nothing),
            ('w', "write them".to_owned(), Choice::Do(Action::Write)),
            ('d', "drop them and quit".to_owned(), Choice::StopAndQuit),
        ],
        cursor: 0,
    }));
    true
}
