//! Opens tar archives and single compressed files behind the reading face.

use std::sync::Arc;

use super::archive::{Bytes, TarMembers};
use super::decoder::Decoder;
use super::indexer::{Indexer, walk_blocks, walk_plain};
use super::{PROBE, detect, detect_stream};
use nra_core::archive::{Damage, Info, OpenOptions};
use nra_core::container::Container;
use nra_core::entry::Kind;
use nra_core::error::{Error, Result};
use nra_core::path::{EntryPath, Quoted};
use nra_core::source::ReadAt;
use nra_core::table::{Duplicates, TableArchive, TableBuilder, TableEntry, clean};
use nra_stream::{self, Blocks, Compression, Input, SourceStream, is_skippable};

/// Entries that are named with damage.
const NAMED: usize = 1_000;
/// Names in a remark.
const SHOWN: usize = 3;
/// Bytes of a name in a remark.
const SHOWN_BYTES: usize = 200;

/// Opens a plain tar archive; `None` if it is none.
///
/// # Errors
///
/// `Io`; `Limit` when the index gets too large. Damage is a remark: what came before is served.
pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<TableArchive<TarMembers>>> {
    if !detect_stream(&mut Input::new(SourceStream::new(Arc::clone(source), 0), 0))? {
        return Ok(None);
    }
    index(Bytes::Plain(Arc::clone(source)), Container::Tar(None), source.len(), options).map(Some)
}

/// Opens a stream that is compressed in this way, with a tar archive or one file in it; `None` if it is none.
///
/// # Errors
///
/// As [`probe`].
pub fn probe_compressed(
    compression: Compression,
    source: &Arc<dyn ReadAt>,
    options: &OpenOptions,
) -> Result<Option<TableArchive<TarMembers>>> {
    let mut first = vec![0; usize::try_from(source.len().min(18)).expect("at most 18")];
    source.read_exact_at(0, &mut first)?;
    let begins = if is_skippable(&first) {
        nra_stream::detect(&mut Input::new(SourceStream::new(Arc::clone(source), 0), 0))? == Some(compression)
    } else {
        nra_stream::begins(compression, &first)
    };
    if !begins {
        return Ok(None);
    }
    let blocks = Box::new(Blocks::new(Arc::clone(source), compression, options));
    let first = blocks.block(0)?;
    let is_tar = detect(&first[..first.len().min(PROBE)]);
    if is_tar {
        return index(Bytes::Compressed(blocks), Container::Tar(Some(compression)), source.len(), options).map(Some);
    }
    single(blocks, compression, source, options).map(Some)
}

/// One file: its length shows when all of it was decoded.
fn single(
    blocks: Box<Blocks>,
    compression: Compression,
    source: &Arc<dyn ReadAt>,
    options: &OpenOptions,
) -> Result<TableArchive<TarMembers>> {
    let (mut size, mut damage) = (0u64, None);
    for number in 0.. {
        match blocks.block(number) {
            Ok(block) => {
                size += block.len() as u64;
                if block.is_empty() {
                    break;
                }
            }
            Err(Error::Corrupt { structure, offset, detail }) => {
                damage = Some(Damage::new(structure, offset, detail));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut table = TableBuilder::new(Duplicates::KeepLast, options.index_bytes);
    table.add(&compression.content_name(source.name()), TableEntry { size, ..TableEntry::new(Kind::File) })?;
    let mut info = Info { container: Container::Compressed(compression), archive_bytes: source.len(), ..Info::default() };
    let (remark, doubt, table) = (blocks.remark(), blocks.doubt(), table.finish()?);
    let omits = remark.is_some();
    info.remarks.extend(remark);
    if let (Some(damage), Some(_)) = (&mut damage, doubt) {
        damage.entries.extend(table.entries().map(|entry| entry.path));
        damage.entry_count = damage.entries.len() as u64;
    }
    info.remarks.extend(damage.as_ref().map(|damage| told(damage, None, "what came before is served")));
    let damage = damage.into_iter().collect();
    let members = TarMembers { bytes: Bytes::Compressed(blocks), maps: Vec::new(), damage, omits, omitted: 0 };
    Ok(TableArchive::new(table, members, info))
}

/// Tells damage, which entries the checksum covers that is wrong, and which one the archive ends in.
fn told(damage: &Damage, cut: Option<&EntryPath>, fate: &str) -> String {
    let Damage { structure, offset, detail, entries, entry_count, .. } = damage;
    let shown = |path: &EntryPath| Quoted::new(&path.as_bytes()[..path.as_bytes().len().min(SHOWN_BYTES)]).to_string();
    let doubtful = entry_count - u64::from(cut.is_some());
    let names: Vec<String> = entries.iter().filter(|path| Some(*path) != cut).take(SHOWN).map(shown).collect();
    let more = doubtful.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let doubt = match doubtful {
        0 => String::new(),
        _ => format!(", but may be damaged, too, where its checksum covers it: {}{more}", names.join(", ")),
    };
    let lost = cut.map_or_else(String::new, |path| format!("{}: skipped: ", shown(path)));
    format!("{lost}{structure} at offset {offset} is damaged: {detail}; {fate}{doubt}")
}

/// Returns the path that a name means.
fn path(name: &[u8]) -> Option<EntryPath> {
    let mut path = Vec::with_capacity(name.len());
    clean(name, &mut path).ok()?;
    EntryPath::new(path).ok()
}

/// Makes the index of an archive: one pass over its headers.
fn index(bytes: Bytes, container: Container, archive_bytes: u64, options: &OpenOptions) -> Result<TableArchive<TarMembers>> {
    let mut builder = Indexer::new(options.index_bytes);
    let mut decoder = Decoder::new().with_names(options.names);
    let walked = match &bytes {
        Bytes::Plain(source) => walk_plain(&**source, &mut decoder, &mut builder),
        Bytes::Compressed(blocks) => walk_blocks(blocks, &mut decoder, &mut builder),
    };
    // Its name comes too late for the table: it does not read.
    let cut = builder.cut.take().filter(|_| walked.is_err()).and_then(|name| path(&name));
    let mut damage = match walked {
        Ok(()) => None,
        Err(Error::Corrupt { structure, offset, detail }) => {
            let entries = Vec::from_iter(cut.clone());
            Some(Damage { entry_count: entries.len() as u64, entries, ..Damage::new(structure, offset, detail) })
        }
        Err(error) => return Err(error),
    };
    builder.ended(&mut decoder);
    let mut info = Info { container, archive_bytes, ..Info::default() };
    info.remarks.append(&mut builder.remarks);
    info.message = builder.comment.take().unwrap_or_default();
    let mut omits = builder.omits;
    if let Bytes::Compressed(blocks) = &bytes {
        let remark = blocks.remark();
        omits |= remark.is_some();
        info.remarks.extend(remark);
    }
    let doubt = match &bytes {
        Bytes::Compressed(blocks) => blocks.doubt(),
        Bytes::Plain(_) => None,
    };
    let lost = builder.lost_links()?;
    if !lost.is_empty() {
        let names: Vec<String> =
            lost.iter().take(SHOWN).map(|name| Quoted::new(&name[..name.len().min(SHOWN_BYTES)]).to_string()).collect();
        let more = if lost.len() > SHOWN { format!(" and {} more", lost.len() - SHOWN) } else { String::new() };
        info.remarks.push(format!("skipped: hard links to what is no file in the archive: {}{more}", names.join(", ")));
    }
    let mut table = TableBuilder::new(Duplicates::KeepLast, options.index_bytes);
    for (name, item) in builder.items {
        if let Some(item) = item {
            table.add(&name, item)?;
        }
    }
    let table = table.finish()?;
    if let (Some(damage), Some(doubt)) = (&mut damage, doubt) {
        let doubtful =
            table.entries().filter(|entry| entry.kind == Kind::File && entry.position().1.saturating_add(entry.size) > doubt);
        for entry in doubtful {
            damage.entry_count += 1;
            damage.is_certain = false;
            if damage.entries.len() < NAMED {
                damage.entries.push(entry.path);
            }
        }
    }
    info.remarks.extend(builder.damage.iter().map(|damage| told(damage, None, "it is skipped")));
    info.remarks.extend(damage.as_ref().map(|damage| told(damage, cut.as_ref(), "what came before is served")));
    let omitted = lost.len() as u64 + builder.damage.len() as u64 + u64::from(cut.is_some());
    let damage = builder.damage.into_iter().chain(damage).collect();
    let members = TarMembers { bytes, maps: builder.maps, damage, omits: omits || !lost.is_empty(), omitted };
    Ok(TableArchive::new(table, members, info))
}
