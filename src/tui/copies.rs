//! Copies of content for programs that need a file, each in a private directory.
//!
//! All of them are deleted on exit, even one that is being written.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// Bytes of the name that are kept: its end, which has the extension.
const MAX_NAME: usize = 64;

/// The copies of a run.
#[derive(Debug, Default)]
pub struct Copies(Arc<Mutex<Vec<TempDir>>>);

impl Copies {
    /// Creates an empty file for a copy of the entry with this name, and returns its path.
    pub fn create(&self, name: &[u8]) -> io::Result<PathBuf> {
        let directory = tempfile::Builder::new().prefix("nra-").permissions(PermissionsExt::from_mode(0o700)).tempdir()?;
        let path = directory.path().join(harmless(name));
        File::create_new(&path)?;
        lock(&self.0).push(directory);
        Ok(path)
    }

    pub fn remove(&self, copy: &Path) {
        lock(&self.0).retain(|directory| !copy.starts_with(directory.path()));
    }

    /// Returns a function that deletes all copies.
    pub fn remover(&self) -> impl Fn() + Send + use<> {
        let copies = Arc::downgrade(&self.0);
        move || {
            if let Some(copies) = copies.upgrade() {
                lock(&copies).clear();
            }
        }
    }
}

fn lock(copies: &Mutex<Vec<TempDir>>) -> MutexGuard<'_, Vec<TempDir>> {
    copies.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a file name without characters that are special to a shell or a terminal.
fn harmless(name: &[u8]) -> String {
    let harmless = |byte: &u8| if byte.is_ascii_alphanumeric() || b"._-".contains(byte) { char::from(*byte) } else { '_' };
    let kept: String = name[name.len().saturating_sub(MAX_NAME)..].iter().map(harmless).collect();
    // `.` and `..` are directories.
    if kept.trim_matches('.').is_empty() { "content".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn names_of_copies_are_escaped() {
        assert_eq!(harmless(b".."), "content");
        assert_eq!(harmless("日.txt".as_bytes()), "___.txt");
        assert_eq!(harmless(&[b'a'; 300]).len(), MAX_NAME);
    }

    #[test]
    fn copies_are_deleted_on_exit() {
        let copies = Copies::default();
        let [first, second, third] = [b"a", b"a", b"b"].map(|name| copies.create(name).unwrap());
        let mut file = File::options().write(true).open(&first).unwrap();
        let remover = copies.remover();
        copies.remove(&second);
        assert!(first.exists() && !second.parent().unwrap().exists() && third.exists());
        drop(copies);
        file.write_all(b"more").unwrap();
        remover();
        assert!(!first.parent().unwrap().exists() && !third.parent().unwrap().exists());
    }

    #[test]
    fn signal_deletes_all_copies() {
        let copies = Copies::default();
        let path = copies.create(b"a").unwrap();
        copies.remover()();
        assert!(!path.parent().unwrap().exists());
    }
}
