//! Dialogs: help, prompts, menus, lists.

use std::fmt;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Rect;
use tui_input::{Input, InputRequest};
use zeroize::Zeroizing;

use crate::glyphs;
use crate::key::Key;
use crate::keymap::{Action, Place};
use crate::layout::Column;
use crate::open_target::OpenTarget;
use crate::preview::details::Details;
use crate::preview::walk::RowPart;
use crate::state::{Among, Change, Finder, JobId, SelectedEntries};
use nra_format::archive::CommitInfo;
use nra_format::path::EntryPath;

/// A dialog.
#[derive(Debug, Clone)]
pub enum Dialog {
    /// The keys of a place.
    Help {
        place: Place,
        /// First line shown.
        top: usize,
    },
    Prompt(Prompt),
    /// The start of a row name, typed in the status line.
    Jump(Jump),
    /// The letter of a bookmark for this entry, typed in the status line.
    Bookmark(EntryPath),
    Menu(Menu),
    Finder(Finder),
    Details {
        title: String,
        /// The properties; empty until they are loaded.
        details: Details,
        /// First line shown.
        top: usize,
    },
    Commits {
        /// The newest first; empty until they are loaded.
        list: Vec<CommitInfo>,
        cursor: usize,
    },
    PendingChanges {
        cursor: usize,
    },
    Jobs {
        /// The job under the cursor. New jobs appear above it.
        job: Option<JobId>,
        /// First screen row of its log that is shown.
        top: RowPart,
    },
}

impl Dialog {
    /// Returns whether it is independent of the archive shown, and nothing is typed or chosen in
    /// it.
    pub fn is_independent(&self) -> bool {
        matches!(self, Self::Jobs { .. } | Self::Help { .. })
    }
}

/// The start of a row name, while it is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jump {
    pub typed: String,
    /// Place of the row to search from.
    pub from: u64,
    /// Search the next such row after it.
    pub again: bool,
    /// The row is requested.
    pub waiting: bool,
    /// No row starts with the typed text.
    pub missed: bool,
}

/// The purpose of a prompt and the entry it was opened for: the cursor may have moved since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptKind {
    /// Target directory for these entries.
    Extract(SelectedEntries),
    /// Glob of entries to mark or unmark.
    Mark(Among, Change),
    /// A filter; the previous one.
    Filter(String),
    /// New name of this entry.
    Rename(EntryPath),
    /// File or directory to add to this directory.
    Add(Option<EntryPath>),
    /// Name of a directory to make in this one.
    MakeDirectory(Option<EntryPath>),
    /// The new archive of a conversion.
    Convert,
    /// The new archive for readable entries.
    Salvage,
    Query,
    /// Message of a commit, and how to quit afterwards, if at all.
    Message(Option<QuitMode>),
    Password(Box<OpenTarget>),
    /// Text to search in the preview.
    Seek,
    /// Line or offset to go to in the preview.
    Goto,
}

/// The check in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingCheck {
    Typed(PromptKind, String),
    /// A change made with a key.
    Change,
    /// Undoing the change with this index.
    Undo(usize),
}

/// A prompt.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub purpose: PromptKind,
    pub title: String,
    pub note: String,
    pub input: Input,
    /// Index of the policy for existing files; `None` if there is no choice.
    pub policy: Option<usize>,
    pub error: Option<String>,
    pub choices: String,
    /// The suggestion is unchanged: typing replaces it.
    pub fresh: bool,
    /// The typed text if it is secret: the line shows a dot for each character.
    pub hidden: Option<Hidden>,
}

/// Secret text, wiped from memory after use.
#[derive(Clone)]
pub struct Hidden(Zeroizing<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

impl Hidden {
    /// Shown for each character.
    const DOT: char = '•';

    fn new() -> Self {
        // More than is typed: text that grows would leave a copy in memory.
        Self(Zeroizing::new(String::with_capacity(256)))
    }

    /// Inserts text after this many characters.
    fn insert(&mut self, place: usize, text: &str) {
        let len = self.0.len() + text.len();
        if len > self.0.capacity() {
            let mut larger = Zeroizing::new(String::with_capacity(len * 2));
            larger.push_str(&self.0);
            self.0 = larger;
        }
        let at = byte_of(&self.0, place);
        self.0.insert_str(at, text);
    }

    /// Repeats an edit of the dots on the text: `before` is their number and the cursor before it,
    /// `typed` the new character.
    fn follow(&mut self, before: (usize, usize), line: &Input, typed: Option<char>) {
        let (dots, cursor) = (line.value().chars().count(), line.cursor());
        match typed {
            Some(c) if dots > before.0 => self.insert(before.1, c.encode_utf8(&mut [0; 4])),
            // Characters are deleted at the cursor.
            _ => {
                let (from, to) = (byte_of(&self.0, cursor), byte_of(&self.0, cursor + before.0.saturating_sub(dots)));
                self.0.replace_range(from..to, "");
            }
        }
    }

    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        let mut text = self.0;
        Zeroizing::new(std::mem::take(&mut *text).into_bytes())
    }
}

impl PromptKind {
    /// Returns whether it asks for a path on disk.
    pub fn is_path(&self) -> bool {
        matches!(self, Self::Extract(_) | Self::Add(_) | Self::Convert | Self::Salvage)
    }

    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Extract(_))
    }
}

impl Prompt {
    /// Returns a prompt with `typed` as the suggestion.
    pub fn new(purpose: PromptKind, title: impl Into<String>, note: &str, typed: impl Into<Input>) -> Self {
        let (title, note, input): (_, _, Input) = (title.into(), note.to_owned(), typed.into());
        let fresh = !input.value().is_empty();
        let hidden = matches!(purpose, PromptKind::Password(_)).then(Hidden::new);
        Self { purpose, title, note, input, policy: None, error: None, choices: String::new(), fresh, hidden }
    }

    /// Edits the line. Returns whether the text has changed.
    pub fn edit(&mut self, key: Key) -> bool {
        let replaced = key.typed().is_some() || matches!(key.code, KeyCode::Backspace | KeyCode::Delete);
        if std::mem::take(&mut self.fresh) && replaced {
            self.input.reset();
            return key.typed().is_none() || edit(&mut self.input, key) == Some(true);
        }
        let Some(hidden) = &mut self.hidden else { return edit(&mut self.input, key) == Some(true) };
        let before = (self.input.value().chars().count(), self.input.cursor());
        let dot = Key { code: key.typed().map_or(key.code, |_| KeyCode::Char(Hidden::DOT)), ..key };
        let changed = edit(&mut self.input, dot) == Some(true);
        if changed {
            hidden.follow(before, &self.input, key.typed());
        }
        changed
    }

    /// Inserts pasted text. Returns whether all of it fit.
    pub fn paste(&mut self, text: &str) -> bool {
        if std::mem::take(&mut self.fresh) {
            self.input.reset();
        }
        let Some(hidden) = &mut self.hidden else { return paste(&mut self.input, text) };
        let (line, whole) = one_line(text, MAX_LINE.saturating_sub(hidden.0.len()));
        hidden.insert(self.input.cursor(), &line);
        insert(&mut self.input, &line.chars().map(|_| Hidden::DOT).collect::<String>());
        whole
    }
}

/// The effect of a menu item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Do(Action),
    Column(Column),
    Go(EntryPath),
    /// Quits, unless changes are pending.
    Leave(QuitMode),
    /// Quits and drops pending changes.
    Drop(QuitMode),
    Write(QuitMode),
    Open(OpenTarget),
    Compact,
    /// Returns to a commit.
    Return(u64),
    /// Restores these entries from a commit.
    BringBack(u64, SelectedEntries),
    Nothing,
}

/// The treatment of running jobs on quitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuitMode {
    Stop,
    Wait,
    /// Wait for them without a screen.
    Detach,
}

/// A menu.
#[derive(Debug, Clone)]
pub struct Menu {
    pub title: String,
    pub lines: Vec<String>,
    /// The items: key, text, what it does.
    pub items: Vec<(char, String, Choice)>,
    pub cursor: usize,
    pub about: About,
}

/// The subject of a menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    Choices,
    /// Running jobs, on quitting.
    Quitting,
    /// Pending changes that would be lost.
    PendingChanges,
    /// The estimate for compacting, which is being computed.
    CompactEstimate,
}

impl Menu {
    /// Returns a menu with the cursor on its first item.
    pub fn new(title: impl Into<String>, items: Vec<(char, String, Choice)>) -> Self {
        Self { title: title.into(), lines: Vec::new(), items, cursor: 0, about: About::Choices }
    }

    const MAX_TEXT_ROWS: usize = 8;
    /// Columns before the text of an item, for its key.
    pub const TEXT: u16 = 3;

    /// Returns the size inside the frame.
    pub fn size(&self, screen: Rect) -> (u16, u16) {
        let text = self.items.iter().map(|(_, text, _)| glyphs::width(text) + 4);
        let lines = self.lines.iter().map(|line| glyphs::width(line));
        let width = text.chain(lines).chain([glyphs::width(&self.title) + 4, 24]).max().unwrap_or(24).min(70);
        let width = u16::try_from(width).unwrap_or(70).min(screen.width.saturating_sub(4));
        let lines = self.text(width, u16::MAX).len();
        let rows = u16::try_from(lines + usize::from(lines > 0) + self.rows(width)).unwrap_or(u16::MAX);
        (width, rows.min(screen.height.saturating_sub(2)))
    }

    /// Returns the rows per item: two if the text of any item does not fit into one.
    pub fn rows_per_item(&self, width: u16) -> u16 {
        let room = usize::from(width.saturating_sub(Self::TEXT));
        1 + u16::from(self.items.iter().any(|(_, text, _)| glyphs::width(text) > room))
    }

    fn rows(&self, width: u16) -> usize {
        self.items.len() * usize::from(self.rows_per_item(width))
    }

    /// Returns its text in lines of a width, as far as the items leave room for it and an empty
    /// row. The last line is the number of sentences that did not fit.
    pub fn text(&self, width: u16, height: u16) -> Vec<String> {
        let room = usize::from(height).saturating_sub(self.rows(width) + 1).min(Self::MAX_TEXT_ROWS);
        let wrapped = |line: &String| glyphs::wrapped(line, usize::from(width)).map(str::to_owned).collect::<Vec<_>>();
        let mut sentences: Vec<Vec<String>> = self.lines.iter().take(room + 1).map(wrapped).collect();
        let rows = |sentences: &[Vec<String>]| sentences.iter().map(Vec::len).sum::<usize>();
        if sentences.len() < self.lines.len() || rows(&sentences) > room {
            // One row is for the number of sentences that do not fit.
            while rows(&sentences) >= room && sentences.len() > 1 {
                sentences.pop();
            }
            let more = self.lines.len() - sentences.len();
            sentences.extend((more > 0).then(|| vec![format!("… and {more} more")]));
        }
        sentences.into_iter().flatten().take(room).collect()
    }
}

/// Edits a line. Returns `None` if the key has no meaning there, otherwise whether the text has
/// changed.
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

/// Most bytes of pasted text in a line: longer than any path.
pub const MAX_LINE: usize = 64 << 10;

/// Returns pasted text as one line, and whether all of it fits into `room` bytes. Line breaks
/// become spaces, and other control characters are removed. The text may be a password.
pub fn one_line(text: &str, room: usize) -> (Zeroizing<String>, bool) {
    let text = text.trim_end_matches(['\r', '\n']);
    let chars = text.char_indices().filter(|(at, c)| *c != '\n' || !text[..*at].ends_with('\r'));
    let chars = chars.map(|(_, c)| if matches!(c, '\r' | '\n') { ' ' } else { c }).filter(|c| !c.is_control());
    let mut line = Zeroizing::new(String::with_capacity(text.len().min(room)));
    for c in chars {
        if line.len() + c.len_utf8() > room {
            return (line, false);
        }
        line.push(c);
    }
    (line, true)
}

/// Returns the byte offset of a character.
fn byte_of(text: &str, place: usize) -> usize {
    text.char_indices().nth(place).map_or(text.len(), |(at, _)| at)
}

/// Inserts text into a line.
fn insert(input: &mut Input, text: &str) {
    let (mut line, cursor) = (input.value().to_owned(), input.cursor());
    line.insert_str(byte_of(&line, cursor), text);
    *input = Input::new(line).with_cursor(cursor + text.chars().count());
}

/// Inserts pasted text into a line. Returns whether all of it fit.
pub fn paste(input: &mut Input, text: &str) -> bool {
    let (line, whole) = one_line(text, MAX_LINE.saturating_sub(input.value().len()));
    insert(input, &line);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_lines_are_joined_with_spaces() {
        let mut prompt = Prompt::new(PromptKind::Message(None), "", "", "replaced");
        prompt.paste("one\r\ntwo\nthree\x1b\r\n");
        assert_eq!(prompt.input.value(), "one two three");
    }

    #[test]
    fn long_paste_is_truncated_and_reported() {
        for purpose in [PromptKind::Message(None), PromptKind::Password(Box::new(OpenTarget::Unlocked))] {
            let mut prompt = Prompt::new(purpose.clone(), "", "", "");
            assert!(prompt.paste("<>"));
            prompt.edit("left".parse().unwrap());
            // Character by character this would take minutes.
            assert!(!prompt.paste(&"é".repeat(1 << 20)));
            assert!(!prompt.paste("more"));
            let text = prompt.hidden.map_or(prompt.input.value().to_owned(), |hidden| hidden.0.to_string());
            assert_eq!(text, format!("<{}>", "é".repeat(MAX_LINE / 2 - 1)), "{purpose:?}");
            assert_eq!(prompt.input.cursor(), MAX_LINE / 2);
        }
    }

    #[test]
    fn hidden_text_follows_its_dots() {
        // The same keys in a line that is shown.
        let mut shown = Prompt::new(PromptKind::Message(None), "", "", "");
        let mut hidden = Prompt::new(PromptKind::Password(Box::new(OpenTarget::Unlocked)), "", "", "");
        let keys = "a ä left b right c home d del end é left left backspace x ctrl-a y ctrl-e ctrl-k z left left ctrl-k q ctrl-u";
        for key in keys.split(' ').chain(["w", "ß", "left", "ctrl-w", "n"]) {
            let key: Key = key.parse().unwrap();
            assert_eq!(shown.edit(key), hidden.edit(key), "{key}");
            let text = shown.input.value();
            assert_eq!(*hidden.hidden.as_ref().unwrap().0, text, "{key}");
            let dots: String = text.chars().map(|_| Hidden::DOT).collect();
            assert_eq!((hidden.input.value(), hidden.input.cursor()), (dots.as_str(), shown.input.cursor()), "{key}");
        }
        hidden.paste(&"long ".repeat(200));
        assert!(!format!("{hidden:?}").contains("long"));
        let text = hidden.hidden.unwrap().into_bytes();
        assert_eq!(String::from_utf8(text.to_vec()).unwrap(), format!("n{}ß", "long ".repeat(200)));
    }
}
