//! Opening: from the tail to the root, and what to do when one of them is lost.
//!
//! Spec: nra.md, section 15.

use crate::commit::{Commit, parse_attributes};
use crate::content::FrameRef;
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN};
use crate::head::{Head, MAGIC, REQUIRED_ENCRYPTION, Slot, TAIL_LEN, Tail, VERSION, check_optional, check_required};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::damage::is_damage;
use crate::reader::frames;
use crate::reader::opener::{self, Unlock};
use crate::reader::scan::Scan;
use crate::reader::walk::{Step, Walk};
use crate::reader::window::Window;
use crate::recovery::{self, End, Geometry};
use nra_core::archive::Info;
use nra_core::container::Container;
use nra_core::crypt::SALT_LEN;
use nra_core::error::{Error, Result};

/// Required features this reader knows.
const SUPPORTED: u32 = REQUIRED_ENCRYPTION;

/// A state of the archive that was found.
pub(super) struct State {
    pub(super) commit: Commit,
    pub(super) place: FrameRef,
    /// Offset and length of its key frame; zeros when the archive is not encrypted, or it was not met.
    pub(super) keys: (u64, u64),
    /// Salt of its frames, if they are sealed.
    pub(super) salt: Option<[u8; SALT_LEN]>,
    /// Length of the file at that commit, its tail included.
    pub(super) end: u64,
    /// Recovery data behind it.
    pub(super) recovery: Option<Geometry>,
    /// Its tail is there and whole.
    pub(super) has_tail: bool,
    pub(super) remarks: Vec<String>,
    /// What of the remarks is about bytes that lie behind it.
    pub(super) remains: Option<String>,
    /// A later commit that was finished is lost.
    pub(super) lost_later: bool,
    /// Something that belongs to the archive is damaged: the tail, or all of a later commit.
    pub(super) recovered: bool,
}

/// Says whether the file is, or was, an NRA 5 archive. One whose tail is of another version counts too, so that opening it tells the version.
pub(super) fn is_nra(window: &Window) -> Result<bool> {
    if matches!(tail_before(window, window.file_len()), Ok(_) | Err(Error::Unsupported { .. })) {
        return Ok(true);
    }
    if window.file_len() < HEADER_LEN as u64 {
        let start = window.bytes("head", 0, usize::try_from(window.file_len()).expect("less than 64").min(6))?;
        return Ok(start.len() == 6 && starts_as_nra(&start));
    }
    // One read for both: the head tells, or where it is lost the first frame does.
    let len = (SUPERBLOCK_LEN + HEADER_LEN).min(usize::try_from(window.file_len()).unwrap_or(usize::MAX));
    let start = window.bytes("head", 0, len)?;
    if start.starts_with(&MAGIC) {
        // A head of another version tells that the frames are none of ours, whatever they look like.
        return Ok(starts_as_nra(&start));
    }
    let first_frame = start.get(SUPERBLOCK_LEN..).and_then(|rest| rest.first_chunk());
    Ok(first_frame.is_some_and(|header| FrameHeader::peek(header, SUPERBLOCK_LEN as u64).is_some()))
}

fn starts_as_nra(start: &[u8]) -> bool {
    start.strip_prefix(&MAGIC).is_some_and(|rest| rest.starts_with(&VERSION.to_le_bytes()))
}

/// Returns the tail that ends at `end`, whatever is in front of it.
fn tail_before(window: &Window, end: u64) -> Result<Tail> {
    let place = end.saturating_sub(TAIL_LEN as u64);
    Tail::parse(&window.array("tail", place)?, place)
}

/// Finds the newest whole state: by the tail, else by a slot and on over the appends behind it that finished (if `recover`, also those without a tail, and over what does not read), else (if `recover`)
/// by the last commit near the end of the file, or from commit to commit.
///
/// # Errors
///
/// `Unsupported` for a version or features that this reader does not know; else the error of the tail or commit that should have led to the state, or,
/// unless `recover`, that of a slot which says that a later commit was there.
pub(super) fn newest(window: &Window, recover: bool) -> Result<State> {
    let (lost, slots) = match by_end(window) {
        Ok(Ok(state)) => return Ok(state),
        Ok(Err(error)) if is_damage(&error) => (error, [None; 2]),
        Ok(Err(error)) => return Err(error),
        Err(error) if is_damage(&error) => {
            let slots = match head(window) {
                Ok(head) => {
                    check_required(head.required, SUPPORTED)?;
                    head.slots
                }
                Err(error) if is_damage(&error) => [None; 2],
                Err(error) => return Err(error),
            };
            match by_slots(window, slots) {
                Ok(Some(state)) => {
                    let state = if recover { newest_behind(window, state)? } else { over_whole(window, state)? };
                    return told(window, state, slots, &error, recover);
                }
                Ok(None) => (error, slots),
                Err(error) if is_damage(&error) => (error, slots),
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    };
    if !recover {
        return Err(lost);
    }
    let mut found = last_commit(window)?;
    if found.is_none() && slots == [None; 2] {
        // Nobody has changed it since it was made: its only commit may have more bytes behind it.
        let first = finished(window, None)?.filter(|first| first.has_tail);
        found = first.map(|first| is_last(window, first.end).map(|is_last| is_last.then_some(first))).transpose()?.flatten();
    }
    match found {
        Some(state) => told(window, state, slots, &lost, recover),
        None => Err(lost),
    }
}

/// Goes on from a state that a slot led to: over appends that finished, or to the last commit of the file where what is between does not read.
fn newest_behind(window: &Window, state: State) -> Result<State> {
    let state = onwards(window, state)?;
    let last = last_commit(window)?
        .filter(|last| last.commit.number > state.commit.number && last.commit.archive_id == state.commit.archive_id);
    Ok(last.unwrap_or(state))
}

/// Says whether no frame lies behind `end`.
fn is_last(window: &Window, end: u64) -> Result<bool> {
    let mut behind = Walk::from(window, end);
    while let Some(step) = behind.next()? {
        if matches!(step, Step::Frame { .. }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Completes a state that was not found by the tail at the end of the file, for which `lost` is why: what has to be said of it.
fn told(window: &Window, mut state: State, slots: [Option<Slot>; 2], lost: &Error, recover: bool) -> Result<State> {
    let number = state.commit.number;
    if !state.has_tail {
        state.recovered = true;
        state.remarks.push(format!("{lost}; the archive was opened by its last commit"));
    }
    if let Some(error) = lost_commit(slots, number) {
        if !recover {
            return Err(error);
        }
        (state.recovered, state.lost_later) = (true, true);
        state.remarks.push(format!("{error}; commit {number} is the newest one left"));
    }
    let left = window.file_len().saturating_sub(state.end);
    if left > 0 {
        let is_noted = slots.iter().flatten().any(|slot| slot.number == number);
        state.recovery = recovery::begins(window, state.end)?;
        let is_last = |tail: Tail| (tail.number, tail.commit_offset) == (number, state.place.offset);
        let remains = match state.recovery {
            Some(geometry) if geometry.file_len() < window.file_len() => {
                format!("{} bytes behind the recovery data belong to nothing", window.file_len() - geometry.file_len())
            }
            Some(_) => "the recovery data behind the archive is not whole".into(),
            None if tail_before(window, window.file_len()).is_ok_and(is_last) => {
                "the recovery data behind the archive is not whole".into()
            }
            None if state.lost_later => format!("{left} bytes behind commit {number} are what is left of it"),
            None if is_noted => {
                format!("{left} bytes behind commit {number} are the remains of an append that did not finish")
            }
            // Whoever appends notes that first.
            None => format!("{left} bytes behind commit {number} belong to nothing"),
        };
        state.remarks.push(remains.clone());
        state.remains = Some(remains);
    }
    Ok(state)
}

/// Returns the damage that a slot proves which names a commit later than `newest`: slots are only written for commits that are finished.
pub(crate) fn lost_commit(slots: [Option<Slot>; 2], newest: u64) -> Option<Error> {
    let later = slots.iter().enumerate().filter_map(|(index, slot)| slot.map(|slot| (index, slot)));
    let (index, slot) = later.max_by_key(|(_, slot)| slot.number).filter(|(_, slot)| slot.number > newest)?;
    let detail = format!("it says that commit {} ended at offset {}, which is lost", slot.number, slot.end);
    Some(Error::corrupt("slot", Slot::place(index), detail))
}

fn head(window: &Window) -> Result<Head> {
    Head::parse(&window.array::<SUPERBLOCK_LEN>("head", 0)?).map(|(head, _)| head)
}

/// Returns the state that the tail at the end of the file leads to, or why its commit does not read.
///
/// # Errors
///
/// `Corrupt` when there is no such tail, or it is that of an earlier commit.
fn by_end(window: &Window) -> Result<Result<State>> {
    let End { tail, recovery, is_begun } = recovery::end(window)?;
    let state = match by_tail(window, &tail) {
        Ok(state) => State { recovery, ..state },
        Err(error) => return Ok(Err(error)),
    };
    // An append drops recovery data before it writes its commit.
    if !is_begun && finished(window, Some(&state))?.is_some() {
        return Err(recovery::foreign(&tail, window.file_len()));
    }
    Ok(Ok(state))
}

fn by_tail(window: &Window, tail: &Tail) -> Result<State> {
    check_required(tail.required, SUPPORTED)?;
    let (commit, commit_ref, salt) = commit_at(window, tail.commit_offset)?;
    if commit_ref.length != tail.commit_length || commit.number != tail.number {
        let detail = format!(
            "it is number {} and has {} bytes, the tail says number {} and {} bytes",
            commit.number, commit_ref.length, tail.number, tail.commit_length
        );
        return Err(Error::corrupt("commit", tail.commit_offset, detail));
    }
    let state = State { keys: tail.keys, has_tail: true, ..State::found(commit, commit_ref, salt) };
    match window.opener().filter(|opener| opener.keys.offset == tail.keys.0) {
        Some(opener) => opener.keys.check(&state).map(|()| state),
        None => Ok(state),
    }
}

/// Returns the state that the newest slot with a tail leads to.
///
/// # Errors
///
/// That of its commit: an older state would be told for the newest one, while the directories know what came after it.
fn by_slots(window: &Window, slots: [Option<Slot>; 2]) -> Result<Option<State>> {
    let mut slots: Vec<Slot> = slots.into_iter().flatten().filter(|slot| slot.end <= window.file_len()).collect();
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.number));
    for slot in slots {
        let tail = match tail_before(window, slot.end) {
            Ok(tail) if tail.number == slot.number => tail,
            Ok(_) => continue,
            Err(error) if is_damage(&error) => continue,
            Err(error) => return Err(error),
        };
        return by_tail(window, &tail).map(Some);
    }
    Ok(None)
}

/// Finds the newest finished state for a writer with these keys, and the head.
///
/// # Errors
///
/// `Unsupported` for a version or features that this writer does not know; `Corrupt` when head, commit or newest keys are damaged, a later commit is lost, or nothing
/// leads to a state.
pub(super) fn for_append(window: &mut Window, keys: Unlock<'_>) -> Result<(State, Head)> {
    let head = head(window)?;
    check_required(head.required, SUPPORTED)?;
    check_optional(head.optional, 0)?;
    let state = match by_end(window) {
        Ok(found) => {
            let state = onwards(window, found?)?;
            // Bytes may have been cut off, and the commits that were in them.
            lost_commit(head.slots, state.commit.number).map_or(Ok(state), Err)?
        }
        Err(lost) if is_damage(&lost) => match by_slots(window, head.slots)? {
            Some(state) => State { recovered: false, ..told(window, onwards(window, state)?, head.slots, &lost, false)? },
            None => return Err(lost),
        },
        Err(error) => return Err(error),
    };
    opener::settle(window, &state, keys)?;
    if window.opener().is_some_and(|opener| opener.keys.offset != state.keys.0) {
        let detail = "it does not read, and with an earlier one keys would come back that were removed";
        return Err(Error::corrupt(FrameKind::Keys.name(), state.keys.0, detail));
    }
    Ok((state, head))
}

/// Goes on from a state over the appends behind it that finished.
fn onwards(window: &Window, mut state: State) -> Result<State> {
    while let Some(next) = finished(window, Some(&state))? {
        state = next;
    }
    Ok(state)
}

/// Goes on from a state over the appends behind it that finished and have their tail.
fn over_whole(window: &Window, mut state: State) -> Result<State> {
    while let Some(next) = finished(window, Some(&state))?.filter(|next| next.has_tail) {
        state = next;
    }
    Ok(state)
}

/// Returns the state of the append behind `state` if it did finish: frames, then the next commit. `None`: the first one of the file.
fn finished(window: &Window, state: Option<&State>) -> Result<Option<State>> {
    let mut behind = Walk::from(window, state.map_or(SUPERBLOCK_LEN as u64, |state| state.end));
    let mut keys = (0, 0);
    while let Some(Step::Frame { offset, start }) = behind.next()? {
        let header = start.header;
        if header.kind == FrameKind::Keys {
            keys = (offset, header.frame_len());
        }
        if header.kind != FrameKind::Commit {
            continue;
        }
        let (commit, place, salt) = match commit_at(window, offset) {
            Err(error) if is_damage(&error) => return Ok(None),
            found => found?,
        };
        let (number, before) = (commit.number, commit.previous);
        let follows = match state {
            Some(state) => Some(number) == state.commit.number.checked_add(1) && before == Some(state.place),
            None => number == 1 && before.is_none(),
        };
        if !follows {
            return Ok(None);
        }
        return State { keys, ..State::found(commit, place, salt) }.with_tail(window).map(Some);
    }
    Ok(None)
}

impl State {
    /// The state of a commit that was read, whatever is behind it.
    fn found(commit: Commit, place: FrameRef, salt: Option<[u8; SALT_LEN]>) -> Self {
        let end = place.offset + place.length + TAIL_LEN as u64;
        Self {
            commit,
            place,
            keys: (0, 0),
            salt,
            end,
            recovery: None,
            has_tail: false,
            remarks: Vec::new(),
            remains: None,
            lost_later: false,
            recovered: false,
        }
    }

    /// Looks whether its tail is whole.
    fn with_tail(mut self, window: &Window) -> Result<Self> {
        let tail = match tail_before(window, self.end) {
            Ok(tail) => Some(tail),
            Err(error) if is_damage(&error) => None,
            Err(error) => return Err(error),
        };
        if let Some(tail) = tail.filter(|tail| (tail.number, tail.commit_offset) == (self.commit.number, self.place.offset)) {
            (self.has_tail, self.keys) = (true, tail.keys);
        }
        Ok(self)
    }
}

/// Looks for a commit frame in the last bytes of the file.
fn last_commit(window: &Window) -> Result<Option<State>> {
    let first = window.start().max(SUPERBLOCK_LEN as u64).next_multiple_of(ALIGNMENT);
    let Some(mut offset) = window.file_len().checked_sub(HEADER_LEN as u64).map(|last| last - last % ALIGNMENT) else {
        return Ok(None);
    };
    while offset >= first {
        let found = match frames::start(window, "commit", offset) {
            Ok(start) if start.header.kind == FrameKind::Commit => commit_at(window, offset).map(Some),
            _ => Ok(None),
        };
        let found = match found {
            Err(error) if is_damage(&error) => None,
            other => other?,
        };
        if let Some((commit, place, salt)) = found {
            // Frames behind it belong to a later state, which the directories tell better.
            if !is_last(window, place.offset + place.length)? {
                return Ok(None);
            }
            return State::found(commit, place, salt).with_tail(window).map(Some);
        }
        offset -= ALIGNMENT;
    }
    Ok(None)
}

/// Reads the commit frame at `offset`; returns its salt too, if it is sealed.
fn commit_at(window: &Window, offset: u64) -> Result<(Commit, FrameRef, Option<[u8; SALT_LEN]>)> {
    /// Bytes of a commit without a long message.
    const GUESS: usize = 1 << 10;
    let frame = frames::at(window, FrameKind::Commit, offset, GUESS)?;
    let corrupt = |detail| Error::corrupt(FrameKind::Commit.name(), offset, detail);
    let commit = Commit::parse(&frame.payload).map_err(corrupt)?;
    if commit.number != frame.header.commit {
        return Err(corrupt(format!("its number is {}, that of its frame {}", commit.number, frame.header.commit)));
    }
    Ok((commit, frame.reference, frame.salt))
}

/// Describes the archive by a commit. `is_newest`: recovery data behind it are its own.
pub(super) fn describe(window: &Window, state: &State, is_newest: bool) -> Result<Info> {
    let commit = &state.commit;
    let mut info = Info {
        container: Container::Nra5,
        encrypted: window.is_sealed(),
        keys: window.opener().map_or_else(Vec::new, |opener| opener.keyring().list()),
        archive_bytes: window.file_len(),
        entries: commit.entries,
        files: commit.files,
        content_bytes: commit.content_bytes,
        chunk_bytes: Some(commit.piece_bytes),
        stored_bytes: Some(commit.stored_bytes),
        blocks: Some(commit.blocks),
        chunks: Some(commit.pieces),
        archive_id: Some(commit.archive_id),
        commit: Some(commit.number),
        time: commit.time,
        message: commit.message.clone(),
        remarks: state.remarks.clone(),
        ..Info::default()
    };
    if is_newest {
        info.recovery = state.recovery.map(|geometry| geometry.summary());
    }
    if let Some(reference) = commit.attributes {
        let attributes = frames::follow(window, FrameKind::Attributes, reference).and_then(|frame| {
            let corrupt = |detail| Error::corrupt(FrameKind::Attributes.name(), reference.offset, detail);
            parse_attributes(&frame.payload).map_err(corrupt)
        });
        match attributes {
            Ok(attributes) => info.attributes = attributes,
            Err(error) if is_damage(&error) => info.remarks.push(format!("{error}; the attributes of the archive are lost")),
            Err(error) => return Err(error),
        }
    }
    Ok(info)
}

/// Describes an archive by what a scan found of it.
pub(super) fn describe_scan(window: &Window, scan: &Scan, cause: &Error) -> Info {
    let files = scan.entries.iter().filter(|entry| entry.kind == nra_core::entry::Kind::File);
    let mut info = Info {
        container: Container::Nra5,
        encrypted: window.is_sealed(),
        archive_bytes: window.file_len(),
        entries: scan.entries.len() as u64,
        files: files.clone().count() as u64,
        content_bytes: files.fold(0, |sum, file| file.size.saturating_add(sum)),
        chunk_bytes: Some(scan.piece_bytes),
        stored_bytes: Some(scan.stored_bytes),
        blocks: Some(scan.blocks),
        chunks: Some(scan.pieces),
        remarks: vec![format!("{cause}; its entries were found by the directories of its blocks")],
        ..Info::default()
    };
    if scan.flaws > 0 {
        let places =
            if scan.flaws == 1 { "1 place of the file does".into() } else { format!("{} places of the file do", scan.flaws) };
        info.remarks.push(format!("{places} not read; entries that were recorded there may be missing"));
    }
    info.remarks.extend(former_names(scan));
    info
}

/// The warning that a scan of an archive with a history needs.
pub(super) fn former_names(scan: &Scan) -> Option<String> {
    let commits = scan.commits;
    (commits > 1)
        .then(|| format!("entries that were removed or renamed in one of its {commits} commits may appear under former names"))
}
