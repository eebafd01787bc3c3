//! Finds the inputs and their paths in the archive.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use crate::source::walk::{NameKind, Root, Start, join};
use nra_format::error::{Error, Result};
use nra_format::path::EntryPath;
use nra_format::progress::{Monitor, Warning};

/// A file or directory to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Directory that `path` is relative to; `None`: the current one.
    pub directory: Option<PathBuf>,
    /// The file or directory.
    pub path: PathBuf,
    /// Store it under the given path, without leading `/`, `.` and `..`, instead of under its name
    /// alone.
    pub keep_path: bool,
}

impl Input {
    /// Returns an input that is stored under its own name.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { directory: None, path: path.into(), keep_path: false }
    }

    /// Returns its path.
    pub(super) fn location(&self) -> PathBuf {
        match &self.directory {
            Some(directory) => directory.join(&self.path),
            None => self.path.clone(),
        }
    }
}

/// Returns the default archive for `inputs`: next to the first one, with its real name and `.nra`.
///
/// # Errors
///
/// `Usage` without inputs; `Io` if the path of the first one ends without a name and its real path
/// can't be found.
pub fn pack_output(inputs: &[Input]) -> Result<PathBuf> {
    let first = inputs.first().ok_or_else(no_inputs)?;
    let location = first.location();
    let path = if is_plain(&location) { location } else { real_path(&location)? };
    let Some(name) = path.file_name() else { return Ok(PathBuf::from("root.nra")) };
    let mut name = name.to_owned();
    name.push(".nra");
    Ok(path.with_file_name(name))
}

/// Returns whether the last component is a name. ([`Path`] treats `a/.` as `a`.)
fn is_plain(path: &Path) -> bool {
    matches!(path.components().next_back(), Some(Component::Normal(_)))
}

fn real_path(path: &Path) -> Result<PathBuf> {
    let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    named.canonicalize().map_err(|error| Error::io("read", path.as_os_str().as_bytes(), error))
}

fn no_inputs() -> Error {
    Error::Usage { detail: "nothing to pack".to_owned() }
}

/// The inputs of a walk.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) starts: Vec<Start>,
    /// Metadata of the directory, if the content of a single one is stored at the top of the
    /// archive.
    pub(super) top: Option<std::fs::Metadata>,
}

/// Finds the inputs and determines their paths in the archive.
///
/// # Errors
///
/// `Io` for a missing input, `Usage` for an invalid prefix. A missing input of a list with kept
/// paths is only a warning, unless all are missing.
pub(super) fn resolve(inputs: &[Input], prefix: &[u8], follow: bool, monitor: &dyn Monitor) -> Result<Resolved> {
    let prefix: &[u8] = trim_slashes(prefix);
    if !prefix.is_empty() {
        EntryPath::new(prefix).map_err(|error| Error::Usage { detail: format!("invalid prefix: {error}") })?;
    }
    if inputs.is_empty() {
        return Err(no_inputs());
    }
    let hidden_len = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
    let mut resolved = Resolved { starts: Vec::with_capacity(inputs.len()), top: None };
    // A repeated directory is walked once.
    let mut known = HashSet::new();
    let mut missing = None;
    for input in inputs {
        let location = input.location();
        let shown = location.as_os_str().as_bytes();
        let fail = |error: io::Error| Error::io("read", shown, error);
        let status = match status(&location, inputs.len() == 1, follow) {
            // A long list of files is soon out of date.
            Err(error) if input.keep_path && inputs.len() > 1 && error.kind() == io::ErrorKind::NotFound => {
                missing = Some(fail(error));
                monitor.warn(Warning::degraded(shown, "does not exist"));
                continue;
            }
            status => status.map_err(fail)?,
        };
        let kind = NameKind::of(FileType::from_raw_mode(status.mode())).unwrap_or(NameKind::Other);
        let alone = inputs.len() == 1 && !input.keep_path && kind == NameKind::Directory;
        let (above, name) = if alone { (Vec::new(), Vec::new()) } else { stored_name(input, &location)? };
        let mut stored = prefix.to_vec();
        if !above.is_empty() {
            join(&mut stored, &above);
        }
        if kind == NameKind::Directory {
            if !name.is_empty() {
                join(&mut stored, &name);
            }
            if stored.is_empty() && inputs.len() == 1 {
                resolved.top = Some(status);
            }
            let root = Root { path: call_path(&location), stored: stored.into(), shown: shown_prefix(shown), hidden_len };
            if known.insert((root.path.clone(), root.stored.clone())) {
                resolved.starts.push(Start::Directory(root));
            }
        } else {
            let parent = location.parent().unwrap_or(Path::new(""));
            let Some(file_name) = location.file_name() else {
                return Err(fail(io::ErrorKind::InvalidInput.into()));
            };
            let within = Root {
                path: call_path(parent),
                stored: stored.into(),
                shown: shown_prefix(parent.as_os_str().as_bytes()),
                hidden_len,
            };
            resolved.starts.push(Start::Name { within, name: file_name.as_bytes().into(), kind, inode: status.ino() });
        }
    }
    match missing {
        Some(error) if resolved.starts.is_empty() => Err(error),
        _ => Ok(resolved),
    }
}

/// Reads the status of an input. A symlink is followed if it is the only input and refers to a
/// directory, or on request.
fn status(location: &Path, alone: bool, follow: bool) -> io::Result<std::fs::Metadata> {
    let own = location.symlink_metadata()?;
    if !own.is_symlink() {
        return Ok(own);
    }
    match location.metadata() {
        Ok(target) if follow || (alone && target.is_dir()) => Ok(target),
        _ => Ok(own),
    }
}

/// Returns the directory and the name under which an input is stored. The name is empty for the
/// root of the file system.
fn stored_name(input: &Input, location: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    if input.keep_path {
        let mut names: Vec<&OsStr> = Vec::new();
        for component in input.path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::ParentDir => {
                    names.pop();
                }
                _ => {}
            }
        }
        let name = names.pop().map_or_else(Vec::new, |name| name.as_bytes().to_vec());
        let mut above = Vec::new();
        for component in names {
            join(&mut above, component.as_bytes());
        }
        return Ok((above, name));
    }
    let real;
    let named = if is_plain(location) {
        location
    } else {
        real = real_path(location)?;
        &real
    };
    Ok((Vec::new(), named.file_name().map_or_else(Vec::new, |name| name.as_bytes().to_vec())))
}

/// Returns the path for system calls: `.` for an empty one.
fn call_path(path: &Path) -> Box<[u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() { b"."[..].into() } else { bytes.into() }
}

/// Returns the path for messages: without `./` and trailing slashes.
fn shown_prefix(path: &[u8]) -> Box<[u8]> {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    if path == b"." {
        return Box::default();
    }
    while path.len() > 1 && path.ends_with(b"/") {
        path = &path[..path.len() - 1];
    }
    path.into()
}

fn trim_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(start, |last| last + 1);
    &path[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_output_is_next_to_first_input() {
        let output = |path: &str| pack_output(&[Input::new(path)]).unwrap();
        assert_eq!(output("photos"), Path::new("photos.nra"));
        assert_eq!(output("x/photos/"), Path::new("x/photos.nra"));
        assert_eq!(output("/"), Path::new("root.nra"));
        let here = std::env::current_dir().unwrap();
        let mut expected = here.clone().into_os_string();
        expected.push(".nra");
        assert_eq!(output("."), Path::new(&expected));
        assert!(pack_output(&[]).is_err());
    }

    #[test]
    fn kept_paths_are_relative_and_normalized() {
        let input = |path: &str| Input { directory: None, path: path.into(), keep_path: true };
        let stored = |path: &str| {
            let (mut above, name) = stored_name(&input(path), Path::new(path)).unwrap();
            join(&mut above, &name);
            String::from_utf8(above).unwrap()
        };
        assert_eq!(stored("./a/b.txt"), "a/b.txt");
        assert_eq!(stored("/etc/./x/../hosts"), "etc/hosts");
        assert_eq!(stored("../x"), "x");
        assert_eq!(stored("."), "");
    }

    #[test]
    fn shown_paths_are_short() {
        assert_eq!(&*shown_prefix(b"././a/b//"), b"a/b");
        assert_eq!(&*shown_prefix(b"."), b"");
        assert_eq!(&*shown_prefix(b"/"), b"/");
        assert_eq!(trim_slashes(b"/a/b/"), b"a/b");
        assert_eq!(trim_slashes(b"//"), b"");
    }
}
