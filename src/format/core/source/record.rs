//! A source that records reads.

use std::sync::Mutex;

use crate::error::Result;
use crate::source::ReadAt;

/// Wraps a source and records each read, so that tests count I/O instead of measuring time.
#[derive(Debug)]
pub struct RecordingSource<S> {
    inner: S,
    reads: Mutex<Vec<(u64, u64)>>,
}

impl<S: ReadAt> RecordingSource<S> {
    /// Wraps `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner, reads: Mutex::default() }
    }

    /// Returns the reads so far as (offset, length) and clears them.
    pub fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *self.reads.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl<S: ReadAt> ReadAt for RecordingSource<S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn name(&self) -> &[u8] {
        self.inner.name()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.reads.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((offset, buffer.len() as u64));
        self.inner.read_exact_at(offset, buffer)
    }
}
