//! The key table. Lookups, help, hints, palette, documentation and configuration all use it.

use std::collections::HashMap;

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
    View,
    /// Finding and sorting.
    Find,
    /// Marking entries.
    Mark,
    /// Actions on entries.
    Actions,
    /// The program itself.
    Program,
}

impl Group {
    pub const ALL: [Self; 6] = [Self::Move, Self::View, Self::Find, Self::Mark, Self::Actions, Self::Program];

    pub fn title(self) -> &'static str {
        match self {
            Self::Move => "Move",
            Self::View => "View",
            Self::Find => "Find and sort",
            Self::Mark => "Mark",
            Self::Actions => "Actions",
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
    pub fn works_in(&self, place: Place) -> bool {
        self.places & place as u8 != 0
    }
}

const LIST: u8 = Place::List as u8;
const PREVIEW: u8 = Place::Preview as u8;
const BROWSER: u8 = LIST | PREVIEW;
const JOBS: u8 = Place::Jobs as u8;
const ANYWHERE: u8 = BROWSER | Place::Panel as u8 | JOBS;

/// Defines the actions and their commands. Hints are shown in this order.
macro_rules! commands {
    ($($action:ident $name:literal [$($key:literal)*] $places:ident $group:ident $help:literal $hint:literal;)*) => {
        /// The action of a key, a mouse click or a command of the palette.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = $help] $action,)*
        }

        pub const COMMANDS: &[Command] = &[$(Command {
            action: Action::$action,
            name: $name,
            keys: &[$($key),*],
            places: $places,
            group: Group::$group,
            help: $help,
            hint: $hint,
        }),*];
    };
}

commands! {
    Help "help" ["?" "f1"] ANYWHERE Program "Show the keys" "help";
    Down "down" ["j" "down"] ANYWHERE Move "Move down" "";
    Up "up" ["k" "up"] ANYWHERE Move "Move up" "";
    HalfDown "half-page-down" ["ctrl-d"] ANYWHERE Move "Move down half a page" "";
    HalfUp "half-page-up" ["ctrl-u"] ANYWHERE Move "Move up half a page" "";
    PageDown "page-down" ["pagedown" "ctrl-f"] ANYWHERE Move "Move down a page" "";
    PageUp "page-up" ["pageup" "ctrl-b"] ANYWHERE Move "Move up a page" "";
    First "first" ["g" "home"] ANYWHERE Move "Go to the first row" "";
    Last "last" ["G" "end"] ANYWHERE Move "Go to the last row" "";
    Enter "enter" ["l" "right" "enter"] LIST Move "Open the directory, or show the file" "open";
    Parent "parent" ["h" "left" "backspace"] LIST Move "Go to the parent directory" "up";
    Left "left" ["h" "left" "backspace"] PREVIEW Move "Scroll left; at the edge, return to the list" "";
    Right "right" ["l" "right"] PREVIEW Move "Scroll right" "";
    Find "find" ["/"] LIST Find "Search paths in this directory and below" "find";
    Filter "filter" ["f"] LIST Find "Filter rows by a glob or a text" "filter";
    SortMenu "sort" ["s"] LIST Find "Choose the sort order" "sort";
    SortName "sort-by-name" [] LIST Find "Sort by name" "";
    SortSize "sort-by-size" [] LIST Find "Sort by size, largest first" "";
    SortStored "sort-by-stored-size" [] LIST Find "Sort by stored size, largest first" "";
    SortRatio "sort-by-ratio" [] LIST Find "Sort by ratio, worst first" "";
    SortTime "sort-by-time" [] LIST Find "Sort by time, newest first" "";
    SortMode "sort-by-mode" [] LIST Find "Sort by permissions, most permissive first" "";
    SortKind "sort-by-kind" [] LIST Find "Sort by kind, directories first" "";
    Reverse "reverse" ["S"] LIST Find "Reverse the sort order" "";
    Tree "tree" ["t"] LIST Find "Toggle the tree view" "tree";
    Columns "columns" ["C"] LIST Find "Choose the columns" "";
    Query "find-by" ["F"] LIST Find "Find entries by size, time, kind or content" "";
    Duplicates "duplicates" ["D"] LIST Find "Toggle the list of duplicate files" "";
    Sizes "sizes" ["b"] LIST Find "Show sizes as bars, as a map, or as numbers" "";
    Bookmark "bookmark" ["m"] BROWSER Find "Bookmark the entry under a letter" "";
    Bookmarks "bookmarks" ["'"] BROWSER Find "Go to a bookmark" "";
    History "history" ["H"] BROWSER Find "List the commits and show one" "";
    PreviousCommit "previous-commit" ["["] BROWSER Find "Show the previous commit" "";
    NextCommit "next-commit" ["]"] BROWSER Find "Show the next commit" "";
    Archives "archives" ["O"] BROWSER Find "Open another archive in the same directory" "";
    Reload "reload" ["ctrl-r"] BROWSER Find "Reload the archive from disk" "";
    Mark "mark" ["space" "ins"] LIST Mark "Mark or unmark the row and move down" "mark";
    MarkRange "mark-range" ["v"] LIST Mark "Start or end a range of marks" "";
    MarkAll "mark-all" ["A" "ctrl-a"] LIST Mark "Mark everything in the list" "";
    MarkInvert "mark-invert" ["*"] LIST Mark "Invert the marks in the list" "";
    MarkGlob "mark-glob" ["+"] LIST Mark "Mark entries that match a glob" "";
    UnmarkGlob "unmark-glob" ["-"] LIST Mark "Unmark entries that match a glob" "";
    Extract "extract" ["e" "f5"] BROWSER Actions "Extract the selection; asks for a directory" "extract";
    Jump "jump" [";" "ctrl-s"] LIST Move "Go to a row by the first letters of its name" "jump";
    ExtractHere "extract-here" ["E"] BROWSER Actions "Extract the selection to the current directory" "";
    Add "add" ["a"] BROWSER Actions "Stage adding a file or directory here" "";
    MakeDirectory "make-directory" ["f7" "M"] BROWSER Actions "Stage creating a directory here" "";
    Remove "remove" ["d" "f8" "del"] BROWSER Actions "Stage removing (deleting) the selection" "";
    Rename "rename" ["r" "f6"] BROWSER Actions "Stage renaming or moving the entry" "";
    Undo "undo" ["u"] BROWSER Actions "Undo the last pending change" "";
    PendingChanges "pending" ["P"] BROWSER Actions "Show the pending changes" "";
    Write "write" ["W"] BROWSER Actions "Write the pending changes as one commit" "";
    Revert "revert" ["U"] BROWSER Actions "Undo the last commit, or restore the one shown" "";
    Convert "convert" ["c"] BROWSER Actions "Convert to a new archive; asks for its name" "";
    Compact "compact" ["Z"] BROWSER Actions "Drop earlier commits to reclaim their space" "";
    Verify "verify" ["V"] BROWSER Actions "Verify the marked entries, or the whole archive" "";
    VerifyEntry "verify-entry" ["alt-v"] BROWSER Actions "Verify the selection" "";
    Salvage "salvage" ["R"] BROWSER Actions "List damaged or undamaged files, or recover files" "";
    ListDamaged "list-damaged" [] BROWSER Actions "List damaged files" "";
    ListIntact "list-intact" [] BROWSER Actions "List undamaged files" "";
    SalvageTo "salvage-to" [] BROWSER Actions "Recover readable entries to a new archive" "";
    Copy "copy-path" ["y"] BROWSER Actions "Copy the path to the clipboard" "";
    CopyContent "copy-content" ["Y"] BROWSER Actions "Copy the content to the clipboard" "";
    Page "pager" ["o"] BROWSER Actions "Show the content in $PAGER" "";
    Edit "editor" ["f4" "ctrl-o"] BROWSER Actions "Open a copy of the content in $EDITOR" "";
    Launch "launch" ["f2" "ctrl-e"] BROWSER Actions "Open a copy of the content in its default program" "";
    Jobs "jobs" ["J"] BROWSER Actions "Show the jobs and their messages" "";
    StopShown "stop-shown" ["x"] BROWSER Actions "Stop the job in the status line" "";
    Stop "stop" ["x" "del"] JOBS Actions "Stop the job" "stop";
    Pause "pause" ["p" "space"] JOBS Actions "Pause or resume the job" "pause";
    Preview "preview" ["p"] BROWSER View "Show or hide the preview" "preview";
    Focus "focus" ["tab"] BROWSER View "Switch between list and preview" "pane";
    Zoom "zoom" ["f3" "z"] BROWSER View "Toggle the full-screen preview" "";
    AsText "as-text" ["1"] BROWSER View "Preview as text" "";
    AsHex "as-hex" ["2"] BROWSER View "Preview as hexadecimal" "";
    AsImage "as-image" ["3"] BROWSER View "Preview as a picture" "";
    AsTable "as-table" ["4"] BROWSER View "Preview as a table, or JSON as a tree" "";
    AsInfo "as-info" ["5"] BROWSER View "Preview the metadata" "";
    AsAuto "as-auto" ["0"] BROWSER View "Preview by type of content" "";
    Inspect "inspect" ["i"] BROWSER View "Show all details of the entry" "";
    Seek "search" ["/"] PREVIEW View "Search the content" "search";
    SeekNext "search-next" ["n"] BROWSER View "Go to the next match" "";
    SeekPrevious "search-previous" ["N"] BROWSER View "Go to the previous match" "";
    Goto "goto" ["ctrl-g"] PREVIEW View "Go to a line or row, or to an offset in hex" "";
    Fold "fold" ["enter" "space"] PREVIEW View "Fold or unfold JSON, as h and l do" "";
    FoldAll "fold-all" ["-"] PREVIEW View "Fold all JSON" "";
    UnfoldAll "unfold-all" ["+"] PREVIEW View "Unfold all JSON" "";
    Wrap "wrap" ["w"] BROWSER View "Wrap or cut off long lines" "wrap";
    Palette "palette" [":" "ctrl-p"] BROWSER Program "Run a command by its name" "commands";
    Suspend "suspend" ["ctrl-z"] ANYWHERE Program "Suspend; fg in the shell resumes" "";
    Redraw "redraw" ["ctrl-l"] ANYWHERE Program "Redraw the screen" "";
    Back "back" ["esc"] ANYWHERE Program "Close the topmost view, or clear filter and marks" "";
    Quit "quit" ["q" "f10"] ANYWHERE Program "Close the topmost view, or quit" "quit";
    QuitNow "quit-now" ["Q" "ctrl-c"] ANYWHERE Program "Quit; in a prompt, close it" "";
}

/// The keys in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    /// Keys of each command, in the order of the table.
    keys: Vec<Vec<Key>>,
    lookup: HashMap<(Place, Key), Action>,
}

impl Action {
    /// Returns by how many rows a movement changes the position in a window of `height` rows.
    pub fn step(self, height: usize) -> Option<isize> {
        let page = isize::try_from(height.max(2)).unwrap_or(isize::MAX);
        Some(match self {
            Self::Down => 1,
            Self::Up => -1,
            Self::HalfDown => page / 2,
            Self::HalfUp => -page / 2,
            Self::PageDown => page - 1,
            Self::PageUp => 1 - page,
            Self::First => isize::MIN,
            Self::Last => isize::MAX,
            _ => return None,
        })
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
        let mut removed = Vec::new();
        for (at, (command, others)) in COMMANDS.iter().zip(&mut self.keys).enumerate() {
            if command.places & places != 0 {
                let lost = others.iter().filter(|key| at != index && keys.contains(key));
                removed.extend(lost.map(|key| (*key, command.name)));
                others.retain(|key| !keys.contains(key));
            }
        }
        self.keys[index] = keys;
        *self = Self::new(std::mem::take(&mut self.keys));
        Ok(removed)
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

    pub fn action(&self, place: Place, key: Key) -> Option<Action> {
        self.lookup.get(&(place, key)).copied()
    }

    /// Returns the first key of an action.
    pub fn key(&self, action: Action) -> Option<Key> {
        self.commands().find(|(command, _)| command.action == action)?.1.first().copied()
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
                    assert!(seen.insert((place, *key)), "{key} is removed where {} wants it", command.name);
                }
            }
        }
    }
}
