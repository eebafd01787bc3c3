//! Names of entries as paths: most names are paths, for the others something else stands.
//!
//! Specification: shard.md, section 4.

use crate::Shard;
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::path::{self, Quoted};
use nra_core::table::{Cleaned, Table, clean};

/// Length of names that are no paths and are kept as attributes, bytes.
const MAX_KEPT: u64 = 12 << 20;
/// Names given in a remark.
const SHOWN: usize = 3;
/// Bytes of a name given in a remark.
const SHOWN_BYTES: usize = 200;

/// What there is to know about the names of a file.
pub(super) struct Names {
    /// Numbers of the entries whose names are no paths and are kept, ascending.
    kept: Vec<usize>,
    /// Every name is a path.
    are_paths: bool,
    /// Memory that a table of the paths takes at most, bytes.
    pub(super) table_bytes: u64,
    /// What is to be said about them.
    pub(super) remarks: Vec<String>,
}

impl Names {
    /// Looks at the names of `shard`.
    ///
    /// # Errors
    ///
    /// `Limit` when the contents add up to more than a file can have.
    pub(super) fn of(shard: &Shard) -> Result<Self> {
        let (mut kept, mut kept_bytes, mut dropped) = (Vec::new(), 0u64, 0u64);
        let (mut content_bytes, mut path_bytes, mut slashes) = (0u64, 0u64, 0u64);
        let (mut shown, mut escaped) = (Vec::new(), 0u64);
        let mut are_paths = true;
        for (number, entry) in shard.entries().iter().enumerate() {
            content_bytes = content_bytes.saturating_add(entry.content_len);
            let name = shard.name(number);
            if let Some(found) = slashes_of_path(name) {
                (path_bytes, slashes) = (path_bytes + name.len() as u64, slashes + found);
                continue;
            }
            let Some((path, is_other)) = path_of(name) else {
                (path_bytes, slashes) = (path_bytes + name.len() as u64, slashes + slashes_in(name));
                continue;
            };
            are_paths = false;
            (path_bytes, slashes) = (path_bytes + path.len() as u64, slashes + slashes_in(&path));
            kept_bytes += name.len() as u64;
            if kept_bytes <= MAX_KEPT {
                kept.push(number);
            } else {
                dropped += 1;
            }
            if is_other {
                escaped += 1;
                if shown.len() < SHOWN {
                    shown.push(format!("{} as {}", in_remark(name), in_remark(&path)));
                }
            }
        }
        if content_bytes > MAX_OFFSET {
            return Err(Error::Limit { what: "sum of the sizes", found: content_bytes, limit: MAX_OFFSET });
        }
        let mut remarks = Vec::new();
        if escaped > 0 {
            let whose = match escaped {
                1 => "1 name can be no path and is".to_owned(),
                count => format!("{count} names can be no paths and are"),
            };
            let more = match escaped - shown.len() as u64 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            remarks.push(format!("{whose} shown in other letters: {}{more}", shown.join(", ")));
        }
        if dropped > 0 {
            let what = if dropped == 1 { "1 name that is no path is" } else { &format!("{dropped} names that are no paths are") };
            remarks.push(format!("{what} not kept beside the path: such names have {kept_bytes} bytes, {MAX_KEPT} have room"));
        }
        let table_bytes = Table::bytes(path_bytes, (shard.entries().len() as u64).saturating_add(slashes));
        Ok(Self { kept, are_paths, table_bytes, remarks })
    }

    /// Says whether the name of an entry is kept beside its path.
    pub(super) fn keeps(&self, number: usize) -> bool {
        self.kept.binary_search(&number).is_ok()
    }

    /// Returns the number of the entry with this path, if the names tell it without a table: all of them are paths, and nothing lies below.
    pub(super) fn find(&self, shard: &Shard, path: &[u8]) -> Option<usize> {
        let number = if self.are_paths { shard.find(path)? } else { return None };
        let is_below = |name: &[u8]| name.len() > path.len() && name[path.len()] == b'/' && name.starts_with(path);
        (0..shard.entries().len()).all(|other| !is_below(shard.name(other))).then_some(number)
    }
}

/// Returns the path that stands for a name that is none, and whether it has other letters than the name; `None` for names that are paths.
pub(super) fn path_of(name: &[u8]) -> Option<(Vec<u8>, bool)> {
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

/// Says whether an entry of this name has this path.
pub fn stands_for(name: &[u8], path: &[u8]) -> bool {
    let Some((shown, _)) = path_of(name) else { return name == path };
    let mut cleaned = Vec::with_capacity(shown.len());
    matches!(clean(&shown, &mut cleaned), Ok(Cleaned::Path | Cleaned::Relative)) && cleaned == path
}

/// Returns a name as remarks have it: a long one is cut.
pub(super) fn in_remark(name: &[u8]) -> String {
    let quoted = Quoted::new(&name[..name.len().min(SHOWN_BYTES)]);
    let more = if name.len() > SHOWN_BYTES { "…" } else { "" };
    format!("{quoted}{more}")
}

/// Returns the number of slashes in a name that is a path; `None` also for some paths. Opening a file asks that of every name.
fn slashes_of_path(name: &[u8]) -> Option<u64> {
    let (mut slashes, mut before) = (0, b'/');
    for &byte in name {
        if byte == 0 || (before == b'/' && (byte == b'/' || byte == b'.')) {
            return None;
        }
        slashes += u64::from(byte == b'/');
        before = byte;
    }
    (before != b'/').then_some(slashes)
}

fn slashes_in(path: &[u8]) -> u64 {
    path.iter().filter(|&&byte| byte == b'/').count() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{Dialect, Layout, Marks, Role, ShardMembers, ShardWriter, Style};
    use nra_core::archive::{Archive, OpenOptions};
    use nra_core::source::{MemorySource, ReadAt};

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

    #[test]
    fn names_stand_for_the_paths_that_they_have() {
        for (name, path) in [(&b"a/b"[..], &b"a/b"[..]), (b"/a//b", b"a/b"), (b"./a", b"a"), (b"", b"%"), (b"../a", b"%2E%2E/a")]
        {
            assert!(stands_for(name, path), "{}", Quoted::new(name));
        }
        for (name, path) in [(&b"/a//b"[..], &b"a/c"[..]), (b"a", b"b"), (b"", b"a"), (b"a", b"%")] {
            assert!(!stands_for(name, path), "{}", Quoted::new(name));
        }
    }

    /// Returns a file of empty entries with these names.
    fn file(names: &[Box<[u8]>]) -> Arc<dyn ReadAt> {
        let layout = Layout::Names(names.to_vec());
        let style = Style::new(Dialect::Go, Role::default(), 0, None, &layout);
        let mut writer = ShardWriter::create(std::io::Cursor::new(Vec::new()), style, layout).unwrap();
        for name in names {
            writer.begin(name, Marks::default()).unwrap();
            writer.end().unwrap();
        }
        Arc::new(MemorySource::new(writer.finish(None).unwrap().into_inner()))
    }

    #[test]
    fn names_beyond_what_is_kept_are_told() {
        let name = |number: usize| format!("/{number}{}", "n".repeat(60_000)).into_bytes().into_boxed_slice();
        let names: Vec<Box<[u8]>> = (0..220).map(name).collect();
        let shard = Shard::open(file(&names)).unwrap();
        let names = Names::of(&shard).unwrap();
        let told = "11 names that are no paths are not kept beside the path: such names have 13200770 bytes, 12582912 have room";
        assert_eq!(names.remarks, [told]);
        assert!(names.keeps(208) && !names.keeps(209));
    }

    #[test]
    fn long_names_are_cut_in_remarks() {
        assert_eq!(in_remark(b"a b"), "'a b'");
        assert_eq!(in_remark(&[b'n'; 60_000]), format!("{}…", "n".repeat(200)));
    }

    proptest! {
        #[test]
        fn a_path_is_found_without_a_table_as_with_one(
            names in proptest::collection::btree_set("[/.ab\0]{0,5}|[ab]/[ab]|[ab]", 0..8),
            path in "[/.ab]{0,5}|[ab]/[ab]|[ab]",
        ) {
            let names: Vec<Box<[u8]>> = names.into_iter().map(|name| name.into_bytes().into()).collect();
            let source = file(&names);
            let open = || ShardMembers::probe(&source, &OpenOptions::default()).unwrap().unwrap();
            let with_table = open();
            prop_assert!(with_table.entry_count() >= with_table.info().files);
            for path in names.iter().map(|name| &**name).chain([path.as_bytes()]) {
                let expected = with_table.find(path).unwrap().map(|(_, entry)| entry);
                prop_assert_eq!(open().find_entry(path).unwrap(), expected);
            }
        }

        #[test]
        fn what_is_taken_for_a_path_is_one(name in "[/.a\0]{0,8}") {
            let name = name.as_bytes();
            if let Some(slashes) = slashes_of_path(name) {
                prop_assert_eq!(path::check(name), Ok(()));
                prop_assert_eq!(slashes, slashes_in(name));
            }
        }
    }
}
