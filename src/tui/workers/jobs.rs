//! Jobs on threads: extraction, conversion, verification, changes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam_channel::Sender;

use crate::event::Event;
use crate::glyphs;
use crate::state::task::Task;
use crate::state::{Ending, JobEvent, JobId, Progress};
use crate::workers::changes;
use crate::workers::complete::expand;
use crate::workers::errors::{error_message, missing_password};
use crate::workers::worker::catch_fault;
use nra_convert::compact;
use nra_convert::select::Selection;
use nra_convert::target::{Target, target_of};
use nra_convert::{
    Action, Destination, DirectorySink, DirectoryStats, DirectoryTarget, Event as Extracted, NewArchive, NraSink, Options,
    Overwrite, Sink, Source, convert as convert_archive,
};
use nra_format::archive::{Archive, Depth, Verdict};
use nra_format::entry::Kind;
use nra_format::error::{Error, Result};
use nra_format::nra::writer::WriterOptions;
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Severity, Warning};
use nra_text::{self, SizeStyle};

/// Memory of an extraction, bytes: with screen and search it stays below 100 MB.
const MEMORY: u64 = 16 << 20;
/// Files tried for whether they need a password: zip members are encrypted individually.
const TRIED: usize = 16;
/// Time between two progress events, milliseconds.
const EVERY: u64 = 100;
/// Most warnings of a job, and their bytes: logs of ended jobs are kept. The rest is counted.
const MAX_WARNINGS: (u64, u64) = (1_000, 256 << 10);

/// Most columns of a name and of a message: paths may have 64 KiB.
const MAX_WIDTH: (usize, usize) = (200, 1_000);

/// Returns a message as it is stored.
fn message(text: &str) -> String {
    glyphs::printable_within(text.as_bytes(), MAX_WIDTH.1)
}

/// Most jobs that run at once: each may use all processors, and needs memory.
const AT_ONCE: usize = 2;

struct Turn {
    id: JobId,
    /// It writes an archive.
    writes: bool,
    begun: bool,
    paused: bool,
    stopped: bool,
}

/// The queue of jobs, the oldest first: running, waiting, paused, stopped.
#[derive(Default)]
struct Queue {
    turns: Mutex<Vec<Turn>>,
    changed: Condvar,
}

impl Queue {
    fn turns(&self) -> MutexGuard<'_, Vec<Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, id: JobId, change: impl FnOnce(&mut Turn)) {
        self.turns().iter_mut().find(|turn| turn.id == id).map(change);
        self.changed.notify_all();
    }
}

/// Returns the first job that may start: few run at once, and only one writes an archive. Paused
/// jobs do not count.
fn next(turns: &[Turn]) -> Option<JobId> {
    let at_work = || turns.iter().filter(|turn| turn.begun && !turn.paused);
    let has_room = at_work().count() < AT_ONCE;
    let writes = turns.iter().any(|turn| turn.begun && turn.writes);
    let waits = |turn: &&Turn| !turn.begun && !turn.paused;
    turns.iter().filter(waits).find(|turn| has_room && !(turn.writes && writes)).map(|turn| turn.id)
}

/// Lets a job wait for its turn, pause and stop.
#[derive(Clone)]
pub struct JobControl {
    id: JobId,
    queue: Arc<Queue>,
}

impl JobControl {
    fn new(id: JobId, writes: bool, queue: &Arc<Queue>) -> Self {
        queue.turns().push(Turn { id, writes, begun: false, paused: false, stopped: false });
        Self { id, queue: Arc::clone(queue) }
    }

    /// Returns the control of a job that never waits.
    #[cfg(test)]
    pub fn free(id: JobId) -> Self {
        Self::new(id, false, &Arc::default())
    }

    /// Waits for the turn of the job; `tell_waiting` is called if it waits and when that is over.
    /// Returns false if the job is stopped first.
    fn begin(&self, tell_waiting: impl Fn(bool)) -> bool {
        let mut turns = self.queue.turns();
        let waits = next(&turns) != Some(self.id);
        if waits {
            tell_waiting(true);
        }
        loop {
            let has_come = next(&turns) == Some(self.id);
            match turns.iter_mut().find(|turn| turn.id == self.id) {
                Some(turn) if turn.stopped => return false,
                Some(turn) if has_come => {
                    turn.begun = true;
                    if waits {
                        tell_waiting(false);
                    }
                    // Another job may start, too.
                    self.queue.changed.notify_all();
                    return true;
                }
                _ => {}
            }
            turns = self.queue.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits while the job is paused. Returns whether it is stopped.
    fn is_stopped(&self) -> bool {
        let mut turns = self.queue.turns();
        loop {
            match turns.iter().find(|turn| turn.id == self.id) {
                Some(turn) if turn.paused && !turn.stopped => {}
                turn => return turn.is_some_and(|turn| turn.stopped),
            }
            turns = self.queue.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Removes the job from the queue.
    fn end(&self) {
        self.queue.turns().retain(|turn| turn.id != self.id);
        self.queue.changed.notify_all();
    }
}

/// The jobs that have not ended. Few run at once, the others wait for their turn.
#[derive(Default)]
pub struct Jobs {
    queue: Arc<Queue>,
    threads: HashMap<JobId, JoinHandle<()>>,
}

impl Jobs {
    pub fn start(&mut self, id: JobId, task: Task, archive: &Arc<dyn Archive>, events: &Sender<Event>) {
        self.threads.retain(|_, thread| !thread.is_finished());
        let control = JobControl::new(id, writes(&task), &self.queue);
        let monitor = JobMonitor::new(id, control.clone(), events.clone());
        let archive = Arc::clone(archive);
        let thread = thread::spawn(move || {
            let (ending, text) = if control.begin(|waits| monitor.send(JobEvent::Waiting(waits))) {
                let fault = (Ending::Failed, "stopped by an internal error".to_owned());
                catch_fault(fault, || perform(&archive, &task, &monitor))
            } else {
                (Ending::Cancelled, "stopped before it started".to_owned())
            };
            // The next job may need the memory.
            drop(archive);
            control.end();
            monitor.end(ending, text);
        });
        self.threads.insert(id, thread);
    }

    pub fn stop(&self, id: JobId) {
        self.queue.update(id, |turn| turn.stopped = true);
    }

    pub fn pause(&self, id: JobId, pause: bool) {
        self.queue.update(id, |turn| turn.paused = pause);
    }
}

impl Drop for Jobs {
    /// Stops all jobs and waits until they have cleaned up.
    fn drop(&mut self) {
        self.threads.keys().for_each(|id| self.stop(*id));
        self.threads.drain().for_each(|(_, thread)| drop(thread.join()));
    }
}

fn writes(task: &Task) -> bool {
    match task {
        Task::Change { .. } | Task::Revert { .. } | Task::Compact { .. } | Task::Convert { .. } | Task::Salvage { .. } => true,
        Task::Extract { .. } | Task::Verify { .. } => false,
    }
}

/// Runs a job and returns how it ended.
pub fn perform(shared: &Arc<dyn Archive>, task: &Task, monitor: &JobMonitor) -> (Ending, String) {
    let archive = &**shared;
    if let Some(wrong) = needs_password(archive, task) {
        monitor.send(JobEvent::NeedsPassword(Box::new(task.clone()), wrong));
        return (Ending::Cancelled, "its content needs a password".to_owned());
    }
    let done = match task {
        Task::Extract { ranges, target, strip, overwrite } => {
            let target = expand(target);
            extract_to(archive, ranges, &target, *strip, *overwrite, monitor).map(|stats| extracted(&stats, monitor))
        }
        Task::Change { file, commit, message, changes } => changes::commit(archive, file, (*commit, message), changes, monitor)
            .map(|done| {
                monitor.send(JobEvent::Written(done.commit));
                ending(done.text, done.skipped, monitor)
            }),
        Task::Revert { file, commit, ranges, over } => changes::revert(archive, file, *commit, ranges.as_deref(), *over, monitor)
            .map(|done| {
                // Without a new commit, the same one stays shown.
                if done.written {
                    monitor.send(JobEvent::Written(done.commit));
                }
                ending(done.text, done.skipped, monitor)
            }),
        Task::Compact { file, commit } => compacted(archive, file, *commit, monitor),
        Task::Convert { output } => convert(shared, &expand(output), monitor),
        Task::Salvage { output, message } => salvage_to(archive, &expand(output), message, monitor),
        Task::Verify { ranges } => verify(archive, ranges.as_deref(), monitor).map(|verdict| verified(&verdict, monitor)),
    };
    match done {
        Ok(ending) => ending,
        Err(Error::Cancelled) => (Ending::Cancelled, format!("stopped{}", extracted_part(task, monitor))),
        Err(error) => (Ending::Failed, format!("{}{}", error_message(&error), extracted_part(task, monitor))),
    }
}

/// Describes what a stopped extraction leaves on disk.
fn extracted_part(task: &Task, monitor: &JobMonitor) -> String {
    let Task::Extract { target, .. } = task else { return String::new() };
    let [done, all] = [0, 1].map(|index| monitor.counts[index].load(Ordering::Relaxed));
    if done == 0 {
        return String::new();
    }
    let target = glyphs::printable(std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str()));
    format!("; {} of {} are extracted and stay in {target}", nra_text::count(done), nra_text::counted(all, "entry", "entries"))
}

/// Returns whether the content that a job reads needs a password: `Some(true)` if a wrong one was
/// given.
fn needs_password(archive: &dyn Archive, task: &Task) -> Option<bool> {
    let all = 0..archive.entry_count();
    let ranges = match task {
        Task::Extract { ranges, .. } | Task::Verify { ranges: Some(ranges) } => ranges.as_slice(),
        Task::Verify { ranges: None } | Task::Convert { .. } => std::slice::from_ref(&all),
        Task::Change { .. } | Task::Revert { .. } | Task::Compact { .. } | Task::Salvage { .. } => return None,
    };
    // A keyring decrypts content, too.
    if !archive.info().encrypted || archive.keyring().is_some() {
        return None;
    }
    let entries = ranges.iter().flat_map(|range| archive.entries(range.clone())).flatten();
    let mut files = entries.filter(|entry| entry.kind == Kind::File && entry.size > 0).take(TRIED);
    files.find_map(|entry| archive.read_at(&entry, 0, &mut [0]).err().as_ref().and_then(missing_password))
}

fn extract_to(
    archive: &dyn Archive,
    ranges: &[std::ops::Range<u64>],
    target: &Path,
    strip: usize,
    overwrite: Overwrite,
    monitor: &JobMonitor,
) -> Result<DirectoryStats> {
    let selection = Selection::of_numbers(archive, ranges.iter().cloned())?;
    let observe = |done: &Extracted<'_>| monitor.report_detour(done);
    let mut sink = DirectorySink::new(DirectoryTarget::Exactly(target.to_owned()));
    sink.strip_components = strip;
    sink.overwrite = overwrite;
    sink.observe = Some(&observe);
    let options = Options { memory_bytes: MEMORY, ..Options::default() };
    Ok(convert_archive(Source::Archive(archive, &selection), Sink::Directory(sink), &options, monitor)?.directory)
}

fn extracted(stats: &DirectoryStats, monitor: &JobMonitor) -> (Ending, String) {
    let mut text = format!(
        "extracted {}, {} to {}",
        nra_text::counted(stats.files, "file", "files"),
        SizeStyle::Binary.show(stats.bytes),
        glyphs::printable(std::os::unix::ffi::OsStrExt::as_bytes(stats.target.as_os_str())),
    );
    for (count, what) in [(stats.renamed, "renamed"), (stats.backups, "backed up")] {
        if count > 0 {
            text.push_str(&format!("; {} {what}", nra_text::count(count)));
        }
    }
    ending(text, stats.skipped + stats.kept, monitor)
}

/// Returns `Degraded` if entries were skipped or damaged, with the summary.
fn ending(mut text: String, skipped: u64, monitor: &JobMonitor) -> (Ending, String) {
    if skipped > 0 {
        text.push_str(&format!("; {} skipped", nra_text::counted(skipped, "entry", "entries")));
    }
    let whole = skipped == 0 && !monitor.degraded.load(Ordering::Relaxed);
    (if whole { Ending::Done } else { Ending::Degraded }, text)
}

/// Commits that compacting keeps: the newest one.
const KEPT: u64 = 1;

/// Returns the options for compacting: an encrypted archive stays encrypted.
fn compacting(archive: &dyn Archive) -> WriterOptions {
    WriterOptions { encryption: archive.keyring().cloned(), ..WriterOptions::balanced() }
}

/// A monitor that cancels when the request is cancelled.
struct Cancellable<'a>(&'a (dyn Fn() -> bool + Sync));

impl Monitor for Cancellable<'_> {
    fn warn(&self, _: Warning) {}

    fn cancelled(&self) -> bool {
        !self.0()
    }
}

/// Estimates what compacting would save, until `awaited` returns false. `archive` has the keys.
pub fn compact_estimate(
    archive: &dyn Archive,
    file: &Path,
    awaited: &(dyn Fn() -> bool + Sync),
) -> std::result::Result<compact::Compaction, String> {
    compact::plan(file, KEPT, &compacting(archive), &Cancellable(awaited)).map_err(|error| error_message(&error))
}

fn compacted(archive: &dyn Archive, file: &Path, commit: u64, monitor: &JobMonitor) -> Result<(Ending, String)> {
    // The user has agreed to remove these commits only.
    let commits = Some(commit);
    let Some(done) = compact::compact(file, KEPT, commits, &compact::Target::InPlace, &compacting(archive), monitor)? else {
        return Ok((Ending::Done, "compacting saves nothing: the archive is unchanged".to_owned()));
    };
    monitor.send(JobEvent::Written(KEPT));
    let (before, after) = (SizeStyle::Binary.show(done.before_bytes), SizeStyle::Binary.show(done.after_bytes));
    let dropped = nra_text::counted(done.dropped_commits, "commit is", "commits are");
    Ok(ending(format!("{before} → {after}; {dropped} gone"), 0, monitor))
}

fn convert(archive: &Arc<dyn Archive>, output: &Path, monitor: &JobMonitor) -> Result<(Ending, String)> {
    let format = target_of(output).unwrap_or(Target::Nra).new_archive(output);
    let sink = Sink::Archive(Destination::new_file(output), format);
    let stats = convert_archive(Source::Archive(&**archive, &Selection::all()), sink, &Options::default(), monitor)?;
    let name = glyphs::printable(std::os::unix::ffi::OsStrExt::as_bytes(output.as_os_str()));
    let text = format!(
        "wrote {name}: {}, {}",
        nra_text::counted(stats.written.files, "file", "files"),
        SizeStyle::Binary.show(stats.written.archive_bytes)
    );
    Ok(ending(text, stats.skipped, monitor))
}

fn salvage_to(archive: &dyn Archive, output: &Path, message: &str, monitor: &JobMonitor) -> Result<(Ending, String)> {
    // It stays encrypted.
    let encryption = archive.keyring().cloned();
    let writer = WriterOptions { encryption, ..WriterOptions::balanced() };
    let sink = Sink::Archive(Destination::new_file(output), NewArchive::Nra(NraSink { writer, ..NraSink::default() }));
    let options = Options { message: message.to_owned(), ..Options::default() };
    let stats = convert_archive(Source::Damaged(archive), sink, &options, monitor)?;
    let text = format!(
        "salvaged {}, {} to {}",
        nra_text::counted(stats.written.entries, "entry", "entries"),
        SizeStyle::Binary.show(stats.written.content_bytes),
        glyphs::printable(std::os::unix::ffi::OsStrExt::as_bytes(output.as_os_str())),
    );
    Ok(ending(text, stats.damaged, monitor))
}

fn verify(archive: &dyn Archive, ranges: Option<&[std::ops::Range<u64>]>, monitor: &JobMonitor) -> Result<Verdict> {
    let Some(ranges) = ranges else { return archive.verify(Depth::Full, None, monitor) };
    let selection = Selection::of_numbers(archive, ranges.iter().cloned())?;
    archive.verify(Depth::Full, Some(&|entry| selection.matches(entry)), monitor)
}

/// Damages that are shown for the archive afterwards. The log of the job has more.
const KNOWN: usize = 3;

fn verified(verdict: &Verdict, monitor: &JobMonitor) -> (Ending, String) {
    if !verdict.damage.is_empty() {
        let known = verdict.damage.iter().take(KNOWN);
        monitor.send(JobEvent::Damage(
            known.map(|damage| format!("{} at offset {}: {}", damage.structure, damage.offset, damage.detail)).collect(),
        ));
    }
    let damages = verdict.damage.iter().map(|damage| {
        let name = |path: &EntryPath| glyphs::printable_within(path.as_bytes(), MAX_WIDTH.0);
        let first: Vec<String> = damage.entries.iter().take(5).map(name).collect();
        let entries = nra_text::counted(damage.entry_count, "entry affected", "entries affected");
        let names = if first.is_empty() { String::new() } else { format!(": {}", first.join(", ")) };
        let detail = glyphs::printable_within(damage.detail.as_bytes(), MAX_WIDTH.0);
        format!("{} at offset {}: {detail}; {entries}{names}", damage.structure, damage.offset)
    });
    damages.for_each(|damage| monitor.warn(&damage));
    let checked =
        format!("{}, {}", nra_text::counted(verdict.entries, "entry", "entries"), SizeStyle::Binary.show(verdict.content_bytes));
    match verdict.damage.len() as u64 {
        0 => (Ending::Done, format!("no damage ({checked} checked)")),
        damages => (
            Ending::Degraded,
            format!(
                "{} ({checked} checked): R lists the affected files and saves the rest",
                nra_text::counted(damages, "damage", "damages")
            ),
        ),
    }
}

/// A monitor that reports progress as events.
pub struct JobMonitor {
    id: JobId,
    events: Sender<Event>,
    control: JobControl,
    /// Done and expected entries, done and expected bytes.
    counts: [AtomicU64; 4],
    current: Mutex<Vec<u8>>,
    /// Reported warnings, their bytes, and the number of hidden ones.
    warnings: [AtomicU64; 3],
    /// The same for renamed and backed up files, which do not use up the limit for warnings.
    detours: [AtomicU64; 3],
    degraded: AtomicBool,
    started: Instant,
    /// Time of the last progress report, in milliseconds after the start.
    last: AtomicU64,
}

impl JobMonitor {
    pub fn new(id: JobId, control: JobControl, events: Sender<Event>) -> Self {
        Self {
            id,
            events,
            control,
            counts: Default::default(),
            current: Mutex::default(),
            warnings: Default::default(),
            detours: Default::default(),
            degraded: AtomicBool::new(false),
            started: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    pub fn end(&self, ending: Ending, text: String) {
        let hidden = self.warnings[2].load(Ordering::Relaxed);
        if hidden > 0 {
            self.send(JobEvent::Warning(format!("and {} more", nra_text::count(hidden))));
        }
        let hidden = self.detours[2].load(Ordering::Relaxed);
        if hidden > 0 {
            self.send(JobEvent::Warning(format!("and {} more renamed or backed up", nra_text::count(hidden))));
        }
        self.send(self.progress());
        self.send(JobEvent::End(ending, text));
    }

    /// Reports a warning, within the limits.
    fn warn(&self, warning: &str) {
        self.warn_within(&self.warnings, warning);
    }

    fn warn_within(&self, [count, bytes, hidden]: &[AtomicU64; 3], warning: &str) {
        if count.load(Ordering::Relaxed) >= MAX_WARNINGS.0 || bytes.load(Ordering::Relaxed) >= MAX_WARNINGS.1 {
            hidden.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let warning = message(warning);
        count.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(warning.len() as u64, Ordering::Relaxed);
        self.send(JobEvent::Warning(warning));
    }

    fn send(&self, event: JobEvent) {
        // The receiver is gone when the browser exits.
        drop(self.events.send(Event::Job(self.id, event)));
    }

    fn progress(&self) -> JobEvent {
        let [entries, all_entries, bytes, all_bytes] = [0, 1, 2, 3].map(|index| self.counts[index].load(Ordering::Relaxed));
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        JobEvent::Progress(Progress { entries, all_entries, bytes, all_bytes }, glyphs::printable_within(&current, MAX_WIDTH.0))
    }

    /// Reports renamed files and backups.
    fn report_detour(&self, done: &Extracted<'_>) {
        let shown = |path: &[u8]| glyphs::printable_within(path, MAX_WIDTH.0);
        let warn = |warning: String| self.warn_within(&self.detours, &warning);
        match done.action {
            Action::Rename => warn(format!("{} extracted as {}", shown(done.entry.path.as_bytes()), shown(done.path))),
            Action::Backup => warn(format!("{}: existing file backed up", shown(done.path))),
            _ => {}
        }
    }

    /// Reports progress if it is due.
    fn tick(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.last.load(Ordering::Relaxed);
        if now >= last + EVERY && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.send(self.progress());
        }
    }
}

impl Monitor for JobMonitor {
    fn add(&self, counter: Counter, amount: u64) {
        // Input bytes are not shown.
        if let Some(count) = self.counts.get(counter as usize * 2) {
            count.fetch_add(amount, Ordering::Relaxed);
        }
        self.tick();
    }

    fn expect(&self, counter: Counter, amount: u64) {
        if let Some(count) = self.counts.get(counter as usize * 2 + 1) {
            count.fetch_add(amount, Ordering::Relaxed);
        }
    }

    fn current(&self, path: &[u8]) {
        // A name may be skipped if another thread sets one.
        if let Ok(mut current) = self.current.try_lock() {
            current.clear();
            current.extend_from_slice(path);
        }
    }

    fn warn(&self, warning: Warning) {
        if warning.severity >= Severity::Degraded {
            self.degraded.store(true, Ordering::Relaxed);
        }
        self.warn(&nra_text::harmless(&warning.to_string()));
    }

    fn cancelled(&self) -> bool {
        self.control.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Starts a job on a thread. Returns a channel that receives whether it has started.
    fn begin(queue: &Arc<Queue>, id: JobId, writes: bool) -> mpsc::Receiver<bool> {
        let (control, (sender, receiver)) = (JobControl::new(id, writes, queue), mpsc::channel());
        thread::spawn(move || sender.send(control.begin(|_| {})));
        receiver
    }

    const SOON: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn stopped_extraction_reports_extracted_entries() {
        let (sender, _events) = crossbeam_channel::unbounded();
        let monitor = JobMonitor::new(1, JobControl::free(1), sender);
        let extract = Task::Extract { ranges: Vec::new(), target: "out".into(), strip: 0, overwrite: Overwrite::Rename };
        assert_eq!(extracted_part(&extract, &monitor), "");
        monitor.expect(Counter::Entries, 70_000);
        monitor.add(Counter::Entries, 33_776);
        assert_eq!(extracted_part(&extract, &monitor), "; 33,776 of 70,000 entries are extracted and stay in out");
        assert_eq!(extracted_part(&Task::Verify { ranges: None }, &monitor), "");
    }

    #[test]
    fn job_log_is_bounded() {
        for (warning, most) in [("short", MAX_WARNINGS.0), (&"e\u{301}".repeat(1_000), 256)] {
            let (sender, events) = crossbeam_channel::unbounded();
            let monitor = JobMonitor::new(1, JobControl::free(1), sender);
            (0..1_100).for_each(|_| monitor.warn(warning));
            monitor.end(Ending::Degraded, String::new());
            let warnings = events.try_iter().filter_map(|event| match event {
                Event::Job(_, JobEvent::Warning(warning)) => Some(warning),
                _ => None,
            });
            let warnings: Vec<String> = warnings.collect();
            let shown = warnings.len() as u64 - 1;
            assert!(shown <= most && shown > 80, "{shown}");
            assert_eq!(
                warnings.last().map(String::as_str),
                Some(format!("and {} more", nra_text::count(1_100 - shown)).as_str())
            );
        }
    }

    #[test]
    fn paused_job_waits() {
        for stop in [false, true] {
            let queue = Arc::<Queue>::default();
            let control = JobControl::new(1, false, &queue);
            assert!(control.begin(|_| panic!("there is room")) && !control.is_stopped());
            queue.update(1, |turn| turn.paused = true);
            let (waiting, (sender, receiver)) = (control.clone(), mpsc::channel());
            let thread = thread::spawn(move || sender.send(waiting.is_stopped()));
            assert!(receiver.recv_timeout(SOON).is_err());
            queue.update(1, |turn| if stop { turn.stopped = true } else { turn.paused = false });
            assert_eq!(receiver.recv(), Ok(stop));
            thread.join().unwrap().unwrap();
        }
    }

    #[test]
    fn few_jobs_run_at_once() {
        let queue = Arc::<Queue>::default();
        let begun = |receiver: &mpsc::Receiver<bool>| receiver.recv_timeout(LONG) == Ok(true);
        let waits = |receiver: &mpsc::Receiver<bool>| receiver.recv_timeout(SOON).is_err();
        let end = |id| JobControl { id, queue: Arc::clone(&queue) }.end();
        // Only one job writes at a time. Others may pass the one that waits.
        let (first, second) = (begin(&queue, 1, true), begin(&queue, 2, true));
        assert!(begun(&first) && waits(&second));
        let (third, fourth) = (begin(&queue, 3, false), begin(&queue, 4, false));
        assert!(begun(&third) && waits(&fourth));
        // A paused job lets another one start, and may continue at any time.
        queue.update(3, |turn| turn.paused = true);
        assert!(begun(&fourth) && waits(&second));
        queue.update(3, |turn| turn.paused = false);
        // A waiting job can be stopped.
        let fifth = begin(&queue, 5, false);
        queue.update(5, |turn| turn.stopped = true);
        assert_eq!(fifth.recv_timeout(LONG), Ok(false));
        end(5);
        end(1);
        assert!(waits(&second));
        end(3);
        assert!(begun(&second));
    }
}
