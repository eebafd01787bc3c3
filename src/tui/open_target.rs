//! The target of opening and its password.

use std::fmt;
use std::path::PathBuf;

use nra_format::entry::Entry;
use zeroize::Zeroizing;

/// The archive or commit to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenTarget {
    /// The archive file at this path.
    File(PathBuf),
    /// A commit of the archive shown; `None` = the newest.
    Commit(Option<u64>),
    /// The archive in the content of an entry.
    Nested(Entry),
    /// The archive around the one shown.
    Parent,
    /// The archive shown, with a password for its content.
    Unlocked,
}

/// A password, wiped from memory after use.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
