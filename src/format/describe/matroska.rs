//! Describes Matroska and WebM files: title, length, tracks.

use crate::describe::bytes::{Element, Walk};
use crate::describe::{Description, bytes, clock};
use nra_core::error::Result;
use nra_core::source::ReadAt;

/// Most nested elements.
const MAX_DEPTH: usize = 5;
/// Bytes of a value that are read.
const MAX_VALUE: usize = 256;

/// A track.
#[derive(Default)]
struct Track {
    kind: &'static str,
    codec: String,
    size: (u64, u64),
    hertz: f64,
    channels: u64,
    language: String,
}

/// Parses a number of one to eight bytes, whose count is encoded in the first bits. Returns it with
/// its length. `with_marker` keeps those bits, which are part of IDs.
fn variable(bytes: &[u8], with_marker: bool) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = usize::try_from(first.leading_zeros()).ok()? + 1;
    let number = bytes::big(bytes.get(..len).filter(|_| len <= 8)?);
    let mask = if with_marker { u64::MAX } else { (1u64 << (7 * len)) - 1 };
    Some((number & mask, len))
}

fn float(value: &[u8]) -> f64 {
    match value.len() {
        4 => f64::from(f32::from_bits(u32::try_from(bytes::big(value)).expect("four bytes"))),
        8 => f64::from_bits(bytes::big(value)),
        _ => 0.0,
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// Parses the header of an element.
fn parse(header: &[u8], at: u64, parent_end: u64) -> Option<Element> {
    let (kind, id_len) = variable(header, true)?;
    let (len, len_len) = variable(&header[id_len..], false)?;
    let body = at.saturating_add((id_len + len_len) as u64);
    // A length of ones is unknown: the element extends to the end of its parent.
    let is_unknown = len == (1u64 << (7 * len_len)) - 1;
    Some(Element { kind, body, end: if is_unknown { parent_end } else { body.saturating_add(len) } })
}

/// Describes a file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let mut table = Description::new("Matroska", &["track", "codec", "", "language"]);
    let mut tracks: Vec<Track> = Vec::new();
    // Nanoseconds per unit, and units.
    let (mut scale, mut units) = (1_000_000u64, 0.0);
    bytes::walk(source, MAX_DEPTH, parse, |element| {
        let value = || element.read(source, MAX_VALUE);
        let number = || Ok::<_, nra_core::error::Error>(bytes::big(&value()?[..]));
        match (element.kind, tracks.last_mut()) {
            // The content starts; its description precedes it.
            (0x1f43_b675, _) => return Ok(Walk::Stop),
            (0xae, _) => {
                tracks.push(Track::default());
                return Ok(Walk::Enter);
            }
            // EBML header, segment, segment information, tracks, and the settings of a track.
            (0x1a45_dfa3 | 0x1853_8067 | 0x1549_a966 | 0x1654_ae6b | 0xe0 | 0xe1, _) => return Ok(Walk::Enter),
            (0x4282, _) if value()? == b"webm" => table.format = "WebM",
            (0x002a_d7b1, _) => scale = number()?,
            (0x4489, _) => units = float(&value()?),
            (0x7ba9, _) => table.fact("title", text(&value()?)),
            (0x5741, _) => table.fact("written by", text(&value()?)),
            (0x83, Some(track)) => {
                track.kind = match number()? {
                    1 => "video",
                    2 => "audio",
                    17 => "text",
                    _ => "other",
                };
            }
            (0x86, Some(track)) => track.codec = text(&value()?),
            (0xb0, Some(track)) => track.size.0 = number()?,
            (0xba, Some(track)) => track.size.1 = number()?,
            (0xb5, Some(track)) => track.hertz = float(&value()?),
            (0x9f, Some(track)) => track.channels = number()?,
            (0x0022_b59c, Some(track)) => track.language = text(&value()?),
            _ => {}
        }
        Ok(Walk::Next)
    })?;
    let tenths = units * scale as f64 / 1e8;
    if tenths.is_finite() && tenths >= 1.0 {
        // The conversion saturates at an absurd length.
        table.fact("length", clock(tenths as u128));
    }
    for track in &tracks {
        let detail = match track.kind {
            "video" => format!("{} × {}", track.size.0, track.size.1),
            "audio" => format!("{:.0} Hz, {} channels", track.hertz, track.channels.max(1)),
            _ => String::new(),
        };
        table.row(&[track.kind, &track.codec, &detail, &track.language]);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    fn element(name: u32, body: &[u8]) -> Vec<u8> {
        let name = name.to_be_bytes();
        let mut bytes = name[name.iter().position(|byte| *byte != 0).unwrap()..].to_vec();
        // A length of two bytes.
        bytes.extend((0x4000 | u16::try_from(body.len()).unwrap()).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn film() -> Vec<u8> {
        let video = element(0xe0, &[element(0xb0, &640u16.to_be_bytes()), element(0xba, &480u16.to_be_bytes())].concat());
        let audio = element(0xe1, &[element(0xb5, &44_100f32.to_be_bytes()), element(0x9f, &[2])].concat());
        let tracks = [
            element(0xae, &[element(0x83, &[1]), element(0x86, b"V_VP9"), video].concat()),
            element(0xae, &[element(0x83, &[2]), element(0x86, b"A_OPUS"), element(0x22_b59c, b"eng"), audio].concat()),
        ];
        let info = [element(0x002a_d7b1, &1_000_000u32.to_be_bytes()), element(0x4489, &61_500f64.to_be_bytes())].concat();
        let segment = [element(0x1549_a966, &info), element(0x1654_ae6b, &tracks.concat()), element(0x1f43_b675, &[9; 100])];
        [element(0x1a45_dfa3, &element(0x4282, b"webm")), element(0x1853_8067, &segment.concat())].concat()
    }

    #[test]
    fn tracks_are_described() {
        let table = describe(&MemorySource::new(film())).unwrap();
        assert_eq!(table.format, "WebM");
        assert_eq!(table.facts, [("length".to_owned(), "1:01.5".to_owned())]);
        assert_eq!(table.rows, [["video", "V_VP9", "640 × 480", ""], ["audio", "A_OPUS", "44100 Hz, 2 channels", "eng"]]);
    }

    #[test]
    fn damaged_elements_never_panic() {
        let film = film();
        for at in 0..film.len() {
            for value in [0, 1, 0x40, 0xff] {
                let mut film = film.clone();
                film[at] = value;
                let _ = describe(&MemorySource::new(film));
            }
        }
        for cut in 0..film.len() {
            let _ = describe(&MemorySource::new(film[..cut].to_vec()));
        }
    }
}
