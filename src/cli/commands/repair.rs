//! `nra repair`

use std::path::PathBuf;

use crate::args::parse_memory;
use crate::change::{RewriteArgs, writable_path};
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;

use nra_convert::repair::{MEMORY_BYTES, Report, repair, survey};

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
    #[command(flatten)]
    rewrite: RewriteArgs,
    /// Show what is damaged without writing anything
    ///
    /// The exit code is 0 without damage, 3 if all damage can be restored, 4 if not.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Limit memory use to SIZE, at least 32M (64M, 1.5G)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, hide_short_help = true)]
    memory: Option<u64>,
}

/// Restores the exact bytes of a damaged archive.
/// Fails if there is no recovery data or the damage exceeds it. The archive then stays unchanged.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = writable_path(&args.archive)?;
    let target = args.rewrite.target(&path, "repair")?;
    let name = nra_text::quoted(&path);

    let memory = args.memory.unwrap_or(MEMORY_BYTES);
    let progress = ui.progress("repairing");
    let found = if args.dry_run { survey(&path, &progress) } else { repair(&path, &target, memory, &progress) };
    drop(progress);
    let Some(report) = found.map_err(|error| args.rewrite.explain(error, &name))? else {
        let failure = Failure::failed(format!("{name} has no recovery data"));
        return Err(failure
            .hint(format!("use nra verify {name} to list the damage; nra protect adds recovery data to undamaged archives")));
    };
    let written = !args.dry_run && report.is_restorable() && (args.rewrite.output.is_some() || !report.is_whole());
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
    let header = report.recovery_header;
    let ranges: Vec<_> = report.damaged.iter().map(|(offset, length)| record! { offset, length }).collect();
    let summary = record! {
        ..ArchiveField::new(args.rewrite.output.as_ref().filter(|_| written).unwrap_or(&path)),
        dry_run: args.dry_run,
        undamaged: report.is_whole(),
        restorable: report.is_restorable(),
        written,
        percent: header.percent,
        damaged_bytes: report.damaged_bytes,
        damaged_shards: report.damaged_shards,
        shard_bytes: header.shard_len,
        damaged_parity_shards: report.damaged_parity_shards,
        recovery_data_undamaged: report.recovery_is_whole,
        groups: header.groups,
        unrecoverable_groups: report.lost_groups,
        damaged_ranges: ranges,
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
        return match &args.rewrite.output {
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
