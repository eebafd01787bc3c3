//! xz streams whose blocks are decoded at the same time.
//!
//! A block that tells its lengths in its header can be taken from the stream without decoding it: each becomes a stream of its own on a thread, between
//! the header of its stream and an end that is made for it, so that its checksum and its lengths are compared as always. The index at the end of
//! the stream has to be that of the blocks that came. Blocks without lengths are left to whoever decodes in order.

mod layout;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::num::NonZero;

use lzma_rust2::{Action, XzStream};

pub(crate) use self::layout::with_lengths;
use self::layout::{BlockHeader, Flags, HEADER, MAX_BLOCK_HEADER, Tail};
use super::decoder::{Mark, TRUNCATED, failed, skip_zeros};
use super::step::{self, LZMA_MEMORY_KIB};
use super::{Compression, Input};
use nra_core::error::{Error, Result};
use nra_core::worker_pool::{JobOutput, PoolLimits, WorkerPool};

/// Output that is asked for at a time by a thread, bytes.
const STEP: usize = 256 << 10;
/// Blocks shorter than this go to a thread together, bytes of content and data: handing over costs more than decoding a few bytes.
const BATCH: u64 = 1 << 20;

/// What decoding ahead may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) threads: NonZero<usize>,
    pub(super) memory_bytes: u64,
}

/// The threads, which outlive the streams that they decode.
pub(super) type Pool = WorkerPool<'static, Job, Done>;

fn new_pool(room: Room) -> Pool {
    let threads = room.threads.get();
    let limits = PoolLimits { bytes: room.memory_bytes, ..PoolLimits::new(threads, threads + 1) };
    WorkerPool::new("decode", limits, || {
        |job, output: JobOutput<Done>| {
            let done = decode(job, &|| output.is_stopped());
            output.finish(done);
        }
    })
}

/// Blocks on their way to a thread, one behind the other, with what is taken of the memory for them.
#[derive(Default)]
pub(super) struct Job {
    /// The blocks as far as the stream has them.
    stored: Vec<u8>,
    /// Where each begins in the stream.
    blocks: Vec<(u64, Block)>,
    /// Length of content and data, and of the longest dictionary, bytes.
    len: u64,
    dictionary: u64,
}

impl Job {
    /// Memory to decode these and one more block, bytes.
    fn cost_with(&self, block: &Block) -> u64 {
        self.len.saturating_add(block.len()).saturating_add(self.dictionary.max(block.dictionary))
    }

    fn cost(&self) -> u64 {
        self.len.saturating_add(self.dictionary)
    }
}

/// What is known of a block from its header.
#[derive(Clone, Copy)]
struct Block {
    flags: Flags,
    unpadded: u64,
    raw: u64,
    dictionary: u64,
}

impl Block {
    fn new(flags: Flags, header: &BlockHeader) -> Self {
        Self { flags, unpadded: header.unpadded(flags), raw: header.raw, dictionary: header.dictionary }
    }

    /// Length of content and data, bytes.
    fn len(&self) -> u64 {
        self.unpadded.saturating_add(self.raw)
    }

    /// Memory to decode it, bytes.
    fn cost(&self) -> u64 {
        Job::default().cost_with(self)
    }

    /// Length with what fills it up, bytes.
    fn stored(&self) -> u64 {
        self.unpadded.next_multiple_of(4)
    }
}

/// What became of blocks: their content up to what is wrong with it.
pub(super) struct Done {
    content: Vec<u8>,
    error: Option<Error>,
}

/// What comes next in the input.
enum Next {
    /// A block, or the index.
    Block,
    /// Nothing that can be decoded like this.
    Other,
    /// What is wrong there, once all that came before was handed out.
    Failed(Error),
}

/// Decodes streams.
pub(super) struct XzBlocks {
    room: Room,
    pool: Pool,
    /// Where the stream of each pending job begins among the decoded bytes.
    sent: VecDeque<u64>,
    flags: Flags,
    tail: Tail,
    next: Next,
    /// Where the next block begins among the decoded bytes, and where its stream does.
    decoded: u64,
    stream: u64,
    /// Streams that were begun and not told, in order.
    begun: VecDeque<Mark>,
    /// What is handed out, and how much of it was.
    current: Done,
    given: usize,
    /// Where the stream of that begins.
    member: u64,
    /// A block that is too large for that, decoded while it is read.
    alone: Option<Alone>,
}

/// Returns what the stream that begins with these bytes says, if its first block can be decoded beside another one.
fn begins(first: &[u8], room: Room) -> Option<Flags> {
    let flags = Flags::parse(first)?;
    let block = Block::new(flags, &BlockHeader::parse(&first[HEADER..])?);
    (block.cost() <= room.memory_bytes / 2).then_some(flags)
}

impl XzBlocks {
    /// Takes on a stream whose first block can be decoded beside another one; it begins at `decoded`. Threads are those of `pool`, or new ones.
    ///
    /// # Errors
    ///
    /// Those of the input.
    pub(super) fn begin(input: &mut Input, decoded: u64, room: Room, pool: &mut Option<Pool>) -> Result<Option<Self>> {
        if room.threads.get() < 2 {
            return Ok(None);
        }
        let Some(flags) = begins(input.peek(HEADER + MAX_BLOCK_HEADER)?, room) else { return Ok(None) };
        input.consume(HEADER);
        let pool = pool.take().unwrap_or_else(|| new_pool(room));
        Ok(Some(Self {
            room,
            pool,
            sent: VecDeque::new(),
            flags,
            tail: Tail::default(),
            next: Next::Block,
            decoded,
            stream: decoded,
            begun: VecDeque::new(),
            current: Done { content: Vec::new(), error: None },
            given: 0,
            member: decoded,
            alone: None,
        }))
    }

    /// Takes the next place of a stream, but for the first one, if all in front of it was handed out: up to the byte `decoded`.
    ///
    /// Where a stream begins that comes later follows from what headers claim and nobody compared yet.
    pub(super) fn take_begun(&mut self, decoded: u64) -> Option<Mark> {
        self.begun.pop_front_if(|mark| mark.decoded <= decoded)
    }

    /// Returns the threads, once all was handed out.
    pub(super) fn into_pool(self) -> Pool {
        self.pool
    }

    /// Returns where the stream begins that the bytes handed out last are from.
    pub(super) fn member(&self) -> u64 {
        self.member
    }

    /// Hands out content; 0 means that what follows in the input is none of this.
    ///
    /// # Errors
    ///
    /// Those of the input, `Corrupt` for what is wrong with a block or the index.
    pub(super) fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        loop {
            if self.given < self.current.content.len() {
                let rest = &self.current.content[self.given..];
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                self.given += len;
                return Ok(len);
            }
            if let Some(error) = self.current.error.take() {
                return Err(error);
            }
            if let Some(alone) = &mut self.alone {
                match alone.read(input, buffer)? {
                    0 => self.alone = None,
                    len => return Ok(len),
                }
            }
            // What was handed out is let go first.
            (self.current.content, self.given) = (Vec::new(), 0);
            if let Err(error) = self.send(input) {
                self.next = Next::Failed(error);
            }
            if let Some(member) = self.sent.pop_front() {
                self.member = member;
                self.current = self.pool.receive().expect("it was sent");
                continue;
            }
            match std::mem::replace(&mut self.next, Next::Other) {
                Next::Block if self.alone.is_some() => self.next = Next::Block,
                Next::Block => unreachable!("nothing is in work, so that there is room for one"),
                Next::Other => return Ok(0),
                Next::Failed(error) => return Err(error),
            }
        }
    }

    /// Sends blocks to the threads, as many as there is room for.
    fn send(&mut self, input: &mut Input) -> Result<()> {
        while matches!(self.next, Next::Block) && self.pool.has_room(0) && self.alone.is_none() {
            let (mut job, stream) = (Job::default(), self.stream);
            let gathered = self.gather(input, &mut job);
            if !job.blocks.is_empty() {
                let cost = job.cost();
                self.pool.send(job, cost)?;
                self.sent.push_back(stream);
            }
            if !gathered? {
                break;
            }
        }
        Ok(())
    }

    /// Takes blocks of one stream for a thread, or, when the first one is too large for that, begins it; says whether there is room for more.
    fn gather(&mut self, input: &mut Input, job: &mut Job) -> Result<bool> {
        loop {
            let offset = input.offset();
            let first = input.peek(MAX_BLOCK_HEADER)?;
            if first.first() == Some(&0) {
                if job.blocks.is_empty() {
                    self.end(input)?;
                }
                return Ok(true);
            }
            let Some(header) = BlockHeader::parse(first) else {
                let is_cut = first.first().is_none_or(|&len| first.len() < (usize::from(len) + 1) * 4);
                let detail = match is_cut {
                    true => TRUNCATED,
                    false => "the header of a block is damaged, or does not tell its length as that of the first one does",
                };
                return Err(Error::corrupt(Compression::Xz.structure(), offset, detail));
            };
            let block = Block::new(self.flags, &header);
            let is_small = block.cost() <= self.room.memory_bytes / 2;
            if !job.blocks.is_empty() && (!is_small || job.len.saturating_add(block.len()) > BATCH) {
                return Ok(true);
            }
            let is_full = !self.pool.has_room(job.cost_with(&block));
            if !(self.pool.is_idle() && job.blocks.is_empty()) && (!is_small || is_full) {
                return Ok(false);
            }
            self.tail.add(block.unpadded, block.raw);
            self.decoded = self.decoded.saturating_add(block.raw);
            if !is_small {
                self.member = self.stream;
                self.alone = Some(Alone::new(block));
                return Ok(true);
            }
            take(input, block.stored(), &mut job.stored)?;
            job.blocks.push((offset, block));
            job.len = job.len.saturating_add(block.len());
            job.dictionary = job.dictionary.max(block.dictionary);
        }
    }

    /// Compares the end of a stream with the blocks that came, and goes on with the next stream if that is of the same kind.
    fn end(&mut self, input: &mut Input) -> Result<()> {
        let at = input.offset();
        let wrong = || Error::corrupt(Compression::Xz.structure(), at, "its index is not that of its blocks");
        let cut = |input: &Input| Error::corrupt(Compression::Xz.structure(), input.offset(), TRUNCATED);
        let (mut left, mut crc) = (self.tail.index_len(), crc32fast::Hasher::new());
        while left > 0 {
            let bytes = input.peek(1)?;
            let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if len == 0 {
                return Err(cut(input));
            }
            crc.update(&bytes[..len]);
            input.consume(len);
            left -= len as u64;
        }
        let expected = self.tail.end(self.flags);
        let end = input.peek(expected.len())?;
        if end.len() < expected.len() {
            return Err(cut(input));
        }
        if end[..expected.len()] != expected || crc.finalize().to_le_bytes() != expected[..4] {
            return Err(wrong());
        }
        input.consume(expected.len());
        skip_zeros(input)?;
        let mark = Mark { decoded: self.decoded, stored: input.offset() };
        match begins(input.peek(HEADER + MAX_BLOCK_HEADER)?, self.room) {
            Some(flags) => {
                input.consume(HEADER);
                (self.flags, self.tail, self.stream) = (flags, Tail::default(), self.decoded);
                self.begun.push_back(mark);
            }
            None => self.next = Next::Other,
        }
        Ok(())
    }
}

/// Takes so many bytes to the end of `bytes`, or what there is.
fn take(input: &mut Input, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
    let mut left = usize::try_from(len).unwrap_or(usize::MAX);
    while left > 0 {
        let next = input.peek(1)?;
        let more = next.len().min(left);
        if more == 0 {
            break;
        }
        bytes.extend_from_slice(&next[..more]);
        input.consume(more);
        left -= more;
    }
    Ok(())
}

/// What a thread does, unless it is stopped.
fn decode(job: Job, is_stopped: &dyn Fn() -> bool) -> Done {
    let (mut content, mut stored) = (Vec::new(), &job.stored[..]);
    for (offset, block) in job.blocks {
        let len = usize::try_from(block.stored()).unwrap_or(usize::MAX).min(stored.len());
        let (bytes, rest) = stored.split_at(len);
        if let Err(error) = decode_block(block, offset, bytes, &mut content, is_stopped) {
            return Done { content, error: Some(error) };
        }
        stored = rest;
    }
    Done { content, error: None }
}

/// Decodes a block to the end of `content`.
fn decode_block(
    block: Block,
    mut offset: u64,
    mut bytes: &[u8],
    content: &mut Vec<u8>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let mut alone = Alone::new(block);
    // It claims no more than there is memory for, and gets no more than it claims: one byte tells that there were more.
    let most = usize::try_from(block.raw).unwrap_or(usize::MAX).saturating_add(1).saturating_add(content.len());
    while !alone.is_done() {
        if is_stopped() {
            return Err(Error::Cancelled);
        }
        let len = content.len();
        content.resize(most.min(len + STEP).max(len + 1), 0);
        let stepped = alone.advance(offset, bytes, &mut content[len..]);
        content.truncate(len + stepped.as_ref().map_or(0, |(_, given)| *given));
        let (taken, _) = stepped?;
        bytes = &bytes[taken..];
        offset += taken as u64;
    }
    Ok(())
}

/// Decodes one block from its place in the input.
struct Alone {
    stream: Box<XzStream>,
    block: Block,
    /// Bytes of the block to come.
    left: u64,
    /// What stands behind the block, as far as the decoder did not take it.
    tail: VecDeque<u8>,
    begun: bool,
    ended: bool,
    /// What is wrong behind what was handed out.
    error: Option<Error>,
}

impl Alone {
    fn new(block: Block) -> Self {
        let stream = Box::new(XzStream::new_mem_limit(false, LZMA_MEMORY_KIB));
        let tail = Tail::of_one(block.unpadded, block.raw, block.flags).into();
        Self { stream, block, left: block.stored(), tail, begun: false, ended: false, error: None }
    }

    /// Decodes from `bytes`; returns how many it took and how many it gave.
    ///
    /// The decoder compares lengths only with what stands behind the block, when all was decoded. That a block gives more than it claims is found here.
    fn step(&mut self, offset: u64, bytes: &[u8], buffer: &mut [u8], action: Action) -> Result<(usize, usize)> {
        let before = self.stream.total_out();
        let claimed = self.block.raw.saturating_sub(before);
        let room = usize::try_from(claimed.saturating_add(1)).unwrap_or(usize::MAX).min(buffer.len());
        let result = self.stream.process(bytes, &mut buffer[..room], action);
        let given = self.stream.total_out() - before;
        let is_more = given > claimed;
        let given = usize::try_from(given.min(claimed)).expect("no more than the length of a slice");
        let error = match step::lzma_progress(result, given) {
            Ok(_) if is_more => self.wrong_lengths(offset),
            Ok(progress) => {
                self.ended = progress.ended;
                return Ok((progress.consumed, given));
            }
            Err((_, fault)) => failed(Compression::Xz, offset, fault),
        };
        if given == 0 {
            return Err(error);
        }
        self.error = Some(error);
        Ok((0, given))
    }

    fn wrong_lengths(&self, offset: u64) -> Error {
        Error::corrupt(Compression::Xz.structure(), offset, "a block has other lengths than its header says")
    }

    /// Says whether the block ended well.
    fn is_done(&self) -> bool {
        self.ended && self.error.is_none()
    }

    /// Decodes some bytes; 0 at the end of the block.
    fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        while !self.is_done() {
            let offset = input.offset();
            let bytes = if self.left > 0 { input.peek(1)? } else { &[] };
            let (taken, given) = self.advance(offset, bytes, buffer)?;
            input.consume(taken);
            if given > 0 {
                return Ok(given);
            }
        }
        Ok(0)
    }

    /// Decodes from `bytes`, which come next in the input, none at its end; returns how many were taken and how many came out.
    fn advance(&mut self, offset: u64, bytes: &[u8], buffer: &mut [u8]) -> Result<(usize, usize)> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.begun {
            self.begun = true;
            self.step(offset, &self.block.flags.header(), &mut [], Action::Run)?;
        }
        let (taken, given, of_input) = if self.left > 0 {
            let len = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            if len == 0 {
                return Err(Error::corrupt(Compression::Xz.structure(), offset, TRUNCATED));
            }
            let (taken, given) = self.step(offset, &bytes[..len], buffer, Action::Run)?;
            self.left -= taken as u64;
            if self.ended {
                // What stands behind the block ends the stream, nothing in it does.
                self.error = Some(self.wrong_lengths(offset));
            }
            (taken, given, taken)
        } else {
            // All content has come; what is left are lengths and checksums.
            let tail: Vec<u8> = self.tail.iter().copied().collect();
            let (taken, given) = self.step(offset, &tail, buffer, Action::Finish)?;
            self.tail.drain(..taken);
            if self.ended && self.stream.total_out() != self.block.raw {
                self.error = Some(self.wrong_lengths(offset));
            }
            (taken, given, 0)
        };
        if taken == 0 && given == 0 && !self.ended {
            return Err(Error::corrupt(Compression::Xz.structure(), offset, "the decoder makes no progress"));
        }
        Ok((of_input, given))
    }
}
