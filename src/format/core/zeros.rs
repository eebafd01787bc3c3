//! Expands holes to zero bytes, for targets without holes.

use crate::archive::Part;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Passes `len` zero bytes to `sink`, run by run.
///
/// # Errors
///
/// Those of `sink`.
pub fn each_zero<E>(mut len: u64, mut sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    while len > 0 {
        let run = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
        sink(&ZEROS[..run])?;
        len -= run as u64;
    }
    Ok(())
}

/// Passes a part of content to `sink`, with holes as zero bytes.
///
/// # Errors
///
/// Those of `sink`.
pub fn each_run<E>(part: Part<'_>, sink: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    match part {
        Part::Data(bytes) => sink(bytes),
        Part::Hole(len) => each_zero(len, sink),
    }
}
