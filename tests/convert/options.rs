//! Options, limits and names of the output.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{NRA, expect, nra, other, skip};
use crate::{count_entries, packed_tree};

#[test]
fn exceeded_limits_name_their_option() {
    let folder = packed_tree();
    let at = folder.path();
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    for (option, value) in [("--limit-entries", "3"), ("--limit-size", "1000")] {
        for input in ["first.nra", "first.tar.gz"] {
            let stderr = expect(at, &["convert", input, "limited.nra", option, value], 1);
            assert!(stderr.contains(option), "{stderr}");
            assert!(!at.join("limited.nra").exists());
        }
    }
    // Entries are counted as `list` prints them, without the top directory.
    if other(at, "tar", &["-cf", "top.tar", "-C", "tree", "."]).is_some_and(|output| output.status.success()) {
        let listed = count_entries(at, "top.tar");
        for (limit, code) in [(listed - 1, 1), (listed, 0)] {
            for output in ["limited.nra", "limited.tar"] {
                expect(at, &["convert", "top.tar", output, "--limit-entries", &limit.to_string()], code);
            }
        }
    }
}

#[test]
fn ratio_limit_applies_to_all_formats() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::File::create(at.join("tree/hole")).unwrap().set_len(40 << 30).unwrap();
    fs::write(at.join("tree/small"), "x").unwrap();
    if fs::metadata(at.join("tree/hole")).unwrap().blocks() != 0 {
        skip("this file system has no holes");
        return;
    }
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    // Copied blocks do not expand.
    expect(at, &["convert", "first.nra", "moved.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar", "--limit-ratio", "100000000"], 0);
    for input in ["first.nra", "first.tar"] {
        for output in ["out.tar", "out.zip", "out.nra4", "out.nra"] {
            for further in [&[][..], &["--keep-going"]] {
                let level: &[&str] = if output == "out.tar" { &[] } else { &["-l", "1"] };
                let stderr = expect(at, &[&["convert", input, output], level, further].concat(), 1);
                assert!(stderr.contains("use --limit-ratio to raise the limit"), "{input} {output}: {stderr}");
                assert!(!at.join(output).exists());
            }
        }
    }
    expect(at, &["convert", "first.tar", "back.nra", "--limit-ratio", "100000000"], 0);
}

#[test]
fn ratio_limit_of_reading_can_be_raised() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // 1.1 GiB of zero bytes in 70 equal frames.
    let frame = zstd_frame(&vec![0; 16 << 20]);
    fs::write(at.join("zeros.zst"), frame.repeat(70)).unwrap();
    for command in ["list", "verify"] {
        let stderr = expect(at, &[command, "zeros.zst"], 1);
        assert!(stderr.contains("use --limit-ratio to raise the limit"), "{command}: {stderr}");
        expect(at, &[command, "zeros.zst", "--limit-ratio", "100000000"], 0);
    }
}

/// Returns a zstd frame with this content.
fn zstd_frame(content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    zstd_safe::compress(&mut frame, content, 3).unwrap();
    frame
}

#[test]
fn existing_output_is_not_replaced() {
    let folder = packed_tree();
    let at = folder.path();
    expect(at, &["convert", "first.nra", "first.tar"], 0);
    assert!(expect(at, &["convert", "first.tar"], 1).contains("use -f to replace"));
    assert!(expect(at, &["convert", "first.nra", "first.nra", "-f"], 2).contains("is the input"));
    expect(at, &["convert", "first.nra", "first.tar", "-f"], 0);
}

#[test]
fn unsupported_output_format_is_rejected() {
    let folder = packed_tree();
    let at = folder.path();
    for output in ["out.7z", "out.rar", "out.gz", "out.JAR", "out.tar.lzma"] {
        let stderr = expect(at, &["convert", "first.nra", output], 2);
        assert!(stderr.contains(&format!("cannot write {output}")) && stderr.contains(".tar.zst"), "{stderr}");
        assert!(!at.join(output).exists());
    }
    expect(at, &["convert", "first.nra", "out.jar", "--to", "zip"], 3);
    expect(at, &["convert", "first.nra", "out.data"], 0);
}

#[test]
fn options_without_effect_are_reported() {
    let folder = packed_tree();
    let at = folder.path();
    for (output, option, value, has_effect) in [
        ("x.tar", "--level", "3", false),
        ("x.tar.xz", "--level", "0", true),
        ("x.tar.gz", "--codec", "zstd", false),
        ("x.zip", "--preset", "dense", false),
        ("x.zip", "--codec", "zstd", true),
    ] {
        let output = nra(at, &["convert", "first.nra", output, "-f", option, value]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 2), "{stderr}");
        assert_eq!(stderr.contains(&format!("{option} has no effect on")), !has_effect, "{stderr}");
    }
    assert!(expect(at, &["convert", "first.nra", "x.tar.lz4", "-f", "-l", "3"], 2).contains("lz4 has no compression levels"));
}

#[test]
fn key_encrypts_output_of_plain_input() {
    let folder = packed_tree();
    let at = folder.path();
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    for input in ["first.nra", "first.tar.gz"] {
        let stderr = expect(at, &["convert", input, "sealed.nra", "-f", "--password", "x"], 0);
        assert!(stderr.contains("the input is not encrypted; the key encrypts the output"), "{stderr}");
        expect(at, &["list", "sealed.nra"], 5);
        // The key opens the encrypted input.
        let stderr = expect(at, &["convert", "sealed.nra", "plain.nra", "-f", "--password", "x"], 0);
        assert!(stderr.contains("the input is encrypted, but the output is not"), "{stderr}");
        expect(at, &["list", "plain.nra"], 0);
    }
    let stderr = expect(at, &["convert", "first.nra", "out.tar", "--password", "x"], 0);
    assert!(stderr.contains("not encrypted; the key was not used"), "{stderr}");
}

#[test]
fn default_name_contains_number_of_earlier_commit() {
    let folder = packed_tree();
    let at = folder.path();
    expect(at, &["rm", "first.nra", "a.txt"], 0);
    for arguments in [&["convert", "first.nra@1"][..], &["convert", "first.nra", "--at", "1", "-f"]] {
        expect(at, arguments, 0);
        expect(at, &["info", "first@1.nra"], 0);
        fs::remove_file(at.join("first@1.nra")).unwrap();
    }
}

#[test]
fn warning_about_the_archive_names_the_input() {
    let folder = packed_tree();
    let at = folder.path();
    expect(at, &["rm", "first.nra", "a.txt"], 0);
    for output in ["out.nra", "out.tar"] {
        let stderr = expect(at, &["convert", "first.nra", output], 3);
        assert!(stderr.contains("warning: first.nra: earlier commits are not kept"), "{stderr}");
    }
}

/// Returns a zip archive of one empty member, as a DOS program writes it.
fn dos_zip(name: &[u8]) -> Vec<u8> {
    let len = u16::try_from(name.len()).unwrap().to_le_bytes();
    let local = [b"PK\x03\x04\x14\0\0\0\0\0", &[0, 0, 0x21, 0][..], &[0; 12], &len, &[0; 2], name].concat();
    let central = [b"PK\x01\x02\x14\0\x14\0", &[0; 4][..], &[0, 0, 0x21, 0], &[0; 12], &len, &[0; 16], name].concat();
    let sizes = [(central.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
    [&local[..], &central, b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &sizes, &[0; 2]].concat()
}

#[test]
fn names_option_selects_encoding() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..4].copy_from_slice(b"\x93\xfa\x96{");
    header.set_size(0);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, &[][..]).unwrap();
    fs::write(at.join("japan.tar"), tar.into_inner().unwrap()).unwrap();
    fs::write(at.join("japan.zip"), dos_zip(b"\x93\xfa\x96{")).unwrap();
    fs::write(at.join("old.zip"), dos_zip(b"\x81ber\\a")).unwrap();
    for (archive, names, expected) in [
        ("old.zip", &[][..], "über\nüber/a\n"),
        ("old.zip", &["--names", "cp866"], "Бber\nБber/a\n"),
        ("japan.zip", &["--names", "shift_jis"], "日本\n"),
        ("japan.tar", &["--names", "cp932"], "日本\n"),
    ] {
        let listed = nra(at, &[&["list", archive], names].concat()).stdout;
        assert_eq!(String::from_utf8_lossy(&listed), expected, "{archive} {names:?}");
        expect(at, &[&["convert", archive, "out.nra", "-f"], names].concat(), 0);
        assert_eq!(String::from_utf8_lossy(&nra(at, &["list", "out.nra"]).stdout), expected, "{archive} {names:?}");
    }
    expect(at, &["extract", "japan.zip", "--names", "sjis", "-C", "out"], 0);
    assert!(at.join("out/日本").exists());
    let stderr = expect(at, &["list", "japan.zip", "--names", "klingon"], 2);
    assert!(stderr.contains("shift_jis"), "{stderr}");
}

#[test]
fn from_option_selects_format_and_misleading_name_is_reported() {
    let folder = packed_tree();
    let at = folder.path();
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    fs::rename(at.join("first.tar.gz"), at.join("first.zip")).unwrap();
    for line in [&["list", "first.zip"][..], &["convert", "first.zip", "a.nra"], &["convert", "first.zip", "a.tar"]] {
        let stderr = expect(at, line, 0);
        assert_eq!(stderr.matches("its name ends with .zip, but it is tar, gzip").count(), 1, "{line:?}: {stderr}");
    }
    assert_eq!(expect(at, &["list", "first.zip", "-q"], 0), "");
    assert!(!expect(at, &["list", "first.nra"], 0).contains("its name"));
    let stderr = expect(at, &["convert", "first.zip", "b.nra", "--from", "zip"], 4);
    assert!(stderr.contains("not zip: it looks like gzip"), "{stderr}");
    expect(at, &["convert", "first.zip", "b.nra", "--from", "tar.gz"], 0);
    expect(at, &["list", "first.zip", "--from", "rar"], 2);
    // In a pipe, a zip archive that follows other data cannot be detected from the first bytes.
    expect(at, &["convert", "first.nra", "inner.zip"], 3);
    let both = [fs::read(at.join("first.zip")).unwrap(), fs::read(at.join("inner.zip")).unwrap()].concat();
    fs::write(at.join("both"), both).unwrap();
    let stdin = fs::File::open(at.join("both")).unwrap();
    let line = ["convert", "-", "-o", "c.nra", "--from", "zip"];
    let status = Command::new(NRA).args(line).current_dir(at).stdin(stdin).output().unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert_eq!(nra(at, &["cat", "c.nra", "a.txt"]).stdout, b"hello\n");
}
