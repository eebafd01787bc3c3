//! Killed writers: the archive stays intact and contains every commit that was reported.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nra::convert::compact::{Target, compact};
use nra::convert::repair::{MEMORY_BYTES, protect};
use nra::format::archive::{Archive, Depth, OpenOptions, open_path};
use nra::format::codec::looks_incompressible;
use nra::format::crypt::{Argon2Cost, Keyring, Secret};
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind};
use nra::format::nra::reader::NraReader;
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::{FileSource, FileStore};

/// Names the archive to the process that is killed.
const ARCHIVE: &str = "NRA_TEST_KILL_ARCHIVE";
/// Held by each test. A process that another test starts would inherit its files, and their locks, until it runs.
static SERIAL: Mutex<()> = Mutex::new(());
/// The operation of the child process; endless commits if not set.
const WORK: &str = "NRA_TEST_KILL_WORK";

fn path(number: u64) -> EntryPath {
    EntryPath::try_from(&*format!("d{}/{number}", number % 7)).expect("valid")
}

fn content(number: u64) -> Vec<u8> {
    let line = format!("{number} is the number of this file\n").into_bytes();
    line.repeat(usize::try_from(number % 50).expect("small") * 40 + 1)
}

/// Writes the next commit, which adds a file and, from some number on, removes an old one. Returns its number.
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

/// Repeats the operation that another test asks for, and reports each time. Does nothing if no test has started it.
#[test]
fn child_process_to_kill() {
    let Some(archive) = std::env::var_os(ARCHIVE).map(PathBuf::from) else { return };
    // Standard error, because the test harness captures printed output.
    let report = |what: &str, number: u64| writeln!(std::io::stderr(), "{what} {number}").expect("the parent listens");
    let work = std::env::var(WORK).unwrap_or_default();
    match work.as_str() {
        "" => loop {
            report("commit", commit(&archive));
        },
        "all" => loop {
            for change in CHANGES {
                do_once(&archive, change);
                report("commit", 0);
            }
        },
        once => do_once(&archive, once),
    }
}

/// Starts a process that does `work`. The system kills it when a file becomes longer than `blocks` × 512 bytes.
fn start(archive: &Path, work: &str, blocks: Option<u64>) -> Child {
    let program = std::env::current_exe().expect("known");
    let mut command = match blocks {
        None => Command::new(program),
        Some(blocks) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -c 0; ulimit -f $0; exec \"$@\"", &blocks.to_string()]).arg(program);
            shell
        }
    };
    command.args(["--exact", "child_process_to_kill", "--nocapture"]).env(ARCHIVE, archive);
    command.env(WORK, work).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
}

/// Kills a process after `times` more reports. Returns the last one.
fn kill_after(mut child: Child, times: usize) -> String {
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let reported = lines.map(|line| line.expect("text")).filter(|line| line.starts_with("commit ")).nth(times);
    child.kill().expect("killed");
    child.wait().expect("gone");
    reported.expect("the process continues")
}

#[test]
fn killed_writer_leaves_readable_archive() {
    let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("a.nra");
    let writer = Writer::create(Vec::new(), WriterOptions::balanced()).expect("created");
    std::fs::write(&archive, writer.finish(&Recorder::default()).expect("written").0).expect("written");
    for round in 0..12 {
        // The process is in the middle of the next commit.
        let reported = kill_after(start(&archive, "", None), round % 4);
        let reported: u64 = reported["commit ".len()..].parse().expect("a number");

        let reader = open_path(&archive, &OpenOptions::default()).expect("whole");
        let last = reader.info().commit.expect("it has commits");
        assert!(last >= reported, "commit {reported} is lost");
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

/// Changes of an encrypted archive that keep its files, used in turn.
const CHANGES: [&str; 5] = ["add a key", "change a key", "protect", "remove a key", "compact"];

fn key() -> Secret {
    Secret::user_key([4; 32])
}

fn open_sealed(archive: &Path) -> NraReader {
    let options = OpenOptions { key: Some(key()), ..OpenOptions::default() };
    NraReader::open(Arc::new(FileSource::open(archive).expect("it is there")), &options).expect("whole")
}

fn options(archive: &Path) -> WriterOptions {
    WriterOptions { threads: 1, encryption: open_sealed(archive).keyring().cloned(), ..WriterOptions::balanced() }
}

const CHEAP: Argon2Cost = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };

/// Makes a change. The first key is always kept.
fn do_once(archive: &Path, change: &str) {
    if change == "compact" {
        compact(archive, 2, None, &Target::InPlace, &options(archive), &Recorder::default()).expect("whole");
        return;
    }
    if change == "protect" {
        protect(archive, 20, MEMORY_BYTES, &Recorder::default()).expect("whole");
        return;
    }
    let mut writer = Writer::append(Arc::new(FileStore::open(archive).expect("not locked")), options(archive)).expect("whole");
    let secret = Secret::password(change);
    let changed = writer.change_keys(|keys| match (change, keys.list().len()) {
        ("add a key", ..5) | (_, 1) => keys.add(&secret, CHEAP, "more"),
        ("remove a key", len) => keys.remove(len - 1),
        (_, len) => keys.replace(len - 1, &secret, CHEAP),
    });
    changed.expect("it can be made");
    writer.finish(&Recorder::default()).expect("written");
}

/// Creates an archive of several commits with two keys.
fn sealed(archive: &Path) {
    let mut keyring = Keyring::create(&key(), CHEAP, "first").expect("made");
    keyring.add(&Secret::password("second"), CHEAP, "second").expect("made");
    let first = WriterOptions { encryption: Some(keyring), ..WriterOptions::balanced() };
    let writer = Writer::create(Vec::new(), first).expect("created");
    std::fs::write(archive, writer.finish(&Recorder::default()).expect("written").0).expect("written");
    for number in 10..14 {
        let store = FileStore::open(archive).expect("not locked");
        let mut writer = Writer::append(Arc::new(store), options(archive)).expect("whole");
        let bytes = content(number);
        let (digest, incompressible) = (Digest::of(&bytes), looks_incompressible(&bytes));
        let whole = NewContent::Whole { bytes: &bytes, digest, incompressible };
        writer.add(Entry::new(path(number), Kind::File), whole).expect("added");
        writer.finish(&Recorder::default()).expect("written");
    }
}

/// The state of an archive.
#[derive(Debug, PartialEq)]
struct State {
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Labels of the keys.
    keys: Vec<String>,
    commits: usize,
    /// Percentage of the recovery data.
    percent: Option<u32>,
    /// Whether the second key still has its first password.
    has_first_password: bool,
}

fn state(archive: &Path) -> State {
    let reader = open_sealed(archive);
    let entries = reader.entries(0..reader.entry_count()).map(|entry| entry.expect("read"));
    let files = entries.map(|entry| (entry.path.as_bytes().to_vec(), reader.read_all(&entry, u64::MAX).expect("read"))).collect();
    let options = OpenOptions { key: Some(Secret::password("second")), ..OpenOptions::default() };
    State {
        files,
        keys: reader.info().keys.iter().map(|key| key.label.clone()).collect(),
        commits: reader.commits().count(),
        percent: reader.info().recovery.as_ref().map(|recovery| recovery.percent),
        has_first_password: open_path(archive, &options).is_ok(),
    }
}

fn check_whole(archive: &Path) {
    let reader = open_sealed(archive);
    assert_eq!(reader.verify(Depth::Full, None, &Recorder::default()).expect("checked").damage, []);
    assert!(reader.remarks().is_empty());
}

#[test]
fn killed_compaction_or_key_change_leaves_readable_archive() {
    let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("a.nra");
    sealed(&archive);
    let files = state(&archive).files;
    for round in 0..12 {
        kill_after(start(&archive, "all", None), round % 7);
        assert_eq!(state(&archive).files, files);
        for change in CHANGES {
            do_once(&archive, change);
        }
        check_whole(&archive);
        assert_eq!(state(&archive).files, files);
    }
    // A leftover file next to it has a recognizable name.
    for left in std::fs::read_dir(folder.path()).expect("read") {
        let name = left.expect("read").file_name();
        assert!(name == "a.nra" || name.to_string_lossy().starts_with(".nra-"), "{name:?}");
    }
}

#[test]
fn writer_killed_in_any_write_leaves_old_or_new_archive() {
    const SIGXFSZ: i32 = 25;
    let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let (first, archive) = (folder.path().join("first.nra"), folder.path().join("a.nra"));
    sealed(&first);
    let old = state(&first);
    for change in CHANGES {
        std::fs::copy(&first, &archive).expect("copied");
        do_once(&archive, change);
        let new = state(&archive);
        assert!(old != new, "{change}");
        let len = std::fs::metadata(&first).expect("it is there").len();
        // A change is appended; a compacted archive is written to a new file.
        let mut blocks = if change == "compact" { 0 } else { len / 512 };
        let mut killed = 0;
        loop {
            std::fs::copy(&first, &archive).expect("copied");
            let output = start(&archive, change, Some(blocks)).wait_with_output().expect("ended");
            let found = state(&archive);
            if output.status.success() {
                assert_eq!(found, new, "{change}");
                break;
            }
            assert_eq!(output.status.signal(), Some(SIGXFSZ), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(found == old || found == new, "{change}, {blocks} blocks: {found:?}");
            do_once(&archive, change);
            check_whole(&archive);
            assert_eq!(state(&archive).files, old.files, "{change}, {blocks} blocks");
            (killed, blocks) = (killed + 1, blocks + 1);
        }
        assert!(killed > 0, "{change}");
    }
}
