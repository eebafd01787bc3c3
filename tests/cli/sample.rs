//! Archives with known content, created with the library.

use std::path::Path;
use std::sync::Arc;

use nra::format::digest::Digest;
use nra::format::entry::{Device, Entry, Kind, Metadata, Owner, Timestamp};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;

/// 2026-01-02T03:04:05.000000006Z.
const TIME: Timestamp = Timestamp { seconds: 1_767_323_045, nanoseconds: 6 };

/// Adds entries to a new archive.
struct Maker {
    writer: Writer<Vec<u8>>,
}

impl Maker {
    fn new() -> Self {
        let options = WriterOptions { reproducible: true, threads: 1, ..WriterOptions::balanced() };
        Self { writer: Writer::create(Vec::new(), options).unwrap() }
    }

    fn entry(path: &[u8], kind: Kind) -> Entry {
        let mut entry = Entry::new(EntryPath::new(path).unwrap(), kind);
        entry.modified = Some(TIME);
        entry
    }

    fn directory(&mut self, path: &str) {
        self.writer.add(Self::entry(path.as_bytes(), Kind::Directory), NewContent::None).unwrap();
    }

    fn file(&mut self, path: impl AsRef<[u8]>, bytes: &[u8]) {
        self.file_entry(Self::entry(path.as_ref(), Kind::File), bytes);
    }

    fn file_entry(&mut self, entry: Entry, bytes: &[u8]) {
        self.writer.add(entry, NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false }).unwrap();
    }

    fn finish(self) -> Vec<u8> {
        self.writer.finish(&Recorder::default()).unwrap().0
    }
}

/// Returns an archive with every kind of entry and odd names.
pub fn rich() -> Vec<u8> {
    let mut maker = Maker::new();
    maker.directory("docs");
    maker.file("docs/a b.txt", b"one\ntwo\nthree two\n");
    maker.file("docs/empty", b"");
    maker.file("docs/esc\x1b[31m.txt", b"two\x1b[0m escapes\n");
    maker.file(b"docs/latin\xff.txt", b"caf\xe9 two\n");
    maker.directory("docs/sub");
    maker.directory("docs/sub/deep");
    maker.file("docs/sub/deep/lines.log", &b"error: x\nfine\n".repeat(40));
    maker.file("image.bin", &[&[0u8, 1, 2, 255][..], b"two"].concat());
    let mut owned = Maker::entry(b"owned", Kind::File);
    owned.metadata = Arc::new(Metadata {
        mode: 0o600,
        owner: Some(Owner { user_id: 1000, group_id: 100, user: b"ann"[..].into(), group: b"users"[..].into() }),
        ..Metadata::default()
    });
    maker.file_entry(owned, b"mine\n");
    let mut link = Maker::entry(b"link", Kind::Symlink);
    link.target = b"docs/a b.txt"[..].into();
    maker.writer.add(link, NewContent::None).unwrap();
    maker.writer.add(Maker::entry(b"pipe", Kind::Fifo), NewContent::None).unwrap();
    let mut device = Maker::entry(b"null", Kind::CharacterDevice);
    device.device = Some(Device { major: 1, minor: 3 });
    maker.writer.add(device, NewContent::None).unwrap();
    maker.finish()
}

/// Returns an archive of `count` small files in directories of 1,000.
pub fn many(count: usize) -> Vec<u8> {
    let mut maker = Maker::new();
    for number in 0..count {
        if number % 1000 == 0 {
            maker.directory(&format!("d{:03}", number / 1000));
        }
        maker.file(format!("d{:03}/file{number:06}.txt", number / 1000), format!("number {number}\n").as_bytes());
    }
    maker.finish()
}

/// Writes an archive to `directory` and returns its path as text.
pub fn save(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
