//! The file that is written: it appears under its name only when it is whole.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use tempfile::{Builder, NamedTempFile, TempPath};

use super::umask::umask;
use crate::format::error::{Error, Result, THE_ARCHIVE};
use crate::format::source::sync_directory;

/// Where an archive goes.
pub enum Destination {
    /// A file. It is written beside its final name and renamed when it is whole. Something of that name that is not a regular
    /// file, such as a pipe or a device, is written to as it is.
    File {
        /// Its name.
        path: PathBuf,
        /// Replace an existing file; otherwise that is an error.
        overwrite: bool,
    },
    /// Anything that takes bytes in order.
    Stream(Box<dyn Write + Send>),
    /// Nowhere: to see what would come of it.
    Nowhere,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path, overwrite } => f.debug_struct("File").field("path", path).field("overwrite", overwrite).finish(),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Nowhere => f.write_str("Nowhere"),
        }
    }
}

/// An archive in the making. Dropping it leaves nothing behind.
pub(in crate::convert) struct Output {
    sink: Sink,
    naming: Naming,
    /// Name for messages.
    name: Vec<u8>,
}

/// Where the bytes go.
enum Sink {
    File(File),
    Stream(Box<dyn Write + Send>),
    Nowhere(Nothing),
}

/// Takes bytes and keeps none, as a file would.
#[derive(Debug, Default)]
struct Nothing {
    at: u64,
    end: u64,
}

impl Seek for Nothing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Write for Nothing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.at = self.at.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How the file gets its name.
enum Naming {
    /// It has it.
    Final,
    /// It has none yet.
    Unnamed(FinalName),
    /// It has another one.
    Beside(TempPath, FinalName),
}

struct FinalName {
    directory: PathBuf,
    path: PathBuf,
    overwrite: bool,
}

impl Output {
    /// Prepares the destination; nothing is there yet under its name.
    pub(in crate::convert) fn create(destination: Destination) -> Result<Self> {
        let (path, overwrite) = match destination {
            Destination::Stream(out) => {
                return Ok(Self { sink: Sink::Stream(out), naming: Naming::Final, name: THE_ARCHIVE.as_bytes().to_vec() });
            }
            Destination::Nowhere => {
                let sink = Sink::Nowhere(Nothing::default());
                return Ok(Self { sink, naming: Naming::Final, name: THE_ARCHIVE.as_bytes().to_vec() });
            }
            Destination::File { path, overwrite } => (path, overwrite),
        };
        let name = path.as_os_str().as_bytes().to_vec();
        let existing = match fs::metadata(&path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("create", &name, error)),
        };
        if let Some(metadata) = &existing
            && !metadata.is_file()
        {
            if metadata.is_dir() {
                return Err(Error::io("create", &name, io::ErrorKind::IsADirectory.into()));
            }
            let file = OpenOptions::new().write(true).open(&path).map_err(|error| Error::io("open", &name, error))?;
            return Ok(Self { sink: Sink::File(file), naming: Naming::Final, name });
        }
        if existing.is_some() && !overwrite {
            return Err(Error::io("create", &name, io::ErrorKind::AlreadyExists.into()));
        }
        // What a symlink leads to is replaced, not the symlink.
        let path = if existing.is_some() { path.canonicalize().map_err(|e| Error::io("create", &name, e))? } else { path };
        let Some(file_name) = path.file_name() else {
            return Err(Error::io("create", &name, io::ErrorKind::InvalidInput.into()));
        };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let path = directory.join(file_name);
        let target = FinalName { directory, path, overwrite };
        let (file, naming) = begin(target, existing.is_some()).map_err(|error| Error::io("create", &name, error))?;
        if let Some(metadata) = existing {
            // A replaced file keeps its mode; if that is refused, it has the usual one.
            let _ = file.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o777));
        }
        Ok(Self { sink: Sink::File(file), naming, name })
    }

    /// Returns device and inode of every file that is the output, or will be replaced by it.
    pub(in crate::convert) fn identities(&self) -> Vec<(u64, u64)> {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = match &self.sink {
            Sink::File(file) => file.metadata().ok(),
            Sink::Stream(_) | Sink::Nowhere(_) => None,
        };
        let replaced = match &self.naming {
            Naming::Final => None,
            Naming::Unnamed(target) | Naming::Beside(_, target) => fs::metadata(&target.path).ok(),
        };
        own.into_iter().chain(replaced).map(identity).collect()
    }

    /// Name for messages.
    pub(in crate::convert) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Gives the file its name. `sync`: make sure that it survives a failing machine, too.
    pub(in crate::convert) fn publish(self, sync: bool) -> Result<()> {
        let Self { sink, naming, name } = self;
        let file = match sink {
            Sink::File(file) => file,
            Sink::Stream(mut out) => return out.flush().map_err(|error| Error::io("write", &name, error)),
            Sink::Nowhere(_) => return Ok(()),
        };
        let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if sync && regular {
            file.sync_all().map_err(|error| Error::io("sync", &name, error))?;
        }
        let directory = match naming {
            Naming::Final => return Ok(()),
            Naming::Unnamed(target) => {
                name_unnamed(&file, &target).map_err(|error| Error::io("create", &name, error))?;
                target.directory
            }
            Naming::Beside(temporary, target) => {
                let named =
                    if target.overwrite { temporary.persist(&target.path) } else { temporary.persist_noclobber(&target.path) };
                named.map_err(|error| Error::io("create", &name, error.error))?;
                target.directory
            }
        };
        if sync {
            sync_directory(&directory).map_err(|error| Error::io("sync", &name, error))?;
        }
        Ok(())
    }
}

impl Seek for Output {
    /// Moves to another place; what takes bytes in order refuses.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.sink {
            Sink::File(file) => file.seek(to),
            Sink::Stream(_) => Err(io::ErrorKind::NotSeekable.into()),
            Sink::Nowhere(nothing) => nothing.seek(to),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::File(file) => file.write(bytes),
            Sink::Stream(out) => out.write(bytes),
            Sink::Nowhere(nothing) => nothing.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::File(file) => file.write_vectored(parts),
            Sink::Stream(out) => out.write_vectored(parts),
            Sink::Nowhere(nothing) => nothing.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::File(file) => file.flush(),
            Sink::Stream(out) => out.flush(),
            Sink::Nowhere(nothing) => nothing.flush(),
        }
    }
}

/// Opens a file in the directory of `target`: without a name where the file system can do that, since such a file vanishes even
/// when the process is killed; else under a name of its own.
fn begin(target: FinalName, replaces: bool) -> io::Result<(File, Naming)> {
    let flags = i32::try_from(OFlags::TMPFILE.bits()).expect("the flags of open are an int");
    let unnamed = OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o666).open(&target.directory);
    if let Ok(file) = unnamed
        && fs::metadata(own_path(&file)).is_ok()
    {
        return Ok((file, Naming::Unnamed(target)));
    }
    // Nobody else reads it before it has the mode that it shall have.
    let temporary = temporary_name().permissions(fs::Permissions::from_mode(0o600)).tempfile_in(&target.directory)?;
    let (file, path) = NamedTempFile::into_parts(temporary);
    if !replaces {
        file.set_permissions(fs::Permissions::from_mode(0o666 & !umask()))?;
    }
    Ok((file, Naming::Beside(path, target)))
}

/// How temporary names look: hidden, and recognisable.
fn temporary_name() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".nra-").suffix(".tmp");
    builder
}

/// A path that leads to an open file.
fn own_path(file: &File) -> OsString {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn name_unnamed(file: &File, target: &FinalName) -> io::Result<()> {
    let own = own_path(file);
    let link = |path: &Path| linkat(CWD, OsStr::new(&own), CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from);
    match link(&target.path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.overwrite => {}
        result => return result,
    }
    // A link does not replace, a renaming does: the file needs a name in between.
    let temporary = temporary_name().make_in(&target.directory, |path| link(path))?;
    temporary.into_temp_path().persist(&target.path).map_err(|error| error.error)
}
