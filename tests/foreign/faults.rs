//! Messages and exit codes for faulty inputs. They name the affected member.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use crate::common::{self, noise};
use flate2::write::GzEncoder;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{AesMode, CompressionMethod, ZipWriter};

/// Runs nra. Returns its exit code and its output.
fn nra(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = common::nra(folder, arguments);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code().unwrap(), text)
}

/// Runs nra and checks its exit code, and that its output contains all words.
fn expect(folder: &Path, arguments: &[&str], code: i32, words: &[&str]) {
    let (found, output) = nra(folder, arguments);
    assert_eq!(found, code, "nra {arguments:?}: {output}");
    for word in words {
        assert!(output.contains(word), "nra {arguments:?}: {word:?} is missing: {output}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zip_of(entries: &[(&str, &[u8], SimpleFileOptions)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, options) in entries {
        zip.start_file(*name, *options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

/// Replaces all occurrences of some bytes.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

#[test]
fn truncation_and_wrong_checksums_are_damage() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // Longer than the window within which damage cannot be located.
    let archive = tar(&[("a", &noise(500_000, 1)), ("b", &noise(400_000, 1)), ("c", &noise(700_000, 1))]);
    let whole = gzip(&archive);
    fs::write(at.join("cut.tgz"), &whole[..whole.len() - 9]).unwrap();
    let mut wrong = whole.clone();
    let crc = wrong.len() - 8;
    wrong[crc] ^= 1;
    fs::write(at.join("crc.tgz"), &wrong).unwrap();
    for (archive, words) in [("cut.tgz", "truncated"), ("crc.tgz", "gzip stream")] {
        expect(at, &["convert", archive, "no.nra"], 4, &[archive, words, "--keep-going"]);
        assert!(!at.join("no.nra").exists());
    }
    // The position of the damage behind a wrong checksum is unknown.
    expect(at, &["verify", "crc.tgz"], 4, &["affects at least one of 3 entries", "up to 3 entries affected"]);
    expect(at, &["extract", "crc.tgz", "-C", "out"], 4, &["may be damaged where the mismatching checksum covers them: a, b, c"]);
    expect(at, &["convert", "crc.tgz", "kept.nra", "--keep-going"], 4, &["may be damaged where"]);
    expect(at, &["convert", "cut.tgz", "kept.nra", "-f", "--keep-going"], 4, &["the preceding content is kept\n"]);

    let mut zip = zip_of(&[("good", b"good", stored()), ("bad", b"hello hello", stored())]);
    replace(&mut zip, b"hello hello", b"hallo");
    fs::write(at.join("crc.zip"), &zip).unwrap();
    for command in ["convert", "extract", "verify"] {
        expect(at, &[command, "crc.zip"], 4, &["bad: CRC"]);
    }
    expect(at, &["convert", "crc.zip", "kept.nra", "-f", "--keep-going"], 4, &["bad", "skipped"]);
    assert_eq!(nra(at, &["cat", "kept.nra", "good"]), (0, "good".into()));
}

#[test]
fn lost_7z_index_is_reported_without_hint() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let sevenz = include_bytes!("sevenz/copy.7z");
    fs::write(at.join("cut.7z"), &sevenz[..sevenz.len() - 10]).unwrap();
    for arguments in [&["convert", "cut.7z"][..], &["convert", "cut.7z", "--keep-going"], &["list", "cut.7z"]] {
        let (code, output) = nra(at, arguments);
        assert!(code == 4 && output.contains("without its index, the archive cannot be read"), "{output}");
        assert!(!output.contains("--keep-going"), "{output}");
    }
}

#[test]
fn skipped_entries_are_counted_for_each_target() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // A name outside the archive, and a file with entries below it.
    let mut bytes = tar(&[("ok", b"1"), ("no/up", b"2"), ("d/x", b"3"), ("d", b"4")]);
    let head = bytes.windows(5).position(|window| window == b"no/up").unwrap();
    bytes[head..head + 5].copy_from_slice(b"../up");
    let sum = |head: &[u8]| {
        head.iter().enumerate().map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) }).sum::<u32>()
    };
    let checksum = format!("{:06o}\0 ", sum(&bytes[head..head + 512]));
    bytes[head + 148..head + 156].copy_from_slice(checksum.as_bytes());
    fs::write(at.join("odd.tar.gz"), gzip(&bytes)).unwrap();
    fs::write(at.join("odd.tar"), bytes).unwrap();
    for archive in ["odd.tar", "odd.tar.gz"] {
        for output in ["out.nra", "out.tar", "out.zip", "out.shard", "out.nra4"] {
            expect(at, &["convert", archive, output, "-f"], 3, &[", 2 skipped"]);
        }
        expect(at, &["extract", archive, "-C", "out", "-f"], 3, &[", 2 skipped"]);
    }
}

#[test]
fn trailing_data_is_reported() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let archive = tar(&[("a", b"first")]);
    for (name, bytes) in [
        ("junk.gz", [gzip(b"first"), b"second".to_vec()].concat()),
        ("junk.tar.gz", [gzip(&archive), b"junk".to_vec()].concat()),
        ("junk.tar", [archive.clone(), noise(10_000, 1)].concat()),
        // Much more than is read ahead.
        ("much.tar", [archive.clone(), noise(9 << 20, 1)].concat()),
    ] {
        fs::write(at.join(name), bytes).unwrap();
        let output = format!("{name}.nra");
        for arguments in [&["convert", name, &output][..], &["verify", name], &["list", name]] {
            let code = if name.ends_with(".gz") { 3 } else { 0 };
            expect(at, arguments, code, &["the data after the"]);
        }
        assert_eq!(nra(at, &["verify", &output]).0, 0);
    }
    // Zero bytes are padding, and another archive continues the first.
    for (name, bytes) in [
        ("zeros.tar.gz", [gzip(&archive), vec![0; 5_000]].concat()),
        ("zeros.tar", [archive.clone(), vec![0; 50_000]].concat()),
        ("two.tar", [archive.clone(), tar(&[("b", b"second")])].concat()),
    ] {
        fs::write(at.join(name), bytes).unwrap();
        expect(at, &["verify", name], 0, &["ok"]);
        expect(at, &["convert", name, "out.nra", "-f"], 0, &[]);
    }
}

#[test]
fn unsupported_features_are_named() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let mut zip = zip_of(&[("odd", b"content", stored())]);
    // The method of both headers.
    replace(&mut zip, b"PK\x03\x04\x0a\0\0\0\0\0", b"PK\x03\x04\x0a\0\0\0\x62\0");
    let record = zip.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    zip[record + 10] = 98;
    fs::write(at.join("odd.zip"), &zip).unwrap();
    expect(at, &["convert", "odd.zip"], 4, &["zip method 98 (ppmd) (entry odd) is not supported", "zstd", "--keep-going"]);
    // A frame with a window of 2 GiB: magic, descriptor, window, an empty block.
    fs::write(at.join("wide.zst"), b"\x28\xb5\x2f\xfd\0\xa8\x01\0\0").unwrap();
    expect(at, &["convert", "wide.zst"], 4, &["window of more than 128 MiB is not supported"]);
}

#[test]
fn locked_member_is_named() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let sealed = stored().with_aes_encryption(AesMode::Aes256, "open sesame");
    fs::write(at.join("mixed.zip"), zip_of(&[("plain", b"for all", stored()), ("sealed", b"for some", sealed)])).unwrap();
    for command in ["convert", "extract", "verify"] {
        let words = ["mixed.zip: sealed is encrypted: a password or key is needed", "hint: use -p to enter the password"];
        expect(at, &[command, "mixed.zip", "-q"], 5, &words);
    }
    fs::write(at.join("wrong"), "open barley").unwrap();
    // Fails before it creates anything.
    expect(at, &["extract", "mixed.zip", "-C", "out"], 5, &["sealed is encrypted: a password or key is needed"]);
    let wrong = ["extract", "mixed.zip", "-C", "out", "--password-file", "wrong"];
    expect(at, &wrong, 5, &["sealed is encrypted: the password or key is wrong"]);
    assert!(!at.join("out").exists() && !at.join("mixed").exists());
    expect(at, &["extract", "mixed.zip", "plain", "-C", "out"], 0, &[]);
    expect(at, &["convert", "mixed.zip", "--password-file", "wrong"], 5, &["sealed is encrypted: the password or key is wrong"]);
    assert!(!at.join("mixed.nra").exists());
    assert_eq!(nra(at, &["cat", "mixed.zip", "plain"]).1, "for all");
}

#[test]
fn exceeded_limits_name_their_option() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::write(at.join("many.tar"), tar(&[("a", b"1"), ("b", b"2"), ("c", b"3")])).unwrap();
    fs::write(at.join("zeros.gz"), gzip(&vec![0; 40 << 20])).unwrap();
    let deflated = SimpleFileOptions::default();
    fs::write(at.join("zeros.zip"), zip_of(&[("zeros", &vec![0; 40 << 20], deflated)])).unwrap();
    for (archive, option, value) in [
        ("many.tar", "--limit-entries", "2"),
        ("many.tar", "--limit-size", "2"),
        ("zeros.gz", "--limit-size", "30M"),
        ("zeros.zip", "--limit-size", "30M"),
        ("zeros.zip", "--limit-entries", "0"),
    ] {
        for output in ["out.nra", "out.tar", "out.zip"] {
            expect(at, &["convert", archive, output, option, value], 1, &[archive, option]);
            assert!(!at.join(output).exists());
        }
    }
    // A member within another one.
    let mut zip = zip_of(&[("outer", &zip_of(&[("inner", b"content", stored())]), stored())]);
    let local = zip.windows(4).skip(1).position(|window| window == b"PK\x03\x04").unwrap() + 1;
    let end = zip.len() - 22;
    let directory = u32::from_le_bytes(*zip[end + 16..].first_chunk().unwrap()) as usize;
    let mut record = zip[directory..end].to_vec();
    let inner = zip_of(&[("inner", b"content", stored())]);
    let inner_end = inner.len() - 22;
    let inner_directory = u32::from_le_bytes(*inner[inner_end + 16..].first_chunk().unwrap()) as usize;
    let mut second = inner[inner_directory..inner_end].to_vec();
    second[42..46].copy_from_slice(&u32::try_from(local).unwrap().to_le_bytes());
    record.extend(second);
    let len = u32::try_from(record.len()).unwrap();
    let mut tail = zip.split_off(end);
    zip.truncate(directory);
    zip.extend(record);
    for (at, bytes) in [(8, 2u16), (10, 2)] {
        tail[at..at + 2].copy_from_slice(&bytes.to_le_bytes());
    }
    tail[12..16].copy_from_slice(&len.to_le_bytes());
    zip.extend(tail);
    fs::write(at.join("overlap.zip"), zip).unwrap();
    expect(at, &["convert", "overlap.zip"], 4, &["it overlaps another member"]);
}

#[test]
fn too_long_attribute_is_skipped() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let mut builder = tar::Builder::new(Vec::new());
    for (name, len) in [("short", 1 << 20), ("long", (1 << 20) + 1)] {
        let value = vec![b'x'; len];
        builder.append_pax_extensions([("SCHILY.xattr.user.big", &value[..])]).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        builder.append_data(&mut header, name, &[][..]).unwrap();
    }
    fs::write(at.join("big.tar"), builder.into_inner().unwrap()).unwrap();
    for output in ["out.nra", "out.tar"] {
        let (code, text) = nra(at, &["convert", "big.tar", output]);
        assert_eq!(code, 3, "{text}");
        assert!(
            text.contains("long: the attribute user.big is skipped: it has 1048577 bytes") && !text.contains("short"),
            "{text}"
        );
    }
}

#[test]
fn wrong_trailing_checksum_keeps_and_names_its_entries() {
    let folder = TempDir::new().unwrap();
    // Shorter than a block of the decoder.
    let names: Vec<String> = (0..9).map(|number| format!("f{number}")).collect();
    let contents: Vec<Vec<u8>> = (b'a'..).map(|letter| vec![letter; 20_000]).take(9).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().zip(&contents).map(|(name, content)| (&**name, &**content)).collect();
    let mut bytes = gzip(&tar(&entries));
    let end = bytes.len();
    bytes[end - 8] ^= 1;
    fs::write(folder.path().join("a.tar.gz"), bytes).unwrap();
    for arguments in [&["list", "a.tar.gz"][..], &["extract", "a.tar.gz", "-C", "out"], &["verify", "a.tar.gz"]] {
        expect(folder.path(), arguments, 4, &[]);
    }
    expect(folder.path(), &["list", "a.tar.gz"], 4, &["f0\nf1\nf2\nf3\nf4\nf5\nf6\nf7\nf8\n"]);
    expect(folder.path(), &["verify", "a.tar.gz"], 4, &["9 entries affected", "f0", "f8"]);
    expect(folder.path(), &["convert", "a.tar.gz", "a.nra", "--keep-going"], 4, &["9 files"]);
    for (name, content) in names.iter().zip(&contents) {
        assert!(fs::read(folder.path().join("out").join(name)).unwrap() == *content, "{name}");
        expect(folder.path(), &["cat", "a.nra", name], 0, &[std::str::from_utf8(content).unwrap()]);
    }
}

#[test]
fn symlinks_with_shared_bytes_are_skipped() {
    let folder = TempDir::new().unwrap();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, target) in [("a", "one target"), ("b", "one target"), ("c", "another")] {
        zip.add_symlink(name, target, stored()).unwrap();
    }
    let mut bytes = zip.finish().unwrap().into_inner();
    fs::write(folder.path().join("links.zip"), &bytes).unwrap();
    expect(folder.path(), &["list", "-l", "links.zip"], 0, &["a -> one target", "b -> one target", "c -> another"]);
    // The record of b refers to the bytes of a.
    let records: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"PK\x01\x02")).collect();
    let local: Vec<u8> = bytes[records[0] + 42..records[0] + 46].to_vec();
    bytes[records[1] + 42..records[1] + 46].copy_from_slice(&local);
    fs::write(folder.path().join("links.zip"), &bytes).unwrap();
    let (code, output) = nra(folder.path(), &["list", "-l", "links.zip"]);
    assert!(output.contains("2 members overlap others and are not readable"), "{code} {output}");
    assert!(output.contains("c -> another") && !output.contains("one target"), "{output}");
}

#[test]
fn hard_link_to_directory_is_skipped() {
    let folder = TempDir::new().unwrap();
    for order in [["d", "h"], ["h", "d"]] {
        let mut builder = tar::Builder::new(Vec::new());
        for name in order {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o755);
            header.set_size(0);
            if name == "d" {
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, "d", &b""[..]).unwrap();
            } else {
                header.set_entry_type(tar::EntryType::Link);
                builder.append_link(&mut header, "h", "d").unwrap();
            }
        }
        fs::write(folder.path().join("a.tar"), builder.into_inner().unwrap()).unwrap();
        expect(folder.path(), &["list", "a.tar"], 3, &["d\n", "not a file of the archive: h"]);
        expect(folder.path(), &["convert", "a.tar", "a.nra", "-f"], 3, &["h: skipped: "]);
    }
    // The path of a file becomes a directory.
    let mut bytes = tar(&[("a", b"old")]);
    bytes.truncate(1024);
    let mut builder = tar::Builder::new(bytes);
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    builder.append_data(&mut header, "a", &b""[..]).unwrap();
    header.set_entry_type(tar::EntryType::Link);
    builder.append_link(&mut header, "b", "a").unwrap();
    fs::write(folder.path().join("b.tar"), builder.into_inner().unwrap()).unwrap();
    expect(folder.path(), &["convert", "b.tar", "b.nra"], 3, &["b: skipped: hard link to a"]);
    expect(folder.path(), &["list", "b.nra"], 0, &["a\n"]);
}
