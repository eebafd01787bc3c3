//! Pages of chunk runs, which locate chunks by digest.
//!
//! Spec: nra.md, section 11.

use crate::content::FrameRef;
use crate::entry_page::add;
use crate::frame::{ALIGNMENT, is_frame_offset};
use nra_core::limits::{MAX_LEVEL, MAX_LIST_ENTRIES};
use nra_core::wire::{Cursor, Malformed, put_bytes, put_uv};

/// Largest key: 40 bits.
pub const MAX_KEY: u64 = (1 << 40) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkLocation {
    /// Key of the digest ([`Digest::key`](nra_core::digest::Digest::key)), 40 bits.
    pub key: u64,
    /// Offset of the block.
    pub block: u64,
    /// Number within the block, from 0.
    pub chunk: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkPage {
    /// Locations, sorted by key, then by block and number.
    Leaf(Vec<ChunkLocation>),
    /// Level and children: first key, page, number of chunks below the page.
    Inner(u8, Vec<(u64, FrameRef, u64)>),
}

impl ChunkPage {
    /// Returns the raw payload of the page.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Leaf(locations) => encode_leaf(locations),
            Self::Inner(level, children) => {
                let mut payload = vec![*level];
                put_uv(&mut payload, children.len() as u64);
                for (key, page, chunks) in children {
                    put_uv(&mut payload, *key);
                    page.put(&mut payload);
                    put_uv(&mut payload, *chunks);
                }
                payload
            }
        }
    }

    pub(crate) fn level(&self) -> u8 {
        if let Self::Inner(level, _) = self { *level } else { 0 }
    }

    /// Returns the number of chunks below the page.
    pub(crate) fn chunk_count(&self) -> u64 {
        match self {
            Self::Leaf(locations) => locations.len() as u64,
            Self::Inner(_, children) => children.iter().map(|child| child.2).sum(),
        }
    }

    /// Parses the raw payload of a page.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let level = cursor.u8()?;
        let count = cursor.count("chunks or children", MAX_LIST_ENTRIES)?;
        if count == 0 {
            return Err("an empty page".into());
        }
        let page = match level {
            0 => Self::Leaf(parse_locations(&mut cursor, count)?),
            1..=MAX_LEVEL => Self::Inner(level, parse_children(&mut cursor, count)?),
            level => return Err(format!("level {level}")),
        };
        cursor.end("the page")?;
        Ok(page)
    }
}

fn encode_leaf(locations: &[ChunkLocation]) -> Vec<u8> {
    let mut blocks: Vec<u64> = locations.iter().map(|location| location.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let (mut table, mut keys, mut indexes, mut chunks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    put_uv(&mut table, blocks.len() as u64);
    let mut before = 0;
    for block in &blocks {
        put_uv(&mut table, (block - before) / ALIGNMENT);
        before = *block;
    }
    let mut before = 0;
    for location in locations {
        put_uv(&mut keys, location.key - before);
        before = location.key;
        put_uv(&mut indexes, blocks.partition_point(|&block| block < location.block) as u64);
        put_uv(&mut chunks, location.chunk.into());
    }
    let mut payload = vec![0];
    put_uv(&mut payload, locations.len() as u64);
    for column in [&table, &keys, &indexes, &chunks] {
        put_bytes(&mut payload, column);
    }
    payload
}

fn parse_locations(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<ChunkLocation>, Malformed> {
    let mut column = || Ok::<_, Malformed>(Cursor::new(cursor.bytes("a column", usize::MAX)?));
    let (table, mut keys, mut indexes, mut chunks) = (column()?, column()?, column()?, column()?);
    if count > keys.remaining().min(indexes.remaining()).min(chunks.remaining()) {
        return Err(format!("columns too short for {count} chunks"));
    }
    let blocks = parse_block_table(table)?;
    let mut used = vec![false; blocks.len()];
    let mut locations: Vec<ChunkLocation> = Vec::with_capacity(count);
    let mut key = 0u64;
    for _ in 0..count {
        key = key.checked_add(keys.uv()?).filter(|&key| key <= MAX_KEY).ok_or("a key of more than 40 bits")?;
        let index = usize::try_from(indexes.uv()?).ok().filter(|&index| index < blocks.len());
        let index = index.ok_or("a block that is not in the block table")?;
        used[index] = true;
        let chunk = u32::try_from(chunks.uv()?).map_err(|_| "a chunk number of more than 32 bits")?;
        let location = ChunkLocation { key, block: blocks[index], chunk };
        if locations.last().is_some_and(|last| *last >= location) {
            return Err("chunks are not sorted, or one is repeated".into());
        }
        locations.push(location);
    }
    for (column, name) in [(keys, "keys"), (indexes, "blocks"), (chunks, "chunks")] {
        column.end(name)?;
    }
    if used.contains(&false) {
        return Err("an unused block in the block table".into());
    }
    Ok(locations)
}

fn parse_block_table(mut table: Cursor<'_>) -> Result<Vec<u64>, Malformed> {
    let count = table.count("blocks", MAX_LIST_ENTRIES)?;
    let mut blocks = Vec::with_capacity(count);
    let mut offset = 0u64;
    for i in 0..count {
        let step = table.uv()?;
        let next = step.checked_mul(ALIGNMENT).and_then(|step| offset.checked_add(step));
        offset = next.filter(|&next| is_frame_offset(next)).ok_or("a block past 2^63 or in the superblock")?;
        if i > 0 && step == 0 {
            return Err("a repeated block".into());
        }
        blocks.push(offset);
    }
    table.end("the block table")?;
    Ok(blocks)
}

fn parse_children(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<(u64, FrameRef, u64)>, Malformed> {
    let mut children: Vec<(u64, FrameRef, u64)> = Vec::with_capacity(count);
    let mut sum = 0;
    for i in 0..count {
        let key = cursor.uv_max("key", MAX_KEY)?;
        let page = FrameRef::read(cursor)?;
        let chunks = cursor.uv()?;
        if chunks == 0 {
            return Err(format!("no chunks below child {i}"));
        }
        sum = add(sum, chunks)?;
        if children.last().is_some_and(|(last, ..)| *last > key) {
            return Err("children are not sorted by key".into());
        }
        children.push((key, page, chunks));
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::limits::MAX_OFFSET;
    use proptest::prelude::*;

    prop_compose! {
        fn any_locations()(locations in prop::collection::vec((0..=MAX_KEY, 0u64..4, 0u32..3), 1..60), narrow: bool) -> Vec<ChunkLocation> {
            let mut locations: Vec<_> = locations
                .into_iter()
                .map(|(key, block, chunk)| ChunkLocation {
                    key: if narrow { key % 4 } else { key },
                    block: if block == 3 { MAX_OFFSET & !7 } else { 256 + block * 8 },
                    chunk,
                })
                .collect();
            locations.sort_unstable();
            locations.dedup();
            locations
        }
    }

    fn child(key: u64) -> (u64, FrameRef, u64) {
        (key, FrameRef { offset: 256, length: 128, header_checksum: key }, 3)
    }

    proptest! {
        #[test]
        fn leaf_pages_round_trip(locations in any_locations(), at in any::<prop::sample::Index>(), to: u8) {
            let page = ChunkPage::Leaf(locations);
            let mut payload = page.encode();
            prop_assert_eq!(ChunkPage::parse(&payload), Ok(page));
            payload.push(0);
            prop_assert!(ChunkPage::parse(&payload).is_err());
            payload.pop();
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(page) = ChunkPage::parse(&payload) {
                prop_assert_eq!(page.encode(), payload);
            }
        }

        #[test]
        fn inner_pages_round_trip(level in 1u8..=15, mut keys in prop::collection::vec(0..=MAX_KEY, 1..50), at in any::<prop::sample::Index>(), to: u8) {
            keys.sort_unstable();
            let page = ChunkPage::Inner(level, keys.into_iter().map(child).collect());
            let mut payload = page.encode();
            prop_assert_eq!(ChunkPage::parse(&payload), Ok(page));
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(page) = ChunkPage::parse(&payload) {
                prop_assert_eq!(page.encode(), payload);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ChunkPage::parse(&payload);
        }
    }

    #[test]
    fn broken_pages_are_rejected() {
        let leaf = |blocks: &[u8], keys: &[u8], indexes: &[u8], chunks: &[u8]| {
            let mut payload = vec![0, u8::try_from(keys.len()).unwrap()];
            [blocks, keys, indexes, chunks].iter().for_each(|column| put_bytes(&mut payload, column));
            payload
        };
        assert!(ChunkPage::parse(&leaf(&[2, 32, 1], &[5, 0], &[0, 1], &[0, 0])).is_ok());
        for (why, payload) in [
            ("empty", leaf(&[0], &[], &[], &[])),
            ("block in the head", leaf(&[1, 31], &[5], &[0], &[0])),
            ("block twice", leaf(&[2, 32, 0], &[5, 0], &[0, 1], &[0, 0])),
            ("block not used", leaf(&[2, 32, 1], &[5, 1], &[0, 0], &[0, 0])),
            ("block that is none", leaf(&[1, 32], &[5], &[1], &[0])),
            ("block far away", leaf(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[5], &[0], &[0])),
            ("repeated chunk", leaf(&[1, 32], &[5, 0], &[0, 0], &[1, 1])),
            ("chunks out of order", leaf(&[1, 32], &[5, 0], &[0, 0], &[1, 0])),
            ("blocks out of order", leaf(&[2, 32, 1], &[5, 0], &[1, 0], &[0, 0])),
            ("chunks missing", leaf(&[1, 32], &[5, 1], &[0, 0], &[1])),
            ("chunks left over", leaf(&[1, 32], &[5], &[0], &[1, 2])),
            ("key of 41 bits", [&[0, 1, 2, 1, 32, 6][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x20], &[1, 0, 1, 0]].concat()),
            ("no children", vec![1, 0]),
            ("level", ChunkPage::Inner(16, vec![child(1)]).encode()),
            ("children out of order", ChunkPage::Inner(1, vec![child(2), child(1)]).encode()),
            ("key of a child", ChunkPage::Inner(1, vec![child(MAX_KEY + 1)]).encode()),
            ("no chunks below", ChunkPage::Inner(1, vec![(1, child(1).1, 0)]).encode()),
        ] {
            assert!(ChunkPage::parse(&payload).is_err(), "{why}");
        }
        assert!(ChunkPage::parse(&ChunkPage::Inner(1, vec![child(2), child(2)]).encode()).is_ok(), "equal keys may go on");
    }
}
