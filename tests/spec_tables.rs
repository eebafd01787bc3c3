//! The tables of the format specification agree with the constants of the code.

use std::collections::BTreeMap;

use nra::format::codec::Codec;
use nra::format::entry::{Kind, Namespace};
use nra::format::limits;
use nra::format::nra::frame::{FrameKind, HEADER_LEN, REFERENCE_LEN};
use nra::format::nra::{commit, footer, frame, layout, records, recovery, superblock};

const SPEC: &str = include_str!("../docs/format/nra.md");

/// Returns the rows of the table introduced by "Table `name`", without its two header lines.
fn table(name: &str) -> Vec<Vec<String>> {
    let start = format!("Table `{name}`");
    let mut lines = SPEC.lines().skip_while(|line| !line.starts_with(&start));
    assert!(lines.next().is_some(), "no table `{name}` in the specification");
    let rows: Vec<_> = lines
        .skip_while(|line| line.is_empty())
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "table `{name}` is empty");
    rows
}

/// Reads the first cells of each row as a number and a name.
fn numbered(name: &str) -> Vec<(u64, String)> {
    table(name).into_iter().map(|row| (row[0].parse().expect("a number"), row[1].clone())).collect()
}

fn owned<'a>(pairs: impl IntoIterator<Item = (u64, &'a str)>) -> Vec<(u64, String)> {
    pairs.into_iter().map(|(number, name)| (number, name.to_owned())).collect()
}

#[test]
fn fixed_structures_match_the_specification() {
    for (name, fields, len) in [
        ("reference", layout::reference::TABLE, REFERENCE_LEN),
        ("superblock", layout::superblock::TABLE, layout::SUPERBLOCK_LEN),
        ("commit slot", layout::commit_slot::TABLE, superblock::COMMIT_SLOT_LEN),
        ("frame", layout::frame::TABLE, HEADER_LEN),
        ("commit", layout::commit::TABLE, commit::FIXED_LEN),
        ("footer", layout::footer::TABLE, footer::FOOTER_LEN),
        ("recovery", layout::recovery::TABLE, recovery::RECOVERY_HEADER_LEN),
        ("key frame", layout::key_frame::TABLE, 64),
        ("key slot", layout::key_slot::TABLE, 128),
        ("sealed", layout::sealed::TABLE, frame::SEALED_HEADER_LEN),
    ] {
        // A row without a size is a part of variable length.
        let rows = table(name).into_iter().filter(|row| !row[1].is_empty());
        let spec: Vec<(String, usize, usize)> =
            rows.map(|row| (row[2].clone(), row[0].parse().expect("an offset"), row[1].parse().expect("a size"))).collect();
        let code: Vec<_> = fields.iter().map(|&(field, offset, size)| (field.to_owned(), offset, size)).collect();
        assert_eq!(spec, code, "table `{name}`");
        let mut end = 0;
        for (field, offset, size) in code {
            assert_eq!(offset, end, "{name}.{field} follows the preceding field");
            end = offset + size;
        }
        assert_eq!(end, len, "length of {name}");
    }
}

#[test]
fn numbered_names_match_the_specification() {
    let kinds = FrameKind::ALL.map(|(kind, name)| (kind as u64, name));
    assert_eq!(numbered("kinds"), owned(kinds));
    let codecs = Codec::ALL.map(|codec| (codec as u64, codec.name()));
    assert_eq!(numbered("codecs"), owned(codecs));
    let forms = records::form::TABLE.map(|(number, name)| (number.into(), name));
    assert_eq!(numbered("forms"), owned(forms));
    let columns = records::column::NAMES.iter().enumerate().map(|(number, &name)| (number as u64, name));
    assert_eq!(numbered("columns"), owned(columns));
    let name = |kind| match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::CharacterDevice => "character device",
        Kind::BlockDevice => "block device",
    };
    assert_eq!(numbered("entry kinds"), owned(Kind::ALL.map(|kind| (kind as u64, name(kind)))));
    let name = |namespace| match namespace {
        Namespace::Xattr => "xattr",
        Namespace::User => "user",
        Namespace::Nra => "nra",
        Namespace::Foreign => "foreign",
    };
    assert_eq!(numbered("namespaces"), owned(Namespace::ALL.map(|namespace| (namespace as u64, name(namespace)))));
}

#[test]
fn features_match_the_specification() {
    let spec: Vec<_> = table("features")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].parse::<u32>().expect("a bit"), row[2].clone()))
        .collect();
    let code: Vec<_> = superblock::FEATURES.iter().map(|&(field, bit, name)| (field.to_owned(), bit, name.to_owned())).collect();
    assert_eq!(spec, code);
    assert_eq!(superblock::REQUIRED_ENCRYPTION, 1 << 0);
}

#[test]
fn limits_match_the_specification() {
    let spec: BTreeMap<String, u64> =
        table("limits").into_iter().map(|row| (row[0].clone(), row[1].parse().expect("a number"))).collect();
    /// Returns the names and values of limits.
    macro_rules! values {
        ($($name:ident)*) => { [$((stringify!($name).to_owned(), u64::try_from(limits::$name).expect("not negative"))),*] };
    }
    let code = values! {
        MAX_BLOCK_RAW MAX_PAGE_RAW MAX_BLOCK_INDEX MAX_DICTIONARY MAX_COMMIT MAX_PATH MAX_TARGET
        MAX_ATTRIBUTE_NAME MAX_ATTRIBUTE_VALUE MAX_OWNER_NAME MAX_LEVEL MAX_RUNS MAX_LIST_ENTRIES
        MAX_LIST_PATHS MAX_LIST_EXTENTS MAX_LIST_SEGMENTS MAX_MESSAGE MAX_KEYS MAX_KEY_SLOTS MAX_ARGON2_MEMORY
        MAX_ARGON2_WORK MAX_PASSWORD_WORK MAX_ARGON2_LANES MAX_RECOVERY MAX_PAD
    };
    assert_eq!(spec, BTreeMap::from(code));
    // No limit is missing from both sides.
    let source = include_str!("../src/format/core/limits.rs");
    let defined = source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(':')).map(|(name, _)| name);
    let defined: Vec<&str> = defined.filter(|name| *name != "MAX_OFFSET").collect();
    assert!(defined.iter().all(|name| spec.contains_key(*name)) && defined.len() == spec.len(), "{defined:?}");
    assert_eq!(limits::MAX_OFFSET, (1 << 63) - 1);
}
