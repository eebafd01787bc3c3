//! Checks of the entry tree and the content of its entries.

use std::collections::HashMap;
use std::vec;

use crate::content::{Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::entry_page::{Child, EntryPage};
use crate::extent_map::ExtentPage;
use crate::frame::{FrameKind, HEADER_LEN};
use crate::reader::extent_map::{LeafOrder, check_totals};
use crate::reader::verify::damage_list::{BlockDamage, BlockLookup, DamageId, DamageList, Finding, overlaps};
use crate::reader::verify::fingerprints;
use crate::reader::verify::frame_survey::FrameSurvey;
use crate::reader::{NraReader, frames};
use crate::records::extents::are_one;
use nra_core::archive::{Archive, Verdict};
use nra_core::codec::Codec;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_LIST_EXTENTS;
use nra_core::links::LinkGroups;
use nra_core::path::compare;
use nra_core::progress::{Counter, Monitor};

/// Checks entries in path order and finds those that are unreadable.
pub(super) struct EntryCheck<'a> {
    reader: &'a NraReader,
    survey: &'a FrameSurvey<'a>,
    damage: &'a mut DamageList,
    monitor: &'a dyn Monitor,
    verdict: &'a mut Verdict,
    pub(super) files: u64,
    /// Whether records come from the entry tree. Those of block indexes have other forms.
    pub(super) from_tree: bool,
    links: LinkGroups,
    /// Damage of the extent maps that were checked, by root page and content length.
    maps: HashMap<(FrameRef, u64), Vec<DamageId>>,
}

impl<'a> EntryCheck<'a> {
    pub(super) fn new(
        reader: &'a NraReader,
        survey: &'a FrameSurvey<'a>,
        damage: &'a mut DamageList,
        monitor: &'a dyn Monitor,
        verdict: &'a mut Verdict,
    ) -> Self {
        Self {
            reader,
            survey,
            damage,
            monitor,
            verdict,
            files: 0,
            from_tree: false,
            links: LinkGroups::exact(),
            maps: HashMap::new(),
        }
    }

    /// Checks the content of an entry. `record` is the offset of the page with its record.
    pub(super) fn entry(&mut self, entry: &Entry, record: u64) -> Result<()> {
        self.verdict.entries += 1;
        self.verdict.content_bytes = self.verdict.content_bytes.saturating_add(entry.size);
        self.files += u64::from(entry.kind == Kind::File);
        self.monitor.add(Counter::Entries, 1);
        let mut damage_ids: Vec<DamageId> = Vec::new();
        match entry.content() {
            Content::None => {}
            Content::Extent(extent) => {
                damage_ids.extend(self.extent(extent)?);
                self.check_form(entry, extent, record)?;
            }
            Content::Uncompressed(extent, sum) => damage_ids.extend(self.check_uncompressed(entry, extent, *sum, record)?),
            Content::List(segments, _) => {
                for segment in segments {
                    if let Segment::Data(extent) = segment {
                        damage_ids.extend(self.extent(extent)?);
                    }
                }
            }
            Content::Map(root, _) => damage_ids = self.check_map_once(*root, entry.size)?,
        }
        if let Some(key) = self.links.key(entry).filter(|_| self.from_tree)
            && self.links.differs(key)
        {
            let detail = format!("{} differs from the first entry of its link group, {}", entry.path, entry.link_group);
            damage_ids.push(self.damage.report("entry record", record, detail));
        }
        damage_ids.sort_unstable();
        damage_ids.dedup();
        damage_ids.into_iter().for_each(|id| self.damage.add_entry(id, &entry.path));
        Ok(())
    }

    /// Records that entries cannot be listed.
    pub(super) fn page(&mut self, error: Error) -> Result<()> {
        self.damage.report_error(error, FrameKind::EntryPage.name(), 0)?;
        Ok(())
    }

    /// Returns the damage that makes an extent unreadable.
    fn extent(&mut self, extent: &Extent) -> Result<Option<DamageId>> {
        let place = extent.block.offset;
        Ok(match self.survey.blocks.find(&extent.block) {
            BlockLookup::Good => None,
            BlockLookup::Nothing => Some(match self.survey.gap_at(place) {
                Some(id) => {
                    self.damage.set_structure(id, "block header");
                    id
                }
                None => self.damage.report("block header", place, "the index says that a block starts here"),
            }),
            BlockLookup::Other => Some(self.damage.report("block header", place, "its header contradicts the index")),
            BlockLookup::Flawed(BlockDamage::Lost(id)) => Some(*id),
            BlockLookup::Flawed(BlockDamage::Ranges(id, ranges)) => overlaps(extent, ranges).then_some(*id),
            BlockLookup::Flawed(BlockDamage::Doubtful(id)) => {
                self.as_finding(self.reader.with_extent(extent, 0, extent.len, |_| Ok(())), place)?.map(|_| *id)
            }
        })
    }

    /// Converts damage to a finding and returns other errors.
    fn as_finding(&self, result: Result<()>, place: u64) -> Result<Option<Finding>> {
        result.err().map(|error| Finding::from_error(error, "block", place)).transpose()
    }

    fn check_uncompressed(&mut self, entry: &Entry, extent: &Extent, sum: u32, record: u64) -> Result<Option<DamageId>> {
        // Uncompressed content has its own checksum, whatever is wrong with the rest of its block.
        let fingerprint = fingerprints::uncompressed_content(extent.block.offset, extent.offset.into(), extent.len, sum);
        let is_known = self.survey.uncompressed.binary_search(&fingerprint).is_ok();
        let read = match is_known {
            true => Ok(()),
            false => self.reader.with_uncompressed(extent, sum, 0, extent.len, |_| Ok(())),
        };
        let as_finding = self.as_finding(read, extent.block.offset)?;
        match (as_finding, self.survey.blocks.find(&extent.block)) {
            (as_finding, BlockLookup::Nothing | BlockLookup::Other) => Ok(self.extent(extent)?.filter(|_| as_finding.is_some())),
            (Some(_), BlockLookup::Flawed(BlockDamage::Lost(id) | BlockDamage::Doubtful(id) | BlockDamage::Ranges(id, _))) => {
                Ok(Some(*id))
            }
            (Some(finding), BlockLookup::Good) => Ok(Some(self.damage.add(finding))),
            (None, BlockLookup::Good) if self.survey.is_complete && !is_known => {
                let detail = format!("the uncompressed extent of {} is not one whole chunk of a block of codec none", entry.path);
                self.damage.report("entry record", record, detail);
                Ok(None)
            }
            (None, _) => Ok(None),
        }
    }

    /// Checks that one whole chunk of a block of codec 0 is recorded in form 2.
    fn check_form(&mut self, entry: &Entry, extent: &Extent, record: u64) -> Result<()> {
        if !self.from_tree || extent.block.raw_len != extent.block.stored_len {
            return Ok(());
        }
        let BlockLookup::Good = self.survey.blocks.find(&extent.block) else { return Ok(()) };
        let header = frames::header(&self.reader.window, FrameKind::Block, extent.block.offset)?.header;
        if header.codec == Codec::None && matches!(self.reader.chunk_digest(extent), Ok(Some(_))) {
            let detail =
                format!("the content of {} is one whole chunk of a block of codec none, but not recorded in form 2", entry.path);
            self.damage.report("entry record", record, detail);
        }
        Ok(())
    }

    /// Returns the damage of an extent map, which is checked once for all entries that share it.
    fn check_map_once(&mut self, root: FrameRef, size: u64) -> Result<Vec<DamageId>> {
        if let Some(known) = self.maps.get(&(root, size)) {
            return Ok(known.clone());
        }
        let mut damage_ids = Vec::new();
        self.map(root, size, &mut damage_ids)?;
        damage_ids.sort_unstable();
        damage_ids.dedup();
        self.maps.insert((root, size), damage_ids.clone());
        Ok(damage_ids)
    }

    /// Checks all pages of an extent map and the extents in it.
    fn map(&mut self, root: FrameRef, size: u64, damage_ids: &mut Vec<DamageId>) -> Result<()> {
        let mut stack = vec![(root, size, None::<u8>)];
        // More pages than the file can hold means that pages refer to each other.
        let mut room = self.reader.window.file_len() / HEADER_LEN as u64;
        let (mut count, mut last, mut whole) = (0, None, true);
        let (mut order, mut ordered) = (LeafOrder::default(), true);
        while let Some((page, content_bytes, level)) = stack.pop() {
            self.monitor.check()?;
            let found = match room.checked_sub(1) {
                Some(left) => {
                    room = left;
                    self.map_page(page, content_bytes, level)
                }
                None => Err(FrameKind::ExtentPage.corrupt(page.offset, "it is referred to too often")),
            };
            match found {
                Ok(ExtentPage::Leaf(segments)) => {
                    if ordered && let Err(error) = order.follow(page.offset) {
                        ordered = false;
                        damage_ids.push(self.damage.report_error(error, FrameKind::ExtentPage.name(), page.offset)?);
                    }
                    if last.as_ref().is_some_and(|last| are_one(last, &segments[0])) {
                        let detail = "its first extent or hole continues the last one of the preceding page";
                        self.damage.report(FrameKind::ExtentPage.name(), page.offset, detail);
                    }
                    for segment in &segments {
                        if let Segment::Data(extent) = segment {
                            damage_ids.extend(self.extent(extent)?);
                        }
                    }
                    count += segments.len();
                    last = segments.last().copied();
                }
                Ok(ExtentPage::Inner(level, children)) => {
                    stack.extend(children.into_iter().rev().map(|(page, bytes)| (page, bytes, Some(level - 1))));
                }
                Err(error) => {
                    damage_ids.push(self.damage.report_error(error, FrameKind::ExtentPage.name(), page.offset)?);
                    (last, whole) = (None, false);
                    if room == 0 {
                        return Ok(());
                    }
                }
            }
        }
        if whole && count <= MAX_LIST_EXTENTS {
            let detail = format!("an extent map of {count} extents and holes, which would fit a list");
            self.damage.report(FrameKind::ExtentPage.name(), root.offset, detail);
        }
        Ok(())
    }

    fn map_page(&self, page: FrameRef, content_bytes: u64, level: Option<u8>) -> Result<ExtentPage> {
        let parsed = frames::parse(&self.reader.window, FrameKind::ExtentPage, page, ExtentPage::parse)?;
        let found_bytes = match &parsed {
            ExtentPage::Leaf(segments) => segments.iter().map(Segment::len).sum(),
            ExtentPage::Inner(_, children) => children.iter().map(|child| child.1).sum(),
        };
        let checked = check_totals((parsed.level(), found_bytes), level, content_bytes);
        checked.map(|()| parsed).map_err(|detail| FrameKind::ExtentPage.corrupt(page.offset, detail))
    }
}

pub(super) struct TreeCheck<'a> {
    check: EntryCheck<'a>,
    /// Number of the first entry below the next page.
    number: u64,
    /// Path of the preceding entry; `None` before the first entry and after a damaged page.
    last: Option<Vec<u8>>,
    /// Whether a damaged page precedes, so that nothing is known about the entries before.
    in_doubt: bool,
    /// Keys of the pages visited since the last leaf page, with the offsets of their parents.
    keys: Vec<(Box<[u8]>, u64)>,
    /// The innermost directory among the latest ones.
    innermost: Vec<u8>,
    /// Lengths of the paths of the directories on the way to it, itself last. Each path is a prefix
    /// of its path.
    open: Vec<usize>,
    /// Whether all pages were read.
    pub(super) is_complete: bool,
    room: u64,
}

impl<'a> TreeCheck<'a> {
    pub(super) fn new(check: EntryCheck<'a>) -> Self {
        let room = check.reader.window.file_len() / HEADER_LEN as u64;
        Self {
            check,
            number: 0,
            last: None,
            in_doubt: false,
            keys: Vec::new(),
            innermost: Vec::new(),
            open: Vec::new(),
            is_complete: true,
            room,
        }
    }

    pub(super) fn files(&self) -> u64 {
        self.check.files
    }

    /// Checks everything below `root`.
    pub(super) fn run(&mut self, root: Child) -> Result<()> {
        let root_offset = root.page.offset;
        let mut stack: Vec<(Option<u8>, vec::IntoIter<Child>, u64)> = vec![(None, vec![root].into_iter(), root_offset)];
        while let Some((level, children, place)) = stack.last_mut() {
            let Some(child) = children.next() else {
                stack.pop();
                continue;
            };
            self.check.monitor.check()?;
            let level = *level;
            self.keys.push((child.key.clone(), *place));
            match self.load(&child, level) {
                Ok(EntryPage::Leaf(entries)) => self.leaf(&child, entries)?,
                Ok(EntryPage::Inner(page)) => stack.push((Some(page.level - 1), page.children.into_iter(), child.page.offset)),
                Err(error) => {
                    let finding = Finding::from_error(error, FrameKind::EntryPage.name(), child.page.offset)?;
                    self.check_below_damaged_page(&child, finding)?;
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, child: &Child, level: Option<u8>) -> Result<EntryPage> {
        let corrupt = |detail: String| FrameKind::EntryPage.corrupt(child.page.offset, detail);
        self.room = self.room.checked_sub(1).ok_or_else(|| corrupt("it is referred to too often".into()))?;
        let page = frames::parse(&self.check.reader.window, FrameKind::EntryPage, child.page, EntryPage::parse)?;
        child.check(page.below(), level).map(|()| page).map_err(corrupt)
    }

    fn leaf(&mut self, child: &Child, entries: Vec<Entry>) -> Result<()> {
        let place = child.page.offset;
        self.check_keys(&entries[0], place);
        self.check.from_tree = true;
        let mut orphan = None;
        for entry in &entries {
            if !self.enter_directories(entry) && !self.in_doubt {
                orphan.get_or_insert(entry);
            }
            self.check.entry(entry, place)?;
        }
        let greatest = self.check.reader.commit.as_ref().map_or(u64::MAX, |(commit, _)| commit.link_groups);
        if let Some(entry) = entries.iter().find(|entry| entry.link_group > greatest) {
            let detail = format!("{} is in link group {}, above the highest, {greatest}", entry.path, entry.link_group);
            self.check.damage.report("entry record", place, detail);
        }
        if let Some(entry) = orphan {
            let detail = format!("{} lies in no directory of the archive", entry.path);
            self.check.damage.report("entry record", place, detail);
        }
        self.check_records(&entries, place);
        self.last = entries.last().map(|entry| entry.path.as_bytes().to_vec());
        self.in_doubt = false;
        self.number += child.entries;
        Ok(())
    }

    /// Checks the keys that led to a leaf page, and its position after the preceding one.
    fn check_keys(&mut self, first: &Entry, place: u64) {
        let path = first.path.as_bytes();
        let keys = std::mem::take(&mut self.keys);
        if self.in_doubt {
            return;
        }
        if self.last.as_ref().is_some_and(|last| !compare(last, path).is_lt()) {
            let detail = format!("its first entry {} does not follow the last one of the preceding page", first.path);
            self.check.damage.report(FrameKind::EntryPage.name(), place, detail);
            return;
        }
        let separates = |key: &[u8]| match &self.last {
            None => key.is_empty(),
            Some(last) => compare(last, key).is_lt() && compare(key, path).is_le(),
        };
        if let Some((_, holder)) = keys.iter().find(|(key, _)| !separates(key)) {
            let detail = format!("its key for the page of {} does not separate it from the preceding entries", first.path);
            self.check.damage.report(FrameKind::EntryPage.name(), *holder, detail);
        }
    }

    /// Updates the list of open directories. Returns whether the parent of `entry` is one of them.
    fn enter_directories(&mut self, entry: &Entry) -> bool {
        let path = entry.path.as_bytes();
        let common = path.iter().zip(&self.innermost).take_while(|(a, b)| a == b).count();
        while self.open.last().is_some_and(|&len| len > common || path.get(len) != Some(&b'/')) {
            self.open.pop();
        }
        let parent = path.iter().rposition(|&byte| byte == b'/');
        let known = self.open.last().copied() == parent;
        if entry.kind == Kind::Directory {
            self.open.push(path.len());
            self.innermost.clear();
            self.innermost.extend_from_slice(path);
        }
        known
    }

    /// Checks that block indexes record the same entries.
    fn check_records(&mut self, entries: &[Entry], place: u64) {
        // A lost block index was reported before, and its records are unknown.
        if !self.check.survey.is_complete {
            return;
        }
        let fingerprints = fingerprints::records(entries, None);
        let records = &self.check.survey.records;
        let missing: Vec<&Entry> = entries
            .iter()
            .zip(fingerprints)
            .filter_map(|(entry, fingerprint)| (!records.contains(&fingerprint)).then_some(entry))
            .collect();
        if let Some(first) = missing.first() {
            let detail = format!(
                "{} entries are recorded in no block index, or differently in the last one; the first is {}",
                missing.len(),
                first.path
            );
            self.check.damage.report("entry record", place, detail);
        }
    }

    /// Continues with the entries below a damaged page that block indexes record.
    fn check_below_damaged_page(&mut self, child: &Child, finding: Finding) -> Result<()> {
        let place = child.page.offset;
        let id = self.check.damage.add(finding);
        let end = self.number.saturating_add(child.entries);
        let mut found = 0;
        self.check.from_tree = false;
        for entry in self.check.reader.entries(self.number..end) {
            self.check.monitor.check()?;
            match entry {
                Ok(entry) => {
                    found += 1;
                    self.enter_directories(&entry);
                    self.check.entry(&entry, place)?;
                }
                Err(error) => {
                    Finding::from_error(error, FrameKind::EntryPage.name(), place)?;
                }
            }
        }
        self.check.damage.add_unnamed_entries(id, child.entries.saturating_sub(found));
        self.number = end;
        (self.last, self.in_doubt, self.is_complete) = (None, true, false);
        self.keys.clear();
        Ok(())
    }
}
