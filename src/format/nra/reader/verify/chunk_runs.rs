//! Checks that the chunk runs list every chunk and nothing else.

use crate::chunk_run::ChunkPage;
use crate::content::FrameRef;
use crate::frame::{FrameKind, HEADER_LEN};
use crate::reader::frames;
use crate::reader::verify::damage_list::DamageList;
use crate::reader::verify::fingerprints;
use crate::reader::verify::frame_survey::FrameSurvey;
use crate::reader::window::Window;
use nra_core::error::Result;
use nra_core::progress::Monitor;

/// A page to read, with the first key, number of chunks and level that its parent records.
struct PendingPage {
    page: FrameRef,
    expected: Option<(u64, u64, u8)>,
}

/// Checks the chunk runs of the commit at offset `commit`.
pub(super) fn check(
    window: &Window,
    survey: &FrameSurvey<'_>,
    runs: &[FrameRef],
    commit: u64,
    damage: &mut DamageList,
    monitor: &dyn Monitor,
) -> Result<()> {
    let count = survey.chunks.len();
    let mut listed = vec![0u64; count.div_ceil(64)];
    let mut whole = true;
    for run in runs {
        let mut stack = vec![PendingPage { page: *run, expected: None }];
        let mut room = window.file_len() / HEADER_LEN as u64;
        let mut last = None;
        while let Some(next) = stack.pop() {
            monitor.check()?;
            let offset = next.page.offset;
            room = room.saturating_sub(1);
            let again = || FrameKind::ChunkPage.corrupt(offset, "it is referred to too often");
            let page = if room == 0 { Err(again()) } else { load(window, &next) };
            match page {
                Ok(ChunkPage::Leaf(locations)) => {
                    if last.is_some_and(|last| last >= locations[0]) {
                        damage.report(FrameKind::ChunkPage.name(), offset, "it does not follow the preceding page");
                    }
                    last = locations.last().copied();
                    let mut unknown = 0u64;
                    for chunk in &locations {
                        match survey.chunks.binary_search(&fingerprints::chunk(chunk.key, chunk.block, chunk.chunk.into())) {
                            Ok(index) => listed[index / 64] |= 1 << (index % 64),
                            Err(_) => unknown += 1,
                        }
                    }
                    if unknown > 0 && survey.is_complete {
                        let detail = format!("{unknown} of its chunks do not exist");
                        damage.report(FrameKind::ChunkPage.name(), offset, detail);
                    }
                }
                Ok(ChunkPage::Inner(level, children)) => {
                    let next = |(key, page, chunks)| PendingPage { page, expected: Some((key, chunks, level - 1)) };
                    stack.extend(children.into_iter().rev().map(next));
                }
                Err(error) => {
                    damage.report_error(error, FrameKind::ChunkPage.name(), offset)?;
                    (whole, last) = (false, None);
                    if room == 0 {
                        break;
                    }
                }
            }
        }
    }
    let found: usize = listed.iter().map(|bits| usize::try_from(bits.count_ones()).unwrap_or_default()).sum();
    if whole && found < count {
        let detail = format!("its chunk runs omit {} of {count} chunks", count - found);
        damage.report(FrameKind::Commit.name(), commit, detail);
    }
    Ok(())
}

fn load(window: &Window, next: &PendingPage) -> Result<ChunkPage> {
    let page = frames::parse(window, FrameKind::ChunkPage, next.page, ChunkPage::parse)?;
    let first_key = match &page {
        ChunkPage::Leaf(locations) => locations[0].key,
        ChunkPage::Inner(_, children) => children[0].0,
    };
    let found = (first_key, page.chunk_count(), page.level());
    match next.expected.filter(|expected| *expected != found) {
        Some(expected) => {
            let detail = format!("first key, chunks and level are {found:x?}, expected {expected:x?}");
            Err(FrameKind::ChunkPage.corrupt(next.page.offset, detail))
        }
        None => Ok(page),
    }
}
