//! Which files of an archive are hard links of each other.
//!
//! An archive says it with a number, the link group, and may lie: a number counts only among entries that agree. What else is in such a
//! group is a file of its own. Spec: nra.md, section 8.5.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};

/// Link group, and a print of what its members must agree in: entries with equal keys are hard links of each other.
pub(crate) type LinkKey = (u64, u64);

/// Tells hard links from entries that only have their number.
#[derive(Debug, Default)]
pub(crate) struct LinkGroups {
    /// Prints are keyed at random, so that nobody can make two that are equal.
    keys: RandomState,
    /// Metadata and time must agree, too.
    exact: bool,
    /// Print of the first entry met of each group.
    firsts: HashMap<u64, u64>,
}

impl LinkGroups {
    /// Returns one for which metadata and time count beside size and place of the content.
    pub(crate) fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }

    /// Returns one for the entries of `archive`: in NRA 5 metadata and time of all names are equal, other containers may say them of one alone.
    pub(crate) fn of(archive: &dyn Archive) -> Self {
        Self { exact: archive.links_share_metadata(), ..Self::default() }
    }

    /// Returns the key of an entry; `None` for one that is in no group.
    pub(crate) fn key(&self, entry: &Entry) -> Option<LinkKey> {
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
    pub(crate) fn differs(&mut self, (group, print): LinkKey) -> bool {
        *self.firsts.entry(group).or_insert(print) != print
    }
}

/// What is told of an entry that disagrees with the first of its link group.
pub(crate) const NO_LINK: &str = "no hard link, as it differs from the other names of its link group: it is a file of its own";

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::archive::{Archive, Depth, OpenOptions};
    use crate::format::digest::Digest;
    use crate::format::entry::{Location, Metadata, Timestamp};
    use crate::format::nra::reader::NraReader;
    use crate::format::nra::writer::{NewContent, Writer, WriterOptions};
    use crate::format::path::EntryPath;
    use crate::format::progress::Recorder;
    use crate::format::source::MemorySource;

    fn entry(path: &str, group: u64, size: u64, number: u64) -> Entry {
        let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
        (entry.link_group, entry.size, entry.location) = (group, size, Location::Member { number, place: (0, 0) });
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

    /// An archive with one link group in which `a` and `b` are hard links of each other; `c` has other content, `d` another mode.
    pub(crate) fn lying_archive() -> Vec<u8> {
        let options = WriterOptions { reproducible: true, threads: 1, ..WriterOptions::balanced() };
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        let file = |path: &str| Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
        let whole = |bytes| NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
        let a = writer.add(file("a"), whole(b"a true one")).unwrap();
        writer.add_link(file("b"), a).unwrap();
        let c = writer.add(file("c"), whole(b"of another")).unwrap();
        let metadata = Arc::new(Metadata { mode: 0o600, ..Metadata::default() });
        let d = writer.add(Entry { metadata, ..file("d") }, whole(b"a true one")).unwrap();
        [c, d].into_iter().for_each(|id| writer.force_group(id, 1));
        writer.finish(&Recorder::default()).unwrap().0
    }

    /// Checks what was made of such an archive: links, modes and content.
    pub(crate) fn check_made(archive: &dyn Archive) {
        assert_eq!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
        let entries: Vec<Entry> = archive.entries(0..archive.entry_count()).map(Result::unwrap).collect();
        let groups: Vec<u64> = entries.iter().map(|entry| entry.link_group).collect();
        assert!(groups[0] != 0 && groups == [groups[0], groups[0], 0, 0], "{groups:?}");
        let contents: Vec<Vec<u8>> = entries.iter().map(|entry| archive.read_all(entry, 100).unwrap()).collect();
        assert_eq!(contents, [b"a true one", b"a true one", b"of another", b"a true one"]);
        let modes: Vec<u16> = entries.iter().map(|entry| entry.metadata.mode).collect();
        assert_eq!(modes, [0o644, 0o644, 0o644, 0o600]);
    }

    /// Checks that `c` and `d` were told of, and nothing else.
    pub(crate) fn check_told(monitor: &Recorder) {
        let told: Vec<_> = monitor.take_warnings().into_iter().map(|told| (told.path, told.message, told.degraded)).collect();
        assert_eq!(told, [b"c", b"d"].map(|path| (path.to_vec(), NO_LINK.to_owned(), true)));
    }

    #[test]
    fn verify_finds_the_entries_that_lie() {
        let source = Arc::new(MemorySource::new(lying_archive()));
        let archive = NraReader::open(source, &OpenOptions::default()).unwrap();
        let damage = archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].entries.iter().map(ToString::to_string).collect::<Vec<_>>(), ["c", "d"]);
    }
}
