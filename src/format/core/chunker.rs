//! Content-defined chunks: equal runs of bytes in large files yield equal chunks.
//!
//! FastCDC with fixed parameters. The chunk boundaries are not part of the format, but deduplication against an archive requires
//! the same ones: a test ensures that they never change.

use fastcdc::v2020::FastCDC;

/// Maximum length of a file that is a single chunk, bytes.
pub const MAX_SINGLE_CHUNK_LEN: usize = 128 << 10;
/// Minimum length of a chunk, bytes. The last one of a file may be shorter.
const MIN_CHUNK_LEN: usize = 16 << 10;
/// Average length of a chunk, bytes.
const AVERAGE_CHUNK_LEN: usize = 64 << 10;
/// Maximum length of a chunk, bytes.
pub const MAX_CHUNK_LEN: usize = 256 << 10;

/// Returns the length of the first chunk of `bytes`, which must not be empty; `None` if its end depends on further bytes.
///
/// `last`: the file ends with `bytes`. Otherwise, [`MAX_CHUNK_LEN`] bytes are always enough.
pub fn next_chunk_len(bytes: &[u8], last: bool) -> Option<usize> {
    if bytes.len() < MAX_CHUNK_LEN && !last {
        return None;
    }
    let window = &bytes[..bytes.len().min(MAX_CHUNK_LEN)];
    let (_, end) = FastCDC::new(window, MIN_CHUNK_LEN, AVERAGE_CHUNK_LEN, MAX_CHUNK_LEN).cut(0, window.len());
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noise;

    fn cuts(mut bytes: &[u8]) -> Vec<usize> {
        let mut cuts = Vec::new();
        while !bytes.is_empty() {
            let len = next_chunk_len(bytes, true).expect("the file ends here");
            cuts.push(len);
            bytes = &bytes[len..];
        }
        cuts
    }

    #[test]
    fn chunk_boundaries_never_change() {
        assert_eq!(cuts(&noise(600_000, 1)), [76_660, 159_933, 188_476, 66_903, 40_565, 67_463]);
    }

    #[test]
    fn chunks_of_a_window_equal_those_of_the_whole() {
        let content = noise(900_000, 1);
        let (mut windowed, mut at) = (Vec::new(), 0);
        while at < content.len() {
            let end = content.len().min(at + MAX_CHUNK_LEN);
            let len = next_chunk_len(&content[at..end], end == content.len()).expect("a full window");
            windowed.push(len);
            at += len;
        }
        assert_eq!(windowed, cuts(&content));
        assert_eq!(next_chunk_len(&content[..MAX_CHUNK_LEN - 1], false), None);
    }

    #[test]
    fn insertion_changes_few_chunks() {
        let content = noise(2_000_000, 1);
        let changed = [&content[..700_000], b"inserted", &content[700_000..]].concat();
        let ends = |cuts: Vec<usize>, shift: usize| -> Vec<usize> {
            cuts.iter()
                .scan(0, |end, len| Some(std::mem::replace(end, *end + len)))
                .map(|end| if end > 700_000 { end - shift } else { end })
                .collect()
        };
        let (before, after) = (ends(cuts(&content), 0), ends(cuts(&changed), 8));
        assert!(before.iter().filter(|end| !after.contains(end)).count() <= 3);
    }
}
