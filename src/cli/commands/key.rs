//! `nra key`

use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;

use crate::archive_errors::explain;
use crate::change::{Change, ChangeArgs, writable_path};
use crate::password_args::NewKeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_format::crypt::{Argon2Cost, KeyInfo, KeyKind, Keyring};
use nra_format::nra::reader::NraReader;
use nra_format::source::FileSource;

/// Arguments of `nra key`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra key list secret.nra
  nra key add secret.nra --new-key-file backup.key --label backup
  nra key change secret.nra
  nra key remove secret.nra 2")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

/// The action.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the keys (no password needed)
    #[command(after_help = "Examples:\n  nra key list secret.nra")]
    List {
        /// Archive to read
        #[arg(value_name = "ARCHIVE")]
        archive: PathBuf,
    },
    /// Add a password or key
    #[command(after_help = "Examples:\n  nra key add secret.nra --new-key-file backup.key --label backup")]
    Add {
        #[command(flatten)]
        change: ChangeArgs,
        #[command(flatten)]
        new: NewKeyArgs,
        /// Set a label, which is stored unencrypted
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        label: String,
    },
    /// Remove a key (except the last one)
    #[command(after_help = "Examples:\n  nra key remove secret.nra 2\n  nra key remove secret.nra 2 -n")]
    Remove {
        #[command(flatten)]
        change: ChangeArgs,
        /// Number of the key, as shown by nra key list
        #[arg(value_name = "NUMBER")]
        number: usize,
    },
    /// Replace a key by a new password or key
    #[command(after_help = "Examples:\n  nra key change secret.nra\n  nra key change secret.nra 2 --new-password-file new.txt")]
    Change {
        #[command(flatten)]
        change: ChangeArgs,
        /// Number shown by nra key list (default: the key used to open)
        #[arg(value_name = "NUMBER")]
        number: Option<usize>,
        #[command(flatten)]
        new: NewKeyArgs,
    },
}

/// Lists or changes the keys of an archive.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let cost = Argon2Cost::default();
    match &args.action {
        Action::List { archive } => list(archive, ui),
        Action::Add { change, new, label } => {
            let (mut change, keys) = begin(change)?;
            let secret = new.secret()?;
            if let Some(known) = keys.opened_by(&secret)? {
                let failure = Failure::failed(format!("{}: this password or key is already key {}", change.name, known + 1));
                return Err(failure.hint(format!("use nra key list {} to list its keys", change.name)));
            }
            let added = change.writer.change_keys(|keys| keys.add(&secret, cost, label));
            added.map_err(|error| change.explain(error))?;
            change.finish(&format!("added key {}", keys.list().len() + 1), ui)
        }
        Action::Remove { change, number } => {
            let (mut change, _) = begin(change)?;
            let removed = change.writer.change_keys(|keys| keys.remove(index(*number)));
            removed.map_err(|error| change.explain(error))?;
            finish(change, &format!("removed key {number}"), ui)
        }
        Action::Change { change, number, new } => {
            let (mut change, keys) = begin(change)?;
            let number = number.map(index).or(keys.used());
            let number =
                number.ok_or_else(|| Failure::usage("missing key number").hint("use nra key list ARCHIVE to list its keys"))?;
            let secret = new.secret()?;
            let changed = change.writer.change_keys(|keys| keys.replace(number, &secret, cost));
            changed.map_err(|error| change.explain(error))?;
            finish(change, &format!("changed key {}", number + 1), ui)
        }
    }
}

/// Opens an encrypted archive for a commit. Also returns its keys.
fn begin(change: &ChangeArgs) -> CommandResult<(Change, Keyring)> {
    let mut change = change.begin()?;
    change.is_revertible = false;
    match change.keys.clone() {
        Some(keys) => Ok((change, keys)),
        None => Err(not_encrypted(&change.name)),
    }
}

/// Finishes a change that removes a key and reports that the file still contains it.
fn finish(change: Change, what: &str, ui: &mut Ui) -> CommandResult {
    if !change.is_dry() {
        ui.console()
            .note("the file contains the old key until nra compact; only a new archive excludes people who already used it");
    }
    change.finish(what, ui)
}

/// Converts a key number, which counts from 1, into an index.
fn index(number: usize) -> usize {
    number.checked_sub(1).unwrap_or(usize::MAX - 1)
}

fn not_encrypted(name: &str) -> Failure {
    Failure::failed(format!("{name} is not encrypted")).hint("use nra pack -e to create an encrypted archive")
}

fn list(archive: &std::path::Path, ui: &mut Ui) -> CommandResult {
    let path = writable_path(archive)?;
    let name = nra_text::quoted(&path);
    let fail = |error| explain(error, &name);
    let keys = NraReader::keys(Arc::new(FileSource::open(&path).map_err(fail)?)).map_err(fail)?;
    let keys = keys.ok_or_else(|| not_encrypted(&name))?;
    ui.list("key", "keys");
    for (number, key) in (1..).zip(&keys) {
        if ui.is_json() {
            print_json(number, key, ui)?;
        } else {
            let label = nra_text::harmless(&key.label);
            ui.line(format_args!("{number:>2}  {}{}{label}", describe(key, ui), if label.is_empty() { "" } else { "  " }))?;
        }
    }
    ui.finish(Outcome::Done, "summary", &record! { keys: keys.len() })
}

/// Describes the type and cost of a key.
pub fn describe(key: &KeyInfo, ui: &Ui) -> String {
    match key.kind {
        KeyKind::Password(cost) => {
            let memory = ui.size(u64::from(cost.memory_kib) << 10);
            format!(
                "password (Argon2id, {memory}, {}, {})",
                nra_text::counted(cost.passes.into(), "pass", "passes"),
                nra_text::counted(cost.lanes.into(), "lane", "lanes")
            )
        }
        KeyKind::UserKey => "key".to_owned(),
    }
}

fn print_json(number: usize, key: &KeyInfo, ui: &mut Ui) -> CommandResult<()> {
    let cost = match key.kind {
        KeyKind::Password(cost) => Some(cost),
        KeyKind::UserKey => None,
    };
    ui.record(&record! {
        "key" => number,
        kind: if cost.is_some() { "password" } else { "key" },
        label: &key.label,
        memory_bytes: cost.map(|cost| u64::from(cost.memory_kib) << 10),
        passes: cost.map(|cost| cost.passes),
        lanes: cost.map(|cost| cost.lanes),
    })
}
