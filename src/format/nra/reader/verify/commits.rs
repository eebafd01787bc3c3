//! Checks of superblock, commit slots, footer and the chain of commits.

use crate::commit::{Commit, parse_attributes};
use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::FrameKind;
use crate::reader::frames;
use crate::reader::history::Chain;
use crate::reader::verify::damage_list::{DamageList, Finding};
use crate::reader::window::Window;
use crate::superblock::CommitSlot;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;

/// Checks superblock and commit slots against the last footer, if there is one.
pub(super) fn superblock(window: &Window, footer: Option<&Footer>, damage: &mut DamageList) -> Result<()> {
    let parsed = window.superblock();
    let (superblock, damaged) = match parsed {
        Ok(parsed) => parsed,
        Err(Error::Unsupported { found, .. }) => {
            damage.report("superblock", 0, format!("its version is {found}"));
            return Ok(());
        }
        Err(error) => {
            damage.report_error(error, "superblock", 0)?;
            return Ok(());
        }
    };
    if footer.is_some_and(|footer| footer.required != superblock.required) {
        damage.report("superblock", 0, "its required features differ from those of the footer");
    }
    for slot in damaged {
        damage.report("commit slot", CommitSlot::offset(slot), "neither empty nor valid");
    }
    for (index, slot) in superblock.slots.iter().enumerate() {
        let Some(slot) = slot else { continue };
        let detail = match window.footer_before(slot.end) {
            Ok(footer) if footer.number == slot.number => continue,
            Ok(footer) => {
                format!("it says that commit {} ends at offset {}, but commit {} does", slot.number, slot.end, footer.number)
            }
            Err(error) => {
                let why = Finding::from_error(error, "footer", slot.end - FOOTER_LEN as u64)?.detail;
                format!("it says that commit {} ends at offset {}, but there is no footer: {why}", slot.number, slot.end)
            }
        };
        damage.report("commit slot", CommitSlot::offset(index), detail);
    }
    Ok(())
}

/// Returns the footer that ends at `end`. Reports a damaged one.
pub(super) fn footer(window: &Window, end: u64, damage: &mut DamageList) -> Result<Option<Footer>> {
    match window.footer_before(end) {
        Ok(footer) => Ok(Some(footer)),
        Err(error) => {
            let finding = Finding::from_error(error, "footer", end.saturating_sub(FOOTER_LEN as u64))?;
            damage.add(Finding { structure: "footer", ..finding });
            Ok(None)
        }
    }
}

/// Checks the archive attributes and the commits before `commit`, whose bytes end at `end`.
pub(super) fn commits(window: &Window, commit: &Commit, end: u64, damage: &mut DamageList, monitor: &dyn Monitor) -> Result<()> {
    if let Some(attributes) = commit.attributes
        && let Err(error) = frames::parse(window, FrameKind::Attributes, attributes, parse_attributes)
    {
        damage.report_error(error, FrameKind::Attributes.name(), attributes.offset)?;
    }
    let mut before = commit.previous;
    for place in Chain::new(window, commit, end) {
        monitor.check()?;
        match place {
            Ok(place) => before = place.commit.previous,
            Err(error) => {
                let offset = before.map_or(end, |before| before.offset);
                damage.report_error(error, FrameKind::Commit.name(), offset)?;
            }
        }
    }
    Ok(())
}
