//! Describes WAV, FLAC and MP3 files: sample rate, channels, length, tags.

use crate::describe::{Description, bytes, clock};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Most chunks or blocks that are read.
const MAX_CHUNKS: usize = 64;
/// Most bytes of tags that are read.
const MAX_TAGS: usize = 256 << 10;
/// Most tags that are shown.
const MAX_SHOWN: usize = 20;

/// Adds the duration of a number of samples.
fn duration(table: &mut Description, samples: u64, rate: u64) {
    if rate > 0 {
        table.fact("length", clock(u128::from(samples) * 10 / u128::from(rate)));
    }
}

/// Describes a WAV file.
pub fn wav(source: &dyn ReadAt) -> Result<Description> {
    let mut table = Description::new("WAV", &[]);
    let (mut at, mut bytes_per_second) = (12u64, 0);
    for _ in 0..MAX_CHUNKS {
        let header = bytes::up_to(source, at, 8)?;
        let Some((name, len)) = header.split_at_checked(4).filter(|(_, len)| len.len() == 4) else { break };
        let len = bytes::little(len);
        match name {
            b"fmt " => {
                let format = bytes::up_to(source, at + 8, 26)?;
                let number = |at: usize, len: usize| bytes::little_at(&format, at, len);
                // The extended form has the codec at its end.
                let code = if number(0, 2) == 0xfffe { number(24, 2) } else { number(0, 2) };
                table.fact(
                    "codec",
                    match code {
                        1 => "PCM".to_owned(),
                        3 => "floating point".to_owned(),
                        6 => "A-law".to_owned(),
                        7 => "µ-law".to_owned(),
                        code => format!("codec {code}"),
                    },
                );
                table.fact("rate", format!("{} Hz", number(4, 4)));
                table.fact("channels", number(2, 2).to_string());
                table.fact("bits", number(14, 2).to_string());
                bytes_per_second = number(8, 4);
            }
            b"data" => {
                duration(&mut table, len.min(source.len().saturating_sub(at + 8)), bytes_per_second);
                break;
            }
            _ => {}
        }
        // Chunks start at even offsets.
        at = at + 8 + len + len % 2;
    }
    Ok(table)
}

/// Describes a FLAC file.
pub fn flac(source: &dyn ReadAt) -> Result<Description> {
    let mut table = Description::new("FLAC", &[]);
    let mut at = 4u64;
    for _ in 0..MAX_CHUNKS {
        let header = bytes::up_to(source, at, 4)?;
        let [kind, len @ ..] = header.as_slice() else { break };
        let len = bytes::big(len);
        match kind & 0x7f {
            0 => {
                let info = bytes::exactly(source, "FLAC stream info", at + 4, 34, 34)?;
                // 20 bits of sample rate, 3 of channels, 5 of sample size, 36 of samples.
                let packed = bytes::big(&info[10..18]);
                let (rate, samples) = (packed >> 44, packed & 0xf_ffff_ffff);
                table.fact("rate", format!("{rate} Hz"));
                table.fact("channels", ((packed >> 41 & 7) + 1).to_string());
                table.fact("bits", ((packed >> 36 & 31) + 1).to_string());
                duration(&mut table, samples, rate);
            }
            4 => comments(&bytes::up_to(source, at + 4, usize::try_from(len).expect("24 bits").min(MAX_TAGS))?, &mut table),
            _ => {}
        }
        if kind & 0x80 != 0 {
            break;
        }
        at += 4 + len;
    }
    Ok(table)
}

/// Adds Vorbis comments, such as `TITLE=…`. Each is preceded by its length.
fn comments(block: &[u8], table: &mut Description) {
    fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (len, following) = rest.split_at_checked(4)?;
        let (text, following) = following.split_at_checked(usize::try_from(bytes::little(len)).ok()?)?;
        *rest = following;
        Some(text)
    }
    let mut rest = block;
    if text(&mut rest).is_none() || rest.len() < 4 {
        return;
    }
    rest = &rest[4..];
    for _ in 0..MAX_SHOWN {
        let Some(comment) = text(&mut rest) else { return };
        if let Some((label, value)) = String::from_utf8_lossy(comment).split_once('=') {
            table.fact(&label.to_lowercase(), value);
        }
    }
}

/// Bit rates of layer III by index, kbit/s: of MPEG 1, and of MPEG 2 and 2.5.
const RATES: [[u64; 15]; 2] = [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// Describes an MP3 file. Returns `None` if the file only resembles one.
pub fn mp3(source: &dyn ReadAt) -> Result<Option<Description>> {
    let mut table = Description::new("MP3", &[]);
    let header = bytes::up_to(source, 0, 10)?;
    let mut at = 0;
    if let [b'I', b'D', b'3', version, _, _, size @ ..] = header.as_slice() {
        let size = size.iter().fold(0u64, |size, byte| size << 7 | u64::from(byte & 0x7f));
        let kept = usize::try_from(size).expect("28 bits").min(MAX_TAGS);
        tags(&bytes::up_to(source, 10, kept)?, *version, &mut table);
        at = 10 + size;
    }
    let frame = bytes::up_to(source, at, 64)?;
    let [0xff, second, third, fourth, ..] = frame.as_slice() else {
        return if at > 0 { Err(Error::corrupt("MP3 frame", at, "no frame follows the tags")) } else { Ok(None) };
    };
    let (version, layer) = (second >> 3 & 3, second >> 1 & 3);
    let (rate, sampling) = (usize::from(third >> 4), usize::from(third >> 2 & 3));
    if version == 1 || layer != 1 || rate == 15 || sampling == 3 {
        return Ok((at > 0).then_some(table));
    }
    let first = version == 3;
    let hertz = [44_100u64, 48_000, 32_000][sampling] / [4, 1, 2, 1][usize::from(version)];
    let mono = fourth >> 6 == 3;
    table.fact("rate", format!("{hertz} Hz"));
    table.fact("channels", if mono { "1" } else { "2" });
    // If the bit rate is variable, the first frame contains the number of frames after its side
    // information.
    let side = match (first, mono) {
        (true, false) => 36,
        (true, true) | (false, false) => 21,
        (false, true) => 13,
    };
    let kilobits = RATES[usize::from(!first)][rate];
    let samples_per_frame = if first { 1_152 } else { 576 };
    match frame.get(side..side + 12) {
        Some([b'X', b'i', b'n', b'g', .., flags, a, b, c, d]) if flags & 1 == 1 => {
            table.fact("bit rate", "variable");
            duration(&mut table, bytes::big(&[*a, *b, *c, *d]).saturating_mul(samples_per_frame), hertz);
        }
        _ if kilobits > 0 => {
            table.fact("bit rate", format!("{kilobits} kbit/s"));
            duration(&mut table, (source.len() - at).saturating_mul(8), kilobits * 1_000);
        }
        _ => {}
    }
    Ok(Some(table))
}

/// Adds tags of ID3 version 2.3 and 2.4.
fn tags(block: &[u8], version: u8, table: &mut Description) {
    let mut rest = block;
    while let Some((header, following)) = rest.split_at_checked(10).filter(|_| version >= 3) {
        let size = match version {
            4 => header[4..8].iter().fold(0u64, |size, byte| size << 7 | u64::from(byte & 0x7f)),
            _ => bytes::big(&header[4..8]),
        };
        let Some((value, following)) = usize::try_from(size).ok().and_then(|size| following.split_at_checked(size)) else {
            return;
        };
        rest = following;
        let label = match &header[..4] {
            b"TIT2" => "title",
            b"TPE1" => "artist",
            b"TALB" => "album",
            b"TYER" | b"TDRC" => "year",
            [0, ..] => return,
            _ => continue,
        };
        table.fact(label, text(value));
    }
}

/// Decodes the text of a tag. Its first byte is the encoding.
fn text(value: &[u8]) -> String {
    let Some((encoding, text)) = value.split_first() else { return String::new() };
    let decoded = match encoding {
        0 => text.iter().map(|byte| char::from(*byte)).collect(),
        1 | 2 => {
            let (text, swapped) = match text {
                [0xff, 0xfe, text @ ..] => (text, true),
                [0xfe, 0xff, text @ ..] => (text, false),
                text => (text, false),
            };
            let units = text.chunks_exact(2).map(|pair| if swapped { [pair[1], pair[0]] } else { [pair[0], pair[1]] });
            char::decode_utf16(units.map(u16::from_be_bytes)).map(|c| c.unwrap_or('\u{fffd}')).collect()
        }
        _ => String::from_utf8_lossy(text).into_owned(),
    };
    decoded.trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    fn facts(table: &Description) -> Vec<(&str, &str)> {
        table.facts.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect()
    }

    #[test]
    fn wav_is_described() {
        let mut bytes = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x02\0".to_vec();
        bytes.extend(44_100u32.to_le_bytes());
        bytes.extend(176_400u32.to_le_bytes());
        bytes.extend(b"\x04\0\x10\0data");
        bytes.extend(264_600u32.to_le_bytes());
        bytes.resize(bytes.len() + 264_600, 0);
        let table = wav(&MemorySource::new(bytes)).unwrap();
        let expected = [("codec", "PCM"), ("rate", "44100 Hz"), ("channels", "2"), ("bits", "16"), ("length", "0:01.5")];
        assert_eq!(facts(&table), expected);
    }

    #[test]
    fn flac_with_comments_is_described() {
        let mut bytes = b"fLaC\0\0\0\x22".to_vec();
        bytes.extend([0; 10]);
        bytes.extend((48_000u64 << 44 | 1 << 41 | 23 << 36 | 96_000).to_be_bytes());
        bytes.extend([0; 16]);
        let comments = b"\x01\0\0\0x\x01\0\0\0\x0a\0\0\0TITLE=Song";
        bytes.extend([0x84, 0, 0, u8::try_from(comments.len()).unwrap()]);
        bytes.extend(comments);
        let table = flac(&MemorySource::new(bytes)).unwrap();
        let expected = [("rate", "48000 Hz"), ("channels", "2"), ("bits", "24"), ("length", "0:02.0"), ("title", "Song")];
        assert_eq!(facts(&table), expected);
    }

    #[test]
    fn mp3_with_tags_is_described() {
        let mut bytes = b"ID3\x04\0\0\0\0\0\x10TIT2\0\0\0\x06\0\0\x03Song\0".to_vec();
        bytes.extend([0xff, 0xfb, 0x90, 0x00]);
        bytes.resize(26 + 16_000, 0);
        let table = mp3(&MemorySource::new(bytes)).unwrap().unwrap();
        let expected =
            [("title", "Song"), ("rate", "44100 Hz"), ("channels", "2"), ("bit rate", "128 kbit/s"), ("length", "0:01.0")];
        assert_eq!(facts(&table), expected);
        assert_eq!(mp3(&MemorySource::new(b"\xff\xff\xff\xff\xff\xff".to_vec())).unwrap(), None);
    }
}
