//! The archive key with its slots, and the key frame that stores them.

use std::fmt;

use zeroize::Zeroizing;

use crate::crypt::session::{SALT_LEN, Session};
use crate::crypt::slot::{SLOT_LEN, Slot};
use crate::crypt::{Argon2Cost, KEY_LEN, KeyBytes, KeyKind, PasswordWork, Secret, derive, random};
use crate::error::{Error, Result};
use crate::layout::key_frame as field;
use crate::limits::{MAX_KEY_SLOTS, MAX_PASSWORD_WORK};
use crate::wire::Malformed;

/// Length of the MAC of a key frame, bytes.
pub const MAC_LEN: usize = 32;
/// Length of the payload before the slots, bytes.
pub const FIXED_LEN: usize = field::MAC.offset + MAC_LEN;

const KEYS_INFO: &[u8] = b"nra5 keys";

/// Public information on a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// The kind of key.
    pub kind: KeyKind,
    /// The label assigned by the user.
    pub label: String,
}

/// The position of a key frame, which its MAC covers in addition to the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlace {
    /// Offset of the frame.
    pub offset: u64,
    /// Number of the commit.
    pub commit: u64,
}

/// The payload of a key frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFrame {
    slots: Vec<Slot>,
    /// Salt of the frames of its commit.
    pub salt: [u8; SALT_LEN],
    mac: [u8; MAC_LEN],
}

impl KeyFrame {
    /// Encodes the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        let count = u16::try_from(self.slots.len()).expect("the number of slots is limited");
        field::SLOTS.put(&mut bytes, count.to_le_bytes());
        field::SALT.put(&mut bytes, self.salt);
        field::MAC.put(&mut bytes, self.mac);
        self.slots.iter().for_each(|slot| bytes.extend_from_slice(&slot.encode()));
        bytes
    }

    /// Parses the payload. It is not authentic until it is unlocked.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let Some((fixed, slots)) = payload.split_at_checked(FIXED_LEN) else {
            return Err(format!("{} bytes", payload.len()));
        };
        let count = usize::from(u16::from_le_bytes(field::SLOTS.get(fixed)));
        if count == 0 || count > MAX_KEY_SLOTS || slots.len() != count * SLOT_LEN {
            return Err(format!("{count} key slots in {} bytes", payload.len()));
        }
        if !field::RESERVED.is_zero(fixed) {
            return Err("reserved bytes are not zero".into());
        }
        let (slots, _) = slots.as_chunks();
        let slots = slots.iter().map(Slot::parse).collect::<Result<_, _>>()?;
        Ok(Self { slots, salt: field::SALT.get(fixed), mac: field::MAC.get(fixed) })
    }

    /// Returns the public information on the keys.
    pub fn list(&self) -> Vec<KeyInfo> {
        list(&self.slots)
    }

    /// Computes the MAC. It depends on the archive key, so it also proves that all slots contain
    /// the same key.
    fn compute_mac(&self, archive_key: &KeyBytes, place: KeyPlace) -> [u8; MAC_LEN] {
        let payload = self.encode();
        let mut mac = [0; MAC_LEN];
        let (before, after) = (&payload[..field::MAC.offset], &payload[FIXED_LEN..]);
        let info = [KEYS_INFO, &place.offset.to_le_bytes(), &place.commit.to_le_bytes(), before, after];
        derive(archive_key, &[], &info, &mut mac);
        mac
    }

    /// Unlocks the frame at `place` with a secret.
    ///
    /// # Errors
    ///
    /// `WrongKey` if it opens no slot, `Limit` if guesses would exceed `work`, `Corrupt` if the
    /// frame was changed.
    pub fn unlock(self, secret: &Secret, place: KeyPlace, work: &mut PasswordWork) -> Result<Keyring> {
        let Some((number, archive_key)) = find(&self.slots, secret, work)? else { return Err(Error::WrongKey) };
        self.unlock_with(&archive_key, place).map(|keyring| Keyring { used: Some(number), ..keyring })
    }

    /// Returns whether the frame has the slots of a keyring, so that the same secrets open it.
    pub fn has_slots_of(&self, keyring: &Keyring) -> bool {
        self.slots == keyring.slots
    }

    /// Unlocks the frame at `place`, which has the slots of a keyring, with that keyring.
    pub fn unlock_again(self, keyring: &Keyring, place: KeyPlace) -> Result<Keyring> {
        self.unlock_with(&keyring.archive_key, place).map(|again| Keyring { used: keyring.used, ..again })
    }

    /// Unlocks the frame at `place` with the archive key.
    pub fn unlock_with(self, archive_key: &KeyBytes, place: KeyPlace) -> Result<Keyring> {
        if !is_equal(&self.compute_mac(archive_key, place), &self.mac) {
            return Err(Error::corrupt("keys", place.offset, "its MAC does not match: it was changed or moved"));
        }
        Ok(Keyring { archive_key: archive_key.clone(), slots: self.slots, used: None })
    }
}

/// Compares MACs in constant time.
fn is_equal(a: &[u8; MAC_LEN], b: &[u8; MAC_LEN]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    difference == 0
}

/// Returns the number of the slot that a secret opens, and the archive key.
fn find(slots: &[Slot], secret: &Secret, work: &mut PasswordWork) -> Result<Option<(usize, KeyBytes)>> {
    for (number, slot) in slots.iter().enumerate() {
        if let Some(archive_key) = slot.unwrap(secret, work)? {
            return Ok(Some((number, archive_key)));
        }
    }
    Ok(None)
}

fn list(slots: &[Slot]) -> Vec<KeyInfo> {
    slots.iter().map(|slot| KeyInfo { kind: slot.kind, label: slot.label.clone() }).collect()
}

/// The unlocked keys of an archive.
#[derive(Clone)]
pub struct Keyring {
    archive_key: KeyBytes,
    slots: Vec<Slot>,
    /// Number of the slot that was opened.
    used: Option<usize>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.list()).finish_non_exhaustive()
    }
}

impl Keyring {
    /// Creates a random archive key that `secret` opens. `cost` applies to passwords. `label` has
    /// at most 16 bytes.
    ///
    /// # Errors
    ///
    /// `Usage` for an empty password or an invalid label; `Io` if there are no random bytes or no
    /// memory.
    pub fn create(secret: &Secret, cost: Argon2Cost, label: &str) -> Result<Self> {
        let mut archive_key = Zeroizing::new([0; KEY_LEN]);
        random(&mut *archive_key)?;
        let mut keyring = Self { archive_key, slots: Vec::new(), used: Some(0) };
        keyring.add(secret, cost, label)?;
        Ok(keyring)
    }

    /// Adds a secret that opens the archive.
    ///
    /// # Errors
    ///
    /// As [`Keyring::create`]; `Limit` if there are too many keys, or trying all of them would
    /// exceed the limit.
    pub fn add(&mut self, secret: &Secret, cost: Argon2Cost, label: &str) -> Result<()> {
        let (found, limit) = (self.slots.len() as u64 + 1, MAX_KEY_SLOTS as u64);
        if found > limit {
            return Err(Error::Limit { what: "number of keys", found, limit });
        }
        self.slots.push(self.slot(secret, cost, label, None)?);
        Ok(())
    }

    /// Removes a key by its number from 0.
    ///
    /// # Errors
    ///
    /// `Usage` if there is no such key, or it is the last one.
    pub fn remove(&mut self, number: usize) -> Result<()> {
        if number >= self.slots.len() {
            let detail = format!("there is no key {}; the archive has {}", number + 1, self.slots.len());
            return Err(Error::Usage { detail });
        }
        if self.slots.len() == 1 {
            return Err(Error::Usage { detail: "the last key cannot be removed: nobody could open the archive".into() });
        }
        self.slots.remove(number);
        self.used = self.used.filter(|&used| used != number).map(|used| used - usize::from(used > number));
        Ok(())
    }

    /// Replaces a key by its number from 0 and keeps its label.
    ///
    /// # Errors
    ///
    /// As [`Keyring::add`] and [`Keyring::remove`].
    pub fn replace(&mut self, number: usize, secret: &Secret, cost: Argon2Cost) -> Result<()> {
        let Some(slot) = self.slots.get(number) else {
            let detail = format!("there is no key {}; the archive has {}", number + 1, self.slots.len());
            return Err(Error::Usage { detail });
        };
        self.slots[number] = self.slot(secret, cost, &slot.label, Some(number))?;
        Ok(())
    }

    /// Returns a new slot that replaces slot `replaced`, if given. The work for all passwords must
    /// stay within the limit of readers.
    fn slot(&self, secret: &Secret, cost: Argon2Cost, label: &str, replaced: Option<usize>) -> Result<Slot> {
        let others = self.slots.iter().enumerate().filter(|(number, _)| Some(*number) != replaced);
        let own = if matches!(secret, Secret::Password(_)) { cost.work() } else { 0 };
        let found = others.map(|(_, slot)| slot.work()).sum::<u64>().saturating_add(own);
        if found > MAX_PASSWORD_WORK {
            return Err(Error::Limit { what: "work of trying the passwords", found, limit: MAX_PASSWORD_WORK });
        }
        Slot::wrap(&self.archive_key, secret, cost, label)
    }

    /// Returns the number of the key, from 0, that this secret is.
    ///
    /// # Errors
    ///
    /// `Io` if there is no memory.
    pub fn opened_by(&self, secret: &Secret) -> Result<Option<usize>> {
        Ok(find(&self.slots, secret, &mut PasswordWork::new())?.map(|(number, _)| number))
    }

    /// Returns the public information on the keys, in order.
    pub fn list(&self) -> Vec<KeyInfo> {
        list(&self.slots)
    }

    /// Returns the number of the key that opened the archive, from 0.
    pub fn used(&self) -> Option<usize> {
        self.used
    }

    /// Returns whether both have the same archive key.
    pub fn is_of_same_archive(&self, other: &Self) -> bool {
        self.archive_key == other.archive_key
    }

    /// Returns the key from which all frame keys are derived.
    pub fn archive_key(&self) -> &KeyBytes {
        &self.archive_key
    }

    /// Starts the encryption of a commit.
    pub fn session(&self) -> Result<Session> {
        Session::new(&self.archive_key)
    }

    /// Continues with the salt of existing frames.
    pub fn session_of(&self, salt: [u8; SALT_LEN]) -> Session {
        Session::with_salt(&self.archive_key, salt)
    }

    /// Returns the payload of a key frame at `place` for a commit with this salt.
    pub fn frame(&self, salt: [u8; SALT_LEN], place: KeyPlace) -> Vec<u8> {
        let mut frame = KeyFrame { slots: self.slots.clone(), salt, mac: [0; MAC_LEN] };
        frame.mac = frame.compute_mac(&self.archive_key, place);
        frame.encode()
    }

    /// Returns the length of that payload, bytes.
    pub fn frame_len(&self) -> usize {
        FIXED_LEN + self.slots.len() * SLOT_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum cost of a slot.
    const EXPENSIVE: Argon2Cost = Argon2Cost { memory_kib: 1 << 20, passes: 4, lanes: 1 };
    const CHEAP: Argon2Cost = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };

    #[test]
    fn work_for_passwords_is_limited() {
        let mut keyring = Keyring::create(&Secret::password("a"), CHEAP, "").unwrap();
        for _ in 0..4 {
            let mut slot = keyring.slots[0].clone();
            slot.kind = KeyKind::Password(EXPENSIVE);
            keyring.slots.push(slot);
        }
        keyring.slots.remove(0);
        assert!(matches!(keyring.add(&Secret::password("b"), CHEAP, ""), Err(Error::Limit { .. })));
        keyring.add(&Secret::user_key([1; KEY_LEN]), EXPENSIVE, "").unwrap();
        keyring.replace(0, &Secret::password("b"), CHEAP).unwrap();
        keyring.add(&Secret::password("c"), CHEAP, "").unwrap();
        // Each guess is counted, and none is made past the limit.
        let mut work = PasswordWork::of(2 * CHEAP.work());
        assert!(find(&keyring.slots[..1], &Secret::password("x"), &mut work).unwrap().is_none());
        assert!(find(&keyring.slots[..1], &Secret::password("b"), &mut work).unwrap().is_some() && !work.is_spent());
        assert!(matches!(find(&keyring.slots[..1], &Secret::password("b"), &mut work), Err(Error::Limit { .. })));
        assert!(work.is_spent());
        assert!(find(&keyring.slots, &Secret::user_key([1; KEY_LEN]), &mut work).unwrap().is_some(), "user keys cost nothing");
    }
}
