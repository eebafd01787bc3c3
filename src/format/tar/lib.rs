//! tar: reads v7, ustar, GNU, star and pax archives, and writes pax archives.
//!
//! [`Decoder`] is fed the bytes of an archive in order and returns entries and their content. It
//! does no I/O, so the same code reads files, pipes and compressed streams. Lengths are checked
//! against limits before anything is buffered.

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

pub use archive::TarBackend;
pub use decoder::{Decoder, Event};
pub use encode::{END, Encoded, Loss, encode, encode_comment, padding};
pub use member::{Member, MemberKind};
pub use open::{probe, probe_compressed};

use nra_core::error::Result;
use nra_core::path::Quoted;
use nra_stream::Input;

use header::{BLOCK, Header};

/// Bytes that suffice to detect a tar archive, even if it starts with zero bytes.
pub const PROBE: usize = 64 << 10;

/// Returns whether a file that starts with these bytes is a tar archive: the checksum of its first
/// header matches, or it has no entries and consists of zero bytes.
/// If the first 512 bytes are zero, `first` has [`PROBE`] bytes or the whole file. A file that
/// starts with more zero bytes is not an archive.
pub fn detect(first: &[u8]) -> bool {
    let mut blocks = first.as_chunks::<BLOCK>().0.iter();
    match blocks.find(|block| block.iter().any(|&byte| byte != 0)) {
        Some(block) => Header::parse(block).is_ok(),
        None => first.len() >= BLOCK && first.len() < PROBE,
    }
}

/// Returns whether a stream is a tar archive. The bytes stay in `input`.
pub fn detect_stream(input: &mut Input) -> Result<bool> {
    let first = input.peek(BLOCK)?;
    let zeros = first.len().min(BLOCK);
    let len = if first[..zeros].iter().all(|&byte| byte == 0) { PROBE } else { BLOCK };
    let first = input.peek(len)?;
    Ok(detect(&first[..first.len().min(len)]))
}

/// Returns the start of a name for a message.
fn shortened(name: &[u8]) -> Quoted<'_> {
    Quoted::new(&name[..name.len().min(200)])
}
