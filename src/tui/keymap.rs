//! The key table. Lookups, help, hints, palette, documentation and configuration all use it.

use std::collections::HashMap;

use crate::action::Action;
use crate::glyphs;
use crate::key::Key;

/// The part of the screen that receives a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Place {
    /// The list of entries.
    List = 1,
    /// The preview.
    Preview = 2,
    /// A dialog that scrolls: help, details, menus.
    Panel = 4,
    /// The list of jobs.
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

/// Headings of the help, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Navigation.
    Move,
    /// Viewing entries.
    Look,
    /// Finding and sorting.
    Find,
    /// Marking entries.
    Mark,
    /// Actions on entries.
    Work,
    /// The program itself.
    Program,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] = [Self::Move, Self::Look, Self::Find, Self::Mark, Self::Work, Self::Program];

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Move => "Move",
            Self::Look => "View",
            Self::Find => "Find and sort",
            Self::Mark => "Mark",
            Self::Work => "Actions",
            Self::Program => "Program",
        }
    }
}

/// A command: an action with its name, keys and help.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The action.
    pub action: Action,
    /// Name in the configuration and in the palette.
    pub name: &'static str,
    /// Default keys.
    pub keys: &'static [&'static str],
    /// Sum of the [`Place`]s where the keys work.
    places: u8,
    /// Heading in the help.
    pub group: Group,
    /// Help, without a full stop.
    pub help: &'static str,
    /// Word for the hint line; empty if the command has no hint.
    pub hint: &'static str,
}

impl Command {
    /// Returns whether the command works at a place.
    pub fn works_in(&self, place: Place) -> bool {
        self.places & place as u8 != 0
    }
}

const LIST: u8 = Place::List as u8;
const PREVIEW: u8 = Place::Preview as u8;
const BROWSER: u8 = LIST | PREVIEW;
const JOBS: u8 = Place::Jobs as u8;
const ANYWHERE: u8 = BROWSER | Place::Panel as u8 | JOBS;

/// Returns a row of the table.
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

/// All commands. Hints are shown in this order.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    command(Action::Help, "help", &["?", "f1"], ANYWHERE, Group::Program, "Show the keys", "help"),
    command(Action::Down, "down", &["j", "down"], ANYWHERE, Group::Move, "Move down", ""),
    command(Action::Up, "up", &["k", "up"], ANYWHERE, Group::Move, "Move up", ""),
    command(Action::HalfDown, "half-page-down", &["ctrl-d"], ANYWHERE, Group::Move, "Move down half a page", ""),
    command(Action::HalfUp, "half-page-up", &["ctrl-u"], ANYWHERE, Group::Move, "Move up half a page", ""),
    command(Action::PageDown, "page-down", &["pagedown", "ctrl-f"], ANYWHERE, Group::Move, "Move down a page", ""),
    command(Action::PageUp, "page-up", &["pageup", "ctrl-b"], ANYWHERE, Group::Move, "Move up a page", ""),
    command(Action::First, "first", &["g", "home"], ANYWHERE, Group::Move, "Go to the first row", ""),
    command(Action::Last, "last", &["G", "end"], ANYWHERE, Group::Move, "Go to the last row", ""),
    command(Action::Enter, "enter", &["l", "right", "enter"], LIST, Group::Move, "Open the directory, or show the file", "open"),
    command(Action::Parent, "parent", &["h", "left", "backspace"], LIST, Group::Move, "Go to the parent directory", "up"),
    command(Action::Left, "left", &["h", "left", "backspace"], PREVIEW, Group::Move, "Scroll left; at the edge, return to the list", ""),
    command(Action::Right, "right", &["l", "right"], PREVIEW, Group::Move, "Scroll right", ""),
    command(Action::Find, "find", &["/"], LIST, Group::Find, "Search paths in this directory and below", "find"),
    command(Action::Filter, "filter", &["f"], LIST, Group::Find, "Filter rows by a glob or a text", "filter"),
    command(Action::SortMenu, "sort", &["s"], LIST, Group::Find, "Choose the sort order", "sort"),
    command(Action::SortName, "sort-by-name", &[], LIST, Group::Find, "Sort by name", ""),
    command(Action::SortSize, "sort-by-size", &[], LIST, Group::Find, "Sort by size, largest first", ""),
    command(Action::SortStored, "sort-by-stored-size", &[], LIST, Group::Find, "Sort by stored size, largest first", ""),
    command(Action::SortRatio, "sort-by-ratio", &[], LIST, Group::Find, "Sort by ratio, worst first", ""),
    command(Action::SortTime, "sort-by-time", &[], LIST, Group::Find, "Sort by time, newest first", ""),
    command(Action::SortMode, "sort-by-mode", &[], LIST, Group::Find, "Sort by permissions, most permissive first", ""),
    command(Action::SortKind, "sort-by-kind", &[], LIST, Group::Find, "Sort by kind, directories first", ""),
    command(Action::Reverse, "reverse", &["S"], LIST, Group::Find, "Reverse the sort order", ""),
    command(Action::Tree, "tree", &["t"], LIST, Group::Find, "Toggle the tree view", "tree"),
    command(Action::Columns, "columns", &["C"], LIST, Group::Find, "Choose the columns", ""),
    command(Action::Query, "find-by", &["F"], LIST, Group::Find, "Find entries by size, time, kind or content", ""),
    command(Action::Duplicates, "duplicates", &["D"], LIST, Group::Find, "Toggle the list of duplicate files", ""),
    command(Action::Sizes, "sizes", &["b"], LIST, Group::Find, "Show sizes as bars, as a map, or as numbers", ""),
    command(Action::Bookmark, "bookmark", &["m"], BROWSER, Group::Find, "Bookmark the entry under a letter", ""),
    command(Action::Bookmarks, "bookmarks", &["'"], BROWSER, Group::Find, "Go to a bookmark", ""),
    command(Action::History, "history", &["H"], BROWSER, Group::Find, "List the commits and show one", ""),
    command(Action::Earlier, "previous-commit", &["["], BROWSER, Group::Find, "Show the previous commit", ""),
    command(Action::Later, "next-commit", &["]"], BROWSER, Group::Find, "Show the next commit", ""),
    command(Action::Archives, "archives", &["O"], BROWSER, Group::Find, "Open another archive in the same directory", ""),
    command(Action::Reload, "reload", &["ctrl-r"], BROWSER, Group::Find, "Reload the archive from disk", ""),
    command(Action::Mark, "mark", &["space", "ins"], LIST, Group::Mark, "Mark or unmark the row and move down", "mark"),
    command(Action::MarkRange, "mark-range", &["v"], LIST, Group::Mark, "Start or end a range of marks", ""),
    command(Action::MarkAll, "mark-all", &["A", "ctrl-a"], LIST, Group::Mark, "Mark everything in the list", ""),
    command(Action::MarkInvert, "mark-invert", &["*"], LIST, Group::Mark, "Invert the marks in the list", ""),
    command(Action::MarkGlob, "mark-glob", &["+"], LIST, Group::Mark, "Mark entries that match a glob", ""),
    command(Action::UnmarkGlob, "unmark-glob", &["-"], LIST, Group::Mark, "Unmark entries that match a glob", ""),
    command(Action::Extract, "extract", &["e", "f5"], BROWSER, Group::Work, "Extract the selection; asks for a directory", "extract"),
    command(Action::Jump, "jump", &[";", "ctrl-s"], LIST, Group::Move, "Go to a row by the first letters of its name", "jump"),
    command(Action::ExtractHere, "extract-here", &["E"], BROWSER, Group::Work, "Extract the selection to the current directory", ""),
    command(Action::Add, "add", &["a"], BROWSER, Group::Work, "Stage adding a file or directory here", ""),
    command(Action::MakeDirectory, "make-directory", &["f7", "M"], BROWSER, Group::Work, "Stage creating a directory here", ""),
    command(Action::Remove, "remove", &["d", "f8", "del"], BROWSER, Group::Work, "Stage removing (deleting) the selection", ""),
    command(Action::Rename, "rename", &["r", "f6"], BROWSER, Group::Work, "Stage renaming or moving the entry", ""),
    command(Action::Undo, "undo", &["u"], BROWSER, Group::Work, "Undo the last pending change", ""),
    command(Action::PendingChanges, "pending", &["P"], BROWSER, Group::Work, "Show the pending changes", ""),
    command(Action::Write, "write", &["W"], BROWSER, Group::Work, "Write the pending changes as one commit", ""),
    command(Action::Revert, "revert", &["U"], BROWSER, Group::Work, "Undo the last commit, or restore the one shown", ""),
    command(Action::Convert, "convert", &["c"], BROWSER, Group::Work, "Convert to a new archive; asks for its name", ""),
    command(Action::Compact, "compact", &["Z"], BROWSER, Group::Work, "Drop earlier commits to reclaim their space", ""),
    command(Action::Verify, "verify", &["V"], BROWSER, Group::Work, "Verify the marked entries, or the whole archive", ""),
    command(Action::VerifyEntry, "verify-entry", &["alt-v"], BROWSER, Group::Work, "Verify the selection", ""),
    command(Action::Salvage, "salvage", &["R"], BROWSER, Group::Work, "List damaged or undamaged files, or recover files", ""),
    command(Action::ListDamaged, "list-damaged", &[], BROWSER, Group::Work, "List damaged files", ""),
    command(Action::ListIntact, "list-intact", &[], BROWSER, Group::Work, "List undamaged files", ""),
    command(Action::SalvageTo, "salvage-to", &[], BROWSER, Group::Work, "Recover readable entries to a new archive", ""),
    command(Action::Copy, "copy-path", &["y"], BROWSER, Group::Work, "Copy the path to the clipboard", ""),
    command(Action::CopyContent, "copy-content", &["Y"], BROWSER, Group::Work, "Copy the content to the clipboard", ""),
    command(Action::Page, "pager", &["o"], BROWSER, Group::Work, "Show the content in $PAGER", ""),
    command(Action::Edit, "editor", &["f4", "ctrl-o"], BROWSER, Group::Work, "Open a copy of the content in $EDITOR", ""),
    command(Action::Launch, "launch", &["f2", "ctrl-e"], BROWSER, Group::Work, "Open a copy of the content in its default program", ""),
    command(Action::Jobs, "jobs", &["J"], BROWSER, Group::Work, "Show the jobs and their messages", ""),
    command(Action::StopShown, "stop-shown", &["x"], BROWSER, Group::Work, "Stop the job in the status line", ""),
    command(Action::Stop, "stop", &["x", "del"], JOBS, Group::Work, "Stop the job", "stop"),
    command(Action::Pause, "pause", &["p", "space"], JOBS, Group::Work, "Pause or resume the job", "pause"),
    command(Action::Preview, "preview", &["p"], BROWSER, Group::Look, "Show or hide the preview", "preview"),
    command(Action::Focus, "focus", &["tab"], BROWSER, Group::Look, "Switch between list and preview", "pane"),
    command(Action::Zoom, "zoom", &["f3", "z"], BROWSER, Group::Look, "Toggle the full-screen preview", ""),
    command(Action::AsText, "as-text", &["1"], BROWSER, Group::Look, "Preview as text", ""),
    command(Action::AsHex, "as-hex", &["2"], BROWSER, Group::Look, "Preview as hexadecimal", ""),
    command(Action::AsImage, "as-image", &["3"], BROWSER, Group::Look, "Preview as a picture", ""),
    command(Action::AsTable, "as-table", &["4"], BROWSER, Group::Look, "Preview as a table, or JSON as a tree", ""),
    command(Action::AsInfo, "as-info", &["5"], BROWSER, Group::Look, "Preview the metadata", ""),
    command(Action::AsAuto, "as-auto", &["0"], BROWSER, Group::Look, "Preview by type of content", ""),
    command(Action::Inspect, "inspect", &["i"], BROWSER, Group::Look, "Show all details of the entry", ""),
    command(Action::Seek, "search", &["/"], PREVIEW, Group::Look, "Search the content", "search"),
    command(Action::SeekNext, "search-next", &["n"], BROWSER, Group::Look, "Go to the next match", ""),
    command(Action::SeekBefore, "search-previous", &["N"], BROWSER, Group::Look, "Go to the previous match", ""),
    command(Action::Goto, "goto", &["ctrl-g"], PREVIEW, Group::Look, "Go to a line or row, or to an offset in hex", ""),
    command(Action::Fold, "fold", &["enter", "space"], PREVIEW, Group::Look, "Fold or unfold JSON, as h and l do", ""),
    command(Action::FoldAll, "fold-all", &["-"], PREVIEW, Group::Look, "Fold all JSON", ""),
    command(Action::UnfoldAll, "unfold-all", &["+"], PREVIEW, Group::Look, "Unfold all JSON", ""),
    command(Action::Wrap, "wrap", &["w"], BROWSER, Group::Look, "Wrap or cut off long lines", "wrap"),
    command(Action::Palette, "palette", &[":", "ctrl-p"], BROWSER, Group::Program, "Run a command by its name", "commands"),
    command(Action::Suspend, "suspend", &["ctrl-z"], ANYWHERE, Group::Program, "Suspend; fg in the shell resumes", ""),
    command(Action::Redraw, "redraw", &["ctrl-l"], ANYWHERE, Group::Program, "Redraw the screen", ""),
    command(Action::Back, "back", &["esc"], ANYWHERE, Group::Program, "Close the topmost view, or clear filter and marks", ""),
    command(Action::Quit, "quit", &["q", "f10"], ANYWHERE, Group::Program, "Close the topmost view, or quit", "quit"),
    command(Action::QuitNow, "quit-now", &["Q", "ctrl-c"], ANYWHERE, Group::Program, "Quit; in a prompt, close it", ""),
];

/// The keys in effect.
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
    /// Assigns keys to a command and removes them from other commands at the same places. Returns
    /// the removed keys with the names of those commands.
    pub fn set(&mut self, name: &str, keys: Vec<Key>) -> Result<Vec<(Key, &'static str)>, String> {
        let index =
            COMMANDS.iter().position(|command| command.name == name).ok_or_else(|| format!("unknown command '{name}'"))?;
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

    /// Returns the action of a key at a place.
    pub fn action(&self, place: Place, key: Key) -> Option<Action> {
        self.lookup.get(&(place, key)).copied()
    }

    /// Iterates over the commands with their keys.
    pub fn commands(&self) -> impl Iterator<Item = (&'static Command, &[Key])> {
        COMMANDS.iter().zip(self.keys.iter().map(Vec::as_slice))
    }

    /// Returns the hints for a place: key, word and action.
    pub fn hints(&self, place: Place) -> impl Iterator<Item = (Key, &'static str, Action)> {
        self.commands()
            .filter(move |(command, _)| command.works_in(place) && !command.hint.is_empty())
            .filter_map(|(command, keys)| Some((*keys.first()?, command.hint, command.action)))
    }
}

/// Width of the help, in columns.
pub const HELP: u16 = 70;

/// A line of the help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelpLine {
    /// Heading of a group.
    Title(&'static str),
    /// Keys and their help.
    Keys(String, &'static str),
    /// A blank line.
    Space,
}

impl HelpLine {
    /// Returns the columns reserved for keys out of `width`.
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
