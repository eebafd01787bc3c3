//! The one table of keys: lookups, help, hints, palette, documentation and configuration are made from it.

use std::collections::HashMap;

use crate::action::Action;
use crate::glyphs;
use crate::key::Key;

/// Where a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Place {
    /// In the list of entries.
    List = 1,
    /// In the preview.
    Preview = 2,
    /// In a dialog that scrolls: help, facts, menus.
    Panel = 4,
    /// In the list of jobs.
    Jobs = 8,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 4] = [Self::List, Self::Preview, Self::Panel, Self::Jobs];

    /// Returns the name of the place.
    pub fn title(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Preview => "preview",
            Self::Panel => "dialogs",
            Self::Jobs => "jobs",
        }
    }
}

/// Headings of the help, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Moving about.
    Move,
    /// Looking into entries.
    Look,
    /// Finding and arranging.
    Find,
    /// Marking entries.
    Mark,
    /// Doing something with entries.
    Work,
    /// Everything about the program.
    Program,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] = [Self::Move, Self::Look, Self::Find, Self::Mark, Self::Work, Self::Program];

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Move => "Move",
            Self::Look => "Look inside",
            Self::Find => "Find and arrange",
            Self::Mark => "Mark",
            Self::Work => "Do",
            Self::Program => "Program",
        }
    }
}

/// An action with its name, its keys and what it says about itself.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// What it does.
    pub action: Action,
    /// Name in the configuration and in the palette.
    pub name: &'static str,
    /// Keys unless the configuration says otherwise.
    pub keys: &'static [&'static str],
    /// Sum of the [`Place`]s where they work.
    places: u8,
    /// Heading in the help.
    pub group: Group,
    /// Sentence in the help, without a full stop.
    pub help: &'static str,
    /// Word for the line of hints, empty if it is not worth its room there.
    pub hint: &'static str,
}

impl Command {
    /// Says whether the command works at a place.
    pub fn works_in(&self, place: Place) -> bool {
        self.places & place as u8 != 0
    }
}

const LIST: u8 = Place::List as u8;
const PREVIEW: u8 = Place::Preview as u8;
const BROWSER: u8 = LIST | PREVIEW;
const JOBS: u8 = Place::Jobs as u8;
const ANYWHERE: u8 = BROWSER | Place::Panel as u8 | JOBS;

/// Makes a line of the table.
const fn command(
    action: Action,
    name: &'static str,
    keys: &'static [&'static str],
    places: u8,
    group: Group,
    help: &'static str,
    hint: &'static str,
) -> Command {
    Command { action, name, keys, places, group, help, hint }
}

/// Every command. Hints are shown in this order.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    command(Action::Help, "help", &["?", "f1"], ANYWHERE, Group::Program, "Show the keys", "help"),
    command(Action::Down, "down", &["j", "down"], ANYWHERE, Group::Move, "Go down", ""),
    command(Action::Up, "up", &["k", "up"], ANYWHERE, Group::Move, "Go up", ""),
    command(Action::HalfDown, "half-page-down", &["ctrl-d"], ANYWHERE, Group::Move, "Go down half a page", ""),
    command(Action::HalfUp, "half-page-up", &["ctrl-u"], ANYWHERE, Group::Move, "Go up half a page", ""),
    command(Action::PageDown, "page-down", &["pagedown", "ctrl-f"], ANYWHERE, Group::Move, "Go down a page", ""),
    command(Action::PageUp, "page-up", &["pageup", "ctrl-b"], ANYWHERE, Group::Move, "Go up a page", ""),
    command(Action::First, "first", &["g", "home"], ANYWHERE, Group::Move, "Go to the first row", ""),
    command(Action::Last, "last", &["G", "end"], ANYWHERE, Group::Move, "Go to the last row", ""),
    command(Action::Enter, "enter", &["l", "right", "enter"], LIST, Group::Move, "Enter the directory, or the content of the file", "open"),
    command(Action::Parent, "parent", &["h", "left", "backspace"], LIST, Group::Move, "Go to the directory above", "up"),
    command(Action::Left, "left", &["h", "left", "backspace"], PREVIEW, Group::Move, "Scroll to the left; at the edge go back to the list", ""),
    command(Action::Right, "right", &["l", "right"], PREVIEW, Group::Move, "Scroll to the right", ""),
    command(Action::Find, "find", &["/"], LIST, Group::Find, "Find paths below here by typing", "find"),
    command(Action::Filter, "filter", &["f"], LIST, Group::Find, "Keep rows that match a glob or a text", "filter"),
    command(Action::SortMenu, "sort", &["s"], LIST, Group::Find, "Choose the order", "sort"),
    command(Action::SortName, "sort-by-name", &[], LIST, Group::Find, "Order by name", ""),
    command(Action::SortSize, "sort-by-size", &[], LIST, Group::Find, "Order by size, the largest first", ""),
    command(Action::SortStored, "sort-by-stored-size", &[], LIST, Group::Find, "Order by stored size, the largest first", ""),
    command(Action::SortRatio, "sort-by-ratio", &[], LIST, Group::Find, "Order by ratio, the worst first", ""),
    command(Action::SortTime, "sort-by-time", &[], LIST, Group::Find, "Order by time, the newest first", ""),
    command(Action::SortMode, "sort-by-mode", &[], LIST, Group::Find, "Order by permissions, the widest first", ""),
    command(Action::SortKind, "sort-by-kind", &[], LIST, Group::Find, "Directories first", ""),
    command(Action::Reverse, "reverse", &["S"], LIST, Group::Find, "Turn the order round", ""),
    command(Action::Tree, "tree", &["t"], LIST, Group::Find, "Tree: directories open in place; or back", "tree"),
    command(Action::Columns, "columns", &["C"], LIST, Group::Find, "Choose the columns", ""),
    command(Action::Query, "find-by", &["F"], LIST, Group::Find, "Find below here by size, time, kind, content", ""),
    command(Action::Duplicates, "duplicates", &["D"], LIST, Group::Find, "List files that have the same content; or back", ""),
    command(Action::Sizes, "sizes", &["b"], LIST, Group::Find, "Show sizes as bars; again as a map; again as numbers", ""),
    command(Action::Bookmark, "bookmark", &["m"], BROWSER, Group::Find, "Keep the entry as a bookmark; a letter names it", ""),
    command(Action::Bookmarks, "bookmarks", &["'"], BROWSER, Group::Find, "Go to a bookmark", ""),
    command(Action::History, "history", &["H"], BROWSER, Group::Find, "Show the commits; enter goes to one", ""),
    command(Action::Earlier, "earlier", &["["], BROWSER, Group::Find, "Go to the commit before", ""),
    command(Action::Later, "later", &["]"], BROWSER, Group::Find, "Go to the commit behind", ""),
    command(Action::Archives, "archives", &["O"], BROWSER, Group::Find, "Open another archive of this directory", ""),
    command(Action::Reload, "reload", &["ctrl-r"], BROWSER, Group::Find, "Read the archive anew, as it is by now", ""),
    command(Action::Mark, "mark", &["space", "ins"], LIST, Group::Mark, "Mark the row, or unmark it, and go on", "mark"),
    command(Action::MarkRange, "mark-range", &["v"], LIST, Group::Mark, "Begin a range of marks, and end it", ""),
    command(Action::MarkAll, "mark-all", &["A", "ctrl-a"], LIST, Group::Mark, "Mark everything here", ""),
    command(Action::MarkInvert, "mark-invert", &["*"], LIST, Group::Mark, "Turn the marks here round", ""),
    command(Action::MarkGlob, "mark-glob", &["+"], LIST, Group::Mark, "Mark what a glob means", ""),
    command(Action::UnmarkGlob, "unmark-glob", &["-"], LIST, Group::Mark, "Unmark what a glob means", ""),
    command(Action::Extract, "extract", &["e", "f5"], BROWSER, Group::Work, "Extract what is marked, or the entry; asks where to", "extract"),
    command(Action::Jump, "jump", &[";", "ctrl-s"], LIST, Group::Move, "Go to a row by typing what its name begins with", "jump"),
    command(Action::ExtractHere, "extract-here", &["E"], BROWSER, Group::Work, "Extract to the current directory", ""),
    command(Action::Add, "add", &["a"], BROWSER, Group::Work, "Plan to add a file or directory here; asks which", ""),
    command(Action::MakeDirectory, "make-directory", &["f7", "M"], BROWSER, Group::Work, "Plan to make a directory here", ""),
    command(Action::Remove, "remove", &["d", "f8", "del"], BROWSER, Group::Work, "Plan to remove (delete) what is marked, or the entry", ""),
    command(Action::Rename, "rename", &["r", "f6"], BROWSER, Group::Work, "Plan to rename or move the entry", ""),
    command(Action::Undo, "undo", &["u"], BROWSER, Group::Work, "Take the last planned change back", ""),
    command(Action::PendingChanges, "plans", &["P"], BROWSER, Group::Work, "Show what is planned, and take some of it back", ""),
    command(Action::Write, "write", &["W"], BROWSER, Group::Work, "Write what is planned as one commit", ""),
    command(Action::Revert, "return", &["U"], BROWSER, Group::Work, "Undo the last commit, or return to the one shown; asks first", ""),
    command(Action::Convert, "convert", &["c"], BROWSER, Group::Work, "Write everything as another archive; asks its name", ""),
    command(Action::Compact, "compact", &["Z"], BROWSER, Group::Work, "Drop earlier commits and what only they hold; asks first", ""),
    command(Action::Verify, "verify", &["V"], BROWSER, Group::Work, "Check what is marked, or all", ""),
    command(Action::VerifyEntry, "verify-entry", &["alt-v"], BROWSER, Group::Work, "Check what is marked, or the entry", ""),
    command(Action::Salvage, "salvage", &["R"], BROWSER, Group::Work, "Damage: list what reads and what does not, save what does", ""),
    command(Action::ListDamaged, "list-damaged", &[], BROWSER, Group::Work, "List files that do not read whole", ""),
    command(Action::ListIntact, "list-intact", &[], BROWSER, Group::Work, "List files that read whole", ""),
    command(Action::SalvageTo, "salvage-to", &[], BROWSER, Group::Work, "Write what reads to a new archive; asks its name", ""),
    command(Action::Copy, "copy-path", &["y"], BROWSER, Group::Work, "Copy the path to the clipboard", ""),
    command(Action::CopyContent, "copy-content", &["Y"], BROWSER, Group::Work, "Copy the content to the clipboard", ""),
    command(Action::Page, "pager", &["o"], BROWSER, Group::Work, "Show the content in $PAGER", ""),
    command(Action::Edit, "editor", &["f4", "ctrl-o"], BROWSER, Group::Work, "Show a copy of the content in $EDITOR", ""),
    command(Action::Launch, "launch", &["f2", "ctrl-e"], BROWSER, Group::Work, "Open a copy of the content as the system does", ""),
    command(Action::Jobs, "jobs", &["J"], BROWSER, Group::Work, "Show the jobs and what they said", ""),
    command(Action::StopShown, "stop-shown", &["x"], BROWSER, Group::Work, "Stop the job in the status line", ""),
    command(Action::Stop, "stop", &["x", "del"], JOBS, Group::Work, "Stop the job", "stop"),
    command(Action::Pause, "pause", &["p", "space"], JOBS, Group::Work, "Let the job wait, or go on", "pause"),
    command(Action::Preview, "preview", &["p"], BROWSER, Group::Look, "Show or hide the preview", "preview"),
    command(Action::Focus, "focus", &["tab"], BROWSER, Group::Look, "Go to the other pane", "pane"),
    command(Action::Zoom, "zoom", &["f3", "z"], BROWSER, Group::Look, "Preview over the whole screen, or back", ""),
    command(Action::AsText, "as-text", &["1"], BROWSER, Group::Look, "Preview as text", ""),
    command(Action::AsHex, "as-hex", &["2"], BROWSER, Group::Look, "Preview as bytes", ""),
    command(Action::AsImage, "as-image", &["3"], BROWSER, Group::Look, "Preview as a picture", ""),
    command(Action::AsTable, "as-table", &["4"], BROWSER, Group::Look, "Preview as rows and columns, or JSON as a tree", ""),
    command(Action::AsInfo, "as-info", &["5"], BROWSER, Group::Look, "Preview what is known of the entry", ""),
    command(Action::AsAuto, "as-auto", &["0"], BROWSER, Group::Look, "Preview by what the content is", ""),
    command(Action::Inspect, "inspect", &["i"], BROWSER, Group::Look, "Show everything that is known of the entry", ""),
    command(Action::Seek, "search", &["/"], PREVIEW, Group::Look, "Search in the content", "search"),
    command(Action::SeekNext, "search-next", &["n"], BROWSER, Group::Look, "Go to the next path, or place, that was found", ""),
    command(Action::SeekBefore, "search-before", &["N"], BROWSER, Group::Look, "Go to the one that was found before", ""),
    command(Action::Goto, "goto", &["ctrl-g"], PREVIEW, Group::Look, "Go to a line or row, or in bytes to an offset", ""),
    command(Action::Fold, "fold", &["enter", "space"], PREVIEW, Group::Look, "Fold or unfold what JSON holds; h and l do, too", ""),
    command(Action::FoldAll, "fold-all", &["-"], PREVIEW, Group::Look, "Fold all JSON", ""),
    command(Action::UnfoldAll, "unfold-all", &["+"], PREVIEW, Group::Look, "Unfold all JSON", ""),
    command(Action::Wrap, "wrap", &["w"], BROWSER, Group::Look, "Wrap long lines, or cut them", "wrap"),
    command(Action::Palette, "palette", &[":", "ctrl-p"], BROWSER, Group::Program, "Find a command by its name", "commands"),
    command(Action::Suspend, "suspend", &["ctrl-z"], ANYWHERE, Group::Program, "Suspend; fg in the shell comes back", ""),
    command(Action::Redraw, "redraw", &["ctrl-l"], ANYWHERE, Group::Program, "Draw the screen anew", ""),
    command(Action::Back, "back", &["esc"], ANYWHERE, Group::Program, "Close what is open on top, take filter and marks away", ""),
    command(Action::Quit, "quit", &["q", "f10"], ANYWHERE, Group::Program, "Close what is open on top, or quit", "quit"),
    command(Action::QuitNow, "quit-now", &["Q", "ctrl-c"], ANYWHERE, Group::Program, "Quit; a line that is typed is closed", ""),
];

/// Keys as they are set for this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    /// Keys of each command, in the order of the table.
    keys: Vec<Vec<Key>>,
    lookup: HashMap<(Place, Key), Action>,
}

impl Default for Keymap {
    fn default() -> Self {
        let keys = COMMANDS
            .iter()
            .map(|command| command.keys.iter().map(|key| key.parse().expect("a test reads all of them")).collect())
            .collect();
        Self::new(keys)
    }
}

impl Keymap {
    /// Gives a command other keys, which it takes from whatever had them in the same places; tells which those are, by name.
    ///
    /// # Errors
    ///
    /// When there is no such command.
    pub fn set(&mut self, name: &str, keys: Vec<Key>) -> Result<Vec<(Key, &'static str)>, String> {
        let index = COMMANDS.iter().position(|command| command.name == name).ok_or_else(|| format!("no command '{name}'"))?;
        let places = COMMANDS[index].places;
        let mut taken = Vec::new();
        for (at, (command, others)) in COMMANDS.iter().zip(&mut self.keys).enumerate() {
            if command.places & places != 0 {
                let lost = others.iter().filter(|key| at != index && keys.contains(key));
                taken.extend(lost.map(|key| (*key, command.name)));
                others.retain(|key| !keys.contains(key));
            }
        }
        self.keys[index] = keys;
        *self = Self::new(std::mem::take(&mut self.keys));
        Ok(taken)
    }

    fn new(keys: Vec<Vec<Key>>) -> Self {
        let mut lookup = HashMap::new();
        for (command, keys) in COMMANDS.iter().zip(&keys) {
            for place in Place::ALL.into_iter().filter(|place| command.works_in(*place)) {
                for key in keys {
                    lookup.insert((place, *key), command.action);
                }
            }
        }
        Self { keys, lookup }
    }

    /// Returns what a key does at a place.
    pub fn action(&self, place: Place, key: Key) -> Option<Action> {
        self.lookup.get(&(place, key)).copied()
    }

    /// Iterates over the commands with their keys.
    pub fn commands(&self) -> impl Iterator<Item = (&'static Command, &[Key])> {
        COMMANDS.iter().zip(self.keys.iter().map(Vec::as_slice))
    }

    /// Returns the hints for a place: a key, a word, and what it does.
    pub fn hints(&self, place: Place) -> impl Iterator<Item = (Key, &'static str, Action)> {
        self.commands()
            .filter(move |(command, _)| command.works_in(place) && !command.hint.is_empty())
            .filter_map(|(command, keys)| Some((*keys.first()?, command.hint, command.action)))
    }
}

/// Columns of the help.
pub const HELP: u16 = 70;

/// A line of the help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelpLine {
    /// Heading of a group.
    Title(&'static str),
    /// Keys and what they do.
    Keys(String, &'static str),
    /// Nothing.
    Space,
}

impl HelpLine {
    /// Returns how many of so many columns the keys take.
    pub fn keys_width(width: u16) -> u16 {
        20.min(width / 3)
    }
}

impl Keymap {
    /// Returns the help for a place.
    pub fn help(&self, place: Place, width: u16) -> Vec<HelpLine> {
        let mut lines = Vec::new();
        for group in Group::ALL {
            let of_group =
                |(command, keys): &(&Command, &[Key])| command.group == group && command.works_in(place) && !keys.is_empty();
            let commands: Vec<_> = self.commands().filter(of_group).collect();
            if commands.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(HelpLine::Space);
            }
            lines.push(HelpLine::Title(group.title()));
            for (command, keys) in commands {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                let front = HelpLine::keys_width(width);
                let keys = keys.join("  ");
                let mut keys = glyphs::wrapped(&keys, usize::from(front.saturating_sub(1).max(1)));
                let mut help = glyphs::wrapped(command.help, usize::from(width.saturating_sub(front).max(1)));
                loop {
                    let (keys, help) = (keys.next(), help.next());
                    if keys.is_none() && help.is_none() {
                        break;
                    }
                    lines.push(HelpLine::Keys(keys.unwrap_or_default().to_owned(), help.unwrap_or_default()));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_unique_per_place() {
        let mut names = HashSet::new();
        let mut seen = HashSet::new();
        for (command, keys) in Keymap::default().commands() {
            assert!(names.insert(command.name), "two commands are called {}", command.name);
            for place in Place::ALL.into_iter().filter(|place| command.works_in(*place)) {
                for key in keys {
                    assert!(seen.insert((place, *key)), "{key} is taken where {} wants it", command.name);
                }
            }
        }
    }
}
