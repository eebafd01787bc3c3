//! Status and extended attributes of a file.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Stat, fgetxattr, flistxattr, lgetxattr, llistxattr, major, minor};
use rustix::io::Errno;

use nra_format::entry::{Attribute, Device, Namespace, Timestamp};
use nra_format::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE};

/// Status of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Type.
    pub(crate) file_type: FileType,
    /// Permission, set-id and sticky bits.
    pub(crate) mode: u16,
    /// User id.
    pub(crate) user_id: u32,
    /// Group id.
    pub(crate) group_id: u32,
    /// Time of last modification.
    pub(crate) modified: Timestamp,
    /// Time of the last change of content or status.
    pub(crate) changed: Timestamp,
    /// Length of the content, bytes.
    pub(crate) size: u64,
    /// Bytes allocated in the file system.
    pub(crate) allocated_bytes: u64,
    /// Number of names.
    pub(crate) links: u64,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
    /// Numbers of a device file.
    pub(crate) device: Device,
}

impl Facts {
    /// Converts a status. The widths of its fields depend on the machine. The conversions only lose
    /// an invalid sign.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    pub(crate) fn new(stat: &Stat) -> Self {
        Self {
            file_type: FileType::from_raw_mode(stat.st_mode),
            mode: u16::try_from(stat.st_mode & 0o7777).expect("twelve bits fit"),
            user_id: stat.st_uid,
            group_id: stat.st_gid,
            modified: timestamp(i64::from(stat.st_mtime), stat.st_mtime_nsec as i64),
            changed: timestamp(i64::from(stat.st_ctime), stat.st_ctime_nsec as i64),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            allocated_bytes: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            links: u64::from(stat.st_nlink),
            identity: (u64::from(stat.st_dev), u64::from(stat.st_ino)),
            device: Device { major: major(stat.st_rdev), minor: minor(stat.st_rdev) },
        }
    }
}

fn timestamp(seconds: i64, nanoseconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: u32::try_from(nanoseconds).ok().filter(|&n| n < 1_000_000_000).unwrap_or(0) }
}

/// Why some extended attributes are missing from the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttributesLost {
    what: String,
    error: Errno,
}

impl AttributesLost {
    /// Returns whether the file does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.error, Errno::NOENT | Errno::NOTDIR)
    }
}

impl fmt::Display for AttributesLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} skipped: {}", self.what, reason(self.error))
    }
}

/// Reads extended attributes. Reuses its buffer.
#[derive(Debug)]
pub(crate) struct AttributeReader {
    buffer: Vec<u8>,
}

impl Default for AttributeReader {
    fn default() -> Self {
        Self { buffer: vec![0; 512] }
    }
}

impl AttributeReader {
    /// Reads all attributes of an open file, sorted by name.
    pub(crate) fn read(&mut self, file: impl AsFd) -> (Vec<Attribute>, Option<AttributesLost>) {
        let file = file.as_fd();
        self.collect(|list| flistxattr(file, list), |name, value| fgetxattr(file, name, value))
    }

    /// Reads all attributes of the file with this path, sorted by name. A symlink is not followed.
    pub(crate) fn read_path(&mut self, path: &[u8]) -> (Vec<Attribute>, Option<AttributesLost>) {
        self.collect(|list| llistxattr(path, list), |name, value| lgetxattr(path, name, value))
    }

    fn collect(
        &mut self,
        list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
        get: impl Fn(&[u8], &mut [u8]) -> Result<usize, Errno>,
    ) -> (Vec<Attribute>, Option<AttributesLost>) {
        let names = match self.fill(&list, MAX_ATTRIBUTE_VALUE) {
            Ok(0) | Err(Errno::NOTSUP | Errno::NOSYS) => return (Vec::new(), None),
            Ok(len) => self.buffer[..len].to_vec(),
            Err(error) => return (Vec::new(), Some(AttributesLost { what: "extended attributes".to_owned(), error })),
        };
        let mut attributes = Vec::new();
        let mut missing = None;
        for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
            let shown = || format!("extended attribute {}", nra_format::path::Quoted::new(name));
            if name.len() > MAX_ATTRIBUTE_NAME {
                missing = Some(AttributesLost { what: shown(), error: Errno::NAMETOOLONG });
                continue;
            }
            match self.fill(&|value| get(name, value), MAX_ATTRIBUTE_VALUE) {
                Ok(len) => attributes.push(Attribute {
                    namespace: Namespace::Xattr,
                    name: name.into(),
                    value: self.buffer[..len].into(),
                }),
                // Removed since they were listed.
                Err(Errno::NODATA) => {}
                Err(error) => missing = Some(AttributesLost { what: shown(), error }),
            }
        }
        attributes.sort_unstable();
        attributes.dedup_by(|a, b| a.name == b.name);
        (attributes, missing)
    }

    /// Calls `call` with a buffer that grows until the result fits.
    fn fill(&mut self, call: &impl Fn(&mut [u8]) -> Result<usize, Errno>, most: usize) -> Result<usize, Errno> {
        loop {
            match call(&mut self.buffer) {
                Err(Errno::RANGE) if self.buffer.len() < most => {
                    let len = (self.buffer.len() * 4).min(most);
                    self.buffer.resize(len, 0);
                }
                result => return result,
            }
        }
    }
}

/// Returns the text of a system error without its number.
pub(crate) fn reason(error: Errno) -> String {
    nra_format::error::reason(&error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_has_no_error_number() {
        assert_eq!(reason(Errno::ACCESS), "permission denied");
        assert_eq!(reason(Errno::IO), "input/output error");
    }
}
