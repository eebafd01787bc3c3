//! Changes the state when something happens. No input or output, no clock: time comes with the event.

mod arrange;
mod browse;
mod change;
mod compact;
mod dialogs;
mod find;
mod history;
mod jobs;
mod jump;
mod marks;
mod mouse;
mod nested;
mod places;
mod preview;
mod recall;
mod revert;
mod salvage;
mod sealed;
mod sizes;

use std::time::Duration;

use crossterm::event::KeyCode;
use ratatui::layout::Rect;
use zeroize::Zeroizing;

use crate::action::Action;
use crate::effect::{Effect, Request};
use crate::event::Event;
use crate::glyphs;
use crate::key::Key;
use crate::keymap::Place;
use crate::preview::sheet::Sheet;
use crate::requests::{RequestId, RequestKind};
use crate::state::dialog::{About, Menu};
use crate::state::finder::{Finder, Over};
use crate::state::{Dialog, JobId, Sizes, State, Tone, Typed};
use crate::task::Task;
use nra_format::entry::{Entry, Kind};
use nra_text::SizeStyle;

pub use jobs::POLICIES;
pub use recall::keep;

/// Keys that wait for rows; more than anybody types meanwhile.
const MAX_HELD: usize = 4_096;

impl State {
    /// Makes a request.
    fn request(&mut self, request: Request) -> Effect {
        match &request {
            Request::Open(door, password) => {
                if password.is_none() {
                    self.passwords.forget();
                }
                self.opening.door = Some(door.clone());
            }
            Request::Copy(_) => self.input.copying = true,
            _ => {}
        }
        Effect::Request(self.requests.make(request.kind()), request)
    }

    /// Starts a job on the archive shown and returns its number.
    fn begin(&mut self, title: String, task: Task, effects: &mut Vec<Effect>) -> JobId {
        let id = self.jobs.add(title, self.now);
        self.jobs.belongs(id, self.requests.epoch, self.archive.info.archive_id);
        effects.push(Effect::Start(id, task));
        id
    }
}

/// Returns what has to be done before the first event.
pub fn start(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    history::remark(state);
    if state.opening.no_archive {
        find::archives(state);
    } else {
        recall::begin(state, &mut effects);
    }
    settle(state);
    effects
}

/// Cancels the requests for what is no longer on the screen.
fn settle(state: &mut State) {
    preview::settle(state);
    let any = |is: fn(&Dialog) -> bool| state.dialogs.iter().any(is);
    let chooses = any(|dialog| matches!(dialog, Dialog::Finder(Finder { over: Over::Archives, .. })));
    let finds = matches!(state.dialogs.last(), Some(Dialog::Finder(Finder { over: Over::Paths, .. })));
    let needed = [
        (RequestKind::Inspect, any(|dialog| matches!(dialog, Dialog::Sheet { .. }))),
        (RequestKind::CompactEstimate, any(|dialog| matches!(dialog, Dialog::Menu(Menu { about: About::Weighing, .. })))),
        (RequestKind::Commits, any(|dialog| matches!(dialog, Dialog::Commits { .. }))),
        (RequestKind::FreeSpace, any(|dialog| matches!(dialog, Dialog::Prompt(_)))),
        (RequestKind::Completions, any(|dialog| matches!(dialog, Dialog::Prompt(_)))),
        (RequestKind::Check, state.input.checking.is_some()),
        (RequestKind::Archives, state.opening.listing && chooses),
        (RequestKind::Jump, any(|dialog| matches!(dialog, Dialog::Jump(_)))),
        (RequestKind::Find, finds),
        (RequestKind::Arrange, state.arrangement.loading),
        (RequestKind::Map, matches!(&state.layout.sizes, Sizes::Map(map) if !map.loaded)),
        (RequestKind::Totals, !state.marks.is_empty()),
        (RequestKind::Preview, state.preview.is_loading()),
        (RequestKind::Occurrences, state.preview.is_counting()),
    ];
    state.opening.listing &= chooses;
    for (kind, _) in needed.into_iter().filter(|(_, is_needed)| !is_needed) {
        state.requests.cancel(kind);
    }
}

/// Takes an event at a time and returns what has to be done outside.
pub fn update(state: &mut State, event: Event, now: Duration) -> Vec<Effect> {
    state.now = now;
    if state.status.message.as_ref().is_some_and(|message| message.until <= now) {
        state.status.message = None;
    }
    let mut effects = Vec::new();
    take(state, event, &mut effects);
    go_on(state, &mut effects);
    jobs::leave_at_last(state, &mut effects);
    change::show_written(state, &mut effects);
    sealed::ask_in_turn(state);
    browse::make_room(state, &mut effects);
    let preview = state.preview.wake(now);
    effects.extend(preview.map(|preview| state.request(Request::Preview(preview))));
    settle(state);
    effects
}

fn take(state: &mut State, event: Event, effects: &mut Vec<Effect>) {
    match event {
        Event::Response(id, _) if !state.requests.awaits(id) => {}
        Event::Response(id, answer) => answered(state, id, *answer, effects),
        Event::Key(_) | Event::Paste(_) | Event::Mouse(_) if state.is_unseen() => unseen(state, &event, effects),
        // What is shown, or typed, is looked at, and stays as it is.
        Event::Mouse(_) if awaits(state) => {}
        Event::Key(key) => take_typed(state, Typed::Key(key), effects),
        Event::Paste(text) => take_typed(state, Typed::Text(Zeroizing::new(text)), effects),
        Event::Mouse(event) => mouse::take(state, event, effects),
        Event::Tick => {}
        Event::Resize(width, height) => {
            state.screen = Rect::new(0, 0, width, height);
            browse::fit(state, effects);
        }
        Event::Font(width, height) => {
            let preview = state.preview.set_font((width, height));
            preview::load(state, preview, effects);
        }
        Event::Rows(answer) => browse::rows(state, answer, effects),
        Event::Details(facts) => state.listing.learn(&facts),
        Event::Preview(answer) => preview::take(state, answer, effects),
        Event::Stops(answer) => state.preview.counted(answer),
        Event::Room(free) => jobs::room(state, free),
        Event::Mapped(answer) => sizes::take(state, answer),
        Event::Arranging(share) => state.arrangement.progress = share,
        Event::Arranged(answer) => arrange::take(state, answer, effects),
        Event::Jumped(place) => jump::take(state, place, effects),
        Event::Found(answer) => find::take(state, answer),
        Event::Marked(ranges, change) => marks::take(state, ranges, change, effects),
        Event::Completions(paths) => dialogs::complete(state, &paths, effects),
        Event::Checked(answer) => dialogs::checked(state, answer, effects),
        Event::MarkTotals(bytes) => state.marks.content_bytes = bytes,
        Event::Inspected(Ok(more)) => {
            let is_sheet = |dialog: &&mut Dialog| matches!(dialog, Dialog::Sheet { .. });
            if let Some(Dialog::Sheet { sheet, .. }) = state.dialogs.iter_mut().rev().find(is_sheet) {
                *sheet = more;
            }
        }
        Event::Inspected(Err(error)) => {
            dialogs::without_rows(state, |dialog| matches!(dialog, Dialog::Sheet { .. }));
            state.say(Tone::Error, error);
        }
        Event::Trouble(error) => {
            // Without an archive there is another one to choose.
            if state.opening.no_archive && state.dialogs.is_empty() {
                find::archives(state);
            }
            if let Some(Dialog::Finder(finder)) = state.dialogs.last_mut().filter(|_| state.opening.no_archive) {
                finder.error = Some(error.clone());
            }
            state.say(Tone::Error, error);
        }
        Event::Content(Ok(content)) => {
            state.say(Tone::Calm, format!("copied the content, {}", SizeStyle::Binary.show(content.len() as u64)));
            effects.push(Effect::Copy(content));
        }
        Event::Content(Err(error)) => state.say(Tone::Warning, error),
        Event::Copied(copy) => {
            state.status.message = None;
            effects.push(Effect::Edit(copy));
        }
        Event::Weighed(saved) => compact::weighed(state, saved),
        Event::Commits(commits) => history::take(state, commits),
        Event::Archives(list) => find::renew(state, list, effects),
        Event::Locked(door, wrong) => history::locked(state, door, wrong),
        Event::Opened(facts) => history::opened(state, None, *facts, effects),
        Event::Job(id, news) => jobs::take(state, id, news, effects),
        Event::Suspended => effects.push(Effect::Suspend),
        Event::Continued => effects.push(Effect::Retake),
        Event::Terminate(_) => effects.push(Effect::Quit),
    }
}

/// Takes the answer to a request.
fn answered(state: &mut State, id: RequestId, answer: Event, effects: &mut Vec<Effect>) {
    state.requests.answer(id);
    state.input.copying &= id.kind != RequestKind::Copy;
    if id.kind != RequestKind::Open {
        return take(state, answer, effects);
    }
    let door = state.opening.door.take();
    match answer {
        Event::Opened(facts) => return history::opened(state, door, *facts, effects),
        Event::Locked(..) => {}
        _ => state.passwords.forget(),
    }
    // The commit that was written does not open.
    state.changes.writing.take_if(|writing| writing.done);
    take(state, answer, effects);
}

/// Goes on with what was typed, as far as what it is about has come by now.
fn go_on(state: &mut State, effects: &mut Vec<Effect>) {
    jump::ask_again(state, effects);
    // It may lead to another list, whose rows are still to come.
    while !is_busy(state)
        && let Some(typed) = state.input.queue.pop_front()
    {
        // What was typed behind what hands over was not meant for nra.
        if effects.iter().any(Effect::hands_over) {
            state.input.queue.clear();
            break;
        }
        press(state, typed, effects);
    }
}

/// Takes what is typed where nothing can be shown: one can leave, and nothing else is done that nobody sees.
fn unseen(state: &mut State, event: &Event, effects: &mut Vec<Effect>) {
    let Event::Key(key) = event else { return };
    match state.settings.keymap.action(Place::List, *key) {
        // A question that comes before it is answered by doing it again.
        Some(Action::QuitNow) => jobs::leave(state, effects),
        Some(Action::Suspend) => effects.push(Effect::Suspend),
        Some(Action::Redraw) => effects.push(Effect::Redraw),
        _ => {}
    }
}

/// Gives up what is awaited; says whether that was something to be told of.
fn give_up(state: &mut State) -> bool {
    state.input.queue.clear();
    state.input.checking = None;
    if state.input.after_marks.take().is_some() {
        state.requests.cancel(RequestKind::Marks);
    }
    if std::mem::take(&mut state.input.copying) {
        state.requests.cancel(RequestKind::Copy);
        state.say(Tone::Calm, "no copy is made");
        return true;
    }
    if state.opening.door.take().is_none() {
        return false;
    }
    state.requests.cancel(RequestKind::Open);
    state.changes.writing.take_if(|writing| writing.done);
    state.passwords.forget();
    if state.opening.no_archive && state.dialogs.is_empty() {
        find::archives(state);
    }
    state.say(Tone::Calm, "not opened");
    true
}

/// Takes what is typed, now or when what it is about has come.
fn take_typed(state: &mut State, typed: Typed, effects: &mut Vec<Effect>) {
    let held = match &typed {
        Typed::Key(key) if key.code == KeyCode::Esc && is_busy(state) => {
            if give_up(state) {
                return;
            }
            false
        }
        Typed::Key(key) => hold(state, *key),
        Typed::Text(_) => awaits(state) || !state.input.queue.is_empty(),
    };
    if !held {
        press(state, typed, effects);
    } else if state.input.queue.len() < MAX_HELD {
        state.input.queue.push_back(typed);
    }
}

/// Says whether a key has to wait until the rows that it is about have come, and those before it are done.
fn hold(state: &State, key: Key) -> bool {
    if !is_busy(state) {
        return false;
    }
    let action = state.settings.keymap.action(state.place(), key);
    match action {
        // Whoever waits in vain can leave. A letter is for the line that is typed.
        Some(Action::QuitNow | Action::Suspend | Action::Redraw) if !state.is_typing() || key.typed().is_none() => false,
        _ if !state.input.queue.is_empty() || awaits(state) || dialogs::is_early(state, key) || state.listing.is_leaping() => {
            true
        }
        // Steps add up.
        Some(Action::Down | Action::Up | Action::HalfDown | Action::HalfUp | Action::PageDown | Action::PageUp)
            if state.listing.loaded =>
        {
            false
        }
        _ => state.dialogs.is_empty() && action.is_some_and(is_about_rows),
    }
}

/// Says whether something is awaited that what is typed may be about, whatever it is.
fn awaits(state: &State) -> bool {
    let asked = state.opening.door.is_some()
        || state.input.copying
        || state.input.checking.is_some()
        || state.input.after_marks.is_some();
    asked || jump::is_awaited(state)
}

/// Says whether an answer is awaited without which keys make no sense.
fn is_busy(state: &State) -> bool {
    let rows = state.listing.is_behind() || state.listing.is_leaping() || !state.listing.loaded && !state.opening.no_archive;
    awaits(state) || dialogs::lacks_rows(state) || rows
}

/// Says whether an action needs rows.
fn is_about_rows(action: Action) -> bool {
    use Action::{Archives, Back, Find, Help, History, Jobs, Palette, Preview, Query, Quit};
    !matches!(action, Archives | Back | Find | Help | History | Jobs | Palette | Preview | Query | Quit)
}

fn press(state: &mut State, typed: Typed, effects: &mut Vec<Effect>) {
    let key = match typed {
        Typed::Key(key) => key,
        Typed::Text(text) => return dialogs::paste(state, &text, effects),
    };
    // What was said has been read by now.
    state.status.message = None;
    let action = state.settings.keymap.action(state.place(), key);
    // Whatever is being typed: the shell is there.
    if action == Some(Action::Suspend) && key.typed().is_none() {
        return effects.push(Effect::Suspend);
    }
    if dialogs::press(state, key, effects) {
        return;
    }
    match action {
        Some(action) => act(state, action, effects),
        None if state.dialogs.is_empty() => {
            let help = state.settings.keymap.commands().find(|(command, _)| command.action == Action::Help);
            let help =
                help.and_then(|(_, keys)| keys.first()).map_or_else(String::new, |help| format!(": {help} shows the keys"));
            state.say(Tone::Warning, format!("{key} has no meaning here{help}"));
        }
        None => {}
    }
}

/// Does what the user asked for.
pub fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        Action::Help => {
            if !matches!(state.dialogs.last(), Some(Dialog::Help { .. })) {
                state.dialogs.push(Dialog::Help { place: state.place(), top: 0 });
            }
        }
        Action::Quit => {
            if !step_back(state, effects) {
                jobs::leave(state, effects);
            }
        }
        Action::Back => {
            if !step_back(state, effects) {
                let quit = state.settings.keymap.commands().find(|(command, _)| command.action == Action::Quit);
                let key = quit.and_then(|(_, keys)| keys.first()).map_or_else(String::new, ToString::to_string);
                state.say(Tone::Calm, format!("nothing is open here: {key} quits"));
            }
        }
        Action::QuitNow => jobs::leave(state, effects),
        Action::Suspend => effects.push(Effect::Suspend),
        Action::Redraw => effects.push(Effect::Redraw),
        _ if dialogs::act(state, action, effects) => {}
        _ if marks::gather(state, action, effects) => {}
        Action::Inspect => {
            if let Some(entry) = entry(state) {
                let (title, sheet) = (glyphs::shown_within(entry.path.name(), 60), Sheet::default());
                state.dialogs.push(Dialog::Sheet { title, sheet, top: 0 });
                effects.push(state.request(Request::Inspect(entry)));
            }
        }
        Action::Extract => jobs::ask_target(state, effects),
        Action::ExtractHere => jobs::extract_here(state, effects),
        Action::Verify => jobs::verify(state, effects),
        Action::VerifyEntry => jobs::verify_entry(state, effects),
        Action::Convert => jobs::ask_output(state),
        Action::Compact => compact::ask(state, effects),
        Action::Revert => revert::ask(state),
        Action::Jobs => state.dialogs.push(Dialog::Jobs { job: state.jobs.at(0), top: Default::default() }),
        Action::Copy => copy(state, effects),
        Action::CopyContent | Action::Page | Action::Edit | Action::Launch if sealed::ask_first(state) => {}
        Action::CopyContent => effects.extend(content(state).map(|entry| state.request(Request::Content(entry)))),
        Action::Page => effects.extend(content(state).map(Effect::Page)),
        Action::Edit => {
            if let Some(entry) = content(state) {
                state.say(Tone::Calm, format!("making a copy of {}; esc stops", glyphs::shown(entry.path.name())));
                effects.push(state.request(Request::Copy(entry)));
            }
        }
        Action::Launch => {
            if let Some(entry) = content(state) {
                let name = glyphs::shown(entry.path.name());
                state.say(Tone::Calm, format!("a copy of {name} is opened; it is gone when the browser ends"));
                effects.push(Effect::Launch(entry));
            }
        }
        Action::Duplicates => arrange::duplicates(state, effects),
        Action::Jump => jump::begin(state),
        Action::Find => find::paths(state, effects),
        Action::Palette => find::commands(state),
        Action::Archives => {
            state.opening.listing = true;
            effects.push(state.request(Request::Archives));
            find::archives(state);
        }
        Action::History => history::ask(state, effects),
        Action::Reload => history::reload(state, effects),
        Action::StopShown => jobs::stop_shown(state, effects),
        Action::Earlier => history::step(state, false, effects),
        Action::Later => history::step(state, true, effects),
        Action::Sizes => sizes::turn(state, effects),
        _ if salvage::act(state, action, effects) => {}
        _ if marks::act(state, action, effects) => {}
        _ if places::act(state, action, effects) => {}
        _ if change::act(state, action, effects) => {}
        _ if arrange::act(state, action, effects) => {}
        _ => browse::act(state, action, effects),
    }
}

/// Closes what is open on top; says whether there was something.
fn step_back(state: &mut State, effects: &mut Vec<Effect>) -> bool {
    state.dialogs.pop().is_some()
        || marks::step_back(state)
        || preview::step_back(state, effects)
        || arrange::step_back(state, effects)
}

/// What is said where there is no entry to do something with.
const NOTHING_HERE: &str = "there is nothing here";

/// Returns the entry under the cursor, or says that there is none.
fn entry(state: &mut State) -> Option<Entry> {
    let entry = state.listing.entry().cloned();
    if entry.is_none() {
        state.say(Tone::Warning, NOTHING_HERE);
    }
    entry
}

fn copy(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(entry) = entry(state) {
        let path = entry.path.as_bytes().to_vec();
        let text = format!("copied {}", entry.path);
        effects.push(Effect::Copy(path));
        state.say(Tone::Calm, text);
    }
}

/// Returns the file under the cursor, or says that there is none.
fn content(state: &mut State) -> Option<Entry> {
    let entry = entry(state)?;
    if entry.kind != Kind::File {
        state.say(Tone::Warning, "only files have content");
        return None;
    }
    Some(entry)
}
