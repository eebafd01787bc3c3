//! What can be opened, and with which password.

use std::fmt;
use std::path::PathBuf;

use nra_format::entry::Entry;
use zeroize::Zeroizing;

/// What is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenTarget {
    /// The archive file at this path.
    File(PathBuf),
    /// Commit of the archive that is open; `None` = the newest.
    Commit(Option<u64>),
    /// The archive that is the content of an entry.
    Nested(Entry),
    /// The archive around the one that is open.
    Parent,
    /// The archive that is open, with a password for its content.
    Unlocked,
}

/// A password on its way to where it is used: the line that it was typed into, wiped behind it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
