//! Writers that are killed while they change an archive: it is whole afterwards, with everything that was said to be done.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nra::format::archive::{Archive, Depth, OpenOptions, open_path};
use nra::format::codec::looks_incompressible;
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::FileStore;

/// Names the archive for a process that is to be killed.
const ARCHIVE: &str = "NRA_TEST_KILL_ARCHIVE";

fn path(number: u64) -> EntryPath {
    EntryPath::try_from(&*format!("d{}/{number}", number % 7)).expect("valid")
}

fn content(number: u64) -> Vec<u8> {
    let line = format!("{number} is the number of this file\n").into_bytes();
    line.repeat(usize::try_from(number % 50).expect("small") * 40 + 1)
}

/// Makes the next commit: one file more, and from some number on an old one less. Returns its number.
fn commit(archive: &Path) -> u64 {
    let store = FileStore::open(archive).expect("not locked");
    let mut writer = Writer::append(Arc::new(store), WriterOptions { threads: 1, ..WriterOptions::balanced() }).expect("whole");
    let number = writer.base().expect("appending").info().commit.expect("it has commits") + 1;
    let bytes = content(number);
    let (digest, incompressible) = (Digest::of(&bytes), looks_incompressible(&bytes));
    let whole = NewContent::Whole { bytes: &bytes, digest, incompressible };
    writer.add(Entry::new(path(number), Kind::File), whole).expect("added");
    if number > 6 {
        writer.remove(&path(number - 5)).expect("it is there");
    }
    let (_, stats) = writer.finish(&Recorder::default()).expect("written");
    assert_eq!(stats.commit, number);
    number
}

/// Commits without end, and says so after each; does nothing unless it is started by the other test.
#[test]
fn a_process_to_be_killed() {
    let Some(archive) = std::env::var_os(ARCHIVE) else { return };
    loop {
        let number = commit(Path::new(&archive));
        // What the parent waits for; the test harness would keep what is printed.
        use std::io::Write;
        writeln!(std::io::stderr(), "commit {number}").expect("the parent listens");
    }
}

#[test]
fn a_killed_writer_leaves_a_whole_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("a.nra");
    let writer = Writer::create(Vec::new(), WriterOptions::balanced()).expect("created");
    std::fs::write(&archive, writer.finish(&Recorder::default()).expect("written").0).expect("written");
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", "a_process_to_be_killed", "--nocapture"])
            .env(ARCHIVE, &archive)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let said = lines.map(|line| line.expect("text")).filter(|line| line.starts_with("commit ")).nth(round % 4);
        // It is somewhere in the next commit.
        child.kill().expect("killed");
        child.wait().expect("gone");
        let said: u64 = said.expect("it commits")["commit ".len()..].parse().expect("a number");

        let reader = open_path(&archive, &OpenOptions::default()).expect("whole");
        let last = reader.info().commit.expect("it has commits");
        assert!(last >= said, "commit {said} is lost");
        let number = commit(&archive);
        assert_eq!(number, last + 1);
        let reader = open_path(&archive, &OpenOptions::default()).expect("whole");
        assert_eq!(reader.verify(Depth::Full, None, &Recorder::default()).expect("checked").damage, []);
        assert!(reader.remarks().is_empty());
        for kept in (2..=number).filter(|kept| *kept == number || number < kept + 5 || number <= 6) {
            let (_, entry) = reader.find(path(kept).as_bytes()).expect("read").expect("it is there");
            assert_eq!(reader.read_all(&entry, u64::MAX).expect("read"), content(kept));
        }
        assert_eq!(reader.info().files, (number - 1).min(5));
    }
}
