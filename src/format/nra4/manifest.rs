//! The tables that a manifest is turned into while it is parsed.
//!
//! Records come in any order: chunks get their numbers when their hash is met first, in the chunk table or in the recipe of a file.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::extra::Facts;
use super::header::Header;
use super::names::Names;
use super::packed::Window;
use super::records;
use crate::format::entry::{Attribute, Kind, Metadata};
use crate::format::error::{Error, Result};
use crate::format::path::is_unsafe_to_show;
use crate::format::source::ReadAt;
use crate::format::table::{Item, Table, TableBuilder};

/// Longest content of a block that is decoded as a whole, bytes. Blocks of 4.5 have up to 4 MiB and those of 1 (size) mostly 64 MiB.
pub(super) const MAX_WHOLE: u64 = 128 << 20;
/// First bytes of a MessagePack manifest.
pub(super) const PREFIX: [u8; 4] = [0x4e, 0x52, 0x41, 1];
/// Block number of a chunk that is in no block.
const NOWHERE: u32 = u32::MAX;

/// How the stored bytes of a block are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Coding {
    /// The first byte tells (4.5).
    Tagged,
    /// A zstd frame (1).
    Zstd,
    /// The content itself (1).
    None,
    /// One that earlier versions name but do not read (1).
    Unknown,
}

/// A block: bytes stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Block {
    pub(super) offset: u64,
    /// Bytes as stored.
    pub(super) stored: u64,
    pub(super) crc: u32,
    pub(super) coding: Coding,
    /// End of the last chunk in it, of those that end before [`MAX_WHOLE`].
    pub(super) raw: u32,
}

/// A run of bytes of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// What it is called: its BLAKE3 if `named`.
    pub(super) hash: [u8; 32],
    block: u32,
    /// The hash is one, not some other text.
    pub(super) named: bool,
    /// Where it lies in the content of the block.
    pub(super) inner: u64,
    pub(super) size: u64,
}

/// What a manifest says, ready for look-ups.
pub(super) struct Manifest {
    /// It is one of version 1.
    pub(super) first: bool,
    pub(super) name: String,
    pub(super) encrypted: bool,
    pub(super) dictionary: Option<Vec<u8>>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) blocks: Vec<Block>,
    chunks: Vec<Chunk>,
    /// Chunks of all files in a row.
    recipes: Vec<u32>,
    /// For each of them, where it ends if all files are laid one behind the other.
    ends: Vec<u64>,
    /// For each file, where its recipe ends.
    files: Vec<u32>,
}

/// Chunks of one file.
#[derive(Clone, Copy)]
pub(super) struct Recipe<'a> {
    chunks: &'a [u32],
    ends: &'a [u64],
    base: u64,
}

impl<'a> Recipe<'a> {
    /// Length of the content, bytes.
    pub(super) fn len(&self) -> u64 {
        self.ends.last().map_or(0, |end| end - self.base)
    }

    /// Returns the chunks from the one that holds byte `offset` on, with the offset at which each begins.
    pub(super) fn from(&self, offset: u64) -> impl Iterator<Item = (u64, u32)> {
        let first = self.ends.partition_point(|&end| end - self.base <= offset);
        let start = move |index: usize| if index == 0 { 0 } else { self.ends[index - 1] - self.base };
        (first..self.chunks.len()).map(move |index| (start(index), self.chunks[index]))
    }

    /// Returns the numbers of all its chunks.
    pub(super) fn chunks(&self) -> &'a [u32] {
        self.chunks
    }
}

impl Manifest {
    /// Parses the manifest of `source` into tables of at most `limit` bytes.
    pub(super) fn parse(source: &dyn ReadAt, header: &Header, limit: u64) -> Result<(Self, Entries<Table>)> {
        let Header { manifest_offset: offset, manifest_len: len } = *header;
        let mut building = Building::new(usize::try_from(len).unwrap_or(usize::MAX), limit);
        let mut window = Window::new(source, offset, len);
        let parsed = if window.skip_prefix(&PREFIX) {
            records::parse_packed(&mut window, &mut building)
        } else if window.peek(1) == b"{" {
            let len = usize::try_from(len).map_err(|_| building.too_large(len))?;
            let mut bytes = vec![0; len];
            source.read_exact_at(offset, &mut bytes)?;
            records::parse_json(&bytes, &mut building)
        } else {
            let found = window.peek(4).iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(window.take_failure().unwrap_or(Error::Unsupported {
                what: "manifest encoding",
                found,
                known: "MessagePack, JSON".into(),
            }));
        };
        if let Some(error) = building.failed.take().or(window.take_failure()) {
            return Err(error);
        }
        // What is wrong may be told in words of the file.
        let harmless = |detail: String| detail.replace(is_unsafe_to_show, "?");
        parsed.map_err(|detail| Error::corrupt("manifest", offset, harmless(detail)))?;
        building.finish()
    }

    /// Returns the chunks of a file.
    pub(super) fn recipe(&self, file: u64) -> Recipe<'_> {
        let file = usize::try_from(file).expect("a number that was given to a file");
        let start = if file == 0 { 0 } else { self.files[file - 1] as usize };
        let end = self.files[file] as usize;
        let base = if start == 0 { 0 } else { self.ends[start - 1] };
        Recipe { chunks: &self.recipes[start..end], ends: &self.ends[start..end], base }
    }

    /// Returns a chunk and the number of its block; no number for one that the chunk table does not have.
    pub(super) fn chunk(&self, number: u32) -> (&Chunk, Option<u32>) {
        let chunk = &self.chunks[number as usize];
        (chunk, (chunk.block != NOWHERE).then_some(chunk.block))
    }

    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Returns where the content of a file begins: the offset of the block, and the place in its content.
    pub(super) fn place(&self, file: u64) -> (u64, u64) {
        let first = self.recipe(file).chunks.first().map(|&number| self.chunk(number));
        match first {
            Some((chunk, Some(block))) => (self.blocks[block as usize].offset, chunk.inner),
            _ => (0, 0),
        }
    }
}

/// A record of the chunk table, or what a file of version 1 says in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub(super) offset: u64,
    pub(super) stored: u64,
    pub(super) size: u64,
    pub(super) inner: u64,
    pub(super) crc: u32,
    pub(super) coding: Coding,
}

/// A file record in the making.
#[derive(Default)]
pub(super) struct File {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) attributes: Vec<Attribute>,
    /// What this version keeps beside.
    pub(super) facts: Option<Facts>,
}

/// The entries of a manifest.
pub(super) enum Entries<T> {
    /// Files of which a name and a size are known; they fit into a table.
    Names(Names),
    /// Any, in a table.
    Table(T),
}

/// Tables in the making.
pub(super) struct Building {
    manifest: Manifest,
    entries: Entries<TableBuilder>,
    numbers: HashTable<u32>,
    /// The chunk behind the one that a recipe had last.
    next: u32,
    /// Keeps those who choose hashes from choosing where they fall.
    seed: u64,
    plain: Arc<Metadata>,
    /// First files of hard link groups.
    groups: HashMap<u64, u64>,
    limit: u64,
    /// About as many records of some kind are in a manifest of this length, if they are not tiny.
    likely: usize,
    /// Why parsing was ended.
    failed: Option<Error>,
}

impl Building {
    fn new(manifest_len: usize, limit: u64) -> Self {
        let manifest = Manifest {
            first: false,
            name: String::new(),
            encrypted: false,
            dictionary: None,
            attributes: Vec::new(),
            blocks: Vec::new(),
            chunks: Vec::new(),
            recipes: Vec::new(),
            ends: Vec::new(),
            files: Vec::new(),
        };
        Self {
            manifest,
            entries: Entries::Names(Names::new(limit)),
            numbers: HashTable::new(),
            next: 0,
            seed: RandomState::new().hash_one(0),
            plain: Arc::new(Metadata { mode: 0o644, ..Metadata::default() }),
            groups: HashMap::new(),
            limit,
            likely: manifest_len / 100,
            failed: None,
        }
    }

    pub(super) fn manifest(&mut self) -> &mut Manifest {
        &mut self.manifest
    }

    /// Ends parsing.
    pub(super) fn fail(&mut self, error: Error) -> &'static str {
        self.failed = Some(error);
        "a limit is reached"
    }

    /// Makes room for `count` chunks.
    pub(super) fn expect_chunks(&mut self, count: usize) {
        let count = count.min(self.likely);
        self.manifest.chunks.reserve(count);
        let (chunks, seed) = (&self.manifest.chunks, self.seed);
        self.numbers.reserve(count, |&number| key(&chunks[number as usize].hash, seed));
    }

    /// Makes room for `count` files.
    pub(super) fn expect_files(&mut self, count: usize) {
        let count = count.min(self.likely);
        self.manifest.files.reserve(count);
        self.manifest.recipes.reserve(count);
        match &mut self.entries {
            Entries::Names(names) => names.reserve(count),
            Entries::Table(table) => table.reserve(count),
        }
    }

    /// Takes a record of the chunk table. Of two of the same hash the later one counts.
    pub(super) fn add_chunk(&mut self, hash: &Hash, stored: &Stored) -> Result<()> {
        let number = self.number(hash)?;
        self.place_chunk(number, stored)
    }

    /// Adds a chunk to the recipe of the file in work.
    pub(super) fn add_to_recipe(&mut self, hash: &Hash) -> Result<()> {
        // Files follow each other as their chunks do, but for those that were there before.
        let follows = |chunk: &Chunk| chunk.hash == hash.bytes && chunk.named == hash.named;
        let number = match self.manifest.chunks.get(self.next as usize) {
            Some(chunk) if follows(chunk) => self.next,
            _ => self.number(hash)?,
        };
        self.next = number.saturating_add(1);
        self.manifest.recipes.push(number);
        self.check_memory()
    }

    /// Adds the one chunk of a file of version 1.
    pub(super) fn add_own_chunk(&mut self, stored: &Stored) -> Result<()> {
        let number = self.push_chunk(&Hash { bytes: [0; 32], named: false })?;
        self.place_chunk(number, stored)?;
        self.manifest.recipes.push(number);
        self.check_memory()
    }

    /// Takes a file, now that its recipe is complete.
    pub(super) fn add_file(&mut self, file: File) -> Result<()> {
        let number = self.manifest.files.len() as u64;
        let end = u32::try_from(self.manifest.recipes.len()).map_err(|_| self.too_large(u64::MAX))?;
        self.manifest.files.push(end);
        let File { name, size, attributes, facts } = file;
        let is_plain = facts.is_none() && attributes.is_empty();
        if let Entries::Names(names) = &mut self.entries
            && is_plain
            && names.add(&name, size)
        {
            return Ok(());
        }
        let Some(facts) = facts else {
            let metadata = if attributes.is_empty() {
                Arc::clone(&self.plain)
            } else {
                let mut attributes = attributes;
                attributes.sort();
                attributes.dedup_by(|a, b| (a.namespace, &a.name) == (b.namespace, &b.name));
                Arc::new(Metadata { attributes: attributes.into(), ..(*self.plain).clone() })
            };
            return self.table()?.add(&name, Item { number, size, ..Item::with_metadata(Kind::File, metadata) });
        };
        let Facts { kind, metadata, modified, link_group, target, device, path } = facts;
        let number = if link_group == 0 || kind != Kind::File { number } else { self.leader(link_group, number) };
        let link_group = if kind == Kind::File { link_group } else { 0 };
        let item = Item { kind, size, modified, metadata, link_group, target, device, number, place: (0, 0) };
        self.table()?.add(path.as_deref().unwrap_or(&name), item)
    }

    /// Returns the table, which is made of the names so far when the first entry comes that needs one.
    fn table(&mut self) -> Result<&mut TableBuilder> {
        if let Entries::Names(names) = &self.entries {
            // Places are known at the end.
            let mut table = names.table(self.limit, |_| (0, 0))?;
            table.reserve(names.room());
            self.entries = Entries::Table(table);
        }
        match &mut self.entries {
            Entries::Table(table) => Ok(table),
            Entries::Names(_) => unreachable!("they were made into a table"),
        }
    }

    /// Returns the number of the first file of a hard link group if `number`, the one just added, has the same chunks.
    fn leader(&mut self, group: u64, number: u64) -> u64 {
        let leader = *self.groups.entry(group).or_insert(number);
        let chunks = |file: u64| {
            let file = usize::try_from(file).expect("a number that was given to a file");
            let start = if file == 0 { 0 } else { self.manifest.files[file - 1] as usize };
            &self.manifest.recipes[start..self.manifest.files[file] as usize]
        };
        if chunks(leader) == chunks(number) { leader } else { number }
    }

    fn finish(self) -> Result<(Manifest, Entries<Table>)> {
        let Self { mut manifest, entries, numbers, .. } = self;
        drop(numbers);
        let mut end = 0u64;
        manifest.ends = Vec::with_capacity(manifest.recipes.len());
        for &number in &manifest.recipes {
            // What does not fit is damage of the file that it belongs to; the sum is compared when that is read.
            end = end.saturating_add(manifest.chunks[number as usize].size);
            manifest.ends.push(end);
        }
        let entries = match entries {
            Entries::Names(names) => Entries::Names(names),
            Entries::Table(mut table) => {
                table.set_places(|file| manifest.place(file));
                Entries::Table(table.finish()?)
            }
        };
        Ok((manifest, entries))
    }

    fn number(&mut self, hash: &Hash) -> Result<u32> {
        let slot = key(&hash.bytes, self.seed);
        let chunks = &self.manifest.chunks;
        let same = |&number: &u32| {
            let chunk = &chunks[number as usize];
            chunk.hash == hash.bytes && chunk.named == hash.named
        };
        if let Some(&number) = self.numbers.find(slot, same) {
            return Ok(number);
        }
        let number = self.push_chunk(hash)?;
        let (chunks, seed) = (&self.manifest.chunks, self.seed);
        self.numbers.insert_unique(slot, number, |&number| key(&chunks[number as usize].hash, seed));
        Ok(number)
    }

    fn push_chunk(&mut self, hash: &Hash) -> Result<u32> {
        let number = u32::try_from(self.manifest.chunks.len()).map_err(|_| self.too_large(u64::MAX))?;
        self.manifest.chunks.push(Chunk { hash: hash.bytes, named: hash.named, block: NOWHERE, inner: 0, size: 0 });
        self.check_memory()?;
        Ok(number)
    }

    fn place_chunk(&mut self, number: u32, stored: &Stored) -> Result<()> {
        let Manifest { blocks, chunks, .. } = &mut self.manifest;
        let is_same = |block: &Block| {
            (block.offset, block.stored, block.crc, block.coding) == (stored.offset, stored.stored, stored.crc, stored.coding)
        };
        if !blocks.last().is_some_and(is_same) {
            let Stored { offset, stored, crc, coding, .. } = *stored;
            blocks.push(Block { offset, stored, crc, coding, raw: 0 });
        }
        let block = blocks.last_mut().expect("one was just added");
        let end = stored.inner.checked_add(stored.size).filter(|&end| end <= MAX_WHOLE);
        let end = end.and_then(|end| u32::try_from(end).ok()).unwrap_or(0);
        block.raw = block.raw.max(end);
        let block = u32::try_from(blocks.len() - 1).ok().filter(|&block| block != NOWHERE);
        let chunk = &mut chunks[number as usize];
        (chunk.inner, chunk.size) = (stored.inner, stored.size);
        match block {
            Some(block) => chunk.block = block,
            None => return Err(self.too_large(u64::MAX)),
        }
        self.check_memory()
    }

    fn check_memory(&self) -> Result<()> {
        let Manifest { blocks, chunks, recipes, files, .. } = &self.manifest;
        let tables =
            size_of_val(&**blocks) + size_of_val(&**chunks) + recipes.len() * (4 + size_of::<u64>()) + size_of_val(&**files);
        let found = (tables + self.numbers.len() * 6) as u64;
        if found > self.limit { Err(self.too_large(found)) } else { Ok(()) }
    }

    fn too_large(&self, found: u64) -> Error {
        Error::Limit { what: "memory for the manifest", found, limit: self.limit }
    }
}

/// Where the table of numbers has a hash.
fn key(hash: &[u8; 32], seed: u64) -> u64 {
    xxh3_64_with_seed(hash, seed)
}

/// Name of a chunk: its BLAKE3 in hex, or (in files that no tool of ours wrote) any other text, which then is told by its own digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    bytes: [u8; 32],
    named: bool,
}

impl From<&str> for Hash {
    fn from(text: &str) -> Self {
        match unhex(text.as_bytes()) {
            Some(bytes) => Self { bytes, named: true },
            None => Self { bytes: *blake3::hash(text.as_bytes()).as_bytes(), named: false },
        }
    }
}

/// Returns the bytes that 64 lower-case hex digits stand for.
fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let (mut values, mut wrong) = ([0u8; 64], false);
    // Without a way out of the loop and without a table, so that many digits are done at once: a manifest has many thousands of these
    // texts, and hardly ever another one.
    for (value, &byte) in values.iter_mut().zip(text) {
        let (digit, letter) = (byte.wrapping_sub(b'0'), byte.wrapping_sub(b'a'));
        *value = if digit < 10 { digit } else { letter.wrapping_add(10) };
        wrong |= digit >= 10 && letter >= 6;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(values.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    (!wrong).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_chunks_are_digests_or_text() {
        let digest = blake3::hash(b"x");
        assert_eq!(Hash::from(digest.to_hex().as_str()), Hash { bytes: *digest.as_bytes(), named: true });
        for other in ["", "one", &digest.to_hex().to_uppercase(), &digest.to_hex()[1..], &format!("{}g", &digest.to_hex()[1..])] {
            assert!(!Hash::from(other).named, "{other}");
        }
    }
}
