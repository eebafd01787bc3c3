//! One group: its shards, parity shards, and the table of the checksums of both.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use super::header::{CHECKSUM_LEN, RecoveryHeader};
use super::view::View;
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::source::{ReadAt, Store};

pub(super) struct Group<'a> {
    layout: &'a RecoveryHeader,
    number: u32,
    /// Checksums of shards, then of parity shards, as far as they are known.
    sums: Vec<Option<u64>>,
    /// Damaged shards by index in the group.
    pub(super) damaged_shards: Vec<u64>,
    pub(super) damaged_parity: Vec<u64>,
    pub(super) damaged_table_shards: u64,
}

impl<'a> Group<'a> {
    /// Reads and checks a whole group.
    pub(super) fn read(view: View<'_>, layout: &'a RecoveryHeader, number: u32) -> Result<Self> {
        let (sums, damaged_table_shards) = read_table(view, layout, number)?;
        let mut group =
            Self { layout, number, sums, damaged_shards: Vec::new(), damaged_parity: Vec::new(), damaged_table_shards };
        let mut buffer = vec![0; layout.shard_size()];
        for index in 0..layout.in_group() {
            let shard = layout.shard_of(number, index);
            let range = layout.shard_range(shard);
            // Shards past the end cannot be damaged.
            if range.is_empty() {
                continue;
            }
            let len = count(range.end - range.start);
            buffer[len..].fill(0);
            if !view.read(range.start, &mut buffer[..len])? || group.sums[count(index)] != Some(checksum(&buffer, shard)) {
                group.damaged_shards.push(index);
            }
        }
        for parity_shard in 0..u64::from(layout.parity_shards) {
            let offset = layout.parity_shard_offset(number, parity_shard);
            let sum = group.sums[count(layout.in_group() + parity_shard)];
            if !view.read(offset, &mut buffer)? || sum != Some(checksum(&buffer, offset)) {
                group.damaged_parity.push(parity_shard);
            }
        }
        Ok(group)
    }

    /// Returns the number of usable parity shards.
    pub(super) fn usable_parity(&self) -> u64 {
        u64::from(self.layout.parity_shards) - self.damaged_parity.len() as u64
    }

    /// Returns whether the group is undamaged.
    pub(super) fn is_whole(&self) -> bool {
        self.damaged_shards.is_empty() && self.damaged_parity.is_empty() && self.damaged_table_shards == 0
    }

    /// Restores the damaged shards from the others and the parity shards, and writes them.
    pub(super) fn restore_shards(&self, store: &dyn Store) -> Result<()> {
        let layout = self.layout;
        let Some(first) = self.damaged_shards.first() else { return Ok(()) };
        let offset = layout.shard_range(layout.shard_of(self.number, *first)).start;
        let corrupt = |detail: &str| Error::corrupt("archive", offset, detail);
        if self.damaged_shards.len() as u64 > self.usable_parity() {
            return Err(corrupt("the recovery data cannot restore that much damage"));
        }
        let (in_group, parity_shards) = (count(layout.in_group()), count(layout.parity_shards.into()));
        let mut decoder = ReedSolomonDecoder::new(in_group, parity_shards, layout.shard_size()).map_err(as_usage_error)?;
        let mut buffer = vec![0; layout.shard_size()];
        for index in (0..layout.in_group()).filter(|index| self.damaged_shards.binary_search(index).is_err()) {
            read_shard(store, layout, layout.shard_of(self.number, index), &mut buffer)?;
            decoder.add_original_shard(count(index), &buffer).map_err(as_usage_error)?;
        }
        let usable =
            (0..u64::from(layout.parity_shards)).filter(|parity_shard| self.damaged_parity.binary_search(parity_shard).is_err());
        for parity_shard in usable.take(self.damaged_shards.len()) {
            store.read_exact_at(layout.parity_shard_offset(self.number, parity_shard), &mut buffer)?;
            decoder.add_recovery_shard(count(parity_shard), &buffer).map_err(as_usage_error)?;
        }
        let restored = decoder.decode().map_err(as_usage_error)?;
        for &index in &self.damaged_shards {
            let shard = layout.shard_of(self.number, index);
            let bytes = restored.restored_original(count(index)).ok_or_else(|| corrupt("a shard was not restored"))?;
            // Without a checksum, the result is as good as the shards it was computed from.
            if self.sums[count(index)].is_some_and(|sum| sum != checksum(bytes, shard)) {
                return Err(corrupt("the restored bytes fail their checksum"));
            }
            let range = layout.shard_range(shard);
            store.write_all_at(range.start, &bytes[..count(range.end - range.start)])?;
        }
        Ok(())
    }
}

/// Writes parity shards and table of a group with undamaged shards.
pub(super) fn write_group(store: &dyn Store, layout: &RecoveryHeader, number: u32) -> Result<()> {
    let (in_group, parity_shards) = (count(layout.in_group()), count(layout.parity_shards.into()));
    let mut encoder = ReedSolomonEncoder::new(in_group, parity_shards, layout.shard_size()).map_err(as_usage_error)?;
    let mut buffer = vec![0; layout.shard_size()];
    let mut sums = Vec::with_capacity(in_group + parity_shards);
    for index in 0..layout.in_group() {
        let shard = layout.shard_of(number, index);
        read_shard(store, layout, shard, &mut buffer)?;
        sums.push(checksum(&buffer, shard));
        encoder.add_original_shard(&buffer).map_err(as_usage_error)?;
    }
    let encoded = encoder.encode().map_err(as_usage_error)?;
    for (parity_shard, bytes) in (0..).zip(encoded.recovery_iter()) {
        let offset = layout.parity_shard_offset(number, parity_shard);
        sums.push(checksum(bytes, offset));
        store.write_all_at(offset, bytes)?;
    }
    write_table(store, layout, number, &sums)
}

/// Reads a shard. Bytes past the protected ones are zeros.
fn read_shard(source: &dyn ReadAt, layout: &RecoveryHeader, shard: u64, buffer: &mut [u8]) -> Result<()> {
    let range = layout.shard_range(shard);
    let len = count(range.end - range.start);
    buffer[len..].fill(0);
    if len > 0 { source.read_exact_at(range.start, &mut buffer[..len]) } else { Ok(()) }
}

fn write_table(store: &dyn Store, layout: &RecoveryHeader, number: u32, sums: &[u64]) -> Result<()> {
    let content = layout.shard_size() - CHECKSUM_LEN;
    let mut table: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    table.resize(count(layout.table_shards()) * content, 0);
    let parity_shards = reed_solomon_simd::encode(
        count(layout.table_shards()),
        count(layout.all_table_shards() - layout.table_shards()),
        table.chunks_exact(content),
    )
    .map_err(as_usage_error)?;
    for (table_shard, bytes) in (0..).zip(table.chunks_exact(content).chain(parity_shards.iter().map(Vec::as_slice))) {
        let offset = layout.table_shard_offset(number, table_shard);
        let sum = checksum(bytes, offset).to_le_bytes();
        store.write_all_at(offset, &[bytes, &sum].concat())?;
    }
    Ok(())
}

/// Returns the known checksums of a group and the number of damaged table shards.
fn read_table(view: View<'_>, layout: &RecoveryHeader, number: u32) -> Result<(Vec<Option<u64>>, u64)> {
    let (table_shards, all) = (count(layout.table_shards()), count(layout.all_table_shards()));
    let content = layout.shard_size() - CHECKSUM_LEN;
    let mut found: Vec<Option<Vec<u8>>> = Vec::with_capacity(all);
    for table_shard in 0..layout.all_table_shards() {
        let offset = layout.table_shard_offset(number, table_shard);
        let mut bytes = vec![0; layout.shard_size()];
        let there = view.read(offset, &mut bytes)?;
        let sum = bytes.split_off(content);
        found.push((there && checksum(&bytes, offset).to_le_bytes() == *sum).then_some(bytes));
    }
    let bad = found.iter().filter(|table_shard| table_shard.is_none()).count();
    if found[..table_shards].contains(&None) && all - bad >= table_shards {
        let mut decoder = ReedSolomonDecoder::new(table_shards, all - table_shards, content).map_err(as_usage_error)?;
        for (index, table_shard) in found.iter().enumerate() {
            match table_shard {
                Some(bytes) if index < table_shards => decoder.add_original_shard(index, bytes),
                Some(bytes) => decoder.add_recovery_shard(index - table_shards, bytes),
                None => Ok(()),
            }
            .map_err(as_usage_error)?;
        }
        let restored = decoder.decode().map_err(as_usage_error)?;
        let restored: Vec<_> = restored.restored_original_iter().map(|(index, bytes)| (index, bytes.to_vec())).collect();
        for (index, bytes) in restored {
            found[index] = Some(bytes);
        }
    }
    let each = count(layout.checksums_per_table_shard());
    let mut sums = Vec::with_capacity(table_shards * each);
    for table_shard in &found[..table_shards] {
        match table_shard {
            Some(bytes) => sums.extend(bytes.as_chunks().0.iter().map(|sum| Some(u64::from_le_bytes(*sum)))),
            None => sums.resize(sums.len() + each, None),
        }
    }
    sums.truncate(count(layout.in_group() + u64::from(layout.parity_shards)));
    Ok((sums, bad as u64))
}

/// Converts a number of parts in memory to an index.
pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).expect("parts of a group are bounded")
}

/// The library rejects only shard counts that [`RecoveryHeader`] never has.
fn as_usage_error(error: reed_solomon_simd::Error) -> Error {
    Error::usage(format!("recovery data: {error}"))
}
