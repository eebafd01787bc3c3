//! Checks that the chunk runs list every chunk and nothing else.

use crate::chunk_run::ChunkPage;
use crate::content::FrameRef;
use crate::frame::{FrameKind, HEADER_LEN};
use crate::reader::frames;
use crate::reader::verify::damage_list::{DamageList, Finding};
use crate::reader::verify::fingerprints;
use crate::reader::verify::frame_survey::FrameSurvey;
use crate::reader::window::Window;
use nra_core::error::{Error, Result};
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
    damage_list: &mut DamageList,
    monitor: &dyn Monitor,
) -> Result<()> {
    let count = survey.chunks.as_slice().len();
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
            let again = || Error::corrupt(FrameKind::ChunkPage.name(), offset, "it is referred to too often");
            let page = if room == 0 { Err(again()) } else { load(window, &next) };
            match page {
                Ok(ChunkPage::Leaf(locations)) => {
                    if last.is_some_and(|last| last >= locations[0]) {
                        damage_list.add(Finding::new(
                            FrameKind::ChunkPage.name(),
                            offset,
                            "it does not follow the preceding page",
                        ));
                    }
                    last = locations.last().copied();
                    let mut unknown = 0u64;
                    for chunk in &locations {
                        match survey.chunks.position(fingerprints::chunk(chunk.key, chunk.block, chunk.chunk.into())) {
                            Some(index) => listed[index / 64] |= 1 << (index % 64),
                            None => unknown += 1,
                        }
                    }
                    if unknown > 0 && survey.is_complete {
                        let detail = format!("{unknown} of its chunks do not exist");
                        damage_list.add(Finding::new(FrameKind::ChunkPage.name(), offset, detail));
                    }
                }
                Ok(ChunkPage::Inner(level, children)) => {
                    let next = |(key, page, chunks)| PendingPage { page, expected: Some((key, chunks, level - 1)) };
                    stack.extend(children.into_iter().rev().map(next));
                }
                Err(error) => {
                    damage_list.add(Finding::from_error(error, FrameKind::ChunkPage.name(), offset)?);
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
        damage_list.add(Finding::new(FrameKind::Commit.name(), commit, detail));
    }
    Ok(())
}

fn load(window: &Window, next: &PendingPage) -> Result<ChunkPage> {
    let corrupt = |detail: String| Error::corrupt(FrameKind::ChunkPage.name(), next.page.offset, detail);
    let frame = frames::follow(window, FrameKind::ChunkPage, next.page)?;
    let page = ChunkPage::parse(&frame.payload).map_err(corrupt)?;
    let found = match &page {
        ChunkPage::Leaf(locations) => (locations[0].key, locations.len() as u64, 0),
        ChunkPage::Inner(level, children) => (children[0].0, children.iter().map(|child| child.2).sum(), *level),
    };
    if next.expected.is_some_and(|expected| expected != found) {
        return Err(corrupt(format!(
            "first key, chunks and level are {found:x?}, expected {:x?}",
            next.expected.unwrap_or_default()
        )));
    }
    Ok(page)
}
