//! Selected entries and their paths below the target.

use super::Settings;
use nra_format::entry::{Entry, Kind};
use nra_format::links::LinkGroups;

/// A selected entry.
#[derive(Debug, Clone)]
pub(super) struct SelectedEntry {
    /// The entry.
    pub entry: Entry,
    /// Number of bytes that are removed from the start of its path.
    pub start: usize,
}

impl SelectedEntry {
    /// Returns the entry with its path below the target; `None` if the options skip it.
    pub(super) fn new(options: &Settings<'_>, entry: Entry) -> Option<Self> {
        let path = entry.path.as_bytes();
        if options.sink.flat {
            let start = path.len() - split(path).1.len();
            return (entry.kind != Kind::Directory).then_some(Self { entry, start });
        }
        let mut start = 0;
        for _ in 0..options.sink.strip_components {
            start += path[start..].iter().position(|byte| *byte == b'/')? + 1;
        }
        Some(Self { entry, start })
    }

    /// Returns the path below the target.
    pub(super) fn path(&self) -> &[u8] {
        &self.entry.path.as_bytes()[self.start..]
    }
}

/// Sums over the selected entries.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Number of entries.
    pub entries: u64,
    /// Sum of the sizes of the files.
    pub bytes: u64,
    /// The same, with hard links of one file counted once.
    pub distinct_bytes: u64,
    /// Counted files with hard links.
    links: LinkGroups,
    /// The first top-level name.
    top: Option<Box<[u8]>>,
    /// There are several top-level names.
    pub several: bool,
}

impl Sums {
    /// Adds an entry.
    pub(super) fn add(&mut self, item: &SelectedEntry) {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(item.entry.size);
        // Different files of a false link group are all extracted.
        if self.links.key(&item.entry).is_none_or(|key| self.links.insert(key, ())) {
            self.distinct_bytes = self.distinct_bytes.saturating_add(item.entry.size);
        }
        let path = item.path();
        let top = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        match &self.top {
            None => self.top = Some(top.into()),
            Some(known) => self.several |= **known != *top,
        }
    }
}

/// Splits a path into the directory and the last component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Returns a path below `target` for messages.
pub(super) fn shown(target: &[u8], path: &[u8]) -> Vec<u8> {
    match target {
        b"" | b"." | b"./" => path.to_vec(),
        target if target.ends_with(b"/") => [target, path].concat(),
        target => [target, b"/", path].concat(),
    }
}

/// Joins a directory and a name. The target itself is empty.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_format::entry::Location;
    use nra_format::path::EntryPath;

    #[test]
    fn false_hard_links_count_as_files() {
        let mut sums = Sums::default();
        for (path, number) in [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 2)] {
            let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
            (entry.link_group, entry.size, entry.location) = (1, 100, Location::numbered(number, (0, 0)));
            sums.add(&SelectedEntry { entry, start: 0 });
        }
        assert_eq!((sums.entries, sums.bytes, sums.distinct_bytes), (5, 500, 200));
    }
}
