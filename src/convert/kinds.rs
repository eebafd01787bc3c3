//! The kinds of archives that are written, told by the ending of a name, and one archive written as another.

use std::num::NonZero;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::convert::earlier::{EarlierOptions, write_earlier};
use crate::convert::outgoing::OutgoingOptions;
use crate::convert::output::Destination;
use crate::convert::shardfile::{ShardOptions, write_shard};
use crate::convert::tarball::{TarOptions, write_tar};
use crate::convert::transfer::{Input, TransferOptions, transfer};
use crate::convert::zipfile::{DEFLATE_LEVEL, ZipCompression, ZipOptions, write_zip};
use crate::format::archive::Archive;
use crate::format::error::Result;
use crate::format::nra::writer::WriterOptions;
use crate::format::nra4;
use crate::format::progress::Monitor;
use crate::format::shard::Role;
use crate::format::stream::{Compression, Level};

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
    /// A Shard file of this profile.
    Shard(Role),
}

/// Endings of the kinds that are written.
pub const KINDS: [(&str, Kind); 21] = [
    (".nra", Kind::Nra),
    (".nra4", Kind::Nra4),
    (".tar", Kind::Tar(None)),
    (".tar.gz", Kind::Tar(Some(Compression::Gzip))),
    (".tgz", Kind::Tar(Some(Compression::Gzip))),
    (".tar.zst", Kind::Tar(Some(Compression::Zstd))),
    (".tzst", Kind::Tar(Some(Compression::Zstd))),
    (".tar.xz", Kind::Tar(Some(Compression::Xz))),
    (".txz", Kind::Tar(Some(Compression::Xz))),
    (".tar.bz2", Kind::Tar(Some(Compression::Bzip2))),
    (".tbz2", Kind::Tar(Some(Compression::Bzip2))),
    (".tbz", Kind::Tar(Some(Compression::Bzip2))),
    (".tar.lz4", Kind::Tar(Some(Compression::Lz4))),
    (".tlz4", Kind::Tar(Some(Compression::Lz4))),
    (".taz", Kind::Tar(Some(Compression::Gzip))),
    (".zip", Kind::Zip),
    (".shard", Kind::Shard(Role(0))),
    (".mosh", Kind::Shard(Role::MODEL)),
    (".smpl", Kind::Shard(Role::SAMPLES)),
    (".wshard", Kind::Shard(Role::EPISODE)),
    (".cshard", Kind::Shard(Role::COLUMNS)),
];

/// Tells the kind by the name of the output; `None` when its ending is not known.
pub fn kind_of(output: &Path) -> Option<Kind> {
    let name = output.as_os_str().as_bytes();
    let ends =
        |ending: &str| name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes());
    KINDS.iter().find(|(ending, _)| ends(ending)).map(|(_, kind)| *kind)
}

/// Endings that go when an archive gets another one; those of compression go with `.tar` before them.
const ENDINGS: [&str; 23] = [
    ".tar", ".tgz", ".taz", ".tzst", ".txz", ".tlz", ".tbz2", ".tbz", ".tlz4", ".gz", ".zst", ".xz", ".lzma", ".bz2", ".lz4",
    ".zip", ".7z", ".nra4", ".shard", ".mosh", ".smpl", ".wshard", ".cshard",
];

/// Returns the name beside the input with `.nra` in place of its ending.
pub fn default_output(input: &Path) -> PathBuf {
    let name = input.file_name().unwrap_or_default().as_bytes();
    let without = |name: &[u8], endings: &[&str]| {
        let ends = |ending: &&&str| {
            name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
        };
        endings.iter().find(ends).map(|ending| name[..name.len() - ending.len()].to_vec())
    };
    let stem = without(name, &ENDINGS).unwrap_or_else(|| name.to_vec());
    let mut stem = without(&stem, &[".tar"]).unwrap_or(stem);
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
            let options = TarOptions { compression, threads, outgoing };
            let stats = write_tar(&**archive, destination, &options, monitor)?;
            Ok(Rewritten { files: stats.files, archive_bytes: stats.archive_bytes, left_out: stats.left_out })
        }
        Kind::Shard(role) => {
            let stats = write_shard(
                &**archive,
                destination,
                &ShardOptions { usual_role: role, outgoing, ..ShardOptions::default() },
                monitor,
            )?;
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
        ] {
            assert_eq!(default_output(Path::new(input)), Path::new(expected));
        }
    }

    #[test]
    fn endings_tell_the_kind() {
        assert_eq!(kind_of(Path::new("a.TAR.GZ")), Some(Kind::Tar(Some(Compression::Gzip))));
        assert_eq!(kind_of(Path::new("a.nra")), Some(Kind::Nra));
        assert_eq!(kind_of(Path::new(".nra")), None);
        assert_eq!(kind_of(Path::new("a.rar")), None);
    }
}
