//! Actions: what keys, mouse and the command palette run.

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Moves the cursor or the text down by a row.
    Down,
    /// Moves up by a row.
    Up,
    /// Moves down by half a screen.
    HalfDown,
    /// Moves up by half a screen.
    HalfUp,
    /// Moves down by a screen.
    PageDown,
    /// Moves up by a screen.
    PageUp,
    /// Goes to the first row.
    First,
    /// Goes to the last row.
    Last,
    /// Enters a directory, or zooms the preview of a file.
    Enter,
    /// Goes to the parent directory.
    Parent,
    /// Scrolls to the left.
    Left,
    /// Scrolls to the right.
    Right,
    /// Shows or hides the preview.
    Preview,
    /// Moves the focus to the other pane.
    Focus,
    /// Shows the preview on the whole screen, or beside the list.
    Zoom,
    /// Shows the preview in the form that fits the content.
    AsAuto,
    /// Shows the preview as text.
    AsText,
    /// Shows the preview as bytes.
    AsHex,
    /// Shows the preview as a picture.
    AsImage,
    /// Shows the preview as a table.
    AsTable,
    /// Shows the properties as the preview.
    AsInfo,
    /// Searches in the preview.
    Seek,
    /// Goes to the next match.
    SeekNext,
    /// Goes to the previous match.
    SeekBefore,
    /// Goes to a line or an offset.
    Goto,
    /// Folds or unfolds an object or an array.
    Fold,
    /// Folds everything.
    FoldAll,
    /// Unfolds everything.
    UnfoldAll,
    /// Wraps long lines, or truncates them.
    Wrap,
    /// Marks or unmarks the row, and moves down.
    Mark,
    /// Starts or ends a range of marks.
    MarkRange,
    /// Marks everything in the list.
    MarkAll,
    /// Inverts the marks in the list.
    MarkInvert,
    /// Marks entries that match a glob.
    MarkGlob,
    /// Unmarks entries that match a glob.
    UnmarkGlob,
    /// Extracts to a directory that is asked for.
    Extract,
    /// Extracts to the current directory.
    ExtractHere,
    /// Adds files (pending).
    Add,
    /// Makes a directory (pending).
    MakeDirectory,
    /// Converts the archive to another format.
    Convert,
    /// Removes entries (pending).
    Remove,
    /// Renames the entry (pending).
    Rename,
    /// Undoes the last pending change.
    Undo,
    /// Shows the pending changes.
    PendingChanges,
    /// Writes the pending changes.
    Write,
    /// Returns to an earlier commit.
    Revert,
    /// Compacts the archive: removes earlier commits.
    Compact,
    /// Verifies the marked entries, or everything.
    Verify,
    /// Verifies the marked entries, or the entry under the cursor.
    VerifyEntry,
    /// Shows the damage and what to do about it.
    Salvage,
    /// Lists damaged files.
    ListDamaged,
    /// Lists undamaged files.
    ListIntact,
    /// Writes readable entries to a new archive.
    SalvageTo,
    /// Shows all properties of the entry.
    Inspect,
    /// Copies the path to the clipboard.
    Copy,
    /// Copies the content to the clipboard.
    CopyContent,
    /// Shows the content in a pager.
    Page,
    /// Shows a copy of the content in an editor.
    Edit,
    /// Opens a copy of the content in the default program.
    Launch,
    /// Bookmarks the entry.
    Bookmark,
    /// Goes to a bookmark.
    Bookmarks,
    /// Searches paths while typing.
    Find,
    /// Goes to the row that starts with the typed letters.
    Jump,
    /// Filters the list.
    Filter,
    /// Chooses the sort order.
    SortMenu,
    /// Sorts by name.
    SortName,
    /// Sorts by size.
    SortSize,
    /// Sorts by stored size.
    SortStored,
    /// Sorts by compression ratio.
    SortRatio,
    /// Sorts by time.
    SortTime,
    /// Sorts by permissions.
    SortMode,
    /// Sorts by kind.
    SortKind,
    /// Reverses the sort order.
    Reverse,
    /// Switches between tree and list.
    Tree,
    /// Chooses the columns.
    Columns,
    /// Shows sizes as bars, as a map, or as numbers.
    Sizes,
    /// Finds entries at any depth by a query.
    Query,
    /// Lists files with the same content.
    Duplicates,
    /// Shows the commits.
    History,
    /// Goes to the previous commit.
    Earlier,
    /// Goes to the next commit.
    Later,
    /// Opens another archive.
    Archives,
    /// Reloads the archive.
    Reload,
    /// Shows the jobs.
    Jobs,
    /// Stops the job under the cursor.
    Stop,
    /// Stops the job in the status line.
    StopShown,
    /// Pauses or resumes the job under the cursor.
    Pause,
    /// Searches commands by name.
    Palette,
    /// Shows the keys.
    Help,
    /// Closes what is on top.
    Back,
    /// Closes what is on top, or quits.
    Quit,
    /// Quits.
    QuitNow,
    /// Suspends the program until the shell continues it.
    Suspend,
    /// Redraws the screen.
    Redraw,
}
