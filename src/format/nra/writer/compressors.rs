//! Compression contexts.

use crate::block_index;
use nra_core::codec::{Compressor, Method, StreamCompressor};
use nra_core::error::Result;

/// Compression contexts that a thread reuses.
#[derive(Default)]
pub(super) struct Compressors {
    blocks: Option<Compressor>,
    stream: Option<StreamCompressor>,
    pages: Option<Compressor>,
    records: Option<Compressor>,
}

/// Level for pages. They are few, and read more often than written.
const PAGE_LEVEL: i32 = 6;

impl Compressors {
    /// Returns the context for blocks that are compressed at once. `method` is always the same.
    pub fn blocks(&mut self, method: Method) -> Result<&mut Compressor> {
        get(&mut self.blocks, || Compressor::new(method))
    }

    /// Returns the context for blocks that are compressed chunk by chunk. `level` is always the
    /// same.
    pub fn stream(&mut self, level: i32) -> Result<&mut StreamCompressor> {
        get(&mut self.stream, || StreamCompressor::new(level))
    }

    /// Returns the context for block indexes.
    pub fn records(&mut self) -> Result<&mut Compressor> {
        get(&mut self.records, || Compressor::new(block_index::METHOD))
    }

    /// Returns the context for pages.
    pub fn pages(&mut self) -> Result<&mut Compressor> {
        get(&mut self.pages, || Compressor::new(Method::zstd(PAGE_LEVEL)))
    }
}

fn get<T>(slot: &mut Option<T>, make: impl FnOnce() -> Result<T>) -> Result<&mut T> {
    if slot.is_none() {
        *slot = Some(make()?);
    }
    Ok(slot.as_mut().expect("made above"))
}
