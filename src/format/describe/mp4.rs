//! Describes MP4, QuickTime and related files: brand, length, tracks.

use crate::describe::bytes::{Element, Walk, big_at};
use crate::describe::{Description, bytes, clock};
use nra_core::error::Result;
use nra_core::source::ReadAt;

/// Most nested boxes.
const MAX_DEPTH: usize = 6;
/// Bytes of a box that are read.
const MAX_BODY: usize = 128;

/// A track.
#[derive(Default)]
struct Track {
    kind: String,
    codec: String,
    detail: String,
    length: String,
}

/// Returns whether a file starts like one of this family.
pub fn is_mp4(first: &[u8]) -> bool {
    first.get(4..8) == Some(b"ftyp")
}

/// Describes a file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let brand = bytes::up_to(source, 8, 4)?;
    let format = match brand.as_slice() {
        b"qt  " => "QuickTime",
        b"heic" | b"heix" | b"mif1" | b"avif" | b"msf1" => "HEIF",
        b"M4A " | b"M4B " => "M4A",
        _ => "MP4",
    };
    let mut table = Description::new(format, &["track", "codec", "", "length"]);
    table.fact("brand", name(&brand));
    let mut tracks: Vec<Track> = Vec::new();
    bytes::walk(source, MAX_DEPTH, parse, |element| {
        let kind = &u32::try_from(element.kind).expect("four letters").to_be_bytes();
        match kind {
            b"trak" => tracks.push(Track::default()),
            b"mvhd" => table.fact("length", length(&element.read(source, MAX_BODY)?)),
            b"mdhd" | b"hdlr" | b"stsd" => {
                if let Some(track) = tracks.last_mut() {
                    track.add(kind, &element.read(source, MAX_BODY)?);
                }
            }
            _ => {}
        }
        Ok(if matches!(kind, b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl") { Walk::Enter } else { Walk::Next })
    })?;
    for track in &tracks {
        table.row(&[&track.kind, &track.codec, &track.detail, &track.length]);
    }
    Ok(table)
}

/// Parses the header of a box.
fn parse(header: &[u8], at: u64, parent_end: u64) -> Option<Element> {
    let kind = header.get(4..8).filter(|_| parent_end.saturating_sub(at) >= 8)?;
    let (len, header_len) = match bytes::big(&header[..4]) {
        // The box extends to the end of its parent.
        0 => (parent_end - at, 8),
        1 if header.len() == 16 => (bytes::big(&header[8..]), 16),
        len => (len, 8),
    };
    (len >= header_len).then(|| Element { kind: bytes::big(kind), body: at + header_len, end: at.saturating_add(len) })
}

/// Returns a four-letter name.
fn name(letters: &[u8]) -> String {
    String::from_utf8_lossy(letters).trim_end().to_owned()
}

/// Returns the length in the header of a movie or track.
fn length(body: &[u8]) -> String {
    // Version 1 has 64-bit times.
    let (scale, units) = match body.first() {
        Some(1) => (big_at(body, 20, 4), big_at(body, 24, 8)),
        _ => (big_at(body, 12, 4), big_at(body, 16, 4)),
    };
    if scale == 0 { String::new() } else { clock(u128::from(units) * 10 / u128::from(scale)) }
}

impl Track {
    /// Adds the content of a box of the track.
    fn add(&mut self, kind: &[u8], body: &[u8]) {
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
            // The first sample description follows version and count: its length, its codec, eight
            // bytes, and fields that depend on the kind.
            _ => {
                self.codec = name(body.get(12..16).unwrap_or_default());
                self.detail = match self.kind.as_str() {
                    "video" => format!("{} × {}", big_at(body, 40, 2), big_at(body, 42, 2)),
                    "audio" => format!("{} Hz, {} channels", big_at(body, 40, 2), big_at(body, 32, 2)),
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

    fn track(kind: &[u8; 4], codec: &[u8; 4], at: usize, detail: [u16; 2]) -> Vec<u8> {
        let mut handler = vec![0; 8];
        handler.extend(kind);
        let mut description = vec![0; 48];
        description[12..16].copy_from_slice(codec);
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
    fn tracks_are_described() {
        let table = describe(&MemorySource::new(film())).unwrap();
        assert_eq!(table.format, "MP4");
        assert_eq!(table.facts, [("brand".to_owned(), "isom".to_owned()), ("length".to_owned(), "1:01.5".to_owned())]);
        assert_eq!(table.rows, [["video", "avc1", "1920 × 1080", "1:01.5"], ["audio", "mp4a", "48000 Hz, 2 channels", "1:01.5"]]);
    }

    #[test]
    fn damaged_boxes_never_panic() {
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
        // Deeply nested boxes without an end.
        let deep = [boxed(b"ftyp", b"isom"), b"\0\0\0\0moov".repeat(5_000)].concat();
        assert!(describe(&MemorySource::new(deep)).unwrap().rows.is_empty());
    }
}
