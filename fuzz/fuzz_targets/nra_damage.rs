//! Archives with damage: what is returned is what was packed, and damage costs no more than the entries it touches.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Access, Depth};
use nra::format::nra::frame::FrameKind;
use nra::fuzzing::frames_of;
use nra_fuzz::{Base, Hit, Version, bases, check_text, content_of, exercise, open, verify};

/// With more hits the fuzzer could set checksums right again.
const MAX_HITS: usize = 4;

fuzz_target!(|input: (u8, Vec<Hit>)| {
    let (number, hits) = input;
    let base = &bases()[usize::from(number) % bases().len()];
    let mut file = base.bytes.to_vec();
    hits.iter().take(MAX_HITS).for_each(|hit| hit.apply(&mut file));
    let damage = Damage::of(base, &file);
    let is_damaged = file != base.bytes;
    let archive = match open(file) {
        Ok(archive) => archive,
        Err(error) => {
            check_text(&error.to_string());
            assert!(!damage.leaves_entries(), "{error}");
            return;
        }
    };
    exercise(&*archive);
    let remarks = archive.remarks();
    for entry in archive.entries(0..archive.entry_count()).flatten() {
        // Without the newest index former entries may appear, and the archive says so.
        let former = if archive.is_index_damaged() || !remarks.is_empty() { &base.former[..] } else { &[] };
        let versions: Vec<&Version> = base.newest.iter().chain(former).filter(|version| version.is(&entry)).collect();
        if versions.is_empty() && archive.is_index_damaged() && entry.implied {
            // Its own record is lost; what lies below tells that it was there.
            assert!(base.newest.iter().chain(former).any(|version| version.entry.path.is_below(&entry.path)), "{entry:?}");
            continue;
        }
        assert!(!versions.is_empty(), "an entry that was never packed: {entry:?}");
        for access in [None, Some(Access::Sequential)] {
            if let Some(content) = content_of(&*archive, &entry, access) {
                assert!(versions.iter().any(|version| version.content == content), "other content: {entry:?}");
            }
        }
    }
    let verdict = verify(&*archive, Depth::Full).expect("damage is no reason not to verify");
    let is_found = !verdict.damage.is_empty() || !archive.remarks().is_empty();
    assert_eq!(is_found, is_damaged, "{:?}", verdict.damage);
    if !damage.leaves_entries() {
        return;
    }
    for version in base.newest.iter().filter(|version| damage.leaves_content(version)) {
        let path = &version.entry.path;
        let found = archive.find(path.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (_, entry) = found.unwrap_or_else(|| panic!("{path} is lost"));
        assert!(version.is(&entry), "{path} is another one");
        assert_eq!(content_of(&*archive, &entry, None).as_ref(), Some(&version.content), "{path}");
    }
});

/// What was hit.
struct Damage {
    /// Pages of the entry tree, the newest commit, or the tail: what leads to the entries.
    index: bool,
    /// Blocks, by offset.
    blocks: HashSet<u64>,
    /// Roots and other pages of extent maps in the archive, hit or not.
    map_pages: HashSet<u64>,
    dictionary: bool,
    extent_map: bool,
    /// The tail and something else behind a slot's state: as after an append that did not finish.
    append: bool,
}

impl Damage {
    fn of(base: &Base, file: &[u8]) -> Self {
        let is_hit = |start: u64, end: u64| {
            let range = start as usize..end as usize;
            file.get(range.clone()) != base.bytes.get(range)
        };
        let len = base.bytes.len() as u64;
        let tail = file.len() != base.bytes.len() || is_hit(len - 64, len);
        let append = base.appended_from > 0 && tail && is_hit(base.appended_from, len - 64);
        let frames = base.anatomy.frames();
        let maps = frames.iter().filter(|(_, kind)| *kind == FrameKind::ExtentPage);
        let mut damage = Self {
            index: tail,
            blocks: HashSet::new(),
            map_pages: maps.map(|(range, _)| range.start).collect(),
            dictionary: false,
            extent_map: false,
            append,
        };
        for (range, kind) in frames.into_iter().filter(|(range, _)| is_hit(range.start, range.end)) {
            match kind {
                FrameKind::Block => {
                    damage.blocks.insert(range.start);
                }
                FrameKind::Dictionary => damage.dictionary = true,
                FrameKind::ExtentPage => damage.extent_map = true,
                FrameKind::EntryPage | FrameKind::Commit => damage.index = true,
                _ => {}
            }
        }
        damage
    }

    /// Says whether every entry must still be found: by the index, or by the directories of all blocks.
    fn leaves_entries(&self) -> bool {
        !self.index || (self.blocks.is_empty() && !self.dictionary && !self.append)
    }

    /// Says whether the content of an entry must still be read.
    fn leaves_content(&self, version: &Version) -> bool {
        let frames = frames_of(&version.entry);
        // Only the map knows the blocks of its file.
        let is_mapped = frames.iter().any(|frame| self.map_pages.contains(frame));
        let of_map = !is_mapped || (!self.extent_map && self.blocks.is_empty());
        !self.dictionary && of_map && !frames.iter().any(|frame| self.blocks.contains(frame))
    }
}
