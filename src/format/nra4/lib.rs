//! The engine for earlier NRA files: version 1 ("speed" and "size") and version 4.5 ("beta").
//!
//! A file is a header of 32 bytes, a manifest in MessagePack or JSON wherever the header says, and blocks wherever the manifest says. There is
//! no checksum over the manifest; blocks have CRC-32, and the chunks of 4.5 are named by their BLAKE3 digest.
//!
//! Promises: the manifest is read once, piece by piece, and turned into tables that are smaller than itself; whatever it claims, memory is bounded by
//! [`OpenOptions::index_bytes`](nra_core::archive::OpenOptions::index_bytes) for the tables and by 128 MiB for a decoded block; content is handed out after the checksum of its
//! block and the digest of its chunk were compared. Of entries of the same name the first one is served, as earlier versions did. What
//! earlier versions accepted is accepted, what they refused is refused. [`writer`] makes files that they read.

mod block;
mod blocks;
mod building;
mod cipher;
mod extra;
mod hash;
mod header;
mod manifest;
mod names;
mod packed;
mod reader;
mod recent;
mod records;
pub mod writer;

#[cfg(test)]
mod tests;

pub use reader::probe;
pub use reader::{Nra4, open};
