//! What lies over the browser and takes the keys.

use std::fmt;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Rect;
use tui_input::{Input, InputRequest};
use zeroize::Zeroizing;

use crate::action::Action;
use crate::glyphs;
use crate::key::Key;
use crate::keymap::Place;
use crate::layout::Column;
use crate::open_target::OpenTarget;
use crate::preview::sheet::Sheet;
use crate::state::finder::Finder;
use crate::state::jobs::{JobId, LogPlace};
use crate::state::marks::{Among, Change, SelectedEntries};
use nra_format::archive::CommitInfo;
use nra_format::path::EntryPath;

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
    /// What a row is to begin with, typed in the status line.
    Jump(Jump),
    /// The letter of a bookmark for this entry, asked for in the status line.
    Bookmark(EntryPath),
    /// A few things to choose from.
    Menu(Menu),
    /// Search by typing.
    Finder(Finder),
    /// Facts.
    Sheet {
        /// What they are about.
        title: String,
        /// The facts; none before they have come.
        sheet: Sheet,
        /// First line shown.
        top: usize,
    },
    /// The commits of the archive.
    Commits {
        /// The newest first; none before they have come.
        list: Vec<CommitInfo>,
        /// Index of the one under the cursor.
        cursor: usize,
    },
    /// What is planned.
    PendingChanges {
        /// Index of the change under the cursor.
        cursor: usize,
    },
    /// The jobs.
    Jobs {
        /// The job under the cursor, if there was one: others may come above it.
        job: Option<JobId>,
        /// From where what it said is shown.
        top: LogPlace,
    },
}

impl Dialog {
    /// Says whether it tells of jobs or keys, whatever archive is shown, and nothing is typed or chosen in it.
    pub fn stays_aside(&self) -> bool {
        matches!(self, Self::Jobs { .. } | Self::Help { .. })
    }
}

/// Typing what a row begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jump {
    /// What has been typed.
    pub typed: String,
    /// The place of the row from which on rows are looked for.
    pub from: u64,
    /// The next such row behind it is asked for.
    pub again: bool,
    /// The row is requested.
    pub waiting: bool,
    /// There is no such row.
    pub missed: bool,
}

/// What a typed line is for, with what it is about: that is what it was opened for, wherever the cursor is by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptKind {
    /// Directory to extract these entries to.
    Extract(SelectedEntries),
    /// Glob of entries whose marks change.
    Mark(Among, Change),
    /// What rows have to contain, instead of this.
    Filter(String),
    /// New name of this entry.
    Rename(EntryPath),
    /// File or directory to add to this directory.
    Add(Option<EntryPath>),
    /// Name of a directory to make in this one.
    MakeDirectory(Option<EntryPath>),
    /// Archive to write.
    Convert,
    /// Archive to write what reads to.
    Salvage,
    /// What entries must be.
    Query,
    /// Message of a commit, and how the program ends behind it, if it does.
    Message(Option<QuitMode>),
    /// Password of the archive behind this target.
    Password(Box<OpenTarget>),
    /// What is sought in the preview.
    Seek,
    /// Line or offset to go to in the preview.
    Goto,
}

/// What is looked at before it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingCheck {
    /// What was typed, and what for.
    Typed(PromptKind, String),
    /// What is to be planned by a key.
    Change,
    /// Index of the plan that is to be taken back.
    Undo(usize),
}

/// A line to type.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What it is for.
    pub purpose: PromptKind,
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
    /// The first answer has not been touched: what is typed takes its place.
    pub fresh: bool,
    /// What has been typed, if that is shown to nobody: the line has a dot for each of its characters.
    pub hidden: Option<Hidden>,
}

/// Text that is typed and not shown, wiped behind it.
#[derive(Clone)]
pub struct Hidden(Zeroizing<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

impl Hidden {
    /// What stands in the line for a character.
    const DOT: char = '•';

    fn new() -> Self {
        // More than is typed: text that grows into other memory leaves the old one to be wiped.
        Self(Zeroizing::new(String::with_capacity(256)))
    }

    /// Puts text behind so many characters.
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

    /// Does to the text what has been done to the dots: `before` are their number and the place of the cursor, `typed` what has come.
    fn follow(&mut self, before: (usize, usize), line: &Input, typed: Option<char>) {
        let (dots, cursor) = (line.value().chars().count(), line.cursor());
        match typed {
            Some(c) if dots > before.0 => self.insert(before.1, c.encode_utf8(&mut [0; 4])),
            // What goes goes from where the cursor is then.
            _ => {
                let (from, to) = (byte_of(&self.0, cursor), byte_of(&self.0, cursor + before.0.saturating_sub(dots)));
                self.0.replace_range(from..to, "");
            }
        }
    }

    /// Returns the text, which leaves this.
    pub fn take(self) -> Zeroizing<Vec<u8>> {
        let mut text = self.0;
        Zeroizing::new(std::mem::take(&mut *text).into_bytes())
    }
}

impl PromptKind {
    /// Says whether a path on disk is asked for.
    pub fn is_path(&self) -> bool {
        matches!(self, Self::Extract(_) | Self::Add(_) | Self::Convert | Self::Salvage)
    }

    /// Says whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Extract(_))
    }
}

impl Prompt {
    /// Asks for a line, with `typed` as a first answer.
    pub fn new(purpose: PromptKind, title: impl Into<String>, note: &str, typed: impl Into<Input>) -> Self {
        let (title, note, input): (_, _, Input) = (title.into(), note.to_owned(), typed.into());
        let fresh = !input.value().is_empty();
        let hidden = matches!(purpose, PromptKind::Password(_)).then(Hidden::new);
        Self { purpose, title, note, input, policy: None, error: None, choices: String::new(), fresh, hidden }
    }

    /// Edits the line; says whether the text is another.
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

    /// Takes pasted text; says whether there was room for all of it.
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

/// What a choice leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The action of a key.
    Do(Action),
    /// A column appears, or goes.
    Column(Column),
    /// To an entry.
    Go(EntryPath),
    /// The program ends, if nothing is planned.
    Leave(QuitMode),
    /// It ends, and what is planned is dropped.
    Drop(QuitMode),
    /// It ends, and what is planned is written before.
    Write(QuitMode),
    /// Something else is opened.
    Open(OpenTarget),
    /// The archive is compacted.
    Compact,
    /// It returns to a commit.
    Return(u64),
    /// These entries of a commit come back.
    BringBack(u64, SelectedEntries),
    /// Nothing.
    Nothing,
}

/// What becomes of jobs when the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuitMode {
    /// They are stopped.
    Stop,
    /// They come to their end first.
    Wait,
    /// The same, without a screen.
    Detach,
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
    /// What it is, where that matters.
    pub about: About,
}

/// What a menu is, where more depends on it than what is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A few things to choose from.
    Choices,
    /// The question what becomes of work when the program ends.
    Leaving,
    /// The question what becomes of plans.
    PendingChanges,
    /// What compacting would save, which is still being looked for.
    Weighing,
}

impl Menu {
    /// Rows of its sentences at most, where there are many.
    const MOST_TOLD: usize = 8;
    /// Columns of the key in front of the words of a choice.
    pub const WORDS: u16 = 3;

    /// Returns columns and rows inside its frame.
    pub fn size(&self, screen: Rect) -> (u16, u16) {
        let words = self.items.iter().map(|(_, words, _)| glyphs::width(words) + 4);
        let lines = self.lines.iter().map(|line| glyphs::width(line));
        let width = words.chain(lines).chain([glyphs::width(&self.title) + 4, 24]).max().unwrap_or(24).min(70);
        let width = u16::try_from(width).unwrap_or(70).min(screen.width.saturating_sub(4));
        let told = self.told(width, u16::MAX).len();
        let rows = u16::try_from(told + usize::from(told > 0) + self.rows(width)).unwrap_or(u16::MAX);
        (width, rows.min(screen.height.saturating_sub(2)))
    }

    /// Returns how many rows each choice takes in so many columns: two where the words of some are longer than one.
    pub fn each(&self, width: u16) -> u16 {
        let room = usize::from(width.saturating_sub(Self::WORDS));
        1 + u16::from(self.items.iter().any(|(_, words, _)| glyphs::width(words) > room))
    }

    fn rows(&self, width: u16) -> usize {
        self.items.len() * usize::from(self.each(width))
    }

    /// Returns its sentences in lines of a width, as far as the choices, which come first, leave room for them and an empty row; and how many more
    /// there are.
    pub fn told(&self, width: u16, height: u16) -> Vec<String> {
        let room = usize::from(height).saturating_sub(self.rows(width) + 1).min(Self::MOST_TOLD);
        let wrapped = |line: &String| glyphs::wrapped(line, usize::from(width)).map(str::to_owned).collect::<Vec<_>>();
        let mut sentences: Vec<Vec<String>> = self.lines.iter().take(room + 1).map(wrapped).collect();
        let rows = |sentences: &[Vec<String>]| sentences.iter().map(Vec::len).sum::<usize>();
        if sentences.len() < self.lines.len() || rows(&sentences) > room {
            // One row says what there is no room for.
            while rows(&sentences) >= room && sentences.len() > 1 {
                sentences.pop();
            }
            let more = self.lines.len() - sentences.len();
            sentences.extend((more > 0).then(|| vec![format!("… and {more} more")]));
        }
        sentences.into_iter().flatten().take(room).collect()
    }
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

/// Bytes that a line takes of pasted text: more than any path has.
pub const MAX_LINE: usize = 64 << 10;

/// Returns what a line takes of pasted text, and whether `room` bytes are enough for all of it: lines with a space between them, without other control
/// characters. It may be a password.
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

/// Returns where a character begins.
fn byte_of(text: &str, place: usize) -> usize {
    text.char_indices().nth(place).map_or(text.len(), |(at, _)| at)
}

/// Puts text into a line all at once.
fn insert(input: &mut Input, text: &str) {
    let (mut line, cursor) = (input.value().to_owned(), input.cursor());
    line.insert_str(byte_of(&line, cursor), text);
    *input = Input::new(line).with_cursor(cursor + text.chars().count());
}

/// Puts pasted text into a line; says whether there was room for all of it.
pub fn paste(input: &mut Input, text: &str) -> bool {
    let (line, whole) = one_line(text, MAX_LINE.saturating_sub(input.value().len()));
    insert(input, &line);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_pasted_stay_apart() {
        let mut prompt = Prompt::new(PromptKind::Message(None), "", "", "replaced");
        prompt.paste("one\r\ntwo\nthree\x1b\r\n");
        assert_eq!(prompt.input.value(), "one two three");
    }

    #[test]
    fn more_than_a_line_takes_is_cut_and_told() {
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
        let text = hidden.hidden.unwrap().take();
        assert_eq!(String::from_utf8(text.to_vec()).unwrap(), format!("n{}ß", "long ".repeat(200)));
    }
}
