//! Damage: lists readable and unreadable files, and writes readable ones to a new archive.

use std::path::Path;

use crate::effect::{Check, Effect};
use crate::glyphs;
use crate::keymap::Action;
use crate::state::task::Task;
use crate::state::{Arrangement, Choice, Dialog, Focus, Menu, PromptKind, State};
use crate::update::{arrange, browse, preview};
use nra_convert::query::{DAMAGED, INTACT};

/// Most remarks that are shown.
const REMARKS: usize = 3;

/// Shows the known damage and asks what to do.
pub fn ask(state: &mut State) {
    let remarks = state.archive.remarks.iter().map(|remark| glyphs::printable(remark.as_bytes()));
    let mut lines: Vec<String> = remarks.take(REMARKS).collect();
    if state.listing.lost > 0 {
        lines.push(format!("{} unreadable here", nra_text::counted(state.listing.lost, "entry is", "entries are")));
    }
    if lines.is_empty() {
        lines.push("No known damage. Listing it reads all content".to_owned());
    }
    let item = |key: char, label: &str, action| (key, label.to_owned(), Choice::Do(action));
    let items = vec![
        item('d', "list damaged files", Action::ListDamaged),
        item('i', "list undamaged files", Action::ListIntact),
        item('s', "write readable entries to a new archive", Action::SalvageTo),
    ];
    state.dialogs.push(Dialog::Menu(Menu { lines, ..Menu::new("Damage", items) }));
}

/// Lists damaged or undamaged files of the whole archive.
pub fn list(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    let query = if action == Action::ListDamaged { DAMAGED } else { INTACT };
    if state.layout.focus == Focus::Preview {
        preview::zoom(state, false, effects);
    }
    if state.listing.scope.directory.is_some() {
        browse::go(state, None, None, effects);
    }
    arrange::change(state, Arrangement { query: query.to_owned(), ..Arrangement::default() }, effects);
}

/// Asks for the path of the new archive.
pub fn ask_output(state: &mut State) {
    let note = if state.archive.info.encrypted {
        "unreadable entries are skipped; encrypted stays encrypted"
    } else {
        "unreadable entries are skipped and logged (J)"
    };
    let stem = Path::new(state.archive.own_name()).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let title = format!("Salvage {} to", state.archive.name);
    state.prompt(PromptKind::Salvage, title, note, format!("{stem}-salvaged.nra"));
}

/// Returns the check for the new archive, or what is wrong with its name.
pub fn check_output(output: &str) -> Result<Check, String> {
    if !output.ends_with(".nra") {
        return Err("only .nra archives can be written: use the extension .nra".to_owned());
    }
    Ok(Check::Output(output.into()))
}

/// Starts writing readable entries.
pub fn start(state: &mut State, output: &str, effects: &mut Vec<Effect>) {
    let title = format!("salvage {} to {}", state.archive.name, glyphs::printable(output.as_bytes()));
    let message = format!("salvaged from {}", state.archive.name);
    state.start_job(title, Task::Salvage { output: output.into(), message }, effects);
}
