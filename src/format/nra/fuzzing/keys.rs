//! Key frames.

use nra_core::crypt::{KeyFrame, KeyPlace, PasswordWork, Secret};

/// Parses the payload of a key frame and encodes it again. Returns `None` if the payload is
/// rejected.
pub fn reencode_keys(payload: &[u8]) -> Option<Vec<u8>> {
    KeyFrame::parse(payload).ok().map(|frame| frame.encode())
}

/// Returns whether a user key unlocks the payload of the first key frame of a file. Key slots for
/// passwords are not tried because Argon2 is slow.
pub fn opens(payload: &[u8], key: [u8; 32]) -> bool {
    let place = KeyPlace { offset: 256, commit: 1 };
    KeyFrame::parse(payload).is_ok_and(|frame| frame.unlock(&Secret::user_key(key), place, &mut PasswordWork::new()).is_ok())
}
