//! Decrypting the sealed frames of an archive that was unlocked.
//!
//! Spec: nra.md, section 18.

use std::sync::{Mutex, PoisonError};

use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SEALED_SYNC};
use crate::layout::sealed;
use crate::superblock::REQUIRED_ENCRYPTION;
use nra_core::crypt::{FrameKey, FramePart, KeyFrame, KeyPlace, Keyring, SALT_LEN, Session};
use nra_core::error::{Error, Result};

/// Most salts that are cached. Each commit has its own.
const MAX_SESSIONS: usize = 256;

/// Decrypts the sealed frames of an archive.
pub(super) struct FrameDecryptor {
    keyring: Keyring,
    pub(super) keys: KeyFrameRef,
    sessions: Mutex<Vec<Session>>,
}

/// A key frame that was read, with its commit and the salt of the frames of that commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyFrameRef {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) commit: u64,
    pub(super) salt: [u8; SALT_LEN],
}

impl FrameDecryptor {
    pub(super) fn new(keyring: Keyring, keys: KeyFrameRef) -> Self {
        Self { keyring, keys, sessions: Mutex::default() }
    }

    pub(super) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

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

    /// Returns the key of the frame at `offset` if one of the cached salts yields this frame MAC.
    pub(super) fn key_by_mac(&self, offset: u64, header_checksum: u64) -> Option<FrameKey> {
        /// Salts that are tried, the latest first. Reading the right one from the file is not much
        /// more expensive.
        const TRIED: usize = 4;
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let tried: Vec<Session> = sessions.iter().rev().take(TRIED).cloned().collect();
        drop(sessions);
        tried.iter().map(|session| session.frame_key(offset, REQUIRED_ENCRYPTION)).find(|key| key.mac == header_checksum)
    }

    pub(super) fn check_keys(&self, payload: &[u8], offset: u64, commit: u64) -> Result<()> {
        let keys = KeyFrame::parse(payload).map_err(|detail| FrameKind::Keys.corrupt(offset, detail))?;
        keys.unlock_with(self.keyring.archive_key(), KeyPlace { offset, commit }).map(drop)
    }

    /// Decrypts the start of the frame at `offset`.
    pub(super) fn header(&self, bytes: &[u8; SEALED_HEADER_LEN], offset: u64) -> Result<([u8; HEADER_LEN], FrameKey)> {
        let corrupt = |detail: &str| Error::corrupt("frame header", offset, detail);
        if !bytes.starts_with(&SEALED_SYNC) {
            return Err(corrupt("no sealed frame starts here"));
        }
        let key = self.key(offset, sealed::SALT.get(bytes));
        let mut header = sealed::HEADER.get(bytes);
        key.open(FramePart::Header, 0, &mut header, &sealed::TAG.get(bytes))
            .map_err(|_| corrupt("authentication failed: it was changed or moved"))?;
        Ok((header, key))
    }
}

/// Parses the header of a frame that is not sealed in an encrypted archive.
pub(super) fn parse_plain_header(bytes: &[u8; HEADER_LEN], offset: u64) -> Result<(FrameHeader, u64)> {
    let (header, header_checksum) = FrameHeader::parse(bytes, offset)?;
    if header.kind.is_sealed() {
        return Err(Error::corrupt("frame header", offset, format!("a frame of kind {} is not sealed", header.kind.name())));
    }
    Ok((header, header_checksum))
}
