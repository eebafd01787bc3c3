//! Effects of interrupts, in a separate process because they change global state.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use nra::cli::console::{Console, ConsoleOptions};
use nra::cli::progress::{Progress, ProgressStyleChoice};
use nra::cli::signals;
use nra::format::progress::{Counter, Monitor};
use nra_text::SizeStyle;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGTERM, SIGUSR1};
use signal_hook::low_level::raise;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn first_interrupt_stops_cleanly_and_status_signal_reports_progress() {
    signals::install();
    let buffer = Buffer::default();
    let console = Arc::new(Console::new(ConsoleOptions::default(), Box::new(buffer.clone()), None));
    let progress = Progress::begin("packing", ProgressStyleChoice::Off, SizeStyle::Binary, console);
    progress.add(Counter::Entries, 3);
    raise(SIGUSR1).unwrap();
    assert!(progress.check().is_ok());
    raise(SIGTERM).unwrap();
    assert!(progress.check().is_err());
    assert_eq!(signals::code().number(), 143);
    progress.finish();
    assert_eq!(String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap(), "packing: 0 B  3 entries\n");
}

#[test]
fn first_interrupt_ends_wait_for_input() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["list", "-"][..], &["convert", "-", "out.nra"], &["convert", "-", "out.tar.gz"]] {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nra"));
            let mut child = command.args(arguments).current_dir(folder.path()).stdin(Stdio::piped()).spawn().unwrap();
            // More than a pipe holds. After this write, the program is reading and waits for the rest.
            child.stdin.as_mut().unwrap().write_all(&vec![0; 1 << 20]).unwrap();
            let input = child.stdin.take();
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
            drop(input);
        }
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left");
}
