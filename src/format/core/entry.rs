//! Values that describe an entry, independent of the container.

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use crate::path::EntryPath;

/// Kind of an entry. The numbers are those of the spec (nra.md, section 8.2).
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

/// Name of the attribute with the media type of the content, such as `image/png`.
pub const MEDIA_TYPE: &[u8] = b"media-type";

/// Prefix of the names of attributes for embeddings: of an archive they describe a vector space, of an entry they are a vector in it. Spec: nra.md,
/// section 12.
pub const EMBEDDING: &[u8] = b"embedding:";

/// Origin of an attribute. The numbers are those of the spec (nra.md, section 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Namespace {
    /// Extended attribute of the file system.
    Xattr = 0,
    /// Tag or property set by the user.
    User = 1,
    /// Defined by the format.
    Nra = 2,
    /// Copied from another container.
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
    /// Returns whether it is an attribute of an archive that describes its top directory.
    pub fn describes_top_directory(&self) -> bool {
        self.namespace == Namespace::Nra && self.name.starts_with(b"root-")
    }

    /// Returns whether it is an extended attribute that only root can set and that depends on the machine.
    pub fn is_system_xattr(&self) -> bool {
        self.namespace == Namespace::Xattr && (self.name.starts_with(b"trusted.") || self.name.starts_with(b"security."))
    }

    /// Returns whether users set it: a tag, a property or a media type.
    pub fn is_user_defined(&self) -> bool {
        self.namespace == Namespace::User || self.namespace == Namespace::Nra && &*self.name == MEDIA_TYPE
    }

    /// Returns whether both have the same namespace and name, so that one replaces the other.
    pub fn has_same_name(&self, other: &Self) -> bool {
        (self.namespace, &self.name) == (other.namespace, &other.name)
    }

    /// Inserts it into sorted attributes, replacing the one of the same name.
    pub fn insert_into(self, attributes: &mut Vec<Self>) {
        attributes.retain(|other| !other.has_same_name(&self));
        let index = attributes.partition_point(|other| *other < self);
        attributes.insert(index, self);
    }

    /// Returns whether it describes a vector space or is a vector.
    pub fn is_embedding(&self) -> bool {
        self.namespace == Namespace::Nra && self.name.starts_with(EMBEDDING)
    }
}

/// Metadata, shared between entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Metadata {
    /// Permission, set-id and sticky bits: 0 to 0o7777.
    pub mode: u16,
    /// Owner, if known.
    pub owner: Option<Owner>,
    /// Attributes, sorted by namespace and name, no two equal; shared, since entries of different owners may have the same large attributes.
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

/// Where an engine stores the content of an entry, in a form that only the engine understands.
pub trait EngineLocation: Any + fmt::Debug + Send + Sync {
    /// Returns whether the entry has no content.
    fn is_none(&self) -> bool;

    /// Returns the storage position: see [`Entry::position`].
    fn position(&self) -> (u64, u64);

    /// Returns whether `other` is the same location.
    fn is_same(&self, other: &dyn EngineLocation) -> bool;

    /// Returns the memory that the location occupies, bytes.
    fn heap_bytes(&self) -> usize;

    /// Hashes the location. Equal locations have equal hashes.
    fn hash_into(&self, state: &mut dyn Hasher);
}

/// Where the content of an entry is stored. Only the engine that made it can interpret it.
#[derive(Debug, Clone, Default)]
pub struct Location(Inner);

#[derive(Debug, Clone, Default)]
enum Inner {
    /// No content.
    #[default]
    None,
    /// The engine identifies the content by number (see [`crate::table`]).
    Numbered { number: u64, position: (u64, u64) },
    /// The engine has a form of its own.
    Engine(Arc<dyn EngineLocation>),
}

impl Location {
    /// The location of an entry without content.
    pub const NONE: Self = Self(Inner::None);

    /// Returns the location of content that its engine identifies by `number`. `position` is the result of [`Entry::position`].
    pub fn numbered(number: u64, position: (u64, u64)) -> Self {
        Self(Inner::Numbered { number, position })
    }

    /// Returns a location in a form of the engine.
    pub fn engine(location: impl EngineLocation) -> Self {
        Self(Inner::Engine(Arc::new(location)))
    }

    /// Returns number and position of content that is identified by number.
    pub fn number(&self) -> Option<(u64, (u64, u64))> {
        match self.0 {
            Inner::Numbered { number, position } => Some((number, position)),
            Inner::None | Inner::Engine(_) => None,
        }
    }

    /// Returns the engine's form if it is a `T`.
    pub fn downcast<T: EngineLocation>(&self) -> Option<&T> {
        match &self.0 {
            Inner::Engine(location) => (&**location as &dyn Any).downcast_ref(),
            Inner::None | Inner::Numbered { .. } => None,
        }
    }

    /// Returns the engine's form to change it. Anything but a `T` is replaced by `T::default()` first.
    pub fn downcast_mut<T: EngineLocation + Clone + Default>(&mut self) -> &mut T {
        let is_own = match &mut self.0 {
            Inner::Engine(location) => Arc::get_mut(location).is_some_and(|location| (location as &dyn Any).is::<T>()),
            Inner::None | Inner::Numbered { .. } => false,
        };
        // Other entries may share the location: copy it, so that only this entry changes.
        if !is_own {
            self.0 = Inner::Engine(Arc::new(self.downcast::<T>().cloned().unwrap_or_default()));
        }
        let Inner::Engine(location) = &mut self.0 else { unreachable!("it was stored above") };
        let location = Arc::get_mut(location).expect("it is not shared");
        (location as &mut dyn Any).downcast_mut().expect("its type was checked above")
    }

    /// Returns the memory that the location occupies beside its own size, bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Inner::None | Inner::Numbered { .. } => 0,
            Inner::Engine(location) => location.heap_bytes(),
        }
    }

    fn position(&self) -> (u64, u64) {
        match &self.0 {
            Inner::None => (0, 0),
            Inner::Numbered { position, .. } => *position,
            Inner::Engine(location) => location.position(),
        }
    }

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
            (Inner::Numbered { number: a, position: at }, Inner::Numbered { number: b, position: bt }) => (a, at) == (b, bt),
            (Inner::Engine(a), Inner::Engine(b)) => a.is_same(&**b),
            _ => self.is_none() && other.is_none(),
        }
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Inner::Numbered { number, position } => (number, position).hash(state),
            Inner::Engine(location) if !location.is_none() => location.hash_into(state),
            Inner::None | Inner::Engine(_) => state.write_u8(0),
        }
    }
}

/// One file, directory, symlink, fifo or device of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path within the archive.
    pub path: EntryPath,
    /// Its kind.
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
    /// The container has no entry for this directory; nra added it because other entries are below it.
    pub implied: bool,
    /// Where the content is stored.
    pub location: Location,
}

impl Entry {
    /// Returns an entry of `kind` without content and with mode 0644 (directories: 0755).
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

    /// Returns whether both entries of an archive share their content, which is stored once.
    pub fn shares_content(&self, other: &Self) -> bool {
        self.location == other.location && !self.location.is_none()
    }

    /// Returns a hash of the location of the content: equal for entries that share it.
    pub fn content_fingerprint(&self, keys: &impl BuildHasher) -> u64 {
        keys.hash_one(&self.location)
    }

    /// Returns the storage position of the content. Entries sorted by position are read in the order of storage.
    ///
    /// The first number identifies the unit that is decoded as a whole, the second is the offset within the unit.
    pub fn position(&self) -> (u64, u64) {
        self.location.position()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    /// A location that is an offset; 0 means no content.
    #[derive(Debug, Clone, Default, PartialEq)]
    struct Offset(u64);

    impl EngineLocation for Offset {
        fn is_none(&self) -> bool {
            self.0 == 0
        }
        fn position(&self) -> (u64, u64) {
            (self.0, 0)
        }
        fn is_same(&self, other: &dyn EngineLocation) -> bool {
            (other as &dyn Any).downcast_ref() == Some(self)
        }
        fn heap_bytes(&self) -> usize {
            size_of::<Self>()
        }
        fn hash_into(&self, state: &mut dyn Hasher) {
            state.write_u64(self.0);
        }
    }

    #[test]
    fn equal_locations_have_equal_hashes() {
        let locations = [
            Location::NONE,
            Location::engine(Offset(0)),
            Location::engine(Offset(7)),
            Location::engine(Offset(7)),
            Location::engine(Offset(8)),
            Location::numbered(7, (7, 0)),
            Location::numbered(7, (7, 0)),
            Location::numbered(7, (7, 1)),
            Location::numbered(8, (7, 0)),
        ];
        let group = [0, 0, 1, 1, 2, 3, 3, 4, 5];
        let keys = RandomState::new();
        for (a, one) in locations.iter().enumerate() {
            for (b, other) in locations.iter().enumerate() {
                assert_eq!(one == other, group[a] == group[b], "{one:?} {other:?}");
                assert!(one != other || keys.hash_one(one) == keys.hash_one(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn entries_without_content_do_not_share_it() {
        let entry = |location| Entry { location, ..Entry::new(EntryPath::try_from("a").unwrap(), Kind::File) };
        for none in [Location::NONE, Location::engine(Offset(0))] {
            assert!(!entry(none.clone()).shares_content(&entry(none)));
        }
        let numbered = entry(Location::numbered(0, (0, 0)));
        assert!(numbered.shares_content(&numbered));
        let keys = RandomState::new();
        assert_eq!(numbered.content_fingerprint(&keys), numbered.clone().content_fingerprint(&keys));
    }

    #[test]
    fn location_returns_what_its_engine_stored() {
        let engine = Location::engine(Offset(7));
        assert_eq!((engine.downcast(), engine.number()), (Some(&Offset(7)), None));
        assert_eq!((engine.position(), engine.heap_bytes()), ((7, 0), size_of::<Offset>()));
        let numbered = Location::numbered(3, (5, 6));
        assert_eq!((numbered.downcast::<Offset>(), numbered.number()), (None, Some((3, (5, 6)))));
        assert_eq!((numbered.position(), numbered.heap_bytes()), ((5, 6), 0));
        assert_eq!((Location::NONE.position(), Location::NONE.number()), ((0, 0), None));
    }

    #[test]
    fn changing_a_shared_location_changes_one_entry() {
        let mut first = Location::engine(Offset(7));
        let second = first.clone();
        first.downcast_mut::<Offset>().0 = 8;
        assert_eq!((first.downcast(), second.downcast()), (Some(&Offset(8)), Some(&Offset(7))));
        first.downcast_mut::<Offset>().0 += 1;
        assert_eq!(first.downcast(), Some(&Offset(9)));
        let mut numbered = Location::numbered(1, (1, 1));
        assert_eq!(numbered.downcast_mut::<Offset>(), &Offset(0));
        assert_eq!(numbered, Location::NONE);
    }

    #[test]
    fn inserted_attribute_replaces_the_one_of_its_name() {
        let attribute = |namespace, name: &str, value: &str| Attribute {
            namespace,
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
        };
        let mut attributes = Vec::new();
        for (name, value) in [("b", "1"), ("a", "2"), ("b", "0"), ("c", "3")] {
            attribute(Namespace::User, name, value).insert_into(&mut attributes);
        }
        attribute(Namespace::Xattr, "b", "x").insert_into(&mut attributes);
        let user = |name, value| attribute(Namespace::User, name, value);
        let expected = [attribute(Namespace::Xattr, "b", "x"), user("a", "2"), user("b", "0"), user("c", "3")];
        assert_eq!(attributes, expected);
    }
}
