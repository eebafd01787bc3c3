//! Prints: 64 bits that stand for a record, a piece or raw content, so that what is told twice can be compared without keeping it.

use crate::content::HasContent as _;
use std::collections::HashMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::content::{BlockRef, Content, Extent, Segment};
use crate::records::form;
use nra_core::entry::{Entry, Metadata};

/// Prints of a kind, 8 bytes each; sorted before they are looked up.
#[derive(Default)]
pub(super) struct Prints {
    prints: Vec<u64>,
}

impl Prints {
    pub(super) fn extend(&mut self, prints: Vec<u64>) {
        self.prints.extend(prints);
    }

    pub(super) fn sort(&mut self) {
        use rayon::slice::ParallelSliceMut;
        self.prints.par_sort_unstable();
    }

    pub(super) fn position(&self, print: u64) -> Option<usize> {
        self.prints.binary_search(&print).ok()
    }

    pub(super) fn contains(&self, print: u64) -> bool {
        self.position(print).is_some()
    }

    pub(super) fn as_slice(&self) -> &[u64] {
        &self.prints
    }
}

/// What a record says of which path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordPrint {
    path: u64,
    record: u64,
}

/// Parts that records are kept in, by the first bits of what stands for their path.
const PARTS: usize = 256;

/// The last record of each path: 16 bytes each. They are kept in parts, so that ordering them takes room beside a part, not beside all of them.
pub(super) struct Records {
    parts: Vec<Part>,
}

/// Records whose paths have their first bits in common.
#[derive(Default)]
struct Part {
    prints: Vec<RecordPrint>,
    /// Prints that were kept when former ones were thrown out the last time.
    kept: usize,
}

impl Default for Records {
    fn default() -> Self {
        Self { parts: std::iter::repeat_with(Part::default).take(PARTS).collect() }
    }
}

impl Records {
    /// Adds records, in the order of the file.
    pub(super) fn extend(&mut self, prints: Vec<RecordPrint>) {
        prints.into_iter().for_each(|print| self.parts[Self::part_of(&print)].push(print));
    }

    /// Keeps the last of each path.
    pub(super) fn settle(&mut self) {
        use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
        self.parts.par_iter_mut().for_each(|part| settle(&mut part.prints));
    }

    /// Says whether the last record of a path is this one.
    pub(super) fn tell(&self, print: &RecordPrint) -> bool {
        let prints = &self.parts[Self::part_of(print)].prints;
        prints.binary_search_by_key(&print.path, |print| print.path).is_ok_and(|index| prints[index] == *print)
    }

    fn part_of(print: &RecordPrint) -> usize {
        usize::from(print.path.to_be_bytes()[0])
    }
}

impl Part {
    fn push(&mut self, print: RecordPrint) {
        /// Prints at which former ones are thrown out for the first time: 64 MiB in all parts.
        const FULL: usize = (4 << 20) / PARTS;
        self.prints.push(print);
        // Thousands of records that say the same of one path take few bytes of a file.
        if self.prints.len() > self.kept.saturating_mul(2).max(FULL) {
            settle(&mut self.prints);
            self.kept = self.prints.len();
        }
    }
}

/// Keeps the last record of each path, in the order of paths.
fn settle(prints: &mut Vec<RecordPrint>) {
    // Stable: records of one path stay in the order of the file.
    prints.sort_by_key(|print| print.path);
    prints.dedup_by(|later, kept| {
        let same = later.path == kept.path;
        if same {
            *kept = *later;
        }
        same
    });
}

/// Print of a piece as chunk runs list it.
pub(super) fn piece(key: u64, block: u64, number: u64) -> u64 {
    of([key, block, number])
}

/// Print of a whole piece of an uncompressed block, with its content checksum.
pub(super) fn raw_content(block: u64, offset: u64, len: u64, checksum: u32) -> u64 {
    of([block, offset, len, checksum.into()])
}

fn of<const N: usize>(numbers: [u64; N]) -> u64 {
    let mut bytes = [0; 32];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    xxh3_64(&bytes[..8 * N])
}

/// Returns the print of each entry: equal for records that say the same. `own`: offset and check of the block in whose directory they stand.
pub(super) fn records(entries: &[Entry], own: Option<(u64, u64)>) -> Vec<RecordPrint> {
    let mut printer = Printer { own, metadata: HashMap::new(), bytes: Vec::new() };
    entries.iter().map(|entry| RecordPrint { path: xxh3_64(entry.path.as_bytes()), record: printer.print(entry) }).collect()
}

/// Returns the print of the last record of each path.
pub(super) fn last_records(entries: &[Entry], own: (u64, u64)) -> Vec<RecordPrint> {
    let mut records = records(entries, Some(own));
    settle(&mut records);
    records
}

struct Printer {
    own: Option<(u64, u64)>,
    /// By place in memory, which the entries keep alive: large attributes shared by many entries are read once.
    metadata: HashMap<usize, u64>,
    bytes: Vec<u8>,
}

impl Printer {
    fn print(&mut self, entry: &Entry) -> u64 {
        let metadata = *self.metadata.entry(Arc::as_ptr(&entry.metadata).addr()).or_insert_with(|| of_metadata(&entry.metadata));
        self.bytes.clear();
        self.string(entry.path.as_bytes());
        self.bytes.extend([entry.kind as u8, u8::from(entry.implied), u8::from(entry.modified.is_some())]);
        self.numbers([metadata, entry.size, entry.link_group]);
        if let Some(time) = entry.modified {
            self.numbers([time.seconds.cast_unsigned(), time.nanoseconds.into()]);
        }
        if let Some(device) = entry.device {
            self.numbers([device.major.into(), device.minor.into()]);
        }
        self.string(&entry.target);
        let digest = match entry.content() {
            Content::None => &None,
            // In a directory both are written as one form.
            Content::Extent(extent) | Content::Raw(extent, _) => {
                self.bytes.push(form::EXTENT);
                self.extent(extent);
                &None
            }
            Content::List(segments, digest) => {
                self.bytes.push(form::LIST);
                for segment in segments {
                    match segment {
                        Segment::Hole(len) => self.numbers([u64::MAX, *len]),
                        Segment::Data(extent) => self.extent(extent),
                    }
                }
                digest
            }
            Content::Map(root, digest) => {
                self.bytes.push(form::MAP);
                self.numbers([root.offset, root.length, root.check]);
                digest
            }
        };
        if let Some(digest) = digest {
            self.bytes.extend_from_slice(&digest.0);
        }
        xxh3_64(&self.bytes)
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.iter().for_each(|number| self.bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn string(&mut self, string: &[u8]) {
        self.numbers([string.len() as u64]);
        self.bytes.extend_from_slice(string);
    }

    fn extent(&mut self, extent: &Extent) {
        let BlockRef { offset, raw_len, stored_len, pad_len, check } = extent.block;
        let check = match self.own {
            Some((own, its_check)) if own == offset && check == 0 => its_check,
            _ => check,
        };
        self.numbers([offset, check, raw_len.into(), stored_len.into(), pad_len.into(), extent.offset.into(), extent.len]);
    }
}

fn of_metadata(metadata: &Metadata) -> u64 {
    let mut bytes = Vec::new();
    let mut string = |string: &[u8]| {
        bytes.extend_from_slice(&(string.len() as u64).to_le_bytes());
        bytes.extend_from_slice(string);
    };
    string(&metadata.mode.to_le_bytes());
    if let Some(owner) = &metadata.owner {
        string(&owner.user_id.to_le_bytes());
        string(&owner.group_id.to_le_bytes());
        string(&owner.user);
        string(&owner.group);
    }
    for attribute in metadata.attributes.iter() {
        string(&[attribute.namespace as u8]);
        string(&attribute.name);
        string(&attribute.value);
    }
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_last_record_of_a_path_counts_wherever_it_is_kept() {
        let print = |path: u64, record| RecordPrint { path: xxh3_64(&path.to_le_bytes()), record };
        let (mut records, mut last) = (Records::default(), HashMap::new());
        // More than is kept before former ones are thrown out, and of one path more than a part takes.
        for round in 0..8 {
            let some: Vec<RecordPrint> = (0..5_000).map(|path| print(path % 4_000, round * 5_000 + path)).collect();
            last.extend(some.iter().map(|print| (print.path, *print)));
            records.extend(some);
            records.extend(vec![print(7, round); 10_000]);
            last.insert(print(7, round).path, print(7, round));
        }
        records.settle();
        assert_eq!(records.parts.iter().map(|part| part.prints.len()).sum::<usize>(), last.len());
        assert!(last.values().all(|print| records.tell(print)));
        assert!(!records.tell(&print(7, 3)) && !records.tell(&print(9_999, 0)));
    }
}
