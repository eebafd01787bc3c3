//! The state: everything the screen shows, as plain data, with one module per part of the screen.

mod archive;
mod arrange;
mod changes;
pub mod dialog;
mod finder;
mod input;
mod jobs;
mod layout;
mod line;
mod listing;
pub mod marks;
mod pane;
mod passwords;
pub mod pending;
mod places;
mod sizes;
mod status;
pub mod stored_positions;
pub mod task;
mod tree;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;

use crate::effect::RequestKind;
use crate::keymap::{Keymap, Place};
use crate::layout::{Areas, Columns, MESSAGE_ROWS, SMALLEST};
use crate::open_target::OpenTarget;
use crate::requests::Requests;
use crate::theme::Theme;
use nra_format::path::EntryPath;

pub use archive::{DAMAGED, Facts, ONLY_NRA, READ_ONLY, SEPARATOR, WRITE_PROTECTED};
pub use arrange::{ArrangeRequest, Arrangement, Found, ListArrangement};
pub use changes::{Changes, Writing};
pub use dialog::{About, Choice, Dialog, Jump, Menu, PendingCheck, Prompt, PromptKind, QuitMode};
pub use finder::{FindKind, FindRequest, FindResponse, Finder, Hit, HitTarget, SearchResults};
pub use input::{Input, Typed};
pub use jobs::{Amount, Ending, Job, JobEvent, JobId, Jobs, Progress};
pub use layout::{Focus, Layout};
pub use line::{Line, RowDetails};
pub use listing::{Listing, RowsError, RowsRequest, RowsResponse};
pub use marks::{Among, Change, Marked, Marks, SelectedEntries};
pub use pane::{OccurrencesRequest, OccurrencesResponse, Pane, PreviewRequest, PreviewResponse, SeekResult};
pub use passwords::Passwords;
pub use pending::{PendingChange, PendingChanges, Refusal, Renames};
pub use places::{OuterPosition, Places};
pub use sizes::{Map, Sizes, Tile, Tiles};
pub use status::{Message, Status, Tone};
pub use tree::Tree;

/// The state of the program, by part of the screen.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub screen: Rect,
    /// Time since the start, as of the last event.
    pub now: Duration,
    pub archive: Facts,
    pub opening: Opening,
    pub listing: Listing,
    pub arrangement: ListArrangement,
    pub tree: Tree,
    pub preview: Pane,
    pub layout: Layout,
    pub settings: Settings,
    pub marks: Marks,
    pub jobs: Jobs,
    pub changes: Changes,
    pub passwords: Passwords,
    pub places: Places,
    /// Dialogs over the browser, the last on top.
    pub dialogs: Vec<Dialog>,
    pub input: Input,
    pub status: Status,
    /// The program exits when the last job has ended.
    pub quit: Option<Quit>,
    pub requests: Requests,
}

impl State {
    /// Returns the state before anything is read.
    pub fn new(archive: Facts, theme: Theme, keymap: Keymap, width: u16, height: u16) -> Self {
        let settings = Settings { keymap, theme, ..Settings::default() };
        Self { screen: Rect::new(0, 0, width, height), archive, settings, ..Self::default() }
    }

    /// Returns whether the screen is too small to show anything.
    pub fn is_too_small(&self) -> bool {
        self.screen.width < SMALLEST.0 || self.screen.height < SMALLEST.1
    }

    pub fn areas(&self) -> Areas {
        self.layout.areas(self.screen, self.settings.linear)
    }

    pub fn columns_in(&self, width: u16) -> Columns {
        let sorted = (!self.arrangement.wanted.is_natural()).then_some(self.arrangement.wanted.sort);
        Columns::new(width, self.layout.sizes == Sizes::Bars, &self.layout.columns, sorted)
    }

    /// Returns the place that gets the keys.
    pub fn place(&self) -> Place {
        match (self.dialogs.last(), self.layout.focus) {
            (Some(Dialog::Jobs { .. }), _) => Place::Jobs,
            (Some(_), _) => Place::Panel,
            (None, Focus::List) => Place::List,
            (None, Focus::Preview) => Place::Preview,
        }
    }

    /// Returns when the next event is due without input.
    pub fn wake_at(&self) -> Option<Duration> {
        let message = self.status.message.as_ref().map(|message| message.until);
        self.preview.due().into_iter().chain(message).min()
    }

    pub fn is_typing(&self) -> bool {
        matches!(self.dialogs.last(), Some(Dialog::Prompt(_) | Dialog::Finder(_) | Dialog::Jump(_) | Dialog::Bookmark(_)))
    }

    /// Shows a message in the status line.
    pub fn notify(&mut self, tone: Tone, text: impl Into<String>) {
        let stay = if tone == Tone::Info { 4 } else { 10 };
        let text = text.into();
        if self.settings.linear {
            self.status.previous.push(text.clone());
            let old = self.status.previous.len().saturating_sub(usize::from(MESSAGE_ROWS));
            self.status.previous.drain(..old);
        }
        self.status.message = Some(Message { text, tone, until: self.now + Duration::from_secs(stay) });
    }

    /// Appends to the message in the status line.
    pub fn notify_also(&mut self, tone: Tone, text: &str) {
        let before = self.status.message.take().map_or_else(String::new, |message| format!("{}; ", message.text));
        self.notify(tone, format!("{before}{text}"));
    }

    /// Returns the pending changes of the archive shown and of those around it, one per line.
    pub(super) fn unwritten_changes(&self) -> Vec<String> {
        let around = self.places.outer.iter().map(|position| &position.pending);
        around.chain([&self.changes.pending]).flat_map(|pending| pending.list().iter().map(PendingChange::describe)).collect()
    }

    /// Returns the rows that pending changes add to the directory shown, and whether each is known
    /// to be a directory.
    pub fn pending_rows(&self) -> Vec<(EntryPath, bool)> {
        let mut names: Vec<(EntryPath, bool)> = Vec::new();
        if !self.arrangement.wanted.is_natural() {
            return names;
        }
        let top = self.listing.scope.directory.as_ref();
        // A path in a new directory adds that directory.
        let depth = 1 + top.map_or(0, |top| top.components().count());
        let additions = self
            .changes
            .pending
            .list()
            .iter()
            .filter(|change| !matches!(change, PendingChange::Rename(..) | PendingChange::Add(_, _, true)));
        for (path, directory) in
            additions.filter_map(PendingChange::new_path).filter(|(path, _)| top.is_none_or(|top| path.is_below(top)))
        {
            let Some(shown) = path.first(depth) else { continue };
            // The rows show whether its directory exists, if all of them are loaded.
            let known = self.listing.lines.iter().any(|line| line.row.entry.path == shown);
            let unknown = shown != path && !self.listing.is_whole();
            if !known && !unknown && !names.iter().any(|(other, _)| *other == shown) {
                let directory = directory || shown != path;
                names.push((shown, directory));
            }
        }
        names
    }

    /// Returns the height of the list without pending rows.
    pub fn list_height(&self) -> usize {
        let rows = usize::from(self.areas().list.height);
        if self.changes.pending.is_empty() { rows } else { rows - self.pending_rows().len().min(rows / 3) }
    }

    /// Clears all marks, and cancels requests for marks.
    pub(super) fn clear_marks(&mut self) {
        self.marks.clear();
        self.requests.cancel(RequestKind::Marks);
        self.input.after_marks = None;
    }

    /// Changes the paths of positions when a commit with renamed entries is shown: they stay on the
    /// same entries.
    pub(super) fn apply_renames(&mut self, renames: &Renames) {
        // A path that is too long has not been written, either.
        let then = |path: &EntryPath| renames.then(path).unwrap_or_else(|_| path.clone());
        let scope = &mut self.listing.scope;
        scope.directory = scope.directory.as_ref().map(then);
        if let Some(line) = self.listing.lines.get_mut(self.listing.cursor) {
            line.row.entry.path = then(&line.row.entry.path);
        }
        self.tree.open = Arc::new(self.tree.open.iter().map(then).collect());
        self.places.rename(then);
    }

    /// Stores the cursor position in this directory.
    pub(super) fn save_cursor(&mut self) {
        self.places.save_cursor(self.listing.scope.directory.as_ref(), self.listing.entry());
    }
}

/// The archive that is being opened, and the archives to choose from.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    pub target: Option<OpenTarget>,
    /// No archive is open yet.
    pub no_archive: bool,
    pub archives: Vec<PathBuf>,
    /// Their list is being read.
    pub listing: bool,
}

/// Settings that hold for a whole run.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub keymap: Keymap,
    pub theme: Theme,
    /// The cursor of the terminal follows the focus, for screen readers.
    pub linear: bool,
    /// Only ASCII characters are drawn.
    pub ascii: bool,
}

/// The program quits after the last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quit {
    pub since: Duration,
    /// The user agreed to drop the pending changes, which have not changed since.
    pub drops: bool,
}
