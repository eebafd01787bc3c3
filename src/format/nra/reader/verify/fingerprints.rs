//! Fingerprints: 64 bits that stand for a record, a chunk or uncompressed content. They allow
//! comparing statements without keeping them.

use std::collections::HashMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::content::{BlockRef, Content, EntryContent as _, Extent, Segment};
use crate::records::form;
use nra_core::entry::{Entry, Metadata};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordFingerprint {
    path: u64,
    record: u64,
}

/// Number of partitions, selected by the first bits of the fingerprint of a path.
const PARTITIONS: usize = 256;

/// The last record of each path, 16 bytes each. Partitions are sorted one by one, which limits the
/// memory for sorting.
pub(super) struct Records {
    partitions: Vec<Partition>,
}

/// Records whose path fingerprints start with the same bits.
#[derive(Default)]
struct Partition {
    fingerprints: Vec<RecordFingerprint>,
    /// Number of fingerprints that were kept when superseded ones were last discarded.
    kept: usize,
}

impl Default for Records {
    fn default() -> Self {
        Self { partitions: std::iter::repeat_with(Partition::default).take(PARTITIONS).collect() }
    }
}

impl Records {
    /// Adds records in file order.
    pub(super) fn extend(&mut self, fingerprints: Vec<RecordFingerprint>) {
        fingerprints.into_iter().for_each(|fingerprint| self.partitions[Self::partition_of(&fingerprint)].push(fingerprint));
    }

    /// Keeps the last record of each path.
    pub(super) fn sort(&mut self) {
        use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
        self.partitions.par_iter_mut().for_each(|part| sort(&mut part.fingerprints));
    }

    /// Returns whether this is the last record of its path.
    pub(super) fn contains(&self, fingerprint: &RecordFingerprint) -> bool {
        let fingerprints = &self.partitions[Self::partition_of(fingerprint)].fingerprints;
        fingerprints
            .binary_search_by_key(&fingerprint.path, |fingerprint| fingerprint.path)
            .is_ok_and(|index| fingerprints[index] == *fingerprint)
    }

    fn partition_of(fingerprint: &RecordFingerprint) -> usize {
        usize::from(fingerprint.path.to_be_bytes()[0])
    }
}

impl Partition {
    fn push(&mut self, fingerprint: RecordFingerprint) {
        /// Number of fingerprints at which superseded ones are first discarded: 64 MiB in all
        /// partitions.
        const FULL: usize = (4 << 20) / PARTITIONS;
        self.fingerprints.push(fingerprint);
        // Thousands of equal records of one path take few bytes of a file.
        if self.fingerprints.len() > self.kept.saturating_mul(2).max(FULL) {
            sort(&mut self.fingerprints);
            self.kept = self.fingerprints.len();
        }
    }
}

/// Keeps the last record of each path, sorted by path fingerprint.
fn sort(fingerprints: &mut Vec<RecordFingerprint>) {
    // The sort is stable: records of one path stay in file order.
    fingerprints.sort_by_key(|fingerprint| fingerprint.path);
    fingerprints.dedup_by(|later, kept| {
        let same = later.path == kept.path;
        if same {
            *kept = *later;
        }
        same
    });
}

/// Returns the fingerprint of a chunk as chunk runs list it.
pub(super) fn chunk(key: u64, block: u64, number: u64) -> u64 {
    of([key, block, number])
}

/// Returns the fingerprint of a whole chunk of a block of codec 0 with its content checksum.
pub(super) fn uncompressed_content(block: u64, offset: u64, len: u64, checksum: u32) -> u64 {
    of([block, offset, len, checksum.into()])
}

fn of<const N: usize>(numbers: [u64; N]) -> u64 {
    let mut bytes = [0; 32];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    xxh3_64(&bytes[..8 * N])
}

/// Returns the fingerprint of each entry. Equal records have equal fingerprints. In a block index,
/// `own` is the offset and header checksum of its block.
pub(super) fn records(entries: &[Entry], own: Option<(u64, u64)>) -> Vec<RecordFingerprint> {
    let mut printer = Fingerprinter { own, metadata: HashMap::new(), bytes: Vec::new() };
    entries
        .iter()
        .map(|entry| RecordFingerprint { path: xxh3_64(entry.path.as_bytes()), record: printer.fingerprint(entry) })
        .collect()
}

pub(super) fn last_records(entries: &[Entry], own: (u64, u64)) -> Vec<RecordFingerprint> {
    let mut records = records(entries, Some(own));
    sort(&mut records);
    records
}

struct Fingerprinter {
    own: Option<(u64, u64)>,
    /// By memory address, which the entries keep alive. Large attributes of many entries are hashed
    /// once.
    metadata: HashMap<usize, u64>,
    bytes: Vec<u8>,
}

impl Fingerprinter {
    fn fingerprint(&mut self, entry: &Entry) -> u64 {
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
            // A block index records both in one form.
            Content::Extent(extent) | Content::Uncompressed(extent, _) => {
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
                self.numbers([root.offset, root.length, root.header_checksum]);
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
        let BlockRef { offset, raw_len, stored_len, pad_len, header_checksum } = extent.block;
        let header_checksum = match self.own {
            Some((own, its_check)) if own == offset && header_checksum == 0 => its_check,
            _ => header_checksum,
        };
        self.numbers([
            offset,
            header_checksum,
            raw_len.into(),
            stored_len.into(),
            pad_len.into(),
            extent.offset.into(),
            extent.len,
        ]);
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
    fn last_record_of_a_path_wins_in_every_partition() {
        let fingerprint = |path: u64, record| RecordFingerprint { path: xxh3_64(&path.to_le_bytes()), record };
        let (mut records, mut last) = (Records::default(), HashMap::new());
        // More records than a partition keeps before it discards superseded ones, also of one path.
        for round in 0..8 {
            let some: Vec<RecordFingerprint> = (0..5_000).map(|path| fingerprint(path % 4_000, round * 5_000 + path)).collect();
            last.extend(some.iter().map(|fingerprint| (fingerprint.path, *fingerprint)));
            records.extend(some);
            records.extend(vec![fingerprint(7, round); 10_000]);
            last.insert(fingerprint(7, round).path, fingerprint(7, round));
        }
        records.sort();
        assert_eq!(records.partitions.iter().map(|part| part.fingerprints.len()).sum::<usize>(), last.len());
        assert!(last.values().all(|fingerprint| records.contains(fingerprint)));
        assert!(!records.contains(&fingerprint(7, 3)) && !records.contains(&fingerprint(9_999, 0)));
    }
}
