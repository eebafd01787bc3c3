//! The top directory: metadata of the directory that was packed, stored as attributes of the archive (nra.md, section 12).

use crate::entry::{Attribute, Metadata, Namespace, Owner, Timestamp};

const MODE: &[u8] = b"root-mode";
const OWNER: &[u8] = b"root-owner";
const TIME: &[u8] = b"root-time";

/// The directory that contains the entries of an archive. `None` = unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Top {
    /// Permission, set-id and sticky bits.
    pub mode: Option<u16>,
    /// Its owner.
    pub owner: Option<Owner>,
    /// Time of its last modification.
    pub modified: Option<Timestamp>,
    /// Its extended attributes.
    pub xattrs: Vec<Attribute>,
}

impl Top {
    /// Returns the top directory described by an entry of a container.
    pub fn of_entry(metadata: &Metadata, modified: Option<Timestamp>) -> Self {
        let xattrs = metadata.attributes.iter().filter(|attribute| attribute.namespace == Namespace::Xattr).cloned().collect();
        Self { mode: Some(metadata.mode), owner: metadata.owner.clone(), modified, xattrs }
    }

    /// Returns the top directory described by the attributes of an archive. Malformed values count as absent.
    pub fn of_archive(attributes: &[Attribute]) -> Self {
        let value = |name: &[u8]| {
            let found = attributes.iter().find(|attribute| attribute.namespace == Namespace::Nra && *attribute.name == *name);
            found.map(|attribute| &*attribute.value)
        };
        let text = |name: &[u8]| value(name).and_then(|value| std::str::from_utf8(value).ok());
        let mode = text(MODE).and_then(|text| u16::from_str_radix(text, 8).ok()).filter(|bits| *bits <= 0o7777);
        let xattrs = attributes.iter().filter(|attribute| attribute.namespace == Namespace::Xattr).cloned().collect();
        Self { mode, owner: value(OWNER).and_then(parse_owner), modified: text(TIME).and_then(parse_time), xattrs }
    }

    /// Returns whether an attribute of an archive describes the top directory.
    pub fn has(attribute: &Attribute) -> bool {
        attribute.namespace == Namespace::Xattr || attribute.describes_top_directory()
    }

    /// Returns the attributes that describe it.
    pub fn into_attributes(self) -> Vec<Attribute> {
        let Self { mode, owner, modified, xattrs: mut attributes } = self;
        let own = |name: &[u8], value: Vec<u8>| Attribute { namespace: Namespace::Nra, name: name.into(), value: value.into() };
        attributes.extend(mode.map(|mode| own(MODE, format!("{mode:o}").into_bytes())));
        attributes.extend(owner.map(|Owner { user_id, group_id, user, group }| {
            own(OWNER, [format!("{user_id}:{group_id}:").as_bytes(), &*user, b":", &*group].concat())
        }));
        attributes.extend(modified.map(|time| own(TIME, format!("{}.{:09}", time.seconds, time.nanoseconds).into_bytes())));
        attributes
    }
}

/// Parses `user id:group id:user:group`; names may be empty.
fn parse_owner(value: &[u8]) -> Option<Owner> {
    let mut fields = value.split(|byte| *byte == b':');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (user_id, group_id) = (number()?, number()?);
    let (user, group) = (fields.next()?.into(), fields.next()?.into());
    fields.next().is_none().then_some(Owner { user_id, group_id, user, group })
}

/// Parses decimal seconds, a dot and nine digits.
fn parse_time(text: &str) -> Option<Timestamp> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    let digits = nanoseconds.len() == 9 && nanoseconds.bytes().all(|byte| byte.is_ascii_digit());
    Some(Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok().filter(|_| digits)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip() {
        let owner = Owner { user_id: 1, group_id: 1 << 40, user: b"ann"[..].into(), group: Box::default() };
        let xattr = Attribute { namespace: Namespace::Xattr, name: b"user.x"[..].into(), value: b"1"[..].into() };
        let modified = Some(Timestamp { seconds: -5, nanoseconds: 7 });
        for top in [
            Top::default(),
            Top { mode: Some(0o2750), owner: Some(owner), modified, xattrs: vec![xattr] },
            Top { modified, ..Top::default() },
        ] {
            let attributes = top.clone().into_attributes();
            assert!(attributes.iter().all(Top::has));
            assert_eq!(Top::of_archive(&attributes), top);
        }
    }

    #[test]
    fn malformed_values_are_absent() {
        for (name, values) in [
            (MODE, &[&b"8"[..], b"17777", b"", b"-1"][..]),
            (OWNER, &[&b"1:2:a"[..], b"1:2:a:b:c", b"x:2::", b":::", b""]),
            (TIME, &[&b"1"[..], b"1.5", b"x.000000000", b"1.+00000005", b""]),
        ] {
            for value in values {
                let attribute = Attribute { namespace: Namespace::Nra, name: name.into(), value: (*value).into() };
                assert_eq!(Top::of_archive(&[attribute]), Top::default(), "{}", value.escape_ascii());
            }
        }
    }
}
