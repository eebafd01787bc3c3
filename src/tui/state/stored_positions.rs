//! Positions stored between runs: the entry under the cursor, the sort order, the layout of the
//! screen.
//!
//! They are in a small JSON file in the state directory. It contains nothing about encrypted
//! archives, not even their names, and is not written with `--read-only` or `remember = false`. An
//! unreadable file counts as empty: a convenience must not cause errors.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use crate::layout::Column;

/// Most archives that are stored.
const MAX_PLACES: usize = 100;
/// Longest path that is stored, bytes.
const MAX_PATH: usize = 4_096;
/// Longest file that is read, bytes.
const MAX_LEN: u64 = 1 << 20;

/// The stored positions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredPositions {
    /// Share of the list beside the preview, percent.
    pub share: Option<u16>,
    /// Positions, the last archive first.
    places: Vec<StoredPosition>,
}

/// A position in an archive, and its sort order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredPosition {
    /// Its file.
    pub archive: String,
    /// The directory; empty = the top.
    pub directory: String,
    pub entry: String,
    pub sort: Column,
    pub reverse: bool,
    pub tree: bool,
}

impl StoredPositions {
    pub fn place(&self, archive: &str) -> Option<&StoredPosition> {
        self.places.iter().find(|place| place.archive == archive)
    }

    /// Stores a position, unless a path is too long.
    pub fn keep(&mut self, place: StoredPosition) {
        self.places.retain(|other| other.archive != place.archive);
        if [&place.archive, &place.directory, &place.entry].iter().all(|path| path.len() <= MAX_PATH) {
            self.places.insert(0, place);
            self.places.truncate(MAX_PLACES);
        }
    }

    /// Merges positions that another run has stored; `archives` are those of this run.
    fn merge(&mut self, other: Self, archives: &[String]) {
        let kept = |place: &StoredPosition| archives.contains(&place.archive);
        let mut places: Vec<StoredPosition> = self.places.iter().filter(|place| kept(place)).cloned().collect();
        places.extend(other.places.into_iter().filter(|place| !kept(place)));
        places.truncate(MAX_PLACES);
        self.places = places;
    }

    pub fn read() -> Self {
        file().and_then(|path| read(&path).ok()).unwrap_or_default()
    }

    /// Writes the stored positions, merged with those of other runs; `archives` are those of this
    /// run.
    pub fn write(mut self, archives: &[String]) -> io::Result<()> {
        let Some(path) = file() else { return Ok(()) };
        self.merge(read(&path).unwrap_or_default(), archives);
        write(&path, &self)
    }
}

/// Returns the path of the file, if there is a state directory.
fn file() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.state_dir()?.join("nra").join("browse.json"))
}

fn read(path: &Path) -> io::Result<StoredPositions> {
    let mut text = Vec::new();
    let len = File::open(path)?.take(MAX_LEN + 1).read_to_end(&mut text)?;
    if len as u64 > MAX_LEN {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(serde_json::from_slice(&text)?)
}

/// Writes a file atomically, readable by its owner only.
fn write(path: &Path, memory: &StoredPositions) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&serde_json::to_vec_pretty(memory)?)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(archive: &str, directory: &str) -> StoredPosition {
        StoredPosition { archive: archive.to_owned(), directory: directory.to_owned(), ..StoredPosition::default() }
    }

    #[test]
    fn last_positions_are_kept() {
        let mut memory = StoredPositions::default();
        for number in 0..200 {
            memory.keep(place(&format!("/{number}.nra"), "a"));
        }
        memory.keep(place("/150.nra", "b"));
        assert_eq!(memory.places.len(), MAX_PLACES);
        assert_eq!(memory.place("/150.nra").unwrap().directory, "b");
        assert_eq!((memory.places[0].archive.as_str(), memory.place("/99.nra")), ("/150.nra", None));
        memory.keep(place("/150.nra", &"x".repeat(MAX_PATH + 1)));
        assert_eq!(memory.place("/150.nra"), None);
    }

    #[test]
    fn stored_positions_round_trip() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("state/nra/browse.json");
        let mut memory = StoredPositions { share: Some(40), ..StoredPositions::default() };
        memory.keep(StoredPosition {
            sort: Column::Size,
            reverse: true,
            tree: true,
            entry: "d/\u{1b}日".to_owned(),
            ..place("/a.nra", "d")
        });
        write(&path, &memory).unwrap();
        assert_eq!(read(&path).unwrap(), memory);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        // Of another version, cut off, too long, not there.
        std::fs::write(&path, "{\"share\": 7, \"new\": 1, \"places\": [{\"archive\": \"/b\", \"sort\": \"time\"}]}").unwrap();
        assert_eq!(read(&path).unwrap().place("/b").unwrap().sort, Column::Time);
        for text in ["{\"share\":".to_owned(), " ".repeat(MAX_LEN as usize + 1)] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).is_err());
        }
        assert!(read(&work.path().join("missing")).is_err());
    }

    #[test]
    fn concurrent_runs_merge_positions() {
        let mut ours = StoredPositions::default();
        ours.keep(place("/old.nra", "as we read it"));
        ours.keep(place("/ours.nra", "x"));
        let mut theirs = StoredPositions::default();
        theirs.keep(place("/ours.nra", "earlier"));
        theirs.keep(place("/old.nra", "newer"));
        theirs.keep(place("/theirs.nra", "y"));
        ours.merge(theirs, &["/ours.nra".to_owned()]);
        let directory = |archive: &str| ours.place(archive).unwrap().directory.clone();
        assert_eq!([directory("/ours.nra"), directory("/old.nra"), directory("/theirs.nra")], ["x", "newer", "y"]);
    }
}
