//! The place of one entry in its directory: taken exclusively, or beside what is there until the new one is whole.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, RenameFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use super::options::{Action, Overwrite};
use super::rules::modified;
use nra_format::entry::Timestamp;
use nra_format::path::Quoted;

/// Names tried for a backup, another name or a temporary file before giving up.
const MAX_TRIES: u32 = 10_000;

/// Why an entry is skipped where a directory stays.
pub(super) const DIRECTORY_IN_THE_WAY: &str = "a directory is in the way";
/// Why a directory is skipped where something else stays.
pub(super) const OTHER_IN_THE_WAY: &str = "something that is not a directory is in the way";

/// Where something was made.
#[derive(Debug)]
pub(super) struct DestName {
    /// Name it has now.
    current: Vec<u8>,
    /// Name it shall have; differs from `current` while something else has it.
    name: Vec<u8>,
    /// What that amounts to.
    pub action: Action,
}

impl DestName {
    /// Returns the name for now.
    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    /// Returns the final name.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Makes something in `directory` under `name` by `make`, which must fail with `EEXIST` rather than touch what is there. What happens then is up to `overwrite`; but
    /// where that is another spelling of the name, which the file system takes for the same and `is_entry` says is one of the archive too, it stays.
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
            return Err(Fault::omit(format!("here it is the same as {}, another entry", Quoted::new(&other))));
        }
        match overwrite {
            Overwrite::Refuse => return Err(Fault::omit("something of this name exists")),
            Overwrite::Rename => return Self::rename(name, make),
            Overwrite::Replace | Overwrite::Skip | Overwrite::KeepNewer | Overwrite::Backup => {}
        }
        let there = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| Fault::system("look at existing file", name, errno))?;
        let action = match overwrite {
            Overwrite::Backup => Action::Backup,
            _ if gives_way(&there, overwrite, modified) => Action::Replace,
            _ if is_directory(&there) => return Err(Fault::omit(DIRECTORY_IN_THE_WAY)),
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
        Err(Fault::omit("no temporary name is free"))
    }

    fn rename<T>(name: &[u8], mut make: impl FnMut(&[u8]) -> Result<T, Refusal>) -> Result<(T, Self), Fault> {
        for other in other_names(name) {
            match make(&other) {
                Ok(made) => return Ok((made, Self { current: other.clone(), name: other, action: Action::Rename })),
                Err(Refusal::Exists) => {}
                Err(Refusal::Fault(fault)) => return Err(fault),
            }
        }
        Err(Fault::omit("no other name is free"))
    }

    /// Gives what was made its final name.
    pub(super) fn commit(&self, directory: &OwnedFd) -> Result<(), Fault> {
        if self.current == self.name {
            return Ok(());
        }
        let fail = |errno| Fault::system("rename", &self.name, errno);
        if self.action == Action::Backup {
            set_aside(directory, &self.name).map_err(fail)?;
            return rename_exclusive(directory, &self.current, &self.name).map_err(fail);
        }
        rustix::fs::renameat(directory, &*self.current, directory, &*self.name).map_err(fail)?;
        // Renaming one link of a file over another one of it does nothing at all.
        match rustix::fs::unlinkat(directory, &*self.current, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// Removes what was made.
    pub(super) fn abandon(&self, directory: &OwnedFd) {
        // When even this fails there is nothing left to try, and the reason for giving up is the better message.
        let _ = rustix::fs::unlinkat(directory, &*self.current, AtFlags::empty());
    }
}

/// Why making something failed.
pub(super) enum Refusal {
    /// The name is taken.
    Exists,
    /// Something else.
    Fault(Fault),
}

/// Returns the spelling of the name by which the file system finds something in `directory` that is called otherwise: in other case.
fn other_spelling(directory: &OwnedFd, name: &[u8]) -> Option<Vec<u8>> {
    let inode = |name: &[u8]| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| stat.st_ino);
    let there = inode(name)?;
    let swapped = in_other_case(name);
    // Most file systems tell the two apart.
    if swapped == name || inode(&swapped) != Some(there) {
        return None;
    }
    let names = rustix::fs::Dir::read_from(directory).ok()?.filter_map(Result::ok);
    let own = names.filter(|found| found.ino() == there).map(|found| found.file_name().to_bytes().to_vec());
    listed_otherwise(own, name)
}

fn in_other_case(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte }).collect()
}

/// Returns one of the names of a file unless `name` is among them.
fn listed_otherwise(mut names: impl Iterator<Item = Vec<u8>>, name: &[u8]) -> Option<Vec<u8>> {
    names.try_fold(None, |other, found| if found == name { Err(()) } else { Ok(Some(other.unwrap_or(found))) }).ok().flatten()
}

/// Says whether what is there is replaced; a directory never is.
pub(super) fn gives_way(there: &Stat, overwrite: Overwrite, modified: Option<Timestamp>) -> bool {
    let is_old_enough = match overwrite {
        Overwrite::Replace => true,
        Overwrite::KeepNewer => is_older(there, modified),
        Overwrite::Refuse | Overwrite::Skip | Overwrite::Backup | Overwrite::Rename => false,
    };
    is_old_enough && !is_directory(there)
}

/// Says whether a directory is there.
pub(super) fn is_directory(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode) == FileType::Directory
}

/// Says whether what is there is older than an entry; not when nothing is known of the entry's time.
fn is_older(there: &Stat, time: Option<Timestamp>) -> bool {
    time.is_some_and(|time| modified(there) < time)
}

/// Renames `name` to the first free backup name.
pub(super) fn set_aside(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    for number in 1..MAX_TRIES {
        let suffix = if number == 1 { "~".into() } else { format!("~{number}") };
        match rename_exclusive(directory, name, &[name, suffix.as_bytes()].concat()) {
            Err(Errno::EXIST) => {}
            // What stood there is gone: nothing to save.
            Err(Errno::NOENT) => return Ok(()),
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

/// Renames without replacing anything.
fn rename_exclusive(directory: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // Some file systems can't; a link fails if the name is taken, too.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
            rustix::fs::unlinkat(directory, from, AtFlags::empty())
        }
        other => other,
    }
}

/// Returns a name that nothing else should have.
fn temporary_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".nra-{}-{number}.part", std::process::id()).into_bytes()
}

/// Returns the names that something gets, one after the other, when `name` is taken.
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
    fn another_spelling_is_one_that_the_directory_lists_instead() {
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
    fn numbers_go_before_the_extension() {
        for (name, expected) in [("a.txt", "a (2).txt"), ("a", "a (2)"), (".bashrc", ".bashrc (2)"), ("a.tar.gz", "a.tar (2).gz")]
        {
            assert_eq!(numbered(name.as_bytes(), 2), expected.as_bytes());
        }
    }
}
