//! Runs the browser: sets up the terminal, and performs the effects that `Session` returns.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded, unbounded};
use crossterm::event::{self, KeyEventKind};

use crate::background::BackgroundRun;
use crate::canvas::{self, Canvas, Protocol};
use crate::config::ThemeName;
use crate::copies::Copies;
use crate::effect::{Effect, Request, RequestId};
use crate::event::{Event, Failure, Response};
use crate::key::Key;
use crate::keyboard::Keyboard;
use crate::layout::{SHARE, SHARES};
use crate::open_target::OpenTarget;
use crate::options::{Opened, Options};
use crate::session::Session;
use crate::state::stored_positions::StoredPositions;
use crate::state::{Ending, State, Tone};
use crate::terminal::{self, Screen};
use crate::terminal_query::{TerminalReply, begins_late, query, rest_of_late};
use crate::theme::{Background, Depth, Theme};
use crate::update::{keep, start};
use crate::workers::{FAULT, Workers, catch_fault, missing_password};
use crate::{opening, program, signals};
use nra_format::entry::Entry;
use nra_format::error::reason;

/// After this time, a key can cancel making a copy.
const MOMENT: Duration = Duration::from_millis(200);

/// Runs the browser until the user quits or a signal ends it, and returns the jobs that continue.
/// Without an archive it asks for one.
///
/// # Errors
///
/// Errors of the terminal.
pub fn run(archive: Option<Opened>, options: &Options) -> io::Result<BackgroundRun> {
    let (width, height) = crossterm::terminal::size()?;
    let vacant = archive.is_none();
    let opened = archive.map_or_else(opening::nothing, Ok)?;
    let (facts, archive, file) = (opened.facts(options), opened.archive, opened.path);
    let mut state = State::new(facts, theme(options, None), options.config.keymap.clone(), width, height);
    state.layout.preview = options.config.preview;
    state.settings.linear = options.config.linear;
    state.preview.limits = options.config.limits;
    state.settings.ascii = terminal::is_ascii_only(|name| options.environment.text(name));
    if options.config.remember && !options.read_only {
        state.places.memory = StoredPositions::read();
        state.layout.list_share =
            state.places.memory.share.filter(|share| SHARES.contains(share)).unwrap_or(state.layout.list_share);
    }
    state.layout.columns.clone_from(&options.config.columns);
    state.opening.archives = options.archives.clone();
    state.opening.no_archive = vacant;
    for warning in options.warnings.iter().rev() {
        state.jobs.note("settings".to_owned(), Ending::Degraded, warning.clone(), Duration::ZERO);
    }
    match options.warnings.as_slice() {
        [] => {}
        [warning] => state.notify(Tone::Warning, warning.clone()),
        [first, rest @ ..] => state.notify(Tone::Warning, format!("{first} (and {} more: J shows them)", rest.len())),
    }

    let (sender, events) = unbounded();
    let copies = Copies::default();
    let handle = signals::watch(&sender, options.pass, copies.remover())?;
    let mut screen = Screen::take(options.config.mouse)?;
    let workers = Workers::start(&archive, &sender);
    drop(archive);
    let asks_background = needs_background(options);
    let known = protocol(options, &state);
    let font = terminal::font();
    // Terminals with pictures report the size of their cells.
    let reply =
        if asks_background || known.is_none() && font.is_some() { query(asks_background)? } else { TerminalReply::default() };
    if asks_background {
        state.settings.theme = theme(options, reply.background);
    }
    let protocol = known.unwrap_or(if reply.sixel && font.is_some() { Protocol::Sixel } else { Protocol::Blocks });
    state.preview.canvas = Canvas { protocol, font: font.unwrap_or(canvas::DEFAULT_FONT), ..Canvas::default() };
    screen.set_protocol(protocol);
    let mut session = Session::new(state, workers, events);
    session.file = file.unwrap_or_default();
    session.copies = copies;
    let mut effects = match &options.locked {
        Some(path) => session.feed(Event::Failed(Failure::Locked(OpenTarget::File(path.clone()), false))),
        None => start(&mut session.state),
    };
    session.keyboard = Some(Keyboard::start(typed(&sender, reply.typed), &sender));
    let ended = loop {
        effects = match session.run(effects, screen.terminal()).and_then(|next| {
            if matches!(next, Effect::Quit | Effect::Detach) {
                Ok(None)
            } else {
                perform(next, &mut session, &mut screen, &sender, options).map(Some)
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
    // The terminal is restored before jobs continue without a screen.
    drop(screen);
    let background = BackgroundRun::new(session, handle);
    ended.map(|()| background)
}

/// Performs an effect that concerns the terminal or opens an archive.
fn perform(
    effect: Effect,
    session: &mut Session,
    screen: &mut Screen,
    events: &Sender<Event>,
    options: &Options,
) -> io::Result<Vec<Effect>> {
    let copy_limit = options.config.limits.copy;
    let mut failed = None;
    match effect {
        Effect::Suspend if signals::is_job() => {
            screen.release();
            // The terminal is taken again when the program is resumed.
            signals::stop();
        }
        Effect::Suspend => {
            session.read_on();
            failed = Some(Failure::Error("Cannot suspend: no shell would resume nra".to_owned()));
        }
        Effect::Retake => {
            screen.retake()?;
            session.read_on();
            let (width, height) = crossterm::terminal::size()?;
            return Ok(session.feed(Event::Resize(width, height)));
        }
        Effect::Copy(text) => failed = screen.copy(&text).err().map(|error| failure("copy", &error)),
        Effect::Page(entry) => {
            let archive = Arc::clone(session.workers.archive());
            let pager = options.environment.command(&["PAGER"], "less");
            let shown = screen.lend(|| program::page(&*archive, &entry, &pager))?;
            session.read_on();
            failed = shown.err().map(|error| failure("show it in another program", &error));
        }
        Effect::Request(id, Request::Copy(entry)) => match copy_for_editor(id, entry, session, events, copy_limit) {
            Ok(true) => {}
            Ok(false) => session.read_on(),
            Err(error) => {
                session.read_on();
                return Ok(session.feed(Event::Response(id, copy_response(Err(error)))));
            }
        },
        Effect::Edit(copy) => {
            let editor = options.environment.command(&["VISUAL", "EDITOR"], "vi");
            let edited = screen.lend(|| program::edit(&editor, &copy))?;
            session.copies.remove(&copy);
            session.read_on();
            failed = match edited {
                Ok(remark) => remark.map(|remark| Failure::Error(remark.to_owned())),
                Err(error) => Some(failure("show it in another program", &error)),
            };
        }
        Effect::Launch(entry) => {
            failed = launch(entry, session, events, options).err().map(|error| failure("make a copy of it", &error));
        }
        Effect::Request(id, Request::Open(OpenTarget::Parent, _)) => return Ok(opening::step_out(id, session)),
        Effect::Request(id, Request::Open(target, password)) => opening::open(id, target, password, session, events, options),
        Effect::Request(id, Request::Commits) => opening::list_commits(id, session, events, options),
        Effect::Request(id, Request::Archives) => {
            let (list, events) = (Arc::clone(&options.list_archives), events.clone());
            thread::spawn(move || {
                let archives = Response::Archives(catch_fault(Vec::new(), || list()));
                drop(events.send(Event::Response(id, archives)));
            });
        }
        Effect::Redraw => screen.clear()?,
        // Workers and the caller perform the others.
        Effect::Request(..) | Effect::Start(..) | Effect::Stop(_) | Effect::Pause(..) | Effect::Quit | Effect::Detach => {}
    }
    Ok(failed.map_or_else(Vec::new, |failure| session.feed(Event::Failed(failure))))
}

/// Makes a copy of content for an editor on a thread. Returns whether it was made at once; until
/// then, keys typed are for the editor.
fn copy_for_editor(id: RequestId, entry: Entry, session: &Session, events: &Sender<Event>, limit: u64) -> io::Result<bool> {
    let copy = session.copies.create(entry.path.name())?;
    let archive = Arc::clone(session.workers.archive());
    let (events, is_awaited) = (events.clone(), session.workers.awaits(id));
    let (running, has_ended) = bounded::<()>(0);
    thread::spawn(move || {
        let make = || program::copy_to(&*archive, &entry, &copy, limit, &is_awaited).map(|()| copy);
        let copied = catch_fault(Err(io::Error::other(FAULT)), make);
        drop(events.send(Event::Response(id, copy_response(copied))));
        drop(running);
    });
    Ok(has_ended.recv_timeout(MOMENT) == Err(RecvTimeoutError::Disconnected))
}

/// Returns the response for a copy or for its error.
fn copy_response(copy: io::Result<PathBuf>) -> Response {
    copy.map_or_else(|error| Response::Failed(failure("make a copy of it", &error)), Response::CopyReady)
}

/// Makes a copy of content and opens it in the default program, on a thread.
fn launch(entry: Entry, session: &Session, events: &Sender<Event>, options: &Options) -> io::Result<()> {
    let copy = session.copies.create(entry.path.name())?;
    let (archive, events) = (Arc::clone(session.workers.archive()), events.clone());
    let (launcher, limit) = (options.config.launcher.clone(), options.config.limits.copy);
    thread::spawn(move || {
        let launch = || {
            program::copy_to(&*archive, &entry, &copy, limit, &|| true)?;
            program::launch(&launcher, &copy)
        };
        if let Err(error) = catch_fault(Err(io::Error::other(FAULT)), launch) {
            drop(events.send(Event::Failed(failure("open it", &error))));
        }
    });
    Ok(())
}

/// Stores the position and the layout for the next run.
fn remember(state: &mut State) {
    keep(state);
    let divided = state.layout.list_share != SHARE || state.places.memory.share.is_some();
    if state.places.visited.is_empty() && !divided {
        return;
    }
    let mut memory = state.places.memory.clone();
    memory.share = divided.then_some(state.layout.list_share);
    // Without it the next run starts at the top, which needs no message.
    drop(memory.write(&state.places.visited));
}

/// Returns the colours from the settings, the environment or the terminal's response.
fn theme(options: &Options, reply: Option<Background>) -> Theme {
    let variable = |name: &str| options.environment.text(name);
    let depth = terminal::depth(variable);
    let background = terminal::background(variable).or(reply).unwrap_or_default();
    match options.config.theme {
        ThemeName::Auto => Theme::new(background, depth),
        ThemeName::Dark => Theme::new(Background::Dark, depth),
        ThemeName::Light => Theme::new(Background::Light, depth),
        ThemeName::Mono => Theme::new(background, Depth::Mono),
    }
}

/// Returns whether the colours depend on the terminal's response.
fn needs_background(options: &Options) -> bool {
    let variable = |name: &str| options.environment.text(name);
    options.config.theme == ThemeName::Auto
        && terminal::depth(variable) != Depth::Mono
        && terminal::background(variable).is_none()
}

/// Returns how pictures are drawn according to settings and environment; `None` if the terminal has
/// to be queried.
fn protocol(options: &Options, state: &State) -> Option<Protocol> {
    let rich = state.settings.theme.depth != Depth::Mono && !state.settings.ascii;
    let by_environment = || match canvas::detect(|name| options.environment.text(name)) {
        // Without colours, or with a screen reader, pictures are drawn in shades.
        _ if !rich || state.settings.linear => Some(Protocol::Blocks),
        known => known,
    };
    options.config.pictures.protocol(rich).or_else(by_environment)
}

/// Returns the failure of an action, which asks for a password if one is missing.
fn failure(action: &str, error: &io::Error) -> Failure {
    let wrong = error.get_ref().and_then(|inner| inner.downcast_ref()).and_then(missing_password);
    wrong.map_or_else(
        || Failure::Error(format!("cannot {action}: {}", reason(error))),
        |wrong| Failure::Locked(OpenTarget::Unlocked, wrong),
    )
}

/// Reads events from the terminal, after those read during start-up.
fn typed(events: &Sender<Event>, before: Vec<Key>) -> Box<dyn FnMut(Option<Duration>) -> io::Result<Option<Event>> + Send> {
    let events = events.clone();
    let mut before: VecDeque<Event> = before.into_iter().map(Event::Key).collect();
    Box::new(move |timeout| {
        loop {
            if let Some(event) = before.pop_front() {
                return Ok(Some(event));
            }
            let Some(event) = read(timeout)? else { return Ok(None) };
            if begins_late(&event) {
                match rest_of_late(&mut |timeout| read(Some(timeout)))? {
                    Some(typed) => before.extend(typed),
                    None => continue,
                }
            }
            let resized = matches!(event, Event::Resize(..));
            if let Some((width, height)) = terminal::font().filter(|_| resized) {
                drop(events.send(Event::Font(width, height)));
            }
            return Ok(Some(event));
        }
    })
}

/// Reads an event from the terminal; `None` after a time-out.
fn read(timeout: Option<Duration>) -> io::Result<Option<Event>> {
    loop {
        if let Some(timeout) = timeout
            && !event::poll(timeout)?
        {
            return Ok(None);
        }
        if let Some(event) = translate(event::read()?) {
            return Ok(Some(event));
        }
    }
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
