//! The tables of a manifest in the making.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::extra::Facts;
use super::hash::Hash;
use super::manifest::{Block, Chunk, Coding, LOST, MAX_WHOLE, Manifest, STRAY};
use super::names::Names;
use nra_core::entry::{Attribute, Kind, Metadata};
use nra_core::error::{Error, Result};
use nra_core::table::{Table, TableBuilder, TableEntry};

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
    pub(super) manifest: Manifest,
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
    pub(super) failed: Option<Error>,
}

impl Building {
    pub(super) fn new(manifest_len: usize, limit: u64) -> Self {
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
            return self.table()?.add(&name, TableEntry { number, size, ..TableEntry::with_metadata(Kind::File, metadata) });
        };
        let Facts { kind, metadata, modified, link_group, target, device, path } = *facts;
        let number = if link_group == 0 || kind != Kind::File { number } else { self.leader(link_group, number) };
        let link_group = if kind == Kind::File { link_group } else { 0 };
        let item = TableEntry { kind, size, modified, metadata, link_group, target, device, number, place: (0, 0) };
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

    pub(super) fn finish(self) -> Result<(Manifest, Entries<Table>)> {
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
}
