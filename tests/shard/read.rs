//! Tests of reading.

use nra::format::Error;
use nra::format::shard::{Role, Shard};
use sha2::{Digest, Sha256};

use crate::{bytes, expected, number, open};

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Damaged files that nra opens although another reader rejects them, and their remarks.
///
/// A wrong name hash, a name that is not UTF-8 and damaged metadata do not affect any entry.
const OPEN_WITH_REMARK: [(&str, &str); 4] = [
    ("name_not_utf8", "the stored hash of name"),
    ("name_hash_wrong", "the stored hash of name alpha is wrong"),
    ("schema_offset_beyond_eof", "Shard metadata at offset"),
    ("schema_offset_in_index", "Shard metadata at offset"),
];
/// Damaged files that the reference opens, with empty names or a later error, and that nra does not open.
const REJECTED: [&str; 3] = ["name_len_out_of_range", "name_offset_out_of_range", "offset_plus_size_wraps"];
/// Damaged files whose first entry the reference reads and nra rejects, as its flags are contradictory.
const CONTRADICTING: [&str; 2] = ["lz4_both_codec_bits", "zstd_both_codec_bits"];
/// A file with overlapping content that does not match its index.
const OVERLAPPING: &str = "quirks/wpy_stream_multiflush_corrupt.wshard";

#[test]
fn intact_files_have_expected_header_entries_and_metadata() {
    let mut checked = 0;
    for (name, file) in expected() {
        let Some(entries) = file.get("entries").and_then(|entries| entries.as_array()) else { continue };
        assert_eq!(sha256(&bytes(&name)), file["file_sha256"].as_str().unwrap(), "{name} has changed");
        if name == OVERLAPPING {
            assert!(matches!(open(&name), Err(Error::Corrupt { structure: "Shard index record", .. })));
            continue;
        }
        let shard = open(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let header = shard.header();
        for (field, found) in [
            ("role", u64::from(header.role.0)),
            ("flags", header.flags.into()),
            ("alignment", header.alignment.into()),
            ("compression_default", header.compression_default.into()),
            ("entry_count", header.entry_count.into()),
            ("string_table_offset", header.names_offset),
            ("data_section_offset", header.data_offset),
            ("schema_offset", header.metadata_offset),
            ("total_file_size", header.file_len),
        ] {
            assert_eq!(found, number(&file["header"][field]), "{name}: {field}");
        }
        assert_eq!(shard.entries().len(), entries.len());
        for (at, (entry, expected)) in shard.entries().iter().zip(entries).enumerate() {
            let text = expected["name"].as_str().unwrap();
            assert_eq!(String::from_utf8_lossy(shard.name(at)), text, "{name}");
            assert_eq!(entry.name_hash, number(&expected["name_hash"]), "{name}: {text}");
            assert_eq!(u64::from(entry.content_type), number(&expected["content_type"]), "{name}: {text}");
            let content = shard.read(at, u64::MAX).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(content.len() as u64, number(&expected["size"]), "{name}: {text}");
            assert_eq!(sha256(&content), expected["sha256"].as_str().unwrap(), "{name}: {text}");
            let slice = shard.uncompressed_slice(at, &bytes(&name)).unwrap().map(<[u8]>::to_vec);
            assert_eq!(slice, (expected["compression"] == "none").then_some(content), "{name}: {text}");
            let first = entries.iter().position(|other| other["name"] == expected["name"]).unwrap();
            assert_eq!(shard.find(shard.name(at)), Some(first), "{name}: the first entry with a name is used");
        }
        let metadata = shard.metadata().unwrap().map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(metadata.as_deref(), file.get("metadata_json").map(|text| text.as_str().unwrap()), "{name}");
        checked += 1;
    }
    assert_eq!(checked, 70);
}

#[test]
fn damaged_files_yield_expected_errors_and_remarks() {
    let mut checked = 0;
    for (path, file) in expected() {
        let Some(name) = path.strip_prefix("corrupt/").and_then(|name| name.strip_suffix(".shard")) else { continue };
        checked += 1;
        let go = &file["readers"]["go"];
        let shard = open(&path);
        if go["open"] != "ok" || REJECTED.contains(&name) {
            let error = shard.err().unwrap_or_else(|| panic!("{name} opens"));
            assert!(matches!(error, Error::Corrupt { .. } | Error::Limit { .. } | Error::Unsupported { .. }), "{name}: {error}");
            continue;
        }
        let shard = shard.unwrap_or_else(|error| panic!("{name}: {error}"));
        for at in 0..shard.entries().len() {
            let is_damaged = go["read_errors"].get(at.to_string()).is_some() || (at == 0 && CONTRADICTING.contains(&name));
            let read = shard.read(at, u64::MAX);
            assert_eq!(read.is_err(), is_damaged, "{name}, entry {at}: {read:?}");
            if shard.entries()[at].flags & 1 == 0 {
                assert_eq!(shard.uncompressed_range(at).is_err(), is_damaged, "{name}, entry {at}");
            }
        }
        let remark = OPEN_WITH_REMARK.iter().find(|(other, _)| *other == name).map(|(_, remark)| *remark);
        let remarks = shard.remarks();
        assert_eq!(remarks.len(), usize::from(remark.is_some()), "{name}: {remarks:?}");
        assert!(remarks.iter().zip(remark).all(|(found, expected)| found.starts_with(expected)), "{name}: {remarks:?}");
    }
    assert_eq!(checked, 57);
}

#[test]
fn find_distinguishes_names_with_equal_hashes() {
    let shard = open("py_hash_collision.shard").unwrap();
    let hashes: Vec<u64> = shard.entries().iter().map(|entry| entry.name_hash).collect();
    assert_eq!(hashes.iter().filter(|&&hash| hash == 0xdcc4_e031_da9d_39aa).count(), 2);
    for at in 0..hashes.len() {
        assert_eq!(shard.find(shard.name(at)), Some(at));
    }
    assert_eq!(shard.find(b"no such name"), None);
}

#[test]
fn duplicate_names_are_reported() {
    let remarks = open("go_duplicates.shard").unwrap().remarks();
    assert_eq!(remarks, ["duplicate name a; the first entry is used"]);
}

/// A name and its content.
type NamedContent = (Box<[u8]>, Vec<u8>);

#[test]
fn truncated_and_changed_files_never_yield_other_content() {
    for (name, floor) in [("py_mixed.shard", 70), ("go_metadata.shard", 90), ("wpy_zstd.wshard", 80)] {
        let whole = bytes(name);
        let read = |bytes: Vec<u8>| -> Option<Vec<NamedContent>> {
            let shard = Shard::open(std::sync::Arc::new(nra::format::source::MemorySource::new(bytes))).ok()?;
            let read = |at| Some((shard.name(at).into(), shard.read(at, 1 << 20).ok()?));
            Some((0..shard.entries().len()).filter_map(read).collect())
        };
        let contents = read(whole.clone()).unwrap();
        for len in 0..whole.len() {
            assert_eq!(read(whole[..len].to_vec()), None, "{name} cut to {len}");
        }
        let mut kept = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            for (entry, content) in read(bytes).unwrap_or_default() {
                // Names have no checksum: a changed name may refer to any of the contents.
                let known = contents.iter().find(|(other, _)| *other == entry);
                assert!(
                    known.map_or_else(|| contents.iter().any(|(_, other)| *other == content), |(_, other)| *other == content),
                    "{name}, byte {at}"
                );
                kept += 1;
            }
        }
        let all = contents.len() * whole.len();
        assert!(kept * 100 >= all * floor, "{name}: {kept} of {all} entries read");
    }
}

#[test]
fn known_roles_have_names() {
    assert_eq!(Role::EPISODE.name(), Some("WShard"));
    assert_eq!(open("py_role_7f_unknown.shard").unwrap().header().role.name(), None);
}
