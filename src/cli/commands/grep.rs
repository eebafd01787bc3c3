//! `nra grep`

mod search;

use std::fmt::Write as _;

use rayon::prelude::*;
use regex::bytes::{Regex, RegexBuilder};
use serde::Serialize;

use crate::args::{ArchiveArg, PatternArgs, ResourceArgs};
use crate::commands::grep::search::{Found, Hit, Hits, SearchMode};

use crate::inputs;
use crate::open_archive::{self, Opened};
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{Form, Ui};
use nra_format::Error;
use nra_format::entry::{Entry, Kind};
use nra_format::progress::{Counter, Monitor};
use nra_text::{self, PathField};

/// Files searched before results are printed.
const WINDOW: usize = 1_024;
/// Content of these files, bytes: limits the delay of the first result.
const WINDOW_BYTES: u64 = 256 << 20;

/// Arguments of `nra grep`.
#[derive(Debug, clap::Args)]
// grep's own letters apply: -x means whole lines.
#[command(mut_arg("exclude", |exclude| exclude.short(None)), after_help = "\
Examples:
  nra grep logs.nra 'error|panic' '**/*.log'
  nra grep source.nra todo -il
  nra grep runs.nra 'lr=0\\.1' -c")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// Regular expression to search for, line by line
    ///
    /// Lines longer than 1 MiB are searched in parts of 1 MiB: a match across two parts is not found, and only the first matching part is printed. For a file with a NUL byte, nra prints only that it matches, after any lines already printed.
    #[arg(value_name = "REGEX")]
    regex: String,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Print only the paths of matching files
    #[arg(short = 'l', long)]
    files_with_matches: bool,
    /// Print only the number of matching lines
    #[arg(short, long, conflicts_with = "files_with_matches")]
    count: bool,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Print line numbers
    #[arg(short = 'n', long)]
    line_number: bool,
    /// Search for REGEX as plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Match only whole words
    #[arg(short, long)]
    word_regexp: bool,
    /// Match only whole lines
    #[arg(short = 'x', long)]
    line_regexp: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    files_searched: u64,
    files_matched: u64,
    /// Matching lines in completely searched files.
    matches: u64,
    content_bytes: u64,
}

/// Searches content.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    // As with grep, code 1 means that nothing was found.
    search_archive(args, ui).map_err(Failure::with_code_2)
}

fn search_archive(args: &Args, ui: &mut Ui) -> CommandResult {
    // grep users expect -v to invert the match and might not notice that it does not.
    if ui.console().verbose() > 0 {
        let failure = Failure::usage("grep: -v (inverted matching) is not supported");
        return Err(failure.hint("use nra cat ARCHIVE PATH | grep -v REGEX"));
    }
    let regex = compile(args)?;
    let opened = open_archive::open(&args.archive, &args.resources, ui).map_err(|failure| with_order_hint(failure, args))?;
    let selection = inputs::selection(&args.patterns)?;
    let pool = open_archive::thread_pool(&args.resources, &*opened.archive)?;
    ui.list("grep", "matches");
    let quiet = ui.console().options().quiet && ui.form() == Form::Text;
    let mode = if args.files_with_matches || quiet {
        SearchMode::FirstMatch
    } else if args.count {
        SearchMode::Count
    } else {
        SearchMode::Lines
    };
    let mut summary = Summary::default();
    // On a terminal, the printed lines show progress; a bar would interfere.
    let progress = if ui.stdout_is_terminal() { None } else { Some(ui.progress("searching")) };
    let monitor = progress.as_ref().map(|progress| progress as &dyn Monitor);
    let mut entries = opened.entries(&selection, ui)?;
    let mut seen = false;
    loop {
        let (window, any) = next_window(&mut entries)?;
        seen |= any;
        if window.is_empty() {
            break;
        }
        let results = pool.install(|| search_window(&window, &regex, mode, &opened, monitor));
        for (entry, result) in window.iter().zip(results) {
            let Some((found, hits)) = opened.intact(result, entry, ui.console())? else { continue };
            let found = if hits.overflow {
                // More lines than the buffer holds: search again and print them as they are found.
                let Some(found) = print_as_found(entry, args, &regex, &opened, ui)? else { continue };
                found
            } else {
                if found.matches > 0 && !quiet {
                    print(entry, &found, &hits, args, mode, &regex, ui)?;
                }
                found
            };
            summary.files_searched += 1;
            summary.content_bytes = summary.content_bytes.saturating_add(entry.size);
            summary.files_matched += u64::from(found.matches > 0);
            summary.matches += found.matches;
        }
        if quiet && summary.matches > 0 {
            break;
        }
        if ui.stdout_is_terminal() {
            ui.flush()?;
        }
    }
    drop(entries);
    drop(progress);
    ui.flush()?;
    if !quiet || summary.matches == 0 {
        open_archive::conclude(&opened, &selection, seen, ui)?;
    }
    ui.finish(if summary.matches > 0 { Outcome::Done } else { Outcome::Nothing }, "summary", &summary)
}

/// Adds a hint if the arguments seem to be in the order of grep.
fn with_order_hint(failure: Failure, args: &Args) -> Failure {
    let looks_swapped = !args.archive.archive.exists() && std::path::Path::new(&args.regex).is_file();
    if looks_swapped {
        failure.hint(format!("put the archive first: nra grep {} REGEX", nra_format::path::Quoted::new(&args.regex)))
    } else {
        failure
    }
}

fn compile(args: &Args) -> CommandResult<Regex> {
    let mut expression = if args.fixed_strings { regex::escape(&args.regex) } else { args.regex.clone() };
    if args.word_regexp {
        expression = format!(r"\b(?:{expression})\b");
    }
    if args.line_regexp {
        expression = format!(r"^(?:{expression})$");
    }
    let built = RegexBuilder::new(&expression).multi_line(true).case_insensitive(args.ignore_case).build();
    built.map_err(|error| {
        let why = error.to_string();
        // The last line of the parser's message contains the reason.
        let why = why.lines().next_back().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::usage(format!("invalid regular expression {}: {why}", nra_format::path::Quoted::new(&args.regex)))
            .hint("use -F to search for plain text")
    })
}

/// Returns the next files in path order, and whether there were any entries.
fn next_window(entries: impl Iterator<Item = CommandResult<Entry>>) -> CommandResult<(Vec<Entry>, bool)> {
    let (mut window, mut bytes, mut any) = (Vec::new(), 0u64, false);
    for entry in entries {
        let entry = entry?;
        any = true;
        if entry.kind == Kind::File {
            bytes = bytes.saturating_add(entry.size);
            window.push(entry);
        }
        if window.len() >= WINDOW || bytes >= WINDOW_BYTES {
            break;
        }
    }
    Ok((window, any))
}

/// Index of an entry in path order, and the result of its search.
type Searched = (usize, Result<(Found, Hits), Error>);

/// Searches files in storage order on all threads. The results are in the order of `window`.
fn search_window(
    window: &[Entry],
    regex: &Regex,
    mode: SearchMode,
    opened: &Opened,
    monitor: Option<&dyn Monitor>,
) -> Vec<Result<(Found, Hits), Error>> {
    let mut order: Vec<usize> = (0..window.len()).collect();
    order.sort_by_key(|&index| window[index].position());
    let mut results: Vec<Searched> = order
        .into_par_iter()
        .map(|index| {
            let entry = &window[index];
            let result = match monitor.map(|monitor| monitor.check()) {
                Some(Err(error)) => Err(error),
                _ => search_buffered(entry, regex, mode, opened),
            };
            if let Some(monitor) = monitor {
                monitor.add(Counter::Entries, 1);
                monitor.add(Counter::Bytes, entry.size);
            }
            (index, result)
        })
        .collect();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Searches a file and buffers matching lines, or stops if there are too many.
fn search_buffered(entry: &Entry, regex: &Regex, mode: SearchMode, opened: &Opened) -> Result<(Found, Hits), Error> {
    let mut hits = Hits::default();
    match search::search(&*opened.archive, entry, regex, mode, &mut |hit| hits.push(hit)) {
        Ok(found) => Ok((found, hits)),
        Err(Error::Cancelled) if hits.overflow => Ok((Found::default(), hits)),
        Err(error) => Err(error),
    }
}

/// Searches a file and prints matches as they are found. Returns `None` for a damaged file.
fn print_as_found(entry: &Entry, args: &Args, regex: &Regex, opened: &Opened, ui: &mut Ui) -> CommandResult<Option<Found>> {
    let mut failure = None;
    let result = search::search(&*opened.archive, entry, regex, SearchMode::Lines, &mut |hit| {
        print_hit(entry, hit, args, regex, ui).map_err(|why| {
            failure = Some(why);
            Error::Cancelled
        })
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let found = opened.intact(result, entry, ui.console())?;
    if found.as_ref().is_some_and(|found| found.binary) {
        print_binary(entry, ui)?;
    }
    Ok(found)
}

/// Prints the result of one file.
fn print(
    entry: &Entry,
    found: &Found,
    hits: &Hits,
    args: &Args,
    mode: SearchMode,
    regex: &Regex,
    ui: &mut Ui,
) -> CommandResult<()> {
    let path = entry.path.as_bytes();
    if mode == SearchMode::Lines {
        // Print no lines, so that the output does not depend on block boundaries.
        return if found.binary {
            print_binary(entry, ui)
        } else {
            hits.iter().try_for_each(|hit| print_hit(entry, hit, args, regex, ui))
        };
    }
    if ui.is_json() {
        let matches = (mode == SearchMode::Count).then_some(found.matches);
        return ui.record(&record! { "file" => ..PathField::new(path), binary: found.binary, matches });
    }
    if mode == SearchMode::FirstMatch && args.patterns.lists.null {
        ui.write(path)?;
        return ui.write(b"\0");
    }
    let count = if mode == SearchMode::Count { format!(":{}", found.matches) } else { String::new() };
    let (style, plain) = name_style(ui);
    ui.name_line(style, path, plain + &count)
}

/// Prints that a binary file matches.
fn print_binary(entry: &Entry, ui: &mut Ui) -> CommandResult<()> {
    let path = entry.path.as_bytes();
    if ui.is_json() {
        return ui.record(&record! { "file" => ..PathField::new(path), binary: true });
    }
    let (style, plain) = name_style(ui);
    ui.name_line(style, path, plain + ": binary file matches")
}

/// Prints a matching line.
fn print_hit(entry: &Entry, hit: Hit<'_>, args: &Args, regex: &Regex, ui: &mut Ui) -> CommandResult<()> {
    let path = entry.path.as_bytes();
    if ui.is_json() {
        let text = String::from_utf8_lossy(hit.text).into_owned();
        return ui.record(&record! { "match" => ..PathField::new(path), line: hit.line, offset: hit.offset, text });
    }
    let (style, plain) = name_style(ui);
    let mut line = style.into_bytes();
    line.extend_from_slice(&ui.name(path));
    line.extend_from_slice(plain.as_bytes());
    if args.line_number {
        line.extend_from_slice(format!(":{}", hit.line).as_bytes());
    }
    line.push(b':');
    push_highlighted(hit.text, regex, ui, &mut line);
    line.push(b'\n');
    ui.write(&line)?;
    ui.flush_if_due()
}

/// Returns the escape sequences before and after a path.
fn name_style(ui: &Ui) -> (String, String) {
    if ui.stdout_has_color() { (NAME.to_string(), format!("{NAME:#}")) } else { Default::default() }
}

/// Style of paths.
const NAME: anstyle::Style = anstyle::AnsiColor::Magenta.on_default();
/// Style of matches.
const MATCH: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

/// Appends a line with highlighted matches: escaped for a terminal, raw otherwise.
fn push_highlighted(text: &[u8], regex: &Regex, ui: &Ui, line: &mut Vec<u8>) {
    let add = |line: &mut Vec<u8>, part: &[u8]| match ui.stdout_is_terminal() {
        true => line.extend_from_slice(harmless_bytes(part).as_bytes()),
        false => line.extend_from_slice(part),
    };
    let mut end = 0;
    if ui.stdout_has_color() {
        for found in regex.find_iter(text).filter(|found| !found.is_empty()) {
            add(line, &text[end..found.start()]);
            line.extend_from_slice(MATCH.to_string().as_bytes());
            add(line, found.as_bytes());
            line.extend_from_slice(format!("{MATCH:#}").as_bytes());
            end = found.end();
        }
    }
    add(line, &text[end..]);
}

/// Returns bytes as text. Tabs stay; other control characters and invalid UTF-8 are escaped.
fn harmless_bytes(bytes: &[u8]) -> String {
    let mut line = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (number, part) in chunk.valid().split('\t').enumerate() {
            if number > 0 {
                line.push('\t');
            }
            line.push_str(&nra_text::harmless(part));
        }
        for byte in chunk.invalid() {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_contain_no_control_characters() {
        assert_eq!(harmless_bytes(b"a\tb\x1b[0m\xff"), "a\tb\\x1b[0m\\xff");
    }
}
