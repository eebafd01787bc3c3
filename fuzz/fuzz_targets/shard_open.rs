//! Shard files: opened, listed, looked up, read in every way, verified.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nra::format::shard::ShardBackend;
use nra::format::source::{MemorySource, ReadAt};
use nra_fuzz::{check_archive, check_text, limited_options};

fuzz_target!(|data: &[u8]| {
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(data.to_vec()));
    match ShardBackend::probe(&source, &limited_options()) {
        Ok(Some(archive)) => check_archive(&archive),
        Ok(None) => {}
        Err(error) => check_text(&error.to_string()),
    }
});
