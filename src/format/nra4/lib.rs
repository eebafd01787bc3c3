//! The engine for earlier NRA files: version 1 ("speed" and "size") and version 4.5 ("beta").
//!
//! A file has a header of 32 bytes, a manifest in MessagePack or JSON, and blocks. The header holds
//! the position of the manifest, the manifest those of the blocks. The manifest has no checksum.
//! Blocks have a CRC-32, and the chunks of 4.5 are identified by their BLAKE3 digest.
//!
//! Promises:
//!
//! - The manifest is parsed while it is read, into tables that are smaller than itself.
//! - Memory is bounded whatever the manifest claims:
//!   [`OpenOptions::index_bytes`](nra_core::archive::OpenOptions::index_bytes) limits the tables, and
//!   a decoded block has at most 128 MiB.
//! - Content is returned only after the checksum of its block and the digest of its chunk match.
//! - If several entries have the same name, the first is used, as in earlier versions.
//! - A file is accepted or rejected as earlier versions did.
//!
//! [`writer`] writes files that the tools of version 4.5 read.

mod block_codec;
mod block_reader;
mod chunk_hash;
mod cipher;
mod extra_metadata;
mod file_list;
mod header;
mod manifest;
mod manifest_builder;
mod messagepack;
mod reader;
mod records;
pub mod writer;

#[cfg(test)]
mod tests;

pub use reader::{Nra4, open, probe};
