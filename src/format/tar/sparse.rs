//! Maps of sparse files, in the four encodings in use.

use super::header::{self, Block};
use super::pax;

/// Most segments of a map, which keeps it below 16 MiB in memory.
const MAX_SEGMENTS: usize = 1 << 20;
/// Pairs in a continuation block of an old GNU map.
const PAIRS_PER_BLOCK: usize = 21;

/// A segment of data in a sparse file: offset in the file and length.
pub(super) type Segment = (u64, u64);

/// Appends the pairs of an old GNU map: 12 bytes each for offset and length. An empty pair ends the
/// map.
pub(super) fn parse_old(mut pairs: &[u8], map: &mut Vec<Segment>) -> Result<(), String> {
    while let Some((pair, rest)) = pairs.split_first_chunk::<24>() {
        pairs = rest;
        if pair[0] == 0 {
            break;
        }
        let part = |field| header::number(field).and_then(|number| u64::try_from(number).ok());
        let segment = part(&pair[..12]).zip(part(&pair[12..])).ok_or("a wrong number in the map of a sparse file")?;
        push(map, segment)?;
    }
    Ok(())
}

/// Appends the pairs of a continuation block. Returns whether another one follows.
pub(super) fn parse_more(block: &Block, map: &mut Vec<Segment>) -> Result<bool, String> {
    parse_old(&block[..PAIRS_PER_BLOCK * 24], map)?;
    Ok(block[504] != 0)
}

/// Parses the map of pax format 0.1: numbers separated by commas.
pub(super) fn parse_list(list: &[u8]) -> Result<Vec<Segment>, String> {
    let mut map = Vec::new();
    let mut numbers = list.split(|&byte| byte == b',').map(pax::number);
    if list.is_empty() {
        return Ok(map);
    }
    while let Some(offset) = numbers.next() {
        let segment = offset.zip(numbers.next().flatten()).ok_or("a wrong number in the map of a sparse file")?;
        push(&mut map, segment)?;
    }
    Ok(map)
}

/// A partly parsed map of pax format 1.0. It precedes the data and has one number per line,
/// starting with the count.
#[derive(Debug, Default)]
pub(super) struct Lines {
    digits: Vec<u8>,
    count: Option<u64>,
    offset: Option<u64>,
    map: Vec<Segment>,
}

impl Lines {
    /// Parses a block. Returns the map once it is complete.
    pub(super) fn add_block(&mut self, block: &Block) -> Result<Option<Vec<Segment>>, String> {
        for &byte in block {
            if byte != b'\n' {
                if !byte.is_ascii_digit() || self.digits.len() >= 20 {
                    return Err("the map of a sparse file is not made of numbers".into());
                }
                self.digits.push(byte);
                continue;
            }
            let number = pax::number(&self.digits).filter(|_| !self.digits.is_empty());
            let number = number.ok_or("the map of a sparse file has a wrong number")?;
            self.digits.clear();
            match (self.count, self.offset.take()) {
                (None, _) if number > MAX_SEGMENTS as u64 => return Err(too_many()),
                (None, _) => self.count = Some(number),
                (Some(_), None) => self.offset = Some(number),
                (Some(_), Some(offset)) => push(&mut self.map, (offset, number))?,
            }
            if self.count == Some(self.map.len() as u64) {
                // The rest of the block is padding.
                return Ok(Some(std::mem::take(&mut self.map)));
            }
        }
        Ok(None)
    }
}

/// Appends a segment.
pub(super) fn push(map: &mut Vec<Segment>, segment: Segment) -> Result<(), String> {
    if map.len() >= MAX_SEGMENTS {
        return Err(too_many());
    }
    map.push(segment);
    Ok(())
}

fn too_many() -> String {
    format!("a sparse file has more than {MAX_SEGMENTS} segments")
}

/// Checks a map against the length of the file and of its data, and drops empty segments.
pub(super) fn validate(mut map: Vec<Segment>, size: u64, stored: u64) -> Result<Vec<Segment>, String> {
    let (mut end, mut sum) = (0u64, 0u64);
    for &(offset, len) in &map {
        let next = offset.checked_add(len).filter(|&next| offset >= end && next <= size);
        end = next.ok_or("the segments of a sparse file overlap or extend past its end")?;
        sum += len;
    }
    if sum != stored {
        return Err(format!("a sparse file has {stored} bytes of data, but its map lists {sum}"));
    }
    map.retain(|&(_, len)| len > 0);
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validate_rejects_contradicting_maps() {
        assert_eq!(validate(vec![(0, 0), (5, 5), (10, 0)], 10, 5), Ok(vec![(5, 5)]));
        assert!(validate(vec![(5, 5), (9, 1)], 20, 6).is_err());
        assert!(validate(vec![(5, 6)], 10, 6).is_err());
        assert!(validate(vec![(5, 5)], 10, 4).is_err());
        assert!(validate(vec![(u64::MAX, 2)], u64::MAX, 2).is_err());
    }

    #[test]
    fn list_and_lines_encode_the_same_map() {
        assert_eq!(parse_list(b"0,5,100,7").unwrap(), [(0, 5), (100, 7)]);
        assert_eq!(parse_list(b"").unwrap(), []);
        assert!(parse_list(b"0,5,100").is_err());
        assert!(parse_list(b"0,x").is_err());
        let mut block = [0; 512];
        block[..14].copy_from_slice(b"2\n0\n5\n100\n7\n\0\0");
        assert_eq!(Lines::default().add_block(&block).unwrap(), Some(vec![(0, 5), (100, 7)]));
        block[0] = b'9';
        assert!(Lines::default().add_block(&block).is_err(), "NUL bytes before the map is complete");
        block[..2].copy_from_slice(b"0\n");
        assert_eq!(Lines::default().add_block(&block).unwrap(), Some(vec![]));
    }
}
