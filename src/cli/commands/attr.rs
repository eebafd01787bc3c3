//! `nra attr`

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::args::ResourceArgs;
use crate::attributes::{self, AttributeRecord, Scope};
use crate::change::ChangeArgs;
use crate::listing::{Columns, Facts};
use crate::open_archive;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_convert::change::{Edit, EditStats, edit_archive_attributes, edit_entry_attributes};
use nra_convert::select::Selection;
use nra_format::entry::{Attribute, Entry};
use nra_format::path::Quoted;
use nra_format::progress::Warning;
use nra_format::top::Top;
use nra_text::{self, PathField};

/// Arguments of `nra attr`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra attr photos.nra
  nra attr photos.nra set name='Holidays' licence=CC-BY-4.0
  nra attr photos.nra set --entry 'train/**' reviewed media-type=image/jpeg
  nra attr photos.nra get --entry train/0001.jpg
  nra attr photos.nra rm --entry train/0001.jpg reviewed")]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Action: get (default), set or rm
    ///
    /// get and rm work on attributes of any origin, including extended attributes and those from other formats. set creates an attribute of nra's own.
    #[arg(value_name = "ACTION", value_enum, default_value_t, hide_default_value = true, hide_possible_values = true)]
    action: Action,
    /// Attribute NAME; for set: NAME=VALUE, or NAME for a tag
    ///
    /// Standard names for archives: name, description, licence, schema and embedding:ID (an embedding space). Standard name for entries: media-type. Any other name is allowed.
    #[arg(value_name = "NAME")]
    names: Vec<OsString>,
    /// Use attributes of matching entries, not of the archive
    #[arg(long, value_name = "PATTERN")]
    entry: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Action {
    #[default]
    Get,
    Set,
    Rm,
}

/// Shows, sets and removes attributes.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    ui.list("attr", "attributes");
    let scope = if args.entry.is_empty() { Scope::Archive } else { Scope::Entries };
    match args.action {
        Action::Get => get(args, ui),
        Action::Set => {
            let edits = args
                .names
                .iter()
                .map(|text| attributes::parse(text, scope).map(Edit::Set))
                .collect::<CommandResult<Vec<Edit>>>()?;
            edit(args, &edits, ui)
        }
        Action::Rm => {
            let edits =
                args.names.iter().map(|text| attributes::new(text.as_bytes(), b"", scope).map(|own| Edit::Remove(own.name)));
            edit(args, &edits.collect::<CommandResult<Vec<Edit>>>()?, ui)
        }
    }
}

fn get(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open_at(&args.change.archive, None, &args.change.keys, &ResourceArgs::default(), ui)?;
    let mut missing: Vec<&OsString> = args.names.iter().collect();
    let mut is_wanted = |attribute: &Attribute, scope| {
        let is_own = |name: &OsString| name.as_bytes() == &*attribute.name;
        missing.retain(|name| !is_own(name));
        // Attributes of the top directory are not attributes of the archive.
        if args.names.is_empty() { scope == Scope::Entries || !Top::has(attribute) } else { args.names.iter().any(is_own) }
    };
    let mut count = 0;
    let subject;
    if args.entry.is_empty() {
        subject = "the archive has";
        let attributes = opened.archive.info().attributes.iter();
        let found: Vec<&Attribute> = attributes.filter(|attribute| is_wanted(attribute, Scope::Archive)).collect();
        count = found.len();
        print(None, &found, args, ui)?;
        open_archive::report_remarks(&opened, ui);
    } else {
        subject = "matching entries have";
        let selection = Selection::new(args.entry.iter().map(|pattern| pattern.as_bytes()))?;
        let mut matched = false;
        for entry in opened.entries(&selection, ui)? {
            let entry = entry?;
            matched = true;
            let found: Vec<&Attribute> =
                entry.metadata.attributes.iter().filter(|attribute| is_wanted(attribute, Scope::Entries)).collect();
            count += found.len();
            print(Some(&entry), &found, args, ui)?;
        }
        open_archive::conclude(&opened, &selection, matched, ui)?;
    }
    ui.flush()?;
    if let Some(failure) = none_of(&missing, args.names.len(), &format!("{}: {subject}", opened.name), ui) {
        return Err(failure);
    }
    ui.finish(Outcome::Done, "summary", &record! { attributes: count })
}

/// Reports names of missing attributes: a failure if all names are missing, else warnings.
fn none_of(missing: &[&OsString], all: usize, subject: &str, ui: &Ui) -> Option<Failure> {
    let quoted = |name: &OsString| Quoted::new(name.as_bytes()).to_string();
    if !missing.is_empty() && missing.len() == all {
        let names: Vec<String> = missing.iter().map(|name| quoted(name)).collect();
        return Some(Failure::failed(format!("{subject} no attribute {}", names.join(", "))));
    }
    for name in missing {
        let message = format!("{subject} no attribute {}", quoted(name));
        ui.console().warn(Warning::degraded([], message));
    }
    None
}

fn print(entry: Option<&Entry>, found: &[&Attribute], args: &Args, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        if entry.is_some() && found.is_empty() {
            return Ok(());
        }
        return print_json(entry, found, ui);
    }
    // A single value is printed as is, unless the output is a terminal.
    if let ([_], [attribute], None) = (&args.names[..], found, entry)
        && !ui.stdout_is_terminal()
    {
        ui.write(&attribute.value)?;
        return ui.write(b"\n");
    }
    for attribute in found {
        let name = nra_text::harmless(&String::from_utf8_lossy(&attribute.name));
        let value = match std::str::from_utf8(&attribute.value) {
            Ok("") => String::new(),
            Ok(value) => format!("={}", nra_text::harmless(value)),
            Err(_) => format!(" ({})", nra_text::counted(attribute.value.len() as u64, "byte", "bytes")),
        };
        match entry {
            Some(entry) => ui.name_line("", entry.path.as_bytes(), format_args!(": {name}{value}"))?,
            None => ui.line(format_args!("{name}{value}"))?,
        }
    }
    Ok(())
}

fn print_json(entry: Option<&Entry>, attributes: &[&Attribute], ui: &mut Ui) -> CommandResult<()> {
    let attributes: Vec<_> = attributes.iter().map(|attribute| AttributeRecord::new(attribute)).collect();
    let path = entry.map(|entry| PathField::new(entry.path.as_bytes()));
    ui.record(&record! { "attributes" => ..path, attributes })
}

fn edit(args: &Args, edits: &[Edit], ui: &mut Ui) -> CommandResult {
    if edits.is_empty() {
        let failure = Failure::usage("no attributes given");
        return Err(failure.hint("use nra attr ARCHIVE set NAME=VALUE or nra attr ARCHIVE rm NAME"));
    }
    let mut change = args.change.begin()?;
    let missing =
        |edited: &EditStats| edited.without_effect.iter().map(|&number| &args.names[number]).collect::<Vec<&OsString>>();
    if args.entry.is_empty() {
        let edited = edit_archive_attributes(&mut change.writer, edits).map_err(|error| change.explain(error))?;
        let subject = format!("{}: the archive has", change.name);
        if let Some(failure) = none_of(&missing(&edited), edits.len(), &subject, ui) {
            return Err(failure);
        }
        if ui.is_json() {
            let now: Vec<&Attribute> = change.writer.attributes().iter().filter(|attribute| !Top::has(attribute)).collect();
            print_json(None, &now, ui)?;
        }
        return change.finish("changed attributes of the archive", ui);
    }
    let selection = Selection::new(args.entry.iter().map(|pattern| pattern.as_bytes()))?;
    let progress = ui.progress("changing");
    let shown = change.is_dry() || ui.is_json();
    let mut print = |entry: &Entry| if shown { ui.entry(entry, Facts::default(), Columns::default()) } else { Ok(()) };
    let edited = edit_entry_attributes(&mut change.writer, &selection, edits, &progress, &mut print)?;
    drop(progress);
    change.check_selected(&selection, edited.selected, ui)?;
    if let Some(failure) = none_of(&missing(&edited), edits.len(), &format!("{}: matching entries have", change.name), ui) {
        return Err(failure);
    }
    change.finish(&format!("changed attributes of {}", nra_text::counted(edited.changed, "entry", "entries")), ui)
}
