//! tar: reading v7, ustar, GNU, star and pax archives, and writing pax ones.
//!
//! [`Decoder`] takes the bytes of an archive in order and answers with entries and their content; it does no I/O, so that the
//! same code reads a file, a pipe and a compressed stream. Lengths are bounded before anything is kept.

mod archive;
mod attributes;
mod content;
mod decoder;
mod encode;
mod header;
mod indexer;
mod member;
mod open;
mod pax;
mod preface;
mod remarks;
mod sparse;
#[cfg(test)]
mod tests;

pub use archive::TarMembers;
pub use decoder::{Decoder, Event};
pub use encode::{END, Encoded, Loss, encode, encode_comment, padding};
pub use member::{Member, MemberKind};
pub use open::{probe, probe_compressed};

use header::{BLOCK, Header};

use nra_core::error::Result;
use nra_stream::Input;

/// Bytes that tell a tar archive, however many zero bytes it begins with.
pub const PROBE: usize = 64 << 10;

/// Says whether a file that begins with these bytes is a tar archive: its first header has the right checksum, or it is one without entries,
/// which has zero bytes alone. For what begins with 512 of them `first` is [`PROBE`] bytes long, or the whole file: many more are no archive.
pub fn detect(first: &[u8]) -> bool {
    let mut blocks = first.as_chunks::<BLOCK>().0.iter();
    match blocks.find(|block| block.iter().any(|&byte| byte != 0)) {
        Some(block) => Header::parse(block).is_ok(),
        None => first.len() >= BLOCK && first.len() < PROBE,
    }
}

/// Says whether a stream is a tar archive; what was looked at stays in `input`.
///
/// # Errors
///
/// Those of the stream.
pub fn detect_stream(input: &mut Input) -> Result<bool> {
    let first = input.peek(BLOCK)?;
    let zeros = first.len().min(BLOCK);
    let len = if first[..zeros].iter().all(|&byte| byte == 0) { PROBE } else { BLOCK };
    let first = input.peek(len)?;
    Ok(detect(&first[..first.len().min(len)]))
}
