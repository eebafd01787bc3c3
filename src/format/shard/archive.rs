//! A Shard file behind the reading face of all archives.
//!
//! Everything that the file says beside content is kept in attributes, so that the same file can be written again.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::format::archive::{Access, Damage, Depth, Info, OpenOptions, Part};
use crate::format::entry::{Kind, Metadata};
use crate::format::error::{Error, Result};
use crate::format::inside;
use crate::format::path::{self, Quoted};
use crate::format::progress::Monitor;
use crate::format::shard::attributes::{NAME, Origin, RECORD, foreign, metadata_attributes};
use crate::format::shard::{Header, MAX_PAYLOAD, Profile, Record, Shard};
use crate::format::source::ReadAt;
use crate::format::table::{Cleaned, Decoded, Item, Member, Members, TableArchive, TableBuilder, Winner, clean};

/// Raw content is handed out in runs of this length, bytes.
const STEP: u64 = 256 << 10;

/// Length of metadata, and of names that are no paths, that are kept as attributes, bytes.
const MAX_KEPT: u64 = 12 << 20;

/// A Shard file as an archive.
pub type ShardArchive = TableArchive<ShardMembers>;

/// Content of the entries of a Shard file.
pub struct ShardMembers {
    shard: Shard,
    source: Arc<dyn ReadAt>,
    decoded: Decoded,
    profile: OnceLock<Profile>,
}

impl ShardMembers {
    /// Opens a file of this kind; `None` when it is another one.
    ///
    /// # Errors
    ///
    /// As [`Shard::open`]; `Limit` when the index takes more memory than it may.
    pub fn probe(source: &Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<ShardArchive>> {
        let mut first = [0; 4];
        if source.len() < first.len() as u64 {
            return Ok(None);
        }
        source.read_exact_at(0, &mut first)?;
        if !Shard::is_magic(&first) {
            return Ok(None);
        }
        let shard = Shard::open(Arc::clone(source))?;
        let mut table = TableBuilder::new(Winner::First, options.index_bytes);
        let (mut escaped, mut kept) = (Vec::new(), 0u64);
        for (number, entry) in shard.entries().iter().enumerate() {
            let record = Record {
                number: u32::try_from(number).unwrap_or(u32::MAX),
                flags: entry.flags,
                content_type: entry.content_type,
                tags: entry.tags,
            };
            let name = shard.name(number);
            let path = path_of(name);
            let mut attributes = Vec::with_capacity(2);
            if let Some((_, is_other)) = &path {
                // Many entries may have one long name: it counts for each of them.
                kept += name.len() as u64;
                if kept <= MAX_KEPT {
                    attributes.push(foreign(NAME, name.to_vec()));
                }
                escaped.extend(is_other.then_some(number));
            }
            attributes.push(foreign(RECORD, record.encode().into_bytes()));
            let item = Item {
                size: entry.content_len,
                metadata: Arc::new(Metadata { mode: 0o644, owner: None, attributes: attributes.into() }),
                number: number as u64,
                place: (entry.data_offset, number as u64),
                ..Item::new(Kind::File)
            };
            table.add(path.as_ref().map_or(name, |(path, _)| path), item)?;
        }
        let mut info = describe(&shard)?;
        if let Some(&first) = escaped.first() {
            let name = Quoted::new(shard.name(first));
            let path = path_of(shard.name(first)).map(|(path, _)| Quoted::new(&path).to_string()).unwrap_or_default();
            let whose = match escaped.len() {
                1 => "1 name can be no path and is".to_owned(),
                count => format!("{count} names can be no paths and are"),
            };
            info.remarks.push(format!("{whose} shown in other letters: {name} as {path}"));
        }
        let decoded = Decoded::new(options.cache_bytes);
        Ok(Some(TableArchive::new(
            table.finish()?,
            Self { shard, source: Arc::clone(source), decoded, profile: OnceLock::new() },
            info,
        )))
    }

    /// Returns the file.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    fn profile(&self) -> Result<&Profile> {
        if let Some(profile) = self.profile.get() {
            return Ok(profile);
        }
        let profile = Profile::read(&self.shard)?;
        Ok(self.profile.get_or_init(|| profile))
    }
}

impl Members for ShardMembers {
    fn with_range(
        &self,
        member: &Member,
        range: Range<u64>,
        _: Access,
        sink: &mut dyn FnMut(Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let number = within(member.number);
        let Some(stored) = self.shard.plain_range(number)? else {
            let content = self.decoded.get(member.number, || self.shard.read(number, MAX_PAYLOAD))?;
            return sink(Part::Data(content.get(within(range.start)..within(range.end)).unwrap_or_default()));
        };
        let mut buffer = vec![0; within(STEP.min(range.end - range.start))];
        let mut at = range.start;
        while at < range.end {
            let bytes = &mut buffer[..within(STEP.min(range.end - at))];
            self.source.read_exact_at(stored.start + at, bytes)?;
            at += bytes.len() as u64;
            sink(Part::Data(bytes))?;
        }
        Ok(())
    }

    fn check(&self, member: &Member, _: Depth) -> Result<()> {
        let number = within(member.number);
        match self.shard.plain_range(number)? {
            Some(_) => Ok(()),
            None => self.shard.read(number, MAX_PAYLOAD).map(drop),
        }
    }

    fn check_container(&self, _: Depth, blocks: &mut u64, _: &dyn Monitor) -> Result<Vec<Damage>> {
        *blocks += self.shard.entries().len() as u64;
        match self.shard.metadata_range() {
            Err(Error::Corrupt { structure, offset, detail }) => {
                Ok(vec![Damage { structure: structure.into(), offset, detail, entries: Vec::new(), entry_count: 0 }])
            }
            Err(error) => Err(error),
            Ok(_) => Ok(Vec::new()),
        }
    }

    fn describe(&self, member: Option<&Member>) -> Result<Option<inside::Table>> {
        let profile = self.profile()?;
        match member {
            Some(member) => profile.describe(&self.shard, within(member.number)),
            None => profile.whole(&self.shard).map(Some),
        }
    }

    fn stored_bytes(&self, member: &Member) -> Option<u64> {
        Some(self.shard.entries()[within(member.number)].stored_len)
    }
}

fn describe(shard: &Shard) -> Result<Info> {
    let header: &Header = shard.header();
    let mut attributes = Origin::of(shard).attributes();
    let mut remarks = shard.remarks();
    if let Ok(Some(range)) = shard.metadata_range() {
        let len = range.end - range.start;
        let fits = if len <= MAX_KEPT { shard.metadata()?.as_deref().and_then(metadata_attributes) } else { None };
        match fits {
            Some(parts) => attributes.extend(parts),
            None => remarks.push(format!("its metadata of {len} bytes is too long to be kept")),
        }
    }
    let role = match header.role.name() {
        Some(name) => name.to_owned(),
        None => format!("role {}", header.role.0),
    };
    Ok(Info {
        format: format!("Shard 2 ({role})"),
        archive_bytes: header.file_len,
        stored_bytes: Some(shard.entries().iter().map(|entry| entry.stored_len).fold(0, u64::saturating_add)),
        attributes,
        remarks,
        ..Info::default()
    })
}

/// Returns the path that stands for a name that is none, and whether it has other letters than the name; `None` for names that are paths.
fn path_of(name: &[u8]) -> Option<(Vec<u8>, bool)> {
    path::check(name).err()?;
    let mut cleaned = Vec::with_capacity(name.len());
    match clean(name, &mut cleaned) {
        Ok(Cleaned::Path | Cleaned::Relative) => Some((name.to_vec(), false)),
        Ok(Cleaned::Top) | Err(_) => {
            let components = name.split(|&byte| byte == b'/').map(|component| match component {
                b"" => b"%".to_vec(),
                b"." | b".." => b"%2E".repeat(component.len()),
                _ => component
                    .iter()
                    .flat_map(|byte| if *byte == 0 { &b"%00"[..] } else { std::slice::from_ref(byte) })
                    .copied()
                    .collect(),
            });
            Some((components.collect::<Vec<_>>().join(&b'/'), true))
        }
    }
}

/// Offsets within content that is in memory, and numbers of entries, fit.
fn within(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_path() {
        for (name, expected) in [
            (&b"a/b"[..], None),
            (b"/a//b", Some((&b"/a//b"[..], false))),
            (b"", Some((b"%", true))),
            (b"/", Some((b"%/%", true))),
            (b"../a", Some((b"%2E%2E/a", true))),
            (b"./", Some((b"%2E/%", true))),
            (b"a\0b", Some((b"a%00b", true))),
        ] {
            assert_eq!(path_of(name).as_ref().map(|(path, other)| (path.as_slice(), *other)), expected);
        }
    }
}
