//! Why an entry was not created.

use rustix::io::Errno;

use crate::source::walk::reason;
use nra_format::error::Error;

/// Why an entry was not created.
#[derive(Debug)]
pub(super) enum Fault {
    /// The extraction can't continue.
    Stop(Error),
    /// This entry is skipped.
    Skip {
        /// Why, for a warning.
        message: String,
        /// The archive is damaged.
        damage: bool,
    },
    /// An existing file stays.
    Keep,
}

impl Fault {
    /// Skips the entry.
    pub(super) fn skip(message: impl Into<String>) -> Self {
        Self::Skip { message: message.into(), damage: false }
    }

    /// Classifies a system error. It ends the extraction if it affects all entries.
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
            _ => Self::skip(format!("cannot {action}: {}", reason(errno))),
        }
    }

    /// Classifies an error of reading the archive. Damage skips the entry; other errors end the
    /// extraction.
    pub(super) fn reading(error: Error) -> Self {
        match error {
            Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. } | Error::Unsupported { .. } => {
                Self::Skip { message: error.to_string(), damage: true }
            }
            other => Self::Stop(other),
        }
    }
}
