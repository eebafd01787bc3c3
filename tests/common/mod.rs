//! Helpers that several test binaries share.
#![allow(dead_code, reason = "no test binary uses all of them")]
#![allow(clippy::print_stderr, reason = "a skipped test prints a note")]

pub mod child;
pub mod tree;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program.
pub const NRA: &str = env!("CARGO_BIN_EXE_nra");

/// Returns incompressible bytes, determined by the seed. A shorter result is a prefix of a longer one.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Returns a command that runs nra in a directory, without standard input.
pub fn nra_command(directory: &Path) -> Command {
    let mut command = Command::new(NRA);
    for variable in ["NRA_PASSWORD", "NRA_ENCRYPTION_KEY", "SOURCE_DATE_EPOCH"] {
        command.env_remove(variable);
    }
    command.current_dir(directory).stdin(Stdio::null());
    command
}

/// Runs nra in a directory, without standard input.
pub fn nra(directory: &Path, arguments: &[&str]) -> Output {
    nra_command(directory).args(arguments).output().unwrap()
}

/// Runs nra, checks its exit code and returns its standard error.
pub fn expect(directory: &Path, arguments: &[&str], code: i32) -> String {
    let output = nra(directory, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "nra {arguments:?}: {stderr}");
    stderr
}

/// Prints that a comparison is skipped because `what` is not installed. With `NRA_PEERS=required`, it panics instead.
pub fn skip_peer(what: &str) {
    assert!(
        std::env::var_os("NRA_PEERS").is_none_or(|peers| peers != "required"),
        "{what} is not installed, and NRA_PEERS=required"
    );
    eprintln!("skipped: {what} is not installed");
}

/// Prints that a test is skipped because this machine or user cannot run it.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Returns the Python interpreter (`NRA_PYTHON`) if it can run this script, which needs the package `what`.
pub fn python_with(what: &str, script: &str) -> Option<OsString> {
    let python = std::env::var_os("NRA_PYTHON").unwrap_or_else(|| "python3".into());
    let runs = Command::new(&python).args(["-c", script]).output().is_ok_and(|output| output.status.success());
    if !runs {
        skip_peer(&format!("the Python package {what}"));
    }
    runs.then_some(python)
}

/// Runs another program. Returns `None` if it is not installed.
pub fn other(directory: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").stdin(Stdio::null());
    command.output().inspect_err(|_| skip_peer(program)).ok()
}
