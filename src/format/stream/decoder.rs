//! Decodes a sequence of members.

use std::io::{ErrorKind, Read};
use std::num::NonZero;

use lz4_flex::frame::FrameDecoder;

use super::legacy::{self, Legacy};
use super::magic::{DAMAGED_HEADER, begins, is_skippable, resembles_member};
use super::step::{self, Fault, Progress, Step};
use super::xz::{DecodeLimits, Pool, XzBlocks};
use super::{ByteStream, Compression, Input, PROBE};
use nra_core::error::{Error, Result};

/// Error detail of a truncated stream.
pub(super) const TRUNCATED: &str = "truncated: unexpected end of the input";
/// Minimum distance of restart points, decoded bytes.
const RESTART_DISTANCE: u64 = 1 << 20;

/// A member at which decoding can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RestartPoint {
    /// Offset of its first decoded byte.
    pub decoded: u64,
    /// Offset in the compressed stream.
    pub stored: u64,
}

/// Decodes a compressed stream.
pub struct Decoder {
    compression: Compression,
    state: State,
    /// Number of returned bytes.
    decoded: u64,
    restart_points: Vec<RestartPoint>,
    /// Offset of trailing data that is not part of the stream.
    pub(super) trailing: Option<u64>,
    /// Decoded offset of the current member.
    member: u64,
    /// Limits for decoding blocks in parallel.
    limits: DecodeLimits,
    /// Threads for that, unless they are in use.
    pool: Option<Pool>,
}

enum State {
    /// Before a member or after the last one.
    BeforeMember(Input),
    Stepping(Input, Box<dyn Step>),
    Lz4(Box<FrameDecoder<Input>>),
    LegacyLz4(Input, Box<Legacy>),
    Xz(Input, Box<XzBlocks>),
    /// After the bytes before an error were returned.
    Failed(Error),
    /// After the end or an error.
    Ended,
}

impl Decoder {
    /// Decodes `input`, which starts with a member.
    pub fn new(compression: Compression, input: Input) -> Self {
        Self {
            compression,
            state: State::BeforeMember(input),
            decoded: 0,
            restart_points: Vec::new(),
            trailing: None,
            member: 0,
            limits: DecodeLimits { threads: NonZero::<usize>::MIN, memory_bytes: 0 },
            pool: None,
        }
    }

    /// Decodes blocks of xz on `threads` threads, using up to `memory_bytes`, if their headers
    /// contain the lengths.
    #[must_use]
    pub fn with_threads(self, threads: NonZero<usize>, memory_bytes: u64) -> Self {
        Self { limits: DecodeLimits { threads, memory_bytes }, ..self }
    }

    /// Sets the decoded offset of the next byte.
    #[must_use]
    pub fn at(self, decoded: u64) -> Self {
        Self { decoded, ..self }
    }

    /// Returns members at which decoding can start, in order. Some are omitted to keep a minimum
    /// distance.
    pub fn restart_points(&self) -> &[RestartPoint] {
        &self.restart_points
    }

    /// Returns the decoded offset of the current member.
    pub(super) fn member(&self) -> u64 {
        self.member
    }

    fn damaged(&self, offset: u64, detail: impl Into<String>) -> Error {
        Error::corrupt(self.compression.structure(), offset, detail)
    }

    /// Starts the next member. Returns `Ended` if there is none.
    fn start_member(&mut self, mut input: Input) -> Result<State> {
        let first = self.decoded == 0 && self.restart_points.is_empty();
        if !first {
            skip_zeros(&mut input)?;
        }
        let mut skipped = false;
        while matches!(self.compression, Compression::Lz4 | Compression::Zstd) && is_skippable(input.peek(PROBE)?) {
            self.skip_frame(&mut input)?;
            skipped = true;
        }
        let next = input.peek(PROBE)?;
        if next.is_empty() && (!first || skipped) {
            return Ok(State::Ended);
        }
        if !first && !begins(self.compression, next) {
            if resembles_member(self.compression, next) {
                return Err(self.damaged(input.offset(), DAMAGED_HEADER));
            }
            self.trailing = Some(input.offset());
            return Ok(State::Ended);
        }
        let is_legacy = self.compression == Compression::Lz4 && next.starts_with(&legacy::MAGIC);
        let point = RestartPoint { decoded: self.decoded, stored: input.offset() };
        self.member = self.decoded;
        self.add_restart_point(point);
        if self.compression == Compression::Xz
            && let Some(blocks) = XzBlocks::start(&mut input, self.decoded, self.limits, &mut self.pool)?
        {
            return Ok(State::Xz(input, Box::new(blocks)));
        }
        if is_legacy {
            input.consume(legacy::MAGIC.len());
            return Ok(State::LegacyLz4(input, Box::default()));
        }
        if self.compression == Compression::Lz4 {
            return Ok(State::Lz4(Box::new(FrameDecoder::new(input))));
        }
        let step = step::new(self.compression).map_err(|fault| failed(self.compression, input.offset(), fault))?;
        Ok(State::Stepping(input, step))
    }

    /// Adds a restart point unless it is close to the previous one.
    fn add_restart_point(&mut self, point: RestartPoint) {
        if self.restart_points.last().is_none_or(|last| point.decoded - last.decoded >= RESTART_DISTANCE) {
            self.restart_points.push(point);
        }
    }

    /// Skips a skippable frame.
    fn skip_frame(&self, input: &mut Input) -> Result<()> {
        let offset = input.offset();
        let header: Option<[u8; 8]> = input.peek(8)?.first_chunk().copied();
        let header = header.ok_or_else(|| self.damaged(offset, TRUNCATED))?;
        input.consume(8);
        let len = u64::from(u32::from_le_bytes([header[4], header[5], header[6], header[7]]));
        if input.consume_each(len, |_| ())? < len {
            return Err(self.damaged(offset, TRUNCATED));
        }
        Ok(())
    }

    /// Decodes with a step decoder. Returns `None` if the member ended without output.
    fn step(&mut self, mut input: Input, mut step: Box<dyn Step>, buffer: &mut [u8]) -> Result<Option<usize>> {
        loop {
            let offset = input.offset();
            input.peek(1)?;
            let last = input.is_ended();
            let Progress { consumed, produced, ended } = match step.step(input.peek(1)?, buffer, last) {
                Ok(progress) => progress,
                Err((0, fault)) => return Err(failed(self.compression, offset, fault)),
                Err((produced, fault)) => {
                    self.state = State::Failed(failed(self.compression, offset, fault));
                    return Ok(Some(produced));
                }
            };
            input.consume(consumed);
            if ended {
                self.state = State::BeforeMember(input);
                return Ok((produced > 0).then_some(produced));
            }
            if produced > 0 {
                self.state = State::Stepping(input, step);
                return Ok(Some(produced));
            }
            if consumed == 0 {
                let at_end = input.peek(1)?.is_empty() && input.is_ended();
                let detail = if at_end { TRUNCATED } else { "the decoder makes no progress" };
                return Err(self.damaged(input.offset(), detail));
            }
        }
    }

    fn lz4(&mut self, mut decoder: Box<FrameDecoder<Input>>, buffer: &mut [u8]) -> Result<Option<usize>> {
        match Read::read(&mut *decoder, buffer) {
            Ok(0) => {
                let input = decoder.into_inner();
                // The decoder reads exactly one frame, so it meets the end only in a truncated
                // frame.
                if input.is_starved() {
                    return Err(self.damaged(input.offset(), TRUNCATED));
                }
                self.state = State::BeforeMember(input);
                Ok(None)
            }
            Ok(produced) => {
                self.state = State::Lz4(decoder);
                Ok(Some(produced))
            }
            Err(error) => {
                let offset = decoder.get_ref().offset();
                if error.kind() == ErrorKind::UnexpectedEof {
                    return Err(self.damaged(offset, TRUNCATED));
                }
                // Errors of the source are returned unchanged.
                Err(match error.downcast::<Error>() {
                    Ok(error) => error,
                    Err(error) => self.damaged(offset, error.to_string()),
                })
            }
        }
    }
}

impl ByteStream for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let produced = match std::mem::replace(&mut self.state, State::Ended) {
                State::BeforeMember(input) => {
                    self.state = self.start_member(input)?;
                    None
                }
                State::Stepping(input, step) => self.step(input, step, buffer)?,
                State::Lz4(decoder) => self.lz4(decoder, buffer)?,
                State::LegacyLz4(mut input, mut legacy) => {
                    let produced = legacy.read(&mut input, buffer)?;
                    self.state = if produced > 0 { State::LegacyLz4(input, legacy) } else { State::BeforeMember(input) };
                    (produced > 0).then_some(produced)
                }
                State::Xz(mut input, mut blocks) => {
                    let produced = blocks.read(&mut input, buffer);
                    self.member = blocks.member();
                    while let Some(point) = blocks.next_restart_point(self.decoded) {
                        self.add_restart_point(point);
                    }
                    let produced = produced?;
                    self.state = if produced > 0 {
                        State::Xz(input, blocks)
                    } else {
                        self.pool = Some(blocks.into_pool());
                        State::BeforeMember(input)
                    };
                    (produced > 0).then_some(produced)
                }
                State::Failed(error) => return Err(error),
                State::Ended => return Ok(0),
            };
            if let Some(produced) = produced {
                self.decoded = self.decoded.saturating_add(produced as u64);
                return Ok(produced);
            }
        }
    }

    fn remark(&self) -> Option<String> {
        let at = self.trailing?;
        Some(format!("the data after the {}, at offset {at}, is skipped", self.compression.structure()))
    }
}

/// Returns the error for a fault at this offset of a stream.
pub(super) fn failed(compression: Compression, offset: u64, fault: Fault) -> Error {
    match fault {
        Fault::Damage(detail) => Error::corrupt(compression.structure(), offset, detail),
        Fault::Memory { found, known } => Error::Unsupported { what: compression.structure(), found, known },
    }
}

/// Consumes zero bytes, which pad a stream to the length of a tape record.
pub(super) fn skip_zeros(input: &mut Input) -> Result<()> {
    loop {
        let bytes = input.peek(1)?;
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let more = zeros == bytes.len() && zeros > 0;
        input.consume(zeros);
        if !more {
            return Ok(());
        }
    }
}
