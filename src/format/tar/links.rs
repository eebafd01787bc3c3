//! Hard links: which entry a further name leads to.
//!
//! An archive tells the target of a hard link by its name. That may be a link, too, come later, several times or never, and the link
//! itself may be replaced by what has its name and comes later. [`Links`] is told of names in the order of the archive, and says
//! of each link what it leads to as soon as that is known: to the last entry of that name in front of it, or else to the first
//! one behind it, unless a later entry replaced the link before.

use std::collections::{BTreeMap, HashMap, VecDeque};

use xxhash_rust::xxh3::xxh3_128;

/// A path, short enough to keep one for each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey(u128);

impl PathKey {
    /// Returns the key of a path.
    pub fn of(path: &[u8]) -> Self {
        Self(xxh3_128(path))
    }
}

/// Where a link waits: the path of its target, and its number among the links.
type Place = (PathKey, u64);

/// Finds the targets (`T`) of links (`L`).
///
/// Whoever tells of an entry or a link takes what is ready with [`Links::take_ready`], until there is none, before telling of another.
#[derive(Debug)]
pub struct Links<T, L> {
    /// What the last entry of a path is to those that link to it.
    targets: HashMap<PathKey, T>,
    /// Links whose target did not come yet, with their own path.
    waiting: BTreeMap<Place, (PathKey, L)>,
    /// Where the link of a path waits.
    places: HashMap<PathKey, Place>,
    /// Links whose target is known.
    ready: VecDeque<(L, T)>,
    /// Links so far.
    count: u64,
}

impl<T, L> Default for Links<T, L> {
    fn default() -> Self {
        Self { targets: HashMap::new(), waiting: BTreeMap::new(), places: HashMap::new(), ready: VecDeque::new(), count: 0 }
    }
}

impl<T: Clone, L> Links<T, L> {
    /// Takes note of an entry, or of a link that was ready. `target`: what those that link to its path get, `None` where nothing
    /// can (a directory). Returns the link that waited under the path: the entry replaces it.
    pub fn entry(&mut self, own: PathKey, target: Option<T>) -> Option<L> {
        let replaced = self.withdraw(own);
        match target {
            None => drop(self.targets.remove(&own)),
            Some(target) => {
                while let Some((&place, _)) = self.waiting.range((own, 0)..=(own, u64::MAX)).next() {
                    if let Some((path, link)) = self.waiting.remove(&place) {
                        self.places.remove(&path);
                        self.ready.push_back((link, target.clone()));
                    }
                }
                self.targets.insert(own, target);
            }
        }
        replaced
    }

    /// Takes note of a link to `wanted`. Returns the one that waited under its path: this one replaces it.
    pub fn link(&mut self, own: PathKey, wanted: PathKey, link: L) -> Option<L> {
        let replaced = self.withdraw(own);
        if let Some(target) = self.targets.get(&wanted) {
            self.ready.push_back((link, target.clone()));
        } else {
            let place = (wanted, self.count);
            self.waiting.insert(place, (own, link));
            self.places.insert(own, place);
        }
        self.count += 1;
        replaced
    }

    /// Takes a link whose target is known. It has to be told of with [`Links::entry`], as others may lead to it.
    pub fn take_ready(&mut self) -> Option<(L, T)> {
        self.ready.pop_front()
    }

    /// Returns the links whose target never came, in their order.
    pub fn into_lost(self) -> Vec<L> {
        let mut lost: Vec<(u64, L)> = self.waiting.into_iter().map(|((_, number), (_, link))| (number, link)).collect();
        lost.sort_unstable_by_key(|(number, _)| *number);
        lost.into_iter().map(|(_, link)| link).collect()
    }

    /// Takes away the link that waits under a path.
    fn withdraw(&mut self, own: PathKey) -> Option<L> {
        let place = self.places.remove(&own)?;
        self.waiting.remove(&place).map(|(_, link)| link)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What an archive says of a name.
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

    /// What each record leads to, by number: a file to itself. With those that were replaced while they waited, and those that never led anywhere.
    fn resolved(records: &[Record]) -> (Vec<Option<usize>>, Vec<usize>, Vec<usize>) {
        let mut links = Links::default();
        let (mut found, mut replaced) = (vec![None; records.len()], Vec::new());
        for (number, record) in records.iter().enumerate() {
            replaced.extend(match *record {
                Record::File(name) => {
                    found[number] = Some(number);
                    links.entry(PathKey::of(&[name]), Some(number))
                }
                Record::Directory(name) => links.entry(PathKey::of(&[name]), None),
                Record::Link(name, target) => links.link(PathKey::of(&[name]), PathKey::of(&[target]), (number, name)),
            });
            while let Some(((link, name), target)) = links.take_ready() {
                found[link] = Some(target);
                assert_eq!(links.entry(PathKey::of(&[name]), Some(target)), None);
            }
        }
        let numbers = |links: Vec<(usize, u8)>| links.into_iter().map(|(number, _)| number).collect();
        (found, numbers(replaced), numbers(links.into_lost()))
    }

    /// The same, without anything that is kept between records: each time, all of them are gone through.
    fn expected(records: &[Record]) -> (Vec<Option<usize>>, Vec<usize>, Vec<usize>) {
        let name_of = |record: Record| match record {
            Record::File(name) | Record::Directory(name) | Record::Link(name, _) => name,
        };
        let mut found = vec![None; records.len()];
        // When an entry was put there.
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
        fn links_lead_where_a_search_through_all_records_says(records in records()) {
            prop_assert_eq!(resolved(&records), expected(&records));
        }
    }

    #[test]
    fn a_later_entry_replaces_a_link_that_waits() {
        use Record::{Directory, File, Link};
        for record in [File(0), Directory(0), Link(0, 2)] {
            let (found, replaced, _) = resolved(&[Link(0, 1), record, File(1)]);
            assert_eq!((found[0], replaced), (None, vec![0]));
        }
        // It led somewhere when it was replaced.
        assert_eq!(
            resolved(&[Link(0, 1), File(1), File(0), Link(2, 0)]),
            (vec![Some(1), Some(1), Some(2), Some(2)], vec![], vec![])
        );
        // A circle, and what leads into it.
        assert_eq!(resolved(&[Link(2, 0), Link(0, 1), Link(1, 0)]).2, [0, 1, 2]);
    }
}
