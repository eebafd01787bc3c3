//! A changed archive with recovery data: restored bytes equal the original.
//!
//! A change takes seven bytes: offset (four), value, length and operation. Some changes forge
//! fields of the recovery header with a valid checksum, as a malicious writer would. These must
//! merely do no harm.
#![no_main]

use std::sync::{Mutex, OnceLock};

use libfuzzer_sys::fuzz_target;
use nra::format::checksum::checksum;
use nra::format::nra::recovery::{check, find_at_end, protect, restore};
use nra::format::progress::Recorder;
use nra::format::source::{MemorySource, ReadAt, Store};
use nra::format::{Error, Result};

const TINY: &[u8] = include_bytes!("../seeds/tiny.nra");

/// Memory that recovery data may take, bytes.
const MEMORY: u64 = 256 << 20;

/// A file in memory.
struct Memory(u64, Mutex<Vec<u8>>);

impl Memory {
    fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.len() as u64, Mutex::new(bytes))
    }
    fn bytes(self) -> Vec<u8> {
        self.1.into_inner().expect("nobody panicked")
    }
}

impl ReadAt for Memory {
    fn len(&self) -> u64 {
        self.0
    }
    fn name(&self) -> &[u8] {
        b"memory"
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = self.1.lock().expect("nobody panicked");
        let start = usize::try_from(offset).expect("it fits");
        let found = bytes.get(start..start + buffer.len());
        buffer.copy_from_slice(found.ok_or_else(|| Error::io("read", "memory", std::io::ErrorKind::UnexpectedEof.into()))?);
        Ok(())
    }
}

impl Store for Memory {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut bytes = self.1.lock().expect("nobody panicked");
        let start = usize::try_from(offset).expect("it fits");
        let len = bytes.len().max(start + data.len());
        bytes.resize(len, 0);
        bytes[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn truncate(&self, len: u64) -> Result<()> {
        self.1.lock().expect("nobody panicked").resize(usize::try_from(len).expect("it fits"), 0);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

fn protected() -> &'static [u8] {
    static PROTECTED: OnceLock<Vec<u8>> = OnceLock::new();
    PROTECTED.get_or_init(|| {
        let store = Memory::new(TINY.to_vec());
        protect(&store, 40, MEMORY, &Recorder::default()).expect("an undamaged archive");
        store.bytes()
    })
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = protected().to_vec();
    let mut forged = false;
    for change in data.chunks_exact(7) {
        let at = u32::from_le_bytes(change[..4].try_into().expect("four bytes")) as usize % bytes.len();
        let run = at..(at + 1 + usize::from(change[5]) * 8).min(bytes.len());
        match change[6] % 5 {
            0 => bytes[at] ^= change[4],
            1 => bytes[run].fill(change[4]),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.extend(std::iter::repeat_n(change[4], usize::from(change[5]))),
            _ => {
                // The recovery header before the last footer.
                let Some(place) = bytes.len().checked_sub(128) else { continue };
                bytes[place + usize::from(change[5]) % 56] = change[4];
                let sum = checksum(&bytes[place..place + 56], place as u64).to_le_bytes();
                bytes[place + 56..place + 64].copy_from_slice(&sum);
                forged = true;
            }
        }
    }
    let source = MemorySource::new(bytes);
    let _ = find_at_end(&source);
    let Ok(Some(report)) = check(&source, &Recorder::default()) else { return };
    let out = Memory::new(Vec::new());
    let done = restore(&source, &report, &out, MEMORY, &Recorder::default());
    assert!(forged || done.is_ok() == report.is_restorable(), "what is told is what happens");
    if done.is_ok() {
        let again = out.bytes();
        assert!(forged || again == protected(), "it is what was there");
        let report = check(&MemorySource::new(again), &Recorder::default()).expect("memory reads").expect("it has recovery data");
        assert!(report.is_whole());
    }
});
