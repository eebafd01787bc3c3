use std::io::{Cursor, Write};

use lzma_rust2::{XzOptions, XzWriter};

use super::*;
use crate::{ByteStream, Decoder, ReaderStream};

/// Returns a stream with a single block whose header does not contain its lengths.
fn plain(content: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// Returns a stream with a single block whose header contains its lengths.
fn one(content: &[u8]) -> Vec<u8> {
    with_lengths(plain(content), content.len() as u64)
}

/// Joins the blocks of several streams into one.
fn joined(ones: &[Vec<u8>]) -> Vec<u8> {
    let mut end = StreamEnd::default();
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    let flags = Flags::parse(&ones[0]).unwrap();
    for one in ones {
        let block = Block::new(flags, &BlockHeader::parse(&one[HEADER..]).unwrap());
        bytes.extend_from_slice(&one[HEADER..HEADER + usize::try_from(block.stored()).unwrap()]);
        end.add(block.unpadded, block.raw);
        records.extend(end.last_record());
    }
    let mut index = [&[0, u8::try_from(ones.len()).unwrap()][..], &records].concat();
    index.resize(index.len().next_multiple_of(4), 0);
    [flags.header(), bytes, index, end.checksum_and_footer(flags)].concat()
}

/// Returns a stream of several blocks.
fn stream(contents: &[&[u8]]) -> Vec<u8> {
    joined(&contents.iter().map(|content| one(content)).collect::<Vec<_>>())
}

/// Returns the decoded content, and the remark or error.
fn decoded(bytes: &[u8], threads: usize, memory_bytes: u64) -> (Vec<u8>, Option<String>) {
    let input = Input::new(ReaderStream::new(Cursor::new(bytes.to_vec()), "test"), 0);
    let mut decoder = Decoder::new(Compression::Xz, input).with_threads(NonZero::new(threads).unwrap(), memory_bytes);
    let (mut found, mut buffer) = (Vec::new(), vec![0; 10_000]);
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => return (found, decoder.remark()),
            Ok(len) => found.extend_from_slice(&buffer[..len]),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|number| b"abcdefghij klmnop\n"[(number * number / 7) % 18]).collect()
}

#[test]
fn with_lengths_changes_only_the_block_header() {
    let content = text(50_000);
    let one = one(&content);
    let mut found = Vec::new();
    std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(&one[..], false), &mut found).unwrap();
    assert_eq!(found, content);
    let header = BlockHeader::parse(&one[HEADER..]).unwrap();
    assert_eq!((header.raw, header.dictionary), (50_000, 256 << 10));
    // Streams with lengths and streams without a block are unchanged.
    assert_eq!(with_lengths(one.clone(), 1), one);
    let empty = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).unwrap().finish().unwrap();
    assert_eq!(with_lengths(empty.clone(), 0), empty);
}

#[test]
fn blocks_are_decoded_in_order_within_any_memory_limit() {
    let content = text(800_000);
    let parts = [&content[..10_000], &content[10_000..10_001], &content[10_001..700_000], &content[700_000..]];
    let bytes = [stream(&parts), vec![0; 8], stream(&parts[1..2]), one(&[]), stream(&parts[..2])].concat();
    let expected = [&content[..], parts[1], parts[0], parts[1]].concat();
    // Sequentially, with a block that exceeds the limit, and in parallel.
    for (threads, memory) in [(1, 0), (2, 0), (2, 700_000), (3, 3_000_000), (4, 64 << 20)] {
        let (found, wrong) = decoded(&bytes, threads, memory);
        assert!(found == expected && wrong.is_none(), "{threads} {memory}: {} {wrong:?}", found.len());
    }
}

/// Returns a stream whose block declares `raw` bytes of content, but contains only `content`,
/// followed by the end of a stream.
fn ending_early(content: &[u8], raw: u64) -> Vec<u8> {
    let header_len = |stream: &[u8]| (u64::from(stream[HEADER]) + 1) * 4;
    let plain = plain(content);
    let honest = with_lengths(plain.clone(), content.len() as u64);
    let flags = Flags::parse(&plain).unwrap();
    let data_and_check = BlockHeader::parse(&honest[HEADER..]).unwrap().unpadded(flags) - header_len(&honest);
    let end = HEADER + usize::try_from((header_len(&plain) + data_and_check).next_multiple_of(4)).unwrap();
    let around = |header_len: u64| {
        let end_within = StreamEnd::of_block(header_len + data_and_check, content.len() as u64, flags);
        let block = [&plain[..end], &end_within].concat();
        let unpadded = (block.len() - HEADER) as u64;
        with_lengths([block, StreamEnd::of_block(unpadded, raw, flags)].concat(), raw)
    };
    // The inner end depends on the length of the header.
    around(header_len(&around(header_len(&honest))))
}

#[test]
fn no_more_is_decoded_than_declared() {
    let bytes = with_lengths(plain(&vec![0; 3_000_000]), 1_000);
    let flags = Flags::parse(&bytes).unwrap();
    let block = Block::new(flags, &BlockHeader::parse(&bytes[HEADER..]).unwrap());
    let DecodedJob { content, error } =
        decode(Job { stored: bytes[HEADER..].to_vec(), blocks: vec![(12, block)], ..Job::default() }, &|| false);
    assert!(content == [0; 1_000] && content.capacity() < 5_000, "{} {}", content.len(), content.capacity());
    assert!(error.unwrap().to_string().contains("do not match its header"));
    // The same with an empty block.
    assert!(decoded(&with_lengths(plain(b"x"), 0), 2, 64 << 20).1.unwrap().contains("do not match its header"));
}

#[test]
fn block_with_wrong_lengths_is_damaged() {
    let content = text(3_000_000);
    let good = one(&content);
    for (wrong, given) in [
        (with_lengths(plain(&content), 2_999_999), 2_999_999),
        (with_lengths(plain(&content), 3_000_001), 3_000_000),
        (ending_early(b"a", 10 << 20), 1),
        (ending_early(&content[..1_000], 1_000), 1_000),
    ] {
        // After another block, and at the start. More streams follow.
        let streams = [
            (joined(&[one(&content[..1_000]), wrong.clone(), good.clone()]), 1_000),
            ([&wrong[..], &good, &plain(b"end")].concat(), 0),
        ];
        for (bytes, before) in streams {
            for memory in [700_000, 64 << 20] {
                let (found, error) = decoded(&bytes, 2, memory);
                assert!(error.is_some(), "{given} {before} {memory}");
                assert!(found.len() <= before + given || memory == 700_000, "{given} {before} {memory}: {}", found.len());
            }
        }
    }
}

#[test]
fn short_blocks_are_sent_together() {
    let hello = one(b"hello");
    let many = joined(&vec![hello.clone(); 100]);
    let mut input = Input::new(ReaderStream::new(Cursor::new(many.clone()), "test"), 0);
    let limits = DecodeLimits { threads: NonZero::new(2).unwrap(), memory_bytes: 64 << 20 };
    let mut blocks = XzBlocks::start(&mut input, 0, limits, &mut None).unwrap().unwrap();
    let mut job = Job::default();
    assert!(blocks.gather(&mut input, &mut job).unwrap());
    assert_eq!((job.blocks.len(), job.dictionary), (100, 256 << 10));
    assert_eq!(decode(job, &|| false).content, b"hello".repeat(100));
    // Streams with and without lengths alternate and share the threads.
    let bytes = [many, plain(b"between"), hello].concat().repeat(50);
    let expected = [&b"hello".repeat(100)[..], b"between", b"hello"].concat().repeat(50);
    assert!(decoded(&bytes, 2, 64 << 20) == (expected, None));
}

#[test]
fn decoding_ends_when_the_pool_is_stopped() {
    let bytes = one(&text(3_000_000));
    let flags = Flags::parse(&bytes).unwrap();
    let block = Block::new(flags, &BlockHeader::parse(&bytes[HEADER..]).unwrap());
    let job = Job { stored: bytes[HEADER..].to_vec(), blocks: vec![(12, block)], ..Job::default() };
    let DecodedJob { content, error } = decode(job, &|| true);
    assert!(content.is_empty() && matches!(error, Some(Error::Cancelled)));
}

#[test]
fn restart_points_appear_after_all_preceding_content() {
    let content = text(2_000_000);
    let one = one(&content);
    let input = Input::new(ReaderStream::new(Cursor::new(one.repeat(3)), "test"), 0);
    let mut decoder = Decoder::new(Compression::Xz, input).with_threads(NonZero::new(4).unwrap(), 64 << 20);
    let (mut decoded, mut buffer) = (0, vec![0; 300_000]);
    loop {
        let len = decoder.read(&mut buffer).unwrap();
        let points = decoder.restart_points();
        assert!(points.iter().all(|point| point.decoded <= decoded), "{decoded}: {points:?}");
        if len == 0 {
            break;
        }
        decoded += len as u64;
    }
    let stored = one.len() as u64;
    let expected = [0, 1, 2].map(|number| RestartPoint { decoded: 2_000_000 * number, stored: stored * number });
    assert_eq!(decoder.restart_points(), expected);
}

#[test]
fn parallel_decoding_detects_the_same_damage() {
    let content = text(3_000);
    let bytes = [stream(&[&content[..1_000], &content[1_000..1_500]]), stream(&[&content[1_500..]])].concat();
    let check = |bytes: &[u8], what: &str| {
        let (found, wrong) = decoded(bytes, 2, 64 << 20);
        let (expected, in_order) = decoded(bytes, 1, 0);
        assert_eq!(wrong.is_some(), in_order.is_some(), "{what}: {wrong:?} {in_order:?}");
        assert!(content.starts_with(&found), "{what}");
        if what.starts_with("truncated") {
            // A truncation does not affect the preceding content.
            let is_truncated = |wrong: &Option<String>| wrong.as_ref().is_some_and(|wrong| wrong.contains(TRUNCATED));
            assert_eq!(is_truncated(&wrong), is_truncated(&in_order), "{what}: {wrong:?} {in_order:?}");
        }
        // No less valid content than sequential decoding.
        assert!(found.len() >= expected.len(), "{what}: {} {}", found.len(), expected.len());
    };
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x11;
        check(&damaged, &format!("changed at {at}"));
        check(&bytes[..at], &format!("truncated at {at}"));
    }
}
