//! Compression by stored id, always bounded by the declared raw length.
//!
//! Spec: nra.md, table `codecs`.

mod classify;

pub use classify::looks_incompressible;

use crate::format::error::Result;

/// How a payload is compressed. The numbers are those of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    None = 0,
    /// One zstd frame.
    Zstd = 1,
    /// One LZ4 block.
    Lz4 = 2,
}

/// What a [`Compressor`] does. (Levels: zstd 1 to 22 and negative ones; LZ4 has one.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Codec tried first; what it does not shrink is stored with [`Codec::None`].
    pub codec: Codec,
    /// Level of the codec.
    pub level: i32,
}

/// Reusable compression context of one thread.
pub struct Compressor {}

impl Compressor {
    /// Creates a context.
    pub fn new(_method: Method) -> Result<Self> {
        todo!()
    }
    /// Compresses `raw` into `out` (cleared first; appended up to `compress_bound`), with `dictionary` if given, and returns the codec used:
    /// [`Codec::None`] with `out` equal to `raw` when compression does not shrink it.
    pub fn compress(&mut self, _raw: &[u8], _dictionary: Option<&Dictionary>, _out: &mut Vec<u8>) -> Result<Codec> {
        todo!()
    }
}

/// A zstd dictionary, prepared for both directions.
pub struct Dictionary {}

/// Decompresses `stored` to exactly `raw_len` bytes; refuses anything else. Contexts are kept per thread.
///
/// # Errors
///
/// A sentence (what was expected, what was found) that the caller completes with structure and offset.
pub fn decompress(
    _codec: Codec,
    _stored: &[u8],
    _raw_len: usize,
    _dictionary: Option<&Dictionary>,
) -> std::result::Result<Vec<u8>, String> {
    todo!()
}
