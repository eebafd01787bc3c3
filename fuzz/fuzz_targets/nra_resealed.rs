//! Archives changed below their checksums, as by a malicious writer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nra::format::archive::Depth;
use nra::fuzzing::Operation;
use nra_fuzz::{Change, bases, check_text, exercise, open, verify};

fuzz_target!(|input: (u8, Vec<Change>)| {
    let (base, changes) = input;
    let base = &bases()[usize::from(base) % bases().len()];
    let operations: Vec<Operation> = changes.into_iter().map(Operation::from).collect();
    match open(base.dissection.rebuild(&operations)) {
        Ok(archive) => {
            exercise(&*archive);
            let _ = verify(&*archive, Depth::Full);
        }
        Err(error) => check_text(&error.to_string()),
    }
});
