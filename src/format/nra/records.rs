//! Record lists: entries in columns.
//!
//! Spec: nra.md, section 8.

use crate::format::entry::Entry;
use crate::format::wire::{Cursor, Malformed};

/// Appends the record list of `entries` (1 to 65,536, in the order given) to `out`. Offsets of blocks are delta coded from 0.
pub(crate) fn encode<'a>(_entries: impl ExactSizeIterator<Item = &'a Entry> + Clone, _out: &mut Vec<u8>) {
    todo!()
}

/// Parses a record list up to the end of `cursor`. `own_block`: offset of the block whose directory this is; only there a check may be 0.
pub(crate) fn parse(_cursor: Cursor<'_>, _own_block: Option<u64>) -> Result<Vec<Entry>, Malformed> {
    todo!()
}
