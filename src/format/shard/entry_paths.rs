//! The paths of entries. Most names are valid paths; the others are escaped.
//!
//! Specification: shard.md, section 4.

use crate::Shard;
use nra_core::error::Result;
use nra_core::limits::{self, MAX_OFFSET};
use nra_core::path::{self, Quoted};
use nra_core::table::{Cleaned, Table, clean};

/// Largest total length of the names that are kept as attributes, bytes.
const MAX_KEPT_NAMES_LEN: u64 = 12 << 20;
/// Number of names in a remark.
const MAX_SHOWN_NAMES: usize = 3;
/// Length of a name in a remark, bytes.
const MAX_SHOWN_LEN: usize = 200;

/// The relation between the names and the paths of a file's entries.
pub(super) struct EntryPaths {
    /// Numbers of the entries whose names are not valid paths and are kept, ascending.
    kept: Vec<usize>,
    /// Whether every name is a valid path.
    are_paths: bool,
    /// Upper bound for the memory of a table of the paths, bytes.
    pub(super) table_bytes: u64,
    /// Remarks about the names.
    pub(super) remarks: Vec<String>,
}

impl EntryPaths {
    /// Checks the names of `shard`.
    pub(super) fn of(shard: &Shard) -> Result<Self> {
        let (mut kept, mut kept_bytes, mut dropped) = (Vec::new(), 0u64, 0u64);
        let (mut content_bytes, mut path_bytes, mut slashes) = (0u64, 0u64, 0u64);
        let (mut shown, mut escaped) = (Vec::new(), 0u64);
        let mut are_paths = true;
        for (number, entry) in shard.entries().iter().enumerate() {
            content_bytes = content_bytes.saturating_add(entry.content_len);
            let name = shard.name(number);
            if let Some(more) = count_slashes_if_valid(name) {
                (path_bytes, slashes) = (path_bytes + name.len() as u64, slashes + more);
                continue;
            }
            let Some((path, is_escaped)) = escaped_path(name) else {
                (path_bytes, slashes) = (path_bytes + name.len() as u64, slashes + count_slashes(name));
                continue;
            };
            are_paths = false;
            (path_bytes, slashes) = (path_bytes + path.len() as u64, slashes + count_slashes(&path));
            kept_bytes += name.len() as u64;
            if kept_bytes <= MAX_KEPT_NAMES_LEN {
                kept.push(number);
            } else {
                dropped += 1;
            }
            if is_escaped {
                escaped += 1;
                if shown.len() < MAX_SHOWN_NAMES {
                    shown.push(format!("{} as {}", quote_name(name), quote_name(&path)));
                }
            }
        }
        limits::check("sum of the sizes", content_bytes, MAX_OFFSET)?;
        let mut remarks = Vec::new();
        if escaped > 0 {
            let subject = match escaped {
                1 => "1 name is not a valid path and is".to_owned(),
                count => format!("{count} names are not valid paths and are"),
            };
            let more = match escaped - shown.len() as u64 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            remarks.push(format!("{subject} escaped: {}{more}", shown.join(", ")));
        }
        if dropped > 0 {
            let subject =
                if dropped == 1 { "1 name that is not a path is" } else { &format!("{dropped} names that are not paths are") };
            remarks.push(format!("{subject} not kept: such names have {kept_bytes} bytes, the limit is {MAX_KEPT_NAMES_LEN}"));
        }
        let table_bytes = Table::bytes(path_bytes, (shard.entries().len() as u64).saturating_add(slashes));
        Ok(Self { kept, are_paths, table_bytes, remarks })
    }

    /// Returns whether the name of an entry is kept in addition to its path.
    pub(super) fn keeps_name(&self, number: usize) -> bool {
        self.kept.binary_search(&number).is_ok()
    }

    /// Returns the number of the entry with this path.
    ///
    /// Returns `None` if a table must answer: a name is not a path, or an entry is below this one.
    pub(super) fn find(&self, shard: &Shard, path: &[u8]) -> Option<usize> {
        let number = if self.are_paths { shard.find(path)? } else { return None };
        let is_below = |name: &[u8]| name.len() > path.len() && name[path.len()] == b'/' && name.starts_with(path);
        (0..shard.entries().len()).all(|other| !is_below(shard.name(other))).then_some(number)
    }
}

/// Returns the path for a name that is not a valid path, and whether it is escaped.
///
/// It is not if removing slashes suffices. Returns `None` for names that are valid paths.
pub(super) fn escaped_path(name: &[u8]) -> Option<(Vec<u8>, bool)> {
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

/// Returns whether an entry with this name has this path.
pub fn name_has_path(name: &[u8], path: &[u8]) -> bool {
    let Some((escaped, _)) = escaped_path(name) else { return name == path };
    let mut cleaned = Vec::with_capacity(escaped.len());
    matches!(clean(&escaped, &mut cleaned), Ok(Cleaned::Path | Cleaned::Relative)) && cleaned == path
}

/// Quotes a name for a remark, shortening long ones.
pub(super) fn quote_name(name: &[u8]) -> String {
    let quoted = Quoted::new(&name[..name.len().min(MAX_SHOWN_LEN)]);
    let more = if name.len() > MAX_SHOWN_LEN { "…" } else { "" };
    format!("{quoted}{more}")
}

/// Returns the number of slashes in a valid path.
///
/// This is a fast check for opening files: it returns `None` for invalid paths and for some valid ones.
fn count_slashes_if_valid(name: &[u8]) -> Option<u64> {
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

fn count_slashes(path: &[u8]) -> u64 {
    path.iter().filter(|&&byte| byte == b'/').count() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{Dialect, Layout, RecordFields, Role, ShardBackend, ShardWriter, Style};
    use nra_core::archive::{Archive, OpenOptions};
    use nra_core::source::{MemorySource, ReadAt};

    #[test]
    fn invalid_names_are_escaped() {
        for (name, expected) in [
            (&b"a/b"[..], None),
            (b"/a//b", Some((&b"/a//b"[..], false))),
            (b"", Some((b"%", true))),
            (b"/", Some((b"%/%", true))),
            (b"../a", Some((b"%2E%2E/a", true))),
            (b"./", Some((b"%2E/%", true))),
            (b"a\0b", Some((b"a%00b", true))),
        ] {
            assert_eq!(escaped_path(name).as_ref().map(|(path, other)| (path.as_slice(), *other)), expected);
        }
    }

    #[test]
    fn name_has_path_accepts_only_its_path() {
        for (name, path) in [(&b"a/b"[..], &b"a/b"[..]), (b"/a//b", b"a/b"), (b"./a", b"a"), (b"", b"%"), (b"../a", b"%2E%2E/a")]
        {
            assert!(name_has_path(name, path), "{}", Quoted::new(name));
        }
        for (name, path) in [(&b"/a//b"[..], &b"a/c"[..]), (b"a", b"b"), (b"", b"a"), (b"a", b"%")] {
            assert!(!name_has_path(name, path), "{}", Quoted::new(name));
        }
    }

    /// Returns a file of empty entries with these names.
    fn file(names: &[Box<[u8]>]) -> Arc<dyn ReadAt> {
        let layout = Layout::Names(names.to_vec());
        let style = Style::new(Dialect::Go, Role::default(), 0, None, &layout);
        let mut writer = ShardWriter::create(std::io::Cursor::new(Vec::new()), style, layout).unwrap();
        for name in names {
            writer.start_entry(name, RecordFields::default()).unwrap();
            writer.finish_entry().unwrap();
        }
        Arc::new(MemorySource::new(writer.finish(None).unwrap().into_inner()))
    }

    #[test]
    fn names_over_the_limit_are_not_kept_but_reported() {
        let name = |number: usize| format!("/{number}{}", "n".repeat(60_000)).into_bytes().into_boxed_slice();
        let names: Vec<Box<[u8]>> = (0..220).map(name).collect();
        let shard = Shard::open(file(&names)).unwrap();
        let paths = EntryPaths::of(&shard).unwrap();
        let remark = "11 names that are not paths are not kept: such names have 13200770 bytes, the limit is 12582912";
        assert_eq!(paths.remarks, [remark]);
        assert!(paths.keeps_name(208) && !paths.keeps_name(209));
    }

    #[test]
    fn quote_name_shortens_long_names() {
        assert_eq!(quote_name(b"a b"), "'a b'");
        assert_eq!(quote_name(&[b'n'; 60_000]), format!("{}…", "n".repeat(200)));
    }

    proptest! {
        #[test]
        fn find_returns_the_same_entry_with_and_without_table(
            names in proptest::collection::btree_set("[/.ab\0]{0,5}|[ab]/[ab]|[ab]", 0..8),
            path in "[/.ab]{0,5}|[ab]/[ab]|[ab]",
        ) {
            let names: Vec<Box<[u8]>> = names.into_iter().map(|name| name.into_bytes().into()).collect();
            let source = file(&names);
            let open = || ShardBackend::probe(&source, &OpenOptions::default()).unwrap().unwrap();
            let with_table = open();
            prop_assert!(with_table.entry_count() >= with_table.info().files);
            for path in names.iter().map(|name| &**name).chain([path.as_bytes()]) {
                let expected = with_table.find(path).unwrap().map(|(_, entry)| entry);
                prop_assert_eq!(open().find_entry(path).unwrap(), expected);
            }
        }

        #[test]
        fn count_slashes_if_valid_accepts_only_valid_paths(name in "[/.a\0]{0,8}") {
            let name = name.as_bytes();
            if let Some(slashes) = count_slashes_if_valid(name) {
                prop_assert_eq!(path::check(name), Ok(()));
                prop_assert_eq!(slashes, count_slashes(name));
            }
        }
    }
}
