//! Checks of single frames. They run in parallel and are independent.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::block_index::BlockIndex;
use crate::chunk_run::ChunkPage;
use crate::commit::{Commit, parse_attributes};
use crate::entry_page::EntryPage;
use crate::extent_map::ExtentPage;
use crate::frame::{FrameHeader, FrameKind};
use crate::reader::frames::{self, FrameStart};
use crate::reader::verify::damage_list::{DamageId, Finding};
use crate::reader::verify::fingerprints::{self, RecordFingerprint};
use crate::reader::window::Window;
use nra_core::archive::Depth;
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::crypt::FramePart;
use nra_core::digest::Digest;
use nra_core::error::Result;

/// A frame to check.
pub(super) struct Job {
    pub(super) offset: u64,
    pub(super) start: FrameStart,
    /// The dictionary of its payload, or the damage of that dictionary.
    pub(super) dictionary: Option<Result<Arc<Dictionary>, DamageId>>,
}

/// Damage of the payload of a block. Numbers are indexes of findings.
pub(super) enum PayloadFault {
    /// The whole payload is unreadable.
    Lost(usize),
    /// Some bytes of an uncompressed payload are wrong.
    Doubtful(usize),
    /// These chunks do not match their digests.
    Chunks(usize, Vec<Range<u64>>),
    Dictionary(DamageId),
}

/// The result of checking a frame.
#[derive(Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    pub(super) fault: Option<PayloadFault>,
    /// Whether the block index is damaged.
    pub(super) lost_block_index: bool,
    pub(super) chunks: u64,
    pub(super) chunk_bytes: u64,
    /// Fingerprints of chunks, of chunks with content checksums, and of records.
    pub(super) chunk_fingerprints: Vec<u64>,
    pub(super) uncompressed_fingerprints: Vec<u64>,
    pub(super) record_fingerprints: Vec<RecordFingerprint>,
}

impl Report {
    fn find(&mut self, structure: &'static str, offset: u64, detail: impl Into<String>) -> usize {
        self.findings.push(Finding::new(structure, offset, detail));
        self.findings.len() - 1
    }
}

/// Checks everything in a frame after its header.
pub(super) fn check(window: &Window, job: &Job, depth: Depth) -> Result<Report> {
    let Job { offset, start, .. } = job;
    let header = &start.header;
    let name = header.kind.name();
    let place = offset + header.start_len() as u64;
    let mut report = Report::default();
    let len = usize::try_from(header.frame_len()).expect("limited with the header") - header.start_len();
    let bytes = match window.bytes(name, place, len) {
        Ok(bytes) => bytes,
        Err(error) => {
            report.findings.push(Finding::from_error(error, name, *offset)?);
            report.fault = Some(PayloadFault::Lost(0));
            report.lost_block_index = true;
            return Ok(report);
        }
    };
    let mut rest: &[u8] = &bytes;
    let mut take = |len: u64| {
        let part;
        (part, rest) = rest.split_at(usize::try_from(len).expect("limited with the header"));
        part
    };
    let padding = take(header.pad_len.into());
    let (payload, block_index) = (take(header.payload_span()), take(header.block_index_span()));
    if padding.iter().chain(rest).any(|&byte| byte != 0) {
        report.find("padding", *offset, format!("the zero bytes of the {name} are not all zero"));
    }
    let (stored, whole) = start.open(FramePart::Payload, payload);
    let whole = whole.and_then(|()| frames::compare("payload checksum", header.payload_checksum, &stored, *offset));
    if header.kind == FrameKind::Block {
        let block_index = check_block_index(job, block_index, &mut report);
        check_block_payload(job, &stored, whole, block_index.as_ref(), depth, &mut report);
    } else if let Err(detail) = whole {
        report.find(name, *offset, detail);
    } else if let Err(detail) = check_other_payload(window, header, &stored, *offset) {
        report.find(name, *offset, detail);
    }
    Ok(report)
}

/// Decompresses and parses the payload of a frame that is not a block.
fn check_other_payload(window: &Window, header: &FrameHeader, stored: &[u8], offset: u64) -> Result<(), String> {
    let decode = || frames::decode(header, stored, None, offset).map_err(|error| error.to_string());
    match header.kind {
        FrameKind::EntryPage => EntryPage::parse(&decode()?).map(drop),
        FrameKind::ExtentPage => ExtentPage::parse(&decode()?).map(drop),
        FrameKind::ChunkPage => ChunkPage::parse(&decode()?).map(drop),
        FrameKind::Attributes => parse_attributes(&decode()?).map(drop),
        FrameKind::Commit => Commit::parse(stored).map(drop),
        FrameKind::Dictionary => Dictionary::new(stored).map(drop),
        FrameKind::Keys => match window.decryptor() {
            Some(decryptor) => decryptor.check_keys(stored, offset, header.commit).map_err(|error| error.to_string()),
            None => Err("keys in an archive that is not encrypted".into()),
        },
        // Blocks are checked elsewhere, recovery data by the module `recovery`.
        FrameKind::Block | FrameKind::Recovery => Ok(()),
    }
}

fn check_block_index(job: &Job, bytes: &[u8], report: &mut Report) -> Option<BlockIndex> {
    let header = &job.start.header;
    let place = job.offset + header.block_index_start();
    let (bytes, whole) = job.start.open(FramePart::BlockIndex, bytes);
    let checked = whole.and_then(|()| frames::compare("checksum", header.block_index_checksum, &bytes, job.offset));
    match checked.and_then(|()| BlockIndex::parse(&bytes, job.offset, header.raw_len)) {
        Ok(block_index) => {
            report.chunks = block_index.chunks.len() as u64;
            report.chunk_bytes = block_index.chunks.iter().map(|chunk| u64::from(chunk.raw_len)).sum();
            let numbered = (0u64..).zip(&block_index.chunks);
            report.chunk_fingerprints =
                numbered.map(|(number, chunk)| fingerprints::chunk(chunk.digest.key(), job.offset, number)).collect();
            report.record_fingerprints =
                fingerprints::last_records(&block_index.entries, (job.offset, job.start.header_checksum));
            Some(block_index)
        }
        Err(detail) => {
            report.find("block index", place, detail);
            report.lost_block_index = true;
            None
        }
    }
}

fn check_block_payload(
    job: &Job,
    stored: &[u8],
    whole: Result<(), String>,
    block_index: Option<&BlockIndex>,
    depth: Depth,
    report: &mut Report,
) {
    const STRUCTURE: &str = "block payload";
    let place = job.offset + job.start.header.payload_start();
    let is_raw = job.start.header.codec == Codec::None;
    if let (Err(detail), false) = (&whole, is_raw) {
        report.fault = Some(PayloadFault::Lost(report.find(STRUCTURE, place, detail.clone())));
        return;
    }
    let dictionary = match &job.dictionary {
        Some(Err(damage)) => {
            report.fault = Some(PayloadFault::Dictionary(*damage));
            return;
        }
        Some(Ok(dictionary)) => Some(&**dictionary),
        None => None,
    };
    let raw = if is_raw {
        Cow::Borrowed(stored)
    } else if depth == Depth::Quick {
        return;
    } else {
        match frames::decode(&job.start.header, stored, dictionary, job.offset) {
            Ok(raw) => Cow::Owned(raw),
            Err(error) => {
                report.fault = Some(PayloadFault::Lost(report.find(STRUCTURE, place, error.to_string())));
                return;
            }
        }
    };
    // A quick check computes digests only to find the intact chunks of a damaged payload.
    let digests = depth == Depth::Full || whole.is_err();
    let (wrong, gaps) = block_index.map_or((Vec::new(), true), |block_index| chunks(job, &raw, block_index, digests, report));
    if let Err(detail) = whole {
        let extra =
            block_index.map_or(String::new(), |all| format!("; {} of {} chunks are affected", wrong.len(), all.chunks.len()));
        report.fault = Some(PayloadFault::Doubtful(report.find(STRUCTURE, place, detail + &extra)));
    } else if let Some(first) = wrong.first() {
        let detail =
            format!("{} chunks do not match their digests, the first at offset {} of the raw payload", wrong.len(), first.start);
        report.fault = Some(PayloadFault::Chunks(report.find(STRUCTURE, place, detail), wrong));
    } else if !gaps {
        report.find("padding", job.offset, "gaps between chunks are not all zero");
    }
}

/// Compares chunks with their digests. Returns the mismatches, and whether all gaps are zero.
fn chunks(job: &Job, raw: &[u8], block_index: &BlockIndex, digests: bool, report: &mut Report) -> (Vec<Range<u64>>, bool) {
    let mut wrong = Vec::new();
    let mut zero = true;
    let mut rest = raw;
    for chunk in &block_index.chunks {
        let size = |len: u32| usize::try_from(len).expect("32 bits");
        let (gap, behind) = rest.split_at(size(chunk.gap));
        let (bytes, behind) = behind.split_at(size(chunk.raw_len));
        rest = behind;
        zero &= gap.iter().all(|&byte| byte == 0);
        let start = (raw.len() - rest.len() - bytes.len()) as u64;
        if digests && Digest::of(bytes) != chunk.digest {
            wrong.push(start..start + bytes.len() as u64);
        } else if job.start.header.codec == Codec::None {
            let sum = content_checksum(bytes);
            report.uncompressed_fingerprints.push(fingerprints::uncompressed_content(job.offset, start, bytes.len() as u64, sum));
        }
    }
    (wrong, zero)
}
