//! Content in the user's pager. It goes through a pipe: nothing of an archive is left in a file.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::format::archive::{Access, Archive, Part};
use crate::format::entry::Entry;
use crate::format::error::Error;

/// Zero bytes written at once for a hole.
const ZEROS: [u8; 4096] = [0; 4096];

/// Runs `$PAGER`, or `less`, on the content of a file and waits for it.
///
/// # Errors
///
/// When there is no such program, or the content does not read.
pub fn show(archive: &dyn Archive, entry: &Entry) -> io::Result<()> {
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty()).unwrap_or_else(|| "less".to_owned());
    // The variable is a command line, not a path.
    let mut child = Command::new("sh").arg("-c").arg(&pager).stdin(Stdio::piped()).env("LESSSECURE", "1").spawn()?;
    let mut pipe = child.stdin.take().expect("asked for above");
    let mut sent = Ok(());
    let read = archive.with_content(entry, Access::Random, &mut |part| {
        sent = write(&mut pipe, part);
        if sent.is_ok() { Ok(()) } else { Err(Error::Cancelled) }
    });
    drop(pipe);
    let status = child.wait()?;
    match (sent, read) {
        // The user has seen enough.
        (Err(error), _) if error.kind() == io::ErrorKind::BrokenPipe && status.success() => Ok(()),
        (Err(error), _) => Err(error),
        (Ok(()), Err(error)) => Err(io::Error::other(error.to_string())),
        (Ok(()), Ok(())) if !status.success() => Err(io::Error::other(format!("{pager} ended with {status}"))),
        (Ok(()), Ok(())) => Ok(()),
    }
}

fn write(pipe: &mut impl Write, part: Part<'_>) -> io::Result<()> {
    match part {
        Part::Data(bytes) => pipe.write_all(bytes),
        Part::Hole(mut len) => {
            while len > 0 {
                let step = usize::try_from(len).unwrap_or(ZEROS.len()).min(ZEROS.len());
                pipe.write_all(&ZEROS[..step])?;
                len -= step as u64;
            }
            Ok(())
        }
    }
}
