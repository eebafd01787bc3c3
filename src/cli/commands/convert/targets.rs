//! Settings of output formats other than NRA 5.

use std::path::Path;

use super::{Args, DialectName};
use crate::report::{CommandResult, Failure};
use nra_convert::{DEFLATE_LEVEL, Format, Nra4Sink, ShardSink, TarSink, ZipCompression, ZipSink};
use nra_format::codec::Codec;
use nra_format::crypt::KeyBytes;
use nra_format::nra::writer::WriterOptions;
use nra_format::nra4;
use nra_format::shard::{self, Dialect, Role};
use nra_format::stream::{Compression, Level};

/// Returns the settings of a tar archive.
pub(super) fn to_tar(args: &Args, compression: Option<Compression>) -> CommandResult<Format> {
    let with_level = |compression: Compression| {
        let level = args.compression.level_of(compression.name(), &Level::all(compression))?;
        let level = level.and_then(|level| Level::new(compression, level));
        Ok::<_, Failure>((compression, level.unwrap_or_else(|| Level::default_of(compression))))
    };
    Ok(Format::Tar(TarSink { compression: compression.map(with_level).transpose()? }))
}

/// Returns the settings of a zip archive.
pub(super) fn to_zip(args: &Args) -> CommandResult<Format> {
    let compression = match args.compression.codec() {
        None => {
            let level = args.compression.level_of("deflate", &(1..=9))?;
            ZipCompression::Deflate(level.map_or(DEFLATE_LEVEL, i32::unsigned_abs))
        }
        Some(Codec::Zstd) => ZipCompression::Zstd(args.compression.level_of("zstd", &(1..=22))?.unwrap_or(3)),
        Some(Codec::None) => ZipCompression::Stored,
        Some(Codec::Lz4) => {
            return Err(Failure::usage("zip archives do not support lz4").hint("omit --codec for deflate, or use --codec zstd"));
        }
    };
    Ok(Format::Zip(ZipSink { compression }))
}

/// Returns the settings of a Shard file.
pub(super) fn to_shard(args: &Args, role: Option<Role>) -> CommandResult<Format> {
    let compression = args.compression.codec().map(|codec| match codec {
        Codec::None => None,
        Codec::Zstd => Some(shard::Compression::Zstd),
        Codec::Lz4 => Some(shard::Compression::Lz4),
    });
    let alignment = match args.compression.align {
        None => None,
        Some(align) => match shard::ALIGNMENTS.iter().find(|known| u32::from(**known) == align) {
            Some(known) => Some(*known),
            None => return Err(Failure::usage(format!("--align {align} is not supported for Shard files (use 16, 32 or 64)"))),
        },
    };
    let dialect = args.dialect.map(|dialect| match dialect {
        DialectName::Go => Dialect::Go,
        DialectName::Python => Dialect::Python,
    });
    Ok(Format::Shard(ShardSink { dialect, role, alignment, compression }))
}

/// Returns the settings of an NRA 4.5 archive, which is named after `output` if it has no message.
pub(super) fn to_nra4(output: &Path, key: Option<KeyBytes>, writer: &WriterOptions) -> CommandResult<Format> {
    let codec = match writer.method.codec {
        Codec::Zstd => nra4::writer::Codec::Zstd(writer.method.level),
        Codec::Lz4 => nra4::writer::Codec::Lz4,
        Codec::None => return Err(Failure::usage("NRA 4.5 archives cannot be uncompressed (use zstd or lz4)")),
    };
    let name = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Format::Nra4(Nra4Sink { name, codec, key }))
}
