//! Changes of the archive: pending, or being written.

use crate::state::jobs::JobId;
use crate::state::pending::PendingChanges;

/// Changes of the archive that are pending or being written.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Pending changes.
    pub pending: PendingChanges,
    /// Changes that are being written. Until their commit is shown no others can be made: numbers would mean entries of the commit before.
    pub writing: Option<Writing>,
}

/// Plans that have been handed over to a job which writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writing {
    /// The job.
    pub job: JobId,
    /// The plans. They are back when it fails, and tell where everything is once it has written them.
    pub plans: PendingChanges,
    /// They are in the archive; the commit that has them is still to be shown.
    pub done: bool,
}
