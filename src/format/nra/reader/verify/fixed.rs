//! Head, slots, tail, and the chain of commits.

use crate::commit::{Commit, parse_attributes};
use crate::frame::FrameKind;
use crate::head::{Head, Slot, TAIL_LEN, Tail};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::frames;
use crate::reader::history::Chain;
use crate::reader::verify::ledger::{Finding, Ledger};
use crate::reader::window::Window;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;

/// Checks head and slots. `tail`: the last one, if there is one.
pub(super) fn head(window: &Window, tail: Option<&Tail>, ledger: &mut Ledger) -> Result<()> {
    let parsed = window.array::<SUPERBLOCK_LEN>("head", 0).and_then(|bytes| Head::parse(&bytes));
    let (head, damaged) = match parsed {
        Ok(parsed) => parsed,
        Err(Error::Unsupported { found, .. }) => {
            ledger.add(Finding::new("head", 0, format!("its version is {found}")));
            return Ok(());
        }
        Err(error) => {
            ledger.add(Finding::from_error(error, "head", 0)?);
            return Ok(());
        }
    };
    if tail.is_some_and(|tail| tail.required != head.required) {
        ledger.add(Finding::new("head", 0, "its required features are not those of the tail"));
    }
    for slot in damaged {
        ledger.add(Finding::new("slot", Slot::place(slot), "neither empty nor valid"));
    }
    for (index, slot) in head.slots.iter().enumerate() {
        let Some(slot) = slot else { continue };
        let place = slot.end - TAIL_LEN as u64;
        let tail = window.array("tail", place).and_then(|bytes| Tail::parse(&bytes, place));
        let detail = match tail {
            Ok(tail) if tail.number == slot.number => continue,
            Ok(tail) => format!("it says that commit {} ends at {}, commit {} does", slot.number, slot.end, tail.number),
            Err(error) => {
                let why = Finding::from_error(error, "tail", place)?.detail;
                format!("it says that commit {} ends at {}, where no tail is: {why}", slot.number, slot.end)
            }
        };
        ledger.add(Finding::new("slot", Slot::place(index), detail));
    }
    Ok(())
}

/// Returns the tail that ends at `end`; reports when there is none.
pub(super) fn tail(window: &Window, end: u64, ledger: &mut Ledger) -> Result<Option<Tail>> {
    let place = end.saturating_sub(TAIL_LEN as u64);
    match window.array("tail", place).and_then(|bytes| Tail::parse(&bytes, place)) {
        Ok(tail) => Ok(Some(tail)),
        Err(error) => {
            let finding = Finding::from_error(error, "tail", place)?;
            ledger.add(Finding { structure: "tail", ..finding });
            Ok(None)
        }
    }
}

/// Checks attributes of the archive and the commits before `commit`, whose bytes end at `end`.
pub(super) fn commits(window: &Window, commit: &Commit, end: u64, ledger: &mut Ledger, monitor: &dyn Monitor) -> Result<()> {
    if let Some(attributes) = commit.attributes {
        let parsed = frames::follow(window, FrameKind::Attributes, attributes).and_then(|frame| {
            let corrupt = |detail| Error::corrupt(FrameKind::Attributes.name(), attributes.offset, detail);
            parse_attributes(&frame.payload).map(drop).map_err(corrupt)
        });
        if let Err(error) = parsed {
            ledger.add(Finding::from_error(error, FrameKind::Attributes.name(), attributes.offset)?);
        }
    }
    let mut before = commit.previous;
    for place in Chain::new(window, commit, end) {
        monitor.check()?;
        match place {
            Ok(place) => before = place.commit.previous,
            Err(error) => {
                let offset = before.map_or(end, |before| before.offset);
                ledger.add(Finding::from_error(error, FrameKind::Commit.name(), offset)?);
            }
        }
    }
    Ok(())
}
