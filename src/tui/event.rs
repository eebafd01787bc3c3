//! What happens: keys, the size of the screen, answers of the threads, time.

use std::ops::Range;
use std::path::PathBuf;

use crossterm::event::MouseEvent;

use crate::key::Key;
use crate::open_target::OpenTarget;
use crate::preview::sheet::Sheet;
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

/// What a look at something typed, or planned, has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// It can be done.
    Possible,
    /// It is this change, which can be planned.
    Change(PendingChange),
    /// These plans are left when some are taken back: what needs them is, too.
    Remaining(PendingChanges),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The response to a request.
    Response(RequestId, Box<Event>),
    /// A key was pressed.
    Key(Key),
    /// Something was pasted.
    Paste(String),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The screen has this many columns and rows.
    Resize(u16, u16),
    /// A cell has this many columns and rows of pixels.
    Font(u16, u16),
    /// Rows have come.
    Rows(RowsResponse),
    /// Details of rows, by entry number.
    Details(Vec<(u64, line::Facts)>),
    /// A preview has come.
    Preview(PreviewResponse),
    /// It is known where a text stands.
    Occurrences(OccurrencesResponse),
    /// How much room there is for the directory that is being typed, bytes.
    FreeSpace(u64),
    /// The list in a sort order, or filtered, or why there is none.
    Arranged(Result<Found, String>),
    /// How far sorting or filtering is, 0 to 1.
    ArrangeProgress(f64),
    /// What is in a directory has been added up.
    Mapped(Result<Tiles, String>),
    /// The place of the row that starts with the typed letters, if there is one.
    Jumped(Result<Option<u64>, String>),
    /// Hits have come.
    Found(FindResponse),
    /// Numbers whose marks change, ascending, or why there are none.
    Marked(Result<Vec<Range<u64>>, String>, Change),
    /// Paths on disk that begin like what is being typed.
    Completions(Vec<String>),
    /// What comes of what was typed, or was to be planned or taken back. Or why it can't be done.
    CheckDone(Result<Checked, String>),
    /// The size of the marked entries, if it is known.
    MarkTotals(Option<u64>),
    /// What is known of an entry so far.
    Inspected(Result<Sheet, String>),
    /// What compacting would save, or why that is not known.
    CompactEstimate(Result<Compaction, String>),
    /// The content of an entry that is to be copied, or why not.
    Content(Result<Vec<u8>, String>),
    /// A copy for an editor.
    CopyReady(PathBuf),
    /// The commits of the archive, the newest first.
    Commits(Result<Vec<CommitInfo>, String>),
    /// The archives that there are to choose from by now.
    Archives(Vec<PathBuf>),
    /// Another archive, or another commit, is open.
    Opened(Box<Facts>),
    /// An archive needs a password to be opened; the one that was given, if any, is wrong.
    Locked(OpenTarget, bool),
    /// A job tells something.
    Job(JobId, JobEvent),
    /// Something went wrong outside.
    Error(String),
    /// Only time has passed.
    Tick,
    /// The system asks the program to stop until it is told to go on.
    Suspended,
    /// The program goes on, wherever it was stopped.
    Continued,
    /// The system asks the program to end, by this signal.
    Terminate(i32),
}
