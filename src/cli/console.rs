//! Standard error: messages, warnings and questions. Shared between threads.
//!
//! Every line is printed through the console, which hides the progress bar meanwhile.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::record::record;
use crate::report::{CommandResult, Failure};
use crate::signals;

use nra_format::Error;
use nra_format::error::Subject;
use nra_format::progress::{Severity, Warning};
use nra_text::PathField;

/// Warnings with the same message that are printed; further ones are only counted.
const SHOWN_WARNINGS: u64 = 5;
/// Longest warning or failure, characters. The log file contains the full text.
const LONGEST_LINE: usize = 1_000;
/// Different messages that are counted separately.
const MAX_GROUPS: usize = 1_000;
/// Warnings kept for the JSON document.
const MAX_RECORDS: usize = 10_000;

/// How standard error is used.
#[derive(Debug, Clone, Default)]
pub struct ConsoleOptions {
    /// Print errors only.
    pub quiet: bool,
    /// 1: print every entry and warning, 2: timings, too.
    pub verbose: u8,
    /// Standard error is a terminal.
    pub terminal: bool,
    /// Styles may be used.
    pub color: bool,
    /// Questions can be asked.
    pub interactive: bool,
    /// The answer to all questions, if given.
    pub answer: Option<bool>,
    /// Print no bars and no line drawings.
    pub accessible: bool,
}

/// Standard error.
pub struct Console {
    options: ConsoleOptions,
    err: Mutex<Box<dyn Write + Send>>,
    log: Option<Mutex<File>>,
    screen: Mutex<Screen>,
    warnings: Mutex<Warnings>,
    waited: Mutex<Duration>,
}

/// The bottom of the screen.
#[derive(Debug, Default)]
struct Screen {
    bar: Option<ProgressBar>,
    /// A question is waiting for an answer, so no bar may be drawn.
    asking: bool,
}

#[derive(Debug, Default)]
struct Warnings {
    groups: Vec<Group>,
    /// The first warnings, for the JSON document.
    records: Vec<Warning>,
    /// The greatest severity of all warnings.
    severity: Option<Severity>,
}

/// Warnings with the same message.
#[derive(Debug)]
struct Group {
    message: String,
    count: u64,
    /// How many of them have been reported, singly or as a count.
    reported: u64,
}

/// Returns a warning as JSON.
pub fn warning_record(warning: &Warning) -> impl Serialize {
    let path = (!warning.path.is_empty()).then(|| PathField::new(&warning.path));
    let severity = match warning.severity {
        Severity::Remark => "remark",
        Severity::Degraded => "degraded",
        Severity::Damage => "damage",
    };
    record! { "warning" => ..path, message: &warning.message, severity }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Console {
    /// Creates a console that prints to `err`. `log` receives a copy of every line, including
    /// warnings that are only counted.
    pub fn new(options: ConsoleOptions, err: Box<dyn Write + Send>, log: Option<File>) -> Self {
        Self {
            options,
            err: Mutex::new(err),
            log: log.map(Mutex::new),
            screen: Mutex::default(),
            warnings: Mutex::default(),
            waited: Mutex::default(),
        }
    }

    /// Returns how standard error is used.
    pub fn options(&self) -> &ConsoleOptions {
        &self.options
    }

    /// Returns the level of `-v`.
    pub fn verbose(&self) -> u8 {
        self.options.verbose
    }

    /// Prints a line at any verbosity. Errors of printing are ignored.
    pub fn line(&self, line: &str) {
        self.log(line);
        self.print(line);
    }

    /// Prints a line unless `--quiet`, after the counts of pending warnings.
    pub fn note(&self, line: &str) {
        self.finish_warnings();
        self.log(line);
        if !self.options.quiet {
            self.print(line);
        }
    }

    /// Prints a line if the verbosity is at least `level`. `line` is called only if needed.
    pub fn detail(&self, level: u8, line: impl FnOnce() -> String) {
        if self.options.verbose >= level && !self.options.quiet {
            self.line(&line());
        }
    }

    fn log(&self, line: &str) {
        if let Some(log) = &self.log {
            let _ = writeln!(lock(log), "{line}");
        }
    }

    fn print(&self, line: &str) {
        self.without_bar(|| {
            let _ = lock(&self.err).write_all(format!("{line}\n").as_bytes());
        });
    }

    /// Hides the bar while `write` writes to the screen.
    pub(crate) fn without_bar<T>(&self, write: impl FnOnce() -> T) -> T {
        let screen = lock(&self.screen);
        match &screen.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Prints a failure.
    pub fn failure(&self, failure: &Failure) {
        for (number, (label, text)) in failure.labelled_lines().enumerate() {
            self.log(&format!("{label}: {text}"));
            let text = nra_text::shorten(text, LONGEST_LINE);
            if self.options.color {
                // Hints follow the error.
                let color = if number == 0 { AnsiColor::Red } else { AnsiColor::Cyan };
                let style = Style::new().bold().fg_color(Some(color.into()));
                self.print(&format!("{style}{label}:{style:#} {text}"));
            } else {
                self.print(&format!("{label}: {text}"));
            }
        }
    }

    /// Reports a warning: prints it, or only counts it if there were many with the same message.
    pub fn warn(&self, warning: Warning) {
        let line = nra_text::harmless(&format!("nra: warning: {warning}"));
        let show = {
            let mut warnings = lock(&self.warnings);
            warnings.severity = warnings.severity.max(Some(warning.severity));
            let seen = warnings.count(&warning.message);
            if warnings.records.len() < MAX_RECORDS {
                warnings.records.push(warning);
            }
            seen < SHOWN_WARNINGS || self.options.verbose > 0
        };
        self.log(&line);
        if show && !self.options.quiet {
            self.print(&nra_text::shorten(&line, LONGEST_LINE));
        }
    }

    /// Prints the counts of warnings that were not printed.
    pub fn finish_warnings(&self) {
        if self.options.quiet || self.options.verbose > 0 {
            return;
        }
        let lines: Vec<String> = lock(&self.warnings)
            .groups
            .iter_mut()
            .filter(|group| group.count > group.reported.max(SHOWN_WARNINGS))
            .map(|group| {
                let more = group.count - group.reported.max(SHOWN_WARNINGS);
                group.reported = group.count;
                format!("nra: warning: {} more: {} (use -v to list them)", nra_text::count(more), group.message)
            })
            .collect();
        for line in lines {
            self.print(&nra_text::harmless(&line));
        }
    }

    /// Returns the warnings for a JSON document, at most 10,000.
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut lock(&self.warnings).records)
    }

    /// Returns the greatest severity of all warnings so far.
    pub fn severity(&self) -> Option<Severity> {
        lock(&self.warnings).severity
    }

    /// Draws the bar, unless a question is shown.
    pub(crate) fn draw(&self, draw: impl FnOnce(&mut Option<ProgressBar>)) {
        let mut screen = lock(&self.screen);
        if !screen.asking {
            draw(&mut screen.bar);
        }
    }

    /// Removes the bar.
    pub(crate) fn clear_bar(&self) {
        if let Some(bar) = lock(&self.screen).bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Returns the time spent waiting for answers.
    pub fn waited(&self) -> Duration {
        *lock(&self.waited)
    }

    /// Asks a question with the answers `choices` (key, word). Enter selects `default`. `options`
    /// names the options that answer it in advance. Fails if there is no terminal (the failure
    /// names `options`) or the user interrupts.
    pub fn choose(&self, question: &str, choices: &[(char, &str)], default: char, options: &str) -> CommandResult<char> {
        let question = nra_text::harmless(question);
        if !self.options.interactive {
            return Err(Failure::failed(format!("{question} Cannot ask: no terminal")).hint(format!("use {options}")));
        }
        lock(&self.screen).asking = true;
        self.clear_bar();
        let asked = Instant::now();
        let answer = self.ask(&question, choices, default);
        *lock(&self.waited) += asked.elapsed();
        lock(&self.screen).asking = false;
        answer
    }

    fn ask(&self, question: &str, choices: &[(char, &str)], default: char) -> CommandResult<char> {
        let words: Vec<String> = choices.iter().map(|(key, word)| show_choice(*key, word)).collect();
        let prompt = format!("{question} {} (Enter = {default}) ", words.join(", "));
        loop {
            {
                let mut err = lock(&self.err);
                let _ = err.write_all(prompt.as_bytes()).and_then(|()| err.flush());
            }
            let answer = read_answer()?;
            let answer = answer.trim();
            if answer.is_empty() {
                return Ok(default);
            }
            let found = choices.iter().find(|(key, word)| *word == answer || answer.chars().eq([*key]));
            if let Some((key, _)) = found {
                return Ok(*key);
            }
        }
    }
}

/// Marks the key of a word: `[r]ename`, or `[R] rename all` if the word does not begin with it.
fn show_choice(key: char, word: &str) -> String {
    match word.strip_prefix(key) {
        Some(rest) => format!("[{key}]{rest}"),
        None => format!("[{key}] {word}"),
    }
}

/// Reads a line from standard input; an interrupt ends the wait.
fn read_answer() -> CommandResult<String> {
    let read = wait_for(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|length| (length > 0).then_some(line))
    });
    match read? {
        Ok(Some(line)) => Ok(line),
        Ok(None) => Err(Failure::failed("no answer: end of standard input")),
        Err(error) => Err(Error::io("read", Subject::StandardInput, error).into()),
    }
}

/// Calls `read` on another thread and waits for the result. An interrupt is an error.
pub fn wait_for<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> CommandResult<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody listens any more after an interrupt.
        let _ = sender.send(read());
    });
    loop {
        if signals::stopped() {
            return Err(Error::Cancelled.into());
        }
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::failed("no answer: nothing can be read")),
        }
    }
}

impl Warnings {
    /// Counts a warning. Returns how many with the same message preceded it.
    fn count(&mut self, message: &str) -> u64 {
        let at = match self.groups.iter().position(|group| group.message == message) {
            Some(at) => at,
            None if self.groups.len() < MAX_GROUPS => {
                self.groups.push(Group { message: message.to_owned(), count: 0, reported: 0 });
                self.groups.len() - 1
            }
            None => {
                // One additional group for all other messages.
                if self.groups.len() == MAX_GROUPS {
                    self.groups.push(Group { message: "other warnings".to_owned(), count: 0, reported: 0 });
                }
                MAX_GROUPS
            }
        };
        let seen = self.groups[at].count;
        self.groups[at].count += 1;
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::SharedBuffer;

    fn console(options: ConsoleOptions) -> (Console, SharedBuffer) {
        let buffer = SharedBuffer::default();
        (Console::new(options, Box::new(buffer.clone()), None), buffer)
    }

    fn warning(path: &str, message: &str) -> Warning {
        Warning::degraded(path, message)
    }

    #[test]
    fn repeated_warnings_are_counted() {
        let (console, buffer) = console(ConsoleOptions::default());
        for number in 0..417 {
            console.warn(warning(&format!("f{number}"), "permission denied"));
        }
        console.warn(warning("a\nb", "gone"));
        console.note("packed");
        console.finish_warnings();
        let text = buffer.text();
        let text = text.strip_suffix("packed\n").unwrap();
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(text.contains("nra: warning: f0: permission denied\n"));
        assert!(text.contains("nra: warning: $'a\\nb': gone\n"));
        assert!(text.ends_with("nra: warning: 412 more: permission denied (use -v to list them)\n"), "{text}");
        assert_eq!(console.severity(), Some(Severity::Degraded));
        assert_eq!(console.take_warnings().len(), 418);
    }

    #[test]
    fn verbose_prints_all_warnings_and_quiet_none() {
        let (loud, buffer) = console(ConsoleOptions { verbose: 1, ..ConsoleOptions::default() });
        let (quiet, nothing) = console(ConsoleOptions { quiet: true, ..ConsoleOptions::default() });
        for number in 0..20 {
            loud.warn(warning(&number.to_string(), "x"));
            quiet.warn(warning(&number.to_string(), "x"));
        }
        loud.finish_warnings();
        quiet.finish_warnings();
        assert_eq!(buffer.text().lines().count(), 20);
        assert_eq!(nothing.text(), "");
        assert_eq!(quiet.severity(), Some(Severity::Degraded));
    }

    #[test]
    fn question_without_terminal_names_option() {
        let (console, _) = console(ConsoleOptions::default());
        let failure = console.choose("Replace a.nra?", &[('y', "yes"), ('n', "no")], 'n', "--yes or --no").unwrap_err();
        assert_eq!(failure.code().number(), 1);
        assert!(failure.lines().iter().any(|line| line == "hint: use --yes or --no"), "{failure:?}");
        assert_eq!(show_choice('r', "rename"), "[r]ename");
    }
}
