//! Metadata that earlier versions have no field for: kind, mode, times, owner and others.
//!
//! It is stored where their readers skip it: the record of a file is a map with the additional field
//! `nra5`, which holds an [`ExtraRecord`]. Entries for which earlier versions have no record, such as
//! symlinks, follow the manifest, within its length: the text [`EXTRA_ENTRIES`] and an array of such
//! maps.

use std::fmt;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use nra_core::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra_core::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE, MAX_OWNER_NAME, MAX_TARGET};

/// The text before the entries that earlier versions have no record for.
pub(super) const EXTRA_ENTRIES: &str = "nra5 entries";

/// A MessagePack byte string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Box<[u8]>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.into()))
            }
        }
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

/// The stored array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExtraRecord(
    /// Number of the kind.
    u8,
    /// Mode.
    u16,
    /// Modification time: seconds and nanoseconds.
    Option<(i64, u32)>,
    /// Hard link group.
    u64,
    /// User ID, group ID, user name, group name.
    Option<(u64, u64, Bytes, Bytes)>,
    /// Attributes: number of the namespace, name, value.
    Vec<(u8, Bytes, Bytes)>,
    /// Target of a symlink.
    Bytes,
    /// Major and minor number of a device.
    Option<(u32, u32)>,
    /// The path, if it is not UTF-8: the record holds it as text.
    Option<Bytes>,
);

/// A decoded [`ExtraRecord`].
pub(super) struct ExtraMetadata {
    pub(super) kind: Kind,
    pub(super) metadata: Arc<Metadata>,
    pub(super) modified: Option<Timestamp>,
    pub(super) link_group: u64,
    pub(super) target: Box<[u8]>,
    pub(super) device: Option<Device>,
    pub(super) path: Option<Box<[u8]>>,
}

impl ExtraRecord {
    pub(super) fn of(entry: &Entry) -> Self {
        let Metadata { mode, owner, attributes } = &*entry.metadata;
        let bytes = |bytes: &[u8]| Bytes(bytes.into());
        let owner = owner.as_ref().map(|owner| (owner.user_id, owner.group_id, bytes(&owner.user), bytes(&owner.group)));
        let attributes = attributes.iter().map(|a| (a.namespace as u8, bytes(&a.name), bytes(&a.value))).collect();
        let path = entry.path.as_bytes();
        Self(
            entry.kind as u8,
            *mode,
            entry.modified.map(|time| (time.seconds, time.nanoseconds)),
            entry.link_group,
            owner,
            attributes,
            bytes(&entry.target),
            entry.device.map(|device| (device.major, device.minor)),
            std::str::from_utf8(path).is_err().then(|| bytes(path)),
        )
    }

    /// Decodes and checks the record.
    pub(super) fn decode(self) -> Result<ExtraMetadata, &'static str> {
        let Self(kind, mode, modified, link_group, owner, attributes, target, device, path) = self;
        let kind = Kind::from_number(kind).ok_or("unknown kind of entry")?;
        let fits = |bytes: &Bytes, limit: usize| bytes.0.len() <= limit;
        let is_valid = mode <= 0o7777
            && modified.is_none_or(|(_, nanoseconds)| nanoseconds < 1_000_000_000)
            && owner.as_ref().is_none_or(|(_, _, user, group)| fits(user, MAX_OWNER_NAME) && fits(group, MAX_OWNER_NAME))
            && fits(&target, MAX_TARGET)
            && target.0.is_empty() != (kind == Kind::Symlink)
            && device.is_some() == matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
        if !is_valid {
            return Err("invalid metadata of an entry");
        }
        let mut all = Vec::with_capacity(attributes.len().min(64));
        for (namespace, name, value) in attributes {
            let namespace = Namespace::from_number(namespace).ok_or("unknown namespace of an attribute")?;
            if !fits(&name, MAX_ATTRIBUTE_NAME) || !fits(&value, MAX_ATTRIBUTE_VALUE) {
                return Err("attribute too long");
            }
            all.push(Attribute { namespace, name: name.0, value: value.0 });
        }
        all.sort();
        all.dedup_by(|a, b| (a.namespace, &a.name) == (b.namespace, &b.name));
        let owner = owner.map(|(user_id, group_id, user, group)| Owner { user_id, group_id, user: user.0, group: group.0 });
        Ok(ExtraMetadata {
            kind,
            metadata: Arc::new(Metadata { mode, owner, attributes: all.into() }),
            modified: modified.map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds }),
            link_group,
            target: target.0,
            device: device.map(|(major, minor)| Device { major, minor }),
            path: path.map(|path| path.0),
        })
    }
}
