//! Recovery data: what restores the exact bytes of a damaged archive.
//!
//! It lies behind the tail of the archive, is followed by that tail once more, and protects bytes, whatever they mean: an encrypted
//! archive needs no key for it, and a reader that does not care sees the archive as it was. [`protect`] writes it, [`check`] says
//! what is damaged and whether it can be restored, [`restore`] does that in a copy.
//!
//! Memory: one group with its parities, whatever the length of the archive. A writer takes 256 MiB at most, and less when less is given
//! (then groups are shorter). Who restores takes what the groups need ([`Geometry::restoring_bytes`]: less than 1 GiB for the longest that
//! the format allows), or refuses when that is more than is given.
//!
//! Spec: nra.md, section 19.

mod find;
mod frames;
mod geometry;
mod group;
mod protect;
mod restore;
mod survey;
#[cfg(test)]
mod tests;
mod trailer;
mod view;

pub use find::{End, begins, end, find, foreign, present, standing};
pub use geometry::{GEOMETRY_LEN, Geometry};
pub use protect::{plan, protect};
pub use restore::restore;
pub use survey::{Report, check};
pub use trailer::Trailer;
