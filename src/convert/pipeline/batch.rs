//! What reading threads hand to the thread that writes.

use crossbeam_channel::{Receiver, Sender, bounded};

use nra_format::codec::looks_incompressible;
use nra_format::digest::Digest;
use nra_format::entry::Entry;

/// Part of a batch's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// What was read for one name, or a part of it. `X` is what only the source of the items knows of.
#[derive(Debug)]
pub(crate) enum Item<X> {
    /// An entry that needs no content.
    Plain(Entry),
    /// A file that is one piece.
    Whole(Entry, Piece),
    /// A file that is one piece, still to be measured.
    Unmeasured(Entry, Run),
    /// Start of a file in pieces.
    Begin(Entry),
    /// Its next piece.
    Piece(Piece),
    /// Its next piece, still to be measured.
    Cut(Run),
    /// Its next hole, this many bytes.
    Hole(u64),
    /// Its end; digest of the whole, if known.
    End(Option<Digest>),
    /// It can't be read further and is given up.
    Abandon,
    /// Nothing; a warning said why.
    Nothing,
    /// What the source alone understands.
    Other(X),
}

/// A run of content with what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) run: Run,
    pub(crate) digest: Digest,
    pub(crate) incompressible: bool,
}

/// An item, the place in the order of the name it belongs to, and the identity of a file that has several names.
#[derive(Debug)]
pub(crate) struct Placed<X> {
    pub(crate) place: u32,
    pub(crate) identity: Option<(u64, u64)>,
    pub(crate) item: Item<X>,
}

/// Items with the bytes they refer to.
#[derive(Debug)]
pub(crate) struct Batch<X> {
    /// Always of the same length; the first `filled` bytes count.
    pub(crate) bytes: Vec<u8>,
    pub(crate) filled: usize,
    pub(crate) items: Vec<Placed<X>>,
}

impl<X> Batch<X> {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, filled: 0, items: Vec::new() }
    }

    /// Measures the pieces that are only cut.
    fn measure(&mut self) {
        for placed in &mut self.items {
            let of = |run: Run| measure(&self.bytes[run.start..run.start + run.len], run);
            placed.item = match std::mem::replace(&mut placed.item, Item::Nothing) {
                Item::Cut(run) => Item::Piece(of(run)),
                Item::Unmeasured(entry, run) => Item::Whole(entry, of(run)),
                item => item,
            };
        }
    }

    /// Returns the bytes of a run.
    pub(crate) fn run(&self, run: Run) -> &[u8] {
        &self.bytes[run.start..run.start + run.len]
    }
}

/// Digests and classifies a piece.
pub(crate) fn measure(bytes: &[u8], run: Run) -> Piece {
    Piece { run, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) }
}

/// A batch on its way to the writing thread.
#[derive(Debug)]
pub(crate) enum Delivery<X> {
    /// Here it is.
    Ready(Batch<X>),
    /// Another thread measures its pieces and sends it here.
    Soon(Receiver<Batch<X>>),
}

/// A batch with pieces to measure, and where it goes then.
#[derive(Debug)]
pub(crate) struct Unmeasured<X> {
    batch: Batch<X>,
    out: Sender<Batch<X>>,
}

impl<X> Unmeasured<X> {
    /// Measures the pieces and sends the batch on.
    pub(crate) fn finish(mut self) {
        self.batch.measure();
        // Nobody waits for it when the work was stopped.
        let _ = self.out.send(self.batch);
    }
}

/// The reader of a batch is gone: the work was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Where a reading thread puts what it reads.
#[derive(Debug)]
pub(crate) struct Outlet<X> {
    pub(crate) batch: Batch<X>,
    out: Option<Sender<Delivery<X>>>,
    /// Who measures pieces that are only cut; without anybody it is done here.
    measurers: Option<Sender<Unmeasured<X>>>,
    /// Buffers that were used before.
    spare: Receiver<Vec<u8>>,
    buffer_bytes: usize,
}

impl<X> Outlet<X> {
    /// Creates an outlet that has nowhere to send to yet. Buffers have `buffer_bytes`.
    pub(crate) fn new(spare: Receiver<Vec<u8>>, buffer_bytes: usize, measurers: Option<Sender<Unmeasured<X>>>) -> Self {
        let bytes = vec![0; buffer_bytes];
        Self { batch: Batch::new(bytes), out: None, measurers, spare, buffer_bytes }
    }

    /// Sends to `out` from now on.
    pub(crate) fn turn_to(&mut self, out: Sender<Delivery<X>>) {
        self.out = Some(out);
    }

    /// Sends what is left and closes the way.
    pub(crate) fn close(&mut self) -> Result<(), Stopped> {
        let sent = if self.batch.items.is_empty() { Ok(()) } else { self.flush(0) };
        self.out = None;
        sent
    }

    /// Sends the batch; the new one begins with the last `keep` bytes of it.
    pub(crate) fn flush(&mut self, keep: usize) -> Result<(), Stopped> {
        let bytes = self.spare.try_recv().unwrap_or_else(|_| vec![0; self.buffer_bytes]);
        let mut next = Batch::new(bytes);
        let kept = self.batch.filled - keep..self.batch.filled;
        next.bytes[..keep].copy_from_slice(&self.batch.bytes[kept]);
        next.filled = keep;
        let mut full = std::mem::replace(&mut self.batch, next);
        let out = self.out.as_ref().ok_or(Stopped)?;
        let cut = full.items.iter().any(|placed| matches!(placed.item, Item::Cut(_) | Item::Unmeasured(..)));
        let Some(measurers) = self.measurers.as_ref().filter(|_| cut) else {
            full.measure();
            return out.send(Delivery::Ready(full)).map_err(|_| Stopped);
        };
        let (measured, soon) = bounded(1);
        // Its place in the line first: the room there bounds what waits to be measured, too.
        out.send(Delivery::Soon(soon)).map_err(|_| Stopped)?;
        measurers.send(Unmeasured { batch: full, out: measured }).map_err(|_| Stopped)
    }

    /// Makes room for `len` more bytes in the batch. At most [`Outlet::buffer_bytes`] fit.
    pub(crate) fn make_room(&mut self, len: usize) -> Result<(), Stopped> {
        if self.batch.bytes.len() - self.batch.filled < len { self.flush(0) } else { Ok(()) }
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, place: u32, identity: Option<(u64, u64)>, item: Item<X>) {
        self.batch.items.push(Placed { place, identity, item });
    }
}
