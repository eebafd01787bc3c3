//! A disk in memory that can fail. Unsynced writes may be lost in part and in any order.

use std::io;
use std::sync::{Arc, Mutex};

use nra_core::error::{Error, Result};
use nra_core::source::{MemorySource, ReadAt, Store};

/// A change to the file.
#[derive(Debug, Clone)]
pub enum Step {
    Write(u64, Vec<u8>),
    Truncate(u64),
    Sync,
}

impl Step {
    /// Applies it to `bytes`; of a write only the first `part` bytes.
    pub fn apply(&self, bytes: &mut Vec<u8>, part: usize) {
        match self {
            Self::Write(offset, data) => {
                let data = &data[..data.len().min(part)];
                let start = usize::try_from(*offset).unwrap();
                if bytes.len() < start + data.len() {
                    bytes.resize(start + data.len(), 0);
                }
                bytes[start..start + data.len()].copy_from_slice(data);
            }
            Self::Truncate(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
            Self::Sync => {}
        }
    }
}

/// A file on a disk.
pub struct Disk {
    len: u64,
    bytes: Mutex<Vec<u8>>,
    steps: Mutex<Vec<Step>>,
    /// Number of steps after which everything fails.
    limit: usize,
    /// Length beyond which writes fail.
    full: u64,
    reads: Mutex<(u64, u64)>,
}

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        Self::failing(bytes, usize::MAX)
    }

    /// Returns a disk that fails after some steps.
    pub fn failing(bytes: Vec<u8>, limit: usize) -> Arc<Self> {
        let (len, bytes) = (bytes.len() as u64, Mutex::new(bytes));
        Arc::new(Self { len, bytes, steps: Mutex::default(), limit, full: u64::MAX, reads: Mutex::default() })
    }

    /// Returns a disk without space for more than `full` bytes.
    pub fn with_space(bytes: Vec<u8>, full: u64) -> Arc<Self> {
        let (len, bytes) = (bytes.len() as u64, Mutex::new(bytes));
        Arc::new(Self { len, bytes, steps: Mutex::default(), limit: usize::MAX, full, reads: Mutex::default() })
    }

    /// Returns the disk as a new opening finds it.
    pub fn opened_again(&self) -> Arc<Self> {
        let (bytes, steps) = (self.bytes(), self.steps());
        let (len, bytes, steps) = (bytes.len() as u64, Mutex::new(bytes), Mutex::new(steps));
        Arc::new(Self { len, bytes, steps, limit: self.limit, full: self.full, reads: Mutex::default() })
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }

    /// Returns the number of reads and their bytes.
    pub fn reads(&self) -> (u64, u64) {
        *self.reads.lock().unwrap()
    }

    fn step(&self, step: Step) -> Result<()> {
        let mut steps = self.steps.lock().unwrap();
        if steps.len() >= self.limit {
            return Err(Error::io("write", "the disk", io::Error::other("it failed")));
        }
        if let Step::Write(offset, bytes) = &step
            && offset + bytes.len() as u64 > self.full
        {
            return Err(Error::io("write", "the disk", io::ErrorKind::StorageFull.into()));
        }
        step.apply(&mut self.bytes.lock().unwrap(), usize::MAX);
        steps.push(step);
        Ok(())
    }
}

impl ReadAt for Disk {
    fn len(&self) -> u64 {
        self.len
    }
    fn name(&self) -> &[u8] {
        b"disk"
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut reads = self.reads.lock().unwrap();
        *reads = (reads.0 + 1, reads.1 + buffer.len() as u64);
        let bytes = self.bytes.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let found = bytes.get(start..start + buffer.len());
        buffer.copy_from_slice(found.ok_or_else(|| Error::io("read", "disk", io::ErrorKind::UnexpectedEof.into()))?);
        Ok(())
    }
}

impl Store for Disk {
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.step(Step::Write(offset, bytes.to_vec()))
    }
    fn truncate(&self, len: u64) -> Result<()> {
        self.step(Step::Truncate(len))
    }
    fn sync(&self) -> Result<()> {
        self.step(Step::Sync)
    }
}

/// An empty file that is opened several times for writing.
pub struct NewFile(Mutex<Arc<Disk>>);

impl Default for NewFile {
    fn default() -> Self {
        Self::failing(usize::MAX)
    }
}

impl NewFile {
    /// Returns one on a disk that fails after some steps.
    pub fn failing(limit: usize) -> Self {
        Self(Mutex::new(Disk::failing(Vec::new(), limit)))
    }

    pub fn open(&self) -> Arc<dyn Store> {
        let mut disk = self.0.lock().unwrap();
        *disk = disk.opened_again();
        disk.clone()
    }

    /// Returns the disk with everything that was written.
    pub fn disk(&self) -> Arc<Disk> {
        self.0.lock().unwrap().clone()
    }
}

/// Returns bytes as a source.
pub fn source(bytes: Vec<u8>) -> Arc<dyn ReadAt> {
    Arc::new(MemorySource::new(bytes))
}
