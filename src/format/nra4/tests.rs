use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::writer::{Codec, Writer, WriterOptions};
use super::*;
use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::crypt::Secret;
use nra_core::digest::Digest;
use nra_core::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;
use nra_core::progress::Recorder;
use nra_core::source::{MemorySource, ReadAt};
use nra_core::table::TableArchive;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/nra4").join(name)).unwrap()
}

fn open_bytes(bytes: Vec<u8>, key: Option<&[u8; 32]>) -> Result<TableArchive<Nra4>> {
    let options = OpenOptions { key: key.copied().map(Secret::user_key), ..OpenOptions::default() };
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(bytes));
    open(&source, &options)
}

fn test_key() -> [u8; 32] {
    std::array::from_fn(|index| u8::try_from(index).unwrap())
}

fn contents(archive: &dyn Archive) -> Vec<(String, Vec<u8>)> {
    let entries = archive.entries(0..archive.entry_count()).map(Result::unwrap);
    entries.map(|entry| (entry.path.to_string(), archive.read_all(&entry, 1 << 30).unwrap())).collect()
}

#[test]
fn encrypted_archives_need_their_key_for_contents() {
    for (encrypted, plain) in [
        ("beta-encrypted.nra", "beta-zstd.nra"),
        ("beta-encrypted-lz4.nra", "beta-lz4.nra"),
        ("beta-tiny-encrypted.nra", "beta-tiny.nra"),
    ] {
        let archive = open_bytes(fixture(encrypted), Some(&test_key())).unwrap();
        assert!(archive.info().encrypted);
        assert_eq!(contents(&archive), contents(&open_bytes(fixture(plain), None).unwrap()), "{encrypted}");
        for wrong in [None, Some(&[1; 32])] {
            // Names are not encrypted, content is.
            let archive = open_bytes(fixture(encrypted), wrong).unwrap();
            let full = archive.entries(0..99).map(Result::unwrap).find(|entry| entry.size > 0).unwrap();
            let error = archive.read_all(&full, 1 << 20).unwrap_err();
            assert!(matches!((error, wrong), (Error::KeyNeeded, None) | (Error::WrongKey, Some(_))));
            let error = archive.verify(Depth::Full, None, &Recorder::default()).unwrap_err();
            assert!(matches!(error, Error::EntryLocked { path, wrong: given } if given == wrong.is_some() && !path.is_empty()));
            assert!(archive.verify(Depth::Quick, None, &Recorder::default()).unwrap().damage.is_empty());
        }
    }
}

#[test]
fn unencrypted_blocks_of_an_encrypted_archive_are_read() {
    let mut bytes = fixture("beta-tiny.nra");
    // The flag for encryption in the summary.
    assert_eq!(bytes[0x43], 0xc2);
    bytes[0x43] = 0xc3;
    let archive = open_bytes(bytes, Some(&test_key())).unwrap();
    assert_eq!(contents(&archive), contents(&open_bytes(fixture("beta-tiny.nra"), None).unwrap()));
}

fn entry(path: &[u8], kind: Kind, size: u64) -> Entry {
    let mut entry = Entry::new(EntryPath::new(path).unwrap(), kind);
    entry.size = size;
    entry.modified = Some(Timestamp { seconds: -5, nanoseconds: 999_999_999 });
    entry
}

/// One entry of every kind, and files that share content.
fn samples() -> Vec<(Entry, Vec<u8>)> {
    let mut samples = Vec::new();
    let mut add = |path: &[u8], kind, content: &[u8], change: &dyn Fn(&mut Entry)| {
        let mut entry = entry(path, kind, content.len() as u64);
        change(&mut entry);
        samples.push((entry, content.to_vec()));
    };
    let noise: Vec<u8> = (0u32..300_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let attribute =
        |name: &[u8]| Attribute { namespace: Namespace::Xattr, name: name.into(), value: b"\0\xff".as_slice().into() };
    let owner = Owner { user_id: 1000, group_id: 100, user: b"ann".as_slice().into(), group: Box::default() };
    let metadata =
        Metadata { mode: 0o4755, owner: Some(owner), attributes: Arc::new([attribute(b"user.a"), attribute(b"user.b")]) };
    let metadata = Arc::new(metadata);
    add(b"a/empty", Kind::File, b"", &|_| ());
    add(b"a/noise", Kind::File, &noise, &|entry| entry.metadata = Arc::clone(&metadata));
    add(b"a/noise again", Kind::File, &noise, &|entry| entry.modified = None);
    add(b"a/zeros", Kind::File, &[0; 200_000], &|_| ());
    add(b"bare", Kind::Directory, b"", &|entry| entry.metadata = Arc::new(Metadata { mode: 0o700, ..Metadata::default() }));
    add(b"device", Kind::BlockDevice, b"", &|entry| entry.device = Some(Device { major: 8, minor: 1 }));
    add(b"fifo", Kind::Fifo, b"", &|_| ());
    add(b"hard 1", Kind::File, b"linked", &|entry| entry.link_group = 3);
    add(b"hard 2", Kind::File, b"linked", &|entry| entry.link_group = 3);
    add(b"link", Kind::Symlink, b"", &|entry| entry.target = b"a/\xffempty".as_slice().into());
    add(b"not UTF-8 \xff", Kind::File, b"content", &|_| ());
    samples
}

fn written(options: WriterOptions) -> Vec<u8> {
    let mut writer = Writer::create(Cursor::new(Vec::new()), options).unwrap();
    for (entry, content) in samples() {
        writer.start_entry(&entry).unwrap();
        for part in content.chunks(70_001) {
            if part.iter().all(|&byte| byte == 0) {
                writer.write_hole(part.len() as u64).unwrap();
            } else {
                writer.write(part).unwrap();
            }
        }
        writer.finish_entry().unwrap();
    }
    let (out, stats) = writer.finish().unwrap();
    assert_eq!((stats.entries, stats.files, stats.archive_bytes), (11, 6, out.get_ref().len() as u64));
    out.into_inner()
}

#[test]
fn written_entries_are_read_with_content_and_metadata() {
    for (codec, key) in
        [(Codec::Zstd(3), None), (Codec::Zstd(19), Some(test_key())), (Codec::Lz4, None), (Codec::Lz4, Some(test_key()))]
    {
        let archive = open_bytes(
            written(WriterOptions {
                name: "all".into(),
                codec,
                key: key.map(Zeroizing::new),
                threads: 2,
                ..WriterOptions::default()
            }),
            key.as_ref(),
        )
        .unwrap();
        assert_eq!((archive.info().message.as_str(), archive.info().encrypted), ("all", key.is_some()));
        for (expected, content) in samples() {
            let (_, mut found) = archive.find(expected.path.as_bytes()).unwrap().unwrap();
            assert_eq!(archive.read_all(&found, 1 << 20).unwrap(), content, "{}", expected.path);
            if found.kind == Kind::File {
                assert_eq!(archive.digest(&found).unwrap(), Some(Digest::of(&content)));
            }
            found.location = expected.location.clone();
            assert_eq!(found, expected);
        }
        let location = |path: &[u8]| archive.find(path).unwrap().unwrap().1.location.number().unwrap();
        assert_eq!(location(b"hard 1"), location(b"hard 2"));
        let report = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
        assert_eq!((report.damage, report.entries), (vec![], 12));
        // Equal content is stored once, and incompressible content hardly grows.
        assert!(archive.info().archive_bytes < 310_000, "{}", archive.info().archive_bytes);
    }
}

#[test]
fn writer_cuts_chunks_as_earlier_versions_did() {
    let earlier = open_bytes(fixture("beta-zstd.nra"), None).unwrap();
    let mut writer = Writer::create(Cursor::new(Vec::new()), WriterOptions::default()).unwrap();
    for entry in earlier.entries(0..earlier.entry_count()).map(Result::unwrap) {
        writer.start_entry(&entry).unwrap();
        writer.write(&earlier.read_all(&entry, 1 << 30).unwrap()).unwrap();
        writer.finish_entry().unwrap();
    }
    let out = writer.finish().unwrap().0;
    let ours = open_bytes(out.into_inner(), None).unwrap();
    assert_eq!(contents(&ours), contents(&earlier));
    assert_eq!(ours.info().chunks, earlier.info().chunks);
    assert_eq!(ours.info().chunk_bytes, earlier.info().chunk_bytes);
}

#[test]
fn writer_rejects_calls_out_of_order_and_invalid_levels() {
    let mut writer = Writer::create(Cursor::new(Vec::new()), WriterOptions::default()).unwrap();
    assert!(matches!(writer.write(b"x"), Err(Error::Usage { .. })));
    assert!(matches!(writer.finish_entry(), Err(Error::Usage { .. })));
    writer.start_entry(&entry(b"d", Kind::Directory, 0)).unwrap();
    assert!(matches!(writer.write(b"x"), Err(Error::Usage { .. })));
    assert!(matches!(writer.start_entry(&entry(b"e", Kind::File, 0)), Err(Error::Usage { .. })));
    writer.abandon_entry();
    writer.start_entry(&entry(b"e", Kind::File, 0)).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Usage { .. })));
    let level = WriterOptions { codec: Codec::Zstd(99), ..WriterOptions::default() };
    assert!(matches!(Writer::create(Cursor::new(Vec::new()), level), Err(Error::Usage { .. })));
}
