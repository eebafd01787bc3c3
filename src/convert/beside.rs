//! A new file beside the one whose place it takes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::umask::umask;
use crate::format::error::{Error, Result};
use crate::format::source::sync_directory;

/// A file under a temporary name. Dropping it leaves nothing behind.
pub(in crate::convert) struct Beside {
    temporary: NamedTempFile,
    directory: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

impl Beside {
    /// Makes an empty file in the directory of `path`.
    ///
    /// # Errors
    ///
    /// `Io`, also when `path` exists and is not to be replaced.
    pub(in crate::convert) fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let fail = |error: io::Error| Error::io("create", path.as_os_str().as_bytes(), error);
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(fail(io::ErrorKind::AlreadyExists.into()));
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let mut builder = tempfile::Builder::new();
        // Nobody else reads it before it has the mode that it shall have.
        builder.prefix(".nra-").suffix(".tmp").permissions(fs::Permissions::from_mode(0o600));
        let temporary = builder.tempfile_in(&directory).map_err(fail)?;
        Ok(Self { temporary, directory, path: path.to_owned(), overwrite })
    }

    /// Its temporary name.
    pub(in crate::convert) fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the file its name once it is on disk. `like`: with the mode of the file that it replaces, and its owner and group where the system
    /// allows that.
    ///
    /// # Errors
    ///
    /// `Io`; everything is as it was then.
    pub(in crate::convert) fn publish(self, like: bool) -> Result<()> {
        let Self { temporary, directory, path, overwrite } = self;
        let shown = path.as_os_str().as_bytes();
        let fail = |action: &'static str| move |error: io::Error| Error::io(action, shown, error);
        let (file, temporary) = temporary.into_parts();
        let mut mode = 0o666 & !umask();
        if like {
            let old = fs::metadata(&path).map_err(fail("read"))?;
            mode = old.mode() & 0o777;
            let _ = fchown(&file, Some(old.uid()), None);
            // What the group may do is for the group that it was.
            if file.metadata().map_err(fail("read"))?.gid() != old.gid() && fchown(&file, None, Some(old.gid())).is_err() {
                mode &= !0o070;
            }
        }
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(fail("create"))?;
        file.sync_all().map_err(fail("sync"))?;
        let named = if overwrite { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        named.map_err(|error| fail("create")(error.error))?;
        sync_directory(&directory).map_err(fail("sync"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_reads_what_is_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let old = folder.path().join("old");
        fs::write(&old, "old").unwrap();
        for wanted in [0o600, 0o640, 0o666] {
            fs::set_permissions(&old, fs::Permissions::from_mode(wanted)).unwrap();
            let beside = Beside::create(&old, true).unwrap();
            assert_eq!(mode(beside.path()), 0o600);
            beside.publish(true).unwrap();
            assert_eq!((fs::read(&old).unwrap(), mode(&old)), (Vec::new(), wanted));
        }
        let new = folder.path().join("new");
        Beside::create(&new, false).unwrap().publish(false).unwrap();
        assert_eq!(mode(&new), 0o666 & !umask());
    }
}
