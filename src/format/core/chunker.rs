//! Cuts large files where their content says so, so that equal runs of bytes give equal pieces.
//!
//! FastCDC with fixed parameters. Where the cuts lie is not part of the format, but deduplication against an archive works only
//! with the same ones: a test holds them fast.

use fastcdc::v2020::FastCDC;

/// Files up to this many bytes are one piece.
pub const WHOLE_MAX: usize = 128 << 10;
/// Shortest piece that is cut, bytes (the last one of a file may be shorter).
pub const MIN_PIECE: usize = 16 << 10;
/// Length of pieces that is aimed at, bytes.
pub const AVERAGE_PIECE: usize = 64 << 10;
/// Longest piece, bytes.
pub const MAX_PIECE: usize = 256 << 10;

/// Returns the length of the piece at the front of `bytes`, or `None` if more bytes are needed to tell.
///
/// `last`: the file ends with `bytes`. Without it, [`MAX_PIECE`] bytes are always enough. `bytes` must not be empty.
pub fn next_piece(bytes: &[u8], last: bool) -> Option<usize> {
    if bytes.len() < MAX_PIECE && !last {
        return None;
    }
    let window = &bytes[..bytes.len().min(MAX_PIECE)];
    let (_, end) = FastCDC::new(window, MIN_PIECE, AVERAGE_PIECE, MAX_PIECE).cut(0, window.len());
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noise;

    fn cuts(mut bytes: &[u8]) -> Vec<usize> {
        let mut cuts = Vec::new();
        while !bytes.is_empty() {
            let len = next_piece(bytes, true).expect("the file ends here");
            cuts.push(len);
            bytes = &bytes[len..];
        }
        cuts
    }

    #[test]
    fn cuts_never_change() {
        assert_eq!(cuts(&noise(600_000, 1)), [76_660, 159_933, 188_476, 66_903, 40_565, 67_463]);
    }

    #[test]
    fn a_window_cuts_as_the_whole_does() {
        let content = noise(900_000, 1);
        let (mut windowed, mut at) = (Vec::new(), 0);
        while at < content.len() {
            let end = content.len().min(at + MAX_PIECE);
            let len = next_piece(&content[at..end], end == content.len()).expect("a full window");
            windowed.push(len);
            at += len;
        }
        assert_eq!(windowed, cuts(&content));
        assert_eq!(next_piece(&content[..MAX_PIECE - 1], false), None);
    }

    #[test]
    fn an_insertion_moves_few_cuts() {
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
