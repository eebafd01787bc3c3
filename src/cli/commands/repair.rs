//! `nra repair`

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;

use crate::args::parse_memory;
use crate::changing::{explain, newest, refuse_same};
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_convert::compact::Target;
use nra_convert::repair::{MEMORY_BYTES, Report, repair, survey};
use nra_format::Error;
use nra_format::path::Quoted;
use nra_text::{self, ArchiveField};

/// Damaged ranges that are shown unless `-v` asks for all that are known.
const SHOWN: usize = 10;

/// Arguments of `nra repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra repair photos.nra -n
  nra repair photos.nra
  nra repair photos.nra -o whole.nra")]
pub struct Args {
    /// Archive to repair
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Write to OUT and leave the archive as it is
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force", requires = "output")]
    overwrite: bool,
    /// Tell what is damaged and write nothing
    ///
    /// The exit code is 0 if nothing is, 3 if all of it can be restored, 4 if not.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Memory to work with (64M, 1.5G), 32M at least
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, hide_short_help = true)]
    memory: Option<u64>,
}

/// What was found and done, for programs.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    archive: ArchiveField,
    dry_run: bool,
    /// Everything is as it was written.
    whole: bool,
    /// All that is damaged can be restored, or was.
    restorable: bool,
    /// The restored archive was written.
    written: bool,
    percent: u32,
    damaged_bytes: u64,
    damaged_shards: u64,
    shard_bytes: u32,
    damaged_parities: u64,
    recovery_data_whole: bool,
    groups: u32,
    lost_groups: u64,
    /// Damaged ranges, the first of them.
    ranges: Vec<RangeRecord>,
}

#[derive(Debug, Serialize)]
struct RangeRecord {
    offset: u64,
    length: u64,
}

/// Restores the exact bytes of a damaged archive.
///
/// # Errors
///
/// When there is no recovery data, more is damaged than it restores, or a file can't be read or written. The archive is as it was then.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = newest(&args.archive)?;
    refuse_same(&path, args.output.as_deref(), "without -o it is repaired")?;
    let name = Quoted::new(path.as_os_str().as_bytes()).to_string();
    let target = match &args.output {
        Some(output) => Target::File { path: output.clone(), overwrite: args.overwrite },
        None => Target::InPlace,
    };
    let memory = args.memory.unwrap_or(MEMORY_BYTES);
    let progress = ui.progress("repairing");
    let found = if args.dry_run { survey(&path, &progress) } else { repair(&path, &target, memory, &progress) };
    drop(progress);
    let Some(report) = found.map_err(|error| failure(error, &name))? else {
        let failure = Failure::failed(format!("{name} has no recovery data"));
        return Err(
            failure.hint(format!("nra verify {name} tells what is damaged; nra protect adds recovery data to whole archives"))
        );
    };
    let written = !args.dry_run && report.is_restorable() && (args.output.is_some() || !report.is_whole());
    if !ui.is_json() {
        ranges(&report, ui)?;
    }
    ui.flush()?;
    if !report.is_restorable() {
        beyond(&report, &name, ui);
    } else {
        let line = said(&report, args, &name, ui);
        ui.console().note(&line);
    }
    let outcome = match (report.is_restorable(), args.dry_run && !report.is_whole()) {
        (false, _) => Outcome::Damaged,
        (true, true) => Outcome::Degraded,
        (true, false) => Outcome::Done,
    };
    let geometry = report.geometry;
    let summary = Summary {
        archive: ArchiveField::new(args.output.as_ref().filter(|_| written).unwrap_or(&path)),
        dry_run: args.dry_run,
        whole: report.is_whole(),
        restorable: report.is_restorable(),
        written,
        percent: geometry.percent,
        damaged_bytes: report.damaged_bytes,
        damaged_shards: report.damaged_shards,
        shard_bytes: geometry.shard_len,
        damaged_parities: report.damaged_parities,
        recovery_data_whole: report.recovery_is_whole,
        groups: geometry.groups,
        lost_groups: report.lost_groups,
        ranges: report.damaged.iter().map(|&(offset, length)| RangeRecord { offset, length }).collect(),
    };
    ui.finish(outcome, "summary", &summary)
}

/// Lists what is damaged.
fn ranges(report: &Report, ui: &mut Ui) -> CommandResult<()> {
    let shown = if ui.console().verbose() > 0 { usize::MAX } else { SHOWN };
    for (offset, length) in report.damaged.iter().take(shown) {
        let size = ui.size(*length);
        ui.line(format_args!("damaged: {size} at offset {offset}"))?;
    }
    let rest = report.damaged.len().saturating_sub(shown);
    if rest > 0 {
        ui.line(format_args!("    and {} more places", nra_text::count(rest as u64)))?;
    }
    Ok(())
}

fn said(report: &Report, args: &Args, name: &str, ui: &Ui) -> String {
    if report.is_whole() {
        return match &args.output {
            Some(_) if !args.dry_run => format!("{name}: nothing is damaged; copied"),
            _ => format!("{name}: nothing is damaged"),
        };
    }
    let mut what = Vec::new();
    if report.damaged_bytes > 0 {
        what.push(ui.size(report.damaged_bytes));
    }
    if !report.recovery_is_whole {
        what.push("recovery data".to_owned());
    }
    if report.behind > 0 {
        what.push(format!("{} behind the end", ui.size(report.behind)));
    }
    let what = what.join(" and ");
    if args.dry_run { format!("{name}: damaged: {what}; all of it can be restored") } else { format!("{name}: restored: {what}") }
}

fn beyond(report: &Report, name: &str, ui: &Ui) {
    let (lost, left) = report.worst;
    let shard = u64::from(report.geometry.shard_len);
    let (lost, left) = (ui.size(lost * shard), ui.size(left * shard));
    let groups = match report.geometry.groups {
        1 => String::new(),
        groups => format!(" in {} of {} groups; in the worst", report.lost_groups, nra_text::count(groups.into())),
    };
    let damaged = ui.size(report.damaged_bytes);
    let message = format!(
        "{name}: {damaged} is damaged, more than the recovery data of {} % restores{groups}: {lost} of at most {left}; nothing was changed",
        report.geometry.percent
    );
    ui.console().failure(&Failure::damaged(message).hint(format!("nra salvage {name} -o OUT takes out what still reads")));
}

fn failure(error: Error, name: &str) -> Failure {
    let exists = matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists);
    let failure = explain(error, name);
    if exists { failure.hint("-f replaces it, -o chooses another name") } else { failure }
}
