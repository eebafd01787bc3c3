//! Compression by stored ID. Output is always limited by the declared raw length.
//!
//! Spec: nra.md, section 6, table `codecs`.

mod classify;
mod compress;
mod decompress;
mod dictionary;
mod prefix;
mod stream;

pub use classify::looks_incompressible;
pub use compress::{Compressor, Method};
pub use decompress::decompress;
pub use dictionary::Dictionary;
pub use prefix::{PREFIX_SLACK, decompress_prefix};
pub use stream::StreamCompressor;

/// The compression of a payload. The numbers are those of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Codec {
    /// No compression.
    #[default]
    None = 0,
    /// One zstd frame.
    Zstd = 1,
    /// One LZ4 block.
    Lz4 = 2,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 3] = [Self::None, Self::Zstd, Self::Lz4];

    /// Returns the codec with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&codec| codec as u8 == number)
    }

    /// Returns the name used in the spec.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }
}
