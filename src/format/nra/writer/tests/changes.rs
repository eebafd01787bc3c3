//! Random changes and commits against a map of paths; every commit must read as the map was then.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::append::{open, pack};
use super::disk::{Disk, source};
use super::*;
use crate::format::archive::{Archive, OpenOptions};
use crate::format::nra::reader::NraReader;
use crate::format::nra::writer::trees::PageSizes;

/// What the model knows of an entry.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    directory: bool,
    mode: u16,
    content: Vec<u8>,
    /// Names with the same number, other than 0, are hard links.
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
    Commit,
}

type State = BTreeMap<EntryPath, Item>;

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
        3 => Just(Change::Commit),
    ]
}

/// Contents that repeat: empty, short, raw and compressed, and one of several pieces with a hole.
fn content(kind: u8) -> Vec<u8> {
    match kind {
        0 => Vec::new(),
        1..4 => noise(40 + usize::from(kind), kind.into()),
        4..11 => text(200 + usize::from(kind), kind.into()),
        _ => [text(900, 1), vec![0; 5_000], noise(41, 1)].concat(),
    }
}

fn store(writer: &mut Writer<StoreEnd>, path: &EntryPath, kind: u8) {
    let entry = Entry { path: path.clone(), ..file("x") };
    match kind {
        11 => {
            writer.begin(entry).unwrap();
            writer.piece(&text(900, 1), Digest::of(&text(900, 1)), false).unwrap();
            writer.hole(5_000).unwrap();
            writer.piece(&noise(41, 1), Digest::of(&noise(41, 1)), true).unwrap();
            writer.end(None).unwrap();
        }
        _ => {
            writer.add(entry, whole(&content(kind))).unwrap();
        }
    }
}

/// Makes a path free for an entry and adds the directories above it.
fn make_room(state: &mut State, path: &EntryPath, keep_below: bool) {
    state.retain(|at, _| keep_below || !at.is_below(path));
    let mut above = path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        let there = state.get(&directory).is_some_and(|item| item.directory);
        if !there {
            state.insert(directory, Item { directory: true, mode: 0o755, content: Vec::new(), group: 0 });
        }
    }
}

fn is_refused(state: &State, from: &EntryPath, to: &EntryPath) -> bool {
    let mut above = std::iter::successors(to.parent(), EntryPath::parent);
    state.contains_key(to)
        || to == from
        || to.is_below(from)
        || above.find_map(|above| state.get(&above)).is_some_and(|item| !item.directory)
}

/// The archive, the model, and the states at all commits.
struct Run {
    bytes: Vec<u8>,
    state: State,
    states: Vec<State>,
    groups: u64,
}

impl Run {
    fn new() -> Self {
        let bytes = pack(|_| {});
        Self { bytes, state: State::new(), states: vec![State::new()], groups: 0 }
    }

    fn writer(&self) -> (std::sync::Arc<Disk>, Writer<StoreEnd>) {
        let disk = Disk::new(self.bytes.clone());
        let mut writer = Writer::append(disk.clone(), WriterOptions { threads: 1, ..options() }).unwrap();
        // Trees of several levels from few entries.
        writer.placing.sizes = PageSizes { leaf: 150, inner: 120, few: 2 };
        // Each change acts on what is there by then.
        writer.settle_state().unwrap();
        (disk, writer)
    }

    fn apply(&mut self, writer: &mut Writer<StoreEnd>, change: &Change) {
        let state = &mut self.state;
        match change {
            Change::Commit => unreachable!("handled by the caller"),
            Change::File(path, kind) => {
                store(writer, path, *kind);
                make_room(state, path, false);
                state.insert(path.clone(), Item { directory: false, mode: 0o644, content: content(*kind), group: 0 });
            }
            Change::Directory(path) => {
                writer.add(Entry::new(path.clone(), Kind::Directory), NewContent::None).unwrap();
                make_room(state, path, true);
                state.insert(path.clone(), Item { directory: true, mode: 0o755, content: Vec::new(), group: 0 });
            }
            Change::Link(from, to) => {
                let Some(item) = state.get(from).filter(|item| !item.directory).cloned() else { return };
                if state.contains_key(to) || from.is_below(to) || to.is_below(from) || is_refused(state, from, to) {
                    return;
                }
                let id = writer.keep(from).unwrap();
                writer.add_link(Entry::new(to.clone(), Kind::File), id).unwrap();
                if item.group == 0 {
                    self.groups += 1;
                }
                let group = if item.group == 0 { self.groups } else { item.group };
                make_room(state, to, true);
                state.get_mut(from).unwrap().group = group;
                state.insert(to.clone(), Item { group, ..item });
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
                    let (new, item) = (EntryPath::new(new).unwrap(), state.remove(&old).unwrap());
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
                if item.mode != *mode {
                    (item.mode, item.group) = (*mode, 0);
                }
            }
        }
    }

    fn commit(&mut self, disk: &Disk, writer: Writer<StoreEnd>) {
        let recorder = Recorder::default();
        let (end, stats) = writer.finish(&recorder).unwrap();
        drop(end);
        self.bytes = disk.bytes();
        let reader = open(&self.bytes);
        check(&reader, &self.state);
        assert_eq!(stats.entries, self.state.len() as u64);
        // Nothing to say, no commit.
        if stats.commit > self.states.len() as u64 {
            self.states.push(self.state.clone());
        }
        assert_eq!(stats.commit, self.states.len() as u64);
    }
}

fn check(reader: &NraReader, state: &State) {
    let entries: Vec<Entry> = reader.entries(0..reader.entry_count()).map(Result::unwrap).collect();
    assert!(entries.iter().map(|entry| &entry.path).eq(state.keys()));
    let mut groups = BTreeMap::new();
    for (entry, item) in entries.iter().zip(state.values()) {
        let found = Item {
            directory: entry.kind == Kind::Directory,
            mode: entry.metadata.mode,
            content: reader.read_all(entry, u64::MAX).unwrap(),
            group: item.group,
        };
        assert_eq!(found, *item, "{}", entry.path);
        // Ours may be none where the model has one of a single name.
        if entry.link_group != 0 {
            assert_eq!(*groups.entry(entry.link_group).or_insert(item.group), item.group, "{}", entry.path);
        }
    }
    let linked = |group: u64| group != 0 && state.values().filter(|item| item.group == group).count() > 1;
    for (entry, item) in entries.iter().zip(state.values()) {
        assert!(entry.link_group != 0 || !linked(item.group), "{} lost its links", entry.path);
    }
}

proptest! {
    #[test]
    fn every_commit_reads_as_the_model_was(changes in prop::collection::vec(any_change(), 1..120)) {
        let mut run = Run::new();
        let (mut disk, mut writer) = run.writer();
        for change in changes.iter().chain([&Change::Commit]) {
            if let Change::Commit = change {
                run.commit(&disk, writer);
                (disk, writer) = run.writer();
            } else {
                run.apply(&mut writer, change);
            }
        }
        for (number, state) in run.states.iter().enumerate() {
            let options = OpenOptions { commit: Some(number as u64 + 1), ..OpenOptions::default() };
            check(&NraReader::open(source(run.bytes.clone()), &options).unwrap(), state);
        }
    }
}
