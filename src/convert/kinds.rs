//! The kinds of archives that are written, told by the extension of a name, and one archive written as another.

use std::num::NonZero;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::earlier::{EarlierOptions, write_earlier};
use crate::outgoing::OutgoingOptions;
use crate::output::Destination;
use crate::shardfile::{ShardOptions, write_shard};
use crate::tarball::{TarOptions, write_tar};
use crate::transfer::{Input, TransferOptions, transfer};
use crate::zipfile::{DEFLATE_LEVEL, ZipCompression, ZipOptions, write_zip};
use nra_format::archive::{Archive, EXTENSIONS, Extension, foreign_extension};
use nra_format::container::Container;
use nra_format::error::Result;
use nra_format::nra::writer::WriterOptions;
use nra_format::nra4;
use nra_format::progress::Monitor;
use nra_format::shard::Role;
use nra_format::stream::{Compression, Level};

/// A kind of archive that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
    /// Returns the kind that is written under names with this extension, if one is.
    fn of(extension: &Extension) -> Option<Self> {
        match extension.container {
            _ if !extension.written => None,
            Container::Nra5 => Some(Self::Nra),
            Container::Nra4 => Some(Self::Nra4),
            Container::Tar(compression) => Some(Self::Tar(compression)),
            Container::Zip => Some(Self::Zip),
            // `.shard` names none.
            Container::Shard(role) => Some(Self::Shard(Some(role).filter(|role| *role != Role::default()))),
            Container::Nra1 | Container::SevenZ | Container::Compressed(_) => None,
        }
    }

    /// Returns the kind that people call so: by an extension, with or without its dot.
    pub fn named(word: &str) -> Option<Self> {
        Self::of(Extension::named(word)?)
    }
}

/// Returns the extensions of all kinds that are written.
pub fn extensions() -> impl Iterator<Item = &'static str> {
    EXTENSIONS.iter().filter(|extension| Kind::of(extension).is_some()).map(|extension| extension.text)
}

/// Tells the kind by the name of the output; `None` when its extension is not known, or nothing is written that is called so.
pub fn kind_of(output: &Path) -> Option<Kind> {
    Kind::of(Extension::of(output.as_os_str().as_bytes())?)
}

/// Returns the extension of the output if it promises a kind that is not written.
pub fn unwritten(output: &Path) -> Option<&'static str> {
    let name = output.as_os_str().as_bytes();
    match Extension::of(name) {
        Some(extension) => Some(extension.text).filter(|_| Kind::of(extension).is_none()),
        None => foreign_extension(name),
    }
}

/// Returns the name beside the input with `.nra` in place of its extension; an earlier `commit` of it is told by its number.
pub fn default_output(input: &Path, commit: Option<u64>) -> PathBuf {
    let name = input.file_name().unwrap_or_default().as_bytes();
    // Over an archive of NRA nothing is written.
    let extension = Extension::of(name).filter(|extension| commit.is_some() || extension.container != Container::Nra5);
    let mut stem = extension.map_or(name, |extension| extension.stem(name)).to_vec();
    if let Some(number) = commit {
        stem.extend_from_slice(format!("@{number}").as_bytes());
    }
    stem.extend_from_slice(b".nra");
    input.with_file_name(std::ffi::OsString::from_vec(stem))
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewritten {
    /// Entries of kind file.
    pub files: u64,
    /// Length of the new archive, bytes.
    pub archive_bytes: u64,
    /// Entries that are not in it; a warning said why for each.
    pub left_out: u64,
}

/// Writes everything that an open archive holds as a new archive of `kind` at `output`, which must not exist, with the usual options. What is encrypted is
/// written plain.
///
/// # Errors
///
/// What reading `archive` gives, `Io` when the new one can't be written, `Cancelled`. Then nothing is left at `output`.
pub fn rewrite(archive: &Arc<dyn Archive>, kind: Kind, output: &Path, monitor: &dyn Monitor) -> Result<Rewritten> {
    let destination = Destination::File { path: output.to_owned(), overwrite: false };
    let outgoing = OutgoingOptions { sync: true, ..OutgoingOptions::default() };
    let writer = WriterOptions::balanced();
    let threads = NonZero::new(writer.threads).unwrap_or(NonZero::<usize>::MIN);
    match kind {
        Kind::Nra => {
            let options = TransferOptions { writer, sync: true, ..TransferOptions::default() };
            let stats = transfer(Input::Archive(Arc::clone(archive)), destination, &options, monitor)?;
            let written = stats.written;
            Ok(Rewritten { files: written.files, archive_bytes: written.archive_bytes, left_out: stats.left_out })
        }
        Kind::Nra4 => {
            let name = match archive.info().message.clone() {
                message if message.is_empty() => output.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                message => message,
            };
            let codec = nra4::writer::Codec::Zstd(writer.method.level);
            let writer = nra4::writer::WriterOptions { name, codec, key: None };
            let stats = write_earlier(&**archive, destination, EarlierOptions { writer, outgoing }, monitor)?;
            Ok(Rewritten { files: stats.files, archive_bytes: stats.archive_bytes, left_out: stats.left_out })
        }
        Kind::Tar(compression) => {
            let compression = compression.map(|compression| (compression, Level::default_of(compression)));
            let options = TarOptions { compression, threads, memory_bytes: writer.memory_bytes, outgoing };
            let stats = write_tar(&**archive, destination, &options, monitor)?;
            Ok(Rewritten { files: stats.files, archive_bytes: stats.archive_bytes, left_out: stats.left_out })
        }
        Kind::Shard(role) => {
            let stats =
                write_shard(&**archive, destination, &ShardOptions { role, outgoing, ..ShardOptions::default() }, monitor)?;
            Ok(Rewritten { files: stats.files, archive_bytes: stats.archive_bytes, left_out: stats.left_out })
        }
        Kind::Zip => {
            let compression = ZipCompression::Deflate(DEFLATE_LEVEL);
            let options = ZipOptions { compression, threads, memory_bytes: writer.memory_bytes, outgoing };
            let stats = write_zip(&**archive, destination, &options, monitor)?;
            Ok(Rewritten { files: stats.files, archive_bytes: stats.archive_bytes, left_out: stats.left_out })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_outputs() {
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
            assert_eq!(default_output(Path::new(input), None), Path::new(expected));
        }
        assert_eq!(default_output(Path::new("a/x.nra"), Some(3)), Path::new("a/x@3.nra"));
        assert_eq!(default_output(Path::new("x"), Some(3)), Path::new("x@3.nra"));
    }

    #[test]
    fn extensions_select_the_kind() {
        assert_eq!(kind_of(Path::new("a.TAR.GZ")), Some(Kind::Tar(Some(Compression::Gzip))));
        assert_eq!(kind_of(Path::new("a.nra")), Some(Kind::Nra));
        assert_eq!(kind_of(Path::new(".nra")), None);
        assert_eq!(kind_of(Path::new("a.taz")), Some(Kind::Tar(Some(Compression::Gzip))));
        for other in ["a.rar", "a.7z", "a.gz", "a.tar.lzma", "a.jar"] {
            assert_eq!(kind_of(Path::new(other)), None, "{other}");
            assert!(unwritten(Path::new(other)).is_some(), "{other}");
        }
        for other in ["a.nra", "a", ".7z", "a.data", "a.tar.gz"] {
            assert_eq!(unwritten(Path::new(other)), None, "{other}");
        }
        assert_eq!(Kind::named("CSHARD"), Some(Kind::Shard(Some(Role::COLUMNS))));
        assert_eq!(Kind::named("shard"), Some(Kind::Shard(None)));
        assert!(extensions().all(|extension| Kind::named(extension).is_some()));
    }
}
