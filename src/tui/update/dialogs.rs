//! Keys, actions and clicks while a dialog is open.

use crossterm::event::KeyCode;
use ratatui::layout::Position;

use crate::effect::{Check, Effect, MarksRequest, Request, RequestKind};
use crate::event::Checked;
use crate::frames;
use crate::glyphs;
use crate::key::Key;
use crate::keymap::Action;
use crate::open_target::{OpenTarget, Password};
use crate::preview::Scrolled;
use crate::preview::seek::Needle;
use crate::preview::walk::RowPart;
use crate::state::dialog;
use crate::state::task::{POLICIES, SAFE};
use crate::state::{Choice, Dialog, PendingCheck, Prompt, PromptKind, State, Tone, Typed};
use crate::update::{
    actions, arrange, bookmarks, browse, changes, compact, find, input, jobs, jump, passwords, preview, revert, salvage,
};

/// Handles a key that a dialog defines itself. Returns whether it did.
pub fn press(state: &mut State, key: Key, effects: &mut Vec<Effect>) -> bool {
    match state.dialogs.last_mut() {
        Some(Dialog::Prompt(_)) => press_prompt(state, key, effects),
        Some(Dialog::Finder(_)) => press_finder(state, key, effects),
        Some(Dialog::Jump(_)) => {
            jump::press(state, key, effects);
            true
        }
        Some(Dialog::Bookmark(path)) => {
            let path = path.clone();
            state.dialogs.pop();
            bookmarks::name(state, path, key);
            true
        }
        Some(Dialog::Commits { list, cursor }) if key.code == KeyCode::Enter => {
            let number = list.get(*cursor).map(|commit| commit.number);
            state.dialogs.pop();
            if number.is_some() && number == state.archive.info.commit {
                state.notify(Tone::Info, "This commit is already shown");
            } else if let Some(number) = number {
                changes::open(state, OpenTarget::Commit(Some(number)), effects);
            }
            true
        }
        Some(Dialog::PendingChanges { cursor }) => {
            match key.code {
                KeyCode::Char('u' | 'x' | 'd') | KeyCode::Delete if key.modifiers.is_empty() => {
                    let cursor = *cursor;
                    changes::undo_change(state, cursor, effects);
                }
                KeyCode::Char('W') => {
                    state.dialogs.pop();
                    actions::run(state, Action::Write, effects);
                }
                _ => return false,
            }
            true
        }
        // `/` searches commands by name.
        Some(Dialog::Help { .. }) if key.typed() == Some('/') => {
            state.dialogs.pop();
            find::commands(state);
            true
        }
        Some(Dialog::Menu(menu)) => {
            let chosen = match (key.code, key.typed()) {
                (KeyCode::Enter, _) => menu.items.get(menu.cursor),
                (_, Some(c)) => menu.items.iter().find(|(item, ..)| *item == c),
                _ => None,
            };
            let Some((.., choice)) = chosen.cloned() else { return false };
            state.dialogs.pop();
            choose(state, choice, effects);
            true
        }
        _ => false,
    }
}

/// Returns whether the dialog on top waits for its rows.
pub fn awaits_rows(state: &State) -> bool {
    match state.dialogs.last() {
        Some(Dialog::Commits { list, .. }) => list.is_empty(),
        Some(Dialog::Details { details, .. }) => details.lines.is_empty(),
        Some(Dialog::Finder(finder)) => !finder.answered,
        _ => false,
    }
}

/// Returns whether a key depends on rows of the dialog on top that have not been loaded.
pub fn is_early(state: &State, key: Key) -> bool {
    let is_about_them = match state.dialogs.last() {
        // The results are for an earlier text.
        Some(Dialog::Finder(_)) => key.code == KeyCode::Enter || find::step(key).is_some(),
        // It can be closed before its rows are loaded.
        _ => state.settings.keymap.action(state.place(), key).is_none_or(input::needs_rows),
    };
    is_about_them && awaits_rows(state)
}

/// Closes a dialog that has no rows, and drops the keys typed for it.
pub fn close_empty(state: &mut State, is: impl Fn(&Dialog) -> bool) {
    if state.dialogs.iter().any(&is) {
        state.input.queue.clear();
    }
    state.dialogs.retain(|dialog| !is(dialog));
}

fn press_prompt(state: &mut State, key: Key, effects: &mut Vec<Effect>) -> bool {
    let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() else { return false };
    match key.code {
        KeyCode::Esc => close(state, effects),
        KeyCode::Char('c') if key.typed().is_none() => close(state, effects),
        KeyCode::Enter => accept(state, effects),
        KeyCode::Tab if prompt.purpose.is_path() => {
            prompt.fresh = false;
            let request = Request::Completions(prompt.input.value().to_owned(), prompt.purpose.is_directory());
            effects.push(state.request(request));
        }
        KeyCode::Down | KeyCode::Up => {
            let step = if key.code == KeyCode::Down { 1 } else { POLICIES.len() - 1 };
            prompt.policy = prompt.policy.map(|policy| (policy + step) % POLICIES.len());
        }
        _ => {
            if prompt.edit(key) {
                prompt.error = None;
                prompt.choices.clear();
                typed(state, effects);
            }
        }
    }
    true
}

/// Completes a typed path as far as all completions agree, and shows them.
pub fn complete(state: &mut State, paths: &[String], effects: &mut Vec<Effect>) {
    let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() else { return };
    // The error was about the previous text.
    (prompt.error, prompt.choices) = (None, String::new());
    let Some((first, others)) = paths.split_first() else {
        prompt.error = Some("no such path on disk".to_owned());
        return;
    };
    let same = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let agreed = others.iter().map(|other| same(first, other)).min().unwrap_or(first.len());
    if !others.is_empty() {
        let base = prompt.input.value().rfind('/').map_or(0, |slash| slash + 1);
        let name = |path: &String| glyphs::printable(&path.as_bytes()[base..]);
        prompt.choices = paths.iter().take(50).map(name).collect::<Vec<_>>().join("  ");
    }
    prompt.input = first[..agreed].into();
    if prompt.purpose.is_directory() {
        let request = Request::FreeSpace(prompt.input.value().to_owned());
        effects.push(state.request(request));
    }
}

/// Processes the check of a typed line: runs it, or shows the error in the prompt.
pub fn checked(state: &mut State, result: Result<Checked, String>, effects: &mut Vec<Effect>) {
    // It was cancelled.
    let Some(checking) = state.input.checking.take() else { return };
    let PendingCheck::Typed(purpose, text) = checking else { return changes::checked(state, &checking, result) };
    let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() else { return };
    match result {
        Err(error) => prompt.error = Some(error),
        Ok(found) => {
            state.dialogs.pop();
            match (found, purpose) {
                (Checked::Change(change), _) => changes::stage(state, change),
                (Checked::Remaining(rest), PromptKind::Rename(path)) => {
                    changes::keep(state, rest, &format!("{} keeps its name", changes::place(&path)))
                }
                (Checked::Remaining(_), _) => {}
                (Checked::Possible, PromptKind::Salvage) => salvage::start(state, &text, effects),
                (Checked::Possible, _) => jobs::convert(state, &text, effects),
            }
        }
    }
}

/// Closes the dialog on top. Quits if no archive is open.
fn close(state: &mut State, effects: &mut Vec<Effect>) {
    // A check in progress and the keys after it are dropped.
    state.input.checking = None;
    state.input.queue.clear();
    if let Some(Dialog::Prompt(prompt)) = state.dialogs.pop() {
        match prompt.purpose {
            PromptKind::Password(target) => passwords::decline(state, &target),
            PromptKind::Filter(before) => arrange::filter(state, before, effects),
            _ => {}
        }
    }
    if state.opening.no_archive && state.dialogs.is_empty() {
        effects.push(Effect::Quit);
    }
}

/// Updates the filter, or the free space, while it is typed.
fn typed(state: &mut State, effects: &mut Vec<Effect>) {
    // Responses for the previous text are outdated.
    state.requests.cancel(RequestKind::FreeSpace);
    state.requests.cancel(RequestKind::Completions);
    if let Some(Dialog::Prompt(prompt)) = state.dialogs.last()
        && prompt.purpose.is_directory()
    {
        let request = Request::FreeSpace(prompt.input.value().to_owned());
        effects.push(state.request(request));
    }
    if let Some(Dialog::Prompt(prompt)) = state.dialogs.last()
        && matches!(prompt.purpose, PromptKind::Filter(_))
    {
        let filter = prompt.input.value().to_owned();
        arrange::filter(state, filter, effects);
    }
}

fn accept(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() else { return };
    let purpose = prompt.purpose.clone();
    // Names and search texts may start and end with spaces.
    let is_exact = matches!(purpose, PromptKind::Rename(_) | PromptKind::MakeDirectory(_) | PromptKind::Seek);
    let text = if is_exact { prompt.input.value() } else { prompt.input.value().trim() }.to_owned();
    let policy = prompt.policy.unwrap_or(SAFE);
    if text.is_empty() && !matches!(purpose, PromptKind::Filter(_) | PromptKind::Query | PromptKind::Message(_)) {
        prompt.error = Some("type something first".to_owned());
        return;
    }
    let checked = match &purpose {
        PromptKind::Rename(path) => changes::rename(state, path, &text),
        PromptKind::MakeDirectory(directory) => changes::make_directory(state, directory.as_ref(), &text).map(Some),
        PromptKind::Add(directory) => {
            let (directory, file) = (directory.clone(), state.archive.file.clone().unwrap_or_default());
            let pending = state.changes.pending.clone();
            Ok(Some(Check::Add { path: text.clone().into(), directory, file, pending }))
        }
        PromptKind::Query => arrange::find_by(state, &text, effects).map(|()| None),
        PromptKind::Convert => jobs::check_output(&text).map(Some),
        PromptKind::Salvage => salvage::check_output(&text).map(Some),
        PromptKind::Goto => preview::jump(state, &text, effects).map(|()| None),
        _ => Ok(None),
    };
    match checked {
        Ok(None) => {}
        // The prompt stays open until the check is done.
        Ok(Some(check)) => {
            state.input.checking = Some(PendingCheck::Typed(purpose, text));
            return effects.push(state.request(Request::Check(check)));
        }
        Err(error) => {
            if let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() {
                prompt.error = Some(error);
            }
            return;
        }
    }
    let typed = state.dialogs.pop();
    match purpose {
        PromptKind::Message(leaving) => changes::write(state, text, leaving, effects),
        PromptKind::Password(target) => {
            // Not trimmed: a password may start or end with a space.
            if let Some(Dialog::Prompt(Prompt { hidden: Some(hidden), .. })) = typed {
                effects.push(state.request(Request::Open(*target, Some(Password(hidden.into_bytes())))));
            }
        }
        PromptKind::Extract(chosen) => {
            state.jobs.last_target.clone_from(&text);
            jobs::extract(state, chosen, &text, policy, effects);
        }
        PromptKind::Mark(among, change) => {
            effects.push(state.request(Request::Marks(MarksRequest::Glob(among, text, change))));
        }
        PromptKind::Seek => {
            state.preview.needle = Needle::new(text);
            preview::find(state, false, false, effects);
        }
        _ => {}
    }
}

fn press_finder(state: &mut State, key: Key, effects: &mut Vec<Effect>) -> bool {
    let Some(Dialog::Finder(finder)) = state.dialogs.last_mut() else { return false };
    let control = key.typed().is_none();
    match key.code {
        KeyCode::Esc | KeyCode::Char('c') if key.code == KeyCode::Esc || control => {
            close(state, effects);
        }
        KeyCode::Enter => find::accept(state, effects),
        KeyCode::Tab if finder.whole.is_some() => {
            finder.whole = finder.whole.map(|whole| !whole);
            find::typed(state, effects);
        }
        _ => match find::step(key) {
            Some(rows) => finder.step(rows),
            None if dialog::edit(&mut finder.input, key) == Some(true) => find::typed(state, effects),
            None => {}
        },
    }
    true
}

pub fn paste(state: &mut State, text: &str, effects: &mut Vec<Effect>) {
    let whole = match state.dialogs.last_mut() {
        Some(Dialog::Prompt(prompt)) => {
            let whole = prompt.paste(text);
            typed(state, effects);
            whole
        }
        Some(Dialog::Finder(finder)) => {
            let whole = dialog::paste(&mut finder.input, text);
            find::typed(state, effects);
            whole
        }
        Some(Dialog::Jump(_)) => jump::paste(state, text, effects),
        _ => return state.notify(Tone::Warning, "No line to paste into"),
    };
    if !whole {
        state.notify(Tone::Warning, format!("Too long for a line: only the first {} KiB were pasted", dialog::MAX_LINE >> 10));
    }
}

/// Handles a click: on a hint it presses the key, on a row it moves the cursor or accepts the row,
/// outside the dialog it closes it. Returns whether the click is for what is below.
pub fn click(state: &mut State, at: Position, effects: &mut Vec<Effect>) -> bool {
    let Some(dialog) = state.dialogs.last() else { return true };
    let Some(frame) = frames::frame(dialog, state) else {
        state.dialogs.pop();
        return true;
    };
    if !frame.area.contains(at) {
        close(state, effects);
        return false;
    }
    let enter = Key::plain(KeyCode::Enter);
    if let Some(key) = frame.key_at(at) {
        input::handle(state, Typed::Key(key), effects);
        return false;
    }
    let Some(row) = frames::choices(dialog, state, frame.inner()).and_then(|choices| choices.at(at)) else { return false };
    let accepts = match state.dialogs.last_mut() {
        Some(Dialog::Menu(menu)) => {
            menu.cursor = row;
            true
        }
        Some(Dialog::Finder(finder)) => std::mem::replace(&mut finder.cursor, row) == row,
        Some(Dialog::Commits { cursor, .. }) => std::mem::replace(cursor, row) == row,
        Some(Dialog::PendingChanges { cursor }) => {
            *cursor = row;
            false
        }
        Some(Dialog::Jobs { job, .. }) => {
            *job = state.jobs.at(row);
            false
        }
        _ => false,
    };
    if accepts {
        input::handle(state, Typed::Key(enter), effects);
    }
    false
}

fn choose(state: &mut State, choice: Choice, effects: &mut Vec<Effect>) {
    match choice {
        Choice::Do(action) => actions::run(state, action, effects),
        Choice::Column(column) => arrange::toggle_column(state, column),
        Choice::Go(path) => browse::reach(state, path, effects),
        Choice::Open(target) => effects.push(state.request(Request::Open(target, None))),
        Choice::Write(mode) => changes::write_and_leave(state, mode, effects),
        Choice::Leave(mode) => self::jobs::leave_by(state, mode, effects),
        Choice::Drop(mode) => self::jobs::end(state, mode, true, effects),
        Choice::Compact => compact::start(state, effects),
        Choice::Return(commit) => revert::start(state, commit, None, effects),
        Choice::BringBack(commit, chosen) => revert::start(state, commit, Some(chosen.ranges.to_vec()), effects),
        Choice::Nothing => {}
    }
}

/// Handles an action while a dialog is open.
pub fn handle(state: &mut State, action: Action, effects: &mut Vec<Effect>) -> bool {
    let jobs = state.jobs.list.len();
    let frame = state.dialogs.last().and_then(|dialog| frames::frame(dialog, state));
    let inner = frame.as_ref().map_or_else(Default::default, frames::Frame::inner);
    let rows = usize::from(inner.height);
    let log = match (state.dialogs.last(), &frame) {
        (Some(dialog), Some(_)) => frames::log_moved(dialog, state, inner, action.step(rows / 2).unwrap_or(0)),
        _ => RowPart::default(),
    };
    // Moves a cursor or the first line shown.
    let scrolled = |from: usize, last| from.saturating_add_signed(action.step(rows).unwrap_or(0)).min(last);
    match state.dialogs.last_mut() {
        None => return false,
        Some(Dialog::Help { top, place }) => {
            let lines = state.settings.keymap.help(*place, inner.width).len();
            *top = scrolled(*top, lines.saturating_sub(rows));
        }
        Some(Dialog::Details { top, details, .. }) => *top = scrolled(*top, details.rows().saturating_sub(1)),
        Some(Dialog::Menu(menu)) => menu.cursor = scrolled(menu.cursor, menu.items.len().saturating_sub(1)),
        Some(Dialog::Jobs { .. }) if action == Action::Stop => self::jobs::stop(state, effects),
        Some(Dialog::Jobs { .. }) if action == Action::Pause => self::jobs::pause(state, effects),
        Some(Dialog::Commits { list, cursor }) => *cursor = scrolled(*cursor, list.len().saturating_sub(1)),
        Some(Dialog::PendingChanges { cursor }) => {
            *cursor = scrolled(*cursor, state.changes.pending.list().len().saturating_sub(1))
        }
        Some(Dialog::Jobs { job, top }) => {
            let cursor = state.jobs.place(*job);
            let is_page = matches!(action, Action::PageUp | Action::HalfUp | Action::PageDown | Action::HalfDown);
            let to = if is_page { cursor } else { scrolled(cursor, jobs.saturating_sub(1)) };
            // Page keys, and those that move to no other job, scroll the log.
            *top = if to == cursor { log } else { RowPart::default() };
            *job = state.jobs.at(to);
        }
        Some(Dialog::Prompt(_) | Dialog::Finder(_) | Dialog::Jump(_) | Dialog::Bookmark(_)) => {}
    }
    true
}
