use std::io::Write;
use std::num::NonZero;

use proptest::prelude::*;

use super::*;
use crate::format::error::Error;

fn stream(bytes: Vec<u8>) -> Input {
    Input::new(ReaderStream::new(std::io::Cursor::new(bytes), "test"), 0)
}

fn encode(compression: Compression, content: &[u8]) -> Vec<u8> {
    let level = Level::default_of(compression);
    let mut encoder = Encoder::new(Vec::new(), compression, level, NonZero::new(2).unwrap()).unwrap();
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn read_all(stream: &mut dyn ByteStream) -> Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 10_000]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(all),
            len => all.extend_from_slice(&buffer[..len]),
        }
    }
}

fn decode_all(bytes: Vec<u8>) -> Result<(Option<Compression>, Vec<u8>)> {
    let (compression, mut stream) = decode(stream(bytes))?;
    Ok((compression, read_all(&mut stream)?))
}

const WRITTEN: [Compression; 5] = [Compression::Gzip, Compression::Zstd, Compression::Xz, Compression::Bzip2, Compression::Lz4];

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|number| b"abcdefghij klmnop\n"[(number * number / 7) % 18]).collect()
}

#[test]
fn what_is_written_is_read() {
    for compression in WRITTEN {
        for len in [0, 1, 3_000_000] {
            let content = text(len);
            let encoded = encode(compression, &content);
            assert_eq!(decode_all(encoded).unwrap(), (Some(compression), content), "{compression:?} {len}");
        }
    }
}

#[test]
fn members_follow_each_other_and_zeros_follow_them() {
    for compression in WRITTEN {
        let member = encode(compression, b"one ");
        let mut bytes = [member.clone(), encode(compression, b"two")].concat();
        bytes.extend([0; 3_000]);
        assert_eq!(decode_all(bytes).unwrap().1, b"one two", "{compression:?}");
        let padded = [member.clone(), vec![0; 4], member].concat();
        assert_eq!(decode_all(padded).unwrap().1, b"one one ", "{compression:?}");
    }
}

#[test]
fn junk_behind_the_stream_is_told() {
    for compression in WRITTEN {
        let member = encode(compression, b"content");
        let at = member.len() as u64;
        let mut decoder = Decoder::new(compression, stream([member, b"junk".to_vec()].concat()));
        assert_eq!(read_all(&mut decoder).unwrap(), b"content");
        assert_eq!(decoder.junk(), Some(at), "{compression:?}");
    }
}

#[test]
fn every_cut_is_found() {
    for compression in WRITTEN {
        let encoded = encode(compression, &text(5_000));
        for len in 1..encoded.len() {
            let mut decoder = Decoder::new(compression, stream(encoded[..len].to_vec()));
            let error = read_all(&mut decoder).expect_err(&format!("{compression:?} cut at {len} of {}", encoded.len()));
            assert!(matches!(error, Error::Corrupt { .. }), "{compression:?} {len}: {error}");
        }
    }
}

#[test]
fn a_wrong_checksum_is_found() {
    for compression in WRITTEN {
        let content: Vec<u8> = text(5_000);
        let encoded = encode(compression, &content);
        for at in 0..encoded.len() {
            let mut damaged = encoded.clone();
            damaged[at] ^= 0x10;
            let mut decoder = Decoder::new(compression, stream(damaged));
            // Header fields that say nothing about the content may change; content never does.
            if let Ok(found) = read_all(&mut decoder) {
                assert!(found == content || decoder.junk().is_some(), "{compression:?} at {at}");
            }
        }
    }
}

#[test]
fn members_are_places_to_begin_at() {
    let content = text(5 << 20);
    let encoded = encode(Compression::Gzip, &content);
    let mut decoder = Decoder::new(Compression::Gzip, stream(encoded.clone()));
    assert_eq!(read_all(&mut decoder).unwrap(), content);
    let marks = decoder.marks().to_vec();
    assert_eq!(marks.len(), 5);
    let Mark { decoded, stored } = marks[3];
    let from = |offset: u64| usize::try_from(offset).unwrap();
    let mut later = Decoder::new(Compression::Gzip, stream(encoded[from(stored)..].to_vec()));
    assert_eq!(read_all(&mut later).unwrap(), content[from(decoded)..]);
}

#[test]
fn reading_ahead_gives_the_same_and_then_the_error() {
    let content = text(1_000_000);
    let mut encoded = encode(Compression::Gzip, &content);
    let recorder = crate::format::progress::Recorder::default();
    for cut in [false, true] {
        if cut {
            encoded.pop();
        }
        let mut ahead = Ahead::new(Decoder::new(Compression::Gzip, stream(encoded.clone()))).unwrap();
        let mut found = Vec::new();
        let end = loop {
            match ahead.peek(&recorder) {
                Ok([]) => break Ok(()),
                Ok(bytes) => {
                    found.extend_from_slice(bytes);
                    let len = bytes.len();
                    ahead.consume(len);
                }
                Err(error) => break Err(error),
            }
        };
        assert_eq!(found, content);
        assert_eq!(end.is_err(), cut);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(kind in 0..6usize, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let compression = Compression::ALL[kind];
        let start: &[u8] = match compression {
            Compression::Gzip => &[0x1f, 0x8b, 8, 0],
            Compression::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
            Compression::Xz => b"\xfd7zXZ\0",
            Compression::Bzip2 => b"BZh91AY&SY",
            Compression::Lz4 => &[0x04, 0x22, 0x4d, 0x18],
            Compression::Lzma => &[0x5d, 0, 0, 0x80, 0],
        };
        let mut decoder = Decoder::new(compression, stream([start, &bytes].concat()));
        let _ = read_all(&mut decoder);
    }
}
