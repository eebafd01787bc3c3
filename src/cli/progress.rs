//! How far long work has come: a bar, plain lines or JSON lines on standard error.
//!
//! Workers only raise atomic counters; a thread of its own looks at them ten times a second and draws.

mod snapshot;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::Console;
use crate::signals::{self, CleanStop};
use nra_format::path::Quoted;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_text::{self, SizeStyle};
use snapshot::{Snapshot, fitting};

/// Work shorter than this shows no bar.
const QUIET_START: Duration = Duration::from_millis(250);
/// Between two looks at the counters.
const TICK: Duration = Duration::from_millis(100);
/// A total that has not grown for this long is taken for the whole: while inputs are still being found a percentage would lie.
const SETTLED: Duration = Duration::from_millis(150);
/// Between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(30);
/// Work longer than this shows plain lines even where no bar can be.
const LONG_RUN: Duration = Duration::from_secs(60);
/// Between two JSON lines.
const JSON_EVERY: Duration = Duration::from_secs(1);
/// Columns of a terminal that does not tell how many it has.
const COLUMNS: usize = 80;
/// Characters of a bar at most; below the least there is none.
const BAR: std::ops::RangeInclusive<usize> = 4..=24;
/// Work that has not stopped this long after the first interrupt says that it heard it.
const PATIENCE: Duration = Duration::from_secs(1);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStyleChoice {
    /// Nothing.
    Off,
    /// A bar on a terminal.
    Bar,
    /// A line every 30 seconds, from `after` on.
    Lines {
        /// Work shorter than this shows nothing.
        after: Duration,
    },
    /// A JSON object a second, and one at the end.
    Json,
}

impl ProgressStyleChoice {
    /// Lines that begin at once.
    pub const LINES: Self = Self::Lines { after: Duration::ZERO };
    /// Lines for long work only.
    pub const LATE_LINES: Self = Self::Lines { after: LONG_RUN };
}

/// Counters of one piece of work, and the thread that shows them. The work is over when this is dropped.
pub struct Progress {
    state: Arc<State>,
    ticker: Mutex<Option<JoinHandle<()>>>,
    _clean_stop: CleanStop,
}

struct State {
    verb: &'static str,
    console: Arc<Console>,
    sizes: SizeStyle,
    /// It goes before other work, and says nothing when it is short.
    is_prelude: bool,
    started: Instant,
    /// Time that answers were waited for before.
    waited: Duration,
    done: [AtomicU64; 3],
    expected: [AtomicU64; 3],
    current: Mutex<Vec<u8>>,
    over: Mutex<bool>,
    wake: Condvar,
}

/// Watches whether totals still grow.
struct Totals {
    seen: [u64; 3],
    since: Instant,
}

impl Totals {
    fn settled(&mut self, now: [u64; 3]) -> bool {
        if self.seen != now {
            *self = Self { seen: now, since: Instant::now() };
        }
        self.since.elapsed() >= SETTLED
    }
}

impl Progress {
    /// Begins to show work named `verb` (`packing`).
    pub fn begin(verb: &'static str, style: ProgressStyleChoice, sizes: SizeStyle, console: Arc<Console>) -> Self {
        Self::start(verb, style, sizes, console, false)
    }

    /// As [`Progress::begin`], for what goes before other work: of short one nothing is said.
    pub fn prelude(verb: &'static str, style: ProgressStyleChoice, sizes: SizeStyle, console: Arc<Console>) -> Self {
        Self::start(verb, style, sizes, console, true)
    }

    fn start(verb: &'static str, style: ProgressStyleChoice, sizes: SizeStyle, console: Arc<Console>, is_prelude: bool) -> Self {
        let waited = console.waited();
        let state = Arc::new(State {
            verb,
            console,
            waited,
            is_prelude,
            sizes,
            started: Instant::now(),
            done: Default::default(),
            expected: Default::default(),
            current: Mutex::default(),
            over: Mutex::default(),
            wake: Condvar::new(),
        });
        let shown = Arc::clone(&state);
        // Without the thread there is no bar, but the work can go on.
        let ticker = std::thread::Builder::new().name("progress".into()).spawn(move || shown.show(style)).ok();
        Self { state, ticker: Mutex::new(ticker), _clean_stop: CleanStop::begin() }
    }

    /// Returns what was counted and what is expected, for tests.
    #[cfg(test)]
    pub(crate) fn counted(&self, counter: Counter) -> (u64, u64) {
        let State { done, expected, .. } = &*self.state;
        (done[counter as usize].load(Ordering::Relaxed), expected[counter as usize].load(Ordering::Relaxed))
    }

    /// Returns how long the work has lasted, without the time that users took to answer.
    pub fn elapsed(&self) -> Duration {
        self.state.elapsed()
    }

    /// Takes the bar away and stops showing anything.
    pub fn finish(&self) {
        *self.state.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.state.wake.notify_all();
        let ticker = self.ticker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ticker) = ticker {
            // A panic of the drawing thread has been reported by the hook.
            let _ = ticker.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Monitor for Progress {
    fn add(&self, counter: Counter, amount: u64) {
        self.state.done[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    fn expect(&self, counter: Counter, amount: u64) {
        self.state.expected[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    fn current(&self, path: &[u8]) {
        self.state.console.detail(1, || Quoted::new(path).to_string());
        // Whoever finds it locked has a name that is as good as the next one.
        if let Ok(mut current) = self.state.current.try_lock() {
            current.clear();
            current.extend_from_slice(path);
        }
    }

    fn warn(&self, warning: Warning) {
        self.state.console.warn(warning);
    }

    fn cancelled(&self) -> bool {
        signals::stopped()
    }
}

/// What the screen knows of an interrupt.
enum Stopping {
    No,
    Since(Instant),
    Told,
}

/// Returns the width of the terminal on standard error.
fn columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => COLUMNS,
    }
}

impl State {
    fn elapsed(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.console.waited().saturating_sub(self.waited))
    }

    /// Shows progress until the work is over.
    fn show(&self, style: ProgressStyleChoice) {
        let mut totals = Totals { seen: [0; 3], since: self.started };
        let mut last_line = match style {
            ProgressStyleChoice::Lines { after } => self.started + after,
            _ => self.started,
        };
        let mut stopping = Stopping::No;
        loop {
            let over = self.wait();
            let settled = totals.settled(self.expected.each_ref().map(|total| total.load(Ordering::Relaxed)));
            // Whoever asked just before the end gets an answer, too.
            if signals::take_status_request() {
                self.console.line(&self.snapshot(settled).line(self.sizes));
            }
            if over {
                // Short work gives one line as well.
                if style == ProgressStyleChoice::Json && !self.is_prelude {
                    self.print_json(settled);
                }
                break;
            }
            let now = Instant::now();
            if signals::stopped() {
                match stopping {
                    Stopping::No => stopping = Stopping::Since(now),
                    Stopping::Since(since) if now - since >= PATIENCE => {
                        self.console.note("nra: stopping after the block in work; interrupt again to stop at once");
                        stopping = Stopping::Told;
                    }
                    Stopping::Since(_) | Stopping::Told => {}
                }
            }
            match style {
                ProgressStyleChoice::Off => {}
                ProgressStyleChoice::Bar if now - self.started >= QUIET_START => {
                    self.console.draw(|bar| self.draw(bar.get_or_insert_with(new_bar), settled));
                }
                ProgressStyleChoice::Bar => {}
                ProgressStyleChoice::Lines { .. } if now.saturating_duration_since(last_line) >= LINE_EVERY => {
                    last_line = now;
                    self.console.line(&self.snapshot(settled).line(self.sizes));
                }
                ProgressStyleChoice::Lines { .. } => {}
                ProgressStyleChoice::Json if now - last_line >= JSON_EVERY => {
                    last_line = now;
                    self.print_json(settled);
                }
                ProgressStyleChoice::Json => {}
            }
        }
        self.console.clear_bar();
    }

    fn print_json(&self, settled: bool) {
        if let Ok(line) = serde_json::to_string(&self.snapshot(settled)) {
            self.console.line(&line);
        }
    }

    /// Waits for the next look; true when the work is over.
    fn wait(&self) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let (over, _) = self.wake.wait_timeout_while(over, TICK, |over| !*over).unwrap_or_else(PoisonError::into_inner);
        *over
    }

    fn draw(&self, bar: &ProgressBar, settled: bool) {
        let now = self.snapshot(settled);
        // One column stays free: a character in the last one makes some terminals wrap.
        let columns = columns().saturating_sub(1);
        let figures = now.figures(self.sizes);
        let width = figures.iter().map(|figure| figure.chars().count() + 2).sum::<usize>().saturating_sub(2);
        let name = now
            .path
            .as_deref()
            .map_or_else(String::new, |path| format!("\n  {}", nra_text::shorten(path, columns.saturating_sub(2))));
        let room = columns.saturating_sub(self.verb.len() + width + "  [] ".len()).min(*BAR.end());
        let parts = now.parts().filter(|_| room >= *BAR.start());
        // Every change may draw: words first, then the bar they belong to.
        bar.set_prefix(self.verb);
        bar.set_message(format!("{}{name}", fitting(&figures, columns.saturating_sub(self.verb.len() + 3))));
        match parts {
            Some((part, whole)) => {
                bar.set_style(style(&format!("{{prefix}} [{{bar:{room}}}] {{msg}}")));
                bar.set_length(whole);
                bar.set_position(part.min(whole));
            }
            None => {
                bar.set_style(style("{spinner} {prefix} {msg}"));
                bar.tick();
            }
        }
    }

    /// Returns what has been done, with totals if they are known.
    fn snapshot(&self, settled: bool) -> Snapshot {
        let done = |counter: Counter| self.done[counter as usize].load(Ordering::Relaxed);
        let expected = |counter: Counter| {
            Some(self.expected[counter as usize].load(Ordering::Relaxed)).filter(|&total| settled && total > 0)
        };
        let elapsed = self.elapsed();
        let path = self.current.try_lock().ok().filter(|path| !path.is_empty()).map(|path| Quoted::new(&*path).to_string());
        let mut snapshot = Snapshot {
            record: "progress",
            verb: self.verb,
            entries: done(Counter::Entries),
            total_entries: expected(Counter::Entries),
            bytes: done(Counter::Bytes),
            total_bytes: expected(Counter::Bytes),
            input_bytes: Some(done(Counter::Input)).filter(|&input| input > 0),
            total_input_bytes: expected(Counter::Input),
            seconds: elapsed.as_secs(),
            eta_seconds: None,
            path,
            is_prelude: self.is_prelude,
        };
        snapshot.eta_seconds = snapshot.eta(elapsed);
        snapshot
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style("{spinner} {prefix} {msg}"));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are valid").progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::ConsoleOptions;
    use crate::ui::SharedBuffer;

    #[test]
    fn counters_need_no_screen() {
        let buffer = SharedBuffer::default();
        let console = Arc::new(Console::new(ConsoleOptions::default(), Box::new(buffer.clone()), None));
        let progress = Progress::begin("packing", ProgressStyleChoice::Off, SizeStyle::Binary, console);
        progress.add(Counter::Entries, 2);
        progress.expect(Counter::Bytes, 5);
        let now = progress.state.snapshot(true);
        assert_eq!((now.entries, now.total_bytes), (2, Some(5)));
        progress.finish();
        assert_eq!(buffer.text(), "");
    }
}
