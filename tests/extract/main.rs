//! Extraction by the library and by `nra extract`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;
#[path = "../common/mod.rs"]
mod common;
mod conflicts;
mod failures;
mod fake;
mod fidelity;
mod hostile;
mod targets;

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nra::convert::select::Selection;
use nra::convert::{DirectorySink, DirectoryStats, DirectoryTarget, Options, Sink, Source, convert};
use nra::format::Result;
use nra::format::archive::Archive;
use nra::format::progress::{Monitor, Recorder, Warning};

use fake::Fake;

/// An extraction to a directory.
struct Extraction<'a> {
    sink: DirectorySink<'a>,
    options: Options,
    dry_run: bool,
}

impl Extraction<'_> {
    fn to(target: impl Into<PathBuf>) -> Self {
        Self::to_target(DirectoryTarget::Exactly(target.into()))
    }

    fn to_target(target: DirectoryTarget) -> Self {
        Self { sink: DirectorySink::new(target), options: Options::default(), dry_run: false }
    }

    fn run(&self, archive: &dyn Archive, selection: &Selection, monitor: &dyn Monitor) -> Result<DirectoryStats> {
        let sink = Sink::Directory(self.sink.clone());
        let sink = if self.dry_run { sink.dry_run() } else { sink };
        convert(Source::Archive(archive, selection), sink, &self.options, monitor).map(|stats| stats.directory)
    }
}

/// A directory for one test: `out` is the target, `outside` must not change.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/keep.txt"), "precious").unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        Self { dir }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.out().join(path)
    }

    fn extraction(&self) -> Extraction<'static> {
        let mut extraction = Extraction::to(self.out());
        extraction.sink.umask = Some(0o022);
        extraction
    }

    /// Extracts everything.
    fn extract(&self, archive: &Fake) -> (Result<DirectoryStats>, Vec<Warning>) {
        self.extract_with(archive, |_| {})
    }

    fn extract_with<'a>(
        &self,
        archive: &Fake,
        change: impl FnOnce(&mut Extraction<'a>),
    ) -> (Result<DirectoryStats>, Vec<Warning>) {
        let mut extraction: Extraction<'a> = self.extraction();
        change(&mut extraction);
        let recorder = Recorder::default();
        (extraction.run(archive, &Selection::all(), &recorder), recorder.take_warnings())
    }

    /// Fails if anything outside the target has changed.
    fn check_outside(&self) {
        let outside = tree(&self.dir.path().join("outside"));
        assert_eq!(outside, BTreeMap::from([("keep.txt".to_owned(), "file 644 precious".to_owned())]));
        let names: Vec<_> = std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    fn tree(&self) -> BTreeMap<String, String> {
        tree(&self.out())
    }
}

/// Describes everything below a directory.
fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![top.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let kind = metadata.file_type();
            let text = if kind.is_symlink() {
                format!("symlink {}", std::fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                todo.push(path.clone());
                format!("dir {mode:o}")
            } else if kind.is_file() {
                format!("file {mode:o} {}", String::from_utf8_lossy(&std::fs::read(&path).unwrap()))
            } else if kind.is_fifo() {
                format!("fifo {mode:o}")
            } else {
                format!("device {mode:o} {}", metadata.rdev())
            };
            found.insert(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned(), text);
        }
    }
    found
}

/// Returns an expected tree.
fn expect<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(path, what)| (path.to_owned(), what.to_owned())).collect()
}

fn messages(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(Warning::to_string).collect()
}
