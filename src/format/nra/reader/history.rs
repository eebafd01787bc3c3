//! Earlier commits: the chain that leads back from the newest one.
//!
//! Promises: each step back is a commit of the same archive, with the number before, that lies in front of the one that refers to it; so
//! the chain ends. A step costs one read.
//!
//! Spec: nra.md, section 13.

use crate::commit::Commit;
use crate::content::FrameRef;
use crate::frame::FrameKind;
use crate::head::TAIL_LEN;
use crate::reader::frames;
use crate::reader::open::State;
use crate::reader::window::Window;
use nra_core::archive::CommitInfo;
use nra_core::error::{Error, Result};

/// A commit and where its bytes end: its tail included, if it is whole.
#[derive(Clone)]
pub(super) struct CommitPlace {
    pub(super) commit: Commit,
    pub(super) end: u64,
}

/// Goes back from a commit to the one before, as long as there is one.
pub(super) struct Chain<'a> {
    window: &'a Window,
    next: Option<Result<CommitPlace>>,
}

impl<'a> Chain<'a> {
    /// Begins with `commit`, whose bytes end at `end`.
    pub(super) fn new(window: &'a Window, commit: &Commit, end: u64) -> Self {
        Self { window, next: Some(Ok(CommitPlace { commit: commit.clone(), end })) }
    }
}

impl Iterator for Chain<'_> {
    type Item = Result<CommitPlace>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = match self.next.take()? {
            Ok(place) => place,
            failed => return Some(failed),
        };
        self.next = place.commit.previous.map(|reference| before(self.window, reference, &place));
        Some(Ok(place))
    }
}

/// Reads the commit before `later`, to which that refers.
fn before(window: &Window, reference: FrameRef, later: &CommitPlace) -> Result<CommitPlace> {
    let corrupt = |detail: String| Error::corrupt(FrameKind::Commit.name(), reference.offset, detail);
    let frame = frames::follow(window, FrameKind::Commit, reference)?;
    let commit = Commit::parse(&frame.payload).map_err(corrupt)?;
    let end = reference.offset.saturating_add(reference.length).saturating_add(TAIL_LEN as u64);
    if commit.number.checked_add(1) != Some(later.commit.number) || end >= later.end || frame.header.commit != commit.number {
        return Err(corrupt(format!("commit {} is said to be the one before commit {}", commit.number, later.commit.number)));
    }
    if commit.archive_id != later.commit.archive_id {
        return Err(corrupt("it belongs to another archive".into()));
    }
    Ok(CommitPlace { commit, end })
}

/// Returns the state at commit `number`, which is `newest` or an earlier one.
///
/// # Errors
///
/// `Usage` when there is no such commit, with the numbers there are; `Corrupt` when a commit on the way to it is damaged.
pub(super) fn at(window: &Window, newest: State, number: u64) -> Result<State> {
    if number == newest.commit.number {
        return Ok(newest);
    }
    let none = |first: u64| {
        let last = newest.commit.number;
        let range = if first == last { format!("only commit {last}") } else { format!("commits {first} to {last}") };
        Err(Error::Usage { detail: format!("there is no commit {number}; the archive has {range}") })
    };
    let mut first = newest.commit.number;
    for place in Chain::new(window, &newest.commit, newest.end) {
        let CommitPlace { commit, end } = place?;
        first = commit.number;
        if commit.number == number {
            return Ok(State { commit, end, has_tail: true, recovered: false, ..newest });
        }
    }
    none(first)
}

/// Describes the commits from `commit` back to the first.
pub(super) fn describe<'a>(window: &'a Window, commit: &Commit, end: u64) -> impl Iterator<Item = Result<CommitInfo>> + 'a {
    let mut chain = Chain::new(window, commit, end).peekable();
    std::iter::from_fn(move || {
        let place = match chain.next()? {
            Ok(place) => place,
            Err(error) => return Some(Err(error)),
        };
        let start = match chain.peek() {
            Some(Ok(earlier)) => earlier.end,
            // A damaged commit before this one is told by the next step.
            Some(Err(_)) => place.commit.previous.map_or(0, |before| before.offset + before.length + TAIL_LEN as u64),
            None => 0,
        };
        let CommitPlace { commit, end } = place;
        Some(Ok(CommitInfo {
            number: commit.number,
            time: commit.time,
            message: commit.message,
            entries: commit.entries,
            files: commit.files,
            content_bytes: commit.content_bytes,
            added_bytes: end.saturating_sub(start),
        }))
    })
}
