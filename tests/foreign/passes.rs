//! How often a compressed archive is decoded when all of it is read.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use nra::convert::select::Selection;
use nra::convert::target::Target;
use nra::convert::{Destination, DirectorySink, DirectoryTarget, Options, Sink, Source, convert};
use nra::format::archive::{Archive, OpenOptions, open, open_path};
use nra::format::progress::Recorder;
use nra::format::source::{MemorySource, RecordingSource};

use crate::common::noise;

/// Length of a large file, bytes: more than a thread reads at once.
const LARGE: usize = 5 << 20;
/// Number of files. Every twentieth is large.
const FILES: u32 = 120;

/// Returns the length of a file by its position in the archive, bytes.
fn len(number: u32) -> usize {
    if number % 20 == 15 { LARGE } else { 10_000 }
}

/// Returns the name of a file by its position in the archive. The order is neither that of paths nor that of directories.
fn name(number: u32) -> String {
    format!("d{}/f{}", number % 2, FILES - number)
}

/// Returns incompressible content, so that the bytes read show how much is decoded.
fn content(number: u32) -> Vec<u8> {
    noise(len(number), number.into())
}

/// Opens a tar.gz archive of one member that does not fit into the cache. Reads while opening are not counted.
fn opened() -> (Arc<RecordingSource<MemorySource>>, u64, Arc<dyn Archive>) {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for number in 0..FILES {
        let mut header = tar::Header::new_ustar();
        header.set_size(len(number) as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name(number), &content(number)[..]).unwrap();
    }
    let mut encoder = builder.into_inner().unwrap();
    encoder.flush().unwrap();
    let bytes = encoder.finish().unwrap();
    let stored = bytes.len() as u64;
    assert!(stored > (0..FILES).map(|number| len(number) as u64).sum(), "the content is incompressible");
    let source = Arc::new(RecordingSource::new(MemorySource::new(bytes)));
    let options = OpenOptions { cache_bytes: 4 << 20, ..OpenOptions::default() };
    let archive = open(Arc::clone(&source) as Arc<_>, &options).unwrap();
    source.take();
    (source, stored, Arc::from(archive))
}

fn extract(archive: &dyn Archive, target: &Path, threads: usize) {
    let sink = Sink::Directory(DirectorySink::new(DirectoryTarget::Exactly(target.to_owned())));
    let options = Options { threads, ..Options::default() };
    convert(Source::Archive(archive, &Selection::all()), sink, &options, &Recorder::default()).unwrap();
}

fn convert_to(archive: &dyn Archive, extension: &str, path: &Path, threads: usize) {
    let sink = Sink::Archive(Destination::new_file(path), Target::named(extension).unwrap().new_archive(path));
    let options = Options { threads, ..Options::default() };
    convert(Source::Archive(archive, &Selection::all()), sink, &options, &Recorder::default()).unwrap();
}

/// Fails if more than one and a half times the archive was read since it was opened.
fn assert_read(source: &RecordingSource<MemorySource>, len: u64, what: &str) {
    let bytes: u64 = source.take().iter().map(|(_, len)| len).sum();
    assert!((len..=len / 2 * 3).contains(&bytes), "{what}: {bytes} bytes were read of {len}");
}

#[test]
fn extraction_decodes_compressed_tar_once() {
    for threads in [2, 4] {
        let (source, len, archive) = opened();
        let out = tempfile::tempdir().unwrap();
        extract(&*archive, &out.path().join("out"), threads);
        assert_read(&source, len, &format!("{threads} threads"));
        for number in 0..FILES {
            let found = std::fs::read(out.path().join("out").join(name(number))).unwrap();
            assert!(found == content(number), "{}", name(number));
        }
    }
}

#[test]
fn conversion_decodes_compressed_tar_once() {
    for threads in [2, 4] {
        let (source, len, archive) = opened();
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("out.nra");
        convert_to(&*archive, "nra", &path, threads);
        assert_read(&source, len, &format!("{threads} threads"));
        let stored = open_path(&path, &OpenOptions::default()).unwrap();
        for number in 0..FILES {
            let (_, entry) = stored.find(name(number).as_bytes()).unwrap().unwrap();
            assert!(stored.read_all(&entry, LARGE as u64).unwrap() == content(number), "{}", name(number));
        }
    }
}

#[test]
fn long_zip_member_is_decoded_once() {
    let content = noise(40 << 20, 1);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let deflated = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    zip.start_file("long", deflated.compression_level(Some(1))).unwrap();
    zip.write_all(&content).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let len = bytes.len() as u64;
    let source = Arc::new(RecordingSource::new(MemorySource::new(bytes)));
    let archive = open(Arc::clone(&source) as Arc<_>, &OpenOptions::default()).unwrap();
    source.take();
    let out = tempfile::tempdir().unwrap();
    extract(&*archive, &out.path().join("out"), 3);
    assert!(std::fs::read(out.path().join("out/long")).unwrap() == content);
    assert_read(&source, len, "a zip member");
}

#[test]
fn conversion_to_other_formats_decodes_once() {
    for kind in ["tar", "zip", "nra4", "shard"] {
        let (source, len, archive) = opened();
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("out");
        convert_to(&*archive, kind, &path, 0);
        assert_read(&source, len, kind);
        let written = open_path(&path, &OpenOptions::default()).unwrap();
        for number in 0..FILES {
            let (_, entry) = written.find(name(number).as_bytes()).unwrap().unwrap();
            assert!(written.read_all(&entry, LARGE as u64).unwrap() == content(number), "{kind}: {}", name(number));
        }
    }
}
