//! The engines that are known, how a container is detected, and which file extensions promise which container.

mod detect;
mod engines;
mod extensions;
mod open;

pub use detect::{is_no_archive, is_nra, misnamed};
pub use engines::{ENGINES, Engine};
pub use extensions::{Container, EXTENSIONS, Extension, foreign};
pub use open::{open, open_path, open_stream, settled};
