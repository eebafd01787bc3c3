//! Effects: what `update` asks workers, jobs and the terminal to do. Results come back as events.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use strum::{EnumCount, EnumDiscriminants};

use crate::open_target::{OpenTarget, Password};
use crate::rows::Scope;
use crate::state::task::Task;
use crate::state::{
    Among, ArrangeRequest, Change, FindRequest, JobId, OccurrencesRequest, PendingChange, PendingChanges, PreviewRequest,
    RowsRequest,
};
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

/// Something to do outside the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Request something. Its response carries the ID.
    Request(RequestId, Request),
    Start(JobId, Task),
    Stop(JobId),
    Pause(JobId, bool),
    Copy(Vec<u8>),
    Page(Entry),
    /// Show a copy in an editor.
    Edit(PathBuf),
    /// Open a copy of the content of an entry in the default program.
    Launch(Entry),
    /// Release the terminal and stop the process until the shell continues it.
    Suspend,
    /// Take the terminal again.
    Retake,
    Redraw,
    /// Quit once the jobs have ended, without a screen.
    Detach,
    Quit,
}

/// The ID of a request. Its response carries it, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub kind: RequestKind,
    /// Number of the request among those of its kind.
    pub number: u64,
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Eq, EnumDiscriminants)]
#[strum_discriminants(name(RequestKind), derive(EnumCount, Hash), doc = "The kind of a request.")]
pub enum Request {
    Rows(RowsRequest),
    /// Details of rows: number and entry of each.
    Details(Vec<(u64, Entry)>),
    /// The row that starts with the typed letters.
    Jump(JumpRequest),
    /// Rows in a sort order, or that match a filter.
    Arrange(ArrangeRequest),
    /// The map of sizes of a directory, `None` = the top directory.
    Map(Option<EntryPath>),
    Preview(PreviewRequest),
    /// All occurrences of a text in the preview.
    Occurrences(OccurrencesRequest),
    Find(FindRequest),
    /// The entries to mark.
    Marks(MarksRequest),
    /// The size of the entries with these numbers.
    Totals(Arc<Vec<Range<u64>>>),
    Inspect(Entry),
    /// The savings of compacting an archive.
    CompactEstimate(PathBuf),
    /// Checks that a typed or pending change is possible.
    Check(Check),
    Content(Entry),
    /// Free space on the disk of a directory.
    FreeSpace(String),
    /// Paths on disk that start with this, perhaps only directories.
    Completions(String, bool),
    /// Another archive, or another commit of this one, with a password if one was typed.
    Open(OpenTarget, Option<Password>),
    Commits,
    Archives,
    /// A copy of the content of an entry, for an editor.
    Copy(Entry),
}

impl Effect {
    /// Returns whether another program, or the shell, reads what is typed next.
    pub fn hands_over(&self) -> bool {
        matches!(
            self,
            Self::Request(_, Request::Copy(_)) | Self::Page(_) | Self::Edit(_) | Self::Suspend | Self::Detach | Self::Quit
        )
    }
}

impl Request {
    /// Returns whether a worker responds, not the thread that has the terminal.
    pub fn has_worker(&self) -> bool {
        !matches!(self, Self::Open(..) | Self::Commits | Self::Archives | Self::Copy(_))
    }
}

/// A typed or pending change to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// A file or directory on disk can be added.
    Add {
        path: PathBuf,
        /// The directory it is added to, `None` = the top directory.
        directory: Option<EntryPath>,
        /// The archive, which cannot be added to itself.
        file: PathBuf,
        pending: PendingChanges,
    },
    /// A change is possible after the pending ones.
    Change(PendingChange, PendingChanges),
    /// Undo the pending change with this index.
    Undo(usize, PendingChanges),
    /// A file can be created.
    Output(PathBuf),
}

/// Requests the row that starts with the typed letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JumpRequest {
    /// The listed directory and its order.
    pub scope: Scope,
    /// Place of the row to start from.
    pub from: u64,
    /// Exclude that row.
    pub after: bool,
    pub typed: String,
}

/// Requests the entries to mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarksRequest {
    /// Entries and everything below them.
    Numbers(Arc<Vec<u64>>, Change),
    /// Entries that match a glob.
    Glob(Among, String, Change),
}
