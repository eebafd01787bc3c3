//! Zip archives, read by their own directory, and the records of those that are written.
//!
//! The central directory is read once, record by record, into a table of entries; a member's record is read again when its content is asked
//! for, so that a million members cost no more memory than their rows. Stored and deflated content is decoded here, other methods and
//! encrypted members by the crate `zip`, which is shown a file with that one member.
//!
//! Where the central directory is lost or damaged, as in a file that is cut, members are found by their local headers (`scan`).
//!
//! What is believed: the central directory. Of a local header only its length counts. Members that share bytes with another one are refused.

mod archive;
mod crate_reader;
mod encode;
mod end;
mod member;
mod names;
mod record;
mod scan;

pub use archive::{ZipArchive, ZipMembers};
pub use encode::{Header, MAX_NAME, Method, Packed, end, fits_comment, keeps_time};
