//! Jobs: started, shown, paused, stopped; and quitting while some run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::effect::{Check, Effect, Request};
use crate::glyphs;
use crate::state::task::{POLICIES, SAFE, Task};
use crate::state::{
    About, Change, Choice, Dialog, Ending, Job, JobEvent, JobId, Menu, Prompt, PromptKind, Quit, QuitMode, SelectedEntries,
    State, Tone,
};
use crate::update::entry::NO_ENTRY;
use crate::update::{changes, marks};
use nra_convert::Overwrite;
use nra_convert::target;
use nra_text::{self, SizeStyle};

/// Note of the prompt for the target directory.
const TO: &str = "target directory";

/// The error if a directory has too little free space.
const NO_ROOM: &str = "not enough free space";

/// Returns the marked entries, or the entry under the cursor with everything below it. Shows a
/// message if there is none.
pub fn selected(state: &mut State) -> Option<SelectedEntries> {
    let marked = !state.marks.is_empty();
    let (ranges, label, content_bytes) = if marked {
        let entries = nra_text::counted(state.marks.count(), "marked entry", "marked entries");
        let bytes = state.marks.content_bytes.map_or_else(String::new, |bytes| format!(", {}", SizeStyle::Binary.show(bytes)));
        (Arc::clone(state.marks.ranges()), format!("{entries}{bytes}"), state.marks.content_bytes)
    } else if let Some((line, numbers)) = state.listing.current().zip(state.listing.numbers(state.listing.cursor)) {
        (Arc::new(vec![numbers]), glyphs::printable(line.row.entry.path.name()), line.size())
    } else {
        state.notify(Tone::Warning, NO_ENTRY);
        return None;
    };
    // Extracted paths are relative to the directory shown, unless other entries are marked.
    let below = &state.listing.below;
    let here = ranges.iter().all(|range| below.start <= range.start && range.end <= below.end);
    let above = state.listing.scope.directory.as_ref().filter(|_| here).map_or(0, |directory| directory.components().count());
    Some(SelectedEntries { ranges, label, marked, content_bytes, above })
}

pub fn ask_target(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(chosen) = selected(state) else { return };
    let target = if state.jobs.last_target.is_empty() { "./".to_owned() } else { state.jobs.last_target.clone() };
    effects.push(state.request(Request::FreeSpace(target.clone())));
    let title = format!("Extract {}", chosen.label);
    let prompt = Prompt::new(PromptKind::Extract(chosen), title, TO, target);
    // Each prompt starts with the safe policy.
    state.dialogs.push(Dialog::Prompt(Prompt { policy: Some(SAFE), ..prompt }));
}

/// Shows the free space for an extraction.
pub fn show_free_space(state: &mut State, free: u64) {
    let Some(Dialog::Prompt(prompt)) = state.dialogs.last_mut() else { return };
    let PromptKind::Extract(chosen) = &prompt.purpose else { return };
    // The size of the marks may be known by now.
    let added = state.marks.content_bytes.filter(|_| Arc::ptr_eq(&chosen.ranges, state.marks.ranges()));
    let needed = chosen.content_bytes.or(added);
    let shown = |bytes| SizeStyle::Binary.show(bytes);
    prompt.note = match needed {
        Some(needed) => format!("needs {}; {} free", shown(needed), shown(free)),
        None => format!("{TO} · {} free", shown(free)),
    };
    prompt.error.take_if(|error| error == NO_ROOM);
    if needed.is_some_and(|needed| needed > free) {
        prompt.error = Some(NO_ROOM.to_owned());
    }
}

/// Extracts to the current directory without asking.
pub fn extract_here(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(chosen) = selected(state) {
        extract(state, chosen, ".", SAFE, effects);
    }
}

pub fn extract(state: &mut State, chosen: SelectedEntries, target: &str, policy: usize, effects: &mut Vec<Effect>) {
    let SelectedEntries { ranges, label, marked, above, .. } = chosen;
    let task = Task::Extract {
        ranges: ranges.to_vec(),
        target: PathBuf::from(target),
        strip: above,
        overwrite: POLICIES.get(policy).map_or(Overwrite::Refuse, |(_, overwrite)| *overwrite),
    };
    let job = state.start_job(format!("extract {label} to {}", glyphs::printable(target.as_bytes())), task, effects);
    if marked {
        job.marks = ranges;
        state.clear_marks();
    }
}

/// Starts to verify the marked entries, or everything.
pub fn verify(state: &mut State, effects: &mut Vec<Effect>) {
    if !state.marks.is_empty() {
        return verify_entry(state, effects);
    }
    state.start_job(format!("verify {}", state.archive.name), Task::Verify { ranges: None }, effects);
}

/// Starts to verify the marked entries, or the entry under the cursor.
pub fn verify_entry(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(chosen) = selected(state) else { return };
    state.start_job(format!("verify {}", chosen.label), Task::Verify { ranges: Some(chosen.ranges.to_vec()) }, effects);
}

/// Asks for the file to convert the archive to.
pub fn ask_output(state: &mut State) {
    let note = if state.archive.info.encrypted {
        "not encrypted; the extension selects the format"
    } else {
        "the extension selects the format: .nra, .tar, .tar.gz, .tar.zst …"
    };
    let name = state.archive.own_name();
    let (stem, is_nra) = match name.strip_suffix(".nra") {
        Some(stem) => (stem, true),
        None => (name, false),
    };
    let output =
        if is_nra { format!("{stem}.tar.zst") } else { target::convert_output(Path::new(stem), None).display().to_string() };
    let title = format!("Convert {} to", state.archive.name);
    state.prompt(PromptKind::Convert, title, note, output);
}

/// Returns the check for a new archive, or what is wrong with its name.
pub fn check_output(output: &str) -> Result<Check, String> {
    let path = PathBuf::from(output);
    if target::target_of(&path).is_none() {
        let known: Vec<&str> = target::extensions().collect();
        return Err(format!("known extensions: {}", known.join(" ")));
    }
    Ok(Check::Output(path))
}

pub fn convert(state: &mut State, output: &str, effects: &mut Vec<Effect>) {
    state.start_job(format!("write {}", glyphs::printable(output.as_bytes())), Task::Convert { output: output.into() }, effects);
}

pub fn show(state: &mut State) {
    state.dialogs.push(Dialog::Jobs { job: state.jobs.at(0), top: Default::default() });
}

/// Stops the job in the status line.
pub fn stop_shown(state: &mut State, effects: &mut Vec<Effect>) {
    match state.jobs.list.iter_mut().rev().find(|job| job.ending.is_none()) {
        Some(job) => {
            job.stopping = true;
            effects.push(Effect::Stop(job.id));
        }
        None => state.notify(Tone::Warning, "No job is running"),
    }
}

pub fn handle_event(state: &mut State, id: JobId, event: JobEvent, effects: &mut Vec<Effect>) {
    if let JobEvent::NeedsPassword(task, wrong) = event {
        // Jobs of another archive are not restarted: their entry numbers mean other entries here.
        let epoch = state.requests.epoch;
        let job = state.jobs.list.iter().find(|job| job.id == id && job.epoch == epoch);
        if let Some(job) = job {
            state.passwords.tasks.push((job.title.clone(), *task, Arc::clone(&job.marks)));
            state.passwords.question = Some(wrong);
        }
        return;
    }
    if let JobEvent::Damage(remarks) = event {
        return damaged(state, id, remarks);
    }
    if matches!(event, JobEvent::Written(_)) {
        changes::written(state, id);
    }
    let ended = matches!(event, JobEvent::End(..));
    let Some(job) = state.jobs.update(id, event, state.now) else { return };
    if let Some((ending, text)) = job.ending.clone().filter(|_| ended) {
        let more = if job.log.is_empty() { "" } else { " (J shows more)" };
        let tone = match ending {
            Ending::Done => Tone::Info,
            Ending::Degraded | Ending::Cancelled => Tone::Warning,
            Ending::Failed => Tone::Error,
        };
        // A failed job restores its marks, unless there are others by now.
        let has_failed = matches!(ending, Ending::Failed | Ending::Cancelled) && job.epoch == state.requests.epoch;
        let marks = std::mem::take(&mut job.marks);
        if has_failed && state.marks.is_empty() && !marks.is_empty() {
            marks::set(state, marks.to_vec(), Change::Add, effects);
        }
        state.notify(tone, format!("{text}{more}"));
        changes::ended(state, id);
    }
}

/// Records the damage a job has found. Another commit may be shown by now.
fn damaged(state: &mut State, id: JobId, remarks: Vec<String>) {
    let Some(job) = state.jobs.list.iter().find(|job| job.id == id) else { return };
    let archive = job.archive;
    if job.epoch == state.requests.epoch || archive.is_some() && archive == state.archive.info.archive_id {
        state.archive.set_damaged(remarks.iter().cloned());
    }
    if let Some(archive) = archive {
        state.jobs.damage.insert(archive, remarks);
    }
}

/// Quits, or asks what to do with running jobs.
pub fn leave(state: &mut State, effects: &mut Vec<Effect>) {
    // Quitting again cancels an earlier choice.
    state.quit = None;
    let running: Vec<String> = state.jobs.running().map(|job| job.title.clone()).collect();
    let is_asking =
        matches!(state.dialogs.last(), Some(Dialog::Menu(Menu { about: About::Quitting | About::PendingChanges, .. })));
    if running.is_empty() || is_asking {
        return leave_by(state, QuitMode::Stop, effects);
    }
    let items = vec![
        ('w', "wait for them, then quit".to_owned(), Choice::Leave(QuitMode::Wait)),
        ('l', "quit, and finish them in the terminal".to_owned(), Choice::Leave(QuitMode::Detach)),
        ('s', "stop them and quit".to_owned(), Choice::Leave(QuitMode::Stop)),
        ('b', "back".to_owned(), Choice::Nothing),
    ];
    let menu = Menu { lines: running, about: About::Quitting, ..Menu::new("Jobs are running", items) };
    state.dialogs.push(Dialog::Menu(menu));
}

/// Quits in this mode, after asking about pending changes.
pub fn leave_by(state: &mut State, mode: QuitMode, effects: &mut Vec<Effect>) {
    if !changes::ask_on_leaving(state, mode) {
        end(state, mode, false, effects);
    }
}

/// Quits in this mode. `drops` allows pending changes to be dropped, which happens at the very end,
/// so waiting can be cancelled.
pub fn end(state: &mut State, mode: QuitMode, drops: bool, effects: &mut Vec<Effect>) {
    match mode {
        QuitMode::Stop => effects.push(Effect::Quit),
        QuitMode::Wait => {
            wait(state, drops, effects);
            state.notify(Tone::Info, "Quits when all jobs have ended; quit again to cancel");
        }
        QuitMode::Detach => {
            wait(state, drops, effects);
            effects.push(Effect::Detach);
        }
    }
}

/// Quits after the last job, unless a line is being typed, a job waits for a password, or changes
/// are pending, which are asked about first.
pub fn quit_after_last(state: &mut State, effects: &mut Vec<Effect>) {
    let busy = state.jobs.running().next().is_some() || !state.passwords.tasks.is_empty() || state.is_typing();
    let Some(leaving) = state.quit.filter(|_| !busy) else { return };
    if leaving.drops || state.unwritten_changes().is_empty() {
        effects.push(Effect::Quit);
    } else {
        state.quit = None;
        changes::ask_on_leaving(state, QuitMode::Stop);
    }
}

/// Waits for all jobs before quitting, and resumes paused ones.
fn wait(state: &mut State, drops: bool, effects: &mut Vec<Effect>) {
    state.quit = Some(Quit { since: state.now, drops });
    for job in state.jobs.list.iter_mut().filter(|job| job.ending.is_none() && job.paused) {
        job.pause(false, state.now);
        effects.push(Effect::Pause(job.id, false));
    }
}

/// Returns the job under the cursor if it is running.
fn running(state: &mut State) -> Option<&mut Job> {
    let Some(Dialog::Jobs { job, .. }) = state.dialogs.last() else { return None };
    let index = state.jobs.list.len().checked_sub(state.jobs.place(*job) + 1)?;
    state.jobs.list.get_mut(index).filter(|job| job.ending.is_none())
}

/// Stops the job under the cursor.
pub fn stop(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(job) = running(state) {
        job.stopping = true;
        effects.push(Effect::Stop(job.id));
    }
}

/// Pauses or resumes the job under the cursor.
pub fn pause(state: &mut State, effects: &mut Vec<Effect>) {
    let now = state.now;
    if let Some(job) = running(state).filter(|job| !job.stopping) {
        job.pause(!job.paused, now);
        effects.push(Effect::Pause(job.id, job.paused));
    }
}
