//! The target directory.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::files::is_acl;
use super::options::DirectoryTarget;
use super::restore_rules::{RestoreRules, mode, timestamps};
use super::tree::open_directory;
use crate::source::walk::reason;
use nra_format::entry::{Attribute, Kind, Metadata};
use nra_format::error::{ConflictKind, Error, Result};
use nra_format::progress::{Monitor, Warning};
use nra_format::top::Top;

/// The target: where it is, and its handle if it exists.
pub(super) struct Root {
    /// Path for messages.
    pub path: PathBuf,
    /// Open handle; `None` if the directory must be created.
    pub handle: Option<Arc<OwnedFd>>,
    /// It is empty or missing, so no conflicts are possible.
    pub empty: bool,
    /// Its parent directory and its name there; `None` if it is opened by its path.
    inside: Option<(OwnedFd, Vec<u8>)>,
}

impl Root {
    /// Opens the target. `folder`: the entries have several top-level names.
    pub(super) fn find(target: &DirectoryTarget, folder: bool) -> Result<Self> {
        match target {
            DirectoryTarget::Auto { name, .. } if !is_one_name(name) => {
                let shown = nra_format::path::Quoted::new(name);
                Err(Error::Usage { detail: format!("cannot extract to a directory called {shown}") })
            }
            DirectoryTarget::Exactly(path) => Self::by_path(path.clone()),
            DirectoryTarget::Auto { base, .. } if !folder => Self::by_path(base.clone()),
            DirectoryTarget::Auto { base, name } => {
                let parent = open(base).map_err(|errno| Error::io("open directory", bytes(base), errno.into()))?;
                let mut path = base.clone();
                if path == Path::new(".") {
                    path = PathBuf::new();
                }
                path.push(std::ffi::OsStr::from_bytes(name));
                let handle = match open_directory(&parent, name) {
                    Ok(handle) => Some(handle),
                    Err(Errno::NOENT) => None,
                    Err(Errno::LOOP | Errno::NOTDIR) => {
                        let paths = vec![bytes(&path)];
                        return Err(Error::Conflict { kind: ConflictKind::NotDirectory, paths, count: 1 });
                    }
                    Err(errno) => return Err(Error::io("open directory", bytes(&path), errno.into())),
                };
                Ok(Self::new(path, handle, Some((parent, name.clone()))))
            }
        }
    }

    fn by_path(path: PathBuf) -> Result<Self> {
        let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        match open(&path) {
            Ok(handle) => Ok(Self::new(path, Some(handle), None)),
            Err(Errno::NOENT) => Ok(Self::new(path, None, None)),
            Err(errno) => Err(Error::io("open directory", bytes(&path), errno.into())),
        }
    }

    fn new(path: PathBuf, handle: Option<OwnedFd>, inside: Option<(OwnedFd, Vec<u8>)>) -> Self {
        let empty = handle.as_ref().is_none_or(is_empty);
        Self { path, handle: handle.map(Arc::new), empty, inside }
    }

    /// Returns the handle, and whether the directory was created. A new one is private until
    /// [`finish`].
    pub(super) fn make(&self, rules: &RestoreRules) -> Result<(Arc<OwnedFd>, bool)> {
        if let Some(handle) = &self.handle {
            return Ok((Arc::clone(handle), false));
        }
        let fail = |errno: Errno| Error::io("make directory", bytes(&self.path), errno.into());
        let handle = match &self.inside {
            Some((parent, name)) => {
                rustix::fs::mkdirat(parent, &**name, Mode::RWXU).map_err(fail)?;
                open_directory(parent, name).map_err(fail)?
            }
            None => {
                let made = make_all(&self.path, mode(rules.default_directory_mode())).map_err(fail)?;
                return Ok((Arc::new(open(&self.path).map_err(fail)?), made));
            }
        };
        Ok((Arc::new(handle), true))
    }
}

/// Returns whether `name` is a single name in a directory.
fn is_one_name(name: &[u8]) -> bool {
    let mut components = Path::new(std::ffi::OsStr::from_bytes(name)).components();
    matches!(components.next(), Some(Component::Normal(first)) if first.as_bytes() == name) && components.next().is_none()
}

/// Restores the metadata of the packed directory from `attributes` of the archive on a new target.
/// Without such metadata the target gets the mode of any new directory.
pub(super) fn finish(handle: &OwnedFd, path: &Path, attributes: &[Attribute], rules: &RestoreRules, monitor: &dyn Monitor) {
    let Top { mode: bits, owner, modified, xattrs } = Top::of_archive(attributes);
    let metadata = Metadata { mode: bits.unwrap_or(0), owner, attributes: xattrs.into() };
    rules.note_stripped(Kind::Directory, &metadata);
    let stat = rustix::fs::fstat(handle).ok();
    let group = stat.map(|stat| stat.st_gid);
    let plan = rules.plan(Kind::Directory, &metadata, group);
    let step = |what: &str, result: Result<(), Errno>| {
        if let Err(errno) = result {
            let message = format!("{what} not restored: {}", reason(errno));
            monitor.warn(Warning::degraded(bytes(path), message));
        }
    };
    if let Some((user, group)) = plan.ids() {
        step("owner", rustix::fs::fchown(handle, user, group));
    }
    let set = |acl: bool| {
        for attribute in rules.attributes(&metadata).filter(|attribute| is_acl(&attribute.name) == acl) {
            let name = nra_format::path::Quoted::new(&attribute.name);
            let result = rustix::fs::fsetxattr(handle, &*attribute.name, &attribute.value, XattrFlags::empty());
            step(&format!("extended attribute {name}"), result);
        }
    };
    set(false);
    // Bits that it inherited from its parent stay.
    let inherited = stat.map_or(0, |stat| stat.st_mode & 0o7000);
    let bits = if bits.is_some() { plan.mode } else { inherited | rules.default_directory_mode() };
    step("mode", rustix::fs::fchmod(handle, mode(bits)));
    set(true);
    if let Some(time) = modified.filter(|_| rules.restores_times()) {
        step("time", rustix::fs::futimens(handle, &timestamps(time)));
    }
}

/// Warns if the file system of `handle` has less free space than needed.
pub(super) fn check_space(handle: &OwnedFd, path: &Path, needed: u64, monitor: &dyn Monitor) {
    let Ok(system) = rustix::fs::fstatvfs(handle) else { return };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    // Some virtual file systems report no blocks.
    if system.f_blocks > 0 && free < needed {
        // A tenth of a MiB is precise enough.
        let [needed, free] = [needed, free].map(|bytes| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)));
        let message = format!("the content takes up to {needed}, but only {free} are free");
        monitor.warn(Warning::remark(bytes(path), message));
    }
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty()) {
        #[cfg(target_os = "linux")]
        Err(Errno::ACCESS) => rustix::fs::open(path, flags | OFlags::PATH, Mode::empty()),
        other => other,
    }
}

/// Creates a private directory, and missing ones above it with the mode `above`. Returns `false` if
/// another process created it.
fn make_all(path: &Path, above: Mode) -> Result<bool, Errno> {
    let missing: Vec<&Path> = path
        .ancestors()
        .filter(|path| !path.as_os_str().is_empty())
        .take_while(|path| matches!(rustix::fs::stat(*path), Err(Errno::NOENT)))
        .collect();
    let mut made = false;
    for (left, path) in missing.into_iter().enumerate().rev() {
        let result = rustix::fs::mkdir(path, if left == 0 { Mode::RWXU } else { above });
        made = result.is_ok();
        match result {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(made)
}

fn is_empty(handle: &OwnedFd) -> bool {
    let Ok(mut names) = rustix::fs::Dir::read_from(handle) else { return false };
    names.all(|name| name.is_ok_and(|name| matches!(name.file_name().to_bytes(), b"." | b"..")))
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::sink::directory::{DirectorySink, Settings};

    #[test]
    fn folder_must_be_a_single_name() {
        for good in ["a", "...", ".a", "a b", "-"] {
            assert!(is_one_name(good.as_bytes()), "{good}");
        }
        for bad in ["", ".", "..", "/", "a/", "./a", "../a", "a/b", "/a", "a/."] {
            assert!(!is_one_name(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn new_target_is_private_until_finished() {
        let folder = tempfile::tempdir().unwrap();
        let status = |path: &Path| rustix::fs::stat(path).unwrap().st_mode & 0o7777;
        let mut sink = DirectorySink::new(DirectoryTarget::Exactly(".".into()));
        sink.umask = Some(0o022);
        let rules = RestoreRules::new(&Settings { sink, options: &Options::default(), dry_run: false });
        let path = folder.path().join("above/target");
        let (handle, made) = Root::by_path(path.clone()).unwrap().make(&rules).unwrap();
        assert_eq!((made, status(&path)), (true, 0o700));
        assert_ne!(status(&folder.path().join("above")) & 0o077, 0);
        let monitor = nra_format::progress::Recorder::default();
        finish(&handle, &path, &[], &rules, &monitor);
        assert_eq!((status(&path), monitor.take_warnings().len()), (0o755, 0));
        assert!(!Root::by_path(path).unwrap().make(&rules).unwrap().1);
    }
}
