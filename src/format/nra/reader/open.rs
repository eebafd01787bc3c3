//! Opening: from the footer to the commit, and what to do if either is lost.
//!
//! Spec: nra.md, section 15.

use crate::commit::{Commit, parse_attributes};
use crate::content::FrameRef;
use crate::footer::Footer;
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::damage::{is_damage, undamaged};
use crate::reader::found_commit::FoundCommit;
use crate::reader::frame_walk::{FrameWalk, Step};
use crate::reader::frames;
use crate::reader::keys::{self, Unlock};
use crate::reader::scan::Scan;
use crate::reader::window::Window;
use crate::recovery::{self, End};
use crate::superblock::{CommitSlot, MAGIC, REQUIRED_ENCRYPTION, Superblock, VERSION, check_optional, check_required};
use nra_core::archive::Info;
use nra_core::container::Container;
use nra_core::crypt::SALT_LEN;
use nra_core::error::{Error, Result};

/// Required features that this reader supports.
const SUPPORTED: u32 = REQUIRED_ENCRYPTION;

/// Returns whether the file is, or was, an NRA 5 archive. A footer of another version counts, too,
/// so that opening reports the version.
pub(super) fn is_nra(window: &Window) -> Result<bool> {
    if matches!(window.footer_before(window.file_len()), Ok(_) | Err(Error::Unsupported { .. })) {
        return Ok(true);
    }
    if window.file_len() < HEADER_LEN as u64 {
        let start = window.bytes("superblock", 0, usize::try_from(window.file_len()).expect("less than 64").min(6))?;
        return Ok(start.len() == 6 && starts_as_nra(&start));
    }
    // One read for both: the superblock decides, or the first frame if it is lost.
    let len = (SUPERBLOCK_LEN + HEADER_LEN).min(usize::try_from(window.file_len()).unwrap_or(usize::MAX));
    let start = window.bytes("superblock", 0, len)?;
    if start.starts_with(&MAGIC) {
        // A superblock of another version means that the frames have another format, too.
        return Ok(starts_as_nra(&start));
    }
    let first_frame = start.get(SUPERBLOCK_LEN..).and_then(|rest| rest.first_chunk());
    Ok(first_frame.is_some_and(|header| FrameHeader::peek(header, SUPERBLOCK_LEN as u64).is_some()))
}

fn starts_as_nra(start: &[u8]) -> bool {
    start.strip_prefix(&MAGIC).is_some_and(|rest| rest.starts_with(&VERSION.to_le_bytes()))
}

/// Finds the newest commit.
///
/// 1. The footer at the end of the file leads to it.
/// 2. Otherwise a commit slot leads to a commit, from which finished appends are followed. With
///    `recover`, appends without a footer and damaged parts are passed, too.
/// 3. Otherwise, with `recover`, the last commit near the end of the file is taken, or the first
///    commit.
///
/// # Errors
///
/// `Unsupported` for a version or features that this reader does not support; otherwise the error
/// of the footer or commit. Without `recover`, also the error of a commit slot that names a later
/// commit.
pub(super) fn find_newest(window: &Window, recover: bool) -> Result<FoundCommit> {
    let (lost, slots) = match from_end(window) {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(error)) if is_damage(&error) => (error, [None; 2]),
        Err(error) if is_damage(&error) => {
            let mut slots = [None; 2];
            if let Some((superblock, _)) = undamaged(window.superblock())? {
                check_required(superblock.required, SUPPORTED)?;
                slots = superblock.slots;
            }
            match from_commit_slots(window, slots) {
                Ok(Some(found)) => {
                    let found = if recover { newest_after(window, found)? } else { follow_whole_appends(window, found)? };
                    return describe_found(window, found, slots, &error, recover);
                }
                Ok(None) => (error, slots),
                Err(error) if is_damage(&error) => (error, slots),
                Err(error) => return Err(error),
            }
        }
        Ok(Err(error)) | Err(error) => return Err(error),
    };
    if !recover {
        return Err(lost);
    }
    let mut found = last_commit(window)?;
    if found.is_none() && slots == [None; 2] {
        // The archive was never changed. Bytes may follow its only commit.
        if let Some(first) = finished_append(window, None)?.filter(|first| first.has_footer)
            && is_last_frame(window, first.end)?
        {
            found = Some(first);
        }
    }
    match found {
        Some(found) => describe_found(window, found, slots, &lost, recover),
        None => Err(lost),
    }
}

/// Continues from the commit of a commit slot: over finished appends, or to the last commit of the
/// file if bytes between are damaged.
fn newest_after(window: &Window, found: FoundCommit) -> Result<FoundCommit> {
    let found = follow_appends(window, found)?;
    let last = last_commit(window)?
        .filter(|last| last.commit.number > found.commit.number && last.commit.archive_id == found.commit.archive_id);
    Ok(last.unwrap_or(found))
}

/// Returns whether no frame follows `end`.
fn is_last_frame(window: &Window, end: u64) -> Result<bool> {
    let mut walk = FrameWalk::from(window, end);
    while let Some(step) = walk.next()? {
        if matches!(step, Step::Frame { .. }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds the remarks for a commit that was not found through the footer at the end of the file.
/// `lost` is the reason.
fn describe_found(
    window: &Window,
    mut found: FoundCommit,
    slots: [Option<CommitSlot>; 2],
    lost: &Error,
    recover: bool,
) -> Result<FoundCommit> {
    let number = found.commit.number;
    if !found.has_footer {
        found.recovered = true;
        found.remarks.push(format!("{lost}; the last commit was opened"));
    }
    if let Some(error) = lost_commit_error(slots, number) {
        if !recover {
            return Err(error);
        }
        (found.recovered, found.lost_later) = (true, true);
        found.remarks.push(format!("{error}; commit {number} is the newest intact commit"));
    }
    let left = window.file_len().saturating_sub(found.end);
    if left > 0 {
        let is_noted = slots.iter().flatten().any(|slot| slot.number == number);
        found.recovery = recovery::find_at(window, found.end)?;
        let is_last_frame = |footer: Footer| (footer.number, footer.commit_offset) == (number, found.commit_ref.offset);
        let trailing_remark = match found.recovery {
            Some(layout) if layout.file_len() < window.file_len() => {
                format!("{} bytes after the recovery data belong to no commit", window.file_len() - layout.file_len())
            }
            Some(_) => "the recovery data is damaged".into(),
            None if window.footer_before(window.file_len()).is_ok_and(is_last_frame) => "the recovery data is damaged".into(),
            None if found.lost_later => format!("{left} bytes after commit {number} remain of it"),
            None if is_noted => {
                format!("{left} bytes after commit {number} are from an unfinished append")
            }
            // An append records the commit in a commit slot first.
            None => format!("{left} bytes after commit {number} belong to no commit"),
        };
        found.remarks.push(trailing_remark.clone());
        found.trailing_remark = Some(trailing_remark);
    }
    Ok(found)
}

/// Returns the error for a commit slot that names a commit later than `newest`. Commit slots are
/// written for finished commits only.
pub(crate) fn lost_commit_error(slots: [Option<CommitSlot>; 2], find_newest: u64) -> Option<Error> {
    let later = slots.iter().enumerate().filter_map(|(index, slot)| slot.map(|slot| (index, slot)));
    let (index, slot) = later.max_by_key(|(_, slot)| slot.number).filter(|(_, slot)| slot.number > find_newest)?;
    let detail = format!("it names commit {}, which ended at offset {} and is lost", slot.number, slot.end);
    Some(Error::corrupt("commit slot", CommitSlot::offset(index), detail))
}

/// Returns the commit that the footer at the end of the file refers to, or the error of that
/// commit.
///
/// # Errors
///
/// `Corrupt` if there is no such footer, or it belongs to an earlier commit.
fn from_end(window: &Window) -> Result<Result<FoundCommit>> {
    let End { footer, recovery, starts_with_header } = recovery::read_end(window)?;
    let found = match from_footer(window, &footer) {
        Ok(found) => FoundCommit { recovery, ..found },
        Err(error) => return Ok(Err(error)),
    };
    // An append removes recovery data before it writes its commit.
    if !starts_with_header && finished_append(window, Some(&found))?.is_some() {
        return Err(recovery::stray_footer(&footer, window.file_len()));
    }
    Ok(Ok(found))
}

fn from_footer(window: &Window, footer: &Footer) -> Result<FoundCommit> {
    check_required(footer.required, SUPPORTED)?;
    let (commit, commit_ref, salt) = commit_at(window, footer.commit_offset)?;
    if commit_ref.length != footer.commit_length || commit.number != footer.number {
        let detail = format!(
            "it has number {} and {} bytes, the footer says number {} and {} bytes",
            commit.number, commit_ref.length, footer.number, footer.commit_length
        );
        return Err(Error::corrupt("commit", footer.commit_offset, detail));
    }
    let found = FoundCommit { keys: footer.keys, has_footer: true, ..FoundCommit::new(commit, commit_ref, salt) };
    match window.decryptor().filter(|decryptor| decryptor.keys.offset == footer.keys.0) {
        Some(decryptor) => found.check_keys(&decryptor.keys).map(|()| found),
        None => Ok(found),
    }
}

/// Returns the commit that the newest commit slot with a footer refers to.
///
/// # Errors
///
/// The error of that commit. An older commit would pass for the newest one, although block indexes
/// know later entries.
fn from_commit_slots(window: &Window, slots: [Option<CommitSlot>; 2]) -> Result<Option<FoundCommit>> {
    window.footer_of_slots(slots)?.map(|footer| from_footer(window, &footer)).transpose()
}

/// Finds the newest finished commit and the superblock for a writer with these keys.
///
/// # Errors
///
/// `Unsupported` for a version or features that this writer does not support; `Corrupt` if
/// superblock, commit or newest keys are damaged, a later commit is lost, or no commit is found.
pub(super) fn for_append(window: &mut Window, keys: Unlock<'_>) -> Result<(FoundCommit, Superblock)> {
    let (superblock, _) = window.superblock()?;
    check_required(superblock.required, SUPPORTED)?;
    check_optional(superblock.optional, 0)?;
    let found = match from_end(window) {
        Ok(found) => {
            let found = follow_appends(window, found?)?;
            // The file may have been truncated together with later commits.
            lost_commit_error(superblock.slots, found.commit.number).map_or(Ok(found), Err)?
        }
        Err(lost) if is_damage(&lost) => match from_commit_slots(window, superblock.slots)? {
            Some(found) => FoundCommit {
                recovered: false,
                ..describe_found(window, follow_appends(window, found)?, superblock.slots, &lost, false)?
            },
            None => return Err(lost),
        },
        Err(error) => return Err(error),
    };
    keys::switch_keys(window, &found, keys)?;
    if window.decryptor().is_some_and(|decryptor| decryptor.keys.offset != found.keys.0) {
        let detail = "it is damaged, and an earlier key frame would restore removed keys";
        return Err(FrameKind::Keys.corrupt(found.keys.0, detail));
    }
    Ok((found, superblock))
}

fn follow_appends(window: &Window, mut found: FoundCommit) -> Result<FoundCommit> {
    while let Some(next) = finished_append(window, Some(&found))? {
        found = next;
    }
    Ok(found)
}

/// Follows finished appends that have a footer.
fn follow_whole_appends(window: &Window, mut found: FoundCommit) -> Result<FoundCommit> {
    while let Some(next) = finished_append(window, Some(&found))?.filter(|next| next.has_footer) {
        found = next;
    }
    Ok(found)
}

/// Returns the commit of the append after `last` if that append is finished: frames, then the next
/// commit frame. If `last` is `None`, returns the first commit of the file.
fn finished_append(window: &Window, last: Option<&FoundCommit>) -> Result<Option<FoundCommit>> {
    let mut walk = FrameWalk::from(window, last.map_or(SUPERBLOCK_LEN as u64, |last| last.end));
    let mut keys = (0, 0);
    while let Some(Step::Frame { offset, start }) = walk.next()? {
        let header = start.header;
        if header.kind == FrameKind::Keys {
            keys = (offset, header.frame_len());
        }
        if header.kind != FrameKind::Commit {
            continue;
        }
        let Some((commit, commit_ref, salt)) = undamaged(commit_at(window, offset))? else { return Ok(None) };
        let (number, before) = (commit.number, commit.previous);
        let follows = match last {
            Some(last) => Some(number) == last.commit.number.checked_add(1) && before == Some(last.commit_ref),
            None => number == 1 && before.is_none(),
        };
        if !follows {
            return Ok(None);
        }
        return FoundCommit { keys, ..FoundCommit::new(commit, commit_ref, salt) }.with_footer(window).map(Some);
    }
    Ok(None)
}

/// Searches the last bytes of the file for a commit frame.
fn last_commit(window: &Window) -> Result<Option<FoundCommit>> {
    let first = window.start().max(SUPERBLOCK_LEN as u64).next_multiple_of(ALIGNMENT);
    let Some(mut offset) = window.file_len().checked_sub(HEADER_LEN as u64).map(|last| last - last % ALIGNMENT) else {
        return Ok(None);
    };
    while offset >= first {
        let is_commit = frames::start(window, "commit", offset).is_ok_and(|start| start.header.kind == FrameKind::Commit);
        if is_commit && let Some((commit, commit_ref, salt)) = undamaged(commit_at(window, offset))? {
            // Frames after it belong to a later commit, which block indexes describe better.
            if !is_last_frame(window, commit_ref.offset + commit_ref.length)? {
                return Ok(None);
            }
            return FoundCommit::new(commit, commit_ref, salt).with_footer(window).map(Some);
        }
        offset -= ALIGNMENT;
    }
    Ok(None)
}

/// Reads the commit frame at `offset`. Returns its salt, too, if it is sealed.
fn commit_at(window: &Window, offset: u64) -> Result<(Commit, FrameRef, Option<[u8; SALT_LEN]>)> {
    /// Length of a commit frame without a long message.
    const GUESS: usize = 1 << 10;
    let frame = frames::at(window, FrameKind::Commit, offset, GUESS)?;
    let corrupt = |detail| FrameKind::Commit.corrupt(offset, detail);
    let commit = Commit::parse(&frame.payload).map_err(corrupt)?;
    if commit.number != frame.header.commit {
        return Err(corrupt(format!("its number is {}, its frame says {}", commit.number, frame.header.commit)));
    }
    Ok((commit, frame.reference, frame.salt))
}

/// Describes the archive by a commit. Recovery data belongs to it if `is_newest`.
pub(super) fn describe(window: &Window, found: &FoundCommit, is_newest: bool) -> Result<Info> {
    let commit = &found.commit;
    let mut info = Info {
        container: Container::Nra5,
        encrypted: window.is_sealed(),
        keys: window.decryptor().map_or_else(Vec::new, |decryptor| decryptor.keyring().list()),
        archive_bytes: window.file_len(),
        entries: commit.entries,
        files: commit.files,
        content_bytes: commit.content_bytes,
        chunk_bytes: Some(commit.chunk_bytes),
        stored_bytes: Some(commit.stored_bytes),
        blocks: Some(commit.blocks),
        chunks: Some(commit.chunks),
        archive_id: Some(commit.archive_id),
        commit: Some(commit.number),
        time: commit.time,
        message: commit.message.clone(),
        remarks: found.remarks.clone(),
        ..Info::default()
    };
    if is_newest {
        info.recovery = found.recovery.map(|layout| layout.summary());
    }
    if let Some(reference) = commit.attributes {
        match frames::parse(window, FrameKind::Attributes, reference, parse_attributes) {
            Ok(attributes) => info.attributes = attributes,
            Err(error) if is_damage(&error) => info.remarks.push(format!("{error}; the attributes of the archive are lost")),
            Err(error) => return Err(error),
        }
    }
    Ok(info)
}

/// Describes the archive by the result of a scan.
pub(super) fn describe_scan(window: &Window, scan: &Scan, cause: &Error) -> Info {
    let files = scan.entries.iter().filter(|entry| entry.kind == nra_core::entry::Kind::File);
    let mut info = Info {
        container: Container::Nra5,
        encrypted: window.is_sealed(),
        archive_bytes: window.file_len(),
        entries: scan.entries.len() as u64,
        files: files.clone().count() as u64,
        content_bytes: files.fold(0, |sum, file| file.size.saturating_add(sum)),
        chunk_bytes: Some(scan.chunk_bytes),
        stored_bytes: Some(scan.stored_bytes),
        blocks: Some(scan.blocks),
        chunks: Some(scan.chunks),
        remarks: vec![format!("{cause}; the entries were found in block indexes")],
        ..Info::default()
    };
    if scan.flaws > 0 {
        let places =
            if scan.flaws == 1 { "1 part of the file is".into() } else { format!("{} parts of the file are", scan.flaws) };
        info.remarks.push(format!("{places} unreadable; entries recorded there may be missing"));
    }
    info.remarks.extend(former_names(scan));
    info
}

/// Returns the remark about a scan of an archive with a history.
pub(super) fn former_names(scan: &Scan) -> Option<String> {
    let commits = scan.commits;
    (commits > 1).then(|| format!("entries removed or renamed in one of {commits} commits may appear under former names"))
}
