//! Makes new directory entries durable.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// Syncs a directory, so that new names in it survive a crash, if the system supports it.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    let opened = match File::open(directory) {
        // A directory can be writable but not readable.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        opened => opened?,
    };
    match opened.sync_all() {
        // Some file systems sync files only.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTSUP)) => Ok(()),
        done => done,
    }
}
