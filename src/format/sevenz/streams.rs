//! Parses the part of a header that describes packed streams, folders and contents.

use std::ops::Range;
use std::sync::Arc;

use super::decode::OneFolder;
use super::start::START_LEN;
use super::{Bits, count, number, put_number};
use nra_core::error::Error;
use nra_core::source::ReadAt;
use nra_core::wire::{Cursor, Malformed};

/// IDs of parts.
const END: u64 = 0;
const PACK_INFO: u64 = 6;
const UNPACK_INFO: u64 = 7;
const SUB_STREAMS: u64 = 8;
const SIZE: u64 = 9;
const CRC: u64 = 0x0a;
const FOLDER: u64 = 0x0b;
const UNPACK_SIZE: u64 = 0x0c;
const SUB_STREAM_COUNT: u64 = 0x0d;
/// Most coders of a folder and most of their inputs, as in 7-Zip.
const MAX_CODERS: usize = 64;
const MAX_INPUTS: u64 = 64;

/// IDs of methods with a dictionary or a model.
const LZMA: &[u8] = &[3, 1, 1];
const LZMA2: &[u8] = &[0x21];
const PPMD: &[u8] = &[3, 4, 1];
const ZSTD: &[u8] = &[4, 0xf7, 0x11, 1];
const BROTLI: &[u8] = &[4, 0xf7, 0x11, 2];
const AES: &[u8] = &[6, 0xf1, 7, 1];
/// Memory of methods whose properties do not state it, bytes: the largest window of zstd is 128
/// MiB, that of brotli 16 MiB.
const WINDOW: u64 = 128 << 20;
const SMALL_WINDOW: u64 = 16 << 20;

/// A sequence of members that are compressed as one.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    /// Range of its description in the header.
    coders: Range<usize>,
    /// Lengths of the outputs of its coders, in [`Streams::sizes`].
    sizes: Range<usize>,
    /// Its packed streams, in [`Streams::packs`].
    packs: Range<usize>,
    /// Length of its content, bytes.
    pub size: u64,
    /// Checksum of its content.
    pub crc: Option<u32>,
    /// One of its coders is decryption.
    pub is_encrypted: bool,
    /// Memory for its dictionaries and models, bytes.
    pub memory: u64,
}

/// The length and checksum of a member's content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    pub size: u64,
    pub crc: Option<u32>,
}

/// The streams described by a header.
#[derive(Debug, Default)]
pub(super) struct Streams {
    text: Arc<[u8]>,
    /// Offsets after the start header, and lengths.
    packs: Vec<(u64, u64)>,
    sizes: Vec<u64>,
    pub folders: Vec<Folder>,
    /// Number of members of each folder.
    pub counts: Vec<usize>,
    /// Contents of the members of all folders.
    pub contents: Vec<Content>,
}

/// Why a header cannot be parsed.
pub(super) enum HeaderError {
    Malformed(Malformed),
    Unsupported(String),
    Other(Error),
}

impl From<Malformed> for HeaderError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl HeaderError {
    /// Returns the error for a header at `offset`.
    pub fn at(self, offset: u64) -> Error {
        match self {
            Self::Malformed(detail) => Error::corrupt("7z header", offset, detail),
            Self::Unsupported(found) => Error::Unsupported { what: "7z header with", found, known: "none of that kind".into() },
            Self::Other(error) => error,
        }
    }
}

/// The description of a folder.
struct Description {
    outputs: usize,
    packs: usize,
    /// The coder whose output is the content.
    main: usize,
    is_encrypted: bool,
    memory: u64,
}

impl Streams {
    /// Parses the part after its ID. `text` is the start of `cursor`; packed streams end at `body`
    /// after the start header.
    pub fn parse(cursor: &mut Cursor<'_>, text: &[u8], body: u64) -> Result<Self, HeaderError> {
        let mut streams = Self { text: text.into(), ..Self::default() };
        let mut id = number(cursor)?;
        if id == PACK_INFO {
            streams.packs(cursor, body)?;
            id = number(cursor)?;
        }
        if id == UNPACK_INFO {
            streams.folders(cursor)?;
            id = number(cursor)?;
        }
        if id == SUB_STREAMS {
            streams.members(cursor)?;
            id = number(cursor)?;
        } else {
            streams.counts = vec![1; streams.folders.len()];
            streams.contents = streams.folders.iter().map(|folder| Content { size: folder.size, crc: folder.crc }).collect();
        }
        if id != END {
            return Err(format!("unexpected part {id:#x} among the streams").into());
        }
        Ok(streams)
    }

    fn packs(&mut self, cursor: &mut Cursor<'_>, body: u64) -> Result<(), Malformed> {
        let mut at = number(cursor)?;
        let streams = count(cursor, "packed streams")?;
        let mut id = number(cursor)?;
        if id == SIZE {
            for _ in 0..streams {
                let len = number(cursor)?;
                self.packs.push((at, len));
                at = at
                    .checked_add(len)
                    .filter(|&end| end <= body)
                    .ok_or_else(|| format!("a packed stream of {len} bytes at {at} exceeds the content of {body} bytes"))?;
            }
            id = number(cursor)?;
        }
        if id == CRC {
            checksums(cursor, streams, |_, _| ())?;
            id = number(cursor)?;
        }
        end(id, "packed streams")
    }

    fn folders(&mut self, cursor: &mut Cursor<'_>) -> Result<(), HeaderError> {
        expect(number(cursor)?, FOLDER)?;
        let folders = count(cursor, "folders")?;
        internal(cursor)?;
        let len = self.text.len();
        let mut mains = Vec::new();
        for _ in 0..folders {
            let start = len - cursor.remaining();
            let Description { outputs, packs, main, is_encrypted, memory } = describe(cursor)?;
            let first = self.folders.last().map_or(0, |folder: &Folder| folder.packs.end);
            if first + packs > self.packs.len() {
                return Err(HeaderError::Malformed("folders have more packed streams than there are".into()));
            }
            mains.push(main);
            self.folders.push(Folder {
                coders: start..len - cursor.remaining(),
                sizes: 0..outputs,
                packs: first..first + packs,
                size: 0,
                crc: None,
                is_encrypted,
                memory,
            });
        }
        expect(number(cursor)?, UNPACK_SIZE)?;
        for (folder, main) in self.folders.iter_mut().zip(mains) {
            let start = self.sizes.len();
            for _ in folder.sizes.clone() {
                self.sizes.push(number(cursor)?);
            }
            folder.sizes = start..self.sizes.len();
            folder.size = self.sizes[start + main];
        }
        let mut id = number(cursor)?;
        if id == CRC {
            let folders = &mut self.folders;
            checksums(cursor, folders.len(), |number, crc| folders[number].crc = Some(crc))?;
            id = number(cursor)?;
        }
        Ok(end(id, "folders")?)
    }

    fn members(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        let mut id = number(cursor)?;
        self.counts = vec![1; self.folders.len()];
        if id == SUB_STREAM_COUNT {
            for members in &mut self.counts {
                *members = count(cursor, "members")?;
            }
            id = number(cursor)?;
        }
        let mut unknown = 0;
        for (folder, &members) in self.folders.iter().zip(&self.counts) {
            let Some(explicit) = members.checked_sub(1) else { continue };
            if explicit > 0 && id != SIZE {
                return Err(format!("a folder has {members} members without lengths"));
            }
            let mut left = folder.size;
            for _ in 0..explicit {
                let size = number(cursor)?;
                left = left.checked_sub(size).ok_or("the members of a folder are longer than the folder")?;
                self.contents.push(Content { size, crc: None });
            }
            // The checksum of a folder is that of its only member.
            let crc = folder.crc.filter(|_| members == 1);
            self.contents.push(Content { size: left, crc });
            unknown += if crc.is_none() { members } else { 0 };
        }
        if id == SIZE {
            id = number(cursor)?;
        }
        if id == CRC {
            let mut rest = self.contents.iter_mut().filter(|content| content.crc.is_none());
            checksums_in_order(cursor, unknown, |crc| {
                if let Some(content) = rest.next() {
                    content.crc = crc;
                }
            })?;
            id = number(cursor)?;
        }
        end(id, "members")
    }

    /// Returns an archive of this folder. `base` is the offset of the archive in `source`.
    pub fn file(&self, folder: &Folder, source: &Arc<dyn ReadAt>, base: u64) -> OneFolder {
        let packs = &self.packs[folder.packs.clone()];
        let (first, end) = match (packs.first(), packs.last()) {
            (Some(first), Some(last)) => (first.0, last.0 + last.1),
            _ => (0, 0),
        };
        // Header, packed streams.
        let mut header = vec![1, 4, 6];
        put_number(&mut header, first);
        put_number(&mut header, packs.len() as u64);
        header.push(9);
        packs.iter().for_each(|(_, len)| put_number(&mut header, *len));
        // One folder.
        header.extend([0, 7, 0x0b, 1, 0]);
        header.extend_from_slice(&self.text[folder.coders.clone()]);
        header.push(0x0c);
        self.sizes[folder.sizes.clone()].iter().for_each(|size| put_number(&mut header, *size));
        // As many members as folders. One file with the name `m`.
        header.extend([0, 8, 0, 0, 5, 1, 0x11, 5, 0, b'm', 0, 0, 0, 0, 0]);
        let streams = base + START_LEN;
        OneFolder::new(Arc::clone(source), streams..streams + end, header, streams + first, folder)
    }

    /// Returns the offset of a folder's packed streams in the file.
    pub fn place(&self, folder: usize, base: u64) -> u64 {
        let first = self.folders.get(folder).and_then(|folder| self.packs.get(folder.packs.start));
        base + START_LEN + first.map_or(0, |pack| pack.0)
    }

    /// Returns the length of a folder's packed streams, bytes.
    pub fn packed(&self, folder: &Folder) -> u64 {
        self.packs[folder.packs.clone()].iter().map(|(_, len)| len).sum()
    }

    /// Returns the memory used, bytes.
    pub fn memory(&self) -> u64 {
        let bytes = self.text.len()
            + self.packs.len() * size_of::<(u64, u64)>()
            + self.sizes.len() * size_of::<u64>()
            + self.folders.len() * (size_of::<Folder>() + size_of::<usize>())
            + self.contents.len() * size_of::<Content>();
        bytes as u64
    }
}

/// Parses the description of a folder.
fn describe(cursor: &mut Cursor<'_>) -> Result<Description, HeaderError> {
    let coders = count(cursor, "coders")?;
    if coders == 0 || coders > MAX_CODERS {
        return Err(HeaderError::Malformed(format!("a folder with {coders} coders")));
    }
    let (mut inputs, mut memory, mut is_encrypted) = (0u64, 0u64, false);
    for _ in 0..coders {
        let flags = cursor.u8()?;
        if flags & 0xc0 != 0 {
            return Err(HeaderError::Unsupported(format!("a method with flags {flags:#x}")));
        }
        let id = cursor.take(usize::from(flags & 0x0f))?;
        let mut own = 1;
        if flags & 0x10 != 0 {
            own = number(cursor)?;
            if number(cursor)? != 1 {
                return Err(HeaderError::Unsupported("a method with several outputs".into()));
            }
        }
        inputs = inputs.saturating_add(own);
        if inputs > MAX_INPUTS {
            return Err(HeaderError::Malformed(format!("a folder whose coders have {inputs} inputs")));
        }
        let properties = if flags & 0x20 != 0 { super::sized(cursor, "bytes of properties")? } else { &[] };
        is_encrypted |= id == AES;
        memory = memory.saturating_add(dictionary(id, properties));
    }
    let inputs = usize::try_from(inputs).expect("at most 64");
    let (mut bound_in, mut bound_out) = (0u64, 0u64);
    let bind = |bound: &mut u64, index: u64, count: usize| -> Result<(), Malformed> {
        let bit = 1u64.checked_shl(u32::try_from(index).unwrap_or(u32::MAX)).filter(|_| index < count as u64);
        match bit.filter(|bit| *bound & bit == 0) {
            Some(bit) => *bound |= bit,
            None => return Err("the coders of a folder are not bound one to one".into()),
        }
        Ok(())
    };
    for _ in 0..coders - 1 {
        bind(&mut bound_in, number(cursor)?, inputs)?;
        bind(&mut bound_out, number(cursor)?, coders)?;
    }
    let packs = inputs.checked_sub(coders - 1).filter(|&packs| packs > 0);
    let packs = packs.ok_or_else(|| Malformed::from("a folder without packed streams"))?;
    if packs > 1 {
        for _ in 0..packs {
            bind(&mut bound_in, number(cursor)?, inputs)?;
        }
    }
    let main = (0..coders).find(|&coder| bound_out & (1 << coder) == 0).expect("one output is not bound");
    Ok(Description { outputs: coders, packs, main, is_encrypted, memory })
}

/// Returns the memory that a method with these properties needs, bytes.
fn dictionary(id: &[u8], properties: &[u8]) -> u64 {
    let word = || properties.get(1..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    match id {
        LZMA | PPMD => word(),
        LZMA2 => match properties.first() {
            Some(&bits @ 0..40) => u64::from(2 | (bits & 1)) << (bits / 2 + 11),
            Some(_) => u64::from(u32::MAX),
            None => 0,
        },
        ZSTD => WINDOW,
        BROTLI => SMALL_WINDOW,
        _ => 0,
    }
}

fn checksums(cursor: &mut Cursor<'_>, count: usize, mut each: impl FnMut(usize, u32)) -> Result<(), Malformed> {
    let mut number = 0;
    checksums_in_order(cursor, count, |crc| {
        if let Some(crc) = crc {
            each(number, crc);
        }
        number += 1;
    })
}

fn checksums_in_order(cursor: &mut Cursor<'_>, count: usize, mut each: impl FnMut(Option<u32>)) -> Result<(), Malformed> {
    let known = Bits::read_all_or(cursor, count)?;
    for number in 0..count {
        each(if known.get(number) { Some(cursor.u32()?) } else { None });
    }
    Ok(())
}

/// Rejects parts in additional streams, which no program writes.
pub(super) fn internal(cursor: &mut Cursor<'_>) -> Result<(), HeaderError> {
    if cursor.u8()? == 0 { Ok(()) } else { Err(HeaderError::Unsupported("additional streams".into())) }
}

fn expect(id: u64, expected: u64) -> Result<(), Malformed> {
    if id == expected { Ok(()) } else { Err(format!("part {expected:#x} expected, {id:#x} found")) }
}

fn end(id: u64, what: &str) -> Result<(), Malformed> {
    if id == END { Ok(()) } else { Err(format!("unexpected part {id:#x} among {what}")) }
}
