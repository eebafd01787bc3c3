//! The loop: waits for events, updates the state, does effects, draws.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use crossterm::event::{self, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::Backend;
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::format::archive::Archive;
use crate::format::entry::Entry;
use crate::tui::effect::Effect;
use crate::tui::event::Event;
use crate::tui::keymap::Keymap;
use crate::tui::pager;
use crate::tui::state::{Facts, State};
use crate::tui::terminal::{self, Screen};
use crate::tui::theme::Theme;
use crate::tui::update::{start, update};
use crate::tui::view::view;
use crate::tui::work::Work;

/// A new list may take this long to come before an empty one is drawn.
const PATIENCE: Duration = Duration::from_millis(20);
/// The thread that reads keys looks this often whether it should let go of the terminal.
const PAUSE_CHECK: Duration = Duration::from_millis(50);
/// Events taken at once before the screen is drawn.
const BATCH: usize = 256;

/// How the browser runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the archive for the header.
    pub name: String,
    /// Take part in what the mouse does.
    pub mouse: bool,
}

/// Runs the browser on the terminal until the user, or a signal, ends it. Returns whether a signal did.
///
/// # Errors
///
/// What the terminal says.
pub fn run(archive: Arc<dyn Archive>, options: &Options) -> io::Result<bool> {
    let variable = |name: &str| std::env::var(name).ok();
    let theme = Theme::new(terminal::ground(variable), terminal::depth(variable));
    let (width, height) = crossterm::terminal::size()?;
    let facts = Facts { name: options.name.clone(), info: archive.info().clone() };
    let state = State::new(facts, theme, Keymap::default(), width, height);

    let (sender, events) = unbounded();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let terminated = sender.clone();
    let handle = signals.handle();
    thread::spawn(move || signals.forever().take_while(|_| terminated.send(Event::Terminate).is_ok()).count());

    let mut screen = Screen::take(options.mouse)?;
    let input = Input::start(&sender);
    let work = Work::start(&archive, &sender);
    let mut session =
        Session { state, work, events, started: Instant::now(), outside: VecDeque::new(), pending: None, terminated: false };
    let mut effects = start(&mut session.state);
    let ended = loop {
        match session.turn(effects, screen.terminal()) {
            Ok(Next::Quit) => break Ok(()),
            Ok(Next::Suspend) => match suspend(&mut screen, &input) {
                Ok(size) => effects = session.take(Event::Resize(size.0, size.1)),
                Err(error) => break Err(error),
            },
            Ok(Next::Copy(text)) => {
                let copied = screen.copy(&text);
                effects = copied.map_or_else(|error| session.take(trouble("copy", &error)), |()| Vec::new());
            }
            Ok(Next::Page(entry)) => {
                let hands_off = input.pause();
                match screen.lend(|| pager::show(&*archive, &entry)) {
                    Ok(Ok(())) => effects = Vec::new(),
                    Ok(Err(error)) => effects = session.take(trouble("show it in the pager", &error)),
                    Err(error) => break Err(error),
                }
                drop(hands_off);
            }
            Ok(Next::Redraw) => {
                if let Err(error) = screen.terminal().clear() {
                    break Err(error);
                }
                effects = Vec::new();
            }
            Err(error) => break Err(error),
        }
    };
    handle.close();
    ended.map(|()| session.terminated)
}

/// What the caller of [`Session::turn`] has to do with the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// End.
    Quit,
    /// Stop the process.
    Suspend,
    /// Put text into the clipboard of the terminal.
    Copy(Vec<u8>),
    /// Show content in a pager.
    Page(Entry),
    /// Draw every cell.
    Redraw,
}

/// State, threads and time of a run.
pub struct Session {
    /// The state.
    pub state: State,
    work: Work,
    events: Receiver<Event>,
    started: Instant,
    /// Effects that concern the terminal and are still to be done.
    outside: VecDeque<Effect>,
    /// Since when a new list has been awaited.
    pending: Option<Instant>,
    terminated: bool,
}

impl Session {
    /// Does effects and takes events until something concerns the terminal itself.
    ///
    /// # Errors
    ///
    /// What the terminal says.
    pub fn turn<B: Backend<Error = io::Error>>(
        &mut self,
        mut effects: Vec<Effect>,
        terminal: &mut Terminal<B>,
    ) -> io::Result<Next> {
        loop {
            for effect in effects.drain(..) {
                self.outside.extend(self.work.perform(effect));
            }
            match self.outside.pop_front() {
                None => {}
                Some(Effect::Quit) => return Ok(Next::Quit),
                Some(Effect::Suspend) => return Ok(Next::Suspend),
                Some(Effect::Copy(text)) => return Ok(Next::Copy(text)),
                Some(Effect::Page(entry)) => return Ok(Next::Page(entry)),
                Some(_) => return Ok(Next::Redraw),
            }
            // The rows of a new list come before drawing, if they come soon.
            let pending = !self.state.listing.loaded || self.state.arranging;
            let since = *self.pending.get_or_insert_with(Instant::now);
            if !pending {
                self.pending = None;
            } else if let Some(patience) = PATIENCE.checked_sub(since.elapsed()) {
                if let Ok(event) = self.events.recv_timeout(patience) {
                    effects = self.take_all(event);
                }
                continue;
            }
            self.draw(terminal)?;
            let wait = self.state.wake_at().map(|at| at.saturating_sub(self.started.elapsed()));
            let event = match wait {
                Some(wait) => self.events.recv_timeout(wait),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            effects = match event {
                Ok(event) => self.take_all(event),
                Err(RecvTimeoutError::Timeout) => self.take(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::Quit),
            };
        }
    }

    /// Takes an event and those that wait behind it.
    fn take_all(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = self.take(event);
        for _ in 0..BATCH {
            let Ok(event) = self.events.try_recv() else { break };
            effects.extend(self.take(event));
        }
        effects
    }

    fn take(&mut self, event: Event) -> Vec<Effect> {
        self.terminated |= event == Event::Terminate;
        update(&mut self.state, event, self.started.elapsed())
    }

    fn draw<B: Backend<Error = io::Error>>(&mut self, terminal: &mut Terminal<B>) -> io::Result<()> {
        terminal.draw(|frame| {
            let area = frame.area();
            if let Some(position) = view(&self.state, area, frame.buffer_mut()) {
                frame.set_cursor_position(position);
            }
        })?;
        Ok(())
    }
}

fn trouble(what: &str, error: &io::Error) -> Event {
    Event::Trouble(format!("cannot {what}: {error}"))
}

/// Stops the process as ctrl-z does elsewhere; returns the size of the screen when the shell has continued it.
fn suspend(screen: &mut Screen, input: &Input) -> io::Result<(u16, u16)> {
    let _hands_off = input.pause();
    screen.lend(|| kill_process(getpid(), Signal::TSTP))??;
    crossterm::terminal::size()
}

/// The thread that reads keys.
struct Input {
    paused: Arc<AtomicBool>,
}

/// While it lives, keys belong to somebody else.
struct Paused<'a>(&'a Input);

impl Input {
    fn start(events: &Sender<Event>) -> Self {
        let paused = Arc::new(AtomicBool::new(false));
        let (events, pause) = (events.clone(), Arc::clone(&paused));
        thread::spawn(move || {
            loop {
                if pause.load(Ordering::SeqCst) {
                    thread::sleep(PAUSE_CHECK);
                    continue;
                }
                let event = match event::poll(PAUSE_CHECK) {
                    Ok(false) => continue,
                    Ok(true) if pause.load(Ordering::SeqCst) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                // A terminal that is gone is as good as a request to end.
                let event = event.map_or(Some(Event::Terminate), translate);
                if let Some(event) = event {
                    let last = event == Event::Terminate;
                    if events.send(event).is_err() || last {
                        return;
                    }
                }
            }
        });
        Self { paused }
    }

    fn pause(&self) -> Paused<'_> {
        self.paused.store(true, Ordering::SeqCst);
        // Long enough for the thread to notice.
        thread::sleep(PAUSE_CHECK + Duration::from_millis(10));
        Paused(self)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.paused.store(false, Ordering::SeqCst);
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
