//! What the fuzz targets share: archives to begin with, changes to them, and what must hold whatever the bytes.

mod archives;
mod changes;
mod disk;
mod exercise;

pub use archives::{Base, Version, bases};
pub use changes::{Change, Hit};
pub use disk::Disk;
pub use exercise::{MAX_CONTENT, check_text, content_of, exercise, open, verify};
