//! Keys of encrypted archives: finding and unlocking key frames.
//!
//! An archive is encrypted if its footer says so. If the footer is lost, the superblock decides,
//! and then the first frame. The content of a key frame is authentic once a secret has unlocked it.
//! If a key frame is damaged, the first key frame of the file is used and this is reported.
//!
//! Spec: nra.md, sections 15 and 18.

use crate::footer::Footer;
use crate::frame::FrameKind;
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::damage::{is_damage, undamaged};
use crate::reader::decrypt::{FrameDecryptor, KeyFrameRef};
use crate::reader::found_commit::FoundCommit;
use crate::reader::frame_walk::{FrameWalk, Step};
use crate::reader::frames;
use crate::reader::window::Window;
use crate::recovery;
use crate::superblock::REQUIRED_ENCRYPTION;
use nra_core::archive::OpenOptions;
use nra_core::crypt::{KeyFrame, KeyInfo, KeyPlace, Keyring, PasswordWork, SALT_LEN, Secret};
use nra_core::error::{Error, Result};

/// Most key frames that are tried without a reference to them, newest first. Each password may cost
/// the time of Argon2.
const MAX_SEARCHED: usize = 16;

/// Possible locations of key frames.
struct Candidates {
    /// Offsets of key frames, best first.
    offsets: Vec<u64>,
    /// What refers to the first of them.
    named: Named,
}

/// What refers to a key frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The footer at the end of the file. No other key frame counts.
    ByFooter,
    /// The footer that a commit slot refers to. A newer commit with its own keys may follow.
    ByCommitSlot,
    No,
}

/// Returns where to look for key frames, or `None` if the archive is not encrypted.
fn candidates(window: &Window, recover: bool) -> Result<Option<Candidates>> {
    let first = SUPERBLOCK_LEN as u64;
    let from_footer = |footer: Footer, named| {
        // Other features are rejected by name before a key is requested.
        let is_encrypted = footer.required == REQUIRED_ENCRYPTION;
        is_encrypted.then(|| Candidates { offsets: vec![footer.keys.0, first], named })
    };
    if let Some(end) = undamaged(recovery::read_end(window))? {
        return Ok(from_footer(end.footer, Named::ByFooter));
    }
    if let Some((superblock, _)) = undamaged(window.superblock())? {
        if superblock.required != REQUIRED_ENCRYPTION {
            return Ok(None);
        }
        if let Some(footer) = window.footer_of_slots(superblock.slots)? {
            return Ok(from_footer(footer, Named::ByCommitSlot));
        }
        return Ok(Some(Candidates { offsets: vec![first], named: Named::No }));
    }
    // Without footer and superblock, the frames decide.
    if frames::header(window, FrameKind::Keys, first).is_ok() {
        return Ok(Some(Candidates { offsets: vec![first], named: Named::No }));
    }
    if !recover {
        return Ok(None);
    }
    let offsets = search(window)?;
    Ok((!offsets.is_empty()).then_some(Candidates { offsets, named: Named::No }))
}

/// Finds key frames by a scan, newest first. Finds none if the archive is not encrypted.
fn search(window: &Window) -> Result<Vec<u64>> {
    let (mut walk, mut found) = (FrameWalk::new(window), Vec::new());
    while let Some(step) = walk.next()? {
        match step {
            Step::Frame { offset, start } if start.header.kind == FrameKind::Keys => found.push(offset),
            // An unencrypted archive starts with readable frames.
            Step::Frame { start, .. } if found.is_empty() && start.header.kind.is_sealed() => break,
            _ => {}
        }
    }
    found.reverse();
    Ok(found)
}

fn read_keys(window: &Window, offset: u64) -> Result<(KeyFrame, KeyFrameRef)> {
    const GUESS: usize = 1 << 10;
    let frame = frames::at(window, FrameKind::Keys, offset, GUESS)?;
    let keys = KeyFrame::parse(&frame.payload).map_err(|detail| FrameKind::Keys.corrupt(offset, detail))?;
    let (length, commit, salt) = (frame.reference.length, frame.header.commit, keys.salt);
    Ok((keys, KeyFrameRef { offset, length, commit, salt }))
}

/// Returns the salt in the key frame at `offset`, or `None` if it is damaged.
pub(super) fn salt_of_key_frame(window: &Window, offset: u64) -> Result<Option<[u8; SALT_LEN]>> {
    Ok(undamaged(read_keys(window, offset))?.map(|(_, keys)| keys.salt))
}

/// What unlocks an archive.
#[derive(Clone, Copy)]
pub(super) enum Unlock<'a> {
    /// A secret of the user, if any, and keys that it unlocked before.
    Secret(Option<&'a Secret>, Option<&'a Keyring>),
    /// Keys that were unlocked before.
    Keyring(Option<&'a Keyring>),
}

impl<'a> From<&'a OpenOptions> for Unlock<'a> {
    fn from(options: &'a OpenOptions) -> Self {
        Self::Secret(options.key.as_ref(), options.unlocked.as_ref())
    }
}

/// Unlocks the archive if it is encrypted, so that `window` decrypts frames. Returns a remark about
/// the keys.
///
/// # Errors
///
/// `KeyNeeded` or `WrongKey`; `Corrupt` if no key frame is valid; `Usage` if keys are given for an
/// unencrypted archive.
pub(super) fn unlock(window: &mut Window, with: Unlock<'_>, recover: bool) -> Result<Option<String>> {
    let Some(candidates) = candidates(window, recover)? else {
        return match with {
            Unlock::Keyring(Some(_)) => Err(Error::usage("the archive is not encrypted and needs no key")),
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
            Ok(decryptor) => {
                window.set_decryptor(decryptor);
                return Ok(match damage {
                    Some(error) => Some(format!("{error}; other keys of the archive were used")),
                    None if at == 0 && named != Named::No => None,
                    None => Some("the newest keys were not found; earlier keys were used".into()),
                });
            }
            Err(Error::WrongKey) if at > 0 || named != Named::ByFooter => is_wrong = true,
            Err(error) if work.is_spent() => return Err(error),
            Err(error) if is_damage(&error) => damage = damage.or(Some(error)),
            Err(error) => return Err(error),
        }
        at += 1;
    }
    Err(damage.filter(|_| !is_wrong).unwrap_or(Error::WrongKey))
}

fn open_keys(window: &Window, offset: u64, with: Unlock<'_>, work: &mut PasswordWork) -> Result<FrameDecryptor> {
    let (keys, place) = read_keys(window, offset)?;
    let at = KeyPlace { offset, commit: place.commit };
    let keyring = match with {
        Unlock::Secret(_, Some(keyring)) if keys.has_slots_of(keyring) => keys.unlock_again(keyring, at)?,
        Unlock::Secret(Some(secret), _) => keys.unlock(secret, at, work)?,
        Unlock::Keyring(Some(keyring)) => keys.unlock_with(keyring.archive_key(), at)?,
        Unlock::Secret(None, _) | Unlock::Keyring(None) => return Err(Error::KeyNeeded),
    };
    Ok(FrameDecryptor::new(keyring, place))
}

/// Lists the keys of an archive without unlocking it. Returns `None` if it is not encrypted.
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

/// Switches to the keys of the commit that was found, if other keys led to it.
///
/// # Errors
///
/// `WrongKey` if the secret does not unlock them: a former password only opens former commits.
pub(super) fn switch_keys(window: &mut Window, found: &FoundCommit, with: Unlock<'_>) -> Result<()> {
    let offset = found.keys.0;
    if window.decryptor().is_none_or(|decryptor| offset == 0 || offset == decryptor.keys.offset) {
        return Ok(());
    }
    let opened = open_keys(window, offset, with, &mut PasswordWork::new())
        .and_then(|decryptor| found.check_keys(&decryptor.keys).map(|()| decryptor));
    // A damaged key frame was skipped before.
    if let Some(decryptor) = undamaged(opened)? {
        window.set_decryptor(decryptor);
    }
    Ok(())
}
