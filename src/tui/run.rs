//! A run from its start to its end: the terminal taken and given back, archives opened, what a [`Session`] can't do itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded, unbounded};
use crossterm::event::{self, KeyEventKind};
use rustix::fs::{Access, access};
use tempfile::TempDir;

use crate::format::archive::{Archive, OpenOptions, open};
use crate::format::crypt::Secret;
use crate::format::entry::Entry;
use crate::format::error::{Error, Result, reason};
use crate::format::nra::writer::{Writer, WriterOptions};
use crate::format::progress::Recorder;
use crate::format::source::MemorySource;
use crate::tui::ask::{Told, ask};
use crate::tui::asked::Ticket;
use crate::tui::canvas::{self, Canvas, Protocol};
use crate::tui::config::{Config, ThemeName};
use crate::tui::effect::{Door, Effect, Outside, Password};
use crate::tui::environment::Environment;
use crate::tui::event::Event;
use crate::tui::key::Key;
use crate::tui::keyboard::Keyboard;
use crate::tui::layout::{SHARE, SHARES};
use crate::tui::left::Left;
use crate::tui::memory::Memory;
use crate::tui::session::Session;
use crate::tui::state::jobs::Ending;
use crate::tui::state::{DAMAGED, Facts, ONLY_NRA, READ_ONLY, State, Tone, WRITE_PROTECTED};
use crate::tui::terminal::{self, Screen};
use crate::tui::theme::{Depth, Ground, Theme};
use crate::tui::update::{has_keys_only, keep, start};
use crate::tui::work::{FAULT, Work, answered, told};
use crate::tui::{glyphs, nested, program, signals};

/// A copy that takes longer can be stopped by a key.
const MOMENT: Duration = Duration::from_millis(200);
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
    /// There is a later commit.
    pub is_past: bool,
    /// It did not open as it should have: why, and what this is instead.
    pub remains: Option<String>,
}

impl Opened {
    fn facts(&self, options: &Options) -> Facts {
        let read_only = options.read_only;
        let info = self.archive.info().clone();
        let remarks: Vec<String> = self.remains.iter().cloned().chain(self.archive.remarks()).collect();
        let damaged = self.remains.is_some() || self.archive.is_recovered();
        // Nothing of what is encrypted is told to anybody who can read a file.
        let remembered = options.config.remember && !read_only && !info.encrypted;
        let home = self.path.as_ref().filter(|_| remembered).and_then(|path| path.canonicalize().ok());
        let home = home.and_then(|path| path.to_str().map(str::to_owned));
        let file = match &self.path {
            Some(path) if info.format.starts_with("NRA 5") => match access(path, Access::WRITE_OK) {
                _ if read_only => Err(READ_ONLY),
                _ if damaged => Err(DAMAGED),
                Err(_) => Err(WRITE_PROTECTED),
                Ok(()) => Ok(path.clone()),
            },
            _ => Err(ONLY_NRA),
        };
        let is_past = self.is_past;
        Facts { name: self.name.clone(), info, is_past, file, depth: 0, inside: None, remarks, damaged, home }
    }
}

/// Opens what a door leads to, beside the archive file that is shown, with a password if one was typed.
pub type Opener = Arc<dyn Fn(&Door, &Path, Option<Secret>) -> Result<Opened> + Send + Sync>;

/// How the browser runs.
#[derive(Clone)]
pub struct Options {
    /// What the environment says.
    pub environment: Environment,
    /// Settings.
    pub config: Config,
    /// What was wrong with them.
    pub warnings: Vec<String>,
    /// How other archives and commits are opened.
    pub opener: Opener,
    /// Forgets an interrupt that was for another program.
    pub pass: fn(),
    /// Archives to choose from at the start.
    pub archives: Vec<PathBuf>,
    /// Looks which there are by now.
    pub look: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// An archive that needs a password.
    pub locked: Option<PathBuf>,
    /// Nothing is changed.
    pub read_only: bool,
}

/// Runs the browser on the terminal until the user, or a signal, ends it. Returns what is left then. Without an archive it asks for one.
///
/// # Errors
///
/// What the terminal says.
pub fn run(archive: Option<Opened>, options: &Options) -> io::Result<Left> {
    let (width, height) = crossterm::terminal::size()?;
    let vacant = archive.is_none();
    let opened = archive.map_or_else(nothing, Ok)?;
    let (facts, archive, file) = (opened.facts(options), opened.archive, opened.path);
    let mut state = State::new(facts, theme(options, None), options.config.keymap.clone(), width, height);
    state.preview = options.config.preview;
    state.linear = options.config.linear;
    state.pane.limits = options.config.limits;
    state.plain = terminal::is_plain(|name| options.environment.text(name));
    if options.config.remember && !options.read_only {
        state.memory = Memory::read();
        state.share = state.memory.share.filter(|share| SHARES.contains(share)).unwrap_or(state.share);
    }
    state.columns.clone_from(&options.config.columns);
    state.archives = options.archives.clone();
    state.vacant = vacant;
    for warning in options.warnings.iter().rev() {
        state.jobs.note("settings".to_owned(), Ending::Degraded, warning.clone(), Duration::ZERO);
    }
    match options.warnings.as_slice() {
        [] => {}
        [warning] => state.say(Tone::Warning, warning.clone()),
        [first, rest @ ..] => state.say(Tone::Warning, format!("{first} (and {} more: J shows them)", rest.len())),
    }

    let (sender, events) = unbounded();
    let copies = Arc::<Mutex<Vec<TempDir>>>::default();
    let handle = signals::watch(&sender, options.pass, &copies)?;
    let mut screen = Screen::take(options.config.mouse)?;
    let work = Work::start(&archive, &sender);
    drop(archive);
    let ask_ground = needs_ground(options);
    let known = protocol(options, &state);
    let font = terminal::font();
    // A terminal that draws says how large its cells are.
    let told = if ask_ground || known.is_none() && font.is_some() { ask(ask_ground)? } else { Told::default() };
    if ask_ground {
        state.theme = theme(options, told.ground);
    }
    let protocol = known.unwrap_or(if told.sixel && font.is_some() { Protocol::Sixel } else { Protocol::Blocks });
    state.pane.canvas = Canvas { protocol, font: font.unwrap_or(canvas::FONT), ..Canvas::default() };
    screen.draws(protocol);
    let mut session = Session::new(state, work, events);
    session.file = file.unwrap_or_default();
    session.copies = copies;
    let mut effects = match &options.locked {
        Some(path) => session.feed(Event::Locked(Door::File(path.clone()), false)),
        None => start(&mut session.state),
    };
    session.keyboard = Some(Keyboard::start(typed(&sender, told.typed), &sender));
    let ended = loop {
        effects = match session.turn(effects, screen.terminal()).and_then(|next| {
            if matches!(next, Outside::Quit | Outside::Detach) {
                Ok(None)
            } else {
                outside(next, &mut session, &mut screen, &sender, options).map(Some)
            }
        }) {
            Ok(Some(effects)) => effects,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
    };
    if options.config.remember && !options.read_only {
        remember(&mut session.state);
    }
    // Jobs that go on find the terminal as it was.
    drop(screen);
    let left = Left::new(session, handle);
    ended.map(|()| left)
}

/// Does what concerns the terminal, and what opens archives.
fn outside(
    next: Outside,
    session: &mut Session,
    screen: &mut Screen,
    events: &Sender<Event>,
    options: &Options,
) -> io::Result<Vec<Effect>> {
    match next {
        Outside::Suspend => {
            if !signals::is_job() {
                session.read_on();
                return Ok(
                    session.feed(Event::Trouble("there is no shell that would go on with a program that stops".to_owned()))
                );
            }
            screen.release();
            // The terminal is taken again when the system tells that this is over.
            signals::stop();
        }
        Outside::Retake => {
            screen.retake()?;
            session.read_on();
            let (width, height) = crossterm::terminal::size()?;
            return Ok(session.feed(Event::Resize(width, height)));
        }
        Outside::Copy(text) => {
            if let Err(error) = screen.copy(&text) {
                return Ok(session.feed(trouble("copy", &error)));
            }
        }
        Outside::Page(entry) => {
            let archive = Arc::clone(session.work.archive());
            let pager = options.environment.command(&["PAGER"], "less");
            let shown = screen.lend(|| program::page(&*archive, &entry, &pager))?;
            session.read_on();
            if let Err(error) = shown {
                return Ok(session.feed(trouble("show it in another program", &error)));
            }
        }
        Outside::Fetch(ticket, entry) => {
            if !fetch(ticket, entry, session, events, options.config.limits.copy) {
                session.read_on();
            }
        }
        Outside::Edit(copy) => {
            let editor = options.environment.command(&["VISUAL", "EDITOR"], "vi");
            let edited = screen.lend(|| program::edit(&editor, &copy))?;
            let mut copies = session.copies.lock().unwrap_or_else(PoisonError::into_inner);
            copies.retain(|directory| !copy.starts_with(directory.path()));
            drop(copies);
            session.read_on();
            match edited {
                Ok(None) => {}
                Ok(Some(remark)) => return Ok(session.feed(Event::Trouble(remark.to_owned()))),
                Err(error) => return Ok(session.feed(trouble("show it in another program", &error))),
            }
        }
        Outside::Launch(entry) => {
            let directory = match program::private_directory() {
                Ok(directory) => directory,
                Err(error) => return Ok(session.feed(trouble("make a copy of it", &error))),
            };
            let (path, archive, events) = (directory.path().to_owned(), Arc::clone(session.work.archive()), events.clone());
            let (launcher, limit) = (options.config.launcher.clone(), options.config.limits.copy);
            // It is gone with the session, also while it is being written.
            session.copies.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
            thread::spawn(move || {
                let launch = || program::launch(&*archive, &entry, &launcher, &path, limit);
                if let Err(error) = answered(Err(io::Error::other(FAULT)), launch) {
                    drop(events.send(trouble("open it", &error)));
                }
            });
        }
        Outside::Open(ticket, Door::Outside, _) => {
            if let Some((facts, archive)) = session.outer.last().cloned() {
                session.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket.number, (archive, None));
                return Ok(session.feed(Event::Answer(ticket, Box::new(Event::Opened(Box::new(facts))))));
            }
        }
        Outside::Open(ticket, door, password) => {
            let file = session.file.clone();
            let around = &session.state.archive;
            let keys_only = has_keys_only(around);
            // An archive within another one is opened anew from there.
            let (way, outer, around) = match (&door, &around.inside, session.outer.last()) {
                (Door::Content, Some(entry), Some((facts, archive))) => (Door::Inside(entry.clone()), archive, facts),
                _ => (door.clone(), session.work.archive(), around),
            };
            let (outer, around) = (Arc::clone(outer), around.clone());
            let options = options.clone();
            let (opener, events, slot) = (Arc::clone(&options.opener), events.clone(), Arc::clone(&session.opened));
            let open = move || {
                let secret = password.map(|password| secret(password, door == Door::Content && keys_only));
                let found = match &way {
                    Door::Inside(entry) => nested::open(&*outer, entry, secret, options.config.limits.archive).map(|archive| {
                        let name = format!("{} ▸ {}", around.name, glyphs::shown(entry.path.name()));
                        (Opened { archive, name, path: None, is_past: false, remains: None }, around.depth + 1)
                    }),
                    _ => opener(&way, &file, secret).map(|opened| (opened, 0)),
                };
                match found {
                    Ok((opened, depth)) => {
                        let inside = if let Door::Inside(entry) = way { Some(entry) } else { None };
                        let facts = Facts { depth, inside, ..opened.facts(&options) };
                        let found = (opened.archive, opened.path);
                        slot.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket.number, found);
                        Event::Opened(Box::new(facts))
                    }
                    Err(Error::KeyNeeded) => Event::Locked(door, false),
                    Err(Error::WrongKey) => Event::Locked(door, true),
                    Err(error) => Event::Trouble(told(&error)),
                }
            };
            let (turn, is_awaited) = (Arc::clone(&session.turn), session.work.awaits(ticket));
            thread::spawn(move || {
                let event = in_turn(&turn, is_awaited, || answered(Event::Trouble(FAULT.to_owned()), open));
                event.map(|event| drop(events.send(Event::Answer(ticket, Box::new(event)))))
            });
        }
        Outside::Commits(ticket) => {
            let (opener, events, file) = (Arc::clone(&options.opener), events.clone(), session.file.clone());
            let list = move || {
                // From the newest on, whichever is open.
                let commits = opener(&Door::Commit(None), &file, None)
                    .and_then(|opened| opened.archive.commits().take(MAX_COMMITS).collect::<Result<Vec<_>>>());
                commits.map_err(|error| told(&error))
            };
            thread::spawn(move || {
                let commits = Event::Commits(answered(Err(FAULT.to_owned()), list));
                drop(events.send(Event::Answer(ticket, Box::new(commits))));
            });
        }
        Outside::Archives(ticket) => {
            let (look, events) = (Arc::clone(&options.look), events.clone());
            thread::spawn(move || {
                let archives = Event::Archives(answered(Vec::new(), || look()));
                drop(events.send(Event::Answer(ticket, Box::new(archives))));
            });
        }
        Outside::Redraw => screen.clear()?,
        Outside::Quit | Outside::Detach => {}
    }
    Ok(Vec::new())
}

/// Makes a copy of content for an editor on a thread of its own. Says whether that has ended within a moment, in which nothing is typed that would not be
/// for the editor.
fn fetch(ticket: Ticket, entry: Entry, session: &Session, events: &Sender<Event>, limit: u64) -> bool {
    let (archive, copies) = (Arc::clone(session.work.archive()), Arc::clone(&session.copies));
    let (events, is_awaited) = (events.clone(), session.work.awaits(ticket));
    let (running, has_ended) = bounded::<()>(0);
    thread::spawn(move || {
        let copy = || {
            let directory = program::private_directory()?;
            let path = program::copy_to(&*archive, &entry, directory.path(), limit, &is_awaited)?;
            // It is gone with the editor, or with the session.
            copies.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
            Ok(path)
        };
        let copied = answered(Err(io::Error::other(FAULT)), copy);
        let copied = copied.map_err(|error| format!("cannot make a copy of it: {}", reason(&error)));
        drop(events.send(Event::Answer(ticket, Box::new(Event::Copied(copied)))));
        drop(running);
    });
    has_ended.recv_timeout(MOMENT) == Err(RecvTimeoutError::Disconnected)
}

/// Does work when what was begun before has come to its end, unless it is not awaited any more by then: an archive that is given up is read on for a
/// while, and whoever tries again and again would have as many of them read at once.
fn in_turn<T>(turn: &Mutex<()>, is_awaited: impl Fn() -> bool, work: impl FnOnce() -> T) -> Option<T> {
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    is_awaited().then(work)
}

/// Makes a secret of what was typed: a raw key where there are no passwords.
fn secret(Password(typed): Password, keys_only: bool) -> Secret {
    let key = std::str::from_utf8(&typed).ok().filter(|_| keys_only).and_then(|digits| Secret::from_hex(digits.trim()));
    key.unwrap_or(Secret::Password(typed))
}

/// Keeps where one is, and how the screen is divided, for the next time.
fn remember(state: &mut State) {
    keep(state);
    let divided = state.share != SHARE || state.memory.share.is_some();
    if state.homes.is_empty() && !divided {
        return;
    }
    let mut memory = state.memory.clone();
    memory.share = divided.then_some(state.share);
    // Without it the next run begins at the top: no reason for a word.
    drop(memory.write(&state.homes));
}

/// Returns an archive of nothing, for the time before one is chosen.
fn nothing() -> io::Result<Opened> {
    let empty = || -> Result<Box<dyn Archive>> {
        let (bytes, _) = Writer::create(Vec::new(), WriterOptions::default())?.finish(&Recorder::default())?;
        open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
    };
    let archive = empty().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Opened { archive: Arc::from(archive), name: String::new(), path: None, is_past: false, remains: None })
}

/// Returns the colours: those that were asked for, or as the environment says, or as the terminal has told.
fn theme(options: &Options, told: Option<Ground>) -> Theme {
    let variable = |name: &str| options.environment.text(name);
    let depth = terminal::depth(variable);
    let ground = terminal::ground(variable).or(told).unwrap_or_default();
    match options.config.theme {
        ThemeName::Auto => Theme::new(ground, depth),
        ThemeName::Dark => Theme::new(Ground::Dark, depth),
        ThemeName::Light => Theme::new(Ground::Light, depth),
        ThemeName::Mono => Theme::new(ground, Depth::Mono),
    }
}

/// Says whether the colours depend on what only the terminal knows.
fn needs_ground(options: &Options) -> bool {
    let variable = |name: &str| options.environment.text(name);
    options.config.theme == ThemeName::Auto && terminal::depth(variable) != Depth::Mono && terminal::ground(variable).is_none()
}

/// Returns how pictures are drawn, as was asked for or as the environment says; `None` when only the terminal can tell.
fn protocol(options: &Options, state: &State) -> Option<Protocol> {
    let rich = state.theme.depth != Depth::Mono && !state.plain;
    let by_environment = || match canvas::known(|name| options.environment.text(name)) {
        // Shades are for those who want no colours, and for whom the screen is read out.
        _ if !rich || state.linear => Some(Protocol::Blocks),
        known => known,
    };
    options.config.pictures.chosen(rich).or_else(by_environment)
}

fn trouble(what: &str, error: &io::Error) -> Event {
    Event::Trouble(format!("cannot {what}: {}", reason(error)))
}

/// Reads what is typed from the terminal; what was typed before comes first.
fn typed(events: &Sender<Event>, before: Vec<Key>) -> Box<dyn FnMut(Option<Duration>) -> io::Result<Option<Event>> + Send> {
    let events = events.clone();
    let mut before = before.into_iter().map(Event::Key);
    Box::new(move |patience| {
        if let Some(key) = before.next() {
            return Ok(Some(key));
        }
        loop {
            if let Some(patience) = patience
                && !event::poll(patience)?
            {
                return Ok(None);
            }
            let Some(event) = translate(event::read()?) else { continue };
            let resized = matches!(event, Event::Resize(..));
            if let Some((width, height)) = terminal::font().filter(|_| resized) {
                drop(events.send(Event::Font(width, height)));
            }
            return Ok(Some(event));
        }
    })
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_archive_is_opened_at_a_time() {
        let turn = Mutex::new(());
        let (at_once, most, awaited) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(true));
        let open = || {
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            at_once.fetch_sub(1, Ordering::SeqCst);
        };
        let done = thread::scope(|scope| {
            let tries = [0; 4].map(|_| scope.spawn(|| in_turn(&turn, || awaited.swap(false, Ordering::SeqCst), open)));
            tries.map(|one| one.join().expect("it does not panic")).into_iter().flatten().count()
        });
        // What nobody awaits is not begun.
        assert_eq!((done, most.into_inner()), (1, 1));
    }
}
