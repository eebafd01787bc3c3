//! Reasons for skipping a name, or storing it as something else.

use std::os::fd::OwnedFd;

use rustix::fs::{Access, AtFlags, accessat, statat};
use rustix::io::Errno;

use crate::pipeline::Stopped;
use crate::source::walk::{Facts, Handles, Name, NameKind, Tree, reason};

/// Why a name is skipped.
pub(super) enum Failed {
    /// Report this and continue.
    Told(String),
    /// The work was stopped.
    Stopped,
}

impl From<Stopped> for Failed {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Self {
        Self::Told(match error {
            Errno::NOENT => "vanished before it was read".to_owned(),
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO => CHANGED_TYPE.to_owned(),
            error => reason(error),
        })
    }
}

/// Returns why a symlink is stored instead of its target; `None` if it has a target.
pub(super) fn leads_nowhere(directory: &OwnedFd, name: &[u8]) -> Option<String> {
    let why = match statat(directory, name, AtFlags::empty()).err()? {
        Errno::NOENT => "it leads nowhere".to_owned(),
        Errno::LOOP => "it leads to itself".to_owned(),
        error => reason(error),
    };
    Some(format!("kept as a symlink: {why}"))
}

/// Returns whether a name, or its target, is the file of this device and inode.
pub(super) fn is_file(handles: &Handles, tree: &Tree, name: &Name, bytes: &[u8], file: (u64, u64)) -> bool {
    let status = handles.get(tree, name.directory).and_then(|directory| statat(&directory, bytes, AtFlags::empty()));
    name.kind == NameKind::File && status.is_ok_and(|status| Facts::new(&status).identity == file)
}

/// Returns why a name can't be packed, as far as that can be found without reading it.
pub(super) fn refusal(handles: &Handles, tree: &Tree, name: &Name, bytes: &[u8]) -> Option<String> {
    match name.kind {
        NameKind::Other => Some(SOCKET.to_owned()),
        NameKind::File => {
            let directory = handles.get(tree, name.directory).ok()?;
            accessat(&directory, bytes, Access::READ_OK, AtFlags::EACCESS).err().map(reason)
        }
        NameKind::Symlink | NameKind::Directory | NameKind::Fifo | NameKind::CharacterDevice | NameKind::BlockDevice => None,
    }
}

pub(super) const SOCKET: &str = "skipped: a socket";
/// Why the output is not an input.
pub(super) const OWN: &str = "skipped: the archive itself";
pub(super) const CHANGED_TYPE: &str = "skipped: it changed its type while it was read";
