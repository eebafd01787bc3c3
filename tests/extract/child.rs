//! Tests that need a process of their own: another user, other limits.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// In the child: the directory to work in.
const VARIABLE: &str = "NRA_TEST_CHILD";
/// A user without rights.
const NOBODY: u32 = 65534;

/// Runs the test `name` again in a process of its own (as an ordinary user, when `plain` and started by root), where `body` is run with a fresh directory.
pub fn run(name: &str, plain: bool, body: impl FnOnce(PathBuf)) {
    if let Some(directory) = std::env::var_os(VARIABLE) {
        return body(directory.into());
    }
    let directory = tempfile::tempdir().unwrap();
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), everybody.clone()).unwrap();
    let program = directory.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, everybody.clone()).unwrap();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::set_permissions(&work, everybody).unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", name, "--nocapture"]).env(VARIABLE, &work).current_dir(&work);
    if plain && rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "no test of the name {name}");
}
