//! The tables that a manifest is turned into while it is parsed ([`Building`]).
//!
//! Records come in any order. Recipes are joined to the chunk table by hashes, when something is read: for a few files by passing over the
//! table, for more by a table of hashes.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::building::{Building, Entries};
use super::hash::Hash;
use super::header::Header;
use super::packed::Window;
use super::records;
use nra_core::entry::Attribute;
use nra_core::error::{Error, Result};
use nra_core::path::is_unsafe_to_show;
use nra_core::source::ReadAt;
use nra_core::table::Table;

/// Longest content of a block that is decoded as a whole, bytes. Blocks of 4.5 have up to 4 MiB and those of 1 (size) mostly 64 MiB.
pub(super) const MAX_WHOLE: u64 = 128 << 20;
/// First bytes of a MessagePack manifest.
pub(super) const PREFIX: [u8; 4] = [0x4e, 0x52, 0x41, 1];
/// So many look-ups pass over a list; those who look for more are better off with a table.
pub(super) const LOOKUPS: usize = 16;
/// Items of recipes from here on are numbers of strays, others those of chunks.
pub(super) const STRAY: u32 = 1 << 31;
/// In place of the number of a chunk that the chunk table does not have.
pub(super) const LOST: u32 = u32::MAX;

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
    /// What recipes call it; nothing for that of a file of version 1.
    pub(super) hash: Hash,
    /// Number of its block.
    pub(super) block: u32,
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
    pub(super) chunks: Vec<Chunk>,
    /// Chunks of all files in a row: the number of one with that hash, or from [`STRAY`] on that of a stray.
    pub(super) recipes: Vec<u32>,
    /// Hashes in recipes whose chunk was not the one behind the chunk before.
    pub(super) strays: Vec<Hash>,
    /// For each file, where its recipe ends.
    pub(super) files: Vec<u32>,
    /// Recipes that were joined by passing over all chunks.
    pub(super) passes: AtomicUsize,
    pub(super) joined: OnceLock<Joined>,
}

/// All recipes, joined to the chunk table.
pub(super) struct Joined {
    /// Chunks of all files in a row.
    chunks: Vec<u32>,
    /// For each of them, where it ends if all files are laid one behind the other.
    ends: Vec<u64>,
}

/// Chunks of one file.
#[derive(Clone)]
pub(super) struct Recipe<'a> {
    chunks: Cow<'a, [u32]>,
    ends: Cow<'a, [u64]>,
    base: u64,
}

impl Recipe<'_> {
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
    pub(super) fn chunks(&self) -> &[u32] {
        &self.chunks
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
        // Blocks do not overlap, but for damage in what one of them claims: decoding each of them costs what the file is long.
        let is_there = |block: &&Block| block.offset.checked_add(block.stored).is_some_and(|end| end <= source.len());
        let stored = building.manifest.blocks.iter().filter(is_there).fold(0u64, |sum, block| sum.saturating_add(block.stored));
        if stored / 2 > source.len() {
            return Err(Error::corrupt("manifest", offset, format!("its blocks have {stored} bytes, more than twice the file")));
        }
        building.finish()
    }

    /// Returns the chunks of a file.
    pub(super) fn recipe(&self, file: u64) -> Recipe<'_> {
        let items = self.items(file);
        let few = |items: usize| items <= LOOKUPS && self.passes.fetch_add(1, Ordering::Relaxed) < LOOKUPS;
        if self.joined.get().is_none() && few(items.len()) {
            let chunks: Vec<u32> = self.recipes[items].iter().map(|&item| self.last_of(item)).collect();
            let ends = self.ends(&chunks);
            return Recipe { chunks: chunks.into(), ends: ends.into(), base: 0 };
        }
        let Joined { chunks, ends } = self.join();
        let base = if items.start == 0 { 0 } else { ends[items.start - 1] };
        Recipe { chunks: chunks[items.clone()].into(), ends: ends[items].into(), base }
    }

    /// Joins all recipes to the chunk table: for those who want more than a few of them.
    pub(super) fn join(&self) -> &Joined {
        self.joined.get_or_init(|| {
            // Keeps those who choose hashes from choosing where they fall.
            let seed = RandomState::new().hash_one(0);
            let key = |hash: &Hash| xxh3_64_with_seed(&hash.bytes, seed);
            let hash = |&number: &u32| &self.chunks[number as usize].hash;
            let mut numbers: HashTable<u32> = HashTable::with_capacity(self.chunks.len());
            let mut unique = true;
            for (number, chunk) in (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.hash != Hash::NONE) {
                let same = |other: &u32| *hash(other) == chunk.hash;
                match numbers.entry(key(&chunk.hash), same, |number| key(hash(number))) {
                    Entry::Vacant(place) => drop(place.insert(number)),
                    // Of two of the same hash the later one counts.
                    Entry::Occupied(mut place) => (unique, *place.get_mut()) = (false, number),
                }
            }
            let join = |&item: &u32| match self.name(item) {
                None => item,
                Some(_) if unique && item < STRAY => item,
                Some(name) => numbers.find(key(name), |number| hash(number) == name).copied().unwrap_or(LOST),
            };
            let chunks: Vec<u32> = self.recipes.iter().map(join).collect();
            Joined { ends: self.ends(&chunks), chunks }
        })
    }

    /// Returns the hash that a file asks for with its chunk `index`, for messages.
    pub(super) fn asked(&self, file: u64, index: usize) -> String {
        let items = &self.recipes[self.items(file)];
        let name = items.get(index).and_then(|&item| self.name(item));
        name.map(|hash| blake3::Hash::from_bytes(hash.bytes).to_hex().to_string()).unwrap_or_default()
    }

    pub(super) fn items(&self, file: u64) -> Range<usize> {
        let file = usize::try_from(file).expect("a number that was given to a file");
        let start = if file == 0 { 0 } else { self.files[file - 1] as usize };
        start..self.files[file] as usize
    }

    /// Returns what an item of a recipe asks for; nothing for the chunk that a file has for itself.
    pub(super) fn name(&self, item: u32) -> Option<&Hash> {
        let hash = if item < STRAY { &self.chunks[item as usize].hash } else { &self.strays[(item - STRAY) as usize] };
        (*hash != Hash::NONE).then_some(hash)
    }

    /// Returns the number of the chunk that an item of a recipe asks for: the last one of that hash.
    fn last_of(&self, item: u32) -> u32 {
        let Some(name) = self.name(item) else { return item };
        let last = self.chunks.iter().rposition(|chunk| chunk.hash == *name);
        last.and_then(|number| u32::try_from(number).ok()).unwrap_or(LOST)
    }

    /// Returns where each chunk ends if they are laid one behind the other.
    fn ends(&self, chunks: &[u32]) -> Vec<u64> {
        let mut end = 0u64;
        let size = |number| self.chunk(number).map_or(0, |chunk| chunk.size);
        // What does not fit is damage of the file that it belongs to; the sum is compared when that is read.
        let next = |&number: &u32| {
            end = end.saturating_add(size(number));
            end
        };
        chunks.iter().map(next).collect()
    }

    /// Returns a chunk of a recipe, if the chunk table has it.
    pub(super) fn chunk(&self, number: u32) -> Option<&Chunk> {
        if number == LOST { None } else { self.chunks.get(number as usize) }
    }

    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Returns where the content of a file begins: the offset of the block, and the place in its content.
    pub(super) fn place(&self, file: u64) -> (u64, u64) {
        let first = self.recipe(file).chunks.first().and_then(|&number| self.chunk(number));
        first.map_or((0, 0), |chunk| (self.blocks[chunk.block as usize].offset, chunk.inner))
    }
}
