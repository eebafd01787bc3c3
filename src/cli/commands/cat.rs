//! `nra cat`

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use base64::Engine as _;

use crate::archive_errors;
use crate::args::{ArchiveArg, ListArgs, ResourceArgs};
use crate::exit_code::Code;
use crate::inputs;
use crate::listing::Totals;
use crate::open_archive::{self, Opened};
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_format::Error;
use nra_format::archive::{Access, Part};
use nra_format::entry::{Entry, Kind};
use nra_format::error::Subject;
use nra_format::path::{Quoted, normal};
use nra_format::progress::{Severity, Warning};
use nra_format::zeros::each_zero;
use nra_text::{self, PathField};

/// Bytes read at once.
const STEP: u64 = 1 << 20;
/// Longest content in a JSON string, bytes.
const JSON_LIMIT: u64 = 64 << 20;

/// Arguments of `nra cat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra cat photos.nra train/0001.json
  nra cat photos.nra a.txt b.txt > both.txt
  nra cat model.nra model.safetensors --range 0-7 | xxd")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// Files to print, concatenated
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    paths: Vec<OsString>,
    #[command(flatten)]
    lists: ListArgs,
    /// Print only bytes A to B (inclusive), A- or the last -N
    #[arg(long, value_name = "A-B", value_parser = parse_range, allow_hyphen_values = true)]
    range: Option<ByteRange>,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// A range of bytes as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteRange {
    /// First and last byte.
    Between(u64, u64),
    /// From a byte on.
    From(u64),
    /// The last bytes.
    Last(u64),
}

fn parse_range(text: &str) -> Result<ByteRange, String> {
    let bad = || "invalid range (examples: 0-99, 100-, -100)".to_owned();
    let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
    match text.split_once('-').ok_or_else(bad)? {
        ("", last) => Ok(ByteRange::Last(number(last)?)),
        (first, "") => Ok(ByteRange::From(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last { Err("the range ends before it starts".to_owned()) } else { Ok(ByteRange::Between(first, last)) }
        }
    }
}

impl ByteRange {
    /// Returns start and exclusive end within content of `size` bytes.
    fn within(self, size: u64) -> (u64, u64) {
        let (start, end) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1)),
            Self::From(first) => (first, size),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (start.min(size), end.min(size))
    }
}

/// Prints content.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    ui.list("cat", "contents");
    let mut totals = Totals::default();
    // The worst failure so far, or the last of several equal ones.
    let mut worst: Option<PathFailure> = None;
    let listed = inputs::listed(&args.lists)?;
    let named = args.paths.iter().map(|path| nra_text::unquoted(path.as_bytes()));
    for path in named.chain(listed.iter().map(|path| Cow::Borrowed(&**path))) {
        match print_path(&path, args, &opened, ui) {
            Ok(length) => {
                totals.entries += 1;
                totals.content_bytes += length;
            }
            // Continue with the other entries.
            Err(failed) if failed.failure.is_about_entry() => {
                ui.flush()?;
                let is_worse = worst.as_ref().is_none_or(|worst| failed.failure.code() >= worst.failure.code());
                let other = if is_worse { worst.replace(failed) } else { Some(failed) };
                other.into_iter().for_each(|failed| ui.console().warn(failed.warning()));
            }
            Err(failed) => {
                worst.into_iter().for_each(|failed| ui.console().warn(failed.warning()));
                return Err(failed.failure);
            }
        }
    }
    ui.flush()?;
    open_archive::report_remarks(&opened, ui);
    match worst {
        // Some entries were printed, so a missing one is a warning.
        Some(failed) if totals.entries > 0 => ui.console().warn(failed.warning()),
        Some(failed) => return Err(failed.failure),
        None => {}
    }
    ui.finish(Outcome::Done, "summary", &totals)
}

/// A path whose content was not printed completely.
struct PathFailure {
    path: Vec<u8>,
    reason: String,
    failure: Failure,
}

impl PathFailure {
    fn new(path: &[u8], reason: impl Into<String>, failure: Failure) -> Self {
        Self { path: path.to_vec(), reason: reason.into(), failure }
    }

    fn warning(self) -> Warning {
        let severity = if self.failure.code() == Code::Damaged { Severity::Damage } else { Severity::Degraded };
        Warning::new(severity, self.path, self.reason)
    }
}

/// Prints the requested range of one file. Returns the number of bytes.
fn print_path(path: &[u8], args: &Args, opened: &Opened, ui: &mut Ui) -> Result<u64, PathFailure> {
    let entry = find_file(path, opened)?;
    let (start, end) = match args.range {
        Some(ByteRange::Between(first, _) | ByteRange::From(first)) if first > entry.size => {
            let reason = format!("range starts past the end of the file ({})", nra_text::counted(entry.size, "byte", "bytes"));
            let failure = Failure::failed(format!("{}: {}: {reason}", opened.name, entry.path));
            return Err(PathFailure::new(path, reason, failure));
        }
        Some(range) => range.within(entry.size),
        None => (0, entry.size),
    };
    if ui.is_json() { print_json(&entry, start, end, opened, ui) } else { print(&entry, start, end, opened, ui) }?;
    Ok(end - start)
}

/// Looks up a path, which must be a file.
fn find_file(path: &[u8], opened: &Opened) -> Result<Entry, PathFailure> {
    let (name, shown) = (&opened.name, Quoted::new(path));
    match opened.archive.find_entry(normal(path)) {
        Ok(Some(entry)) if entry.kind == Kind::File => Ok(entry),
        Ok(Some(entry)) => {
            let what = match entry.kind {
                Kind::Symlink => format!("symlink to {}", Quoted::new(&entry.target)),
                kind => nra_text::kind(kind).to_owned(),
            };
            let reason = format!("not a file but a {what}");
            let failure = Failure::failed(format!("{name}: {shown}: {reason}"));
            Err(PathFailure::new(path, reason, failure))
        }
        Ok(None) => Err(PathFailure::new(path, "entry not found", open_archive::not_found(path, opened))),
        Err(error) => Err(PathFailure::new(path, error.to_string(), archive_errors::explain(error, name))),
    }
}

/// Prints a range of the content.
fn print(entry: &Entry, start: u64, end: u64, opened: &Opened, ui: &mut Ui) -> Result<(), PathFailure> {
    let failed = |error: io::Error| Error::io("write", Subject::StandardOutput, error);
    let mut printed = 0;
    let result = if (start, end) == (0, entry.size) {
        let out = ui.out();
        opened.archive.with_content(entry, Access::Random, &mut |part| {
            let (length, written) = match part {
                Part::Data(bytes) => (bytes.len() as u64, out.write_all(bytes)),
                Part::Hole(length) => (length, each_zero(length, |zeros| out.write_all(zeros))),
            };
            printed += length;
            written.map_err(failed)
        })
    } else {
        let mut copy = || {
            let mut buffer = vec![0; usize::try_from((end - start).min(STEP)).expect("at most 1 MiB")];
            let mut offset = start;
            while offset < end {
                let wanted = usize::try_from((end - offset).min(STEP)).expect("at most 1 MiB");
                let read = opened.archive.read_at(entry, offset, &mut buffer[..wanted])?;
                if read == 0 {
                    break;
                }
                ui.out().write_all(&buffer[..read]).map_err(failed)?;
                offset += read as u64;
                printed += read as u64;
            }
            Ok(())
        };
        copy()
    };
    result.map_err(|error| {
        let reason = error.to_string();
        let failure = archive_errors::explain_entry(error, &opened.name, entry);
        if printed == 0 || !failure.is_about_entry() {
            return PathFailure::new(entry.path.as_bytes(), reason, failure);
        }
        let part = format!("{} printed before the error", nra_text::counted(printed, "byte", "bytes"));
        PathFailure::new(entry.path.as_bytes(), format!("{reason}; {part}"), failure.hint(part))
    })
}

fn print_json(entry: &Entry, start: u64, end: u64, opened: &Opened, ui: &mut Ui) -> Result<(), PathFailure> {
    let (length, path) = (end - start, entry.path.as_bytes());
    if length > JSON_LIMIT {
        let reason = format!("{length} bytes are too large for JSON output");
        let failure = Failure::failed(format!("{}: {reason}", entry.path)).hint("use --range to print a part, or omit --json");
        return Err(PathFailure::new(path, reason, failure));
    }
    let mut content = vec![0; usize::try_from(length).expect("at most 64 MiB")];
    let read = opened.archive.read_at(entry, start, &mut content);
    let read = read
        .map_err(|error| PathFailure::new(path, error.to_string(), archive_errors::explain_entry(error, &opened.name, entry)))?;
    content.truncate(read);
    let text = std::str::from_utf8(&content).ok();
    let base64 = text.is_none().then(|| base64::engine::general_purpose::STANDARD.encode(&content));
    let record = record! { "content" => ..PathField::new(path), offset: start, length, text, base64 };
    ui.record(&record).map_err(|failure| PathFailure::new(path, "", failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_zero_based_and_inclusive() {
        for (text, size, expected) in [
            ("0-0", 10, (0, 1)),
            ("0-99", 10, (0, 10)),
            ("3-", 10, (3, 10)),
            ("-3", 10, (7, 10)),
            ("-30", 10, (0, 10)),
            ("20-30", 10, (10, 10)),
            ("0-18446744073709551615", 5, (0, 5)),
        ] {
            assert_eq!(parse_range(text).unwrap().within(size), expected, "{text}");
        }
        for text in ["", "-", "5", "3-2", "a-b", "1-2-3"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
