//! The frames of the file: every byte between head and last tail.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::content::BlockRef;
use crate::frame::{FrameKind, HEADER_LEN};
use crate::head::{TAIL_LEN, Tail};
use crate::reader::frames::{self, Start};
use crate::reader::opener;
use crate::reader::verify::block::{self, Hurt, Job, Report};
use crate::reader::verify::ledger::{Blocks, Corruption, DamageId, Finding, Ledger};
use crate::reader::verify::prints::{Prints, Records};
use crate::reader::walk::{Step, Walk, peek};
use crate::reader::window::Window;
use nra_core::archive::Depth;
use nra_core::codec::Dictionary;
use nra_core::crypt::SALT_LEN;
use nra_core::error::{Error, Result};
use nra_core::progress::{Counter, Monitor};

/// Frames that are looked up before they are checked.
const BATCH: usize = 256;
/// Frames for each thread of which results are held at a time: those of one may be a MiB.
const HELD: usize = 4;
/// Prepared dictionaries kept at hand.
const KEPT_DICTIONARIES: usize = 16;

/// What the frames tell.
pub(super) struct Survey<'a> {
    window: &'a Window,
    depth: Depth,
    pub(super) blocks: Blocks,
    /// Places where frames were expected and none is.
    gaps: Vec<(Range<u64>, DamageId)>,
    /// Prints of whole pieces of uncompressed blocks.
    pub(super) raw: Prints,
    /// Prints of all records in directories.
    pub(super) records: Records,
    /// Prints of all pieces.
    pub(super) pieces: Prints,
    pub(super) piece_count: u64,
    pub(super) piece_bytes: u64,
    pub(super) stored_bytes: u64,
    /// All directories of blocks were read: nothing is missing from prints and sums.
    pub(super) is_complete: bool,
    dictionaries: HashMap<u64, Result<(), DamageId>>,
    prepared: VecDeque<(u64, Arc<Dictionary>)>,
}

impl<'a> Survey<'a> {
    pub(super) fn new(window: &'a Window, depth: Depth) -> Self {
        Self {
            window,
            depth,
            blocks: Blocks::default(),
            gaps: Vec::new(),
            raw: Prints::default(),
            records: Records::default(),
            pieces: Prints::default(),
            piece_count: 0,
            piece_bytes: 0,
            stored_bytes: 0,
            is_complete: true,
            dictionaries: HashMap::new(),
            prepared: VecDeque::new(),
        }
    }

    /// Checks all frames up to `end`.
    pub(super) fn all(&mut self, end: u64, ledger: &mut Ledger, monitor: &dyn Monitor) -> Result<()> {
        let mut walk = Walk::up_to(self.window, end);
        let mut chain = Chain::default();
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(step) = walk.next()? {
            match step {
                Step::Frame { offset, mut start } => {
                    if start.header.kind == FrameKind::Keys {
                        // It tells the salt of the frames around it.
                        start.salt = opener::salt_of_keys(self.window, offset)?;
                    }
                    chain.frame(offset, &start, ledger);
                    batch.push(self.job(offset, start, ledger)?);
                    if batch.len() == BATCH {
                        self.run(&batch, ledger, monitor)?;
                        batch.clear();
                    }
                }
                Step::Tail { offset, tail } => chain.tail(offset, &tail, ledger),
                Step::Other { offset, len } => self.other(offset, len, ledger)?,
                Step::Gap { offset, len } => self.gap(offset..offset + len, &chain, ledger)?,
            }
        }
        self.run(&batch, ledger, monitor)?;
        self.sort();
        Ok(())
    }

    /// Checks some blocks, in the order of the file.
    pub(super) fn some(&mut self, blocks: impl Iterator<Item = u64>, ledger: &mut Ledger, monitor: &dyn Monitor) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        for offset in blocks {
            match frames::header(self.window, FrameKind::Block, offset) {
                Ok(start) => batch.push(self.job(offset, start, ledger)?),
                Err(error) => {
                    let finding = Finding::from_error(error, "block header", offset)?;
                    let id = ledger.add(Finding { structure: "block header", offset, ..finding });
                    self.gaps.push((offset..offset + 1, id));
                }
            }
            if batch.len() == BATCH {
                self.run(&batch, ledger, monitor)?;
                batch.clear();
            }
        }
        self.run(&batch, ledger, monitor)?;
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.raw.sort();
        self.records.settle();
        self.pieces.sort();
    }

    /// Returns the damage that took the frame at `offset`.
    pub(super) fn gap_at(&self, offset: u64) -> Option<DamageId> {
        let behind = self.gaps.partition_point(|(range, _)| range.start <= offset);
        let (range, id) = self.gaps.get(behind.checked_sub(1)?)?;
        range.contains(&offset).then_some(*id)
    }

    fn gap(&mut self, range: Range<u64>, chain: &Chain, ledger: &mut Ledger) -> Result<()> {
        let len = range.end - range.start;
        let is_tail = len == TAIL_LEN as u64 && chain.expects_tail_at(range.start);
        let structure = if is_tail { "tail" } else { "frame header" };
        let why = match self.window.array::<HEADER_LEN>(structure, range.start) {
            Ok(bytes) if is_tail => Tail::parse(&bytes, range.start).err(),
            Ok(_) => frames::start(self.window, structure, range.start).err(),
            Err(error) => Some(error),
        };
        let why = match why {
            Some(error) => Finding::from_error(error, structure, range.start)?.detail,
            None => "it is not where it belongs".into(),
        };
        let id = ledger.add(Finding::new(structure, range.start, format!("{len} bytes belong to no frame and no tail: {why}")));
        self.is_complete &= is_tail;
        self.gaps.push((range, id));
        Ok(())
    }

    /// A frame whose header is authentic but can't be read.
    fn other(&mut self, offset: u64, len: u64, ledger: &mut Ledger) -> Result<()> {
        let left = usize::try_from(self.window.file_len() - offset).unwrap_or(usize::MAX);
        let bytes = self.window.bytes("frame header", offset, self.window.start_len().min(left))?;
        let known = peek(self.window, &bytes, offset).is_some_and(|(kind, _)| FrameKind::from_number(kind).is_some());
        if let (true, Err(error)) = (known, Start::parse(self.window, &bytes, offset)) {
            let id = ledger.add(Finding::from_error(error, "frame header", offset)?);
            self.is_complete = false;
            self.gaps.push((offset..offset + len, id));
        }
        Ok(())
    }

    fn job(&mut self, offset: u64, start: Start, ledger: &mut Ledger) -> Result<Job> {
        let dictionary = match start.header.dictionary {
            0 => None,
            place => Some(self.dictionary(place, ledger)?),
        };
        Ok(Job { offset, start, dictionary })
    }

    fn dictionary(&mut self, offset: u64, ledger: &mut Ledger) -> Result<Result<Arc<Dictionary>, DamageId>> {
        if let Some((_, dictionary)) = self.prepared.iter().find(|(place, _)| *place == offset) {
            return Ok(Ok(Arc::clone(dictionary)));
        }
        if let Some(Err(id)) = self.dictionaries.get(&offset) {
            return Ok(Err(*id));
        }
        const GUESS: usize = HEADER_LEN + (32 << 10);
        let loaded = frames::at(self.window, FrameKind::Dictionary, offset, GUESS).and_then(|frame| {
            Dictionary::new(frame.payload).map_err(|detail| Error::corrupt(FrameKind::Dictionary.name(), offset, detail))
        });
        match loaded {
            Ok(dictionary) => {
                let dictionary = Arc::new(dictionary);
                if self.prepared.len() == KEPT_DICTIONARIES {
                    self.prepared.pop_front();
                }
                self.prepared.push_back((offset, Arc::clone(&dictionary)));
                self.dictionaries.insert(offset, Ok(()));
                Ok(Ok(dictionary))
            }
            Err(error) => {
                let finding = Finding::from_error(error, FrameKind::Dictionary.name(), offset)?;
                let id = match self.gap_at(offset) {
                    Some(id) => id,
                    None => ledger.add(Finding { structure: FrameKind::Dictionary.name(), offset, ..finding }),
                };
                ledger.rename(id, FrameKind::Dictionary.name());
                self.dictionaries.insert(offset, Err(id));
                Ok(Err(id))
            }
        }
    }

    fn run(&mut self, batch: &[Job], ledger: &mut Ledger, monitor: &dyn Monitor) -> Result<()> {
        let (window, depth) = (self.window, self.depth);
        for jobs in batch.chunks(HELD * rayon::current_num_threads()) {
            monitor.check()?;
            let reports: Vec<Result<Report>> = jobs
                .par_iter()
                .map(|job| {
                    monitor.check()?;
                    let report = block::check(window, job, depth);
                    if job.start.header.kind == FrameKind::Block {
                        monitor.add(Counter::Bytes, job.start.header.raw_len.into());
                    }
                    report
                })
                .collect();
            for (job, report) in jobs.iter().zip(reports) {
                self.take_in(job, report?, ledger);
            }
        }
        Ok(())
    }

    fn take_in(&mut self, job: &Job, report: Report, ledger: &mut Ledger) {
        let ids: Vec<DamageId> = report.findings.into_iter().map(|finding| ledger.add(finding)).collect();
        if job.start.header.kind != FrameKind::Block {
            return;
        }
        let flaw = report.hurt.map(|hurt| match hurt {
            Hurt::Lost(finding) => Corruption::Lost(ids[finding]),
            Hurt::Doubtful(finding) => Corruption::Doubtful(ids[finding]),
            Hurt::Pieces(finding, ranges) => Corruption::Ranges(ids[finding], ranges),
            Hurt::Dictionary(id) => Corruption::Lost(id),
        });
        let block: BlockRef = job.block_ref();
        self.blocks.add(&block, flaw);
        self.is_complete &= !report.no_directory;
        self.piece_count += report.pieces;
        self.piece_bytes = self.piece_bytes.saturating_add(report.piece_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(job.start.header.stored_len.into());
        self.raw.extend(report.raw_prints);
        self.records.extend(report.record_prints);
        self.pieces.extend(report.piece_prints);
    }
}

/// The numbers of commits: frames, their commit, its tail.
#[derive(Default)]
struct Chain {
    /// Lowest and highest number of the frames since the last tail, and where the first of them is.
    numbers: Option<(u64, u64, u64)>,
    /// Number and end of the commit frame met last, until its tail is met.
    commit: Option<(u64, u64)>,
    /// Number of the tail met last.
    last: u64,
    /// Salt of the sealed frames since the last tail.
    salt: Option<[u8; SALT_LEN]>,
}

impl Chain {
    fn frame(&mut self, offset: u64, start: &Start, ledger: &mut Ledger) {
        let header = &start.header;
        if let Some((number, _)) = self.commit.take() {
            ledger.add(Finding::new("tail", offset, format!("expected behind commit {number}, a frame is in its place")));
        }
        let number = header.commit;
        let (low, high, _) = *self.numbers.get_or_insert((number, number, offset));
        if number != low || number != high {
            let detail = format!("it was written for commit {number}, a frame in front of it for commit {low}");
            ledger.add(Finding::new("frame header", offset, detail));
        }
        if let Some(salt) = start.salt
            && *self.salt.get_or_insert(salt) != salt
        {
            ledger.add(Finding::new("frame header", offset, "it is not of the same commit as the frames in front of it"));
        }
        if header.kind == FrameKind::Commit {
            self.commit = Some((number, offset + header.frame_len()));
        }
    }

    fn tail(&mut self, offset: u64, tail: &Tail, ledger: &mut Ledger) {
        let expected = self.commit.take();
        if expected != Some((tail.number, offset)) {
            ledger.add(Finding::new("tail", offset, format!("no commit {} ends in front of it", tail.number)));
        }
        if tail.number <= self.last {
            ledger.add(Finding::new("tail", offset, format!("of commit {} behind one of commit {}", tail.number, self.last)));
        }
        self.last = tail.number;
        self.numbers = None;
        self.salt = None;
    }

    fn expects_tail_at(&self, offset: u64) -> bool {
        self.commit.is_some_and(|(_, end)| end == offset)
    }
}
