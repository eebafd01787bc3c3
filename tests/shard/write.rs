//! Writing: files that are the same, byte for byte, as those of other programs.

use std::io::Cursor;

use nra::format::shard::{Compression, Dialect, Layout, NewEntry, Role, Shard, ShardWriter, Style, flags};

use crate::{bytes, expected, open};

/// Content that each writer compressed in its own way and that no library here compresses to the same bytes.
const OTHER_ENCODER: [&str; 4] = ["go_lz4.shard", "go_zstd.shard", "go_stream_lz4.shard", "go_stream_zstd.shard"];
/// A name twice, which is refused here.
const DUPLICATES: [&str; 2] = ["py_duplicates.shard", "go_duplicates.shard"];

fn requested(shard: &Shard, at: usize) -> Option<Compression> {
    match shard.entries()[at].flags & (flags::ENTRY_ZSTD | flags::ENTRY_LZ4) {
        flags::ENTRY_ZSTD => Some(Compression::Zstd),
        flags::ENTRY_LZ4 => Some(Compression::Lz4),
        _ => None,
    }
}

/// Writes what a file holds again.
fn again(shard: &Shard, style: Style, layout: Layout) -> nra::format::Result<Vec<u8>> {
    let mut writer = ShardWriter::create(Cursor::new(Vec::new()), style, layout)?;
    for (at, entry) in shard.entries().iter().enumerate() {
        let content = shard.read(at, u64::MAX)?;
        writer.add(NewEntry {
            name: shard.name(at),
            content: &content,
            compression: requested(shard, at),
            content_type: entry.content_type,
            tags: entry.tags,
        })?;
    }
    Ok(writer.finish(shard.metadata()?.as_deref())?.into_inner())
}

fn names(shard: &Shard) -> Layout {
    Layout::Names((0..shard.entries().len()).map(|at| shard.name(at).into()).collect())
}

#[test]
fn dialects_give_the_bytes_of_their_models() {
    let mut same = 0;
    for (name, _) in expected() {
        let dialect = match name.get(..3) {
            Some("go_") => Dialect::Go,
            Some("py_") => Dialect::Python,
            _ => continue,
        };
        let shard = open(&name).unwrap();
        let header = *shard.header();
        let layout = match header.flags & flags::STREAMING {
            0 => names(&shard),
            // Head, and a record and 64 bytes for each expected entry.
            _ => Layout::Streaming(u32::try_from((header.data_offset - 64) / (48 + 64)).unwrap()),
        };
        let default = Compression::from_number(header.compression_default);
        let style = Style::new(dialect, header.role, header.alignment, default, &layout);
        let written = again(&shard, style, layout);
        if DUPLICATES.contains(&name.as_str()) {
            assert_eq!(written.unwrap_err().to_string(), "name a is given twice");
            continue;
        }
        let written = written.unwrap_or_else(|error| panic!("{name}: {error}"));
        if OTHER_ENCODER.contains(&name.as_str()) {
            let written = Shard::open(std::sync::Arc::new(nra::format::source::MemorySource::new(written))).unwrap();
            for at in 0..shard.entries().len() {
                assert_eq!(written.read(at, u64::MAX).unwrap(), shard.read(at, u64::MAX).unwrap(), "{name}, entry {at}");
            }
            continue;
        }
        assert_eq!(written, bytes(&name), "{name}");
        same += 1;
    }
    assert!(same > 45, "{same} files");
}

fn writer(layout: Layout) -> nra::format::Result<ShardWriter<Cursor<Vec<u8>>>> {
    let style = Style::new(Dialect::Go, Role::SAMPLES, 16, None, &layout);
    ShardWriter::create(Cursor::new(Vec::new()), style, layout)
}

fn plain<'a>(name: &'a [u8], content: &'a [u8]) -> NewEntry<'a> {
    NewEntry { name, content, compression: None, content_type: 0, tags: 0 }
}

#[test]
fn an_unfinished_file_does_not_open() {
    let mut file = tempfile::tempfile().unwrap();
    let layout = Layout::Streaming(10);
    let style = Style::new(Dialect::Go, Role::MODEL, 64, None, &layout);
    let mut writer = ShardWriter::create(&mut file, style, layout).unwrap();
    writer.add(plain(b"a", b"content")).unwrap();
    drop(writer);
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).unwrap();
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    assert!(!bytes.is_empty() && !Shard::is_magic(&bytes));
}

#[test]
fn entries_in_pieces_are_those_in_one() {
    let content = b"some content in two pieces";
    let mut whole = writer(Layout::Streaming(2)).unwrap();
    whole.add(plain(b"a", content)).unwrap();
    let mut pieces = writer(Layout::Streaming(2)).unwrap();
    pieces.begin(b"a", 0, 0).unwrap();
    pieces.write(&content[..7]).unwrap();
    pieces.write(&content[7..]).unwrap();
    pieces.end().unwrap();
    assert_eq!(whole.finish(None).unwrap().into_inner(), pieces.finish(None).unwrap().into_inner());
}

#[test]
fn what_has_no_room_is_refused() {
    assert!(writer(Layout::Streaming(1_000_000)).is_err(), "readers would refuse the gap");
    let mut small = writer(Layout::Streaming(1)).unwrap();
    assert!(small.add(plain(&[b'n'; 70_000], b"")).is_err(), "a name of more than 16 bits");
    assert!(small.add(plain(&[b'n'; 200], b"")).is_err(), "a name that does not fit the room");
    small.add(plain(b"a", b"")).unwrap();
    assert!(small.add(plain(b"b", b"")).is_err(), "an entry too many");
    let mut announced = writer(Layout::Names(vec![b"a"[..].into(), b"b"[..].into()])).unwrap();
    assert!(announced.add(plain(b"b", b"")).is_err(), "not the one announced");
    announced.add(plain(b"a", b"")).unwrap();
    assert!(announced.finish(None).is_err(), "one is missing");
    let style = |alignment| Style::new(Dialect::Go, Role::MODEL, alignment, None, &Layout::Streaming(1));
    assert!(ShardWriter::create(Cursor::new(Vec::new()), style(7), Layout::Streaming(1)).is_err());
}
