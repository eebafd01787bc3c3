//! Opens earlier NRA files and reads the content of their entries.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::block_codec::Dictionary;
use super::block_reader::{BlockReader, Encryption};
use super::cipher::Cipher;
use super::file_list::FileList;
use super::header::{Header, MAGIC};
use super::manifest::{Chunk, Manifest, Recipe};
use super::manifest_builder::Entries;
use nra_core::archive::{Access, ContentSink, Damage, Depth, Info, OpenOptions, Part};
use nra_core::container::{Container, Engine};
use nra_core::crypt::Secret;
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::entry::{Entry, Kind, Location};
use nra_core::error::{Error, FileGuess, Result};
use nra_core::limits;
use nra_core::path::EntryPath;
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;
use nra_core::table::{ContentRef, Table, TableArchive, TableBackend, TableBuilder};

/// Length of the footer of version 1, bytes: SHA-256 of all preceding bytes, CRC-32 of the manifest,
/// magic.
const FOOTER_LEN: u64 = 40;
/// Limit for the bytes decoded for each byte of a file and of its recipe.
///
/// A chunk has at least 2 KiB unless it is the last of a file, and a block at most 4 MiB. No file that
/// earlier versions wrote reaches this limit.
const MAX_DECODED_PER_BYTE: u64 = 4096;
/// Length of a recipe item in a manifest, bytes.
const RECIPE_ITEM_LEN: u64 = 66;
/// Bytes read at a time.
const READ_LEN: usize = 1 << 20;

/// The content of an earlier NRA file.
pub struct Nra4 {
    source: Arc<dyn ReadAt>,
    header: Header,
    manifest: Manifest,
    /// The files, if the table is not built before it is needed.
    file_list: Option<FileList>,
    blocks: BlockReader,
    /// Results of quick checks by block: the detail of the damage, or `None`.
    quick_checks: Mutex<HashMap<u32, Option<String>>>,
}

/// Opens an earlier NRA file.
///
/// # Errors
///
/// `NotAnArchive` if it is another kind of file; otherwise as for any archive.
pub fn open(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<TableArchive<Nra4>> {
    let none = || Error::NotAnArchive { guess: FileGuess::Unknown, wanted: Some(Engine::Nra4) };
    probe(source, options)?.ok_or_else(none)
}

/// Opens `source`. Returns `None` if it is not an earlier NRA file.
///
/// # Errors
///
/// As for any archive.
pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<TableArchive<Nra4>>> {
    let Some(header) = Header::read(&**source)? else { return Ok(None) };
    let Header { manifest_offset, manifest_len } = header;
    limits::check("length of the manifest", manifest_len, options.index_bytes)?;
    let (mut manifest, entries) = Manifest::parse(&**source, &header, options.index_bytes)?;
    let invalid = || Error::corrupt("manifest", manifest_offset, "invalid dictionary");
    let dictionary = manifest.dictionary.take().map(|bytes| Dictionary::new(bytes).ok_or_else(invalid)).transpose()?;
    let mut info = describe(&manifest, source.len());
    let encryption = match &options.key {
        _ if !manifest.encrypted => Encryption::None,
        Some(Secret::UserKey(key)) => Encryption::Key(Box::new(Cipher::new(key))),
        // Earlier versions had no passwords.
        Some(Secret::Password(_)) => Encryption::NoKey(|| Error::WrongKey),
        None => Encryption::NoKey(|| Error::KeyNeeded),
    };
    let blocks = BlockReader::new(Arc::clone(source), options.cache_bytes, dictionary, encryption);
    if blocks.lacks_key(&manifest.blocks) {
        info.remarks.push(format!("{} is encrypted except for its names: contents need the key", info.container));
    }
    let quick_checks = Mutex::default();
    let members = |file_list| Nra4 { source: Arc::clone(source), header, manifest, file_list, blocks, quick_checks };
    Ok(Some(match entries {
        Entries::Table(table) => TableArchive::new(table, members(None), info),
        Entries::List(files) => TableArchive::on_demand(members(Some(files)), info, Nra4::table),
    }))
}

fn describe(manifest: &Manifest, archive_bytes: u64) -> Info {
    let Manifest { chunks, blocks, .. } = manifest;
    Info {
        container: if manifest.is_version_1 { Container::Nra1 } else { Container::Nra4 },
        archive_bytes,
        chunk_bytes: Some(chunks.iter().map(|chunk| chunk.size).fold(0, u64::saturating_add)),
        stored_bytes: Some(blocks.iter().map(|block| block.stored_len).fold(0, u64::saturating_add)),
        blocks: Some(blocks.len() as u64),
        chunks: Some(chunks.len() as u64),
        encrypted: manifest.encrypted,
        message: manifest.name.clone(),
        attributes: manifest.attributes.clone(),
        ..Info::default()
    }
}

impl Nra4 {
    /// Builds the table from the list of files.
    fn table(&self) -> Table {
        let files = self.file_list.as_ref().expect("called only if there is a list of files");
        self.manifest.resolve_all();
        let table = files.to_table(u64::MAX, |file| self.manifest.position(file)).and_then(TableBuilder::finish);
        table.expect("the limit was checked when the files were added")
    }

    /// Returns the chunks of a file, after checking that their lengths add up to its size.
    fn recipe(&self, member: &ContentRef) -> Result<Recipe<'_>> {
        let recipe = self.manifest.recipe(member.number);
        if let Some(index) = recipe.chunks().iter().position(|&chunk| self.manifest.chunk(chunk).is_none()) {
            let hash = self.manifest.chunk_hash_text(member.number, index);
            return Err(self.corrupt(format!("chunk {hash} of a file is missing in the chunk table")));
        }
        if recipe.len() != member.size {
            return Err(self.corrupt(format!("a file of {} bytes has chunks of {} bytes in total", member.size, recipe.len())));
        }
        Ok(recipe)
    }

    fn corrupt(&self, detail: String) -> Error {
        Error::corrupt("manifest", self.header.manifest_offset, detail)
    }

    /// Checks the footer of version 1, if bytes follow the manifest and the blocks.
    ///
    /// Earlier versions never checked it.
    fn check_footer(&self, monitor: &dyn Monitor) -> Result<Option<Damage>> {
        let damage = |offset, detail: String| Ok(Some(Damage::new("footer", offset, detail)));
        let len = self.source.len();
        let ends = self.manifest.blocks.iter().map(|block| block.offset.saturating_add(block.stored_len));
        let end = ends.fold(self.header.manifest_end(), u64::max);
        if !self.manifest.is_version_1 || end >= len {
            return Ok(None);
        }
        let footer = len.checked_sub(FOOTER_LEN).filter(|&offset| offset >= end).map(|offset| {
            let mut footer = [0; FOOTER_LEN as usize];
            self.source.read_exact_at(offset, &mut footer).map(|()| (offset, footer))
        });
        let (footer_offset, footer) = match footer.transpose()? {
            Some((offset, footer)) if footer[36..] == MAGIC => (offset, footer),
            _ => return damage(end, format!("the {} bytes after the last block are not a footer", len - end)),
        };
        let (mut sha, mut crc) = (Sha256::new(), crc32fast::Hasher::new());
        let Header { manifest_offset, manifest_len } = self.header;
        let mut buffer = vec![0; READ_LEN];
        let mut at = 0;
        while at < footer_offset {
            monitor.check()?;
            let step = usize::try_from(footer_offset - at).unwrap_or(usize::MAX).min(READ_LEN);
            self.source.read_exact_at(at, &mut buffer[..step])?;
            sha.update(&buffer[..step]);
            let within = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(step);
            crc.update(&buffer[within(manifest_offset)..within(manifest_offset + manifest_len)]);
            at += step as u64;
        }
        if footer[32..36] != crc.finalize().to_le_bytes() {
            damage(footer_offset, "CRC-32 of the manifest does not match".into())
        } else if footer[..32] != sha.finalize()[..] {
            damage(footer_offset, "SHA-256 of the file does not match".into())
        } else {
            Ok(None)
        }
    }
}

impl TableBackend for Nra4 {
    fn is_encrypted(&self, _: &ContentRef) -> bool {
        self.manifest.encrypted
    }

    fn with_range(&self, member: &ContentRef, range: Range<u64>, _: Access, sink: ContentSink<'_>) -> Result<()> {
        let recipe = self.recipe(member)?;
        let mut last: Option<(u32, Arc<Vec<u8>>)> = None;
        let mut cost = 0u64;
        let recipe_bytes = RECIPE_ITEM_LEN.saturating_mul(recipe.chunks().len() as u64);
        let max_cost = MAX_DECODED_PER_BYTE.saturating_mul(member.size.saturating_add(recipe_bytes));
        for (start, number) in recipe.chunks_from(range.start) {
            if start >= range.end {
                break;
            }
            let Some(chunk) = self.manifest.chunk(number) else { continue };
            let number = chunk.block;
            let block = &self.manifest.blocks[number as usize];
            let part = range.start.saturating_sub(start)..(range.end - start).min(chunk.size);
            if !BlockReader::is_in_memory_range(block, chunk) {
                self.blocks.stream_chunk(block, chunk, part, &mut |bytes| sink(Part::Data(bytes)))?;
                continue;
            }
            let content = match last.take() {
                Some((last_number, content)) if last_number == number => content,
                other => {
                    // The first block does not count, as many files share it.
                    cost = cost.saturating_add(if other.is_some() { block.raw_len.into() } else { 0 });
                    limits::check("length of the blocks of a file", cost, max_cost)?;
                    self.blocks.read(number, block)?
                }
            };
            let at = |offset: u64| usize::try_from(offset).expect("within a block in memory");
            let bytes = &content[at(chunk.inner_offset)..][..at(chunk.size)];
            if chunk.hash.is_content_digest && blake3::hash(bytes).as_bytes() != &chunk.hash.bytes {
                let detail = format!("digest of the chunk at {} in its content does not match the manifest", chunk.inner_offset);
                return Err(Error::corrupt("block", block.offset, detail));
            }
            sink(Part::Data(&bytes[at(part.start)..at(part.end)]))?;
            last = Some((number, content));
        }
        Ok(())
    }

    fn reads_ranges(&self, member: &ContentRef) -> bool {
        // A chunk far into a block can only be reached by decoding all content before it.
        let is_near = |number: &u32| {
            let chunk = self.manifest.chunk(*number);
            chunk.is_none_or(|chunk| BlockReader::is_in_memory_range(&self.manifest.blocks[chunk.block as usize], chunk))
        };
        self.recipe(member).is_ok_and(|recipe| recipe.chunks().iter().all(is_near))
    }

    fn check(&self, member: &ContentRef, depth: Depth) -> Result<()> {
        if depth == Depth::Full && member.size > 0 {
            return self.with_range(member, 0..member.size, Access::Sequential, &mut |_| Ok(()));
        }
        for &number in self.recipe(member)?.chunks() {
            let Some(&Chunk { block: number, .. }) = self.manifest.chunk(number) else { continue };
            let block = &self.manifest.blocks[number as usize];
            let quick_checks = || self.quick_checks.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = quick_checks().get(&number).cloned();
            let damage = match cached {
                Some(damage) => damage,
                None => {
                    let damage = match self.blocks.check_crc(block) {
                        Ok(()) => None,
                        Err(Error::Corrupt { detail, .. }) => Some(detail),
                        Err(error) => return Err(error),
                    };
                    quick_checks().insert(number, damage.clone());
                    damage
                }
            };
            if let Some(detail) = damage {
                return Err(Error::corrupt("block", block.offset, detail));
            }
        }
        Ok(())
    }

    fn check_container(&self, _: Depth, blocks: &mut u64, monitor: &dyn Monitor) -> Result<Vec<Damage>> {
        *blocks = self.manifest.blocks.len() as u64;
        Ok(self.check_footer(monitor)?.into_iter().collect())
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        let mut share = 0u128;
        for &number in self.manifest.recipe(member.number).chunks() {
            if let Some(chunk) = self.manifest.chunk(number) {
                let block = &self.manifest.blocks[chunk.block as usize];
                let raw = u128::from(block.raw_len).max(u128::from(chunk.size)).max(1);
                share += u128::from(block.stored_len) * u128::from(chunk.size) / raw;
            }
        }
        u64::try_from(share).ok()
    }

    fn find(&self, path: &[u8]) -> Option<Entry> {
        let (number, size) = self.file_list.as_ref()?.find(path)?;
        let location = Location::numbered(number, self.manifest.position(number));
        Some(Entry { size, location, ..Entry::new(EntryPath::from_checked(path), Kind::File) })
    }

    fn digest(&self, member: &ContentRef) -> Option<Digest> {
        // A file of one chunk has the digest of that chunk, which is compared when the content is read.
        let recipe = self.manifest.recipe(member.number);
        let [number] = recipe.chunks() else { return None };
        let chunk = self.manifest.chunk(*number)?;
        let is_whole = chunk.hash.is_content_digest && chunk.size == member.size;
        is_whole.then(|| Digest(*chunk.hash.bytes.first_chunk::<DIGEST_LEN>().expect("32 bytes")))
    }
}
