//! Damage, full disks, interruptions.

use std::sync::atomic::Ordering;

use nra::convert::select::Selection;
use nra::format::Error;
use nra::format::progress::{Counter, Monitor, Recorder, Severity, Warning};

use crate::common::child;
use crate::fake::{Fake, Run};
use crate::{Extraction, Place, expect, messages, tree};

#[test]
fn damage_affects_only_its_entries() {
    let place = Place::new();
    let mut archive = Fake::new()
        .file("a", b"fine")
        .runs("b", vec![Run::Data(vec![1; 5000]), Run::Damage], |_| {})
        .runs("c", vec![Run::Damage], |entry| entry.size = 9)
        .file("d", b"fine");
    archive.damaged_pages = vec![2];
    let (result, warnings) = place.extract(&archive);
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.skipped, stats.damaged), (2, 2, 3));
    assert!(warnings.iter().all(|warning| warning.severity == Severity::Damage));
    let mut texts = messages(&warnings);
    texts.sort();
    assert_eq!(
        texts,
        [
            "b: block payload at offset 264 is damaged: made up",
            "c: block payload at offset 264 is damaged: made up",
            "entries are lost: entry page at offset 2 is damaged: made up",
        ]
    );
    assert_eq!(place.tree(), expect([("a", "file 644 fine"), ("d", "file 644 fine")]));
}

#[test]
fn full_disk_leaves_no_partial_file() {
    child::run_on_small_disk("failures::full_disk_leaves_no_partial_file", |directory| {
        for threads in [1, 3] {
            let archive = Fake::new().file("d/a", b"fine").file("d/big", &vec![1; 90 << 20]).dir("e").file("e/z", b"fine");
            let mut extraction = Extraction::to(format!("out{threads}"));
            extraction.options.threads = threads;
            let error = extraction.run(&archive, &Selection::all(), &Recorder::default()).unwrap_err();
            // With several threads, the small file may be the first to fail.
            let full = ["d/big", "e/z"].into_iter().take(threads);
            let mut errors = full.map(|name| format!("cannot write out{threads}/{name}"));
            assert!(errors.any(|expected| error.to_string() == expected), "{error}");
            let found = tree(&directory.join(format!("out{threads}")));
            assert!(!found.contains_key("d/big"), "{:?}", found.keys());
            assert!(found.get("e/z").is_none_or(|file| file == "file 644 fine"), "{found:?}");
            assert_eq!((&*found["d"], &*found["e"], &*found["d/a"]), ("dir 755", "dir 755", "file 644 fine"));
        }
    });
}

#[test]
fn file_too_large_for_the_system_is_skipped() {
    child::run("failures::file_too_large_for_the_system_is_skipped", true, |directory| {
        // Otherwise the signal would end the process.
        let flag = std::sync::Arc::default();
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag).unwrap();
        let limit = rustix::process::Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        let archive = Fake::new()
            .file("a", b"fine")
            .file("big", &vec![1; 3 << 20])
            .file("bigger", &vec![1; 99 << 20])
            .runs("huge", vec![Run::Hole(1 << 62)], |_| {})
            .file("z", b"fine");
        let mut extraction = Extraction::to("out");
        extraction.options.threads = 3;
        let recorder = Recorder::default();
        let stats = extraction.run(&archive, &Selection::all(), &recorder).unwrap();
        assert_eq!((stats.files, stats.skipped), (2, 3));
        let mut texts = messages(&recorder.take_warnings());
        texts.retain(|text| text.contains("too large"));
        texts.sort();
        assert_eq!(
            texts,
            [
                "big: cannot write: file too large",
                "bigger: cannot write: file too large",
                "huge: cannot set length of file: file too large",
            ]
        );
        assert_eq!(tree(&directory.join("out")), expect([("a", "file 644 fine"), ("z", "file 644 fine")]));
    });
}

#[test]
fn large_files_are_complete_or_missing() {
    const MIB: usize = 1 << 20;
    let bytes: Vec<u8> = (0..77 * MIB + 13).map(|number| u8::try_from(number * 7 / 1000 % 251).unwrap()).collect();
    let late = vec![Run::Data(bytes[..60 * MIB].to_vec()), Run::Damage, Run::Data(bytes[60 * MIB..].to_vec())];
    let holes = vec![Run::Data(bytes[..5].to_vec()), Run::Hole(100 << 20), Run::Data(bytes.clone()), Run::Hole(50 << 20)];
    for threads in [1, 3] {
        let place = Place::new();
        let archive =
            Fake::new().file("a", &bytes).runs("b", late.clone(), |_| {}).runs("c", holes.clone(), |_| {}).file("d", b"fine");
        let (result, warnings) = place.extract_with(&archive, |extraction| extraction.options.threads = threads);
        let stats = result.unwrap();
        assert_eq!((stats.files, stats.damaged, warnings.len()), (3, 1, 1));
        assert!(std::fs::read(place.at("a")).unwrap() == bytes);
        assert!(!place.at("b").exists());
        let sparse = std::fs::read(place.at("c")).unwrap();
        assert_eq!(sparse.len(), 5 + 150 * MIB + bytes.len());
        assert!(sparse[..5] == bytes[..5] && sparse[5..100 * MIB + 5].iter().all(|byte| *byte == 0));
        assert!(sparse[100 * MIB + 5..][..bytes.len()] == bytes);
    }
}

/// Stops after some bytes.
struct StopAfter(Recorder, u64);

impl Monitor for StopAfter {
    fn add(&self, counter: Counter, amount: u64) {
        self.0.add(counter, amount);
    }
    fn warn(&self, warning: Warning) {
        self.0.warn(warning);
    }
    fn cancelled(&self) -> bool {
        self.0.count(Counter::Bytes) >= self.1
    }
}

#[test]
fn interruption_leaves_complete_files_only() {
    let place = Place::new();
    let mut archive = Fake::new();
    for number in 0..20 {
        archive = archive.file(&format!("f{number:02}"), &vec![1; 3 << 20]);
    }
    archive = archive.file("large", &vec![1; 70 << 20]);
    let monitor = StopAfter(Recorder::default(), 20 << 20);
    let result = place.extraction().run(&archive, &Selection::all(), &monitor);
    assert!(matches!(result.unwrap_err(), Error::Cancelled));
    let made: Vec<_> = std::fs::read_dir(place.out()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert!(!made.is_empty() && made.len() < 21 && made.iter().all(|len| *len == 3 << 20), "{made:?}");
}

#[test]
fn size_limit_is_checked_before_writing() {
    let place = Place::new();
    let archive = Fake::new().file("a", b"12345").file("b", b"67890");
    let (result, _) = place.extract_with(&archive, |extraction| extraction.options.limits.bytes = 9);
    assert_eq!(result.unwrap_err().to_string(), "length of the content is 10, more than the limit of 9");
    assert!(place.tree().is_empty());
    assert!(place.extract_with(&archive, |extraction| extraction.options.limits.bytes = 10).0.is_ok());
    assert_eq!(archive.reads.load(Ordering::Relaxed), 2);
}

#[test]
fn unwritable_target_is_one_error() {
    child::run("failures::unwritable_target_is_one_error", true, |directory| {
        std::fs::create_dir(directory.join("out")).unwrap();
        std::fs::set_permissions(directory.join("out"), std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
        let archive = Fake::new().file("a", b"x").dir("b").file("b/c", b"x");
        let recorder = Recorder::default();
        let extraction = Extraction::to("out");
        let error = extraction.run(&archive, &Selection::all(), &recorder).unwrap_err();
        assert_eq!(error.to_string(), "cannot write to out");
        assert!(recorder.take_warnings().is_empty());
    });
}

#[test]
fn insufficient_space_is_reported_before_writing() {
    let place = Place::new();
    let archive = Fake::new().runs("huge", vec![Run::Hole(1 << 50)], |_| {});
    let (_, warnings) = place.extract(&archive);
    let texts = messages(&warnings);
    assert!(texts[0].contains("the content takes up to 1073741824.0 MiB, but only "), "{texts:?}");
    assert!(warnings[0].severity == Severity::Remark);
}
