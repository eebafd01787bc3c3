//! Damaged archives return only packed content, and damage affects only the entries it touches.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Access, Depth};
use nra::format::nra::frame::FrameKind;
use nra::fuzzing::frames_of;
use nra_fuzz::{Base, Hit, Version, bases, check_text, content_of, exercise, open, verify};

/// With more hits, the fuzzer could repair checksums.
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
        // Without the newest index, former entries may appear, and the archive reports this.
        let former = if archive.is_index_damaged() || !remarks.is_empty() { &base.former[..] } else { &[] };
        let versions: Vec<&Version> = base.newest.iter().chain(former).filter(|version| version.is(&entry)).collect();
        if versions.is_empty() && archive.is_index_damaged() && entry.implied {
            // Its own record is lost; entries below it imply it.
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

/// What was damaged.
struct Damage {
    /// Pages of the entry tree, the newest commit frame or the footer.
    index: bool,
    /// Blocks, by offset.
    blocks: HashSet<u64>,
    /// Pages of extent maps in the archive, damaged or not.
    map_pages: HashSet<u64>,
    dictionary: bool,
    extent_map: bool,
    /// The footer and other bytes after the commit of a commit slot, as after an unfinished append.
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
        let frames = base.dissection.frames();
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

    /// Returns whether every entry must still be found, in the index or in block indexes.
    fn leaves_entries(&self) -> bool {
        !self.index || (self.blocks.is_empty() && !self.dictionary && !self.append)
    }

    /// Returns whether the content of an entry must still be readable.
    fn leaves_content(&self, version: &Version) -> bool {
        let frames = frames_of(&version.entry);
        // Only the extent map lists the blocks of its file.
        let is_mapped = frames.iter().any(|frame| self.map_pages.contains(frame));
        let of_map = !is_mapped || (!self.extent_map && self.blocks.is_empty());
        !self.dictionary && of_map && !frames.iter().any(|frame| self.blocks.contains(frame))
    }
}
