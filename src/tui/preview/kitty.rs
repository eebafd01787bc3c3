//! kitty's graphics protocol: an image is transmitted once and shown where placeholder characters stand.

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::RgbaImage;

/// The character that a terminal replaces by a part of an image.
const PLACEHOLDER: char = '\u{10eeee}';
/// Bytes of one escape sequence before base64 makes 4,096 characters of them, the most a terminal accepts.
const SEQUENCE_LEN: usize = 3_072;

/// Returns the escape sequences that transmit an image under a number.
pub fn transmit(image: &RgbaImage, number: u32) -> String {
    // The fastest level: the bytes only travel to the terminal.
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(image.as_raw()).expect("a vector takes all bytes");
    let bytes = encoder.finish().expect("a vector takes all bytes");
    let mut out = String::with_capacity(bytes.len() * 7 / 5 + 64);
    let mut parts = bytes.chunks(SEQUENCE_LEN).peekable();
    let mut control = format!("i={number},a=T,U=1,f=32,o=z,t=d,s={},v={},q=2,", image.width(), image.height());
    while let Some(part) = parts.next() {
        let _ = write!(out, "\x1b_G{control}m={};", u8::from(parts.peek().is_some()));
        STANDARD.encode_string(part, &mut out);
        out.push_str("\x1b\\");
        "q=2,".clone_into(&mut control);
    }
    out
}

/// Returns the placeholder of a cell. The first cell of a row names the row; the cells that follow it need not.
///
/// `None` when the protocol has no number for the row.
pub fn placeholder(column: u16, row: u16, number: u32) -> Option<String> {
    let mut symbol = String::from(PLACEHOLDER);
    if column == 0 {
        symbol.extend([diacritic(row)?, diacritic(0)?, diacritic(u16::from(number.to_be_bytes()[0]))?]);
    }
    Some(symbol)
}

/// Returns the combining character that stands for a number.
fn diacritic(number: u16) -> Option<char> {
    let mut rest = u32::from(number);
    for &(first, last) in DIACRITICS {
        if rest <= last - first {
            return char::from_u32(first + rest);
        }
        rest -= last - first + 1;
    }
    None
}

#[rustfmt::skip]
/// The combining characters that the protocol counts with, as ranges in ascending order.
const DIACRITICS: &[(u32, u32)] = &[
    (0x305, 0x305), (0x30d, 0x30e), (0x310, 0x310), (0x312, 0x312), (0x33d, 0x33f),
    (0x346, 0x346), (0x34a, 0x34c), (0x350, 0x352), (0x357, 0x357), (0x35b, 0x35b),
    (0x363, 0x36f), (0x483, 0x487), (0x592, 0x595), (0x597, 0x599), (0x59c, 0x5a1),
    (0x5a8, 0x5a9), (0x5ab, 0x5ac), (0x5af, 0x5af), (0x5c4, 0x5c4), (0x610, 0x617),
    (0x657, 0x65b), (0x65d, 0x65e), (0x6d6, 0x6dc), (0x6df, 0x6e2), (0x6e4, 0x6e4),
    (0x6e7, 0x6e8), (0x6eb, 0x6ec), (0x730, 0x730), (0x732, 0x733), (0x735, 0x736),
    (0x73a, 0x73a), (0x73d, 0x73d), (0x73f, 0x741), (0x743, 0x743), (0x745, 0x745),
    (0x747, 0x747), (0x749, 0x74a), (0x7eb, 0x7f1), (0x7f3, 0x7f3), (0x816, 0x819),
    (0x81b, 0x823), (0x825, 0x827), (0x829, 0x82d), (0x951, 0x951), (0x953, 0x954),
    (0xf82, 0xf83), (0xf86, 0xf87), (0x135d, 0x135f), (0x17dd, 0x17dd), (0x193a, 0x193a),
    (0x1a17, 0x1a17), (0x1a75, 0x1a7c), (0x1b6b, 0x1b6b), (0x1b6d, 0x1b73), (0x1cd0, 0x1cd2),
    (0x1cda, 0x1cdb), (0x1ce0, 0x1ce0), (0x1dc0, 0x1dc1), (0x1dc3, 0x1dc9), (0x1dcb, 0x1dcc),
    (0x1dd1, 0x1de6), (0x1dfe, 0x1dfe), (0x20d0, 0x20d1), (0x20d4, 0x20d7), (0x20db, 0x20dc),
    (0x20e1, 0x20e1), (0x20e7, 0x20e7), (0x20e9, 0x20e9), (0x20f0, 0x20f0), (0x2cef, 0x2cf1),
    (0x2de0, 0x2dff), (0xa66f, 0xa66f), (0xa67c, 0xa67d), (0xa6f0, 0xa6f1), (0xa8e0, 0xa8f1),
    (0xaab0, 0xaab0), (0xaab2, 0xaab3), (0xaab7, 0xaab8), (0xaabe, 0xaabf), (0xaac1, 0xaac1),
    (0xfe20, 0xfe26), (0x10a0f, 0x10a0f), (0x10a38, 0x10a38), (0x1d185, 0x1d189),
    (0x1d1aa, 0x1d1ad), (0x1d242, 0x1d244),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_name_row_and_number_in_the_first_column_only() {
        assert_eq!(placeholder(0, 0, 0x6e_72_61).as_deref(), Some("\u{10eeee}\u{305}\u{305}\u{305}"));
        assert_eq!(placeholder(0, 2, 0x01_00_00_00).as_deref(), Some("\u{10eeee}\u{30e}\u{305}\u{30d}"));
        assert_eq!(placeholder(7, 2, 0).as_deref(), Some("\u{10eeee}"));
    }

    #[test]
    fn rows_beyond_the_last_diacritic_have_no_placeholder() {
        assert_eq!(diacritic(296), Some('\u{1d244}'));
        assert_eq!(placeholder(0, 297, 1), None);
    }

    #[test]
    fn long_images_are_transmitted_in_several_sequences() {
        let mut state = 1_u32;
        let image = RgbaImage::from_fn(64, 64, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            image::Rgba(state.to_be_bytes())
        });
        let sent = transmit(&image, 5);
        let sequences: Vec<_> = sent.split_terminator("\x1b\\").collect();
        assert_eq!(sequences.len(), 16_384_usize.div_ceil(SEQUENCE_LEN));
        let mut bytes = Vec::new();
        for (at, sequence) in sequences.iter().enumerate() {
            let (control, payload) = sequence.strip_prefix("\x1b_G").unwrap().split_once(';').unwrap();
            assert_eq!(control.ends_with("m=1"), at + 1 < sequences.len(), "{control}");
            assert!(payload.len() <= 4_096);
            bytes.extend(STANDARD.decode(payload).unwrap());
        }
        let mut pixels = Vec::new();
        std::io::copy(&mut flate2::read::ZlibDecoder::new(&bytes[..]), &mut pixels).unwrap();
        assert_eq!(&pixels, image.as_raw());
    }
}
