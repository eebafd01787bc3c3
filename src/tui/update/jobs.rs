//! Jobs: asked for, followed, stopped; and leaving while some run.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::convert::extract::Overwrite;
use crate::convert::kinds;
use crate::text::{self, SizeStyle};
use crate::tui::effect::{Check, Effect, Task};
use crate::tui::glyphs;
use crate::tui::state::dialog::{Choice, Menu, Prompt, Purpose, Way};
use crate::tui::state::jobs::{Ending, Job, JobId, News};
use crate::tui::state::line::Line;
use crate::tui::state::{Dialog, State, Tone};
use crate::tui::update::change;

/// What may be done about existing files, the safe one first.
pub const POLICIES: [(&str, Overwrite); 5] = [
    ("give the new file another name", Overwrite::Rename),
    ("leave it, skip the entry", Overwrite::Skip),
    ("replace it if it is older", Overwrite::KeepNewer),
    ("keep it as name~", Overwrite::Backup),
    ("replace it", Overwrite::Replace),
];

/// What is asked on extraction.
const TO: &str = "to the directory";

/// Index of the safe policy.
pub const SAFE: usize = 0;

/// Returns the numbers that work is about: those that are marked, or the entry under the cursor with all below it.
///
/// `None` when the end of the directory under the cursor is not known: its path tells.
pub fn chosen(state: &State) -> Option<Vec<Range<u64>>> {
    if !state.marks.is_empty() {
        return Some(state.marks.ranges().to_vec());
    }
    Some(vec![state.listing.numbers(state.listing.cursor)?])
}

/// Says what work is about.
pub fn subject(state: &State) -> String {
    if state.marks.is_empty() {
        return state.listing.entry().map_or_else(String::new, |entry| glyphs::shown(entry.path.name()));
    }
    let entries = text::counted(state.marks.count(), "marked entry", "marked entries");
    match state.marks.content_bytes {
        Some(bytes) => format!("{entries}, {}", SizeStyle::Binary.show(bytes)),
        None => entries,
    }
}

/// Asks where to extract to.
pub fn ask_target(state: &mut State, effects: &mut Vec<Effect>) {
    if state.marks.is_empty() && state.listing.entry().is_none() {
        return;
    }
    let target = if state.target.is_empty() { "./".to_owned() } else { state.target.clone() };
    effects.push(Effect::Room(target.clone()));
    let prompt = Prompt::new(Purpose::Extract, format!("Extract {}", subject(state)), TO, target);
    state.dialogs.push(Dialog::Prompt(Prompt { policy: Some(state.policy), ..prompt }));
}

/// Takes how much room there is for what is to be extracted.
pub fn room(state: &mut State, free: u64) {
    let needed = match state.marks.is_empty() {
        true => state.listing.current().and_then(Line::size),
        false => state.marks.content_bytes,
    };
    let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() else { return };
    if prompt.purpose != Purpose::Extract {
        return;
    }
    let shown = |bytes| SizeStyle::Binary.show(bytes);
    prompt.note = match needed {
        Some(needed) => format!("needs {}; {} are free there", shown(needed), shown(free)),
        None => format!("{TO} · {} free", shown(free)),
    };
    if needed.is_some_and(|needed| needed > free) {
        prompt.error = Some("there is not room enough".to_owned());
    }
}

/// Starts an extraction.
pub fn extract(state: &mut State, target: String, policy: usize, effects: &mut Vec<Effect>) {
    let Some(ranges) = chosen(state) else {
        state.say(Tone::Warning, "still reading the directory; try again");
        return;
    };
    if ranges.iter().all(Range::is_empty) {
        return;
    }
    // Paths begin where the user is, unless marks lie elsewhere.
    let below = &state.listing.below;
    let here = ranges.iter().all(|range| below.start <= range.start && range.end <= below.end);
    let depth = state.listing.scope.directory.as_ref().map_or(0, |directory| directory.components().count());
    let task = Task::Extract {
        ranges,
        target: PathBuf::from(&target),
        strip: if here { depth } else { 0 },
        overwrite: POLICIES.get(policy).map_or(Overwrite::Refuse, |(_, overwrite)| *overwrite),
    };
    let id = state.jobs.add(format!("extract {} to {}", subject(state), glyphs::shown(target.as_bytes())), state.now);
    state.unmark();
    effects.push(Effect::Start(id, task));
}

/// Starts a verification of what is marked, or of all.
pub fn verify(state: &mut State, effects: &mut Vec<Effect>) {
    if !state.marks.is_empty() {
        return verify_entry(state, effects);
    }
    let id = state.jobs.add(format!("verify {}", state.archive.name), state.now);
    effects.push(Effect::Start(id, Task::Verify { ranges: None }));
}

/// Starts a verification of what is marked, or of the entry.
pub fn verify_entry(state: &mut State, effects: &mut Vec<Effect>) {
    if state.marks.is_empty() && state.listing.entry().is_none() {
        return;
    }
    let Some(ranges) = chosen(state) else {
        state.say(Tone::Warning, "still reading the directory; try again");
        return;
    };
    let id = state.jobs.add(format!("verify {}", subject(state)), state.now);
    effects.push(Effect::Start(id, Task::Verify { ranges: Some(ranges) }));
}

/// Asks for the archive that everything is written to.
pub fn ask_output(state: &mut State) {
    let note = if state.archive.info.encrypted {
        "it will not be encrypted; the ending tells the kind"
    } else {
        "the ending tells the kind: .nra, .tar, .tar.gz, .tar.zst …"
    };
    let name = state.archive.own_name();
    let (stem, is_nra) = match name.strip_suffix(".nra") {
        Some(stem) => (stem, true),
        None => (name, false),
    };
    let output =
        if is_nra { format!("{stem}.tar.zst") } else { kinds::default_output(Path::new(stem), None).display().to_string() };
    let title = format!("Write everything in {} as", state.archive.name);
    state.dialogs.push(Dialog::Prompt(Prompt::new(Purpose::Convert, title, note, output)));
}

/// Asks whether an archive can be written; says what is wrong with its name.
pub fn check_output(output: &str, effects: &mut Vec<Effect>) -> Result<(), String> {
    let path = PathBuf::from(output);
    if kinds::kind_of(&path).is_none() {
        let known: Vec<&str> = kinds::endings().collect();
        return Err(format!("known endings: {}", known.join(" ")));
    }
    effects.push(Effect::Check(Check::Output(path)));
    Ok(())
}

/// Starts a conversion.
pub fn convert(state: &mut State, output: &str, effects: &mut Vec<Effect>) {
    let id = state.jobs.add(format!("write {}", glyphs::shown(output.as_bytes())), state.now);
    effects.push(Effect::Start(id, Task::Convert { output: output.into() }));
}

/// Stops the job that the status line shows.
pub fn stop_shown(state: &mut State, effects: &mut Vec<Effect>) {
    match state.jobs.list.iter_mut().rev().find(|job| job.ending.is_none()) {
        Some(job) => {
            job.stopping = true;
            effects.push(Effect::Stop(job.id));
        }
        None => state.say(Tone::Warning, "no job is under way"),
    }
}

/// Takes what a job tells.
pub fn take(state: &mut State, id: JobId, news: News) {
    if let News::Sealed(task, wrong) = news {
        // A password is asked for only where it is of use: what a job of another archive was to do means other entries here.
        let epoch = state.asked.epoch;
        let job = state.jobs.list.iter().find(|job| job.id == id && job.epoch == epoch);
        if let Some(job) = job {
            state.resume = Some((job.title.clone(), *task));
            state.question = Some(wrong);
        }
        return;
    }
    if matches!(news, News::Written(_)) {
        change::written(state, id);
    }
    let ended = matches!(news, News::End(..));
    let Some(job) = state.jobs.take(id, news, state.now) else { return };
    if let Some((ending, text)) = job.ending.clone().filter(|_| ended) {
        let more = if job.log.is_empty() { "" } else { " (J shows more)" };
        let tone = match ending {
            Ending::Done => Tone::Calm,
            Ending::Degraded | Ending::Cancelled => Tone::Warning,
            Ending::Failed => Tone::Error,
        };
        state.say(tone, format!("{text}{more}"));
        change::ended(state, id);
    }
}

/// Ends the program, or asks what becomes of the jobs.
pub fn leave(state: &mut State, effects: &mut Vec<Effect>) {
    // Whoever asks again wants to be asked again.
    state.leaving = None;
    let running: Vec<String> = state.jobs.running().map(|job| job.title.clone()).collect();
    if running.is_empty() || matches!(state.dialogs.last(), Some(Dialog::Menu(menu)) if menu.title == LEAVING) {
        return leave_by(state, Way::Stop, effects);
    }
    state.dialogs.push(Dialog::Menu(Menu {
        title: LEAVING.to_owned(),
        lines: running,
        items: vec![
            ('w', "wait until it is done, then quit".to_owned(), Choice::Leave(Way::Wait)),
            ('l', "leave it to the terminal and quit".to_owned(), Choice::Leave(Way::Detach)),
            ('s', "stop it and quit".to_owned(), Choice::Leave(Way::Stop)),
            ('b', "back".to_owned(), Choice::Nothing),
        ],
        cursor: 0,
        waits: false,
    }));
}

/// Title of the question on leaving.
const LEAVING: &str = "Work is under way";

/// Ends the program in this way, or asks what becomes of planned changes first.
pub fn leave_by(state: &mut State, way: Way, effects: &mut Vec<Effect>) {
    if change::ask_on_leaving(state, way) {
        return;
    }
    match way {
        Way::Stop => effects.push(Effect::Quit),
        Way::Wait => {
            wait(state, effects);
            state.say(Tone::Calm, "ends when all work is done; to quit again takes that back");
        }
        Way::Detach => {
            wait(state, effects);
            effects.push(Effect::Detach);
        }
    }
}

/// Ends the program that was to end with the last job, if that has ended and nothing is in the way: something typed, a password that a job waits
/// for, or plans, about which there is a question first.
pub fn leave_at_last(state: &mut State, effects: &mut Vec<Effect>) {
    let busy = state.jobs.running().next().is_some() || state.resume.is_some() || state.is_typing();
    if state.leaving.is_none() || busy {
        return;
    }
    if state.staged.is_empty() {
        effects.push(Effect::Quit);
    } else {
        state.leaving = None;
        change::ask_on_leaving(state, Way::Stop);
    }
}

/// Lets all jobs come to their end before the program ends.
fn wait(state: &mut State, effects: &mut Vec<Effect>) {
    state.leaving = Some(state.now);
    for job in state.jobs.list.iter_mut().filter(|job| job.ending.is_none() && job.paused) {
        job.pause(false, state.now);
        effects.push(Effect::Pause(job.id, false));
    }
}

/// Returns the job under the cursor of the list of jobs, if it runs.
fn running(state: &mut State) -> Option<&mut Job> {
    let Some(Dialog::Jobs { cursor, .. }) = state.dialogs.last() else { return None };
    let index = state.jobs.list.len().checked_sub(cursor + 1)?;
    state.jobs.list.get_mut(index).filter(|job| job.ending.is_none())
}

/// Stops the job under the cursor of the list of jobs.
pub fn stop(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(job) = running(state) {
        job.stopping = true;
        effects.push(Effect::Stop(job.id));
    }
}

/// Lets the job under the cursor of the list of jobs wait, or go on.
pub fn pause(state: &mut State, effects: &mut Vec<Effect>) {
    let now = state.now;
    if let Some(job) = running(state).filter(|job| !job.stopping) {
        job.pause(!job.paused, now);
        effects.push(Effect::Pause(job.id, job.paused));
    }
}
