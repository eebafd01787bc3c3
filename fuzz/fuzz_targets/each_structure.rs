//! Every structure has one encoding: accepted bytes are encoded as the same bytes. The first byte
//! selects the structure.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nra::fuzzing::{Structure, reencode, seal};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let structure = Structure::ALL[usize::from(*first) % Structure::ALL.len()];
    let mut bytes = rest.to_vec();
    seal(structure, &mut bytes);
    if let Some(again) = reencode(structure, &bytes) {
        assert_eq!(again, bytes, "{structure:?}");
    }
});
