//! Reasons for skipping a name, or storing it as something else.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use crate::pipeline::Stopped;
use crate::source::walk::reason;

/// Why a name is skipped.
pub(super) enum Failed {
    /// Report this reason and continue.
    Skip(String),
    /// The conversion was stopped.
    Stopped,
}

impl From<Stopped> for Failed {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Self {
        Self::Skip(match error {
            Errno::NOENT => "vanished before it was read".to_owned(),
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO => CHANGED_TYPE.to_owned(),
            error => reason(error),
        })
    }
}

/// Returns why a symlink is stored instead of its target; `None` if it has a target.
pub(super) fn broken_symlink(directory: &OwnedFd, name: &[u8]) -> Option<String> {
    let why = match statat(directory, name, AtFlags::empty()).err()? {
        Errno::NOENT => "its target does not exist".to_owned(),
        Errno::LOOP => "it refers to itself".to_owned(),
        error => reason(error),
    };
    Some(format!("kept as a symlink: {why}"))
}

pub(super) const SOCKET: &str = "skipped: a socket";
/// Why the output is skipped.
pub(super) const OWN: &str = "skipped: the archive itself";
pub(super) const CHANGED_TYPE: &str = "skipped: it changed its type while it was read";
