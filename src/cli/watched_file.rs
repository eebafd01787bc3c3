//! An archive file while it is opened: how much of it was read is shown, and an interrupt ends it.
//!
//! Most archives open with a few reads. Compressed tar archives are decoded once for their index, and keys made of passwords take their time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::progress::Progress;
use nra_format::Result;
use nra_format::progress::{Counter, Monitor};
use nra_format::source::{FileSource, ReadAt};

/// What was read from its start without a gap for this long, bytes, is read to its end.
const IN_ORDER: u64 = 4 << 20;

/// A file that tells of reads as long as somebody watches.
pub struct WatchedFile {
    source: FileSource,
    watcher: Weak<Progress>,
    /// End of what was read in order from the start.
    in_order: AtomicU64,
    /// The most that this ever was.
    counted: AtomicU64,
    /// It was told how much there is.
    is_told: AtomicBool,
}

impl WatchedFile {
    /// Wraps a file; `watcher` is told of what is read until it is dropped.
    pub fn new(source: FileSource, watcher: &Arc<Progress>) -> Self {
        Self {
            source,
            watcher: Arc::downgrade(watcher),
            in_order: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
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
        // Looks at the front come again and again: only the last pass from there counts.
        let before = if offset == 0 { 0 } else { self.in_order.load(Ordering::Relaxed) };
        if before == offset {
            let end = offset + len;
            self.in_order.store(end, Ordering::Relaxed);
            if offset < IN_ORDER && end >= IN_ORDER && !self.is_told.swap(true, Ordering::Relaxed) {
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
    fn reads_are_told_until_nobody_watches() {
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
