//! Cuts large files where their content says so, so that equal runs of bytes give equal pieces.
//!
//! FastCDC with fixed parameters. Where the cuts lie is not part of the format, but deduplication against an archive works only
//! with the same ones: a test holds them fast.

use fastcdc::v2020::FastCDC;

/// Files up to this many bytes are one piece.
pub const WHOLE_MAX: usize = 128 << 10;
/// Shortest piece that is cut, bytes (the last one of a file may be shorter).
pub const MIN_PIECE: usize = 16 << 10;
/// Length of pieces that is aimed at, bytes.
pub const AVERAGE_PIECE: usize = 64 << 10;
/// Longest piece, bytes.
pub const MAX_PIECE: usize = 256 << 10;

/// Returns the length of the piece at the front of `bytes`, or `None` if more bytes are needed to tell.
///
/// `last`: the file ends with `bytes`. Without it, [`MAX_PIECE`] bytes are always enough. `bytes` must not be empty.
pub fn next_piece(bytes: &[u8], last: bool) -> Option<usize> {
    if bytes.len() < MAX_PIECE && !last {
        return None;
    }
    let window = &bytes[..bytes.len().min(MAX_PIECE)];
    let (_, end) = FastCDC::new(window, MIN_PIECE, AVERAGE_PIECE, MAX_PIECE).cut(0, window.len());
    Some(end)
}
