//! A run from its start to its end: the terminal taken and given back, archives opened, what a [`Session`] can't do itself.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use crossterm::event::{self, KeyCode, KeyEventKind};
use rustix::fs::{Access, access};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::format::archive::{Archive, OpenOptions, open};
use crate::format::crypt::Secret;
use crate::format::error::{Error, Result};
use crate::format::nra::writer::{Writer, WriterOptions};
use crate::format::progress::Recorder;
use crate::format::source::MemorySource;
use crate::tui::canvas::{self, Canvas, Pictures, Protocol};
use crate::tui::config::{Config, ThemeName};
use crate::tui::effect::{Door, Effect};
use crate::tui::event::Event;
use crate::tui::key::Key;
use crate::tui::session::{Next, Session};
use crate::tui::state::{Facts, ONLY_NRA, State, Tone};
use crate::tui::terminal::{self, Screen};
use crate::tui::theme::{Depth, Ground, Theme};
use crate::tui::update::start;
use crate::tui::work::{Work, told};
use crate::tui::{glyphs, nested, pager};

/// Commits that are listed.
const MAX_COMMITS: usize = 1_000;

/// An archive that has been opened.
pub struct Opened {
    /// The archive.
    pub archive: Arc<dyn Archive>,
    /// What it is called on the screen.
    pub name: String,
    /// Its file.
    pub path: Option<PathBuf>,
}

impl Opened {
    fn facts(&self, read_only: bool) -> Facts {
        let info = self.archive.info().clone();
        let (remarks, damaged) = (self.archive.remarks(), self.archive.is_recovered());
        let (path, fixed) = match &self.path {
            Some(path) if info.format.starts_with("NRA 5") => match access(path, Access::WRITE_OK) {
                _ if read_only => (None, "the browser was started with --read-only"),
                _ if damaged => (None, "a damaged archive can't be changed"),
                Err(_) => (None, "the file is write-protected"),
                Ok(()) => (Some(path.clone()), ""),
            },
            _ => (None, ONLY_NRA),
        };
        Facts { name: self.name.clone(), info, path, fixed, depth: 0, remarks, damaged }
    }
}

/// Opens what a door leads to, with a password if one was typed.
pub type Opener = Arc<dyn Fn(&Door, Option<Secret>) -> Result<Opened> + Send + Sync>;

/// How the browser runs.
#[derive(Clone)]
pub struct Options {
    /// Settings.
    pub config: Config,
    /// What was wrong with them.
    pub warning: Option<String>,
    /// How other archives and commits are opened.
    pub opener: Opener,
    /// Archives to choose from.
    pub archives: Vec<PathBuf>,
    /// An archive that needs a password.
    pub locked: Option<PathBuf>,
    /// Nothing is changed.
    pub read_only: bool,
}

/// Runs the browser on the terminal until the user, or a signal, ends it. Returns whether a signal did. Without an archive it asks for one.
///
/// # Errors
///
/// What the terminal says.
pub fn run(archive: Option<Opened>, options: &Options) -> io::Result<bool> {
    let (width, height) = crossterm::terminal::size()?;
    let vacant = archive.is_none();
    let opened = archive.map_or_else(nothing, Ok)?;
    let (facts, archive) = (opened.facts(options.read_only), opened.archive);
    let mut state = State::new(facts, theme(options.config.theme, None), options.config.keymap.clone(), width, height);
    state.preview = options.config.preview;
    state.linear = options.config.linear;
    state.plain = terminal::is_plain(|name| std::env::var(name).ok());
    state.columns.clone_from(&options.config.columns);
    state.archives = options.archives.clone();
    state.vacant = vacant;
    if let Some(warning) = &options.warning {
        state.say(Tone::Warning, warning.clone());
    }

    let (sender, events) = unbounded();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let terminated = sender.clone();
    let handle = signals.handle();
    thread::spawn(move || signals.forever().take_while(|_| terminated.send(Event::Terminate).is_ok()).count());

    let mut screen = Screen::take(options.config.mouse)?;
    let work = Work::start(&archive, &sender);
    drop(archive);
    if needs_ground(&options.config) {
        state.theme = theme(options.config.theme, terminal::ask_ground());
    }
    let (canvas, typed) = canvas(options.config.pictures, &state);
    state.pane.canvas = canvas;
    screen.draws(canvas.protocol);
    let mut session = Session::new(state, work, events);
    let mut effects = match &options.locked {
        Some(path) => session.take(Event::Locked(Door::File(path.clone()), false)),
        None => start(&mut session.state),
    };
    session.keys = Some(read_keys(&sender, typed));
    let ended = loop {
        effects = match session.turn(effects, screen.terminal()).and_then(|next| {
            if next == Next::Quit { Ok(None) } else { outside(next, &mut session, &mut screen, &sender, options).map(Some) }
        }) {
            Ok(Some(effects)) => effects,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
    };
    handle.close();
    ended.map(|()| session.terminated)
}

/// Does what concerns the terminal, and what opens archives.
fn outside(
    next: Next,
    session: &mut Session,
    screen: &mut Screen,
    events: &Sender<Event>,
    options: &Options,
) -> io::Result<Vec<Effect>> {
    match next {
        Next::Suspend => {
            let size = suspend(screen)?;
            return Ok(session.take(Event::Resize(size.0, size.1)));
        }
        Next::Copy(text) => {
            if let Err(error) = screen.copy(&text) {
                return Ok(session.take(trouble("copy", &error)));
            }
        }
        Next::Page(entry) => {
            let archive = Arc::clone(session.work.archive());
            let shown = screen.lend(|| pager::show(&*archive, &entry))?;
            session.next_key();
            if let Err(error) = shown {
                return Ok(session.take(trouble("show it in the pager", &error)));
            }
        }
        Next::Open(Door::Outside, _) => {
            if let Some((facts, archive)) = session.outer.last().cloned() {
                *session.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(archive);
                return Ok(session.take(Event::Opened(Box::new(facts))));
            }
        }
        Next::Open(door, password) => {
            let (outer, around) = (Arc::clone(session.work.archive()), session.state.archive.clone());
            let read_only = options.read_only;
            let (opener, events, slot) = (Arc::clone(&options.opener), events.clone(), Arc::clone(&session.opened));
            thread::spawn(move || {
                let secret = password.map(|password| Secret::Password(password.0));
                let found = match &door {
                    Door::Inside(entry) => nested::open(&*outer, entry, secret).map(|archive| {
                        let name = format!("{} ▸ {}", around.name, glyphs::shown(entry.path.name()));
                        (Opened { archive, name, path: None }, around.depth + 1)
                    }),
                    _ => opener(&door, secret).map(|opened| (opened, 0)),
                };
                let event = match found {
                    Ok((opened, depth)) => {
                        let facts = Facts { depth, ..opened.facts(read_only) };
                        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened.archive);
                        Event::Opened(Box::new(facts))
                    }
                    Err(Error::KeyNeeded) => Event::Locked(door, false),
                    Err(Error::WrongKey) => Event::Locked(door, true),
                    Err(error) => Event::Trouble(told(&error)),
                };
                drop(events.send(event));
            });
        }
        Next::Commits => {
            let (opener, events) = (Arc::clone(&options.opener), events.clone());
            thread::spawn(move || {
                // From the newest on, whichever is open.
                let commits = opener(&Door::Commit(None), None)
                    .and_then(|opened| opened.archive.commits().take(MAX_COMMITS).collect::<Result<Vec<_>>>());
                drop(events.send(Event::Commits(commits.map_err(|error| told(&error)))));
            });
        }
        Next::Redraw => screen.clear()?,
        Next::Quit => {}
    }
    Ok(Vec::new())
}

/// Returns an archive of nothing, for the time before one is chosen.
fn nothing() -> io::Result<Opened> {
    let empty = || -> Result<Box<dyn Archive>> {
        let (bytes, _) = Writer::create(Vec::new(), WriterOptions::default())?.finish(&Recorder::default())?;
        open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
    };
    let archive = empty().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Opened { archive: Arc::from(archive), name: String::new(), path: None })
}

/// Returns the colours: those that were asked for, or as the environment says, or as the terminal has told.
fn theme(name: ThemeName, told: Option<Ground>) -> Theme {
    let variable = |name: &str| std::env::var(name).ok();
    let depth = terminal::depth(variable);
    let ground = terminal::ground(variable).or(told).unwrap_or_default();
    match name {
        ThemeName::Auto => Theme::new(ground, depth),
        ThemeName::Dark => Theme::new(Ground::Dark, depth),
        ThemeName::Light => Theme::new(Ground::Light, depth),
        ThemeName::Mono => Theme::new(ground, Depth::Mono),
    }
}

/// Says whether the colours depend on what only the terminal knows.
fn needs_ground(config: &Config) -> bool {
    let variable = |name: &str| std::env::var(name).ok();
    config.theme == ThemeName::Auto && terminal::depth(variable) != Depth::Mono && terminal::ground(variable).is_none()
}

/// Returns what pictures are drawn on: as was asked for, as the environment says, or as the terminal tells; and what was typed while it told.
fn canvas(pictures: Pictures, state: &State) -> (Canvas, Vec<u8>) {
    let (rich, font) = (state.theme.depth != Depth::Mono && !state.plain, terminal::font());
    let by_environment = || match canvas::known(|name| std::env::var(name).ok()) {
        // Shades are for those who want no colours, and for whom the screen is read out.
        _ if !rich || state.linear => Some(Protocol::Blocks),
        known => known,
    };
    let mut typed = Vec::new();
    let protocol = pictures.chosen(rich).or_else(by_environment).unwrap_or_else(|| {
        // A terminal that draws says how large its cells are.
        let (sixel, rest) = font.and_then(|_| terminal::ask_sixel().ok()).unwrap_or_default();
        typed = rest;
        if sixel { Protocol::Sixel } else { Protocol::Blocks }
    });
    (Canvas { protocol, font: font.unwrap_or(canvas::FONT), ..Canvas::default() }, typed)
}

fn trouble(what: &str, error: &io::Error) -> Event {
    Event::Trouble(format!("cannot {what}: {error}"))
}

/// Stops the process as ctrl-z does elsewhere; returns the size of the screen when the shell has continued it.
fn suspend(screen: &mut Screen) -> io::Result<(u16, u16)> {
    screen.lend(|| kill_process(getpid(), Signal::TSTP))??;
    crossterm::terminal::size()
}

/// Starts the thread that reads keys: one, then the next when it is told that what the first one led to still reads keys. So nothing is read that
/// belongs to whoever has the terminal next. What was typed before comes first.
fn read_keys(events: &Sender<Event>, typed: Vec<u8>) -> Sender<()> {
    let (keys, next) = unbounded();
    let events = events.clone();
    let key = |byte: u8| Event::Key(Key::plain(KeyCode::Char(char::from(byte))));
    let mut typed = typed.into_iter().filter(u8::is_ascii_graphic).map(key);
    thread::spawn(move || {
        loop {
            // A terminal that is gone is as good as a request to end.
            let read = || event::read().map_or(Some(Event::Terminate), translate);
            let Some(event) = typed.next().or_else(read) else { continue };
            let (last, resized) = (event == Event::Terminate, matches!(event, Event::Resize(..)));
            if events.send(event).is_err() || last {
                return;
            }
            if let Some((width, height)) = terminal::font().filter(|_| resized) {
                drop(events.send(Event::Font(width, height)));
            }
            if next.recv().is_err() {
                return;
            }
        }
    });
    keys
}

fn translate(event: event::Event) -> Option<Event> {
    match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => Some(Event::Key(key.into())),
        event::Event::Paste(text) => Some(Event::Paste(text)),
        event::Event::Mouse(mouse) => Some(Event::Mouse(mouse)),
        event::Event::Resize(width, height) => Some(Event::Resize(width, height)),
        _ => None,
    }
}
