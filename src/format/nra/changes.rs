//! Differences between two commits of one archive.
//!
//! Commits share unchanged pages (nra.md, section 9). Shared leaf pages are not read, so the cost
//! depends on the changes and on the number of leaf pages.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;

use crate::content::FrameRef;
use crate::reader::NraReader;
use nra_core::archive::Archive;
use nra_core::entry::Entry;
use nra_core::error::{Error, Result};

/// A difference between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An entry that only the later commit has.
    Added(Entry),
    /// An entry that only the earlier commit has.
    Removed(Entry),
    /// An entry that both commits have: earlier version, later version.
    Changed(Entry, Entry),
}

impl Change {
    /// Returns the later version of the entry, or the earlier one if the entry was removed.
    pub fn entry(&self) -> &Entry {
        let (Self::Added(entry) | Self::Removed(entry) | Self::Changed(_, entry)) = self;
        entry
    }
}

/// Calls `visit` for each difference between two commits of one archive, in path order.
pub(super) fn each_change<E: From<Error>>(
    before: &NraReader,
    after: &NraReader,
    visit: &mut dyn FnMut(Change) -> Result<(), E>,
) -> Result<(), E> {
    let (old, new) = (before.leaf_pages()?, after.leaf_pages()?);
    let shared: HashSet<FrameRef> = new.iter().map(|(page, _)| *page).collect();
    let shared: HashSet<FrameRef> = old.iter().map(|(page, _)| *page).filter(|page| shared.contains(page)).collect();
    let mut old = own_numbers(before, &old, &shared).into_iter().flat_map(|numbers| before.entries(numbers)).peekable();
    let mut new = own_numbers(after, &new, &shared).into_iter().flat_map(|numbers| after.entries(numbers)).peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
            (_, Some(Err(_))) | (None, Some(_)) => Ordering::Greater,
            (Some(Ok(x)), Some(Ok(y))) => x.path.cmp(&y.path),
        };
        let change = match order {
            Ordering::Less => old.next().transpose()?.map(Change::Removed),
            Ordering::Greater => new.next().transpose()?.map(Change::Added),
            Ordering::Equal => old.next().transpose()?.zip(new.next().transpose()?).map(|(x, y)| Change::Changed(x, y)),
        };
        match change {
            Some(Change::Changed(x, y)) if x == y => {}
            Some(change) => visit(change)?,
            None => return Ok(()),
        }
    }
}

/// Returns the numbers of the entries outside the `shared` leaf pages.
fn own_numbers(reader: &NraReader, leaves: &[(FrameRef, Range<u64>)], shared: &HashSet<FrameRef>) -> Vec<Range<u64>> {
    let mut own: Vec<Range<u64>> = Vec::new();
    let mut next = 0;
    for (_, numbers) in leaves.iter().filter(|(page, _)| shared.contains(page)) {
        own.push(next..numbers.start);
        next = numbers.end;
    }
    own.push(next..reader.entry_count());
    own.retain(|numbers| !numbers.is_empty());
    own
}
