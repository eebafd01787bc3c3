//! What is extracted, and the path that it gets.

use nra_format::entry::Entry;

/// A selected entry and where it goes.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The entry.
    pub entry: Entry,
    /// Bytes of its path that are skipped in front.
    pub start: usize,
}

impl Item {
    /// Returns the path below the target.
    pub(super) fn path(&self) -> &[u8] {
        &self.entry.path.as_bytes()[self.start..]
    }
}

/// Splits a path into what comes before the last component and that component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Returns the path of something below `target` for messages.
pub(super) fn shown(target: &[u8], path: &[u8]) -> Vec<u8> {
    match target {
        b"" | b"." | b"./" => path.to_vec(),
        target if target.ends_with(b"/") => [target, path].concat(),
        target => [target, b"/", path].concat(),
    }
}

/// Joins a directory, possibly the target (empty), and a name.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
