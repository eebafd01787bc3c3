//! `nra verify`

use std::time::Duration;

use serde::Serialize;

use crate::args::{ArchiveArg, PatternArgs, ResourceArgs};
use crate::inputs;
use crate::reading::{self, Opened};
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_format::archive::{Damage, Depth, Verdict};
use nra_format::entry::Entry;
use nra_format::nra::frame::FrameKind;
use nra_format::nra::reader::NraReader;
use nra_format::progress::Warning;
use nra_format::source::is_locked;
use nra_text::{self, PathField};

/// Entries named below a place of damage unless `-v` asks for all that are known.
const SHOWN_ENTRIES: usize = 10;

/// Arguments of `nra verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The exit code is 0 if every byte is right, 3 if only bytes behind the archive
belong to nothing (an append that did not finish), 4 if something is damaged.

Examples:
  nra verify photos.nra
  nra verify photos.nra --quick && echo intact
  nra verify photos.nra 'train/**' --json")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Check checksums only, decompress nothing
    #[arg(long)]
    quick: bool,
    /// Decompress everything and compare digests (the default)
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// One finding as JSON.
#[derive(Debug, Serialize)]
struct DamageRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    structure: &'a str,
    offset: u64,
    detail: &'a str,
    entry_count: u64,
    /// All of the entries are hurt; otherwise one or more of them.
    certain: bool,
    entries: Vec<PathField<'a>>,
}

/// The verdict as JSON.
#[derive(Debug, Serialize)]
struct Summary {
    ok: bool,
    /// The index is whole: no entry can be missing from the counts.
    complete: bool,
    depth: &'static str,
    damage: usize,
    entries: u64,
    content_bytes: u64,
    blocks: u64,
    /// Recovery data can restore all that is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    restorable: Option<bool>,
    seconds: f64,
}

/// Checks an archive.
///
/// # Errors
///
/// What keeps it from being checked.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = reading::open(&args.archive, &args.resources, ui)?;
    let selection = inputs::selection(&args.patterns)?;
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    ui.list("verify", "damage");
    let progress = ui.progress("verifying");
    let accept = |entry: &Entry| selection.matches(entry);
    let select: Option<&(dyn Fn(&Entry) -> bool + Sync)> = if selection.is_all() { None } else { Some(&accept) };
    let verdict =
        reading::threads(&args.resources, &*opened.archive)?.install(|| opened.archive.verify(depth, select, &progress));
    let seconds = progress.elapsed();
    drop(progress);
    let mut verdict = verdict.map_err(|error| reading::explain(error, &opened.name))?;
    let remains = NraReader::of(&*opened.archive).is_some_and(NraReader::has_remains);
    // Nothing was abandoned while somebody works there: bytes behind the end grow, and recovery data goes.
    let only_recovery = verdict.damage.iter().all(|damage| damage.structure == FrameKind::Recovery.name());
    let is_busy = (remains || !verdict.damage.is_empty()) && only_recovery && is_locked(&opened.path);
    if is_busy {
        verdict.damage.clear();
        let message = format!("{}: another process is changing it; what is behind its last commit was not checked", opened.name);
        ui.console().warn(Warning::remark([], message));
    }
    for damage in &verdict.damage {
        tell(damage, ui)?;
    }
    ui.flush()?;
    let ok = verdict.damage.is_empty();
    if ok {
        reading::conclude(&opened, &selection, verdict.entries > 0, ui)?;
    }
    sum_up(&verdict, &opened, seconds, ui)?;
    let summary = Summary {
        ok,
        complete: is_complete(&opened),
        depth: if args.quick { "quick" } else { "full" },
        damage: verdict.damage.len(),
        entries: verdict.entries,
        content_bytes: verdict.content_bytes,
        blocks: verdict.blocks,
        restorable: verdict.restorable,
        seconds: ui::seconds(seconds),
    };
    let outcome = match (ok, remains && !is_busy) {
        (false, _) => Outcome::Damaged,
        (true, true) => Outcome::Degraded,
        (true, false) => Outcome::Done,
    };
    ui.finish(outcome, "summary", &summary)
}

/// Says whether no entry can be missing from what was checked.
fn is_complete(opened: &Opened) -> bool {
    NraReader::of(&*opened.archive).map_or_else(|| !opened.archive.is_recovered(), NraReader::is_complete)
}

fn tell(damage: &Damage, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        let entries = damage.entries.iter().map(|path| PathField::new(path.as_bytes())).collect();
        return ui.record(&DamageRecord {
            record: "damage",
            structure: &damage.structure,
            offset: damage.offset,
            detail: &damage.detail,
            entry_count: damage.entry_count,
            certain: damage.is_certain,
            entries,
        });
    }
    let hurts = match damage.entry_count {
        0 => "hurts no entry".to_owned(),
        count if !damage.is_certain => format!("hurts one or more of {}", nra_text::counted(count, "entry", "entries")),
        count => format!("hurts {}", nra_text::counted(count, "entry", "entries")),
    };
    let detail = nra_text::harmless(&damage.detail);
    ui.line(format_args!("damaged: {} at offset {}: {detail}; {hurts}", damage.structure, damage.offset))?;
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

/// Says the verdict: that all is well on standard output, damage as the failure it is.
fn sum_up(verdict: &Verdict, opened: &Opened, seconds: Duration, ui: &mut Ui) -> CommandResult<()> {
    let name = &opened.name;
    let checked = format!(
        "{}, {}, {}, {}",
        nra_text::counted(verdict.entries, "entry", "entries"),
        ui.size(verdict.content_bytes),
        nra_text::counted(verdict.blocks, "block", "blocks"),
        nra_text::duration(seconds)
    );
    let places = verdict.damage.len() as u64;
    if places > 0 {
        let hurt = verdict.damage.iter().map(|damage| damage.entry_count).fold(0u64, u64::saturating_add);
        let hurts = hurt > 0 || !is_complete(opened);
        let up_to = if verdict.damage.iter().all(|damage| damage.is_certain) { "" } else { "up to " };
        let (places, hurt) = (nra_text::counted(places, "place", "places"), nra_text::counted(hurt, "entry", "entries"));
        let hurt = format!("{up_to}{hurt}");
        let missing = if is_complete(opened) { "" } else { "; more entries may be missing" };
        let failure = Failure::damaged(format!("{name} is damaged in {places}; {hurt} hurt ({checked}){missing}"));
        let failure = match verdict.restorable {
            Some(true) => failure.hint(format!("nra repair {name} restores all of it by the recovery data")),
            Some(false) => failure.hint("the recovery data can't restore it: more is damaged than that"),
            None => failure,
        };
        let is_nra = NraReader::of(&*opened.archive).is_some();
        let next = match (is_nra, hurts) {
            (true, false) => format!("nra salvage {name} -o OUT makes a whole archive of it"),
            (true, true) => {
                format!("nra salvage {name} -o OUT makes a whole archive of what still reads, nra extract {name} takes it out")
            }
            (false, _) => format!("nra extract {name} takes out what still reads"),
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
