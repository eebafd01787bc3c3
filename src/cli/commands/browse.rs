//! `nra browse`

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::{DeserializeOwned, IntoDeserializer, value};

use crate::archive_errors;
use crate::args::{ArchiveArg, ContainerArgs, ResourceArgs};
use crate::open_archive;
use crate::password_args::KeyArgs;
use crate::report::{CommandResult, Failure, Outcome};
use crate::signals::{self, CleanStop, SignalsHandled};
use crate::ui::Ui;
use nra_format::Error;
use nra_format::archive::{Archive, Extension, OpenOptions, is_no_archive, open_path};
use nra_format::container::Container;
use nra_format::crypt::{Keyring, Secret};
use nra_format::nra::reader::{NraReader, open_for_salvage};
use nra_format::progress::{Severity, Warning};
use nra_format::source::FileSource;
use nra_tui::background::{BackgroundRun, Ending, JobReport};
use nra_tui::canvas::Pictures;
use nra_tui::config::{Config, ThemeName};
use nra_tui::environment::Environment;
use nra_tui::open_target::OpenTarget;
use nra_tui::options::{Opened, Opener, Options};
use nra_tui::run;

/// Default size of the cache for blocks and pages, bytes: enough for one screen. Larger caches also
/// cost memory in the allocator, which keeps freed memory per thread.
const CACHE: u64 = 16 << 20;
/// Bytes read to recognize files that are not archives.
const PROBE: u64 = 512;
/// Files of a directory that are considered as archives.
const MAX_FILES: usize = 1_000;

/// Arguments of `nra browse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra browse photos.nra
  nra photos.nra
  nra browse photos.nra@3")]
pub struct Args {
    /// Archive, A@N for commit N of A, or directory with archives
    #[arg(value_name = "ARCHIVE")]
    archive: Option<PathBuf>,
    /// Show commit N instead of the newest (see nra log)
    #[arg(long, value_name = "N", requires = "archive")]
    at: Option<u64>,
    /// Disable adding, removing and renaming
    #[arg(long)]
    read_only: bool,
    /// Use colours for a dark or light background, or none
    #[arg(long, value_name = "NAME", value_parser = setting::<ThemeName>(&THEMES))]
    theme: Option<ThemeName>,
    /// Draw pictures with this method
    #[arg(long, value_name = "HOW", value_parser = setting::<Pictures>(&PICTURES))]
    pictures: Option<Pictures>,
    /// Move the terminal cursor along, for screen readers
    #[arg(long)]
    linear: bool,
    /// Do not use the mouse
    #[arg(long)]
    no_mouse: bool,
    #[command(flatten)]
    container: ContainerArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Values of `--theme` and their help.
const THEMES: [(&str, &str); 4] = [
    ("auto", "Detect from the terminal"),
    ("dark", "Light text on dark"),
    ("light", "Dark text on light"),
    ("mono", "No colours"),
];

/// Values of `--pictures` and their help.
const PICTURES: [(&str, &str); 6] = [
    ("auto", "Detect from the terminal"),
    ("kitty", "Kitty protocol"),
    ("iterm2", "iTerm2 protocol"),
    ("sixel", "Sixel"),
    ("blocks", "Half blocks"),
    ("off", "No pictures, only format and size"),
];

/// Parses a setting that has these values in the configuration file.
fn setting<T>(values: &'static [(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = values.iter().map(|(name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).try_map(|name| T::deserialize(name.into_deserializer()) as Result<T, value::Error>)
}

/// Runs the browser.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if !is_interactive() {
        let failure = Failure::usage("browse requires a terminal");
        return Err(failure.hint("use nra list ARCHIVE to list its entries"));
    }
    if is_dumb(std::env::var_os("TERM").as_deref()) {
        let failure = Failure::usage("browse does not support this terminal (TERM=dumb)");
        let hint = "use nra list -l ARCHIVE, or for screen readers TERM=xterm nra browse --linear ARCHIVE";
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
            options.key = args.keys.for_opening(&nra_text::quoted(&path))?;
            match open(path.clone(), &OpenOptions { commit, ..options.clone() }) {
                Ok(opened) => (Some(opened), None),
                Err(Error::KeyNeeded) => (None, Some(path)),
                Err(error) => return Err(archive_errors::explain(error, &nra_text::quoted(&path))),
            }
        }
    };
    let folder = directory.unwrap_or(Path::new(".")).to_owned();
    let is_named = opened.is_some() || locked.is_some();
    // If an archive is given, others are searched for only on request.
    let archives = if is_named { Vec::new() } else { archives_in(&folder) };
    if !is_named && archives.is_empty() {
        return Err(Failure::usage("no archives found in this directory").hint("use nra browse ARCHIVE to open one"));
    }
    let environment = Environment::read();
    let (mut config, warnings) = Config::read(&environment);
    config.theme = args.theme.unwrap_or(config.theme);
    config.pictures = args.pictures.unwrap_or(config.pictures);
    config.linear |= args.linear;
    config.mouse &= !args.no_mouse && !config.linear;
    config.preview &= !config.linear;
    let opener = opener(opened.as_ref(), options);
    let list_archives = Arc::new(move || archives_in(&folder));
    let (pass, read_only) = (signals::discard_interrupt, args.read_only);
    let options = Options { environment, config, warnings, opener, pass, archives, list_archives, locked, read_only };
    // Signals end the browser, which restores the terminal. Running jobs stop cleanly.
    let _clean = CleanStop::begin();
    let signals_handled = SignalsHandled::begin();
    let background = run::run(opened, &options);
    drop(signals_handled);
    match background {
        // The given archive was never opened because no password was entered.
        Ok(background) if options.locked.is_some() && background.is_vacant() && background.ended_by().is_none() => {
            Err(Error::KeyNeeded.into())
        }
        Ok(background) => report_background_jobs(background, ui),
        Err(error) => Err(Error::io("use", "the terminal", error).into()),
    }
}

/// Reports jobs that continue after the screen has closed, and their results.
fn report_background_jobs(mut background: BackgroundRun, ui: &Ui) -> CommandResult {
    let console = ui.console();
    let mut failed = None;
    while let Some(report) = background.next_report() {
        match report {
            JobReport::Continuing(count) => {
                console.note(&format!(
                    "{} still running; press ctrl-c to stop",
                    nra_text::counted(count as u64, "job is", "jobs are")
                ));
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
                    // The last failure is the result of the process, unless a signal ends it.
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
    match (background.ended_by(), failed) {
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

/// Returns whether standard input and output are a terminal.
pub fn is_interactive() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Returns whether a terminal of this name cannot move its cursor.
fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// Passwords and keys of the files opened so far, and the unlocked keys of the last one, because
/// deriving a key takes time.
#[derive(Default)]
struct KeyCache {
    secrets: HashMap<PathBuf, Option<Secret>>,
    unlocked: Option<(PathBuf, Keyring)>,
}

impl KeyCache {
    /// Keeps the password or key of a file. Drops the unlocked keys of the previous one.
    fn keep(&mut self, path: PathBuf, secret: Option<Secret>, archive: &dyn Archive) {
        self.unlocked = archive.keyring().map(|keyring| (path.clone(), keyring.clone()));
        self.secrets.insert(path, secret);
    }

    /// Applies the known password or key of a file to the options.
    fn apply(&self, path: &Path, options: &mut OpenOptions) {
        options.key = self.secrets.get(path).cloned().flatten();
        options.unlocked = self.unlocked.as_ref().filter(|(file, _)| file == path).map(|(_, keyring)| keyring.clone());
    }
}

/// Returns the function that opens other archives, and commits of the current one.
fn opener(current: Option<&Opened>, options: OpenOptions) -> Opener {
    let mut known = KeyCache::default();
    if let Some(Opened { path: Some(path), archive, .. }) = current {
        known.keep(path.clone(), options.key.clone(), &**archive);
    }
    let known = Mutex::new(known);
    Arc::new(move |target, shown, secret| {
        let (path, commit) = match target {
            OpenTarget::File(path) => (path.clone(), None),
            OpenTarget::Unlocked if shown.as_os_str().is_empty() => {
                let detail = "standard input cannot be read again; use -p to enter the password at the start".to_owned();
                return Err(Error::Usage { detail });
            }
            // The browser itself opens archives within this one.
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
            let (archive, remains) = open_damaged(&path, options, error)?;
            (Arc::new(archive), Some(remains))
        }
    };
    let newest = OpenOptions { commit: None, unlocked: archive.keyring().cloned(), ..options.clone() };
    let is_past =
        options.commit.is_some() && open_path(&path, &newest).is_ok_and(|newest| newest.info().commit != archive.info().commit);
    Ok(Opened { archive, name: name(&path), path: Some(path), is_past, remains })
}

/// Opens a damaged NRA archive for salvage and describes the damage, or returns `error`.
fn open_damaged(path: &Path, options: &OpenOptions, error: Error) -> Result<(NraReader, String), Error> {
    let by_name = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("nra"));
    if !(matches!(error, Error::Corrupt { .. }) || matches!(error, Error::NotAnArchive { .. }) && by_name) {
        return Err(error);
    }
    let found = FileSource::open(path).and_then(|source| open_for_salvage(Arc::new(source), options));
    match found {
        Ok((archive, base)) if base > 0 => Ok((archive, format!("damaged: {base} unexpected bytes before the archive"))),
        Ok((archive, base)) if base < 0 => {
            Ok((archive, format!("damaged: the first {} bytes of the archive are missing", base.unsigned_abs())))
        }
        Ok((archive, _)) => Ok((archive, format!("damaged: {error}"))),
        // The same password is needed.
        Err(Error::KeyNeeded) => Err(Error::KeyNeeded),
        Err(Error::WrongKey) => Err(Error::WrongKey),
        Err(_) => Err(error),
    }
}

/// Returns the name of an archive for the screen.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    nra_text::printable(name.as_bytes())
}

/// Returns the archives in a directory, sorted by name.
pub fn archives_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let files = files.flatten().take(MAX_FILES).filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
    // By extension: detection by content would have to read all files.
    let is_archive = |path: &PathBuf| {
        let extension = Extension::of(path.as_os_str().as_bytes());
        extension.is_some_and(|extension| !matches!(extension.container, Container::Compressed(_)))
    };
    let here = directory == Path::new(".");
    let files = files.map(|file| if here { PathBuf::from(file.file_name()) } else { file.path() });
    let mut archives: Vec<PathBuf> = files.filter(is_archive).filter(|path| !is_known_other_file(path)).collect();
    archives.sort();
    archives
}

/// Returns whether the first bytes of a file show that it is not an archive.
fn is_known_other_file(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PROBE).read_to_end(&mut first));
    // For an unreadable file, the error appears when it is opened.
    read.is_ok() && is_no_archive(&first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_format::crypt::Argon2Cost;
    use nra_format::nra::writer::{Writer, WriterOptions};
    use nra_format::progress::Recorder;

    #[test]
    fn files_with_other_content_are_not_listed_as_archives() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        put("empty.nra", b"");
        put("notes.nra", b"these are my notes\n");
        put("zeros.zip", &[0; 100]);
        put("some.7z", b"7z\xbc\xaf\x27\x1c\0\x04");
        put("damaged.nra", b"\x13\xf9 what is left");
        let names: Vec<_> = archives_in(folder.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["damaged.nra", "some.7z"]);
    }

    #[test]
    fn unlocked_keys_are_kept_for_last_archive_only() {
        let folder = tempfile::tempdir().unwrap();
        let (sealed, plain) = (folder.path().join("sealed.nra"), folder.path().join("plain.nra"));
        let secret = Secret::user_key([7; 32]);
        let keyring = Keyring::create(&secret, Argon2Cost::default(), "").unwrap();
        for (path, encryption) in [(&sealed, Some(keyring)), (&plain, None)] {
            let options = WriterOptions { encryption, ..WriterOptions::balanced() };
            Writer::create(File::create(path).unwrap(), options).unwrap().finish(&Recorder::default()).unwrap();
        }
        let open = |path: &PathBuf, key| open_path(path, &OpenOptions { key, ..OpenOptions::default() }).unwrap();
        let known = |known: &KeyCache, path: &Path| {
            let mut options = OpenOptions::default();
            known.apply(path, &mut options);
            (options.key.is_some(), options.unlocked.is_some())
        };
        let mut kept = KeyCache::default();
        kept.keep(sealed.clone(), Some(secret.clone()), &*open(&sealed, Some(secret)));
        assert_eq!((known(&kept, &sealed), known(&kept, &plain)), ((true, true), (false, false)));
        kept.keep(plain.clone(), None, &*open(&plain, None));
        assert_eq!((known(&kept, &sealed), known(&kept, &plain)), ((true, false), (false, false)));
    }

    #[test]
    fn dumb_terminal_is_detected_by_name() {
        assert!(is_dumb(Some(OsStr::new("dumb"))));
        assert!(!is_dumb(Some(OsStr::new("xterm-256color"))) && !is_dumb(None));
    }
}
