//! tar: reading v7, ustar, GNU, star and pax archives, and writing pax ones.
//!
//! [`Decoder`] takes the bytes of an archive in order and answers with entries and their content; it does no I/O, so that the
//! same code reads a file, a pipe and a compressed stream. Lengths are bounded before anything is kept.

mod archive;
mod decoder;
mod encode;
mod header;
mod pax;
mod sparse;
#[cfg(test)]
mod tests;

pub use archive::{TarMembers, probe, probe_compressed};
pub use decoder::{Decoder, Event, Member, MemberKind};
pub use encode::{END, Encoded, Loss, encode, encode_comment, padding};

use header::{BLOCK, Header};

/// Says whether a file that begins with these bytes (512 are enough) is a tar archive: its first header has the right checksum,
/// or it begins with the zero bytes that end an empty one.
pub fn detect(first: &[u8]) -> bool {
    first.first_chunk::<BLOCK>().is_some_and(|block| block.iter().all(|&byte| byte == 0) || Header::parse(block).is_ok())
}
