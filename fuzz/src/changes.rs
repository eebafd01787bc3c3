//! Changes to archives, made from the bytes that the fuzzer gives.

use arbitrary::Arbitrary;
use nra::fuzzing::{Operation, Part};

/// A change under the checksums, see [`Operation`].
#[derive(Debug, Arbitrary)]
pub enum Change {
    Overwrite { item: u8, part: Place, at: u16, bytes: Vec<u8> },
    Insert { item: u8, part: Place, at: u16, bytes: Vec<u8> },
    Remove { item: u8, part: Place, at: u16, len: u8 },
    Redirect { item: u8, from: u8, to: u8 },
    Drop { item: u8 },
    Repeat { item: u8 },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Place {
    Header,
    Payload,
    Directory,
}

impl From<Place> for Part {
    fn from(place: Place) -> Self {
        match place {
            Place::Header => Self::Header,
            Place::Payload => Self::Payload,
            Place::Directory => Self::Directory,
        }
    }
}

impl From<Change> for Operation {
    fn from(change: Change) -> Self {
        match change {
            Change::Overwrite { item, part, at, bytes } => {
                Self::Overwrite { item: item.into(), part: part.into(), at: at.into(), bytes }
            }
            Change::Insert { item, part, at, bytes } => {
                Self::Insert { item: item.into(), part: part.into(), at: at.into(), bytes }
            }
            Change::Remove { item, part, at, len } => {
                Self::Remove { item: item.into(), part: part.into(), at: at.into(), len: len.into() }
            }
            Change::Redirect { item, from, to } => Self::Redirect { item: item.into(), from: from.into(), to: to.into() },
            Change::Drop { item } => Self::Drop { item: item.into() },
            Change::Repeat { item } => Self::Repeat { item: item.into() },
        }
    }
}

/// Damage to the bytes of a file, which nothing is set right after.
#[derive(Debug, Arbitrary)]
pub enum Hit {
    /// Bits of one byte.
    Flip { at: u32, mask: u8 },
    /// Zero bytes, as from a sector that was lost.
    Zero { at: u32, len: u16 },
    /// The end is cut off.
    Cut { at: u32 },
    /// Bytes follow.
    Append { bytes: Vec<u8> },
}

impl Hit {
    /// Damages the file.
    pub fn apply(&self, file: &mut Vec<u8>) {
        let place = |at: u32| at as usize % file.len().max(1);
        match self {
            Self::Flip { at, mask } => {
                let at = place(*at);
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= mask;
                }
            }
            Self::Zero { at, len } => {
                let at = place(*at);
                let end = (at + usize::from(*len)).min(file.len());
                file[at..end].fill(0);
            }
            Self::Cut { at } => file.truncate(place(*at)),
            Self::Append { bytes } => file.extend_from_slice(bytes),
        }
    }
}
