//! Stories: they press keys and check the screen. Effects are performed at once, or when the story
//! says so, on archives in memory.

mod all_dialogs;
mod arrange;
mod compact;
mod cost;
mod damage;
mod docs;
mod find;
mod inside;
mod jobs;
mod jump;
mod key_queue;
mod late_responses;
mod messages;
mod mouse;
mod navigation;
mod passwords;
mod pending_changes;
mod revert;
pub mod sample;
mod screens;
mod stored_positions;

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::effect::{Effect, Request, RequestKind};
use crate::event::{Event, Response};
use crate::key::Key;
use crate::keymap::Keymap;
use crate::open_target::OpenTarget;
use crate::requests::Requests;
use crate::state::{Facts, State};
use crate::theme::{Background, Depth, Theme};
use crate::update::{start, update};
use crate::view::view;
use crate::workers;
use nra_format::archive::Archive;

/// Returns a request as `Story::outside` has it: without its number.
fn asks(request: Request) -> Effect {
    Effect::Request(Requests::default().newest(RequestKind::from(&request)), request)
}

/// A simulated user.
pub struct Story {
    pub archive: Arc<dyn Archive>,
    pub state: State,
    pub now: Duration,
    /// Effects that concern the terminal, in order.
    pub outside: Vec<Effect>,
    /// Effects are not performed, but kept in `back`.
    pub held_back: bool,
    pub back: Vec<Effect>,
    /// Jobs run; otherwise they only start.
    pub works: bool,
}

impl Story {
    /// Opens an archive on a screen.
    pub fn begin(archive: Arc<dyn Archive>, width: u16, height: u16) -> Self {
        let info = archive.info().clone();
        let facts = Facts { name: "a.nra".to_owned(), info, ..Facts::default() };
        let theme = Theme::new(Background::Dark, Depth::Mono);
        let mut state = State::new(facts, theme, Keymap::default(), width, height);
        let effects = start(&mut state);
        let mut story =
            Self { archive, state, now: Duration::ZERO, outside: Vec::new(), held_back: false, back: Vec::new(), works: true };
        story.perform(effects);
        story.rest();
        story
    }

    /// Presses keys, named as in the help and separated by spaces.
    pub fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.split_whitespace() {
            let key = key.parse().expect("a key");
            self.event(Event::Key(key));
        }
        self
    }

    /// Presses keys and waits for the preview.
    pub fn then(&mut self, keys: &str) -> &mut Self {
        self.keys(keys).rest()
    }

    /// Types text.
    pub fn types(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            self.event(Event::Key(Key::plain(KeyCode::Char(c))));
        }
        self
    }

    /// Returns the names in the list, from the first row on the screen to the last.
    pub fn names(&self) -> Vec<String> {
        let visible = self.state.listing.visible();
        self.state.listing.lines[visible].iter().map(|line| line.row.entry.path.to_string()).collect()
    }

    /// Waits until the preview is loaded.
    pub fn rest(&mut self) -> &mut Self {
        self.now += Duration::from_millis(100);
        self.event(Event::Tick);
        self
    }

    pub fn event(&mut self, event: Event) {
        let effects = update(&mut self.state, event, self.now);
        self.perform(effects);
    }

    /// Passes a response as if it had been requested. A failure that opens nothing is not a
    /// response.
    pub fn respond(&mut self, response: Response) {
        let kind = match response {
            Response::Failed(failure) if self.state.opening.target.is_none() => return self.event(Event::Failed(failure)),
            Response::Opened(_) | Response::Failed(_) => RequestKind::Open,
            Response::Commits(_) => RequestKind::Commits,
            Response::Rows(_) => RequestKind::Rows,
            Response::ArrangeProgress(_) => RequestKind::Arrange,
            other => panic!("{other:?}"),
        };
        self.event(Event::Response(self.state.requests.newest(kind), response));
    }

    /// Opens a target as if it had been requested.
    pub fn opens(&mut self, target: OpenTarget, facts: Facts) -> &mut Self {
        self.state.opening.target = Some(target);
        self.respond(Response::Opened(Box::new(facts)));
        self.rest()
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        if self.held_back {
            return self.back.extend(effects);
        }
        let mut queue: std::collections::VecDeque<Effect> = effects.into();
        while let Some(effect) = queue.pop_front() {
            let events = match &effect {
                // The list of archives is part of the story.
                Effect::Request(id, Request::Archives) => {
                    Some(vec![Event::Response(*id, Response::Archives(self.state.opening.archives.clone()))])
                }
                Effect::Start(..) if !self.works => None,
                _ => workers::tests::perform_now(&self.archive, effect.clone()),
            };
            match events {
                Some(events) => {
                    events.into_iter().for_each(|event| queue.extend(update(&mut self.state, event, self.now)));
                }
                None => self.outside.push(if let Effect::Request(_, request) = effect { asks(request) } else { effect }),
            }
        }
    }

    /// Returns the screen as text.
    pub fn screen(&self) -> String {
        let area = self.state.screen;
        let mut terminal = Terminal::new(TestBackend::new(area.width, area.height)).expect("a buffer");
        terminal
            .draw(|frame| {
                view(&self.state, frame.area(), frame.buffer_mut());
            })
            .expect("a buffer");
        let buffer = terminal.backend().buffer();
        let mut text = String::new();
        for y in 0..area.height {
            let mut line = String::new();
            let mut hidden = 0;
            for x in 0..area.width {
                let symbol = buffer[(x, y)].symbol();
                if hidden == 0 {
                    line.push_str(symbol);
                    hidden = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
                } else {
                    hidden -= 1;
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the position of the terminal's cursor, if it is visible.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        let area = self.state.screen;
        view(&self.state, area, &mut ratatui::buffer::Buffer::empty(area)).map(|at| (at.x, at.y))
    }

    /// Returns the name under the cursor.
    pub fn name(&self) -> String {
        self.state.listing.entry().map(|entry| entry.path.to_string()).unwrap_or_default()
    }

    /// Asserts that the screen shows something.
    pub fn sees(&self, what: &str) -> &Self {
        let screen = self.screen();
        assert!(screen.contains(what), "{what:?} is not on the screen:\n{screen}");
        self
    }

    /// Asserts that the screen does not show something.
    pub fn misses(&self, what: &str) -> &Self {
        let screen = self.screen();
        assert!(!screen.contains(what), "{what:?} is on the screen:\n{screen}");
        self
    }
}

/// A small archive with entries of many kinds.
pub fn everything() -> Arc<dyn Archive> {
    let long = "word ".repeat(60);
    let guide = format!("# Guide\n\n{long}\n\tindented\x1b[31m\n");
    let bytes: Vec<u8> = (0..=255u8).cycle().take(3_000).collect();
    sample::with_contents(&[
        ("README.md", b"# Hello\n\nThis is a test.\n"),
        ("a-very-long-file-name-that-does-not-fit-into-the-column-of-names-at-all.json", b"{}"),
        ("bad\x1b[31mname\n.txt", b"x"),
        ("docs/guide.md", guide.as_bytes()),
        ("docs/more/deep/file", b"deep"),
        ("empty", b""),
        ("model.bin", &bytes),
        ("train/0001.json", b"{\"id\": 1}"),
        ("train/0002.json", b"{\"id\": 2}"),
        ("日本語のファイル名.txt", "こんにちは世界\n".as_bytes()),
    ])
}
