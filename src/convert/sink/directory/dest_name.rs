//! The name of one entry in its directory: created exclusively, or under a temporary name until the
//! new file is complete.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, RenameFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use super::options::{Action, Overwrite};
use super::restore_rules::modified;
use nra_format::entry::Timestamp;
use nra_format::path::Quoted;

/// Maximum number of names that are tried for a backup, another name or a temporary file.
const MAX_TRIES: u32 = 10_000;

/// Why an entry is skipped if a directory has its name.
pub(super) const DIRECTORY_IN_THE_WAY: &str = "a directory is in the way";
/// Why a directory is skipped if another kind of file has its name.
pub(super) const OTHER_IN_THE_WAY: &str = "something that is not a directory is in the way";

/// Why an entry is skipped if another file has its name.
pub(super) const NAME_EXISTS: &str = "something of this name exists";

/// The name under which a file was created.
#[derive(Debug)]
pub(super) struct DestName {
    /// Current name.
    current: Vec<u8>,
    /// Final name; differs from `current` while an existing file has it.
    name: Vec<u8>,
    /// The action to report.
    pub action: Action,
}

impl DestName {
    /// Returns the current name.
    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    /// Returns the final name.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Creates a file in `directory` under `name` with `make`, which must fail with `EEXIST` if the
    /// name exists. `overwrite` decides what happens then. A file system may treat another spelling
    /// as the same name. An existing file with that spelling stays if it is an entry of the archive
    /// (`is_entry`).
    pub(super) fn claim<T>(
        directory: &OwnedFd,
        name: &[u8],
        overwrite: Overwrite,
        modified: Option<Timestamp>,
        is_entry: impl Fn(&[u8]) -> bool,
        mut make: impl FnMut(&[u8]) -> Result<T, Refusal>,
    ) -> Result<(T, Self), Fault> {
        match make(name) {
            Ok(made) => return Ok((made, Self { current: name.into(), name: name.into(), action: Action::Create })),
            Err(Refusal::Exists) => {}
            Err(Refusal::Fault(fault)) => return Err(fault),
        }
        if !matches!(overwrite, Overwrite::Refuse | Overwrite::Rename)
            && let Some(other) = other_spelling(directory, name).filter(|other| is_entry(other))
        {
            return Err(Fault::skip(format!(
                "the file system treats its name as that of another entry, {}",
                Quoted::new(&other)
            )));
        }
        match overwrite {
            Overwrite::Refuse => return Err(Fault::skip(NAME_EXISTS)),
            Overwrite::Rename => return Self::rename(name, make),
            Overwrite::Replace | Overwrite::Skip | Overwrite::KeepNewer | Overwrite::Backup => {}
        }
        let there = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| Fault::system("read metadata of existing file", name, errno))?;
        let action = match overwrite {
            Overwrite::Backup => Action::Backup,
            _ if is_replaced(&there, overwrite, modified) => Action::Replace,
            _ if is_directory(&there) => return Err(Fault::skip(DIRECTORY_IN_THE_WAY)),
            _ => return Err(Fault::Keep),
        };
        for _ in 0..MAX_TRIES {
            let current = temporary_name();
            match make(&current) {
                Ok(made) => return Ok((made, Self { current, name: name.into(), action })),
                Err(Refusal::Exists) => {}
                Err(Refusal::Fault(fault)) => return Err(fault),
            }
        }
        Err(Fault::skip("no temporary name is free"))
    }

    fn rename<T>(name: &[u8], mut make: impl FnMut(&[u8]) -> Result<T, Refusal>) -> Result<(T, Self), Fault> {
        for other in other_names(name) {
            match make(&other) {
                Ok(made) => return Ok((made, Self { current: other.clone(), name: other, action: Action::Rename })),
                Err(Refusal::Exists) => {}
                Err(Refusal::Fault(fault)) => return Err(fault),
            }
        }
        Err(Fault::skip("no other name is free"))
    }

    /// Gives the file its final name.
    pub(super) fn commit(&self, directory: &OwnedFd) -> Result<(), Fault> {
        if self.current == self.name {
            return Ok(());
        }
        let fail = |errno| Fault::system("rename", &self.name, errno);
        if self.action == Action::Backup {
            back_up(directory, &self.name).map_err(fail)?;
            return rename_exclusive(directory, &self.current, &self.name).map_err(fail);
        }
        rustix::fs::renameat(directory, &*self.current, directory, &*self.name).map_err(fail)?;
        // Renaming one hard link of a file over another has no effect.
        match rustix::fs::unlinkat(directory, &*self.current, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// Removes the file.
    pub(super) fn abandon(&self, directory: &OwnedFd) {
        // The original error is more useful than that of the removal.
        let _ = rustix::fs::unlinkat(directory, &*self.current, AtFlags::empty());
    }
}

/// Why a file was not created.
pub(super) enum Refusal {
    /// The name exists.
    Exists,
    /// Another reason.
    Fault(Fault),
}

/// Returns the listed spelling of an existing file that the file system also finds under `name`,
/// because it ignores case.
fn other_spelling(directory: &OwnedFd, name: &[u8]) -> Option<Vec<u8>> {
    let inode = |name: &[u8]| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| stat.st_ino);
    let existing = inode(name)?;
    let swapped = in_other_case(name);
    // Most file systems distinguish them.
    if swapped == name || inode(&swapped) != Some(existing) {
        return None;
    }
    let names = rustix::fs::Dir::read_from(directory).ok()?.filter_map(Result::ok);
    let own = names.filter(|found| found.ino() == existing).map(|found| found.file_name().to_bytes().to_vec());
    listed_otherwise(own, name)
}

fn in_other_case(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte }).collect()
}

/// Returns the first of the names of a file, unless `name` is one of them.
fn listed_otherwise(mut names: impl Iterator<Item = Vec<u8>>, name: &[u8]) -> Option<Vec<u8>> {
    names.try_fold(None, |other, found| if found == name { Err(()) } else { Ok(Some(other.unwrap_or(found))) }).ok().flatten()
}

/// Returns whether an existing file is replaced. A directory never is.
pub(super) fn is_replaced(there: &Stat, overwrite: Overwrite, modified: Option<Timestamp>) -> bool {
    let is_old_enough = match overwrite {
        Overwrite::Replace => true,
        Overwrite::KeepNewer => is_older(there, modified),
        Overwrite::Refuse | Overwrite::Skip | Overwrite::Backup | Overwrite::Rename => false,
    };
    is_old_enough && !is_directory(there)
}

/// Returns whether it is the status of a directory.
pub(super) fn is_directory(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode) == FileType::Directory
}

/// Returns whether an existing file is older than an entry; `false` if the time of the entry is
/// unknown.
fn is_older(there: &Stat, time: Option<Timestamp>) -> bool {
    time.is_some_and(|time| modified(there) < time)
}

/// Renames `name` to the first free backup name.
pub(super) fn back_up(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    for number in 1..MAX_TRIES {
        let suffix = if number == 1 { "~".into() } else { format!("~{number}") };
        match rename_exclusive(directory, name, &[name, suffix.as_bytes()].concat()) {
            Err(Errno::EXIST) => {}
            // The file vanished.
            Err(Errno::NOENT) => return Ok(()),
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

/// Renames without replacing anything.
fn rename_exclusive(directory: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // Some file systems don't support this. Creating a link fails if the name exists, too.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
            rustix::fs::unlinkat(directory, from, AtFlags::empty())
        }
        other => other,
    }
}

/// Returns a name that no other file should have.
fn temporary_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".nra-{}-{number}.part", std::process::id()).into_bytes()
}

/// Returns the names to try, in order, if `name` exists.
pub(super) fn other_names(name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (2..MAX_TRIES).map(move |number| numbered(name, number))
}

/// Returns `name` with a number before its extension.
fn numbered(name: &[u8], number: u32) -> Vec<u8> {
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0).unwrap_or(name.len());
    let (stem, extension) = name.split_at(dot);
    [stem, format!(" ({number})").as_bytes(), extension].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spelling_is_listed_in_place_of_the_name() {
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let other = |listed: &[&str]| listed_otherwise(names(listed).into_iter(), b"readme");
        assert_eq!(other(&["README"]).as_deref(), Some(&b"README"[..]));
        // Two hard links.
        assert_eq!(other(&["README", "readme"]), None);
        assert_eq!(other(&["readme"]), None);
        assert_eq!(other(&[]), None);
        assert_eq!(in_other_case(b"Re-1.\xc3\xa9"), b"rE-1.\xc3\xa9");
        let folder = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(std::fs::File::open(folder.path()).unwrap());
        assert_eq!(other_spelling(&directory, b"a"), None);
        std::fs::write(folder.path().join("a"), "").unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("A")).unwrap();
        assert_eq!(other_spelling(&directory, b"a"), None);
    }

    #[test]
    fn numbered_names_keep_the_extension() {
        for (name, expected) in [("a.txt", "a (2).txt"), ("a", "a (2)"), (".bashrc", ".bashrc (2)"), ("a.tar.gz", "a.tar (2).gz")]
        {
            assert_eq!(numbered(name.as_bytes(), 2), expected.as_bytes());
        }
    }
}
