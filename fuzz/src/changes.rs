//! Changes to archives, derived from fuzzer input.

use arbitrary::Arbitrary;
use nra::fuzzing::{Operation, Part};

use crate::archives::Base;

/// A change below the checksums, see [`Operation`].
#[derive(Debug, Arbitrary)]
pub enum Change {
    Overwrite { element: u8, part: Place, at: u16, bytes: Vec<u8> },
    Insert { element: u8, part: Place, at: u16, bytes: Vec<u8> },
    Remove { element: u8, part: Place, at: u16, len: u8 },
    Redirect { element: u8, from: u8, to: u8 },
    Drop { element: u8 },
    Repeat { element: u8 },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Place {
    Header,
    Payload,
    BlockIndex,
}

impl From<Place> for Part {
    fn from(place: Place) -> Self {
        match place {
            Place::Header => Self::Header,
            Place::Payload => Self::Payload,
            Place::BlockIndex => Self::BlockIndex,
        }
    }
}

impl From<Change> for Operation {
    fn from(change: Change) -> Self {
        match change {
            Change::Overwrite { element, part, at, bytes } => {
                Self::Overwrite { element: element.into(), part: part.into(), at: at.into(), bytes }
            }
            Change::Insert { element, part, at, bytes } => {
                Self::Insert { element: element.into(), part: part.into(), at: at.into(), bytes }
            }
            Change::Remove { element, part, at, len } => {
                Self::Remove { element: element.into(), part: part.into(), at: at.into(), len: len.into() }
            }
            Change::Redirect { element, from, to } => Self::Redirect { element: element.into(), from: from.into(), to: to.into() },
            Change::Drop { element } => Self::Drop { element: element.into() },
            Change::Repeat { element } => Self::Repeat { element: element.into() },
        }
    }
}

/// Damage to the bytes of a file. Checksums are not corrected.
#[derive(Debug, Arbitrary)]
pub enum Hit {
    /// Flips bits of one byte.
    Flip { at: u32, mask: u8 },
    /// Zero bytes, as of a lost sector.
    Zero { at: u32, len: u16 },
    /// Truncates the file.
    Cut { at: u32 },
    /// Appends bytes.
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

/// Changes to an archive: damage, or changes by a malicious writer.
#[derive(Debug, Arbitrary)]
pub enum Mutation {
    Hit(Vec<Hit>),
    Reseal(Vec<Change>),
}

impl Mutation {
    /// Returns the changed file of an archive.
    pub fn apply(self, base: &Base) -> Vec<u8> {
        match self {
            Self::Hit(hits) => {
                let mut file = base.bytes.to_vec();
                hits.iter().for_each(|hit| hit.apply(&mut file));
                file
            }
            Self::Reseal(changes) => {
                let operations: Vec<Operation> = changes.into_iter().map(Operation::from).collect();
                base.dissection.rebuild(&operations)
            }
        }
    }
}
