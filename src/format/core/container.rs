//! The kinds of containers: [`Container`] identifies the format of an archive, [`Engine`] the code that reads it.

use std::fmt;

/// How a stream is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// xz.
    Xz,
    /// The older form of lzma, `.lzma`, which has no checksum.
    Lzma,
    /// bzip2.
    Bzip2,
    /// lz4 frames.
    Lz4,
}

impl Compression {
    /// All compressions in the order of detection: reliable signatures come first.
    pub const ALL: [Self; 6] = [Self::Gzip, Self::Zstd, Self::Xz, Self::Bzip2, Self::Lz4, Self::Lzma];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
        }
    }

    /// Returns the usual file name extension, with the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
            Self::Xz => ".xz",
            Self::Lzma => ".lzma",
            Self::Bzip2 => ".bz2",
            Self::Lz4 => ".lz4",
        }
    }

    /// Returns the name of the compressed file `name` after decompression: without the usual extension.
    pub fn content_name(self, name: &[u8]) -> Vec<u8> {
        let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let extension = self.extension().as_bytes();
        let stem = name.len().checked_sub(extension.len()).filter(|&len| len > 0).map(|len| name.split_at(len));
        match stem {
            Some((stem, end)) if end.eq_ignore_ascii_case(extension) => stem.to_vec(),
            _ if name.is_empty() => b"content".to_vec(),
            _ => name.to_vec(),
        }
    }

    /// Returns the name of such a stream in errors.
    pub fn structure(self) -> &'static str {
        match self {
            Self::Gzip => "gzip stream",
            Self::Zstd => "zstd stream",
            Self::Xz => "xz stream",
            Self::Lzma => "lzma stream",
            Self::Bzip2 => "bzip2 stream",
            Self::Lz4 => "lz4 stream",
        }
    }
}

/// The purpose of a Shard file. The container stores the number; only [`Role::EPISODE`] changes how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Role(pub u8);

impl Role {
    /// ModelShard: one tensor per entry.
    pub const MODEL: Self = Self(1);
    /// SampleShard: one training sample per entry.
    pub const SAMPLES: Self = Self(2);
    /// GemmShard: packed matrix panels.
    pub const GEMM: Self = Self(3);
    /// Manifest of other files.
    pub const MANIFEST: Self = Self(4);
    /// WShard: one episode. Its writers are known to break rules of the container, so it is read leniently (shard.md, section 9.2).
    pub const EPISODE: Self = Self(5);
    /// GraphShard.
    pub const GRAPH: Self = Self(6);
    /// TraceShard.
    pub const TRACE: Self = Self(7);
    /// ColumnShard: a table.
    pub const COLUMNS: Self = Self(8);

    /// Returns the name of the profile, or `None` for a number without one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::MODEL => Some("ModelShard"),
            Self::SAMPLES => Some("SampleShard"),
            Self::GEMM => Some("GemmShard"),
            Self::MANIFEST => Some("Manifest"),
            Self::EPISODE => Some("WShard"),
            Self::GRAPH => Some("GraphShard"),
            Self::TRACE => Some("TraceShard"),
            Self::COLUMNS => Some("ColumnShard"),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "role {}", self.0),
        }
    }
}

/// The format of an archive: container, version and variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Container {
    /// NRA 5.
    #[default]
    Nra5,
    /// NRA 4.5.
    Nra4,
    /// NRA 1.
    Nra1,
    /// Shard 2.
    Shard(Role),
    /// Zip.
    Zip,
    /// 7z.
    SevenZ,
    /// Tar, possibly compressed as a whole.
    Tar(Option<Compression>),
    /// One compressed file.
    Compressed(Compression),
}

impl Container {
    /// Returns the engine that reads the container.
    pub fn engine(self) -> Engine {
        match self {
            Self::Nra5 => Engine::Nra5,
            Self::Nra4 | Self::Nra1 => Engine::Nra4,
            Self::Shard(_) => Engine::Shard,
            Self::Zip => Engine::Zip,
            Self::SevenZ => Engine::SevenZ,
            Self::Tar(None) => Engine::Tar,
            Self::Tar(Some(compression)) | Self::Compressed(compression) => Engine::Compressed(compression),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nra4 => f.write_str("NRA 4.5"),
            Self::Nra1 => f.write_str("NRA 1"),
            Self::Shard(role) => write!(f, "Shard 2 ({role})"),
            Self::Tar(Some(compression)) => write!(f, "tar, {}", compression.name()),
            Self::Nra5 | Self::Zip | Self::SevenZ | Self::Tar(None) | Self::Compressed(_) => f.write_str(self.engine().name()),
        }
    }
}

/// The code that reads one kind of container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// NRA 5.
    Nra5,
    /// NRA 1 to 4.5.
    Nra4,
    /// Shard 2.
    Shard,
    /// A compressed stream: a tar archive or the content of one file.
    Compressed(Compression),
    /// Uncompressed tar.
    Tar,
    /// 7z.
    SevenZ,
    /// Zip.
    Zip,
}

impl Engine {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nra5 => "NRA 5",
            Self::Nra4 => "NRA 1 to 4.5",
            Self::Shard => "Shard 2",
            Self::Compressed(compression) => compression.name(),
            Self::Tar => "tar",
            Self::SevenZ => "7z",
            Self::Zip => "zip",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names() {
        for (container, name) in [
            (Container::Nra5, "NRA 5"),
            (Container::Nra4, "NRA 4.5"),
            (Container::Nra1, "NRA 1"),
            (Container::Shard(Role::MODEL), "Shard 2 (ModelShard)"),
            (Container::Shard(Role(99)), "Shard 2 (role 99)"),
            (Container::Zip, "zip"),
            (Container::SevenZ, "7z"),
            (Container::Tar(None), "tar"),
            (Container::Tar(Some(Compression::Xz)), "tar, xz"),
            (Container::Compressed(Compression::Lz4), "lz4"),
        ] {
            assert_eq!(container.to_string(), name);
        }
    }

    #[test]
    fn content_name_drops_the_usual_extension_only() {
        for (name, content) in
            [("a/b.txt.gz", "b.txt"), ("b.GZ", "b"), ("b.xz", "b.xz"), (".gz", ".gz"), ("", "content"), ("a/", "content")]
        {
            assert_eq!(Compression::Gzip.content_name(name.as_bytes()), content.as_bytes(), "{name}");
        }
    }
}
