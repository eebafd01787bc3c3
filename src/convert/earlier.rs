//! Any archive to one of NRA 4.5, for tools of that version.

use std::io::{self, Seek, SeekFrom};

use crate::convert::loss::{tell_secrecy, tell_state};
use crate::convert::outgoing::OutgoingOptions;
use crate::convert::output::{Destination, Output};
use crate::convert::transfer::{Ledger, Narrower};
use crate::format::archive::Archive;
use crate::format::entry::Entry;
use crate::format::error::{Error, Result};
use crate::format::nra4::writer::{WriterOptions, WriterStats, write_archive};
use crate::format::progress::{Monitor, Warning};

/// How an archive of NRA 4.5 is written.
pub struct EarlierOptions {
    /// Name, compression, key.
    pub writer: WriterOptions,
    /// What is kept, and how far.
    pub outgoing: OutgoingOptions,
}

/// Writes all entries of `archive` into a new archive of NRA 4.5. What tools of that version will not see is kept, and told entry by entry.
///
/// # Errors
///
/// `Usage` for a destination that can only be written in order; otherwise as [`write_archive`]. Then nothing is left under the name of the
/// destination.
pub fn write_earlier(
    archive: &dyn Archive,
    destination: Destination,
    options: EarlierOptions,
    monitor: &dyn Monitor,
) -> Result<WriterStats> {
    let mut output = Output::create(destination)?;
    if output.seek(SeekFrom::Start(0)).is_err() {
        let detail = "an archive of NRA 4.5 needs a file: its first bytes are written last".into();
        return Err(Error::Usage { detail });
    }
    let name = output.name().to_vec();
    let named = |error: Error| match error {
        Error::Io { action: "write", source, .. } => Error::io("write", &name, source),
        other => other,
    };
    tell_secrecy(archive, options.writer.key.is_some(), monitor);
    // Those of the root tell of a directory that the other side has no record of either.
    if archive.info().attributes.iter().any(|attribute| !attribute.is_of_root()) {
        let message = "the attributes of the archive can't be kept".into();
        monitor.warn(Warning { path: Vec::new(), message, degraded: true, damage: false });
    }
    let EarlierOptions { writer, outgoing } = options;
    let mut narrower = Narrower::new(&outgoing.fidelity);
    let ledger = Ledger::new(outgoing.limits);
    let archive_bytes = archive.info().archive_bytes;
    let mut prepare = |entry: &mut Entry| {
        narrower.narrow(entry);
        ledger.entry()?;
        ledger.content(entry.size, archive_bytes)
    };
    let buffered = io::BufWriter::with_capacity(1 << 20, output);
    let (buffered, stats) =
        write_archive(archive, buffered, writer, outgoing.keep_going, &mut prepare, monitor).map_err(named)?;
    let output = buffered.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))?;
    tell_state(archive, outgoing.keep_going, monitor)?;
    monitor.check()?;
    output.publish(outgoing.sync)?;
    Ok(stats)
}
