//! What the user can ask for. Keys, mouse and palette all end here.

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Cursor or text down by one row.
    Down,
    /// Up by one row.
    Up,
    /// Down by half a screen.
    HalfDown,
    /// Up by half a screen.
    HalfUp,
    /// Down by a screen.
    PageDown,
    /// Up by a screen.
    PageUp,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Into the directory, or to the content of the file.
    Enter,
    /// To the directory above.
    Parent,
    /// Text to the left.
    Left,
    /// Text to the right.
    Right,
    /// Preview beside the list on or off.
    Preview,
    /// Focus to the other pane.
    Focus,
    /// Preview over the whole screen, or back.
    Zoom,
    /// Preview by what the content is.
    AsAuto,
    /// Preview as text.
    AsText,
    /// Preview as bytes.
    AsHex,
    /// Preview as a picture.
    AsImage,
    /// Preview as rows and columns.
    AsTable,
    /// Preview as facts.
    AsInfo,
    /// Find a text in the preview.
    Seek,
    /// The next place of that text.
    SeekNext,
    /// The place before.
    SeekBefore,
    /// To a line, or an offset.
    Goto,
    /// Fold an object or a list, or unfold it.
    Fold,
    /// Fold everything.
    FoldAll,
    /// Unfold everything.
    UnfoldAll,
    /// Long lines go on in the next row, or are cut.
    Wrap,
    /// Mark the row, or take its mark away, and go on.
    Mark,
    /// Begin or end a range of marks.
    MarkRange,
    /// Mark everything in the list.
    MarkAll,
    /// Mark what is not marked.
    MarkInvert,
    /// Mark by glob.
    MarkGlob,
    /// Take marks away by glob.
    UnmarkGlob,
    /// Extract, after asking where to.
    Extract,
    /// Extract to the current directory.
    ExtractHere,
    /// Plan to add files.
    Add,
    /// Plan to make a directory.
    MakeDirectory,
    /// Write the archive as another kind of archive.
    Convert,
    /// Plan to remove entries.
    Remove,
    /// Plan to rename the entry.
    Rename,
    /// Take the last planned change back.
    Undo,
    /// Show what is planned.
    PendingChanges,
    /// Write what is planned.
    Write,
    /// Make an earlier commit the newest state again.
    Revert,
    /// Write the archive anew without earlier commits.
    Compact,
    /// Check what is marked, or all.
    Verify,
    /// Check what is marked, or the entry.
    VerifyEntry,
    /// What to do about damage.
    Salvage,
    /// List files that do not read whole.
    ListDamaged,
    /// List files that do.
    ListIntact,
    /// Write what reads as a new archive.
    SalvageTo,
    /// Everything that is known of the entry.
    Inspect,
    /// Copy the path.
    Copy,
    /// Copy the content.
    CopyContent,
    /// Content in a pager.
    Page,
    /// Content in an editor.
    Edit,
    /// Content in the program of the system for it.
    Launch,
    /// Keep the entry as a bookmark.
    Bookmark,
    /// To a bookmark.
    Bookmarks,
    /// Search paths by typing.
    Find,
    /// To a row by typing what it begins with.
    Jump,
    /// Keep rows that match.
    Filter,
    /// Choose the order.
    SortMenu,
    /// Order by name.
    SortName,
    /// Order by size.
    SortSize,
    /// Order by stored size.
    SortStored,
    /// Order by ratio.
    SortRatio,
    /// Order by time.
    SortTime,
    /// Order by permissions.
    SortMode,
    /// Order by kind.
    SortKind,
    /// The other way round.
    Reverse,
    /// Directories open in place, or are entered.
    Tree,
    /// Choose the columns.
    Columns,
    /// Sizes as bars, as a map, as numbers.
    Sizes,
    /// Keep entries at any depth by what they are.
    Query,
    /// Files whose content others have as well.
    Duplicates,
    /// The commits of the archive.
    History,
    /// The commit before.
    Earlier,
    /// The commit behind.
    Later,
    /// Another archive of this directory.
    Archives,
    /// The same archive as it is by now.
    Reload,
    /// The jobs.
    Jobs,
    /// Stop a job.
    Stop,
    /// Stop the job that is shown in the status line.
    StopShown,
    /// Let a job wait, or go on.
    Pause,
    /// Every command by name.
    Palette,
    /// The keys of this place.
    Help,
    /// Close what is on top.
    Back,
    /// Close what is on top, or end.
    Quit,
    /// End now.
    QuitNow,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Draw everything anew.
    Redraw,
}
