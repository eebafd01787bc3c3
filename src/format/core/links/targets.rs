//! Resolves hard links that name their target.

use std::collections::{BTreeMap, HashMap, VecDeque};

use xxhash_rust::xxh3::xxh3_128;

/// The hash of a path, which saves memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey(u128);

impl PathKey {
    /// Returns the key of a path.
    pub fn of(path: &[u8]) -> Self {
        Self(xxh3_128(path))
    }
}

/// The path of the target, and the number of the link.
type WaitingKey = (PathKey, u64);

/// Finds the targets (`T`) of hard links (`L`) in an archive whose links name their target, such as
/// tar.
///
/// The target may be a link itself, follow the link, occur several times or not at all. A link
/// refers to the last preceding entry with that path, else to the first following one, unless a
/// later entry replaces the link before.
///
/// Callers add entries and links in the order of the archive. After each, they call
/// [`LinkTargets::next_resolved`] until it returns `None`.
#[derive(Debug)]
pub struct LinkTargets<T, L> {
    /// The target that links to a path get: its last entry.
    targets: HashMap<PathKey, T>,
    /// Links whose target was not added yet, with their own paths.
    waiting: BTreeMap<WaitingKey, (PathKey, L)>,
    /// The waiting link at each path.
    waiting_at: HashMap<PathKey, WaitingKey>,
    /// Links whose target is known.
    resolved: VecDeque<(L, T)>,
    /// Number of links so far.
    count: u64,
}

impl<T, L> Default for LinkTargets<T, L> {
    fn default() -> Self {
        Self {
            targets: HashMap::new(),
            waiting: BTreeMap::new(),
            waiting_at: HashMap::new(),
            resolved: VecDeque::new(),
            count: 0,
        }
    }
}

impl<T: Clone, L> LinkTargets<T, L> {
    /// Adds an entry or a resolved link. Links to its path get `target`; `None` if it cannot be
    /// linked to, as a directory. Returns the waiting link that it replaces.
    pub fn add_entry(&mut self, path: PathKey, target: Option<T>) -> Option<L> {
        let replaced = self.remove_waiting(path);
        match target {
            None => drop(self.targets.remove(&path)),
            Some(target) => {
                while let Some((&key, _)) = self.waiting.range((path, 0)..=(path, u64::MAX)).next() {
                    if let Some((of, link)) = self.waiting.remove(&key) {
                        self.waiting_at.remove(&of);
                        self.resolved.push_back((link, target.clone()));
                    }
                }
                self.targets.insert(path, target);
            }
        }
        replaced
    }

    /// Adds a link from `path` to `target`. Returns the waiting link that it replaces.
    pub fn add_link(&mut self, path: PathKey, target: PathKey, link: L) -> Option<L> {
        let replaced = self.remove_waiting(path);
        if let Some(target) = self.targets.get(&target) {
            self.resolved.push_back((link, target.clone()));
        } else {
            let key = (target, self.count);
            self.waiting.insert(key, (path, link));
            self.waiting_at.insert(path, key);
        }
        self.count += 1;
        replaced
    }

    /// Returns the target that links to `path` get, if it was added.
    pub fn target(&self, path: PathKey) -> Option<&T> {
        self.targets.get(&path)
    }

    /// Removes and returns a link whose target is known. Callers add it with
    /// [`LinkTargets::add_entry`], because other links may refer to it.
    pub fn next_resolved(&mut self) -> Option<(L, T)> {
        self.resolved.pop_front()
    }

    /// Returns the links without a target, in their order.
    pub fn into_unresolved(self) -> Vec<L> {
        let mut links: Vec<(u64, L)> = self.waiting.into_iter().map(|((_, number), (_, link))| (number, link)).collect();
        links.sort_unstable_by_key(|(number, _)| *number);
        links.into_iter().map(|(_, link)| link).collect()
    }

    fn remove_waiting(&mut self, path: PathKey) -> Option<L> {
        let key = self.waiting_at.remove(&path)?;
        self.waiting.remove(&key).map(|(_, link)| link)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record of an archive.
    #[derive(Debug, Clone, Copy)]
    enum Record {
        File(u8),
        Directory(u8),
        Link(u8, u8),
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let name = || 0..6u8;
        let record = prop_oneof![
            name().prop_map(Record::File),
            name().prop_map(Record::Directory),
            (name(), name()).prop_map(|(own, target)| Record::Link(own, target)),
        ];
        prop::collection::vec(record, 0..40)
    }

    /// Returns the target of each record by number (a file is its own target), the links that were
    /// replaced while they waited, and the links without a target.
    fn resolved(records: &[Record]) -> (Vec<Option<usize>>, Vec<usize>, Vec<usize>) {
        let mut links = LinkTargets::default();
        let (mut found, mut replaced) = (vec![None; records.len()], Vec::new());
        for (number, record) in records.iter().enumerate() {
            replaced.extend(match *record {
                Record::File(name) => {
                    found[number] = Some(number);
                    links.add_entry(PathKey::of(&[name]), Some(number))
                }
                Record::Directory(name) => links.add_entry(PathKey::of(&[name]), None),
                Record::Link(name, target) => links.add_link(PathKey::of(&[name]), PathKey::of(&[target]), (number, name)),
            });
            while let Some(((link, name), target)) = links.next_resolved() {
                found[link] = Some(target);
                assert_eq!(links.add_entry(PathKey::of(&[name]), Some(target)), None);
            }
        }
        let numbers = |links: Vec<(usize, u8)>| links.into_iter().map(|(number, _)| number).collect();
        (found, numbers(replaced), numbers(links.into_unresolved()))
    }

    /// Returns the same as `resolved` by searching all earlier records each time.
    fn expected(records: &[Record]) -> (Vec<Option<usize>>, Vec<usize>, Vec<usize>) {
        let name_of = |record: Record| match record {
            Record::File(name) | Record::Directory(name) | Record::Link(name, _) => name,
        };
        let mut found = vec![None; records.len()];
        // Entries in the order in which they were created: number, name, target.
        let mut made: Vec<(usize, u8, Option<usize>)> = Vec::new();
        let (mut waiting, mut replaced): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for (number, &record) in records.iter().enumerate() {
            if let Some(place) = waiting.iter().position(|&link| name_of(records[link]) == name_of(record)) {
                replaced.push(waiting.remove(place));
            }
            match record {
                Record::File(name) => {
                    found[number] = Some(number);
                    made.push((number, name, Some(number)));
                }
                Record::Directory(name) => made.push((number, name, None)),
                Record::Link(..) => waiting.push(number),
            }
            // Until nothing changes.
            loop {
                let leads = |link: &usize| {
                    let Record::Link(_, target) = records[*link] else { return None };
                    made.iter().rev().find(|(_, name, _)| *name == target).and_then(|(_, _, leads)| *leads)
                };
                let Some((place, target)) = waiting.iter().enumerate().find_map(|(place, link)| Some((place, leads(link)?)))
                else {
                    break;
                };
                let link = waiting.remove(place);
                found[link] = Some(target);
                made.push((link, name_of(records[link]), Some(target)));
            }
        }
        (found, replaced, waiting)
    }

    proptest! {
        #[test]
        fn targets_equal_those_of_a_search_through_all_records(records in records()) {
            prop_assert_eq!(resolved(&records), expected(&records));
        }
    }

    #[test]
    fn later_entry_replaces_a_waiting_link() {
        use Record::{Directory, File, Link};
        for record in [File(0), Directory(0), Link(0, 2)] {
            let (found, replaced, _) = resolved(&[Link(0, 1), record, File(1)]);
            assert_eq!((found[0], replaced), (None, vec![0]));
        }
        // The link was resolved before it was replaced.
        assert_eq!(
            resolved(&[Link(0, 1), File(1), File(0), Link(2, 0)]),
            (vec![Some(1), Some(1), Some(2), Some(2)], vec![], vec![])
        );
        // A cycle, and a link to it.
        assert_eq!(resolved(&[Link(2, 0), Link(0, 1), Link(1, 0)]).2, [0, 1, 2]);
    }
}
