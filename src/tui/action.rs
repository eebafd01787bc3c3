//! Actions of the browser. Keys, mouse clicks and palette commands all become actions.

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Moves the cursor or the text down by one row.
    Down,
    /// Moves up by one row.
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
    /// Opens the directory, or shows the content of the file.
    Enter,
    /// Goes to the parent directory.
    Parent,
    /// Scrolls the text to the left.
    Left,
    /// Scrolls the text to the right.
    Right,
    /// Shows or hides the preview beside the list.
    Preview,
    /// Moves the focus to the other pane.
    Focus,
    /// Toggles the full-screen preview.
    Zoom,
    /// Chooses the preview by the type of content.
    AsAuto,
    /// Previews as text.
    AsText,
    /// Previews in hexadecimal.
    AsHex,
    /// Previews as a picture.
    AsImage,
    /// Previews as a table.
    AsTable,
    /// Previews the metadata.
    AsInfo,
    /// Searches the preview for a text.
    Seek,
    /// Goes to the next match.
    SeekNext,
    /// Goes to the previous match.
    SeekBefore,
    /// Goes to a line or an offset.
    Goto,
    /// Folds or unfolds an object or array.
    Fold,
    /// Folds everything.
    FoldAll,
    /// Unfolds everything.
    UnfoldAll,
    /// Wraps or cuts off long lines.
    Wrap,
    /// Marks or unmarks the row and moves down.
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
    /// Extracts the selection; asks for a directory.
    Extract,
    /// Extracts the selection to the current directory.
    ExtractHere,
    /// Stages adding files.
    Add,
    /// Stages creating a directory.
    MakeDirectory,
    /// Converts the archive to another format.
    Convert,
    /// Stages removing the selection.
    Remove,
    /// Stages renaming the entry.
    Rename,
    /// Undoes the last pending change.
    Undo,
    /// Shows the pending changes.
    PendingChanges,
    /// Writes the pending changes.
    Write,
    /// Writes the content of an earlier commit as the newest commit.
    Revert,
    /// Rewrites the archive without its earlier commits.
    Compact,
    /// Verifies the marked entries, or the whole archive.
    Verify,
    /// Verifies the marked entries, or the entry under the cursor.
    VerifyEntry,
    /// Shows the choices for a damaged archive.
    Salvage,
    /// Lists damaged files.
    ListDamaged,
    /// Lists undamaged files.
    ListIntact,
    /// Recovers readable entries to a new archive.
    SalvageTo,
    /// Shows all details of the entry.
    Inspect,
    /// Copies the path to the clipboard.
    Copy,
    /// Copies the content to the clipboard.
    CopyContent,
    /// Shows the content in a pager.
    Page,
    /// Opens the content in an editor.
    Edit,
    /// Opens the content in its default program.
    Launch,
    /// Bookmarks the entry.
    Bookmark,
    /// Goes to a bookmark.
    Bookmarks,
    /// Searches paths.
    Find,
    /// Goes to a row by the first letters of its name.
    Jump,
    /// Filters the rows.
    Filter,
    /// Chooses the sort order.
    SortMenu,
    /// Sorts by name.
    SortName,
    /// Sorts by size.
    SortSize,
    /// Sorts by stored size.
    SortStored,
    /// Sorts by ratio.
    SortRatio,
    /// Sorts by time.
    SortTime,
    /// Sorts by permissions.
    SortMode,
    /// Sorts by kind.
    SortKind,
    /// Reverses the sort order.
    Reverse,
    /// Toggles the tree view.
    Tree,
    /// Chooses the columns.
    Columns,
    /// Shows sizes as bars, as a map or as numbers.
    Sizes,
    /// Finds entries at any depth by their properties.
    Query,
    /// Lists files with duplicate content.
    Duplicates,
    /// Lists the commits of the archive.
    History,
    /// Shows the previous commit.
    Earlier,
    /// Shows the next commit.
    Later,
    /// Opens another archive in the same directory.
    Archives,
    /// Reloads the archive from disk.
    Reload,
    /// Lists the jobs.
    Jobs,
    /// Stops a job.
    Stop,
    /// Stops the job in the status line.
    StopShown,
    /// Pauses or resumes a job.
    Pause,
    /// Lists all commands by name.
    Palette,
    /// Shows the keys of the pane or dialog.
    Help,
    /// Closes the topmost view.
    Back,
    /// Closes the topmost view, or quits.
    Quit,
    /// Quits at once.
    QuitNow,
    /// Suspends the program until the shell resumes it.
    Suspend,
    /// Redraws the screen.
    Redraw,
}
