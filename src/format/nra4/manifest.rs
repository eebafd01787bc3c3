//! The tables that a manifest is turned into while it is parsed.
//!
//! Records come in any order. Recipes are joined to the chunk table by hashes, when something is read: for a few files by passing over the
//! table, for more by a table of hashes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
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
/// So many look-ups pass over a list; those who look for more are better off with a table.
pub(super) const LOOKUPS: usize = 16;
/// Items of recipes from here on are numbers of strays, others those of chunks.
const STRAY: u32 = 1 << 31;
/// In place of the number of a chunk that the chunk table does not have.
const LOST: u32 = u32::MAX;

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
    chunks: Vec<Chunk>,
    /// Chunks of all files in a row: the number of one with that hash, or from [`STRAY`] on that of a stray.
    recipes: Vec<u32>,
    /// Hashes in recipes whose chunk was not the one behind the chunk before.
    strays: Vec<Hash>,
    /// For each file, where its recipe ends.
    files: Vec<u32>,
    /// Recipes that were joined by passing over all chunks.
    passes: AtomicUsize,
    joined: OnceLock<Joined>,
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

    fn items(&self, file: u64) -> Range<usize> {
        let file = usize::try_from(file).expect("a number that was given to a file");
        let start = if file == 0 { 0 } else { self.files[file - 1] as usize };
        start..self.files[file] as usize
    }

    /// Returns what an item of a recipe asks for; nothing for the chunk that a file has for itself.
    fn name(&self, item: u32) -> Option<&Hash> {
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
    pub(super) facts: Option<Box<Facts>>,
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
    /// The chunk behind the one that a recipe had last.
    next: u32,
    /// Where the block lies that reaches farthest so far ends.
    reached: u64,
    /// Numbers of the first `len` blocks by what they are: made when one comes that does not lie behind all before.
    numbers: HashMap<(u64, u64, u32, Coding), u32>,
    /// Takes the next name, so that not each needs memory of its own.
    spare: Vec<u8>,
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
            strays: Vec::new(),
            files: Vec::new(),
            passes: AtomicUsize::new(0),
            joined: OnceLock::new(),
        };
        Self {
            manifest,
            entries: Entries::Names(Names::new(limit)),
            next: 0,
            reached: 0,
            numbers: HashMap::new(),
            spare: Vec::new(),
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

    /// Takes a record of the chunk table, or the one chunk of a file of version 1; gives its number.
    pub(super) fn add_chunk(&mut self, hash: Hash, stored: &Stored) -> Result<u32> {
        let number = u32::try_from(self.manifest.chunks.len()).ok().filter(|&number| number < STRAY);
        let Some(number) = number else { return Err(self.too_large(u64::MAX)) };
        let block = self.block(stored);
        let Manifest { blocks, chunks, .. } = &mut self.manifest;
        let end = stored.inner.checked_add(stored.size).filter(|&end| end <= MAX_WHOLE);
        let end = end.and_then(|end| u32::try_from(end).ok()).unwrap_or(0);
        let raw = &mut blocks[block as usize].raw;
        *raw = end.max(*raw);
        chunks.push(Chunk { hash, block, inner: stored.inner, size: stored.size });
        self.check_memory()?;
        Ok(number)
    }

    /// Returns the number of the block that a chunk lies in. One that several parts of the table name is one.
    fn block(&mut self, stored: &Stored) -> u32 {
        let key = |block: &Block| (block.offset, block.stored, block.crc, block.coding);
        let new = Block { offset: stored.offset, stored: stored.stored, crc: stored.crc, coding: stored.coding, raw: 0 };
        let blocks = &mut self.manifest.blocks;
        let number = |index: usize| u32::try_from(index).expect("there are no more blocks than chunks");
        if blocks.last().is_some_and(|last| key(last) == key(&new)) {
            return number(blocks.len() - 1);
        }
        if new.offset < self.reached {
            let known = self.numbers.len();
            self.numbers.extend(blocks.iter().enumerate().skip(known).map(|(index, block)| (key(block), number(index))));
            if let Some(&known) = self.numbers.get(&key(&new)) {
                return known;
            }
        }
        self.reached = self.reached.max(new.offset.saturating_add(new.stored));
        blocks.push(new);
        number(blocks.len() - 1)
    }

    /// Adds a chunk to the recipe of the file in work.
    pub(super) fn add_to_recipe(&mut self, hash: Hash) -> Result<()> {
        let Manifest { chunks, recipes, strays, .. } = &mut self.manifest;
        // Files follow each other as their chunks do, but for those that were there before.
        if chunks.get(self.next as usize).is_some_and(|chunk| chunk.hash == hash) {
            recipes.push(self.next);
            self.next += 1;
        } else {
            let stray = u32::try_from(strays.len()).ok().filter(|&stray| stray < LOST - STRAY);
            let Some(stray) = stray else { return Err(self.too_large(u64::MAX)) };
            recipes.push(STRAY + stray);
            strays.push(hash);
        }
        self.check_memory()
    }

    /// Adds the one chunk of a file of version 1.
    pub(super) fn add_own_chunk(&mut self, stored: &Stored) -> Result<()> {
        let number = self.add_chunk(Hash::NONE, stored)?;
        self.manifest.recipes.push(number);
        self.check_memory()
    }

    /// Returns memory for the name of the next file.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
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
            self.spare = name;
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
        let Facts { kind, metadata, modified, link_group, target, device, path } = *facts;
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
        let items = |file| self.manifest.recipes[self.manifest.items(file)].iter();
        let name = |&item: &u32| self.manifest.name(item).ok_or(item);
        if items(leader).map(name).eq(items(number).map(name)) { leader } else { number }
    }

    fn finish(self) -> Result<(Manifest, Entries<Table>)> {
        let Self { manifest, entries, .. } = self;
        let entries = match entries {
            Entries::Names(names) => Entries::Names(names),
            Entries::Table(mut table) => {
                manifest.join();
                table.set_places(|file| manifest.place(file));
                Entries::Table(table.finish()?)
            }
        };
        Ok((manifest, entries))
    }

    fn check_memory(&self) -> Result<()> {
        let Manifest { blocks, chunks, recipes, strays, files, .. } = &self.manifest;
        let tables = size_of_val(&**blocks) + size_of_val(&**chunks) + size_of_val(&**strays) + size_of_val(&**files);
        // What joining them takes counts from the beginning, as that can't be refused.
        let joined = chunks.len() * 6 + recipes.len() * (4 + size_of::<u64>());
        let numbers = self.numbers.capacity() * (size_of::<(u64, u64, u32, Coding)>() + 4);
        let found = (tables + size_of_val(&**recipes) + joined + numbers) as u64;
        if found > self.limit { Err(self.too_large(found)) } else { Ok(()) }
    }

    fn too_large(&self, found: u64) -> Error {
        Error::Limit { what: "memory for the manifest", found, limit: self.limit }
    }
}

/// Name of a chunk: its BLAKE3 in hex, or (in files that no tool of ours wrote) any other text, which then is told by its own digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) bytes: [u8; 32],
    /// It is a digest, not that of another text.
    pub(super) named: bool,
}

impl Hash {
    /// What nobody asks for.
    const NONE: Self = Self { bytes: [0; 32], named: false };
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn recipes_are_joined_to_the_last_chunk_of_a_hash(
            table in proptest::collection::vec(0u8..9, 0..12),
            recipes in proptest::collection::vec(proptest::collection::vec(prop_oneof![4 => 0u8..9, 1 => Just(u8::MAX)], 0..20), 1..20),
            is_table_first in any::<bool>(),
        ) {
            let hash = |of: u8| Hash { bytes: [of; 32], named: true };
            let mut building = Building::new(1 << 20, 1 << 20);
            let stored = |size| Stored { offset: 32, stored: 9, size, inner: 0, crc: 0, coding: Coding::Tagged };
            let add_table = |building: &mut Building| {
                for (size, &of) in (1..).zip(&table) {
                    building.add_chunk(hash(of), &stored(size)).unwrap();
                }
            };
            if is_table_first {
                add_table(&mut building);
            }
            for recipe in &recipes {
                for &of in recipe {
                    // A file of version 1 has a chunk of its own.
                    let own = of == u8::MAX;
                    if own { building.add_own_chunk(&stored(99)) } else { building.add_to_recipe(hash(of)) }.unwrap();
                }
                building.add_file(File { name: b"name".to_vec(), ..File::default() }).unwrap();
            }
            if !is_table_first {
                add_table(&mut building);
            }
            let (manifest, _) = building.finish().unwrap();
            let size = |&of: &u8| match of {
                u8::MAX => Some(99),
                _ => table.iter().rposition(|&other| other == of).map(|at| at as u64 + 1),
            };
            let expected: Vec<Vec<Option<u64>>> = recipes.iter().map(|recipe| recipe.iter().map(size).collect()).collect();
            let sizes = |file: usize| {
                let recipe = manifest.recipe(file as u64);
                let sizes: Vec<Option<u64>> =
                    recipe.chunks().iter().map(|&number| manifest.chunk(number).map(|chunk| chunk.size)).collect();
                assert_eq!(recipe.len(), sizes.iter().flatten().sum::<u64>());
                assert_eq!(recipe.from(0).count(), sizes.len() - sizes.iter().take_while(|size| size.is_none()).count());
                sizes
            };
            for _ in 0..2 {
                for (file, expected) in expected.iter().enumerate() {
                    prop_assert_eq!(&sizes(file), expected);
                }
                manifest.join();
            }
        }
    }

    #[test]
    fn names_of_chunks_are_digests_or_text() {
        let digest = blake3::hash(b"x");
        assert_eq!(Hash::from(digest.to_hex().as_str()), Hash { bytes: *digest.as_bytes(), named: true });
        for other in ["", "one", &digest.to_hex().to_uppercase(), &digest.to_hex()[1..], &format!("{}g", &digest.to_hex()[1..])] {
            assert!(!Hash::from(other).named, "{other}");
        }
    }
}
