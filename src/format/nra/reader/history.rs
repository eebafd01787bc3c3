//! History: the chain of commits from the newest one to the first.
//!
//! Each step leads to a commit of the same archive with the preceding number that lies earlier in
//! the file, so the chain ends. A step needs one read.
//!
//! Spec: nra.md, section 13.

use crate::commit::Commit;
use crate::content::FrameRef;
use crate::footer::FOOTER_LEN;
use crate::frame::FrameKind;
use crate::reader::found_commit::FoundCommit;
use crate::reader::frames;
use crate::reader::window::Window;
use nra_core::archive::CommitInfo;
use nra_core::error::{Error, Result};

/// A commit and the end of its bytes, including its footer.
#[derive(Clone)]
pub(super) struct CommitPlace {
    pub(super) commit: Commit,
    pub(super) end: u64,
}

/// Iterates from a commit back to the first.
pub(super) struct Chain<'a> {
    window: &'a Window,
    next: Option<Result<CommitPlace>>,
}

impl<'a> Chain<'a> {
    /// Starts with `commit`, whose bytes end at `end`.
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

/// Reads the commit that `later` refers to as the preceding one.
fn before(window: &Window, reference: FrameRef, later: &CommitPlace) -> Result<CommitPlace> {
    let corrupt = |detail: String| FrameKind::Commit.corrupt(reference.offset, detail);
    let frame = frames::follow(window, FrameKind::Commit, reference)?;
    let commit = Commit::parse(&frame.payload).map_err(corrupt)?;
    let end = reference.offset.saturating_add(reference.length).saturating_add(FOOTER_LEN as u64);
    if commit.number.checked_add(1) != Some(later.commit.number) || end >= later.end || frame.header.commit != commit.number {
        return Err(corrupt(format!(
            "commit {} is referred to as the predecessor of commit {}",
            commit.number, later.commit.number
        )));
    }
    if commit.archive_id != later.commit.archive_id {
        return Err(corrupt("it belongs to another archive".into()));
    }
    Ok(CommitPlace { commit, end })
}

/// Returns commit `number`, which is `newest` or an earlier one.
///
/// # Errors
///
/// `Usage` with the available numbers if there is no such commit; `Corrupt` if a commit on the way
/// to it is damaged.
pub(super) fn at(window: &Window, newest: FoundCommit, number: u64) -> Result<FoundCommit> {
    if number == newest.commit.number {
        return Ok(newest);
    }
    let none = |first: u64| {
        let last = newest.commit.number;
        let range = if first == last { format!("only commit {last}") } else { format!("commits {first} to {last}") };
        Err(Error::usage(format!("there is no commit {number}; the archive has {range}")))
    };
    let mut first = newest.commit.number;
    for place in Chain::new(window, &newest.commit, newest.end) {
        let CommitPlace { commit, end } = place?;
        first = commit.number;
        if commit.number == number {
            return Ok(FoundCommit { commit, end, has_footer: true, recovered: false, ..newest });
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
            // The next step reports a damaged commit.
            Some(Err(_)) => place.commit.previous.map_or(0, |before| before.offset + before.length + FOOTER_LEN as u64),
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
