//! The main loop: updates the state with events, passes effects to workers, draws the screen. It
//! returns to the caller for effects that concern the terminal.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use ratatui::Terminal;
use ratatui::backend::Backend;

use crate::copies::Copies;
use crate::effect::{Effect, RequestId};
use crate::event::{Event, Response};
use crate::keyboard::Keyboard;
use crate::state::{Facts, State};
use crate::update::update;
use crate::view::view;
use crate::workers::Workers;
use nra_format::archive::Archive;

/// Time to wait for the rows of a new list before an empty one is drawn.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// Shortest time between two frames.
const FRAME: Duration = Duration::from_millis(8);
/// Most events processed before the screen is drawn.
const BATCH: usize = 256;

/// An opened archive, and its path if it is a file.
pub(super) type Found = (Arc<dyn Archive>, Option<PathBuf>);

/// State, workers and time of a run.
pub struct Session {
    pub state: State,
    pub(super) workers: Workers,
    pub(super) events: Receiver<Event>,
    started: Instant,
    /// The thread that reads keys.
    pub(super) keyboard: Option<Keyboard>,
    /// Effects for the caller, which has the terminal.
    outside: VecDeque<Effect>,
    /// Archives that have been opened and are not shown yet.
    pub(super) opened: Arc<Mutex<HashMap<RequestId, Found>>>,
    /// Locked by the thread that opens an archive.
    pub(super) opening: Arc<Mutex<()>>,
    /// Path of the archive shown, or of the outermost one around it.
    pub(super) file: PathBuf,
    /// The archives around this one, the outermost first.
    pub(super) outer: Vec<(Facts, Arc<dyn Archive>)>,
    /// Copies of content for other programs, deleted on exit.
    pub(super) copies: Copies,
    /// The time at which the wait for a new list began.
    pending: Option<Instant>,
    /// The signal that asked the program to exit.
    pub(super) ended_by: Option<i32>,
    drawn: Instant,
    /// Jobs continue without a screen.
    pub(super) detached: bool,
}

impl Session {
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
            opening: Arc::default(),
            file: PathBuf::new(),
            outer: Vec::new(),
            copies: Copies::default(),
            pending: None,
            ended_by: None,
            detached: false,
        }
    }

    /// Runs until an effect is for the caller.
    pub fn run<B: Backend<Error = io::Error>>(
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
            // Wait shortly for the rows of a new list, which saves drawing an empty one.
            let pending = !self.state.listing.loaded || self.state.arrangement.loading;
            let since = *self.pending.get_or_insert_with(Instant::now);
            if !pending {
                self.pending = None;
            } else if let Some(wait) = MAX_WAIT.checked_sub(since.elapsed()) {
                if let Ok(event) = self.events.recv_timeout(wait) {
                    effects = self.process_all(event);
                }
                continue;
            }
            // Events of the next milliseconds are drawn in the same frame.
            if let Some(rest) = FRAME.checked_sub(self.drawn.elapsed())
                && let Ok(event) = self.events.recv_timeout(rest)
            {
                effects = self.process_all(event);
                continue;
            }
            // The resize event may still be in the queue.
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
                Ok(event) => self.process_all(event),
                Err(RecvTimeoutError::Timeout) => self.feed(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(Effect::Quit),
            };
        }
    }

    /// Processes an event and those queued after it.
    fn process_all(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = self.process(event);
        for _ in 0..BATCH {
            // Requests reach the workers of this archive before the next event, which may show
            // another one.
            for effect in effects.drain(..) {
                self.outside.extend(self.workers.perform(effect));
            }
            if !self.outside.is_empty() {
                break;
            }
            let Ok(event) = self.events.try_recv() else { break };
            effects = self.process(event);
        }
        effects
    }

    fn process(&mut self, event: Event) -> Vec<Effect> {
        let typed = matches!(event, Event::Key(_) | Event::Paste(_) | Event::Mouse(_) | Event::Resize(..));
        if let Some(keyboard) = self.keyboard.as_mut().filter(|_| typed) {
            keyboard.event_received();
        }
        let effects = self.feed(event);
        // Keys typed from now on may be for the shell or another program.
        match &mut self.keyboard {
            Some(keyboard) if effects.iter().any(Effect::hands_over) => keyboard.pause(),
            _ => self.read_on(),
        }
        effects
    }

    /// Lets the keyboard thread read on.
    pub(super) fn read_on(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.resume(self.state.input.copying || !self.state.input.queue.is_empty());
        }
    }

    /// Updates the state with an event, and publishes which requests are awaited.
    pub(super) fn feed(&mut self, event: Event) -> Vec<Effect> {
        if let Event::Terminate(signal) = event {
            self.ended_by = Some(signal);
        }
        if let Event::Response(id, Response::CopyReady(copy)) = &event
            && !self.state.requests.awaits(*id)
        {
            self.copies.remove(copy);
        }
        if let Event::Response(id, Response::Opened(facts)) = &event
            && let Some((archive, file)) = self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
            && self.state.requests.awaits(*id)
        {
            self.file = file.unwrap_or_else(|| std::mem::take(&mut self.file));
            if facts.depth > self.state.archive.depth {
                self.outer.push((self.state.archive.clone(), Arc::clone(self.workers.archive())));
            } else {
                self.outer.truncate(facts.depth);
            }
            self.workers.set_archive(&archive);
        }
        let effects = update(&mut self.state, event, self.started.elapsed());
        self.workers.publish(&self.state.requests);
        effects
    }

    /// Returns the time since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn draw<B: Backend<Error = io::Error>>(&mut self, terminal: &mut Terminal<B>) -> io::Result<()> {
        self.drawn = Instant::now();
        terminal.draw(|frame| {
            let area = frame.area();
            // The size has just changed: the next frame uses it.
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
    use crate::effect::{Request, RequestKind};
    use crate::keymap::Keymap;
    use crate::tests::sample;
    use crate::theme::{Background, Depth, Theme};

    #[test]
    fn cancelled_copy_is_deleted() {
        let archive = sample::archive(&["a"]);
        let state = State::new(Facts::default(), Theme::new(Background::Dark, Depth::Mono), Keymap::default(), 80, 24);
        let (sender, events) = unbounded();
        let mut session = Session::new(state, Workers::start(&archive, &sender), events);
        let entry = archive.entry(0).unwrap();
        for given_up in [false, true] {
            let Effect::Request(id, _) = session.state.request(Request::Copy(entry.clone())) else { unreachable!() };
            let copy = session.copies.create(b"a").unwrap();
            if given_up {
                session.state.requests.cancel(RequestKind::Copy);
            }
            let effects = session.feed(Event::Response(id, Response::CopyReady(copy.clone())));
            assert_eq!((effects.contains(&Effect::Edit(copy.clone())), copy.exists()), (!given_up, !given_up));
        }
    }
}
