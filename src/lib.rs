//! nra: archives of large sets of files, read entry by entry.
#![warn(missing_docs)]

pub mod convert;
pub mod format;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
