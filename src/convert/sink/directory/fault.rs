//! Why an entry was not made.

use rustix::io::Errno;

use crate::source::walk::reason;
use nra_format::error::Error;

/// Outcome of one entry that was not made.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nothing further can be done at all.
    Stop(Error),
    /// This entry is skipped; the others go on.
    Omit {
        /// Why, for a warning.
        message: String,
        /// Because the archive is damaged.
        damage: bool,
    },
    /// Something is there that shall stay.
    Keep,
}

impl Fault {
    /// Leaves the entry out.
    pub(super) fn omit(message: impl Into<String>) -> Self {
        Self::Omit { message: message.into(), damage: false }
    }

    /// Judges a refused system call: what will fail for every other entry too ends the work.
    pub(super) fn system(action: &'static str, path: &[u8], errno: Errno) -> Self {
        match errno {
            Errno::NOSPC
            | Errno::DQUOT
            | Errno::ROFS
            | Errno::IO
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::STALE
            | Errno::NOTCONN => Self::Stop(Error::io(action, path, errno.into())),
            _ => Self::omit(format!("cannot {action}: {}", reason(errno))),
        }
    }

    /// Judges an error of the archive: damage costs the entry, everything else ends the work.
    pub(super) fn reading(error: Error) -> Self {
        match error {
            Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. } | Error::Unsupported { .. } => {
                Self::Omit { message: error.to_string(), damage: true }
            }
            other => Self::Stop(other),
        }
    }
}
