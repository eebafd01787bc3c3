#![allow(clippy::single_range_in_vec_init, reason = "holes are given as lists")]

use std::io::{Read, Write};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use nra_core::archive::{Archive, OpenOptions, Part};
use nra_core::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::path::{EntryPath, Quoted};
use nra_core::source::MemorySource;
use nra_stream::{Compression, Encoder, Level};

/// Returns the members of an archive with their content, decoded from input in chunks of `step`.
fn read(bytes: &[u8], step: usize) -> Result<Vec<(Member, Vec<u8>)>> {
    let mut decoder = Decoder::default();
    let mut found: Vec<(Member, Vec<u8>)> = Vec::new();
    let mut chunks = bytes.chunks(step.max(1));
    loop {
        let input = chunks.next().unwrap_or_default();
        let last = input.is_empty();
        let mut used = 0;
        loop {
            let (taken, event) = decoder.step(&input[used..], last)?;
            used += taken;
            match event {
                Event::More if used == input.len() && !last => break,
                Event::Member(member) => found.push((*member, Vec::new())),
                Event::Data(bytes) => found.last_mut().unwrap().1.extend_from_slice(bytes),
                Event::Hole(len) => {
                    let content = &mut found.last_mut().unwrap().1;
                    let len = usize::try_from(len).unwrap().min(1 << 20);
                    content.resize(content.len() + len, 0);
                }
                Event::Done => return Ok(found),
                Event::Damage(error) => return Err(*error),
                Event::More | Event::End => {}
            }
        }
    }
}

fn entry(path: &str, kind: Kind) -> Entry {
    let owner = Owner { user_id: 1000, group_id: 100, user: b"ann"[..].into(), group: b"users"[..].into() };
    let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), kind);
    entry.metadata = Arc::new(Metadata { mode: 0o640, owner: Some(owner), attributes: Arc::default() });
    entry.modified = Some(Timestamp { seconds: 1_600_000_000, nanoseconds: 0 });
    entry
}

fn archive(entries: &[(Entry, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (entry, content) in entries {
        let entry = Entry { size: content.len() as u64, ..entry.clone() };
        assert_eq!(encode(&entry, None, &[], &mut bytes).losses, []);
        bytes.extend_from_slice(content);
        bytes.extend(vec![0; padding(entry.size)]);
    }
    bytes.extend_from_slice(&END);
    bytes
}

/// Entries that need every kind of record, with content.
fn odd_entries() -> Vec<(Entry, &'static [u8])> {
    let long = "d/".repeat(80) + "end";
    let mut all = vec![
        entry("plain", Kind::File),
        entry(&long, Kind::File),
        entry(&"n".repeat(255), Kind::Directory),
        entry("link", Kind::Symlink),
        entry("fifo", Kind::Fifo),
        entry("device", Kind::BlockDevice),
        entry("early", Kind::File),
        entry("late", Kind::File),
        entry("big-ids", Kind::File),
        entry("attributes", Kind::File),
    ];
    all[3].target = "t/".repeat(200).into_bytes().into();
    all[5].device = Some(Device { major: 8, minor: 1 });
    all[6].modified = Some(Timestamp { seconds: -2, nanoseconds: 750_000_000 });
    all[7].modified = Some(Timestamp { seconds: 1 << 40, nanoseconds: 5 });
    let owner = Owner { user_id: 1 << 32, group_id: 3_000_000, user: vec![b'u'; 60].into(), group: vec![b'g'; 40].into() };
    all[8].metadata = Arc::new(Metadata { owner: Some(owner), ..(*all[8].metadata).clone() });
    let attribute = |name: &[u8], value: &[u8]| Attribute { namespace: Namespace::Xattr, name: name.into(), value: value.into() };
    let attributes = vec![attribute(b"security.x", b"\0\xff\n=1"), attribute(b"user.empty", b"")];
    all[9].metadata = Arc::new(Metadata { attributes: attributes.into(), ..(*all[9].metadata).clone() });
    let content = |entry: &Entry| if entry.kind == Kind::File { &b"content"[..] } else { b"" };
    all.into_iter().map(|entry| (entry.clone(), content(&entry))).collect()
}

/// Recomputes the checksum of the first header.
fn update_checksum(bytes: &mut [u8]) {
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes[..512].iter().map(|&byte| u32::from(byte)).sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Opens an uncompressed archive.
fn open(bytes: impl Into<Vec<u8>>) -> Option<nra_core::table::TableArchive<TarBackend>> {
    let source: Arc<dyn nra_core::source::ReadAt> = Arc::new(MemorySource::new(bytes.into()));
    probe(&source, &OpenOptions::default()).unwrap()
}

#[test]
fn decoder_returns_encoded_entries() {
    let with_content = odd_entries();
    let bytes = archive(&with_content);
    for step in [1, 100, 512, 4096, usize::MAX] {
        let found = read(&bytes, step).unwrap();
        assert_eq!(found.len(), with_content.len());
        for ((member, content), (entry, expected)) in found.iter().zip(&with_content) {
            let name = String::from_utf8(member.name.clone()).unwrap();
            assert_eq!(name.trim_end_matches('/').as_bytes(), entry.path.as_bytes());
            assert_eq!(content, expected);
            let owner = entry.metadata.owner.as_ref().unwrap();
            assert_eq!((member.user_id, member.group_id), (owner.user_id, owner.group_id));
            assert_eq!((&*member.user, &*member.group), (&*owner.user, &*owner.group));
            assert_eq!(member.modified, entry.modified);
            assert_eq!(member.attributes, entry.metadata.attributes);
            assert_eq!((&*member.link, member.device, member.mode), (&*entry.target, entry.device, 0o640));
        }
    }
}

#[test]
fn archive_returns_encoded_entries() {
    let with_content = odd_entries();
    let archive = open(archive(&with_content)).expect("it is a tar archive");
    assert!(!archive.is_index_damaged());
    for (entry, content) in &with_content {
        let (_, found) = archive.find(entry.path.as_bytes()).unwrap().expect("it was added");
        assert_eq!(archive.read_all(&found, 100).unwrap(), *content);
        assert_eq!((found.kind, found.modified, &found.metadata), (entry.kind, entry.modified, &entry.metadata));
    }
}

/// An old GNU sparse entry of 10,000 bytes with data at 512 and at 8,192.
fn sparse_archive() -> Vec<u8> {
    let mut bytes = Vec::new();
    let stored = Entry { size: 1024, ..entry("sparse", Kind::File) };
    encode(&stored, None, &[], &mut bytes);
    bytes[156] = b'S';
    bytes[257..265].copy_from_slice(b"ustar  \0");
    for (place, number) in [(386, 512), (398, 512), (410, 8192), (422, 512), (434, 10_000), (446, 0), (483, 10_000)] {
        bytes[place..place + 12].copy_from_slice(format!("{number:011o}\0").as_bytes());
    }
    update_checksum(&mut bytes);
    bytes.extend([b'a'; 512]);
    bytes.extend([b'b'; 512]);
    bytes.extend_from_slice(&END);
    bytes
}

#[test]
fn holes_of_sparse_files_are_reported() {
    let bytes = sparse_archive();
    let found = read(&bytes, 100).unwrap();
    let expected = [vec![0; 512], vec![b'a'; 512], vec![0; 7168], vec![b'b'; 512], vec![0; 1296]].concat();
    assert_eq!(found[0].1, expected);
    let archive = open(bytes).unwrap();
    let (_, entry) = archive.find(b"sparse").unwrap().unwrap();
    assert_eq!(entry.size, 10_000);
    assert_eq!(archive.read_all(&entry, 10_000).unwrap(), expected);
    let mut buffer = vec![1; 2_000];
    archive.read_at(&entry, 7_500, &mut buffer).unwrap();
    assert_eq!(buffer, expected[7_500..9_500]);
    let mut holes = 0;
    archive
        .with_content(&entry, nra_core::archive::Access::Random, &mut |part| {
            holes += u64::from(matches!(part, Part::Hole(_)));
            Ok(())
        })
        .unwrap();
    assert_eq!(holes, 3);
}

#[test]
fn every_truncation_of_an_entry_is_detected() {
    let bytes = archive(&[(entry("a", Kind::File), &[7; 600]), (entry("b", Kind::File), b"b")]);
    // The archive may end after the first entry, and its padding may be missing.
    for len in 1..bytes.len() - 1024 {
        let complete = len % 512 == 0 && len == 512 + 1024 || len > 512 + 1024 + 512 || (512 + 600..=512 + 1024).contains(&len);
        let result = read(&bytes[..len], 4096);
        assert_eq!(result.is_ok(), complete, "{len}: {:?}", result.err());
    }
}

#[test]
fn concatenated_archives_are_decoded_as_one() {
    let one = archive(&[(entry("a", Kind::File), b"a")]);
    let two = [one.clone(), vec![0; 5 * 512], archive(&[(entry("b", Kind::File), b"b")]), b"junk".repeat(300)].concat();
    let names: Vec<Vec<u8>> = read(&two, 1000).unwrap().into_iter().map(|(member, _)| member.name).collect();
    assert_eq!(names, [b"a", b"b"]);
    assert!(read(&[], 1).is_err(), "no bytes are not an archive");
    assert_eq!(read(&END, 512).unwrap(), []);
}

#[test]
fn lengths_are_checked_before_buffering() {
    let mut bytes = Vec::new();
    encode(&Entry { size: (1 << 33) - 1, ..entry("x", Kind::File) }, None, &[], &mut bytes);
    bytes[156] = b'x';
    update_checksum(&mut bytes);
    assert!(matches!(read(&bytes, 512), Err(Error::Limit { .. })));
}

/// Returns a header of this type with padded content.
fn block(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Entry { size: content.len() as u64, ..entry("x", Kind::File) }, None, &[], &mut bytes);
    bytes[156] = kind;
    update_checksum(&mut bytes);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + padding(content.len() as u64), 0);
    bytes
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let len = key.len() + value.len() + 3;
    let digits = (1..).find(|digits| (len + digits).to_string().len() == *digits).unwrap();
    [format!("{} {key}=", len + digits).as_bytes(), value, b"\n"].concat()
}

#[test]
fn records_of_several_headers_share_one_limit() {
    for (kind, len) in [(b'g', 100 << 10), (b'x', 2 << 20)] {
        let headers = |same: bool| -> Vec<u8> {
            let each =
                |number: u32| block(kind, &record(&if same { "key".into() } else { format!("key{number}") }, &vec![b'v'; len]));
            (0..20).flat_map(each).chain(block(b'0', b"")).collect()
        };
        assert_eq!(read(&headers(true), 4096).unwrap().len(), 1);
        assert!(matches!(read(&headers(false), 4096), Err(Error::Limit { .. })), "{kind}");
    }
}

#[test]
fn attributes_and_remarks_are_limited() {
    let attributes: Vec<u8> = (0..5000).flat_map(|number| record(&format!("SCHILY.xattr.user.{number:04}"), b"v")).collect();
    let (member, _) = read(&[block(b'x', &attributes), block(b'0', b"")].concat(), 4096).unwrap().remove(0);
    assert_eq!(member.attributes.len(), 4096);
    assert!(member.remarks[0].contains("after the first 4096"));
    let bytes = [block(b'A', b"").repeat(250), block(b'0', b"")].concat();
    let remarks = open(bytes).unwrap().remarks();
    assert_eq!((remarks.len(), &*remarks[100]), (101, "150 more parts of the tar archive are skipped"));
}

#[test]
fn each_skipped_part_of_an_entry_is_remarked_once() {
    let long = vec![b'v'; (1 << 20) + 1];
    let records = [
        record("SCHILY.xattr.user.first", &long),
        record("SCHILY.xattr.user.second", &long),
        record(&format!("SCHILY.xattr.{}", "n".repeat(256)), b"v"),
        record("SCHILY.acl.access", &long),
        record("SCHILY.xattr.user.both", b"v"),
        record("LIBARCHIVE.xattr.user.%62oth", b"dg"),
        record("LIBARCHIVE.xattr.user.alone", b"dg"),
        record("RHT.security.selinux", b"u:r:t"),
    ];
    let (member, _) = read(&[block(b'x', &records.concat()), block(b'?', b"")].concat(), 4096).unwrap().remove(0);
    let names: Vec<&[u8]> = member.attributes.iter().map(|attribute| &*attribute.name).collect();
    assert_eq!(names, [&b"security.selinux"[..], b"user.both"]);
    let remarks = member.remarks.join("\n");
    for part in ["unknown type", "user.first", "user.second", "invalid name", "SCHILY.acl.access", "user.alone"] {
        assert_eq!(remarks.matches(part).count(), 1, "{part}: {remarks}");
    }
    assert_eq!(member.remarks.len(), 6);
}

#[test]
fn skipped_comment_is_remarked() {
    let long = vec![b'c'; 65_536];
    for (comment, kept) in [(&b"short"[..], true), (&long[..], false), (b"\xff", false)] {
        let bytes = [block(b'g', &record("comment", comment)).repeat(2), block(b'0', b"")].concat();
        let archive = open(bytes).unwrap();
        let remarks = archive.remarks().iter().filter(|remark| remark.contains("comment")).count();
        assert_eq!((archive.info().message.is_empty(), remarks), (!kept, usize::from(!kept)));
    }
}

/// Returns names and content as decoded by the `tar` crate.
fn decode_with_tar_crate(bytes: &[u8]) -> std::io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut archive = ::tar::Archive::new(bytes);
    let mut found = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path_bytes().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        found.push((name, content));
    }
    Ok(found)
}

#[test]
fn tar_crate_decodes_the_same() {
    for bytes in [archive(&odd_entries()), sparse_archive()] {
        let ours: Vec<_> = read(&bytes, 4096).unwrap().into_iter().map(|(member, content)| (member.name, content)).collect();
        assert_eq!(ours, decode_with_tar_crate(&bytes).unwrap());
    }
}

proptest! {
    #[test]
    fn arbitrary_headers_never_panic(
        fields in prop::collection::vec((0..512usize, any::<u8>()), 0..20),
        kind in any::<u8>(),
        following in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut bytes = sparse_archive();
        bytes[156] = kind;
        for (offset, value) in fields {
            bytes[offset] = value;
        }
        update_checksum(&mut bytes);
        bytes.splice(512.., following);
        prop_assert_eq!(read(&bytes, usize::MAX).ok(), read(&bytes, 37).ok());
        if let Some(archive) = open(bytes) {
            for entry in archive.entries(0..100) {
                let _ = archive.read_all(&entry.unwrap(), 1 << 16);
            }
        }
    }
}

#[test]
fn sparse_files_round_trip() {
    for (size, holes) in [
        (10_000u64, vec![0..4096, 8192..9000]),
        (10_000, vec![0..10_000]),
        (10_000, vec![1..2]),
        (10_000, vec![5..10_000]),
        (100_000, (0..1_000).map(|number| number * 100..number * 100 + 50).collect()),
    ] {
        let mut content: Vec<u8> = (0..size).map(|at| (at % 250 + 1) as u8).collect();
        for hole in &holes {
            content[hole.start as usize..hole.end as usize].fill(0);
        }
        for path in ["sparse", &format!("{}/sparse", "d/".repeat(60).trim_end_matches('/'))] {
            let mut bytes = Vec::new();
            let file = Entry { size, ..entry(path, Kind::File) };
            let Encoded { losses, data_len } = encode(&file, None, &holes, &mut bytes);
            assert_eq!(losses, []);
            let mut data = content.clone();
            for hole in holes.iter().rev() {
                data.drain(hole.start as usize..hole.end as usize);
            }
            assert_eq!(data.len() as u64, data_len);
            bytes.extend(data);
            bytes.extend(vec![0; padding(data_len)]);
            bytes.extend(END);
            let found = read(&bytes, 700).unwrap();
            assert_eq!((found.len(), &found[0].0.name[..], found[0].0.size), (1, path.as_bytes(), size), "{holes:?}");
            assert!(found[0].1 == content, "{holes:?}");
        }
    }
}

#[test]
fn entries_before_truncation_are_readable() {
    let names: Vec<String> = (0..30).map(|number| format!("f{number:02}")).collect();
    // Incompressible content, so that two thirds of the stream are two thirds of the files.
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let contents: Vec<Vec<u8>> = names.iter().map(|_| (0..20_000).map(|_| noise()).collect()).collect();
    let sized = |name: &String| Entry { size: 20_000, ..entry(name, Kind::File) };
    let entries: Vec<(Entry, &[u8])> = names.iter().map(sized).zip(contents.iter().map(Vec::as_slice)).collect();
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Xz] {
        let threads = std::num::NonZero::<usize>::MIN;
        let mut encoder = Encoder::new(Vec::new(), compression, Level::default_of(compression), threads);
        encoder.write_all(&archive(&entries)).unwrap();
        let whole = encoder.finish().unwrap();
        let source: Arc<dyn nra_core::source::ReadAt> = Arc::new(MemorySource::new(whole[..whole.len() * 2 / 3].to_vec()));
        let archive = probe_compressed(compression, &source, &OpenOptions::default()).unwrap().expect("it is a tar archive");
        assert!(archive.is_index_damaged() && !archive.remarks().is_empty());
        let found: Vec<Entry> = archive.entries(0..u64::MAX).map(Result::unwrap).collect();
        assert!((10..30).contains(&found.len()), "{compression:?}: {}", found.len());
        for (entry, content) in found.iter().zip(&contents) {
            assert_eq!(archive.read_all(entry, 1 << 20).unwrap(), *content, "{compression:?}: {}", entry.path);
        }
    }
}

/// Opens an archive uncompressed and compressed.
fn open_both(bytes: &[u8]) -> [nra_core::table::TableArchive<TarBackend>; 2] {
    let mut gzip =
        Encoder::new(Vec::new(), Compression::Gzip, Level::default_of(Compression::Gzip), std::num::NonZero::<usize>::MIN);
    gzip.write_all(bytes).unwrap();
    let packed: Arc<dyn nra_core::source::ReadAt> = Arc::new(MemorySource::new(gzip.finish().unwrap()));
    let compressed = probe_compressed(Compression::Gzip, &packed, &OpenOptions::default()).unwrap().unwrap();
    [open(bytes).unwrap(), compressed]
}

/// Returns the paths and contents of the entries of an archive.
fn contents(archive: &dyn Archive) -> Vec<(String, Vec<u8>)> {
    let entries = archive.entries(0..archive.entry_count()).map(Result::unwrap);
    entries.map(|entry| (Quoted::new(entry.path.as_bytes()).to_string(), archive.read_all(&entry, 1 << 20).unwrap())).collect()
}

#[test]
fn decoding_continues_after_a_damaged_header() {
    let files: Vec<(Entry, &[u8])> = ["a", "b", "c"]
        .iter()
        .zip([&b"1"[..], &[0; 2000], b"3"])
        .map(|(name, content)| (entry(name, Kind::File), content))
        .collect();
    let mut bytes = Vec::new();
    encode_comment("said", &mut bytes);
    bytes.extend(archive(&files));
    let damaged = bytes.windows(2).position(|pair| pair == b"b\0").unwrap();
    bytes[damaged + 100] ^= 4;
    for archive in open_both(&bytes) {
        assert_eq!(contents(&archive), [("a".to_owned(), b"1".to_vec()), ("c".to_owned(), b"3".to_vec())]);
        let remarks = archive.remarks();
        assert_eq!((remarks.len(), archive.is_index_damaged(), &*archive.info().message), (1, true, "said"));
        assert!(remarks[0].contains("the checksum of the header of b is"), "{remarks:?}");
    }
    // Damage before a truncation is remarked, too.
    let cut = [block(b'A', b""), bytes[..bytes.len() - 1024 - 512].to_vec()].concat();
    for archive in open_both(&cut) {
        let remarks = archive.remarks();
        assert_eq!((remarks.len(), &*archive.info().message), (3, "said"), "{remarks:?}");
        assert!(remarks[0].contains("access control list") && remarks[2].contains("truncated"), "{remarks:?}");
        assert!(remarks[2].starts_with("c: skipped: "), "{remarks:?}");
    }
}

#[test]
fn link_before_its_target_leads_to_the_first_entry_of_that_name() {
    let link = |name: &str, target: &str| {
        let mut bytes = Vec::new();
        encode(&entry(name, Kind::File), Some(&EntryPath::try_from(target).unwrap()), &[], &mut bytes);
        bytes
    };
    let (first, second) = ((entry("a", Kind::File), &b"1"[..]), (entry("a", Kind::File), &b"2"[..]));
    // Links to a link, to a later entry and to an earlier entry.
    let bytes = [link("c", "b"), link("b", "a"), archive(&[first])[..1024].to_vec(), link("d", "a"), archive(&[second])].concat();
    let found = |name: &str, content: &[u8]| (name.to_owned(), content.to_vec());
    for archive in open_both(&bytes) {
        assert_eq!(contents(&archive), [found("a", b"2"), found("b", b"1"), found("c", b"1"), found("d", b"1")]);
    }
}

#[test]
fn long_chains_of_links_are_followed() {
    let mut bytes = Vec::new();
    for number in 0..100 {
        let target = EntryPath::try_from(&*format!("l{:02}", number + 1)).unwrap();
        encode(&entry(&format!("l{number:02}"), Kind::File), Some(&target), &[], &mut bytes);
    }
    bytes.extend(archive(&[(entry("l100", Kind::File), b"1")]));
    for archive in open_both(&bytes) {
        let contents = contents(&archive);
        assert!(contents.len() == 101 && contents.iter().all(|(_, content)| content == b"1"));
    }
}

#[test]
fn name_with_trailing_slash_is_a_directory() {
    let mut bytes = block(b'0', b"");
    let end = bytes[..100].iter().position(|&byte| byte == 0).unwrap();
    bytes[end] = b'/';
    update_checksum(&mut bytes);
    assert_eq!(read(&bytes, 4096).unwrap()[0].0.kind, MemberKind::Directory);
}

#[test]
fn overlong_owner_names_are_remarked() {
    let records = [record("uname", &[b'u'; 255]), record("gname", &[b'g'; 256])].concat();
    let (member, _) = read(&[block(b'x', &records), block(b'0', b"")].concat(), 4096).unwrap().remove(0);
    assert_eq!((member.user.len(), member.group.len(), member.remarks.len()), (255, 0, 1));
    assert!(member.remarks[0].contains("group"), "{:?}", member.remarks);
}
