//! Packing by the library and by `nra pack`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod determinism;
mod faults;
mod fidelity;
mod inputs;
mod program;
mod property;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nra::convert::{Destination, Input, NewArchive, NraSink, NullSink, Options, Sink, Source, Stats, WalkSource, convert};
use nra::format::Result;
use nra::format::archive::{Archive, Depth, OpenOptions, open_path};
use nra::format::entry::{Entry, Kind};
use nra::format::path::EntryPath;
use nra::format::progress::{Monitor, Recorder, Warning};

/// A directory to work in, with an input `in` and an output `out.nra`.
struct Place {
    directory: PathBuf,
    _guard: Option<tempfile::TempDir>,
}

impl Place {
    fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        fs::create_dir(guard.path().join("in")).unwrap();
        Self { directory: guard.path().to_owned(), _guard: Some(guard) }
    }

    /// Uses a directory that the caller removes.
    fn within(directory: PathBuf) -> Self {
        fs::create_dir(directory.join("in")).unwrap();
        Self { directory, _guard: None }
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory.join(path)
    }

    fn input(&self, path: impl AsRef<Path>) -> PathBuf {
        self.at("in").join(path)
    }

    fn output(&self) -> PathBuf {
        self.at("out.nra")
    }

    /// Writes a file below the input and creates its parent directories.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.input(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Packs the input to the output.
    fn pack(&self, packing: &Packing) -> (Result<Stats>, Vec<Warning>) {
        self.pack_inputs(&[Input::new(self.at("in"))], packing)
    }

    fn pack_inputs(&self, inputs: &[Input], packing: &Packing) -> (Result<Stats>, Vec<Warning>) {
        let monitor = Recorder::default();
        let destination = Destination::File { path: self.output(), overwrite: false };
        let result = pack(inputs, destination, packing, &monitor);
        (result, monitor.take_warnings())
    }

    /// Packs and expects no warning; returns the archive.
    fn packed(&self, packing: &Packing) -> Packed {
        let (result, warnings) = self.pack(packing);
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(result.unwrap().skipped, 0);
        Packed::open(&self.output())
    }

    /// Returns the names of the input and its siblings.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.directory).unwrap().map(|item| item.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// How files are packed.
#[derive(Debug, Clone, Default)]
struct Packing {
    source: WalkSource,
    sink: NraSink,
    options: Options,
}

impl Packing {
    /// Returns options that do not sync.
    fn new() -> Self {
        Self { options: Options { sync: false, threads: 2, ..Options::default() }, ..Self::default() }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut packing = Self::new();
        change(&mut packing);
        packing
    }

    fn source(&self, inputs: &[Input]) -> Source<'static> {
        Source::Walk(WalkSource { inputs: inputs.to_vec(), ..self.source.clone() })
    }
}

fn pack(inputs: &[Input], destination: Destination, packing: &Packing, monitor: &dyn Monitor) -> Result<Stats> {
    let sink = Sink::Archive(destination, NewArchive::Nra(packing.sink.clone()));
    convert(packing.source(inputs), sink, &packing.options, monitor)
}

/// Lists the entries that [`pack`] would store.
fn survey(
    inputs: &[Input],
    output: &Path,
    packing: &Packing,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&EntryPath, Kind) -> Result<()>,
) -> Result<()> {
    let visit = RefCell::new(visit);
    let visit = |path: &EntryPath, kind| (visit.borrow_mut())(path, kind);
    let sink = Sink::Archive(Destination::new_file(output), NewArchive::Nra(packing.sink.clone()));
    let sink = Sink::Null(NullSink { of: Box::new(sink), visit: Some(&visit) });
    convert(packing.source(inputs), sink, &packing.options, monitor).map(drop)
}

/// A verified archive and its entries.
struct Packed {
    archive: Box<dyn Archive>,
    entries: BTreeMap<Vec<u8>, Entry>,
}

impl Packed {
    fn open(path: &Path) -> Self {
        let archive = open_path(path, &OpenOptions::default()).unwrap();
        let verdict = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
        assert!(verdict.damage.is_empty(), "{:?}", verdict.damage);
        let entries = archive
            .entries(0..archive.entry_count())
            .map(|entry| entry.map(|entry| (entry.path.as_bytes().to_vec(), entry)))
            .collect::<Result<_>>()
            .unwrap();
        Self { archive, entries }
    }

    fn paths(&self) -> Vec<String> {
        self.entries.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    fn entry(&self, path: impl AsRef<[u8]>) -> &Entry {
        let path = path.as_ref();
        self.entries.get(path).unwrap_or_else(|| panic!("no entry {}", String::from_utf8_lossy(path)))
    }

    fn content(&self, path: impl AsRef<[u8]>) -> Vec<u8> {
        self.archive.read_all(self.entry(path), u64::MAX).unwrap()
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
