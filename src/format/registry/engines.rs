//! The containers that are known, in one table: what opens them, and what can be done with them.

use std::sync::Arc;

use crate::registry::Extension;
use nra_core::archive::{Archive, OpenOptions};
use nra_core::error::Result;
use nra_core::source::ReadAt;
use nra_nra5::reader::NraReader;
use nra_sevenz::SevenzMembers;
use nra_shard::ShardMembers;
use nra_stream::Compression;
use nra_zip::ZipMembers;

/// Opens a source if it is a container of this kind; `None` if it is not, an error if it is one and can't be opened.
pub(super) type Probe = fn(&Arc<dyn ReadAt>, &OpenOptions) -> Result<Option<Box<dyn Archive>>>;

/// One kind of container.
#[derive(Debug)]
pub struct Engine {
    /// Name for people: `NRA 5`.
    pub name: &'static str,
    /// Usual extension of file names, with the dot.
    pub extension: &'static str,
    /// What tells the container, in words or as first bytes in hex.
    pub magic: &'static str,
    /// New archives are written.
    pub write: bool,
    /// Entries are added to archives.
    pub append: bool,
    /// New archives can go to a pipe.
    pub stream: bool,
    pub(super) probe: Probe,
}

impl Engine {
    /// Returns the engine that people call so: by an extension of names ([`EXTENSIONS`](super::EXTENSIONS)) or by its name.
    pub fn named(word: &str) -> Option<&'static Self> {
        let word = word.trim();
        let meant = Extension::named(word).map_or(word, |extension| extension.container.engine());
        ENGINES.iter().find(|engine| engine.name.eq_ignore_ascii_case(meant))
    }
}

/// All kinds that are read, in the order in which they are tried: those that are told for certain come first.
pub static ENGINES: &[Engine] = &[
    Engine {
        name: "NRA 5",
        extension: ".nra",
        magic: "4e524100 0500",
        write: true,
        append: true,
        stream: true,
        probe: |source, options| Ok(boxed(NraReader::probe(Arc::clone(source), options)?)),
    },
    Engine {
        name: "NRA 1 to 4.5",
        extension: ".nra",
        magic: "4e524100 0200",
        write: true,
        append: false,
        stream: false,
        probe: |source, options| Ok(boxed(nra_nra4::probe(source, options)?)),
    },
    Engine {
        name: "Shard 2",
        extension: ".shard",
        magic: "53485244 02",
        write: true,
        append: false,
        stream: false,
        probe: |source, options| Ok(boxed(ShardMembers::probe(source, options)?)),
    },
    compressed("gzip", ".gz", "1f8b08", |source, options| {
        Ok(boxed(nra_tar::probe_compressed(Compression::Gzip, source, options)?))
    }),
    compressed("zstd", ".zst", "28b52ffd", |source, options| {
        Ok(boxed(nra_tar::probe_compressed(Compression::Zstd, source, options)?))
    }),
    compressed("xz", ".xz", "fd377a585a00", |source, options| {
        Ok(boxed(nra_tar::probe_compressed(Compression::Xz, source, options)?))
    }),
    compressed("bzip2", ".bz2", "425a68", |source, options| {
        Ok(boxed(nra_tar::probe_compressed(Compression::Bzip2, source, options)?))
    }),
    compressed("lz4", ".lz4", "04224d18", |source, options| {
        Ok(boxed(nra_tar::probe_compressed(Compression::Lz4, source, options)?))
    }),
    Engine {
        name: "tar",
        extension: ".tar",
        magic: "checksum of its first header",
        write: true,
        append: false,
        stream: true,
        probe: |source, options| Ok(boxed(nra_tar::probe(source, options)?)),
    },
    Engine {
        write: false,
        stream: false,
        ..compressed("lzma", ".lzma", "5d0000", |source, options| {
            Ok(boxed(nra_tar::probe_compressed(Compression::Lzma, source, options)?))
        })
    },
    Engine {
        name: "7z",
        extension: ".7z",
        magic: "377abcaf271c",
        write: false,
        append: false,
        stream: false,
        probe: |source, options| Ok(boxed(SevenzMembers::probe(source, options)?)),
    },
    // Last: it is told from the end of the file, and anything may stand in front.
    Engine {
        name: "zip",
        extension: ".zip",
        magic: "504b0506 near the end",
        write: true,
        append: false,
        stream: true,
        probe: |source, options| Ok(boxed(ZipMembers::probe(source, options)?)),
    },
];

/// A compressed stream: with a tar archive in it, which is what is written, or with the content of one file.
const fn compressed(name: &'static str, extension: &'static str, magic: &'static str, probe: Probe) -> Engine {
    Engine { name, extension, magic, write: true, append: false, stream: true, probe }
}

fn boxed<A: Archive + 'static>(archive: Option<A>) -> Option<Box<dyn Archive>> {
    archive.map(|archive| Box::new(archive) as Box<dyn Archive>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_words() {
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
            assert_eq!(Engine::named(word).map(|engine| engine.name), Some(name), "{word}");
        }
        assert!(Engine::named("").or(Engine::named("rar")).or(Engine::named("tar.tar.gz")).is_none());
    }
}
