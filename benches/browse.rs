//! What the browser costs on an archive of a million entries: reads, CPU of keys, memory.
//!
//! `cargo bench --bench browse` writes an archive of 1,000,000 files in one directory to a temporary file and goes through it key by key, with the threads
//! of the browser and without a terminal: `-- --entries N` makes another one, `-- --test` a small one. Reads, the CPU of the thread that takes keys
//! and draws, and the most memory have budgets, beyond which it fails; other programs on the machine do not change them. Times are printed. The same
//! in a real terminal: `tests/tui/measure.py`. Figures: `docs/benchmarks.md`.

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
use nra_tui::update::{start, update};
use nra_tui::view::view;
use nra_tui::workers::Workers;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Entries of the archive unless the command line says otherwise, and with `--test`.
const ENTRIES: (u64, u64) = (1_000_000, 20_000);
/// Bound for decoded blocks and pages, bytes: as the browser sets it.
const CACHE: u64 = 16 << 20;
/// The screen.
const SCREEN: (u16, u16) = (120, 40);
/// CPU of a key, or of what the threads answer to it, at most: a frame.
const FRAME: Duration = Duration::from_millis(16);
/// Reads that a step may make, and their bytes.
const READS: (usize, u64) = (24, 1 << 20);
/// The most memory that the browser may take, bytes: whatever the archive, and for each of its entries. 100 MB for a million.
const MEMORY: (u64, u64) = (50_000_000, 50);
/// Files that are extracted before that is stopped: what the rest takes it has by then.
const EXTRACTED: u64 = 5_000;
/// Times a key is taken for its figure: the system counts CPU in steps of some milliseconds.
const TIMES: u32 = 20;
/// Nothing has come for so long: nothing more comes.
const QUIET: Duration = Duration::from_millis(80);
/// What comes all the time is not awaited longer.
const PATIENCE: Duration = Duration::from_millis(400);

/// Keys that go about, in the order in which they are pressed.
const STEPS: [&str; 10] = ["enter", "j", "pagedown", "G", "pageup", "g", "ctrl-d", "space", "A", "t"];
/// Keys that are measured, each from where the one before has led.
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
        write(Path::new(&words[at + 1]), number("--entries").expect("the caller tells"));
        return ExitCode::SUCCESS;
    }
    let entries = number("--entries").unwrap_or(if words.iter().any(|word| word == "--test") { ENTRIES.1 } else { ENTRIES.0 });

    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("million.nra");
    // In another process, for what that takes is not memory of the browser.
    let this = std::env::current_exe().expect("this program");
    let status = Command::new(this).arg("--write").arg(&path).arg("--entries").arg(entries.to_string()).status();
    assert!(status.expect("this program starts").success(), "the archive is not written");

    let mut failures = Vec::new();
    let mut driver = look_around(&path, entries, &mut failures);
    keys(&mut driver, "alone", &mut failures);
    memory(entries, "looking around", &mut failures);
    search(&mut driver, entries, &mut failures);
    memory(entries, "searching all paths", &mut failures);
    arrange(&mut driver, "all rows sorted by size", "s s", "s n", &mut failures);
    memory(entries, "sorting all rows", &mut failures);
    arrange(&mut driver, "what has its content in common listed", "D", "D", &mut failures);
    memory(entries, "listing duplicates", &mut failures);
    driver.busy = true;
    keys(&mut driver, "while the archive is verified", &mut failures);
    memory(entries, "verifying", &mut failures);
    extract(&mut driver, &directory.path().join("out"));
    memory(entries, "extracting", &mut failures);
    for failure in &failures {
        eprintln!("beyond its budget: {failure}");
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// Writes the archive: small files with times, in one directory, which is what is hardest to list, to sort and to search.
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
    /// The archive is verified all the time.
    busy: bool,
    /// The most CPU that this thread took for what the threads answered at once.
    answers: Duration,
}

impl Driver {
    fn area(&self) -> Rect {
        self.state.screen
    }

    fn take(&mut self, event: Event) -> Vec<Effect> {
        update(&mut self.state, event, self.started.elapsed())
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        self.workers.publish(&self.state.requests);
        for effect in effects {
            // What concerns the terminal has none.
            drop(self.workers.perform(effect));
        }
    }

    /// Returns how many entries the last job has done.
    fn done(&self) -> u64 {
        self.state.jobs.list.last().map_or(0, |job| job.progress.entries)
    }

    fn draw(&self) {
        view(&self.state, self.area(), &mut Buffer::empty(self.area()));
    }

    fn press(&mut self, key: &str) {
        let key: Key = key.parse().expect("a key");
        let effects = self.take(Event::Key(key));
        self.perform(effects);
    }

    /// Waits for what a thread answers, takes it and draws.
    fn next(&mut self) {
        let event = self.events.recv().expect("something comes");
        self.answer(event);
    }

    /// Takes what a thread has answered and draws.
    fn answer(&mut self, event: Event) {
        let before = on_the_processor();
        let effects = self.take(event);
        self.draw();
        self.answers = self.answers.max(on_the_processor().saturating_sub(before));
        self.perform(effects);
    }

    /// Takes what the threads answer until nothing comes any more.
    fn settle(&mut self) {
        let begun = Instant::now();
        let mut rested = false;
        loop {
            let event = match self.events.recv_timeout(QUIET) {
                Ok(event) => event,
                // A preview is asked for when the cursor rests.
                Err(_) if !rested => {
                    rested = true;
                    Event::Tick
                }
                Err(_) => return,
            };
            self.answer(event);
            let awaited = self.state.listing.is_waiting() || self.state.arrangement.loading;
            if self.busy && !awaited && begun.elapsed() > PATIENCE {
                return;
            }
        }
    }
}

/// Opens the archive and walks about in it: reads of each step.
fn look_around(path: &Path, entries: u64, failures: &mut Vec<String>) -> Driver {
    println!("{entries} entries\n\n| step | reads | bytes | ms |\n| --- | --- | --- | --- |");
    let begun = Instant::now();
    let source = Arc::new(RecordingSource::new(FileSource::open(path).expect("just written")));
    let options = OpenOptions { cache_bytes: CACHE, ..OpenOptions::default() };
    let archive = open(Arc::<RecordingSource<FileSource>>::clone(&source), &options);
    let archive: Arc<dyn Archive> = Arc::from(archive.expect("just written"));
    let (sender, events) = unbounded();
    let facts = Facts { name: "million.nra".to_owned(), info: archive.info().clone(), ..Facts::default() };
    let state = State::new(facts, Theme::new(Background::Dark, Depth::True), Keymap::default(), SCREEN.0, SCREEN.1);
    let workers = Workers::start(&archive, &sender);
    let mut driver = Driver { state, workers, events, source, started: begun, busy: false, answers: Duration::ZERO };
    let effects = start(&mut driver.state);
    driver.perform(effects);
    while !driver.state.listing.loaded {
        let event = driver.events.recv().expect("the rows come");
        let effects = driver.take(event);
        driver.perform(effects);
    }
    driver.draw();
    let shown = begun.elapsed();
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
            let event = driver.events.recv().expect("the rows come");
            let effects = driver.take(event);
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

/// Measures keys: the new state and its drawing, on the thread that does both.
fn keys(driver: &mut Driver, when: &str, failures: &mut Vec<String>) {
    driver.answers = Duration::ZERO;
    let mut slowest = (Duration::ZERO, "");
    for key in KEYS {
        if driver.busy && driver.state.jobs.running().next().is_none() {
            driver.press("V");
        }
        let pressed: Key = key.parse().expect("a key");
        let before = on_the_processor();
        for _ in 0..TIMES {
            let mut state = driver.state.clone();
            drop(update(&mut state, Event::Key(pressed), driver.started.elapsed()));
            view(&state, driver.area(), &mut Buffer::empty(driver.area()));
        }
        let each = on_the_processor().saturating_sub(before) / TIMES;
        slowest = slowest.max((each, key));
        if each > FRAME {
            failures.push(format!("{key} {when}: {each:?} of CPU"));
        }
        driver.press(key);
        driver.settle();
    }
    println!(
        "\n{} keys {when}: the slowest is {} with {:?} of CPU; the slowest answer took {:?}",
        KEYS.len(),
        slowest.1,
        slowest.0,
        driver.answers
    );
    if driver.answers > FRAME {
        failures.push(format!("an answer {when}: {:?} of CPU", driver.answers));
    }
}

/// Searches all paths, letter by letter.
fn search(driver: &mut Driver, entries: u64, failures: &mut Vec<String>) {
    println!();
    driver.press("/");
    driver.settle();
    for letter in format!("{:06}", entries - 123).chars() {
        let (before, begun) = (on_the_processor(), Instant::now());
        driver.press(&letter.to_string());
        driver.draw();
        let cpu = on_the_processor().saturating_sub(before);
        driver.settle();
        let all = begun.elapsed().saturating_sub(QUIET * 2);
        println!("typed {letter}: {cpu:?} of CPU, all hits after {} ms", all.as_millis());
        if cpu > FRAME {
            failures.push(format!("typing {letter}: {cpu:?} of CPU"));
        }
    }
    driver.press("esc");
    driver.settle();
}

/// Puts the rows into another order and back: the keys go on meanwhile.
fn arrange(driver: &mut Driver, what: &str, there: &str, back: &str, failures: &mut Vec<String>) {
    driver.answers = Duration::ZERO;
    let begun = Instant::now();
    there.split(' ').for_each(|key| driver.press(key));
    while driver.state.arrangement.loading {
        driver.next();
    }
    println!("\n{what} after {} ms; the slowest answer took {:?} of CPU", begun.elapsed().as_millis(), driver.answers);
    if driver.answers > FRAME {
        failures.push(format!("an answer until {what}: {:?} of CPU", driver.answers));
    }
    driver.settle();
    back.split(' ').for_each(|key| driver.press(key));
    driver.settle();
}

/// Extracts everything, but stops when that does not take more memory any longer.
fn extract(driver: &mut Driver, target: &Path) {
    while driver.state.jobs.running().next().is_some() {
        driver.press("x");
        driver.next();
    }
    ["esc", "A", "e"].iter().for_each(|key| driver.press(key));
    let effects = driver.take(Event::Paste(target.display().to_string()));
    driver.perform(effects);
    driver.press("enter");
    let begun = Instant::now();
    while driver.state.jobs.running().next().is_some() {
        if driver.done() >= EXTRACTED {
            driver.press("x");
        }
        driver.next();
    }
    let done = driver.done();
    println!("\n{done} files extracted after {} ms", begun.elapsed().as_millis());
    assert!(done > 0, "nothing was extracted");
}

/// Returns the CPU that this thread has had, which other work on the machine does not lengthen.
#[cfg(target_os = "linux")]
fn on_the_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the system tells");
    Duration::from_nanos(text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).expect("a number"))
}

/// Elsewhere the clock has to do.
#[cfg(not(target_os = "linux"))]
fn on_the_processor() -> Duration {
    use std::sync::OnceLock;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
}

/// Prints the most memory that this process has had so far, where the system tells, and compares it with its budget.
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
