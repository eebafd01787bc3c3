//! Block tables, extents and extent lists in record lists and in leaf pages of extent maps.
//!
//! Spec: nra.md, section 8.4.

use std::collections::HashMap;

use crate::content::{BlockRef, Extent, Segment};
use crate::frame::{HEADER_LEN, is_frame_offset};
use nra_core::limits::{MAX_BLOCK_RAW, MAX_LIST_EXTENTS, MAX_LIST_SEGMENTS, MAX_OFFSET, MAX_PAD};
use nra_core::wire::{Cursor, Malformed, put_sv, put_uv};

/// Builds columns 13 to 15.
#[derive(Debug, Default)]
pub(crate) struct ExtentEncoder {
    table: Vec<u8>,
    indexes: HashMap<u64, u64>,
    /// Offset of the block that was added last to the table.
    added: u64,
    pub(crate) blocks: Vec<u8>,
    pub(crate) offsets: Vec<u8>,
    /// Index of the block of the preceding extent, and the offset of that block.
    current: Option<(u64, u64)>,
    /// End of the preceding extent.
    end: u64,
}

impl ExtentEncoder {
    pub(crate) fn push(&mut self, extent: &Extent) {
        let block = &extent.block;
        let before = self.current.map_or(0, |(index, _)| index);
        let is_same = self.current.is_some_and(|(_, offset)| offset == block.offset);
        let (index, expected) = if is_same { (before, self.end) } else { (self.index(block), 0) };
        put_sv(&mut self.blocks, index.wrapping_sub(before).cast_signed());
        put_sv(&mut self.offsets, u64::from(extent.offset).wrapping_sub(expected).cast_signed());
        self.current = Some((index, block.offset));
        self.end = u64::from(extent.offset) + extent.len;
    }

    fn index(&mut self, block: &BlockRef) -> u64 {
        let next = self.indexes.len() as u64;
        *self.indexes.entry(block.offset).or_insert_with(|| {
            put_sv(&mut self.table, block.offset.wrapping_sub(self.added).cast_signed());
            put_uv(&mut self.table, block.raw_len.into());
            put_uv(&mut self.table, block.stored_len.into());
            put_uv(&mut self.table, block.pad_len.into());
            self.table.extend_from_slice(&block.header_checksum.to_le_bytes());
            self.added = block.offset;
            next
        })
    }

    /// Returns the bytes of the block table so far, without its count.
    pub(crate) fn table_len(&self) -> usize {
        self.table.len()
    }

    /// Returns column 13.
    pub(crate) fn block_table(&self) -> Vec<u8> {
        let mut column = Vec::with_capacity(self.table.len() + 3);
        put_uv(&mut column, self.indexes.len() as u64);
        column.extend_from_slice(&self.table);
        column
    }
}

/// Decodes extents from columns 13 to 15.
#[derive(Debug)]
pub(crate) struct ExtentDecoder<'a> {
    table: Vec<BlockRef>,
    blocks: Cursor<'a>,
    offsets: Cursor<'a>,
    index: u64,
    end: u64,
    /// Number of blocks in use. The next new block must be the one that follows.
    used: u64,
    /// Number of extents and holes that lists may still hold. Each takes a few bytes, which
    /// compress to almost nothing.
    room: usize,
}

impl<'a> ExtentDecoder<'a> {
    /// Creates a decoder. In a block index, `own_block` is the offset of its block. Only that block
    /// has header checksum 0.
    pub(crate) fn new(table: &[u8], blocks: &'a [u8], offsets: &'a [u8], own_block: Option<u64>) -> Result<Self, Malformed> {
        let table = parse_table(table, own_block).map_err(|detail| format!("block table: {detail}"))?;
        let (blocks, offsets) = (Cursor::new(blocks), Cursor::new(offsets));
        Ok(Self { table, blocks, offsets, index: 0, end: 0, used: 0, room: MAX_LIST_SEGMENTS })
    }

    pub(crate) fn next(&mut self, len: u64) -> Result<Extent, Malformed> {
        let before = self.index;
        self.index = self.index.wrapping_add(self.blocks.sv()?.cast_unsigned());
        let block = usize::try_from(self.index).ok().and_then(|index| self.table.get(index));
        let block = *block.ok_or_else(|| format!("block {} of a table of {}", self.index, self.table.len()))?;
        let expected = if self.index == before { self.end } else { 0 };
        if self.index > self.used {
            return Err("blocks are not in the order of first use".into());
        }
        self.used = self.used.max(self.index + 1);
        let offset = expected.wrapping_add(self.offsets.sv()?.cast_unsigned());
        let end = offset.checked_add(len).filter(|&end| end <= block.raw_len.into());
        self.end = end.ok_or_else(|| format!("extent of {len} bytes at {offset} in a block of {} raw bytes", block.raw_len))?;
        let offset = u32::try_from(offset).expect("at most the raw length of the block, 32 bits");
        Ok(Extent { block, offset, len })
    }

    /// Rejects surplus bytes and unused blocks.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        self.blocks.end("extent blocks")?;
        self.offsets.end("extent offsets")?;
        if self.used != self.table.len() as u64 {
            return Err(format!("{} of {} blocks are used", self.used, self.table.len()));
        }
        Ok(())
    }
}

fn parse_table(column: &[u8], own_block: Option<u64>) -> Result<Vec<BlockRef>, Malformed> {
    /// Four varints and the header checksum.
    const LEAST: usize = 12;
    let mut cursor = Cursor::new(column);
    let count = cursor.count("blocks", column.len() / LEAST)?;
    let mut table: Vec<BlockRef> = Vec::with_capacity(count);
    let mut offset = 0u64;
    let mut ascending = true;
    for i in 0..count {
        let before = offset;
        offset = offset.wrapping_add(cursor.sv()?.cast_unsigned());
        ascending &= i == 0 || offset > before;
        let mut number = |what, limit: u32| -> Result<u32, Malformed> {
            let value = cursor.uv_max(what, limit.into())?;
            Ok(u32::try_from(value).expect("not more than the limit, 32 bits"))
        };
        let raw_len = number("raw length", MAX_BLOCK_RAW)?;
        let stored_len = number("stored length", raw_len)?;
        let pad_len = number("padding", MAX_PAD)?;
        let header_checksum = cursor.u64()?;
        let len = HEADER_LEN as u64 + u64::from(stored_len) + u64::from(pad_len);
        if !is_frame_offset(offset) || offset + len > MAX_OFFSET || stored_len == 0 {
            return Err(format!("block of {stored_len} bytes at offset {offset}"));
        }
        if own_block.is_some_and(|own| offset > own || (offset == own && header_checksum != 0)) {
            return Err("a later block, or the own block with a header checksum".into());
        }
        table.push(BlockRef { offset, raw_len, stored_len, pad_len, header_checksum });
    }
    cursor.end("it")?;
    if !ascending {
        let mut offsets: Vec<u64> = table.iter().map(|block| block.offset).collect();
        offsets.sort_unstable();
        if offsets.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a repeated block".into());
        }
    }
    Ok(table)
}

/// Appends an extent list (an element of column 17) and its extents.
pub(crate) fn encode_extent_list(segments: &[Segment], lists: &mut Vec<u8>, extents: &mut ExtentEncoder) {
    put_uv(lists, segments.len() as u64);
    for segment in segments {
        match segment {
            Segment::Data(extent) => {
                put_uv(lists, extent.len << 1);
                extents.push(extent);
            }
            Segment::Hole(len) => put_uv(lists, len << 1 | 1),
        }
    }
}

/// Parses an extent list. Returns it and the sum of its lengths.
pub(crate) fn parse_extent_list(
    lists: &mut Cursor<'_>,
    extents: &mut ExtentDecoder<'_>,
) -> Result<(Box<[Segment]>, u64), Malformed> {
    let count = lists.count("extents and holes", MAX_LIST_EXTENTS)?;
    if count == 0 {
        return Err("an extent list without extents".into());
    }
    let room = extents.room.checked_sub(count);
    extents.room = room.ok_or_else(|| format!("more than {MAX_LIST_SEGMENTS} extents and holes"))?;
    let mut segments: Vec<Segment> = Vec::with_capacity(count);
    let mut sum = 0u64;
    for _ in 0..count {
        let item = lists.uv()?;
        let (len, hole) = (item >> 1, item & 1 == 1);
        if len == 0 {
            return Err("an extent or hole of 0 bytes".into());
        }
        // Cannot overflow: both are below 2^63.
        sum = Some(sum + len).filter(|&sum| sum <= MAX_OFFSET).ok_or("an extent list of more than 2^63 bytes")?;
        let segment = if hole { Segment::Hole(len) } else { Segment::Data(extents.next(len)?) };
        if segments.last().is_some_and(|before| are_one(before, &segment)) {
            return Err("two extents or holes that must be one".into());
        }
        segments.push(segment);
    }
    Ok((segments.into(), sum))
}

/// Returns whether two neighbors must be encoded as one.
pub(crate) fn are_one(first: &Segment, second: &Segment) -> bool {
    match (first, second) {
        (Segment::Hole(_), Segment::Hole(_)) => true,
        (Segment::Data(first), Segment::Data(second)) => {
            first.block.offset == second.block.offset && u64::from(first.offset) + first.len == u64::from(second.offset)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_of_extent_lists_is_bounded() {
        let mut extents = ExtentDecoder::new(&[0], &[], &[], None).unwrap();
        extents.room = 2;
        let lists = [1, 9].repeat(3);
        let mut lists = Cursor::new(&lists);
        for _ in 0..2 {
            assert_eq!(parse_extent_list(&mut lists, &mut extents).unwrap().1, 4);
        }
        assert!(parse_extent_list(&mut lists, &mut extents).is_err());
    }
}
