//! Reads, CPU time and memory of the browser on an archive of a million entries.
//!
//! `cargo bench --bench browse` writes an archive of 1,000,000 files in one directory to a temporary
//! file and presses keys in the browser, which runs with all its threads but without a terminal.
//! `-- --entries N` uses N entries, `-- --test` uses few.
//!
//! It fails if a budget is exceeded: for reads, for the CPU time of the thread that handles keys and
//! draws, and for peak memory. Other programs on the machine do not affect these figures. Times are
//! only printed. `tests/tui/measure.py` measures the same in a real terminal. `docs/benchmarks.md`
//! has the results.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is a table")]

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use nra::format::archive::{Archive, OpenOptions, open};
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::{FileSource, RecordingSource};
use nra_tui::effect::Effect;
use nra_tui::event::Event;
use nra_tui::key::Key;
use nra_tui::keymap::Keymap;
use nra_tui::state::{Facts, State};
use nra_tui::theme::{Background, Depth, Theme};
use nra_tui::update;
use nra_tui::view::view;
use nra_tui::workers::Workers;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Default number of entries, and that with `--test`.
const ENTRIES: (u64, u64) = (1_000_000, 20_000);
/// Size of the cache, bytes. The browser uses the same.
const CACHE: u64 = 16 << 20;
/// Columns and rows of the screen.
const SCREEN: (u16, u16) = (120, 40);
/// CPU budget of a key, and of a response of a thread.
const FRAME: Duration = Duration::from_millis(16);
/// Budget of a step: reads and bytes.
const READS: (usize, u64) = (24, 1 << 20);
/// Memory budget, bytes: a fixed amount, and an amount per entry. 100 MB for a million entries.
const MEMORY: (u64, u64) = (50_000_000, 50);
/// Number of files after which extraction is stopped, because memory does not grow any more.
const EXTRACTED: u64 = 5_000;
/// Repetitions of a measured key, because the system counts CPU time in steps of milliseconds.
const TIMES: u32 = 20;
/// All responses have arrived after this time without one.
const QUIET: Duration = Duration::from_millis(80);
/// Maximum wait for responses while a job sends them continuously.
const MAX_WAIT: Duration = Duration::from_millis(400);

/// Keys whose reads are counted, in the order in which they are pressed.
const STEPS: [&str; 10] = ["enter", "j", "pagedown", "G", "pageup", "g", "ctrl-d", "space", "A", "t"];
/// Keys whose CPU time is measured, in the order in which they are pressed.
const KEYS: [&str; 33] = [
    "j", "k", "ctrl-d", "pagedown", "G", "g", "space", "*", "A", "esc", "b", "b", "b", "p", "p", "?", "esc", "s", "esc", "C",
    "esc", ":", "esc", "J", "esc", "f", "esc", "i", "esc", "5", "2", "0", "t",
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)?.parse::<u64>().ok()
    };
    if let Some(at) = words.iter().position(|word| word == "--write") {
        write(Path::new(&words[at + 1]), number("--entries").expect("a number of entries"));
        return ExitCode::SUCCESS;
    }
    let entries = number("--entries").unwrap_or(if words.iter().any(|word| word == "--test") { ENTRIES.1 } else { ENTRIES.0 });

    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("million.nra");
    // In another process, because its memory is not that of the browser.
    let this = std::env::current_exe().expect("this program");
    let status = Command::new(this).arg("--write").arg(&path).arg("--entries").arg(entries.to_string()).status();
    assert!(status.expect("this program starts").success(), "the archive is not written");

    let mut failures = Vec::new();
    let mut driver = navigate(&path, entries, &mut failures);
    keys(&mut driver, "alone", &mut failures);
    memory(entries, "browsing", &mut failures);
    search(&mut driver, entries, &mut failures);
    memory(entries, "searching all paths", &mut failures);
    arrange(&mut driver, "all rows sorted by size", "s s", "s n", &mut failures);
    memory(entries, "sorting all rows", &mut failures);
    arrange(&mut driver, "duplicates listed", "D", "D", &mut failures);
    memory(entries, "listing duplicates", &mut failures);
    driver.busy = true;
    keys(&mut driver, "while the archive is verified", &mut failures);
    memory(entries, "verifying", &mut failures);
    extract(&mut driver, &directory.path().join("out"));
    memory(entries, "extracting", &mut failures);
    for failure in &failures {
        eprintln!("budget exceeded: {failure}");
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// Writes an archive of small files in one directory, the hardest case for listing, sorting and searching.
fn write(path: &Path, entries: u64) {
    let file = File::create_new(path).expect("a new file");
    let mut writer = Writer::create(std::io::BufWriter::new(file), WriterOptions::default()).expect("valid options");
    for number in 0..entries {
        let path = EntryPath::new(format!("images/{number:08}.json").into_bytes()).expect("a valid path");
        let text = format!("{{\"id\": {}}}\n", number % 1_000);
        let bytes = text.as_bytes();
        let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
        writer.add(Entry::new(path, Kind::File), content).expect("paths are in order");
    }
    writer.finish(&Recorder::default()).expect("a whole archive");
}

/// The browser without its terminal.
struct Driver {
    state: State,
    workers: Workers,
    events: Receiver<Event>,
    source: Arc<RecordingSource<FileSource>>,
    started: Instant,
    /// Whether the archive is verified in the background.
    busy: bool,
    /// CPU time of the slowest response.
    slowest_response: Duration,
}

impl Driver {
    fn area(&self) -> Rect {
        self.state.screen
    }

    fn update(&mut self, event: Event) -> Vec<Effect> {
        update::update(&mut self.state, event, self.started.elapsed())
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        self.workers.publish(&self.state.requests);
        for effect in effects {
            // There is no terminal for the remaining effects.
            drop(self.workers.perform(effect));
        }
    }

    /// Returns the number of entries that the last job has processed.
    fn done(&self) -> u64 {
        self.state.jobs.list.last().map_or(0, |job| job.progress.entries)
    }

    fn draw(&self) {
        view(&self.state, self.area(), &mut Buffer::empty(self.area()));
    }

    fn press(&mut self, key: &str) {
        let key: Key = key.parse().expect("a key");
        let effects = self.update(Event::Key(key));
        self.perform(effects);
    }

    /// Waits for a response, handles it and draws.
    fn next(&mut self) {
        let event = self.events.recv().expect("a response");
        self.respond(event);
    }

    /// Handles a response and draws.
    fn respond(&mut self, event: Event) {
        let before = cpu_time();
        let effects = self.update(event);
        self.draw();
        self.slowest_response = self.slowest_response.max(cpu_time().saturating_sub(before));
        self.perform(effects);
    }

    /// Handles responses until there are no more.
    fn settle(&mut self) {
        let start = Instant::now();
        let mut rested = false;
        loop {
            let event = match self.events.recv_timeout(QUIET) {
                Ok(event) => event,
                // A preview is requested when the cursor rests.
                Err(_) if !rested => {
                    rested = true;
                    Event::Tick
                }
                Err(_) => return,
            };
            self.respond(event);
            let awaited = self.state.listing.is_waiting() || self.state.arrangement.loading;
            if self.busy && !awaited && start.elapsed() > MAX_WAIT {
                return;
            }
        }
    }
}

/// Opens the archive and navigates in it. Counts the reads of each step.
fn navigate(path: &Path, entries: u64, failures: &mut Vec<String>) -> Driver {
    println!("{entries} entries\n\n| step | reads | bytes | ms |\n| --- | --- | --- | --- |");
    let start = Instant::now();
    let source = Arc::new(RecordingSource::new(FileSource::open(path).expect("just written")));
    let options = OpenOptions { cache_bytes: CACHE, ..OpenOptions::default() };
    let archive = open(Arc::<RecordingSource<FileSource>>::clone(&source), &options);
    let archive: Arc<dyn Archive> = Arc::from(archive.expect("just written"));
    let (sender, events) = unbounded();
    let facts = Facts { name: "million.nra".to_owned(), info: archive.info().clone(), ..Facts::default() };
    let state = State::new(facts, Theme::new(Background::Dark, Depth::True), Keymap::default(), SCREEN.0, SCREEN.1);
    let workers = Workers::start(&archive, &sender);
    let mut driver = Driver { state, workers, events, source, started: start, busy: false, slowest_response: Duration::ZERO };
    let effects = update::start(&mut driver.state);
    driver.perform(effects);
    while !driver.state.listing.loaded {
        let event = driver.events.recv().expect("the rows");
        let effects = driver.update(event);
        driver.perform(effects);
    }
    driver.draw();
    let shown = start.elapsed();
    let mut count = |driver: &Driver, step: &str, time: Duration| {
        let reads = driver.source.take();
        let bytes: u64 = reads.iter().map(|read| read.1).sum();
        println!("| {step} | {} | {bytes} | {:.1} |", reads.len(), time.as_secs_f64() * 1e3);
        if reads.len() > READS.0 || bytes > READS.1 {
            failures.push(format!("{step}: {} reads of {bytes} bytes in all", reads.len()));
        }
    };
    count(&driver, "opened, first rows drawn", shown);
    driver.settle();
    count(&driver, "its preview", Duration::ZERO);
    for key in STEPS {
        let before = Instant::now();
        driver.press(key);
        while driver.state.listing.is_waiting() {
            let event = driver.events.recv().expect("the rows");
            let effects = driver.update(event);
            driver.perform(effects);
        }
        let time = before.elapsed();
        driver.settle();
        count(&driver, key, time);
    }
    driver.press("t");
    driver.press("esc");
    driver.settle();
    driver
}

/// Measures the CPU time of keys: computing the new state and drawing it.
fn keys(driver: &mut Driver, when: &str, failures: &mut Vec<String>) {
    driver.slowest_response = Duration::ZERO;
    let mut slowest = (Duration::ZERO, "");
    for key in KEYS {
        if driver.busy && driver.state.jobs.running().next().is_none() {
            driver.press("V");
        }
        let pressed: Key = key.parse().expect("a key");
        let before = cpu_time();
        for _ in 0..TIMES {
            let mut state = driver.state.clone();
            drop(update::update(&mut state, Event::Key(pressed), driver.started.elapsed()));
            view(&state, driver.area(), &mut Buffer::empty(driver.area()));
        }
        let each = cpu_time().saturating_sub(before) / TIMES;
        slowest = slowest.max((each, key));
        if each > FRAME {
            failures.push(format!("{key} {when}: {each:?} of CPU"));
        }
        driver.press(key);
        driver.settle();
    }
    println!(
        "\n{} keys {when}: the slowest is {} with {:?} of CPU; the slowest response took {:?}",
        KEYS.len(),
        slowest.1,
        slowest.0,
        driver.slowest_response
    );
    if driver.slowest_response > FRAME {
        failures.push(format!("a response {when}: {:?} of CPU", driver.slowest_response));
    }
}

/// Searches all paths, letter by letter.
fn search(driver: &mut Driver, entries: u64, failures: &mut Vec<String>) {
    println!();
    driver.press("/");
    driver.settle();
    for letter in format!("{:06}", entries - 123).chars() {
        let (before, start) = (cpu_time(), Instant::now());
        driver.press(&letter.to_string());
        driver.draw();
        let cpu = cpu_time().saturating_sub(before);
        driver.settle();
        let all = start.elapsed().saturating_sub(QUIET * 2);
        println!("typed {letter}: {cpu:?} of CPU, all hits after {} ms", all.as_millis());
        if cpu > FRAME {
            failures.push(format!("typing {letter}: {cpu:?} of CPU"));
        }
    }
    driver.press("esc");
    driver.settle();
}

/// Rearranges the rows with some keys, and restores them with others.
fn arrange(driver: &mut Driver, what: &str, arrange: &str, restore: &str, failures: &mut Vec<String>) {
    driver.slowest_response = Duration::ZERO;
    let start = Instant::now();
    arrange.split(' ').for_each(|key| driver.press(key));
    while driver.state.arrangement.loading {
        driver.next();
    }
    println!("\n{what} after {} ms; the slowest response took {:?} of CPU", start.elapsed().as_millis(), driver.slowest_response);
    if driver.slowest_response > FRAME {
        failures.push(format!("a response until {what}: {:?} of CPU", driver.slowest_response));
    }
    driver.settle();
    restore.split(' ').for_each(|key| driver.press(key));
    driver.settle();
}

/// Extracts files until memory does not grow any more.
fn extract(driver: &mut Driver, target: &Path) {
    while driver.state.jobs.running().next().is_some() {
        driver.press("x");
        driver.next();
    }
    ["esc", "A", "e"].iter().for_each(|key| driver.press(key));
    let effects = driver.update(Event::Paste(target.display().to_string()));
    driver.perform(effects);
    driver.press("enter");
    let start = Instant::now();
    while driver.state.jobs.running().next().is_some() {
        if driver.done() >= EXTRACTED {
            driver.press("x");
        }
        driver.next();
    }
    let done = driver.done();
    println!("\n{done} files extracted after {} ms", start.elapsed().as_millis());
    assert!(done > 0, "nothing was extracted");
}

/// Returns the CPU time of this thread. Other work on the machine does not affect it.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux provides it");
    Duration::from_nanos(text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).expect("a number"))
}

/// Returns the elapsed time, because the CPU time is unknown.
#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Duration {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Prints the peak memory of this process, if the system provides it, and compares it with the budget.
fn memory(entries: u64, after: &str, failures: &mut Vec<String>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes =
        |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let Some((most, now)) = kibibytes("VmHWM:").zip(kibibytes("VmRSS:")) else { return };
    let (most, now) = (most * 1_024, now * 1_024);
    let budget = MEMORY.0 + MEMORY.1 * entries;
    println!(
        "\nafter {after}: {} MB, at most {} MB so far; the budget is {} MB",
        now / 1_000_000,
        most / 1_000_000,
        budget / 1_000_000
    );
    if most > budget {
        failures.push(format!("memory after {after}: {} MB of {} MB", most / 1_000_000, budget / 1_000_000));
    }
}
