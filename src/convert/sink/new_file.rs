//! A file that gets its name when it is complete.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, XattrFlags, fsetxattr, linkat};
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::proc::{path_of, umask};
use crate::source::walk::AttributeReader;
use nra_format::error::{Error, Result};
use nra_format::source::{FileStore, sync_directory};

/// An unfinished file. Dropping it removes it.
pub(crate) struct NewFile {
    pub(crate) file: File,
    /// Its temporary name, on file systems that do not support files without a name.
    temporary: Option<TempPath>,
    /// Its final mode, if it has another one until it is published.
    mode: Option<u32>,
    directory: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

impl NewFile {
    /// Creates an empty file in the directory of `path`. It has no name if the file system supports
    /// that, because such a file vanishes even if the process is killed. Fails if `path` exists and
    /// must not be replaced, or is not a regular file.
    pub(crate) fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let fail = |error: io::Error| Error::io("create", path.as_os_str().as_bytes(), error);
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(fail(io::ErrorKind::AlreadyExists.into()));
        }
        let target = match fs::metadata(path) {
            Ok(existing) if !existing.is_file() => {
                return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
            }
            // Replace the target of a symlink, not the symlink.
            Ok(_) => path.canonicalize().map_err(fail)?,
            Err(_) => path.to_owned(),
        };
        let path = &*target;
        let name = path.file_name().ok_or_else(|| fail(io::ErrorKind::InvalidInput.into()))?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let path = directory.join(name);
        let flags = i32::try_from(OFlags::TMPFILE.bits()).expect("the flags of open are an int");
        let unnamed = OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o666).open(&directory);
        if let Ok(file) = unnamed
            && fs::metadata(path_of(&file)).is_ok()
        {
            return Ok(Self { file, temporary: None, mode: None, directory, path, overwrite });
        }
        // Keep it private until it has its final mode.
        let named = temporary_name().permissions(Permissions::from_mode(0o600)).tempfile_in(&directory);
        // Name the directory: the file itself may be writable.
        let named = named.map_err(|error| Error::io("create a file in", directory.as_os_str().as_bytes(), error))?;
        let (file, temporary) = NamedTempFile::into_parts(named);
        Ok(Self { file, temporary: Some(temporary), mode: Some(0o666 & !umask()), directory, path, overwrite })
    }

    /// Opens it again for writing in place. Fails if it is already open in this way.
    pub(crate) fn store(&self) -> Result<FileStore> {
        let shown = self.path.as_os_str().as_bytes();
        match &self.temporary {
            Some(temporary) => FileStore::open_as(temporary, shown),
            None => FileStore::open_as(Path::new(&path_of(&self.file)), shown),
        }
    }

    /// Gives it the mode of the file that it replaces, if the system permits.
    pub(crate) fn copy_mode(&mut self, old: &Metadata) {
        self.mode = None;
        let _ = self.file.set_permissions(Permissions::from_mode(old.mode() & 0o777));
    }

    /// Copies the metadata of the file that it replaces: the mode, and, if the system permits,
    /// owner, group and extended attributes. Fails if there is no such file.
    pub(crate) fn copy_metadata(&mut self) -> Result<()> {
        let fail = |error: io::Error| Error::io("read", self.path.as_os_str().as_bytes(), error);
        let old = fs::metadata(&self.path).map_err(fail)?;
        let mut mode = old.mode() & 0o777;
        let _ = fchown(&self.file, Some(old.uid()), None);
        // The group permissions were meant for the former group.
        if self.file.metadata().map_err(fail)?.gid() != old.gid() && fchown(&self.file, None, Some(old.gid())).is_err() {
            mode &= !0o070;
        }
        let (attributes, _) = AttributeReader::default().read(File::open(&self.path).map_err(fail)?);
        for attribute in attributes {
            // Only the system can set some attributes.
            let _ = fsetxattr(&self.file, &*attribute.name, &attribute.value, XattrFlags::empty());
        }
        self.mode = Some(mode);
        Ok(())
    }

    /// Gives the file its name. `sync`: flush it to disk first.
    ///
    /// # Errors
    ///
    /// `Io`. Then nothing has changed.
    pub(crate) fn publish(self, sync: bool) -> Result<()> {
        let Self { file, temporary, mode, directory, path, overwrite } = self;
        let fail = |action: &'static str| {
            let shown = path.as_os_str().as_bytes();
            move |error: io::Error| Error::io(action, shown, error)
        };
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode)).map_err(fail("create"))?;
        }
        if sync {
            file.sync_all().map_err(fail("sync"))?;
        }
        let named = match temporary {
            None => name_unnamed(&file, &directory, &path, overwrite),
            Some(temporary) if overwrite => temporary.persist(&path).map_err(|error| error.error),
            Some(temporary) => temporary.persist_noclobber(&path).map_err(|error| error.error),
        };
        named.map_err(fail("create"))?;
        if sync { sync_directory(&directory).map_err(fail("sync")) } else { Ok(()) }
    }
}

/// Prefix of temporary names.
fn temporary_name() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".nra-").suffix(".tmp");
    builder
}

fn name_unnamed(file: &File, directory: &Path, path: &Path, overwrite: bool) -> io::Result<()> {
    let own = path_of(file);
    let link = |path: &Path| linkat(CWD, own.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from);
    match link(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && overwrite => {}
        result => return result,
    }
    // Linking can't replace a file but renaming can, so the file needs a temporary name.
    let temporary = temporary_name().make_in(directory, |path| link(path))?;
    temporary.into_temp_path().persist(path).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn replaced_file_passes_on_its_metadata() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let old = folder.path().join("old");
        fs::write(&old, "old").unwrap();
        for wanted in [0o400, 0o600, 0o640, 0o666] {
            fs::set_permissions(&old, Permissions::from_mode(wanted)).unwrap();
            let mut new = NewFile::create(&old, true).unwrap();
            new.copy_metadata().unwrap();
            new.store().unwrap();
            new.publish(true).unwrap();
            assert_eq!((fs::read(&old).unwrap(), mode(&old)), (Vec::new(), wanted));
        }
        let (name, flags) = ("user.nra", XattrFlags::empty());
        if fsetxattr(File::open(&old).unwrap(), name, b"kept", flags).is_ok() {
            let mut new = NewFile::create(&old, true).unwrap();
            new.copy_metadata().unwrap();
            new.publish(true).unwrap();
            let (attributes, _) = AttributeReader::default().read(File::open(&old).unwrap());
            assert!(attributes.iter().any(|attribute| *attribute.name == *name.as_bytes() && *attribute.value == *b"kept"));
        }
        assert!(NewFile::create(&old, false).is_err());
        assert!(NewFile::create(folder.path(), true).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("old", &link).unwrap();
        let mut through = NewFile::create(&link, true).unwrap();
        through.file.write_all(b"through").unwrap();
        through.publish(false).unwrap();
        assert_eq!((fs::read(&old).unwrap(), link.is_symlink()), (b"through".to_vec(), true));
        fs::remove_file(&link).unwrap();
        let new = folder.path().join("new");
        NewFile::create(&new, false).unwrap().publish(false).unwrap();
        assert_eq!(mode(&new), 0o666 & !umask());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
