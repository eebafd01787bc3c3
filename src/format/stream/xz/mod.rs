//! Decodes blocks of xz streams in parallel.
//!
//! A block whose header contains its lengths can be extracted without decoding it. A thread decodes
//! it as a stream of its own, between the stream's header and a generated end, so that checksum and
//! lengths are compared as usual. The index of the stream must match the blocks. Blocks without
//! lengths are decoded sequentially by the caller.

mod layout;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::num::NonZero;

use lzma_rust2::{Action, XzStream};

pub(crate) use self::layout::with_lengths;
use self::layout::{BlockHeader, Flags, HEADER, MAX_BLOCK_HEADER, StreamEnd};
use super::decoder::{RestartPoint, TRUNCATED, failed, skip_zeros};
use super::step::{self, LZMA_MEMORY_KIB};
use super::{Compression, Input};
use nra_core::error::{Error, Result};
use nra_core::worker_pool::{JobOutput, PoolLimits, WorkerPool};

/// Output of a decoding step on a thread, bytes.
const STEP_LEN: usize = 256 << 10;
/// Shorter blocks are sent to a thread together, bytes of content and data.
const BATCH_LEN: u64 = 1 << 20;

/// Limits for decoding in parallel.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodeLimits {
    pub(super) threads: NonZero<usize>,
    pub(super) memory_bytes: u64,
}

/// The threads, which outlive the streams that they decode.
pub(super) type Pool = WorkerPool<'static, Job, DecodedJob>;

fn new_pool(limits: DecodeLimits) -> Pool {
    let threads = limits.threads.get();
    let limits = PoolLimits { bytes: limits.memory_bytes, ..PoolLimits::new(threads, threads + 1) };
    WorkerPool::new("decode", limits, || {
        |job, output: JobOutput<DecodedJob>| {
            let decoded = decode(job, &|| output.is_stopped());
            output.finish(decoded);
        }
    })
}

/// Consecutive blocks for a thread.
#[derive(Default)]
pub(super) struct Job {
    /// The stored blocks.
    stored: Vec<u8>,
    /// The blocks with their offsets in the stream.
    blocks: Vec<(u64, Block)>,
    /// Length of content and data, bytes.
    len: u64,
    /// Length of the longest dictionary, bytes.
    dictionary: u64,
}

impl Job {
    /// Returns the memory to decode these blocks and another one, bytes.
    fn cost_with(&self, block: &Block) -> u64 {
        self.len.saturating_add(block.len()).saturating_add(self.dictionary.max(block.dictionary))
    }

    fn cost(&self) -> u64 {
        self.len.saturating_add(self.dictionary)
    }
}

/// A block as described by its header.
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

    /// Returns the length of content and data, bytes.
    fn len(&self) -> u64 {
        self.unpadded.saturating_add(self.raw)
    }

    /// Returns the memory to decode the block, bytes.
    fn cost(&self) -> u64 {
        Job::default().cost_with(self)
    }

    /// Returns the length including padding, bytes.
    fn stored(&self) -> u64 {
        self.unpadded.next_multiple_of(4)
    }
}

/// The content of a job's blocks up to an error.
pub(super) struct DecodedJob {
    content: Vec<u8>,
    error: Option<Error>,
}

/// The next part of the input.
enum Next {
    /// A block or the index.
    Block,
    /// Other data that is not decoded here.
    Other,
    /// An error, which follows the decoded content.
    Failed(Error),
}

/// Decodes consecutive streams.
pub(super) struct XzBlocks {
    limits: DecodeLimits,
    pool: Pool,
    /// The decoded offset of the stream of each pending job.
    sent: VecDeque<u64>,
    flags: Flags,
    end: StreamEnd,
    next: Next,
    /// Decoded offset of the next block and of its stream.
    decoded: u64,
    stream: u64,
    /// Starts of streams that were not returned yet.
    restart_points: VecDeque<RestartPoint>,
    /// The current job and the length of its content that was returned.
    current: DecodedJob,
    returned: usize,
    /// Decoded offset of the current job's stream.
    member: u64,
    /// A block that exceeds the memory limit, decoded as it is read.
    large_block: Option<BlockDecoder>,
}

/// Returns the flags of a stream that starts with these bytes if its first block can be decoded in
/// parallel.
fn parallel_flags(first: &[u8], limits: DecodeLimits) -> Option<Flags> {
    let flags = Flags::parse(first)?;
    let block = Block::new(flags, &BlockHeader::parse(&first[HEADER..])?);
    (block.cost() <= limits.memory_bytes / 2).then_some(flags)
}

impl XzBlocks {
    /// Starts a stream at the decoded offset `decoded` if its first block can be decoded in
    /// parallel. Uses the threads of `pool` or new ones.
    pub(super) fn start(input: &mut Input, decoded: u64, limits: DecodeLimits, pool: &mut Option<Pool>) -> Result<Option<Self>> {
        if limits.threads.get() < 2 {
            return Ok(None);
        }
        let Some(flags) = parallel_flags(input.peek(HEADER + MAX_BLOCK_HEADER)?, limits) else { return Ok(None) };
        input.consume(HEADER);
        let pool = pool.take().unwrap_or_else(|| new_pool(limits));
        Ok(Some(Self {
            limits,
            pool,
            sent: VecDeque::new(),
            flags,
            end: StreamEnd::default(),
            next: Next::Block,
            decoded,
            stream: decoded,
            restart_points: VecDeque::new(),
            current: DecodedJob { content: Vec::new(), error: None },
            returned: 0,
            member: decoded,
            large_block: None,
        }))
    }

    /// Returns the start of the next stream, except the first one, if all content before it was
    /// returned: `decoded` bytes.
    ///
    /// The starts of later streams depend on lengths in headers that have not been verified.
    pub(super) fn next_restart_point(&mut self, decoded: u64) -> Option<RestartPoint> {
        self.restart_points.pop_front_if(|point| point.decoded <= decoded)
    }

    /// Returns the threads after all content was returned.
    pub(super) fn into_pool(self) -> Pool {
        self.pool
    }

    /// Returns the decoded offset of the stream to which the last returned bytes belong.
    pub(super) fn member(&self) -> u64 {
        self.member
    }

    /// Reads content. Returns 0 if the following input is not decoded here.
    ///
    /// # Errors
    ///
    /// Errors of the input, `Corrupt` for a damaged block or index.
    pub(super) fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        loop {
            if self.returned < self.current.content.len() {
                let rest = &self.current.content[self.returned..];
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                self.returned += len;
                return Ok(len);
            }
            if let Some(error) = self.current.error.take() {
                return Err(error);
            }
            if let Some(block) = &mut self.large_block {
                match block.read(input, buffer)? {
                    0 => self.large_block = None,
                    len => return Ok(len),
                }
            }
            // The returned content is dropped before more is decoded.
            (self.current.content, self.returned) = (Vec::new(), 0);
            if let Err(error) = self.send(input) {
                self.next = Next::Failed(error);
            }
            if let Some(member) = self.sent.pop_front() {
                self.member = member;
                self.current = self.pool.receive().expect("it was sent");
                continue;
            }
            match std::mem::replace(&mut self.next, Next::Other) {
                Next::Block if self.large_block.is_some() => self.next = Next::Block,
                Next::Block => unreachable!("an idle pool has room for a job"),
                Next::Other => return Ok(0),
                Next::Failed(error) => return Err(error),
            }
        }
    }

    /// Sends blocks to the threads while there is room.
    fn send(&mut self, input: &mut Input) -> Result<()> {
        while matches!(self.next, Next::Block) && self.pool.has_room(0) && self.large_block.is_none() {
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

    /// Collects blocks of one stream for a thread, or starts the first one if it exceeds the memory
    /// limit. Returns whether there is room for more.
    fn gather(&mut self, input: &mut Input, job: &mut Job) -> Result<bool> {
        loop {
            let offset = input.offset();
            let first = input.peek(MAX_BLOCK_HEADER)?;
            if first.first() == Some(&0) {
                if job.blocks.is_empty() {
                    self.end_stream(input)?;
                }
                return Ok(true);
            }
            let Some(header) = BlockHeader::parse(first) else {
                let is_truncated = first.first().is_none_or(|&len| first.len() < (usize::from(len) + 1) * 4);
                let detail = match is_truncated {
                    true => TRUNCATED,
                    false => "the header of a block is damaged or, unlike the first one, does not contain its lengths",
                };
                return Err(Error::corrupt(Compression::Xz.structure(), offset, detail));
            };
            let block = Block::new(self.flags, &header);
            let is_small = block.cost() <= self.limits.memory_bytes / 2;
            if !job.blocks.is_empty() && (!is_small || job.len.saturating_add(block.len()) > BATCH_LEN) {
                return Ok(true);
            }
            let is_full = !self.pool.has_room(job.cost_with(&block));
            if !(self.pool.is_idle() && job.blocks.is_empty()) && (!is_small || is_full) {
                return Ok(false);
            }
            self.end.add(block.unpadded, block.raw);
            self.decoded = self.decoded.saturating_add(block.raw);
            if !is_small {
                self.member = self.stream;
                self.large_block = Some(BlockDecoder::new(block));
                return Ok(true);
            }
            input.consume_each(block.stored(), |bytes| job.stored.extend_from_slice(bytes))?;
            job.blocks.push((offset, block));
            job.len = job.len.saturating_add(block.len());
            job.dictionary = job.dictionary.max(block.dictionary);
        }
    }

    /// Compares the end of a stream with its blocks, and starts the next stream if it can be
    /// decoded in parallel.
    fn end_stream(&mut self, input: &mut Input) -> Result<()> {
        let at = input.offset();
        let wrong = || Error::corrupt(Compression::Xz.structure(), at, "its index does not match its blocks");
        let truncated = |input: &Input| Error::corrupt(Compression::Xz.structure(), input.offset(), TRUNCATED);
        let mut crc = crc32fast::Hasher::new();
        if input.consume_each(self.end.index_len(), |bytes| crc.update(bytes))? < self.end.index_len() {
            return Err(truncated(input));
        }
        let expected = self.end.checksum_and_footer(self.flags);
        let end = input.peek(expected.len())?;
        if end.len() < expected.len() {
            return Err(truncated(input));
        }
        if end[..expected.len()] != expected || crc.finalize().to_le_bytes() != expected[..4] {
            return Err(wrong());
        }
        input.consume(expected.len());
        skip_zeros(input)?;
        let point = RestartPoint { decoded: self.decoded, stored: input.offset() };
        match parallel_flags(input.peek(HEADER + MAX_BLOCK_HEADER)?, self.limits) {
            Some(flags) => {
                input.consume(HEADER);
                (self.flags, self.end, self.stream) = (flags, StreamEnd::default(), self.decoded);
                self.restart_points.push_back(point);
            }
            None => self.next = Next::Other,
        }
        Ok(())
    }
}

/// Decodes the blocks of a job, unless it is stopped.
fn decode(job: Job, is_stopped: &dyn Fn() -> bool) -> DecodedJob {
    let (mut content, mut stored) = (Vec::new(), &job.stored[..]);
    for (offset, block) in job.blocks {
        let len = usize::try_from(block.stored()).unwrap_or(usize::MAX).min(stored.len());
        let (bytes, rest) = stored.split_at(len);
        if let Err(error) = decode_block(block, offset, bytes, &mut content, is_stopped) {
            return DecodedJob { content, error: Some(error) };
        }
        stored = rest;
    }
    DecodedJob { content, error: None }
}

/// Decodes a block and appends its content.
fn decode_block(
    block: Block,
    mut offset: u64,
    mut bytes: &[u8],
    content: &mut Vec<u8>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let mut decoder = BlockDecoder::new(block);
    // The declared length is within the memory limit. One more byte detects that there is more
    // content.
    let max_len = usize::try_from(block.raw).unwrap_or(usize::MAX).saturating_add(1).saturating_add(content.len());
    while !decoder.is_done() {
        if is_stopped() {
            return Err(Error::Cancelled);
        }
        let len = content.len();
        content.resize(max_len.min(len + STEP_LEN).max(len + 1), 0);
        let result = decoder.decode(offset, bytes, &mut content[len..]);
        content.truncate(len + result.as_ref().map_or(0, |(_, produced)| *produced));
        let (consumed, _) = result?;
        bytes = &bytes[consumed..];
        offset += consumed as u64;
    }
    Ok(())
}

/// Decodes a single block.
struct BlockDecoder {
    stream: Box<XzStream>,
    block: Block,
    /// Unread bytes of the block.
    remaining: u64,
    /// The part of the generated stream end that the decoder has not consumed.
    end: VecDeque<u8>,
    is_started: bool,
    ended: bool,
    /// An error that follows the returned content.
    error: Option<Error>,
}

impl BlockDecoder {
    fn new(block: Block) -> Self {
        let stream = Box::new(XzStream::new_mem_limit(false, LZMA_MEMORY_KIB));
        let end = StreamEnd::of_block(block.unpadded, block.raw, block.flags).into();
        Self { stream, block, remaining: block.stored(), end, is_started: false, ended: false, error: None }
    }

    /// Decodes from `bytes`. Returns the number of consumed bytes and of produced bytes.
    ///
    /// The decoder compares lengths only after it has decoded all content. Content that exceeds the
    /// declared length is detected here.
    fn step(&mut self, offset: u64, bytes: &[u8], buffer: &mut [u8], action: Action) -> Result<(usize, usize)> {
        let before = self.stream.total_out();
        let declared = self.block.raw.saturating_sub(before);
        let room = usize::try_from(declared.saturating_add(1)).unwrap_or(usize::MAX).min(buffer.len());
        let result = self.stream.process(bytes, &mut buffer[..room], action);
        let produced = self.stream.total_out() - before;
        let is_more = produced > declared;
        let produced = usize::try_from(produced.min(declared)).expect("no more than the length of a slice");
        let error = match step::lzma_progress(result, produced) {
            Ok(_) if is_more => self.wrong_lengths(offset),
            Ok(progress) => {
                self.ended = progress.ended;
                return Ok((progress.consumed, produced));
            }
            Err((_, fault)) => failed(Compression::Xz, offset, fault),
        };
        if produced == 0 {
            return Err(error);
        }
        self.error = Some(error);
        Ok((0, produced))
    }

    fn wrong_lengths(&self, offset: u64) -> Error {
        Error::corrupt(Compression::Xz.structure(), offset, "the lengths of a block do not match its header")
    }

    /// Returns whether the block was decoded without an error.
    fn is_done(&self) -> bool {
        self.ended && self.error.is_none()
    }

    /// Reads decoded bytes. Returns 0 at the end of the block.
    fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        while !self.is_done() {
            let offset = input.offset();
            let bytes = if self.remaining > 0 { input.peek(1)? } else { &[] };
            let (consumed, produced) = self.decode(offset, bytes, buffer)?;
            input.consume(consumed);
            if produced > 0 {
                return Ok(produced);
            }
        }
        Ok(0)
    }

    /// Decodes from `bytes`, the next bytes of the input, which are empty at its end. Returns the
    /// number of consumed and of produced bytes.
    fn decode(&mut self, offset: u64, bytes: &[u8], buffer: &mut [u8]) -> Result<(usize, usize)> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.is_started {
            self.is_started = true;
            self.step(offset, &self.block.flags.header(), &mut [], Action::Run)?;
        }
        let (consumed, produced, from_input) = if self.remaining > 0 {
            let len = bytes.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
            if len == 0 {
                return Err(Error::corrupt(Compression::Xz.structure(), offset, TRUNCATED));
            }
            let (consumed, produced) = self.step(offset, &bytes[..len], buffer, Action::Run)?;
            self.remaining -= consumed as u64;
            if self.ended {
                // Only the generated end, not the block itself, may end the stream.
                self.error = Some(self.wrong_lengths(offset));
            }
            (consumed, produced, consumed)
        } else {
            // All content was decoded. Lengths and checksums follow.
            let end: Vec<u8> = self.end.iter().copied().collect();
            let (consumed, produced) = self.step(offset, &end, buffer, Action::Finish)?;
            self.end.drain(..consumed);
            if self.ended && self.stream.total_out() != self.block.raw {
                self.error = Some(self.wrong_lengths(offset));
            }
            (consumed, produced, 0)
        };
        if consumed == 0 && produced == 0 && !self.ended {
            return Err(Error::corrupt(Compression::Xz.structure(), offset, "the decoder makes no progress"));
        }
        Ok((from_input, produced))
    }
}
