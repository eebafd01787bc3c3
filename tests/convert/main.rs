//! `nra convert`: formats, options, losses and damage. Compares with other programs if they are installed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod losses;
mod options;
mod tar;
mod zip;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::expect;
use common::tree::Facts;
use tempfile::TempDir;

/// What a tar archive keeps and every program restores.
const WHOLE_SECONDS: Facts = Facts {
    file_modes: true,
    directory_modes: true,
    file_times: true,
    links: true,
    directory_times: false,
    nanoseconds: false,
    owners: false,
    attributes: false,
};
/// What nra restores from a tar archive.
const EXACT: Facts = Facts { nanoseconds: true, ..WHOLE_SECONDS };

/// Creates a tree with every kind of entry that an unprivileged user can create.
fn tree(folder: &Path) -> PathBuf {
    let top = folder.join("tree");
    fs::create_dir_all(top.join("deep/er/est")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("a.txt"), "hello\n").unwrap();
    fs::write(top.join("none"), "").unwrap();
    let large: Vec<u8> = (0..700_000u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
    fs::write(top.join("deep/large.bin"), &large).unwrap();
    fs::write(top.join("deep/er/est/ünïcode"), "x").unwrap();
    let long = top.join("l".repeat(120)).join("m".repeat(140));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join("n".repeat(100)), "long").unwrap();
    fs::hard_link(top.join("a.txt"), top.join("z-link")).unwrap();
    symlink("a.txt", top.join("soft")).unwrap();
    symlink("t/".repeat(90), top.join("long-soft")).unwrap();
    fs::set_permissions(top.join("a.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_600_000_000, 123_456_789);
    fs::File::open(top.join("a.txt")).unwrap().set_modified(time).unwrap();
    top
}

/// Returns a directory with a tree and its archive `first.nra`.
fn packed_tree() -> TempDir {
    let folder = TempDir::new().unwrap();
    tree(folder.path());
    expect(folder.path(), &["pack", "tree", "-o", "first.nra"], 0);
    folder
}

/// Returns the number of entries that `nra list` prints.
fn count_entries(folder: &Path, archive: &str) -> usize {
    common::nra(folder, &["list", archive]).stdout.iter().filter(|&&byte| byte == b'\n').count()
}
