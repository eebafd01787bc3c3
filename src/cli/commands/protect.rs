//! `nra protect`

use std::path::PathBuf;

use crate::args::{parse_memory, parse_percent};
use crate::change::{PriorState, explain, writable_path};
use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_convert::repair::{MEMORY_BYTES, plan, protect};
use nra_text::{self, ArchiveField};

/// Default percentage of recovery data.
const PERCENT: u8 = 5;

/// Arguments of `nra protect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra protect photos.nra
  nra protect photos.nra --recovery 10
  nra repair photos.nra")]
pub struct Args {
    /// Archive to protect
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Restore up to PERCENT of the archive (1 to 100)
    ///
    /// Damage is counted in shards of 4 KiB (smaller for archives below 4 MiB): a single wrong byte costs a whole shard. Contiguous damage and lost 4 KiB sectors can amount to PERCENT; randomly scattered 512-byte sectors to about an eighth of it.
    #[arg(long, value_name = "PERCENT", default_value_t = PERCENT, value_parser = parse_percent)]
    recovery: u8,
    /// Show the size without changing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Limit memory use to SIZE, at least 32M (64M, 1.5G)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, hide_short_help = true)]
    memory: Option<u64>,
}

/// Adds recovery data to an archive.
/// On error, the archive stays unchanged.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = writable_path(&args.archive)?;
    let name = nra_text::quoted(&path);
    let percent = u32::from(args.recovery);
    let memory = args.memory.unwrap_or(MEMORY_BYTES);
    let fail = |error| explain(error, &name);
    let header = if args.dry_run {
        plan(&path, percent, memory).map_err(fail)?
    } else {
        let before = PriorState::at(&path).map_err(fail)?;
        let progress = ui.progress("protecting");
        let done = protect(&path, percent, memory, &progress);
        drop(progress);
        done.map_err(|error| before.explain(error, &path, &name))?
    };
    let recovery = header.summary();
    let (bytes, share) = (ui.size(recovery.bytes), nra_text::percent(recovery.bytes, header.protected));
    let done = if args.dry_run { "would add recovery data:" } else { "added recovery data:" };
    ui.console().note(&format!("{name}: {done} {bytes} ({share} of the archive), can restore up to {percent} % of damage"));
    let summary = record! {
        ..ArchiveField::new(&path),
        dry_run: args.dry_run,
        percent,
        protected_bytes: header.protected,
        recovery_bytes: recovery.bytes,
        groups: recovery.groups,
    };
    ui.finish(Outcome::Done, "summary", &summary)
}
