//! Small archives without damage, and what they hold.

use std::sync::LazyLock;

use nra::format::entry::Entry;
use nra::fuzzing::Anatomy;

use crate::exercise::{MAX_CONTENT, open};

/// An archive that targets change.
pub struct Base {
    /// The file.
    pub bytes: &'static [u8],
    /// The file taken apart.
    pub anatomy: Anatomy,
    /// What the newest commit holds, in path order.
    pub newest: Vec<Version>,
    /// What earlier commits held.
    pub former: Vec<Version>,
    /// Where the last append begins; 0 if there was none.
    pub appended_from: u64,
}

/// An entry at some commit.
pub struct Version {
    pub entry: Entry,
    pub content: Vec<u8>,
}

impl Version {
    /// Says whether `entry` is this one, wherever its content is stored.
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
        let anatomy = Anatomy::of(bytes).expect("a whole archive");
        let mut ends: Vec<usize> = (256..=bytes.len())
            .step_by(8)
            .filter(|&end| bytes[..end].len() >= 64 && bytes[end - 64..end].starts_with(b"NRATAIL\n"))
            .collect();
        assert_eq!(ends.pop(), Some(bytes.len()), "the last bytes are a tail");
        let versions = |end: usize| {
            let archive = open(bytes[..end].to_vec()).expect("a whole archive");
            let entries = archive.entries(0..archive.entry_count()).map(|entry| entry.expect("no damage"));
            entries.map(|entry| Version { content: archive.read_all(&entry, MAX_CONTENT).expect("no damage"), entry }).collect()
        };
        let appended_from = ends.last().map_or(0, |&end| end as u64);
        let former = ends.into_iter().flat_map(|end| -> Vec<Version> { versions(end) }).collect();
        Self { bytes, anatomy, newest: versions(bytes.len()), former, appended_from }
    }
}
