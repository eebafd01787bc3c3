//! Values that describe an entry, the same for every container.

use std::hash::BuildHasher;
use std::sync::Arc;

use crate::format::nra::content::Content;
use crate::format::path::EntryPath;

/// What an entry is. The numbers are those of the spec (nra.md, section 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Regular file.
    File = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Character device.
    CharacterDevice = 5,
    /// Block device.
    BlockDevice = 6,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [Self::File, Self::Directory, Self::Symlink, Self::Fifo, Self::CharacterDevice, Self::BlockDevice];

    /// Returns the kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == number)
    }
}

/// A point in time: seconds since 1970-01-01T00:00:00Z and nanoseconds (0 to 999,999,999) after that second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Owner of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Owner {
    /// User id.
    pub user_id: u64,
    /// Group id.
    pub group_id: u64,
    /// User name, empty when unknown.
    pub user: Box<[u8]>,
    /// Group name, empty when unknown.
    pub group: Box<[u8]>,
}

/// Name of the attribute of an entry that says what the content is, as in `image/png`.
pub const MEDIA_TYPE: &[u8] = b"media-type";

/// What names of attributes begin with that describe a space of vectors (of the archive) or are a vector in it (of an entry). Spec: nra.md, section 12.
pub const EMBEDDING: &[u8] = b"embedding:";

/// Where an attribute comes from. The numbers are those of the spec (nra.md, section 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Namespace {
    /// Extended attribute of the file system.
    Xattr = 0,
    /// Tag or property given by the user.
    User = 1,
    /// Defined by the format.
    Nra = 2,
    /// Kept from another container.
    Foreign = 3,
}

impl Namespace {
    /// All namespaces.
    pub const ALL: [Self; 4] = [Self::Xattr, Self::User, Self::Nra, Self::Foreign];

    /// Returns the namespace with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&namespace| namespace as u8 == number)
    }
}

/// A named value of an entry or of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attribute {
    /// Origin.
    pub namespace: Namespace,
    /// Name, 0 to 255 bytes.
    pub name: Box<[u8]>,
    /// Value.
    pub value: Box<[u8]>,
}

impl Attribute {
    /// Says whether it is one of the archive that only describes the directory that was packed.
    pub fn is_of_root(&self) -> bool {
        self.namespace == Namespace::Nra && self.name.starts_with(b"root-")
    }

    /// Says whether it is an extended attribute that only root can set, and that depends on the machine.
    pub fn is_of_machine(&self) -> bool {
        self.namespace == Namespace::Xattr && (self.name.starts_with(b"trusted.") || self.name.starts_with(b"security."))
    }

    /// Says whether it is one that users give: a tag, a property or a media type.
    pub fn is_given(&self) -> bool {
        self.namespace == Namespace::User || self.namespace == Namespace::Nra && &*self.name == MEDIA_TYPE
    }

    /// Says whether both have one name, so that the one takes the place of the other.
    pub fn is_namesake(&self, other: &Self) -> bool {
        (self.namespace, &self.name) == (other.namespace, &other.name)
    }

    /// Puts it among sorted attributes, in the place of its namesake if there is one.
    pub fn give_to(self, attributes: &mut Vec<Self>) {
        attributes.retain(|other| !other.is_namesake(&self));
        let place = attributes.partition_point(|other| *other < self);
        attributes.insert(place, self);
    }

    /// Says whether it describes a space of vectors, or is a vector.
    pub fn is_embedding(&self) -> bool {
        self.namespace == Namespace::Nra && self.name.starts_with(EMBEDDING)
    }
}

/// What many entries have in common; shared between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Metadata {
    /// Permission, set-id and sticky bits: 0 to 0o7777.
    pub mode: u16,
    /// Owner, if known.
    pub owner: Option<Owner>,
    /// Attributes, sorted by namespace and name, no two equal; shared, since many entries with different owners may have the same large ones.
    pub attributes: Arc<[Attribute]>,
}

/// Major and minor number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Where the content of an entry lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    /// In blocks of an NRA 5 file.
    Nra(Content),
    /// In a container whose engine knows its members by number (see [`crate::format::table`]).
    Member {
        /// Number that the engine gave it.
        number: u64,
        /// Unit that is decoded as a whole, and offset within it: see [`Entry::place`].
        place: (u64, u64),
    },
}

/// One file, directory, symlink, fifo or device of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path within the archive.
    pub path: EntryPath,
    /// What it is.
    pub kind: Kind,
    /// Mode, owner, attributes.
    pub metadata: Arc<Metadata>,
    /// Time of last modification, if known.
    pub modified: Option<Timestamp>,
    /// Length of the content, bytes; 0 for everything but files.
    pub size: u64,
    /// Files of the same group (other than 0) are hard links of each other.
    pub link_group: u64,
    /// Target of a symlink, empty for other kinds.
    pub target: Box<[u8]>,
    /// Numbers of a device, `None` for other kinds.
    pub device: Option<Device>,
    /// The directory was added by nra because something lies below it; nothing is known of it.
    pub implied: bool,
    /// Where the content is stored.
    pub(crate) location: Location,
}

impl Entry {
    /// Returns an entry of `kind` without content, with mode 0644 (directories 0755) and nothing else known.
    pub fn new(path: EntryPath, kind: Kind) -> Self {
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        Self {
            path,
            kind,
            metadata: Arc::new(Metadata { mode, ..Metadata::default() }),
            modified: None,
            size: 0,
            link_group: 0,
            target: Box::default(),
            device: None,
            implied: false,
            location: Location::Nra(Content::None),
        }
    }

    /// Says whether both have their content from the same place of the same archive, so that it is stored once.
    pub fn shares_content(&self, other: &Self) -> bool {
        self.location == other.location && self.location != Location::Nra(Content::None)
    }

    /// Returns 64 bits that stand for where the content lies: equal for entries that share it.
    pub fn content_print(&self, keys: &impl BuildHasher) -> u64 {
        keys.hash_one(&self.location)
    }

    /// Returns where the content begins in the container: entries sorted by this are read in the order of storage.
    ///
    /// The first number tells the block or stream that is decoded as a whole, the second the place within it.
    pub fn place(&self) -> (u64, u64) {
        match &self.location {
            Location::Nra(content) => content.place(),
            Location::Member { place, .. } => *place,
        }
    }

    /// Returns the content as an NRA 5 file has it; for entries of other containers there is none.
    pub(crate) fn content(&self) -> &Content {
        match &self.location {
            Location::Nra(content) => content,
            Location::Member { .. } => &Content::None,
        }
    }

    /// Returns the content to change it, which takes the entry out of any other container.
    pub(crate) fn content_mut(&mut self) -> &mut Content {
        if let Location::Member { .. } = self.location {
            self.location = Location::Nra(Content::None);
        }
        match &mut self.location {
            Location::Nra(content) => content,
            Location::Member { .. } => unreachable!("it was replaced above"),
        }
    }
}
