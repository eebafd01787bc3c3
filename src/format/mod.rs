//! What an archive is: entries, paths, limits, and the engines that read and write containers.
//!
//! Nothing here prints, knows a terminal or a command line.

pub mod archive;
pub mod checksum;
pub mod chunker;
pub mod codec;
pub mod crypt;
pub mod digest;
pub mod entry;
pub mod error;
pub mod inside;
pub mod limits;
pub(crate) mod links;
pub mod names;
pub mod nra;
pub mod nra4;
pub mod path;
pub mod progress;
pub mod sevenz;
pub mod shard;
pub mod source;
pub mod stream;
pub mod table;
pub mod tar;
pub mod top;
pub(crate) mod wire;
pub mod zeros;
pub mod zip;

pub use error::{Error, Result};
