//! The secrets of users: passwords and user keys.

use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::{Zeroize, Zeroizing};

use crate::crypt::{KEY_LEN, KeyBytes};
use crate::error::{Error, Result};
use crate::limits::{MAX_ARGON2_LANES, MAX_ARGON2_MEMORY, MAX_ARGON2_WORK, MAX_PASSWORD_WORK};

/// A secret that opens an archive.
#[derive(Clone)]
pub enum Secret {
    /// A password, without normalization.
    Password(Zeroizing<Vec<u8>>),
    /// 32 random bytes.
    UserKey(Zeroizing<[u8; KEY_LEN]>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Secret::Password(…)",
            Self::UserKey(_) => "Secret::UserKey(…)",
        })
    }
}

impl Secret {
    /// Wraps a password.
    pub fn password(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Password(Zeroizing::new(bytes.into()))
    }

    /// Wraps a user key.
    pub fn user_key(mut key: [u8; KEY_LEN]) -> Self {
        let secret = Self::UserKey(Zeroizing::new(key));
        key.zeroize();
        secret
    }

    /// Parses a user key of 64 hexadecimal digits. Returns `None` for other text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * KEY_LEN {
            return None;
        }
        let mut key = Zeroizing::new([0; KEY_LEN]);
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self::UserKey(key))
    }
}

/// The cost of a password guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory, KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// The remaining work for password guesses. It limits the cost of a file that demands many
/// expensive guesses.
#[derive(Debug)]
pub struct PasswordWork {
    remaining: u64,
    is_spent: bool,
}

impl Default for PasswordWork {
    fn default() -> Self {
        Self::new()
    }
}

impl PasswordWork {
    /// Starts with the limit for opening an archive.
    pub fn new() -> Self {
        Self { remaining: MAX_PASSWORD_WORK, is_spent: false }
    }

    /// Starts with this limit, KiB.
    #[cfg(test)]
    pub(super) fn of(remaining: u64) -> Self {
        Self { remaining, is_spent: false }
    }

    /// Returns whether a guess was not made because it exceeded the limit.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Subtracts the cost of a guess.
    pub(super) fn spend(&mut self, cost: Argon2Cost) -> Result<()> {
        match self.remaining.checked_sub(cost.work()) {
            Some(remaining) => {
                self.remaining = remaining;
                Ok(())
            }
            None => {
                self.is_spent = true;
                let found = (MAX_PASSWORD_WORK - self.remaining).saturating_add(cost.work());
                Err(Error::Limit { what: "work of trying the password", found, limit: MAX_PASSWORD_WORK })
            }
        }
    }
}

impl Default for Argon2Cost {
    /// The second choice of RFC 9106: 64 MiB, 3 passes, 4 lanes.
    fn default() -> Self {
        Self { memory_kib: 64 << 10, passes: 3, lanes: 4 }
    }
}

impl Argon2Cost {
    /// Returns memory times passes, KiB.
    pub(super) fn work(self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }

    /// Rejects a cost that exceeds the limits, before memory is allocated for it.
    pub(super) fn check(self) -> Result<(), String> {
        let Self { memory_kib, passes, lanes } = self;
        let min_memory = lanes.saturating_mul(8);
        if lanes == 0 || lanes > MAX_ARGON2_LANES || passes == 0 || memory_kib < min_memory || memory_kib > MAX_ARGON2_MEMORY {
            return Err(format!("invalid Argon2 parameters: {memory_kib} KiB, {passes} passes, {lanes} lanes"));
        }
        if self.work() > MAX_ARGON2_WORK {
            return Err(format!("Argon2 with {passes} passes over {memory_kib} KiB exceeds {MAX_ARGON2_WORK} KiB in total"));
        }
        Ok(())
    }

    /// Computes Argon2id, version 1.3. The cost must be valid.
    pub(super) fn stretch(self, password: &[u8], salt: &[u8]) -> Result<KeyBytes> {
        let fail = |error: argon2::Error| Error::Usage { detail: format!("the password cannot be used: {error}") };
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(KEY_LEN)).map_err(fail)?;
        let count = params.block_count();
        let mut memory: Vec<Block> = Vec::new();
        memory.try_reserve_exact(count).map_err(|_| {
            let source = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            Error::io("allocate", "memory for Argon2", source)
        })?;
        memory.resize(count, Block::default());
        let mut key = Zeroizing::new([0; KEY_LEN]);
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let result = argon2.hash_password_into_with_memory(password, salt, &mut *key, &mut memory);
        memory.iter_mut().for_each(Zeroize::zeroize);
        result.map_err(fail)?;
        Ok(key)
    }
}
