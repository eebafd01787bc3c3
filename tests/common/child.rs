//! Tests that need a process of their own: another user, other limits.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// In the child: the directory to work in.
const VARIABLE: &str = "NRA_TEST_CHILD";
static ALONE: Mutex<()> = Mutex::new(());
/// A user without rights.
const NOBODY: u32 = 65534;

/// Runs the test `name` again in a process of its own (as an ordinary user, when `plain` and started by root), where `body` is run with a fresh directory.
pub fn run(name: &str, plain: bool, body: impl FnOnce(PathBuf)) {
    spawn(name, body, |program, _| {
        let mut command = Command::new(program);
        if plain && rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Some(command)
    });
}

/// Runs the test `name` again on a file system of 64 MiB; where none can be mounted it says so and does not.
pub fn run_on_small_disk(name: &str, body: impl FnOnce(PathBuf)) {
    spawn(name, body, |program, work| {
        let script = "mount -t tmpfs -o size=64m none \"$1\" && shift && cd . && exec \"$@\"";
        let shell = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", script, "sh"]).arg(work);
            command
        };
        let possible = shell("mount -t tmpfs none \"$1\"").output().is_ok_and(|output| output.status.success());
        if !possible {
            super::skip("no file system can be mounted here");
        }
        let mut command = shell(script);
        command.arg(program);
        possible.then_some(command)
    });
}

fn spawn(name: &str, body: impl FnOnce(PathBuf), command: impl FnOnce(&Path, &Path) -> Option<Command>) {
    if let Some(directory) = std::env::var_os(VARIABLE) {
        std::env::set_current_dir(&directory).unwrap();
        return body(directory.into());
    }
    // While one test copies the program, no other may fork: the copy would stay open for writing in its child, and not start.
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), everybody.clone()).unwrap();
    let program = directory.path().join("program");
    for (from, to) in
        [(std::env::current_exe().unwrap(), &program), (env!("CARGO_BIN_EXE_nra").into(), &directory.path().join("nra"))]
    {
        std::fs::copy(from, to).unwrap();
        std::fs::set_permissions(to, everybody.clone()).unwrap();
    }
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::set_permissions(&work, everybody).unwrap();
    let Some(mut command) = command(&program, &work) else { return };
    command.args(["--exact", name, "--nocapture"]).env(VARIABLE, &work).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(alone);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "no test of the name {name}");
}
