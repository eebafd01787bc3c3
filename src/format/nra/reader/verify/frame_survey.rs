//! A survey of all frames of the file: every byte between the superblock and the last footer.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{FrameKind, HEADER_LEN};
use crate::reader::frame_walk::{FrameWalk, Step, peek};
use crate::reader::frames::{self, FrameStart};
use crate::reader::keys;
use crate::reader::verify::damage_list::{BlockDamage, BlockTable, DamageId, DamageList, Finding};
use crate::reader::verify::fingerprints::Records;
use crate::reader::verify::frame::{self, Job, PayloadFault, Report};
use crate::reader::window::Window;
use nra_core::archive::Depth;
use nra_core::codec::Dictionary;
use nra_core::crypt::SALT_LEN;
use nra_core::error::Result;
use nra_core::progress::{Counter, Monitor};

/// Frames per batch.
const BATCH: usize = 256;
/// Frames per thread whose results are held at a time. The results of one may take 1 MiB.
const FRAMES_PER_THREAD: usize = 4;
/// Most prepared dictionaries that are cached.
const KEPT_DICTIONARIES: usize = 16;

/// The result of checking all frames.
pub(super) struct FrameSurvey<'a> {
    window: &'a Window,
    depth: Depth,
    pub(super) blocks: BlockTable,
    /// Ranges that contain no frames although frames are expected.
    gaps: Vec<(Range<u64>, DamageId)>,
    /// Fingerprints of whole chunks of blocks of codec 0; sorted once all frames are checked.
    pub(super) uncompressed: Vec<u64>,
    /// Fingerprints of all records in block indexes.
    pub(super) records: Records,
    /// Fingerprints of all chunks; sorted likewise.
    pub(super) chunks: Vec<u64>,
    pub(super) chunk_count: u64,
    pub(super) chunk_bytes: u64,
    pub(super) stored_bytes: u64,
    /// Whether all block indexes were read, so that fingerprints and sums are complete.
    pub(super) is_complete: bool,
    lost_dictionaries: HashMap<u64, DamageId>,
    prepared: VecDeque<(u64, Arc<Dictionary>)>,
}

impl<'a> FrameSurvey<'a> {
    pub(super) fn new(window: &'a Window, depth: Depth) -> Self {
        Self {
            window,
            depth,
            blocks: BlockTable::default(),
            gaps: Vec::new(),
            uncompressed: Vec::new(),
            records: Records::default(),
            chunks: Vec::new(),
            chunk_count: 0,
            chunk_bytes: 0,
            stored_bytes: 0,
            is_complete: true,
            lost_dictionaries: HashMap::new(),
            prepared: VecDeque::new(),
        }
    }

    /// Checks all frames up to `end`.
    pub(super) fn check_all(&mut self, end: u64, damage: &mut DamageList, monitor: &dyn Monitor) -> Result<()> {
        let mut walk = FrameWalk::up_to(self.window, end);
        let mut order = CommitOrder::default();
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(step) = walk.next()? {
            match step {
                Step::Frame { offset, mut start } => {
                    if start.header.kind == FrameKind::Keys {
                        // A key frame contains the salt of the frames of its commit.
                        start.salt = keys::salt_of_key_frame(self.window, offset)?;
                    }
                    order.frame(offset, &start, damage);
                    batch.push(self.job(offset, start, damage)?);
                }
                Step::Footer { offset, footer } => order.footer(offset, &footer, damage),
                Step::Other { offset, len } => self.add_unknown_frame(offset, len, damage)?,
                Step::Gap { offset, len } => self.add_gap(offset..offset + len, &order, damage)?,
            }
            self.check_full_batch(&mut batch, damage, monitor)?;
        }
        self.finish(&batch, damage, monitor)
    }

    /// Checks some blocks, in file order.
    pub(super) fn check_blocks(
        &mut self,
        blocks: impl Iterator<Item = u64>,
        damage: &mut DamageList,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        for offset in blocks {
            match frames::header(self.window, FrameKind::Block, offset) {
                Ok(start) => batch.push(self.job(offset, start, damage)?),
                Err(error) => {
                    let finding = Finding::from_error(error, "block header", offset)?;
                    let id = damage.add(Finding { structure: "block header", offset, ..finding });
                    self.gaps.push((offset..offset + 1, id));
                }
            }
            self.check_full_batch(&mut batch, damage, monitor)?;
        }
        self.finish(&batch, damage, monitor)
    }

    fn check_full_batch(&mut self, batch: &mut Vec<Job>, damage: &mut DamageList, monitor: &dyn Monitor) -> Result<()> {
        if batch.len() == BATCH {
            self.check_batch(batch, damage, monitor)?;
            batch.clear();
        }
        Ok(())
    }

    /// Checks the last batch and sorts the fingerprints.
    fn finish(&mut self, batch: &[Job], damage: &mut DamageList, monitor: &dyn Monitor) -> Result<()> {
        self.check_batch(batch, damage, monitor)?;
        self.uncompressed.par_sort_unstable();
        self.records.sort();
        self.chunks.par_sort_unstable();
        Ok(())
    }

    pub(super) fn gap_at(&self, offset: u64) -> Option<DamageId> {
        let next = self.gaps.partition_point(|(range, _)| range.start <= offset);
        let (range, id) = self.gaps.get(next.checked_sub(1)?)?;
        range.contains(&offset).then_some(*id)
    }

    fn add_gap(&mut self, range: Range<u64>, order: &CommitOrder, damage: &mut DamageList) -> Result<()> {
        let len = range.end - range.start;
        let is_footer = len == FOOTER_LEN as u64 && order.commit.is_some_and(|(_, end)| end == range.start);
        let structure = if is_footer { "footer" } else { "frame header" };
        let why = match self.window.array::<HEADER_LEN>(structure, range.start) {
            Ok(bytes) if is_footer => Footer::parse(&bytes, range.start).err(),
            Ok(_) => frames::start(self.window, structure, range.start).err(),
            Err(error) => Some(error),
        };
        let why = match why {
            Some(error) => Finding::from_error(error, structure, range.start)?.detail,
            None => "it is at the wrong offset".into(),
        };
        let id = damage.report(structure, range.start, format!("{len} bytes belong to no frame and no footer: {why}"));
        self.is_complete &= is_footer;
        self.gaps.push((range, id));
        Ok(())
    }

    /// Adds a frame with an authentic header that cannot be parsed.
    fn add_unknown_frame(&mut self, offset: u64, len: u64, damage: &mut DamageList) -> Result<()> {
        let left = usize::try_from(self.window.file_len() - offset).unwrap_or(usize::MAX);
        let bytes = self.window.bytes("frame header", offset, self.window.start_len().min(left))?;
        let known = peek(self.window, &bytes, offset).is_some_and(|(kind, _)| FrameKind::from_number(kind).is_some());
        if let (true, Err(error)) = (known, FrameStart::parse(self.window, &bytes, offset)) {
            let id = damage.report_error(error, "frame header", offset)?;
            self.is_complete = false;
            self.gaps.push((offset..offset + len, id));
        }
        Ok(())
    }

    fn job(&mut self, offset: u64, start: FrameStart, damage: &mut DamageList) -> Result<Job> {
        let dictionary = match start.header.dictionary {
            0 => None,
            place => Some(self.dictionary(place, damage)?),
        };
        Ok(Job { offset, start, dictionary })
    }

    fn dictionary(&mut self, offset: u64, damage: &mut DamageList) -> Result<Result<Arc<Dictionary>, DamageId>> {
        if let Some((_, dictionary)) = self.prepared.iter().find(|(place, _)| *place == offset) {
            return Ok(Ok(Arc::clone(dictionary)));
        }
        if let Some(id) = self.lost_dictionaries.get(&offset) {
            return Ok(Err(*id));
        }
        match frames::dictionary(self.window, offset) {
            Ok(dictionary) => {
                let dictionary = Arc::new(dictionary);
                if self.prepared.len() == KEPT_DICTIONARIES {
                    self.prepared.pop_front();
                }
                self.prepared.push_back((offset, Arc::clone(&dictionary)));
                Ok(Ok(dictionary))
            }
            Err(error) => {
                let finding = Finding::from_error(error, FrameKind::Dictionary.name(), offset)?;
                let id = match self.gap_at(offset) {
                    Some(id) => id,
                    None => damage.add(Finding { structure: FrameKind::Dictionary.name(), offset, ..finding }),
                };
                damage.set_structure(id, FrameKind::Dictionary.name());
                self.lost_dictionaries.insert(offset, id);
                Ok(Err(id))
            }
        }
    }

    fn check_batch(&mut self, batch: &[Job], damage: &mut DamageList, monitor: &dyn Monitor) -> Result<()> {
        let (window, depth) = (self.window, self.depth);
        for jobs in batch.chunks(FRAMES_PER_THREAD * rayon::current_num_threads()) {
            monitor.check()?;
            let reports: Vec<Result<Report>> = jobs
                .par_iter()
                .map(|job| {
                    monitor.check()?;
                    let report = frame::check(window, job, depth);
                    if job.start.header.kind == FrameKind::Block {
                        monitor.add(Counter::Bytes, job.start.header.raw_len.into());
                    }
                    report
                })
                .collect();
            for (job, report) in jobs.iter().zip(reports) {
                self.add_report(job, report?, damage);
            }
        }
        Ok(())
    }

    fn add_report(&mut self, job: &Job, report: Report, damage: &mut DamageList) {
        let ids: Vec<DamageId> = report.findings.into_iter().map(|finding| damage.add(finding)).collect();
        if job.start.header.kind != FrameKind::Block {
            return;
        }
        let flaw = report.fault.map(|fault| match fault {
            PayloadFault::Lost(finding) => BlockDamage::Lost(ids[finding]),
            PayloadFault::Doubtful(finding) => BlockDamage::Doubtful(ids[finding]),
            PayloadFault::Chunks(finding, ranges) => BlockDamage::Ranges(ids[finding], ranges),
            PayloadFault::Dictionary(id) => BlockDamage::Lost(id),
        });
        self.blocks.add(&job.start.block_ref(job.offset), flaw);
        self.is_complete &= !report.lost_block_index;
        self.chunk_count += report.chunks;
        self.chunk_bytes = self.chunk_bytes.saturating_add(report.chunk_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(job.start.header.stored_len.into());
        self.uncompressed.extend(report.uncompressed_fingerprints);
        self.records.extend(report.record_fingerprints);
        self.chunks.extend(report.chunk_fingerprints);
    }
}

/// Checks the order of commit numbers in frames, commits and footers.
#[derive(Default)]
struct CommitOrder {
    /// Lowest and highest number of the frames since the last footer, and the offset of the first
    /// of them.
    numbers: Option<(u64, u64, u64)>,
    /// Number and end of the last commit frame, until its footer is found.
    commit: Option<(u64, u64)>,
    /// Number of the last footer.
    last: u64,
    /// Salt of the sealed frames since the last footer.
    salt: Option<[u8; SALT_LEN]>,
}

impl CommitOrder {
    fn frame(&mut self, offset: u64, start: &FrameStart, damage: &mut DamageList) {
        let header = &start.header;
        if let Some((number, _)) = self.commit.take() {
            damage.report("footer", offset, format!("expected after commit {number}, found a frame"));
        }
        let number = header.commit;
        let (low, high, _) = *self.numbers.get_or_insert((number, number, offset));
        if number != low || number != high {
            let detail = format!("it was written for commit {number}, an earlier frame for commit {low}");
            damage.report("frame header", offset, detail);
        }
        if let Some(salt) = start.salt
            && *self.salt.get_or_insert(salt) != salt
        {
            damage.report("frame header", offset, "it belongs to another commit than the preceding frames");
        }
        if header.kind == FrameKind::Commit {
            self.commit = Some((number, offset + header.frame_len()));
        }
    }

    fn footer(&mut self, offset: u64, footer: &Footer, damage: &mut DamageList) {
        let expected = self.commit.take();
        if expected != Some((footer.number, offset)) {
            damage.report("footer", offset, format!("no commit {} ends before it", footer.number));
        }
        if footer.number <= self.last {
            damage.report("footer", offset, format!("footer of commit {} after that of commit {}", footer.number, self.last));
        }
        self.last = footer.number;
        self.numbers = None;
        self.salt = None;
    }
}
