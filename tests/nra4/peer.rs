//! The Python package of earlier versions reads what nra writes. Skipped if it is not installed.

use std::collections::BTreeMap;
use std::process::Command;

use nra::convert::select::Selection;
use nra::convert::{Destination, NewArchive, Nra4Sink, Options, Sink, Source, convert};
use nra::format::archive::{OpenOptions, open_path};
use nra::format::nra4::writer::Codec;
use nra::format::progress::{Recorder, Severity};

use super::{common, files, folder};

/// Archives of every kind, all small: the package returns lists of numbers, not bytes.
const ARCHIVES: [&str; 5] =
    ["beta-zstd.nra", "beta-from-targz.nra", "beta-dict.nra", "beta-only-empty.nra", "v1-nested-vectors.nra"];

const READ_ALL: &str = "
import hashlib, nra, sys
for path in sys.argv[1:]:
    archive = nra.BetaArchive(path)
    for name in archive.file_ids():
        content = bytes(archive.read_file(name))
        print(path, len(content), hashlib.sha256(content).hexdigest(), name)
";

#[test]
fn earlier_package_reads_written_archives() {
    let Some(python) = common::python_with("nra", "import nra; nra.BetaArchive") else { return };
    let directory = tempfile::tempdir().unwrap();
    let key: [u8; 32] = std::array::from_fn(|index| u8::try_from(index * 7).unwrap());
    let mut expected = BTreeMap::new();
    for (number, codec, key) in [(0, Codec::Zstd(3), None), (1, Codec::Lz4, None), (2, Codec::Zstd(1), Some(key))] {
        for name in ARCHIVES {
            let archive = open_path(&folder().join(name), &OpenOptions::default()).unwrap();
            let path = directory.path().join(format!("{number}-{name}"));
            let nra4 = Nra4Sink { codec, key: key.map(zeroize::Zeroizing::new), ..Nra4Sink::default() };
            let monitor = Recorder::default();
            let sink = Sink::Archive(Destination::new_file(&path), NewArchive::Nra4(nra4));
            convert(Source::Archive(&*archive, &Selection::all()), sink, &Options::default(), &monitor).unwrap();
            assert!(monitor.take_warnings().iter().all(|warning| warning.severity == Severity::Remark));
            expected.insert(path.into_os_string().into_string().unwrap(), files(&*archive));
        }
    }
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new(&python);
    command.arg("-c").arg(READ_ALL).args(expected.keys()).env("PYTHONIOENCODING", "utf-8").env("NRA_ENCRYPTION_KEY", text);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut read: BTreeMap<String, BTreeMap<String, (u64, String)>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let content = (words[1].parse().unwrap(), words[2].to_owned());
        read.entry(words[0].to_owned()).or_default().insert(words[3].to_owned(), content);
    }
    assert_eq!(read, expected);
}
