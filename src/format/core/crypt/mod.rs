//! Encryption: keys, key slots, and the encryption of frames.
//!
//! All code that handles keys is here. Promises: key material is wiped from memory when dropped and
//! is never in `Debug` output. The cost that a key frame demands is compared with limits before
//! memory is allocated. A frame key is used for a single frame.
//!
//! Spec: nra.md, section 18. Rationale: `docs/design/encryption.md`.

mod keyring;
mod secret;
mod session;
mod slot;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "testing"))]
pub mod watch;

pub use keyring::KeyFrame;
pub use keyring::{KeyInfo, KeyPlace, Keyring};
pub use secret::PasswordWork;
pub use secret::{Argon2Cost, Secret};
pub use session::{FrameKey, FramePart, segments_of};
pub use session::{SALT_LEN, SEGMENT, Session, TAG_LEN, sealed_len};
pub use slot::KeyKind;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Length of every key, bytes.
pub const KEY_LEN: usize = 32;

/// The bytes of a key, wiped when dropped.
pub type KeyBytes = Zeroizing<[u8; KEY_LEN]>;

/// Returns whether the processor supports AES-GCM in hardware. Encryption is many times slower
/// without it.
pub fn is_accelerated() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
    }
    #[cfg(target_arch = "aarch64")]
    {
        std::arch::is_aarch64_feature_detected!("aes")
    }
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    {
        false
    }
}

/// HKDF-SHA-256 of `key` with `salt`; `info` is the concatenation of its parts. Fills `out`.
fn derive(key: &[u8; KEY_LEN], salt: &[u8], info: &[&[u8]], out: &mut [u8]) {
    let hkdf = Hkdf::<Sha256>::new(Some(salt), key);
    hkdf.expand_multi_info(info, out).expect("the output is at most 255 times 32 bytes");
}

/// Fills `bytes` with random bytes.
fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::io("get", "random bytes", std::io::Error::other(error.to_string())))
}
