use std::io::Write;
use std::num::NonZero;

use proptest::prelude::*;

use super::*;
use nra_core::archive::OpenOptions;
use nra_core::error::Error;

fn stream(bytes: Vec<u8>) -> Input {
    Input::new(ReaderStream::new(std::io::Cursor::new(bytes), "test"), 0)
}

fn encode(compression: Compression, content: &[u8]) -> Vec<u8> {
    let level = Level::default_of(compression);
    let mut encoder = Encoder::new(Vec::new(), compression, level, NonZero::new(2).unwrap());
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
    let (compression, mut stream) = decode(stream(bytes), NonZero::new(2).unwrap(), 1 << 20)?;
    Ok((compression, read_all(&mut stream)?))
}

const WRITTEN: [Compression; 5] = [Compression::Gzip, Compression::Zstd, Compression::Xz, Compression::Bzip2, Compression::Lz4];

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|number| b"abcdefghij klmnop\n"[(number * number / 7) % 18]).collect()
}

#[test]
fn encoded_content_is_decoded() {
    for compression in WRITTEN {
        for len in [0, 1, 3_000_000] {
            let content = text(len);
            let encoded = encode(compression, &content);
            assert_eq!(decode_all(encoded).unwrap(), (Some(compression), content), "{compression:?} {len}");
        }
    }
}

#[test]
fn members_and_zero_padding_are_decoded_as_one_stream() {
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
fn trailing_data_is_remarked() {
    for compression in WRITTEN {
        let member = encode(compression, b"content");
        let at = member.len() as u64;
        let mut decoder = Decoder::new(compression, stream([member, b"junk".to_vec()].concat()));
        assert_eq!(read_all(&mut decoder).unwrap(), b"content");
        assert_eq!(decoder.trailing, Some(at), "{compression:?}");
        assert!(decoder.remark().is_some(), "{compression:?}");
    }
}

#[test]
fn every_truncation_is_detected() {
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
fn every_damage_of_content_is_detected() {
    for compression in WRITTEN {
        let content: Vec<u8> = text(5_000);
        let encoded = encode(compression, &content);
        for at in 0..encoded.len() {
            let mut damaged = encoded.clone();
            damaged[at] ^= 0x10;
            let mut decoder = Decoder::new(compression, stream(damaged));
            // Header fields without influence on the content may change.
            if let Ok(found) = read_all(&mut decoder) {
                assert!(found == content || decoder.remark().is_some(), "{compression:?} at {at}");
            }
        }
    }
}

#[test]
fn content_before_a_wrong_checksum_is_returned() {
    let content = text(300_000);
    // Final bytes that contain only checksums and lengths.
    for (compression, last) in [
        (Compression::Gzip, 1..=8),
        (Compression::Zstd, 1..=4),
        (Compression::Xz, 1..=30),
        // The last byte may contain padding bits only.
        (Compression::Bzip2, 2..=4),
        (Compression::Lz4, 1..=4),
    ] {
        for from_end in last {
            let mut damaged = encode(compression, &content);
            let at = damaged.len() - from_end;
            damaged[at] ^= 4;
            let mut decoder = Decoder::new(compression, stream(damaged));
            let (mut found, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
            let end = loop {
                match decoder.read(&mut buffer) {
                    Ok(0) => break Ok(()),
                    Ok(len) => found.extend_from_slice(&buffer[..len]),
                    Err(error) => break Err(error),
                }
            };
            assert!(found == content && end.is_err(), "{compression:?} at {at}: {} bytes", found.len());
        }
    }
}

/// Cancels the work from the start.
struct Stopped;

impl nra_core::progress::Monitor for Stopped {
    fn warn(&self, _: nra_core::progress::Warning) {}
    fn cancelled(&self) -> bool {
        true
    }
}

#[test]
fn cancelled_encoder_does_not_wait_for_its_threads() {
    // Content that takes xz seconds.
    let mut encoder = Encoder::new(Vec::new(), Compression::Xz, Level::new(Compression::Xz, 9).unwrap(), NonZero::<usize>::MIN);
    let mut run = vec![0; 24 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut run);
    encoder.write_all(&run).unwrap();
    let Err(error) = encoder.with_monitor(&Stopped).finish() else { panic!("it is cancelled") };
    assert!(matches!(Error::io("write", "it", error), Error::Cancelled));
}

#[test]
fn decoding_restarts_at_a_member() {
    let content = text(5 << 20);
    let encoded = encode(Compression::Gzip, &content);
    let mut decoder = Decoder::new(Compression::Gzip, stream(encoded.clone()));
    assert_eq!(read_all(&mut decoder).unwrap(), content);
    let points = decoder.restart_points().to_vec();
    assert_eq!(points.len(), 5);
    let RestartPoint { decoded, stored } = points[3];
    let from = |offset: u64| usize::try_from(offset).unwrap();
    let mut later = Decoder::new(Compression::Gzip, stream(encoded[from(stored)..].to_vec()));
    assert_eq!(read_all(&mut later).unwrap(), content[from(decoded)..]);
}

fn skippable(len: u32) -> Vec<u8> {
    [&[0x5a, 0x2a, 0x4d, 0x18][..], &len.to_le_bytes(), &vec![7; len as usize]].concat()
}

#[test]
fn skippable_frames_have_no_content() {
    let content = text(3_000_000);
    for compression in [Compression::Zstd, Compression::Lz4] {
        let frames = encode(compression, &content);
        for len in [0, 5, 1_000] {
            for bytes in [
                [skippable(len), frames.clone()].concat(),
                [skippable(len), skippable(3), frames.clone()].concat(),
                [frames.clone(), skippable(len)].concat(),
                [frames.clone(), skippable(len), frames.clone()].concat(),
            ] {
                let (found, decoded) = decode_all(bytes).unwrap();
                assert!(found == Some(compression) && decoded.chunks(content.len()).all(|part| part == content), "{len}");
            }
        }
    }
    // A stream of skippable frames only.
    assert_eq!(decode_all(skippable(9)).unwrap(), (Some(Compression::Zstd), Vec::new()));
    assert!(decode_all(skippable(9)[..10].to_vec()).is_err());
}

#[test]
fn blocks_past_an_empty_member_are_empty() {
    let content = text(3_000_000);
    for compression in WRITTEN {
        let mut empty = encode(compression, b"");
        if compression == Compression::Zstd {
            empty.extend(skippable(5));
        }
        let bytes = [encode(compression, &content), empty].concat();
        let source = std::sync::Arc::new(nra_core::source::MemorySource::new(bytes));
        // No cache, so that decoding restarts for each block.
        let options = OpenOptions { cache_bytes: 0, stream_ratio: 1_000, ..OpenOptions::default() };
        let blocks = Blocks::new(source, compression, &options);
        for _ in 0..2 {
            for number in [0, 3, 2, 3, 1, 3, 4] {
                let start = content.len().min(number * BLOCK);
                let end = content.len().min(start + BLOCK);
                assert!(*blocks.block(number as u64).unwrap() == content[start..end], "{compression:?} {number}");
            }
        }
    }
}

/// Counts the bytes that are read.
struct Reads(nra_core::source::MemorySource, std::sync::atomic::AtomicU64);

impl nra_core::source::ReadAt for Reads {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn name(&self) -> &[u8] {
        self.0.name()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.1.fetch_add(buffer.len() as u64, std::sync::atomic::Ordering::Relaxed);
        self.0.read_exact_at(offset, buffer)
    }
}

#[test]
fn blocks_past_the_end_need_no_decoding() {
    let content = text(3_000_000);
    for compression in WRITTEN {
        let bytes = encode(compression, &content);
        let len = bytes.len() as u64;
        let source = std::sync::Arc::new(Reads(nra_core::source::MemorySource::new(bytes), Default::default()));
        let options = OpenOptions { cache_bytes: 0, stream_ratio: 1_000, ..OpenOptions::default() };
        let blocks = Blocks::new(std::sync::Arc::clone(&source) as _, compression, &options);
        let read: usize = (0..9).map(|number| blocks.block(number).unwrap().len()).sum();
        assert_eq!((read, source.1.load(std::sync::atomic::Ordering::Relaxed)), (content.len(), len), "{compression:?}");
    }
}

#[test]
fn legacy_lz4_files_are_decoded() {
    let content = text(20 << 20);
    let mut bytes = Vec::new();
    for part in [&content[..9 << 20], &content[9 << 20..]] {
        bytes.extend(legacy::MAGIC);
        for block in part.chunks(8 << 20) {
            let stored = lz4_flex::block::compress(block);
            bytes.extend(u32::try_from(stored.len()).unwrap().to_le_bytes());
            bytes.extend(stored);
        }
    }
    assert!(decode_all(bytes.clone()).unwrap() == (Some(Compression::Lz4), content.clone()));
    assert!(decode_all([bytes.clone(), encode(Compression::Lz4, b"end")].concat()).unwrap().1.ends_with(b"end"));
    for cut in [1, 1_000] {
        assert!(matches!(decode_all(bytes[..bytes.len() - cut].to_vec()), Err(Error::Corrupt { .. })));
    }
    assert_eq!(decode_all(legacy::MAGIC.to_vec()).unwrap().1, b"");
}

#[test]
fn read_ahead_returns_content_and_then_the_error() {
    let content = text(1_000_000);
    let mut encoded = encode(Compression::Gzip, &content);
    let recorder = nra_core::progress::Recorder::default();
    for cut in [false, true] {
        if cut {
            encoded.pop();
        }
        let mut ahead = ReadAhead::new(Decoder::new(Compression::Gzip, stream(encoded.clone()))).unwrap();
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

#[test]
fn thread_bytes_grow_with_the_level() {
    // Memory grows with the level, and the tables of xz are limited by the run.
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Xz, Compression::Bzip2, Compression::Lz4] {
        let bytes: Vec<u64> =
            Level::all(compression).map(|level| thread_bytes(compression, Level::new(compression, level).unwrap())).collect();
        assert!(bytes.is_sorted(), "{compression:?}: {bytes:?}");
        assert!(bytes.iter().all(|&bytes| (1 << 20..400 << 20).contains(&bytes)), "{compression:?}: {bytes:?}");
    }
}
