//! Changes of the archive: pending, or being written.

use crate::state::{JobId, PendingChanges};

/// Changes of the archive that are pending or being written.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub pending: PendingChanges,
    /// Changes that are being written. No others can be made until their commit is shown, because
    /// entry numbers belong to a commit.
    pub writing: Option<Writing>,
}

/// Changes that a job is writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writing {
    pub job: JobId,
    /// The changes: pending again if the job fails, and needed to map paths to the new commit.
    pub changes: PendingChanges,
    /// They are written, but their commit is not shown yet.
    pub done: bool,
}
