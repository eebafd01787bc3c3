//! `nra verify`

use std::time::Duration;

use crate::archive_errors;
use crate::args::{ArchiveArg, PatternArgs, ResourceArgs};
use crate::inputs;
use crate::open_archive::{self, Opened};
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_format::archive::{Damage, Depth, Verdict};
use nra_format::entry::Entry;

use nra_format::nra::reader::NraReader;
use nra_format::progress::Warning;
use nra_format::source::is_locked;
use nra_text::{self, PathField};

/// Affected entries printed per damage without `-v`.
const SHOWN_ENTRIES: usize = 10;

/// Arguments of `nra verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The exit code is 0 if the archive is intact, 3 if it is intact but followed by
the remains of an unfinished append, 4 if it is damaged.

Examples:
  nra verify photos.nra
  nra verify photos.nra --quick && echo intact
  nra verify photos.nra 'train/**' --json")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Verify only checksums, without decompressing
    #[arg(long)]
    quick: bool,
    /// Decompress everything and verify digests (default)
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Checks an archive.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    let selection = inputs::selection(&args.patterns)?;
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    ui.list("verify", "damage");
    let progress = ui.progress("verifying");
    let accept = |entry: &Entry| selection.matches(entry);
    let select: Option<&(dyn Fn(&Entry) -> bool + Sync)> = if selection.is_all() { None } else { Some(&accept) };
    let verdict =
        open_archive::thread_pool(&args.resources, &*opened.archive)?.install(|| opened.archive.verify(depth, select, &progress));
    let elapsed = progress.end();
    let mut verdict = verdict.map_err(|error| archive_errors::explain(error, &opened.name))?;
    let has_trailing_bytes = NraReader::downcast(&*opened.archive).is_some_and(NraReader::has_trailing_bytes);
    // While a process changes the archive, its recovery data and bytes past its end do not count.
    let only_recovery = verdict.damage.iter().all(NraReader::is_recovery_damage);
    let is_busy = (has_trailing_bytes || !verdict.damage.is_empty()) && only_recovery && is_locked(&opened.path);
    if is_busy {
        verdict.damage.clear();
        let message =
            format!("{}: another process is changing the archive; data after its last commit was not checked", opened.name);
        ui.console().warn(Warning::remark([], message));
    }
    for damage in &verdict.damage {
        report_damage(damage, ui)?;
    }
    ui.flush()?;
    let ok = verdict.damage.is_empty();
    if ok {
        open_archive::conclude(&opened, &selection, verdict.entries > 0, ui)?;
    }
    print_result(&verdict, &opened, elapsed, ui)?;
    let summary = record! {
        ok,
        complete: is_complete(&opened),
        depth: if args.quick { "quick" } else { "full" },
        damage_count: verdict.damage.len(),
        entries: verdict.entries,
        content_bytes: verdict.content_bytes,
        blocks: verdict.blocks,
        restorable: verdict.restorable,
        seconds: ui::seconds(elapsed),
    };
    let outcome = match (ok, has_trailing_bytes && !is_busy) {
        (false, _) => Outcome::Damaged,
        (true, true) => Outcome::Degraded,
        (true, false) => Outcome::Done,
    };
    ui.finish(outcome, "summary", &summary)
}

/// Returns whether the check included all entries.
fn is_complete(opened: &Opened) -> bool {
    NraReader::downcast(&*opened.archive).map_or_else(|| !opened.archive.is_index_damaged(), NraReader::is_complete)
}

fn report_damage(damage: &Damage, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        let entries: Vec<_> = damage.entries.iter().map(|path| PathField::new(path.as_bytes())).collect();
        return ui.record(&record! {
            "damage" => structure: &damage.structure,
            offset: damage.offset,
            detail: &damage.detail,
            entry_count: damage.entry_count,
            all_affected: damage.is_certain,
            entries,
        });
    }
    let affects = match damage.entry_count {
        0 => "affects no entry".to_owned(),
        count if !damage.is_certain => format!("affects at least one of {}", nra_text::counted(count, "entry", "entries")),
        count => format!("affects {}", nra_text::counted(count, "entry", "entries")),
    };
    let detail = nra_text::harmless(&damage.detail);
    ui.line(format_args!("damaged: {} at offset {}: {detail}; {affects}", damage.structure, damage.offset))?;
    let shown = if ui.console().verbose() > 0 { usize::MAX } else { SHOWN_ENTRIES };
    for path in damage.entries.iter().take(shown) {
        ui.name_line("    ", path.as_bytes(), "")?;
    }
    let rest = damage.entry_count.saturating_sub(damage.entries.len().min(shown) as u64);
    if rest > 0 && damage.entry_count > 0 {
        ui.line(format_args!("    and {} more", nra_text::count(rest)))?;
    }
    Ok(())
}

/// Prints the result: success on standard output, damage as a failure.
fn print_result(verdict: &Verdict, opened: &Opened, elapsed: Duration, ui: &mut Ui) -> CommandResult<()> {
    let name = &opened.name;
    let checked = format!(
        "{}, {}, {}, {}",
        nra_text::counted(verdict.entries, "entry", "entries"),
        ui.size(verdict.content_bytes),
        nra_text::counted(verdict.blocks, "block", "blocks"),
        nra_text::duration(elapsed)
    );
    let places = verdict.damage.len() as u64;
    if places > 0 {
        let affected = verdict.damage.iter().map(|damage| damage.entry_count).fold(0u64, u64::saturating_add);
        let loses_entries = affected > 0 || !is_complete(opened);
        let up_to = if verdict.damage.iter().all(|damage| damage.is_certain) { "" } else { "up to " };
        let places = nra_text::counted(places, "place", "places");
        let affected = format!("{up_to}{}", nra_text::counted(affected, "entry", "entries"));
        let missing = if is_complete(opened) { "" } else { "; further entries may be missing" };
        let failure = Failure::damaged(format!("{name} is damaged in {places}; {affected} affected ({checked}){missing}"));
        let failure = match verdict.restorable {
            Some(true) => failure.hint(format!("use nra repair {name} to restore it from the recovery data")),
            Some(false) => failure.hint("the damage exceeds the recovery data"),
            None => failure,
        };
        let is_nra = NraReader::downcast(&*opened.archive).is_some();
        let next = match (is_nra, loses_entries) {
            (true, false) => format!("use nra salvage {name} -o OUT to create an undamaged archive"),
            (true, true) => {
                format!("use nra salvage {name} -o OUT to recover readable entries, or nra extract {name} to extract them")
            }
            (false, _) => format!("use nra extract {name} to extract readable entries"),
        };
        ui.console().failure(&failure.hint(next));
        Ok(())
    } else if ui.is_json() || ui.console().options().quiet {
        Ok(())
    } else {
        let recovery = if verdict.restorable.is_some() { ", recovery data" } else { "" };
        ui.line(format_args!("{name}: ok ({checked}{recovery})"))
    }
}
