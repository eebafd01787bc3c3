//! `nra man`

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::command_line::CommandLine;
use crate::help::EXIT_CODES;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_format::Error;
use nra_format::path::Quoted;

/// Environment variables.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("NRA_PASSWORD", "Password of encrypted archives if no option gives one."),
    ("NRA_ENCRYPTION_KEY", "Key of encrypted archives, 64 hexadecimal digits. Takes precedence over NRA_PASSWORD."),
    ("NRA_ACCESSIBLE", "If set and not 0: print no bars and line drawings, and words instead of symbols."),
    ("NRA_CONFIG", "Configuration file of nra browse."),
    ("SOURCE_DATE_EPOCH", "Latest time stored by --reproducible, in seconds since 1970."),
    ("NO_COLOR", "If set: no colours, unless --color enables them."),
    ("CLICOLOR_FORCE", "If set and not 0: colours even without a terminal."),
    ("CLICOLOR", "If 0: no colours."),
];

/// Arguments of `nra man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra man pack | man -l -
  nra man ~/.local/share/man/man1")]
pub struct Args {
    /// Command (default: nra), or directory for all pages
    #[arg(value_name = "COMMAND|DIR")]
    what: Vec<OsString>,
}

/// Prints or writes manual pages.
pub fn run(args: &Args, definition: &Command, ui: &mut Ui) -> CommandResult {
    let mut definition = definition.clone();
    definition.build();
    let line = CommandLine::parse(&definition, &args.what);
    let mut pages = Vec::new();
    match &line.positionals[..] {
        [] => {
            let name = page_name(&line.verbs);
            if !ui.is_json() {
                ui.write(render(&definition, line.command, &name)?.as_bytes())?;
            }
            pages.push(format!("{name}.1"));
        }
        [directory] if line.verbs.is_empty() => {
            let directory = Path::new(directory);
            let create = std::fs::create_dir_all(directory);
            create.map_err(|error| Error::io("create directory", directory.as_os_str().as_bytes(), error))?;
            for (name, command) in all(&definition) {
                let file = format!("{name}.1");
                let path = directory.join(&file);
                let write = std::fs::write(&path, render(&definition, command, &name)?);
                write.map_err(|error| Error::io("write", path.as_os_str().as_bytes(), error))?;
                pages.push(file);
            }
            ui.console().note(&format!("wrote {}", nra_text::counted(pages.len() as u64, "page", "pages")));
        }
        [word, ..] => {
            let (above, word) = (page_name(&line.verbs).replace('-', " "), Quoted::new(word.as_bytes()));
            return Err(Failure::usage(format!("unknown command {above} {word}")).hint("use nra man DIR to write all pages"));
        }
    }
    ui.finish(Outcome::Done, "man", &record! { pages })
}

fn page_name(verbs: &[&str]) -> String {
    ["nra"].iter().chain(verbs).copied().collect::<Vec<_>>().join("-")
}

/// Returns all commands with a page and its name.
fn all(root: &Command) -> Vec<(String, &Command)> {
    let mut found = vec![("nra".to_owned(), root)];
    let mut next = 0;
    while let Some((name, command)) = found.get(next).cloned() {
        found.extend(shown(command).map(|below| (format!("{name}-{}", below.get_name()), below)));
        next += 1;
    }
    found
}

/// Returns the subcommands with a page of their own.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

fn render(root: &Command, command: &Command, name: &str) -> CommandResult<String> {
    // clap returns the usage only with this prefix.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    // The NAME section contains the short description.
    let has_text = command.get_long_about().is_some();
    let examples = command.get_after_help().map(ToString::to_string);
    let page = command
        .clone()
        .display_name(name.to_owned())
        .override_usage(usage)
        // Include the options that the short help hides.
        .mut_args(|arg| arg.hide_short_help(false));
    let man = Man::new(page).title(name).source(concat!("nra ", env!("CARGO_PKG_VERSION"))).manual("nra manual");
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    let made = man
        .render_title(&mut bytes)
        .and_then(|()| man.render_name_section(&mut bytes))
        .and_then(|()| man.render_synopsis_section(&mut bytes))
        .and_then(|()| if has_text { man.render_description_section(&mut bytes) } else { Ok(()) })
        .and_then(|()| man.render_options_section(&mut bytes));
    made.map_err(|error| Error::io("make", "manual page", error))?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    commands(&mut text, command, name);
    let codes = EXIT_CODES.lines().skip(1).filter_map(|line| line.trim().split_once(' '));
    terms(&mut text, "EXIT STATUS", codes.map(|(code, meaning)| (code, meaning.trim().to_owned())));
    terms(&mut text, "ENVIRONMENT", ENVIRONMENT.map(|(name, meaning)| (name, meaning.to_owned())).into_iter());
    if let Some(examples) = examples {
        text.push_str(".SH EXAMPLES\n.nf\n");
        for line in examples.lines().filter(|line| *line != "Examples:") {
            let _ = writeln!(text, "{}", roff(line.trim_start()));
        }
        text.push_str(".fi\n");
    }
    let above = name.rsplit_once('-').map(|(above, _)| above.to_owned());
    let beside =
        all(root).into_iter().map(|(page, _)| page).filter(|page| page.rsplit_once('-').map(|(above, _)| above) == Some(name));
    let pages: Vec<String> = above.into_iter().chain(beside).map(|page| format!("\\fB{}\\fR(1)", roff(&page))).collect();
    let _ = writeln!(text, ".SH SEE ALSO\n{}", pages.join(",\n"));
    Ok(text)
}

/// Appends the subcommands.
fn commands(text: &mut String, command: &Command, name: &str) {
    let below: Vec<(String, String)> = shown(command)
        .map(|below| (format!("{name}-{}(1)", below.get_name()), below.get_about().map(ToString::to_string).unwrap_or_default()))
        .collect();
    if !below.is_empty() {
        terms(text, "COMMANDS", below.iter().map(|(page, about)| (page.as_str(), about.clone())));
    }
}

/// Appends a section of terms and their meanings.
fn terms<'a>(text: &mut String, heading: &str, items: impl Iterator<Item = (&'a str, String)>) {
    let _ = writeln!(text, ".SH {heading}");
    for (term, meaning) in items {
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", roff(term), roff(&meaning));
    }
}

/// Escapes text for roff.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
