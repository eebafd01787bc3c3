//! Key slots: the archive key, encrypted with a password or a user key.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use zeroize::Zeroizing;

use crate::crypt::session::NotAuthentic;
use crate::crypt::{Argon2Cost, KEY_LEN, KeyBytes, PasswordWork, Secret, TAG_LEN, derive, random};
use crate::error::{Error, Result};
use crate::layout::key_slot as field;
use crate::wire::Malformed;

/// Length of a slot, bytes.
pub(super) const SLOT_LEN: usize = 128;
/// Longest label, bytes.
pub(super) const LABEL_LEN: usize = 16;

const WRAP_INFO: &[u8] = b"nra5 wrap";
const KIND_PASSWORD: u8 = 1;
const KIND_USER_KEY: u8 = 2;

/// The kind of key that opens a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A password, stretched with Argon2id.
    Password(Argon2Cost),
    /// A user key.
    UserKey,
}

/// A key slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub kind: KeyKind,
    salt: [u8; KEY_LEN],
    wrapped: [u8; KEY_LEN + TAG_LEN],
    pub label: String,
}

impl Slot {
    /// Encrypts `archive_key` with a secret.
    pub(super) fn wrap(archive_key: &KeyBytes, secret: &Secret, cost: Argon2Cost, label: &str) -> Result<Self> {
        if label.len() > LABEL_LEN || label.contains('\0') {
            let detail = format!("a key label has at most {LABEL_LEN} bytes and no NUL: '{label}'");
            return Err(Error::Usage { detail });
        }
        let kind = match secret {
            Secret::Password(password) if password.is_empty() => {
                return Err(Error::Usage { detail: "a password must not be empty".into() });
            }
            Secret::Password(_) => KeyKind::Password(cost),
            Secret::UserKey(_) => KeyKind::UserKey,
        };
        cost.check().map_err(|detail| Error::Usage { detail })?;
        let mut salt = [0; KEY_LEN];
        random(&mut salt)?;
        let mut slot = Self { kind, salt, wrapped: [0; KEY_LEN + TAG_LEN], label: label.to_owned() };
        let wrapping = slot.wrapping_key(secret)?.expect("the slot was made for this kind of secret");
        let mut key = archive_key.clone();
        let nonce = [0; 12].into();
        let tag = cipher(&wrapping).encrypt_inout_detached(&nonce, &slot.associated(), key.as_mut_slice().into());
        let (head, tail) = slot.wrapped.split_at_mut(KEY_LEN);
        head.copy_from_slice(&*key);
        tail.copy_from_slice(&tag.expect("32 bytes can be encrypted"));
        Ok(slot)
    }

    /// Returns the archive key if `secret` opens the slot.
    pub(super) fn unwrap(&self, secret: &Secret, work: &mut PasswordWork) -> Result<Option<KeyBytes>> {
        if let (KeyKind::Password(cost), Secret::Password(_)) = (self.kind, secret) {
            work.spend(cost)?;
        }
        let Some(wrapping) = self.wrapping_key(secret)? else { return Ok(None) };
        let (head, tag) = self.wrapped.split_at(KEY_LEN);
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(head);
        let tag: &[u8; TAG_LEN] = tag.try_into().expect("the tag follows the key");
        let nonce = [0; 12].into();
        let opened = cipher(&wrapping)
            .decrypt_inout_detached(&nonce, &self.associated(), key.as_mut_slice().into(), tag.into())
            .map_err(|_| NotAuthentic);
        Ok(opened.is_ok().then_some(key))
    }

    /// Returns the wrapping key, or `None` if the slot is for another kind of secret.
    fn wrapping_key(&self, secret: &Secret) -> Result<Option<KeyBytes>> {
        let secret = match (self.kind, secret) {
            (KeyKind::Password(cost), Secret::Password(password)) => cost.stretch(password, &self.salt)?,
            (KeyKind::UserKey, Secret::UserKey(key)) => key.clone(),
            _ => return Ok(None),
        };
        let mut key = Zeroizing::new([0; KEY_LEN]);
        derive(&secret, &self.salt, &[WRAP_INFO], &mut *key);
        Ok(Some(key))
    }

    /// Returns the associated data: the slot without the wrapped key.
    fn associated(&self) -> Vec<u8> {
        let bytes = self.encode();
        [&bytes[..field::WRAPPED.offset], &bytes[field::LABEL.offset..]].concat()
    }

    pub(super) fn encode(&self) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        match self.kind {
            KeyKind::Password(cost) => {
                field::KIND.put(&mut bytes, [KIND_PASSWORD]);
                field::MEMORY_KIB.put(&mut bytes, cost.memory_kib.to_le_bytes());
                field::PASSES.put(&mut bytes, cost.passes.to_le_bytes());
                field::LANES.put(&mut bytes, cost.lanes.to_le_bytes());
            }
            KeyKind::UserKey => field::KIND.put(&mut bytes, [KIND_USER_KEY]),
        }
        field::SALT.put(&mut bytes, self.salt);
        field::WRAPPED.put(&mut bytes, self.wrapped);
        bytes[field::LABEL.offset..][..self.label.len()].copy_from_slice(self.label.as_bytes());
        bytes
    }

    /// Returns the cost of a guess: memory times passes, KiB.
    pub(super) fn work(&self) -> u64 {
        match self.kind {
            KeyKind::Password(cost) => cost.work(),
            KeyKind::UserKey => 0,
        }
    }

    /// Parses a slot. A cost that exceeds the limits is rejected.
    pub(super) fn parse(bytes: &[u8; SLOT_LEN]) -> Result<Self, Malformed> {
        let number = |field: crate::layout::Field<4>| u32::from_le_bytes(field.get(bytes));
        let cost =
            Argon2Cost { memory_kib: number(field::MEMORY_KIB), passes: number(field::PASSES), lanes: number(field::LANES) };
        let kind = match field::KIND.get(bytes) {
            [KIND_PASSWORD] => {
                cost.check()?;
                KeyKind::Password(cost)
            }
            [KIND_USER_KEY] if cost == (Argon2Cost { memory_kib: 0, passes: 0, lanes: 0 }) => KeyKind::UserKey,
            [kind] => return Err(format!("a key slot of kind {kind}")),
        };
        if !(field::RESERVED_A.is_zero(bytes) && field::RESERVED_B.is_zero(bytes)) {
            return Err("reserved bytes of a key slot are not zero".into());
        }
        let label = field::LABEL.get(bytes);
        let len = label.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let label = std::str::from_utf8(&label[..len]).ok().filter(|label| !label.contains('\0'));
        let label = label.ok_or("the label of a key slot is not UTF-8")?.to_owned();
        Ok(Self { kind, salt: field::SALT.get(bytes), wrapped: field::WRAPPED.get(bytes), label })
    }
}

fn cipher(key: &KeyBytes) -> Aes256Gcm {
    Aes256Gcm::new_from_slice(&**key).expect("32 bytes")
}
