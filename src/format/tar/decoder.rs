//! Decodes the bytes of an archive into entries and their content.

use std::mem;

use super::content::Content;
use super::header::{BLOCK, Block, Header, WrongChecksum, padded};
use super::member::{ContentStart, Member, MemberKind};
use super::preface::{Extension, MAX_EXTENSION, Preface};
use super::remarks::Remarks;
use super::shortened;
use super::sparse::{self, Lines, Segment};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::names::NameEncoding;

/// Most damaged headers that are skipped.
const MAX_DAMAGED: u32 = 1000;

/// An event of the decoder.
#[derive(Debug)]
pub enum Event<'a> {
    /// More input is needed.
    More,
    /// An entry starts; its content follows.
    Member(Box<Member>),
    /// Bytes of the content.
    Data(&'a [u8]),
    /// Zero bytes of the content that are not stored.
    Hole(u64),
    /// The content is complete.
    End,
    /// A header is damaged. Its entry is skipped up to the next header, together with the preceding
    /// extension headers.
    Damage(Box<Error>),
    /// The archive is complete.
    Done,
}

#[derive(Default)]
enum State {
    /// Before a header.
    #[default]
    Header,
    /// In an extension header; `remaining` includes padding.
    Extension {
        extension: Extension,
        bytes: Vec<u8>,
        len: usize,
        remaining: u64,
    },
    /// In continuation blocks of an old GNU map.
    OldMap {
        member: Box<Member>,
        map: Vec<Segment>,
    },
    /// In the map of pax format 1.0, which precedes the data.
    NewMap {
        member: Box<Member>,
        lines: Lines,
    },
    Content(Content),
    /// Skipping bytes.
    Skip(u64),
    /// After a damaged header: blocks are skipped up to the next header.
    Resync,
    /// After the end marker: another archive may follow.
    AfterEnd,
    /// After the end, and after a block that is not a header.
    Done,
}

/// Decodes an archive. Feed it bytes with [`Decoder::step`].
#[derive(Default)]
pub struct Decoder {
    state: State,
    /// Offset of the next byte.
    offset: u64,
    /// The start of a block that is not complete yet.
    partial: Vec<u8>,
    preface: Preface,
    /// Offset of the first header of the current entry.
    first_header: Option<u64>,
    /// The previous block was zero.
    after_zero_block: bool,
    /// A header or a zero block was read.
    is_started: bool,
    /// Number of damaged headers.
    damaged: u32,
    remarks: Remarks,
    /// Remark on trailing data.
    trailing_remark: Option<String>,
}

impl Decoder {
    /// Decodes names and link targets in headers from this encoding. Those in pax records are in
    /// UTF-8.
    #[must_use]
    pub fn with_names(self, names: Option<NameEncoding>) -> Self {
        Self { preface: self.preface.with_names(names), ..self }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset + self.partial.len() as u64
    }

    /// Returns the comment of the archive: the first one in the global records so far.
    pub fn comment(&self) -> Option<String> {
        self.preface.comment()
    }

    /// Takes the remark on trailing data. No entry is skipped because of it.
    pub fn take_trailing_remark(&mut self) -> Option<String> {
        self.trailing_remark.take()
    }

    /// Takes the remarks on skipped parts of the archive.
    pub fn take_remarks(&mut self) -> Vec<String> {
        self.remarks.take()
    }

    /// Skips the rest of the content. Returns how many bytes of the archive the caller need not
    /// feed. They count as consumed.
    pub fn skip_content(&mut self) -> u64 {
        let State::Content(content) = &self.state else { return 0 };
        let len = content.remaining();
        self.state = State::Header;
        self.offset = self.offset.saturating_add(len);
        len
    }

    /// Consumes the start of `input`. Returns its length and the event. `last`: nothing follows
    /// `input`.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the archive is invalid or truncated, `Limit` if a length exceeds a limit. The
    /// decoder cannot be used afterwards.
    pub fn step<'a>(&mut self, input: &'a [u8], last: bool) -> Result<(usize, Event<'a>)> {
        match &mut self.state {
            State::Content(content) => {
                let (taken, event) = content.step(input);
                self.offset += taken as u64;
                match event {
                    Event::End => self.state = State::Skip(content.padding()),
                    Event::More if last => return Err(self.truncated("in the content of an entry")),
                    _ => {}
                }
                Ok((taken, event))
            }
            State::Skip(remaining) => {
                let take = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= take as u64;
                self.offset += take as u64;
                if *remaining == 0 {
                    self.state = State::Header;
                } else if last && take == input.len() {
                    // Less than a block is missing: only padding.
                    if *remaining >= BLOCK as u64 {
                        return Err(self.truncated("in an entry"));
                    }
                    self.state = State::Header;
                }
                Ok((take, Event::More))
            }
            State::Done => {
                self.offset += input.len() as u64;
                Ok((input.len(), if last { Event::Done } else { Event::More }))
            }
            State::Extension { .. } => self.extension(input, last),
            State::Header | State::OldMap { .. } | State::NewMap { .. } | State::Resync | State::AfterEnd => {
                self.block(input, last)
            }
        }
    }

    fn truncated(&self, place: &str) -> Error {
        Error::corrupt("tar archive", self.offset, format!("truncated: unexpected end of the input {place}"))
    }

    /// Collects a block and handles it according to the state.
    fn block<'a>(&mut self, input: &'a [u8], last: bool) -> Result<(usize, Event<'a>)> {
        let take = (BLOCK - self.partial.len()).min(input.len());
        let block: Block = match input.first_chunk() {
            Some(block) if self.partial.is_empty() => *block,
            _ => {
                self.partial.extend_from_slice(&input[..take]);
                match self.partial.first_chunk() {
                    Some(block) => *block,
                    None if last && take == input.len() => return self.end_of_input().map(|event| (take, event)),
                    None => return Ok((take, Event::More)),
                }
            }
        };
        self.partial.clear();
        let at = self.offset;
        self.offset += BLOCK as u64;
        let event = match mem::replace(&mut self.state, State::Header) {
            State::OldMap { member, mut map } => {
                let more = sparse::parse_more(&block, &mut map).map_err(|detail| wrong(at, detail))?;
                if more {
                    self.state = State::OldMap { member, map };
                    Event::More
                } else {
                    self.sparse(member, map)?
                }
            }
            State::NewMap { mut member, mut lines } => {
                let stored = member.stored.checked_sub(BLOCK as u64);
                member.stored = stored.ok_or_else(|| wrong(at, "the map of a sparse file is longer than its data"))?;
                match lines.add_block(&block).map_err(|detail| wrong(at, detail))? {
                    Some(map) => self.sparse(member, map)?,
                    None => {
                        self.state = State::NewMap { member, lines };
                        Event::More
                    }
                }
            }
            // The content of the damaged entry may contain zero blocks.
            State::Resync if Header::parse(&block).is_err() => {
                self.state = State::Resync;
                Event::More
            }
            state => self.header(&block, at, matches!(state, State::AfterEnd))?,
        };
        Ok((take, event))
    }

    /// Handles the end of the input where a block was expected.
    fn end_of_input(&mut self) -> Result<Event<'static>> {
        if matches!(self.state, State::Resync) {
            self.state = State::Done;
            return Ok(Event::Done);
        }
        let after_end = matches!(self.state, State::AfterEnd) || self.after_zero_block;
        let may_end = after_end || self.partial.is_empty() && self.is_started;
        if !matches!(self.state, State::Header | State::AfterEnd) || !may_end {
            return Err(self.truncated("in a header"));
        }
        if self.preface.is_pending() {
            return Err(self.truncated("after an extension header"));
        }
        if self.partial.get(257..262) == Some(b"ustar") {
            return Err(self.truncated("in a header"));
        }
        if self.partial.iter().any(|&byte| byte != 0) {
            self.add_trailing_remark(self.offset);
        }
        self.state = State::Done;
        Ok(Event::Done)
    }

    fn add_trailing_remark(&mut self, at: u64) {
        self.trailing_remark = Some(format!("the data after the end of the tar archive, at offset {at}, is not a tar archive"));
    }

    fn header(&mut self, block: &Block, at: u64, after_end: bool) -> Result<Event<'static>> {
        if block.iter().all(|&byte| byte == 0) {
            // Two zero blocks end an archive; a single one is skipped, as other programs do.
            self.state = if self.after_zero_block || after_end { State::AfterEnd } else { State::Header };
            self.after_zero_block = true;
            self.is_started = true;
            return Ok(Event::More);
        }
        let header = match Header::parse(block) {
            Ok(header) => header,
            Err(_) if after_end && !Header::resembles(block) => {
                self.add_trailing_remark(at);
                self.state = State::Done;
                return Ok(Event::More);
            }
            Err(WrongChecksum { stored, computed }) => {
                let stored = stored.map_or("not a number".into(), |stored| stored.to_string());
                let another = if after_end { "another archive seems to start here: " } else { "" };
                let name = self.name_of_damaged(block);
                let detail = format!("{another}the checksum of the header{name} is {stored}, but its bytes give {computed}");
                let error = Error::corrupt("tar header", at, detail);
                if !self.is_started || self.damaged == MAX_DAMAGED {
                    return Err(error);
                }
                self.damaged += 1;
                self.after_zero_block = false;
                self.clear_next();
                self.state = State::Resync;
                return Ok(Event::Damage(Box::new(error)));
            }
        };
        if after_end {
            self.preface.clear_global();
        }
        (self.after_zero_block, self.is_started) = (false, true);
        self.first_header.get_or_insert(at);
        let kind = header.kind();
        if let Some(extension) = Extension::of(kind) {
            let len = size_of(&header, at)?;
            if len > MAX_EXTENSION {
                return Err(Error::Limit { what: "length of a tar extension header", found: len, limit: MAX_EXTENSION });
            }
            let len = usize::try_from(len).expect("at most 16 MiB");
            self.state = State::Extension { extension, bytes: Vec::new(), len, remaining: padded(len as u64) };
            return Ok(Event::More);
        }
        match kind {
            // The name of the volume, and access control lists of Solaris: no entries.
            b'V' | b'A' | b'N' | b'M' => {
                match kind {
                    b'A' => self.remarks.add(format!("the access control list of an entry at offset {at} is skipped")),
                    b'M' => {
                        self.remarks.add(format!("the end of a file that starts on another volume, at offset {at}, is skipped"))
                    }
                    _ => {}
                }
                self.state = State::Skip(padded(size_of(&header, at)?));
                self.clear_next();
                Ok(Event::More)
            }
            _ => self.member(&header, at),
        }
    }

    /// Returns the probable name of a damaged header, as part of a sentence.
    fn name_of_damaged(&self, block: &Block) -> String {
        let own = Header::resembles(block).then(|| Header::unchecked(block).path());
        let name = self.preface.name_without_header().or(own).unwrap_or_default();
        if name.is_empty() { String::new() } else { format!(" of {}", shortened(&name)) }
    }

    fn clear_next(&mut self) {
        self.preface.clear_next();
        self.first_header = None;
    }

    /// Collects the content of an extension header.
    fn extension<'a>(&mut self, input: &'a [u8], last: bool) -> Result<(usize, Event<'a>)> {
        let State::Extension { extension, bytes, len, remaining } = &mut self.state else {
            unreachable!("checked by the caller")
        };
        let take = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
        let want = (*len - bytes.len()).min(take);
        bytes.extend_from_slice(&input[..want]);
        *remaining -= take as u64;
        self.offset += take as u64;
        if *remaining > 0 {
            return if last && take == input.len() {
                Err(self.truncated("in an extension header"))
            } else {
                Ok((take, Event::More))
            };
        }
        let (extension, bytes) = (*extension, mem::take(bytes));
        self.state = State::Header;
        let offset = self.first_header.unwrap_or(self.offset);
        if extension == Extension::GlobalRecords {
            self.first_header = None;
        }
        let added = self.preface.add(extension, &bytes, &mut self.remarks);
        added.map_err(|invalid| invalid.at("pax header", offset))?;
        Ok((take, Event::More))
    }

    /// Starts an entry.
    fn member(&mut self, header: &Header<'_>, at: u64) -> Result<Event<'static>> {
        let (member, start) = Member::assemble(header, &mut self.preface).map_err(|invalid| invalid.at("tar header", at))?;
        self.first_header = None;
        match start {
            ContentStart::Data => Ok(self.plain(member)),
            ContentStart::Sparse(map) => self.sparse(member, map),
            ContentStart::OldMap(map) => {
                self.state = State::OldMap { member, map };
                Ok(Event::More)
            }
            ContentStart::NewMap => {
                self.state = State::NewMap { member, lines: Lines::default() };
                Ok(Event::More)
            }
        }
    }

    fn plain(&mut self, mut member: Box<Member>) -> Event<'static> {
        member.data = self.offset;
        self.state = State::Content(if member.kind == MemberKind::File {
            Content::whole(member.stored)
        } else {
            Content::skipped(mem::take(&mut member.stored))
        });
        Event::Member(member)
    }

    fn sparse(&mut self, mut member: Box<Member>, map: Vec<Segment>) -> Result<Event<'static>> {
        let Member { size, stored, .. } = *member;
        let offset = self.offset;
        if size > MAX_OFFSET {
            return Err(Error::Limit { what: "size of a file", found: size, limit: MAX_OFFSET });
        }
        let map = sparse::validate(map, size, stored).map_err(|detail| wrong(offset, detail))?;
        member.data = offset;
        member.segments = Some(map.clone());
        self.state = State::Content(Content::sparse(size, stored, map));
        Ok(Event::Member(member))
    }
}

fn wrong(offset: u64, detail: impl Into<String>) -> Error {
    Error::corrupt("tar header", offset, detail)
}

fn size_of(header: &Header<'_>, at: u64) -> Result<u64> {
    let size = header.size().and_then(|size| u64::try_from(size).ok());
    size.filter(|&size| size <= MAX_OFFSET).ok_or_else(|| wrong(at, "the size is not a number"))
}
