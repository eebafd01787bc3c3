//! Decompression returns exactly the declared number of bytes or fails. Arbitrary dictionaries do
//! no harm.
#![no_main]

use std::cell::RefCell;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nra::format::codec::{Codec, Compressor, Dictionary, Method, decompress};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    codec: u8,
    raw_len: u32,
    dictionary: Option<Vec<u8>>,
    stored: &'a [u8],
}

/// Limit of a page. Longer payloads only take more time.
const MAX_RAW: usize = 1 << 20;

thread_local! {
    static COMPRESSORS: RefCell<Vec<Compressor>> =
        RefCell::new([Method::zstd(1), Method::LZ4].into_iter().filter_map(|method| Compressor::new(method).ok()).collect());
}

fuzz_target!(|input: Input<'_>| {
    let codec = Codec::ALL[usize::from(input.codec) % Codec::ALL.len()];
    let raw_len = input.raw_len as usize % MAX_RAW;
    let dictionary = input.dictionary.and_then(|bytes| Dictionary::new(bytes).ok());
    for dictionary in [None, dictionary.as_ref()] {
        if let Ok(raw) = decompress(codec, input.stored, raw_len, dictionary) {
            assert_eq!(raw.len(), raw_len);
            assert_eq!(raw.capacity(), raw_len, "room that was not asked for");
        }
    }
    COMPRESSORS.with_borrow_mut(|compressors| {
        let mut stored = Vec::new();
        for compressor in compressors {
            for dictionary in [None, dictionary.as_ref()] {
                let codec = compressor.compress(input.stored, dictionary, &mut stored).expect("there is memory");
                let dictionary = dictionary.filter(|_| codec == Codec::Zstd);
                assert_eq!(decompress(codec, &stored, input.stored.len(), dictionary).as_deref(), Ok(input.stored));
            }
        }
    });
});
