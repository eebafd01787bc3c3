//! Paths on disk while they are typed: completions, free space.

use std::path::{Path, PathBuf};

/// Most names of a directory that are read.
const MAX_NAMES: usize = 10_000;

/// Returns the paths that start with the typed text; directories end with a slash. Unreadable
/// directories have none.
pub fn paths(typed: &str, only_directories: bool) -> Vec<String> {
    if typed == "~" {
        return vec!["~/".to_owned()];
    }
    let (base, prefix) = typed.split_at(typed.rfind('/').map_or(0, |slash| slash + 1));
    let directory = if base.is_empty() { Path::new(".").to_owned() } else { expand(Path::new(base)) };
    let Ok(names) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths = Vec::new();
    for item in names.take(MAX_NAMES).flatten() {
        // A name that is not UTF-8 cannot be typed.
        let Ok(name) = item.file_name().into_string() else { continue };
        let hidden = name.starts_with('.') && !prefix.starts_with('.');
        if hidden || !name.starts_with(prefix) {
            continue;
        }
        match item.path().is_dir() {
            true => paths.push(format!("{base}{name}/")),
            false if only_directories => {}
            false => paths.push(format!("{base}{name}")),
        }
    }
    paths.sort();
    paths
}

/// Replaces a leading `~` with the home directory.
pub fn expand(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_owned(),
    }
}

/// Returns the free bytes on the disk of a directory, which need not exist; `None` if unknown.
pub fn free_space(typed: &str) -> Option<u64> {
    let path = expand(Path::new(typed));
    // A new relative path is created below the current directory.
    let places = path.ancestors().map(|place| if place.as_os_str().is_empty() { Path::new(".") } else { place });
    let system = places.into_iter().find_map(|place| rustix::fs::statvfs(place).ok())?;
    // Some virtual file systems report no blocks at all.
    (system.f_blocks > 0).then(|| system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_known_for_new_directories() {
        let work = tempfile::tempdir().unwrap();
        let deep = work.path().join("not/there/yet");
        assert_eq!(free_space(&deep.display().to_string()).is_some(), free_space(&work.path().display().to_string()).is_some());
        assert!(free_space("not-here").is_some_and(|free| free > 0));
        assert!(free_space("").is_some());
    }

    #[test]
    fn completions_start_with_typed_text() {
        let work = tempfile::tempdir().unwrap();
        for name in ["data", "docs/deep", ".hidden"] {
            std::fs::create_dir_all(work.path().join(name)).unwrap();
        }
        std::fs::write(work.path().join("dump.csv"), "").unwrap();
        let base = format!("{}/", work.path().display());
        let found = |typed: &str, only_directories| -> Vec<String> {
            let paths = paths(&format!("{base}{typed}"), only_directories);
            paths.iter().map(|path| path.strip_prefix(&base).unwrap().to_owned()).collect()
        };
        assert_eq!(found("d", false), ["data/", "docs/", "dump.csv"]);
        assert_eq!(found("", true), ["data/", "docs/"]);
        assert_eq!(found(".", false), [".hidden/"]);
        assert_eq!(found("docs/", false), ["docs/deep/"]);
        assert_eq!(found("nothing/x", false), Vec::<String>::new());
        assert_eq!(paths("~", true), ["~/"]);
    }
}
