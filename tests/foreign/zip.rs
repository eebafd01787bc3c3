//! Zip archives of the crate `zip`.

use std::io::{Cursor, Write};
use std::sync::Arc;

use nra::format::Error;
use nra::format::archive::{Access, Depth, OpenOptions, Part, open};
use nra::format::container::Container;
use nra::format::crypt::Secret;
use nra::format::entry::Kind;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use zip::unstable::write::FileOptionsExt as _;
use zip::write::SimpleFileOptions;
use zip::{AesMode, CompressionMethod, ZipWriter};

use crate::{archive, assert_no_other_content, readable_contents};

fn text(len: usize) -> Vec<u8> {
    (0..).flat_map(|i: u32| format!("line {i} of {}\n", i.wrapping_mul(7919) % 1000).into_bytes()).take(len).collect()
}

fn options(method: CompressionMethod) -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(method)
}

fn sample() -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let methods = [
        ("stored", CompressionMethod::Stored),
        ("deflate", CompressionMethod::Deflated),
        ("bzip2", CompressionMethod::Bzip2),
        ("zstd", CompressionMethod::Zstd),
    ];
    for (name, method) in methods {
        zip.start_file(format!("by_method/{name}.txt"), options(method).unix_permissions(0o640)).unwrap();
        zip.write_all(&text(5000)).unwrap();
    }
    zip.add_directory("empty", options(CompressionMethod::Stored).unix_permissions(0o700)).unwrap();
    zip.add_symlink("link", "by_method/zstd.txt", options(CompressionMethod::Stored)).unwrap();
    zip.start_file("wide", options(CompressionMethod::Deflated).large_file(true)).unwrap();
    zip.write_all(b"a member with numbers of 64 bits").unwrap();
    zip.start_file("nothing", options(CompressionMethod::Deflated)).unwrap();
    zip.finish().unwrap().into_inner()
}

#[test]
fn members_of_all_methods_are_read() {
    let archive = archive(&sample()).unwrap();
    assert_eq!(archive.container(), Container::Zip);
    assert!(archive.remarks().is_empty(), "{:?}", archive.remarks());
    for name in ["stored", "deflate", "bzip2", "zstd"] {
        let (_, entry) = archive.find(format!("by_method/{name}.txt").as_bytes()).unwrap().unwrap();
        assert_eq!(archive.read_all(&entry, 1 << 20).unwrap(), text(5000), "{name}");
        assert_eq!(entry.metadata.mode, 0o640);
        let mut part = [0; 10];
        archive.read_at(&entry, 4321, &mut part).unwrap();
        assert_eq!(part, text(5000)[4321..4331], "{name}");
    }
    let kinds: Vec<(String, Kind)> = archive
        .entries(0..archive.entry_count())
        .map(|entry| entry.map(|entry| (entry.path.to_string(), entry.kind)).unwrap())
        .collect();
    assert!(kinds.contains(&("empty".into(), Kind::Directory)));
    assert!(kinds.contains(&("by_method".into(), Kind::Directory)), "an implied directory");
    let (_, link) = archive.find(b"link").unwrap().unwrap();
    assert_eq!((link.kind, &*link.target), (Kind::Symlink, &b"by_method/zstd.txt"[..]));
    let (_, wide) = archive.find(b"wide").unwrap().unwrap();
    assert_eq!(archive.read_all(&wide, 100).unwrap(), b"a member with numbers of 64 bits");
    assert!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty());
}

#[test]
fn long_members_are_read_in_parts() {
    let content = text(20 << 20);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated, CompressionMethod::Zstd] {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("long", options(method)).unwrap();
        zip.write_all(&content).unwrap();
        let mut bytes = zip.finish().unwrap().into_inner();
        let long = archive(&bytes).unwrap();
        let entry = long.entry(0).unwrap();
        let mut part = vec![0; 100_000];
        long.read_at(&entry, 15_000_000, &mut part).unwrap();
        assert!(part == content[15_000_000..15_100_000], "{method}");
        let mut at = 0;
        long.with_content(&entry, Access::Sequential, &mut |part| {
            let Part::Data(bytes) = part else { panic!("no holes in a zip archive") };
            assert!(bytes == &content[at..at + bytes.len()]);
            at += bytes.len();
            Ok(())
        })
        .unwrap();
        assert_eq!(at, content.len());
        if method == CompressionMethod::Stored {
            bytes[1 << 20] ^= 1;
            let damaged = archive(&bytes).unwrap();
            assert!(damaged.read_at(&entry, 0, &mut part).unwrap_err().to_string().contains("CRC"));
        }
    }
}

#[test]
fn truncated_and_changed_archives_never_yield_other_content() {
    let whole = sample();
    let intact = readable_contents(&whole).unwrap();
    assert_eq!(intact.len(), 7);
    for len in 0..whole.len() {
        assert_no_other_content(&whole[..len], &intact, &format!("cut to {len}"));
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        assert_no_other_content(&bytes, &intact, &format!("byte {at}"));
    }
}

#[test]
fn encrypted_members_need_password() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let sealed = options(CompressionMethod::Deflated).with_aes_encryption(AesMode::Aes256, "open sesame");
    zip.start_file("sealed", sealed).unwrap();
    zip.write_all(&text(5000)).unwrap();
    zip.start_file("plain", options(CompressionMethod::Deflated)).unwrap();
    zip.write_all(b"for all").unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let read = |key: Option<&str>, name: &str| {
        let options = OpenOptions { key: key.map(Secret::password), ..OpenOptions::default() };
        let archive = open(Arc::new(MemorySource::new(bytes.clone())), &options).unwrap();
        let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
        archive.read_all(&entry, 1 << 20)
    };
    assert_eq!(read(Some("open sesame"), "sealed").unwrap(), text(5000));
    assert_eq!(read(None, "plain").unwrap(), b"for all");
    assert!(matches!(read(None, "sealed"), Err(Error::KeyNeeded)));
    assert!(matches!(read(Some("open barley"), "sealed"), Err(Error::WrongKey)));
}

/// Returns an archive of members with the legacy encryption and these methods.
fn weakly_encrypted(methods: &[CompressionMethod]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (number, &method) in methods.iter().enumerate() {
        let sealed = options(method).with_deprecated_encryption(b"open sesame").unwrap();
        zip.start_file(format!("m{number}"), sealed).unwrap();
        zip.write_all(&text(3000)).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn wrong_password_of_legacy_encryption_is_a_wrong_key() {
    use CompressionMethod::{Bzip2, Deflated, Stored, Xz, Zstd};
    let read = |bytes: &[u8], key: &str| {
        let options = OpenOptions { key: Some(Secret::password(key)), ..OpenOptions::default() };
        let archive = open(Arc::new(MemorySource::new(bytes.to_vec())), &options).unwrap();
        let (_, entry) = archive.find(b"m0").unwrap().unwrap();
        archive.read_all(&entry, 1 << 20)
    };
    // The encryption accepts one wrong password in 256.
    for method in [Stored, Deflated, Bzip2, Zstd, Xz] {
        let archives = [weakly_encrypted(&[method]), weakly_encrypted(&[method, Deflated, method])];
        for bytes in archives {
            assert_eq!(read(&bytes, "open sesame").unwrap(), text(3000));
            for number in 0..600 {
                let found = read(&bytes, &format!("open {number}"));
                assert!(matches!(found, Err(Error::WrongKey)), "{method:?}, {number}: {found:?}");
            }
        }
    }
    // Another member confirms the password, so this is damage.
    let mut bytes = weakly_encrypted(&[Deflated, Deflated]);
    bytes[80] ^= 1;
    assert!(matches!(read(&bytes, "open sesame"), Err(Error::Corrupt { .. })));
}

#[test]
fn false_symlinks_and_content_of_directories_are_reported() {
    let mut bytes = {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["link", "folder", "pipe"] {
            zip.start_file(name, options(CompressionMethod::Stored)).unwrap();
            zip.write_all(if name == "link" { b"" } else { b"said" }).unwrap();
        }
        zip.finish().unwrap().into_inner()
    };
    for (name, mode) in [("link", 0o120_777u32), ("folder", 0o040_755), ("pipe", 0o010_644)] {
        let record = bytes.windows(name.len()).rposition(|part| part == name.as_bytes()).unwrap() - 46;
        bytes[record + 5] = 3;
        bytes[record + 38..record + 42].copy_from_slice(&(mode << 16).to_le_bytes());
    }
    let archive = open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap();
    let kinds: Vec<Kind> = archive.entries(0..3).map(|entry| entry.unwrap().kind).collect();
    assert_eq!(kinds, [Kind::Directory, Kind::File, Kind::File]);
    let remarks = archive.remarks();
    assert!(remarks.len() == 2 && remarks[0].starts_with("link: ") && remarks[1].starts_with("folder: "), "{remarks:?}");
    assert!(archive.skips_entries());
}

#[test]
fn leading_data_is_ignored() {
    let bytes = [b"#!/bin/sh\nexit 0\n".to_vec(), sample()].concat();
    let archive = archive(&bytes).unwrap();
    for name in ["zstd", "bzip2", "deflate"] {
        let (_, entry) = archive.find(format!("by_method/{name}.txt").as_bytes()).unwrap().unwrap();
        assert_eq!(archive.read_all(&entry, 1 << 20).unwrap(), text(5000), "{name}");
    }
}

/// Returns content as lzma in a zip member, with a dictionary of 64 KiB. The header claims `dictionary` bytes.
fn lzma(content: &[u8], dictionary: u32) -> Vec<u8> {
    let mut made = lzma_rust2::LzmaOptions::with_preset(1);
    made.dict_size = 64 << 10;
    let mut writer = lzma_rust2::LzmaWriter::new_no_header(Vec::new(), &made, false).unwrap();
    writer.write_all(content).unwrap();
    let properties = writer.props();
    [&[9, 20, 5, 0, properties][..], &dictionary.to_le_bytes(), &writer.finish().unwrap()].concat()
}

/// Returns an xz stream. The header claims a dictionary with this length code, if given.
fn xz(content: &[u8], dictionary: Option<u8>) -> Vec<u8> {
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
    writer.write_all(content).unwrap();
    let mut stream = writer.finish().unwrap();
    if let Some(code) = dictionary {
        // After the header of the stream: length of the block header, flags, one filter.
        let len = (usize::from(stream[12]) + 1) * 4;
        assert_eq!(stream[13..16], [0, 0x21, 1]);
        stream[16] = code;
        let crc = crc32fast::hash(&stream[12..8 + len]);
        stream[8 + len..12 + len].copy_from_slice(&crc.to_le_bytes());
    }
    stream
}

/// Returns an archive with the member `it`, stored as these bytes with this method. Its record claims `size` bytes of content.
fn one_member(method: u16, stored: &[u8], content: &[u8], size: u32, password: Option<&str>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let plain = options(CompressionMethod::Stored);
    zip.start_file("it", password.map_or(plain, |password| plain.with_aes_encryption(AesMode::Aes128, password))).unwrap();
    zip.write_all(stored).unwrap();
    let mut bytes = zip.finish().unwrap().into_inner();
    let record = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    bytes[record + 16..record + 20].copy_from_slice(&crc32fast::hash(content).to_le_bytes());
    bytes[record + 24..record + 28].copy_from_slice(&size.to_le_bytes());
    let place = match password {
        None => record + 10,
        Some(_) => record + 9 + bytes[record..].windows(4).position(|window| window == b"\x01\x99\x07\0").unwrap(),
    };
    bytes[place..place + 2].copy_from_slice(&method.to_le_bytes());
    bytes
}

fn read_it(bytes: Vec<u8>, password: Option<&str>) -> nra::format::Result<Vec<u8>> {
    let options = OpenOptions { key: password.map(Secret::password), ..OpenOptions::default() };
    let archive = open(Arc::new(MemorySource::new(bytes)), &options).unwrap();
    let (_, entry) = archive.find(b"it").unwrap().unwrap();
    archive.read_all(&entry, u64::MAX)
}

#[test]
fn lzma_and_xz_members_are_read() {
    let content = text(300_000);
    let size = 300_000;
    for password in [None, Some("open sesame")] {
        for (method, stored) in [(14, lzma(&content, 64 << 10)), (14, lzma(&content, u32::MAX)), (95, xz(&content, None))] {
            let bytes = one_member(method, &stored, &content, size, password);
            assert!(read_it(bytes, password).unwrap() == content, "{method} {password:?}");
            // The stream is intact, but the checksum in the record belongs to other content.
            let error = read_it(one_member(method, &stored, &text(9), size, password), password).unwrap_err();
            assert!(error.to_string().contains("CRC"), "{method} {password:?}: {error}");
            let error = read_it(one_member(method, &stored, &content, size - 1, password), password).map(|all| all.len());
            assert!(matches!(&error, Err(Error::Corrupt { .. })), "{method} {password:?}: {error:?}");
        }
        // As the crate writes it, also with the legacy encryption.
        let plain = options(CompressionMethod::Xz);
        for sealed in [
            plain.with_deprecated_encryption("open sesame".as_bytes()).unwrap(),
            plain.with_aes_encryption(AesMode::Aes256, "open sesame"),
        ] {
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            zip.start_file("it", if password.is_some() { sealed } else { plain }).unwrap();
            zip.write_all(&content).unwrap();
            let bytes = zip.finish().unwrap().into_inner();
            assert!(read_it(bytes, password).unwrap() == content, "{password:?}");
        }
    }
}

#[test]
fn wrong_authentication_code_is_reported() {
    let content = text(5000);
    for (method, stored) in [(14, lzma(&content, 64 << 10)), (95, xz(&content, None))] {
        let mut bytes = one_member(method, &stored, &content, 5000, Some("x"));
        // The last byte of the authentication code, directly before the directory.
        let record = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        bytes[record - 1] ^= 1;
        let error = read_it(bytes, Some("x")).unwrap_err();
        assert!(error.to_string().contains("authentication"), "{method}: {error}");
    }
}

#[test]
fn large_dictionaries_are_rejected() {
    let content = text(5000);
    for password in [None, Some("open sesame")] {
        for (method, stored) in [
            (14, lzma(&content, 300 << 20)),
            (14, lzma(&content, u32::MAX)),
            (95, xz(&content, Some(33))),
            (95, xz(&content, Some(40))),
        ] {
            let error = read_it(one_member(method, &stored, &content, u32::MAX - 1, password), password).unwrap_err();
            assert!(matches!(&error, Error::Unsupported { what: "zip member", .. }), "{method} {password:?}: {error}");
            let message = error.to_string();
            assert!(message.contains("zip member it, which needs more than 256 MiB of memory"), "{message}");
        }
    }
    // A frame with a window of 2 GiB: magic, descriptor, window, an empty block.
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0];
    let error = read_it(one_member(93, &wide, b"", 5, None), None).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { what: "zip member", .. }), "{error}");
}

#[test]
fn members_are_found_without_the_directory() {
    let whole = sample();
    let intact = readable_contents(&whole).unwrap();
    let directory = whole.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    // Missing: the end record; the directory too; the last member and a part of the one before too.
    for (len, members, skipped) in [(whole.len() - 22, 8, 0), (directory, 8, 0), (directory - 60, 6, 1)] {
        let archive = archive(&whole[..len]).unwrap();
        let entries = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path.to_string());
        let found = entries.filter(|path| path != "by_method").count();
        assert_eq!(
            (archive.is_index_damaged(), found, archive.skipped_entries()),
            (true, members, skipped),
            "{:?}",
            archive.remarks()
        );
        let (_, entry) = archive.find(b"by_method/zstd.txt").unwrap().unwrap();
        assert_eq!(archive.read_all(&entry, 1 << 20).unwrap(), text(5000));
        assert_no_other_content(&whole[..len], &intact, "cut");
    }
    // Only the directory records modes.
    let mode = |len: usize| archive(&whole[..len]).unwrap().find(b"by_method/stored.txt").unwrap().unwrap().1.metadata.mode;
    assert_eq!((mode(whole.len() - 22), mode(directory)), (0o640, 0o644));
    // Without the first bytes, the offsets in the records are wrong.
    let front = whole.windows(4).skip(1).position(|window| window == b"PK\x03\x04").unwrap() - 10;
    let found = archive(&whole[front..]).unwrap();
    assert!(found.is_index_damaged() && found.find(b"by_method/stored.txt").unwrap().is_none());
    assert_eq!(found.find(b"by_method/zstd.txt").unwrap().unwrap().1.metadata.mode, 0o640);
    assert_eq!(found.find(b"link").unwrap().unwrap().1.kind, Kind::Symlink);
    // A damaged record in the middle.
    let mut damaged = whole.clone();
    let second = damaged[directory + 4..].windows(4).position(|window| window == b"PK\x01\x02").unwrap() + directory + 4;
    damaged[second] = 0;
    let found = archive(&damaged).unwrap();
    assert!(found.is_index_damaged() && found.find(b"by_method/deflate.txt").unwrap().is_some());
}
