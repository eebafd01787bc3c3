//! An entry of a tar archive, as it is written there.

use std::sync::Arc;

use super::header::Header;
use super::pax::Wrong;
use super::preface::Preface;
use super::sparse::{self, Segment};
use nra_core::entry::{Attribute, Device, Kind, Timestamp};
use nra_core::error::Error;
use nra_core::limits::{MAX_OFFSET, MAX_OWNER_NAME};

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

/// How the content of an entry begins.
#[derive(Debug)]
pub(super) enum Begin {
    /// With its data, which has no holes.
    Plain,
    /// With its data, which lies in these parts of the file.
    Known(Vec<Segment>),
    /// With blocks that continue an old GNU map.
    OldMap(Vec<Segment>),
    /// With the map of pax format 1.0.
    NewMap,
}

impl Member {
    /// Puts an entry together from its header and what was said in front of it, where its first header stands at `first`; [`Member::data`]
    /// is still to be set, and of a sparse file the segments. What was said of it alone is forgotten then.
    ///
    /// # Errors
    ///
    /// A sentence about what is wrong with it; `Limit` for a size that no file can have.
    pub(super) fn assemble(header: &Header<'_>, first: u64, preface: &mut Preface) -> Result<(Box<Self>, Begin), Wrong> {
        let flag = header.kind();
        let name = preface.name(header);
        let own_size = preface.number("size")?;
        let size = match own_size {
            Some(size) => size,
            None => header.size().and_then(|size| u64::try_from(size).ok()).ok_or("its size is not a number")?,
        };
        let mut remarks = Vec::new();
        let kind = kind(flag, name.ends_with(b"/") && size == 0, &mut remarks);
        let stored = match kind {
            MemberKind::File => size,
            // Lists of names that GNU tar writes into incremental archives.
            MemberKind::Directory if flag == b'D' => size,
            // POSIX allows content here; only those who write it say so in a pax header.
            MemberKind::HardLink => own_size.unwrap_or(0),
            _ => 0,
        };
        if stored > MAX_OFFSET {
            return Err(Wrong::Error(Error::Limit { what: "size of a file", found: stored, limit: MAX_OFFSET }));
        }
        let id = |key, field: Option<i64>| -> Result<u64, Wrong> {
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
            remarks.push(format!("the name of its {whose} is skipped: it has {} bytes, more than {MAX_OWNER_NAME}", name.len()));
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
            header: first,
            data: 0,
            mode: header.mode().and_then(|mode| u16::try_from(mode & 0o7777).ok()).unwrap_or(0o644),
            user_id: id("uid", header.user_id())?,
            group_id: id("gid", header.group_id())?,
            user,
            group,
            modified: preface.modified().or_else(|| header.modified().map(|seconds| Timestamp { seconds, nanoseconds: 0 })),
            device: if is_device { Some(device.ok_or("its device numbers are not numbers")?) } else { None },
            attributes: preface.attributes(&mut remarks),
            name,
            link: preface.link(header),
            remarks,
        });
        let begin = member.begin(header, preface)?;
        preface.forget();
        Ok((member, begin))
    }

    /// Tells how the content begins; a sparse file gets its length.
    fn begin(&mut self, header: &Header<'_>, preface: &Preface) -> Result<Begin, Wrong> {
        if self.kind != MemberKind::File {
            return Ok(Begin::Plain);
        }
        let own = preface.own();
        if header.kind() == b'S' && own.get("GNU.sparse.major").is_none() {
            let (pairs, more, size) = header.sparse();
            self.size = size.and_then(|size| u64::try_from(size).ok()).ok_or("the length of a sparse file is not a number")?;
            let mut map = Vec::new();
            sparse::parse_old(pairs, &mut map)?;
            return Ok(if more { Begin::OldMap(map) } else { Begin::Known(map) });
        }
        let real = match own.number("GNU.sparse.realsize")? {
            Some(size) => Some(size),
            None => own.number("GNU.sparse.size")?,
        };
        let Some(size) = real else { return Ok(Begin::Plain) };
        self.size = size;
        Ok(if own.get("GNU.sparse.major") == Some(b"1") {
            Begin::NewMap
        } else if let Some(list) = own.get("GNU.sparse.map") {
            Begin::Known(sparse::parse_list(list)?)
        } else {
            Begin::Known(own.sparse.clone())
        })
    }
}

/// Returns what the kind of a header means. `like_directory`: it has no content, and a slash behind its name.
fn kind(flag: u8, like_directory: bool, remarks: &mut Vec<String>) -> MemberKind {
    match flag {
        // As the first form of tar tells a directory, and most readers take it from every form.
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
