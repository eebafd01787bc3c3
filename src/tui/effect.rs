//! What the outside shall do: read, write, end. Answers come back as events.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::asked::{Subject, Ticket};
use crate::rows::Scope;
use crate::state::arrange::ArrangeRequest;
use crate::state::finder::FindRequest;
use crate::state::jobs::JobId;
use crate::state::listing::RowsRequest;
use crate::state::marks::Change;
use crate::state::pane::{PreviewRequest, StopsRequest};
use crate::state::sizes::MapRequest;
use crate::state::staged::{Stage, Staged};
use nra_convert::extract::Overwrite;
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

/// Something to do outside of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Find something out; the answers bring this number back.
    Request(Ticket, Request),
    /// Fetch rows.
    Rows(RowsRequest),
    /// Find out what rows show beside their entries.
    Facts(FactsRequest),
    /// Read a preview.
    Preview(PreviewRequest),
    /// Count where a text stands.
    Stops(StopsRequest),
    /// Arrange a directory.
    Arrange(ArrangeRequest),
    /// Add up what is in a directory.
    Map(MapRequest),
    /// Find the row that begins with what was typed.
    Jump(JumpRequest),
    /// Search paths.
    Find(FindRequest),
    /// Find out how much is marked.
    Totals(TotalsRequest),
    /// Start a job.
    Start(JobId, Task),
    /// Ask a job to stop.
    Stop(JobId),
    /// Let a job wait, or go on.
    Pause(JobId, bool),
    /// Put text into the clipboard of the terminal.
    Copy(Vec<u8>),
    /// Show the content of an entry in a pager.
    Page(Entry),
    /// Show a copy in an editor.
    Edit(PathBuf),
    /// Open a copy of the content of an entry as the system does.
    Launch(Entry),
    /// Give the terminal back and stop the process until the shell continues it.
    Suspend,
    /// Take the terminal again.
    Retake,
    /// Draw every cell.
    Redraw,
    /// End once the jobs have, without a screen.
    Detach,
    /// End.
    Quit,
}

/// What is found out, for an answer that has no number of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Another archive, or another commit of this one, with a password if one was typed.
    Open(Door, Option<Password>),
    /// Whether what was typed can be done.
    Check(Check),
    /// Which numbers are to be marked.
    Marks(MarksRequest),
    /// Everything that is known of an entry.
    Inspect(Entry),
    /// What compacting an archive would save.
    Weigh(PathBuf),
    /// The commits of the archive.
    Commits,
    /// Which archives there are to choose from.
    Archives,
    /// The content of an entry for the clipboard.
    Content(Entry),
    /// A copy of the content of an entry for an editor.
    Fetch(Entry),
    /// How much room there is for a directory on disk.
    Room(String),
    /// Which paths on disk begin like this, perhaps only directories.
    Complete(String, bool),
}

/// What neither a thread that reads the archive nor a job does: it concerns the terminal, or leads to another archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outside {
    /// End.
    Quit,
    /// End once the jobs have, without a screen.
    Detach,
    /// Give the terminal back and stop the process.
    Suspend,
    /// Take the terminal again.
    Retake,
    /// Put text into the clipboard of the terminal.
    Copy(Vec<u8>),
    /// Show content in a pager.
    Page(Entry),
    /// Show a copy in an editor.
    Edit(PathBuf),
    /// Open a copy of content as the system does.
    Launch(Entry),
    /// Make a copy of content for an editor.
    Fetch(Ticket, Entry),
    /// Open another archive or commit, with a password if one was typed.
    Open(Ticket, Door, Option<Password>),
    /// List the commits.
    Commits(Ticket),
    /// Look which archives there are to choose from.
    Archives(Ticket),
    /// Draw every cell.
    Redraw,
}

impl Effect {
    /// Says whether what is typed behind it is not for the browser: the shell, or another program, reads next.
    pub fn hands_over(&self) -> bool {
        matches!(
            self,
            Self::Request(_, Request::Fetch(_)) | Self::Page(_) | Self::Edit(_) | Self::Suspend | Self::Detach | Self::Quit
        )
    }
}

impl Request {
    /// Returns what it asks for.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Open(..) => Subject::Opening,
            Self::Check(_) => Subject::Check,
            Self::Marks(_) => Subject::Marks,
            Self::Inspect(_) => Subject::Sheet,
            Self::Weigh(_) => Subject::Weight,
            Self::Commits => Subject::Commits,
            Self::Archives => Subject::Archives,
            Self::Content(_) => Subject::Content,
            Self::Fetch(_) => Subject::Copy,
            Self::Room(_) => Subject::Room,
            Self::Complete(..) => Subject::Names,
        }
    }
}

/// What was typed, and can be known only outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// There is something on disk to add.
    Add {
        /// What.
        path: PathBuf,
        /// The directory that it goes to, `None` = the top.
        directory: Option<EntryPath>,
        /// The archive, which can't be added to itself.
        file: PathBuf,
        /// What is planned.
        staged: Staged,
    },
    /// A change does not clash with what is there, once what is planned is done.
    Plan(Stage, Staged),
    /// What is left of plans when the one of this index is taken back.
    Back(usize, Staged),
    /// Nothing is in the way of a file to be written.
    Output(PathBuf),
}

/// Asks for a row by what it begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JumpRequest {
    /// Which list this is for.
    pub generation: u64,
    /// What is listed.
    pub scope: Scope,
    /// Place of the row from which on rows are looked for.
    pub from: u64,
    /// That row itself does not count.
    pub behind: bool,
    /// What was typed.
    pub typed: String,
}

/// Asks for facts about rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactsRequest {
    /// Which list this is for.
    pub generation: u64,
    /// The rows: number and entry.
    pub entries: Vec<(u64, Entry)>,
}

/// Where a glob looks for what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Among {
    /// Below this directory, `None` = the top.
    pub directory: Option<EntryPath>,
    /// Only among these numbers, if the list is of some entries.
    pub rows: Option<Arc<Vec<u64>>>,
}

/// Asks what to mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarksRequest {
    /// Entries with all below them.
    Numbers(Arc<Vec<u64>>, Change),
    /// What a glob means.
    Glob(Among, String, Change),
    /// How much the marks hold.
    Totals(TotalsRequest),
}

/// Asks how much the marks hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotalsRequest {
    /// Which marks.
    pub generation: u64,
    /// Their numbers.
    pub ranges: Arc<Vec<Range<u64>>>,
}

/// Long work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Extract entries.
    Extract {
        /// Numbers of the entries.
        ranges: Vec<Range<u64>>,
        /// Directory to put them in.
        target: PathBuf,
        /// Components to leave out in front of their paths.
        strip: usize,
        /// What to do about existing files.
        overwrite: Overwrite,
    },
    /// Write changes as one commit.
    Change {
        /// The archive.
        file: PathBuf,
        /// The commit they were planned at.
        commit: u64,
        /// Message of the new commit.
        message: String,
        /// The changes.
        changes: Vec<Stage>,
    },
    /// Make an earlier commit the newest state again.
    Revert {
        /// The archive.
        file: PathBuf,
        /// That commit.
        commit: u64,
        /// Numbers of the entries in it that come back, `None` = all is as it was then.
        ranges: Option<Vec<Range<u64>>>,
        /// The newest commit, if it is the one to be undone.
        over: Option<u64>,
    },
    /// Write the newest commit anew, without what only earlier ones hold.
    Compact {
        /// The archive.
        file: PathBuf,
        /// That commit.
        commit: u64,
    },
    /// Write everything as another archive.
    Convert {
        /// Its file; the ending tells the kind.
        output: PathBuf,
    },
    /// Write what reads as a new archive.
    Salvage {
        /// Its file.
        output: PathBuf,
        /// Message of its commit.
        message: String,
    },
    /// Check entries.
    Verify {
        /// Their numbers, `None` = the whole archive.
        ranges: Option<Vec<Range<u64>>>,
    },
}

/// What is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// The archive file at this path.
    File(PathBuf),
    /// Commit of the archive that is open; `None` = the newest.
    Commit(Option<u64>),
    /// The archive that is the content of an entry.
    Inside(Entry),
    /// The archive around the one that is open.
    Outside,
    /// The archive that is open, with a password for its content.
    Content,
}

/// A password on its way to where it is used: the line that it was typed into, wiped behind it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
