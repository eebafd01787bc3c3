//! What reading threads hand to the thread that writes.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::format::codec::looks_incompressible;
use crate::format::digest::Digest;
use crate::format::entry::Entry;
use crate::format::path::EntryPath;

/// Part of a batch's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) len: usize,
}

/// What was read for one name, or a part of it.
#[derive(Debug)]
pub(super) enum Item {
    /// An entry that needs no content.
    Plain(Entry),
    /// A file that is one piece.
    Whole(Entry, Piece),
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
    /// One more name of an inode that stands earlier in the order; device and inode.
    Link((u64, u64)),
    /// Some names of this inode may stand in a later window: to be stored with them.
    Defer,
    /// Nothing: the archive that is updated has it as it is. With its path, if the file may have other names.
    Same(Option<EntryPath>),
    /// The archive that is updated has its content; metadata and time of this entry are new.
    Touched(Entry),
    /// Nothing: it is the archive itself.
    Own,
    /// Nothing; a warning said why.
    Nothing,
}

/// A run of content with what is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) run: Run,
    pub(super) digest: Digest,
    pub(super) incompressible: bool,
}

/// An item, the place in the order of the name it belongs to, and the identity of a file that has several names.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) place: u32,
    pub(super) identity: Option<(u64, u64)>,
    pub(super) item: Item,
}

/// Items with the bytes they refer to.
#[derive(Debug)]
pub(super) struct Batch {
    /// Always of the same length; the first `filled` bytes count.
    pub(super) bytes: Vec<u8>,
    pub(super) filled: usize,
    pub(super) items: Vec<Placed>,
}

impl Batch {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, filled: 0, items: Vec::new() }
    }

    /// Measures the pieces that are only cut.
    fn measure(&mut self) {
        for placed in &mut self.items {
            if let Item::Cut(run) = placed.item {
                placed.item = Item::Piece(measure(&self.bytes[run.start..run.start + run.len], run));
            }
        }
    }

    /// Returns the bytes of a run.
    pub(super) fn run(&self, run: Run) -> &[u8] {
        &self.bytes[run.start..run.start + run.len]
    }
}

/// Digests and classifies a piece.
pub(super) fn measure(bytes: &[u8], run: Run) -> Piece {
    Piece { run, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) }
}

/// A batch on its way to the writing thread.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Here it is.
    Ready(Batch),
    /// Another thread measures its pieces and sends it here.
    Soon(Receiver<Batch>),
}

/// A batch with pieces to measure, and where it goes then.
#[derive(Debug)]
pub(super) struct Unmeasured {
    batch: Batch,
    out: Sender<Batch>,
}

impl Unmeasured {
    /// Measures the pieces and sends the batch on.
    pub(super) fn finish(mut self) {
        self.batch.measure();
        // Nobody waits for it when the work was stopped.
        let _ = self.out.send(self.batch);
    }
}

/// The reader of a batch is gone: the work was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

/// Where a reading thread puts what it reads.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) batch: Batch,
    out: Option<Sender<Delivery>>,
    /// Who measures pieces that are only cut; without anybody it is done here.
    measurers: Option<Sender<Unmeasured>>,
    /// Buffers that were used before.
    spare: Receiver<Vec<u8>>,
    buffer_bytes: usize,
}

impl Outlet {
    /// Creates an outlet that has nowhere to send to yet. Buffers have `buffer_bytes`.
    pub(super) fn new(spare: Receiver<Vec<u8>>, buffer_bytes: usize, measurers: Option<Sender<Unmeasured>>) -> Self {
        let bytes = vec![0; buffer_bytes];
        Self { batch: Batch::new(bytes), out: None, measurers, spare, buffer_bytes }
    }

    /// Sends to `out` from now on.
    pub(super) fn turn_to(&mut self, out: Sender<Delivery>) {
        self.out = Some(out);
    }

    /// Sends what is left and closes the way.
    pub(super) fn close(&mut self) -> Result<(), Stopped> {
        let sent = if self.batch.items.is_empty() { Ok(()) } else { self.flush(0) };
        self.out = None;
        sent
    }

    /// Sends the batch; the new one begins with the last `keep` bytes of it.
    pub(super) fn flush(&mut self, keep: usize) -> Result<(), Stopped> {
        let bytes = self.spare.try_recv().unwrap_or_else(|_| vec![0; self.buffer_bytes]);
        let mut next = Batch::new(bytes);
        let kept = self.batch.filled - keep..self.batch.filled;
        next.bytes[..keep].copy_from_slice(&self.batch.bytes[kept]);
        next.filled = keep;
        let mut full = std::mem::replace(&mut self.batch, next);
        let out = self.out.as_ref().ok_or(Stopped)?;
        let cut = full.items.iter().any(|placed| matches!(placed.item, Item::Cut(_)));
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
    pub(super) fn make_room(&mut self, len: usize) -> Result<(), Stopped> {
        if self.batch.bytes.len() - self.batch.filled < len { self.flush(0) } else { Ok(()) }
    }

    /// Adds an item.
    pub(super) fn push(&mut self, place: u32, identity: Option<(u64, u64)>, item: Item) {
        self.batch.items.push(Placed { place, identity, item });
    }
}
