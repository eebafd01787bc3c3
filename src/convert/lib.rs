//! Moves entries from one end to another: directories into archives, archives into directories.
//!
//! Nothing here prints; work reports through a [`Monitor`](nra_format::progress::Monitor).

mod accounts;
pub mod change;
pub mod compact;
pub mod diff;
pub mod earlier;
pub mod extract;
mod feed;
pub mod kinds;
mod loss;
mod new_file;
pub mod outgoing;
mod output;
pub mod pack;
mod pattern;
mod proc;
pub mod query;
pub mod repair;
pub mod rules;
pub mod salvage;
pub mod select;
pub mod shardfile;
pub mod tarball;
pub mod transfer;
mod walk;
pub mod zipfile;
