//! The block writer turns closed chunk buffers into blocks with block indexes, in the order in
//! which they were closed.
//!
//! An entry is recorded in the index of the block with its last chunk. Nothing here depends on the
//! timing of workers.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use crate::block_index::{self, Chunk};
use crate::content::{BlockRef, EntryContent as _, Segment, complete_segments};
use crate::frame::FrameKind;
use crate::records::{self, RecordList};
use crate::writer::EntryId;
use crate::writer::chunk_buffer::{BufferedChunk, ChunkBuffer, MAX_WEIGHT, aligned};
use crate::writer::chunk_table::{BufferId, ChunkPlacement};
use crate::writer::compressors::Compressors;
use crate::writer::copy_block::CopiedBlock;
use crate::writer::cut::{Cut, CutBlock, CutPolicy, cut};
use crate::writer::index::{Block, Index, Resolution, block_number, weight};
use crate::writer::output::{NewFrame, Output};
use crate::writer::pages::{PageSizes, PageWriter};
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::error::{Error, Result};
use nra_core::progress::{Counter, Monitor};
use nra_core::worker_pool::{JobOutput, PoolLimits, WorkerPool};

/// Parts of a content that an estimate assumes if their number is unknown.
const PARTS_GUESS: usize = 16;
/// Most entries whose records wait for a block.
const MAX_WAITING_RECORDS: usize = 1_024;

/// Something closed that waits to be written.
pub(super) enum QueueItem {
    /// A dictionary with which later buffers are compressed.
    Dictionary(Arc<Dictionary>),
    /// A buffer of incompressible chunks: one block.
    Incompressible(ChunkBuffer),
    /// A buffer that a worker compresses.
    Compressible(ChunkBuffer),
    /// Entries without new content.
    Entries(Vec<EntryId>),
    /// An entry that joined a link group after it was closed.
    Link(EntryId, u64),
}

/// The bytes of a buffer, and the lengths of its chunks.
struct CutJob {
    bytes: Vec<u8>,
    lens: Vec<u32>,
    dictionary: Option<Arc<Dictionary>>,
}

/// Result of a worker: the cut buffer, and its memory for reuse.
type CutResult = Result<(Cut, Vec<u8>)>;

/// Queue of closed buffers, and the output.
pub(super) struct BlockWriter<W: Write> {
    pub output: Output<W>,
    pub sizes: PageSizes,
    /// Workers that compress the buffers in the queue.
    pool: WorkerPool<'static, CutJob, CutResult>,
    policy: CutPolicy,
    memory_bytes: u64,
    queue: VecDeque<QueueItem>,
    /// Content bytes in the queue, including an estimate for compression.
    queued_bytes: u64,
    /// Content bytes that are neither compressed nor written yet.
    waiting_bytes: u64,
    pub spare: Vec<Vec<u8>>,
    dictionary: Option<Arc<Dictionary>>,
    dictionary_offset: u64,
    /// Entries that are recorded with the next block.
    waiting_records: Vec<EntryId>,
    waiting_weight: usize,
    /// Compressors of this thread.
    pub compressors: Compressors,
    failed: bool,
    pub chunk_bytes: u64,
    pub stored_bytes: u64,
    /// Blocks and chunks written so far.
    pub blocks: u64,
    pub chunks: u64,
}

impl<W: Write> BlockWriter<W> {
    pub fn new(output: Output<W>, policy: CutPolicy, threads: usize, memory_bytes: u64) -> Self {
        let new_worker = move || {
            let mut compressors = Compressors::default();
            move |CutJob { bytes, lens, dictionary }, output: JobOutput<CutResult>| {
                let cut = cut(&mut compressors, policy, dictionary.as_deref(), &bytes, &lens);
                output.finish(cut.map(|cut| (cut, bytes)));
            }
        };
        Self {
            output,
            sizes: PageSizes::default(),
            // The length of the queue limits the number of jobs.
            pool: WorkerPool::new("nra-compress", PoolLimits::new(threads, usize::MAX), new_worker),
            policy,
            memory_bytes,
            queue: VecDeque::new(),
            queued_bytes: 0,
            waiting_bytes: 0,
            spare: Vec::new(),
            dictionary: None,
            dictionary_offset: 0,
            waiting_records: Vec::new(),
            waiting_weight: 0,
            compressors: Compressors::default(),
            failed: false,
            chunk_bytes: 0,
            stored_bytes: 0,
            blocks: 0,
            chunks: 0,
        }
    }

    pub fn pages(&mut self) -> Result<PageWriter<'_, W>> {
        Ok(PageWriter { output: &mut self.output, compressor: self.compressors.pages()?, sizes: self.sizes })
    }

    /// Returns the content bytes that were closed but are neither compressed nor written yet.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Adds an element to the queue and writes what is ready.
    pub fn push(&mut self, mut item: QueueItem, index: &mut Index) -> Result<()> {
        match &mut item {
            QueueItem::Dictionary(dictionary) => self.dictionary = Some(dictionary.clone()),
            QueueItem::Compressible(buffer) => {
                let bytes = std::mem::take(&mut buffer.bytes);
                let lens = buffer.chunks.iter().map(|chunk| chunk.raw_len).collect();
                self.queued_bytes += 2 * bytes.len() as u64;
                self.waiting_bytes += buffer.content_bytes;
                self.pool.send(CutJob { bytes, lens, dictionary: self.dictionary.clone() }, 0)?;
            }
            QueueItem::Incompressible(buffer) => {
                self.queued_bytes += buffer.bytes.len() as u64;
                self.waiting_bytes += buffer.content_bytes;
            }
            QueueItem::Entries(_) | QueueItem::Link(..) => {}
        }
        self.queue.push_back(item);
        self.write_ready(index, self.memory_bytes, &mut |_| Ok(()))
    }

    /// Writes everything in the queue and all waiting records. Counts the waiting content.
    pub fn drain(&mut self, index: &mut Index, monitor: &dyn Monitor) -> Result<()> {
        self.write_ready(index, 0, &mut |bytes| {
            monitor.add(Counter::Bytes, bytes);
            monitor.check()
        })?;
        self.flush_waiting_records(index)
    }

    /// Writes a block copied as stored, with the records of `ready`.
    pub fn copy_block(&mut self, block: &CopiedBlock<'_>, buffer: BufferId, ready: &[EntryId], index: &mut Index) -> Result<()> {
        let number = index.blocks.len();
        let chunks = block.chunks.as_slice();
        for (i, chunk) in (0..).zip(chunks) {
            let (offset, _) = block.chunks.get(i).expect("a chunk of the block");
            let end = offset + chunk.raw_len;
            let id = index.chunks.insert(chunk.digest, chunk.raw_len, buffer)?;
            let checksum = match block.codec {
                Codec::None => content_checksum(&block.stored[offset as usize..end as usize]),
                _ => 0,
            };
            let block = block_number(number)?;
            *index.chunks.placement_mut(id) =
                ChunkPlacement { buffer, raw_len: chunk.raw_len, block, offset, number: i, checksum };
            self.chunk_bytes += u64::from(chunk.raw_len);
        }
        let align = if block.codec == Codec::None && !chunks.is_empty() { block.align } else { 0 };
        let frame = NewFrame::payload(FrameKind::Block, block.codec, block.raw_len, block.stored);
        let frame = NewFrame { pad_len: self.output.padding(align), dictionary: block.dictionary, ..frame };
        self.write_block_frame(frame, chunks, ready, index)
    }

    /// Records an entry with the next block. Its content must be resolved.
    pub fn record_later(&mut self, id: EntryId, index: &mut Index) -> Result<()> {
        self.waiting_records.push(id);
        self.waiting_weight += weight(&index.entry(id).entry, PARTS_GUESS);
        if self.waiting_records.len() >= MAX_WAITING_RECORDS || self.waiting_weight >= MAX_WEIGHT {
            self.flush_waiting_records(index)
        } else {
            Ok(())
        }
    }

    /// Writes elements from the front until at most `limit` bytes are queued (0: all elements).
    /// `done` receives the number of content bytes written.
    pub fn write_ready(&mut self, index: &mut Index, limit: u64, done: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        if self.failed {
            return Err(Error::usage("an earlier write to this archive failed"));
        }
        self.failed = true;
        while let Some(item) = self.queue.front() {
            let must_wait = limit == 0 || self.queued_bytes > limit;
            let cut = match item {
                QueueItem::Compressible(_) if must_wait => self.pool.receive(),
                QueueItem::Compressible(_) => match self.pool.try_receive() {
                    None => break,
                    ready => ready,
                },
                _ => None,
            };
            let before = self.waiting_bytes;
            let item = self.queue.pop_front().expect("looked at above");
            self.write_item(item, cut, index)?;
            done(before - self.waiting_bytes)?;
        }
        self.failed = false;
        Ok(())
    }

    fn keep_buffer(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < 2 {
            self.spare.push(bytes);
        }
    }

    fn write_item(&mut self, item: QueueItem, cut: Option<CutResult>, index: &mut Index) -> Result<()> {
        match item {
            QueueItem::Dictionary(dictionary) => {
                self.dictionary_offset = self.output.dictionary(&dictionary)?;
                Ok(())
            }
            QueueItem::Entries(entries) => self.write_block(NewBlock::default(), &entries, index),
            QueueItem::Link(id, group) => {
                index.entry_mut(id).entry.link_group = group;
                self.record_later(id, index)
            }
            QueueItem::Incompressible(buffer) => {
                let block = CutBlock {
                    chunks: buffer.chunks.len(),
                    codec: Codec::None,
                    raw_len: buffer.bytes.len(),
                    stored: 0..buffer.bytes.len(),
                    checksums: buffer.chunks.iter().map(|chunk| chunk.checksum).collect(),
                };
                self.queued_bytes -= buffer.bytes.len() as u64;
                self.waiting_bytes -= buffer.content_bytes;
                self.write_buffer(&buffer, &Cut { stored: Vec::new(), blocks: vec![block] }, &buffer.bytes, index)?;
                let mut bytes = buffer.bytes;
                bytes.clear();
                self.keep_buffer(bytes);
                Ok(())
            }
            QueueItem::Compressible(buffer) => {
                let (cut, mut bytes) = cut.expect("its job is pending")?;
                self.queued_bytes -= 2 * bytes.len() as u64;
                self.waiting_bytes -= buffer.content_bytes;
                bytes.clear();
                self.keep_buffer(bytes);
                self.write_buffer(&buffer, &cut, &cut.stored, index)
            }
        }
    }

    /// Writes the blocks of a buffer. Their ranges refer to `stored`.
    fn write_buffer(&mut self, buffer: &ChunkBuffer, cut: &Cut, stored: &[u8], index: &mut Index) -> Result<()> {
        let (mut done, mut waiting) = (0, &buffer.waiting[..]);
        let mut ready = Vec::new();
        for block in &cut.blocks {
            let chunks = &buffer.chunks[done..done + block.chunks];
            done += block.chunks;
            let split = waiting.partition_point(|&(count, _)| count <= done);
            let (now, later) = waiting.split_at(split);
            waiting = later;
            ready.clear();
            for &(_, id) in now {
                let added = index.entry_mut(id);
                added.pending_buffers = added.pending_buffers.saturating_sub(1);
                if added.pending_buffers == 0 {
                    ready.push(id);
                }
            }
            let new = NewBlock {
                codec: block.codec,
                raw_len: block.raw_len,
                stored: &stored[block.stored.clone()],
                chunks,
                checksums: &block.checksums,
            };
            self.write_block(new, &ready, index)?;
        }
        Ok(())
    }

    /// Writes a block with the records of `ready`, entries whose content it completes.
    fn write_block(&mut self, new: NewBlock<'_>, ready: &[EntryId], index: &mut Index) -> Result<()> {
        let pad_len = match new.codec {
            Codec::None if !new.chunks.is_empty() => self.output.padding(self.policy.align),
            _ => 0,
        };
        let raw_len = u32::try_from(new.raw_len).expect("blocks are bounded");
        let chunks = self.place_chunks(&new, index.blocks.len(), index)?;
        let dictionary = if new.codec == Codec::Zstd { self.dictionary_offset } else { 0 };
        let frame = NewFrame::payload(FrameKind::Block, new.codec, raw_len, new.stored);
        self.write_block_frame(NewFrame { pad_len, dictionary, ..frame }, &chunks, ready, index)
    }

    /// Writes a block whose chunks are in the index, with the records of `ready`.
    fn write_block_frame(&mut self, new: NewFrame<'_>, chunks: &[Chunk], ready: &[EntryId], index: &mut Index) -> Result<()> {
        let NewFrame { codec, raw_len, pad_len, stored, .. } = new;
        let stored_len = u32::try_from(stored.len()).expect("blocks are bounded");
        let mut reference = BlockRef { offset: self.output.offset(), raw_len, stored_len, pad_len, header_checksum: 0 };
        let number = index.blocks.len();
        index.blocks.push(Block { reference, codec });

        let mut recorded = std::mem::take(&mut self.waiting_records);
        self.waiting_weight = 0;
        let already_resolved = recorded.len();
        let mut later: Vec<(EntryId, Option<ExtentMapContent>)> = Vec::new();
        for &id in ready {
            match index.resolve_content(id) {
                // Other entries may share the content of a removed one.
                Resolution::Done if index.entry(id).removed => {}
                Resolution::Done => recorded.push(id),
                Resolution::Map(segments, digest) => later.push((id, Some((segments, digest)))),
                Resolution::Blocked => later.push((id, None)),
            }
        }
        let mut list = RecordList::new(records::Holder::BlockIndex);
        recorded.iter().for_each(|&id| list.push(&index.entry(id).entry));
        let block_index = block_index::encode(chunks, list, self.compressors.records()?)?;
        let frame = self.output.frame(NewFrame { block_index: &block_index, ..new })?;
        reference.header_checksum = frame.header_checksum;
        index.blocks[number].reference = reference;
        self.stored_bytes += stored.len() as u64;
        self.blocks += 1;
        self.chunks += chunks.len() as u64;
        let (offset, header_checksum) = (frame.offset, frame.header_checksum);
        for &id in &recorded[already_resolved..] {
            index.entry_mut(id).entry.content_mut().complete(offset, header_checksum);
        }

        for (id, unmapped) in later {
            match unmapped {
                Some((mut segments, digest)) => {
                    complete_segments(&mut segments, offset, header_checksum);
                    let root = self.pages()?.write_extent_map(&segments)?;
                    index.set_extent_map(id, root, digest);
                }
                None => {
                    let resolved = index.resolve_content(id);
                    debug_assert_eq!(resolved, Resolution::Done, "the entry it waited for is resolved");
                }
            }
            self.record_later(id, index)?;
        }
        Ok(())
    }

    /// Sets the locations of the chunks of block `number`, and returns them for its block index.
    fn place_chunks(&mut self, new: &NewBlock<'_>, number: usize, index: &mut Index) -> Result<Vec<Chunk>> {
        let block = block_number(number)?;
        let align = if new.codec == Codec::None { self.policy.align } else { 0 };
        let mut end = 0;
        let mut chunks = Vec::with_capacity(new.chunks.len());
        for (i, chunk) in new.chunks.iter().enumerate() {
            let offset = aligned(end, align);
            let placement = index.chunks.placement_mut(chunk.id);
            placement.block = block;
            placement.offset = u32::try_from(offset).expect("blocks are bounded");
            placement.number = u32::try_from(i).expect("chunks of a block are bounded");
            placement.checksum = new.checksums.get(i).copied().unwrap_or(0);
            let gap = u32::try_from(offset - end).expect("less than the alignment");
            chunks.push(Chunk { gap, raw_len: chunk.raw_len, digest: chunk.digest });
            end = offset + chunk.raw_len as usize;
            self.chunk_bytes += u64::from(chunk.raw_len);
        }
        debug_assert_eq!(end, new.raw_len, "chunks fill the block");
        Ok(chunks)
    }

    /// Writes waiting records in a block without chunks.
    fn flush_waiting_records(&mut self, index: &mut Index) -> Result<()> {
        if self.waiting_records.is_empty() { Ok(()) } else { self.write_block(NewBlock::default(), &[], index) }
    }
}

/// Extents and holes of an extent map, and the digest of the file.
type ExtentMapContent = (Vec<Segment>, Option<Box<Digest>>);

struct NewBlock<'a> {
    codec: Codec,
    raw_len: usize,
    stored: &'a [u8],
    chunks: &'a [BufferedChunk],
    checksums: &'a [u32],
}

impl Default for NewBlock<'_> {
    /// Returns a block without content.
    fn default() -> Self {
        Self { codec: Codec::None, raw_len: 0, stored: &[], chunks: &[], checksums: &[] }
    }
}
