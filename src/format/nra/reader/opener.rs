//! Opening sealed frames: which keys an archive has, and the key of each frame.
//!
//! An archive is encrypted if its tail says so or, where that is lost, its head or the first frame. What is in a key frame is authentic once a
//! secret has opened it; a damaged one is passed over for the first of the file, which is reported.
//!
//! Spec: nra.md, sections 15 and 18.

use std::sync::{Mutex, PoisonError};

use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SEALED_SYNC};
use crate::head::{Head, REQUIRED_ENCRYPTION, TAIL_LEN, Tail};
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::sealed;
use crate::reader::damage::is_damage;
use crate::reader::frames;
use crate::reader::open::State;
use crate::reader::walk::{Step, Walk};
use crate::reader::window::Window;
use crate::recovery;
use nra_core::archive::OpenOptions;
use nra_core::crypt::{FrameKey, FramePart, KeyFrame, KeyInfo, KeyPlace, Keyring, PasswordWork, SALT_LEN, Secret, Session};
use nra_core::error::{Error, Result};

/// Salts kept at hand: one for each commit that frames are read of.
const MAX_SESSIONS: usize = 256;

/// Key frames that are tried when nothing leads to them, the newest ones: each password may cost the time of Argon2.
const MAX_SEARCHED: usize = 16;

/// Opens the sealed frames of an archive.
pub(super) struct Opener {
    keyring: Keyring,
    /// The key frame that it was unlocked by: offset, length, commit, salt of that commit's frames.
    pub(super) keys: KeysPlace,
    sessions: Mutex<Vec<Session>>,
}

/// A key frame that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeysPlace {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) commit: u64,
    pub(super) salt: [u8; SALT_LEN],
}

impl KeysPlace {
    /// Checks that these are the keys of `state`.
    pub(super) fn check(&self, state: &State) -> Result<()> {
        let (end, number) = (state.place.offset, state.commit.number);
        if (self.offset + self.length, self.commit, Some(self.salt)) == (end, number, state.salt) {
            return Ok(());
        }
        Err(Error::corrupt(FrameKind::Keys.name(), self.offset, format!("they are not those of commit {number}")))
    }
}

impl Opener {
    pub(super) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Returns the key of the frame at `offset` that begins with `salt`.
    pub(super) fn key(&self, offset: u64, salt: [u8; SALT_LEN]) -> FrameKey {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sessions.iter().find(|session| *session.salt() == salt).cloned();
        let session = known.unwrap_or_else(|| {
            let session = self.keyring.session_of(salt);
            if sessions.len() == MAX_SESSIONS {
                sessions.remove(0);
            }
            sessions.push(session.clone());
            session
        });
        drop(sessions);
        session.frame_key(offset, REQUIRED_ENCRYPTION)
    }

    /// Returns the key of the frame at `offset` if one of the salts met so far gives this check.
    pub(super) fn key_by_check(&self, offset: u64, check: u64) -> Option<FrameKey> {
        /// Salts that are tried, those met last: reading the right one from the file costs no more than some.
        const TRIED: usize = 4;
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let tried: Vec<Session> = sessions.iter().rev().take(TRIED).cloned().collect();
        drop(sessions);
        tried.iter().map(|session| session.frame_key(offset, REQUIRED_ENCRYPTION)).find(|key| key.check == check)
    }

    /// Checks the payload of a key frame of this archive.
    pub(super) fn check_keys(&self, payload: &[u8], offset: u64, commit: u64) -> Result<()> {
        let keys = KeyFrame::parse(payload).map_err(|detail| Error::corrupt(FrameKind::Keys.name(), offset, detail))?;
        keys.unlock_with(self.keyring.archive_key(), KeyPlace { offset, commit }).map(drop)
    }

    /// Opens the beginning of the frame at `offset`.
    pub(super) fn header(&self, bytes: &[u8; SEALED_HEADER_LEN], offset: u64) -> Result<([u8; HEADER_LEN], FrameKey)> {
        let corrupt = |detail: &str| Error::corrupt("frame header", offset, detail);
        if !bytes.starts_with(&SEALED_SYNC) {
            return Err(corrupt("no sealed frame starts here"));
        }
        let key = self.key(offset, sealed::SALT.get(bytes));
        let mut header = sealed::HEADER.get(bytes);
        key.open(FramePart::Header, 0, &mut header, &sealed::TAG.get(bytes))
            .map_err(|_| corrupt("it does not open: it was changed, or was not written here"))?;
        Ok((header, key))
    }
}

/// Where the keys of a file may be.
struct Candidates {
    /// Offsets of key frames, the best first.
    offsets: Vec<u64>,
    /// What tells that the first of them is the right one.
    named: Named,
}

/// What names a key frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The tail at the end of the file: no other keys count.
    ByTail,
    /// The tail that a slot leads to; behind it may be a newer state with keys of its own.
    BySlot,
    /// Nothing.
    No,
}

/// Returns where to look for keys, or `None` if the archive is not encrypted.
fn candidates(window: &Window, recover: bool) -> Result<Option<Candidates>> {
    let first = SUPERBLOCK_LEN as u64;
    let tail = |end: u64| -> Result<Option<Tail>> {
        let Some(place) = end.checked_sub(TAIL_LEN as u64).filter(|_| end <= window.file_len()) else { return Ok(None) };
        match Tail::parse(&window.array("tail", place)?, place) {
            Ok(tail) => Ok(Some(tail)),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let by_tail = |tail: Tail, named| {
        // Other features are refused by name, and before a key is asked for.
        let is_encrypted = tail.required == REQUIRED_ENCRYPTION;
        is_encrypted.then(|| Candidates { offsets: vec![tail.keys.0, first], named })
    };
    match recovery::end(window) {
        Ok(end) => return Ok(by_tail(end.tail, Named::ByTail)),
        Err(error) if is_damage(&error) => {}
        Err(error) => return Err(error),
    }
    let head = match window.array::<SUPERBLOCK_LEN>("head", 0).and_then(|bytes| Head::parse(&bytes)) {
        Ok((head, _)) => Some(head),
        Err(error) if is_damage(&error) => None,
        Err(error) => return Err(error),
    };
    if let Some(head) = head {
        if head.required != REQUIRED_ENCRYPTION {
            return Ok(None);
        }
        let mut slots: Vec<_> = head.slots.into_iter().flatten().collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.number));
        for slot in slots {
            if let Some(tail) = tail(slot.end)?.filter(|tail| tail.number == slot.number) {
                return Ok(by_tail(tail, Named::BySlot));
            }
        }
        return Ok(Some(Candidates { offsets: vec![first], named: Named::No }));
    }
    // Neither end of the file tells: the frames do.
    if frames::header(window, FrameKind::Keys, first).is_ok() {
        return Ok(Some(Candidates { offsets: vec![first], named: Named::No }));
    }
    if !recover {
        return Ok(None);
    }
    let offsets = search(window)?;
    Ok((!offsets.is_empty()).then_some(Candidates { offsets, named: Named::No }))
}

/// Finds the key frames of an archive without being led to them, the newest first; none if it is not encrypted.
fn search(window: &Window) -> Result<Vec<u64>> {
    let (mut walk, mut found) = (Walk::new(window), Vec::new());
    while let Some(step) = walk.next()? {
        match step {
            Step::Frame { offset, start } if start.header.kind == FrameKind::Keys => found.push(offset),
            // An archive that is not encrypted begins with frames that read.
            Step::Frame { start, .. } if found.is_empty() && start.header.kind.is_sealed() => break,
            _ => {}
        }
    }
    found.reverse();
    Ok(found)
}

fn read_keys(window: &Window, offset: u64) -> Result<(KeyFrame, KeysPlace)> {
    const GUESS: usize = 1 << 10;
    let frame = frames::at(window, FrameKind::Keys, offset, GUESS)?;
    let keys = KeyFrame::parse(&frame.payload).map_err(|detail| Error::corrupt(FrameKind::Keys.name(), offset, detail))?;
    let (length, commit, salt) = (frame.reference.length, frame.header.commit, keys.salt);
    Ok((keys, KeysPlace { offset, length, commit, salt }))
}

/// Returns the salt that the key frame at `offset` tells; `None` if it does not read.
pub(super) fn salt_of_keys(window: &Window, offset: u64) -> Result<Option<[u8; SALT_LEN]>> {
    match read_keys(window, offset) {
        Ok((_, place)) => Ok(Some(place.salt)),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What unlocks an archive.
#[derive(Clone, Copy)]
pub(super) enum Unlock<'a> {
    /// What a user has, if anything, and what it unlocked before.
    Secret(Option<&'a Secret>, Option<&'a Keyring>),
    /// Keys that were unlocked before.
    Keyring(Option<&'a Keyring>),
}

impl<'a> From<&'a OpenOptions> for Unlock<'a> {
    fn from(options: &'a OpenOptions) -> Self {
        Self::Secret(options.key.as_ref(), options.unlocked.as_ref())
    }
}

/// Makes the window open sealed frames if the archive is encrypted. Returns what has to be said about its keys.
///
/// # Errors
///
/// `KeyNeeded`, `WrongKey`; `Corrupt` when no key frame reads; `Usage` when there are keys and nothing to open.
pub(super) fn unlock(window: &mut Window, with: Unlock<'_>, recover: bool) -> Result<Option<String>> {
    let Some(candidates) = candidates(window, recover)? else {
        return match with {
            Unlock::Keyring(Some(_)) => Err(Error::Usage { detail: "the archive is not encrypted, so it takes no key".into() }),
            _ => Ok(None),
        };
    };
    let Candidates { mut offsets, named } = candidates;
    let (mut damage, mut is_wrong, mut may_search, mut at) = (None::<Error>, false, recover, 0);
    let mut work = PasswordWork::new();
    loop {
        if at == offsets.len() && std::mem::take(&mut may_search) {
            let mut others = search(window)?;
            others.retain(|offset| !offsets.contains(offset));
            offsets.extend(others.into_iter().take(MAX_SEARCHED));
        }
        let Some(&offset) = offsets.get(at) else { break };
        match open_keys(window, offset, with, &mut work) {
            Ok(opener) => {
                window.set_opener(opener);
                return Ok(match damage {
                    Some(error) => Some(format!("{error}; other keys of the archive were used")),
                    None if at == 0 && named != Named::No => None,
                    None => Some("its newest keys were not found, earlier ones were used".into()),
                });
            }
            Err(Error::WrongKey) if at > 0 || named != Named::ByTail => is_wrong = true,
            Err(error) if work.is_spent() => return Err(error),
            Err(error) if is_damage(&error) => damage = damage.or(Some(error)),
            Err(error) => return Err(error),
        }
        at += 1;
    }
    Err(damage.filter(|_| !is_wrong).unwrap_or(Error::WrongKey))
}

/// Unlocks the key frame at `offset`.
fn open_keys(window: &Window, offset: u64, with: Unlock<'_>, work: &mut PasswordWork) -> Result<Opener> {
    let (keys, place) = read_keys(window, offset)?;
    let at = KeyPlace { offset, commit: place.commit };
    let keyring = match with {
        Unlock::Secret(_, Some(keyring)) if keys.has_slots_of(keyring) => keys.unlock_again(keyring, at)?,
        Unlock::Secret(Some(secret), _) => keys.unlock(secret, at, work)?,
        Unlock::Keyring(Some(keyring)) => keys.unlock_with(keyring.archive_key(), at)?,
        Unlock::Secret(None, _) | Unlock::Keyring(None) => return Err(Error::KeyNeeded),
    };
    Ok(Opener { keyring, keys: place, sessions: Mutex::new(Vec::new()) })
}

/// Returns what can be told of the keys of an archive without opening it; `None` if it is not encrypted.
pub(super) fn list(window: &Window) -> Result<Option<Vec<KeyInfo>>> {
    let Some(candidates) = candidates(window, true)? else { return Ok(None) };
    let mut damage = None;
    for offset in candidates.offsets {
        match read_keys(window, offset) {
            Ok((keys, _)) => return Ok(Some(keys.list())),
            Err(error) => damage = damage.or(Some(error)),
        }
    }
    Err(damage.expect("there is a candidate, and each gives keys or an error"))
}

/// Goes on with the keys of the state that was found, if others led to it.
///
/// # Errors
///
/// `WrongKey` when these do not open it: whoever has a former password reads former states only.
pub(super) fn settle(window: &mut Window, state: &State, with: Unlock<'_>) -> Result<()> {
    let offset = state.keys.0;
    if window.opener().is_none_or(|opener| offset == 0 || offset == opener.keys.offset) {
        return Ok(());
    }
    let opened =
        open_keys(window, offset, with, &mut PasswordWork::new()).and_then(|opener| opener.keys.check(state).map(|()| opener));
    match opened {
        Ok(opener) => window.set_opener(opener),
        // They were passed over before.
        Err(error) if is_damage(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Parses a header that may stand plain in an encrypted archive.
pub(super) fn plain_header(bytes: &[u8; HEADER_LEN], offset: u64) -> Result<(FrameHeader, u64)> {
    let (header, check) = FrameHeader::parse(bytes, offset)?;
    if header.kind.is_sealed() {
        return Err(Error::corrupt("frame header", offset, format!("a frame of kind {} is not sealed", header.kind.name())));
    }
    Ok((header, check))
}
