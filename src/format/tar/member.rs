//! A tar entry as stored.

use std::sync::Arc;

use super::header::Header;
use super::pax::Invalid;
use super::preface::Preface;
use super::sparse::{self, Segment};
use nra_core::entry::{Attribute, Device, Kind, Metadata, Owner, Timestamp};
use nra_core::error::Error;
use nra_core::limits::{MAX_OFFSET, MAX_OWNER_NAME};

/// The type of a tar entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// A file.
    File,
    /// Another name of an earlier entry.
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
    /// Returns the kind of the resulting entry; a hard link is a file.
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

/// A tar entry as stored. Names are not validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name.
    pub name: Vec<u8>,
    /// Type.
    pub kind: MemberKind,
    /// Length of the content including holes, bytes; 0 for all but files.
    pub size: u64,
    /// Offsets and lengths of the data in a sparse file, in order; no segment is empty.
    pub segments: Option<Vec<(u64, u64)>>,
    /// Length of the data, bytes.
    pub stored: u64,
    /// Offset of the data in the archive.
    pub data: u64,
    /// Target of a link.
    pub link: Vec<u8>,
    /// Permission, set-id and sticky bits.
    pub mode: u16,
    /// User ID of the owner.
    pub user_id: u64,
    /// Group ID.
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
    /// Remarks on parts that are skipped.
    pub remarks: Vec<String>,
}

/// The start of an entry's content.
#[derive(Debug)]
pub(super) enum ContentStart {
    /// Data without holes.
    Data,
    /// Data of these segments.
    Sparse(Vec<Segment>),
    /// Continuation blocks of an old GNU map.
    OldMap(Vec<Segment>),
    /// The map of pax format 1.0.
    NewMap,
}

impl Member {
    /// Returns mode, owner and attributes.
    pub fn metadata(&self) -> Metadata {
        let (user, group) = (self.user.as_slice().into(), self.group.as_slice().into());
        let owner = Owner { user_id: self.user_id, group_id: self.group_id, user, group };
        Metadata { mode: self.mode, owner: Some(owner), attributes: Arc::clone(&self.attributes) }
    }

    /// Assembles an entry from its header and the preceding extension headers, which are then
    /// dropped. [`Member::data`] and the segments of a sparse file are not set.
    ///
    /// # Errors
    ///
    /// The first invalid field; `Limit` if the size exceeds the largest offset.
    pub(super) fn assemble(header: &Header<'_>, preface: &mut Preface) -> Result<(Box<Self>, ContentStart), Invalid> {
        let flag = header.kind();
        let name = preface.name(header);
        let own_size = preface.number("size")?;
        let size = match own_size {
            Some(size) => size,
            None => header.size().and_then(|size| u64::try_from(size).ok()).ok_or("the size is not a number")?,
        };
        let mut remarks = Vec::new();
        let kind = kind(flag, name.ends_with(b"/") && size == 0, &mut remarks);
        let stored = match kind {
            MemberKind::File => size,
            // Lists of names in incremental archives of GNU tar.
            MemberKind::Directory if flag == b'D' => size,
            // POSIX allows content here. Only writers that add it state the size in a pax header.
            MemberKind::HardLink => own_size.unwrap_or(0),
            _ => 0,
        };
        if stored > MAX_OFFSET {
            return Err(Invalid::Error(Error::Limit { what: "size of a file", found: stored, limit: MAX_OFFSET }));
        }
        let id = |key, field: Option<i64>| -> Result<u64, Invalid> {
            Ok(match preface.number(key)? {
                Some(id) => id,
                None => field.and_then(|id| u64::try_from(id).ok()).unwrap_or(0),
            })
        };
        let mut owner_name = |key: &str, field: &[u8], whose: &str| {
            let name = preface.record(key).unwrap_or(field);
            if name.len() <= MAX_OWNER_NAME {
                return name.to_vec();
            }
            remarks.push(format!("the name of the {whose} is skipped: it has {} bytes, more than {MAX_OWNER_NAME}", name.len()));
            Vec::new()
        };
        let user = owner_name("uname", header.user(), "owner");
        let group = owner_name("gname", header.group(), "group");
        let device = header.device().map(|(major, minor)| Device { major, minor });
        let is_device = matches!(kind, MemberKind::CharacterDevice | MemberKind::BlockDevice);
        let mut member = Box::new(Self {
            kind,
            size: if kind == MemberKind::File { stored } else { 0 },
            segments: None,
            stored,
            data: 0,
            mode: header.mode().and_then(|mode| u16::try_from(mode & 0o7777).ok()).unwrap_or(0o644),
            user_id: id("uid", header.user_id())?,
            group_id: id("gid", header.group_id())?,
            user,
            group,
            modified: preface.modified().or_else(|| header.modified().map(|seconds| Timestamp { seconds, nanoseconds: 0 })),
            device: if is_device { Some(device.ok_or("the device numbers are invalid")?) } else { None },
            attributes: preface.attributes(&mut remarks),
            name,
            link: preface.link(header),
            remarks,
        });
        let start = member.content_start(header, preface)?;
        preface.clear_next();
        Ok((member, start))
    }

    /// Returns how the content starts, and sets the length of a sparse file.
    fn content_start(&mut self, header: &Header<'_>, preface: &Preface) -> Result<ContentStart, Invalid> {
        if self.kind != MemberKind::File {
            return Ok(ContentStart::Data);
        }
        let own = preface.next_records();
        if header.kind() == b'S' && own.get("GNU.sparse.major").is_none() {
            let (pairs, more, size) = header.sparse();
            self.size = size.and_then(|size| u64::try_from(size).ok()).ok_or("the length of a sparse file is not a number")?;
            let mut map = Vec::new();
            sparse::parse_old(pairs, &mut map)?;
            return Ok(if more { ContentStart::OldMap(map) } else { ContentStart::Sparse(map) });
        }
        let real = match own.number("GNU.sparse.realsize")? {
            Some(size) => Some(size),
            None => own.number("GNU.sparse.size")?,
        };
        let Some(size) = real else { return Ok(ContentStart::Data) };
        self.size = size;
        Ok(if own.get("GNU.sparse.major") == Some(b"1") {
            ContentStart::NewMap
        } else if let Some(list) = own.get("GNU.sparse.map") {
            ContentStart::Sparse(sparse::parse_list(list)?)
        } else {
            ContentStart::Sparse(own.sparse.clone())
        })
    }
}

/// Returns the type that a header flag stands for. `like_directory`: there is no content and the
/// name ends with a slash.
fn kind(flag: u8, like_directory: bool, remarks: &mut Vec<String>) -> MemberKind {
    match flag {
        // Directories of the oldest tar form; most readers accept them in all forms.
        b'0' | 0 | b'7' if like_directory => MemberKind::Directory,
        b'0' | 0 | b'7' | b'S' => MemberKind::File,
        b'1' => MemberKind::HardLink,
        b'2' => MemberKind::Symlink,
        b'3' => MemberKind::CharacterDevice,
        b'4' => MemberKind::BlockDevice,
        b'5' | b'D' => MemberKind::Directory,
        b'6' => MemberKind::Fifo,
        _ => {
            remarks.push(format!("unknown type '{}': kept as a file", char::from(flag).escape_default()));
            MemberKind::File
        }
    }
}
