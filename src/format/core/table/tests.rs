use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::rows::Row;
use super::*;
use crate::archive::{Access, Archive, ContentSink, Depth, Info, Part};
use crate::entry::{Entry, Kind};
use crate::error::{Error, Result};
use crate::path::EntryPath;
use crate::progress::Recorder;

/// Contents that repeat their number.
#[derive(Default)]
struct Fake {
    broken: Option<u64>,
    short: Option<u64>,
    calls: AtomicU64,
}

impl TableBackend for Fake {
    fn with_range(&self, member: &ContentRef, range: std::ops::Range<u64>, _: Access, sink: ContentSink<'_>) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.broken == Some(member.place.0) {
            return Err(Error::corrupt("block", member.place.0, "its checksum is wrong"));
        }
        let len = usize::try_from(range.end - range.start).unwrap() - usize::from(self.short == Some(member.number));
        sink(Part::Data(&vec![u8::try_from(member.number).unwrap(); len]))
    }
}

fn item(kind: Kind, number: u64, size: u64) -> TableEntry {
    TableEntry { number, size, place: (number / 2, number % 2), ..TableEntry::new(kind) }
}

/// Builds a table of names. A trailing `/` means a directory. Numbers and sizes count from 1.
fn table(winner: Duplicates, names: &[&str]) -> Table {
    let mut builder = TableBuilder::new(winner, 1 << 20);
    for (name, number) in names.iter().zip(1..) {
        let kind = if name.ends_with('/') { Kind::Directory } else { Kind::File };
        builder.add(name.as_bytes(), item(kind, number, number)).unwrap();
    }
    builder.finish().unwrap()
}

fn archive(names: &[&str], members: Fake) -> TableArchive<Fake> {
    TableArchive::new(table(Duplicates::KeepLast, names), members, Info::default())
}

fn shown(table: &Table) -> Vec<String> {
    (0..table.len())
        .map(|number| {
            let entry = table.entry(number).unwrap();
            let number = entry.location.number().map_or(0, |(number, _)| number);
            let implied = if entry.implied { "+" } else { "" };
            let slash = if entry.kind == Kind::Directory { "/" } else { "" };
            format!("{implied}{}{slash}={number}", entry.path)
        })
        .collect()
}

#[test]
fn entries_are_in_path_order_with_their_parents() {
    let table = table(Duplicates::KeepLast, &["b", "a/x/y", "a-", "./a/z//", "c/"]);
    assert_eq!(shown(&table), ["+a/=0", "+a/x/=0", "a/x/y=2", "a/z/=4", "a-=3", "b=1", "c/=5"]);
    assert!(table.remarks().is_empty() && !table.skips_entries());
    assert_eq!((table.files(), table.content_bytes()), (3, 6));
}

#[test]
fn one_entry_of_each_name_is_kept() {
    let names = ["a", "b", "a", "d/", "d/"];
    assert_eq!(shown(&table(Duplicates::KeepLast, &names)), ["a=3", "b=2", "d/=5"]);
    let first = table(Duplicates::KeepFirst, &names);
    assert_eq!(shown(&first), ["a=1", "b=2", "d/=4"]);
    assert_eq!(first.remarks(), ["1 entry is hidden by an earlier entry of the same name: a"]);
    assert!(!first.skips_entries());
}

#[test]
fn file_with_entries_below_it_becomes_a_directory() {
    let table = table(Duplicates::KeepLast, &["a/b/c", "a/b", "a", "a/bc", "x", "xy"]);
    assert_eq!(shown(&table), ["+a/=0", "+a/b/=0", "a/b/c=1", "a/bc=4", "x=5", "xy=6"]);
    assert!(table.skips_entries());
    assert_eq!(table.remarks().len(), 1);
    assert_eq!(table.content_bytes(), 16);
}

#[test]
fn invalid_names_are_skipped_with_a_remark() {
    let table = table(Duplicates::KeepLast, &["../x", "/etc/passwd", "a\0b", "", "/", "./", "ok"]);
    assert_eq!(shown(&table), ["+etc/=0", "etc/passwd=2", "ok=7"]);
    assert!(table.skips_entries());
    assert_eq!(
        table.remarks(),
        [
            "3 entries are skipped, because their names are invalid: ../x, $'a\\x00b', ''",
            "1 entry has an absolute name, read as relative: /etc/passwd",
        ]
    );
}

#[test]
fn memory_is_limited() {
    let mut builder = TableBuilder::new(Duplicates::KeepLast, 10_000);
    let long = "x/".repeat(500);
    builder.add(long.as_bytes(), item(Kind::File, 1, 1)).unwrap();
    let error = builder.finish().unwrap_err();
    assert!(matches!(error, Error::Limit { what: "memory for the index", limit: 10_000, .. }), "{error}");

    let mut builder = TableBuilder::new(Duplicates::KeepLast, 10_000);
    let added = (0..1_000).find(|number| builder.add(format!("{number}").as_bytes(), item(Kind::File, *number, 1)).is_err());
    assert!((100..140).contains(&added.unwrap()), "{added:?}");

    let mut builder = TableBuilder::new(Duplicates::KeepLast, 10_000);
    let target = TableEntry { target: vec![b'x'; 10_000].into(), ..TableEntry::new(Kind::Symlink) };
    assert!(builder.add(b"link", target).is_err());
    assert!(size_of::<Row>() <= 72);
}

#[test]
fn sum_of_sizes_does_not_overflow() {
    let mut builder = TableBuilder::new(Duplicates::KeepLast, 10_000);
    builder.add(b"a", item(Kind::File, 1, u64::MAX / 2)).unwrap();
    assert!(matches!(builder.add(b"b", item(Kind::File, 2, 1)), Err(Error::Limit { .. })));
}

#[test]
fn content_is_read_through_the_engine() {
    let archive = archive(&["a/x", "b", "e"], Fake::default());
    let (_, entry) = archive.find(b"b").unwrap().unwrap();
    assert_eq!(archive.read_all(&entry, 10).unwrap(), [2, 2]);
    let mut buffer = [9; 4];
    assert_eq!(archive.read_at(&entry, 1, &mut buffer).unwrap(), 1);
    assert_eq!(buffer, [2, 9, 9, 9]);
    assert_eq!(archive.read_at(&entry, 2, &mut buffer).unwrap(), 0);
    assert_eq!(archive.digest(&entry).unwrap(), Some(crate::digest::Digest::of(&[2, 2])));
    let (_, directory) = archive.find(b"a").unwrap().unwrap();
    assert_eq!(archive.read_at(&directory, 0, &mut buffer).unwrap(), 0);
    assert_eq!(archive.digest(&directory).unwrap(), None);
    let stranger = Entry { size: 1, ..Entry::new(EntryPath::try_from("b").unwrap(), Kind::File) };
    assert!(matches!(archive.read_at(&stranger, 0, &mut buffer), Err(Error::Usage { .. })));
}

#[test]
fn content_shorter_than_in_the_index_is_an_error() {
    let archive = archive(&["a", "b"], Fake { short: Some(2), ..Fake::default() });
    let (_, entry) = archive.find(b"b").unwrap().unwrap();
    assert!(matches!(archive.read_all(&entry, 10), Err(Error::Corrupt { structure: "member", .. })));
}

#[test]
fn damage_is_reported_once_with_all_affected_entries() {
    let names: Vec<String> = (0..9).map(|number| format!("{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let archive = archive(&names, Fake { broken: Some(2), ..Fake::default() });
    let recorder = Recorder::default();
    let verdict = archive.verify(Depth::Full, None, &recorder).unwrap();
    assert_eq!((verdict.entries, verdict.content_bytes, verdict.damage.len()), (9, 45, 1));
    let damage = &verdict.damage[0];
    assert_eq!((damage.structure.as_str(), damage.offset, damage.entry_count), ("block", 2, 2));
    assert_eq!(damage.entries.iter().map(ToString::to_string).collect::<Vec<_>>(), ["3", "4"]);
    let some = archive.verify(Depth::Full, Some(&|entry: &Entry| entry.path.as_bytes() < &b"3"[..]), &recorder).unwrap();
    assert!(some.damage.is_empty());
    assert_eq!(some.entries, 3);
    recorder.cancel();
    assert!(matches!(archive.verify(Depth::Full, None, &recorder), Err(Error::Cancelled)));
}

/// Returns the entries of a list of names, the last of equal ones, by brute force.
fn model(names: &[String]) -> BTreeMap<EntryPath, (bool, u64)> {
    let mut found: BTreeMap<EntryPath, (bool, u64)> = BTreeMap::new();
    for (name, number) in names.iter().zip(1..) {
        let directory = name.ends_with('/');
        found.insert(EntryPath::try_from(name.trim_end_matches('/')).unwrap(), (directory, if directory { 0 } else { number }));
    }
    for path in found.keys().cloned().collect::<Vec<_>>() {
        let mut path = path;
        while let Some(parent) = path.parent() {
            let known = found.entry(parent.clone()).or_insert((true, 0));
            *known = (true, 0);
            path = parent;
        }
    }
    found
}

proptest! {
    #[test]
    fn table_equals_model(names in prop::collection::vec("[ab!]{1,2}(/[ab!]{1,2}){0,3}/?", 0..40)) {
        let archive = archive(&names.iter().map(String::as_str).collect::<Vec<_>>(), Fake::default());
        let model: Vec<_> = model(&names).into_iter().collect();
        let found: Vec<Entry> = archive.entries(0..u64::MAX).map(Result::unwrap).collect();
        let brief: Vec<_> = found.iter().map(|e| (e.path.clone(), (e.kind == Kind::Directory, e.size))).collect();
        prop_assert_eq!(&brief, &model);
        let sum = |entries: &[&Entry]| entries.iter().map(|entry| entry.size).sum::<u64>();
        for (number, entry) in found.iter().enumerate() {
            prop_assert_eq!(archive.find(entry.path.as_bytes()).unwrap(), Some((number as u64, entry.clone())));
            let below: Vec<&Entry> = found.iter().filter(|other| **other == *entry || other.path.is_below(&entry.path)).collect();
            let range = archive.subtree(Some(entry.path.as_bytes())).unwrap();
            prop_assert_eq!(range.clone(), number as u64..(number + below.len()) as u64);
            prop_assert_eq!(archive.totals(range).unwrap().content_bytes, sum(&below));
            let children: Vec<Entry> = archive.children(Some(entry.path.as_bytes())).map(Result::unwrap).collect();
            let expected: Vec<Entry> = found.iter().filter(|other| other.path.parent().as_ref() == Some(&entry.path)).cloned().collect();
            prop_assert_eq!(children, expected);
        }
        let top: Vec<Entry> = archive.children(None).map(Result::unwrap).collect();
        prop_assert!(top.iter().all(|entry| entry.path.parent().is_none()));
        prop_assert_eq!(top.len(), found.iter().filter(|entry| entry.path.parent().is_none()).count());
        prop_assert_eq!(archive.find(b"zz").unwrap(), None);
    }
}
