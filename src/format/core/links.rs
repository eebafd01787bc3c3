//! Resolves hard links: by link group ([`LinkGroups`]), or by the path of the target
//! ([`LinkTargets`]).
//!
//! Hard links share a number, the link group. Hostile archives may give the same number to unrelated
//! files, so entries count as hard links only if they also agree in size and content. All other
//! entries of the group are separate files. Spec: nra.md, section 8.5.

mod targets;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

pub use targets::{LinkTargets, PathKey};

use crate::archive::Archive;
use crate::entry::{Entry, Kind};

/// Link group and a hash of the properties that hard links share. Entries with equal keys are hard
/// links of each other.
pub type LinkKey = (u64, u64);

/// Distinguishes hard links from entries that only have the same link group, and has a value for
/// each linked file.
#[derive(Debug)]
pub struct LinkGroups<T = ()> {
    /// Hashes have a random key, so that nobody can construct a collision.
    keys: RandomState,
    /// Metadata and time must also agree.
    exact: bool,
    /// Hash of the first entry of each group.
    firsts: HashMap<u64, u64>,
    files: HashMap<LinkKey, T>,
}

impl<T> Default for LinkGroups<T> {
    fn default() -> Self {
        Self { keys: RandomState::new(), exact: false, firsts: HashMap::new(), files: HashMap::new() }
    }
}

impl<T> LinkGroups<T> {
    /// Returns a resolver that also compares metadata and time.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// Returns a resolver for the entries of `archive`. In NRA 5, all names have equal metadata and
    /// time. In other containers, only one name may have them.
    pub fn of(archive: &dyn Archive) -> Self {
        Self { exact: archive.links_share_metadata(), ..Self::default() }
    }

    /// Returns the key of an entry; `None` if it has no link group.
    pub fn key(&self, entry: &Entry) -> Option<LinkKey> {
        if entry.link_group == 0 || entry.kind != Kind::File {
            return None;
        }
        let mut hasher = self.keys.build_hasher();
        (entry.size, &entry.location).hash(&mut hasher);
        if self.exact {
            (&entry.metadata, entry.modified).hash(&mut hasher);
        }
        Some((entry.link_group, hasher.finish()))
    }

    /// Returns whether an entry with this key differs from the first entry of its group.
    pub fn differs(&mut self, (group, hash): LinkKey) -> bool {
        *self.firsts.entry(group).or_insert(hash) != hash
    }

    /// Returns the value of the file with this key.
    pub fn get(&self, key: LinkKey) -> Option<&T> {
        self.files.get(&key)
    }

    /// Sets the value of a file, unless it has one. Returns whether it was set.
    pub fn insert(&mut self, key: LinkKey, value: T) -> bool {
        let count = self.files.len();
        self.files.entry(key).or_insert(value);
        self.files.len() > count
    }
}

/// The warning for an entry that differs from the first one of its link group.
pub const NO_LINK: &str = "no hard link, as it differs from the other names of its link group: it is a file of its own";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::entry::{Location, Metadata, Timestamp};
    use crate::path::EntryPath;

    fn entry(path: &str, group: u64, size: u64, number: u64) -> Entry {
        let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
        (entry.link_group, entry.size, entry.location) = (group, size, Location::numbered(number, (0, 0)));
        entry
    }

    #[test]
    fn hard_links_agree_in_size_and_content() {
        let mut links = LinkGroups::<()>::default();
        let first = links.key(&entry("a", 7, 3, 1)).unwrap();
        assert_eq!(links.key(&entry("b", 7, 3, 1)), Some(first));
        for other in [entry("c", 7, 4, 1), entry("c", 7, 3, 2), entry("c", 8, 3, 1)] {
            assert_ne!(links.key(&other), Some(first));
        }
        assert_eq!(links.key(&entry("d", 0, 3, 1)), None);
        let other = links.key(&entry("c", 7, 3, 2)).unwrap();
        assert!(!links.differs(first) && !links.differs(first) && links.differs(other) && !links.differs(first));
    }

    #[test]
    fn exact_hard_links_agree_in_metadata_and_time() {
        let plain = entry("a", 1, 3, 1);
        let mode = Entry { metadata: Arc::new(Metadata { mode: 0o600, ..Metadata::default() }), ..plain.clone() };
        let time = Entry { modified: Some(Timestamp { seconds: 1, nanoseconds: 0 }), ..plain.clone() };
        let (links, exact) = (LinkGroups::<()>::default(), LinkGroups::<()>::exact());
        for other in [mode, time] {
            assert_eq!(links.key(&plain), links.key(&other));
            assert_ne!(exact.key(&plain), exact.key(&other));
        }
        let same = Entry { metadata: Arc::new((*plain.metadata).clone()), ..plain.clone() };
        assert_eq!(exact.key(&plain), exact.key(&same));
    }
}
