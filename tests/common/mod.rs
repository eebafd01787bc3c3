//! What tests of more than one file need.
#![allow(dead_code, reason = "no test needs all of it")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

pub mod child;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program.
pub const NRA: &str = env!("CARGO_BIN_EXE_nra");

/// Returns bytes that no codec shrinks, the same for the same seed; a shorter result is the beginning of a longer one.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Runs nra in a folder, without standard input.
pub fn nra(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(NRA);
    command.args(arguments).current_dir(folder).env_remove("NRA_PASSWORD").env_remove("NRA_ENCRYPTION_KEY").stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs nra and wants this exit code; returns what it said on standard error.
pub fn expect(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = nra(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "nra {arguments:?}: {said}");
    said
}

/// Says that there is nothing to compare with. With `NRA_PEERS=required` all of it has to be there: it fails.
pub fn skip_peer(what: &str) {
    assert!(
        std::env::var_os("NRA_PEERS").is_none_or(|peers| peers != "required"),
        "{what} is not installed, and NRA_PEERS=required"
    );
    eprintln!("skipped: {what} is not installed");
}

/// Says that something is not tested, for what this machine or its user can't do.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Returns the Python of `NRA_PYTHON` if it runs this text, which needs the package `what`.
pub fn python_with(what: &str, text: &str) -> Option<OsString> {
    let python = std::env::var_os("NRA_PYTHON").unwrap_or_else(|| "python3".into());
    let runs = Command::new(&python).args(["-c", text]).output().is_ok_and(|output| output.status.success());
    if !runs {
        skip_peer(&format!("the Python package {what}"));
    }
    runs.then_some(python)
}

/// Runs another program; `None` when it is not installed.
pub fn other(folder: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").stdin(Stdio::null());
    command.output().inspect_err(|_| skip_peer(program)).ok()
}
