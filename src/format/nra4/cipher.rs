//! Encrypts blocks with AES-256-GCM: nonce (12 bytes), ciphertext, tag (16 bytes).
//!
//! There is no associated data.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};

use nra_core::error::{Error, Result};

const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;

/// A cipher with the key of an archive.
pub(super) struct Cipher(Aes256Gcm);

impl Cipher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Aes256Gcm::new(key.into()))
    }

    /// Decrypts a block. Returns `None` if it was not encrypted with this key.
    pub(super) fn decrypt(&self, stored: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = stored.split_first_chunk::<NONCE_LEN>()?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_LEN>()?;
        let mut bytes = ciphertext.to_vec();
        self.0.decrypt_inout_detached(nonce.into(), &[], bytes.as_mut_slice().into(), tag.into()).ok()?;
        Some(bytes)
    }

    /// Encrypts `bytes` with a random nonce.
    ///
    /// Earlier versions counted nonces from 0 in every run and therefore used them repeatedly.
    pub(super) fn encrypt(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)
            .map_err(|error| Error::io("get", "random bytes", std::io::Error::other(error.to_string())))?;
        let mut stored = Vec::with_capacity(NONCE_LEN + bytes.len() + TAG_LEN);
        stored.extend_from_slice(&nonce);
        stored.extend_from_slice(bytes);
        let encrypted = self.0.encrypt_inout_detached((&nonce).into(), &[], (&mut stored[NONCE_LEN..]).into());
        let tag = encrypted.map_err(|_| Error::usage("cannot encrypt a block: it is too long"))?;
        stored.extend_from_slice(&tag);
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decrypt_restores_encrypted_bytes_and_nonces_differ() {
        let (cipher, other) = (Cipher::new(&[7; 32]), Cipher::new(&[8; 32]));
        for len in [0, 1, 1_000] {
            let (first, second) = (cipher.encrypt(&vec![1; len]).unwrap(), cipher.encrypt(&vec![1; len]).unwrap());
            assert_ne!(first, second);
            assert_eq!(first.len(), len + 28);
            assert_eq!(cipher.decrypt(&first), Some(vec![1; len]));
            assert_eq!(other.decrypt(&first), None);
            assert_eq!(cipher.decrypt(&first[..first.len() - 1]), None);
        }
        assert_eq!(cipher.decrypt(&[0; 27]), None);
    }
}
