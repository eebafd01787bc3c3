//! What a target cannot hold is reported.

use std::fs;
use std::path::Path;

use nra::format::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use tempfile::TempDir;

use crate::common::{expect, nra, other};

/// Returns the losses of a target, by its column in the table of `docs/convert.md`. Losses that are reported once for all
/// entries are not included.
fn lost(column: usize) -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/convert.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    cells
        .filter(|cells| {
            cells.len() == 6
                && (cells[column] == "lost" || cells[column] == "zero bytes")
                && !["fractions of a second", "names of owners", "modes, owners, times"].contains(&cells[0])
                && !cells[0].starts_with("`shard:")
        })
        .map(|cells| cells[0].to_owned())
        .collect()
}

#[test]
fn documented_losses_are_reported() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let tag = Attribute { namespace: Namespace::User, name: b"tag"[..].into(), value: b"1"[..].into() };
    let write = |name: &str, options: WriterOptions, entry: Entry| {
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        writer.add(entry, NewContent::None).unwrap();
        let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
        fs::write(at.join(name), bytes).unwrap();
    };
    let file = || Entry::new(EntryPath::try_from("file").unwrap(), Kind::File);
    let mut tagged = file();
    tagged.metadata = Metadata { mode: 0o644, attributes: vec![tag.clone()].into(), ..Metadata::default() }.into();
    write("tags and properties of entries", WriterOptions::default(), tagged);
    write("attributes of the archive", WriterOptions { attributes: vec![tag], ..WriterOptions::default() }, file());
    let mut device = Entry::new(EntryPath::try_from("device").unwrap(), Kind::BlockDevice);
    device.device = Some(Device { major: 1 << 22, minor: 0 });
    write("device numbers above 2,097,151", WriterOptions::default(), device);
    write("earlier commits", WriterOptions::default(), file());
    fs::write(at.join("more"), "more").unwrap();
    expect(at, &["add", "earlier commits", "more"], 0);
    for (name, namespace) in
        [("access control lists written as text", Namespace::Foreign), ("extended attributes", Namespace::Xattr)]
    {
        let mut marked = file();
        let attribute = Attribute { namespace, name: b"SCHILY.acl.access"[..].into(), value: b"user::rw-"[..].into() };
        marked.metadata = Metadata { mode: 0o644, attributes: vec![attribute].into(), ..Metadata::default() }.into();
        write(name, WriterOptions::default(), marked);
    }
    write("devices and pipes", WriterOptions::default(), Entry::new(EntryPath::try_from("pipe").unwrap(), Kind::Fifo));
    let mut link = Entry::new(EntryPath::try_from("link").unwrap(), Kind::Symlink);
    link.target = b"file".as_slice().into();
    write("symlinks and empty directories", WriterOptions::default(), link);
    fs::File::create(at.join("file")).unwrap().set_len(3 << 20).unwrap();
    let whole_seconds = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(at.join("file")).unwrap().set_modified(whole_seconds).unwrap();
    expect(at, &["pack", "file", "-o", "holes"], 0);
    let message = |row: &str, kind: &str| match row {
        "tags and properties of entries" | "access control lists written as text" | "extended attributes" => {
            format!("file: an attribute can't be kept in {kind}")
        }
        "attributes of the archive" => format!("attributes of the archive can't be kept in {kind}"),
        "earlier commits" => "earlier commits are not kept".to_owned(),
        "device numbers above 2,097,151" => format!("device: the device numbers are too large to be kept in {kind}"),
        "devices and pipes" if kind == "a Shard file" => "pipe: skipped: a Shard file can contain only files".to_owned(),
        "devices and pipes" => format!("pipe: skipped: {kind} cannot contain devices and pipes"),
        "symlinks and empty directories" => format!("link: skipped: {kind} can contain only files"),
        "holes" => format!("file: its holes are filled with zero bytes in {kind}"),
        row => panic!("no message is known for {row}"),
    };
    let [tar, zip, native, earlier, shard] = [1, 2, 3, 4, 5].map(lost);
    assert_eq!((tar.len(), zip.len()), (4, 7), "{tar:?} {zip:?}");
    // Times of access and change are not reported.
    let silent = "time of access, time of change";
    assert_eq!(native, ["earlier commits", silent]);
    assert_eq!(earlier, ["attributes of the archive", "earlier commits", "holes", silent]);
    assert_eq!(shard.len(), 9, "{shard:?}");
    for (rows, out, kind) in [
        (&tar, "out.tar", "a tar archive"),
        (&zip, "out.zip", "a zip archive"),
        (&native, "out.nra", ""),
        (&earlier, "out.nra4", "an NRA 4.5 archive"),
        (&shard, "out.shard", "a Shard file"),
    ] {
        for row in rows.iter().filter(|row| *row != silent) {
            let stderr = expect(at, &["convert", row, out, "-f"], 3);
            assert!(stderr.contains(&message(row, kind)), "{row} to {out}: {stderr}");
            // Nothing else is lost, except for what is reported once for all entries.
            let once = |line: &&str| line.contains("names of owners") || line.contains("modes, times and owners");
            let warnings = stderr.lines().filter(|line| line.contains("warning:") && !once(line)).count();
            assert_eq!(warnings, 1, "{row} to {out}: {stderr}");
        }
    }
    // NRA keeps what the other formats lose.
    for row in tar.iter().chain(&zip).chain(&shard).filter(|row| !native.contains(row)) {
        expect(at, &["convert", row, "out.nra", "-f"], 0);
    }
    write("nothing special", WriterOptions::default(), file());
    expect(at, &["convert", "nothing special", "out.tar", "-f"], 0);
    expect(at, &["convert", "nothing special", "out.zip", "-f"], 0);
    expect(at, &["convert", "nothing special", "out.nra4", "-f"], 0);
    expect(at, &["convert", "nothing special", "out.shard", "-f"], 0);
}

#[test]
fn comments_and_messages_are_converted() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "a").unwrap();
    expect(at, &["pack", "tree", "-o", "first.nra", "-m", "först"], 0);
    let message = |archive: &str| {
        let output = nra(at, &["info", archive, "--json"]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        info["message"].as_str().unwrap().to_owned()
    };
    for kind in ["tar", "tar.gz", "zip"] {
        let (kept, given) = (format!("kept.{kind}"), format!("given.{kind}"));
        expect(at, &["convert", "first.nra", &kept], 0);
        expect(at, &["convert", "first.nra", &given, "-m", "another"], 0);
        assert_eq!((message(&kept).as_str(), message(&given).as_str()), ("först", "another"), "{kind}");
        expect(at, &["convert", &given, "back.nra", "-f"], 0);
        assert_eq!(message("back.nra"), "another", "{kind}");
        expect(at, &["convert", &given, "back.nra", "-f", "-m", "mine"], 0);
        assert_eq!(message("back.nra"), "mine", "{kind}");
    }
    // Other programs accept the comment.
    for (program, arguments) in [
        ("tar", &["-tf", "kept.tar"][..]),
        ("bsdtar", &["-tf", "kept.tar.gz"]),
        ("unzip", &["-tqq", "kept.zip"]),
        ("7zz", &["t", "-bso0", "kept.zip"]),
        ("python3", &["-W", "error", "-c", "import tarfile\nwith tarfile.open('kept.tar') as t: assert t.getnames() == ['a']"]),
        ("python3", &["-c", "import zipfile\nwith zipfile.ZipFile('kept.zip') as z: assert z.comment.decode() == 'först'"]),
    ] {
        let Some(output) = other(at, program, arguments) else { continue };
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{program} {arguments:?}: {stderr}");
    }
    expect(at, &["convert", "first.nra", "out.shard", "-m", "x"], 0);
    assert_eq!(message("out.shard"), "x");
}
