//! Events: keys, the size of the screen, responses of workers, jobs, time.

use std::ops::Range;
use std::path::PathBuf;

use crossterm::event::MouseEvent;

use crate::key::Key;
use crate::open_target::OpenTarget;
use crate::preview::details::Details;
use crate::requests::RequestId;
use crate::state::Facts;
use crate::state::arrange::Found;
use crate::state::finder::FindResponse;
use crate::state::jobs::{JobEvent, JobId};
use crate::state::line;
use crate::state::listing::RowsResponse;
use crate::state::marks::Change;
use crate::state::pane::{OccurrencesResponse, PreviewResponse};
use crate::state::pending::{PendingChange, PendingChanges};
use crate::state::sizes::Tiles;
use nra_convert::compact::Compaction;
use nra_format::archive::CommitInfo;

/// The result of checking a typed or pending change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// It is possible.
    Possible,
    /// The change is possible and can be added to the pending ones.
    Change(PendingChange),
    /// The pending changes that remain after an undo, without those that depended on it.
    Remaining(PendingChanges),
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The response to a request.
    Response(RequestId, Box<Event>),
    /// A key was pressed.
    Key(Key),
    /// Text was pasted.
    Paste(String),
    /// A mouse event.
    Mouse(MouseEvent),
    /// The screen has this many columns and rows.
    Resize(u16, u16),
    /// A cell has this many columns and rows of pixels.
    Font(u16, u16),
    /// Rows of the list.
    Rows(RowsResponse),
    /// Details of rows, by entry number.
    Details(Vec<(u64, line::Facts)>),
    /// A preview.
    Preview(PreviewResponse),
    /// Occurrences of a text in the preview.
    Occurrences(OccurrencesResponse),
    /// Free space on the disk of the directory being typed, bytes.
    FreeSpace(u64),
    /// The list in a sort order, or filtered, or why there is none.
    Arranged(Result<Found, String>),
    /// How far sorting or filtering is, 0 to 1.
    ArrangeProgress(f64),
    /// The map of sizes.
    Mapped(Result<Tiles, String>),
    /// The place of the row that starts with the typed letters, if there is one.
    Jumped(Result<Option<u64>, String>),
    /// Search results.
    Found(FindResponse),
    /// Entry numbers to mark or unmark, ascending, or why there are none.
    Marked(Result<Vec<Range<u64>>, String>, Change),
    /// Paths on disk that start with the typed text.
    Completions(Vec<String>),
    /// The result of a check, or why the change is not possible.
    CheckDone(Result<Checked, String>),
    /// The size of the marked entries, if it is known.
    MarkTotals(Option<u64>),
    /// The properties of an entry that are known so far.
    Inspected(Result<Details, String>),
    /// What compacting would save, or why it is unknown.
    CompactEstimate(Result<Compaction, String>),
    /// Content for the clipboard, or why there is none.
    Content(Result<Vec<u8>, String>),
    /// A copy for an editor.
    CopyReady(PathBuf),
    /// The commits of the archive, the newest first.
    Commits(Result<Vec<CommitInfo>, String>),
    /// The archives to choose from.
    Archives(Vec<PathBuf>),
    /// Another archive or commit has been opened.
    Opened(Box<Facts>),
    /// An archive needs a password; true if a wrong one was given.
    Locked(OpenTarget, bool),
    /// A job has progressed or ended.
    Job(JobId, JobEvent),
    /// An error.
    Error(String),
    /// Time has passed.
    Tick,
    /// The system suspends the program.
    Suspended,
    /// The program has been resumed.
    Continued,
    /// A signal asks the program to exit.
    Terminate(i32),
}
