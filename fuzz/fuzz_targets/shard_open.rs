//! Shard files: opened, listed, looked up, read in every way, verified.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Archive, Depth, OpenOptions};
use nra::format::shard::ShardBackend;
use nra::format::source::{MemorySource, ReadAt};
use nra_fuzz::{check_text, exercise, verify};

fuzz_target!(|data: &[u8]| {
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(data.to_vec()));
    let mut options = OpenOptions::default();
    options.cache_bytes = 32 << 20;
    options.index_bytes = 64 << 20;
    match ShardBackend::probe(&source, &options) {
        Ok(Some(archive)) => {
            archive.info().remarks.iter().for_each(|remark| check_text(remark));
            exercise(&archive);
            let _ = verify(&archive, Depth::Quick);
            let _ = verify(&archive, Depth::Full);
        }
        Ok(None) => {}
        Err(error) => check_text(&error.to_string()),
    }
});
