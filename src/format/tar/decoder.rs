//! From bytes in order to entries and their content.

use std::mem;

use super::content::Content;
use super::header::{BLOCK, Block, Header, WrongChecksum, padded};
use super::member::{Begin, Member, MemberKind};
use super::preface::{Extension, MAX_EXTENSION, Preface};
use super::remarks::Remarks;
use super::sparse::{self, Lines, Segment};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::names::NameEncoding;
use nra_core::path::Quoted;

/// Damaged headers that are passed over.
const MAX_DAMAGED: u32 = 1000;
/// Bytes of a damaged header's name that are shown.
const SHOWN_NAME: usize = 256;

/// What comes next in an archive.
#[derive(Debug)]
pub enum Event<'a> {
    /// More input is needed.
    More,
    /// An entry begins; its content follows.
    Member(Box<Member>),
    /// Bytes of its content.
    Data(&'a [u8]),
    /// Zero bytes of its content that are not stored.
    Hole(u64),
    /// Its content is complete.
    End,
    /// A header is damaged. Whatever belongs to it is passed over, up to the next one; the names of earlier headers that told of it go, too.
    Damage(Box<Error>),
    /// The archive is complete.
    Done,
}

enum State {
    /// At a header.
    Header,
    /// In what belongs to a header of this kind; bytes to come with padding.
    Extension {
        extension: Extension,
        bytes: Vec<u8>,
        len: usize,
        left: u64,
    },
    /// In blocks that continue an old GNU map.
    OldMap {
        member: Box<Member>,
        map: Vec<Segment>,
    },
    /// In the map of pax format 1.0, which stands before the data.
    NewMap {
        member: Box<Member>,
        lines: Lines,
    },
    Content(Content),
    /// Passing over bytes.
    Skip(u64),
    /// Behind a damaged header: what comes is passed over until there is another one.
    Lost,
    /// Behind the end marker: another archive may follow.
    Behind,
    /// Behind the end, where something stands that is no header.
    Done,
}

/// Reads an archive. Hand it bytes with [`Decoder::step`].
pub struct Decoder {
    state: State,
    /// Offset of the next byte.
    offset: u64,
    /// Parts of a block that came in several pieces of input.
    partial: Vec<u8>,
    preface: Preface,
    /// Offset of the first header of the entry in work.
    first: Option<u64>,
    /// A block of zero bytes came.
    zero: bool,
    /// Headers so far.
    any: bool,
    /// Damaged headers so far.
    damaged: u32,
    remarks: Remarks,
    /// What is said of bytes behind the end.
    behind: Option<String>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Starts at the first byte of an archive.
    pub fn new() -> Self {
        Self {
            state: State::Header,
            offset: 0,
            partial: Vec::new(),
            preface: Preface::default(),
            first: None,
            zero: false,
            any: false,
            damaged: 0,
            remarks: Remarks::default(),
            behind: None,
        }
    }

    /// Takes names and targets of links in the headers to be in this encoding; those of pax records are in UTF-8, as these say.
    #[must_use]
    pub fn with_names(self, names: Option<NameEncoding>) -> Self {
        Self { preface: self.preface.with_names(names), ..self }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset + self.partial.len() as u64
    }

    /// Returns what the archive says of itself, in a global record before or among the entries that came by; the first one counts.
    pub fn comment(&self) -> Option<String> {
        self.preface.comment()
    }

    /// Takes the remark on bytes behind the end, of which nothing is missing.
    pub fn take_behind(&mut self) -> Option<String> {
        self.behind.take()
    }

    /// Takes remarks on parts of the archive that are not served.
    pub fn take_remarks(&mut self) -> Vec<String> {
        self.remarks.take()
    }

    /// Leaves out the content that is to come. Returns how many bytes of the archive the caller may pass over instead of
    /// handing them in, and counts them as taken.
    pub fn skip_content(&mut self) -> u64 {
        let State::Content(content) = &self.state else { return 0 };
        let len = content.left();
        self.state = State::Header;
        self.offset = self.offset.saturating_add(len);
        len
    }

    /// Takes a part of `input` from its start, and tells how much that is and what it means. `last`: nothing follows `input`.
    ///
    /// # Errors
    ///
    /// `Corrupt` where the archive contradicts itself or is cut, `Limit` for what is too long. Nothing follows then.
    pub fn step<'a>(&mut self, input: &'a [u8], last: bool) -> Result<(usize, Event<'a>)> {
        match &mut self.state {
            State::Content(content) => {
                let (taken, event) = content.step(input);
                self.offset += taken as u64;
                match event {
                    Event::End => self.state = State::Skip(content.padding()),
                    Event::More if last => return Err(self.cut("in the content of an entry")),
                    _ => {}
                }
                Ok((taken, event))
            }
            State::Skip(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= take as u64;
                self.offset += take as u64;
                if *left == 0 {
                    self.state = State::Header;
                } else if last && take == input.len() {
                    // Only padding is missing when less than a block is.
                    if *left >= BLOCK as u64 {
                        return Err(self.cut("in an entry"));
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
            State::Header | State::OldMap { .. } | State::NewMap { .. } | State::Lost | State::Behind => self.block(input, last),
        }
    }

    fn cut(&self, place: &str) -> Error {
        Error::corrupt("tar archive", self.offset, format!("truncated: unexpected end of the input {place}"))
    }

    /// Collects a block and does with it what the state says.
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
                let left = member.stored.checked_sub(BLOCK as u64);
                member.stored = left.ok_or_else(|| wrong(at, "the map of a sparse file is longer than its data"))?;
                match lines.block(&block).map_err(|detail| wrong(at, detail))? {
                    Some(map) => self.sparse(member, map)?,
                    None => {
                        self.state = State::NewMap { member, lines };
                        Event::More
                    }
                }
            }
            // What was lost may hold whatever it wants, zero bytes, too.
            State::Lost if Header::parse(&block).is_err() => {
                self.state = State::Lost;
                Event::More
            }
            state => self.header(&block, at, matches!(state, State::Behind))?,
        };
        Ok((take, event))
    }

    /// The input ended where a block was expected.
    fn end_of_input(&mut self) -> Result<Event<'static>> {
        if matches!(self.state, State::Lost) {
            self.state = State::Done;
            return Ok(Event::Done);
        }
        let at_header = matches!(self.state, State::Header | State::Behind);
        let behind = matches!(self.state, State::Behind) || self.zero;
        if !at_header || !behind && (!self.partial.is_empty() || !self.any) {
            return Err(self.cut("in a header"));
        }
        if self.preface.is_pending() {
            return Err(self.cut("behind a header that belongs to an entry"));
        }
        if self.partial.get(257..262) == Some(b"ustar") {
            return Err(self.cut("in a header"));
        }
        if self.partial.iter().any(|&byte| byte != 0) {
            self.junk(self.offset);
        }
        self.state = State::Done;
        Ok(Event::Done)
    }

    /// Something behind the end is nothing that belongs to an archive.
    fn junk(&mut self, at: u64) {
        self.behind = Some(format!("what follows the end of the tar archive at offset {at} is none"));
    }

    fn header(&mut self, block: &Block, at: u64, behind: bool) -> Result<Event<'static>> {
        if block.iter().all(|&byte| byte == 0) {
            // Two of them end an archive; a single one is passed over, as others do.
            self.state = if self.zero || behind { State::Behind } else { State::Header };
            self.zero = true;
            self.any = true;
            return Ok(Event::More);
        }
        let header = match Header::parse(block) {
            Ok(header) => header,
            Err(_) if behind && !Header::resembles(block) => {
                self.junk(at);
                self.state = State::Done;
                return Ok(Event::More);
            }
            Err(WrongChecksum { stored, computed }) => {
                let stored = stored.map_or("nothing readable".into(), |stored| stored.to_string());
                let another = if behind { "another archive seems to begin here: " } else { "" };
                let name = self.name_of_damaged(block);
                let detail = format!("{another}the header{name} has the checksum {stored}, its bytes give {computed}");
                let error = Error::corrupt("tar header", at, detail);
                if !self.any || self.damaged == MAX_DAMAGED {
                    return Err(error);
                }
                self.damaged += 1;
                self.zero = false;
                self.forget();
                self.state = State::Lost;
                return Ok(Event::Damage(Box::new(error)));
            }
        };
        if behind {
            self.preface.forget_all();
        }
        (self.zero, self.any) = (false, true);
        let first = *self.first.get_or_insert(at);
        let kind = header.kind();
        if let Some(extension) = Extension::of(kind) {
            let len = size_of(&header, at)?;
            if len > MAX_EXTENSION {
                return Err(Error::Limit { what: "length of a tar extension header", found: len, limit: MAX_EXTENSION });
            }
            let len = usize::try_from(len).expect("at most 16 MiB");
            self.state = State::Extension { extension, bytes: Vec::new(), len, left: padded(len as u64) };
            return Ok(Event::More);
        }
        match kind {
            // The name of the volume, and access control lists of Solaris: nothing of the tree.
            b'V' | b'A' | b'N' => {
                if kind == b'A' {
                    self.remarks.add(format!("access control list of an entry at offset {at} is not kept"));
                }
                self.state = State::Skip(padded(size_of(&header, at)?));
                self.forget();
                Ok(Event::More)
            }
            b'M' => {
                self.remarks.add(format!("the end of a file that begins on another volume, at offset {at}, is skipped"));
                self.state = State::Skip(padded(size_of(&header, at)?));
                self.forget();
                Ok(Event::More)
            }
            _ => self.member(&header, first, at),
        }
    }

    /// Returns what a damaged header seems to be called, as a part of a sentence.
    fn name_of_damaged(&self, block: &Block) -> String {
        let own = Header::resembles(block).then(|| Header::unchecked(block).path());
        let name = self.preface.name_without_header().or(own).unwrap_or_default();
        match name.len() {
            0 => String::new(),
            len => format!(" of {}", Quoted::new(&name[..len.min(SHOWN_NAME)])),
        }
    }

    fn forget(&mut self) {
        self.preface.forget();
        self.first = None;
    }

    /// Collects what belongs to a header.
    fn extension<'a>(&mut self, input: &'a [u8], last: bool) -> Result<(usize, Event<'a>)> {
        let State::Extension { extension, bytes, len, left } = &mut self.state else { unreachable!("the caller looked") };
        let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
        let want = (*len - bytes.len()).min(take);
        bytes.extend_from_slice(&input[..want]);
        *left -= take as u64;
        self.offset += take as u64;
        if *left > 0 {
            return if last && take == input.len() { Err(self.cut("in an extension header")) } else { Ok((take, Event::More)) };
        }
        let (extension, bytes) = (*extension, mem::take(bytes));
        self.state = State::Header;
        let offset = self.first.unwrap_or(self.offset);
        if extension == Extension::GlobalRecords {
            self.first = None;
        }
        let added = self.preface.add(extension, &bytes, &mut self.remarks);
        added.map_err(|wrong| wrong.at("pax header", offset))?;
        Ok((take, Event::More))
    }

    /// Begins an entry.
    fn member(&mut self, header: &Header<'_>, first: u64, at: u64) -> Result<Event<'static>> {
        let (member, begin) = Member::assemble(header, first, &mut self.preface).map_err(|wrong| wrong.at("tar header", at))?;
        self.first = None;
        match begin {
            Begin::Plain => Ok(self.plain(member)),
            Begin::Known(map) => self.sparse(member, map),
            Begin::OldMap(map) => {
                self.state = State::OldMap { member, map };
                Ok(Event::More)
            }
            Begin::NewMap => {
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
            Content::none(mem::take(&mut member.stored))
        });
        Event::Member(member)
    }

    fn sparse(&mut self, mut member: Box<Member>, map: Vec<Segment>) -> Result<Event<'static>> {
        let Member { size, stored, .. } = *member;
        let offset = self.offset;
        if size > MAX_OFFSET {
            return Err(Error::Limit { what: "size of a file", found: size, limit: MAX_OFFSET });
        }
        let map = sparse::check(map, size, stored).map_err(|detail| Error::corrupt("tar header", offset, detail))?;
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
    size.filter(|&size| size <= MAX_OFFSET).ok_or_else(|| wrong(at, "its size is not a number"))
}
