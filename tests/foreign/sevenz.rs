//! 7z archives of 7zz (`sevenz/make.sh`).

use std::path::Path;
use std::sync::Arc;

use nra::format::archive::{Access, Archive, Depth, OpenOptions, Part, open};
use nra::format::container::Container;
use nra::format::crypt::Secret;
use nra::format::entry::Kind;
use nra::format::error::Resource;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use nra::format::{Error, Result};

use crate::{archive, assert_no_other_content, readable_contents};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/sevenz").join(name).with_extension("7z");
    std::fs::read(path).unwrap()
}

fn with_password(bytes: Vec<u8>, password: &str) -> Result<Box<dyn Archive>> {
    let options = OpenOptions { key: Some(Secret::password(password)), ..OpenOptions::default() };
    open(Arc::new(MemorySource::new(bytes)), &options)
}

/// Returns the output of `seq FIRST 7 LAST`.
fn numbers(first: u32, last: u32) -> Vec<u8> {
    (first..=last).step_by(7).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn code() -> Vec<u8> {
    let word = |number: u32| (number % 65_536).to_le_bytes();
    (0..600).flat_map(|i| [&b"\x55\xe8"[..], &word(i * 40), b"\x0f\x84", &word(i * 56), b"\xc3"].concat()).collect()
}

fn read(archive: &dyn Archive, path: &str) -> Result<Vec<u8>> {
    let (_, entry) = archive.find(path.as_bytes())?.unwrap();
    archive.read_all(&entry, 1 << 20)
}

/// Compares an archive of the sample tree with its expected entries.
fn assert_tree(name: &str, archive: &dyn Archive) {
    let found: Vec<(String, Kind, u16)> = archive
        .entries(0..archive.entry_count())
        .map(|entry| entry.map(|entry| (entry.path.to_string(), entry.kind, entry.metadata.mode)).unwrap())
        .collect();
    let expected = [
        ("dir", Kind::Directory, 0o755),
        ("dir/f1.txt", Kind::File, 0o640),
        ("dir/f2.txt", Kind::File, 0o640),
        ("dir/f3.txt", Kind::File, 0o640),
        ("dir/f4.txt", Kind::File, 0o640),
        ("dir/sub", Kind::Directory, 0o755),
        ("dir/sub/code.exe", Kind::File, 0o644),
        ("empty", Kind::Directory, 0o700),
        ("link", Kind::Symlink, 0o777),
        ("run.sh", Kind::File, 0o755),
        ("zero", Kind::File, 0o644),
    ];
    assert_eq!(found, expected.map(|(path, kind, mode)| (path.to_owned(), kind, mode)), "{name}");
    for number in 1..=4 {
        let expected = numbers(number, number * 900);
        assert_eq!(read(archive, &format!("dir/f{number}.txt")).unwrap(), expected, "{name}");
        let (_, entry) = archive.find(format!("dir/f{number}.txt").as_bytes()).unwrap().unwrap();
        let mut part = [0; 9];
        assert_eq!(archive.read_at(&entry, 100, &mut part).unwrap(), 9);
        assert_eq!(part, expected[100..109], "{name}");
    }
    assert_eq!(read(archive, "dir/sub/code.exe").unwrap(), code(), "{name}");
    assert_eq!(read(archive, "zero").unwrap(), b"");
    let (_, link) = archive.find(b"link").unwrap().unwrap();
    assert_eq!(&*link.target, b"run.sh");
    let (_, entry) = archive.find(b"dir/f1.txt").unwrap().unwrap();
    let time = entry.modified.unwrap();
    assert_eq!((time.seconds, time.nanoseconds), (981_173_106, 789_000_000), "{name}");
    assert!(archive.remarks().is_empty(), "{name}: {:?}", archive.remarks());
    let verdict = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
    assert!(verdict.damage.is_empty(), "{name}: {:?}", verdict.damage);
}

#[test]
fn supported_methods_are_decoded() {
    for name in ["lzma2", "lzma", "ppmd", "bzip2", "deflate", "copy", "bcj2", "delta", "separate", "plain-header"] {
        let archive = archive(&fixture(name)).unwrap();
        assert_eq!(archive.container(), Container::SevenZ);
        assert!(!archive.info().encrypted);
        assert_tree(name, &*archive);
    }
}

#[test]
fn unsupported_method_is_named() {
    let archive = archive(&fixture("deflate64")).unwrap();
    let error = read(&*archive, "dir/f1.txt").unwrap_err();
    assert!(matches!(&error, Error::Unsupported { what: "7z method", .. }), "{error}");
    assert!(error.to_string().contains("DEFLATE64"), "{error}");
}

#[test]
fn encrypted_content_needs_password() {
    let bytes = fixture("password");
    let locked = archive(&bytes).unwrap();
    assert!(locked.info().encrypted);
    assert_eq!(locked.entry_count(), 11, "names are readable");
    assert!(matches!(read(&*locked, "run.sh"), Err(Error::KeyNeeded)));
    let wrong = with_password(bytes.clone(), "Secret").unwrap();
    assert!(matches!(read(&*wrong, "run.sh"), Err(Error::WrongKey)));
    let refused = wrong.verify(Depth::Full, None, &Recorder::default());
    assert!(matches!(refused, Err(Error::EntryLocked { wrong: true, .. })));
    assert_tree("password", &*with_password(bytes, "secret").unwrap());
}

#[test]
fn encrypted_header_needs_password() {
    let bytes = fixture("password-header");
    assert!(matches!(archive(&bytes), Err(Error::KeyNeeded)));
    assert!(matches!(with_password(bytes.clone(), "Secret"), Err(Error::WrongKey)));
    assert_tree("password-header", &*with_password(bytes, "secret").unwrap());
}

#[test]
fn self_extracting_archive_is_read() {
    // The program contains the signature, as self-extractors do.
    let program = [&b"MZ"[..], &[7; 5000], b"7z\xbc\xaf\x27\x1c", &[9; 300]].concat();
    let archive = archive(&[program, fixture("lzma2")].concat()).unwrap();
    assert_tree("after a program", &*archive);
}

#[test]
fn damage_names_its_member() {
    let mut bytes = fixture("copy");
    let expected = numbers(3, 2700);
    let at = bytes.windows(expected.len()).position(|window| window == expected).unwrap();
    bytes[at + 50] ^= 1;
    let archive = archive(&bytes).unwrap();
    assert!(read(&*archive, "dir/f2.txt").is_ok());
    let error = read(&*archive, "dir/f3.txt").unwrap_err();
    assert!(matches!(&error, Error::Corrupt { .. }) && error.to_string().contains("CRC"), "{error}");
    let verdict = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
    assert_eq!(verdict.damage.len(), 1, "{:?}", verdict.damage);
    assert_eq!(verdict.damage[0].entries.iter().map(ToString::to_string).collect::<Vec<_>>(), ["dir/f3.txt"]);
}

#[test]
fn truncated_and_changed_archives_never_yield_other_content() {
    for name in ["lzma2", "bcj2", "ppmd", "separate", "plain-header"] {
        let whole = fixture(name);
        let intact = readable_contents(&whole).unwrap();
        assert_eq!(intact.len(), 8, "{name}");
        for len in (0..whole.len()).step_by(97) {
            assert!(archive(&whole[..len]).is_err(), "{name} of {len} bytes");
        }
        for at in (0..whole.len()).step_by(37) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            assert_no_other_content(&bytes, &intact, &format!("{name}, byte {at}"));
        }
    }
}

/// Returns an archive without content: a header with a correct checksum.
fn sealed(header: &[u8]) -> Vec<u8> {
    let mut numbers = 0u64.to_le_bytes().to_vec();
    numbers.extend((header.len() as u64).to_le_bytes());
    numbers.extend(crc32fast::hash(header).to_le_bytes());
    [&b"7z\xbc\xaf\x27\x1c\0\x04"[..], &crc32fast::hash(&numbers).to_le_bytes(), &numbers, header].concat()
}

#[test]
fn false_counts_are_rejected() {
    let huge = [0xff; 9];
    for (what, header) in [
        ("files", [&[1, 5][..], &huge, &[0x11, 3, 0, 0, 0, 0]].concat()),
        ("packed streams", [&[1, 4, 6, 0][..], &huge, &[9, 0]].concat()),
        ("a packed stream", [&[1, 4, 6, 0, 1, 9][..], &huge, &[0, 0]].concat()),
        ("folders", [&[1, 4, 7, 0x0b][..], &huge, &[0, 0]].concat()),
        ("steps", [&[1, 4, 7, 0x0b, 1, 0][..], &huge, &[0, 0]].concat()),
        ("inputs", [&[1, 4, 6, 0, 1, 9, 0, 0, 7, 0x0b, 1, 0, 1, 0x11, 0][..], &huge, &[1, 0, 0]].concat()),
        ("properties", [&[1, 4, 6, 0, 1, 9, 0, 0, 7, 0x0b, 1, 0, 1, 0x21, 0][..], &huge, &[0, 0]].concat()),
        ("an end", vec![1, 4, 0]),
    ] {
        let error = archive(&sealed(&header)).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { structure: "7z header", .. }), "{what}: {error}");
    }
    // No files, and no header.
    assert_eq!(archive(&sealed(&[1, 0])).unwrap().entry_count(), 0);
    assert_eq!(archive(&sealed(&[])).unwrap().entry_count(), 0);
}

#[test]
fn large_dictionaries_are_rejected() {
    // One file of one byte, LZMA2 with a dictionary of 4 GiB.
    let header = [
        &[1, 4, 6, 0, 1, 9, 0, 0][..],
        &[7, 0x0b, 1, 0, 1, 0x21, 0x21, 1, 40, 0x0c, 1, 0, 0],
        &[5, 1, 0x11, 5, 0, b'a', 0, 0, 0, 0, 0],
    ]
    .concat();
    let archive = archive(&sealed(&header)).unwrap();
    let error = read(&*archive, "a").unwrap_err();
    assert!(matches!(&error, Error::ResourceLimit { resource: Resource::Dictionaries, found: 4_294_967_295, .. }), "{error}");
}

/// Returns an archive of one uncompressed folder with members `a`, `b`, … of these lengths. The archive contains only the first
/// `packed` bytes of the folder.
fn stored(sizes: &[usize], packed: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let number = |out: &mut Vec<u8>, number: usize| {
        out.push(0xf0);
        out.extend_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
    };
    let total: usize = sizes.iter().sum();
    let content: Vec<u8> = (0u32..).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).take(total).collect();
    let count = u8::try_from(sizes.len()).unwrap();
    let mut header = vec![1, 4, 6, 0, 1, 9];
    number(&mut header, packed);
    header.extend([0, 7, 0x0b, 1, 0, 1, 1, 0, 0x0c]);
    number(&mut header, total);
    header.extend([0, 8, 0x0d, count, 9]);
    sizes[..sizes.len() - 1].iter().for_each(|&size| number(&mut header, size));
    header.extend([0x0a, 1]);
    let mut parts = Vec::new();
    let mut at = 0;
    for size in sizes {
        parts.push(content[at..at + size].to_vec());
        header.extend(crc32fast::hash(&content[at..at + size]).to_le_bytes());
        at += size;
    }
    header.extend([0, 0, 5, count, 0x11, 4 * count + 1, 0]);
    (0..count).for_each(|member| header.extend([b'a' + member, 0, 0, 0]));
    header.extend([0, 0]);
    let mut numbers = (packed as u64).to_le_bytes().to_vec();
    numbers.extend((header.len() as u64).to_le_bytes());
    numbers.extend(crc32fast::hash(&header).to_le_bytes());
    let start = [&b"7z\xbc\xaf\x27\x1c\0\x04"[..], &crc32fast::hash(&numbers).to_le_bytes(), &numbers].concat();
    ([start, content[..packed].to_vec(), header].concat(), parts)
}

#[test]
fn data_after_damage_is_decoded_once() {
    for size in [1usize << 20, 3 << 20] {
        let (bytes, parts) = stored(&[size; 6], size * 7 / 2);
        let len = bytes.len() as u64;
        let source = Arc::new(nra::format::source::RecordingSource::new(MemorySource::new(bytes)));
        let archive = open(Arc::clone(&source) as Arc<_>, &OpenOptions::default()).unwrap();
        for _ in 0..3 {
            for (number, name) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
                let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
                match archive.read_all(&entry, 1 << 30) {
                    Ok(content) => assert!(number < 3 && content == parts[number], "{name}"),
                    Err(error) => assert!(number >= 3 && matches!(error, Error::Corrupt { .. }), "{name}: {error}"),
                }
            }
        }
        let bytes_read: u64 = source.take().iter().map(|(_, len)| len).sum();
        assert!(bytes_read < len * 5 / 2, "{bytes_read} bytes were read of {len}");
    }
}

#[test]
fn large_folders_are_decoded_once() {
    // One uncompressed folder of 24 MiB with members of 3 MiB and a long one.
    let (bytes, parts) = stored(&[3 << 20, 3 << 20, 12 << 20, 3 << 20, 3 << 20], 24 << 20);
    let source = Arc::new(nra::format::source::RecordingSource::new(MemorySource::new(bytes)));
    // The cache is smaller than the folder.
    let options = OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::default() };
    let archive = open(Arc::clone(&source) as Arc<_>, &options).unwrap();
    for (name, part) in ["a", "b", "c", "d", "e"].into_iter().zip(&parts) {
        let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
        let mut read = Vec::new();
        archive
            .with_content(&entry, Access::Sequential, &mut |part| {
                if let Part::Data(bytes) = part {
                    read.extend_from_slice(bytes);
                }
                Ok(())
            })
            .unwrap();
        assert!(read == *part, "{name}");
    }
    let bytes_read: u64 = source.take().iter().map(|(_, len)| len).sum();
    assert!(bytes_read < 25 << 20, "{bytes_read} bytes were read");
    // Backwards, and from several threads at once.
    std::thread::scope(|scope| {
        for (name, part) in ["e", "a", "d", "c", "b", "a"].into_iter().zip([4, 0, 3, 2, 1, 0].map(|number: usize| &parts[number]))
        {
            let archive = &archive;
            scope.spawn(move || {
                let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
                assert!(archive.read_all(&entry, 1 << 30).unwrap() == *part, "{name}");
            });
        }
    });
    assert!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty());
}
