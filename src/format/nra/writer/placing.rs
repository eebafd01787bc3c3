//! Places what is closed: runs become blocks with their directories, in the order in which they were closed.
//!
//! An entry is recorded in the directory of the block with its last piece. Nothing here depends on when a worker is done.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::content::{BlockRef, Segment};
use crate::directory::{self, Piece};
use crate::frame::FrameKind;
use crate::records::{self, RecordList};
use crate::writer::EntryId;
use crate::writer::adopt::Adopted;
use crate::writer::cutter::{Cut, CutBlock, CutPolicy, cut};
use crate::writer::index::{Block, Index, Settling, block_number, weight};
use crate::writer::output::{NewFrame, Output};
use crate::writer::pieces::{PiecePlace, RunId};
use crate::writer::run::{MAX_WEIGHT, Run, RunPiece, aligned};
use crate::writer::trees::{PageSizes, write_extent_map};
use crate::writer::workers::{Bench, Workers};
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::error::{Error, Result};
use nra_core::progress::{Counter, Monitor};

/// Parts of a content whose records are counted when they are not known.
const PARTS_GUESS: usize = 16;
/// Entries whose records wait for a block at most.
const MAX_CARRIED: usize = 1_024;

/// Something closed that waits for its place.
pub(super) enum Item {
    /// A dictionary; later runs are compressed with it.
    Dictionary(Arc<Dictionary>),
    /// A run of raw content: one block.
    Raw(Run),
    /// A run that a worker compresses; `cut` is there when it is done.
    Packed { run: Run, cut: Option<Cut> },
    /// Entries without new content.
    Entries(Vec<EntryId>),
    /// An entry that got a link group after it was closed.
    Link(EntryId, u64),
}

/// A run that came back from a worker: what it was cut to, and the memory it was in.
type Returned = (Cut, Vec<u8>);

/// The number of the item that a worker had, and what came of it.
type Answer = (u64, Result<Returned>);

/// What is closed, and what is written.
pub(super) struct Placing<W: Write> {
    pub output: Output<W>,
    pub sizes: PageSizes,
    pub workers: Workers,
    policy: CutPolicy,
    memory_bytes: u64,
    queue: VecDeque<Item>,
    /// Number of the first item of the queue.
    first: u64,
    /// Content bytes that the queue holds, with what compression may need.
    held_bytes: u64,
    /// Content bytes that are neither compressed nor written yet.
    waiting_bytes: u64,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    spare: Vec<Vec<u8>>,
    dictionary: Option<Arc<Dictionary>>,
    dictionary_offset: u64,
    /// Settled entries to be recorded with the next block.
    carried: Vec<EntryId>,
    carried_weight: usize,
    /// Contexts of the thread that places.
    pub bench: Bench,
    failed: bool,
    pub piece_bytes: u64,
    pub stored_bytes: u64,
    /// Blocks and pieces that were written.
    pub blocks: u64,
    pub pieces: u64,
}

impl<W: Write> Placing<W> {
    pub fn new(output: Output<W>, policy: CutPolicy, threads: usize, memory_bytes: u64) -> Self {
        let (sender, answers) = unbounded();
        Self {
            output,
            sizes: PageSizes::default(),
            workers: Workers::new(threads),
            policy,
            memory_bytes,
            queue: VecDeque::new(),
            first: 0,
            held_bytes: 0,
            waiting_bytes: 0,
            sender,
            answers,
            spare: Vec::new(),
            dictionary: None,
            dictionary_offset: 0,
            carried: Vec::new(),
            carried_weight: 0,
            bench: Bench::default(),
            failed: false,
            piece_bytes: 0,
            stored_bytes: 0,
            blocks: 0,
            pieces: 0,
        }
    }

    /// Content that was closed and is neither compressed nor written yet, bytes.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Returns memory for a run, if some is spare.
    pub fn take_spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Closes something, and places what can be.
    pub fn push(&mut self, item: Item, index: &mut Index) -> Result<()> {
        let number = self.first + self.queue.len() as u64;
        let item = match item {
            Item::Dictionary(dictionary) => {
                self.dictionary = Some(dictionary.clone());
                Item::Dictionary(dictionary)
            }
            Item::Packed { mut run, .. } => {
                let bytes = std::mem::take(&mut run.bytes);
                self.held_bytes += 2 * bytes.len() as u64;
                self.waiting_bytes += run.content_bytes;
                self.submit(number, bytes, &run.pieces)?;
                Item::Packed { run, cut: None }
            }
            Item::Raw(run) => {
                self.held_bytes += run.bytes.len() as u64;
                self.waiting_bytes += run.content_bytes;
                Item::Raw(run)
            }
            other => other,
        };
        self.queue.push_back(item);
        self.advance(index, self.memory_bytes, &mut |_| Ok(()))
    }

    /// Places everything that is closed, and counts the content that was waiting.
    pub fn drain(&mut self, index: &mut Index, monitor: &dyn Monitor) -> Result<()> {
        self.advance(index, 0, &mut |bytes| {
            monitor.add(Counter::Bytes, bytes);
            monitor.check()
        })?;
        self.flush_carried(index)
    }

    /// Places everything that is closed; entries that are carried wait on.
    pub fn settle(&mut self, index: &mut Index) -> Result<()> {
        self.advance(index, 0, &mut |_| Ok(()))
    }

    /// Writes a block that is taken over as it is, with the records of `ready`.
    pub fn adopt(&mut self, block: &Adopted<'_>, run: RunId, ready: &[EntryId], index: &mut Index) -> Result<()> {
        let number = index.blocks.len();
        let pieces = block.pieces.as_slice();
        for (i, piece) in (0..).zip(pieces) {
            let (offset, _) = block.pieces.get(i).expect("a piece of the block");
            let end = offset + piece.raw_len;
            let id = index.pieces.insert(piece.digest, piece.raw_len, run)?;
            let checksum = match block.codec {
                Codec::None => content_checksum(&block.stored[offset as usize..end as usize]),
                _ => 0,
            };
            let block = block_number(number)?;
            *index.pieces.place_mut(id) = PiecePlace { run, raw_len: piece.raw_len, block, offset, number: i, checksum };
            self.piece_bytes += u64::from(piece.raw_len);
        }
        let align = if block.codec == Codec::None && !pieces.is_empty() { block.align } else { 0 };
        let new = Located {
            codec: block.codec,
            raw_len: block.raw_len,
            pad_len: self.output.padding(align),
            stored: block.stored,
            dictionary: block.dictionary,
            pieces,
        };
        self.write_located(new, ready, index)
    }

    /// Records entries with the next block; they are settled.
    pub fn carry(&mut self, id: EntryId, index: &mut Index) -> Result<()> {
        self.carried.push(id);
        self.carried_weight += weight(&index.entry(id).entry, PARTS_GUESS);
        if self.carried.len() >= MAX_CARRIED || self.carried_weight >= MAX_WEIGHT { self.flush_carried(index) } else { Ok(()) }
    }

    fn submit(&mut self, number: u64, bytes: Vec<u8>, pieces: &[RunPiece]) -> Result<()> {
        let lens: Vec<u32> = pieces.iter().map(|piece| piece.raw_len).collect();
        let (policy, dictionary) = (self.policy, self.dictionary.clone());
        self.workers.submit(number, &self.sender, move |bench| {
            let cut = cut(bench, policy, dictionary.as_deref(), &bytes, &lens)?;
            Ok((cut, bytes))
        })
    }

    /// Places items from the front until no more than `limit` bytes are held (0: all items). `done` is told how much content that was, bytes.
    fn advance(&mut self, index: &mut Index, limit: u64, done: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        if self.failed {
            return Err(Error::Usage { detail: "writing this archive has failed before".into() });
        }
        self.failed = true;
        loop {
            let before = self.waiting_bytes;
            while let Ok(result) = self.answers.try_recv() {
                self.take_result(result)?;
            }
            while self.queue.front().is_some_and(|item| !matches!(item, Item::Packed { cut: None, .. })) {
                let item = self.queue.pop_front().expect("looked at above");
                self.first += 1;
                self.place(item, index)?;
            }
            done(before - self.waiting_bytes)?;
            if self.queue.is_empty() || limit > 0 && self.held_bytes <= limit {
                break;
            }
            // The front is with a worker, which always answers.
            let result = self.answers.recv().expect("this value holds a sender");
            let before = self.waiting_bytes;
            self.take_result(result)?;
            done(before - self.waiting_bytes)?;
        }
        self.failed = false;
        Ok(())
    }

    fn take_result(&mut self, (number, result): (u64, Result<Returned>)) -> Result<()> {
        let (cut, mut bytes) = result?;
        let at = usize::try_from(number - self.first).expect("within the queue");
        if let Some(Item::Packed { run, cut: slot }) = self.queue.get_mut(at) {
            self.held_bytes -= 2 * bytes.len() as u64;
            self.waiting_bytes -= run.content_bytes;
            self.held_bytes += cut.stored.len() as u64;
            *slot = Some(cut);
        }
        bytes.clear();
        self.keep(bytes);
        Ok(())
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < 2 {
            self.spare.push(bytes);
        }
    }

    fn place(&mut self, item: Item, index: &mut Index) -> Result<()> {
        match item {
            Item::Dictionary(dictionary) => {
                let bytes = dictionary.as_bytes();
                let raw_len = u32::try_from(bytes.len()).expect("dictionaries are short");
                let frame = NewFrame::payload(FrameKind::Dictionary, Codec::None, raw_len, bytes);
                self.dictionary_offset = self.output.frame(frame)?.offset;
                Ok(())
            }
            Item::Entries(entries) => self.write_block(NewBlock::default(), &entries, index),
            Item::Link(id, group) => {
                index.entry_mut(id).entry.link_group = group;
                self.carry(id, index)
            }
            Item::Raw(run) => {
                let block = CutBlock {
                    pieces: run.pieces.len(),
                    codec: Codec::None,
                    raw_len: run.bytes.len(),
                    stored: 0..run.bytes.len(),
                    checksums: run.pieces.iter().map(|piece| piece.checksum).collect(),
                };
                self.held_bytes -= run.bytes.len() as u64;
                self.waiting_bytes -= run.content_bytes;
                self.place_run(&run, &Cut { stored: Vec::new(), blocks: vec![block] }, &run.bytes, index)?;
                let mut bytes = run.bytes;
                bytes.clear();
                self.keep(bytes);
                Ok(())
            }
            Item::Packed { run, cut } => {
                let cut = cut.expect("only runs that are done are placed");
                self.held_bytes -= cut.stored.len() as u64;
                self.place_run(&run, &cut, &cut.stored, index)
            }
        }
    }

    /// Writes the blocks of a run; `stored` is what their ranges are of.
    fn place_run(&mut self, run: &Run, cut: &Cut, stored: &[u8], index: &mut Index) -> Result<()> {
        let (mut done, mut waiting) = (0, &run.waiting[..]);
        let mut ready = Vec::new();
        for block in &cut.blocks {
            let pieces = &run.pieces[done..done + block.pieces];
            done += block.pieces;
            let split = waiting.partition_point(|&(count, _)| count <= done);
            let (now, later) = waiting.split_at(split);
            waiting = later;
            ready.clear();
            for &(_, id) in now {
                let added = index.entry_mut(id);
                added.waits = added.waits.saturating_sub(1);
                if added.waits == 0 {
                    ready.push(id);
                }
            }
            let new = NewBlock {
                codec: block.codec,
                raw_len: block.raw_len,
                stored: &stored[block.stored.clone()],
                pieces,
                checksums: &block.checksums,
            };
            self.write_block(new, &ready, index)?;
        }
        Ok(())
    }

    /// Writes a block with the records of `ready`, entries that can be settled once it is there.
    fn write_block(&mut self, new: NewBlock<'_>, ready: &[EntryId], index: &mut Index) -> Result<()> {
        let pad_len = match new.codec {
            Codec::None if !new.pieces.is_empty() => self.output.padding(self.policy.align),
            _ => 0,
        };
        let raw_len = u32::try_from(new.raw_len).expect("blocks are bounded");
        let pieces = self.locate(&new, index.blocks.len(), index)?;
        let dictionary = if new.codec == Codec::Zstd { self.dictionary_offset } else { 0 };
        let (codec, stored) = (new.codec, new.stored);
        self.write_located(Located { codec, raw_len, pad_len, stored, dictionary, pieces: &pieces }, ready, index)
    }

    /// Writes a block whose pieces are noted, with the records of `ready`.
    fn write_located(&mut self, new: Located<'_>, ready: &[EntryId], index: &mut Index) -> Result<()> {
        let Located { codec, raw_len, pad_len, stored, dictionary, pieces } = new;
        let stored_len = u32::try_from(stored.len()).expect("blocks are bounded");
        let mut reference = BlockRef { offset: self.output.place(), raw_len, stored_len, pad_len, check: 0 };
        let number = index.blocks.len();
        index.blocks.push(Block { reference, codec });

        let mut recorded = std::mem::take(&mut self.carried);
        self.carried_weight = 0;
        let settled_here = recorded.len();
        let mut later: Vec<(EntryId, Option<Unmapped>)> = Vec::new();
        for &id in ready {
            match index.settle(id) {
                // Others may share the content of one that is gone.
                Settling::Done if index.entry(id).gone => {}
                Settling::Done => recorded.push(id),
                Settling::Map(segments, digest) => later.push((id, Some((segments, digest)))),
                Settling::Waits => later.push((id, None)),
            }
        }
        let mut list = RecordList::new(records::Holder::Directory);
        recorded.iter().for_each(|&id| list.push(&index.entry(id).entry));
        let directory = directory::encode(pieces, list, self.bench.records()?)?;
        let kind = FrameKind::Block;
        let frame = self.output.frame(NewFrame { kind, codec, raw_len, pad_len, stored, directory: &directory, dictionary })?;
        reference.check = frame.check;
        index.blocks[number].reference = reference;
        self.stored_bytes += stored.len() as u64;
        self.blocks += 1;
        self.pieces += pieces.len() as u64;
        recorded[settled_here..].iter().for_each(|&id| index.complete(id, &reference));

        for (id, unmapped) in later {
            match unmapped {
                Some((mut segments, digest)) => {
                    complete(&mut segments, &reference);
                    let root = write_extent_map(&mut self.output, self.bench.pages()?, &segments)?;
                    index.settle_map(id, root, digest);
                }
                None => {
                    let settled = index.settle(id);
                    debug_assert_eq!(settled, Settling::Done, "what it waited for is settled");
                }
            }
            self.carry(id, index)?;
        }
        Ok(())
    }

    /// Notes where the pieces of block `number` lie, and returns them as its directory has them.
    fn locate(&mut self, new: &NewBlock<'_>, number: usize, index: &mut Index) -> Result<Vec<Piece>> {
        let block = block_number(number)?;
        let align = if new.codec == Codec::None { self.policy.align } else { 0 };
        let mut end = 0;
        let mut pieces = Vec::with_capacity(new.pieces.len());
        for (i, piece) in new.pieces.iter().enumerate() {
            let offset = aligned(end, align);
            let place = index.pieces.place_mut(piece.id);
            place.block = block;
            place.offset = u32::try_from(offset).expect("blocks are bounded");
            place.number = u32::try_from(i).expect("pieces of a block are bounded");
            place.checksum = new.checksums.get(i).copied().unwrap_or(0);
            let gap = u32::try_from(offset - end).expect("less than the alignment");
            pieces.push(Piece { gap, raw_len: piece.raw_len, digest: piece.digest });
            end = offset + piece.raw_len as usize;
            self.piece_bytes += u64::from(piece.raw_len);
        }
        debug_assert_eq!(end, new.raw_len, "pieces fill the block");
        Ok(pieces)
    }

    /// Records the entries that wait in a block without content.
    fn flush_carried(&mut self, index: &mut Index) -> Result<()> {
        if self.carried.is_empty() { Ok(()) } else { self.write_block(NewBlock::default(), &[], index) }
    }
}

/// Extents and holes that an extent map is needed for, and the digest of the file.
type Unmapped = (Vec<Segment>, Option<Box<Digest>>);

/// A block that is to be written.
struct NewBlock<'a> {
    codec: Codec,
    raw_len: usize,
    stored: &'a [u8],
    pieces: &'a [RunPiece],
    checksums: &'a [u32],
}

/// A block whose pieces are noted in the index.
struct Located<'a> {
    codec: Codec,
    raw_len: u32,
    pad_len: u32,
    stored: &'a [u8],
    dictionary: u64,
    pieces: &'a [Piece],
}

impl Default for NewBlock<'_> {
    /// A block without content.
    fn default() -> Self {
        Self { codec: Codec::None, raw_len: 0, stored: &[], pieces: &[], checksums: &[] }
    }
}

fn complete(segments: &mut [Segment], block: &BlockRef) {
    for segment in segments {
        match segment {
            Segment::Data(extent) if extent.block.offset == block.offset => extent.block.check = block.check,
            Segment::Data(_) | Segment::Hole(_) => {}
        }
    }
}
