//! Decodes a row of members.

use std::io::{ErrorKind, Read};
use std::num::NonZero;

use lz4_flex::frame::FrameDecoder;

use super::broken::{BROKEN_HEAD, nearly_begins};
use super::legacy::{self, Legacy};
use super::step::{self, Fault, Progress, Step};
use super::xz::{Pool, Room, XzBlocks};
use super::{ByteStream, Compression, Input, PROBE, begins, is_skippable};
use nra_core::error::{Error, Result};

/// What is wrong with a stream that ends in the middle.
pub(super) const TRUNCATED: &str = "truncated: unexpected end of the input";
/// Decoded bytes between two members that are remembered as places to begin at.
const MARK_DISTANCE: u64 = 1 << 20;

/// A place where decoding can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Offset of the decoded byte that comes first.
    pub decoded: u64,
    /// Offset in the compressed stream.
    pub stored: u64,
}

/// Decodes a compressed stream, member after member.
pub struct Decoder {
    compression: Compression,
    state: State,
    /// Decoded bytes handed out.
    decoded: u64,
    marks: Vec<Mark>,
    /// Offset of bytes behind the last member that are not part of the stream.
    junk: Option<u64>,
    /// Where the member in work begins among the decoded bytes.
    member: u64,
    /// What decoding several blocks at the same time may take.
    room: Room,
    /// Threads that do that, while none is decoded so.
    pool: Option<Pool>,
}

enum State {
    /// In front of a member, or behind the last one.
    Between(Input),
    Stepping(Input, Box<dyn Step>),
    Lz4(Box<FrameDecoder<Input>>),
    LegacyLz4(Input, Box<Legacy>),
    Xz(Input, Box<XzBlocks>),
    /// What came before this has been handed out.
    Failed(Error),
    /// Nothing more comes: it ended, or failed.
    Ended,
}

impl Decoder {
    /// Decodes `input`, which stands at the start of a member.
    pub fn new(compression: Compression, input: Input) -> Self {
        let room = Room { threads: NonZero::<usize>::MIN, memory_bytes: 0 };
        Self { compression, state: State::Between(input), decoded: 0, marks: Vec::new(), junk: None, member: 0, room, pool: None }
    }

    /// Lets `threads` decode blocks of xz at the same time, where these tell their lengths, and take `memory_bytes` for that.
    #[must_use]
    pub fn with_threads(self, threads: NonZero<usize>, memory_bytes: u64) -> Self {
        Self { room: Room { threads, memory_bytes }, ..self }
    }

    /// Counts decoded bytes from here on.
    #[must_use]
    pub fn at(self, decoded: u64) -> Self {
        Self { decoded, ..self }
    }

    /// Returns the members that decoding can begin at, in order; those close to the one before are skipped.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Returns the offset of junk behind the stream, once the end was reached.
    pub fn junk(&self) -> Option<u64> {
        self.junk
    }

    /// Returns where the member that did not decode begins among the decoded bytes.
    pub(super) fn member(&self) -> u64 {
        self.member
    }

    fn damaged(&self, offset: u64, detail: impl Into<String>) -> Error {
        Error::corrupt(self.compression.structure(), offset, detail)
    }

    /// Begins the next member; `Ended` when there is none.
    fn begin(&mut self, mut input: Input) -> Result<State> {
        let first = self.decoded == 0 && self.marks.is_empty();
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
            if nearly_begins(self.compression, next) {
                return Err(self.damaged(input.offset(), BROKEN_HEAD));
            }
            self.junk = Some(input.offset());
            return Ok(State::Ended);
        }
        let is_legacy = self.compression == Compression::Lz4 && next.starts_with(&legacy::MAGIC);
        let mark = Mark { decoded: self.decoded, stored: input.offset() };
        self.member = self.decoded;
        self.mark(mark);
        if self.compression == Compression::Xz
            && let Some(blocks) = XzBlocks::begin(&mut input, self.decoded, self.room, &mut self.pool)?
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

    /// Remembers a place to begin at, unless it is close to the one before.
    fn mark(&mut self, mark: Mark) {
        if self.marks.last().is_none_or(|last| mark.decoded - last.decoded >= MARK_DISTANCE) {
            self.marks.push(mark);
        }
    }

    /// Passes over a frame that holds nothing.
    fn skip_frame(&self, input: &mut Input) -> Result<()> {
        let offset = input.offset();
        let header: Option<[u8; 8]> = input.peek(8)?.first_chunk().copied();
        let header = header.ok_or_else(|| self.damaged(offset, TRUNCATED))?;
        input.consume(8);
        let mut left = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        while left > 0 {
            let len = input.peek(1)?.len().min(left);
            if len == 0 {
                return Err(self.damaged(offset, TRUNCATED));
            }
            input.consume(len);
            left -= len;
        }
        Ok(())
    }

    /// Decodes with a stepping decoder; `None` when its member ended without giving anything.
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
                self.state = State::Between(input);
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
                // The decoder asks for exactly what a frame has: it meets the end only in a frame that is cut.
                if input.is_starved() {
                    return Err(self.damaged(input.offset(), TRUNCATED));
                }
                self.state = State::Between(input);
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
                // An error of the source below comes back as it was.
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
            let given = match std::mem::replace(&mut self.state, State::Ended) {
                State::Between(input) => {
                    self.state = self.begin(input)?;
                    None
                }
                State::Stepping(input, step) => self.step(input, step, buffer)?,
                State::Lz4(decoder) => self.lz4(decoder, buffer)?,
                State::LegacyLz4(mut input, mut legacy) => {
                    let given = legacy.read(&mut input, buffer)?;
                    self.state = if given > 0 { State::LegacyLz4(input, legacy) } else { State::Between(input) };
                    (given > 0).then_some(given)
                }
                State::Xz(mut input, mut blocks) => {
                    let given = blocks.read(&mut input, buffer);
                    self.member = blocks.member();
                    while let Some(mark) = blocks.take_begun(self.decoded) {
                        self.mark(mark);
                    }
                    let given = given?;
                    self.state = if given > 0 {
                        State::Xz(input, blocks)
                    } else {
                        self.pool = Some(blocks.into_pool());
                        State::Between(input)
                    };
                    (given > 0).then_some(given)
                }
                State::Failed(error) => return Err(error),
                State::Ended => return Ok(0),
            };
            if let Some(given) = given {
                self.decoded = self.decoded.saturating_add(given as u64);
                return Ok(given);
            }
        }
    }

    fn remark(&self) -> Option<String> {
        let at = self.junk?;
        Some(format!("what follows the {} at offset {at} is none and is skipped", self.compression.structure()))
    }
}

/// Returns the error for what is wrong at this offset of a stream.
pub(super) fn failed(compression: Compression, offset: u64, fault: Fault) -> Error {
    match fault {
        Fault::Damage(detail) => Error::corrupt(compression.structure(), offset, detail),
        Fault::Memory { found, known } => Error::Unsupported { what: compression.structure(), found, known },
    }
}

/// Takes zero bytes: padding to the length of a tape record.
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
