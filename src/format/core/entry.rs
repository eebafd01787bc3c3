//! Values that describe an entry, the same for every container.

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use crate::path::EntryPath;

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
    pub fn describes_top_directory(&self) -> bool {
        self.namespace == Namespace::Nra && self.name.starts_with(b"root-")
    }

    /// Says whether it is an extended attribute that only root can set, and that depends on the machine.
    pub fn is_system_xattr(&self) -> bool {
        self.namespace == Namespace::Xattr && (self.name.starts_with(b"trusted.") || self.name.starts_with(b"security."))
    }

    /// Says whether it is one that users give: a tag, a property or a media type.
    pub fn is_user_defined(&self) -> bool {
        self.namespace == Namespace::User || self.namespace == Namespace::Nra && &*self.name == MEDIA_TYPE
    }

    /// Says whether both have one name, so that the one takes the place of the other.
    pub fn has_same_name(&self, other: &Self) -> bool {
        (self.namespace, &self.name) == (other.namespace, &other.name)
    }

    /// Puts it among sorted attributes, in the place of its namesake if there is one.
    pub fn insert_into(self, attributes: &mut Vec<Self>) {
        attributes.retain(|other| !other.has_same_name(&self));
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

/// Where an engine keeps the content of an entry, in a form that only the engine understands.
pub trait EngineLocation: Any + fmt::Debug + Send + Sync {
    /// Reports whether there is no content.
    fn is_none(&self) -> bool;

    /// Returns the position for reading in the order of storage: see [`Entry::position`].
    fn position(&self) -> (u64, u64);

    /// Reports whether `other` is the same location.
    fn is_same(&self, other: &dyn EngineLocation) -> bool;

    /// Returns the memory that the location occupies, bytes.
    fn heap_bytes(&self) -> usize;

    /// Feeds the location to `state`; equal locations feed the same.
    fn feed(&self, state: &mut dyn Hasher);
}

/// Where the content of an entry is stored. Opaque to everybody but the engine that made it.
#[derive(Debug, Clone, Default)]
pub struct Location(Inner);

#[derive(Debug, Clone, Default)]
enum Inner {
    /// There is no content.
    #[default]
    None,
    /// An entry that its engine knows by number (see [`crate::table`]).
    Numbered { number: u64, place: (u64, u64) },
    /// Known to the engine alone.
    Engine(Arc<dyn EngineLocation>),
}

impl Location {
    /// The location of an entry without content.
    pub const NONE: Self = Self(Inner::None);

    /// Returns the location of an entry that its engine knows by `number`. `place` is what [`Entry::position`] returns.
    pub fn numbered(number: u64, place: (u64, u64)) -> Self {
        Self(Inner::Numbered { number, place })
    }

    /// Returns the location that `location` describes.
    pub fn engine(location: impl EngineLocation) -> Self {
        Self(Inner::Engine(Arc::new(location)))
    }

    /// Returns number and place of an entry that its engine knows by number.
    pub fn number(&self) -> Option<(u64, (u64, u64))> {
        match self.0 {
            Inner::Numbered { number, place } => Some((number, place)),
            Inner::None | Inner::Engine(_) => None,
        }
    }

    /// Returns what the engine stored, if it is a `T`.
    pub fn downcast<T: EngineLocation>(&self) -> Option<&T> {
        match &self.0 {
            Inner::Engine(location) => (&**location as &dyn Any).downcast_ref(),
            Inner::None | Inner::Numbered { .. } => None,
        }
    }

    /// Returns what the engine stored to change it. Anything but a `T` is replaced by `T::default()` first.
    pub fn downcast_mut<T: EngineLocation + Clone + Default>(&mut self) -> &mut T {
        let is_own = match &mut self.0 {
            Inner::Engine(location) => Arc::get_mut(location).is_some_and(|location| (location as &dyn Any).is::<T>()),
            Inner::None | Inner::Numbered { .. } => false,
        };
        // A location that other entries hold too is copied, so that only this one changes.
        if !is_own {
            self.0 = Inner::Engine(Arc::new(self.downcast::<T>().cloned().unwrap_or_default()));
        }
        let Inner::Engine(location) = &mut self.0 else { unreachable!("it was stored above") };
        let location = Arc::get_mut(location).expect("nobody else holds it");
        (location as &mut dyn Any).downcast_mut().expect("its type was checked above")
    }

    /// Returns the memory that the location occupies beside its own size, bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Inner::None | Inner::Numbered { .. } => 0,
            Inner::Engine(location) => location.heap_bytes(),
        }
    }

    /// Returns the position for reading in the order of storage.
    fn position(&self) -> (u64, u64) {
        match &self.0 {
            Inner::None => (0, 0),
            Inner::Numbered { place, .. } => *place,
            Inner::Engine(location) => location.position(),
        }
    }

    /// Reports whether there is no content.
    fn is_none(&self) -> bool {
        match &self.0 {
            Inner::None => true,
            Inner::Numbered { .. } => false,
            Inner::Engine(location) => location.is_none(),
        }
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            _ if self.is_none() || other.is_none() => self.is_none() == other.is_none(),
            (Inner::Numbered { number, place }, Inner::Numbered { number: other, place: there }) => {
                (number, place) == (other, there)
            }
            (Inner::Engine(one), Inner::Engine(other)) => one.is_same(&**other),
            _ => false,
        }
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            _ if self.is_none() => state.write_u8(0),
            Inner::None => unreachable!("it has no content"),
            Inner::Numbered { number, place } => (number, place).hash(state),
            Inner::Engine(location) => location.feed(state),
        }
    }
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
    pub location: Location,
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
            location: Location::NONE,
        }
    }

    /// Says whether both have their content from the same place of the same archive, so that it is stored once.
    pub fn shares_content(&self, other: &Self) -> bool {
        self.location == other.location && !self.location.is_none()
    }

    /// Returns 64 bits that stand for where the content lies: equal for entries that share it.
    pub fn content_fingerprint(&self, keys: &impl BuildHasher) -> u64 {
        keys.hash_one(&self.location)
    }

    /// Returns where the content begins in the container: entries sorted by this are read in the order of storage.
    ///
    /// The first number tells the block or stream that is decoded as a whole, the second the place within it.
    pub fn position(&self) -> (u64, u64) {
        self.location.position()
    }
}
