//! Compression.

use std::io;

use lz4_flex::block::{compress_into, get_maximum_output_size};
use zstd_safe::{CCtx, CParameter};

use crate::codec::{Codec, Dictionary};
use crate::error::{Error, Result};

/// The method of a [`Compressor`]. zstd has levels 1 to 22 and negative ones, LZ4 has a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Codec to try. Incompressible content is stored with [`Codec::None`].
    pub codec: Codec,
    /// Level of the codec.
    pub level: i32,
}

impl Method {
    /// No compression.
    pub const NONE: Self = Self { codec: Codec::None, level: 0 };
    /// LZ4.
    pub const LZ4: Self = Self { codec: Codec::Lz4, level: 0 };

    /// Returns zstd at `level`.
    pub const fn zstd(level: i32) -> Self {
        Self { codec: Codec::Zstd, level }
    }
}

/// A reusable compression context of a thread.
///
/// The result depends only on method, content and dictionary, not on previous content.
pub struct Compressor {
    method: Method,
    /// Context without a dictionary, created on first use.
    plain: Option<CCtx<'static>>,
    /// Context with the dictionary of this identity.
    prepared: Option<(u64, CCtx<'static>)>,
}

impl Compressor {
    /// Creates a context.
    ///
    /// # Errors
    ///
    /// `Usage` if the codec does not have the level.
    pub fn new(method: Method) -> Result<Self> {
        if method.codec == Codec::Zstd {
            let levels = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
            if !levels.contains(&method.level) {
                let detail = format!("zstd has no level {} (levels: {} to {})", method.level, levels.start(), levels.end());
                return Err(Error::Usage { detail });
            }
        }
        Ok(Self { method, plain: None, prepared: None })
    }

    /// Returns the method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Compresses `raw` into `out`, with `dictionary` if given, and returns the codec. `out` is
    /// cleared first. If the content does not shrink, `out` equals `raw` and the codec is
    /// [`Codec::None`]. LZ4 ignores dictionaries.
    ///
    /// # Errors
    ///
    /// `Io` if there is no memory.
    pub fn compress(&mut self, raw: &[u8], dictionary: Option<&Dictionary>, out: &mut Vec<u8>) -> Result<Codec> {
        out.clear();
        if !raw.is_empty() {
            match self.method.codec {
                Codec::None => {}
                Codec::Zstd => {
                    let context = self.zstd(dictionary)?;
                    out.reserve(zstd_safe::compress_bound(raw.len()));
                    context.compress2(out, raw).map_err(fail)?;
                }
                Codec::Lz4 => {
                    out.resize(get_maximum_output_size(raw.len()), 0);
                    let len = compress_into(raw, out)
                        .map_err(|error| Error::io("compress", "content", io::Error::other(error.to_string())))?;
                    out.truncate(len);
                }
            }
            if self.method.codec != Codec::None && out.len() < raw.len() {
                return Ok(self.method.codec);
            }
        }
        out.clear();
        out.extend_from_slice(raw);
        Ok(Codec::None)
    }

    fn zstd(&mut self, dictionary: Option<&Dictionary>) -> Result<&mut CCtx<'static>> {
        let Some(dictionary) = dictionary else {
            if self.plain.is_none() {
                self.plain = Some(create(self.method)?);
            }
            return Ok(self.plain.as_mut().expect("made above"));
        };
        let held = self.prepared.as_ref().map(|(identity, _)| *identity);
        if held != Some(dictionary.identity()) {
            let mut context = match self.prepared.take() {
                Some((_, context)) => context,
                None => create(self.method)?,
            };
            // The dictionary is loaded, not referenced as a prepared one: the context's parameters
            // remain in effect, and the frame need not name the dictionary.
            context.load_dictionary(dictionary.as_bytes()).map_err(fail)?;
            self.prepared = Some((dictionary.identity(), context));
        }
        Ok(&mut self.prepared.as_mut().expect("made above").1)
    }
}

/// Creates a context whose frames omit information that is in the frame header or the index.
fn create(method: Method) -> Result<CCtx<'static>> {
    let mut context = CCtx::try_create().ok_or_else(|| Error::io("compress", "content", io::ErrorKind::OutOfMemory.into()))?;
    for parameter in [
        CParameter::CompressionLevel(method.level),
        CParameter::ContentSizeFlag(false),
        CParameter::ChecksumFlag(false),
        CParameter::DictIdFlag(false),
    ] {
        context.set_parameter(parameter).map_err(fail)?;
    }
    Ok(context)
}

fn fail(code: zstd_safe::ErrorCode) -> Error {
    Error::io("compress", "content", io::Error::other(zstd_safe::get_error_name(code)))
}
