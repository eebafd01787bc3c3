//! A large file that several threads write at once.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::extraction::Extraction;
use super::fault::Fault;
use super::files::{self, Draft, Memory};
use super::selected::SelectedEntry;
use super::tree::Tree;
use nra_format::error::Result;

/// Bytes of one file that a thread writes at a time, unless that makes too many parts.
pub(super) const PART: u64 = 16 << 20;
/// Maximum number of parts of a file: a file with a huge hole must not need a huge list.
const MAX_PARTS: u64 = 1 << 12;

/// State of a large file.
pub(super) struct Large {
    state: Mutex<State>,
    /// Number of parts that are not written yet.
    left: AtomicU64,
}

enum State {
    Waiting,
    Open(Arc<Draft>),
    /// Finished, or abandoned and reported.
    Done,
}

impl Large {
    /// Returns the state of a file before anything is written.
    pub(super) fn new(size: u64) -> Self {
        Self { state: Mutex::new(State::Waiting), left: AtomicU64::new(size.div_ceil(part(size))) }
    }

    /// Returns the parts of a file of `size` bytes.
    pub(super) fn parts(size: u64) -> impl Iterator<Item = Range<u64>> {
        let part = part(size);
        (0..size.div_ceil(part)).map(move |number| number * part..size.min((number + 1).saturating_mul(part)))
    }

    /// Writes a part. The first caller creates the file, the last one finishes it.
    pub(super) fn write(
        &self,
        run: &Extraction<'_>,
        tree: &Tree,
        memory: &mut Memory,
        (item, parent): &(SelectedEntry, u32),
        part: Range<u64>,
    ) -> Result<()> {
        let written = match self.draft(|| files::open(run, tree, memory, item, *parent)) {
            Ok(Some(draft)) => files::write_range(run, item, &draft.file, part),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = written
            && self.skip_file()
        {
            run.failed(item, fault)?;
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let State::Open(draft) = self.end()
        {
            match files::finish(run, tree, item, &draft) {
                Ok(action) => files::report(run, tree, item, &draft, action),
                Err(fault) => {
                    draft.abandon();
                    run.failed(item, fault)?;
                }
            }
        }
        Ok(())
    }

    /// Removes the file if it is not finished.
    pub(super) fn abandon(&self) {
        if let State::Open(draft) = self.end() {
            draft.abandon();
        }
    }

    /// Returns the file, which the first call creates with `open`; `None` if it was abandoned.
    fn draft(&self, open: impl FnOnce() -> Result<Draft, Fault>) -> Result<Option<Arc<Draft>>, Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(draft) => Ok(Some(Arc::clone(draft))),
            State::Done => Ok(None),
            State::Waiting => {
                let draft = Arc::new(open()?);
                *state = State::Open(Arc::clone(&draft));
                Ok(Some(draft))
            }
        }
    }

    /// Removes the file. Returns `false` if another thread did.
    fn skip_file(&self) -> bool {
        match self.end() {
            State::Open(draft) => {
                draft.abandon();
                true
            }
            State::Waiting => true,
            State::Done => false,
        }
    }

    fn end(&self) -> State {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Done)
    }
}

/// Returns the length of the parts of a file of `size` bytes.
fn part(size: u64) -> u64 {
    PART.max(size.div_ceil(MAX_PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_file() {
        for size in [1, PART - 1, PART, PART + 1, 5 * PART + 7, 1 << 62, u64::MAX] {
            let parts: Vec<_> = Large::parts(size).collect();
            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, size));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(Large::new(size).left.into_inner(), parts.len() as u64);
        }
    }
}
