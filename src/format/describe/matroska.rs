//! Matroska and WebM: title, length, tracks.

use crate::describe::{Description, bytes, clock};
use nra_core::error::Result;
use nra_core::source::ReadAt;

/// Elements that are gone through.
const MAX_ELEMENTS: usize = 2_000;
/// Elements within elements.
const MAX_DEPTH: usize = 5;
/// Bytes of a value that are looked at.
const MAX_VALUE: usize = 256;

/// What is known of a track.
#[derive(Default)]
struct Track {
    kind: &'static str,
    coding: String,
    size: (u64, u64),
    hertz: f64,
    channels: u64,
    language: String,
}

/// Reads a number of one to eight bytes whose first bits tell how many; returns it with its length. `whole` keeps those bits, as names have them.
fn variable(bytes: &[u8], whole: bool) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = usize::try_from(first.leading_zeros()).ok()? + 1;
    let number = bytes::big(bytes.get(..len).filter(|_| len <= 8)?);
    let mask = if whole { u64::MAX } else { (1u64 << (7 * len)) - 1 };
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

/// Reads a file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let mut table = Description::new("Matroska", &["track", "coding", "", "language"]);
    let mut tracks: Vec<Track> = Vec::new();
    // Nanoseconds a unit, and units.
    let (mut scale, mut units) = (1_000_000u64, 0.0);
    let (mut at, mut open) = (0u64, vec![source.len()]);
    for _ in 0..MAX_ELEMENTS {
        while open.len() > 1 && open.last().is_some_and(|end| at >= *end) {
            open.pop();
        }
        let end = open.last().copied().unwrap_or(0);
        let head = bytes::some(source, at, 12)?;
        let Some((name, front)) = variable(&head, true) else { break };
        let Some((len, size)) = variable(&head[front..], false) else { break };
        // A length of ones only is unknown: up to the end of what is around.
        let unknown = len == (1u64 << (7 * size)) - 1;
        let body = at.saturating_add(u64::try_from(front + size).expect("a few bytes"));
        let behind = if unknown { end } else { body.saturating_add(len).min(end) };
        let value =
            || bytes::some(source, body, usize::try_from(behind.saturating_sub(body)).unwrap_or(usize::MAX).min(MAX_VALUE));
        let short = || Ok::<_, nra_core::error::Error>(bytes::big(&value()?[..]));
        match (name, tracks.last_mut()) {
            // Content begins: what describes it is in front.
            (0x1f43_b675, _) => break,
            // The heads, the segment, facts about it, tracks, and what is in a track.
            (0x1a45_dfa3 | 0x1853_8067 | 0x1549_a966 | 0x1654_ae6b | 0xae | 0xe0 | 0xe1, _) if open.len() <= MAX_DEPTH => {
                if name == 0xae {
                    tracks.push(Track::default());
                }
                open.push(behind);
                at = body;
                continue;
            }
            (0x4282, _) if value()? == b"webm" => table.format = "WebM",
            (0x002a_d7b1, _) => scale = short()?,
            (0x4489, _) => units = float(&value()?),
            (0x7ba9, _) => table.fact("title", text(&value()?)),
            (0x5741, _) => table.fact("written by", text(&value()?)),
            (0x83, Some(track)) => {
                track.kind = match short()? {
                    1 => "video",
                    2 => "audio",
                    17 => "text",
                    _ => "other",
                };
            }
            (0x86, Some(track)) => track.coding = text(&value()?),
            (0xb0, Some(track)) => track.size.0 = short()?,
            (0xba, Some(track)) => track.size.1 = short()?,
            (0xb5, Some(track)) => track.hertz = float(&value()?),
            (0x9f, Some(track)) => track.channels = short()?,
            (0x0022_b59c, Some(track)) => track.language = text(&value()?),
            _ => {}
        }
        if behind <= at {
            break;
        }
        at = behind;
    }
    let tenths = units * scale as f64 / 1e8;
    if tenths.is_finite() && tenths >= 1.0 {
        // A conversion that saturates: a length beyond all measure is shown as one.
        table.fact("length", clock(tenths as u128));
    }
    for track in &tracks {
        let detail = match track.kind {
            "video" => format!("{} × {}", track.size.0, track.size.1),
            "audio" => format!("{:.0} Hz, {} channels", track.hertz, track.channels.max(1)),
            _ => String::new(),
        };
        table.row(&[track.kind, &track.coding, &detail, &track.language]);
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
    fn tracks_of_a_film() {
        let table = describe(&MemorySource::new(film())).unwrap();
        assert_eq!(table.format, "WebM");
        assert_eq!(table.facts, [("length".to_owned(), "1:01.5".to_owned())]);
        assert_eq!(table.rows, [["video", "V_VP9", "640 × 480", ""], ["audio", "A_OPUS", "44100 Hz, 2 channels", "eng"]]);
    }

    #[test]
    fn elements_that_lie_do_no_harm() {
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
