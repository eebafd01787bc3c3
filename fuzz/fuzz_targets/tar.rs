//! tar archives: arbitrary headers are read without panic and the same in pieces as in one; what nra encodes the `tar` crate reads as nra does.
#![no_main]

use std::io::Read;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nra::format::entry::{Entry, Kind, Timestamp};
use nra::format::path::EntryPath;
use nra::format::tar::{Decoder, END, Event, encode, padding};

/// Longest content that is compared.
const MOST: usize = 1 << 20;

#[derive(Debug, Arbitrary)]
struct Input {
    entries: Vec<(Vec<u8>, bool, i64, u32, Vec<u8>)>,
    headers: Vec<u8>,
    step: u16,
}

fn read(bytes: &[u8], step: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut decoder = Decoder::new();
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

/// Gives blocks that look like headers a right checksum, so that what lies behind it is reached.
fn seal(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512).step_by(2) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

fuzz_target!(|input: Input| {
    let Input { entries, mut headers, step } = input;
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
