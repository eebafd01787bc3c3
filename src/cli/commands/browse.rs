//! `nra browse`

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::archive_errors;
use crate::args::{ArchiveArg, ContainerArgs, ResourceArgs};
use crate::key_args::KeyArgs;
use crate::open_archive;
use crate::report::{CommandResult, Failure, Outcome};
use crate::signals::{self, Attended, CleanStop};
use crate::ui::Ui;
use nra_format::Error;
use nra_format::archive::{Archive, Extension, OpenOptions, is_no_archive, open_path};
use nra_format::container::Container;
use nra_format::crypt::{Keyring, Secret};
use nra_format::nra::reader::{NraReader, open_remains};
use nra_format::path::Quoted;
use nra_format::progress::{Severity, Warning};
use nra_format::source::FileSource;
use nra_tui::background::{BackgroundRun, JobReport};
use nra_tui::canvas::Pictures;
use nra_tui::config::{Config, ThemeName};
use nra_tui::environment::Environment;
use nra_tui::glyphs;
use nra_tui::open_target::OpenTarget;
use nra_tui::options::{Opened, Opener, Options};
use nra_tui::run;
use nra_tui::state::jobs::Ending;

/// Bound for decoded blocks and pages unless `--memory` says otherwise, bytes: enough for what a screen shows. Of what is
/// kept and thrown out again on many threads the allocator keeps some for each of them.
const CACHE: u64 = 16 << 20;
/// Bytes that tell what is no archive.
const PROBE: u64 = 512;
/// Files of a directory that are looked at in search of archives.
const MAX_FILES: usize = 1_000;

/// Arguments of `nra browse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra browse photos.nra
  nra photos.nra
  nra browse photos.nra@3")]
pub struct Args {
    /// Archive (A@N: as of commit N), or directory with archives: .
    #[arg(value_name = "ARCHIVE")]
    archive: Option<PathBuf>,
    /// Show the archive as it was at commit N (nra log lists them)
    #[arg(long, value_name = "N", requires = "archive")]
    at: Option<u64>,
    /// Change nothing: adding, removing and renaming are off
    #[arg(long)]
    read_only: bool,
    /// Colours for a dark or a light ground, or none
    #[arg(long, value_name = "NAME", value_enum)]
    theme: Option<ThemeArg>,
    /// How to draw pictures
    #[arg(long, value_name = "HOW", value_enum)]
    pictures: Option<PicturesArg>,
    /// Let the cursor of the terminal follow, for screen readers: no mouse, no second pane
    #[arg(long)]
    linear: bool,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
    #[command(flatten)]
    container: ContainerArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Colours, as they are asked for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ThemeArg {
    /// As the terminal says
    Auto,
    /// Light text on dark
    Dark,
    /// Dark text on light
    Light,
    /// None
    Mono,
}

impl From<ThemeArg> for ThemeName {
    fn from(theme: ThemeArg) -> Self {
        match theme {
            ThemeArg::Auto => Self::Auto,
            ThemeArg::Dark => Self::Dark,
            ThemeArg::Light => Self::Light,
            ThemeArg::Mono => Self::Mono,
        }
    }
}

/// How pictures are drawn, as it is asked for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PicturesArg {
    /// As the terminal can
    Auto,
    /// By the protocol of kitty
    Kitty,
    /// By that of iTerm2
    Iterm2,
    /// As sixels
    Sixel,
    /// With half blocks
    Blocks,
    /// Not at all: format and size are told
    Off,
}

impl From<PicturesArg> for Pictures {
    fn from(pictures: PicturesArg) -> Self {
        match pictures {
            PicturesArg::Auto => Self::Auto,
            PicturesArg::Kitty => Self::Kitty,
            PicturesArg::Iterm2 => Self::Iterm2,
            PicturesArg::Sixel => Self::Sixel,
            PicturesArg::Blocks => Self::Blocks,
            PicturesArg::Off => Self::Off,
        }
    }
}

/// Runs the browser.
///
/// # Errors
///
/// When there is no terminal, or the archive does not open.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if !is_interactive() {
        let failure = Failure::usage("browse needs a terminal for its screen and its keys");
        return Err(failure.hint("nra list ARCHIVE prints what is in an archive"));
    }
    if is_dumb(std::env::var_os("TERM").as_deref()) {
        let failure = Failure::usage("browse draws a screen, which this terminal can't by its name (TERM=dumb)");
        let hint = "nra list -l ARCHIVE prints what is in an archive; for a screen reader TERM=xterm nra browse --linear ARCHIVE";
        return Err(failure.hint(hint));
    }
    let resources = ResourceArgs { memory: args.resources.memory.or(Some(CACHE)), ..args.resources.clone() };
    let mut options = OpenOptions { cache_bytes: resources.memory.unwrap_or(CACHE), ..OpenOptions::default() };
    args.container.apply(&mut options);
    let directory = args.archive.as_deref().filter(|path| path.is_dir());
    let (opened, locked) = match &args.archive {
        _ if directory.is_some() => (None, None),
        None => (None, None),
        Some(path) if path.as_os_str() == "-" => {
            let opened = open_archive::open(&argument(path, args), &resources, ui)?;
            (
                Some(Opened {
                    archive: Arc::from(opened.archive),
                    name: "standard input".to_owned(),
                    path: None,
                    is_past: false,
                    remains: None,
                }),
                None,
            )
        }
        Some(path) => {
            let (path, commit) = open_archive::locate(path, args.at)?;
            options.key = args.keys.to_open(&Quoted::new(path.as_os_str().as_bytes()).to_string())?;
            match open(path.clone(), &OpenOptions { commit, ..options.clone() }) {
                Ok(opened) => (Some(opened), None),
                Err(Error::KeyNeeded) => (None, Some(path)),
                Err(error) => return Err(archive_errors::explain(error, &Quoted::new(path.as_os_str().as_bytes()).to_string())),
            }
        }
    };
    let place = directory.unwrap_or(Path::new(".")).to_owned();
    let is_named = opened.is_some() || locked.is_some();
    // Where one is named, the others are looked for when they are asked for.
    let archives = if is_named { Vec::new() } else { archives_in(&place) };
    if !is_named && archives.is_empty() {
        return Err(Failure::usage("there is no archive in this directory").hint("nra browse ARCHIVE names one"));
    }
    let environment = Environment::read();
    let (mut config, warnings) = Config::read(&environment);
    config.theme = args.theme.map_or(config.theme, Into::into);
    config.pictures = args.pictures.map_or(config.pictures, Into::into);
    config.linear |= args.linear;
    config.mouse &= !args.no_mouse && !config.linear;
    config.preview &= !config.linear;
    let opener = opener(opened.as_ref(), options);
    let look = Arc::new(move || archives_in(&place));
    let (pass, read_only) = (signals::pass, args.read_only);
    let options = Options { environment, config, warnings, opener, pass, archives, look, locked, read_only };
    // Signals end the browser, which gives the terminal back; jobs that go on without it stop cleanly.
    let _clean = CleanStop::begin();
    let attended = Attended::begin();
    let left = run::run(opened, &options);
    drop(attended);
    match left {
        // The one that was named has not been seen for want of a password.
        Ok(left) if options.locked.is_some() && left.is_vacant() && left.ended_by().is_none() => Err(Error::KeyNeeded.into()),
        Ok(left) => follow(left, ui),
        Err(error) => Err(Error::io("use", "the terminal", error).into()),
    }
}

/// Follows what goes on without the screen, and says how it ended.
fn follow(mut left: BackgroundRun, ui: &Ui) -> CommandResult {
    let console = ui.console();
    let mut failed = None;
    while let Some(told) = left.tell() {
        match told {
            JobReport::GoingOn(count) => {
                console.note(&format!("{} still at work; ctrl-c stops", nra_text::counted(count as u64, "job is", "jobs are")));
            }
            JobReport::Running(job) => {
                let share = job.share().map_or_else(String::new, |share| format!(": {:.0} %", share * 100.0));
                console.note(&format!("{}{share}", job.title));
            }
            JobReport::Ended(job) => {
                let Some((ending, text)) = job.ending else { continue };
                for message in job.log {
                    let severity = if ending == Ending::Done { Severity::Remark } else { Severity::Degraded };
                    console.warn(Warning::new(severity, [], message));
                }
                match ending {
                    Ending::Done => console.note(&text),
                    Ending::Degraded => {
                        console.warn(Warning::degraded([], text));
                    }
                    // The last one is what the process ends with, unless a signal ends it.
                    Ending::Failed | Ending::Cancelled => {
                        let cannot = if ending == Ending::Failed { "cannot " } else { "" };
                        let message = format!("{cannot}{}: {text}", job.title);
                        if let Some(before) = failed.replace(message) {
                            console.line(&format!("nra: {before}"));
                        }
                    }
                }
            }
        }
    }
    match (left.ended_by(), failed) {
        (Some(signal), stopped) => {
            stopped.iter().for_each(|message| console.line(&format!("nra: {message}")));
            Err(Failure::stopped(signal))
        }
        (None, Some(message)) => Err(Failure::failed(message)),
        (None, None) => Ok(Outcome::Done),
    }
}

fn argument(path: &Path, args: &Args) -> ArchiveArg {
    let Args { at, container, keys, .. } = args;
    ArchiveArg { archive: path.to_owned(), at: *at, container: container.clone(), keys: keys.clone() }
}

/// Says whether there are a screen and keys.
pub fn is_interactive() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Says whether a terminal of this name moves no cursor.
fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// What opens the files that were opened, and the keys of the last one, unlocked: to try a password takes its time.
#[derive(Default)]
struct Known {
    secrets: HashMap<PathBuf, Option<Secret>>,
    unlocked: Option<(PathBuf, Keyring)>,
}

impl Known {
    /// Keeps what has opened a file. The keys of the one before go.
    fn keep(&mut self, path: PathBuf, secret: Option<Secret>, archive: &dyn Archive) {
        self.unlocked = archive.keyring().map(|keyring| (path.clone(), keyring.clone()));
        self.secrets.insert(path, secret);
    }

    /// Has a file opened as it was before.
    fn apply(&self, path: &Path, options: &mut OpenOptions) {
        options.key = self.secrets.get(path).cloned().flatten();
        options.unlocked = self.unlocked.as_ref().filter(|(file, _)| file == path).map(|(_, keyring)| keyring.clone());
    }
}

/// Returns how other archives, and commits of the one that is open, are opened.
fn opener(current: Option<&Opened>, options: OpenOptions) -> Opener {
    let mut known = Known::default();
    if let Some(Opened { path: Some(path), archive, .. }) = current {
        known.keep(path.clone(), options.key.clone(), &**archive);
    }
    let known = Mutex::new(known);
    Arc::new(move |target, shown, secret| {
        let (path, commit) = match target {
            OpenTarget::File(path) => (path.clone(), None),
            OpenTarget::Unlocked if shown.as_os_str().is_empty() => {
                let detail = "standard input can't be read again: -p asks for the password at the start".to_owned();
                return Err(Error::Usage { detail });
            }
            // The browser itself goes into archives within this one.
            OpenTarget::Unlocked | OpenTarget::Nested(_) | OpenTarget::Parent => (shown.to_owned(), None),
            OpenTarget::Commit(commit) => (shown.to_owned(), *commit),
        };
        let mut options = OpenOptions { commit, key: secret, ..options.clone() };
        if options.key.is_none() && !matches!(target, OpenTarget::File(_)) {
            known.lock().unwrap_or_else(PoisonError::into_inner).apply(&path, &mut options);
        }
        let opened = open(path.clone(), &options)?;
        known.lock().unwrap_or_else(PoisonError::into_inner).keep(path, options.key, &*opened.archive);
        Ok(opened)
    })
}

fn open(path: PathBuf, options: &OpenOptions) -> Result<Opened, Error> {
    let (archive, remains): (Arc<dyn Archive>, _) = match open_path(&path, options) {
        Ok(archive) => (Arc::from(archive), None),
        Err(error) => {
            let (archive, remains) = what_remains(&path, options, error)?;
            (Arc::new(archive), Some(remains))
        }
    };
    let newest = OpenOptions { commit: None, unlocked: archive.keyring().cloned(), ..options.clone() };
    let is_past =
        options.commit.is_some() && open_path(&path, &newest).is_ok_and(|newest| newest.info().commit != archive.info().commit);
    Ok(Opened { archive, name: name(&path), path: Some(path), is_past, remains })
}

/// Opens what is left of an NRA archive that does not open as one, and says what it is; the error when nothing is.
fn what_remains(path: &Path, options: &OpenOptions, error: Error) -> Result<(NraReader, String), Error> {
    let by_name = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("nra"));
    if !(matches!(error, Error::Corrupt { .. }) || matches!(error, Error::NotAnArchive { .. }) && by_name) {
        return Err(error);
    }
    let found = FileSource::open(path).and_then(|source| open_remains(Arc::new(source), options));
    match found {
        Ok((archive, base)) if base > 0 => Ok((archive, format!("damaged: {base} bytes lie in front of the archive"))),
        Ok((archive, base)) if base < 0 => {
            Ok((archive, format!("damaged: the first {} bytes of the archive are missing", base.unsigned_abs())))
        }
        Ok((archive, _)) => Ok((archive, format!("damaged: {error}"))),
        // The password opens what remains as it opens the whole.
        Err(Error::KeyNeeded) => Err(Error::KeyNeeded),
        Err(Error::WrongKey) => Err(Error::WrongKey),
        Err(_) => Err(error),
    }
}

/// Returns what an archive is called on the screen.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    glyphs::shown(name.as_bytes())
}

/// Returns the files of a directory that are archives, by name.
pub fn archives_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let files = files.flatten().take(MAX_FILES).filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    // By name: to look into each file would read them all.
    let is_archive = |path: &PathBuf| {
        let extension = Extension::of(path.as_os_str().as_bytes());
        extension.is_some_and(|extension| !matches!(extension.container, Container::Compressed(_)))
    };
    let here = directory == Path::new(".");
    let files = files.map(|file| if here { PathBuf::from(file.file_name()) } else { file.path() });
    let mut archives: Vec<PathBuf> = files.filter(is_archive).filter(|path| !is_none(path)).collect();
    archives.sort();
    archives
}

/// Says whether the first bytes of a file show that it is no archive, whatever it is called.
fn is_none(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PROBE).read_to_end(&mut first));
    // What can't be read tells why when it is chosen.
    read.is_ok() && is_no_archive(&first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_format::crypt::Argon2Cost;
    use nra_format::nra::writer::{Writer, WriterOptions};
    use nra_format::progress::Recorder;

    #[test]
    fn files_that_only_look_like_archives_are_not_offered() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        put("empty.nra", b"");
        put("notes.nra", b"these are my notes\n");
        put("zeros.zip", &[0; 100]);
        put("some.7z", b"7z\xbc\xaf\x27\x1c\0\x04");
        put("hurt.nra", b"\x13\xf9 what is left");
        let names: Vec<_> = archives_in(folder.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["hurt.nra", "some.7z"]);
    }

    #[test]
    fn keys_stay_unlocked_as_long_as_their_archive_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let (sealed, plain) = (folder.path().join("sealed.nra"), folder.path().join("plain.nra"));
        let secret = Secret::raw([7; 32]);
        let keyring = Keyring::create(&secret, Argon2Cost::default(), "").unwrap();
        for (path, encryption) in [(&sealed, Some(keyring)), (&plain, None)] {
            let options = WriterOptions { encryption, ..WriterOptions::balanced() };
            Writer::create(File::create(path).unwrap(), options).unwrap().finish(&Recorder::default()).unwrap();
        }
        let open = |path: &PathBuf, key| open_path(path, &OpenOptions { key, ..OpenOptions::default() }).unwrap();
        let known = |known: &Known, path: &Path| {
            let mut options = OpenOptions::default();
            known.apply(path, &mut options);
            (options.key.is_some(), options.unlocked.is_some())
        };
        let mut kept = Known::default();
        kept.keep(sealed.clone(), Some(secret.clone()), &*open(&sealed, Some(secret)));
        assert_eq!((known(&kept, &sealed), known(&kept, &plain)), ((true, true), (false, false)));
        kept.keep(plain.clone(), None, &*open(&plain, None));
        assert_eq!((known(&kept, &sealed), known(&kept, &plain)), ((true, false), (false, false)));
    }

    #[test]
    fn a_dumb_terminal_is_known_by_its_name() {
        assert!(is_dumb(Some(OsStr::new("dumb"))));
        assert!(!is_dumb(Some(OsStr::new("xterm-256color"))) && !is_dumb(None));
    }
}
