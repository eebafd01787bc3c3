//! One group: its shards, their parities, and the table of the checksums of both.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use super::geometry::{Geometry, SUM_LEN};
use super::view::View;
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::source::{ReadAt, Store};

/// What is damaged of a group.
pub(super) struct Group<'a> {
    geometry: &'a Geometry,
    number: u32,
    /// Checksums of shards, then of parities, as far as they are known.
    sums: Vec<Option<u64>>,
    /// Damaged shards, by their index in the group.
    pub(super) bad_shards: Vec<u64>,
    /// Damaged parities.
    pub(super) bad_parities: Vec<u64>,
    /// Damaged pieces of the table.
    pub(super) bad_pieces: u64,
}

impl<'a> Group<'a> {
    /// Reads all of a group.
    pub(super) fn survey(view: View<'_>, geometry: &'a Geometry, number: u32) -> Result<Self> {
        let (sums, bad_pieces) = read_table(view, geometry, number)?;
        let mut group = Self { geometry, number, sums, bad_shards: Vec::new(), bad_parities: Vec::new(), bad_pieces };
        let mut buffer = vec![0; geometry.shard_size()];
        for index in 0..geometry.in_group() {
            let shard = geometry.shard_of(number, index);
            let range = geometry.shard_range(shard);
            // ResourceLimit the end there is nothing to damage.
            if range.is_empty() {
                continue;
            }
            let len = count(range.end - range.start);
            buffer[len..].fill(0);
            if !view.read(range.start, &mut buffer[..len])? || group.sums[count(index)] != Some(checksum(&buffer, shard)) {
                group.bad_shards.push(index);
            }
        }
        for parity in 0..u64::from(geometry.parities) {
            let place = geometry.parity_place(number, parity);
            let sum = group.sums[count(geometry.in_group() + parity)];
            if !view.read(place, &mut buffer)? || sum != Some(checksum(&buffer, place)) {
                group.bad_parities.push(parity);
            }
        }
        Ok(group)
    }

    /// Returns the number of parities that can be used.
    pub(super) fn left(&self) -> u64 {
        u64::from(self.geometry.parities) - self.bad_parities.len() as u64
    }

    /// Says whether nothing of it is damaged.
    pub(super) fn is_whole(&self) -> bool {
        self.bad_shards.is_empty() && self.bad_parities.is_empty() && self.bad_pieces == 0
    }

    /// Writes the damaged shards, computed from the others and the parities.
    ///
    /// # Errors
    ///
    /// `Corrupt` when too few are left, or what comes out is not what was there.
    pub(super) fn restore_shards(&self, store: &dyn Store) -> Result<()> {
        let geometry = self.geometry;
        let Some(first) = self.bad_shards.first() else { return Ok(()) };
        let place = geometry.shard_range(geometry.shard_of(self.number, *first)).start;
        let corrupt = |detail: &str| Error::corrupt("archive", place, detail);
        if self.bad_shards.len() as u64 > self.left() {
            return Err(corrupt("the damage is more than the recovery data can restore"));
        }
        let (in_group, parities) = (count(geometry.in_group()), count(geometry.parities.into()));
        let mut decoder = ReedSolomonDecoder::new(in_group, parities, geometry.shard_size()).map_err(misused)?;
        let mut buffer = vec![0; geometry.shard_size()];
        for index in (0..geometry.in_group()).filter(|index| self.bad_shards.binary_search(index).is_err()) {
            read_shard(store, geometry, geometry.shard_of(self.number, index), &mut buffer)?;
            decoder.add_original_shard(count(index), &buffer).map_err(misused)?;
        }
        let usable = (0..u64::from(geometry.parities)).filter(|parity| self.bad_parities.binary_search(parity).is_err());
        for parity in usable.take(self.bad_shards.len()) {
            store.read_exact_at(geometry.parity_place(self.number, parity), &mut buffer)?;
            decoder.add_recovery_shard(count(parity), &buffer).map_err(misused)?;
        }
        let restored = decoder.decode().map_err(misused)?;
        for &index in &self.bad_shards {
            let shard = geometry.shard_of(self.number, index);
            let bytes = restored.restored_original(count(index)).ok_or_else(|| corrupt("a shard was not restored"))?;
            // Where no checksum is left the bytes are as good as all those that they were computed from.
            if self.sums[count(index)].is_some_and(|sum| sum != checksum(bytes, shard)) {
                return Err(corrupt("what the recovery data gives for damaged bytes is wrong"));
            }
            let range = geometry.shard_range(shard);
            store.write_all_at(range.start, &bytes[..count(range.end - range.start)])?;
        }
        Ok(())
    }
}

/// Writes parities and table of a group, whose shards are whole.
pub(super) fn write_group(store: &dyn Store, geometry: &Geometry, number: u32) -> Result<()> {
    let (in_group, parities) = (count(geometry.in_group()), count(geometry.parities.into()));
    let mut encoder = ReedSolomonEncoder::new(in_group, parities, geometry.shard_size()).map_err(misused)?;
    let mut buffer = vec![0; geometry.shard_size()];
    let mut sums = Vec::with_capacity(in_group + parities);
    for index in 0..geometry.in_group() {
        let shard = geometry.shard_of(number, index);
        read_shard(store, geometry, shard, &mut buffer)?;
        sums.push(checksum(&buffer, shard));
        encoder.add_original_shard(&buffer).map_err(misused)?;
    }
    let encoded = encoder.encode().map_err(misused)?;
    for (parity, bytes) in (0..).zip(encoded.recovery_iter()) {
        let place = geometry.parity_place(number, parity);
        sums.push(checksum(bytes, place));
        store.write_all_at(place, bytes)?;
    }
    write_table(store, geometry, number, &sums)
}

/// Reads a shard; bytes beyond the protected ones are zeros.
fn read_shard(source: &dyn ReadAt, geometry: &Geometry, shard: u64, buffer: &mut [u8]) -> Result<()> {
    let range = geometry.shard_range(shard);
    let len = count(range.end - range.start);
    buffer[len..].fill(0);
    if len > 0 { source.read_exact_at(range.start, &mut buffer[..len]) } else { Ok(()) }
}

fn write_table(store: &dyn Store, geometry: &Geometry, number: u32, sums: &[u64]) -> Result<()> {
    let content = geometry.shard_size() - SUM_LEN;
    let mut table: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    table.resize(count(geometry.pieces()) * content, 0);
    let parities = reed_solomon_simd::encode(
        count(geometry.pieces()),
        count(geometry.all_pieces() - geometry.pieces()),
        table.chunks_exact(content),
    )
    .map_err(misused)?;
    for (piece, bytes) in (0..).zip(table.chunks_exact(content).chain(parities.iter().map(Vec::as_slice))) {
        let place = geometry.piece_place(number, piece);
        let sum = checksum(bytes, place).to_le_bytes();
        store.write_all_at(place, &[bytes, &sum].concat())?;
    }
    Ok(())
}

/// Returns the checksums of a group, as far as they are known, and how many pieces of the table are damaged.
fn read_table(view: View<'_>, geometry: &Geometry, number: u32) -> Result<(Vec<Option<u64>>, u64)> {
    let (pieces, all) = (count(geometry.pieces()), count(geometry.all_pieces()));
    let content = geometry.shard_size() - SUM_LEN;
    let mut found: Vec<Option<Vec<u8>>> = Vec::with_capacity(all);
    for piece in 0..geometry.all_pieces() {
        let place = geometry.piece_place(number, piece);
        let mut bytes = vec![0; geometry.shard_size()];
        let there = view.read(place, &mut bytes)?;
        let sum = bytes.split_off(content);
        found.push((there && checksum(&bytes, place).to_le_bytes() == *sum).then_some(bytes));
    }
    let bad = found.iter().filter(|piece| piece.is_none()).count();
    if found[..pieces].contains(&None) && all - bad >= pieces {
        let mut decoder = ReedSolomonDecoder::new(pieces, all - pieces, content).map_err(misused)?;
        for (index, piece) in found.iter().enumerate() {
            match piece {
                Some(bytes) if index < pieces => decoder.add_original_shard(index, bytes),
                Some(bytes) => decoder.add_recovery_shard(index - pieces, bytes),
                None => Ok(()),
            }
            .map_err(misused)?;
        }
        let restored = decoder.decode().map_err(misused)?;
        let restored: Vec<_> = restored.restored_original_iter().map(|(index, bytes)| (index, bytes.to_vec())).collect();
        for (index, bytes) in restored {
            found[index] = Some(bytes);
        }
    }
    let each = count(geometry.piece_sums());
    let mut sums = Vec::with_capacity(pieces * each);
    for piece in &found[..pieces] {
        match piece {
            Some(bytes) => sums.extend(bytes.as_chunks().0.iter().map(|sum| Some(u64::from_le_bytes(*sum)))),
            None => sums.resize(sums.len() + each, None),
        }
    }
    sums.truncate(count(geometry.in_group() + u64::from(geometry.parities)));
    Ok((sums, bad as u64))
}

/// Makes a number of things that are in memory an index.
pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).expect("it counts parts of a group, which are bounded")
}

/// The code refuses only numbers of shards that [`Geometry`] never has.
fn misused(error: reed_solomon_simd::Error) -> Error {
    Error::Usage { detail: format!("recovery data: {error}") }
}
