//! Detects the format of a file or stream from its first bytes.

use std::sync::Arc;

use crate::registry::formats::nra_version;
use crate::registry::{Extension, FORMATS};
use nra_core::container::{Container, Engine};
use nra_core::error::{Error, FileGuess, Result};
use nra_core::source::ReadAt;
use nra_nra5::superblock::VERSION;
use nra_stream::{Input, SourceStream};

/// Bytes that suffice for every signature, except that of tar archives that start with zero bytes.
const PROBE: usize = 512;

/// First bytes of files that are known, but not read; of damaged archives, too.
const UNSUPPORTED: [(&[u8], &str); 8] = [
    (b"Rar!\x1a\x07", "rar"),
    (b"hsqs", "squashfs"),
    (b"!<arch>\n", "ar"),
    (b"070701", "cpio"),
    (b"070702", "cpio"),
    (b"070707", "cpio"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
];

/// Detects the format of a file that starts with these bytes. `first` has 64 KiB, or the whole file if it is shorter; 512 bytes suffice unless
/// they are all zero.
///
/// `None` if no signature matches. The file may be an archive nevertheless: of NRA 5 with a damaged start, or a zip archive that other
/// bytes precede. [`open`](super::open) finds these.
pub fn detect(first: &[u8]) -> Option<Engine> {
    FORMATS.iter().find(|format| (format.begins)(first)).map(|format| format.engine)
}

/// Detects the format of a stream as [`detect`] does. The bytes stay in `input`.
///
/// # Errors
///
/// Those of the stream.
pub fn detect_stream(input: &mut Input) -> Result<Option<Engine>> {
    let first = input.peek(PROBE)?;
    match detect(&first[..first.len().min(PROBE)]) {
        // Skippable frames start both zstd and lz4 streams.
        Some(Engine::Compressed(_)) => Ok(nra_stream::detect(input)?.map(Engine::Compressed)),
        // An empty tar archive consists of zero bytes; so do the first blocks of some others.
        Some(Engine::Tar) => Ok(nra_tar::detect_stream(input)?.then_some(Engine::Tar)),
        other => Ok(other),
    }
}

/// Detects the format of a file as [`detect`] does.
///
/// # Errors
///
/// As reading the source does.
pub fn detect_source(source: &Arc<dyn ReadAt>) -> Result<Option<Engine>> {
    detect_stream(&mut Input::new(SourceStream::new(Arc::clone(source), 0), 0))
}

/// Returns the error for a file that is not an archive, or not one that `engine` reads.
pub(super) fn refusal(source: &dyn ReadAt, engine: Option<Engine>) -> Result<Error> {
    let mut first = vec![0; usize::try_from(source.len()).unwrap_or(usize::MAX).min(PROBE)];
    source.read_exact_at(0, &mut first)?;
    if let Some(found) = nra_version(&first).filter(|&version| version > VERSION) {
        return Ok(Error::Unsupported { what: "NRA version", found: found.to_string(), known: format!("1 to {VERSION}") });
    }
    Ok(Error::NotAnArchive { guess: guess(&first), wanted: engine })
}

/// Returns whether the first 512 bytes of a file show that it is not an archive: there are none, or they are text, or all zero.
pub fn is_no_archive(first: &[u8]) -> bool {
    matches!(guess(first), FileGuess::Empty | FileGuess::Text | FileGuess::Zeros)
}

/// Guesses what a file is from its first 512 bytes.
fn guess(first: &[u8]) -> FileGuess {
    if first.is_empty() {
        return FileGuess::Empty;
    }
    if first.iter().all(|&byte| byte == 0) {
        return FileGuess::Zeros;
    }
    if let Some(version) = nra_version(first) {
        return FileGuess::Like(format!("NRA {version}"));
    }
    if let Some(engine) = detect(first) {
        return FileGuess::Like(engine.name().to_owned());
    }
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(magic, _)| first.starts_with(magic)) {
        return FileGuess::Like((*name).to_owned());
    }
    // A tar header with a wrong checksum.
    if first.get(257..262) == Some(b"ustar") {
        return FileGuess::Like(Engine::Tar.name().to_owned());
    }
    let is_text = std::str::from_utf8(first).is_ok_and(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()));
    if is_text { FileGuess::Text } else { FileGuess::Unknown }
}

/// Returns a remark if the extension of a file name promises another container than the archive has.
pub fn extension_mismatch(name: &[u8], container: Container) -> Option<String> {
    let extension = Extension::of(name)?;
    (!extension.fits(container)).then(|| format!("its name ends with {}, but it is {container}", extension.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_of_another_container_is_remarked() {
        let (gzip, xz) = (Compression::Gzip, Compression::Xz);
        for (name, container, misleads) in [
            ("a.zip", Container::Zip, false),
            ("a.zip", Container::Tar(Some(gzip)), true),
            ("a.ZIP", Container::Nra5, true),
            ("a.tar.gz", Container::Tar(Some(gzip)), false),
            ("a.gz", Container::Compressed(gzip), false),
            ("a.gz", Container::Tar(Some(gzip)), false),
            ("a.gz", Container::Tar(Some(xz)), true),
            ("a.taz", Container::Tar(Some(gzip)), false),
            ("a.smpl", Container::Zip, true),
            ("a.tgz", Container::Compressed(gzip), true),
            ("a.tar", Container::Tar(Some(gzip)), true),
            ("a.nra", Container::Nra4, false),
            ("a.shard", Container::Shard(Role::MODEL), false),
            ("a.jar", Container::Zip, false),
            ("a.jar", Container::Tar(None), true),
            ("zip", Container::Tar(None), false),
        ] {
            assert_eq!(extension_mismatch(name.as_bytes(), container).is_some(), misleads, "{name} {container}");
        }
    }

    use nra_core::container::{Compression, Role};
    use nra_core::source::MemorySource;

    fn tar_header() -> Vec<u8> {
        let mut header = vec![0; 512];
        header[..5].copy_from_slice(b"a.txt");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header
    }

    #[test]
    fn formats_are_detected_from_first_bytes() {
        use Compression::{Bzip2, Gzip, Lz4, Lzma, Xz, Zstd};
        let compressed = |compression| Some(Engine::Compressed(compression));
        let lzma = [&[0x5d][..], &(1u32 << 16).to_le_bytes(), &u64::MAX.to_le_bytes()].concat();
        for (bytes, expected) in [
            (&b"NRA\0\x05\0"[..], Some(Engine::Nra5)),
            (b"NRA\0\x02\0", Some(Engine::Nra4)),
            (b"NRA\0\x01\0", Some(Engine::Nra4)),
            (b"NRA\0\x03\0", None),
            (b"SHRD\x02", Some(Engine::Shard)),
            (b"\x1f\x8b\x08\0", compressed(Gzip)),
            (b"\x28\xb5\x2f\xfd", compressed(Zstd)),
            (b"\xfd7zXZ\0", compressed(Xz)),
            (b"BZh91AY&SY", compressed(Bzip2)),
            (b"\x04\x22\x4d\x18", compressed(Lz4)),
            (&lzma, compressed(Lzma)),
            (&tar_header(), Some(Engine::Tar)),
            (b"7z\xbc\xaf\x27\x1c", Some(Engine::SevenZ)),
            (b"PK\x03\x04", Some(Engine::Zip)),
            (b"PK\x05\x06", Some(Engine::Zip)),
            (b"", None),
            (b"text", None),
        ] {
            let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(bytes));
            assert_eq!((detect(bytes), detect_source(&source).unwrap()), (expected, expected), "{bytes:?}");
        }
    }

    #[test]
    fn skippable_frames_and_zero_blocks_are_skipped_in_streams() {
        let skippable = b"\x50\x2a\x4d\x18\x02\0\0\0ab".to_vec();
        let lz4 = [&skippable[..], b"\x04\x22\x4d\x18"].concat();
        let tar = [&[0; 1024][..], &tar_header()].concat();
        for (bytes, expected) in [
            (skippable, Some(Engine::Compressed(Compression::Zstd))),
            (lz4, Some(Engine::Compressed(Compression::Lz4))),
            (tar, Some(Engine::Tar)),
            (vec![0; 1024], Some(Engine::Tar)),
            (vec![0; 100 << 10], None),
        ] {
            let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(bytes));
            assert_eq!(detect_source(&source).unwrap(), expected);
        }
    }

    #[test]
    fn files_that_are_not_archives_are_guessed_at() {
        let ustar = [&[0; 257][..], b"ustar\x0000", &[0; 300]].concat();
        for (bytes, expected) in [
            (&b""[..], "is empty"),
            (b"\x1f\x8b\x08\0", "looks like gzip"),
            (b"PK\x03\x04rest", "looks like zip"),
            (b"\xfd7zXZ\0\0", "looks like xz"),
            (b"\x28\xb5\x2f\xfd", "looks like zstd"),
            (b"BZh9", "looks like bzip2"),
            (b"Rar!\x1a\x07\x01\0", "looks like rar"),
            (b"\x04\x22\x4d\x18", "looks like lz4"),
            (b"7z\xbc\xaf\x27\x1c", "looks like 7z"),
            (b"NRA\0\x02\0", "looks like NRA 2"),
            (b"SHRD", "looks like Shard 2"),
            (b"NRA\0", "has an unknown format"),
            (b"hello\n", "looks like text"),
            (&[0; 700], "starts with zero bytes"),
            (b"\x00\xff\x01", "has an unknown format"),
            (&ustar, "looks like tar"),
            (&tar_header(), "looks like tar"),
        ] {
            let error = refusal(&MemorySource::new(bytes), None).unwrap().to_string();
            assert_eq!(error, format!("not a supported archive: it {expected}"));
        }
        let error = refusal(&MemorySource::new(&b"NRA\0\x06\0"[..]), None).unwrap();
        assert_eq!(error.to_string(), "NRA version 6 is not supported (known: 1 to 5)");
        let error = refusal(&MemorySource::new(&b"PK\x03\x04rest"[..]), Some(Engine::Tar)).unwrap();
        assert_eq!(error.to_string(), "not tar: it looks like zip");
    }
}
