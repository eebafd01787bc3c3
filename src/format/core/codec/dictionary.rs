//! zstd dictionaries, which contain the common parts of small payloads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use zstd_safe::DDict;

/// A zstd dictionary, prepared for decompression and kept for compression.
pub struct Dictionary {
    bytes: Box<[u8]>,
    prepared: DDict<'static>,
    identity: u64,
}

/// Identity of the next dictionary of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Dictionary {
    /// Prepares a dictionary.
    ///
    /// # Errors
    ///
    /// A detail to which the caller adds structure and offset, if `bytes` are not a zstd
    /// dictionary.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, String> {
        let bytes = bytes.into();
        // Without the magic number, the library would accept any bytes as a raw dictionary.
        if !bytes.starts_with(&zstd_safe::MAGIC_DICTIONARY.to_le_bytes()) {
            return Err("not in the zstd dictionary format".into());
        }
        let prepared = DDict::try_create(&bytes).ok_or("its tables are not valid")?;
        Ok(Self { bytes, prepared, identity: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// Trains a dictionary of at most `max_len` bytes. Returns `None` if there are too few samples,
    /// or they are too short or too different.
    pub fn train<S: AsRef<[u8]>>(samples: &[S], max_len: usize) -> Option<Self> {
        let sizes: Vec<usize> = samples.iter().map(|sample| sample.as_ref().len()).collect();
        let mut joined = Vec::with_capacity(sizes.iter().sum());
        samples.iter().for_each(|sample| joined.extend_from_slice(sample.as_ref()));
        let mut bytes = Vec::with_capacity(max_len);
        zstd_safe::train_from_buffer(&mut bytes, &joined, &sizes).ok()?;
        // A vector may have a larger capacity than requested.
        if bytes.len() > max_len { None } else { Self::new(bytes).ok() }
    }

    /// Returns the bytes as stored in the file.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn prepared(&self) -> &DDict<'static> {
        &self.prepared
    }

    pub(super) fn identity(&self) -> u64 {
        self.identity
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, Compressor, Method, decompress};

    fn sample(i: u32, word: &str) -> Vec<u8> {
        format!(
            "{{\"{word}\": {}, \"label\": \"{word}-{}\", \"score\": 0.{i}, \"source\": \"camera {}\"}}",
            i * 31,
            i % 17,
            i % 5
        )
        .into_bytes()
    }

    fn train(word: &str) -> Dictionary {
        let samples: Vec<_> = (0..2_000).map(|i| sample(i, word)).collect();
        Dictionary::train(&samples, 8 << 10).expect("enough samples")
    }

    #[test]
    fn dictionary_improves_compression_and_is_required() {
        let (images, sounds) = (train("image"), train("sound"));
        assert!(images.as_bytes().len() <= 8 << 10);
        let again = Dictionary::new(images.as_bytes()).unwrap();
        let mut compressor = Compressor::new(Method::zstd(3)).unwrap();
        let (raw, mut with, mut without) = (sample(77, "image"), Vec::new(), Vec::new());
        compressor.compress(&raw, None, &mut without).unwrap();
        for dictionary in [&sounds, &images] {
            assert_eq!(compressor.compress(&raw, Some(dictionary), &mut with).unwrap(), Codec::Zstd);
        }
        assert!(with.len() < without.len());
        assert_eq!(decompress(Codec::Zstd, &with, raw.len(), Some(&again)), Ok(raw.clone()));
        assert_ne!(decompress(Codec::Zstd, &with, raw.len(), Some(&sounds)).as_ref(), Ok(&raw));
        assert!(decompress(Codec::Zstd, &with, raw.len(), None).is_err());
        assert!(decompress(Codec::None, &raw, raw.len(), Some(&images)).is_err());
    }

    #[test]
    fn invalid_dictionaries_are_rejected() {
        assert!(Dictionary::new(&b"some text"[..]).is_err());
        let mut bytes = train("image").as_bytes().to_vec();
        bytes.truncate(20);
        assert!(Dictionary::new(bytes).is_err());
        assert!(Dictionary::train(&[b"one"], 8 << 10).is_none());
    }
}
