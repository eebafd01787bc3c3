//! The engines that are known, how a container is detected, and which file extensions promise which container.

mod detect;
mod endings;
mod engines;
mod open;

pub use detect::{is_no_archive, is_nra, misnamed};
pub use endings::{Container, ENDINGS, Ending, foreign};
pub use engines::{ENGINES, Engine};
pub use open::{open, open_path, open_stream, settled};
