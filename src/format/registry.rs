//! The registry: detects the format of a file, knows file name extensions and what nra can do with each format, and opens archives.

mod detect;
mod extensions;
mod formats;
mod open;

pub use detect::{detect, detect_source, detect_stream, extension_mismatch, is_no_archive};
pub use extensions::{EXTENSIONS, Extension, foreign_extension};
pub use formats::{FORMATS, Format};
pub use open::{open, open_path, open_settled, open_stream};
