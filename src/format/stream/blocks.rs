//! Random access to a compressed stream: decoded blocks in memory, and places to begin at.
//!
//! Decoding goes forward only. Blocks that it passes are kept, the oldest making room, so that several threads that read near
//! each other share one pass; going back starts at the last member that begins before the block.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ByteStream, Compression, Decoder, Input, Mark, SourceStream, casts_doubt, check_ratio};
use nra_core::archive::OpenOptions;
use nra_core::cache::DecodedCache;
use nra_core::error::{Corruption, Error, Result};
use nra_core::source::ReadAt;

/// Length of a decoded block, bytes.
pub const BLOCK: usize = 1 << 20;
/// Minimum capacity of the cache, bytes: some blocks, for readers that are near each other.
const MIN_CACHE: u64 = 4 * BLOCK as u64;

/// A compressed stream that is read at any offset.
pub struct Blocks {
    source: Arc<dyn ReadAt>,
    compression: Compression,
    /// Decoded bytes for each stored one, at most.
    ratio: u64,
    /// Threads that decode ahead, where the stream allows it.
    threads: NonZero<usize>,
    /// Memory for what is decoded ahead, bytes.
    memory_bytes: u64,
    decoded: DecodedCache<u64, Arc<Vec<u8>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A decoder that stands at the start of this block.
    cursor: Option<(u64, Decoder)>,
    /// Places to begin at, of the longest way that was decoded.
    marks: Vec<Mark>,
    /// The first block behind the end, once that was reached.
    end: Option<u64>,
    remark: Option<String>,
    /// Where the member begins that turned out to be damaged, but for a cut.
    doubt: Option<u64>,
    /// The first block that damage leaves nothing of, and the damage.
    failed: Option<(u64, Corruption)>,
}

impl Blocks {
    /// Reads `source`, keeping decoded blocks within the memory for caches that `options` tell; decoding several blocks of xz at the same time may take as much again.
    pub fn new(source: Arc<dyn ReadAt>, compression: Compression, options: &OpenOptions) -> Self {
        let &OpenOptions { cache_bytes: memory_bytes, threads, stream_ratio: ratio, .. } = options;
        let decoded = DecodedCache::new(memory_bytes.max(MIN_CACHE), BLOCK as u64);
        Self { source, compression, ratio, threads, memory_bytes, decoded, state: Mutex::default() }
    }

    /// Returns a block by number; behind one that is not full lies an empty one, or the damage that cut it.
    ///
    /// # Errors
    ///
    /// Those of decoding. What lies before the damage is still served.
    pub fn block(&self, number: u64) -> Result<Arc<Vec<u8>>> {
        if let Some(block) = self.decoded.get(&number) {
            return Ok(block);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have decoded it meanwhile.
        if let Some(block) = self.decoded.get(&number) {
            return Ok(block);
        }
        if state.end.is_some_and(|end| number >= end) {
            return Ok(Arc::default());
        }
        if let Some((_, flaw)) = state.failed.as_ref().filter(|(first, _)| number >= *first) {
            return Err(flaw.error());
        }
        let (mut at, mut decoder) = self.begin(&mut state, number)?;
        loop {
            let mut block = vec![0; BLOCK];
            let (len, failed) = fill(&mut decoder, &mut block);
            block.truncate(len);
            let block = Arc::new(block);
            let found = at == number;
            if let Some(error) = failed {
                // What came in front of a cut is as good as that of a whole stream; what is wrong inside it may have begun anywhere.
                if casts_doubt(&error) {
                    state.doubt = Some(decoder.member());
                }
                let Some(flaw) = Corruption::of(&error) else { return Err(error) };
                // What came before the damage is served.
                let missing = at + u64::from(len > 0);
                if len > 0 {
                    self.decoded.insert(at, Arc::clone(&block));
                }
                state.failed = Some((missing, flaw));
                return if found && len > 0 { Ok(block) } else { Err(error) };
            }
            self.decoded.insert(at, Arc::clone(&block));
            at += 1;
            check_ratio(at.saturating_mul(BLOCK as u64), self.source.len(), self.ratio)?;
            if found || len < BLOCK {
                if decoder.marks().len() > state.marks.len() {
                    state.marks = decoder.marks().to_vec();
                }
                if len < BLOCK {
                    state.end = Some(at);
                    state.remark = decoder.remark();
                } else {
                    state.cursor = Some((at, decoder));
                }
                return Ok(if found { block } else { Arc::new(Vec::new()) });
            }
        }
    }

    /// Returns something worth knowing about the stream, once its end was reached.
    pub fn remark(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).remark.clone()
    }

    /// Returns the offset of the decoded byte from which on nothing is vouched for, once damage was met that is no cut.
    pub fn doubt(&self) -> Option<u64> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).doubt
    }

    /// Returns a decoder that stands at the start of a block, at or before the one that is wanted.
    fn begin(&self, state: &mut State, number: u64) -> Result<(u64, Decoder)> {
        let start = number.saturating_mul(BLOCK as u64);
        let mark = state.marks.iter().rev().find(|mark| mark.decoded <= start).copied();
        let mark = mark.unwrap_or(Mark { decoded: 0, stored: 0 });
        if let Some((at, decoder)) = state.cursor.take()
            && at <= number
            && at.saturating_mul(BLOCK as u64) >= mark.decoded
        {
            return Ok((at, decoder));
        }
        let input = Input::new(SourceStream::new(Arc::clone(&self.source), mark.stored), mark.stored);
        let decoder = Decoder::new(self.compression, input).at(mark.decoded);
        let mut decoder = decoder.with_threads(self.threads, self.memory_bytes);
        // Members begin anywhere in a block.
        let first = mark.decoded.div_ceil(BLOCK as u64);
        let mut left = usize::try_from(first * BLOCK as u64 - mark.decoded).expect("less than a block");
        let mut waste = vec![0; left.min(64 << 10)];
        while left > 0 {
            let len = left.min(waste.len());
            let read = decoder.read(&mut waste[..len])?;
            if read == 0 {
                // It ends in the block that the member begins in; behind it there is nothing.
                break;
            }
            left -= read;
        }
        Ok((first, decoder))
    }
}

/// Decodes until a block is full, the stream ends or does not decode; returns how many bytes there are.
fn fill(decoder: &mut Decoder, block: &mut [u8]) -> (usize, Option<Error>) {
    let mut len = 0;
    while len < block.len() {
        match decoder.read(&mut block[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) => return (len, Some(error)),
        }
    }
    (len, None)
}
