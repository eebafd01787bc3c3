//! Which errors are damage.

use nra_core::error::Error;

/// Returns whether an error means that the bytes of the file are wrong, so that another way to the
/// entries may work.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Limit { .. })
}
