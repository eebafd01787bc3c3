//! `nra diff`

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::archive_errors;
use crate::args::ResourceArgs;
use crate::open_archive::{self, Opened};
use crate::password_args::KeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_convert::diff::{Aspect, Compare, Counts, Difference, Folder, Tree, diff};
use nra_format::entry::{Attribute, Entry};
use nra_format::top::Top;
use nra_text::{self, PathField};

/// Arguments of `nra diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra diff photos.nra
  nra diff photos.nra@3 photos.nra@5
  nra diff photos.nra photos --content")]
pub struct Args {
    /// Old side: archive, archive@N or directory
    #[arg(value_name = "A")]
    before: PathBuf,
    /// New side: archive, archive@N or directory
    ///
    /// Without B, compares A with its commit N of --at, or with its preceding commit.
    #[arg(value_name = "B")]
    after: Option<PathBuf>,
    /// Compare A with its commit N
    #[arg(long, value_name = "N", conflicts_with = "after")]
    at: Option<u64>,
    /// Compare content and ignore time, mode and owner
    #[arg(long)]
    content: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Returns the properties of an entry on one side as JSON.
fn facts(entry: &Entry) -> impl Serialize {
    record! {
        kind: nra_text::kind(entry.kind),
        size: entry.size,
        mode: format!("{:04o}", entry.metadata.mode),
        mtime: entry.modified.map(nra_text::rfc3339),
    }
}

/// One side of the comparison.
enum Side {
    Archive(Opened),
    Folder(Folder),
}

impl Side {
    fn open(name: &Path, at: Option<u64>, keys: &KeyArgs, resources: &ResourceArgs, ui: &Ui) -> CommandResult<Self> {
        if name.is_dir() {
            return match at {
                None => Ok(Self::Folder(Folder::new(name))),
                Some(_) => {
                    let shown = nra_text::quoted(name);
                    Err(Failure::usage(format!("{shown} is a directory and has no commits"))
                        .hint("give a second archive or directory"))
                }
            };
        }
        open_archive::open_at(name, at, keys, resources, ui).map(Self::Archive)
    }

    fn tree(&self) -> Box<dyn Tree + '_> {
        match self {
            Self::Archive(opened) => Box::new(&*opened.archive),
            Self::Folder(folder) => Box::new(folder.clone()),
        }
    }

    /// Returns the attributes of an archive itself, without those of its top directory.
    fn attributes(&self) -> Option<Vec<&Attribute>> {
        match self {
            Self::Archive(opened) => Some(opened.archive.info().attributes.iter().filter(|one| !Top::has(one)).collect()),
            Self::Folder(_) => None,
        }
    }

    fn report_remarks(&self, ui: &Ui) {
        if let Self::Archive(opened) = self {
            open_archive::report_remarks(opened, ui);
        }
    }
}

/// Prints the differences.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    // As with diff, code 1 means that there are differences.
    compare(args, ui).map_err(Failure::with_code_2)
}

fn compare(args: &Args, ui: &mut Ui) -> CommandResult {
    let (before, after) = sides(args, ui)?;
    ui.list("diff", "differences");
    let compare = if args.content { Compare::Content } else { Compare::Facts };
    let progress = ui.progress("comparing");
    let console = std::sync::Arc::clone(ui.console());
    let described = match (before.attributes(), after.attributes()) {
        (Some(old), Some(new)) => args.content || old == new,
        _ => true,
    };
    if !described {
        print_archive(ui)?;
    }
    let (old, new) = (before.tree(), after.tree());
    let counts = diff(&*old, &*new, compare, &progress, &mut |difference| print(&difference, ui), &mut |path, error| {
        Ok(archive_errors::or_damage::<()>(Err(error), path, &console).map(drop)?)
    })?;
    drop(progress);
    ui.flush()?;
    before.report_remarks(ui);
    after.report_remarks(ui);
    let Counts { added, removed, changed, unchanged } = counts;
    let identical = counts.is_same() && described;
    let outcome = if identical { Outcome::Done } else { Outcome::Nothing };
    ui.finish(outcome, "summary", &record! { identical, added, removed, changed, unchanged })
}

/// Opens both sides.
fn sides(args: &Args, ui: &Ui) -> CommandResult<(Side, Side)> {
    let open = |name: &Path, at| Side::open(name, at, &args.keys, &args.resources, ui);
    if let Some(after) = &args.after {
        return Ok((open(&args.before, None)?, open(after, None)?));
    }
    if let Some(number) = args.at {
        let (path, commit) = open_archive::locate(&args.before, None)?;
        return Ok((open(&path, Some(number))?, open(&path, commit)?));
    }
    let after = open(&args.before, None)?;
    let Side::Archive(opened) = &after else {
        return Err(
            Failure::usage("missing second side to compare the directory with").hint("give a second archive or directory")
        );
    };
    let Some(number) = opened.archive.info().commit else {
        return Err(Failure::usage(format!("{}: {} archives have no history", opened.name, opened.archive.container()))
            .hint("give a second archive or directory"));
    };
    if number <= 1 {
        let failure = Failure::usage(format!("{}: commit {number} is the first one", opened.name));
        return Err(failure.hint("give a second archive or directory"));
    }
    let before = open(&opened.path, Some(number - 1))?;
    Ok((before, after))
}

/// Prints that the attributes of the archive itself differ.
fn print_archive(ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        return ui.record(&record! { "difference" => change: "changed", aspects: [Aspect::Attributes.name()] });
    }
    ui.line("~ .  (attributes)")
}

/// Prints a difference as a line with a leading sign or as JSON.
pub fn print(difference: &Difference, ui: &mut Ui) -> CommandResult<()> {
    let (sign, change, entry, aspects) = match difference {
        Difference::Added(entry) => ('+', "added", entry, &[][..]),
        Difference::Removed(entry) => ('-', "removed", entry, &[][..]),
        Difference::Changed(_, entry, aspects) => ('~', "changed", entry, aspects.as_slice()),
    };
    let aspects: Vec<&'static str> = aspects.iter().map(|aspect| aspect.name()).collect();
    let path = entry.path.as_bytes();
    if ui.is_json() {
        let (before, after) = match difference {
            Difference::Added(entry) => (None, Some(entry)),
            Difference::Removed(entry) => (Some(entry), None),
            Difference::Changed(before, after, _) => (Some(before), Some(after)),
        };
        let PathField { path, path_b64 } = PathField::new(path);
        let aspects = (!aspects.is_empty()).then_some(aspects);
        let (before, after) = (before.map(facts), after.map(facts));
        return ui.record(&record! { "difference" => change, path, path_b64, aspects, before, after });
    }
    let what = if aspects.is_empty() { String::new() } else { format!("  ({})", aspects.join(", ")) };
    ui.name_line(format_args!("{sign} "), path, what)
}
