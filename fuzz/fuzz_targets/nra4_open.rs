//! Archives of earlier versions: a whole file, or a manifest that is placed after a block of
//! `hello\n`.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nra::format::nra4;
use nra::format::source::{MemorySource, ReadAt};
use nra_fuzz::{check_archive, check_text, limited_options};

/// A block of `hello\n` at offset 32.
const BLOCK: [u8; 16] = *b"\x01\x28\xb5\x2f\xfd\x00\x58\x31\x00\x00hello\n";

fn file(data: &[u8]) -> Vec<u8> {
    if data.starts_with(b"NRA\0") {
        return data.to_vec();
    }
    let mut bytes = b"NRA\0\x02\0\0\0".to_vec();
    for number in [48, data.len() as u64, 32] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&BLOCK);
    bytes.extend_from_slice(data);
    bytes
}

fuzz_target!(|data: &[u8]| {
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(file(data)));
    match nra4::open(&source, &limited_options()) {
        Ok(archive) => check_archive(&archive),
        Err(error) => check_text(&error.to_string()),
    }
});
