//! Checks of single frames. These run in parallel and know nothing of each other.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::chunks::ChunkPage;
use crate::commit::{Commit, parse_attributes};
use crate::content::BlockRef;
use crate::directory::Directory;
use crate::extents::ExtentPage;
use crate::frame::{FrameHeader, FrameKind};
use crate::page::Page;
use crate::reader::frames::{self, Start};
use crate::reader::verify::ledger::{DamageId, Finding};
use crate::reader::verify::prints::{self, RecordPrint};
use crate::reader::window::Window;
use nra_core::archive::Depth;
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::crypt::FramePart;
use nra_core::digest::Digest;
use nra_core::error::Result;

/// A frame to be checked.
pub(super) struct Job {
    pub(super) offset: u64,
    pub(super) start: Start,
    /// What its payload was compressed with; the damage when that is lost.
    pub(super) dictionary: Option<Result<Arc<Dictionary>, DamageId>>,
}

impl Job {
    pub(super) fn block_ref(&self) -> BlockRef {
        let FrameHeader { raw_len, stored_len, pad_len, .. } = self.start.header;
        BlockRef { offset: self.offset, raw_len, stored_len, pad_len, check: self.start.check }
    }
}

/// What is wrong with the payload of a block.
pub(super) enum Hurt {
    /// The payload does not read at all; number of the finding.
    Lost(usize),
    /// It is not compressed and some of its bytes are wrong.
    Doubtful(usize),
    /// Pieces that are not what their digests say.
    Pieces(usize, Vec<Range<u64>>),
    /// The dictionary is lost.
    Dictionary(DamageId),
}

/// What the check of a frame found.
#[derive(Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    pub(super) hurt: Option<Hurt>,
    /// The directory of a block does not read.
    pub(super) no_directory: bool,
    pub(super) pieces: u64,
    pub(super) piece_bytes: u64,
    /// Prints of its pieces, of its pieces with content checksums, and of its records.
    pub(super) piece_prints: Vec<u64>,
    pub(super) raw_prints: Vec<u64>,
    pub(super) record_prints: Vec<RecordPrint>,
}

impl Report {
    fn find(&mut self, structure: &'static str, offset: u64, detail: impl Into<String>) -> usize {
        self.findings.push(Finding::new(structure, offset, detail));
        self.findings.len() - 1
    }
}

/// Checks all of a frame behind its header.
///
/// # Errors
///
/// What says nothing of the file.
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
            report.hurt = Some(Hurt::Lost(0));
            report.no_directory = true;
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
    let (payload, directory) = (take(header.payload_span()), take(header.directory_span()));
    if padding.iter().chain(rest).any(|&byte| byte != 0) {
        report.find("padding", *offset, format!("the zero bytes of the {name} are not all zero"));
    }
    let (stored, whole) = start.open(FramePart::Payload, payload);
    let whole = whole.and_then(|()| frames::compare("payload checksum", header.payload_checksum, &stored, *offset));
    if header.kind == FrameKind::Block {
        let directory = block_directory(job, directory, &mut report);
        block_payload(job, &stored, whole, directory.as_ref(), depth, &mut report);
    } else if let Err(detail) = whole {
        report.find(name, *offset, detail);
    } else if let Err(detail) = other_payload(window, header, &stored, *offset) {
        report.find(name, *offset, detail);
    }
    Ok(report)
}

/// Decompresses and parses the payload of a frame that is no block.
fn other_payload(window: &Window, header: &FrameHeader, stored: &[u8], offset: u64) -> Result<(), String> {
    let decode = || frames::decode(header, stored, None, offset).map_err(|error| error.to_string());
    match header.kind {
        FrameKind::EntryPage => Page::parse(&decode()?).map(drop),
        FrameKind::ExtentPage => ExtentPage::parse(&decode()?).map(drop),
        FrameKind::ChunkPage => ChunkPage::parse(&decode()?).map(drop),
        FrameKind::Attributes => parse_attributes(&decode()?).map(drop),
        FrameKind::Commit => Commit::parse(stored).map(drop),
        FrameKind::Dictionary => Dictionary::new(stored).map(drop),
        FrameKind::Keys => match window.opener() {
            Some(opener) => opener.check_keys(stored, offset, header.commit).map_err(|error| error.to_string()),
            None => Err("keys in an archive that is not encrypted".into()),
        },
        // A block is not here; recovery data are checked by who uses them.
        FrameKind::Block | FrameKind::Recovery => Ok(()),
    }
}

fn block_directory(job: &Job, bytes: &[u8], report: &mut Report) -> Option<Directory> {
    let header = &job.start.header;
    let place = job.offset + header.directory_start();
    let (bytes, whole) = job.start.open(FramePart::Directory, bytes);
    let checked = whole.and_then(|()| frames::compare("checksum", header.directory_checksum, &bytes, job.offset));
    match checked.and_then(|()| Directory::parse(&bytes, job.offset, header.raw_len)) {
        Ok(directory) => {
            report.pieces = directory.pieces.len() as u64;
            report.piece_bytes = directory.pieces.iter().map(|piece| u64::from(piece.raw_len)).sum();
            let numbered = (0u64..).zip(&directory.pieces);
            report.piece_prints = numbered.map(|(number, piece)| prints::piece(piece.digest.key(), job.offset, number)).collect();
            report.record_prints = prints::last_records(&directory.entries, (job.offset, job.start.check));
            Some(directory)
        }
        Err(detail) => {
            report.find("block directory", place, detail);
            report.no_directory = true;
            None
        }
    }
}

fn block_payload(
    job: &Job,
    stored: &[u8],
    whole: Result<(), String>,
    directory: Option<&Directory>,
    depth: Depth,
    report: &mut Report,
) {
    const STRUCTURE: &str = "block payload";
    let place = job.offset + job.start.header.payload_start();
    let is_raw = job.start.header.codec == Codec::None;
    if let (Err(detail), false) = (&whole, is_raw) {
        report.hurt = Some(Hurt::Lost(report.find(STRUCTURE, place, detail.clone())));
        return;
    }
    let dictionary = match &job.dictionary {
        Some(Err(damage)) => {
            report.hurt = Some(Hurt::Dictionary(*damage));
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
                report.hurt = Some(Hurt::Lost(report.find(STRUCTURE, place, error.to_string())));
                return;
            }
        }
    };
    // Quickly, digests are computed only where they tell which pieces of damaged content are good.
    let digests = depth == Depth::Full || whole.is_err();
    let (wrong, gaps) = directory.map_or((Vec::new(), true), |directory| pieces(job, &raw, directory, digests, report));
    if let Err(detail) = whole {
        let extra = directory.map_or(String::new(), |all| format!("; {} of {} pieces are hit", wrong.len(), all.pieces.len()));
        report.hurt = Some(Hurt::Doubtful(report.find(STRUCTURE, place, detail + &extra)));
    } else if let Some(first) = wrong.first() {
        let detail =
            format!("{} pieces are not what their digests say, the first at {} of the raw payload", wrong.len(), first.start);
        report.hurt = Some(Hurt::Pieces(report.find(STRUCTURE, place, detail), wrong));
    } else if !gaps {
        report.find("padding", job.offset, "gaps between pieces are not all zero");
    }
}

/// Compares pieces with their digests. Returns those that differ, and whether the gaps are zero.
fn pieces(job: &Job, raw: &[u8], directory: &Directory, digests: bool, report: &mut Report) -> (Vec<Range<u64>>, bool) {
    let mut wrong = Vec::new();
    let mut zero = true;
    let mut rest = raw;
    for piece in &directory.pieces {
        let size = |len: u32| usize::try_from(len).expect("32 bits");
        let (gap, behind) = rest.split_at(size(piece.gap));
        let (bytes, behind) = behind.split_at(size(piece.raw_len));
        rest = behind;
        zero &= gap.iter().all(|&byte| byte == 0);
        let start = (raw.len() - rest.len() - bytes.len()) as u64;
        if digests && Digest::of(bytes) != piece.digest {
            wrong.push(start..start + bytes.len() as u64);
        } else if job.start.header.codec == Codec::None {
            let sum = content_checksum(bytes);
            report.raw_prints.push(prints::raw_content(job.offset, start, bytes.len() as u64, sum));
        }
    }
    (wrong, zero)
}
