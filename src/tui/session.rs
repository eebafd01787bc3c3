//! A run between two things that concern the terminal itself: events taken, effects handed to the threads, the screen drawn.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use ratatui::Terminal;
use ratatui::backend::Backend;

use crate::copies::Copies;
use crate::effect::Effect;
use crate::event::Event;
use crate::keyboard::Keyboard;
use crate::requests::RequestId;
use crate::state::{Facts, State};
use crate::update::update;
use crate::view::view;
use crate::workers::Workers;
use nra_format::archive::Archive;

/// A new list may take this long to come before an empty one is drawn.
const PATIENCE: Duration = Duration::from_millis(20);
/// No two drawings follow each other faster.
const FRAME: Duration = Duration::from_millis(8);
/// Events taken at once before the screen is drawn.
const BATCH: usize = 256;

/// An archive that has been opened, and its file, if it is one.
pub(super) type Found = (Arc<dyn Archive>, Option<PathBuf>);

/// State, threads and time of a run.
pub struct Session {
    /// The state.
    pub state: State,
    pub(super) workers: Workers,
    pub(super) events: Receiver<Event>,
    started: Instant,
    /// Where keys come from.
    pub(super) keyboard: Option<Keyboard>,
    /// Effects for the caller, which has the terminal.
    outside: VecDeque<Effect>,
    /// Archives that have been opened and are not shown yet, by the numbers of the requests: each with its file, if it is one.
    pub(super) opened: Arc<Mutex<HashMap<RequestId, Found>>>,
    /// Held by the thread that opens an archive.
    pub(super) turn: Arc<Mutex<()>>,
    /// The file of the archive that is shown, or of the outermost around it.
    pub(super) file: PathBuf,
    /// The archives that this one lies in, the outermost first.
    pub(super) outer: Vec<(Facts, Arc<dyn Archive>)>,
    /// Copies that other programs may look at until the end.
    pub(super) copies: Copies,
    /// Since when a new list has been awaited.
    pending: Option<Instant>,
    /// The signal that has asked to end.
    pub(super) ended_by: Option<i32>,
    /// When the screen was drawn last.
    drawn: Instant,
    /// Jobs go on without a screen.
    pub(super) detached: bool,
}

impl Session {
    /// Begins.
    pub fn new(state: State, workers: Workers, events: Receiver<Event>) -> Self {
        let (started, outside, opened) = (Instant::now(), VecDeque::new(), Arc::default());
        let drawn = started.checked_sub(FRAME).unwrap_or(started);
        Self {
            drawn,
            state,
            workers,
            events,
            started,
            keyboard: None,
            outside,
            opened,
            turn: Arc::default(),
            file: PathBuf::new(),
            outer: Vec::new(),
            copies: Copies::default(),
            pending: None,
            ended_by: None,
            detached: false,
        }
    }

    /// Does effects and takes events until something is for the caller to do.
    ///
    /// # Errors
    ///
    /// What the terminal says.
    pub fn turn<B: Backend<Error = io::Error>>(
        &mut self,
        mut effects: Vec<Effect>,
        terminal: &mut Terminal<B>,
    ) -> io::Result<Effect> {
        loop {
            self.workers.publish(&self.state.requests);
            for effect in effects.drain(..) {
                self.outside.extend(self.workers.perform(effect));
            }
            if let Some(next) = self.outside.pop_front() {
                self.detached = next == Effect::Detach;
                return Ok(next);
            }
            // The rows of a new list come before drawing, if they come soon.
            let pending = !self.state.listing.loaded || self.state.arrangement.loading;
            let since = *self.pending.get_or_insert_with(Instant::now);
            if !pending {
                self.pending = None;
            } else if let Some(patience) = PATIENCE.checked_sub(since.elapsed()) {
                if let Ok(event) = self.events.recv_timeout(patience) {
                    effects = self.take_all(event);
                }
                continue;
            }
            // Faster than anybody sees: what comes meanwhile is drawn with it.
            if let Some(rest) = FRAME.checked_sub(self.drawn.elapsed())
                && let Ok(event) = self.events.recv_timeout(rest)
            {
                effects = self.take_all(event);
                continue;
            }
            // The event that tells of another size may still be to come.
            let size = terminal.size()?;
            if size != self.state.screen.as_size() {
                effects = update(&mut self.state, Event::Resize(size.width, size.height), self.started.elapsed());
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
                Err(RecvTimeoutError::Timeout) => self.feed(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(Effect::Quit),
            };
        }
    }

    /// Takes an event and those that wait behind it.
    fn take_all(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = self.take(event);
        for _ in 0..BATCH {
            // What was asked of this archive is handed over before the next event, which may bring another one.
            for effect in effects.drain(..) {
                self.outside.extend(self.workers.perform(effect));
            }
            if !self.outside.is_empty() {
                break;
            }
            let Ok(event) = self.events.try_recv() else { break };
            effects = self.take(event);
        }
        effects
    }

    /// Takes an event that has come.
    fn take(&mut self, event: Event) -> Vec<Effect> {
        let typed = matches!(event, Event::Key(_) | Event::Paste(_) | Event::Mouse(_) | Event::Resize(..));
        if let Some(keyboard) = self.keyboard.as_mut().filter(|_| typed) {
            keyboard.take();
        }
        let effects = self.feed(event);
        // What is typed from here on may belong to the shell, or to another program.
        match &mut self.keyboard {
            Some(keyboard) if effects.iter().any(Effect::hands_over) => keyboard.rest(),
            _ => self.read_on(),
        }
        effects
    }

    /// Lets what is typed be read.
    pub(super) fn read_on(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.go_on(self.state.input.copying || !self.state.input.queue.is_empty());
        }
    }

    /// Takes an event, and tells the threads what is awaited by then.
    pub(super) fn feed(&mut self, event: Event) -> Vec<Effect> {
        if let Event::Terminate(signal) = event {
            self.ended_by = Some(signal);
        }
        if let Event::Response(id, answer) = &event
            && let Event::CopyReady(copy) = &**answer
            && !self.state.requests.awaits(*id)
        {
            self.copies.remove(copy);
        }
        if let Event::Response(id, answer) = &event
            && let Event::Opened(facts) = &**answer
            && let Some((archive, file)) = self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
            && self.state.requests.awaits(*id)
        {
            self.file = file.unwrap_or_else(|| std::mem::take(&mut self.file));
            if facts.depth > self.state.archive.depth {
                self.outer.push((self.state.archive.clone(), Arc::clone(self.workers.archive())));
            } else {
                self.outer.truncate(facts.depth);
            }
            self.workers.turn_to(&archive);
        }
        let effects = update(&mut self.state, event, self.started.elapsed());
        self.workers.publish(&self.state.requests);
        effects
    }

    /// Returns how long the run has lasted.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn draw<B: Backend<Error = io::Error>>(&mut self, terminal: &mut Terminal<B>) -> io::Result<()> {
        self.drawn = Instant::now();
        terminal.draw(|frame| {
            let area = frame.area();
            // The size has changed just now: the next turn knows it.
            if area != self.state.screen {
                return;
            }
            if let Some(position) = view(&self.state, area, frame.buffer_mut()) {
                frame.set_cursor_position(position);
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;
    use crate::effect::Request;
    use crate::keymap::Keymap;
    use crate::requests::RequestKind;
    use crate::sample;
    use crate::theme::{Depth, Ground, Theme};

    #[test]
    fn a_copy_that_nobody_awaits_any_more_is_taken_away() {
        let archive = sample::archive(&["a"]);
        let state = State::new(Facts::default(), Theme::new(Ground::Dark, Depth::Mono), Keymap::default(), 80, 24);
        let (sender, events) = unbounded();
        let mut session = Session::new(state, Workers::start(&archive, &sender), events);
        let entry = archive.entry(0).unwrap();
        for given_up in [false, true] {
            let Effect::Request(id, _) = session.state.request(Request::Copy(entry.clone())) else { unreachable!() };
            let copy = session.copies.begin(b"a").unwrap();
            if given_up {
                session.state.requests.cancel(RequestKind::Copy);
            }
            let effects = session.feed(Event::Response(id, Box::new(Event::CopyReady(copy.clone()))));
            assert_eq!((effects.contains(&Effect::Edit(copy.clone())), copy.exists()), (!given_up, !given_up));
        }
    }
}
