//! What lies over the browser and takes the keys.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use crate::format::archive::CommitInfo;
use crate::format::path::EntryPath;
use crate::tui::action::Action;
use crate::tui::key::Key;
use crate::tui::keymap::Place;
use crate::tui::preview::sheet::Sheet;
use crate::tui::state::finder::Finder;
use crate::tui::state::marks::Change;

/// Something that lies over the browser.
#[derive(Debug, Clone)]
pub enum Dialog {
    /// The keys of a place.
    Help {
        /// Where help was asked for.
        place: Place,
        /// First line shown.
        top: usize,
    },
    /// A line to type.
    Prompt(Prompt),
    /// A few things to choose from.
    Menu(Menu),
    /// Search by typing.
    Finder(Finder),
    /// Facts.
    Sheet {
        /// What they are about.
        title: String,
        /// The facts.
        sheet: Sheet,
        /// First line shown.
        top: usize,
    },
    /// The commits of the archive.
    Commits {
        /// The newest first.
        list: Vec<CommitInfo>,
        /// Index of the one under the cursor.
        cursor: usize,
    },
    /// The jobs.
    Jobs {
        /// Index of the job under the cursor, counted from the newest.
        cursor: usize,
    },
}

/// What a typed line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Directory to extract to.
    Extract,
    /// Glob of entries whose marks change.
    Mark(Change),
    /// What rows have to contain.
    Filter,
    /// New name of the entry.
    Rename,
    /// File or directory to add.
    Add,
    /// Name of a directory to make.
    MakeDirectory,
    /// Archive to write.
    Convert,
    /// Archive to write what reads to.
    Salvage,
    /// What entries must be.
    Query,
    /// Message of a commit.
    Message,
    /// Password of an archive.
    Password,
    /// What is sought in the preview.
    Seek,
    /// Line or offset to go to in the preview.
    Goto,
}

/// A line to type.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// What is asked.
    pub title: String,
    /// More about it.
    pub note: String,
    /// What has been typed.
    pub input: Input,
    /// What becomes of existing files: index of the policy; `None` where that is no question.
    pub policy: Option<usize>,
    /// What was wrong with it.
    pub error: Option<String>,
    /// How it could go on.
    pub choices: String,
}

impl Purpose {
    /// Says whether a path on disk is asked for.
    pub fn is_path(self) -> bool {
        matches!(self, Self::Extract | Self::Add | Self::Convert | Self::Salvage)
    }
}

impl Prompt {
    /// Asks for a line, with `typed` as a first answer.
    pub fn new(purpose: Purpose, title: impl Into<String>, note: &str, typed: impl Into<Input>) -> Self {
        let (title, note, input) = (title.into(), note.to_owned(), typed.into());
        Self { purpose, title, note, input, policy: None, error: None, choices: String::new() }
    }
}

/// What a choice leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The action of a key.
    Do(Action),
    /// To an entry.
    Go(EntryPath),
    /// All jobs are stopped, and the program ends.
    StopAndQuit,
    /// The program ends once the jobs have.
    WaitAndQuit,
    /// The same, without a screen.
    Detach,
    /// Nothing.
    Nothing,
}

/// A few things to choose from.
#[derive(Debug, Clone)]
pub struct Menu {
    /// What it is about.
    pub title: String,
    /// Sentences above the choices.
    pub lines: Vec<String>,
    /// The choices: a key, words, what follows.
    pub items: Vec<(char, String, Choice)>,
    /// Index of the one that Enter takes.
    pub cursor: usize,
}

/// Edits a line; says whether the key meant something there, and whether the text is another.
pub fn edit(input: &mut Input, key: Key) -> Option<bool> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let word = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::CONTROL);
    let request = match key.code {
        KeyCode::Char(_) if key.typed().is_some() => InputRequest::InsertChar(key.typed()?),
        KeyCode::Backspace if word => InputRequest::DeletePrevWord,
        KeyCode::Backspace => InputRequest::DeletePrevChar,
        KeyCode::Delete => InputRequest::DeleteNextChar,
        KeyCode::Left if word => InputRequest::GoToPrevWord,
        KeyCode::Left => InputRequest::GoToPrevChar,
        KeyCode::Right if word => InputRequest::GoToNextWord,
        KeyCode::Right => InputRequest::GoToNextChar,
        KeyCode::Home => InputRequest::GoToStart,
        KeyCode::End => InputRequest::GoToEnd,
        KeyCode::Char('a') if control => InputRequest::GoToStart,
        KeyCode::Char('e') if control => InputRequest::GoToEnd,
        KeyCode::Char('w') if control => InputRequest::DeletePrevWord,
        KeyCode::Char('u') if control => InputRequest::DeleteFromStart,
        KeyCode::Char('k') if control => InputRequest::DeleteTillEnd,
        _ => return None,
    };
    Some(input.handle(request).is_some_and(|changed| changed.value))
}

/// Puts pasted text into a line, without its line breaks and other control characters.
pub fn paste(input: &mut Input, text: &str) {
    for c in text.chars().filter(|c| !c.is_control()) {
        let _ = input.handle(InputRequest::InsertChar(c));
    }
}
