//! The header: the first 32 bytes of a file.

use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Length of the header, bytes.
pub(super) const HEADER_LEN: u64 = 32;
/// First bytes of every NRA file.
pub(super) const MAGIC: [u8; 4] = *b"NRA\0";
/// Versions in the headers of earlier files. The layout does not depend on them.
const VERSIONS: [u16; 2] = [1, 2];

/// The position of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) manifest_offset: u64,
    /// Length in bytes, including the prefix.
    pub(super) manifest_len: u64,
}

impl Header {
    /// Reads the header of `source`. Returns `None` if this is not an earlier NRA file.
    pub(super) fn read(source: &dyn ReadAt) -> Result<Option<Self>> {
        if source.len() < 6 {
            return Ok(None);
        }
        let mut start = [0; 6];
        source.read_exact_at(0, &mut start)?;
        let version = u16::from_le_bytes([start[4], start[5]]);
        if start[..4] != MAGIC || !VERSIONS.contains(&version) {
            return Ok(None);
        }
        let corrupt = |detail: String| Error::corrupt("header", 0, detail);
        if source.len() < HEADER_LEN {
            return Err(corrupt(format!("{HEADER_LEN} bytes expected, {} found", source.len())));
        }
        let mut bytes = [0; HEADER_LEN as usize];
        source.read_exact_at(0, &mut bytes)?;
        let number = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("within the header"));
        let (manifest_offset, manifest_len) = (number(8), number(16));
        // No version has read the flags, or the data offset at byte 24.
        let end = manifest_offset.checked_add(manifest_len).filter(|&end| end <= source.len());
        if manifest_offset < HEADER_LEN || end.is_none() {
            let len = source.len();
            return Err(corrupt(format!(
                "the manifest ({manifest_len} bytes at {manifest_offset}) is not within the file ({len} bytes)"
            )));
        }
        Ok(Some(Self { manifest_offset, manifest_len }))
    }

    pub(super) fn manifest_end(&self) -> u64 {
        self.manifest_offset + self.manifest_len
    }

    pub(super) fn encode(&self, data_offset: u64) -> [u8; HEADER_LEN as usize] {
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&2u16.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.manifest_offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.manifest_len.to_le_bytes());
        bytes[24..].copy_from_slice(&data_offset.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    fn read(header: &Header, change: impl Fn(&mut Vec<u8>)) -> Result<Option<Header>> {
        let mut bytes = header.encode(7).to_vec();
        bytes.extend_from_slice(&[0; 68]);
        change(&mut bytes);
        Header::read(&MemorySource::new(bytes))
    }

    #[test]
    fn header_checks_match_earlier_versions() {
        let good = Header { manifest_offset: 40, manifest_len: 60 };
        assert_eq!(read(&good, |_| ()).unwrap(), Some(good));
        assert_eq!(read(&good, |bytes| bytes[4] = 1).unwrap(), Some(good));
        assert_eq!(read(&good, |bytes| bytes[6] = 9).unwrap(), Some(good));
        for other in [0, 3, 5] {
            assert_eq!(read(&good, |bytes| bytes[4] = other).unwrap(), None);
        }
        assert_eq!(read(&good, |bytes| bytes[0] = b'n').unwrap(), None);
        assert_eq!(read(&good, |bytes| bytes.truncate(5)).unwrap(), None);
        assert!(read(&good, |bytes| bytes.truncate(31)).is_err());
        assert!(read(&good, |bytes| bytes.truncate(99)).is_err());
        assert!(read(&Header { manifest_offset: 31, ..good }, |_| ()).is_err());
        assert!(read(&Header { manifest_len: u64::MAX, ..good }, |_| ()).is_err());
        assert!(read(&Header { manifest_len: 100_000_000_000, ..good }, |_| ()).is_err());
    }
}
