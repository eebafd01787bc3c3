//! Pages of extent maps.
//!
//! Spec: nra.md, section 10.

use crate::content::{FrameRef, Segment};
use crate::entry_page::add;
use crate::records::extents::{ExtentDecoder, ExtentEncoder, encode_extent_list, parse_extent_list};
use nra_core::limits::MAX_LEVEL;
use nra_core::wire::{Cursor, Malformed, put_bytes, put_uv};

/// Most children of an inner page.
pub const MAX_CHILDREN: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtentPage {
    /// Extents and holes in order, 1 to 1,024.
    Leaf(Vec<Segment>),
    /// Level and 1 to 4,096 children, each with the content bytes below it.
    Inner(u8, Vec<(FrameRef, u64)>),
}

impl ExtentPage {
    /// Returns the raw payload of the page.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Leaf(segments) => {
                let mut extents = ExtentEncoder::default();
                let mut list = Vec::new();
                encode_extent_list(segments, &mut list, &mut extents);
                let mut payload = vec![0];
                for column in [&extents.block_table(), &extents.blocks, &extents.offsets, &list] {
                    put_bytes(&mut payload, column);
                }
                payload
            }
            Self::Inner(level, children) => {
                let mut payload = vec![*level];
                put_uv(&mut payload, children.len() as u64);
                for (page, content_bytes) in children {
                    page.put(&mut payload);
                    put_uv(&mut payload, *content_bytes);
                }
                payload
            }
        }
    }

    pub(crate) fn level(&self) -> u8 {
        if let Self::Inner(level, _) = self { *level } else { 0 }
    }

    /// Parses the raw payload of a page.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let page = match cursor.u8()? {
            0 => {
                let mut column = || cursor.bytes("a column", usize::MAX);
                let (table, blocks, offsets, mut list) = (column()?, column()?, column()?, Cursor::new(column()?));
                let mut extents = ExtentDecoder::new(table, blocks, offsets, None)?;
                let (segments, _) = parse_extent_list(&mut list, &mut extents)?;
                list.end("the extent list")?;
                extents.end()?;
                Self::Leaf(segments.into_vec())
            }
            level @ 1..=MAX_LEVEL => Self::Inner(level, parse_children(&mut cursor)?),
            level => return Err(format!("level {level}")),
        };
        cursor.end("the page")?;
        Ok(page)
    }
}

fn parse_children(cursor: &mut Cursor<'_>) -> Result<Vec<(FrameRef, u64)>, Malformed> {
    let count = cursor.count("children", MAX_CHILDREN)?;
    if count == 0 {
        return Err("an inner page without children".into());
    }
    let mut children = Vec::with_capacity(count);
    let mut sum = 0;
    for i in 0..count {
        let page = FrameRef::read(cursor)?;
        let content_bytes = cursor.uv()?;
        if content_bytes == 0 {
            return Err(format!("no content below child {i}"));
        }
        sum = add(sum, content_bytes)?;
        children.push((page, content_bytes));
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{BlockRef, Content, Extent};
    use crate::records::tests::any_content;
    use nra_core::limits::MAX_OFFSET;
    use proptest::prelude::*;

    fn child(content_bytes: u64) -> (FrameRef, u64) {
        (FrameRef { offset: 256, length: 128, header_checksum: u64::MAX }, content_bytes)
    }

    proptest! {
        #[test]
        fn leaf_pages_round_trip((_, content) in any_content(), at in any::<prop::sample::Index>(), to: u8) {
            if let Content::List(segments, _) = content {
                let page = ExtentPage::Leaf(segments.into_vec());
                let mut payload = page.encode();
                prop_assert_eq!(ExtentPage::parse(&payload), Ok(page));
                prop_assert!(ExtentPage::parse(&payload[..payload.len() - 1]).is_err());
                let at = at.index(payload.len());
                payload[at] = to;
                if let Ok(page) = ExtentPage::parse(&payload) {
                    prop_assert_eq!(page.encode(), payload);
                }
            }
        }

        #[test]
        fn inner_pages_round_trip(level in 1u8..=15, sizes in prop::collection::vec(1u64..1 << 40, 1..50), at in any::<prop::sample::Index>(), to: u8) {
            let page = ExtentPage::Inner(level, sizes.into_iter().map(child).collect());
            let mut payload = page.encode();
            prop_assert_eq!(ExtentPage::parse(&payload), Ok(page));
            payload.push(0);
            prop_assert!(ExtentPage::parse(&payload).is_err());
            payload.pop();
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(page) = ExtentPage::parse(&payload) {
                prop_assert_eq!(page.encode(), payload);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ExtentPage::parse(&payload);
        }
    }

    #[test]
    fn broken_pages_are_rejected() {
        let block = BlockRef { offset: 256, raw_len: 100, stored_len: 100, pad_len: 0, header_checksum: 0 };
        let data = |offset, len| Segment::Data(Extent { block, offset, len });
        assert!(ExtentPage::parse(&ExtentPage::Leaf(vec![data(0, 100)]).encode()).is_ok());
        for (why, page) in [
            ("no extents", ExtentPage::Leaf(vec![])),
            ("neighbours are one", ExtentPage::Leaf(vec![data(0, 50), data(50, 50)])),
            ("beyond the block", ExtentPage::Leaf(vec![data(1, 100)])),
            ("too many", ExtentPage::Leaf((0..1025).map(|i| data(i % 2, 1)).collect())),
            ("no children", ExtentPage::Inner(1, vec![])),
            ("level", ExtentPage::Inner(16, vec![child(1)])),
            ("nothing below", ExtentPage::Inner(1, vec![child(0)])),
            ("sum", ExtentPage::Inner(1, vec![child(MAX_OFFSET), child(1)])),
            ("too many children", ExtentPage::Inner(1, vec![child(1); MAX_CHILDREN + 1])),
        ] {
            assert!(ExtentPage::parse(&page.encode()).is_err(), "{why}");
        }
    }
}
