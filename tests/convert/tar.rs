//! Tar archives, plain and compressed.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::common::tree::describe;
use crate::common::{expect, nra, other};
use crate::{EXACT, WHOLE_SECONDS, count_entries, tree};

/// Extensions of all supported kinds.
const KINDS: [&str; 6] = ["tar", "tar.gz", "tar.zst", "tar.xz", "tar.bz2", "tar.lz4"];

#[test]
fn round_trip_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = describe(&tree(at), EXACT);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in KINDS {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        expect(at, &["convert", &tar, "-o", "second.nra", "-f"], 0);
        expect(at, &["verify", "second.nra"], 0);
        for (archive, out) in [("second.nra", "a"), (tar.as_str(), "b")] {
            let out = format!("{out}-{kind}");
            expect(at, &["extract", archive, "-C", &out], 0);
            assert_eq!(describe(&at.join(out), EXACT), expected, "{kind} {archive}");
        }
        expect(at, &["verify", &tar], 0);
    }
    let listed = nra(at, &["list", "first.tar.gz"]).stdout;
    assert_eq!(nra(at, &["list", "first.nra"]).stdout, listed);
    assert_eq!(nra(at, &["cat", "first.tar.zst", "a.txt"]).stdout, b"hello\n");
}

#[test]
fn other_programs_read_written_archives() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = describe(&tree(at), WHOLE_SECONDS);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in ["tar", "tar.gz"] {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        let python = "import tarfile, sys\nwith tarfile.open(sys.argv[1]) as t: t.extractall(sys.argv[2], filter='tar')";
        for (program, arguments) in [
            ("tar", vec!["-xf", tar.as_str(), "-C", "out"]),
            ("bsdtar", vec!["-xf", tar.as_str(), "-C", "out"]),
            ("python3", vec!["-W", "error", "-c", python, tar.as_str(), "out"]),
        ] {
            let _ = fs::remove_dir_all(at.join("out"));
            fs::create_dir(at.join("out")).unwrap();
            let Some(output) = other(at, program, &arguments) else { continue };
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && stderr.is_empty(), "{program} {kind}: {stderr}");
            assert_eq!(describe(&at.join("out"), WHOLE_SECONDS), expected, "{program} {kind}");
        }
    }
}

#[test]
fn archives_of_other_programs_are_read() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = describe(&tree(at), WHOLE_SECONDS);
    for (program, arguments) in [
        ("tar", vec!["--format=gnu", "-cf"]),
        ("tar", vec!["--format=pax", "-cf"]),
        ("tar", vec!["-czf"]),
        ("bsdtar", vec!["--format=pax", "-cf"]),
        ("bsdtar", vec!["--format=gnutar", "-cf"]),
    ] {
        let arguments = [arguments.as_slice(), &["made", "-C", "tree", "."]].concat();
        let Some(output) = other(at, program, &arguments) else { continue };
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        expect(at, &["convert", "made", "made.nra", "-f"], 0);
        for archive in ["made", "made.nra"] {
            let _ = fs::remove_dir_all(at.join("out"));
            expect(at, &["extract", archive, "-C", "out"], 0);
            assert_eq!(describe(&at.join("out"), WHOLE_SECONDS), expected, "{program} {arguments:?} {archive}");
        }
    }
}

#[test]
fn metadata_of_top_directory_is_kept() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "a").unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    fs::set_permissions(at.join("tree"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::File::open(at.join("tree")).unwrap().set_modified(time).unwrap();
    let Some(output) = other(at, "tar", &["-cf", "made.tar", "-C", "tree", "."]) else { return };
    assert!(output.status.success());
    expect(at, &["convert", "made.tar", "made.nra"], 0);
    expect(at, &["convert", "made.tar", "plain.nra", "--no-times"], 0);
    let extracted = |archive: &str, out: &str| {
        expect(at, &["extract", archive, "-C", out], 0);
        let facts = fs::metadata(at.join(out)).unwrap();
        (facts.mode() & 0o7777, facts.mtime())
    };
    assert_eq!(extracted("made.tar", "from-tar"), (0o750, 1_500_000_000));
    assert_eq!(extracted("made.nra", "from-nra"), (0o750, 1_500_000_000));
    let (mode, seconds) = extracted("plain.nra", "without-times");
    assert!(mode == 0o750 && seconds > 1_500_000_000, "{mode:o} {seconds}");
    // Copying blocks obeys the option too.
    expect(at, &["convert", "made.nra", "again.nra", "--no-times"], 0);
    assert!(extracted("again.nra", "again").1 > 1_500_000_000);
}

#[test]
fn holes_are_kept() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    for (name, starts) in [("tree/middle", &[100_000u64, 5 << 20][..]), ("tree/end", &[0]), ("tree/all", &[])] {
        let file = fs::File::create(at.join(name)).unwrap();
        starts.iter().for_each(|&start| file.write_all_at(&[7; 70_000], start).unwrap());
        file.set_len(8 << 20).unwrap();
    }
    let has_holes = fs::metadata(at.join("tree/all")).unwrap().blocks() == 0;
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in ["tar", "tar.zst"] {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        expect(at, &["convert", &tar, "-o", "second.nra", "-f"], 0);
        for archive in [tar.as_str(), "second.nra"] {
            expect(at, &["extract", archive, "-C", "out"], 0);
            assert_eq!(describe(&at.join("out"), EXACT), describe(&at.join("tree"), EXACT), "{archive}");
            assert!(!has_holes || fs::metadata(at.join("out/all")).unwrap().blocks() == 0, "{archive}");
            fs::remove_dir_all(at.join("out")).unwrap();
        }
    }
    assert!(!has_holes || fs::metadata(at.join("first.tar")).unwrap().len() < 1 << 20);
    // From tar to tar.
    expect(at, &["convert", "first.tar", "again.tar"], 0);
    assert_eq!(fs::read(at.join("first.tar")).unwrap(), fs::read(at.join("again.tar")).unwrap());
    let python = "import tarfile, sys\nwith tarfile.open('first.tar') as t: t.extractall('out', filter='tar')";
    for (program, arguments) in [
        ("tar", vec!["-xf", "first.tar", "-C", "out"]),
        ("bsdtar", vec!["-xf", "first.tar", "-C", "out"]),
        ("python3", vec!["-W", "error", "-c", python]),
    ] {
        fs::create_dir(at.join("out")).unwrap();
        if let Some(output) = other(at, program, &arguments) {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && stderr.is_empty(), "{program}: {stderr}");
            assert_eq!(describe(&at.join("out"), WHOLE_SECONDS), describe(&at.join("tree"), WHOLE_SECONDS), "{program}");
        }
        fs::remove_dir_all(at.join("out")).unwrap();
    }
}

#[test]
fn repeated_link_targets_count_as_content() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let mut tar = tar::Builder::new(Vec::new());
    let mut append = |name: &str, kind: tar::EntryType, target: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o777);
        tar.append_link(&mut header, name, target).unwrap();
    };
    append("link", tar::EntryType::Symlink, &"t/".repeat(1_500));
    for number in 0..10 {
        append(&format!("name{number}"), tar::EntryType::Link, "link");
    }
    fs::write(at.join("links.tar"), tar.into_inner().unwrap()).unwrap();
    expect(at, &["convert", "links.tar", "out.nra", "--limit-size", "20K"], 1);
    expect(at, &["convert", "links.tar", "out.nra", "--limit-size", "40K"], 0);
    assert_eq!(count_entries(at, "out.nra"), 11);
}

#[test]
fn tar_to_tar_keeps_order() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let names = ["p/", "p/b/", "p/b/empty", "p/a/", "p/a/3", "p/a/1", "p/a/none/", "q"];
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_ustar();
        let is_directory = name.ends_with('/');
        header.set_entry_type(if is_directory { tar::EntryType::Directory } else { tar::EntryType::Regular });
        header.set_mode(0o755);
        let content: &[u8] = if is_directory || name.ends_with("empty") { b"" } else { b"content" };
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content).unwrap();
    }
    fs::write(at.join("first.tar"), builder.into_inner().unwrap()).unwrap();
    expect(at, &["convert", "first.tar", "second.tar"], 0);
    let bytes = fs::read(at.join("second.tar")).unwrap();
    let mut archive = tar::Archive::new(&bytes[..]);
    let found: Vec<_> = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
    assert_eq!(found, names.map(PathBuf::from));
}

/// Returns a tar archive of files with their content, links with their target, and directories.
fn records(records: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for &(name, kind, what) in records {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        if kind.is_file() {
            header.set_size(what.len() as u64);
            builder.append_data(&mut header, name, what.as_bytes()).unwrap();
        } else if kind.is_dir() {
            builder.append_data(&mut header, name, &[][..]).unwrap();
        } else {
            builder.append_link(&mut header, name, what).unwrap();
        }
    }
    builder.into_inner().unwrap()
}

#[test]
fn last_entry_of_a_path_replaces_a_pending_link() {
    use tar::EntryType::{Directory, Link, Regular, Symlink};
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let (link, target) = (("l", Link, "t"), ("t", Regular, "of t"));
    for (case, list) in [
        vec![link, target, ("l", Regular, "own")],
        vec![link, ("l", Regular, "own"), target],
        vec![link, ("l", Directory, ""), target],
        vec![link, ("l", Symlink, "u"), target],
        vec![link, ("l", Link, "u"), ("u", Regular, "of u"), target],
        vec![("m", Link, "l"), link, ("l", Regular, "own"), target],
    ]
    .into_iter()
    .enumerate()
    {
        let (tar, archive) = (format!("{case}.tar"), format!("{case}.nra"));
        fs::write(at.join(&tar), records(&list)).unwrap();
        let stderr = expect(at, &["convert", &tar, &archive], 0);
        assert!(stderr.contains("l: replaced"), "{case}: {stderr}");
        let last = list.iter().rfind(|(name, ..)| *name == "l").unwrap();
        for from in [&tar, &archive] {
            let found = nra(at, &["cat", from, "l"]).stdout;
            let expected = match last.1 {
                Regular => "own",
                Link => "of u",
                _ => "",
            };
            assert_eq!(String::from_utf8_lossy(&found), expected, "{case} {from}");
            expect(at, &["extract", from, "-C", &format!("{from}.d")], 0);
        }
        assert_eq!(describe(&at.join(format!("{tar}.d")), EXACT), describe(&at.join(format!("{archive}.d")), EXACT), "{case}");
    }
}
