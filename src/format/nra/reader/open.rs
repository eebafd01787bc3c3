//! Opening: from the tail to the root, and what to do when one of them is lost.
//!
//! Spec: nra.md, section 15.

use crate::format::archive::Info;
use crate::format::crypt::SALT_LEN;
use crate::format::error::{Error, Result};
use crate::format::nra::commit::{Commit, parse_attributes};
use crate::format::nra::content::FrameRef;
use crate::format::nra::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN};
use crate::format::nra::head::{
    HEAD_LEN, Head, MAGIC, REQUIRED_ENCRYPTION, Slot, TAIL_LEN, Tail, VERSION, check_optional, check_required,
};
use crate::format::nra::reader::frames;
use crate::format::nra::reader::opener::{self, Unlock};
use crate::format::nra::reader::scan::Scan;
use crate::format::nra::reader::tree::is_damage;
use crate::format::nra::reader::walk::{Step, Walk};
use crate::format::nra::reader::window::Window;
use crate::format::nra::recovery;

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
    /// Length of the file at that commit.
    pub(super) end: u64,
    pub(super) remarks: Vec<String>,
    /// The way to it was not the one by the tail or a slot.
    pub(super) recovered: bool,
}

/// Says whether the file is, or was, an NRA 5 archive. One whose tail is of another version counts too, so that opening it tells the version.
pub(super) fn is_nra(window: &Window) -> Result<bool> {
    if matches!(tail_at_end(window), Ok(_) | Err(Error::Unsupported { .. })) {
        return Ok(true);
    }
    if window.file_len() < HEADER_LEN as u64 {
        let start = window.bytes("head", 0, usize::try_from(window.file_len()).expect("less than 64").min(6))?;
        return Ok(start.len() == 6 && starts_as_nra(&start));
    }
    // One read for both: the head tells, or where it is lost the first frame does.
    let len = (HEAD_LEN + HEADER_LEN).min(usize::try_from(window.file_len()).unwrap_or(usize::MAX));
    let start = window.bytes("head", 0, len)?;
    if start.starts_with(&MAGIC) {
        // A head of another version tells that the frames are none of ours, whatever they look like.
        return Ok(starts_as_nra(&start));
    }
    let first_frame = start.get(HEAD_LEN..).and_then(|rest| rest.first_chunk());
    Ok(first_frame.is_some_and(|header| FrameHeader::peek(header, HEAD_LEN as u64).is_some()))
}

fn starts_as_nra(start: &[u8]) -> bool {
    start.strip_prefix(&MAGIC).is_some_and(|rest| rest.starts_with(&VERSION.to_le_bytes()))
}

fn tail_at_end(window: &Window) -> Result<Tail> {
    let Some(place) = window.file_len().checked_sub(TAIL_LEN as u64) else {
        return Err(Error::corrupt("tail", 0, format!("the file has only {} bytes", window.file_len())));
    };
    Tail::parse(&window.array("tail", place)?, place)
}

/// Finds the newest whole state: by the tail, else by a slot (if `recover`, on to what [`finished_behind`] finds), else (if `recover`) by the last
/// commit near the end of the file.
///
/// # Errors
///
/// `Unsupported` for a version or features that this reader does not know; else the error of the tail or commit that should have led to the state.
pub(super) fn newest(window: &Window, recover: bool) -> Result<State> {
    let lost = match tail_at_end(window) {
        Ok(tail) => match by_tail(window, &tail) {
            Err(error) if is_damage(&error) => error,
            other => return other,
        },
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
                Ok(Some(state)) if recover => return behind(window, state, &error),
                Ok(Some(state)) => return Ok(state),
                Ok(None) => error,
                Err(error) if is_damage(&error) => error,
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    };
    match if recover { last_commit(window)? } else { None } {
        Some(mut state) => {
            state.remarks.push(format!("{lost}; the archive was opened by its last commit"));
            Ok(state)
        }
        None => Err(lost),
    }
}

fn head(window: &Window) -> Result<Head> {
    Head::parse(&window.array::<HEAD_LEN>("head", 0)?).map(|(head, _)| head)
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
    let end = commit_ref.offset + commit_ref.length + TAIL_LEN as u64;
    let state = State { commit, place: commit_ref, keys: tail.keys, salt, end, remarks: Vec::new(), recovered: false };
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
        let Some(place) = slot.end.checked_sub(TAIL_LEN as u64) else { continue };
        let tail = match Tail::parse(&window.array("tail", place)?, place) {
            Ok(tail) if tail.number == slot.number => tail,
            Ok(_) => continue,
            Err(error) if is_damage(&error) => continue,
            Err(error) => return Err(error),
        };
        let mut state = by_tail(window, &tail)?;
        let left = window.file_len() - slot.end;
        state
            .remarks
            .push(format!("{left} bytes behind commit {} are the remains of an append that did not finish", slot.number));
        return Ok(Some(state));
    }
    Ok(None)
}

/// Finds the newest finished state for a writer with these keys, the head, and whether the tail of that state is lost.
///
/// # Errors
///
/// `Unsupported` for a version or features that this writer does not know; `Corrupt` when head, commit or newest keys are damaged, or nothing leads to a
/// state.
pub(super) fn for_append(window: &mut Window, keys: Unlock<'_>) -> Result<(State, Head, bool)> {
    let head = head(window)?;
    check_required(head.required, SUPPORTED)?;
    check_optional(head.optional, 0)?;
    let mut state = match tail_at_end(window) {
        Ok(tail) => by_tail(window, &tail)?,
        Err(error) if is_damage(&error) => by_slots(window, head.slots)?.ok_or(error)?,
        Err(error) => return Err(error),
    };
    let mut lost_tail = false;
    while let Some(next) = finished_behind(window, &state)? {
        (state, lost_tail) = (next, true);
    }
    opener::settle(window, &state, keys)?;
    if window.opener().is_some_and(|opener| opener.keys.offset != state.keys.0) {
        let detail = "it does not read, and with an earlier one keys would come back that were removed";
        return Err(Error::corrupt(FrameKind::Keys.name(), state.keys.0, detail));
    }
    Ok((state, head, lost_tail))
}

/// Returns the state of the append behind `state` if it did finish and has lost its tail since: frames, then the next commit.
fn finished_behind(window: &Window, state: &State) -> Result<Option<State>> {
    let mut behind = Walk::from(window, state.end);
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
        if Some(commit.number) != state.commit.number.checked_add(1) || commit.previous != Some(state.place) {
            return Ok(None);
        }
        let end = place.offset + place.length + TAIL_LEN as u64;
        return Ok(Some(State { commit, place, keys, salt, end, remarks: Vec::new(), recovered: false }));
    }
    Ok(None)
}

/// Goes on from the state that a slot led to, over appends that finished and have lost their tails since; `lost` is what is wrong with the last one.
fn behind(window: &Window, by_slot: State, lost: &Error) -> Result<State> {
    let Some(mut state) = finished_behind(window, &by_slot)? else { return Ok(by_slot) };
    while let Some(next) = finished_behind(window, &state)? {
        state = next;
    }
    state.recovered = true;
    state.remarks.push(format!("{lost}; the archive was opened by its last commit"));
    let left = window.file_len().saturating_sub(state.end);
    if left > 0 {
        let number = state.commit.number;
        state.remarks.push(format!("{left} bytes behind commit {number} are the remains of an append that did not finish"));
    }
    Ok(state)
}

/// Looks for a commit frame in the last bytes of the file.
fn last_commit(window: &Window) -> Result<Option<State>> {
    let first = window.start().max(HEAD_LEN as u64).next_multiple_of(ALIGNMENT);
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
            let end = place.offset + place.length;
            // Frames behind it belong to a later state, which the directories tell better.
            let mut behind = Walk::from(window, end);
            while let Some(step) = behind.next()? {
                if matches!(step, Step::Frame { .. }) {
                    return Ok(None);
                }
            }
            return Ok(Some(State { commit, place, keys: (0, 0), salt, end, remarks: Vec::new(), recovered: true }));
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
        format: "NRA 5".into(),
        encrypted: window.is_sealed(),
        keys: window.opener().map_or_else(Vec::new, |opener| opener.keyring().list()),
        archive_bytes: window.file_len(),
        entries: commit.entries,
        files: commit.files,
        content_bytes: commit.content_bytes,
        piece_bytes: Some(commit.piece_bytes),
        stored_bytes: Some(commit.stored_bytes),
        blocks: Some(commit.blocks),
        pieces: Some(commit.pieces),
        archive_id: Some(commit.archive_id),
        commit: Some(commit.number),
        time: commit.time,
        message: commit.message.clone(),
        remarks: state.remarks.clone(),
        ..Info::default()
    };
    if is_newest && window.file_len() > state.end {
        info.recovery = recovery::present(window.source())?.map(|geometry| geometry.summary());
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
    let files = scan.entries.iter().filter(|entry| entry.kind == crate::format::entry::Kind::File);
    let mut info = Info {
        format: "NRA 5".into(),
        encrypted: window.is_sealed(),
        archive_bytes: window.file_len(),
        entries: scan.entries.len() as u64,
        files: files.clone().count() as u64,
        content_bytes: files.fold(0, |sum, file| file.size.saturating_add(sum)),
        piece_bytes: Some(scan.piece_bytes),
        stored_bytes: Some(scan.stored_bytes),
        blocks: Some(scan.blocks),
        pieces: Some(scan.pieces),
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
