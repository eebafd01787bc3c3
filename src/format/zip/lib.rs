//! Reads zip archives through their central directory, and encodes the records of new archives.
//!
//! The central directory is read once into a table of entries. The record of a member is read again
//! when its content is needed, so each member costs only its row in the table. Stored, deflate,
//! lzma and xz content is decoded here. Other methods and encrypted members are decoded by the
//! crate `zip`, which gets a file that contains only that member.
//!
//! If the central directory is missing or damaged, members are found by their local headers
//! (`scan`).
//!
//! The central directory is authoritative; only the length of a local header is used. Members that
//! overlap another one are rejected.

mod archive;
mod encode;
mod end;
mod member;
mod names;
mod record;
mod scan;

pub use archive::{ZipArchive, ZipBackend};
pub use encode::{Header, MAX_NAME, Method, Packed, end, fits_comment, keeps_time};
