//! What a directory holds: its files by kind, and the largest of them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use crate::glyphs;
use crate::preview::sheet::Sheet;
use nra_format::archive::Archive;
use nra_format::entry::Kind;
use nra_text::{self, SizeStyle};

/// Kinds that are told, and files.
const SHOWN: usize = 6;
/// Kinds that are told apart while counting; names of files are anybody's choice.
const MAX_KINDS: usize = 4_096;
/// Longest ending that is taken for a kind, bytes.
const MAX_ENDING: usize = 12;
/// After so many entries it is time to look whether somebody still waits.
const STRIDE: u64 = 1_024;

/// Files of one kind: how many there are, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    files: u64,
    bytes: u64,
}

/// Adds to `sheet` what the entries of these numbers are, below a path of `front` bytes. Entries that do not read are passed over. `None` when nobody
/// waits any more.
pub fn add(archive: &dyn Archive, numbers: Range<u64>, front: usize, sheet: &mut Sheet, go_on: &dyn Fn() -> bool) -> Option<()> {
    let mut kinds: HashMap<String, Share> = HashMap::new();
    // The smallest of the largest is on top; of those of one size the later.
    let mut largest: BinaryHeap<Reverse<(u64, Reverse<Vec<u8>>)>> = BinaryHeap::new();
    for (index, entry) in (0u64..).zip(archive.entries(numbers)) {
        if index % STRIDE == 0 && !go_on() {
            return None;
        }
        let Some(entry) = entry.ok().filter(|entry| entry.kind == Kind::File) else { continue };
        let kind = kind(entry.path.name());
        let known = kinds.len() < MAX_KINDS || kinds.contains_key(&kind);
        let share = kinds.entry(if known { kind } else { "others".to_owned() }).or_default();
        share.files += 1;
        share.bytes = share.bytes.saturating_add(entry.size);
        if largest.len() < SHOWN || largest.peek().is_some_and(|Reverse((least, _))| entry.size > *least) {
            largest.push(Reverse((entry.size, Reverse(entry.path.as_bytes().to_vec()))));
            if largest.len() > SHOWN {
                largest.pop();
            }
        }
    }
    if largest.len() < 2 {
        return Some(());
    }
    let mut kinds: Vec<(String, Share)> = kinds.into_iter().collect();
    kinds.sort_by(|(a, of_a), (b, of_b)| of_b.bytes.cmp(&of_a.bytes).then(of_b.files.cmp(&of_a.files)).then(a.cmp(b)));
    let rest = kinds.split_off(kinds.len().min(SHOWN));
    let size = |bytes| SizeStyle::Binary.show(bytes);
    let mut line = |label: &str, value: String| sheet.fact(label, &value);
    for (index, (kind, Share { files, bytes })) in kinds.iter().enumerate() {
        let label = if index == 0 { "kinds" } else { "" };
        line(label, format!("{:>10}  {kind}, {}", size(*bytes), nra_text::counted(*files, "file", "files")));
    }
    if !rest.is_empty() {
        let bytes = rest.iter().fold(0, |sum: u64, (_, share)| sum.saturating_add(share.bytes));
        line("", format!("{:>10}  {}", size(bytes), nra_text::counted(rest.len() as u64, "more kind", "more kinds")));
    }
    for (index, Reverse((bytes, Reverse(path)))) in largest.into_sorted_vec().into_iter().enumerate() {
        let label = if index == 0 { "largest" } else { "" };
        line(label, format!("{:>10}  {}", size(bytes), glyphs::shown(path.get(front..).unwrap_or_default())));
    }
    Some(())
}

/// Returns what stands for the kind of a file: the end of its name.
fn kind(name: &[u8]) -> String {
    match name.iter().rposition(|&byte| byte == b'.') {
        // What begins with a dot is hidden; it has no ending by that.
        Some(dot) if dot > 0 && (1..=MAX_ENDING).contains(&(name.len() - dot - 1)) => {
            glyphs::shown(&name[dot..].to_ascii_lowercase())
        }
        _ => "without an ending".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preview::sheet::Line;
    use crate::sample;

    fn lines(files: &[(&str, &[u8])], below: &str) -> Vec<String> {
        let archive = sample::with_contents(files);
        let numbers = archive.subtree(Some(below.as_bytes())).unwrap();
        let mut sheet = Sheet::default();
        add(&*archive, numbers, below.len() + 1, &mut sheet, &|| true).unwrap();
        let line = |line: &Line| match line {
            Line::Fact(label, value) => format!("{label}: {}", value.split_whitespace().collect::<Vec<_>>().join(" ")),
            other => panic!("{other:?}"),
        };
        sheet.lines.iter().map(line).collect()
    }

    #[test]
    fn kinds_and_the_largest_are_told() {
        let files: [(&str, &[u8]); 6] = [
            ("d/a.JSON", b"123"),
            ("d/b.json", b"1234"),
            ("d/deep/Makefile", b"12345"),
            ("d/.hidden", b"1"),
            ("d/x.png", b"1234567890"),
            ("other.png", b"not below"),
        ];
        assert_eq!(
            lines(&files, "d"),
            [
                "kinds: 10 B .png, 1 file",
                ": 7 B .json, 2 files",
                ": 6 B without an ending, 2 files",
                "largest: 10 B x.png",
                ": 5 B deep/Makefile",
                ": 4 B b.json",
                ": 3 B a.JSON",
                ": 1 B .hidden",
            ]
        );
        // One file is no summary.
        assert_eq!(lines(&[("d/a.json", b"123"), ("e", b"")], "d"), [""; 0]);
    }

    #[test]
    fn many_are_cut_short() {
        let names: Vec<String> = (0..50).map(|number| format!("d/file.{number:02}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"xy"[..])).collect();
        let lines = lines(&files, "d");
        assert_eq!((lines.len(), lines[SHOWN].as_str()), (2 * SHOWN + 1, ": 88 B 44 more kinds"));
        assert_eq!(lines[SHOWN + 1], "largest: 2 B file.00");
        let archive = sample::with_contents(&files);
        assert_eq!(add(&*archive, 0..9, 0, &mut Sheet::default(), &|| false), None);
    }
}
