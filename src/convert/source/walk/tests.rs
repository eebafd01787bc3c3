use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use nra_format::progress::Recorder;

fn options() -> WalkOptions {
    WalkOptions { filter: Filter::default(), follow: false, one_file_system: false, xattrs: false, threads: 2 }
}

fn start(path: &Path) -> Start {
    let bytes = path.as_os_str().as_bytes();
    Start::Directory(Root { path: bytes.into(), stored: Box::default(), shown: bytes.into(), hidden_len: 0 })
}

fn names_in(walk: &Walk, window: &Window) -> Vec<String> {
    let mut path = Vec::new();
    let mut show = |directory, name: &[u8]| {
        walk.tree().stored_path(directory, &mut path);
        if !name.is_empty() {
            join(&mut path, name);
        }
        String::from_utf8_lossy(&path).into_owned()
    };
    let directories = window.directories.iter().map(|(id, ..)| (*id, &b""[..]));
    let names = window.names.iter().map(|name| (name.directory, window.name(name)));
    let mut found: Vec<String> = directories.chain(names).map(|(id, name)| show(id, name)).collect();
    found.sort();
    found
}

fn walk_all(options: WalkOptions, top: &Path, monitor: &Recorder) -> Vec<String> {
    let mut walk = Walk::new(options, vec![start(top)]).unwrap();
    let window = walk.next_window(usize::MAX, monitor).unwrap();
    assert!(walk.is_done());
    names_in(&walk, &window)
}

fn tree() -> tempfile::TempDir {
    let top = tempfile::tempdir().unwrap();
    for directory in ["a/b", "a/c", "empty", ".git/objects", "cache"] {
        fs::create_dir_all(top.path().join(directory)).unwrap();
    }
    for file in ["a/b/x.txt", "a/c/y.log", "z.txt", ".git/config", "cache/data"] {
        fs::write(top.path().join(file), file).unwrap();
    }
    fs::write(top.path().join("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n# rest").unwrap();
    fs::write(top.path().join("a/.gitignore"), "*.log\n").unwrap();
    symlink("a/b", top.path().join("link")).unwrap();
    symlink("..", top.path().join("a/up")).unwrap();
    symlink("nowhere", top.path().join("dangling")).unwrap();
    top
}

#[test]
fn walk_finds_every_name_once() {
    let top = tree();
    let monitor = Recorder::default();
    let found = walk_all(options(), top.path(), &monitor);
    let expected = [
        "",
        ".git",
        ".git/config",
        ".git/objects",
        "a",
        "a/.gitignore",
        "a/b",
        "a/b/x.txt",
        "a/c",
        "a/c/y.log",
        "a/up",
        "cache",
        "cache/CACHEDIR.TAG",
        "cache/data",
        "dangling",
        "empty",
        "link",
        "z.txt",
    ];
    assert_eq!(found, expected);
    assert!(monitor.take_warnings().is_empty());
}

#[test]
fn filtered_directories_are_not_entered() {
    let top = tree();
    let monitor = Recorder::default();
    let mut filter = Filter::default();
    (filter.gitignore, filter.skip_vcs, filter.skip_caches) = (true, true, true);
    filter.rules.exclude("/a/b").unwrap();
    filter.rules.exclude("*.txt").unwrap();
    filter.rules.include("z.txt").unwrap();
    let found = walk_all(WalkOptions { filter, ..options() }, top.path(), &monitor);
    let expected = ["", "a", "a/.gitignore", "a/c", "a/up", "cache", "cache/CACHEDIR.TAG", "dangling", "empty", "link", "z.txt"];
    assert_eq!(found, expected);
}

#[test]
fn followed_symlink_loops_stay_symlinks() {
    let top = tree();
    let monitor = Recorder::default();
    let found = walk_all(WalkOptions { follow: true, ..options() }, top.path(), &monitor);
    assert!(found.contains(&"link/x.txt".to_owned()), "{found:?}");
    assert!(found.contains(&"a/up".to_owned()) && !found.contains(&"a/up/z.txt".to_owned()), "{found:?}");
    assert_eq!(monitor.take_warnings().len(), 1);
}

#[test]
fn windows_do_not_depend_on_threads() {
    let top = tree();
    let monitor = Recorder::default();
    let runs: Vec<Vec<Vec<String>>> = [1, 3]
        .into_iter()
        .map(|threads| {
            let mut walk = Walk::new(WalkOptions { threads, ..options() }, vec![start(top.path())]).unwrap();
            let mut windows = Vec::new();
            while !walk.is_done() {
                let window = walk.next_window(4, &monitor).unwrap();
                assert!(window.len() <= 4);
                windows.push(names_in(&walk, &window));
            }
            windows
        })
        .collect();
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].iter().map(Vec::len).sum::<usize>(), 18);
}

#[test]
fn deep_trees_need_neither_stack_nor_long_paths() {
    let top = tempfile::tempdir().unwrap();
    let depth = 700;
    let name = "d".repeat(100);
    let mut handle = rustix::fs::open(top.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&handle, name.as_str(), rustix::fs::Mode::RWXU).unwrap();
        handle = rustix::fs::openat(&handle, name.as_str(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    let monitor = Recorder::default();
    let mut walk = Walk::new(options(), vec![start(top.path())]).unwrap();
    let window = walk.next_window(usize::MAX, &monitor).unwrap();
    // Each level has 101 bytes. Longer paths than 65,535 bytes are skipped with one warning.
    assert_eq!(window.directories.len(), 1 + 648);
    assert_eq!(monitor.take_warnings().len(), 1);
    // Evicted handles are reopened from the directories above.
    let (deepest, ..) = window.directories.last().unwrap();
    let again = Handles::new(false);
    assert!(again.get(walk.tree(), *deepest).is_ok());
}
