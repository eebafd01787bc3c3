//! How the content is compressed: the part of a header that tells of packed streams, folders and members.

use std::ops::Range;
use std::sync::Arc;

use super::decode::OneFolder;
use super::start::START_LEN;
use super::{Bits, count, number, put_number};
use nra_core::error::Error;
use nra_core::source::ReadAt;
use nra_core::wire::{Cursor, Malformed};

/// Ids of parts.
const END: u64 = 0;
const PACK_INFO: u64 = 6;
const UNPACK_INFO: u64 = 7;
const SUB_STREAMS: u64 = 8;
const SIZE: u64 = 9;
const CRC: u64 = 0x0a;
const FOLDER: u64 = 0x0b;
const UNPACK_SIZE: u64 = 0x0c;
const SUB_STREAM_COUNT: u64 = 0x0d;
/// Steps of decoding that a folder may have, and streams that go into them: what 7-Zip accepts too.
const MAX_CODERS: usize = 64;
const MAX_INPUTS: u64 = 64;

/// Ids of methods that have a dictionary or a model.
const LZMA: &[u8] = &[3, 1, 1];
const LZMA2: &[u8] = &[0x21];
const PPMD: &[u8] = &[3, 4, 1];
const ZSTD: &[u8] = &[4, 0xf7, 0x11, 1];
const BROTLI: &[u8] = &[4, 0xf7, 0x11, 2];
const AES: &[u8] = &[6, 0xf1, 7, 1];
/// Memory of a method whose properties do not tell it, bytes: the window of zstd has at most 128 MiB, that of brotli 16 MiB.
const WINDOW: u64 = 128 << 20;
const SMALL_WINDOW: u64 = 16 << 20;

/// A row of members that are compressed as one.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    /// Its description in the header's text.
    coders: Range<usize>,
    /// Lengths of what each of its steps gives, in [`Streams::sizes`].
    sizes: Range<usize>,
    /// Its packed streams, in [`Streams::packs`].
    packs: Range<usize>,
    /// Length of its content, bytes.
    pub size: u64,
    /// Checksum of its content.
    pub crc: Option<u32>,
    /// One of its steps is decryption.
    pub is_encrypted: bool,
    /// Memory that its dictionaries and models take, bytes.
    pub memory: u64,
}

/// A member's content: its length and checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub size: u64,
    pub crc: Option<u32>,
}

/// What a header tells of content.
#[derive(Debug, Default)]
pub(super) struct Streams {
    text: Arc<[u8]>,
    /// Offsets behind the start header, and lengths.
    packs: Vec<(u64, u64)>,
    sizes: Vec<u64>,
    pub folders: Vec<Folder>,
    /// Number of members of each folder.
    pub counts: Vec<usize>,
    /// Members of all folders.
    pub parts: Vec<Part>,
}

/// What keeps streams from being read.
pub(super) enum Refused {
    Malformed(Malformed),
    Unsupported(String),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Refused {
    /// Makes an error of a header at `place`.
    pub fn at(self, place: u64) -> Error {
        match self {
            Self::Malformed(detail) => Error::corrupt("7z header", place, detail),
            Self::Unsupported(found) => Error::Unsupported { what: "7z header with", found, known: "none of that kind".into() },
        }
    }
}

/// What a description of a folder says.
struct Description {
    outputs: usize,
    packs: usize,
    /// The step whose output is the content.
    main: usize,
    is_encrypted: bool,
    memory: u64,
}

impl Streams {
    /// Parses the part behind its id. `text` is what `cursor` began with; packed streams end at `body` behind the start header.
    pub fn parse(cursor: &mut Cursor<'_>, text: &[u8], body: u64) -> Result<Self, Refused> {
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
            streams.parts = streams.folders.iter().map(|folder| Part { size: folder.size, crc: folder.crc }).collect();
        }
        if id != END {
            return Err(format!("part {id:#x} is not expected among the streams").into());
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
                    .ok_or_else(|| format!("a packed stream of {len} bytes at {at} ends behind all content, {body}"))?;
            }
            id = number(cursor)?;
        }
        if id == CRC {
            checksums(cursor, streams, |_, _| ())?;
            id = number(cursor)?;
        }
        ended(id, "packed streams")
    }

    fn folders(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        expected(number(cursor)?, FOLDER)?;
        let folders = count(cursor, "folders")?;
        internal(cursor)?;
        let len = self.text.len();
        let mut mains = Vec::new();
        for _ in 0..folders {
            let start = len - cursor.remaining();
            let Description { outputs, packs, main, is_encrypted, memory } = describe(cursor)?;
            let first = self.folders.last().map_or(0, |folder: &Folder| folder.packs.end);
            if first + packs > self.packs.len() {
                return Err(Refused::Malformed("folders have more packed streams than there are".into()));
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
        expected(number(cursor)?, UNPACK_SIZE)?;
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
        Ok(ended(id, "folders")?)
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
            let Some(told) = members.checked_sub(1) else { continue };
            if told > 0 && id != SIZE {
                return Err(format!("a folder of {members} members without their lengths"));
            }
            let mut left = folder.size;
            for _ in 0..told {
                let size = number(cursor)?;
                left = left.checked_sub(size).ok_or("the members of a folder are longer than it is")?;
                self.parts.push(Part { size, crc: None });
            }
            // What is known of the folder is known of its only member.
            let crc = folder.crc.filter(|_| members == 1);
            self.parts.push(Part { size: left, crc });
            unknown += if crc.is_none() { members } else { 0 };
        }
        if id == SIZE {
            id = number(cursor)?;
        }
        if id == CRC {
            let mut rest = self.parts.iter_mut().filter(|part| part.crc.is_none());
            checksums_in_order(cursor, unknown, |crc| {
                if let Some(part) = rest.next() {
                    part.crc = crc;
                }
            })?;
            id = number(cursor)?;
        }
        ended(id, "members")
    }

    /// Returns a file with this folder alone.
    pub fn file(&self, folder: &Folder, source: &Arc<dyn ReadAt>, base: u64) -> OneFolder {
        let packs = &self.packs[folder.packs.clone()];
        let (first, end) = match (packs.first(), packs.last()) {
            (Some(first), Some(last)) => (first.0, last.0 + last.1),
            _ => (0, 0),
        };
        // Header, streams: packed ones.
        let mut header = vec![1, 4, 6];
        put_number(&mut header, first);
        put_number(&mut header, packs.len() as u64);
        header.push(9);
        packs.iter().for_each(|(_, len)| put_number(&mut header, *len));
        // Folders: one.
        header.extend([0, 7, 0x0b, 1, 0]);
        header.extend_from_slice(&self.text[folder.coders.clone()]);
        header.push(0x0c);
        self.sizes[folder.sizes.clone()].iter().for_each(|size| put_number(&mut header, *size));
        // Members: as many as folders. Files: one, with the name `m`.
        header.extend([0, 8, 0, 0, 5, 1, 0x11, 5, 0, b'm', 0, 0, 0, 0, 0]);
        OneFolder::new(Arc::clone(source), (base, end), header, base + START_LEN + first, folder)
    }

    /// Returns where the packed bytes of a folder begin in the file.
    pub fn place(&self, folder: usize, base: u64) -> u64 {
        let first = self.folders.get(folder).and_then(|folder| self.packs.get(folder.packs.start));
        base + START_LEN + first.map_or(0, |pack| pack.0)
    }

    /// Returns how many packed bytes hold a folder.
    pub fn packed(&self, folder: &Folder) -> u64 {
        self.packs[folder.packs.clone()].iter().map(|(_, len)| len).sum()
    }

    /// Returns the bytes of memory that this takes.
    pub fn memory(&self) -> u64 {
        let bytes = self.text.len()
            + self.packs.len() * size_of::<(u64, u64)>()
            + self.sizes.len() * size_of::<u64>()
            + self.folders.len() * (size_of::<Folder>() + size_of::<usize>())
            + self.parts.len() * size_of::<Part>();
        bytes as u64
    }
}

/// Takes the description of a folder.
fn describe(cursor: &mut Cursor<'_>) -> Result<Description, Refused> {
    let coders = count(cursor, "steps of decoding")?;
    if coders == 0 || coders > MAX_CODERS {
        return Err(Refused::Malformed(format!("{coders} steps of decoding in a folder")));
    }
    let (mut inputs, mut memory, mut is_encrypted) = (0u64, 0u64, false);
    for _ in 0..coders {
        let flags = cursor.u8()?;
        if flags & 0xc0 != 0 {
            return Err(Refused::Unsupported(format!("a method with flags {flags:#x}")));
        }
        let id = cursor.take(usize::from(flags & 0x0f))?;
        let mut own = 1;
        if flags & 0x10 != 0 {
            own = number(cursor)?;
            if number(cursor)? != 1 {
                return Err(Refused::Unsupported("a method with several outputs".into()));
            }
        }
        inputs = inputs.saturating_add(own);
        if inputs > MAX_INPUTS {
            return Err(Refused::Malformed(format!("{inputs} streams into the steps of a folder")));
        }
        let properties = if flags & 0x20 != 0 { super::sized(cursor, "bytes of properties")? } else { &[] };
        is_encrypted |= id == AES;
        memory = memory.saturating_add(dictionary(id, properties));
    }
    let inputs = usize::try_from(inputs).expect("at most 64");
    let (mut bound_in, mut bound_out) = (0u64, 0u64);
    let bind = |bound: &mut u64, index: u64, most: usize| -> Result<(), Malformed> {
        let bit = 1u64.checked_shl(u32::try_from(index).unwrap_or(u32::MAX)).filter(|_| index < most as u64);
        match bit.filter(|bit| *bound & bit == 0) {
            Some(bit) => *bound |= bit,
            None => return Err("steps of a folder that are not bound one to one".into()),
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
    let main = (0..coders).find(|&coder| bound_out & (1 << coder) == 0).expect("one output less is bound than there are");
    Ok(Description { outputs: coders, packs, main, is_encrypted, memory })
}

/// Returns the memory that a method takes by its properties, bytes.
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
    let known = Bits::take_all_or(cursor, count)?;
    for number in 0..count {
        each(if known.get(number) { Some(cursor.u32()?) } else { None });
    }
    Ok(())
}

/// Refuses what lies in another stream: no program writes that.
pub(super) fn internal(cursor: &mut Cursor<'_>) -> Result<(), Refused> {
    if cursor.u8()? == 0 { Ok(()) } else { Err(Refused::Unsupported("parts in streams of their own".into())) }
}

fn expected(id: u64, wanted: u64) -> Result<(), Malformed> {
    if id == wanted { Ok(()) } else { Err(format!("part {wanted:#x} expected, {id:#x} found")) }
}

fn ended(id: u64, what: &str) -> Result<(), Malformed> {
    if id == END { Ok(()) } else { Err(format!("part {id:#x} is not expected among {what}")) }
}
