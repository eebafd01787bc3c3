//! MP4, QuickTime and their relatives: brand, length, tracks.

use crate::describe::{Description, bytes, clock};
use nra_core::error::Result;
use nra_core::source::ReadAt;

/// Boxes that are gone through.
const MAX_BOXES: usize = 2_000;
/// Boxes within boxes.
const MAX_DEPTH: usize = 6;
/// Bytes of a box that are looked at.
const MAX_LOOK: usize = 128;

/// What is known of a track.
#[derive(Default)]
struct Track {
    kind: String,
    coding: String,
    detail: String,
    length: String,
}

/// Says whether a file begins like one of this family.
pub fn is_mp4(head: &[u8]) -> bool {
    head.get(4..8) == Some(b"ftyp")
}

/// Reads a file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let brand = bytes::some(source, 8, 4)?;
    let format = match brand.as_slice() {
        b"qt  " => "QuickTime",
        b"heic" | b"heix" | b"mif1" | b"avif" | b"msf1" => "HEIF",
        b"M4A " | b"M4B " => "M4A",
        _ => "MP4",
    };
    let mut table = Description::new(format, &["track", "coding", "", "length"]);
    table.fact("brand", name(&brand));
    let mut tracks: Vec<Track> = Vec::new();
    // Ends of the boxes that are open, the outermost first.
    let (mut at, mut open) = (0u64, vec![source.len()]);
    for _ in 0..MAX_BOXES {
        while open.len() > 1 && open.last().is_some_and(|end| at >= *end) {
            open.pop();
        }
        let end = open.last().copied().unwrap_or(0);
        let head = bytes::some(source, at, 16)?;
        let Some(kind) = head.get(4..8).filter(|_| end.saturating_sub(at) >= 8) else {
            if open.len() < 2 {
                break;
            }
            at = end;
            continue;
        };
        let (len, front) = match bytes::big(&head[..4]) {
            0 => (end - at, 8),
            1 if head.len() == 16 => (bytes::big(&head[8..]), 16),
            len => (len, 8),
        };
        if len < front {
            break;
        }
        // A box ends where the one around it does, whatever it says.
        let behind = at.saturating_add(len).min(end);
        let body = at + front;
        if kind == b"trak" {
            tracks.push(Track::default());
        }
        match kind {
            b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl" if open.len() <= MAX_DEPTH => {
                open.push(behind);
                at = body;
                continue;
            }
            b"mvhd" => {
                let body = part(source, body, behind)?;
                table.fact("length", length(&body));
            }
            b"mdhd" | b"hdlr" | b"stsd" => {
                let body = part(source, body, behind)?;
                if let Some(track) = tracks.last_mut() {
                    track.take(kind, &body);
                }
            }
            _ => {}
        }
        at = behind;
    }
    for track in &tracks {
        table.row(&[&track.kind, &track.coding, &track.detail, &track.length]);
    }
    Ok(table)
}

fn part(source: &dyn ReadAt, at: u64, end: u64) -> Result<Vec<u8>> {
    bytes::some(source, at, usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(MAX_LOOK))
}

fn number(body: &[u8], at: usize, len: usize) -> u64 {
    body.get(at..at + len).map_or(0, bytes::big)
}

/// Returns a name of four letters.
fn name(letters: &[u8]) -> String {
    String::from_utf8_lossy(letters).trim_end().to_owned()
}

/// Returns a length in units of a scale, from a header of a film or of its track.
fn length(body: &[u8]) -> String {
    // Version 1 has times of 64 bits.
    let (scale, units) = match body.first() {
        Some(1) => (number(body, 20, 4), number(body, 24, 8)),
        _ => (number(body, 12, 4), number(body, 16, 4)),
    };
    if scale == 0 { String::new() } else { clock(u128::from(units) * 10 / u128::from(scale)) }
}

impl Track {
    fn take(&mut self, kind: &[u8], body: &[u8]) {
        match kind {
            b"mdhd" => self.length = length(body),
            b"hdlr" => {
                let letters = body.get(8..12).unwrap_or_default();
                self.kind = match letters {
                    b"vide" => "video".to_owned(),
                    b"soun" => "audio".to_owned(),
                    b"text" | b"sbtl" | b"subt" => "text".to_owned(),
                    other => name(other),
                };
            }
            // Behind version and count the first description: its length, its coding, eight bytes, then what depends on the kind.
            _ => {
                self.coding = name(body.get(12..16).unwrap_or_default());
                self.detail = match self.kind.as_str() {
                    "video" => format!("{} × {}", number(body, 40, 2), number(body, 42, 2)),
                    "audio" => format!("{} Hz, {} channels", number(body, 40, 2), number(body, 32, 2)),
                    _ => String::new(),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(body.len() + 8).unwrap().to_be_bytes().to_vec();
        bytes.extend(kind);
        bytes.extend(body);
        bytes
    }

    fn header(scale: u32, units: u32) -> Vec<u8> {
        let mut body = vec![0; 12];
        body.extend(scale.to_be_bytes());
        body.extend(units.to_be_bytes());
        body
    }

    fn track(kind: &[u8; 4], coding: &[u8; 4], at: usize, detail: [u16; 2]) -> Vec<u8> {
        let mut handler = vec![0; 8];
        handler.extend(kind);
        let mut description = vec![0; 48];
        description[12..16].copy_from_slice(coding);
        description[40..42].copy_from_slice(&detail[0].to_be_bytes());
        description[at..at + 2].copy_from_slice(&detail[1].to_be_bytes());
        let stbl = boxed(b"stbl", &boxed(b"stsd", &description));
        let mdia = [boxed(b"mdhd", &header(1_000, 61_500)), boxed(b"hdlr", &handler), boxed(b"minf", &stbl)].concat();
        boxed(b"trak", &boxed(b"mdia", &mdia))
    }

    fn film() -> Vec<u8> {
        let tracks = [track(b"vide", b"avc1", 42, [1_920, 1_080]), track(b"soun", b"mp4a", 32, [48_000, 2])].concat();
        let moov = [boxed(b"mvhd", &header(600, 36_900)), tracks].concat();
        [boxed(b"ftyp", b"isom\0\0\0\0isom"), boxed(b"mdat", &[7; 5_000]), boxed(b"moov", &moov)].concat()
    }

    #[test]
    fn tracks_of_a_film() {
        let table = describe(&MemorySource::new(film())).unwrap();
        assert_eq!(table.format, "MP4");
        assert_eq!(table.facts, [("brand".to_owned(), "isom".to_owned()), ("length".to_owned(), "1:01.5".to_owned())]);
        assert_eq!(table.rows, [["video", "avc1", "1920 × 1080", "1:01.5"], ["audio", "mp4a", "48000 Hz, 2 channels", "1:01.5"]]);
    }

    #[test]
    fn boxes_that_lie_do_no_harm() {
        let film = film();
        for at in 0..film.len().min(700) {
            for value in [0, 1, 0xff] {
                let mut film = film.clone();
                film[at] = value;
                let _ = describe(&MemorySource::new(film));
            }
        }
        for cut in (0..film.len()).step_by(7) {
            let _ = describe(&MemorySource::new(film[..cut].to_vec()));
        }
        // Nothing but boxes within boxes, none of which comes to an end.
        let deep = [boxed(b"ftyp", b"isom"), b"\0\0\0\0moov".repeat(5_000)].concat();
        assert!(describe(&MemorySource::new(deep)).unwrap().rows.is_empty());
    }
}
