//! The tables that a manifest is parsed into.
//!
//! [`ManifestBuilder`] fills them, as records come in any order. Recipes refer to chunks by hash. They
//! are resolved when content is read: for a few files by a linear search of the chunk table, for more
//! with a hash table.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::chunk_hash::ChunkHash;
use super::header::Header;
use super::manifest_builder::{Entries, ManifestBuilder};
use super::messagepack::MessagePackReader;
use super::records;
use nra_core::entry::Attribute;
use nra_core::error::{Error, Result};
use nra_core::path::is_unsafe_to_show;
use nra_core::source::ReadAt;
use nra_core::table::Table;

/// Longest content of a block that is decoded as a whole, bytes.
///
/// Blocks of 4.5 have up to 4 MiB, those of version 1 (size) mostly 64 MiB.
pub(super) const MAX_BLOCK_RAW_LEN: u64 = 128 << 20;
/// First bytes of a MessagePack manifest.
pub(super) const MESSAGEPACK_PREFIX: [u8; 4] = [0x4e, 0x52, 0x41, 1];
/// Number of look-ups that search a list linearly. Later ones use a table.
pub(super) const LINEAR_LOOKUPS: usize = 16;
/// Recipe items from this value on are indexes into [`Manifest::unresolved`], smaller ones numbers of
/// chunks.
pub(super) const FIRST_UNRESOLVED: u32 = 1 << 31;
/// Takes the place of a chunk number if the chunk table has no such chunk.
pub(super) const MISSING: u32 = u32::MAX;

/// How the stored bytes of a block are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BlockCodec {
    /// The first byte is a tag that names the codec (4.5).
    Tagged,
    /// A zstd frame (1).
    Zstd,
    /// Uncompressed content (1).
    None,
    /// A codec that version 1 names but does not support.
    Unknown,
}

/// A block: the unit of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Block {
    pub(super) offset: u64,
    /// Length as stored, bytes.
    pub(super) stored_len: u64,
    pub(super) crc: u32,
    pub(super) codec: BlockCodec,
    /// End of its last chunk, ignoring chunks that end past [`MAX_BLOCK_RAW_LEN`].
    pub(super) raw_len: u32,
}

/// A chunk: a range of the content of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// The hash in recipes; [`ChunkHash::NONE`] for the chunk of a file of version 1.
    pub(super) hash: ChunkHash,
    pub(super) block: u32,
    /// Offset in the content of the block.
    pub(super) inner_offset: u64,
    pub(super) size: u64,
}

pub(super) struct Manifest {
    pub(super) is_version_1: bool,
    pub(super) name: String,
    pub(super) encrypted: bool,
    pub(super) dictionary: Option<Vec<u8>>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) blocks: Vec<Block>,
    pub(super) chunks: Vec<Chunk>,
    /// Recipes of all files, concatenated: the number of a chunk with the hash, or
    /// [`FIRST_UNRESOLVED`] plus an index into `unresolved`.
    pub(super) recipes: Vec<u32>,
    /// Hashes in recipes that did not match the next chunk and are looked up when content is read.
    pub(super) unresolved: Vec<ChunkHash>,
    /// For each file, the end of its recipe in `recipes`.
    pub(super) recipe_ends: Vec<u32>,
    /// Number of recipes that were resolved by a linear search so far.
    pub(super) linear_lookups: AtomicUsize,
    pub(super) resolved: OnceLock<ResolvedRecipes>,
}

/// All recipes, resolved to numbers of chunks.
pub(super) struct ResolvedRecipes {
    /// Chunks of all files, concatenated.
    chunks: Vec<u32>,
    /// For each chunk, its end if all files were concatenated.
    ends: Vec<u64>,
}

#[derive(Clone)]
pub(super) struct Recipe<'a> {
    chunks: Cow<'a, [u32]>,
    ends: Cow<'a, [u64]>,
    base: u64,
}

impl Recipe<'_> {
    /// Returns the length of the content, bytes.
    pub(super) fn len(&self) -> u64 {
        self.ends.last().map_or(0, |end| end - self.base)
    }

    /// Returns the chunks from the one that holds byte `offset` on, each with its start in the file.
    pub(super) fn chunks_from(&self, offset: u64) -> impl Iterator<Item = (u64, u32)> {
        let first = self.ends.partition_point(|&end| end - self.base <= offset);
        let start = move |index: usize| if index == 0 { 0 } else { self.ends[index - 1] - self.base };
        (first..self.chunks.len()).map(move |index| (start(index), self.chunks[index]))
    }

    /// Returns the numbers of all chunks.
    pub(super) fn chunks(&self) -> &[u32] {
        &self.chunks
    }
}

impl Manifest {
    /// Parses the manifest of `source` into tables of at most `limit` bytes.
    pub(super) fn parse(source: &dyn ReadAt, header: &Header, limit: u64) -> Result<(Self, Entries<Table>)> {
        let Header { manifest_offset: offset, manifest_len: len } = *header;
        let mut builder = ManifestBuilder::new(usize::try_from(len).unwrap_or(usize::MAX), limit);
        let mut reader = MessagePackReader::new(source, offset, len);
        let parsed = if reader.skip_prefix(&MESSAGEPACK_PREFIX) {
            records::parse_messagepack(&mut reader, &mut builder)
        } else if reader.peek(1) == b"{" {
            let len = usize::try_from(len).map_err(|_| builder.too_large(len))?;
            let mut bytes = vec![0; len];
            source.read_exact_at(offset, &mut bytes)?;
            records::parse_json(&bytes, &mut builder)
        } else {
            let found = reader.peek(4).iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(reader.take_error().unwrap_or(Error::Unsupported {
                what: "manifest encoding",
                found,
                known: "MessagePack, JSON".into(),
            }));
        };
        if let Some(error) = builder.error.take().or(reader.take_error()) {
            return Err(error);
        }
        // The reason may quote text of the file.
        let printable = |detail: String| detail.replace(is_unsafe_to_show, "?");
        parsed.map_err(|detail| Error::corrupt("manifest", offset, printable(detail)))?;
        // Blocks do not overlap in an undamaged file. Many blocks on the same bytes would make decoding
        // arbitrarily expensive.
        let is_in_file = |block: &&Block| block.offset.checked_add(block.stored_len).is_some_and(|end| end <= source.len());
        let stored =
            builder.manifest.blocks.iter().filter(is_in_file).fold(0u64, |sum, block| sum.saturating_add(block.stored_len));
        if stored / 2 > source.len() {
            return Err(Error::corrupt(
                "manifest",
                offset,
                format!("blocks of {stored} bytes in total, more than twice the length of the file"),
            ));
        }
        builder.finish()
    }

    pub(super) fn recipe(&self, file: u64) -> Recipe<'_> {
        let items = self.recipe_range(file);
        let few = |items: usize| items <= LINEAR_LOOKUPS && self.linear_lookups.fetch_add(1, Ordering::Relaxed) < LINEAR_LOOKUPS;
        if self.resolved.get().is_none() && few(items.len()) {
            let chunks: Vec<u32> = self.recipes[items].iter().map(|&item| self.last_chunk_of(item)).collect();
            let ends = self.ends(&chunks);
            return Recipe { chunks: chunks.into(), ends: ends.into(), base: 0 };
        }
        let ResolvedRecipes { chunks, ends } = self.resolve_all();
        let base = if items.start == 0 { 0 } else { ends[items.start - 1] };
        Recipe { chunks: chunks[items.clone()].into(), ends: ends[items].into(), base }
    }

    /// Resolves all recipes, or returns the result of an earlier call.
    pub(super) fn resolve_all(&self) -> &ResolvedRecipes {
        self.resolved.get_or_init(|| {
            // A random seed, so that a crafted file cannot cause collisions in the table.
            let seed = RandomState::new().hash_one(0);
            let key = |hash: &ChunkHash| xxh3_64_with_seed(&hash.bytes, seed);
            let hash = |&number: &u32| &self.chunks[number as usize].hash;
            let mut numbers: HashTable<u32> = HashTable::with_capacity(self.chunks.len());
            let mut are_unique = true;
            for (number, chunk) in (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.hash != ChunkHash::NONE) {
                let same = |other: &u32| *hash(other) == chunk.hash;
                match numbers.entry(key(&chunk.hash), same, |number| key(hash(number))) {
                    Entry::Vacant(slot) => drop(slot.insert(number)),
                    // If two chunks have the same hash, the later one is used.
                    Entry::Occupied(mut slot) => (are_unique, *slot.get_mut()) = (false, number),
                }
            }
            let resolve = |&item: &u32| match self.hash_of(item) {
                None => item,
                Some(_) if are_unique && item < FIRST_UNRESOLVED => item,
                Some(wanted) => numbers.find(key(wanted), |number| hash(number) == wanted).copied().unwrap_or(MISSING),
            };
            let chunks: Vec<u32> = self.recipes.iter().map(resolve).collect();
            ResolvedRecipes { ends: self.ends(&chunks), chunks }
        })
    }

    /// Returns the hash at `index` in the recipe of a file as text, for messages.
    pub(super) fn chunk_hash_text(&self, file: u64, index: usize) -> String {
        let items = &self.recipes[self.recipe_range(file)];
        let hash = items.get(index).and_then(|&item| self.hash_of(item));
        hash.map(|hash| blake3::Hash::from_bytes(hash.bytes).to_hex().to_string()).unwrap_or_default()
    }

    pub(super) fn recipe_range(&self, file: u64) -> Range<usize> {
        let file = usize::try_from(file).expect("numbers of files are indexes");
        let start = if file == 0 { 0 } else { self.recipe_ends[file - 1] as usize };
        start..self.recipe_ends[file] as usize
    }

    /// Returns the hash of a recipe item, or `None` for the chunk of a file of version 1.
    pub(super) fn hash_of(&self, item: u32) -> Option<&ChunkHash> {
        let hash = if item < FIRST_UNRESOLVED {
            &self.chunks[item as usize].hash
        } else {
            &self.unresolved[(item - FIRST_UNRESOLVED) as usize]
        };
        (*hash != ChunkHash::NONE).then_some(hash)
    }

    /// Returns the number of the last chunk with the hash of a recipe item.
    fn last_chunk_of(&self, item: u32) -> u32 {
        let Some(hash) = self.hash_of(item) else { return item };
        let last = self.chunks.iter().rposition(|chunk| chunk.hash == *hash);
        last.and_then(|number| u32::try_from(number).ok()).unwrap_or(MISSING)
    }

    /// Returns the end of each chunk if `chunks` were concatenated.
    fn ends(&self, chunks: &[u32]) -> Vec<u64> {
        let mut end = 0u64;
        let size = |number| self.chunk(number).map_or(0, |chunk| chunk.size);
        // Damage may make the sum overflow. It is compared with the size when the file is read.
        let next = |&number: &u32| {
            end = end.saturating_add(size(number));
            end
        };
        chunks.iter().map(next).collect()
    }

    /// Returns a chunk by number, or `None` if the chunk table does not have it.
    pub(super) fn chunk(&self, number: u32) -> Option<&Chunk> {
        if number == MISSING { None } else { self.chunks.get(number as usize) }
    }

    /// Returns the position of a file's content: the offset of its block and the offset within it.
    pub(super) fn position(&self, file: u64) -> (u64, u64) {
        let first = self.recipe(file).chunks.first().and_then(|&number| self.chunk(number));
        first.map_or((0, 0), |chunk| (self.blocks[chunk.block as usize].offset, chunk.inner_offset))
    }
}
