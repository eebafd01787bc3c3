//! Builds the index of a tar archive in one pass over its headers.

use std::sync::Arc;

use super::decoder::{Decoder, Event};
use super::member::{Member as TarMember, MemberKind};
use super::shortened;
use nra_core::archive::Damage;
use nra_core::entry::{Attribute, Kind, Metadata};
use nra_core::error::{Error, Result};
use nra_core::links::{LinkTargets, PathKey};
use nra_core::source::ReadAt;
use nra_core::table::{Cleaned, TableEntry, clean};
use nra_stream::Blocks;

/// Bytes read at a time: a header and, often, its extension headers.
const READ_LEN: usize = 4 << 10;
/// Memory of an entry without its variable parts, bytes.
const ENTRY_BYTES: u64 = 256;
/// Memory overhead of a remark and of an attribute, bytes.
const REMARK_BYTES: u64 = 24;
const ATTRIBUTE_BYTES: u64 = 40;

/// Walks the headers of an uncompressed archive.
pub(super) fn walk_plain(source: &dyn ReadAt, decoder: &mut Decoder, indexer: &mut Indexer) -> Result<()> {
    let mut buffer = vec![0; READ_LEN];
    loop {
        let remaining = source.len().saturating_sub(decoder.offset());
        let len = usize::try_from(remaining).unwrap_or(usize::MAX).min(buffer.len());
        // If padding is missing at the end, the offset is past the last byte.
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
                    // Padding may be missing at the end; it is shorter than a block.
                    let data = member.stored.max(skipped.saturating_sub(511));
                    let end = decoder.offset().saturating_sub(skipped).saturating_add(data);
                    if end > source.len() {
                        indexer.truncated = Some(member.name);
                        let detail = "truncated: unexpected end of the input in the content of an entry";
                        return Err(Error::corrupt("tar archive", source.len(), detail));
                    }
                    indexer.add(*member)?;
                    break;
                }
                Event::Damage(error) => indexer.add_damage(*error)?,
                Event::Done => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Walks a decoded stream from start to end.
pub(super) fn walk_blocks(blocks: &Blocks, decoder: &mut Decoder, indexer: &mut Indexer) -> Result<()> {
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
                    indexer.truncated = Some(begun.name.clone());
                    member = Some(*begun);
                }
                Event::End => {
                    indexer.truncated = None;
                    if let Some(member) = member.take() {
                        indexer.add(member)?;
                    }
                }
                Event::Damage(error) => indexer.add_damage(*error)?,
                Event::Done => return Ok(()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Collects the entries of an archive.
#[derive(Default)]
pub(super) struct Indexer {
    limit: u64,
    bytes: u64,
    /// Names and entries; `None` for hard links whose target is not known yet.
    pub(super) items: Vec<(Vec<u8>, Option<TableEntry>)>,
    pub(super) maps: Vec<Box<[(u64, u64)]>>,
    /// Resolves hard links, which are indexes of `items`.
    links: LinkTargets<usize, usize>,
    groups: u64,
    last_metadata: Option<Arc<Metadata>>,
    pub(super) remarks: Vec<String>,
    /// Damaged parts that were skipped.
    pub(super) damage: Vec<Damage>,
    /// Name of the entry whose end has not been read.
    pub(super) truncated: Option<Vec<u8>>,
    /// A part of the archive is skipped. A remark names it.
    pub(super) skips_entries: bool,
    pub(super) comment: Option<String>,
}

impl Indexer {
    /// Creates an index that may use `limit` bytes of memory.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Records damage after which the walk continues.
    fn add_damage(&mut self, error: Error) -> Result<()> {
        let Error::Corrupt { structure, offset, detail } = error else { return Err(error) };
        self.damage.push(Damage::new(structure, offset, detail));
        Ok(())
    }

    /// Takes the remarks and the comment of the archive after the walk.
    pub(super) fn finish(&mut self, decoder: &mut Decoder) {
        let mut remarks = decoder.take_remarks();
        self.skips_entries |= !remarks.is_empty();
        self.remarks.append(&mut remarks);
        self.remarks.extend(decoder.take_trailing_remark());
        self.comment = decoder.comment();
    }

    /// Counts memory towards the limit.
    fn count(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit {
            return Err(Error::Limit { what: "memory for the index", found: self.bytes, limit: self.limit });
        }
        Ok(())
    }

    fn add(&mut self, member: TarMember) -> Result<()> {
        self.count(ENTRY_BYTES)?;
        self.count(member.name.len() as u64 + 16 * member.segments.as_ref().map_or(0, Vec::len) as u64)?;
        for remark in &member.remarks {
            self.skips_entries = true;
            let remark = format!("{}: {remark}", shortened(&member.name));
            self.count(REMARK_BYTES + remark.len() as u64)?;
            self.remarks.push(remark);
        }
        let position = self.items.len();
        let Some(path) = path_of(&member.name) else {
            // The table reports the invalid name.
            if !member.name.is_empty() {
                let item = self.item(&member)?;
                self.items.push((member.name, Some(item)));
            }
            return Ok(());
        };
        let replaced = if member.kind == MemberKind::HardLink {
            self.items.push((member.name, None));
            // The key of an invalid target is never found.
            self.links.add_link(path, path_of(&member.link).unwrap_or(PathKey::of(b"")), position)
        } else {
            let item = self.item(&member)?;
            let target = (item.kind != Kind::Directory).then_some(position);
            self.items.push((member.name, Some(item)));
            self.links.add_entry(path, target)
        };
        if let Some(replaced) = replaced {
            // The table reports that it is hidden.
            self.items[replaced].1 = Some(TableEntry::new(Kind::File));
        }
        self.resolve_links()
    }

    /// Sets the entries of links whose target is known.
    fn resolve_links(&mut self) -> Result<()> {
        while let Some((link, target)) = self.links.next_resolved() {
            self.items[link].1 = self.link_to(target)?;
            if let Some(path) = path_of(&self.items[link].0) {
                self.links.add_entry(path, Some(target));
            }
        }
        Ok(())
    }

    /// Returns a copy of an item and puts both into one group of hard links.
    fn link_to(&mut self, position: usize) -> Result<Option<TableEntry>> {
        let len = self.items[position].1.as_ref().map_or(0, |item| item.target.len() as u64);
        self.count(len)?;
        let groups = &mut self.groups;
        Ok(self.items[position].1.as_mut().map(|item| {
            if item.kind == Kind::File && item.link_group == 0 {
                *groups += 1;
                item.link_group = *groups;
            }
            item.clone()
        }))
    }

    /// Returns the names of links whose target was not found.
    pub(super) fn lost_links(&mut self) -> Result<Vec<Vec<u8>>> {
        let lost = std::mem::take(&mut self.links).into_unresolved().into_iter();
        lost.map(|position| {
            self.count(self.items[position].0.len() as u64)?;
            Ok(self.items[position].0.clone())
        })
        .collect()
    }

    fn item(&mut self, member: &TarMember) -> Result<TableEntry> {
        let kind = member.kind.entry_kind();
        let number = match &member.segments {
            Some(map) => {
                self.maps.push(map.as_slice().into());
                self.maps.len() as u64
            }
            None => 0,
        };
        let target = if kind == Kind::Symlink { &*member.link } else { &[] };
        self.count(target.len() as u64)?;
        Ok(TableEntry {
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
        let metadata = member.metadata();
        if let Some(last) = self.last_metadata.as_ref().filter(|last| ***last == metadata) {
            return Ok(Arc::clone(last));
        }
        let attribute = |attribute: &Attribute| ATTRIBUTE_BYTES + (attribute.name.len() + attribute.value.len()) as u64;
        let shared = self.last_metadata.as_ref().is_some_and(|last| Arc::ptr_eq(&last.attributes, &member.attributes));
        let attributes = if shared { 0 } else { member.attributes.iter().map(attribute).sum::<u64>() };
        self.count((member.user.len() + member.group.len()) as u64 + attributes)?;
        let metadata = Arc::new(metadata);
        self.last_metadata = Some(Arc::clone(&metadata));
        Ok(metadata)
    }
}

/// Returns the key of the path that a name denotes, or `None` for an invalid name and the top
/// directory.
fn path_of(name: &[u8]) -> Option<PathKey> {
    let mut path = Vec::with_capacity(name.len());
    match clean(name, &mut path) {
        Ok(Cleaned::Path | Cleaned::Relative) => Some(PathKey::of(&path)),
        Ok(Cleaned::Top) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::entry::{Entry, Namespace};
    use nra_core::path::EntryPath;

    /// Returns a member of this name from the decoder.
    fn member(name: &str) -> TarMember {
        let mut bytes = Vec::new();
        super::super::encode(&Entry::new(EntryPath::try_from(name).unwrap(), Kind::Symlink), None, &[], &mut bytes);
        match Decoder::default().step(&bytes, true).unwrap().1 {
            Event::Member(member) => *member,
            event => panic!("{event:?}"),
        }
    }

    /// Returns the memory counted for two entries, each changed by `change`, and asserts that a
    /// lower limit is enforced.
    fn counted(change: impl Fn(&mut TarMember)) -> u64 {
        let add = |limit| {
            let mut indexer = Indexer::new(limit);
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
    fn memory_of_entry_is_counted() {
        let long = || vec![b'x'; 1000];
        let plain = counted(|_| ());
        assert_eq!(counted(|member| member.link = long()), plain + 2000);
        assert_eq!(counted(|member| member.remarks = vec!["x".repeat(1000)]), plain + 2 * (1000 + 24 + 3));
        // Equal metadata is stored once.
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
    fn memory_of_hard_link_copies_is_counted() {
        let mut indexer = Indexer::new(100_000);
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
