//! Chunk runs: that they list every piece, and nothing else.

use crate::chunks::ChunkPage;
use crate::content::FrameRef;
use crate::frame::{FrameKind, HEADER_LEN};
use crate::reader::frames;
use crate::reader::verify::ledger::{Finding, Ledger};
use crate::reader::verify::prints;
use crate::reader::verify::survey::Survey;
use crate::reader::window::Window;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;

/// A page to be read: what leads to it says its first key, the pieces below it and its level.
struct Next {
    page: FrameRef,
    told: Option<(u64, u64, u8)>,
}

/// Checks the runs that the commit at `commit` lists.
pub(super) fn check(
    window: &Window,
    survey: &Survey<'_>,
    runs: &[FrameRef],
    commit: u64,
    ledger: &mut Ledger,
    monitor: &dyn Monitor,
) -> Result<()> {
    let count = survey.pieces.as_slice().len();
    let mut listed = vec![0u64; count.div_ceil(64)];
    let mut whole = true;
    for run in runs {
        let mut stack = vec![Next { page: *run, told: None }];
        let mut room = window.file_len() / HEADER_LEN as u64;
        let mut last = None;
        while let Some(next) = stack.pop() {
            monitor.check()?;
            let place = next.page.offset;
            room = room.saturating_sub(1);
            let again = || Error::corrupt(FrameKind::ChunkPage.name(), place, "it is reached again and again");
            let page = if room == 0 { Err(again()) } else { load(window, &next) };
            match page {
                Ok(ChunkPage::Leaf(places)) => {
                    if last.is_some_and(|last| last >= places[0]) {
                        ledger.add(Finding::new(FrameKind::ChunkPage.name(), place, "not behind the page before"));
                    }
                    last = places.last().copied();
                    let mut unknown = 0u64;
                    for piece in &places {
                        match survey.pieces.position(prints::piece(piece.key, piece.block, piece.piece.into())) {
                            Some(index) => listed[index / 64] |= 1 << (index % 64),
                            None => unknown += 1,
                        }
                    }
                    if unknown > 0 && survey.is_complete {
                        let detail = format!("{unknown} of its pieces do not exist");
                        ledger.add(Finding::new(FrameKind::ChunkPage.name(), place, detail));
                    }
                }
                Ok(ChunkPage::Inner(level, children)) => {
                    let next = |(key, page, pieces)| Next { page, told: Some((key, pieces, level - 1)) };
                    stack.extend(children.into_iter().rev().map(next));
                }
                Err(error) => {
                    ledger.add(Finding::from_error(error, FrameKind::ChunkPage.name(), place)?);
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
        let detail = format!("its chunk runs do not list {} of {count} pieces", count - found);
        ledger.add(Finding::new(FrameKind::Commit.name(), commit, detail));
    }
    Ok(())
}

fn load(window: &Window, next: &Next) -> Result<ChunkPage> {
    let corrupt = |detail: String| Error::corrupt(FrameKind::ChunkPage.name(), next.page.offset, detail);
    let frame = frames::follow(window, FrameKind::ChunkPage, next.page)?;
    let page = ChunkPage::parse(&frame.payload).map_err(corrupt)?;
    let found = match &page {
        ChunkPage::Leaf(places) => (places[0].key, places.len() as u64, 0),
        ChunkPage::Inner(level, children) => (children[0].0, children.iter().map(|child| child.2).sum(), *level),
    };
    if next.told.is_some_and(|told| told != found) {
        return Err(corrupt(format!(
            "first key, pieces and level are {found:x?}, expected {:x?}",
            next.told.unwrap_or_default()
        )));
    }
    Ok(page)
}
