//! 7z archives: a whole file, or content and a header that are combined into one. Checksums of the
//! start and the header are corrected, so that the following structures are reached.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Archive, Depth};
use nra::format::sevenz::SevenzBackend;
use nra::format::source::{MemorySource, ReadAt};
use nra_fuzz::{check_text, exercise, limited_options, verify};

const SIGNATURE: &[u8] = b"7z\xbc\xaf\x27\x1c\0\x04";
/// Most content that is decoded, bytes.
const MOST: u64 = 16 << 20;

fn file(data: &[u8]) -> Vec<u8> {
    if data.starts_with(SIGNATURE) && data.len() > 32 {
        let mut bytes = data.to_vec();
        let number = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("8 bytes"));
        let start = usize::try_from(number(12)).ok().and_then(|offset| offset.checked_add(32));
        let end = start.zip(usize::try_from(number(20)).ok()).and_then(|(start, len)| start.checked_add(len));
        if let Some(header) = start.zip(end).and_then(|(start, end)| data.get(start..end)) {
            bytes[28..32].copy_from_slice(&crc32fast::hash(header).to_le_bytes());
        }
        let check = crc32fast::hash(&bytes[12..32]);
        bytes[8..12].copy_from_slice(&check.to_le_bytes());
        return bytes;
    }
    let Some((&len, rest)) = data.split_first() else { return Vec::new() };
    let (content, header) = rest.split_at(usize::from(len).min(rest.len()));
    let mut numbers = (content.len() as u64).to_le_bytes().to_vec();
    numbers.extend((header.len() as u64).to_le_bytes());
    numbers.extend(crc32fast::hash(header).to_le_bytes());
    [SIGNATURE, &crc32fast::hash(&numbers).to_le_bytes(), &numbers, content, header].concat()
}

fuzz_target!(|data: &[u8]| {
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(file(data)));
    match SevenzBackend::probe(&source, &limited_options()) {
        Ok(Some(archive)) => {
            archive.info().remarks.iter().for_each(|remark| check_text(remark));
            // Decoding a huge folder takes time, which is not a finding.
            let decoded = archive.members().decoded_bytes();
            if decoded <= MOST {
                exercise(&archive);
                let _ = verify(&archive, Depth::Full);
            }
            let _ = verify(&archive, Depth::Quick);
        }
        Ok(None) => {}
        Err(error) => check_text(&error.to_string()),
    }
});
