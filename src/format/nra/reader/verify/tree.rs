//! The entry tree and the content of its entries.

use crate::content::HasContent as _;
use std::collections::HashMap;
use std::vec;

use crate::content::{Content, Extent, FrameRef, Segment};
use crate::extents::ExtentPage;
use crate::frame::{FrameKind, HEADER_LEN};
use crate::page::{Child, Page};
use crate::reader::map::LeafOrder;
use crate::reader::verify::ledger::{Corruption, DamageId, Finding, Found, Ledger, overlaps};
use crate::reader::verify::prints;
use crate::reader::verify::survey::Survey;
use crate::reader::{NraReader, frames};
use crate::records::blocks::are_one;
use nra_core::archive::{Archive, Verdict};
use nra_core::codec::Codec;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_LIST_EXTENTS;
use nra_core::links::LinkGroups;
use nra_core::path::compare;
use nra_core::progress::{Counter, Monitor};

/// Goes through entries in path order and finds out which do not read.
pub(super) struct EntryCheck<'a> {
    reader: &'a NraReader,
    survey: &'a Survey<'a>,
    ledger: &'a mut Ledger,
    monitor: &'a dyn Monitor,
    verdict: &'a mut Verdict,
    pub(super) files: u64,
    /// The records are those of the tree, not those of directories, which differ in form.
    pub(super) by_tree: bool,
    links: LinkGroups,
    /// Extent maps that were checked, with the length of the content, and the damage in them.
    maps: HashMap<(FrameRef, u64), Vec<DamageId>>,
}

impl<'a> EntryCheck<'a> {
    pub(super) fn new(
        reader: &'a NraReader,
        survey: &'a Survey<'a>,
        ledger: &'a mut Ledger,
        monitor: &'a dyn Monitor,
        verdict: &'a mut Verdict,
    ) -> Self {
        Self {
            reader,
            survey,
            ledger,
            monitor,
            verdict,
            files: 0,
            by_tree: false,
            links: LinkGroups::exact(),
            maps: HashMap::new(),
        }
    }

    /// Checks the content of one entry. `record`: offset of the page that holds its record.
    pub(super) fn entry(&mut self, entry: &Entry, record: u64) -> Result<()> {
        self.verdict.entries += 1;
        self.verdict.content_bytes = self.verdict.content_bytes.saturating_add(entry.size);
        self.files += u64::from(entry.kind == Kind::File);
        self.monitor.add(Counter::Entries, 1);
        let mut hits: Vec<DamageId> = Vec::new();
        match entry.content() {
            Content::None => {}
            Content::Extent(extent) => {
                hits.extend(self.extent(extent)?);
                self.form(entry, extent, record)?;
            }
            Content::Raw(extent, sum) => hits.extend(self.raw(entry, extent, *sum, record)?),
            Content::List(segments, _) => {
                for segment in segments {
                    if let Segment::Data(extent) = segment {
                        hits.extend(self.extent(extent)?);
                    }
                }
            }
            Content::Map(root, _) => hits = self.known_map(*root, entry.size)?,
        }
        if let Some(key) = self.links.key(entry).filter(|_| self.by_tree)
            && self.links.differs(key)
        {
            let detail = format!("{} differs from the first entry of its link group, {}", entry.path, entry.link_group);
            hits.push(self.ledger.add(Finding::new("entry record", record, detail)));
        }
        hits.sort_unstable();
        hits.dedup();
        hits.into_iter().for_each(|id| self.ledger.entry(id, &entry.path));
        Ok(())
    }

    /// Notes that entries can't be listed.
    pub(super) fn page(&mut self, error: Error) -> Result<()> {
        self.ledger.add(Finding::from_error(error, FrameKind::EntryPage.name(), 0)?);
        Ok(())
    }

    /// Returns the damage that keeps an extent from being read.
    fn extent(&mut self, extent: &Extent) -> Result<Option<DamageId>> {
        let place = extent.block.offset;
        Ok(match self.survey.blocks.find(&extent.block) {
            Found::Good => None,
            Found::Nothing => Some(match self.survey.gap_at(place) {
                Some(id) => {
                    self.ledger.rename(id, "block header");
                    id
                }
                None => self.ledger.add(Finding::new("block header", place, "the index says that a block starts here")),
            }),
            Found::Other => {
                Some(self.ledger.add(Finding::new("block header", place, "it says something else than the index does")))
            }
            Found::Flawed(Corruption::Lost(id)) => Some(*id),
            Found::Flawed(Corruption::Ranges(id, ranges)) => overlaps(extent, ranges).then_some(*id),
            Found::Flawed(Corruption::Doubtful(id)) => {
                self.failure(self.reader.with_extent(extent, 0, extent.len, |_| Ok(())), place)?.map(|_| *id)
            }
        })
    }

    /// Tells damage from what keeps the work from going on.
    fn failure(&self, result: Result<()>, place: u64) -> Result<Option<Finding>> {
        result.err().map(|error| Finding::from_error(error, "block", place)).transpose()
    }

    fn raw(&mut self, entry: &Entry, extent: &Extent, sum: u32, record: u64) -> Result<Option<DamageId>> {
        // Such content reads by its own checksum, whatever is wrong with the rest of its block.
        let print = prints::raw_content(extent.block.offset, extent.offset.into(), extent.len, sum);
        let read = match self.survey.raw.contains(print) {
            true => Ok(()),
            false => self.reader.with_raw(extent, sum, 0, extent.len, |_| Ok(())),
        };
        let failure = self.failure(read, extent.block.offset)?;
        match (failure, self.survey.blocks.find(&extent.block)) {
            (failure, Found::Nothing | Found::Other) => Ok(self.extent(extent)?.filter(|_| failure.is_some())),
            (Some(_), Found::Flawed(Corruption::Lost(id) | Corruption::Doubtful(id) | Corruption::Ranges(id, _))) => {
                Ok(Some(*id))
            }
            (Some(finding), Found::Good) => Ok(Some(self.ledger.add(finding))),
            (None, Found::Good) if self.survey.is_complete && !self.survey.raw.contains(print) => {
                let detail = format!("the raw extent of {} is not one whole piece of an uncompressed block", entry.path);
                self.ledger.add(Finding::new("entry record", record, detail));
                Ok(None)
            }
            (None, _) => Ok(None),
        }
    }

    /// Checks that an extent that is one whole piece of an uncompressed block is not written as any other.
    fn form(&mut self, entry: &Entry, extent: &Extent, record: u64) -> Result<()> {
        if !self.by_tree || extent.block.raw_len != extent.block.stored_len {
            return Ok(());
        }
        let Found::Good = self.survey.blocks.find(&extent.block) else { return Ok(()) };
        let header = frames::header(&self.reader.window, FrameKind::Block, extent.block.offset)?.header;
        if header.codec == Codec::None && matches!(self.reader.piece_digest(extent), Ok(Some(_))) {
            let detail = format!("the content of {} is a whole piece of an uncompressed block, not written as such", entry.path);
            self.ledger.add(Finding::new("entry record", record, detail));
        }
        Ok(())
    }

    /// Returns what is damaged of an extent map, which is checked once for all that share it.
    fn known_map(&mut self, root: FrameRef, size: u64) -> Result<Vec<DamageId>> {
        if let Some(known) = self.maps.get(&(root, size)) {
            return Ok(known.clone());
        }
        let mut hits = Vec::new();
        self.map(root, size, &mut hits)?;
        hits.sort_unstable();
        hits.dedup();
        self.maps.insert((root, size), hits.clone());
        Ok(hits)
    }

    /// Checks all pages of an extent map and the extents in it.
    fn map(&mut self, root: FrameRef, size: u64, hits: &mut Vec<DamageId>) -> Result<()> {
        let mut stack = vec![(root, size, None::<u8>)];
        // More pages than the file has room for can only be pages that lead to each other.
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
                None => Err(Error::corrupt(FrameKind::ExtentPage.name(), page.offset, "it is reached again and again")),
            };
            match found {
                Ok(ExtentPage::Leaf(segments)) => {
                    if ordered && let Err(error) = order.follow(page.offset) {
                        ordered = false;
                        hits.push(self.ledger.add(Finding::from_error(error, FrameKind::ExtentPage.name(), page.offset)?));
                    }
                    if last.as_ref().is_some_and(|last| are_one(last, &segments[0])) {
                        let detail = "it begins with what belongs to the last extent or hole of the page before";
                        self.ledger.add(Finding::new(FrameKind::ExtentPage.name(), page.offset, detail));
                    }
                    for segment in &segments {
                        if let Segment::Data(extent) = segment {
                            hits.extend(self.extent(extent)?);
                        }
                    }
                    count += segments.len();
                    last = segments.last().copied();
                }
                Ok(ExtentPage::Inner(level, children)) => {
                    stack.extend(children.into_iter().rev().map(|(page, bytes)| (page, bytes, Some(level - 1))));
                }
                Err(error) => {
                    let finding = Finding::from_error(error, FrameKind::ExtentPage.name(), page.offset)?;
                    hits.push(self.ledger.add(finding));
                    (last, whole) = (None, false);
                    if room == 0 {
                        return Ok(());
                    }
                }
            }
        }
        if whole && count <= MAX_LIST_EXTENTS {
            let detail = format!("an extent map of {count} extents and holes, which fit a list");
            self.ledger.add(Finding::new(FrameKind::ExtentPage.name(), root.offset, detail));
        }
        Ok(())
    }

    fn map_page(&self, page: FrameRef, content_bytes: u64, level: Option<u8>) -> Result<ExtentPage> {
        let corrupt = |detail: String| Error::corrupt(FrameKind::ExtentPage.name(), page.offset, detail);
        let frame = frames::follow(&self.reader.window, FrameKind::ExtentPage, page)?;
        let parsed = ExtentPage::parse(&frame.payload).map_err(corrupt)?;
        let (found_level, found_bytes) = match &parsed {
            ExtentPage::Leaf(segments) => (0, segments.iter().map(Segment::len).sum::<u64>()),
            ExtentPage::Inner(level, children) => (*level, children.iter().map(|child| child.1).sum()),
        };
        if level.is_some_and(|level| level != found_level) || found_bytes != content_bytes {
            return Err(corrupt(format!("level {found_level} with {found_bytes} content bytes, {content_bytes} expected")));
        }
        Ok(parsed)
    }
}

/// Checks the pages of the entry tree.
pub(super) struct TreeCheck<'a> {
    check: EntryCheck<'a>,
    /// Number of the first entry below the next page.
    number: u64,
    /// Path of the entry before; `None` in front of the first, and behind a damaged page.
    last: Option<Vec<u8>>,
    /// Behind a damaged page, so that nothing is known of what is in front.
    in_doubt: bool,
    /// Keys of the pages entered since the last leaf, with the offsets of the pages that hold them.
    keys: Vec<(Box<[u8]>, u64)>,
    /// The innermost directory of those met last.
    innermost: Vec<u8>,
    /// Lengths of the paths of directories on the way to it, itself the last: each is a part of its path.
    open: Vec<usize>,
    /// All pages were read.
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

    /// Files met.
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
                Ok(Page::Leaf(entries)) => self.leaf(&child, entries)?,
                Ok(Page::Inner(page)) => stack.push((Some(page.level - 1), page.children.into_iter(), child.page.offset)),
                Err(error) => {
                    let finding = Finding::from_error(error, FrameKind::EntryPage.name(), child.page.offset)?;
                    self.lost(&child, finding)?;
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, child: &Child, level: Option<u8>) -> Result<Page> {
        let corrupt = |detail: String| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
        self.room = self.room.checked_sub(1).ok_or_else(|| corrupt("it is reached again and again".into()))?;
        let frame = frames::follow(&self.check.reader.window, FrameKind::EntryPage, child.page)?;
        let page = Page::parse(&frame.payload).map_err(corrupt)?;
        child.check(page.below(), level).map_err(corrupt)?;
        Ok(page)
    }

    fn leaf(&mut self, child: &Child, entries: Vec<Entry>) -> Result<()> {
        let place = child.page.offset;
        self.check_keys(&entries[0], place);
        self.check.by_tree = true;
        let mut orphan = None;
        for entry in &entries {
            if !self.enter(entry) && !self.in_doubt {
                orphan.get_or_insert(entry);
            }
            self.check.entry(entry, place)?;
        }
        let greatest = self.check.reader.state.as_ref().map_or(u64::MAX, |(commit, _)| commit.link_groups);
        if let Some(entry) = entries.iter().find(|entry| entry.link_group > greatest) {
            let detail = format!("{} is in link group {}, above the greatest, {greatest}", entry.path, entry.link_group);
            self.check.ledger.add(Finding::new("entry record", place, detail));
        }
        if let Some(entry) = orphan {
            let detail = format!("{} lies in no directory of the archive", entry.path);
            self.check.ledger.add(Finding::new("entry record", place, detail));
        }
        self.check_records(&entries, place);
        self.last = entries.last().map(|entry| entry.path.as_bytes().to_vec());
        self.in_doubt = false;
        self.number += child.entries;
        Ok(())
    }

    /// Checks the keys that led to a leaf, and its place behind the leaf before.
    fn check_keys(&mut self, first: &Entry, place: u64) {
        let path = first.path.as_bytes();
        let keys = std::mem::take(&mut self.keys);
        if self.in_doubt {
            return;
        }
        if self.last.as_ref().is_some_and(|last| !compare(last, path).is_lt()) {
            let detail = format!("its first entry {} is not behind the last one in front of it", first.path);
            self.check.ledger.add(Finding::new(FrameKind::EntryPage.name(), place, detail));
            return;
        }
        let separates = |key: &[u8]| match &self.last {
            None => key.is_empty(),
            Some(last) => compare(last, key).is_lt() && compare(key, path).is_le(),
        };
        if let Some((_, holder)) = keys.iter().find(|(key, _)| !separates(key)) {
            let detail = format!("its key for the page of {} does not separate it from what is in front", first.path);
            self.check.ledger.add(Finding::new(FrameKind::EntryPage.name(), *holder, detail));
        }
    }

    /// Keeps the list of directories on the way; says whether the parent of `entry` is among them.
    fn enter(&mut self, entry: &Entry) -> bool {
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

    /// Checks that directories of blocks record the same entries.
    fn check_records(&mut self, entries: &[Entry], place: u64) {
        // Where a directory is lost, what it recorded is; that is reported there.
        if !self.check.survey.is_complete {
            return;
        }
        let prints = prints::records(entries, None);
        let records = &self.check.survey.records;
        let missing: Vec<&Entry> =
            entries.iter().zip(prints).filter_map(|(entry, print)| (!records.tell(&print)).then_some(entry)).collect();
        if let Some(first) = missing.first() {
            let detail = format!(
                "{} entries are recorded in no block directory, or otherwise in the last one; the first is {}",
                missing.len(),
                first.path
            );
            self.check.ledger.add(Finding::new("entry record", place, detail));
        }
    }

    /// Goes on with the entries below a damaged page as far as the directories of blocks know them.
    fn lost(&mut self, child: &Child, finding: Finding) -> Result<()> {
        let place = child.page.offset;
        let id = self.check.ledger.add(finding);
        let end = self.number.saturating_add(child.entries);
        let mut found = 0;
        self.check.by_tree = false;
        for entry in self.check.reader.entries(self.number..end) {
            self.check.monitor.check()?;
            match entry {
                Ok(entry) => {
                    found += 1;
                    self.enter(&entry);
                    self.check.entry(&entry, place)?;
                }
                Err(error) => {
                    Finding::from_error(error, FrameKind::EntryPage.name(), place)?;
                }
            }
        }
        self.check.ledger.nameless(id, child.entries.saturating_sub(found));
        self.number = end;
        (self.last, self.in_doubt, self.is_complete) = (None, true, false);
        self.keys.clear();
        Ok(())
    }
}
