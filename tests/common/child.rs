//! Tests that need their own process because they change the user or the limits.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Names the working directory to the child process.
const VARIABLE: &str = "NRA_TEST_CHILD";
static COPYING: Mutex<()> = Mutex::new(());
/// An unprivileged user.
const NOBODY: u32 = 65534;

/// Runs the test `name` again in its own process, which calls `body` with a new directory. With `unprivileged`, a process of root
/// drops its privileges.
pub fn run(name: &str, unprivileged: bool, body: impl FnOnce(PathBuf)) {
    spawn(name, body, |program, _| {
        let mut command = Command::new(program);
        if unprivileged && rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Some(command)
    });
}

/// Runs the test `name` again on a file system of 64 MiB. Skips it if none can be mounted.
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
            super::skip("no file system can be mounted");
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
    // No other test may fork while the program is copied: the copy would stay open for writing in the child, and could not be
    // executed.
    let copying = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
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
    drop(copying);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "there is no test {name}");
}
