//! `nra repair`

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;

use crate::args::parse_memory;
use crate::change::{check_different_file, explain, writable_path};
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_convert::compact::Target;
use nra_convert::repair::{MEMORY_BYTES, Report, repair, survey};
use nra_format::Error;
use nra_format::path::Quoted;
use nra_text::{self, ArchiveField};

/// Damaged ranges printed without `-v`.
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
    /// Write to OUT instead of changing the archive
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force", requires = "output")]
    overwrite: bool,
    /// Show what is damaged without writing anything
    ///
    /// The exit code is 0 without damage, 3 if all damage can be restored, 4 if not.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Limit memory use to SIZE, at least 32M (64M, 1.5G)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, hide_short_help = true)]
    memory: Option<u64>,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    archive: ArchiveField,
    dry_run: bool,
    /// Nothing was damaged.
    undamaged: bool,
    /// All damage can be restored or was restored.
    restorable: bool,
    /// The restored archive was written.
    written: bool,
    percent: u32,
    damaged_bytes: u64,
    damaged_shards: u64,
    shard_bytes: u32,
    damaged_parity_shards: u64,
    recovery_data_undamaged: bool,
    groups: u32,
    unrecoverable_groups: u64,
    /// The first damaged ranges.
    damaged_ranges: Vec<RangeRecord>,
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
/// If there is no recovery data, the damage exceeds it, or a file cannot be read or written. The archive stays unchanged.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = writable_path(&args.archive)?;
    check_different_file(&path, args.output.as_deref(), "omit -o to repair in place")?;
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
        return Err(failure
            .hint(format!("use nra verify {name} to list the damage; nra protect adds recovery data to undamaged archives")));
    };
    let written = !args.dry_run && report.is_restorable() && (args.output.is_some() || !report.is_whole());
    if !ui.is_json() {
        ranges(&report, ui)?;
    }
    ui.flush()?;
    if !report.is_restorable() {
        report_unrecoverable(&report, &name, ui);
    } else {
        let line = summary_line(&report, args, &name, ui);
        ui.console().note(&line);
    }
    let outcome = match (report.is_restorable(), args.dry_run && !report.is_whole()) {
        (false, _) => Outcome::Damaged,
        (true, true) => Outcome::Degraded,
        (true, false) => Outcome::Done,
    };
    let geometry = report.recovery_header;
    let summary = Summary {
        archive: ArchiveField::new(args.output.as_ref().filter(|_| written).unwrap_or(&path)),
        dry_run: args.dry_run,
        undamaged: report.is_whole(),
        restorable: report.is_restorable(),
        written,
        percent: geometry.percent,
        damaged_bytes: report.damaged_bytes,
        damaged_shards: report.damaged_shards,
        shard_bytes: geometry.shard_len,
        damaged_parity_shards: report.damaged_parity_shards,
        recovery_data_undamaged: report.recovery_is_whole,
        groups: geometry.groups,
        unrecoverable_groups: report.lost_groups,
        damaged_ranges: report.damaged.iter().map(|&(offset, length)| RangeRecord { offset, length }).collect(),
    };
    ui.finish(outcome, "summary", &summary)
}

/// Prints the damaged ranges.
fn ranges(report: &Report, ui: &mut Ui) -> CommandResult<()> {
    let shown = if ui.console().verbose() > 0 { usize::MAX } else { SHOWN };
    for (offset, length) in report.damaged.iter().take(shown) {
        let size = ui.size(*length);
        ui.line(format_args!("damaged: {size} at offset {offset}"))?;
    }
    let rest = report.damaged.len().saturating_sub(shown);
    if rest > 0 {
        ui.line(format_args!("    and {} more ranges", nra_text::count(rest as u64)))?;
    }
    Ok(())
}

fn summary_line(report: &Report, args: &Args, name: &str, ui: &Ui) -> String {
    if report.is_whole() {
        return match &args.output {
            Some(_) if !args.dry_run => format!("{name}: no damage found; copied"),
            _ => format!("{name}: no damage found"),
        };
    }
    let mut what = Vec::new();
    if report.damaged_bytes > 0 {
        what.push(ui.size(report.damaged_bytes));
    }
    if !report.recovery_is_whole {
        what.push("recovery data".to_owned());
    }
    if report.trailing_bytes > 0 {
        what.push(format!("{} past the end", ui.size(report.trailing_bytes)));
    }
    let what = what.join(" and ");
    if args.dry_run { format!("{name}: damaged: {what}; all of it can be restored") } else { format!("{name}: restored: {what}") }
}

fn report_unrecoverable(report: &Report, name: &str, ui: &Ui) {
    let (lost, left) = report.worst_group;
    let shard = u64::from(report.recovery_header.shard_len);
    let (lost, left) = (ui.size(lost * shard), ui.size(left * shard));
    let groups = match report.recovery_header.groups {
        1 => String::new(),
        groups => format!(" in {} of {} groups; in the worst one", report.lost_groups, nra_text::count(groups.into())),
    };
    let damaged = ui.size(report.damaged_bytes);
    let message = format!(
        "{name}: damage of {damaged} exceeds the recovery data of {} %{groups}: {lost} lost, at most {left} can be restored; nothing was changed",
        report.recovery_header.percent
    );
    ui.console().failure(&Failure::damaged(message).hint(format!("use nra salvage {name} -o OUT to recover readable entries")));
}

fn failure(error: Error, name: &str) -> Failure {
    let exists = matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists);
    let failure = explain(error, name);
    if exists { failure.hint("use -f to replace it, or -o for another name") } else { failure }
}
