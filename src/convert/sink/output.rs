//! The output file, which gets its name when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::new_file::NewFile;
use nra_format::error::{Error, Result, Subject};

/// Where an archive is written.
pub enum Destination {
    /// A file, which gets its name when it is complete. An existing pipe or device of that name is
    /// written to directly.
    File {
        /// Its path.
        path: PathBuf,
        /// Replace an existing file. Otherwise an existing file is an error.
        overwrite: bool,
    },
    /// A stream of bytes.
    Stream(Box<dyn Write + Send>),
    /// Nothing: the bytes are only counted.
    Null,
}

impl Destination {
    /// Returns the destination of a file that must not exist.
    pub fn new_file(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), overwrite: false }
    }
}

/// Adds the name of the archive to an error of the writer, which does not know it.
pub fn named(error: Error, name: impl Into<Subject>) -> Error {
    match error {
        Error::Io { action, subject: Subject::Output, source } => Error::io(action, name, source),
        error => error,
    }
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path, overwrite } => f.debug_struct("File").field("path", path).field("overwrite", overwrite).finish(),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Null => f.write_str("Null"),
        }
    }
}

/// An unfinished archive. Dropping it removes it.
pub(crate) struct Output {
    sink: Sink,
    /// Its name in messages.
    name: Subject,
}

/// Where the bytes are written.
enum Sink {
    New(NewFile),
    /// An existing file that is not a regular file.
    Special(File),
    Stream(Box<dyn Write + Send>),
    Null(NullFile),
}

/// A file that keeps no bytes.
#[derive(Debug, Default)]
struct NullFile {
    at: u64,
    end: u64,
}

impl Seek for NullFile {
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

impl Write for NullFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.at = self.at.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// Prepares the destination. A new file has no name yet.
    pub(crate) fn create(destination: Destination) -> Result<Self> {
        let (path, overwrite) = match destination {
            Destination::Stream(out) => return Ok(Self { sink: Sink::Stream(out), name: Subject::Output }),
            Destination::Null => {
                return Ok(Self { sink: Sink::Null(NullFile::default()), name: Subject::Output });
            }
            Destination::File { path, overwrite } => (path, overwrite),
        };
        let name = Subject::from(path.as_os_str().as_bytes());
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
            return Ok(Self { sink: Sink::Special(file), name });
        }
        if existing.is_some() && !overwrite {
            return Err(Error::io("create", &name, io::ErrorKind::AlreadyExists.into()));
        }
        let mut file = NewFile::create(&path, overwrite)?;
        if let Some(metadata) = existing {
            file.copy_mode(&metadata);
        }
        Ok(Self { sink: Sink::New(file), name })
    }

    /// Returns device and inode of the output, if it is a file.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        let (Sink::New(NewFile { file, .. }) | Sink::Special(file)) = &self.sink else { return None };
        file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.sink {
            Sink::New(NewFile { file, .. }) | Sink::Special(file) => file,
            Sink::Stream(out) => out,
            Sink::Null(null) => null,
        }
    }

    /// Returns its name in messages.
    pub(crate) fn name(&self) -> &Subject {
        &self.name
    }

    /// Gives the file its name. `sync`: flush it to disk first.
    pub(crate) fn publish(self, sync: bool) -> Result<()> {
        match self.sink {
            Sink::New(new) => new.publish(sync),
            Sink::Special(_) | Sink::Null(_) => Ok(()),
            Sink::Stream(mut out) => out.flush().map_err(|error| Error::io("write", &self.name, error)),
        }
    }
}

impl Seek for Output {
    /// Seeks; fails for a stream.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.sink {
            Sink::New(NewFile { file, .. }) | Sink::Special(file) => file.seek(to),
            Sink::Stream(_) => Err(io::ErrorKind::NotSeekable.into()),
            Sink::Null(null) => null.seek(to),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.writer().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}
