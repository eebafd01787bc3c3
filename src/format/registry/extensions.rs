//! File name extensions and the containers they promise, in one table.

use nra_core::container::{Compression, Container, Role};

/// A file name extension.
#[derive(Debug)]
pub struct Extension {
    /// The extension, with the dot.
    pub text: &'static str,
    /// The container that it promises.
    pub container: Container,
    /// Whether nra writes archives with this extension. Other extensions are read only, such as `.jar`.
    pub written: bool,
}

const fn extension(text: &'static str, container: Container) -> Extension {
    Extension { text, container, written: true }
}

const fn read_only(text: &'static str, container: Container) -> Extension {
    Extension { text, container, written: false }
}

/// All known extensions. An extension that ends with another one precedes it.
pub static EXTENSIONS: &[Extension] = &[
    extension(".nra", Container::Nra5),
    extension(".nra4", Container::Nra4),
    extension(".tar", Container::Tar(None)),
    extension(".tar.gz", Container::Tar(Some(Compression::Gzip))),
    extension(".tgz", Container::Tar(Some(Compression::Gzip))),
    extension(".taz", Container::Tar(Some(Compression::Gzip))),
    extension(".tar.zst", Container::Tar(Some(Compression::Zstd))),
    extension(".tzst", Container::Tar(Some(Compression::Zstd))),
    extension(".tar.xz", Container::Tar(Some(Compression::Xz))),
    extension(".txz", Container::Tar(Some(Compression::Xz))),
    extension(".tar.bz2", Container::Tar(Some(Compression::Bzip2))),
    extension(".tbz2", Container::Tar(Some(Compression::Bzip2))),
    extension(".tbz", Container::Tar(Some(Compression::Bzip2))),
    extension(".tar.lz4", Container::Tar(Some(Compression::Lz4))),
    extension(".tlz4", Container::Tar(Some(Compression::Lz4))),
    read_only(".tar.lzma", Container::Tar(Some(Compression::Lzma))),
    read_only(".tlz", Container::Tar(Some(Compression::Lzma))),
    extension(".zip", Container::Zip),
    read_only(".jar", Container::Zip),
    read_only(".whl", Container::Zip),
    read_only(".7z", Container::SevenZ),
    extension(".shard", Container::Shard(Role(0))),
    extension(".mosh", Container::Shard(Role::MODEL)),
    extension(".smpl", Container::Shard(Role::SAMPLES)),
    extension(".gemm", Container::Shard(Role::GEMM)),
    extension(".wshard", Container::Shard(Role::EPISODE)),
    extension(".gshard", Container::Shard(Role::GRAPH)),
    extension(".tshard", Container::Shard(Role::TRACE)),
    extension(".cshard", Container::Shard(Role::COLUMNS)),
    read_only(".gz", Container::Compressed(Compression::Gzip)),
    read_only(".zst", Container::Compressed(Compression::Zstd)),
    read_only(".xz", Container::Compressed(Compression::Xz)),
    read_only(".bz2", Container::Compressed(Compression::Bzip2)),
    read_only(".lz4", Container::Compressed(Compression::Lz4)),
    read_only(".lzma", Container::Compressed(Compression::Lzma)),
];

/// Extensions of archives that nra does not support.
const FOREIGN: [&str; 16] = [
    ".rar",
    ".cpio",
    ".iso",
    ".cab",
    ".deb",
    ".rpm",
    ".squashfs",
    ".sqfs",
    ".lha",
    ".lzh",
    ".arj",
    ".xar",
    ".wim",
    ".zpaq",
    ".tar.lz",
    ".tar.Z",
];

/// Returns the extension of `name` if it is that of an archive format that nra does not support.
pub fn foreign_extension(name: &[u8]) -> Option<&'static str> {
    FOREIGN.into_iter().find(|extension| ends_with(name, extension))
}

/// Returns whether a name has this extension and a stem.
fn ends_with(name: &[u8], extension: &str) -> bool {
    name.len() > extension.len() && name[name.len() - extension.len()..].eq_ignore_ascii_case(extension.as_bytes())
}

impl Extension {
    /// Returns the extension of `name`. A name that consists only of an extension has none.
    pub fn of(name: &[u8]) -> Option<&'static Self> {
        EXTENSIONS.iter().find(|extension| ends_with(name, extension.text))
    }

    /// Returns the extension with this text, with or without the dot.
    pub fn named(text: &str) -> Option<&'static Self> {
        let text = text.strip_prefix('.').unwrap_or(text);
        EXTENSIONS.iter().find(|extension| extension.text[1..].eq_ignore_ascii_case(text))
    }

    /// Returns `name` without this extension.
    pub fn stem<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        &name[..name.len() - self.text.len()]
    }

    /// Returns whether an archive of this container may have this extension.
    pub fn fits(&self, container: Container) -> bool {
        match (self.container, container) {
            (Container::Nra5 | Container::Nra4 | Container::Nra1, Container::Nra5 | Container::Nra4 | Container::Nra1)
            | (Container::Shard(_), Container::Shard(_)) => true,
            // `.gz` may be the whole extension of a compressed tar archive.
            (Container::Compressed(promised), Container::Tar(Some(found))) => promised == found,
            (promised, found) => promised == found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FORMATS;
    use super::*;

    #[test]
    fn each_extension_is_found_and_leads_to_an_engine() {
        for extension in EXTENSIONS {
            let name = format!("a{}", extension.text.to_ascii_uppercase());
            let found = Extension::of(name.as_bytes()).unwrap();
            assert_eq!(found.text, extension.text);
            assert_eq!(found.stem(name.as_bytes()), b"a");
            assert!(Extension::of(extension.text.as_bytes()).is_none_or(|shorter| shorter.text != extension.text));
            assert!(FORMATS.iter().any(|format| format.engine == extension.container.engine()), "{}", extension.text);
        }
        // What an engine calls usual is known.
        for format in FORMATS {
            assert!(Extension::named(format.extension).is_some(), "{}", format.name());
        }
    }
}
