//! Selects the format of an output by its file name extension or by name, for the command line and
//! the browser.

use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::sink::{DEFLATE_LEVEL, NewArchive, Nra4Sink, NraSink, ShardSink, TarSink, ZipCompression, ZipSink};
use nra_format::archive::{EXTENSIONS, Extension, FORMATS, Format, foreign_extension};
use nra_format::codec::Codec;
use nra_format::container::{Container, Engine};
use nra_format::crypt::KeyBytes;
use nra_format::nra4;
use nra_format::shard::{self, Dialect, Role};
use nra_format::stream::{Compression, Level};

/// A format that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// NRA 5.
    Nra,
    /// NRA 4.5, for versions before 5.
    Nra4,
    /// A tar archive, compressed or not.
    Tar(Option<Compression>),
    /// A zip archive.
    Zip,
    /// A Shard file, of this profile if one is named.
    Shard(Option<Role>),
}

impl Target {
    /// Returns the format that is written under names with this extension, if there is one.
    fn of(extension: &Extension) -> Option<Self> {
        match extension.container {
            _ if !extension.written => None,
            Container::Nra5 => Some(Self::Nra),
            Container::Nra4 => Some(Self::Nra4),
            Container::Tar(compression) => Some(Self::Tar(compression)),
            Container::Zip => Some(Self::Zip),
            // `.shard` names no profile.
            Container::Shard(role) => Some(Self::Shard(Some(role).filter(|role| *role != Role::default()))),
            Container::Nra1 | Container::SevenZ | Container::Compressed(_) => None,
        }
    }

    /// Returns the target of an extension, with or without its dot.
    pub fn named(word: &str) -> Option<Self> {
        Self::of(Extension::named(word)?)
    }

    /// Returns the format that the registry has for this target, with its capabilities.
    pub fn format(self) -> &'static Format {
        let engine = match self {
            Self::Nra => Engine::Nra5,
            Self::Nra4 => Engine::Nra4,
            Self::Tar(None) => Engine::Tar,
            Self::Tar(Some(compression)) => Engine::Compressed(compression),
            Self::Zip => Engine::Zip,
            Self::Shard(_) => Engine::Shard,
        };
        FORMATS.iter().find(|format| format.engine == engine).expect("every format that is written is registered")
    }

    /// Returns this format with the usual settings. `output` gives an archive without a message its
    /// name where it needs one.
    pub fn new_archive(self, output: &Path) -> NewArchive {
        self.new_archive_with(output, Request::default()).expect("the usual settings are supported")
    }

    /// Returns this format with these settings. `output` gives an archive without a message its
    /// name where it needs one.
    ///
    /// # Errors
    ///
    /// If the format does not support a setting.
    pub fn new_archive_with(self, output: &Path, request: Request) -> Result<NewArchive, Unsupported> {
        let Request { nra, codec, level, align, dialect, key } = request;
        Ok(match self {
            Self::Nra => NewArchive::Nra(nra),
            Self::Nra4 => {
                let codec = match nra.writer.method.codec {
                    Codec::Zstd => nra4::writer::Codec::Zstd(nra.writer.method.level),
                    Codec::Lz4 => nra4::writer::Codec::Lz4,
                    Codec::None => return Err(Unsupported::Codec(self, Codec::None)),
                };
                let name = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                NewArchive::Nra4(Nra4Sink { name, codec, key })
            }
            Self::Tar(compression) => {
                let with_level = |compression: Compression| {
                    let level = level.within(compression.name(), &Level::all(compression))?;
                    let level = level.and_then(|level| Level::new(compression, level));
                    Ok((compression, level.unwrap_or_else(|| Level::default_of(compression))))
                };
                NewArchive::Tar(TarSink { compression: compression.map(with_level).transpose()? })
            }
            Self::Zip => {
                let compression = match codec {
                    None => {
                        let level = level.within("deflate", &(1..=9))?;
                        ZipCompression::Deflate(level.map_or(DEFLATE_LEVEL, i32::unsigned_abs))
                    }
                    Some(Codec::Zstd) => ZipCompression::Zstd(level.within("zstd", &(1..=22))?.unwrap_or(3)),
                    Some(Codec::None) => ZipCompression::Stored,
                    Some(Codec::Lz4) => return Err(Unsupported::Codec(self, Codec::Lz4)),
                };
                NewArchive::Zip(ZipSink { compression })
            }
            Self::Shard(role) => {
                let compression = codec.map(|codec| match codec {
                    Codec::None => None,
                    Codec::Zstd => Some(shard::Compression::Zstd),
                    Codec::Lz4 => Some(shard::Compression::Lz4),
                });
                let known = |align: u32| shard::ALIGNMENTS.iter().copied().find(|known| u32::from(*known) == align);
                let alignment = align.map(|align| known(align).ok_or(Unsupported::Alignment(align))).transpose()?;
                NewArchive::Shard(ShardSink { dialect, role, alignment, compression })
            }
        })
    }
}

/// Settings of an output, whatever its format. `None` is the usual setting of the format.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// How an .nra archive is written. NRA 4.5 uses its codec and level.
    pub nra: NraSink,
    /// Codec of zip members and Shard entries.
    pub codec: Option<Codec>,
    /// Level of their codec, and of a compressed tar archive.
    pub level: LevelRequest,
    /// Alignment of Shard entries, bytes.
    pub align: Option<u32>,
    /// Implementation whose Shard files are imitated.
    pub dialect: Option<Dialect>,
    /// Encrypts an archive of NRA 4.5.
    pub key: Option<KeyBytes>,
}

/// A compression level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LevelRequest {
    /// The usual level of the codec.
    #[default]
    Usual,
    /// This level.
    Exact(i32),
    /// The level of the codec that is closest to this one.
    Closest(i32),
}

impl LevelRequest {
    /// Returns the level for a codec that has these levels; `None` for the usual one.
    ///
    /// # Errors
    ///
    /// If the codec does not have the exact level.
    pub fn within(self, codec: &'static str, levels: &RangeInclusive<i32>) -> Result<Option<i32>, Unsupported> {
        match self {
            Self::Usual => Ok(None),
            Self::Exact(level) if !levels.contains(&level) => Err(Unsupported::Level { codec, level, levels: levels.clone() }),
            Self::Exact(level) => Ok(Some(level)),
            Self::Closest(level) => Ok(Some(level.clamp(*levels.start(), *levels.end()))),
        }
    }
}

/// A setting that a format does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// The codec does not have this level.
    Level {
        /// Name of the codec.
        codec: &'static str,
        /// The level.
        level: i32,
        /// The levels that it has.
        levels: RangeInclusive<i32>,
    },
    /// The format does not support this codec.
    Codec(Target, Codec),
    /// Shard files do not support this alignment.
    Alignment(u32),
}

/// Returns the extensions of all formats that are written.
pub fn extensions() -> impl Iterator<Item = &'static str> {
    EXTENSIONS.iter().filter(|extension| Target::of(extension).is_some()).map(|extension| extension.text)
}

/// Returns the target for the extension of the output; `None` if it is unknown, or its format is
/// not written.
pub fn target_of(output: &Path) -> Option<Target> {
    Target::of(Extension::of(output.as_os_str().as_bytes())?)
}

/// Returns the extension of the output if its format is not written.
pub fn unsupported(output: &Path) -> Option<&'static str> {
    let name = output.as_os_str().as_bytes();
    match Extension::of(name) {
        Some(extension) => Some(extension.text).filter(|_| Target::of(extension).is_none()),
        None => foreign_extension(name),
    }
}

/// Returns the default output next to the input: `.nra` replaces its extension, after the number of
/// an earlier `commit`.
pub fn convert_output(input: &Path, commit: Option<u64>) -> PathBuf {
    let name = input.file_name().unwrap_or_default().as_bytes();
    // The input must not be replaced.
    let extension = Extension::of(name).filter(|extension| commit.is_some() || extension.container != Container::Nra5);
    let mut stem = extension.map_or(name, |extension| extension.stem(name)).to_vec();
    if let Some(number) = commit {
        stem.extend_from_slice(format!("@{number}").as_bytes());
    }
    stem.extend_from_slice(b".nra");
    input.with_file_name(std::ffi::OsString::from_vec(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_output_replaces_extension() {
        for (input, expected) in [
            ("a/in.tar.gz", "a/in.nra"),
            ("in.TGZ", "in.nra"),
            ("in.tar", "in.nra"),
            ("in.TAR.ZST", "in.nra"),
            ("in.txt.gz", "in.txt.nra"),
            ("in", "in.nra"),
            ("v1.2", "v1.2.nra"),
            (".gz", ".gz.nra"),
            ("x.zip", "x.nra"),
            ("x.nra4", "x.nra"),
            ("x.7z", "x.nra"),
            ("x.shard", "x.nra"),
            ("x.Mosh", "x.nra"),
            ("x.tar.lzma", "x.nra"),
            ("x.tlz", "x.nra"),
            ("x.jar", "x.nra"),
            ("x.nra", "x.nra.nra"),
        ] {
            assert_eq!(convert_output(Path::new(input), None), Path::new(expected));
        }
        assert_eq!(convert_output(Path::new("a/x.nra"), Some(3)), Path::new("a/x@3.nra"));
        assert_eq!(convert_output(Path::new("x"), Some(3)), Path::new("x@3.nra"));
    }

    #[test]
    fn extension_selects_target() {
        assert_eq!(target_of(Path::new("a.TAR.GZ")), Some(Target::Tar(Some(Compression::Gzip))));
        assert_eq!(target_of(Path::new("a.nra")), Some(Target::Nra));
        assert_eq!(target_of(Path::new(".nra")), None);
        assert_eq!(target_of(Path::new("a.taz")), Some(Target::Tar(Some(Compression::Gzip))));
        for other in ["a.rar", "a.7z", "a.gz", "a.tar.lzma", "a.jar"] {
            assert_eq!(target_of(Path::new(other)), None, "{other}");
            assert!(unsupported(Path::new(other)).is_some(), "{other}");
        }
        for other in ["a.nra", "a", ".7z", "a.data", "a.tar.gz"] {
            assert_eq!(unsupported(Path::new(other)), None, "{other}");
        }
        assert_eq!(Target::named("CSHARD"), Some(Target::Shard(Some(Role::COLUMNS))));
        assert_eq!(Target::named("shard"), Some(Target::Shard(None)));
        assert!(extensions().all(|extension| Target::named(extension).is_some()));
    }
}
