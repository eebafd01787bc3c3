//! Tells in words what a file is that nra can't open.

use crate::registry::Extension;
use nra_core::container::{Container, Engine};
use nra_core::error::{Error, FileGuess, Result};
use nra_core::source::ReadAt;
use nra_nra5::head::VERSION;

/// Bytes looked at; a tar header ends its magic at 263.
const PROBE: u64 = 512;

/// First bytes of files that people may take for an archive, and their names.
const MAGICS: [(&[u8], &str); 15] = [
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip (without entries)"),
    (b"PK\x07\x08", "zip (split)"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"hsqs", "squashfs"),
    (b"!<arch>\n", "ar"),
    (b"070701", "cpio"),
    (b"070702", "cpio"),
    (b"070707", "cpio"),
];

/// Returns the error for a file that is not an archive nra can open, or none of the kind that it should be.
///
/// # Errors
///
/// `Io` when the file can't be read.
pub(super) fn refusal(source: &dyn ReadAt, engine: Option<Engine>) -> Result<Error> {
    let mut first = vec![0; usize::try_from(source.len().min(PROBE)).expect("at most 512")];
    source.read_exact_at(0, &mut first)?;
    let version = first.strip_prefix(b"NRA\0").and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_le_bytes(*bytes));
    if let Some(found) = version.filter(|&version| version > VERSION) {
        return Ok(Error::Unsupported { what: "NRA version", found: found.to_string(), known: format!("1 to {VERSION}") });
    }
    Ok(Error::NotAnArchive { guess: looks(&first), wanted: engine })
}

/// Says whether a file begins like an archive of NRA 5.
pub fn is_nra(source: &dyn ReadAt) -> bool {
    let mut first = [0; 6];
    source.len() >= 6
        && source.read_exact_at(0, &mut first).is_ok()
        && first.strip_prefix(b"NRA\0").is_some_and(|version| version == VERSION.to_le_bytes())
}

/// Says whether the first 512 bytes of a file show that it is no archive: there are none, or they are text, or all zero.
pub fn is_no_archive(first: &[u8]) -> bool {
    matches!(looks(first), FileGuess::Empty | FileGuess::Text | FileGuess::Zeros)
}

/// Says what a file looks like by its first bytes.
fn looks(first: &[u8]) -> FileGuess {
    if first.is_empty() {
        return FileGuess::Empty;
    }
    if let Some(version) = first.strip_prefix(b"NRA\0").and_then(|rest| rest.first_chunk()) {
        return FileGuess::Like(format!("NRA {}", u16::from_le_bytes(*version)));
    }
    if let Some((_, name)) = MAGICS.iter().find(|(magic, _)| first.starts_with(magic)) {
        return FileGuess::Like((*name).into());
    }
    if first.get(257..262) == Some(b"ustar") || is_old_tar(first) {
        return FileGuess::Like("tar".into());
    }
    if first.iter().all(|&byte| byte == 0) {
        return FileGuess::Zeros;
    }
    let is_text = std::str::from_utf8(first).is_ok_and(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()));
    if is_text { FileGuess::Text } else { FileGuess::Unknown }
}

/// Says whether this is a tar header without magic: its checksum tells.
fn is_old_tar(first: &[u8]) -> bool {
    let Some(field) = first.get(148..156).filter(|_| first.len() == 512) else { return false };
    let digits: Vec<u8> = field.iter().copied().filter(u8::is_ascii_digit).collect();
    let Some(stored) = std::str::from_utf8(&digits).ok().and_then(|digits| u32::from_str_radix(digits, 8).ok()) else {
        return false;
    };
    let sum: u32 = first.iter().map(|&byte| u32::from(byte)).sum();
    let blank: u32 = field.iter().map(|&byte| u32::from(byte)).sum();
    stored == sum - blank + 8 * u32::from(b' ')
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
    fn files_are_named_by_content() {
        let ustar = [&[0; 257][..], b"ustar\x0000", &[0; 300]].concat();
        for (bytes, expected) in [
            (&b""[..], "is empty"),
            (b"\x1f\x8b\x08\0", "looks like gzip"),
            (b"PK\x03\x04rest", "looks like zip"),
            (b"\xfd7zXZ\0\0", "looks like xz"),
            (b"\x28\xb5\x2f\xfd", "looks like zstd"),
            (b"BZh9", "looks like bzip2"),
            (b"\x04\x22\x4d\x18", "looks like lz4"),
            (b"7z\xbc\xaf\x27\x1c", "looks like 7z"),
            (b"NRA\0\x02\0", "looks like NRA 2"),
            (b"NRA\0", "looks like no kind that is known"),
            (b"hello\n", "looks like text"),
            (&[0; 700], "begins with zero bytes only"),
            (b"\x00\xff\x01", "looks like no kind that is known"),
            (&ustar, "looks like tar"),
            (&tar_header(), "looks like tar"),
        ] {
            let error = refusal(&MemorySource::new(bytes), None).unwrap().to_string();
            assert_eq!(error, format!("no archive that nra reads: it {expected}"));
        }
        let error = refusal(&MemorySource::new(&b"NRA\0\x06\0"[..]), None).unwrap();
        assert_eq!(error.to_string(), "NRA version 6 is not supported (known: 1 to 5)");
        let error = refusal(&MemorySource::new(&b"PK\x03\x04rest"[..]), Some(Engine::Tar)).unwrap();
        assert_eq!(error.to_string(), "not tar: it looks like zip");
    }
}
