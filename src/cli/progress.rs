//! Progress on standard error: a bar, plain lines or JSON lines.
//!
//! Workers increment atomic counters. A separate thread draws them ten times a second.

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

/// Delay before the bar appears.
const QUIET_START: Duration = Duration::from_millis(250);
/// Interval between reads of the counters.
const TICK: Duration = Duration::from_millis(100);
/// A total is final if it has not grown for this long. Before, a percentage would be wrong.
const SETTLED: Duration = Duration::from_millis(150);
/// Interval between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(30);
/// Delay before plain lines appear without a terminal.
const LONG_RUN: Duration = Duration::from_secs(60);
/// Interval between JSON lines.
const JSON_EVERY: Duration = Duration::from_secs(1);
/// Columns of a terminal of unknown width.
const COLUMNS: usize = 80;
/// Width of the bar, characters. With less space there is no bar.
const BAR: std::ops::RangeInclusive<usize> = 4..=24;
/// Delay after the first interrupt before a message confirms it.
const PATIENCE: Duration = Duration::from_secs(1);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStyleChoice {
    /// None.
    Off,
    /// A bar on a terminal.
    Bar,
    /// A line every 30 seconds, starting after `after`.
    Lines {
        /// Delay before the first line.
        after: Duration,
    },
    /// A JSON object every second and one at the end.
    Json,
}

impl ProgressStyleChoice {
    /// Lines from the start.
    pub const LINES: Self = Self::Lines { after: Duration::ZERO };
    /// Lines for long operations only.
    pub const LATE_LINES: Self = Self::Lines { after: LONG_RUN };
}

/// Counters of an operation and the thread that shows them. Dropping it ends the operation.
pub struct Progress {
    state: Arc<State>,
    ticker: Mutex<Option<JoinHandle<()>>>,
    _clean_stop: CleanStop,
}

struct State {
    verb: &'static str,
    console: Arc<Console>,
    sizes: SizeStyle,
    /// It precedes the main operation and shows nothing if it is short.
    is_prelude: bool,
    started: Instant,
    /// Time spent waiting for answers before the start.
    waited: Duration,
    done: [AtomicU64; 3],
    expected: [AtomicU64; 3],
    current: Mutex<Vec<u8>>,
    over: Mutex<bool>,
    wake: Condvar,
}

/// Detects whether totals still grow.
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
    /// Starts showing an operation such as `packing`.
    pub fn begin(verb: &'static str, style: ProgressStyleChoice, sizes: SizeStyle, console: Arc<Console>) -> Self {
        Self::start(verb, style, sizes, console, false)
    }

    /// As [`Progress::begin`], for a preparation that shows nothing if it is short.
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
        // Without the thread there is no bar, but the operation can continue.
        let ticker = std::thread::Builder::new().name("progress".into()).spawn(move || shown.show(style)).ok();
        Self { state, ticker: Mutex::new(ticker), _clean_stop: CleanStop::begin() }
    }

    /// Returns count and expected total, for tests.
    #[cfg(test)]
    pub(crate) fn counted(&self, counter: Counter) -> (u64, u64) {
        let State { done, expected, .. } = &*self.state;
        (done[counter as usize].load(Ordering::Relaxed), expected[counter as usize].load(Ordering::Relaxed))
    }

    /// Returns the elapsed time, without the time spent waiting for answers.
    pub fn elapsed(&self) -> Duration {
        self.state.elapsed()
    }

    /// Ends the operation and returns the elapsed time, without the time spent waiting for answers.
    pub fn end(self) -> Duration {
        self.finish();
        self.elapsed()
    }

    /// Removes the bar and stops showing progress.
    pub fn finish(&self) {
        *self.state.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.state.wake.notify_all();
        let ticker = self.ticker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ticker) = ticker {
            // The hook has reported a panic of the drawing thread.
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
        // If it is locked, the name just set is as good as this one.
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

/// Reaction to an interrupt.
enum Stopping {
    No,
    Since(Instant),
    Reported,
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

    /// Shows progress until the operation ends.
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
            // Answer a status request that arrived just before the end.
            if signals::take_status_request() {
                self.console.line(&self.snapshot(settled).line(self.sizes));
            }
            if over {
                // Short operations print one line, too.
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
                        self.console.note("nra: stopping after the current block; interrupt again to stop immediately");
                        stopping = Stopping::Reported;
                    }
                    Stopping::Since(_) | Stopping::Reported => {}
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

    /// Waits for the next tick. Returns whether the operation has ended.
    fn wait(&self) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let (over, _) = self.wake.wait_timeout_while(over, TICK, |over| !*over).unwrap_or_else(PoisonError::into_inner);
        *over
    }

    fn draw(&self, bar: &ProgressBar, settled: bool) {
        let now = self.snapshot(settled);
        // Leave one column free: some terminals wrap after the last one.
        let columns = columns().saturating_sub(1);
        let figures = now.figures(self.sizes);
        let width = figures.iter().map(|figure| figure.chars().count() + 2).sum::<usize>().saturating_sub(2);
        let name = now
            .path
            .as_deref()
            .map_or_else(String::new, |path| format!("\n  {}", nra_text::shorten(path, columns.saturating_sub(2))));
        let room = columns.saturating_sub(self.verb.len() + width + "  [] ".len()).min(*BAR.end());
        let parts = now.parts().filter(|_| room >= *BAR.start());
        // Every change may redraw, so set the text before the bar.
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

    /// Returns the current counts, with totals if they are known.
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
    fn counters_work_without_screen() {
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
