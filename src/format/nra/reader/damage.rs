//! Which errors are damage.

use nra_core::error::{Error, Result};

/// Returns whether an error means that the bytes of the file are wrong, so that another way to the
/// entries may work.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Limit { .. })
}

/// Returns `None` instead of an error that is damage.
pub(crate) fn undamaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if is_damage(&error) => Ok(None),
        other => other.map(Some),
    }
}
