//! From bytes in order to entries and their content.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::attributes;
use super::header::{BLOCK, Block, Header, WrongChecksum};
use super::member::{Member, MemberKind};
use super::pax::{Records, Wrong};
use super::sparse::{self, Lines, Segment};
use crate::format::entry::{Attribute, Device, Timestamp};
use crate::format::error::{Error, Result};
use crate::format::limits::{MAX_MESSAGE, MAX_OFFSET, MAX_OWNER_NAME};
use crate::format::names::NameEncoding;
use crate::format::path::Quoted;

/// Longest pax header or long name, bytes: a path and a link of 64 KiB with many attributes of 1 MiB.
const MAX_EXTENSION: u64 = 16 << 20;
/// Memory for the records that hold for all entries, bytes: each entry is put together with them.
const MAX_GLOBAL: u64 = 1 << 20;
/// Remarks on parts of an archive that are told one by one.
const MAX_REMARKS: usize = 100;
/// Damaged headers that are passed over.
const MAX_DAMAGED: u32 = 1000;
/// Bytes of a damaged header's name that are shown.
const SHOWN_NAME: usize = 256;
/// Kinds whose entries say something about the next one or about the archive.
const LONG_NAME: u8 = b'L';
const LONG_LINK: u8 = b'K';
const PAX: u8 = b'x';
const PAX_SOLARIS: u8 = b'X';
const PAX_GLOBAL: u8 = b'g';

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
    Extension { kind: u8, bytes: Vec<u8>, len: usize, left: u64 },
    /// In blocks that continue an old GNU map.
    OldMap { member: Box<Member>, map: Vec<Segment> },
    /// In the map of pax format 1.0, which stands before the data.
    NewMap { member: Box<Member>, lines: Lines },
    /// In content: bytes of data to come, position in the file, parts to come.
    Content { stored: u64, at: u64, size: u64, segments: VecDeque<Segment>, padding: u64 },
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
    global: Records,
    /// The attributes that the records of all entries tell of, once an entry has asked for them.
    global_attributes: Option<Arc<[Attribute]>>,
    next: Records,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Offset of the first header of the entry in work.
    first: Option<u64>,
    /// A block of zero bytes came.
    zero: bool,
    /// Headers so far.
    any: bool,
    /// Damaged headers so far.
    damaged: u32,
    remarks: Vec<String>,
    /// Remarks beyond those.
    more_remarks: u64,
    /// What is said of bytes behind the end.
    behind: Option<String>,
    /// Encoding of names that are not in pax records.
    names: Option<NameEncoding>,
    comment: Option<String>,
    /// A comment came that can't be kept.
    comment_is_lost: bool,
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
            global: Records::default(),
            global_attributes: None,
            next: Records::default(),
            long_name: None,
            long_link: None,
            first: None,
            zero: false,
            any: false,
            damaged: 0,
            remarks: Vec::new(),
            more_remarks: 0,
            behind: None,
            names: None,
            comment: None,
            comment_is_lost: false,
        }
    }

    /// Takes names and targets of links in the headers to be in this encoding; those of pax records are in UTF-8, as these say.
    #[must_use]
    pub fn with_names(self, names: Option<NameEncoding>) -> Self {
        Self { names, ..self }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset + self.partial.len() as u64
    }

    /// Returns what the archive says of itself, in a global record before or among the entries that came by; the first one counts.
    pub fn comment(&self) -> Option<String> {
        self.comment.clone()
    }

    /// Takes the remark on bytes behind the end, of which nothing is missing.
    pub fn take_behind(&mut self) -> Option<String> {
        self.behind.take()
    }

    /// Takes remarks on parts of the archive that are not served.
    pub fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = mem::take(&mut self.remarks);
        match mem::take(&mut self.more_remarks) {
            0 => {}
            more => remarks.push(format!("{more} more parts of the tar archive are left out")),
        }
        remarks
    }

    fn remark(&mut self, remark: String) {
        if self.remarks.len() < MAX_REMARKS {
            self.remarks.push(remark);
        } else {
            self.more_remarks += 1;
        }
    }

    /// Leaves out the content that is to come. Returns how many bytes of the archive the caller may pass over instead of
    /// handing them in, and counts them as taken.
    pub fn skip_content(&mut self) -> u64 {
        let State::Content { stored, padding, .. } = self.state else { return 0 };
        let len = stored.saturating_add(padding);
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
            State::Content { stored, at, size, segments, padding } => {
                if let Some((offset, len)) = segments.front_mut() {
                    if *offset > *at {
                        let hole = *offset - *at;
                        *at = *offset;
                        return Ok((0, Event::Hole(hole)));
                    }
                    if input.is_empty() {
                        return if last { Err(self.cut("in the content of an entry")) } else { Ok((0, Event::More)) };
                    }
                    let take = usize::try_from(*len).unwrap_or(usize::MAX).min(input.len());
                    let taken = take as u64;
                    (*offset, *len, *at, *stored) = (*offset + taken, *len - taken, *at + taken, *stored - taken);
                    if *len == 0 {
                        segments.pop_front();
                    }
                    self.offset += taken;
                    return Ok((take, Event::Data(&input[..take])));
                }
                if *at < *size {
                    let hole = *size - *at;
                    *at = *size;
                    return Ok((0, Event::Hole(hole)));
                }
                self.state = State::Skip(*padding);
                Ok((0, Event::End))
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
        if !self.next.is_empty() || self.long_name.is_some() || self.long_link.is_some() {
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
            self.global = Records::default();
            self.global_attributes = None;
        }
        (self.zero, self.any) = (false, true);
        let first = *self.first.get_or_insert(at);
        let kind = header.kind();
        match kind {
            LONG_NAME | LONG_LINK | PAX | PAX_SOLARIS | PAX_GLOBAL => {
                let len = size_of(&header, at)?;
                if len > MAX_EXTENSION {
                    return Err(Error::Limit { what: "length of a tar extension header", found: len, limit: MAX_EXTENSION });
                }
                let len = usize::try_from(len).expect("at most 16 MiB");
                self.state = State::Extension { kind, bytes: Vec::new(), len, left: padded(len as u64) };
                Ok(Event::More)
            }
            // The name of the volume, and access control lists of Solaris: nothing of the tree.
            b'V' | b'A' | b'N' => {
                if kind == b'A' {
                    self.remark(format!("access control list of an entry at offset {at} is not kept"));
                }
                self.state = State::Skip(padded(size_of(&header, at)?));
                self.forget();
                Ok(Event::More)
            }
            b'M' => {
                self.remark(format!("the end of a file that begins on another volume, at offset {at}, is left out"));
                self.state = State::Skip(padded(size_of(&header, at)?));
                self.forget();
                Ok(Event::More)
            }
            _ => self.member(&header, first).map_err(|wrong| wrong.at("tar header", at)),
        }
    }

    /// Returns what a damaged header seems to be called, as a part of a sentence.
    fn name_of_damaged(&self, block: &Block) -> String {
        let own = Header::resembles(block).then(|| Header::unchecked(block).path());
        let name = self.next.get("path").map(<[u8]>::to_vec).or_else(|| self.long_name.clone()).or(own).unwrap_or_default();
        match name.len() {
            0 => String::new(),
            len => format!(" of {}", Quoted::new(&name[..len.min(SHOWN_NAME)])),
        }
    }

    fn forget(&mut self) {
        (self.next, self.long_name, self.long_link, self.first) = (Records::default(), None, None, None);
    }

    /// Collects what belongs to a header.
    fn extension<'a>(&mut self, input: &'a [u8], last: bool) -> Result<(usize, Event<'a>)> {
        let State::Extension { kind, bytes, len, left } = &mut self.state else { unreachable!("the caller looked") };
        let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
        let want = (*len - bytes.len()).min(take);
        bytes.extend_from_slice(&input[..want]);
        *left -= take as u64;
        self.offset += take as u64;
        if *left > 0 {
            return if last && take == input.len() { Err(self.cut("in an extension header")) } else { Ok((take, Event::More)) };
        }
        let (kind, bytes) = (*kind, mem::take(bytes));
        self.state = State::Header;
        let offset = self.first.unwrap_or(self.offset);
        let parsed = match kind {
            LONG_NAME => {
                self.long_name = Some(super::header::text(&bytes).to_vec());
                Ok(())
            }
            LONG_LINK => {
                self.long_link = Some(super::header::text(&bytes).to_vec());
                Ok(())
            }
            PAX_GLOBAL => {
                self.first = None;
                let parsed = self.global.parse(&bytes, MAX_GLOBAL);
                self.global_attributes = None;
                if let Some(comment) = self.global.get("comment").filter(|_| self.comment.is_none()) {
                    match std::str::from_utf8(comment) {
                        Ok(comment) if comment.len() <= MAX_MESSAGE => self.comment = Some(comment.to_owned()),
                        _ if self.comment_is_lost => {}
                        _ => {
                            let len = comment.len();
                            self.comment_is_lost = true;
                            self.remark(format!("its comment of {len} bytes is left out: it is too long, or not in UTF-8"));
                        }
                    }
                }
                parsed
            }
            _ => self.next.parse(&bytes, MAX_EXTENSION),
        };
        parsed.map_err(|wrong| wrong.at("pax header", offset))?;
        Ok((take, Event::More))
    }

    /// Looks up a record: of the entry itself, or of all.
    fn record(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.next.get(&key).or_else(|| self.global.get(&key))
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Wrong> {
        Ok(match self.next.number(key)? {
            Some(number) => Some(number),
            None => self.global.number(key)?,
        })
    }

    /// Returns a name of a header in UTF-8, if its encoding is known.
    fn decoded(&self, name: Vec<u8>) -> Vec<u8> {
        match &self.names {
            Some(names) => names.decode(&name).into_owned(),
            None => name,
        }
    }

    /// Puts an entry together from its header and what came before it.
    fn member(&mut self, header: &Header<'_>, first: u64) -> Result<Event<'static>, Wrong> {
        let flag = header.kind();
        let name = match (self.next.get("GNU.sparse.name"), self.record("path"), &self.long_name) {
            (Some(name), ..) | (None, Some(name), _) => name.to_vec(),
            (None, None, Some(name)) => self.decoded(name.clone()),
            (None, None, None) => self.decoded(header.path()),
        };
        let link = match (self.record("linkpath"), &self.long_link) {
            (Some(link), _) => link.to_vec(),
            (None, Some(link)) => self.decoded(link.clone()),
            (None, None) => self.decoded(header.link().to_vec()),
        };
        let own_size = self.number("size")?;
        let size = match own_size {
            Some(size) => size,
            None => header.size().and_then(|size| u64::try_from(size).ok()).ok_or("its size is not a number")?,
        };
        let mut remarks = Vec::new();
        let kind = match flag {
            // As the first form of tar tells a directory, and most readers take it from every form.
            b'0' | 0 | b'7' if name.ends_with(b"/") && size == 0 => MemberKind::Directory,
            b'0' | 0 | b'7' | b'S' => MemberKind::File,
            b'1' => MemberKind::HardLink,
            b'2' => MemberKind::Symlink,
            b'3' => MemberKind::CharacterDevice,
            b'4' => MemberKind::BlockDevice,
            b'5' | b'D' => MemberKind::Directory,
            b'6' => MemberKind::Fifo,
            _ => {
                remarks.push(format!("unknown type '{}': kept as a file", char::from(flag).escape_default()));
                MemberKind::File
            }
        };
        let stored = match kind {
            MemberKind::File => size,
            // Lists of names that GNU tar writes into incremental archives.
            MemberKind::Directory if flag == b'D' => size,
            // POSIX allows content here; only those who write it say so in a pax header.
            MemberKind::HardLink => own_size.unwrap_or(0),
            _ => 0,
        };
        if stored > MAX_OFFSET {
            return Err(Wrong::Error(Error::Limit { what: "size of a file", found: stored, limit: MAX_OFFSET }));
        }
        let id = |key, field: Option<i64>| -> Result<u64, Wrong> {
            Ok(match self.number(key)? {
                Some(id) => id,
                None => field.and_then(|id| u64::try_from(id).ok()).unwrap_or(0),
            })
        };
        let mut owner_name = |key: &str, field: &[u8], whose: &str| {
            let name = self.record(key).unwrap_or(field);
            if name.len() <= MAX_OWNER_NAME {
                return name.to_vec();
            }
            remarks.push(format!("the name of its {whose} is left out: it has {} bytes, more than {MAX_OWNER_NAME}", name.len()));
            Vec::new()
        };
        let user = owner_name("uname", header.user(), "owner");
        let group = owner_name("gname", header.group(), "group");
        let modified = self.next.time("mtime").or_else(|| self.global.time("mtime"));
        let device = header.device().map(|(major, minor)| Device { major, minor });
        let is_device = matches!(kind, MemberKind::CharacterDevice | MemberKind::BlockDevice);
        let mut member = Box::new(Member {
            kind,
            size: if kind == MemberKind::File { stored } else { 0 },
            segments: None,
            stored,
            header: first,
            data: 0,
            mode: header.mode().and_then(|mode| u16::try_from(mode & 0o7777).ok()).unwrap_or(0o644),
            user_id: id("uid", header.user_id())?,
            group_id: id("gid", header.group_id())?,
            user,
            group,
            modified: modified.or_else(|| header.modified().map(|seconds| Timestamp { seconds, nanoseconds: 0 })),
            device: if is_device { Some(device.ok_or("its device numbers are not numbers")?) } else { None },
            attributes: self.attributes(&mut remarks),
            name,
            link,
            remarks,
        });
        self.start(flag, header, &mut member).map(|map| map.unwrap_or_default()).and_then(|begun| {
            self.long_name = None;
            self.long_link = None;
            self.first = None;
            self.next = Records::default();
            match begun {
                Begun::Plain => Ok(self.plain(member)),
                Begun::Known(map) => self.sparse(member, map).map_err(Wrong::Error),
                Begun::OldMap(map) => {
                    self.state = State::OldMap { member, map };
                    Ok(Event::More)
                }
                Begun::NewMap => {
                    self.state = State::NewMap { member, lines: Lines::default() };
                    Ok(Event::More)
                }
            }
        })
    }

    /// Tells how the holes of an entry are written.
    fn start(&self, flag: u8, header: &Header<'_>, member: &mut Member) -> Result<Option<Begun>, Wrong> {
        if member.kind != MemberKind::File {
            return Ok(None);
        }
        if flag == b'S' && self.next.get("GNU.sparse.major").is_none() {
            let (pairs, more, size) = header.sparse();
            member.size = size.and_then(|size| u64::try_from(size).ok()).ok_or("the length of a sparse file is not a number")?;
            let mut map = Vec::new();
            sparse::parse_old(pairs, &mut map)?;
            return Ok(Some(if more { Begun::OldMap(map) } else { Begun::Known(map) }));
        }
        let real = match self.next.number("GNU.sparse.realsize")? {
            Some(size) => Some(size),
            None => self.next.number("GNU.sparse.size")?,
        };
        let Some(size) = real else { return Ok(None) };
        member.size = size;
        Ok(Some(if self.next.get("GNU.sparse.major") == Some(b"1") {
            Begun::NewMap
        } else if let Some(list) = self.next.get("GNU.sparse.map") {
            Begun::Known(sparse::parse_list(list)?)
        } else {
            Begun::Known(self.next.sparse.clone())
        }))
    }

    fn plain(&mut self, mut member: Box<Member>) -> Event<'static> {
        let stored = member.stored;
        member.data = self.offset;
        // Data of entries that are not files is passed over.
        if member.kind != MemberKind::File {
            member.stored = 0;
            self.state = State::Content { stored: 0, at: 0, size: 0, segments: VecDeque::new(), padding: padded(stored) };
            return Event::Member(member);
        }
        let segments = if stored > 0 { VecDeque::from([(0, stored)]) } else { VecDeque::new() };
        self.state = State::Content { stored, at: 0, size: stored, segments, padding: padded(stored) - stored };
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
        self.state = State::Content { stored, at: 0, size, segments: map.into(), padding: padded(stored) - stored };
        Ok(Event::Member(member))
    }

    /// Returns the extended attributes that the records tell of. Those of all entries are the same ones for each that has none of its own; what is
    /// wrong with them is told of the first.
    fn attributes(&mut self, remarks: &mut Vec<String>) -> Arc<[Attribute]> {
        if attributes::has_any(&self.next) {
            return attributes::parse(&self.global, &self.next, remarks);
        }
        if self.global_attributes.is_none() {
            self.global_attributes = Some(attributes::parse(&self.global, &self.next, remarks));
        }
        self.global_attributes.clone().unwrap_or_default()
    }
}

/// How the content of an entry begins.
#[derive(Default)]
enum Begun {
    #[default]
    Plain,
    Known(Vec<Segment>),
    OldMap(Vec<Segment>),
    NewMap,
}

fn wrong(offset: u64, detail: impl Into<String>) -> Error {
    Error::corrupt("tar header", offset, detail)
}

fn size_of(header: &Header<'_>, at: u64) -> Result<u64> {
    let size = header.size().and_then(|size| u64::try_from(size).ok());
    size.filter(|&size| size <= MAX_OFFSET).ok_or_else(|| wrong(at, "its size is not a number"))
}

/// Rounds up to whole blocks.
fn padded(len: u64) -> u64 {
    len.next_multiple_of(BLOCK as u64)
}
