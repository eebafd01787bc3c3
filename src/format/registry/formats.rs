//! The table of formats: how each is detected and opened, and what nra can do with it.

use std::sync::Arc;

use crate::registry::Extension;
use nra_core::archive::{Archive, OpenOptions};
use nra_core::container::{Compression, Engine};
use nra_core::error::Result;
use nra_core::source::ReadAt;
use nra_nra5::reader::NraReader;
use nra_nra5::superblock::{MAGIC, VERSION};
use nra_sevenz::SevenzBackend;
use nra_shard::{Shard, ShardBackend};
use nra_zip::ZipBackend;

/// Opens a source if it has this format; `None` if it has not, an error if it has and cannot be opened.
pub(super) type Probe = fn(&Arc<dyn ReadAt>, &OpenOptions) -> Result<Option<Box<dyn Archive>>>;

/// A format and what nra can do with it.
#[derive(Debug)]
pub struct Format {
    /// The engine that reads it.
    pub engine: Engine,
    /// Usual file name extension, with the dot.
    pub extension: &'static str,
    /// How the format is detected: the first bytes in hex, or a description.
    pub signature: &'static str,
    /// New archives can be written.
    pub write: bool,
    /// Entries can be added to archives.
    pub append: bool,
    /// New archives can be written to a pipe.
    pub stream: bool,
    /// New archives can be encrypted.
    pub encrypt: bool,
    /// Returns whether a file that starts with these bytes has this format.
    pub(super) begins: fn(&[u8]) -> bool,
    pub(super) probe: Probe,
}

impl Format {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.engine.name()
    }

    /// Returns the format of this name or file name extension ([`EXTENSIONS`](super::EXTENSIONS)).
    pub fn named(word: &str) -> Option<&'static Self> {
        let word = word.trim();
        let extension = Extension::named(word);
        FORMATS.iter().find(|format| match extension {
            Some(extension) => format.engine == extension.container.engine(),
            None => format.name().eq_ignore_ascii_case(word),
        })
    }
}

/// A compressed stream that contains a tar archive, which is what nra writes, or one file.
macro_rules! compressed {
    ($compression:ident, $signature:literal, write_and_stream: $write:literal) => {
        Format {
            engine: Engine::Compressed(Compression::$compression),
            extension: Compression::$compression.extension(),
            signature: $signature,
            write: $write,
            append: false,
            stream: $write,
            encrypt: false,
            begins: |first| nra_stream::begins(Compression::$compression, first),
            probe: |source, options| Ok(boxed(nra_tar::probe_compressed(Compression::$compression, source, options)?)),
        }
    };
}

/// All formats that can be read, in the order of detection: reliable signatures come first.
pub static FORMATS: &[Format] = &[
    Format {
        engine: Engine::Nra5,
        extension: ".nra",
        signature: "4e524100 0500",
        write: true,
        append: true,
        stream: true,
        encrypt: true,
        begins: |first| nra_version(first) == Some(VERSION),
        probe: |source, options| Ok(boxed(NraReader::open_if_nra(Arc::clone(source), options)?)),
    },
    Format {
        engine: Engine::Nra4,
        extension: ".nra",
        signature: "4e524100 0200",
        write: true,
        append: false,
        stream: false,
        encrypt: true,
        begins: |first| matches!(nra_version(first), Some(1 | 2)),
        probe: |source, options| Ok(boxed(nra_nra4::probe(source, options)?)),
    },
    Format {
        engine: Engine::Shard,
        extension: ".shard",
        signature: "53485244 02",
        write: true,
        append: false,
        stream: false,
        encrypt: false,
        begins: Shard::has_magic,
        probe: |source, options| Ok(boxed(ShardBackend::probe(source, options)?)),
    },
    compressed!(Gzip, "1f8b08", write_and_stream: true),
    compressed!(Zstd, "28b52ffd", write_and_stream: true),
    compressed!(Xz, "fd377a585a00", write_and_stream: true),
    compressed!(Bzip2, "425a68", write_and_stream: true),
    compressed!(Lz4, "04224d18", write_and_stream: true),
    Format {
        engine: Engine::Tar,
        extension: ".tar",
        signature: "checksum of its first header",
        write: true,
        append: false,
        stream: true,
        encrypt: false,
        begins: nra_tar::detect,
        probe: |source, options| Ok(boxed(nra_tar::probe(source, options)?)),
    },
    compressed!(Lzma, "5d0000", write_and_stream: false),
    Format {
        engine: Engine::SevenZ,
        extension: ".7z",
        signature: "377abcaf271c",
        write: false,
        append: false,
        stream: false,
        encrypt: false,
        begins: |first| first.starts_with(b"7z\xbc\xaf\x27\x1c"),
        probe: |source, options| Ok(boxed(SevenzBackend::probe(source, options)?)),
    },
    // Zip comes last: it is detected from the end of the file, and any bytes may precede it.
    Format {
        engine: Engine::Zip,
        extension: ".zip",
        signature: "504b0506 near the end",
        write: true,
        append: false,
        stream: true,
        encrypt: false,
        begins: |first| [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"].iter().any(|&magic| first.starts_with(magic)),
        probe: |source, options| Ok(boxed(ZipBackend::probe(source, options)?)),
    },
];

/// Returns the version of NRA that a file claims to have.
pub(super) fn nra_version(first: &[u8]) -> Option<u16> {
    first.strip_prefix(&MAGIC)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn boxed<A: Archive + 'static>(archive: Option<A>) -> Option<Box<dyn Archive>> {
    archive.map(|archive| Box::new(archive) as Box<dyn Archive>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_name_and_extension() {
        for (word, name) in [
            ("nra", "NRA 5"),
            ("NRA4", "NRA 1 to 4.5"),
            ("shard", "Shard 2"),
            ("zip", "zip"),
            ("tar", "tar"),
            ("tar.gz", "gzip"),
            (".tgz", "gzip"),
            ("tbz", "bzip2"),
            ("TLZ", "lzma"),
            ("cshard", "Shard 2"),
            ("gzip", "gzip"),
            ("zst", "zstd"),
        ] {
            assert_eq!(Format::named(word).map(Format::name), Some(name), "{word}");
        }
        assert!(Format::named("").or(Format::named("rar")).or(Format::named("tar.tar.gz")).is_none());
    }
}
