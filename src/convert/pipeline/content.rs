//! Turns a sequence of bytes and holes into parts.

use std::convert::Infallible;

use super::batch::{ByteRange, EntryPart, Outlet, Stopped};
use super::threads::MIN_BUFFER;
use nra_format::chunker::{MAX_SINGLE_CHUNK_LEN, next_chunk_len};
use nra_format::entry::Entry;
use nra_format::zeros::each_zero;

/// If all holes together have more bytes than this, no digest of the whole file is computed: that
/// would take longer than storing the rest.
pub(crate) const HASHED_HOLES_MAX: u64 = 1 << 30;

/// Approximate number of parts in a batch: parts without content would never fill it.
pub(crate) const BATCH_PARTS: usize = 1_024;

/// A file in progress: a small one becomes one chunk, others are split by content.
pub(crate) struct Content {
    position: u32,
    form: Form,
}

enum Form {
    /// Collected in one range of the batch.
    Whole { entry: Box<Entry>, start: usize },
    /// In chunks: where the part that is not split yet starts, and the hasher of the whole file
    /// unless its holes are too long.
    Chunks { cut: usize, hasher: Option<Box<blake3::Hasher>> },
}

impl Content {
    /// Begins a file of `size` bytes. `plain`: it has no holes.
    ///
    /// # Errors
    ///
    /// If the conversion was stopped.
    pub(crate) fn begin<X>(position: u32, entry: Entry, size: u64, plain: bool, outlet: &mut Outlet<X>) -> Result<Self, Stopped> {
        let form = match usize::try_from(size) {
            Ok(size) if plain && size <= MAX_SINGLE_CHUNK_LEN => {
                outlet.make_room(size)?;
                Form::Whole { entry: Box::new(entry), start: outlet.batch.filled }
            }
            _ => {
                outlet.push(position, None, EntryPart::Begin(entry));
                outlet.make_room(MIN_BUFFER)?;
                Form::Chunks { cut: outlet.batch.filled, hasher: Some(Box::default()) }
            }
        };
        Ok(Self { position, form })
    }

    /// Appends bytes; all together at most the size given at the beginning.
    ///
    /// # Errors
    ///
    /// If the conversion was stopped.
    pub(crate) fn data<X>(&mut self, mut bytes: &[u8], outlet: &mut Outlet<X>) -> Result<(), Stopped> {
        match &mut self.form {
            Form::Whole { .. } => append(outlet, bytes),
            Form::Chunks { cut, hasher } => {
                if let Some(hasher) = hasher {
                    hasher.update(bytes);
                }
                while !bytes.is_empty() {
                    let room = outlet.batch.bytes.len() - outlet.batch.filled;
                    if room == 0 {
                        split_chunks(self.position, None, cut, false, outlet);
                        outlet.flush(outlet.batch.filled - *cut)?;
                        *cut = 0;
                        continue;
                    }
                    let (now, later) = bytes.split_at(room.min(bytes.len()));
                    append(outlet, now);
                    bytes = later;
                }
            }
        }
        Ok(())
    }

    /// Appends a hole of `len` bytes; in a small file without holes it becomes zero bytes. `room`:
    /// how many more bytes of holes may be hashed. No digest is computed if a hole is longer.
    ///
    /// # Errors
    ///
    /// If the conversion was stopped.
    pub(crate) fn hole<X>(&mut self, len: u64, room: &mut u64, outlet: &mut Outlet<X>) -> Result<(), Stopped> {
        let Form::Chunks { cut, hasher } = &mut self.form else {
            let batch = &mut outlet.batch;
            let len = usize::try_from(len).expect("no more than the file has");
            batch.bytes[batch.filled..batch.filled + len].fill(0);
            batch.filled += len;
            return Ok(());
        };
        if len == 0 {
            return Ok(());
        }
        split_chunks(self.position, None, cut, true, outlet);
        outlet.push(self.position, None, EntryPart::Hole(len));
        if len > *room {
            *hasher = None;
        }
        if let Some(hasher) = hasher {
            *room -= len;
            hash_zeros(hasher, len);
        }
        // All bytes of the batch belong to complete chunks.
        if outlet.batch.parts.len() >= BATCH_PARTS {
            outlet.flush(0)?;
            *cut = 0;
        }
        Ok(())
    }

    /// Ends the file.
    pub(crate) fn end<X>(self, outlet: &mut Outlet<X>) {
        let part = match self.form {
            Form::Whole { entry, start } if outlet.batch.filled == start => EntryPart::Plain(*entry),
            Form::Whole { entry, start } => EntryPart::Unhashed(*entry, ByteRange { start, len: outlet.batch.filled - start }),
            Form::Chunks { mut cut, hasher } => {
                split_chunks(self.position, None, &mut cut, true, outlet);
                EntryPart::End(hasher.map(|hasher| hasher.finalize().into()))
            }
        };
        outlet.push(self.position, None, part);
    }

    /// Skips the file.
    pub(crate) fn abandon<X>(self, outlet: &mut Outlet<X>) {
        let part = match self.form {
            Form::Chunks { .. } => EntryPart::Abandon,
            Form::Whole { .. } => EntryPart::Nothing,
        };
        outlet.push(self.position, None, part);
    }
}

/// Feeds `len` zero bytes to a hash.
pub(crate) fn hash_zeros(hasher: &mut blake3::Hasher, len: u64) {
    let Ok(()) = each_zero::<Infallible>(len, |bytes| {
        hasher.update(bytes);
        Ok(())
    });
}

fn append<X>(outlet: &mut Outlet<X>, bytes: &[u8]) {
    let batch = &mut outlet.batch;
    batch.bytes[batch.filled..batch.filled + bytes.len()].copy_from_slice(bytes);
    batch.filled += bytes.len();
}

/// Splits the bytes of the batch after `cut` into chunks; `last`: up to the end.
pub(crate) fn split_chunks<X>(position: u32, identity: Option<(u64, u64)>, cut: &mut usize, last: bool, outlet: &mut Outlet<X>) {
    while *cut < outlet.batch.filled
        && let Some(len) = next_chunk_len(&outlet.batch.bytes[*cut..outlet.batch.filled], last)
    {
        outlet.push(position, identity, EntryPart::Cut(ByteRange { start: *cut, len }));
        *cut += len;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use crossbeam_channel::never;

    use super::*;
    use crate::pipeline::batch::Delivery;
    use nra_format::digest::Digest;
    use nra_format::entry::Kind;
    use nra_format::path::EntryPath;
    use nra_format::worker_pool::{PoolLimits, WorkerPool};

    /// Stores a file of so many pairs of a byte and a hole; returns the lengths of the batches, and
    /// the digest.
    fn stored(pairs: u64, hole: u64, room: &mut u64) -> (Vec<usize>, Option<Digest>) {
        let room = Mutex::new(room);
        let batches: Vec<Delivery<()>> = std::thread::scope(|scope| {
            let mut pool = WorkerPool::scoped(scope, "test", PoolLimits::new(1, 1), || {
                |(), output| {
                    let mut outlet = Outlet::new(never(), MIN_BUFFER, None);
                    outlet.turn_to(output);
                    let entry = Entry::new(EntryPath::try_from("sparse").unwrap(), Kind::File);
                    let mut content = Content::begin(0, entry, pairs * (1 + hole), false, &mut outlet).unwrap();
                    for _ in 0..pairs {
                        content.data(b"x", &mut outlet).unwrap();
                        content.hole(hole, &mut room.lock().unwrap(), &mut outlet).unwrap();
                    }
                    content.end(&mut outlet);
                    outlet.close().unwrap();
                }
            });
            pool.send((), 0).unwrap();
            std::iter::from_fn(|| pool.receive()).collect()
        });
        let (mut lengths, mut digest, mut chunks, mut bytes) = (Vec::new(), None, 0, 0);
        for delivery in batches {
            let Delivery::Ready(batch) = delivery else { panic!("no thread hashes chunks") };
            lengths.push(batch.parts.len());
            for ordered in &batch.parts {
                match &ordered.part {
                    EntryPart::Chunk(chunk) => {
                        assert_eq!(batch.run(chunk.run), b"x");
                        chunks += 1;
                    }
                    EntryPart::Hole(len) => bytes += len,
                    EntryPart::End(found) => digest = *found,
                    _ => {}
                }
            }
        }
        assert_eq!((chunks, bytes), (pairs, pairs * hole));
        (lengths, digest)
    }

    #[test]
    fn tiny_parts_do_not_accumulate_in_a_batch() {
        let (lengths, digest) = stored(5_000, 1, &mut HASHED_HOLES_MAX.clone());
        assert!(lengths.len() > 5 && lengths.iter().all(|&len| len <= BATCH_PARTS + 2), "{lengths:?}");
        assert_eq!(digest, Some(Digest::of(&b"x\0".repeat(5_000))));
    }

    #[test]
    fn hashed_holes_of_several_files_share_a_limit() {
        let mut room = 100;
        assert!(stored(2, 30, &mut room).1.is_some());
        assert!(stored(1, 60, &mut room).1.is_none());
        assert_eq!(room, 40);
        assert!(stored(1, 40, &mut room).1.is_some());
    }
}
