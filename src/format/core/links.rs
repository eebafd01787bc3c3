//! Which files of an archive are hard links of each other.
//!
//! An archive says it with a number, the link group, and may lie: a number counts only among entries that agree. What else is in such a
//! group is a file of its own. Spec: nra.md, section 8.5.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use crate::archive::Archive;
use crate::entry::{Entry, Kind};

/// Link group, and a print of what its members must agree in: entries with equal keys are hard links of each other.
pub type LinkKey = (u64, u64);

/// Tells hard links from entries that only have their number.
#[derive(Debug, Default)]
pub struct LinkGroups {
    /// Prints are keyed at random, so that nobody can make two that are equal.
    keys: RandomState,
    /// Metadata and time must agree, too.
    exact: bool,
    /// Print of the first entry met of each group.
    firsts: HashMap<u64, u64>,
}

impl LinkGroups {
    /// Returns one for which metadata and time count beside size and place of the content.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// Returns one for the entries of `archive`: in NRA 5 metadata and time of all names are equal, other containers may say them of one alone.
    pub fn of(archive: &dyn Archive) -> Self {
        Self { exact: archive.links_share_metadata(), ..Self::default() }
    }

    /// Returns the key of an entry; `None` for one that is in no group.
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

    /// Says whether an entry with this key disagrees with the first one that was met of its group.
    pub fn differs(&mut self, (group, print): LinkKey) -> bool {
        *self.firsts.entry(group).or_insert(print) != print
    }
}

/// What is told of an entry that disagrees with the first of its link group.
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
    fn names_of_a_group_agree_in_size_and_content() {
        let mut links = LinkGroups::default();
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
    fn metadata_and_time_count_where_they_are_asked_for() {
        let plain = entry("a", 1, 3, 1);
        let mode = Entry { metadata: Arc::new(Metadata { mode: 0o600, ..Metadata::default() }), ..plain.clone() };
        let time = Entry { modified: Some(Timestamp { seconds: 1, nanoseconds: 0 }), ..plain.clone() };
        let (links, exact) = (LinkGroups::default(), LinkGroups::exact());
        for other in [mode, time] {
            assert_eq!(links.key(&plain), links.key(&other));
            assert_ne!(exact.key(&plain), exact.key(&other));
        }
        let same = Entry { metadata: Arc::new((*plain.metadata).clone()), ..plain.clone() };
        assert_eq!(exact.key(&plain), exact.key(&same));
    }
}
