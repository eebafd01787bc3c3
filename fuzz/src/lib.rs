//! Shared parts of the fuzz targets: initial archives, changes to them, and assertions that hold
//! for any bytes.

mod archives;
mod changes;
mod disk;
mod exercise;

pub use archives::{Base, Version, bases};
pub use changes::{Change, Hit, Mutation};
pub use disk::Disk;
pub use exercise::{MAX_CONTENT, check_archive, check_text, content_of, exercise, limited_options, open, verify};
