//! Output of a command: the result as text or JSON, and messages through the [`Console`].

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anstream::ColorChoice;
use serde::Serialize;

use crate::args::{ColorWhen, GlobalArgs, ProgressWhen};
use crate::console::{Console, ConsoleOptions, warning_record};
use crate::exit_code::Code;
use crate::progress::{Progress, ProgressStyleChoice};
use crate::report::{CommandResult, Failure, Outcome};
use nra_format::Error;
use nra_format::path::is_unsafe_to_show;
use nra_format::progress::Severity;
use nra_text::{self, SizeStyle};

/// Bytes of output collected before they are written.
const BUFFER: usize = 64 << 10;

/// Longest time that output stays in the buffer while more is written.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Text, for people and line-based tools.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    JsonLines,
}

/// Output of a command: its result and its messages.
pub struct Ui {
    form: Form,
    sizes: SizeStyle,
    progress: ProgressStyleChoice,
    stdout_terminal: bool,
    stdout_color: bool,
    console: Arc<Console>,
    out: BufWriter<Box<dyn Write + Send>>,
    list: List,
    started: Instant,
    /// When buffered output was last written out.
    flushed: Instant,
}

/// State of the list in the JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    None,
    /// Announced (type, key), nothing written.
    Announced(&'static str, &'static str),
    /// The array is open.
    Open,
    /// The document is complete.
    Closed,
}

/// Last object of a command's JSON output.
#[derive(Serialize)]
struct FinalRecord<'a, T, W> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    record: Option<&'a str>,
    code: u8,
    #[serde(flatten)]
    fields: &'a T,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<W>,
}

impl Ui {
    /// Sets up standard output and standard error for the options.
    pub fn new(args: &GlobalArgs) -> CommandResult<Self> {
        let stdout = io::stdout();
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        let accessible = std::env::var_os("NRA_ACCESSIBLE").is_some_and(|value| !value.is_empty() && value != "0");
        let options = ConsoleOptions {
            quiet: args.quiet,
            verbose: args.verbose,
            terminal,
            color: color(args.color, || anstream::AutoStream::choice(&stderr)),
            interactive: terminal && io::stdin().is_terminal(),
            answer: args.answer(),
            accessible,
        };
        let log = match &args.log_file {
            Some(path) => {
                let open = File::options().create(true).append(true).open(path);
                Some(open.map_err(|error| Error::io("open", path.as_os_str().as_encoded_bytes(), error))?)
            }
            None => None,
        };
        let progress = match args.progress_when() {
            _ if args.quiet => ProgressStyleChoice::Off,
            ProgressWhen::Never => ProgressStyleChoice::Off,
            ProgressWhen::Json => ProgressStyleChoice::Json,
            ProgressWhen::Always if !terminal || accessible => ProgressStyleChoice::LINES,
            ProgressWhen::Auto if !terminal || accessible => ProgressStyleChoice::LATE_LINES,
            ProgressWhen::Auto | ProgressWhen::Always => ProgressStyleChoice::Bar,
        };
        // A separate handle: the standard library's handle flushes every line.
        let out: Box<dyn Write + Send> = match stdout.as_fd().try_clone_to_owned() {
            Ok(handle) => Box::new(File::from(handle)),
            Err(_) => Box::new(io::stdout()),
        };
        Ok(Self {
            form: if args.json {
                Form::Json
            } else if args.jsonl {
                Form::JsonLines
            } else {
                Form::Text
            },
            sizes: if args.bytes {
                SizeStyle::Exact
            } else if args.si {
                SizeStyle::Decimal
            } else {
                SizeStyle::Binary
            },
            progress,
            stdout_terminal: stdout.is_terminal(),
            stdout_color: color(args.color, || anstream::AutoStream::choice(&stdout)),
            console: Arc::new(Console::new(options, Box::new(io::stderr()), log)),
            out: BufWriter::with_capacity(BUFFER, out),
            list: List::None,
            started: Instant::now(),
            flushed: Instant::now(),
        })
    }

    /// Returns the form of the result.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns whether the result is JSON.
    pub fn is_json(&self) -> bool {
        self.form != Form::Text
    }

    /// Returns whether the result goes to a terminal.
    pub fn stdout_is_terminal(&self) -> bool {
        self.stdout_terminal
    }

    /// Checks that an archive may be written to standard output.
    /// Fails if the result is JSON, or if standard output is a terminal and `force` is not set.
    pub fn check_archive_output(&self, force: bool) -> CommandResult<()> {
        if self.is_json() {
            return Err(Failure::usage("cannot write both the archive and JSON to standard output"));
        }
        if self.stdout_terminal && !force {
            let failure = Failure::usage("cannot write an archive to a terminal");
            return Err(failure.hint("use -o FILE to write it to a file, or -f to force it"));
        }
        Ok(())
    }

    /// Returns whether the result may have colours.
    pub fn stdout_has_color(&self) -> bool {
        self.stdout_color && self.form == Form::Text
    }

    /// Returns the console for messages, to be shared with workers.
    pub fn console(&self) -> &Arc<Console> {
        &self.console
    }

    /// Returns the style of sizes.
    pub fn sizes(&self) -> SizeStyle {
        self.sizes
    }

    /// Returns a size as text.
    pub fn size(&self, bytes: u64) -> String {
        self.sizes.show(bytes)
    }

    /// Returns a size formatted for a column.
    pub fn column(&self, bytes: u64) -> String {
        self.sizes.column(bytes)
    }

    /// Returns the name of an entry formatted for a line of the result.
    pub fn name<'a>(&self, bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        nra_text::name(bytes, self.stdout_terminal)
    }

    /// Starts progress for an operation such as `packing`. Pass it to the library as monitor and
    /// drop it before the summary.
    pub fn progress(&self, verb: &'static str) -> Progress {
        Progress::begin(verb, self.progress, self.sizes, Arc::clone(&self.console))
    }

    /// Starts progress for opening an archive.
    pub fn opening(&self) -> Progress {
        Progress::prelude("opening", self.progress, self.sizes, Arc::clone(&self.console))
    }

    /// Returns standard output for raw bytes.
    pub fn out(&mut self) -> &mut (dyn Write + Send) {
        &mut self.out
    }

    /// Writes bytes to standard output.
    pub fn write(&mut self, bytes: &[u8]) -> CommandResult<()> {
        self.out.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Writes a line to standard output.
    pub fn line(&mut self, line: impl std::fmt::Display) -> CommandResult<()> {
        writeln!(self.out, "{line}").map_err(|error| Failure::output(&error))?;
        self.flush_if_due()
    }

    /// Writes a line that contains the name of an entry to standard output.
    pub fn name_line(&mut self, before: impl std::fmt::Display, name: &[u8], after: impl std::fmt::Display) -> CommandResult<()> {
        let name = self.name(name);
        let mut line = before.to_string().into_bytes();
        line.extend_from_slice(&name);
        line.extend_from_slice(after.to_string().as_bytes());
        line.push(b'\n');
        self.write(&line)?;
        self.flush_if_due()
    }

    /// Flushes the buffer from time to time, so that slow results appear as they are found.
    pub fn flush_if_due(&mut self) -> CommandResult<()> {
        // With a progress bar on the same screen, only whole lines may be written.
        let full = self.stdout_terminal && self.out.buffer().len() > BUFFER / 2;
        if !full && self.flushed.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.flush()
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> CommandResult<()> {
        let out = &mut self.out;
        let flushed = if self.stdout_terminal { self.console.without_bar(|| out.flush()) } else { out.flush() };
        flushed.map_err(|error| Failure::output(&error))
    }

    /// Declares that the JSON document has type `kind` and its records in an array `key`.
    pub fn list(&mut self, kind: &'static str, key: &'static str) {
        self.list = List::Announced(kind, key);
    }

    /// Writes a record: a line or an element of the array. Does nothing if the result is text.
    pub fn record(&mut self, record: &impl Serialize) -> CommandResult<()> {
        match self.form {
            Form::Text => Ok(()),
            Form::Json => {
                if self.list == List::Open {
                    self.write(b",\n")?;
                } else {
                    self.open_list()?;
                }
                self.json(record)
            }
            Form::JsonLines => {
                self.json(record)?;
                self.write(b"\n")?;
                self.flush_if_due()
            }
        }
    }

    fn open_list(&mut self) -> CommandResult<()> {
        if let List::Announced(kind, key) = self.list {
            self.write(b"{\"type\":")?;
            self.json(&kind)?;
            self.write(b",")?;
            self.json(&key)?;
            self.write(b":[\n")?;
        }
        self.list = List::Open;
        Ok(())
    }

    fn json(&mut self, value: &impl Serialize) -> CommandResult<()> {
        let json = serde_json::to_string(value).map_err(|error| Failure::output(&error.into()))?;
        self.write(escaped(&json).as_bytes())
    }

    /// Completes the result. In JSON, writes the last object, of type `kind` (`summary`), with
    /// `fields`, exit code and warnings. Returns `outcome`.
    pub fn finish(&mut self, outcome: Outcome, kind: &'static str, fields: &impl Serialize) -> CommandResult {
        let code = self.final_code(outcome).number();
        match self.form {
            Form::Text => {}
            Form::Json => {
                let warnings = self.console.take_warnings();
                let warnings: Vec<_> = warnings.iter().map(warning_record).collect();
                if self.list == List::None {
                    self.json(&FinalRecord { record: Some(kind), code, fields, warnings })?;
                } else {
                    self.close_list("summary", &FinalRecord { record: None, code, fields, warnings })?;
                }
                self.write(b"\n")?;
                self.list = List::Closed;
            }
            Form::JsonLines => {
                for warning in self.console.take_warnings() {
                    self.record(&warning_record(&warning))?;
                }
                self.record(&FinalRecord { record: Some(kind), code, fields, warnings: Vec::<()>::new() })?;
                self.list = List::Closed;
            }
        }
        Ok(outcome)
    }

    fn close_list(&mut self, key: &'static str, last: &impl Serialize) -> CommandResult<()> {
        if let List::Announced(..) = self.list {
            self.open_list()?;
        }
        self.write(b"\n],")?;
        self.json(&key)?;
        self.write(b":")?;
        self.json(last)?;
        self.write(b"}")
    }

    /// Returns the exit code for `outcome` and the warnings so far.
    pub fn final_code(&self, outcome: Outcome) -> Code {
        let warned = match self.console.severity() {
            Some(Severity::Damage) => Code::Damaged,
            Some(Severity::Degraded) => Code::Degraded,
            Some(Severity::Remark) | None => Code::Done,
        };
        warned.max(outcome.code())
    }

    /// Ends the command: prints a failure and returns the exit code.
    pub fn end(mut self, result: CommandResult) -> Code {
        let result = result.and_then(|outcome| self.flush().map(|()| outcome));
        self.console.finish_warnings();
        self.console.detail(2, || format!("took {}", nra_text::duration(self.started.elapsed())));
        match result {
            Ok(outcome) => self.final_code(outcome),
            Err(failure) if failure.is_closed_pipe() => Code::Done,
            Err(failure) => {
                // If writing to standard output failed, this fails again and is already reported.
                let _ = self.failure_record(&failure).and_then(|()| self.flush());
                self.console.failure(&failure);
                failure.code()
            }
        }
    }

    fn failure_record(&mut self, failure: &Failure) -> CommandResult<()> {
        match (self.form, self.list) {
            (Form::Text, _) | (_, List::Closed) => Ok(()),
            (Form::Json, List::Open) => {
                self.close_list("error", &failure.record())?;
                self.write(b"\n")
            }
            (Form::Json | Form::JsonLines, _) => {
                self.json(&failure.record())?;
                self.write(b"\n")
            }
        }
    }

    /// Returns a `Ui` that prints into buffers, for tests.
    #[cfg(test)]
    pub(crate) fn for_test(form: Form) -> (Self, SharedBuffer, SharedBuffer) {
        let (out, err) = (SharedBuffer::default(), SharedBuffer::default());
        let ui = Self {
            form,
            sizes: SizeStyle::Binary,
            progress: ProgressStyleChoice::Off,
            stdout_terminal: false,
            stdout_color: false,
            console: Arc::new(Console::new(ConsoleOptions::default(), Box::new(err.clone()), None)),
            out: BufWriter::new(Box::new(out.clone())),
            list: List::None,
            started: Instant::now(),
            flushed: Instant::now(),
        };
        (ui, out, err)
    }
}

/// Returns whether to use colours: by the option, then the environment (`NO_COLOR`,
/// `CLICOLOR_FORCE`, `CLICOLOR`), then whether the stream is a terminal.
fn color(when: ColorWhen, auto: impl FnOnce() -> ColorChoice) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => auto() != ColorChoice::Never,
    }
}

/// Escapes characters that could affect a terminal as `\\u`. In JSON they only occur in strings.
fn escaped(json: &str) -> std::borrow::Cow<'_, str> {
    if !json.contains(is_unsafe_to_show) {
        return json.into();
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_unsafe_to_show(c) {
            let mut units = [0; 2];
            text.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text.into()
}

/// Returns seconds with milliseconds, for summaries in JSON.
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Returns the end of a summary line: deduplicated share, skipped entries and time.
pub fn summary_end(stats: &nra_convert::Stats, elapsed: Duration) -> String {
    let written = &stats.written;
    let mut text = String::new();
    if written.deduplicated_bytes > 0 {
        text += &format!(", {} deduplicated", nra_text::percent(written.deduplicated_bytes, written.content_bytes));
    }
    if stats.skipped > 0 {
        text += &format!(", {} skipped", nra_text::count(stats.skipped));
    }
    text + &format!(", {}", nra_text::duration(elapsed))
}

/// A shared output buffer, for tests.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedBuffer(Arc<std::sync::Mutex<Vec<u8>>>);

#[cfg(test)]
impl SharedBuffer {
    /// Returns the written text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[cfg(test)]
impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nra_format::progress::Warning;

    #[test]
    fn json_contains_no_control_characters() {
        let name = "a\u{9b}31m\u{202e}b\u{7f}\u{e0041}\u{e9}";
        let json = serde_json::to_string(name).unwrap();
        let shown = escaped(&json);
        assert!(!shown.contains(is_unsafe_to_show));
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
    }

    #[derive(Serialize)]
    struct Record {
        n: u32,
    }

    fn run(form: Form, records: u32, result: CommandResult<()>) -> (String, String, Code) {
        let (mut ui, out, err) = Ui::for_test(form);
        ui.list("list", "entries");
        for n in 0..records {
            ui.record(&Record { n }).unwrap();
        }
        let result = result.and_then(|()| ui.finish(Outcome::Done, "summary", &Record { n: records }));
        let code = ui.end(result);
        (out.text(), err.text(), code)
    }

    #[test]
    fn json_document_is_complete_after_success_and_failure() {
        for records in 0..3 {
            for result in [Ok(()), Err(Failure::damaged("x"))] {
                let failed = result.is_err();
                let (out, err, code) = run(Form::Json, records, result);
                let value: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
                assert_eq!(err, if failed { "nra: x\n" } else { "" });
                assert_eq!(code, if failed { Code::Damaged } else { Code::Done });
                if failed {
                    let error = if records == 0 { &value } else { &value["error"] };
                    assert_eq!((&error["code"], &error["kind"]), (&4.into(), &"damaged".into()));
                } else {
                    assert_eq!(value["entries"].as_array().unwrap().len(), records as usize);
                    assert_eq!((&value["summary"]["n"], &value["summary"]["code"]), (&records.into(), &0.into()));
                }
            }
        }
    }

    #[test]
    fn json_lines_end_with_summary_or_error() {
        let (out, _, _) = run(Form::JsonLines, 2, Ok(()));
        assert_eq!(out, "{\"n\":0}\n{\"n\":1}\n{\"type\":\"summary\",\"code\":0,\"n\":2}\n");
        let (out, _, _) = run(Form::JsonLines, 1, Err(Failure::failed("x").hint("y")));
        assert_eq!(out, "{\"n\":0}\n{\"type\":\"error\",\"code\":1,\"kind\":\"failed\",\"message\":\"x\",\"hint\":\"y\"}\n");
    }

    #[test]
    fn warnings_raise_exit_code() {
        let (mut ui, out, err) = Ui::for_test(Form::Json);
        ui.console().warn(Warning::degraded(b"a", "x"));
        let result = ui.finish(Outcome::Done, "summary", &Record { n: 1 });
        assert_eq!(ui.end(result), Code::Degraded);
        assert_eq!(err.text(), "nra: warning: a: x\n");
        let value: serde_json::Value = serde_json::from_str(&out.text()).unwrap();
        assert_eq!(value["warnings"][0]["path"], "a");
        assert_eq!(value["code"], 3);
    }
}
