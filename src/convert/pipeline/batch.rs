//! Batches of parts that reading threads send to the writing thread.

use crossbeam_channel::{Receiver, Sender, bounded};

use nra_format::codec::looks_incompressible;
use nra_format::digest::Digest;
use nra_format::entry::Entry;
use nra_format::worker_pool::JobOutput;
pub(crate) use nra_format::worker_pool::Stopped;

/// Part of a batch's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// A part of an entry. `X` has facts that only one kind of source knows.
#[derive(Debug)]
pub(crate) enum EntryPart<X> {
    /// An entry that needs no content.
    Plain(Entry),
    /// A file of one chunk.
    Whole(Entry, Chunk),
    /// A file of one chunk that is not hashed yet.
    Unhashed(Entry, ByteRange),
    /// Start of a file of several chunks.
    Begin(Entry),
    /// Its next chunk.
    Chunk(Chunk),
    /// Its next chunk, not hashed yet.
    Cut(ByteRange),
    /// Its next hole, bytes.
    Hole(u64),
    /// Its end; the digest of the whole file, if known.
    End(Option<Digest>),
    /// It can't be read further and is skipped.
    Abandon,
    /// A skipped name; a warning gave the reason.
    Nothing,
    /// A fact for the source to handle.
    Other(X),
}

/// A chunk with its digest and whether it is incompressible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) run: ByteRange,
    pub(crate) digest: Digest,
    pub(crate) incompressible: bool,
}

/// A part, the position of its name in the order, and the inode of a file that has several names.
#[derive(Debug)]
pub(crate) struct OrderedPart<X> {
    pub(crate) position: u32,
    pub(crate) identity: Option<(u64, u64)>,
    pub(crate) part: EntryPart<X>,
}

/// Parts of entries with the bytes they refer to.
#[derive(Debug)]
pub(crate) struct Batch<X> {
    /// Always of the same length; the first `filled` bytes are used.
    pub(crate) bytes: Vec<u8>,
    pub(crate) filled: usize,
    pub(crate) parts: Vec<OrderedPart<X>>,
}

impl<X> Batch<X> {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, filled: 0, parts: Vec::new() }
    }

    /// Hashes the chunks that are not hashed yet.
    fn hash_chunks(&mut self) {
        for ordered in &mut self.parts {
            let of = |run: ByteRange| hash_chunk(&self.bytes[run.start..run.start + run.len], run);
            ordered.part = match std::mem::replace(&mut ordered.part, EntryPart::Nothing) {
                EntryPart::Cut(run) => EntryPart::Chunk(of(run)),
                EntryPart::Unhashed(entry, run) => EntryPart::Whole(entry, of(run)),
                part => part,
            };
        }
    }

    /// Returns the bytes of a run.
    pub(crate) fn run(&self, run: ByteRange) -> &[u8] {
        &self.bytes[run.start..run.start + run.len]
    }
}

/// Hashes and classifies a chunk.
pub(crate) fn hash_chunk(bytes: &[u8], run: ByteRange) -> Chunk {
    Chunk { run, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) }
}

/// A batch on its way to the writing thread.
#[derive(Debug)]
pub(crate) enum Delivery<X> {
    /// The batch.
    Ready(Batch<X>),
    /// Another thread hashes its chunks and sends it here.
    Soon(Receiver<Batch<X>>),
}

/// A batch with chunks to hash, and its destination.
#[derive(Debug)]
pub(crate) struct Unhashed<X> {
    batch: Batch<X>,
    out: Sender<Batch<X>>,
}

impl<X> Unhashed<X> {
    /// Hashes the chunks and forwards the batch.
    pub(crate) fn finish(mut self) {
        self.batch.hash_chunks();
        // The receiver is gone if the conversion was stopped.
        let _ = self.out.send(self.batch);
    }
}

/// The output of a reading thread.
pub(crate) struct Outlet<X> {
    pub(crate) batch: Batch<X>,
    out: Option<JobOutput<Delivery<X>>>,
    /// Threads that hash chunks; without them, this thread does.
    hashers: Option<Sender<Unhashed<X>>>,
    /// Buffers for reuse.
    spare: Receiver<Vec<u8>>,
    buffer_bytes: usize,
}

impl<X> Outlet<X> {
    /// Creates an outlet without a receiver. Buffers have `buffer_bytes`.
    pub(crate) fn new(spare: Receiver<Vec<u8>>, buffer_bytes: usize, hashers: Option<Sender<Unhashed<X>>>) -> Self {
        let bytes = vec![0; buffer_bytes];
        Self { batch: Batch::new(bytes), out: None, hashers, spare, buffer_bytes }
    }

    /// Sends further batches to `out`.
    pub(crate) fn turn_to(&mut self, out: JobOutput<Delivery<X>>) {
        self.out = Some(out);
    }

    /// Sends the last batch and disconnects.
    pub(crate) fn close(&mut self) -> Result<(), Stopped> {
        let sent = if self.batch.parts.is_empty() { Ok(()) } else { self.flush(0) };
        self.out = None;
        sent
    }

    /// Sends the batch. The next one starts with its last `keep` bytes.
    pub(crate) fn flush(&mut self, keep: usize) -> Result<(), Stopped> {
        let bytes = self.spare.try_recv().unwrap_or_else(|_| vec![0; self.buffer_bytes]);
        let mut next = Batch::new(bytes);
        let kept = self.batch.filled - keep..self.batch.filled;
        next.bytes[..keep].copy_from_slice(&self.batch.bytes[kept]);
        next.filled = keep;
        let mut full = std::mem::replace(&mut self.batch, next);
        let out = self.out.as_ref().ok_or(Stopped)?;
        let cut = full.parts.iter().any(|ordered| matches!(ordered.part, EntryPart::Cut(_) | EntryPart::Unhashed(..)));
        let Some(hashers) = self.hashers.as_ref().filter(|_| cut) else {
            full.hash_chunks();
            return out.send(Delivery::Ready(full));
        };
        let (hashed, soon) = bounded(1);
        // Queue its place first: the length of that queue also bounds the batches that wait for
        // hashing.
        out.send(Delivery::Soon(soon))?;
        hashers.send(Unhashed { batch: full, out: hashed }).map_err(|_| Stopped)
    }

    /// Makes room for `len` more bytes in the batch. At most [`Outlet::buffer_bytes`] fit.
    pub(crate) fn make_room(&mut self, len: usize) -> Result<(), Stopped> {
        if self.batch.bytes.len() - self.batch.filled < len { self.flush(0) } else { Ok(()) }
    }

    /// Adds a part.
    pub(crate) fn push(&mut self, position: u32, identity: Option<(u64, u64)>, part: EntryPart<X>) {
        self.batch.parts.push(OrderedPart { position, identity, part });
    }
}
