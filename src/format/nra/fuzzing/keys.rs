//! Key frames.

use nra_core::crypt::{KeyFrame, KeyPlace, PasswordWork, Secret};

/// Parses the payload of a key frame and encodes it again; `None` when it is refused.
pub fn reencode_keys(payload: &[u8]) -> Option<Vec<u8>> {
    KeyFrame::parse(payload).ok().map(|frame| frame.encode())
}

/// Says whether a raw key opens the payload of a key frame as the first of a file. Slots for passwords are not tried: Argon2 takes its time.
pub fn opens(payload: &[u8], key: [u8; 32]) -> bool {
    let place = KeyPlace { offset: 256, commit: 1 };
    KeyFrame::parse(payload).is_ok_and(|frame| frame.unlock(&Secret::raw(key), place, &mut PasswordWork::new()).is_ok())
}
