//! `nra man`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::report::{CommandResult, Outcome};
use crate::cli::text;
use crate::cli::ui::Ui;
use crate::format::Error;

/// Arguments of `nra man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra man | man -l -\n  nra man ~/.local/share/man/man1")]
pub struct Args {
    /// Directory to write a page for each command to; without it the page of nra itself is printed
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Pages {
    pages: Vec<String>,
}

/// Writes manual pages.
///
/// # Errors
///
/// When a page can't be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let mut definition = crate::cli::definition();
    definition.build();
    let mut pages = Vec::new();
    match &args.directory {
        None => {
            let page = render(definition)?;
            if !ui.is_json() {
                ui.write(&page)?;
            }
            pages.push("nra.1".to_owned());
        }
        Some(directory) => {
            let create = std::fs::create_dir_all(directory);
            create.map_err(|error| Error::io("create directory", directory.as_os_str().as_bytes(), error))?;
            let commands: Vec<_> = definition
                .get_subcommands()
                .filter(|command| command.get_name() != "help" && !command.is_hide_set())
                .cloned()
                .collect();
            pages.push(write_page(directory, "nra", definition)?);
            for command in commands {
                let name = format!("nra-{}", command.get_name());
                let command = command.display_name(name.clone());
                pages.push(write_page(directory, &name, command)?);
            }
            ui.console().note(&format!("wrote {}", text::counted(pages.len() as u64, "page", "pages")));
        }
    }
    ui.finish(Outcome::Done, "man", &Pages { pages })
}

fn render(command: clap::Command) -> CommandResult<Vec<u8>> {
    // A page has room for what the short help leaves out.
    let command = command.mut_args(|arg| arg.hide_short_help(false));
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command);
    // Writing into memory does not fail.
    man.render(&mut page).map_err(|error| Error::io("make", "manual page", error))?;
    // The text behind the options, under a heading that says what it is.
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\n", ".SH EXAMPLES\n").replace("\nExamples:\n", "\n");
    Ok(page.into_bytes())
}

fn write_page(directory: &Path, name: &str, command: clap::Command) -> CommandResult<String> {
    let file = format!("{name}.1");
    let path = directory.join(&file);
    let page = render(command)?;
    std::fs::write(&path, page).map_err(|error| Error::io("write", path.as_os_str().as_bytes(), error))?;
    Ok(file)
}
