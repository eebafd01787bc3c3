//! AES-256-GCM over whole blocks as stored: nonce (12 bytes), ciphertext, tag (16 bytes); no associated data.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};

use nra_core::error::{Error, Result};

const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;

/// The key of an archive.
pub(super) struct Cipher(Aes256Gcm);

impl Cipher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Aes256Gcm::new(key.into()))
    }

    /// Returns what was sealed, or nothing when it was not sealed with this key.
    pub(super) fn open(&self, stored: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = stored.split_first_chunk::<NONCE_LEN>()?;
        let (sealed, tag) = rest.split_last_chunk::<TAG_LEN>()?;
        let mut bytes = sealed.to_vec();
        self.0.decrypt_inout_detached(nonce.into(), &[], bytes.as_mut_slice().into(), tag.into()).ok()?;
        Some(bytes)
    }

    /// Seals `bytes` with a random nonce: earlier versions counted from 0 in every run, so that nonces came back.
    pub(super) fn seal(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)
            .map_err(|error| Error::io("get", "random bytes", std::io::Error::other(error.to_string())))?;
        let mut stored = Vec::with_capacity(NONCE_LEN + bytes.len() + TAG_LEN);
        stored.extend_from_slice(&nonce);
        stored.extend_from_slice(bytes);
        let sealed = self.0.encrypt_inout_detached((&nonce).into(), &[], (&mut stored[NONCE_LEN..]).into());
        let tag = sealed.map_err(|_| Error::Usage { detail: "a block is too long to be encrypted".into() })?;
        stored.extend_from_slice(&tag);
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_come_back_and_nonces_differ() {
        let (cipher, other) = (Cipher::new(&[7; 32]), Cipher::new(&[8; 32]));
        for len in [0, 1, 1_000] {
            let (first, second) = (cipher.seal(&vec![1; len]).unwrap(), cipher.seal(&vec![1; len]).unwrap());
            assert_ne!(first, second);
            assert_eq!(first.len(), len + 28);
            assert_eq!(cipher.open(&first), Some(vec![1; len]));
            assert_eq!(other.open(&first), None);
            assert_eq!(cipher.open(&first[..first.len() - 1]), None);
        }
        assert_eq!(cipher.open(&[0; 27]), None);
    }
}
