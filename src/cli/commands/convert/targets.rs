//! Writing what is not an archive of NRA 5.

use std::num::NonZero;
use std::path::Path;

use super::{Args, DialectName, Report, open_input};
use crate::report::{CommandResult, Failure};
use nra_convert::earlier::{EarlierOptions, write_earlier};
use nra_convert::outgoing::{OutgoingOptions, OutgoingStats};
use nra_convert::pack::Destination;
use nra_convert::shardfile::{ShardOptions, write_shard};
use nra_convert::tarball::{TarOptions, write_tar};
use nra_convert::transfer::{Input, TransferOptions};
use nra_convert::zipfile::{DEFLATE_LEVEL, ZipCompression, ZipOptions, write_zip};
use nra_format::Error;
use nra_format::archive::Archive;
use nra_format::codec::Codec;
use nra_format::crypt::KeyBytes;
use nra_format::nra4;
use nra_format::progress::Monitor;
use nra_format::shard::{self, Dialect, Role};
use nra_format::stream::{Compression, Level};

/// Writes a tar archive.
pub(super) fn to_tar(
    args: &Args,
    input: Input,
    destination: Destination,
    compression: Option<Compression>,
    options: &TransferOptions,
    monitor: &dyn Monitor,
) -> CommandResult<Result<Report, Error>> {
    let with_level = |compression: Compression| {
        let level = args.compression.level_of(compression.name(), &Level::all(compression))?;
        let level = level.and_then(|level| Level::new(compression, level));
        Ok::<_, Failure>((compression, level.unwrap_or_else(|| Level::default_of(compression))))
    };
    let tar_options = TarOptions {
        compression: compression.map(with_level).transpose()?,
        threads: threads(options),
        memory_bytes: options.writer.memory_bytes,
        outgoing: outgoing(options),
    };
    Ok(write(input, options, |archive| write_tar(archive, destination, &tar_options, monitor)))
}

/// Writes a zip archive.
pub(super) fn to_zip(
    args: &Args,
    input: Input,
    destination: Destination,
    options: &TransferOptions,
    monitor: &dyn Monitor,
) -> CommandResult<Result<Report, Error>> {
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
    let zip_options = ZipOptions {
        compression,
        threads: threads(options),
        memory_bytes: options.writer.memory_bytes,
        outgoing: outgoing(options),
    };
    Ok(write(input, options, |archive| write_zip(archive, destination, &zip_options, monitor)))
}

/// Writes a Shard file.
pub(super) fn to_shard(
    args: &Args,
    role: Option<Role>,
    input: Input,
    destination: Destination,
    options: &TransferOptions,
    monitor: &dyn Monitor,
) -> CommandResult<Result<Report, Error>> {
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
    let shard_options = ShardOptions { dialect, role, alignment, compression, outgoing: outgoing(options) };
    Ok(write(input, options, |archive| write_shard(archive, destination, &shard_options, monitor)))
}

/// Opens the input, calls `work` to write its entries and returns the counts.
fn write(
    input: Input,
    options: &TransferOptions,
    work: impl FnOnce(&dyn Archive) -> Result<OutgoingStats, Error>,
) -> Result<Report, Error> {
    let archive = open_input(input, &options.open)?;
    let stats = work(&*archive)?;
    Ok(report(&*archive, stats))
}

fn threads(options: &TransferOptions) -> NonZero<usize> {
    NonZero::new(options.writer.threads).unwrap_or(NonZero::<usize>::MIN)
}

fn outgoing(options: &TransferOptions) -> OutgoingOptions {
    OutgoingOptions {
        message: options.writer.message.clone(),
        fidelity: options.fidelity.clone(),
        limits: options.limits,
        keep_going: options.keep_going,
        sync: options.sync,
    }
}

fn report(archive: &dyn Archive, stats: OutgoingStats) -> Report {
    Report {
        entries: stats.entries,
        files: stats.files,
        input_bytes: archive.info().archive_bytes,
        content_bytes: stats.content_bytes,
        archive_bytes: stats.archive_bytes,
        skipped: stats.left_out,
        ..Report::default()
    }
}

/// Title of an NRA 4.5 archive.
pub(super) struct Title {
    /// Message from the command line.
    message: String,
    /// Name of the output without its extension.
    stem: String,
}

pub(super) fn title(args: &Args, output: &Path) -> Title {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Title { message: args.message.clone(), stem }
}

/// Writes an NRA 4.5 archive.
pub(super) fn to_nra4(
    title: Title,
    key: Option<KeyBytes>,
    input: Input,
    destination: Destination,
    options: &TransferOptions,
    monitor: &dyn Monitor,
) -> CommandResult<Result<Report, Error>> {
    let method = options.writer.method;
    let codec = match method.codec {
        Codec::Zstd => nra4::writer::Codec::Zstd(method.level),
        Codec::Lz4 => nra4::writer::Codec::Lz4,
        Codec::None => return Err(Failure::usage("NRA 4.5 archives cannot be uncompressed (use zstd or lz4)")),
    };
    Ok(open_input(input, &options.open).and_then(|archive| {
        let info = archive.info();
        let given = [title.message, info.message.clone()].into_iter().find(|text| !text.is_empty());
        let name = given.unwrap_or(title.stem);
        let earlier = EarlierOptions { writer: nra4::writer::WriterOptions { name, codec, key }, outgoing: outgoing(options) };
        let stats = write_earlier(&*archive, destination, earlier, monitor)?;
        Ok(Report {
            entries: stats.entries,
            files: stats.files,
            input_bytes: info.archive_bytes,
            content_bytes: stats.content_bytes,
            archive_bytes: stats.archive_bytes,
            skipped: stats.left_out,
            ..Report::default()
        })
    }))
}
