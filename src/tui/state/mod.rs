//! Everything the screen shows, as plain data.

pub mod arrange;
pub mod dialog;
pub mod finder;
pub mod jobs;
pub mod line;
pub mod listing;
pub mod marks;
pub mod pane;
pub mod sizes;
pub mod staged;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;
use zeroize::Zeroizing;

use crate::action::Action;
use crate::asked::{Asked, Subject};
use crate::crumbs::BETWEEN;
use crate::effect::{Door, Effect, Request, Task};
use crate::key::Key;
use crate::keymap::{Keymap, Place};
use crate::layout::{Areas, Column, Columns, SAID, SHARE, SMALLEST, Wanted};
use crate::memory::Memory;
use crate::theme::Theme;
use nra_format::archive::Info;
use nra_format::container::Container;
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

pub use arrange::Arrangement;
pub use dialog::Dialog;
pub use finder::Trail;
pub use jobs::{JobId, Jobs};
pub use listing::Listing;
pub use marks::Marks;
pub use pane::Pane;
pub use sizes::Sizes;
pub use staged::{Renames, Stage, Staged, Writing};

/// Directories whose cursor is remembered.
const MAX_REMEMBERED: usize = 1_000;

/// Which pane takes the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Focus {
    /// The list.
    #[default]
    List,
    /// The preview.
    Preview,
}

/// Why archives of other formats can't be changed.
pub const ONLY_NRA: &str = "only NRA 5 archives in files can be changed";

/// Why nothing is changed at the user's wish.
pub const READ_ONLY: &str = "the browser was started with --read-only";

/// Why a file that nobody may write to can't be changed.
pub const WRITE_PROTECTED: &str = "the file is write-protected";

/// Why damaged archives can't be changed.
pub const DAMAGED: &str = "a damaged archive can't be changed";

/// What is known of the archive from its opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name, harmless to show.
    pub name: String,
    /// What kind of archive it is, how much it holds.
    pub info: Info,
    /// There is a later commit.
    pub is_past: bool,
    /// Its file, which further commits can be written to, or why none can.
    pub file: Result<PathBuf, &'static str>,
    /// How many archives it lies in.
    pub depth: usize,
    /// What it is in the archive around it, if it lies in one.
    pub inside: Option<Entry>,
    /// What is unusual about the file.
    pub remarks: Vec<String>,
    /// Its index is damaged: what is shown was found in another way.
    pub damaged: bool,
    /// What it is remembered by, if it may be.
    pub home: Option<String>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            name: String::new(),
            info: Info::default(),
            is_past: false,
            file: Err(ONLY_NRA),
            depth: 0,
            inside: None,
            remarks: Vec::new(),
            damaged: false,
            home: None,
        }
    }
}

/// Why nothing is planned where an earlier commit is shown.
const PAST: &str = "an earlier commit is shown: ] goes to the newest, where changes are planned; U returns to this";

impl Facts {
    /// Returns the file that what is planned here is written to.
    ///
    /// # Errors
    ///
    /// Why nothing can be planned.
    pub fn plannable(&self) -> Result<&PathBuf, &'static str> {
        self.file.as_ref().map_err(|why| *why).and_then(|file| if self.is_past { Err(PAST) } else { Ok(file) })
    }

    /// Takes that it is damaged, which came to light only now, by these remarks.
    pub fn turn_out_damaged(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.remarks.extend(remarks);
        self.damaged = true;
        // Why it can't be changed in any case is a better reason.
        if self.file.is_ok() {
            self.file = Err(DAMAGED);
        }
    }

    /// Says whether it is of a version whose encryption knows raw keys, not passwords.
    pub fn has_keys_only(&self) -> bool {
        matches!(self.info.container, Container::Nra1 | Container::Nra4)
    }

    /// Returns its name without those of the archives around it.
    pub fn own_name(&self) -> &str {
        self.name.rsplit(BETWEEN).next().unwrap_or(&self.name)
    }
}

/// What an archive was left with when one within it was entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The directory of the cursor.
    pub directory: Option<EntryPath>,
    /// Its entry.
    pub at: Option<EntryPath>,
    /// What is marked.
    pub marks: Arc<Vec<Range<u64>>>,
    /// What is planned.
    pub staged: Staged,
    /// What the archive is remembered by.
    pub home: Option<String>,
}

/// The program is to end with the last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Since when.
    pub since: Duration,
    /// What is planned goes with it: that was asked, and nothing has been planned, or written, since.
    pub drops: bool,
}

/// What is typed.
#[derive(Clone, PartialEq, Eq)]
pub enum Typed {
    /// A key.
    Key(Key),
    /// Text that is pasted. It may be a password.
    Text(Zeroizing<String>),
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "{key:?}"),
            Self::Text(_) => f.write_str("Text(…)"),
        }
    }
}

/// A job to begin anew: its name, what it does, and what it took the marks of.
pub type Unbegun = (String, Task, Arc<Vec<Range<u64>>>);

/// What waits for a password of the content, and what is known of the password.
#[derive(Debug, Clone, Default)]
pub struct Locked {
    /// Jobs to begin anew.
    pub tasks: Vec<Unbegun>,
    /// It is to be asked for as soon as nothing is being typed or chosen: the one that was given, if any, is wrong.
    pub question: Option<bool>,
    /// The user was asked for it and gave none.
    pub declined: bool,
}

impl Locked {
    /// Asks for nothing any more: what waits, waits in vain.
    pub fn forget(&mut self) {
        (self.tasks, self.question) = (Vec::new(), None);
    }
}

/// A sentence in the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The sentence.
    pub text: String,
    /// How bad it is.
    pub tone: Tone,
    /// When it goes away.
    pub until: Duration,
}

/// How bad news is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Good or neutral.
    Calm,
    /// To be noticed.
    Warning,
    /// Something failed.
    Error,
}

/// The state of the program.
#[derive(Debug, Clone)]
pub struct State {
    /// The screen.
    pub screen: Rect,
    /// Time since the start, as of the last event.
    pub now: Duration,
    /// The archive.
    pub archive: Facts,
    /// The list.
    pub listing: Listing,
    /// The preview.
    pub pane: Pane,
    /// The preview is switched on.
    pub preview: bool,
    /// The preview has the whole screen.
    pub zoom: bool,
    /// Share of the list, percent.
    pub share: u16,
    /// Which pane takes the keys.
    pub focus: Focus,
    /// Order and filter of the list.
    pub arrangement: Arrangement,
    /// Order and filter of the rows that are shown: others until those that are wanted have come.
    pub listed: Arrangement,
    /// An arrangement is on its way.
    pub arranging: bool,
    /// How far it is, 0 to 1, once that is told.
    pub arranged: f64,
    /// What the arrangement that is shown has found.
    pub groups: arrange::Found,
    /// How sizes are shown.
    pub sizes: Sizes,
    /// Columns that are shown where there is room.
    pub columns: Vec<Column>,
    /// The terminal's cursor goes where the user is, for those who hear the screen.
    pub linear: bool,
    /// Nothing but ASCII is drawn.
    pub plain: bool,
    /// What is being opened.
    pub opening: Option<Door>,
    /// The divider is being dragged.
    pub dragging: bool,
    /// When and on which row the mouse was last clicked.
    pub clicked: Option<(Duration, u64)>,
    /// Archives to choose from.
    pub archives: Vec<PathBuf>,
    /// It is being looked which there are.
    pub(super) looking: bool,
    /// No archive is open yet.
    pub vacant: bool,
    /// Directories open in place instead of being entered.
    pub tree: bool,
    /// Marked entries.
    pub marks: Marks,
    /// Place of the row where a range of marks began.
    pub anchor: Option<u64>,
    /// Work in the background.
    pub jobs: Jobs,
    /// What was found damaged by reading all of an archive, by its identity, until it is read anew.
    pub damage: BTreeMap<[u8; 16], Vec<String>>,
    /// Changes that are planned.
    pub staged: Staged,
    /// What is being written. Until it is shown nothing is planned: numbers would mean entries of the commit before.
    pub writing: Option<Writing>,
    /// What waits for a password of the content.
    pub locked: Locked,
    /// Where things were extracted to the last time.
    pub target: String,
    /// Where one was in other archives, and earlier.
    pub memory: Memory,
    /// Archives of this run that may be remembered.
    pub homes: Vec<String>,
    /// The program is to end with the last job.
    pub leaving: Option<Leaving>,
    /// What lies over the browser, the last on top.
    pub dialogs: Vec<Dialog>,
    /// Entries to come back to, by their letters.
    pub bookmarks: BTreeMap<char, EntryPath>,
    /// What was found last.
    pub trail: Trail,
    /// What it said before, for those who hear the screen: the newest is the last.
    pub said: Vec<String>,
    /// What the status line says.
    pub message: Option<Message>,
    /// Keys.
    pub keymap: Keymap,
    /// Colours.
    pub theme: Theme,
    /// Where to go on in the archives around this one, the outermost first.
    pub(super) outer: Vec<Spot>,
    /// Directories that are open in the tree.
    pub(super) open: Arc<BTreeSet<EntryPath>>,
    /// Where the cursor was in directories that were left.
    pub(super) remembered: HashMap<Option<EntryPath>, EntryPath>,
    /// Number of the last list.
    pub(super) generation: u64,
    /// What was typed and waits for the rows it is about, or for what is looked at first.
    pub(super) held: VecDeque<Typed>,
    /// A copy is being made for an editor.
    pub(super) copying: bool,
    /// What is being looked at before it is done.
    pub(super) checking: Option<dialog::Checking>,
    /// What is to be done with the marks that are still being found.
    pub(super) due: Option<Action>,
    /// The answers that are awaited.
    pub asked: Asked,
}

impl State {
    /// Returns the state before anything is read.
    pub fn new(archive: Facts, theme: Theme, keymap: Keymap, width: u16, height: u16) -> Self {
        Self {
            screen: Rect::new(0, 0, width, height),
            now: Duration::ZERO,
            archive,
            listing: Listing::default(),
            pane: Pane::default(),
            preview: true,
            zoom: false,
            share: SHARE,
            focus: Focus::List,
            arrangement: Arrangement::default(),
            listed: Arrangement::default(),
            arranging: false,
            arranged: 0.0,
            groups: arrange::Found::default(),
            sizes: Sizes::default(),
            columns: Column::CHOICES.to_vec(),
            linear: false,
            plain: false,
            opening: None,
            dragging: false,
            clicked: None,
            archives: Vec::new(),
            looking: false,
            copying: false,
            vacant: false,
            tree: false,
            marks: Marks::default(),
            anchor: None,
            jobs: Jobs::default(),
            damage: BTreeMap::new(),
            staged: Staged::default(),
            writing: None,
            locked: Locked::default(),
            target: String::new(),
            memory: Memory::default(),
            homes: Vec::new(),
            leaving: None,
            dialogs: Vec::new(),
            bookmarks: BTreeMap::new(),
            trail: Trail::default(),
            said: Vec::new(),
            message: None,
            keymap,
            theme,
            outer: Vec::new(),
            open: Arc::default(),
            remembered: HashMap::new(),
            generation: 0,
            held: VecDeque::new(),
            checking: None,
            due: None,
            asked: Asked::default(),
        }
    }

    /// Says whether nothing can be shown on the screen.
    pub fn is_unseen(&self) -> bool {
        self.screen.width < SMALLEST.0 || self.screen.height < SMALLEST.1
    }

    /// Returns where things are on the screen.
    pub fn areas(&self) -> Areas {
        Areas::new(self.screen, Wanted { preview: self.preview, zoom: self.zoom, share: self.share, said: self.linear })
    }

    /// Returns what is left of an area of the preview: over the whole screen it has a margin.
    pub fn inner(&self, area: Rect) -> Rect {
        if self.zoom { Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area } } else { area }
    }

    /// Returns the columns of a list that is so wide.
    pub fn columns_in(&self, width: u16) -> Columns {
        let sorted = (!self.arrangement.is_natural()).then(|| self.arrangement.sort.column());
        Columns::new(width, self.sizes.has_bars(), &self.columns, sorted)
    }

    /// Returns where keys go.
    pub fn place(&self) -> Place {
        match (self.dialogs.last(), self.focus) {
            (Some(Dialog::Jobs { .. }), _) => Place::Jobs,
            (Some(_), _) => Place::Panel,
            (None, Focus::List) => Place::List,
            (None, Focus::Preview) => Place::Preview,
        }
    }

    /// Returns when time alone changes something.
    pub fn wake_at(&self) -> Option<Duration> {
        let message = self.message.as_ref().map(|message| message.until);
        self.pane.due().into_iter().chain(message).min()
    }

    /// Says whether keys go into a line that is typed.
    pub fn is_typing(&self) -> bool {
        matches!(self.dialogs.last(), Some(Dialog::Prompt(_) | Dialog::Finder(_) | Dialog::Jump(_) | Dialog::Bookmark(_)))
    }

    /// Says something in the status line.
    pub fn say(&mut self, tone: Tone, text: impl Into<String>) {
        let stay = if tone == Tone::Calm { 4 } else { 10 };
        let text = text.into();
        if self.linear {
            self.said.push(text.clone());
            let old = self.said.len().saturating_sub(usize::from(SAID));
            self.said.drain(..old);
        }
        self.message = Some(Message { text, tone, until: self.now + Duration::from_secs(stay) });
    }

    /// Says something behind what has just been said.
    pub fn say_more(&mut self, tone: Tone, text: &str) {
        let before = self.message.take().map_or_else(String::new, |message| format!("{}; ", message.text));
        self.say(tone, format!("{before}{text}"));
    }

    /// Returns what the archive, or the outermost around it, is remembered by.
    pub(super) fn home(&self) -> Option<&str> {
        let home = self.outer.first().map_or(&self.archive.home, |spot| &spot.home);
        home.as_deref()
    }

    /// Returns what is planned for the archive that is shown, and for those around it, each in a line.
    pub(super) fn plans(&self) -> Vec<String> {
        let around = self.outer.iter().map(|spot| &spot.staged);
        around.chain([&self.staged]).flat_map(|staged| staged.list().iter().map(Stage::told)).collect()
    }

    /// Returns what plans bring into the directory shown, in its natural order, and whether each is known to be a directory.
    pub fn brought(&self) -> Vec<(EntryPath, bool)> {
        let mut names: Vec<(EntryPath, bool)> = Vec::new();
        if !self.arrangement.is_natural() {
            return names;
        }
        let top = self.listing.scope.directory.as_ref();
        // What is made in a directory that is not there yet brings that.
        let depth = 1 + top.map_or(0, |top| top.components().count());
        let plans = self.staged.list().iter().filter(|stage| !matches!(stage, Stage::Rename(..) | Stage::Add(_, _, true)));
        for (path, directory) in plans.filter_map(Stage::brings).filter(|(path, _)| top.is_none_or(|top| path.is_below(top))) {
            let Some(shown) = path.first(depth) else { continue };
            // Whether a directory above it is there is told by the rows, if all of them are here.
            let known = self.listing.lines.iter().any(|line| line.row.entry.path == shown);
            let unknown = shown != path && !self.listing.is_whole();
            if !known && !unknown && !names.iter().any(|(other, _)| *other == shown) {
                let directory = directory || shown != path;
                names.push((shown, directory));
            }
        }
        names
    }

    /// Returns the rows of the screen that the list has: those that plans bring stand below them.
    pub fn rows(&self) -> usize {
        let rows = usize::from(self.areas().list.height);
        if self.staged.is_empty() { rows } else { rows - self.brought().len().min(rows / 3) }
    }

    /// Gives a request its number: its answer is awaited from now on.
    pub(super) fn request(&mut self, request: Request) -> Effect {
        match &request {
            Request::Open(door, password) => {
                if password.is_none() {
                    self.locked.forget();
                }
                self.opening = Some(door.clone());
            }
            Request::Fetch(_) => self.copying = true,
            _ => {}
        }
        Effect::Request(self.asked.ask(request.subject()), request)
    }

    /// Begins a job for the archive that is shown, and returns its number.
    pub(super) fn begin(&mut self, title: String, task: Task, effects: &mut Vec<Effect>) -> JobId {
        let id = self.jobs.add(title, self.now);
        self.jobs.belongs(id, self.asked.epoch, self.archive.info.archive_id);
        effects.push(Effect::Start(id, task));
        id
    }

    /// Takes all marks away, also those that are still to come.
    pub(super) fn unmark(&mut self) {
        self.marks.clear();
        self.asked.forget(Subject::Marks);
        self.due = None;
    }

    /// Goes along with what has another path now: where one is stays the same place under its new name.
    pub(super) fn follow(&mut self, renames: &Renames) {
        // A path that can't be told has not been written, either.
        let then = |path: &EntryPath| renames.then(path).unwrap_or_else(|_| path.clone());
        let scope = &mut self.listing.scope;
        scope.directory = scope.directory.as_ref().map(then);
        if let Some(line) = self.listing.lines.get_mut(self.listing.cursor) {
            line.row.entry.path = then(&line.row.entry.path);
        }
        self.open = Arc::new(self.open.iter().map(then).collect());
        let remembered = std::mem::take(&mut self.remembered).into_iter();
        self.remembered = remembered.map(|(directory, at)| (directory.as_ref().map(then), then(&at))).collect();
        self.bookmarks.values_mut().for_each(|path| *path = then(path));
    }

    /// Keeps where the cursor is.
    pub(super) fn remember(&mut self) {
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.clear();
        }
        if let Some(entry) = self.listing.entry() {
            self.remembered.insert(self.listing.scope.directory.clone(), entry.path.clone());
        }
    }
}
