//! The combined effect of pending changes: new paths, conflicts, and the steps to write them.
//!
//! Paths of changes are those of the commit shown, and all changes happen at once. A renamed
//! directory keeps its contents, and additions go to its new path. The order in which changes were
//! made does not matter.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rangemap::RangeSet;

use crate::glyphs;
use crate::state::pending::joined;
use crate::state::{PendingChange, PendingChanges, Refusal, Renames};
use crate::workers::errors::error_message;
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Result, reason};
use nra_format::path::EntryPath;

/// The reason changes cannot be written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// One of them conflicts with the archive or with another.
    Conflict(Refusal),
    /// The archive cannot be read.
    Read(String),
}

impl From<Refusal> for ChangeError {
    fn from(why: Refusal) -> Self {
        Self::Conflict(why)
    }
}

impl From<ChangeError> for String {
    fn from(fault: ChangeError) -> Self {
        let (ChangeError::Conflict(why) | ChangeError::Read(why)) = fault;
        why
    }
}

/// Changes that can be written together.
pub struct ChangeSet<'a> {
    archive: &'a dyn Archive,
    pub removed: RangeSet<u64>,
    pub renames: Renames,
    /// Additions by their new path.
    additions: BTreeMap<EntryPath, Addition>,
}

/// The addition at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Addition {
    /// A renamed entry: its path before, and whether it is a directory.
    Renamed(EntryPath, bool),
    Created,
    /// A file or directory on disk; true if it replaces a file or is merged into a directory.
    Added(PathBuf, bool),
}

impl<'a> ChangeSet<'a> {
    pub fn of(archive: &'a dyn Archive, changes: &[PendingChange]) -> std::result::Result<Self, ChangeError> {
        Self::combine(archive, changes).map_err(|(_, why)| why)
    }

    /// Combines changes, or returns the index of the first one in conflict.
    fn combine(archive: &'a dyn Archive, changes: &[PendingChange]) -> std::result::Result<Self, (usize, ChangeError)> {
        let renames = Renames::of(changes);
        let mut set = Self { archive, removed: RangeSet::default(), renames, additions: BTreeMap::new() };
        for change in changes {
            if let PendingChange::Remove(ranges, _) = change {
                set.removed.extend(ranges.iter().filter(|range| !range.is_empty()).cloned());
            }
        }
        let mut places = BTreeMap::new();
        for (index, change) in changes.iter().enumerate() {
            if let Some(path) = set.add(change).map_err(|why| (index, why))? {
                places.insert(path, index);
            }
        }
        places.iter().try_for_each(|(path, index)| set.is_free(path).map_err(|why| (*index, why)))?;
        Ok(set)
    }

    /// Records what a change adds, and returns its path.
    fn add(&mut self, change: &PendingChange) -> std::result::Result<Option<EntryPath>, ChangeError> {
        let additions = match change {
            PendingChange::Remove(..) => return Ok(None),
            PendingChange::MakeDirectory(_) => Addition::Created,
            PendingChange::Add(file, _, meets) => Addition::Added(file.clone(), *meets),
            PendingChange::Rename(from, _) => {
                let Some((number, entry)) = self.find(from)? else {
                    return Err(format!("{} no longer exists", shown(from)).into());
                };
                if self.removed.contains(&number) {
                    return Err(format!("{} is to be removed and renamed: undo one of the two first (P)", shown(from)).into());
                }
                Addition::Renamed(from.clone(), entry.kind == Kind::Directory)
            }
        };
        let (path, _) = change.new_path().ok_or_else(|| "not a valid entry name".to_owned())?;
        let path = self.placed(&path)?;
        match self.additions.insert(path.clone(), additions) {
            Some(_) => Err(format!("{} already has a pending change", shown(&path)).into()),
            None => Ok(Some(path)),
        }
    }

    /// Checks that an addition has no conflict.
    fn is_free(&self, path: &EntryPath) -> std::result::Result<(), ChangeError> {
        if let Some(there) = self.there(path)? {
            let is_directory = there.kind == Kind::Directory;
            match self.additions.get(path) {
                // The user knows that the name exists. Another change may have put it there.
                Some(Addition::Added(file, true)) => match file.symlink_metadata() {
                    Ok(found) if found.is_dir() == is_directory => {}
                    Ok(_) => return Err(differs(path, is_directory).into()),
                    Err(error) => {
                        let file = glyphs::printable(file.as_os_str().as_bytes());
                        return Err(format!("cannot read {file}: {}", reason(&error)).into());
                    }
                },
                _ => return Err(format!("{} already exists", shown(path)).into()),
            }
        }
        for above in path.above() {
            let is_directory = match self.additions.get(&above) {
                // Its contents are unknown until it is written.
                Some(Addition::Added(..)) => {
                    let why = "is to be added: write that change first (W)";
                    return Err(format!("{} {why}", shown(&above)).into());
                }
                Some(Addition::Renamed(_, is_directory)) => *is_directory,
                Some(Addition::Created) => true,
                None => self.there(&above)?.is_none_or(|entry| entry.kind == Kind::Directory),
            };
            if !is_directory {
                return Err(format!("{} is not a directory", shown(&above)).into());
            }
        }
        Ok(())
    }

    /// Returns the path of an addition, whose directory may be renamed.
    pub fn placed(&self, path: &EntryPath) -> std::result::Result<EntryPath, ChangeError> {
        match path.parent() {
            Some(parent) => Ok(joined(self.renames.then(&parent)?.as_bytes(), &[b"/", path.name()].concat())?),
            None => Ok(path.clone()),
        }
    }

    /// Returns the entry of the commit shown that is at a path afterwards, unless it is renamed
    /// itself.
    pub fn there(&self, path: &EntryPath) -> std::result::Result<Option<Entry>, ChangeError> {
        // It was there before, or has moved with a directory.
        let came = path.above().filter_map(|above| match self.additions.get(&above) {
            Some(Addition::Renamed(from, _)) => Some(joined(from.as_bytes(), &path.as_bytes()[above.as_bytes().len()..])),
            _ => None,
        });
        for before in std::iter::once(Ok(path.clone())).chain(came) {
            // A path that is too long does not exist.
            let Ok(before) = before else { continue };
            if let Some((number, entry)) = self.find(&before)?
                && !self.removed.contains(&number)
                && !self.renames.has(&before)
                && self.renames.then(&before)? == *path
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns the renames in steps that can be done one after the other. Renames that conflict go
    /// through unused names.
    pub fn steps(&self) -> std::result::Result<Vec<(EntryPath, EntryPath)>, ChangeError> {
        let moves: Vec<(&EntryPath, &EntryPath)> = (self.additions.iter())
            .filter_map(|(to, additions)| if let Addition::Renamed(from, _) = additions { Some((from, to)) } else { None })
            .collect();
        let meets = |a: &EntryPath, b: &EntryPath| a == b || a.is_below(b) || b.is_below(a);
        let is_alone = |(from, to): &(&EntryPath, &EntryPath)| {
            let mut others = moves.iter().filter(|(other, _)| other != from);
            !others.any(|(other, there)| [from, to].iter().any(|path| meets(path, other) || meets(path, there)))
        };
        let (alone, mut others): (Vec<_>, Vec<_>) = moves.iter().copied().partition(is_alone);
        // Renames may cancel out.
        let goes = alone.into_iter().filter(|(from, to)| from != to);
        let mut steps: Vec<_> = goes.map(|(from, to)| (from.clone(), to.clone())).collect();
        let depth = |path: &EntryPath| path.components().count();
        // First away, the deepest first, so that the paths of the others stay valid; then to the
        // new paths from the top down.
        others.sort_by_key(|(from, _)| std::cmp::Reverse(depth(from)));
        let mut there = Vec::new();
        let mut number = 0u64;
        for (from, to) in others {
            let between = self.unused(&mut number)?;
            steps.push((from.clone(), between.clone()));
            there.push((between, to.clone()));
        }
        there.sort_by_key(|(_, to)| depth(to));
        steps.append(&mut there);
        Ok(steps)
    }

    /// Returns a path that is unused before and after, starting from `number`.
    fn unused(&self, number: &mut u64) -> std::result::Result<EntryPath, ChangeError> {
        loop {
            let path = joined(format!("~{number}").as_bytes(), b"")?;
            *number += 1;
            let comes = self.additions.keys().any(|additions| *additions == path || additions.is_below(&path));
            if !comes && self.find(&path)?.is_none() {
                return Ok(path);
            }
        }
    }

    fn find(&self, path: &EntryPath) -> std::result::Result<Option<(u64, Entry)>, ChangeError> {
        self.archive.find(path.as_bytes()).map_err(|error| ChangeError::Read(error_message(&error)))
    }
}

/// Returns the changes without those that depend on removed ones.
pub fn without_dependents(archive: &dyn Archive, changes: &PendingChanges) -> PendingChanges {
    let mut rest = changes.clone();
    while let Err((index, ChangeError::Conflict(_))) = ChangeSet::combine(archive, rest.list()) {
        rest.remove(index);
    }
    rest
}

/// Returns the numbers that can be removed: no directory that would keep entries.
pub fn removable(archive: &dyn Archive, ranges: &[std::ops::Range<u64>]) -> Result<Vec<std::ops::Range<u64>>> {
    let mut removed: RangeSet<u64> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    // Entries below a directory follow it. If one stays, so does the entry after the range.
    let following: Vec<u64> = removed.iter().map(|range| range.end).filter(|end| *end < archive.entry_count()).collect();
    for number in following {
        let stays = archive.entry(number)?;
        for above in stays.path.above() {
            match archive.find(above.as_bytes())? {
                Some((number, _)) if removed.contains(&number) => removed.remove(number..number + 1),
                _ => break,
            }
        }
    }
    Ok(removed.iter().cloned().collect())
}

/// Returns the conflict between a file and a directory of the same name.
fn differs(path: &EntryPath, is_directory: bool) -> Refusal {
    let what = if is_directory { "a directory" } else { "not a directory" };
    format!("{} already exists and is {what}", shown(path))
}

fn shown(path: &EntryPath) -> String {
    glyphs::printable(path.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::path::Path;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::effect::Check;
    use crate::event::Checked;
    use crate::rows;
    use crate::tests::sample;
    use crate::workers::changes::{check, commit};
    use nra_format::archive::{OpenOptions, open_path};
    use nra_format::digest::Digest;
    use nra_format::progress::Recorder;

    fn path(text: &str) -> EntryPath {
        EntryPath::try_from(text).unwrap()
    }

    /// Paths with what files hold; directories hold nothing.
    type Tree = BTreeMap<String, Option<Vec<u8>>>;

    fn tree(archive: &dyn Archive) -> Tree {
        let content = |entry: &Entry| {
            let mut bytes = vec![0; usize::try_from(entry.size).unwrap()];
            archive.read_at(entry, 0, &mut bytes).unwrap();
            bytes
        };
        let entries = archive.entries(0..archive.entry_count()).map(std::result::Result::unwrap);
        entries.map(|entry| (entry.path.to_string(), (entry.kind == Kind::File).then(|| content(&entry)))).collect()
    }

    /// Returns the path after all renames, determined from the top down.
    fn then(renames: &BTreeMap<String, String>, path: &str) -> String {
        let path = renames.get(path).map_or(path, String::as_str);
        match path.rsplit_once('/') {
            Some((parent, name)) => format!("{}/{name}", then(renames, parent)),
            None => path.to_owned(),
        }
    }

    /// The path that was reported.
    fn expected_tree(archive: &dyn Archive, changes: &[PendingChange]) -> Tree {
        let text = |path: &EntryPath| path.to_string();
        let renames: BTreeMap<String, String> = (changes.iter())
            .filter_map(|change| if let PendingChange::Rename(from, to) = change { Some((text(from), text(to))) } else { None })
            .collect();
        let removed = |number: u64| {
            changes.iter().any(
                |change| matches!(change, PendingChange::Remove(ranges, _) if ranges.iter().any(|range| range.contains(&number))),
            )
        };
        let placed = |path: &str| match path.rsplit_once('/') {
            Some((parent, name)) => format!("{}/{name}", then(&renames, parent)),
            None => path.to_owned(),
        };
        let mut tree: Tree = BTreeMap::new();
        for (number, (path, content)) in (0u64..).zip(super::tests::tree(archive)) {
            if !removed(number) {
                let there = tree.insert(then(&renames, &path), content);
                assert_eq!(there, None, "two entries meet: {changes:?}");
            }
        }
        for change in changes {
            match change {
                PendingChange::Remove(..) | PendingChange::Rename(..) => {}
                PendingChange::MakeDirectory(path) => assert_eq!(tree.insert(placed(&text(path)), None), None, "{changes:?}"),
                PendingChange::Add(file, directory, _) => {
                    let name = file.file_name().unwrap().to_str().unwrap();
                    let place = placed(&directory.as_ref().map_or(name.to_owned(), |directory| format!("{directory}/{name}")));
                    if file.is_dir() {
                        tree.insert(format!("{place}/in"), Some(b"in".to_vec()));
                        tree.insert(place, None);
                    } else {
                        tree.insert(place, Some(b"new".to_vec()));
                    }
                }
            }
        }
        let paths: BTreeSet<String> = tree.keys().cloned().collect();
        for path in paths {
            for (at, _) in path.match_indices('/') {
                let above = tree.entry(path[..at].to_owned()).or_default();
                assert_eq!(*above, None, "{path} is below a file: {changes:?}");
            }
        }
        tree
    }

    /// Writes changes to an archive file, and returns the resulting tree.
    fn written(archive: &dyn Archive, file: &Path, changes: &[PendingChange]) -> Tree {
        let number = archive.info().commit.unwrap();
        commit(archive, file, (number, ""), changes, &Recorder::default()).unwrap_or_else(|error| panic!("{error}: {changes:?}"));
        tree(&*open_path(file, &OpenOptions::default()).unwrap())
    }

    /// Adds a change as the browser does.
    fn stage(archive: &dyn Archive, pending: &mut PendingChanges, change: PendingChange) -> std::result::Result<(), String> {
        let mut others = pending.clone();
        let asked = match change {
            PendingChange::Add(path, directory, _) => {
                Check::Add { path, directory, file: "none".into(), pending: others.clone() }
            }
            change => {
                if let PendingChange::Rename(from, _) = &change {
                    others.remove_rename(from);
                }
                Check::Change(change, others.clone())
            }
        };
        let Checked::Change(change) = check(archive, asked)? else { panic!("it is planned") };
        others.push(change);
        *pending = others;
        Ok(())
    }

    #[test]
    fn conflicting_changes_are_written_or_rejected() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("a.nra");
        let files: [(&str, &[u8]); 4] = [("b", b"b"), ("c", b"c"), ("d/y", b"y"), ("e/z", b"z")];
        type Renames<'a> = &'a [(&'a str, &'a str)];
        let all: [(Renames<'_>, &[&str]); 5] = [
            // Out of a directory to where something comes from that goes into it.
            (&[("b", "d/x"), ("d/y", "b")], &["b", "c", "d", "d/x", "e", "e/z"]),
            // Names are swapped by way of a third one.
            (&[("b", "t"), ("c", "b"), ("b", "c")], &["b", "c", "d", "d/y", "e", "e/z"]),
            (&[("d", "e/d"), ("e", "d")], &["b", "c", "d", "d/d", "d/d/y", "d/z"]),
            // Into what has come there by then.
            (&[("d", "n"), ("b", "n/b")], &["c", "e", "e/z", "n", "n/b", "n/y"]),
            (&[("d/y", "n/m/y"), ("d", "n")], &["b", "c", "e", "e/z", "n", "n/m", "n/m/y"]),
        ];
        for (renames, paths) in all {
            std::fs::write(&file, sample::bytes(&files)).unwrap();
            let archive = open_path(&file, &OpenOptions::default()).unwrap();
            let mut pending = PendingChanges::default();
            for (from, to) in renames {
                stage(&*archive, &mut pending, PendingChange::Rename(path(from), path(to))).unwrap();
            }
            let written = written(&*archive, &file, pending.list());
            assert_eq!(written, expected_tree(&*archive, pending.list()));
            assert_eq!(written.keys().map(String::as_str).collect::<Vec<_>>(), paths);
        }
        let archive = sample::with_contents(&files);
        let mut pending = PendingChanges::default();
        stage(&*archive, &mut pending, PendingChange::Rename(path("d"), path("e/d"))).unwrap();
        for (from, to, why) in [
            ("e", "d/e", "cannot be moved into itself"),
            ("b", "e/d", "already has a pending change"),
            ("b", "e/z", "already exists"),
            ("b", "c/b", "c is not a directory"),
        ] {
            let refused = stage(&*archive, &mut pending, PendingChange::Rename(path(from), path(to))).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn directory_with_kept_entries_is_not_removed() {
        let archive = sample::archive(&["a", "d/e/1", "d/e/2", "d/f", "g"]);
        // a, d, d/e, d/e/1, d/e/2, d/f, g
        let kept = |ranges: [Range<u64>; 2]| removable(&*archive, &ranges).unwrap();
        assert_eq!(kept([0..3, 4..7]), [0..1, 4..7]);
        assert_eq!(kept([0..1, 1..6]), kept([1..6, 0..3]));
        assert_eq!(kept([1..5, 6..7]), [2..5, 6..7]);
        assert_eq!(kept([1..2, 3..3]), []);
    }

    #[test]
    fn addition_requires_confirmed_target() {
        let work = tempfile::tempdir().unwrap();
        std::fs::create_dir(work.path().join("b")).unwrap();
        std::fs::write(work.path().join("a"), "new").unwrap();
        let archive = sample::archive(&["a", "b"]);
        let add = |name: &str| PendingChange::Add(work.path().join(name), None, false);
        for name in ["a", "b"] {
            let mut pending = PendingChanges::default();
            let number = archive.find(name.as_bytes()).unwrap().unwrap().0;
            stage(
                &*archive,
                &mut pending,
                PendingChange::Remove(Arc::new(std::iter::once(number..number + 1).collect()), "it".to_owned()),
            )
            .unwrap();
            stage(&*archive, &mut pending, add(name)).unwrap();
            // It would replace an entry without consent.
            assert!(without(&*archive, &pending, 0).is_empty());
        }
        // A file that replaces a file is reported, a directory that would replace a file is
        // rejected.
        let mut pending = PendingChanges::default();
        stage(&*archive, &mut pending, add("a")).unwrap();
        assert!(matches!(pending.list(), [PendingChange::Add(_, None, true)]));
        assert_eq!(stage(&*archive, &mut pending, add("b")).unwrap_err(), "b already exists and is not a directory");
        // A missing file is not reported as a conflict.
        std::fs::remove_file(work.path().join("a")).unwrap();
        let gone: String = ChangeSet::of(&*archive, pending.list()).err().unwrap().into();
        assert!(gone.ends_with("a: no such file or directory"), "{gone}");
    }

    /// The changes that remain after an undo.
    fn without(archive: &dyn Archive, pending: &PendingChanges, index: usize) -> PendingChanges {
        let Ok(Checked::Remaining(rest)) = check(archive, Check::Undo(index, pending.clone())) else {
            panic!("it can be taken back")
        };
        rest
    }

    #[test]
    fn undo_removes_dependent_changes() {
        let archive = sample::archive(&["a", "b", "c"]);
        let rename = |from: &str, to: &str| PendingChange::Rename(path(from), path(to));
        let described = |pending: &PendingChanges| pending.list().iter().map(PendingChange::describe).collect::<Vec<_>>();
        let mut pending = PendingChanges::default();
        for change in [rename("b", "d"), rename("a", "b"), PendingChange::MakeDirectory(path("e"))] {
            stage(&*archive, &mut pending, change).unwrap();
        }
        assert_eq!(described(&without(&*archive, &pending, 0)), ["make e"]);
        assert_eq!(described(&without(&*archive, &pending, 1)), ["rename b to d", "make e"]);
        // Names that were passed on in a circle go back together.
        let mut pending = PendingChanges::default();
        for change in
            [rename("a", "t"), rename("b", "a"), rename("c", "b"), rename("a", "c"), PendingChange::MakeDirectory(path("e"))]
        {
            stage(&*archive, &mut pending, change).unwrap();
        }
        assert_eq!(pending.list().len(), 4);
        for index in 0..3 {
            assert_eq!(described(&without(&*archive, &pending, index)), ["make e"]);
        }
    }

    #[test]
    fn read_errors_do_not_remove_changes() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("a.nra");
        // More names than what is read on opening.
        let names: Vec<String> = (0..5_000u64).map(|number| Digest::of(&number.to_le_bytes()).to_string()).collect();
        let contents: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
        let bytes = sample::bytes(&contents);
        std::fs::write(&file, &bytes).unwrap();
        let options = OpenOptions { recover: false, cache_bytes: 0, ..OpenOptions::default() };
        let archive = open_path(&file, &options).unwrap();
        let mut pending = PendingChanges::default();
        pending.push(PendingChange::MakeDirectory(path("00")));
        std::fs::write(&file, vec![0; bytes.len()]).unwrap();
        assert!(matches!(ChangeSet::of(&*archive, pending.list()), Err(ChangeError::Read(_))));
        assert_eq!(without_dependents(&*archive, &pending), pending);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn accepted_changes_are_written_as_shown(
            names in prop::collection::btree_set("[abc](/[abc]){0,2}", 1..8),
            steps in prop::collection::vec((0usize..12, any::<prop::sample::Index>(), "[abc](/[abc]){0,2}"), 1..12),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str)
                .filter(|name| !names.iter().any(|other| other.starts_with(&format!("{name}/"))))
                .collect();
            let work = tempfile::tempdir().unwrap();
            let file = work.path().join("archive");
            let contents: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, name.as_bytes())).collect();
            std::fs::write(&file, sample::bytes(&contents)).unwrap();
            std::fs::write(work.path().join("a"), "new").unwrap();
            std::fs::create_dir(work.path().join("b")).unwrap();
            std::fs::write(work.path().join("b/in"), "in").unwrap();
            let archive = open_path(&file, &OpenOptions::default()).unwrap();
            let mut pending = PendingChanges::default();
            for (what, which, to) in steps {
                let number = which.index(usize::try_from(archive.entry_count()).unwrap()) as u64;
                let from = archive.entry(number).unwrap().path;
                let change = match what {
                    0 => {
                        let whole = rows::subtree(&*archive, &from, &|| true).unwrap_or(number..number + 1);
                        PendingChange::Remove(Arc::new(vec![whole]), "it".to_owned())
                    }
                    // All but one.
                    1 => PendingChange::Remove(Arc::new(vec![0..number, number + 1..archive.entry_count()]), "all but one".to_owned()),
                    2 | 3 => PendingChange::MakeDirectory(path(&to)),
                    4 | 5 => PendingChange::Add(work.path().join(["a", "b"][what % 2]), path(&to).parent(), false),
                    6 if !pending.is_empty() => {
                        pending = without(&*archive, &pending, which.index(pending.list().len()));
                        continue;
                    }
                    _ if from == path(&to) => continue,
                    _ => PendingChange::Rename(from, path(&to)),
                };
                drop(stage(&*archive, &mut pending, change));
            }
            prop_assert_eq!(written(&*archive, &file, pending.list()), expected_tree(&*archive, pending.list()), "{:?}", pending);
        }
    }
}
