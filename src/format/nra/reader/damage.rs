//! What is damage, and no fault of the system or of the caller.

use nra_core::error::Error;

/// Says whether the bytes of the file are at fault, so that another way may lead to the entries.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Limit { .. })
}
