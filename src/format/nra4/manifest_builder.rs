//! Builds the tables of a manifest from its records.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::chunk_hash::ChunkHash;
use super::extra_metadata::ExtraMetadata;
use super::file_list::FileList;
use super::manifest::{Block, BlockCodec, Chunk, FIRST_UNRESOLVED, MAX_BLOCK_RAW_LEN, MISSING, Manifest};
use nra_core::entry::{Attribute, Kind, Metadata};
use nra_core::error::{Error, Result};
use nra_core::table::{Table, TableBuilder, TableEntry};

/// A record of the chunk table, or the corresponding fields of a file of version 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkRecord {
    pub(super) offset: u64,
    pub(super) stored_len: u64,
    pub(super) size: u64,
    pub(super) inner_offset: u64,
    pub(super) crc: u32,
    pub(super) codec: BlockCodec,
}

#[derive(Default)]
pub(super) struct FileRecord {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) attributes: Vec<Attribute>,
    /// Metadata that earlier versions have no field for.
    pub(super) extra: Option<Box<ExtraMetadata>>,
}

pub(super) enum Entries<T> {
    /// Files that have only a name and a size. A table of them is within the limit.
    List(FileList),
    /// Entries of any kind.
    Table(T),
}

/// Builds a [`Manifest`] and its entries.
pub(super) struct ManifestBuilder {
    pub(super) manifest: Manifest,
    entries: Entries<TableBuilder>,
    /// The chunk that follows the one a recipe referred to last.
    next_chunk: u32,
    /// Largest end of all blocks so far.
    blocks_end: u64,
    /// Numbers of the first `len` blocks by content. Filled when a block starts before `blocks_end`.
    block_numbers: HashMap<(u64, u64, u32, BlockCodec), u32>,
    /// Buffer for the next name, to save allocations.
    name_buffer: Vec<u8>,
    /// Metadata of files without metadata.
    plain: Arc<Metadata>,
    /// First file of each hard link group.
    groups: HashMap<u64, u64>,
    limit: u64,
    /// Estimated number of records, from the length of the manifest.
    estimated_count: usize,
    /// The error that ended parsing.
    pub(super) error: Option<Error>,
}

impl ManifestBuilder {
    pub(super) fn new(manifest_len: usize, limit: u64) -> Self {
        let manifest = Manifest {
            is_version_1: false,
            name: String::new(),
            encrypted: false,
            dictionary: None,
            attributes: Vec::new(),
            blocks: Vec::new(),
            chunks: Vec::new(),
            recipes: Vec::new(),
            unresolved: Vec::new(),
            recipe_ends: Vec::new(),
            linear_lookups: AtomicUsize::new(0),
            resolved: OnceLock::new(),
        };
        Self {
            manifest,
            entries: Entries::List(FileList::new(limit)),
            next_chunk: 0,
            blocks_end: 0,
            block_numbers: HashMap::new(),
            name_buffer: Vec::new(),
            plain: Arc::new(Metadata { mode: 0o644, ..Metadata::default() }),
            groups: HashMap::new(),
            limit,
            estimated_count: manifest_len / 100,
            error: None,
        }
    }

    /// Stores the error that ends parsing. Returns a text for serde.
    pub(super) fn fail(&mut self, error: Error) -> &'static str {
        self.error = Some(error);
        "limit exceeded"
    }

    pub(super) fn reserve_chunks(&mut self, count: usize) {
        let count = count.min(self.estimated_count);
        self.manifest.chunks.reserve(count);
    }

    pub(super) fn reserve_files(&mut self, count: usize) {
        let count = count.min(self.estimated_count);
        self.manifest.recipe_ends.reserve(count);
        self.manifest.recipes.reserve(count);
        match &mut self.entries {
            Entries::List(names) => names.reserve(count),
            Entries::Table(table) => table.reserve(count),
        }
    }

    /// Adds a record of the chunk table, or the chunk of a file of version 1. Returns its number.
    pub(super) fn add_chunk(&mut self, hash: ChunkHash, stored: &ChunkRecord) -> Result<u32> {
        let number = u32::try_from(self.manifest.chunks.len()).ok().filter(|&number| number < FIRST_UNRESOLVED);
        let Some(number) = number else { return Err(self.too_large(u64::MAX)) };
        let block = self.block(stored);
        let Manifest { blocks, chunks, .. } = &mut self.manifest;
        let end = stored.inner_offset.checked_add(stored.size).filter(|&end| end <= MAX_BLOCK_RAW_LEN);
        let end = end.and_then(|end| u32::try_from(end).ok()).unwrap_or(0);
        let raw_len = &mut blocks[block as usize].raw_len;
        *raw_len = end.max(*raw_len);
        chunks.push(Chunk { hash, block, inner_offset: stored.inner_offset, size: stored.size });
        self.check_memory()?;
        Ok(number)
    }

    /// Returns the number of the block that holds a chunk. Equal blocks get one number.
    fn block(&mut self, stored: &ChunkRecord) -> u32 {
        let key = |block: &Block| (block.offset, block.stored_len, block.crc, block.codec);
        let new =
            Block { offset: stored.offset, stored_len: stored.stored_len, crc: stored.crc, codec: stored.codec, raw_len: 0 };
        let blocks = &mut self.manifest.blocks;
        let number = |index: usize| u32::try_from(index).expect("there are no more blocks than chunks");
        if blocks.last().is_some_and(|last| key(last) == key(&new)) {
            return number(blocks.len() - 1);
        }
        if new.offset < self.blocks_end {
            let known = self.block_numbers.len();
            self.block_numbers.extend(blocks.iter().enumerate().skip(known).map(|(index, block)| (key(block), number(index))));
            if let Some(&known) = self.block_numbers.get(&key(&new)) {
                return known;
            }
        }
        self.blocks_end = self.blocks_end.max(new.offset.saturating_add(new.stored_len));
        blocks.push(new);
        number(blocks.len() - 1)
    }

    /// Adds a chunk to the recipe of the current file.
    pub(super) fn add_to_recipe(&mut self, hash: ChunkHash) -> Result<()> {
        let Manifest { chunks, recipes, unresolved, .. } = &mut self.manifest;
        // New chunks are in the order of the files, so the next chunk is usually the right one.
        if chunks.get(self.next_chunk as usize).is_some_and(|chunk| chunk.hash == hash) {
            recipes.push(self.next_chunk);
            self.next_chunk += 1;
        } else {
            let index = u32::try_from(unresolved.len()).ok().filter(|&index| index < MISSING - FIRST_UNRESOLVED);
            let Some(index) = index else { return Err(self.too_large(u64::MAX)) };
            recipes.push(FIRST_UNRESOLVED + index);
            unresolved.push(hash);
        }
        self.check_memory()
    }

    /// Adds the only chunk of a file of version 1.
    pub(super) fn add_own_chunk(&mut self, stored: &ChunkRecord) -> Result<()> {
        let number = self.add_chunk(ChunkHash::NONE, stored)?;
        self.manifest.recipes.push(number);
        self.check_memory()
    }

    /// Returns a buffer for the name of the next file.
    pub(super) fn take_name_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.name_buffer)
    }

    /// Adds a file whose recipe is complete.
    pub(super) fn add_file(&mut self, file: FileRecord) -> Result<()> {
        let number = self.manifest.recipe_ends.len() as u64;
        let end = u32::try_from(self.manifest.recipes.len()).map_err(|_| self.too_large(u64::MAX))?;
        self.manifest.recipe_ends.push(end);
        let FileRecord { name, size, attributes, extra } = file;
        let is_plain = extra.is_none() && attributes.is_empty();
        if let Entries::List(names) = &mut self.entries
            && is_plain
            && names.add(&name, size)
        {
            self.name_buffer = name;
            return Ok(());
        }
        let Some(extra) = extra else {
            let metadata = if attributes.is_empty() {
                Arc::clone(&self.plain)
            } else {
                let mut attributes = attributes;
                attributes.sort();
                attributes.dedup_by(|a, b| (a.namespace, &a.name) == (b.namespace, &b.name));
                Arc::new(Metadata { attributes: attributes.into(), ..(*self.plain).clone() })
            };
            return self.table()?.add(&name, TableEntry { number, size, ..TableEntry::with_metadata(Kind::File, metadata) });
        };
        let ExtraMetadata { kind, metadata, modified, link_group, target, device, path } = *extra;
        let number = if link_group == 0 || kind != Kind::File { number } else { self.first_of_group(link_group, number) };
        let link_group = if kind == Kind::File { link_group } else { 0 };
        let entry = TableEntry { kind, size, modified, metadata, link_group, target, device, number, place: (0, 0) };
        self.table()?.add(path.as_deref().unwrap_or(&name), entry)
    }

    /// Returns the table. The first call makes it from the list of files.
    fn table(&mut self) -> Result<&mut TableBuilder> {
        if let Entries::List(names) = &self.entries {
            // Positions are set when all chunks are known.
            let mut table = names.to_table(self.limit, |_| (0, 0))?;
            table.reserve(names.free_capacity());
            self.entries = Entries::Table(table);
        }
        match &mut self.entries {
            Entries::Table(table) => Ok(table),
            Entries::List(_) => unreachable!("the list was replaced by a table"),
        }
    }

    /// Returns the number of the first file of a hard link group if file `number` has the same chunks,
    /// otherwise `number`.
    fn first_of_group(&mut self, group: u64, number: u64) -> u64 {
        let first = *self.groups.entry(group).or_insert(number);
        let items = |file| self.manifest.recipes[self.manifest.recipe_range(file)].iter();
        let hash = |&item: &u32| self.manifest.hash_of(item).ok_or(item);
        if items(first).map(hash).eq(items(number).map(hash)) { first } else { number }
    }

    pub(super) fn finish(self) -> Result<(Manifest, Entries<Table>)> {
        let Self { manifest, entries, .. } = self;
        let entries = match entries {
            Entries::List(names) => Entries::List(names),
            Entries::Table(mut table) => {
                manifest.resolve_all();
                table.set_places(|file| manifest.position(file));
                Entries::Table(table.finish()?)
            }
        };
        Ok((manifest, entries))
    }

    fn check_memory(&self) -> Result<()> {
        let Manifest { blocks, chunks, recipes, unresolved, recipe_ends, .. } = &self.manifest;
        let tables = size_of_val(&**blocks) + size_of_val(&**chunks) + size_of_val(&**unresolved) + size_of_val(&**recipe_ends);
        // Memory for resolving the recipes is included: that step cannot fail.
        let resolved = chunks.len() * 6 + recipes.len() * (4 + size_of::<u64>());
        let numbers = self.block_numbers.capacity() * (size_of::<(u64, u64, u32, BlockCodec)>() + 4);
        let found = (tables + size_of_val(&**recipes) + resolved + numbers) as u64;
        if found > self.limit { Err(self.too_large(found)) } else { Ok(()) }
    }

    pub(super) fn too_large(&self, found: u64) -> Error {
        Error::Limit { what: "memory for the manifest", found, limit: self.limit }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn recipes_resolve_to_the_last_chunk_with_a_hash(
            table in proptest::collection::vec(0u8..9, 0..12),
            recipes in proptest::collection::vec(proptest::collection::vec(prop_oneof![4 => 0u8..9, 1 => Just(u8::MAX)], 0..20), 1..20),
            is_table_first in any::<bool>(),
        ) {
            let hash = |of: u8| ChunkHash { bytes: [of; 32], is_content_digest: true };
            let mut builder = ManifestBuilder::new(1 << 20, 1 << 20);
            let stored = |size| ChunkRecord { offset: 32, stored_len: 9, size, inner_offset: 0, crc: 0, codec: BlockCodec::Tagged };
            let add_table = |builder: &mut ManifestBuilder| {
                for (size, &of) in (1..).zip(&table) {
                    builder.add_chunk(hash(of), &stored(size)).unwrap();
                }
            };
            if is_table_first {
                add_table(&mut builder);
            }
            for recipe in &recipes {
                for &of in recipe {
                    // A file of version 1 has its own chunk.
                    let own = of == u8::MAX;
                    if own { builder.add_own_chunk(&stored(99)) } else { builder.add_to_recipe(hash(of)) }.unwrap();
                }
                builder.add_file(FileRecord { name: b"name".to_vec(), ..FileRecord::default() }).unwrap();
            }
            if !is_table_first {
                add_table(&mut builder);
            }
            let (manifest, _) = builder.finish().unwrap();
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
                assert_eq!(recipe.chunks_from(0).count(), sizes.len() - sizes.iter().take_while(|size| size.is_none()).count());
                sizes
            };
            for _ in 0..2 {
                for (file, expected) in expected.iter().enumerate() {
                    prop_assert_eq!(&sizes(file), expected);
                }
                manifest.resolve_all();
            }
        }
    }
}
