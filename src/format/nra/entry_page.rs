//! Pages of the entry tree.
//!
//! Spec: nra.md, section 9.

use std::cmp::Ordering;

use crate::content::FrameRef;
use crate::front_coding::{FrontDecoder, FrontEncoder};
use crate::records::{self, Holder, RecordList};
use nra_core::entry::Entry;
use nra_core::limits::{MAX_LEVEL, MAX_LIST_ENTRIES, MAX_OFFSET, MAX_PATH};
use nra_core::path::compare;
use nra_core::wire::{Cursor, Malformed, put_bytes, put_sv, put_uv};

/// Raw payload length at which a writer closes a leaf page, bytes.
pub const LEAF_TARGET: usize = 16 << 10;
/// Raw payload length at which a writer closes an inner page, bytes.
pub const INNER_TARGET: usize = 32 << 10;

/// Level of leaf pages.
const LEAF: u8 = 0;

#[derive(Debug, Clone, PartialEq)]
pub enum EntryPage {
    /// Entries in path order.
    Leaf(Vec<Entry>),
    /// Children, with totals of the entries below them.
    Inner(InnerPage),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPage {
    /// Level; 1 is the parent level of leaf pages.
    pub level: u8,
    /// Children in path order.
    pub children: Vec<Child>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Shortest prefix of the first path below the page that is greater than the last path before
    /// it; empty for the first child.
    pub key: Box<[u8]>,
    pub page: FrameRef,
    /// Number of entries below the page.
    pub entries: u64,
    /// Sum of the sizes of the files below the page, bytes.
    pub content_bytes: u64,
}

/// Level and totals of a page, computed from the page itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageTotals {
    pub level: u8,
    pub entries: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
}

impl Child {
    /// Checks that the page has the totals that its parent records, and the expected `level` if
    /// that is known.
    pub(crate) fn check(&self, found: PageTotals, level: Option<u8>) -> Result<(), Malformed> {
        if let Some(level) = level.filter(|&level| level != found.level) {
            return Err(format!("level {}, expected {level}", found.level));
        }
        if (found.entries, found.content_bytes) != (self.entries, self.content_bytes) {
            return Err(format!(
                "{} entries and {} content bytes below it, expected {} and {}",
                found.entries, found.content_bytes, self.entries, self.content_bytes
            ));
        }
        Ok(())
    }

    /// Checks that the page lies between the key that led to it and `upper`, the next key. `upper`
    /// is `None` at the end of the tree. `ends` holds the first and last path of a leaf page or the
    /// first and last key of an inner page; a page without entries fits everywhere.
    ///
    /// The check ensures that no two paths lead to one leaf page, so a small file cannot list the
    /// same entries endlessly.
    pub(crate) fn check_position(&self, ends: Option<(&[u8], &[u8])>, level: u8, upper: Option<&[u8]>) -> Result<(), Malformed> {
        let Some((first, last)) = ends else { return Ok(()) };
        if level > LEAF && *first != *self.key {
            return Err("its first key differs from the key that led to it".into());
        }
        if compare(first, &self.key).is_lt() {
            return Err("it starts before the key that led to it".into());
        }
        match upper {
            Some(upper) if !compare(last, upper).is_lt() => Err("it does not end before the next key".into()),
            _ => Ok(()),
        }
    }
}

/// Returns the first and last path of entries in path order.
pub(crate) fn ends_of_leaf(entries: &[Entry]) -> Option<(&[u8], &[u8])> {
    Some((entries.first()?.path.as_bytes(), entries.last()?.path.as_bytes()))
}

/// Returns the first and last key of an inner page.
pub(crate) fn ends_of_inner(children: &[Child]) -> Option<(&[u8], &[u8])> {
    Some((&children.first()?.key, &children.last()?.key))
}

/// Returns the sum of the sizes of entries, bytes.
pub(crate) fn content_bytes(entries: &[Entry]) -> u64 {
    entries.iter().fold(0, |sum, entry| entry.size.saturating_add(sum))
}

impl EntryPage {
    /// Returns the level and totals of the page.
    pub(crate) fn below(&self) -> PageTotals {
        match self {
            Self::Leaf(entries) => {
                PageTotals { level: LEAF, entries: entries.len() as u64, content_bytes: content_bytes(entries) }
            }
            // The parser has checked these sums for overflow.
            Self::Inner(InnerPage { level, children }) => PageTotals {
                level: *level,
                entries: children.iter().map(|child| child.entries).sum(),
                content_bytes: children.iter().map(|child| child.content_bytes).sum(),
            },
        }
    }

    /// Returns the first and last path of a leaf page, or the first and last key of an inner page.
    pub(crate) fn ends(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Leaf(entries) => ends_of_leaf(entries),
            Self::Inner(page) => ends_of_inner(&page.children),
        }
    }

    /// Returns the raw payload of the page. The page is not empty.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Leaf(entries) => {
                let mut list = RecordList::new(Holder::Leaf);
                entries.iter().for_each(|entry| list.push(entry));
                encode_leaf(list)
            }
            Self::Inner(page) => page.encode(),
        }
    }

    /// Parses the raw payload of a page.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        match cursor.u8()? {
            LEAF => Ok(Self::Leaf(records::parse_sorted(cursor)?)),
            level => Ok(Self::Inner(InnerPage::parse(level, cursor)?)),
        }
    }
}

/// Returns the raw payload of a leaf page that holds a record list sorted by path.
pub(crate) fn encode_leaf(list: RecordList) -> Vec<u8> {
    let mut payload = vec![LEAF];
    list.finish(&mut payload);
    payload
}

impl InnerPage {
    fn encode(&self) -> Vec<u8> {
        let mut keys = FrontEncoder::default();
        let (mut offsets, mut lengths, mut header_checksums) = (Vec::new(), Vec::new(), Vec::new());
        let (mut entries, mut content) = (Vec::new(), Vec::new());
        let mut before = 0u64;
        for child in &self.children {
            keys.push(&child.key);
            put_sv(&mut offsets, child.page.offset.wrapping_sub(before).cast_signed());
            before = child.page.offset;
            put_uv(&mut lengths, child.page.length);
            header_checksums.extend_from_slice(&child.page.header_checksum.to_le_bytes());
            put_uv(&mut entries, child.entries);
            put_uv(&mut content, child.content_bytes);
        }
        let mut payload = vec![self.level];
        put_uv(&mut payload, self.children.len() as u64);
        for column in [&keys.shared, &keys.rest_len, &keys.rest, &offsets, &lengths, &header_checksums, &entries, &content] {
            put_bytes(&mut payload, column);
        }
        payload
    }

    fn parse(level: u8, mut cursor: Cursor<'_>) -> Result<Self, Malformed> {
        if level > MAX_LEVEL {
            return Err(format!("level {level}"));
        }
        let count = cursor.count("children", MAX_LIST_ENTRIES)?;
        if count == 0 {
            return Err("an inner page without children".into());
        }
        let mut column = || cursor.bytes("a column", usize::MAX);
        let (shared, rest_len, rest) = (column()?, column()?, column()?);
        let mut keys = FrontDecoder::new(shared, rest_len, rest, MAX_PATH);
        let [mut offsets, mut lengths] = [Cursor::new(column()?), Cursor::new(column()?)];
        let mut header_checksums = Cursor::new(column()?);
        let [mut entries, mut content] = [Cursor::new(column()?), Cursor::new(column()?)];
        cursor.end("the page")?;
        if header_checksums.remaining() != count * 8 {
            return Err(format!("{} bytes of header checksums for {count} children", header_checksums.remaining()));
        }
        let mut children = Vec::with_capacity(count);
        let (mut offset, mut all_entries, mut all_content) = (0u64, 0u64, 0u64);
        for i in 0..count {
            let (_, order) = keys.advance().map_err(|detail| format!("key {i}: {detail}"))?;
            if i > 0 && order != Ordering::Greater {
                return Err(format!("key {i} does not follow the preceding key in path order"));
            }
            offset = offset.wrapping_add(offsets.sv()?.cast_unsigned());
            let page = FrameRef { offset, length: lengths.uv()?, header_checksum: header_checksums.u64()? };
            page.validate()?;
            let (entries, content_bytes) = (entries.uv()?, content.uv()?);
            if entries == 0 {
                return Err(format!("no entries below child {i}"));
            }
            all_entries = add(all_entries, entries)?;
            all_content = add(all_content, content_bytes)?;
            children.push(Child { key: keys.current().into(), page, entries, content_bytes });
        }
        keys.end("the keys")?;
        for (column, name) in [(offsets, "offsets"), (lengths, "lengths"), (entries, "entries"), (content, "content")] {
            column.end(name)?;
        }
        Ok(Self { level, children })
    }
}

/// Adds two counts. The sum must fit 63 bits.
pub(crate) fn add(sum: u64, amount: u64) -> Result<u64, Malformed> {
    sum.checked_add(amount).filter(|&sum| sum <= MAX_OFFSET).ok_or_else(|| "a sum above 2^63 - 1".into())
}

/// Returns the shortest prefix of `first` that is greater than `last` in path order. `first` must
/// be greater than `last`.
pub fn separator<'a>(last: &[u8], first: &'a [u8]) -> &'a [u8] {
    // The strings differ at this byte, or `last` ends before it. Either decides the order.
    let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
    &first[..first.len().min(common + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::any_sorted_entries;
    use proptest::prelude::*;

    fn any_inner() -> impl Strategy<Value = InnerPage> {
        let child =
            (prop::collection::vec(any::<u8>(), 0..4), 32u64..1 << 30, 8u64..100, any::<u64>(), 1u64..1000, 0u64..1 << 40);
        (1u8..=15, prop::collection::vec(child, 1..20)).prop_map(|(level, children)| {
            let mut children: Vec<_> = children
                .into_iter()
                .map(|(key, offset, length, header_checksum, entries, content_bytes)| {
                    let page = FrameRef { offset: offset * 8, length: length * 8, header_checksum };
                    Child { key: key.into(), page, entries, content_bytes }
                })
                .collect();
            children.sort_by(|a, b| compare(&a.key, &b.key));
            children.dedup_by(|a, b| a.key == b.key);
            InnerPage { level, children }
        })
    }

    fn child(key: &[u8]) -> Child {
        Child { key: key.into(), page: FrameRef { offset: 256, length: 64, header_checksum: 1 }, entries: 1, content_bytes: 0 }
    }

    proptest! {
        #[test]
        fn leaf_pages_round_trip(entries in any_sorted_entries()) {
            let page = EntryPage::Leaf(entries);
            prop_assert_eq!(EntryPage::parse(&page.encode()), Ok(page));
        }

        #[test]
        fn inner_pages_round_trip(page in any_inner(), extra: u8) {
            let page = EntryPage::Inner(page);
            let mut payload = page.encode();
            prop_assert_eq!(EntryPage::parse(&payload), Ok(page));
            payload.push(extra);
            prop_assert!(EntryPage::parse(&payload).is_err());
            payload.truncate(payload.len() - 2);
            prop_assert!(EntryPage::parse(&payload).is_err());
        }

        #[test]
        fn changed_bytes_do_not_panic(page in any_inner(), at in any::<prop::sample::Index>(), to: u8) {
            let mut payload = EntryPage::Inner(page).encode();
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(page) = EntryPage::parse(&payload) {
                prop_assert_eq!(page.encode(), payload);
            }
        }

        #[test]
        fn separators_lie_between_their_paths(a in "[a-c/!]{1,6}", b in "[a-c/!]{1,6}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            prop_assume!(compare(a, b).is_lt());
            let key = separator(a, b);
            prop_assert!(compare(key, a).is_gt() && !compare(key, b).is_gt() && b.starts_with(key));
            prop_assert!(key.len() == 1 || !compare(&key[..key.len() - 1], a).is_gt());
        }
    }

    #[test]
    fn broken_inner_pages_are_rejected() {
        let page = |level, children: &[Child]| EntryPage::Inner(InnerPage { level, children: children.to_vec() }).encode();
        assert!(EntryPage::parse(&page(1, &[child(b""), child(b"b")])).is_ok());
        for (why, payload) in [
            ("nothing", vec![]),
            ("a leaf without entries", vec![0, 0]),
            ("no children", page(1, &[])),
            ("level", page(16, &[child(b"")])),
            ("keys equal", page(1, &[child(b"a"), child(b"a")])),
            ("keys out of order", page(1, &[child(b"a!"), child(b"a/")])),
            ("no entries below", page(1, &[Child { entries: 0, ..child(b"") }])),
            ("sum of entries", page(1, &[Child { entries: MAX_OFFSET, ..child(b"") }, child(b"b")])),
            ("content", page(1, &[Child { content_bytes: MAX_OFFSET + 1, ..child(b"") }])),
            (
                "page in the head",
                page(1, &[Child { page: FrameRef { offset: 8, length: 64, header_checksum: 0 }, ..child(b"") }]),
            ),
        ] {
            assert!(EntryPage::parse(&payload).is_err(), "{why}");
        }
        let mut more = page(1, &[child(b"")]);
        more[1] = 2;
        assert!(EntryPage::parse(&more).is_err());
    }
}
