//! The engine proper: opening, and the content of members.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::block::Dictionary;
use super::blocks::{Blocks, Lock};
use super::building::Entries;
use super::cipher::Cipher;
use super::header::{Header, MAGIC};
use super::manifest::{Chunk, Manifest, Recipe};
use super::names::Names;
use nra_core::archive::{Access, Damage, Depth, Info, OpenOptions, Part};
use nra_core::container::{Container, Engine};
use nra_core::crypt::Secret;
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::entry::{Entry, Kind, Location};
use nra_core::error::{Error, FileGuess, Result};
use nra_core::path::EntryPath;
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;
use nra_core::table::{ContentRef, Table, TableArchive, TableBackend, TableBuilder};

/// Length of the footer of version 1, bytes: SHA-256 of all before, CRC-32 of the manifest, magic.
const FOOTER_LEN: u64 = 40;
/// A chunk costs a block of 4 MiB to decode and has 2 KiB or more, unless it is the last one of a file: so many bytes to decode for each of
/// content and each that a record of a chunk takes are more than earlier versions make of any file.
const MAX_COST: u64 = 4096;
/// Bytes that a manifest has for a chunk of a file.
const ITEM_LEN: u64 = 66;
/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// Content of an earlier NRA file.
pub struct Nra4 {
    source: Arc<dyn ReadAt>,
    header: Header,
    manifest: Manifest,
    /// The names of all files, if there may be no table.
    names: Option<Names>,
    blocks: Blocks,
    /// Blocks whose checksum was compared by a quick check, and what was wrong.
    checked: Mutex<HashMap<u32, Option<String>>>,
}

/// Opens an earlier NRA file.
///
/// # Errors
///
/// `NotAnArchive` when it is none; otherwise as opening any archive does.
pub fn open(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<TableArchive<Nra4>> {
    let none = || Error::NotAnArchive { guess: FileGuess::Unknown, wanted: Some(Engine::Nra4) };
    probe(source, options)?.ok_or_else(none)
}

/// Opens `source` if it is an earlier NRA file.
pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<TableArchive<Nra4>>> {
    let Some(header) = Header::read(&**source)? else { return Ok(None) };
    let Header { manifest_offset, manifest_len } = header;
    if manifest_len > options.index_bytes {
        return Err(Error::Limit { what: "length of the manifest", found: manifest_len, limit: options.index_bytes });
    }
    let (mut manifest, entries) = Manifest::parse(&**source, &header, options.index_bytes)?;
    let dictionary = match manifest.dictionary.take() {
        None => None,
        Some(bytes) => match Dictionary::new(bytes) {
            Some(dictionary) => Some(dictionary),
            None => return Err(Error::corrupt("manifest", manifest_offset, "its dictionary is not valid")),
        },
    };
    let mut info = describe(&manifest, source.len());
    let lock = match &options.key {
        _ if !manifest.encrypted => Lock::None,
        Some(Secret::Raw(key)) => Lock::Open(Box::new(Cipher::new(key))),
        // There were no passwords.
        Some(Secret::Password(_)) => Lock::Locked(|| Error::WrongKey),
        None => Lock::Locked(|| Error::KeyNeeded),
    };
    let blocks = Blocks::new(Arc::clone(source), options.cache_bytes, dictionary, lock);
    if blocks.is_locked(&manifest.blocks) {
        info.remarks.push(format!("{} is encrypted, its names are not: contents need the key", info.container));
    }
    let checked = Mutex::default();
    let members = |names| Nra4 { source: Arc::clone(source), header, manifest, names, blocks, checked };
    Ok(Some(match entries {
        Entries::Table(table) => TableArchive::new(table, members(None), info),
        Entries::Names(names) => TableArchive::on_demand(members(Some(names)), info, Nra4::table),
    }))
}

fn describe(manifest: &Manifest, archive_bytes: u64) -> Info {
    let chunks = manifest.chunks();
    Info {
        container: if manifest.first { Container::Nra1 } else { Container::Nra4 },
        archive_bytes,
        chunk_bytes: Some(chunks.iter().map(|chunk| chunk.size).fold(0, u64::saturating_add)),
        stored_bytes: Some(manifest.blocks.iter().map(|block| block.stored).fold(0, u64::saturating_add)),
        blocks: Some(manifest.blocks.len() as u64),
        chunks: Some(chunks.len() as u64),
        encrypted: manifest.encrypted,
        message: manifest.name.clone(),
        attributes: manifest.attributes.clone(),
        ..Info::default()
    }
}

impl Nra4 {
    /// Makes a table of the names.
    fn table(&self) -> Table {
        let names = self.names.as_ref().expect("there is a table already if there are no names");
        self.manifest.join();
        let table = names.table(u64::MAX, |file| self.manifest.place(file)).and_then(TableBuilder::finish);
        table.expect("what it may take was compared with the limit when the names were added")
    }

    /// Returns the chunks of a member, whose lengths must add up to its size.
    fn recipe(&self, member: &ContentRef) -> Result<Recipe<'_>> {
        let recipe = self.manifest.recipe(member.number);
        if let Some(lost) = recipe.chunks().iter().position(|&chunk| self.manifest.chunk(chunk).is_none()) {
            let hash = self.manifest.asked(member.number, lost);
            return Err(self.corrupt(format!("a file needs the chunk {hash}, which the chunk table does not have")));
        }
        if recipe.len() != member.size {
            return Err(self.corrupt(format!("a file of {} bytes has chunks of {} bytes", member.size, recipe.len())));
        }
        Ok(recipe)
    }

    fn corrupt(&self, detail: String) -> Error {
        Error::corrupt("manifest", self.header.manifest_offset, detail)
    }

    /// Compares the footer that version 1 has, if anything is behind the manifest and the blocks. Earlier versions never did.
    fn check_footer(&self, monitor: &dyn Monitor) -> Result<Option<Damage>> {
        let damage = |offset, detail: String| {
            Ok(Some(Damage { structure: "footer".into(), offset, detail, entries: Vec::new(), entry_count: 0, is_certain: true }))
        };
        let len = self.source.len();
        let ends = self.manifest.blocks.iter().map(|block| block.offset.saturating_add(block.stored));
        let end = ends.fold(self.header.end(), u64::max);
        if !self.manifest.first || end >= len {
            return Ok(None);
        }
        let footer = len.checked_sub(FOOTER_LEN).filter(|&place| place >= end).map(|place| {
            let mut footer = [0; FOOTER_LEN as usize];
            self.source.read_exact_at(place, &mut footer).map(|()| (place, footer))
        });
        let (place, footer) = match footer.transpose()? {
            Some((place, footer)) if footer[36..] == MAGIC => (place, footer),
            _ => return damage(end, format!("the {} bytes behind the last block are none", len - end)),
        };
        let (mut sha, mut crc) = (Sha256::new(), crc32fast::Hasher::new());
        let Header { manifest_offset, manifest_len } = self.header;
        let mut piece = vec![0; STEP];
        let mut at = 0;
        while at < place {
            monitor.check()?;
            let step = usize::try_from(place - at).unwrap_or(usize::MAX).min(STEP);
            self.source.read_exact_at(at, &mut piece[..step])?;
            sha.update(&piece[..step]);
            let within = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(step);
            crc.update(&piece[within(manifest_offset)..within(manifest_offset + manifest_len)]);
            at += step as u64;
        }
        if footer[32..36] != crc.finalize().to_le_bytes() {
            damage(place, "its CRC-32 of the manifest is another one".into())
        } else if footer[..32] != sha.finalize()[..] {
            damage(place, "its SHA-256 of the file is another one".into())
        } else {
            Ok(None)
        }
    }
}

impl TableBackend for Nra4 {
    fn is_encrypted(&self, _: &ContentRef) -> bool {
        self.manifest.encrypted
    }

    fn with_range(
        &self,
        member: &ContentRef,
        range: Range<u64>,
        _: Access,
        sink: &mut dyn FnMut(Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let recipe = self.recipe(member)?;
        let mut last: Option<(u32, Arc<Vec<u8>>)> = None;
        let mut cost = 0u64;
        let items = ITEM_LEN.saturating_mul(recipe.chunks().len() as u64);
        let most = MAX_COST.saturating_mul(member.size.saturating_add(items));
        for (start, number) in recipe.from(range.start) {
            if start >= range.end {
                break;
            }
            let Some(chunk) = self.manifest.chunk(number) else { continue };
            let number = chunk.block;
            let block = &self.manifest.blocks[number as usize];
            let part = range.start.saturating_sub(start)..(range.end - start).min(chunk.size);
            if !Blocks::is_within_reach(block, chunk) {
                self.blocks.stream(block, chunk, part, &mut |bytes| sink(Part::Data(bytes)))?;
                continue;
            }
            let content = match last.take() {
                Some((of, content)) if of == number => content,
                other => {
                    // The first one is there for all files that lie in it.
                    cost = cost.saturating_add(if other.is_some() { block.raw.into() } else { 0 });
                    if cost > most {
                        return Err(Error::Limit { what: "length of the blocks of a file", found: cost, limit: most });
                    }
                    self.blocks.content(number, block)?
                }
            };
            let at = |offset: u64| usize::try_from(offset).expect("within a block in memory");
            let bytes = &content[at(chunk.inner)..][..at(chunk.size)];
            if chunk.hash.named && blake3::hash(bytes).as_bytes() != &chunk.hash.bytes {
                let detail = format!("the chunk at {} in it has another digest than the manifest says", chunk.inner);
                return Err(Error::corrupt("block", block.offset, detail));
            }
            sink(Part::Data(&bytes[at(part.start)..at(part.end)]))?;
            last = Some((number, content));
        }
        Ok(())
    }

    fn reads_ranges(&self, member: &ContentRef) -> bool {
        // A chunk far inside a block is reached by decoding what is in front of it.
        let is_near = |number: &u32| {
            let chunk = self.manifest.chunk(*number);
            chunk.is_none_or(|chunk| Blocks::is_within_reach(&self.manifest.blocks[chunk.block as usize], chunk))
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
            let known = self.checked.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
            let wrong = match known {
                Some(wrong) => wrong,
                None => {
                    let wrong = match self.blocks.check(block) {
                        Ok(()) => None,
                        Err(Error::Corrupt { detail, .. }) => Some(detail),
                        Err(error) => return Err(error),
                    };
                    self.checked.lock().unwrap_or_else(PoisonError::into_inner).insert(number, wrong.clone());
                    wrong
                }
            };
            if let Some(detail) = wrong {
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
                let raw = u128::from(block.raw).max(u128::from(chunk.size)).max(1);
                share += u128::from(block.stored) * u128::from(chunk.size) / raw;
            }
        }
        u64::try_from(share).ok()
    }

    fn find(&self, path: &[u8]) -> Option<Entry> {
        let (number, size) = self.names.as_ref()?.find(path)?;
        let location = Location::numbered(number, self.manifest.place(number));
        Some(Entry { size, location, ..Entry::new(EntryPath::from_checked(path), Kind::File) })
    }

    fn digest(&self, member: &ContentRef) -> Option<Digest> {
        // A file of one chunk has the digest of that chunk; it is compared when the content is read.
        let recipe = self.manifest.recipe(member.number);
        let [number] = recipe.chunks() else { return None };
        let chunk = self.manifest.chunk(*number)?;
        let whole = chunk.hash.named && chunk.size == member.size;
        whole.then(|| Digest(*chunk.hash.bytes.first_chunk::<DIGEST_LEN>().expect("32 bytes")))
    }
}
