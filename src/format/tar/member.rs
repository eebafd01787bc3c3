//! An entry of a tar archive, as it is written there.

use std::sync::Arc;

use crate::format::entry::{Attribute, Device, Kind, Timestamp};

/// What an entry of a tar archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// A file.
    File,
    /// A further name of an earlier entry.
    HardLink,
    /// A symlink.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A directory.
    Directory,
    /// A fifo.
    Fifo,
}

impl MemberKind {
    /// Returns the kind of the entry that it becomes: a hard link is a file.
    pub fn entry_kind(self) -> Kind {
        match self {
            Self::File | Self::HardLink => Kind::File,
            Self::Directory => Kind::Directory,
            Self::Symlink => Kind::Symlink,
            Self::Fifo => Kind::Fifo,
            Self::CharacterDevice => Kind::CharacterDevice,
            Self::BlockDevice => Kind::BlockDevice,
        }
    }
}

/// An entry of a tar archive, as it is written there: names are not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: MemberKind,
    /// Length of the content with holes, bytes; 0 for everything but files.
    pub size: u64,
    /// Where the data is in the file, if there are holes in it; in order, no part is empty.
    pub segments: Option<Vec<(u64, u64)>>,
    /// Length of the data, bytes.
    pub stored: u64,
    /// Offset of the header in the archive.
    pub header: u64,
    /// Offset of the data in the archive.
    pub data: u64,
    /// Target of a link.
    pub link: Vec<u8>,
    /// Permission, set-id and sticky bits.
    pub mode: u16,
    /// Owner.
    pub user_id: u64,
    /// Group.
    pub group_id: u64,
    /// Name of the owner, empty when unknown.
    pub user: Vec<u8>,
    /// Name of the group, empty when unknown.
    pub group: Vec<u8>,
    /// Time of last modification.
    pub modified: Option<Timestamp>,
    /// Numbers of a device.
    pub device: Option<Device>,
    /// Extended attributes, sorted, no two of one name.
    pub attributes: Arc<[Attribute]>,
    /// What of it can't be kept, for people.
    pub remarks: Vec<String>,
}
