//! tar archives behind the reading face: plain ones are read where they lie, compressed ones are decoded block by block.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::decoder::{Decoder, Event};
use super::member::{Member as TarMember, MemberKind};
use super::{PROBE, detect, detect_stream};
use crate::format::archive::{Access, Damage, Depth, Info, MAX_HOLES, OpenOptions, Part};
use crate::format::entry::{Attribute, Kind, Metadata, Owner};
use crate::format::error::{Error, Result};
use crate::format::path::Quoted;
use crate::format::progress::Monitor;
use crate::format::source::ReadAt;
use crate::format::stream::{self, BLOCK, Blocks, Compression, Input, SourceStream, is_skippable};
use crate::format::table::{Item, Member, Members, TableArchive, TableBuilder, Winner, clean};

/// Bytes read at a time from a plain archive.
const READ: usize = 256 << 10;
/// Bytes read at a time while an index is made: a header, and what often belongs to it.
const PEEK: usize = 4 << 10;
/// Memory that an entry takes while an index is made, beside what has no fixed length, bytes.
const ENTRY_BYTES: u64 = 256;
/// Memory that a remark and an attribute take beside their bytes.
const REMARK_BYTES: u64 = 24;
const ATTRIBUTE_BYTES: u64 = 40;
/// Entries that are named with damage.
const NAMED: usize = 1_000;
/// Names in a remark.
const SHOWN: usize = 3;
/// Bytes of a name in a remark.
const SHOWN_BYTES: usize = 200;

/// Where the bytes of the archive are.
enum Bytes {
    Plain(Arc<dyn ReadAt>),
    Compressed(Box<Blocks>),
}

/// The content of the entries of a tar archive, or of the one file in a compressed stream.
pub struct TarMembers {
    bytes: Bytes,
    /// Maps of sparse files; [`Member::number`] − 1 is the place here.
    maps: Vec<Box<[(u64, u64)]>>,
    damage: Vec<Damage>,
    omits: bool,
}

/// Opens a plain tar archive; `None` if it is none.
///
/// # Errors
///
/// `Io`; `Limit` when the index gets too large. Damage is a remark: what came before is served.
pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<TableArchive<TarMembers>>> {
    if !detect_stream(&mut Input::new(SourceStream::new(Arc::clone(source), 0), 0))? {
        return Ok(None);
    }
    index(Bytes::Plain(Arc::clone(source)), "tar".into(), source.len(), options).map(Some)
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
        stream::detect(&mut Input::new(SourceStream::new(Arc::clone(source), 0), 0))? == Some(compression)
    } else {
        compression.begins(&first)
    };
    if !begins {
        return Ok(None);
    }
    let blocks = Box::new(Blocks::new(Arc::clone(source), compression, options.cache_bytes, options.stream_ratio));
    let first = blocks.block(0)?;
    let is_tar = detect(&first[..first.len().min(PROBE)]);
    if is_tar {
        let format = format!("tar, {}", compression.name());
        return index(Bytes::Compressed(blocks), format, source.len(), options).map(Some);
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
    let mut table = TableBuilder::new(Winner::Last, options.index_bytes);
    table.add(&compression.content_name(source.name()), Item { size, ..Item::new(Kind::File) })?;
    let mut info = Info { format: compression.name().into(), archive_bytes: source.len(), ..Info::default() };
    let (remark, doubt, table) = (blocks.remark(), blocks.doubt(), table.finish()?);
    let omits = remark.is_some();
    info.remarks.extend(remark);
    if let (Some(damage), Some(_)) = (&mut damage, doubt) {
        damage.entries.extend(table.entries().map(|entry| entry.path));
        damage.entry_count = damage.entries.len() as u64;
    }
    info.remarks.extend(damage.as_ref().map(|damage| told(damage, "what came before is served")));
    let damage = damage.into_iter().collect();
    let members = TarMembers { bytes: Bytes::Compressed(blocks), maps: Vec::new(), damage, omits };
    Ok(TableArchive::new(table, members, info))
}

/// Tells damage, and which entries the checksum covers that is wrong.
fn told(damage: &Damage, fate: &str) -> String {
    let Damage { structure, offset, detail, entries, entry_count, .. } = damage;
    let names: Vec<String> = entries.iter().take(SHOWN).map(|path| Quoted::new(path.as_bytes()).to_string()).collect();
    let more = entry_count.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let doubt = match entry_count {
        0 => String::new(),
        _ => format!(", but may be damaged, too, where its checksum covers it: {}{more}", names.join(", ")),
    };
    format!("{structure} at offset {offset} is damaged: {detail}; {fate}{doubt}")
}

/// Makes the index of an archive: one pass over its headers.
fn index(bytes: Bytes, format: String, archive_bytes: u64, options: &OpenOptions) -> Result<TableArchive<TarMembers>> {
    let mut builder = Indexer { limit: options.index_bytes, ..Indexer::default() };
    let mut decoder = Decoder::new().with_names(options.names);
    let walked = match &bytes {
        Bytes::Plain(source) => walk_plain(&**source, &mut decoder, &mut builder),
        Bytes::Compressed(blocks) => walk_blocks(blocks, &mut decoder, &mut builder),
    };
    let mut damage = match walked {
        Ok(()) => None,
        Err(Error::Corrupt { structure, offset, detail }) => {
            // Its name comes too late for the table: it does not read.
            let name = builder.cut.take().map(|name| format!(" (entry {})", Quoted::new(&name[..name.len().min(SHOWN_BYTES)])));
            Some(Damage::new(structure, offset, detail + &name.unwrap_or_default()))
        }
        Err(error) => return Err(error),
    };
    builder.ended(&mut decoder);
    let mut info = Info { format, archive_bytes, ..Info::default() };
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
        info.remarks.push(format!("left out: hard links to what is no file in the archive: {}{more}", names.join(", ")));
    }
    let mut table = TableBuilder::new(Winner::Last, options.index_bytes);
    for (name, item) in builder.items {
        if let Some(item) = item {
            table.add(&name, item)?;
        }
    }
    let table = table.finish()?;
    if let (Some(damage), Some(doubt)) = (&mut damage, doubt) {
        let doubtful =
            table.entries().filter(|entry| entry.kind == Kind::File && entry.place().1.saturating_add(entry.size) > doubt);
        for entry in doubtful {
            damage.entry_count += 1;
            if damage.entries.len() < NAMED {
                damage.entries.push(entry.path);
            }
        }
        damage.is_certain = damage.entry_count == 0;
    }
    info.remarks.extend(builder.damage.iter().map(|damage| told(damage, "it is left out")));
    info.remarks.extend(damage.as_ref().map(|damage| told(damage, "what came before is served")));
    let damage = builder.damage.into_iter().chain(damage).collect();
    let members = TarMembers { bytes, maps: builder.maps, damage, omits: omits || !lost.is_empty() };
    Ok(TableArchive::new(table, members, info))
}

/// Goes from header to header of a plain archive.
fn walk_plain(source: &dyn ReadAt, decoder: &mut Decoder, indexer: &mut Indexer) -> Result<()> {
    let mut buffer = vec![0; PEEK];
    loop {
        let left = source.len().saturating_sub(decoder.offset());
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        // Padding may be missing at the end, which lies behind the last byte then.
        if len > 0 {
            source.read_exact_at(decoder.offset(), &mut buffer[..len])?;
        }
        let mut used = 0;
        while used < len || len == 0 {
            let (taken, event) = decoder.step(&buffer[used..len], len == 0)?;
            used += taken;
            match event {
                Event::Member(member) => {
                    let skipped = decoder.skip_content();
                    // Only padding may be missing at the end, which is less than a block.
                    let data = member.stored.max(skipped.saturating_sub(511));
                    let end = decoder.offset().saturating_sub(skipped).saturating_add(data);
                    if end > source.len() {
                        indexer.cut = Some(member.name);
                        let detail = "truncated: unexpected end of the input in the content of an entry";
                        return Err(Error::corrupt("tar archive", source.len(), detail));
                    }
                    indexer.add(*member)?;
                    break;
                }
                Event::Damage(error) => indexer.hurt(*error)?,
                Event::Done => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Goes through the whole of a decoded stream.
fn walk_blocks(blocks: &Blocks, decoder: &mut Decoder, indexer: &mut Indexer) -> Result<()> {
    let mut member: Option<TarMember> = None;
    for number in 0.. {
        let block = blocks.block(number)?;
        let last = block.is_empty();
        let mut used = 0;
        loop {
            let (taken, event) = decoder.step(&block[used..], last)?;
            used += taken;
            match event {
                Event::More if used == block.len() && !last => break,
                Event::Member(begun) => {
                    indexer.cut = Some(begun.name.clone());
                    member = Some(*begun);
                }
                Event::End => {
                    indexer.cut = None;
                    if let Some(member) = member.take() {
                        indexer.add(member)?;
                    }
                }
                Event::Damage(error) => indexer.hurt(*error)?,
                Event::Done => return Ok(()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Collects entries while the archive is gone through.
#[derive(Default)]
struct Indexer {
    limit: u64,
    bytes: u64,
    /// Names and items; hard links whose target is still to be found have none.
    items: Vec<(Vec<u8>, Option<Item>)>,
    maps: Vec<Box<[(u64, u64)]>>,
    /// The last item of a path, by a hash of that.
    paths: HashMap<u128, usize>,
    /// Links whose target did not come yet, by the hash of its path.
    waiting: HashMap<u128, Vec<usize>>,
    groups: u64,
    last_metadata: Option<Arc<Metadata>>,
    remarks: Vec<String>,
    /// What is passed over.
    damage: Vec<Damage>,
    /// Name of the entry that has no end so far.
    cut: Option<Vec<u8>>,
    /// Something of the archive is not served; a remark says what.
    omits: bool,
    comment: Option<String>,
}

impl Indexer {
    /// Takes note of damage behind which the archive goes on.
    fn hurt(&mut self, error: Error) -> Result<()> {
        let Error::Corrupt { structure, offset, detail } = error else { return Err(error) };
        self.damage.push(Damage::new(structure, offset, detail));
        Ok(())
    }

    /// Takes what the archive as a whole says, when it has ended or nothing more of it can be read.
    fn ended(&mut self, decoder: &mut Decoder) {
        let mut remarks = decoder.take_remarks();
        self.omits |= !remarks.is_empty();
        self.remarks.append(&mut remarks);
        self.remarks.extend(decoder.take_behind());
        self.comment = decoder.comment();
    }

    /// Counts memory.
    fn take(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit {
            return Err(Error::Limit { what: "memory for the index", found: self.bytes, limit: self.limit });
        }
        Ok(())
    }

    fn add(&mut self, member: TarMember) -> Result<()> {
        self.take(ENTRY_BYTES)?;
        self.take(member.name.len() as u64 + 16 * member.segments.as_ref().map_or(0, Vec::len) as u64)?;
        for remark in &member.remarks {
            self.omits = true;
            let remark = format!("{}: {remark}", Quoted::new(&member.name[..member.name.len().min(SHOWN_BYTES)]));
            self.take(REMARK_BYTES + remark.len() as u64)?;
            self.remarks.push(remark);
        }
        let position = self.items.len();
        if let Some(path) = hash(&member.name) {
            if member.kind == MemberKind::HardLink {
                let target = hash(&member.link).unwrap_or_default();
                let known = self.paths.get(&target).copied();
                let item = known.map(|known| self.linked(known)).transpose()?.flatten();
                let is_settled = item.is_some();
                self.items.push((member.name, item));
                if !is_settled {
                    self.waiting.entry(target).or_default().push(position);
                    return Ok(());
                }
            } else {
                let item = self.item(&member)?;
                self.items.push((member.name, Some(item)));
            }
            self.paths.insert(path, position);
            self.settle(path, position)?;
        } else if !member.name.is_empty() {
            // The table tells what is wrong with the name.
            let item = self.item(&member)?;
            self.items.push((member.name, Some(item)));
        }
        Ok(())
    }

    /// Returns a copy of an item, both being hard links then.
    fn linked(&mut self, position: usize) -> Result<Option<Item>> {
        let Some(item) = &self.items[position].1 else { return Ok(None) };
        self.take(item.target.len() as u64)?;
        let groups = &mut self.groups;
        let Some(item) = &mut self.items[position].1 else { return Ok(None) };
        if item.kind == Kind::File && item.link_group == 0 {
            *groups += 1;
            item.link_group = *groups;
        }
        Ok((item.kind != Kind::Directory).then(|| item.clone()))
    }

    /// Gives the links that waited for a path what it stands for now, and those that waited for them.
    fn settle(&mut self, path: u128, position: usize) -> Result<()> {
        let mut ready = vec![(path, position)];
        while let Some((path, position)) = ready.pop() {
            if !self.waiting.contains_key(&path)
                || self.items[position].1.as_ref().is_none_or(|item| item.kind == Kind::Directory)
            {
                continue;
            }
            for link in self.waiting.remove(&path).unwrap_or_default() {
                let item = self.linked(position)?;
                self.items[link].1 = item;
                if let Some(own) = hash(&self.items[link].0) {
                    self.paths.entry(own).or_insert(link);
                    ready.push((own, link));
                }
            }
        }
        Ok(())
    }

    /// Returns the names of the links whose target never came.
    fn lost_links(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut lost: Vec<usize> = std::mem::take(&mut self.waiting).into_values().flatten().collect();
        lost.sort_unstable();
        lost.into_iter()
            .map(|position| {
                self.take(self.items[position].0.len() as u64)?;
                Ok(self.items[position].0.clone())
            })
            .collect()
    }

    fn item(&mut self, member: &TarMember) -> Result<Item> {
        let kind = member.kind.entry_kind();
        let number = match &member.segments {
            Some(map) => {
                self.maps.push(map.as_slice().into());
                self.maps.len() as u64
            }
            None => 0,
        };
        let target = if kind == Kind::Symlink { &*member.link } else { &[] };
        self.take(target.len() as u64)?;
        Ok(Item {
            kind,
            size: member.size,
            modified: member.modified,
            metadata: self.metadata(member)?,
            link_group: 0,
            target: target.into(),
            device: member.device,
            number,
            place: (0, member.data),
        })
    }

    fn metadata(&mut self, member: &TarMember) -> Result<Arc<Metadata>> {
        let owner = Owner {
            user_id: member.user_id,
            group_id: member.group_id,
            user: member.user.as_slice().into(),
            group: member.group.as_slice().into(),
        };
        let metadata = Metadata { mode: member.mode, owner: Some(owner), attributes: Arc::clone(&member.attributes) };
        if let Some(last) = self.last_metadata.as_ref().filter(|last| ***last == metadata) {
            return Ok(Arc::clone(last));
        }
        let attribute = |attribute: &Attribute| ATTRIBUTE_BYTES + (attribute.name.len() + attribute.value.len()) as u64;
        let shared = self.last_metadata.as_ref().is_some_and(|last| Arc::ptr_eq(&last.attributes, &member.attributes));
        let attributes = if shared { 0 } else { member.attributes.iter().map(attribute).sum::<u64>() };
        self.take((member.user.len() + member.group.len()) as u64 + attributes)?;
        let metadata = Arc::new(metadata);
        self.last_metadata = Some(Arc::clone(&metadata));
        Ok(metadata)
    }
}

fn hash(name: &[u8]) -> Option<u128> {
    let mut path = Vec::with_capacity(name.len());
    clean(name, &mut path).ok()?;
    Some(xxh3_128(&path))
}

impl TarMembers {
    /// Hands bytes of the archive from `offset` on to `sink`.
    fn data(&self, offset: u64, len: u64, sink: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut at = offset;
        match &self.bytes {
            Bytes::Plain(source) => {
                let mut buffer = vec![0; usize::try_from(len).unwrap_or(READ).min(READ)];
                while at < end {
                    let len = usize::try_from(end - at).unwrap_or(READ).min(READ);
                    source.read_exact_at(at, &mut buffer[..len])?;
                    sink(Part::Data(&buffer[..len]))?;
                    at += len as u64;
                }
            }
            Bytes::Compressed(blocks) => {
                while at < end {
                    let block = blocks.block(at / BLOCK as u64)?;
                    let start = usize::try_from(at % BLOCK as u64).expect("less than a block");
                    let len = usize::try_from(end - at).unwrap_or(BLOCK).min(block.len().saturating_sub(start));
                    if len == 0 {
                        return Err(Error::corrupt("tar archive", at, "truncated: unexpected end of the input"));
                    }
                    sink(Part::Data(&block[start..start + len]))?;
                    at += len as u64;
                }
            }
        }
        Ok(())
    }
}

impl Members for TarMembers {
    fn with_range(
        &self,
        member: &Member,
        range: Range<u64>,
        _access: Access,
        sink: &mut dyn FnMut(Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let data = member.place.1;
        let map = usize::try_from(member.number).ok().and_then(|number| self.maps.get(number.checked_sub(1)?));
        let Some(map) = map else { return self.data(data.saturating_add(range.start), range.end - range.start, sink) };
        let mut at = range.start;
        let mut stored = data;
        for &(offset, len) in map {
            let end = offset.saturating_add(len);
            if end > at && offset < range.end {
                if offset > at {
                    sink(Part::Hole(offset - at))?;
                    at = offset;
                }
                let until = end.min(range.end);
                self.data(stored.saturating_add(at - offset), until - at, sink)?;
                at = until;
            }
            stored = stored.saturating_add(len);
        }
        if at < range.end { sink(Part::Hole(range.end - at)) } else { Ok(()) }
    }

    fn check_container(&self, _depth: Depth, _blocks: &mut u64, _monitor: &dyn Monitor) -> Result<Vec<Damage>> {
        Ok(self.damage.clone())
    }

    fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    fn omits_entries(&self) -> bool {
        self.omits
    }

    fn reads_ranges(&self, _: &Member) -> bool {
        matches!(self.bytes, Bytes::Plain(_))
    }

    fn is_sequential(&self) -> bool {
        matches!(self.bytes, Bytes::Compressed(_))
    }

    fn holes(&self, member: &Member) -> Vec<Range<u64>> {
        let map = usize::try_from(member.number).ok().and_then(|number| self.maps.get(number.checked_sub(1)?));
        let Some(map) = map else { return Vec::new() };
        let ends = map.iter().map(|&(offset, len)| offset.saturating_add(len));
        let starts = map.iter().map(|&(offset, _)| offset).chain([member.size]);
        let holes: Vec<Range<u64>> =
            [0].into_iter().chain(ends).zip(starts).map(|(start, end)| start..end).filter(|hole| hole.start < hole.end).collect();
        if holes.len() > MAX_HOLES { Vec::new() } else { holes }
    }

    fn stored_bytes(&self, member: &Member) -> Option<u64> {
        let map = usize::try_from(member.number).ok().and_then(|number| self.maps.get(number.checked_sub(1)?));
        match (&self.bytes, map) {
            (Bytes::Compressed(_), _) => None,
            (Bytes::Plain(_), None) => Some(member.size),
            (Bytes::Plain(_), Some(map)) => Some(map.iter().map(|(_, len)| len).sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{Entry, Namespace};
    use crate::format::path::EntryPath;

    /// A member of this name, as the decoder tells it.
    fn member(name: &str) -> TarMember {
        let mut bytes = Vec::new();
        super::super::encode(&Entry::new(EntryPath::try_from(name).unwrap(), Kind::Symlink), None, &[], &mut bytes);
        match Decoder::new().step(&bytes, true).unwrap().1 {
            Event::Member(member) => *member,
            event => panic!("{event:?}"),
        }
    }

    /// Counted bytes of two entries, each changed by `change`; that a limit just below is kept.
    fn counted(change: impl Fn(&mut TarMember)) -> u64 {
        let add = |limit| {
            let mut indexer = Indexer { limit, ..Indexer::default() };
            let added = ["a", "b"].into_iter().try_for_each(|name| {
                let mut member = member(name);
                change(&mut member);
                indexer.add(member)
            });
            (indexer.bytes, added)
        };
        let (bytes, added) = add(u64::MAX);
        added.unwrap();
        let found = add(bytes - 1).1;
        assert!(matches!(found, Err(Error::Limit { found, .. }) if found == bytes), "{found:?}");
        bytes
    }

    #[test]
    fn what_an_entry_holds_is_counted() {
        let long = || vec![b'x'; 1000];
        let plain = counted(|_| ());
        assert_eq!(counted(|member| member.link = long()), plain + 2000);
        assert_eq!(counted(|member| member.remarks = vec!["x".repeat(1000)]), plain + 2 * (1000 + 24 + 3));
        // Equal metadata is held once.
        assert_eq!(counted(|member| member.user = long()), plain + 1000);
        assert_eq!(counted(|member| member.group = long()), plain + 1000);
        let attribute = Attribute { namespace: Namespace::Xattr, name: long().into(), value: long().into() };
        assert_eq!(counted(|member| member.attributes = [attribute.clone()].into()), plain + 2040);
        let other = |member: &mut TarMember| {
            let name = member.name.as_slice().into();
            member.attributes = [attribute.clone(), Attribute { name, ..attribute.clone() }].into();
        };
        assert_eq!(counted(other), plain + 2 * (2040 + 1041));
    }

    #[test]
    fn copies_for_hard_links_are_counted() {
        let mut indexer = Indexer { limit: 100_000, ..Indexer::default() };
        let link = |name| TarMember { kind: MemberKind::HardLink, link: b"target".to_vec(), ..member(name) };
        indexer.add(link("early")).unwrap();
        let bytes = indexer.bytes;
        indexer.add(TarMember { link: vec![b'x'; 10_000], ..member("target") }).unwrap();
        assert_eq!(indexer.bytes, bytes + ENTRY_BYTES + 6 + 20_000);
        let bytes = indexer.bytes;
        indexer.add(link("late")).unwrap();
        assert_eq!(indexer.bytes, bytes + ENTRY_BYTES + 4 + 10_000);
    }
}
