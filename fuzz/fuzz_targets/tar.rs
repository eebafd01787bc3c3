//! tar archives: arbitrary headers are parsed without panic, whole or in parts. The `tar` crate
//! reads what nra encodes as nra does. Both read constructed headers, with every way to store a
//! name, a size and a link target, the same way as far as both accept them.
#![no_main]

use std::io::Read;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nra::format::entry::{Entry, Kind, Timestamp};
use nra::format::path::EntryPath;
use nra::format::tar::{Decoder, END, Event, MemberKind, encode, padding};

/// Longest content that is compared, bytes.
const MOST: usize = 1 << 20;

#[derive(Debug, Arbitrary)]
struct Input {
    entries: Vec<(Vec<u8>, bool, i64, u32, Vec<u8>)>,
    headers: Vec<u8>,
    members: Vec<Crafted>,
    step: u16,
}

/// A member that stores each property in one of several ways.
#[derive(Debug, Arbitrary)]
struct Crafted {
    kind: Type,
    magic: Magic,
    name: Name,
    prefix: Vec<u8>,
    link: Name,
    size: Size,
    content: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum Type {
    File,
    OldFile,
    Contiguous,
    HardLink,
    Symlink,
    Fifo,
    Directory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum Magic {
    V7,
    Posix,
    Gnu,
}

#[derive(Debug, Arbitrary)]
enum Name {
    Header(Vec<u8>),
    /// In a preceding entry, with or without the NUL byte that GNU tar appends.
    Long(Vec<u8>, bool),
    Pax(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Size {
    Octal,
    Spaces,
    Binary,
    /// In a record; the header holds nonsense.
    Pax(u32),
    /// Arbitrary bytes, which may be a number.
    Field([u8; 12]),
}

/// The compared properties of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    name: Vec<u8>,
    kind: MemberKind,
    link: Vec<u8>,
    content: Vec<u8>,
}

fn header(kind: u8, magic: Magic, name: &[u8], link: &[u8], size: &[u8]) -> [u8; 512] {
    let mut block = [0; 512];
    let put = |block: &mut [u8; 512], at: usize, most: usize, bytes: &[u8]| {
        let len = bytes.len().min(most);
        block[at..at + len].copy_from_slice(&bytes[..len]);
    };
    put(&mut block, 0, 100, name);
    put(&mut block, 100, 8, b"0000644\0");
    put(&mut block, 108, 8, b"0000000\0");
    put(&mut block, 116, 8, b"0000000\0");
    put(&mut block, 124, 12, size);
    put(&mut block, 136, 12, b"00000000000\0");
    block[156] = kind;
    put(&mut block, 157, 100, link);
    match magic {
        Magic::V7 => {}
        Magic::Posix => put(&mut block, 257, 8, b"ustar\x0000"),
        Magic::Gnu => put(&mut block, 257, 8, b"ustar  \0"),
    }
    block
}

fn record(key: &str, value: &[u8], out: &mut Vec<u8>) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while rest + len.to_string().len() != len {
        len = rest + len.to_string().len();
    }
    out.extend_from_slice(format!("{len} {key}=").as_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn push(mut block: [u8; 512], content: &[u8], out: &mut Vec<u8>) {
    seal(&mut block);
    out.extend_from_slice(&block);
    out.extend_from_slice(content);
    out.resize(out.len() + padding(content.len() as u64), 0);
}

/// Returns a name that fits a field: without NUL bytes and of limited length.
fn field(name: &[u8], most: usize) -> Vec<u8> {
    let mut name: Vec<u8> = name.iter().copied().filter(|&byte| byte != 0).take(most).collect();
    if name.is_empty() {
        name.push(b'x');
    }
    name
}

impl Crafted {
    /// Writes the member. Returns the expected result, unless that depends on how a number is read.
    fn write(&self, out: &mut Vec<u8>) -> Option<Seen> {
        let kind = match self.kind {
            Type::File | Type::OldFile | Type::Contiguous => MemberKind::File,
            Type::HardLink => MemberKind::HardLink,
            Type::Symlink => MemberKind::Symlink,
            Type::Fifo => MemberKind::Fifo,
            Type::Directory => MemberKind::Directory,
        };
        let content = if kind == MemberKind::File { &self.content[..] } else { &[] };
        let mut records = Vec::new();
        // The v7 format has none of these.
        let magic = if self.kind == Type::OldFile { Magic::V7 } else { self.magic };
        let mut long = Vec::new();
        let mut told = |name: &Name, kind: u8, key: &str, most: usize| match name {
            Name::Header(name) => (field(name, most), true),
            Name::Long(name, _) if magic == Magic::V7 => (field(name, most), true),
            Name::Long(name, nul) => {
                let name = field(name, 5000);
                let text = if *nul { [&name[..], b"\0"].concat() } else { name.clone() };
                push(
                    header(kind, Magic::Gnu, b"././@LongLink", b"", format!("{:011o}\0", text.len()).as_bytes()),
                    &text,
                    &mut long,
                );
                (name, false)
            }
            Name::Pax(name) => {
                // The crate takes a line feed in a value for the end of the record.
                let mut name = field(name, 5000);
                name.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'n');
                record(key, &name, &mut records);
                (name, false)
            }
        };
        let (mut name, is_short) = told(&self.name, b'L', "path", 100);
        let is_link = matches!(kind, MemberKind::HardLink | MemberKind::Symlink);
        let (link, is_short_link) = if is_link { told(&self.link, b'K', "linkpath", 100) } else { (Vec::new(), true) };
        let mut is_known = true;
        let size = match &self.size {
            Size::Octal => format!("{:011o}\0", content.len()).into_bytes(),
            Size::Spaces => format!("{:>11o} ", content.len()).into_bytes(),
            Size::Binary => [&[0x80, 0, 0, 0][..], &(content.len() as u64).to_be_bytes()].concat(),
            Size::Pax(nonsense) if magic != Magic::V7 => {
                record("size", content.len().to_string().as_bytes(), &mut records);
                format!("{nonsense:011o}\0").into_bytes()
            }
            Size::Pax(_) => format!("{:011o}\0", content.len()).into_bytes(),
            // Only files have content, whatever this says; implementations disagree.
            Size::Field(field) if kind == MemberKind::File => {
                is_known = false;
                field.to_vec()
            }
            Size::Field(_) => b"00000000000\0".to_vec(),
        };
        if !records.is_empty() {
            let len = format!("{:011o}\0", records.len());
            push(header(b'x', Magic::Posix, b"PaxHeaders/x", b"", len.as_bytes()), &records, out);
        }
        out.extend_from_slice(&long);
        let short: &[u8] = if is_short { &name } else { b"short" };
        let flag = match self.kind {
            Type::File => b'0',
            Type::OldFile => 0,
            Type::Contiguous => b'7',
            Type::HardLink => b'1',
            Type::Symlink => b'2',
            Type::Directory => b'5',
            Type::Fifo => b'6',
        };
        let mut block = header(flag, magic, short, if is_short_link { &link } else { b"short" }, &size);
        if magic == Magic::Posix && is_short && !self.prefix.is_empty() {
            let prefix = field(&self.prefix, 155);
            block[345..345 + prefix.len()].copy_from_slice(&prefix);
            name = [&prefix[..], b"/", &name].concat();
        }
        push(block, content, out);
        // An empty file whose name ends with a slash is a directory in the oldest format.
        let is_directory = kind == MemberKind::File && content.is_empty() && name.ends_with(b"/");
        let kind = if is_directory { MemberKind::Directory } else { kind };
        is_known.then(|| Seen { name, kind, link, content: content.to_vec() })
    }
}

/// Reads with the crate `tar` up to the first error.
fn theirs(bytes: &[u8]) -> (Vec<Seen>, bool) {
    let mut found = Vec::new();
    let mut archive = tar::Archive::new(bytes);
    for entry in archive.entries().expect("memory is read") {
        let Ok(mut entry) = entry else { return (found, false) };
        let kind = match entry.header().entry_type() {
            tar::EntryType::Link => MemberKind::HardLink,
            tar::EntryType::Symlink => MemberKind::Symlink,
            tar::EntryType::Fifo => MemberKind::Fifo,
            tar::EntryType::Directory => MemberKind::Directory,
            _ => MemberKind::File,
        };
        let size = entry.size();
        let mut content = Vec::new();
        if entry.read_to_end(&mut content).is_err() || content.len() as u64 != size {
            return (found, false);
        }
        let is_link = matches!(kind, MemberKind::HardLink | MemberKind::Symlink);
        let link = entry.link_name_bytes().filter(|_| is_link).map(|link| link.into_owned()).unwrap_or_default();
        found.push(Seen { name: entry.path_bytes().into_owned(), kind, link, content });
    }
    (found, true)
}

/// Reads with nra up to the first error. Long content is not kept.
fn ours(bytes: &[u8]) -> (Vec<Seen>, bool) {
    let mut decoder = Decoder::default();
    let (mut found, mut open): (Vec<Seen>, Option<Seen>) = (Vec::new(), None);
    let mut at = 0;
    loop {
        let Ok((taken, event)) = decoder.step(&bytes[at..], true) else { return (found, false) };
        at += taken;
        match (event, &mut open) {
            (Event::Member(member), _) => {
                let is_link = matches!(member.kind, MemberKind::HardLink | MemberKind::Symlink);
                let link = if is_link { member.link } else { Vec::new() };
                open = Some(Seen { name: member.name, kind: member.kind, link, content: Vec::new() });
            }
            (Event::Data(bytes), Some(member)) => member.content.extend_from_slice(bytes),
            (Event::End, _) => found.extend(open.take()),
            (Event::Done, _) => return (found, true),
            _ => {}
        }
    }
}

fn compare(members: &[Crafted]) {
    let mut bytes = Vec::new();
    let expected: Vec<Option<Seen>> = members.iter().map(|member| member.write(&mut bytes)).collect();
    bytes.extend_from_slice(&END);
    let (ours, our_end) = ours(&bytes);
    if expected.iter().all(Option::is_some) {
        assert!(our_end, "nothing is wrong with it");
        assert_eq!(ours.len(), expected.len());
        ours.iter().zip(expected.iter().flatten()).for_each(|(found, expected)| assert_eq!(found, expected));
    }
    let (mut theirs, _) = theirs(&bytes);
    for (theirs, ours) in theirs.iter_mut().zip(&ours) {
        // The crate does not treat a trailing slash as a directory.
        if ours.kind == MemberKind::Directory && theirs.kind == MemberKind::File {
            return;
        }
        assert_eq!(theirs, ours);
    }
}

fn read(bytes: &[u8], step: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut decoder = Decoder::default();
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut pieces = bytes.chunks(step);
    loop {
        let input = pieces.next().unwrap_or_default();
        let mut used = 0;
        loop {
            let (taken, event) = decoder.step(&input[used..], input.is_empty()).ok()?;
            used += taken;
            let content = found.last_mut().map(|(_, content)| content);
            match (event, content) {
                (Event::More, _) if used == input.len() && !input.is_empty() => break,
                (Event::Member(member), _) => found.push((member.name, Vec::new())),
                (Event::Data(bytes), Some(content)) => content.extend_from_slice(bytes),
                (Event::Hole(len), Some(content)) => {
                    let len = usize::try_from(len).unwrap_or(MOST).min(MOST);
                    content.resize((content.len() + len).min(MOST), 0);
                }
                (Event::Done, _) => return Some(found),
                _ => {}
            }
        }
    }
}

/// Corrects the checksums of blocks that look like headers, so that the following structures are
/// reached.
fn seal(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512).step_by(2) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

fuzz_target!(|input: Input| {
    let Input { entries, mut headers, members, step } = input;
    compare(&members);
    seal(&mut headers);
    assert_eq!(read(&headers, usize::MAX), read(&headers, usize::from(step).max(1)));

    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (name, directory, seconds, nanoseconds, content) in entries {
        let Ok(path) = EntryPath::new(name) else { continue };
        let kind = if directory { Kind::Directory } else { Kind::File };
        let content = if directory { Vec::new() } else { content };
        let mut entry = Entry::new(path, kind);
        entry.size = content.len() as u64;
        entry.modified = Some(Timestamp { seconds, nanoseconds: nanoseconds % 1_000_000_000 });
        encode(&entry, None, &[], &mut bytes);
        bytes.extend_from_slice(&content);
        bytes.extend(vec![0; padding(entry.size)]);
        let slash: &[u8] = if directory { b"/" } else { b"" };
        expected.push(([entry.path.as_bytes(), slash].concat(), content));
    }
    bytes.extend_from_slice(&END);
    assert_eq!(read(&bytes, usize::from(step).max(1)).as_ref(), Some(&expected));
    // The crate takes a line feed in a long name for the end of its record; GNU tar, bsdtar and
    // Python do not.
    if expected.iter().any(|(name, _)| name.len() > 100 && name.contains(&b'\n')) {
        return;
    }
    let mut archive = tar::Archive::new(&bytes[..]);
    let theirs: Vec<_> = archive
        .entries()
        .expect("memory is read")
        .map(|entry| {
            let mut entry = entry.expect("a header of nra");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("content of nra");
            (entry.path_bytes().into_owned(), content)
        })
        .collect();
    assert_eq!(theirs, expected);
});
