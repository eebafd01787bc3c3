//! Shows progress while an archive file is opened, and lets an interrupt end it.
//!
//! Most archives are opened with a few reads. Compressed tar archives are decoded completely to
//! build an index, and deriving keys from passwords takes time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::progress::Progress;
use nra_format::Result;
use nra_format::progress::{Counter, Monitor};
use nra_format::source::{FileSource, ReadAt};

/// A file read sequentially from its start for this many bytes is assumed to be read completely.
const SEQUENTIAL_BYTES: u64 = 4 << 20;

/// A file that reports reads until the progress is dropped.
pub struct WatchedFile {
    source: FileSource,
    watcher: Weak<Progress>,
    /// End of the sequential read from the start.
    sequential_end: AtomicU64,
    /// The highest value of `sequential_end`.
    counted: AtomicU64,
    /// The length was reported.
    is_length_reported: AtomicBool,
}

impl WatchedFile {
    /// Wraps a file. Reads are reported to `watcher` until it is dropped.
    pub fn new(source: FileSource, watcher: &Arc<Progress>) -> Self {
        Self {
            source,
            watcher: Arc::downgrade(watcher),
            sequential_end: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            is_length_reported: AtomicBool::new(false),
        }
    }
}

impl ReadAt for WatchedFile {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn name(&self) -> &[u8] {
        self.source.name()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let Some(watcher) = self.watcher.upgrade() else { return self.source.read_exact_at(offset, buffer) };
        watcher.check()?;
        self.source.read_exact_at(offset, buffer)?;
        let len = buffer.len() as u64;
        // The start is read repeatedly: only the last pass counts.
        let before = if offset == 0 { 0 } else { self.sequential_end.load(Ordering::Relaxed) };
        if before == offset {
            let end = offset + len;
            self.sequential_end.store(end, Ordering::Relaxed);
            if offset < SEQUENTIAL_BYTES && end >= SEQUENTIAL_BYTES && !self.is_length_reported.swap(true, Ordering::Relaxed) {
                watcher.expect(Counter::Input, self.source.len());
            }
            let counted = self.counted.fetch_max(end, Ordering::Relaxed);
            watcher.add(Counter::Input, end.saturating_sub(counted));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::ui::{Form, Ui};
    use nra_format::Error;

    #[test]
    fn reads_are_reported_until_progress_is_dropped() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; 6 << 20]).unwrap();
        let (ui, _, _) = Ui::for_test(Form::Text);
        let progress = Arc::new(ui.progress("opening"));
        let watched = WatchedFile::new(FileSource::open(file.path()).unwrap(), &progress);
        let mut buffer = vec![0; 1 << 20];
        for part in 0..6 {
            watched.read_exact_at(part << 20, &mut buffer).unwrap();
        }
        assert_eq!(progress.counted(Counter::Input), (6 << 20, 6 << 20));
        watched.read_exact_at(0, &mut buffer[..1]).unwrap();
        watched.read_exact_at(5 << 20, &mut buffer).unwrap();
        assert_eq!(progress.counted(Counter::Input), (6 << 20, 6 << 20));
        assert!(matches!(watched.read_exact_at(6 << 20, &mut buffer), Err(Error::Io { .. })));
        drop(progress);
        watched.read_exact_at(0, &mut buffer).unwrap();
        assert_eq!((watched.len(), buffer[0]), (6 << 20, 7));
    }
}
