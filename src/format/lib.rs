//! The registry of formats, and access to the engines that read and write them.
//!
//! Nothing in this crate prints or depends on a terminal or a command line.

pub mod archive;
pub mod describe;
mod registry;

#[cfg(any(test, feature = "testing"))]
pub use nra_core::testing;
pub use nra_core::{Error, Result};
pub use nra_core::{
    checksum, chunker, codec, container, crypt, digest, entry, error, limits, links, names, path, progress, source, table, top,
    wire, worker_pool, zeros,
};
pub use {
    nra_nra4 as nra4, nra_nra5 as nra, nra_sevenz as sevenz, nra_shard as shard, nra_stream as stream, nra_tar as tar,
    nra_zip as zip,
};
