//! Random access to a compressed stream.
//!
//! Decoding is sequential. Decoded blocks are cached, so that threads that read nearby blocks share
//! one pass. To go back, decoding restarts at the last member that starts before the block.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use super::ahead::fill;
use super::{ByteStream, Compression, Decoder, Input, RestartPoint, SourceStream, casts_doubt, check_ratio};
use nra_core::archive::OpenOptions;
use nra_core::cache::DecodedCache;
use nra_core::error::{Corruption, Result};
use nra_core::source::ReadAt;

/// Length of a decoded block, bytes.
pub const BLOCK: usize = 1 << 20;
/// Minimum capacity of the cache, bytes: some blocks, for readers that are near each other.
const MIN_CACHE: u64 = 4 * BLOCK as u64;

/// A compressed stream that can be read at any offset.
pub struct Blocks {
    source: Arc<dyn ReadAt>,
    compression: Compression,
    /// Maximum ratio of decoded and stored bytes.
    ratio: u64,
    /// Threads for decoding blocks of xz in parallel.
    threads: NonZero<usize>,
    /// Memory for that, bytes.
    memory_bytes: u64,
    decoded: DecodedCache<u64, Arc<Vec<u8>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The next block and a decoder at its start.
    cursor: Option<(u64, Decoder)>,
    /// Restart points of the longest pass so far.
    restart_points: Vec<RestartPoint>,
    /// Number of blocks, once the end was reached.
    end: Option<u64>,
    remark: Option<String>,
    /// Decoded offset of the damaged member, unless the stream is only truncated.
    doubt: Option<u64>,
    /// The first block that cannot be decoded, and the damage.
    failed: Option<(u64, Corruption)>,
}

impl Blocks {
    /// Reads `source` with the limits of `options`. Decoding blocks of xz in parallel may use as
    /// much memory as the cache.
    pub fn new(source: Arc<dyn ReadAt>, compression: Compression, options: &OpenOptions) -> Self {
        let &OpenOptions { cache_bytes: memory_bytes, threads, stream_ratio: ratio, .. } = options;
        let decoded = DecodedCache::new(memory_bytes.max(MIN_CACHE), BLOCK as u64);
        Self { source, compression, ratio, threads, memory_bytes, decoded, state: Mutex::default() }
    }

    /// Returns a block. Blocks after one that is not full are empty, or return the damage that
    /// truncated it.
    ///
    /// # Errors
    ///
    /// Errors of decoding. Blocks before the damage are returned.
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
        if let Some((_, corruption)) = state.failed.as_ref().filter(|(first, _)| number >= *first) {
            return Err(corruption.error());
        }
        let (mut at, mut decoder) = self.start(&mut state, number)?;
        loop {
            let mut block = vec![0; BLOCK];
            let (len, failed) = fill(&mut decoder, &mut block, || false);
            block.truncate(len);
            let block = Arc::new(block);
            let found = at == number;
            if let Some(error) = failed {
                // Content before a truncation is valid. Other damage may have started anywhere in
                // the member.
                if casts_doubt(&error) {
                    state.doubt = Some(decoder.member());
                }
                let Some(corruption) = Corruption::of(&error) else { return Err(error) };
                // Bytes before the damage are returned.
                let missing = at + u64::from(len > 0);
                if len > 0 {
                    self.decoded.insert(at, Arc::clone(&block));
                }
                state.failed = Some((missing, corruption));
                return if found && len > 0 { Ok(block) } else { Err(error) };
            }
            self.decoded.insert(at, Arc::clone(&block));
            at += 1;
            check_ratio(at.saturating_mul(BLOCK as u64), self.source.len(), self.ratio)?;
            if found || len < BLOCK {
                if decoder.restart_points().len() > state.restart_points.len() {
                    state.restart_points = decoder.restart_points().to_vec();
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

    /// Returns the remark on the stream, once its end was reached.
    pub fn remark(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).remark.clone()
    }

    /// Returns the decoded offset from which content may be wrong, if a damaged member was found.
    pub fn doubt(&self) -> Option<u64> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).doubt
    }

    /// Returns a decoder at the start of a block that is at or before block `number`.
    fn start(&self, state: &mut State, number: u64) -> Result<(u64, Decoder)> {
        let start = number.saturating_mul(BLOCK as u64);
        let point = state.restart_points.iter().rev().find(|point| point.decoded <= start).copied();
        let point = point.unwrap_or(RestartPoint { decoded: 0, stored: 0 });
        if let Some((at, decoder)) = state.cursor.take()
            && at <= number
            && at.saturating_mul(BLOCK as u64) >= point.decoded
        {
            return Ok((at, decoder));
        }
        let input = Input::new(SourceStream::new(Arc::clone(&self.source), point.stored), point.stored);
        let decoder = Decoder::new(self.compression, input).at(point.decoded);
        let mut decoder = decoder.with_threads(self.threads, self.memory_bytes);
        // The member may start within a block; the rest of that block is skipped.
        let first = point.decoded.div_ceil(BLOCK as u64);
        let skip = usize::try_from(first * BLOCK as u64 - point.decoded).expect("less than a block");
        match fill(&mut decoder, &mut vec![0; skip], || false) {
            (_, Some(error)) => Err(error),
            _ => Ok((first, decoder)),
        }
    }
}
