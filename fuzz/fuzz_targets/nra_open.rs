//! Arbitrary bytes: opened, recovered if possible, listed, looked up and read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nra::format::archive::Depth;
use nra_fuzz::{check_text, exercise, open, verify};

fuzz_target!(|data: &[u8]| match open(data.to_vec()) {
    Ok(archive) => {
        exercise(&*archive);
        let _ = verify(&*archive, Depth::Full);
    }
    Err(error) => check_text(&error.to_string()),
});
