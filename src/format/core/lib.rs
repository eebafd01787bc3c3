//! The base of all nra engines: entries, the reading contract of archives, errors, limits, monitors, byte sources, codecs and keys.
//!
//! This crate reads no container. An engine implements [`archive::Archive`], depends on this crate, and does not depend on other engines.

pub mod archive;
pub mod cache;
pub mod checksum;
pub mod chunker;
pub mod codec;
pub mod container;
pub mod crypt;
pub mod description;
pub mod digest;
pub mod entry;
pub mod error;
pub mod layout;
pub mod limits;
pub mod links;
pub mod names;
pub mod path;
pub mod progress;
pub mod source;
pub mod table;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod top;
pub mod wire;
pub mod worker_pool;
pub mod zeros;

pub use error::{Error, Result};
