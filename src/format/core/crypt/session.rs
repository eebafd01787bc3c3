//! Encrypts and decrypts frames.
//!
//! All frames of a commit share a random salt, and each has its own offset in the file. So no two
//! frames have the same key, even in copies of a file that were appended to separately.

use std::fmt;
use std::ops::Range;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use zeroize::Zeroizing;

use crate::crypt::{KEY_LEN, KeyBytes, derive, random};
use crate::error::Result;

/// Length of the salt of a commit, bytes.
pub const SALT_LEN: usize = 24;
/// Length of the tag of a segment, bytes.
pub const TAG_LEN: usize = 16;
/// Bytes of a payload or block index that are encrypted together: the minimum to decrypt for a few
/// bytes.
pub const SEGMENT: u32 = 16 << 10;

const FRAME_INFO: &[u8] = b"nra5 frame";
const FRAME_MAC_LEN: usize = 8;

/// Returns the length of `len` bytes as encrypted segments with their tags.
pub fn sealed_len(len: u32) -> u64 {
    u64::from(len) + u64::from(len.div_ceil(SEGMENT)) * TAG_LEN as u64
}

/// A part of a frame, the first number of a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum FramePart {
    /// Header.
    Header = 0,
    /// Payload.
    Payload = 1,
    /// Block index.
    BlockIndex = 2,
}

/// The data was changed or moved, or the key is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAuthentic;

/// Derives the keys of the frames of a commit.
#[derive(Clone)]
pub struct Session {
    archive_key: KeyBytes,
    salt: [u8; SALT_LEN],
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(…)")
    }
}

impl Session {
    /// Starts with a new random salt.
    pub(super) fn new(archive_key: &KeyBytes) -> Result<Self> {
        let mut salt = [0; SALT_LEN];
        random(&mut salt)?;
        Ok(Self::with_salt(archive_key, salt))
    }

    /// Continues with the salt of existing frames.
    pub(super) fn with_salt(archive_key: &KeyBytes, salt: [u8; SALT_LEN]) -> Self {
        Self { archive_key: archive_key.clone(), salt }
    }

    /// Returns the salt, which is stored at the start of each frame.
    pub fn salt(&self) -> &[u8; SALT_LEN] {
        &self.salt
    }

    /// Derives the key of the frame at `offset`. `required` are the required features of the
    /// archive.
    pub fn frame_key(&self, offset: u64, required: u32) -> FrameKey {
        let mut bytes = Zeroizing::new([0; KEY_LEN + FRAME_MAC_LEN]);
        let info = [FRAME_INFO, &required.to_le_bytes(), &offset.to_le_bytes()];
        derive(&self.archive_key, &self.salt, &info, &mut *bytes);
        let (key, mac) = bytes.split_at(KEY_LEN);
        let cipher = Aes256Gcm::new_from_slice(key).expect("32 bytes");
        FrameKey {
            cipher,
            mac: u64::from_le_bytes(mac.try_into().expect("8 bytes")),
            #[cfg(any(test, feature = "testing"))]
            mark: super::watch::Mark::new(&self.archive_key, key),
        }
    }
}

/// The key of a frame, and the MAC that references to the frame contain.
#[derive(Clone)]
pub struct FrameKey {
    cipher: Aes256Gcm,
    /// Frame MAC.
    pub mac: u64,
    #[cfg(any(test, feature = "testing"))]
    mark: super::watch::Mark,
}

impl fmt::Debug for FrameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameKey(…)")
    }
}

/// Returns the nonce of a segment: part, then number.
pub(super) fn nonce(part: FramePart, segment: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&(part as u32).to_le_bytes());
    nonce[4..].copy_from_slice(&segment.to_le_bytes());
    nonce
}

impl FrameKey {
    /// Encrypts a segment in place and returns its tag.
    pub fn seal(&self, part: FramePart, segment: u64, bytes: &mut [u8]) -> [u8; TAG_LEN] {
        #[cfg(any(test, feature = "testing"))]
        self.mark.seal(nonce(part, segment));
        let tag = self.cipher.encrypt_inout_detached(&nonce(part, segment).into(), &[], bytes.into());
        tag.expect("a segment is far shorter than AES-GCM allows").into()
    }

    /// Decrypts a segment in place.
    pub fn open(&self, part: FramePart, segment: u64, bytes: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), NotAuthentic> {
        let opened = self.cipher.decrypt_inout_detached(&nonce(part, segment).into(), &[], bytes.into(), tag.into());
        opened.map_err(|_| NotAuthentic)
    }

    /// Decrypts consecutive segments of a part, of which `first` is the first number. Segments that
    /// are not authentic become zeros. Returns the bytes, and whether all segments are authentic.
    pub fn open_segments(&self, part: FramePart, first: u64, sealed: &[u8]) -> (Vec<u8>, bool) {
        let (segment, tag_len) = (usize::try_from(SEGMENT).expect("16 KiB"), TAG_LEN);
        let mut plain = Vec::with_capacity(sealed.len());
        let mut complete = true;
        for (number, sealed) in (first..).zip(sealed.chunks(segment + tag_len)) {
            let Some((bytes, tag)) = sealed.split_last_chunk() else {
                complete = false;
                break;
            };
            let start = plain.len();
            plain.extend_from_slice(bytes);
            let plain = &mut plain[start..];
            if self.open(part, number, plain, tag).is_err() {
                plain.fill(0);
                complete = false;
            }
        }
        (plain, complete)
    }
}

/// Returns the number of the first segment that contains `range` of a part of `len` bytes, and the
/// range of these segments in the encrypted part.
pub fn segments_of(range: Range<u64>, len: u32) -> (u64, Range<u64>) {
    let (segment, sealed) = (u64::from(SEGMENT), u64::from(SEGMENT) + TAG_LEN as u64);
    let first = range.start / segment;
    let last = range.end.saturating_sub(1).max(range.start) / segment;
    (first, first * sealed..((last + 1) * sealed).min(sealed_len(len)))
}
