//! Random changes, commits and compactions, compared with a map of paths. Every commit must match
//! the map at that time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::disk::{Disk, NewFile, source};
use super::*;
use crate::changes::Change as Difference;
use crate::compact::compact;
use crate::content::EntryContent as _;
use crate::reader::NraReader;
use crate::revert::revert;
use crate::writer::pages::PageSizes;
use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::crypt::{Argon2Cost, Keyring, Secret};

/// An entry of the model.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    /// Without size, location and link group.
    entry: Entry,
    content: Vec<u8>,
    /// Names with the same number other than 0 are hard links.
    group: u64,
}

#[derive(Debug, Clone)]
enum Change {
    File(EntryPath, u8),
    Directory(EntryPath),
    Link(EntryPath, EntryPath),
    Remove(EntryPath),
    Rename(EntryPath, EntryPath),
    Mode(EntryPath, u16),
    /// Adds, replaces or removes a key of an encrypted archive.
    Key(u8),
    Commit,
    /// A commit, after which only the newest ones are kept.
    Compact(u64),
    /// A commit, then a revert to an earlier one (counted from 0, modulo the number of commits):
    /// everything, or one path.
    Revert(usize, Option<EntryPath>),
}

type State = BTreeMap<EntryPath, Item>;

impl Item {
    /// Returns a directory, implied if nothing is known about it.
    fn directory(path: &EntryPath, implied: bool) -> Self {
        Self { entry: Entry { implied, ..Entry::new(path.clone(), Kind::Directory) }, content: Vec::new(), group: 0 }
    }

    fn is_directory(&self) -> bool {
        self.entry.kind == Kind::Directory
    }
}

fn any_path() -> impl Strategy<Value = EntryPath> {
    let name = prop_oneof![6 => "[a-c]", 2 => "[a-c][!0]", 1 => "n[0-9]{1,2}"];
    prop::collection::vec(name, 1..4).prop_map(|names| EntryPath::new(names.join("/").into_bytes()).unwrap())
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (any_path(), 0u8..12).prop_map(|(path, content)| Change::File(path, content)),
        2 => any_path().prop_map(Change::Directory),
        2 => (any_path(), any_path()).prop_map(|(from, to)| Change::Link(from, to)),
        4 => any_path().prop_map(Change::Remove),
        4 => (any_path(), any_path()).prop_map(|(from, to)| Change::Rename(from, to)),
        2 => (any_path(), 0u16..0o1000).prop_map(|(path, mode)| Change::Mode(path, mode)),
        1 => (0u8..3).prop_map(Change::Key),
        3 => Just(Change::Commit),
        1 => (1u64..4).prop_map(Change::Compact),
        2 => (0usize..60, prop::option::of(any_path())).prop_map(|(commit, path)| Change::Revert(commit, path)),
    ]
}

/// Repeating contents: empty, short, uncompressed and compressed, and one of several chunks with a
/// hole.
fn content(kind: u8) -> Vec<u8> {
    match kind {
        0 => Vec::new(),
        1..4 => noise(40 + usize::from(kind), kind.into()),
        4..11 => text(200 + usize::from(kind), kind.into()),
        _ => [text(900, 1), vec![0; 5_000], noise(41, 1)].concat(),
    }
}

fn named(path: &EntryPath) -> Entry {
    Entry { path: path.clone(), ..file("x") }
}

fn store(writer: &mut Writer<AppendDestination>, path: &EntryPath, kind: u8) {
    let entry = named(path);
    match kind {
        11 => {
            writer.begin_file(entry).unwrap();
            writer.add_chunk(&text(900, 1), Digest::of(&text(900, 1)), false).unwrap();
            writer.add_hole(5_000).unwrap();
            writer.add_chunk(&noise(41, 1), Digest::of(&noise(41, 1)), true).unwrap();
            writer.end_file(None).unwrap();
        }
        _ => {
            writer.add(entry, whole(&content(kind))).unwrap();
        }
    }
}

/// Frees a path for an entry and adds its parents.
fn make_room(state: &mut State, path: &EntryPath, keep_below: bool) {
    state.retain(|at, _| keep_below || !at.is_below(path));
    let mut above = path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        if !state.get(&directory).is_some_and(Item::is_directory) {
            let item = Item::directory(&directory, true);
            state.insert(directory, item);
        }
    }
}

fn is_refused(state: &State, from: &EntryPath, to: &EntryPath) -> bool {
    let mut above = std::iter::successors(to.parent(), EntryPath::parent);
    state.contains_key(to)
        || to == from
        || to.is_below(from)
        || above.find_map(|above| state.get(&above)).is_some_and(|item| !item.is_directory())
}

/// The archive, the model, and the model at each commit.
struct Run {
    bytes: Vec<u8>,
    state: State,
    states: Vec<State>,
    /// Last number of a link group that is not written yet.
    groups: u64,
    /// Labels of the keys; empty if the archive is not encrypted.
    keys: Vec<String>,
    /// Number of keys created so far.
    made: u32,
}

const CHEAP: Argon2Cost = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };

fn opened(bytes: &[u8], commit: Option<u64>) -> NraReader {
    let options = OpenOptions { commit, key: Some(Secret::user_key([3; 32])), ..OpenOptions::default() };
    NraReader::open(source(bytes.to_vec()), &options).unwrap()
}

impl Run {
    fn new(sealed: bool) -> Self {
        let keyring = sealed.then(|| Keyring::create(&Secret::user_key([3; 32]), CHEAP, "0").unwrap());
        let options = WriterOptions { encryption: keyring, ..options() };
        let writer = Writer::create(Vec::new(), options).unwrap();
        let bytes = writer.finish(&Recorder::default()).unwrap().0;
        let keys = if sealed { vec!["0".into()] } else { Vec::new() };
        Self { bytes, state: State::new(), states: vec![State::new()], groups: 1 << 32, keys, made: 0 }
    }

    fn options(&self) -> WriterOptions {
        WriterOptions { threads: 1, encryption: opened(&self.bytes, None).keyring().cloned(), ..options() }
    }

    fn writer(&self) -> (std::sync::Arc<Disk>, Writer<AppendDestination>) {
        let disk = Disk::new(self.bytes.clone());
        let mut writer = Writer::append(disk.clone(), self.options()).unwrap();
        // Deep trees from few entries.
        writer.block_writer.sizes = PageSizes { leaf: 150, inner: 120, few: 2 };
        // Each change acts on the current entries.
        writer.track_changes().unwrap();
        (disk, writer)
    }

    /// Adds a key, replaces the last one except the first, or removes it.
    fn change_keys(&mut self, writer: &mut Writer<AppendDestination>, what: u8) {
        let last = self.keys.len().saturating_sub(1);
        self.made += 1;
        let secret = Secret::password(self.made.to_string());
        let done = writer.change_keys(|keys| match what {
            0 => keys.add(&secret, CHEAP, &self.made.to_string()),
            1 if last > 0 => keys.replace(last, &secret, CHEAP),
            _ if last > 0 => keys.remove(last),
            _ => Ok(()),
        });
        assert_eq!(done.is_ok(), !(self.keys.is_empty() || what == 0 && self.keys.len() == 16), "{done:?}");
        match what {
            0 if done.is_ok() => self.keys.push(self.made.to_string()),
            2 if last > 0 => self.keys.truncate(last),
            _ => {}
        }
    }

    fn compact(&mut self, keep: u64) {
        let new = NewFile::default();
        let old = source(self.bytes.clone());
        let done = compact(&old, keep, &|| Ok(new.open()), &self.options(), &Recorder::default()).unwrap();
        self.bytes = new.disk().bytes();
        let dropped = self.states.len().saturating_sub(usize::try_from(keep).unwrap());
        assert_eq!(done.dropped_commits, dropped as u64);
        self.states.drain(..dropped);
        for (state, number) in self.states.iter_mut().zip(1..) {
            let reader = opened(&self.bytes, Some(number));
            check(&reader, state);
            take_numbers(&reader, state);
        }
        self.state.clone_from(self.states.last().expect("one is kept"));
    }

    /// Restores an earlier commit, or one path and everything below it.
    fn revert(&mut self, commit: usize, path: Option<&EntryPath>) {
        let (disk, mut writer) = self.writer();
        let index = commit % self.states.len();
        let is_at = |at: &EntryPath| path.is_none_or(|path| at == path || at.is_below(path));
        let is_selected = |change: &Difference| is_at(&change.entry().path);
        let is_selected: &dyn Fn(&Difference) -> bool = &is_selected;
        let (earlier, before) = (self.states[index].clone(), self.state.clone());
        self.state.retain(|at, _| !is_at(at));
        for (at, item) in earlier.iter().filter(|(at, _)| is_at(at)) {
            let above: Vec<EntryPath> = std::iter::successors(at.parent(), EntryPath::parent).collect();
            // Unselected entries do not make room.
            if above.iter().any(|above| self.state.get(above).is_some_and(|item| !item.is_directory())) {
                continue;
            }
            for above in above {
                self.state.entry(above.clone()).or_insert_with(|| earlier[&above].clone());
            }
            self.state.insert(at.clone(), item.clone());
        }
        let mut undone = BTreeSet::new();
        let done =
            revert::<_, Error>(&mut writer, index as u64 + 1, path.map(|_| is_selected), &Recorder::default(), &mut |change| {
                assert!(undone.insert(change.entry().path.clone()), "each once");
                Ok(())
            });
        assert_eq!(done.unwrap().entries, undone.len() as u64);
        // Link group numbers mean nothing in the model.
        let bare = |state: &State, at: &EntryPath| state.get(at).map(|item| (item.entry.clone(), item.content.clone()));
        for at in before.keys().chain(self.state.keys()).filter(|at| bare(&before, at) != bare(&self.state, at)) {
            assert!(undone.contains(at), "{at}");
        }
        self.commit(&disk, writer);
    }

    fn apply(&mut self, writer: &mut Writer<AppendDestination>, change: &Change) {
        if let Change::Key(what) = change {
            return self.change_keys(writer, *what);
        }
        let state = &mut self.state;
        match change {
            Change::Key(_) | Change::Commit | Change::Compact(_) | Change::Revert(..) => unreachable!("handled before"),
            Change::File(path, kind) => {
                store(writer, path, *kind);
                make_room(state, path, false);
                state.insert(path.clone(), Item { entry: named(path), content: content(*kind), group: 0 });
            }
            Change::Directory(path) => {
                writer.add(Entry::new(path.clone(), Kind::Directory), NewContent::None).unwrap();
                make_room(state, path, true);
                state.insert(path.clone(), Item::directory(path, false));
            }
            Change::Link(from, to) => {
                let Some(item) = state.get(from).filter(|item| !item.is_directory()).cloned() else { return };
                if state.contains_key(to) || from.is_below(to) || to.is_below(from) || is_refused(state, from, to) {
                    return;
                }
                let id = writer.reference_entry(from).unwrap();
                writer.add_link(Entry::new(to.clone(), Kind::File), id).unwrap();
                if item.group == 0 {
                    self.groups += 1;
                }
                let group = if item.group == 0 { self.groups } else { item.group };
                make_room(state, to, true);
                state.get_mut(from).unwrap().group = group;
                let entry = Entry { path: to.clone(), ..item.entry };
                state.insert(to.clone(), Item { entry, group, ..item });
            }
            Change::Remove(path) => {
                let found = writer.remove(path);
                assert_eq!(found.is_ok(), state.contains_key(path), "{found:?}");
                state.retain(|at, _| at != path && !at.is_below(path));
            }
            Change::Rename(from, to) => {
                let done = writer.rename(from, to);
                assert_eq!(done.is_ok(), state.contains_key(from) && !is_refused(state, from, to), "{done:?}");
                if done.is_err() {
                    return;
                }
                let moved: Vec<EntryPath> = state.keys().filter(|at| *at == from || at.is_below(from)).cloned().collect();
                make_room(state, to, true);
                for old in moved {
                    let new = [to.as_bytes(), &old.as_bytes()[from.as_bytes().len()..]].concat();
                    let (new, mut item) = (EntryPath::new(new).unwrap(), state.remove(&old).unwrap());
                    item.entry.path = new.clone();
                    state.insert(new, item);
                }
            }
            Change::Mode(path, mode) => {
                let set = |entry: &mut Entry| {
                    entry.metadata = Arc::new(Metadata { mode: *mode, ..(*entry.metadata).clone() });
                };
                let done = writer.change(path, set);
                assert_eq!(done.is_ok(), state.contains_key(path), "{done:?}");
                let Some(item) = state.get_mut(path) else { return };
                if item.entry.metadata.mode != *mode {
                    set(&mut item.entry);
                    (item.entry.implied, item.group) = (false, 0);
                }
            }
        }
    }

    fn commit(&mut self, disk: &Disk, mut writer: Writer<AppendDestination>) {
        let recorder = Recorder::default();
        let snapshot = writer.snapshot().unwrap();
        for path in self.state.keys().chain(self.states.iter().flat_map(State::keys)) {
            let found = snapshot.find(path).unwrap().map(|entry| bare(&entry));
            assert_eq!(found.as_ref(), self.state.get(path).map(|item| &item.entry), "{path}");
        }
        let (end, stats) = writer.finish(&recorder).unwrap();
        drop(end);
        self.bytes = disk.bytes();
        let reader = opened(&self.bytes, None);
        assert_eq!(reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
        assert!(reader.remarks().is_empty() && !reader.is_index_damaged());
        assert!(reader.info().keys.iter().map(|key| &key.label).eq(&self.keys));
        check(&reader, &self.state);
        take_numbers(&reader, &mut self.state);
        assert_eq!(stats.entries, self.state.len() as u64);
        // Without changes there is no commit.
        if stats.commit > self.states.len() as u64 {
            self.states.push(self.state.clone());
        }
        assert_eq!(stats.commit, self.states.len() as u64);
    }
}

/// Returns an entry without size, location and link group.
fn bare(entry: &Entry) -> Entry {
    let mut entry = Entry { size: 0, link_group: 0, ..entry.clone() };
    *entry.content_mut() = Content::None;
    entry
}

/// Asserts that a commit matches the model.
fn check(reader: &NraReader, state: &State) {
    let entries: Vec<Entry> = reader.entries(0..reader.entry_count()).map(Result::unwrap).collect();
    assert!(entries.iter().map(|entry| &entry.path).eq(state.keys()));
    for (entry, item) in entries.iter().zip(state.values()) {
        let (content, group) = (reader.read_all(entry, u64::MAX).unwrap(), item.group);
        assert_eq!(Item { entry: bare(entry), content, group }, *item);
    }
    let found = linked(entries.iter().map(|entry| (&entry.path, entry.link_group)));
    assert_eq!(found, linked(state.iter().map(|(path, item)| (path, item.group))));
}

/// Takes over link group numbers. Within a commit they show which names are one file, which has
/// been checked for any numbers. Between commits they show which name returns to a group.
fn take_numbers(reader: &NraReader, state: &mut State) {
    for (entry, item) in reader.entries(0..reader.entry_count()).map(Result::unwrap).zip(state.values_mut()) {
        item.group = entry.link_group;
    }
}

/// Returns the sets of names of one file, for any link group numbers.
fn linked<'a>(names: impl Iterator<Item = (&'a EntryPath, u64)>) -> BTreeSet<Vec<&'a EntryPath>> {
    let mut groups: BTreeMap<u64, Vec<&EntryPath>> = BTreeMap::new();
    names.filter(|(_, group)| *group != 0).for_each(|(path, group)| groups.entry(group).or_default().push(path));
    groups.into_values().filter(|names| names.len() > 1).collect()
}

/// Applies the changes and checks every commit.
fn replay(changes: &[Change], sealed: bool) {
    let mut run = Run::new(sealed);
    let (mut disk, mut writer) = run.writer();
    for change in changes.iter().chain([&Change::Commit]) {
        if let Change::Commit | Change::Compact(_) | Change::Revert(..) = change {
            run.commit(&disk, writer);
            match change {
                Change::Compact(keep) => run.compact(*keep),
                Change::Revert(commit, path) => run.revert(*commit, path.as_ref()),
                _ => {}
            }
            (disk, writer) = run.writer();
        } else {
            run.apply(&mut writer, change);
        }
    }
    for (number, state) in (1..).zip(&run.states) {
        check(&opened(&run.bytes, Some(number)), state);
    }
}

#[test]
fn readded_name_does_not_join_an_old_link_group() {
    let path = |text: &str| EntryPath::try_from(text).unwrap();
    let (file, link) = (|at| Change::File(path(at), 0), |from, to| Change::Link(path(from), path(to)));
    let back = |commit, at| Change::Revert(commit, Some(path(at)));
    let compacted = [file("a"), link("a", "c/a"), Change::Commit, link("a", "b"), file("a"), Change::Remove(path("c/a"))];
    replay(&[&compacted[..], &[Change::Compact(2), back(0, "a")]].concat(), false);
    let renamed = Change::Rename(path("b"), path("a"));
    replay(&[file("c"), link("c", "b"), file("c"), back(0, "c"), renamed, back(1, "b")], false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_commit_matches_the_model(changes in prop::collection::vec(any_change(), 1..120), sealed in any::<bool>()) {
        replay(&changes, sealed);
    }
}
