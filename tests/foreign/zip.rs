//! Zip archives, made by the crate of that name.

use std::io::{Cursor, Write};
use std::sync::Arc;

use nra::format::Error;
use nra::format::archive::{Access, Depth, OpenOptions, Part, open};
use nra::format::crypt::Secret;
use nra::format::entry::Kind;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use zip::write::SimpleFileOptions;
use zip::{AesMode, CompressionMethod, ZipWriter};

use crate::{archive, read_what_reads};

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
fn members_read_as_they_were_written() {
    let archive = archive(&sample()).unwrap();
    assert_eq!(archive.info().format, "zip");
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
    assert!(kinds.contains(&("by_method".into(), Kind::Directory)), "an implied one");
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
fn every_cut_and_flip_is_harmless() {
    let whole = sample();
    let count = read_what_reads(&whole).unwrap();
    for len in 0..whole.len() {
        assert_eq!(read_what_reads(&whole[..len]), None, "cut to {len}");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        // A name may change to one that implies another directory; content is judged by its checksum.
        assert!(read_what_reads(&bytes).is_none_or(|read| read <= count + 1), "byte {at}");
    }
}

#[test]
fn encrypted_members_need_their_password() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let sealed = options(CompressionMethod::Deflated).with_aes_encryption(AesMode::Aes256, "open sesame");
    zip.start_file("sealed", sealed).unwrap();
    zip.write_all(&text(5000)).unwrap();
    zip.start_file("plain", options(CompressionMethod::Deflated)).unwrap();
    zip.write_all(b"for all").unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let read = |key: Option<&str>, name: &str| {
        let mut options = OpenOptions::default();
        options.key = key.map(Secret::password);
        let archive = open(Arc::new(MemorySource::new(bytes.clone())), &options).unwrap();
        let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
        archive.read_all(&entry, 1 << 20)
    };
    assert_eq!(read(Some("open sesame"), "sealed").unwrap(), text(5000));
    assert_eq!(read(None, "plain").unwrap(), b"for all");
    assert!(matches!(read(None, "sealed"), Err(Error::KeyNeeded)));
    assert!(matches!(read(Some("open barley"), "sealed"), Err(Error::WrongKey)));
}

#[test]
fn data_in_front_does_not_matter() {
    let bytes = [b"#!/bin/sh\nexit 0\n".to_vec(), sample()].concat();
    let archive = archive(&bytes).unwrap();
    for name in ["zstd", "bzip2", "deflate"] {
        let (_, entry) = archive.find(format!("by_method/{name}.txt").as_bytes()).unwrap().unwrap();
        assert_eq!(archive.read_all(&entry, 1 << 20).unwrap(), text(5000), "{name}");
    }
}
