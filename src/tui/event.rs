//! Events: keys, the size of the screen, responses of workers, jobs, time.

use std::ops::Range;
use std::path::PathBuf;

use crossterm::event::MouseEvent;

use crate::effect::RequestId;
use crate::key::Key;
use crate::open_target::OpenTarget;
use crate::preview::details::Details;
use crate::state::{
    Change, Facts, FindResponse, Found, JobEvent, JobId, OccurrencesResponse, PendingChange, PendingChanges, PreviewResponse,
    RowDetails, RowsResponse, Tiles,
};
use nra_convert::compact::Compaction;
use nra_format::archive::CommitInfo;

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Response(RequestId, Response),
    Key(Key),
    Paste(String),
    Mouse(MouseEvent),
    /// The screen has this many columns and rows.
    Resize(u16, u16),
    /// A cell has this many columns and rows of pixels.
    Font(u16, u16),
    /// A job has progressed or ended.
    Job(JobId, JobEvent),
    /// Something in the terminal or in another program failed.
    Failed(Failure),
    Tick,
    Suspended,
    Continued,
    /// A signal asks the program to exit.
    Terminate(i32),
}

/// The response to a request. Errors are messages for the screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    Rows(RowsResponse),
    /// Details of rows, by entry number.
    Details(Vec<(u64, RowDetails)>),
    Preview(PreviewResponse),
    Occurrences(OccurrencesResponse),
    /// Free space on the disk of the directory being typed, bytes.
    FreeSpace(u64),
    /// The list in a sort order, or filtered.
    Arranged(Result<Found, String>),
    /// Progress of sorting or filtering, 0 to 1.
    ArrangeProgress(f64),
    Mapped(Result<Tiles, String>),
    /// The place of the row that starts with the typed letters, if there is one.
    Jumped(Result<Option<u64>, String>),
    Found(FindResponse),
    /// Entry numbers to mark or unmark, ascending.
    Marked(Result<Vec<Range<u64>>, String>, Change),
    Completions(Vec<String>),
    CheckDone(Result<Checked, String>),
    /// The size of the marked entries, if it is known.
    MarkTotals(Option<u64>),
    /// The properties of an entry that are known so far.
    Inspected(Result<Details, String>),
    /// The savings of compacting.
    CompactEstimate(Result<Compaction, String>),
    /// Content for the clipboard.
    Content(Result<Vec<u8>, String>),
    /// A copy for an editor.
    CopyReady(PathBuf),
    /// The commits of the archive, the newest first.
    Commits(Result<Vec<CommitInfo>, String>),
    /// The archives to choose from.
    Archives(Vec<PathBuf>),
    /// Another archive or commit has been opened.
    Opened(Box<Facts>),
    Failed(Failure),
}

/// The reason for a missing result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The content needs a password; true if a wrong one was given.
    Locked(OpenTarget, bool),
    Error(String),
}

/// The result of checking a typed or pending change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    Possible,
    /// The change is possible and can be added to the pending ones.
    Change(PendingChange),
    /// The pending changes that remain after an undo, without those that depended on it.
    Remaining(PendingChanges),
}
