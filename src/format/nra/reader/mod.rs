//! Reading NRA 5.
//!
//! Spec: nra.md, sections 15, 16, 22 and 23.

use std::ops::Range;
use std::sync::Arc;

use crate::format::archive::{Access, Archive, Depth, Info, OpenOptions, Part, Totals, Verdict};
use crate::format::digest::Digest;
use crate::format::entry::Entry;
use crate::format::error::Result;
use crate::format::progress::Monitor;
use crate::format::source::ReadAt;

/// An opened NRA 5 archive.
pub struct NraReader {}

impl NraReader {
    /// Opens `source`, which must be an NRA 5 archive.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Unsupported`.
    pub fn open(_source: Arc<dyn ReadAt>, _options: &OpenOptions) -> Result<Self> {
        todo!()
    }

    /// Opens `source` if it looks like an NRA 5 archive.
    pub(crate) fn probe(_source: Arc<dyn ReadAt>, _options: &OpenOptions) -> Result<Option<Self>> {
        todo!()
    }
}

impl Archive for NraReader {
    fn info(&self) -> &Info {
        todo!()
    }
    fn entry(&self, _number: u64) -> Result<Entry> {
        todo!()
    }
    fn find(&self, _path: &[u8]) -> Result<Option<(u64, Entry)>> {
        todo!()
    }
    fn subtree(&self, _directory: Option<&[u8]>) -> Result<Range<u64>> {
        todo!()
    }
    fn totals(&self, _range: Range<u64>) -> Result<Totals> {
        todo!()
    }
    fn entries(&self, _range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        todo!()
    }
    fn children(&self, _directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        todo!()
    }
    fn read_at(&self, _entry: &Entry, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
        todo!()
    }
    fn with_content(&self, _entry: &Entry, _access: Access, _sink: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        todo!()
    }
    fn digest(&self, _entry: &Entry) -> Result<Option<Digest>> {
        todo!()
    }
    fn verify(
        &self,
        _depth: Depth,
        _select: Option<&(dyn Fn(&Entry) -> bool + Sync)>,
        _monitor: &dyn Monitor,
    ) -> Result<Verdict> {
        todo!()
    }
}
