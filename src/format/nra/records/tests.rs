//! Tests of record lists, and entry strategies for other tests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::content::{BlockRef, Content, EntryContent as _, Extent, FrameRef, Segment};
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra_core::limits::MAX_OFFSET;
use nra_core::path::EntryPath;
use nra_core::wire::{Cursor, Malformed, put_bytes, put_uv};

fn encode(entries: &[Entry], holder: Holder) -> Vec<u8> {
    let mut list = RecordList::new(holder);
    entries.iter().for_each(|entry| list.push(entry));
    let mut bytes = Vec::new();
    let expected = list.raw_len();
    list.finish(&mut bytes);
    assert!((bytes.len()..=bytes.len() + 100).contains(&expected), "{expected} told, {} made", bytes.len());
    bytes
}

/// Blocks for extents: some uncompressed, some at a high offset.
fn block(number: u64) -> BlockRef {
    let stored_len = if number.is_multiple_of(2) { 1 << 20 } else { 70_000 };
    let offset = if number == 5 { 1 << 40 } else { 256 + number * (1 << 21) };
    BlockRef { offset, raw_len: 1 << 20, stored_len, pad_len: 0, header_checksum: number + 1 }
}

prop_compose! {
    fn any_extent()(number in 0u64..6, offset in 0u32..500_000, len in 1u64..500_000) -> Extent {
        Extent { block: block(number), offset, len }
    }
}

fn any_segment() -> impl Strategy<Value = Segment> {
    prop_oneof![3 => any_extent().prop_map(Segment::Data), 1 => (1u64..1 << 40).prop_map(Segment::Hole)]
}

fn any_digest() -> impl Strategy<Value = Option<Box<Digest>>> {
    option::of(any::<u64>().prop_map(|seed| Box::new(Digest::of(&seed.to_le_bytes()))))
}

/// Merges neighbors, and avoids lists of a single extent.
fn tidy(segments: Vec<Segment>) -> Box<[Segment]> {
    let mut tidy: Vec<Segment> = Vec::new();
    for segment in segments {
        if !tidy.last().is_some_and(|last| extents::are_one(last, &segment)) {
            tidy.push(segment);
        }
    }
    if let [Segment::Data(_)] = tidy[..] {
        tidy.push(Segment::Hole(7));
    }
    tidy.into()
}

pub(crate) fn any_content() -> impl Strategy<Value = (u64, Content)> {
    prop_oneof![
        1 => Just((0, Content::None)),
        4 => any_extent().prop_map(|extent| (extent.len, Content::Extent(extent))),
        2 => (any_extent(), any::<u32>()).prop_map(|(mut extent, sum)| {
            extent.block.stored_len = extent.block.raw_len;
            extent.block.offset += 8;
            (extent.len, Content::Uncompressed(extent, sum))
        }),
        1 => (vec(any_segment(), 1..6), any_digest()).prop_map(|(segments, digest)| {
            let segments = tidy(segments);
            (segments.iter().map(Segment::len).sum(), Content::List(segments, digest))
        }),
        1 => (1u64..1 << 50, any_digest()).prop_map(|(size, digest)| {
            (size, Content::Map(FrameRef { offset: 4096, length: 256, header_checksum: size }, digest))
        }),
    ]
}

fn any_bytes(len: std::ops::Range<usize>) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), len).prop_map(Vec::into_boxed_slice)
}

pub(crate) fn any_attributes() -> impl Strategy<Value = Vec<Attribute>> {
    let any_namespace = prop::sample::select(&Namespace::ALL[..]);
    vec((any_namespace, any_bytes(0..4), any_bytes(0..20)), 0..4).prop_map(|attributes| {
        let mut attributes: Vec<_> =
            attributes.into_iter().map(|(namespace, name, value)| Attribute { namespace, name, value }).collect();
        attributes.sort();
        attributes.dedup_by(|b, a| (a.namespace, &a.name) == (b.namespace, &b.name));
        attributes
    })
}

prop_compose! {
    fn any_metadata()(
        mode in 0u16..=0o7777,
        owner in option::of((any::<u64>(), 0u64..3, any_bytes(0..3), any_bytes(0..3))),
        attributes in any_attributes(),
    ) -> Arc<Metadata> {
        let owner = owner.map(|(user_id, group_id, user, group)| Owner { user_id, group_id, user, group });
        Arc::new(Metadata { mode, owner, attributes: attributes.into() })
    }
}

prop_compose! {
    fn any_time()(seconds: i64, nanoseconds in 0u32..1_000_000_000) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }
}

prop_compose! {
    fn any_entry()(
        path in "[a-d./]{0,5}[a-c!\\x80]{1,3}",
        kind in prop::sample::select(&Kind::ALL[..]),
        metadata in any_metadata(),
        modified in option::of(any_time()),
        link_group in 0u64..3,
        target in vec(1u8.., 1..10),
        device in (any::<u32>(), any::<u32>()),
        implied: bool,
        (size, content) in any_content(),
    ) -> Entry {
        let path: Vec<_> = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
        let path = EntryPath::new(path.join("/").into_bytes()).unwrap_or_else(|_| EntryPath::try_from("x").unwrap());
        let mut entry = Entry::new(path, kind);
        entry.metadata = metadata;
        entry.modified = modified;
        match kind {
            Kind::File => (entry.size, entry.link_group, *entry.content_mut()) = (size, link_group, content),
            Kind::Symlink => entry.target = target.into(),
            Kind::CharacterDevice | Kind::BlockDevice => {
                entry.device = Some(Device { major: device.0, minor: device.1 });
            }
            Kind::Directory if implied => {
                let path = entry.path;
                entry = Entry::new(path, kind);
                entry.implied = true;
            }
            Kind::Directory | Kind::Fifo => {}
        }
        entry
    }
}

/// Valid entries that share metadata, in any order.
pub(crate) fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    (vec(any_entry(), 1..40), any::<prop::sample::Index>()).prop_map(|(mut entries, which)| {
        let shared = Arc::clone(&entries[which.index(entries.len())].metadata);
        for entry in entries.iter_mut().step_by(3).filter(|entry| !entry.implied) {
            entry.metadata = Arc::clone(&shared);
        }
        entries
    })
}

/// Valid entries sorted by path, without repetitions.
pub(crate) fn any_sorted_entries() -> impl Strategy<Value = Vec<Entry>> {
    any_entries().prop_map(|mut entries| {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        entries
    })
}

/// Returns the entries as a block index records them.
pub(crate) fn without_raw(mut entries: Vec<Entry>) -> Vec<Entry> {
    for entry in &mut entries {
        if let Content::Uncompressed(extent, _) = *entry.content() {
            *entry.content_mut() = Content::Extent(extent);
        }
    }
    entries
}

proptest! {
    #[test]
    fn entries_round_trip(entries in any_entries()) {
        for entry in &entries {
            prop_assert_eq!(check(entry), Ok(()));
        }
        let bytes = encode(&entries, Holder::Leaf);
        prop_assert_eq!(parse(Cursor::new(&bytes), None), Ok(entries.clone()));
        let bytes = encode(&entries, Holder::BlockIndex);
        prop_assert_eq!(parse(Cursor::new(&bytes), Some(1 << 41)), Ok(without_raw(entries)));
    }

    #[test]
    fn order_is_checked_in_sorted_lists_only(entries in any_entries(), sorted in any_sorted_entries()) {
        let bytes = encode(&sorted, Holder::Leaf);
        prop_assert_eq!(parse_sorted(Cursor::new(&bytes)), Ok(sorted));
        let bytes = encode(&entries, Holder::Leaf);
        let is_sorted = entries.is_sorted_by(|a, b| a.path < b.path);
        prop_assert_eq!(parse_sorted(Cursor::new(&bytes)).is_ok(), is_sorted);
    }

    /// A changed list that is accepted is another valid list in its only encoding.
    #[test]
    fn changed_bytes_do_not_panic(entries in any_entries(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..3)) {
        let mut bytes = encode(&entries, Holder::Leaf);
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        if let Ok(entries) = parse(Cursor::new(&bytes), None) {
            for entry in &entries {
                prop_assert_eq!(check(entry), Ok(()));
            }
            prop_assert_eq!(encode(&entries, Holder::Leaf), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = parse(Cursor::new(&bytes), None);
    }

    #[test]
    fn truncated_lists_are_rejected(entries in any_entries(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&entries, Holder::Leaf);
        prop_assert!(parse(Cursor::new(&bytes[..cut.index(bytes.len())]), None).is_err());
    }
}

/// A list whose columns can be changed one by one.
struct Broken(u64, [Vec<u8>; COLUMNS]);

impl Broken {
    fn new(entries: &[Entry]) -> Self {
        let bytes = encode(entries, Holder::Leaf);
        let mut cursor = Cursor::new(&bytes);
        let count = cursor.uv().unwrap();
        Self(count, std::array::from_fn(|_| cursor.bytes("column", usize::MAX).unwrap().to_vec()))
    }

    fn set(mut self, column: usize, bytes: &[u8]) -> Self {
        self.1[column] = bytes.to_vec();
        self
    }

    fn parse(&self, own_block: Option<u64>) -> Result<Vec<Entry>, Malformed> {
        let mut bytes = Vec::new();
        put_uv(&mut bytes, self.0);
        self.1.iter().for_each(|column| put_bytes(&mut bytes, column));
        parse(Cursor::new(&bytes), own_block)
    }
}

fn file(path: &str, content: Content) -> Entry {
    let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
    entry.size = match &content {
        Content::None => 0,
        Content::Extent(extent) | Content::Uncompressed(extent, _) => extent.len,
        Content::List(segments, _) => segments.iter().map(Segment::len).sum(),
        Content::Map(..) => 1,
    };
    *entry.content_mut() = content;
    entry
}

/// Table row of `block(0)` without its offset: raw length, stored length, padding, header checksum.
fn block_bytes(offset: &[u8], header_checksum: u64) -> Vec<u8> {
    let mut bytes = offset.to_vec();
    put_uv(&mut bytes, 1 << 20);
    put_uv(&mut bytes, 1 << 20);
    bytes.push(0);
    bytes.extend_from_slice(&header_checksum.to_le_bytes());
    bytes
}

#[test]
fn broken_columns_are_rejected() {
    let extent = Extent { block: block(0), offset: 0, len: 10 };
    let entries = [file("a", Content::Extent(extent)), file("b", Content::Uncompressed(extent, 7))];
    let good = || Broken::new(&entries);
    assert_eq!(good().parse(None).unwrap(), entries);
    // 256 and 264 as signed varints.
    let (first, next) = ([0x80, 0x04], [0x10]);
    let table = |blocks: &[Vec<u8>]| [&[u8::try_from(blocks.len()).unwrap()][..], &blocks.concat()].concat();
    let one = block_bytes(&first, 1);
    assert_eq!(good().1[column::BLOCK_TABLE], table(std::slice::from_ref(&one)));
    for (why, broken) in [
        ("count too small", Broken(1, good().1)),
        ("count too large", Broken(3, good().1)),
        ("count 0", Broken(0, good().1)),
        ("path with a dot component", good().set(column::PATH_REST, b"a.")),
        ("path with NUL", good().set(column::PATH_REST, b"a\0")),
        ("path with a slash only", good().set(column::PATH_REST, b"/b")),
        ("empty path", good().set(column::PATH_REST_LENGTH, &[1, 0]).set(column::PATH_REST, b"a")),
        ("shared too much", good().set(column::PATH_SHARED, &[0, 2])),
        ("long varint", good().set(column::PATH_SHARED, &[0, 0x80, 0])),
        ("unknown kind", good().set(column::KIND, &[0x17, 0x21])),
        ("kind 0", good().set(column::KIND, &[0x10, 0x21])),
        ("unknown form", good().set(column::KIND, &[0x51, 0x21])),
        ("implied file", good().set(column::KIND, &[0x91, 0x21])),
        ("directory with content", good().set(column::KIND, &[0x12, 0x21])),
        ("metadata out of range", good().set(column::METADATA, &[0, 1])),
        ("unused metadata", good().set(column::METADATA_TABLE, &[2, 0, 1, 0, 0, 2, 0])),
        ("metadata twice", good().set(column::METADATA, &[0, 1]).set(column::METADATA_TABLE, &[2, 0, 1, 0, 0, 1, 0])),
        ("metadata in another order", good().set(column::METADATA, &[1, 0]).set(column::METADATA_TABLE, &[2, 0, 1, 0, 0, 2, 0])),
        ("unknown flag", good().set(column::METADATA_TABLE, &[1, 8, 0, 0])),
        ("names without ids", good().set(column::METADATA_TABLE, &[1, 4, 0, 1, b'u', 0, 0])),
        ("names that say nothing", good().set(column::METADATA_TABLE, &[1, 6, 0, 0, 0, 0, 0, 0])),
        ("mode too large", good().set(column::METADATA_TABLE, &[1, 0, 0x80, 0x20, 0])),
        ("attribute set that is none", good().set(column::METADATA_TABLE, &[1, 0, 0, 1])),
        ("unused attribute set", good().set(column::ATTRIBUTE_TABLE, &[1, 1, 0, 1, b'x', 0])),
        ("seconds left over", good().set(column::SECONDS, &[0])),
        ("size 0", good().set(column::SIZE, &[0, 10])),
        ("size beyond the block", good().set(column::SIZE, &[10, 0x81, 0x80, 0x40])),
        ("size missing", good().set(column::SIZE, &[10])),
        ("link group missing", good().set(column::LINK_GROUP, &[0])),
        ("target left over", good().set(column::TARGET, &[1, b'x'])),
        ("device left over", good().set(column::DEVICE, &[1, 1])),
        ("no block table", good().set(column::BLOCK_TABLE, &[0])),
        ("unused block", good().set(column::BLOCK_TABLE, &table(&[one.clone(), block_bytes(&next, 2)]))),
        (
            "block twice",
            good().set(column::EXTENT_BLOCK, &[0, 2]).set(column::BLOCK_TABLE, &table(&[one.clone(), block_bytes(&[0], 2)])),
        ),
        ("block in the head", good().set(column::BLOCK_TABLE, &table(&[block_bytes(&[0x10], 1)]))),
        ("block not aligned", good().set(column::BLOCK_TABLE, &table(&[block_bytes(&[0x82, 0x04], 1)]))),
        ("block before the file", good().set(column::BLOCK_TABLE, &table(&[block_bytes(&[0x0f], 1)]))),
        ("extent in no block", good().set(column::EXTENT_BLOCK, &[0, 2])),
        ("extent before the block", good().set(column::EXTENT_OFFSET, &[1, 0])),
        ("extent offset missing", good().set(column::EXTENT_OFFSET, &[0])),
        ("extent beyond the block", good().set(column::EXTENT_OFFSET, &[0, 0x80, 0x80, 0x80, 0x01])),
        ("content checksum too short", good().set(column::CONTENT_CHECKSUM, &[7, 0, 0])),
        ("content checksum left over", good().set(column::CONTENT_CHECKSUM, &[7, 0, 0, 0, 0])),
        ("extent list left over", good().set(column::EXTENT_LISTS, &[1, 2])),
        ("extent map left over", good().set(column::EXTENT_MAPS, &[0])),
        ("digest left over", good().set(column::FILE_DIGEST, &[0])),
    ] {
        assert!(broken.parse(None).is_err(), "{why}");
    }
    assert!(good().parse(Some(256)).is_err(), "raw in a directory");
    let plain = Broken::new(&entries[..1]);
    assert!(plain.parse(Some(256)).is_err(), "own block with a check");
    assert!(plain.parse(Some(248)).is_err(), "a later block");
    assert!(plain.parse(Some(1 << 41)).is_ok());
    assert!(plain.set(column::BLOCK_TABLE, &table(&[block_bytes(&first, 0)])).parse(Some(256)).is_ok());
}

#[test]
fn broken_extent_lists_are_rejected() {
    let data = |offset, len| Segment::Data(Extent { block: block(0), offset, len });
    let entry = file("a", Content::List([data(0, 10), Segment::Hole(5), data(10, 10)].into(), None));
    let good = || Broken::new(std::slice::from_ref(&entry));
    assert_eq!(good().1[column::EXTENT_LISTS], [3, 20, 11, 20]);
    assert_eq!(good().1[column::EXTENT_OFFSET], [0, 0], "what follows a hole is still expected at the end before it");
    for (why, broken) in [
        ("no items", good().set(column::EXTENT_LISTS, &[0])),
        ("sum too small", good().set(column::SIZE, &[26])),
        ("sum too large", good().set(column::SIZE, &[24])),
        ("length 0", good().set(column::EXTENT_LISTS, &[3, 20, 1, 20])),
        ("neighbours are one", good().set(column::SIZE, &[20]).set(column::EXTENT_LISTS, &[2, 20, 20])),
        ("neighbouring holes", good().set(column::EXTENT_LISTS, &[4, 20, 5, 7, 20])),
        (
            "single extent",
            good()
                .set(column::SIZE, &[10])
                .set(column::EXTENT_LISTS, &[1, 20])
                .set(column::EXTENT_BLOCK, &[0])
                .set(column::EXTENT_OFFSET, &[0]),
        ),
        ("extents left over", good().set(column::EXTENT_BLOCK, &[0, 0, 0])),
        ("too many", good().set(column::EXTENT_LISTS, &[&[0x81, 0x08][..], &[3; 1025]].concat())),
        ("digest missing", good().set(column::FILE_DIGEST, &[])),
        ("digest too short", good().set(column::FILE_DIGEST, &[1; DIGEST_LEN])),
        ("digest of another kind", good().set(column::FILE_DIGEST, &[2; DIGEST_LEN + 1])),
    ] {
        assert!(broken.parse(None).is_err(), "{why}");
    }
    assert!(good().set(column::FILE_DIGEST, &[1; DIGEST_LEN + 1]).parse(None).is_ok());
    let hole = file("a", Content::List([Segment::Hole(MAX_OFFSET)].into(), None));
    assert!(Broken::new(std::slice::from_ref(&hole)).parse(None).is_ok());
    let two = [hole.clone(), Entry { path: EntryPath::try_from("b").unwrap(), ..hole }];
    assert!(Broken::new(&two).parse(None).is_err(), "sum of sizes beyond 63 bits");
}

#[test]
fn broken_links_and_devices_are_rejected() {
    let mut link = Entry::new(EntryPath::try_from("l").unwrap(), Kind::Symlink);
    link.target = b"../t"[..].into();
    let good = || Broken::new(std::slice::from_ref(&link));
    assert!(good().parse(None).is_ok());
    for bad in [&[0][..], &[1, 0], &[2, b'x'], &[]] {
        assert!(good().set(column::TARGET, bad).parse(None).is_err(), "{bad:?}");
    }
    let mut device = Entry::new(EntryPath::try_from("d").unwrap(), Kind::BlockDevice);
    device.device = Some(Device { major: 8, minor: u32::MAX });
    let good = || Broken::new(std::slice::from_ref(&device));
    assert!(good().parse(None).is_ok());
    for bad in [&[1][..], &[1, 0x80, 0x80, 0x80, 0x80, 0x10]] {
        assert!(good().set(column::DEVICE, bad).parse(None).is_err(), "{bad:?}");
    }
}

#[test]
fn unencodable_entries_are_reported() {
    let extent = Extent { block: block(0), offset: 0, len: 10 };
    let good = file("a", Content::Extent(extent));
    assert_eq!(check(&good), Ok(()));
    let with = |change: fn(&mut Entry)| {
        let mut entry = good.clone();
        change(&mut entry);
        entry
    };
    for (why, bad) in [
        ("size", with(|entry| entry.size = 9)),
        ("kind", with(|entry| entry.kind = Kind::Fifo)),
        ("target", with(|entry| entry.target = b"t"[..].into())),
        ("no target", with(|entry| (entry.kind, entry.size, *entry.content_mut()) = (Kind::Symlink, 0, Content::None))),
        ("device", with(|entry| entry.device = Some(Device { major: 0, minor: 0 }))),
        ("implied file", with(|entry| entry.implied = true)),
        (
            "implied with mode",
            with(|entry| {
                *entry = Entry::new(EntryPath::try_from("d").unwrap(), Kind::Directory);
                (entry.implied, entry.metadata) = (true, Arc::default());
            }),
        ),
        ("mode", with(|entry| entry.metadata = Arc::new(Metadata { mode: 0o10000, ..Metadata::default() }))),
        ("nanoseconds", with(|entry| entry.modified = Some(Timestamp { seconds: 0, nanoseconds: 1_000_000_000 }))),
    ] {
        assert!(check(&bad).is_err(), "{why}");
    }
}
