//! Writing: files that are the same, byte for byte, as those of other programs.

use std::io::Cursor;

use nra::format::shard::{Compression, Dialect, Layout, Marks, NewEntry, Role, Shard, ShardWriter, Style, flags};

use crate::{bytes, expected, open};

/// Content that each writer compressed in its own way and that no library here compresses to the same bytes.
const OTHER_ENCODER: [&str; 4] = ["go_lz4.shard", "go_zstd.shard", "go_stream_lz4.shard", "go_stream_zstd.shard"];
/// A name twice, which is refused here.
const DUPLICATES: [&str; 2] = ["py_duplicates.shard", "go_duplicates.shard"];

/// The Python writer of `.wshard` takes a slower encoder for LZ4.
const NOT_REPEATED: [&str; 1] = ["wpy_lz4.wshard"];
/// Files with something in them that has no meaning, which is kept all the same.
const MEANINGLESS: [&str; 4] = [
    "corrupt/reserved_nonzero.shard",
    "corrupt/compression_default_9.shard",
    "corrupt/lz4_unknown_flag_bits.shard",
    "corrupt/zstd_unknown_flag_bits.shard",
];

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
            marks: Marks { content_type: entry.content_type, tags: entry.tags, flags: entry.flags },
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
            _ => Layout::Streaming(Layout::expected(header.data_offset)),
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
    NewEntry { name, content, compression: None, marks: Marks::default() }
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
    pieces.begin(b"a", Marks::default()).unwrap();
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

/// Writes all entries of `archive` to another archive.
fn convert_to(
    archive: &dyn nra::format::archive::Archive,
    target: nra::convert::target::Target,
    output: &std::path::Path,
    monitor: &nra::format::progress::Recorder,
) -> nra::format::Result<()> {
    use nra::convert::select::Selection;
    use nra::convert::{Destination, Options, Sink, Source, convert};

    let sink = Sink::Archive(Destination::new_file(output), target.format(output));
    let options = Options { sync: false, ..Options::default() };
    convert(Source::Archive(archive, &Selection::all()), sink, &options, monitor).map(drop)
}

/// What each file becomes by way of an archive of NRA 5 and back.
#[test]
fn files_come_back_from_nra_with_the_same_bytes() {
    use nra::convert::target::{Target, target_of};
    use nra::format::archive::{Archive, OpenOptions, open_path};
    use nra::format::progress::Recorder;

    let open = |path: &std::path::Path| open_path(path, &OpenOptions::default()).map(std::sync::Arc::<dyn Archive>::from);
    let folder = tempfile::tempdir().unwrap();
    let monitor = Recorder::default();
    let mut same = 0;
    for (name, _) in expected() {
        let original = folder.path().join("original");
        std::fs::write(&original, bytes(&name)).unwrap();
        let (nra, back) = (folder.path().join("a.nra"), folder.path().join("b.shard"));
        // Damaged files are told and break nothing.
        let is_odd = name.starts_with("corrupt/") || name.starts_with("quirks/");
        let is_odd = is_odd && !MEANINGLESS.contains(&name.as_str());
        let Ok(archive) = open(&original) else {
            assert!(is_odd, "{name}");
            continue;
        };
        if let Err(error) = convert_to(&*archive, Target::Nra, &nra, &monitor) {
            assert!(is_odd, "{name}: {error}");
            continue;
        }
        // Under a name of the same ending.
        let kind = target_of(std::path::Path::new(&name)).unwrap();
        monitor.take_warnings();
        convert_to(&*open(&nra).unwrap(), kind, &back, &monitor).unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_same = std::fs::read(&back).unwrap() == bytes(&name);
        let is_told = monitor.take_warnings().iter().any(|warning| warning.message.contains("has other bytes than"));
        assert!(!(is_same && is_told), "{name}");
        let is_excused = is_odd || [&OTHER_ENCODER[..], &DUPLICATES, &NOT_REPEATED].concat().contains(&name.as_str());
        assert!(is_same || is_excused, "{name}");
        same += u32::from(is_same);
        std::fs::remove_file(nra).unwrap();
        std::fs::remove_file(back).unwrap();
    }
    assert!(same > 65, "{same} files");
}

/// What is not written again is told: by the file itself, or on the way back.
#[test]
fn other_bytes_are_told() {
    use nra::convert::target::Target;
    use nra::format::archive::{Archive, OpenOptions, open_path};
    use nra::format::progress::Recorder;

    let whole = bytes("go_basic_a64.shard");
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    let count = u32::from_le_bytes(whole[12..16].try_into().unwrap()) as usize;
    let data = usize::try_from(number(24)).unwrap();
    let put = |bytes: &mut Vec<u8>, at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let mut behind = [&whole[..], b"junk"].concat();
    put(&mut behind, 40, whole.len() as u64 + 4);
    let mut unchecked = whole.clone();
    unchecked[6] &= !0x20;
    for record in 0..count {
        unchecked[64 + 48 * record + 40..][..4].fill(0);
    }
    let mut packed = whole.clone();
    packed[8] = 8;
    let mut hash = whole.clone();
    put(&mut hash, 64, 1);
    let mut gap = [&whole[..data], &[0; 64], &whole[data..]].concat();
    put(&mut gap, 24, data as u64 + 64);
    put(&mut gap, 40, whole.len() as u64 + 64);
    for record in 0..count {
        let at = 64 + 48 * record + 16;
        put(&mut gap, at, number(at) + 64);
    }
    let folder = tempfile::tempdir().unwrap();
    let open =
        |path: &std::path::Path| open_path(path, &OpenOptions::default()).map(std::sync::Arc::<dyn Archive>::from).unwrap();
    for (what, file) in [
        ("nothing", whole.clone()),
        ("behind", behind),
        ("unchecked", unchecked),
        ("packed", packed),
        ("hash", hash),
        ("gap", gap),
    ] {
        let [original, nra, back] = ["a.shard", "a.nra", "b.shard"].map(|name| folder.path().join(format!("{what}-{name}")));
        std::fs::write(&original, &file).unwrap();
        let archive = open(&original);
        let remarks = archive.remarks();
        assert_eq!(
            remarks.iter().any(|remark| remark == "4 bytes behind the data are no metadata and belong to nothing"),
            what == "behind"
        );
        convert_to(&*archive, Target::Nra, &nra, &Recorder::default()).unwrap();
        let monitor = Recorder::default();
        convert_to(&*open(&nra), Target::Shard(None), &back, &monitor).unwrap();
        let is_same = std::fs::read(&back).unwrap() == file;
        assert_eq!(is_same, what == "nothing", "{what}");
        let told: Vec<String> = monitor.take_warnings().iter().map(ToString::to_string).collect();
        let is_told = told.iter().any(|line| line == "the file has other bytes than the Shard file that its entries came from");
        assert_eq!(is_told, !is_same, "{what}: {told:?}");
    }
}

/// Metadata longer than an attribute may be come along in parts.
#[test]
fn long_metadata_come_back_from_nra() {
    use nra::convert::target::Target;
    use nra::format::archive::{Archive, OpenOptions, open_path};
    use nra::format::progress::Recorder;

    let open =
        |path: &std::path::Path| open_path(path, &OpenOptions::default()).map(std::sync::Arc::<dyn Archive>::from).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [original, nra, back] = ["a.mosh", "a.nra", "b.mosh"].map(|name| folder.path().join(name));
    let mut metadata = b"{\"producer\":\"".to_vec();
    metadata.extend((0..3_000_000u32).map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8));
    metadata.extend_from_slice(b"\"}");
    let layout = Layout::Names(vec![b"a"[..].into()]);
    let style = Style::new(Dialect::Python, Role::MODEL, 64, None, &layout);
    let mut writer = ShardWriter::create(Cursor::new(Vec::new()), style, layout).unwrap();
    writer.add(plain(b"a", b"content")).unwrap();
    let bytes = writer.finish(Some(&metadata)).unwrap().into_inner();
    std::fs::write(&original, &bytes).unwrap();
    convert_to(&*open(&original), Target::Nra, &nra, &Recorder::default()).unwrap();
    convert_to(&*open(&nra), Target::Shard(Some(Role::MODEL)), &back, &Recorder::default()).unwrap();
    assert!(std::fs::read(&back).unwrap() == bytes);
}
