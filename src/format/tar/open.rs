//! Opens tar archives and single compressed files.

use std::sync::Arc;

use super::archive::{Bytes, TarBackend};
use super::decoder::Decoder;
use super::indexer::{Indexer, walk_blocks, walk_plain};
use super::{PROBE, detect, detect_stream, shortened};
use nra_core::archive::{Damage, Info, OpenOptions};
use nra_core::container::Container;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;
use nra_core::source::ReadAt;
use nra_core::table::{Duplicates, Losses, TableArchive, TableBuilder, TableEntry, clean};
use nra_stream::{self, Blocks, Compression, Input, SourceStream, is_skippable};

/// Most entries listed with a damage.
const MAX_DAMAGED_ENTRIES: usize = 1_000;
/// Most names in a remark.
const MAX_SHOWN: usize = 3;

/// Opens an uncompressed tar archive. Returns `None` if the source is not one.
///
/// # Errors
///
/// `Io`; `Limit` if the index is too large. Damage becomes a remark: the preceding entries are
/// served.
pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<TableArchive<TarBackend>>> {
    if !detect_stream(&mut Input::new(SourceStream::new(Arc::clone(source), 0), 0))? {
        return Ok(None);
    }
    index(Bytes::Plain(Arc::clone(source)), Container::Tar(None), source.len(), options).map(Some)
}

/// Opens a stream of this compression that contains a tar archive or a single file. Returns `None`
/// if the source is not one.
pub fn probe_compressed(
    compression: Compression,
    source: &Arc<dyn ReadAt>,
    options: &OpenOptions,
) -> Result<Option<TableArchive<TarBackend>>> {
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
    if detect(&first[..first.len().min(PROBE)]) {
        return index(Bytes::Compressed(blocks), Container::Tar(Some(compression)), source.len(), options).map(Some);
    }
    single(blocks, compression, source, options).map(Some)
}

/// Opens a single compressed file. Its length is known only after all of it is decoded.
fn single(
    blocks: Box<Blocks>,
    compression: Compression,
    source: &Arc<dyn ReadAt>,
    options: &OpenOptions,
) -> Result<TableArchive<TarBackend>> {
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
    let (remark, table) = (blocks.remark(), table.finish()?);
    let skips_entries = remark.is_some();
    info.remarks.extend(remark);
    if let (Some(damage), Some(_)) = (&mut damage, blocks.doubt()) {
        damage.entries.extend(table.entries().map(|entry| entry.path));
        damage.entry_count = damage.entries.len() as u64;
    }
    info.remarks.extend(damage.as_ref().map(|damage| damage_remark(damage, None, PRECEDING_SERVED)));
    let losses = Losses { damage: damage.into_iter().collect(), skips_entries, skipped_entries: 0 };
    let backend = TarBackend { bytes: Bytes::Compressed(blocks), maps: Vec::new() };
    Ok(TableArchive::new(table, backend, info).with_losses(losses))
}

/// The remark's clause on the entries that precede damage.
const PRECEDING_SERVED: &str = "preceding entries are readable";

/// Describes damage with its `effect`, the truncated entry, and the entries that a mismatching
/// checksum covers.
fn damage_remark(damage: &Damage, truncated: Option<&EntryPath>, effect: &str) -> String {
    let Damage { structure, offset, detail, entries, entry_count, .. } = damage;
    let covered = entries.iter().filter(|path| Some(*path) != truncated).map(EntryPath::as_bytes);
    let doubt = match entry_count - u64::from(truncated.is_some()) {
        0 => String::new(),
        count => format!(", but may be damaged where the mismatching checksum covers them: {}", name_list(covered, count)),
    };
    let skipped = truncated.map_or_else(String::new, |path| format!("{}: skipped: ", shortened(path.as_bytes())));
    format!("{skipped}{structure} at offset {offset} is damaged: {detail}; {effect}{doubt}")
}

/// Lists the first of `count` names.
fn name_list<'a>(names: impl Iterator<Item = &'a [u8]>, count: u64) -> String {
    let names: Vec<String> = names.take(MAX_SHOWN).map(|name| shortened(name).to_string()).collect();
    let more = count.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// Returns the entry path that a name denotes.
fn path(name: &[u8]) -> Option<EntryPath> {
    let mut path = Vec::with_capacity(name.len());
    clean(name, &mut path).ok()?;
    EntryPath::new(path).ok()
}

/// Builds the index of an archive in one pass over its headers.
fn index(bytes: Bytes, container: Container, archive_bytes: u64, options: &OpenOptions) -> Result<TableArchive<TarBackend>> {
    let mut builder = Indexer::new(options.index_bytes);
    let mut decoder = Decoder::default().with_names(options.names);
    let walked = match &bytes {
        Bytes::Plain(source) => walk_plain(&**source, &mut decoder, &mut builder),
        Bytes::Compressed(blocks) => walk_blocks(blocks, &mut decoder, &mut builder),
    };
    // A truncated entry is reported, but is not in the table.
    let truncated = builder.truncated.take().filter(|_| walked.is_err()).and_then(|name| path(&name));
    let mut damage = match walked {
        Ok(()) => None,
        Err(Error::Corrupt { structure, offset, detail }) => {
            let entries = Vec::from_iter(truncated.clone());
            Some(Damage { entry_count: entries.len() as u64, entries, ..Damage::new(structure, offset, detail) })
        }
        Err(error) => return Err(error),
    };
    builder.finish(&mut decoder);
    let mut info = Info { container, archive_bytes, ..Info::default() };
    info.remarks.append(&mut builder.remarks);
    info.message = builder.comment.take().unwrap_or_default();
    let mut skips_entries = builder.skips_entries;
    let mut doubt = None;
    if let Bytes::Compressed(blocks) = &bytes {
        let remark = blocks.remark();
        skips_entries |= remark.is_some();
        info.remarks.extend(remark);
        doubt = blocks.doubt();
    }
    let lost = builder.lost_links()?;
    if !lost.is_empty() {
        let names = name_list(lost.iter().map(Vec::as_slice), lost.len() as u64);
        info.remarks.push(format!("skipped: hard links whose target is not a file of the archive: {names}"));
    }
    let mut table = TableBuilder::new(Duplicates::KeepLast, options.index_bytes);
    for (name, item) in builder.items {
        if let Some(item) = item {
            table.add(&name, item)?;
        }
    }
    let table = table.finish()?;
    if let (Some(damage), Some(doubt)) = (&mut damage, doubt) {
        let may_be_damaged = |entry: &Entry| entry.kind == Kind::File && entry.position().1.saturating_add(entry.size) > doubt;
        for entry in table.entries().filter(may_be_damaged) {
            damage.entry_count += 1;
            damage.is_certain = false;
            if damage.entries.len() < MAX_DAMAGED_ENTRIES {
                damage.entries.push(entry.path);
            }
        }
    }
    info.remarks.extend(builder.damage.iter().map(|damage| damage_remark(damage, None, "it is skipped")));
    info.remarks.extend(damage.as_ref().map(|damage| damage_remark(damage, truncated.as_ref(), PRECEDING_SERVED)));
    let losses = Losses {
        skips_entries: skips_entries || !lost.is_empty(),
        skipped_entries: lost.len() as u64 + builder.damage.len() as u64 + u64::from(truncated.is_some()),
        damage: builder.damage.into_iter().chain(damage).collect(),
    };
    Ok(TableArchive::new(table, TarBackend { bytes, maps: builder.maps }, info).with_losses(losses))
}
