//! Small undamaged archives and their content.

use std::sync::LazyLock;

use nra::format::entry::Entry;
use nra::fuzzing::Dissection;

use crate::exercise::{MAX_CONTENT, open};

/// An archive that targets change.
pub struct Base {
    /// The file.
    pub bytes: &'static [u8],
    /// The dissected file.
    pub dissection: Dissection,
    /// Entries of the newest commit in path order.
    pub newest: Vec<Version>,
    /// Entries of earlier commits.
    pub former: Vec<Version>,
    /// Start of the last append; 0 if there was none.
    pub appended_from: u64,
}

/// An entry at some commit.
pub struct Version {
    pub entry: Entry,
    pub content: Vec<u8>,
}

impl Version {
    /// Returns whether `entry` equals this one, apart from the location of its content.
    pub fn is(&self, entry: &Entry) -> bool {
        let own = &self.entry;
        own.path == entry.path
            && own.kind == entry.kind
            && own.metadata == entry.metadata
            && own.modified == entry.modified
            && own.size == entry.size
            && own.target == entry.target
            && own.device == entry.device
            && own.implied == entry.implied
    }
}

/// Returns the archives.
pub fn bases() -> &'static [Base] {
    static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| FILES.iter().map(|bytes| Base::new(bytes)).collect());
    &BASES
}

const FILES: [&[u8]; 2] = [include_bytes!("../seeds/tiny.nra"), include_bytes!("../seeds/rich.nra")];

impl Base {
    fn new(bytes: &'static [u8]) -> Self {
        let dissection = Dissection::of(bytes).expect("an undamaged archive");
        let mut ends: Vec<usize> = (256..=bytes.len())
            .step_by(8)
            .filter(|&end| bytes[..end].len() >= 64 && bytes[end - 64..end].starts_with(b"NRATAIL\n"))
            .collect();
        assert_eq!(ends.pop(), Some(bytes.len()), "the file ends with a footer");
        let versions = |end: usize| {
            let archive = open(bytes[..end].to_vec()).expect("an undamaged archive");
            let entries = archive.entries(0..archive.entry_count()).map(|entry| entry.expect("no damage"));
            entries.map(|entry| Version { content: archive.read_all(&entry, MAX_CONTENT).expect("no damage"), entry }).collect()
        };
        let appended_from = ends.last().map_or(0, |&end| end as u64);
        let former = ends.into_iter().flat_map(|end| -> Vec<Version> { versions(end) }).collect();
        Self { bytes, dissection, newest: versions(bytes.len()), former, appended_from }
    }
}
