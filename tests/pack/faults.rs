//! Errors while packing.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nra::convert::{Destination, Input};
use nra::format::Error;
use nra::format::progress::{Counter, Monitor, Recorder, Severity, Warning};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::{child, noise};
use crate::{Packed, Packing, Place, is_root, pack, survey};

#[test]
fn unreadable_files_are_skipped_and_reported() {
    child::run("faults::unreadable_files_are_skipped_and_reported", true, |directory| {
        assert!(!is_root());
        let place = Place::within(directory);
        place.write("fine", "x");
        let secret = place.write("secret.txt", "x");
        fs::set_permissions(&secret, Permissions::from_mode(0o000)).unwrap();
        place.write("closed/inside", "x");
        fs::set_permissions(place.input("closed"), Permissions::from_mode(0o000)).unwrap();
        place.write("blind/inside", "x");
        fs::set_permissions(place.input("blind"), Permissions::from_mode(0o600)).unwrap();
        let (result, warnings) = place.pack(&Packing::new());
        for name in ["closed", "blind"] {
            fs::set_permissions(place.input(name), Permissions::from_mode(0o700)).unwrap();
        }
        assert_eq!(result.unwrap().skipped, 3);
        let mut messages: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        messages.sort();
        let prefix = place.at("in").display().to_string();
        assert_eq!(
            messages,
            [
                format!("{prefix}/blind/inside: permission denied"),
                format!("{prefix}/closed: permission denied"),
                format!("{prefix}/secret.txt: permission denied"),
            ]
        );
        assert!(warnings.iter().all(|warning| warning.severity == Severity::Degraded));
        let packed = Packed::open(&place.output());
        assert_eq!(packed.paths(), ["blind", "closed", "fine"]);
        assert_eq!(packed.entry("closed").metadata.mode, 0);
    });
}

/// A monitor that calls a function when the counter of content exceeds a threshold.
struct Interferer<F: Fn() + Send + Sync> {
    recorder: Recorder,
    bytes: AtomicU64,
    done: AtomicBool,
    threshold: u64,
    interfere: F,
}

impl<F: Fn() + Send + Sync> Interferer<F> {
    fn new(threshold: u64, interfere: F) -> Self {
        Self { recorder: Recorder::default(), bytes: AtomicU64::new(0), done: AtomicBool::new(false), threshold, interfere }
    }

    fn pack(&self, place: &Place, packing: &Packing) -> (nra::format::Result<()>, Vec<Warning>) {
        let destination = Destination::File { path: place.output(), overwrite: false };
        let result = pack(&[Input::new(place.at("in"))], destination, packing, self).map(|_| ());
        (result, self.recorder.take_warnings())
    }
}

impl<F: Fn() + Send + Sync> Monitor for Interferer<F> {
    fn add(&self, counter: Counter, amount: u64) {
        if counter == Counter::Bytes
            && self.bytes.fetch_add(amount, Ordering::Relaxed) + amount > self.threshold
            && !self.done.swap(true, Ordering::Relaxed)
        {
            (self.interfere)();
        }
    }
    fn warn(&self, warning: Warning) {
        self.recorder.warn(warning);
    }
    fn cancelled(&self) -> bool {
        self.recorder.cancelled()
    }
}

/// Returns a large file, longer than what is read ahead, with a small one after it in the order of storage.
fn with_large_file() -> (Place, Vec<u8>) {
    let place = Place::new();
    let content = noise(64 << 20, 1);
    place.write("a.log", &content);
    place.write("b.log", "last");
    (place, content)
}

/// Returns options with the smallest buffers.
fn narrow() -> Packing {
    Packing::with(|packing| packing.options.memory_bytes = 1 << 20)
}

#[test]
fn growing_file_is_stored_with_its_initial_length() {
    let (place, content) = with_large_file();
    let log = place.input("a.log");
    let interferer = Interferer::new(1 << 20, || {
        OpenOptions::new().append(true).open(&log).unwrap().write_all(b"one more line").unwrap();
    });
    let (result, warnings) = interferer.pack(&place, &narrow());
    result.unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].severity == Severity::Remark && warnings[0].message.contains("grew"), "{warnings:?}");
    let packed = Packed::open(&place.output());
    assert!(packed.content("a.log") == content);
    assert_eq!(packed.content("b.log"), b"last");
}

#[test]
fn shrinking_file_is_stored_as_far_as_it_was_read() {
    let (place, content) = with_large_file();
    let log = place.input("a.log");
    let interferer = Interferer::new(1 << 20, || {
        OpenOptions::new().write(true).open(&log).unwrap().set_len(100).unwrap();
    });
    let (result, warnings) = interferer.pack(&place, &narrow());
    result.unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].severity == Severity::Degraded && warnings[0].message.contains("shrank"),
        "{warnings:?}"
    );
    let packed = Packed::open(&place.output());
    let stored = packed.content("a.log");
    assert!(stored.len() < content.len() && content.starts_with(&stored));
    assert_eq!(packed.content("b.log"), b"last");
}

#[test]
fn rewritten_file_is_reported() {
    let (place, _) = with_large_file();
    let log = place.input("a.log");
    let interferer = Interferer::new(1 << 20, || {
        let mut file = OpenOptions::new().write(true).open(&log).unwrap();
        file.write_all(b"new").unwrap();
    });
    let (result, warnings) = interferer.pack(&place, &narrow());
    result.unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].severity == Severity::Degraded && warnings[0].message.contains("changed"),
        "{warnings:?}"
    );
}

#[test]
fn vanished_file_is_reported() {
    let (place, _) = with_large_file();
    for number in 0..2000 {
        place.write(&format!("many/{number}"), "x");
    }
    place.write("last.zzz", "x");
    let interferer = Interferer::new(1 << 20, || fs::remove_file(place.input("last.zzz")).unwrap());
    let (result, warnings) = interferer.pack(&place, &narrow());
    result.unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].severity == Severity::Degraded && warnings[0].message.contains("vanished"));
    assert_eq!(Packed::open(&place.output()).paths().len(), 2003);
}

#[test]
fn cancelling_leaves_no_files() {
    let (place, _) = with_large_file();
    let recorder = Recorder::default();
    recorder.cancel();
    let destination = Destination::File { path: place.output(), overwrite: false };
    let result = pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &recorder);
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_eq!(place.names(), ["in"]);

    struct Stopper(AtomicBool);
    impl Monitor for Stopper {
        fn add(&self, counter: Counter, _: u64) {
            self.0.fetch_or(counter == Counter::Bytes, Ordering::Relaxed);
        }
        fn warn(&self, _: Warning) {}
        fn cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    let destination = Destination::File { path: place.output(), overwrite: false };
    let result = pack(&[Input::new(place.at("in"))], destination, &narrow(), &Stopper(AtomicBool::new(false)));
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_eq!(place.names(), ["in"]);
}

/// A destination that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_target_is_an_error() {
    let (place, _) = with_large_file();
    for room in [0, 100, 1 << 20] {
        let destination = Destination::Stream(Box::new(Full(room)));
        let error = pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &Recorder::default()).unwrap_err();
        assert!(matches!(&error, Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull), "{error:?}");
    }
}

#[test]
fn existing_output_is_replaced_only_on_request() {
    let place = Place::new();
    place.write("f", "content");
    fs::write(place.output(), "precious").unwrap();
    fs::set_permissions(place.output(), Permissions::from_mode(0o640)).unwrap();
    let (result, _) = place.pack(&Packing::new());
    assert!(matches!(result, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists));
    assert_eq!(fs::read(place.output()).unwrap(), b"precious");
    let destination = Destination::File { path: place.output(), overwrite: true };
    pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &Recorder::default()).unwrap();
    assert_eq!(Packed::open(&place.output()).paths(), ["f"]);
    assert_eq!(place.names(), ["in", "out.nra"]);
    assert_eq!(place.output().metadata().unwrap().mode() & 0o777, 0o640);
}

#[test]
fn output_created_meanwhile_is_not_replaced() {
    let (place, _) = with_large_file();
    let output = place.output();
    let interferer = Interferer::new(1 << 20, || fs::write(&output, "of another program").unwrap());
    let (result, _) = interferer.pack(&place, &narrow());
    assert!(matches!(result, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists));
    assert_eq!(fs::read(place.output()).unwrap(), b"of another program");
    assert_eq!(place.names(), ["in", "out.nra"]);
}

#[test]
fn new_archive_has_the_default_mode() {
    let place = Place::new();
    fs::write(place.at("usual"), "").unwrap();
    place.packed(&Packing::new());
    let mode = |name: &str| place.at(name).metadata().unwrap().mode();
    assert_eq!(mode("out.nra"), mode("usual"));
}

#[test]
fn output_is_not_packed_into_itself() {
    let place = Place::new();
    place.write("f", "content");
    let output = place.input("self.nra");
    for overwrite in [false, true] {
        let destination = Destination::File { path: output.clone(), overwrite };
        let monitor = Recorder::default();
        let stats = pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &monitor).unwrap();
        assert_eq!((stats.written.entries, stats.skipped), (1, 0), "{overwrite}");
        // A new archive has no name yet when the directory is read. An existing one is reported.
        let warnings: Vec<_> =
            monitor.take_warnings().iter().map(|warning| (warning.message.clone(), warning.severity)).collect();
        assert!(
            warnings.iter().all(|warning| *warning == ("skipped: the archive itself".to_owned(), Severity::Remark)),
            "{warnings:?}"
        );
        assert!(warnings.len() == 1 || !overwrite, "{warnings:?}");
    }
    let (mut found, monitor) = (Vec::new(), Recorder::default());
    survey(&[Input::new(place.at("in"))], &output, &Packing::new(), &monitor, &mut |path, _| {
        found.push(path.to_string());
        Ok(())
    })
    .unwrap();
    assert_eq!((found, monitor.take_warnings().len()), (vec!["f".to_owned()], 1));
    let named = survey(&[Input::new(output.clone())], &output, &Packing::new(), &monitor, &mut |_, _| Ok(()));
    assert!(matches!(named, Err(Error::Io { action: "pack", .. })));
    assert_eq!(Packed::open(&output).paths(), ["f"]);
}

#[test]
fn input_that_output_would_replace_is_rejected() {
    let place = Place::new();
    place.write("only copy", "precious");
    place.write("other", "x");
    fs::hard_link(place.input("only copy"), place.input("second name")).unwrap();
    for input in ["only copy", "second name"] {
        let inputs = [Input::new(place.input("other")), Input::new(place.input(input))];
        let destination = Destination::File { path: place.input("only copy"), overwrite: true };
        let error = pack(&inputs, destination, &Packing::new(), &Recorder::default()).unwrap_err();
        assert!(matches!(error, Error::Io { action: "pack", .. }), "{error}");
        assert_eq!(fs::read(place.input("only copy")).unwrap(), b"precious");
    }
}

#[test]
fn special_file_is_written_in_place() {
    let place = Place::new();
    place.write("f", "content");
    let pipe = place.at("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            fs::File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        }
    });
    let destination = Destination::File { path: pipe.clone(), overwrite: false };
    pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &Recorder::default()).unwrap();
    fs::write(place.output(), reader.join().unwrap()).unwrap();
    assert_eq!(Packed::open(&place.output()).content("f"), b"content");
    assert!(!pipe.metadata().unwrap().is_file());

    let destination = Destination::File { path: "/dev/full".into(), overwrite: false };
    let error = pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &Recorder::default()).unwrap_err();
    assert!(error.to_string().contains("/dev/full"), "{error}");
    let destination = Destination::File { path: place.at("in"), overwrite: true };
    assert!(pack(&[Input::new(place.at("in"))], destination, &Packing::new(), &Recorder::default()).is_err());
}

#[test]
fn unreadable_inputs_create_no_archive() {
    child::run("faults::unreadable_inputs_create_no_archive", true, |directory| {
        let place = Place::within(directory);
        let secret = place.write("secret", "x");
        fs::set_permissions(&secret, Permissions::from_mode(0o000)).unwrap();
        assert!(matches!(place.pack_inputs(&[Input::new(&secret)], &Packing::new()).0, Err(Error::Io { .. })));
        fs::set_permissions(place.at("in"), Permissions::from_mode(0o000)).unwrap();
        assert!(matches!(place.pack(&Packing::new()).0, Err(Error::Io { .. })));
        fs::set_permissions(place.at("in"), Permissions::from_mode(0o700)).unwrap();
        assert!(!place.output().exists());
    });
}

#[test]
fn full_disk_leaves_no_archive() {
    child::run_on_small_disk("faults::full_disk_leaves_no_archive", |directory| {
        let source = Place::new();
        for number in 0..10 {
            source.write(&format!("{number}.bin"), noise(8 << 20, number));
        }
        let output = directory.join("out.nra");
        let destination = Destination::File { path: output.clone(), overwrite: false };
        let result = pack(&[Input::new(source.at("in"))], destination, &Packing::new(), &Recorder::default());
        assert!(matches!(result, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    });
}
