//! Summary of a directory: its files by type, and the largest ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use crate::glyphs;
use nra_format::archive::Archive;
use nra_format::entry::Kind;
use nra_text::{self, SizeStyle};

/// Maximum number of types and files shown.
const MAX_SHOWN: usize = 6;
/// Maximum number of types counted separately. File names are untrusted.
const MAX_TYPES: usize = 4_096;
/// Maximum length of an extension that counts as a type, in bytes.
const MAX_EXTENSION: usize = 12;
/// Interval, in entries, for checking whether the request was cancelled.
const STRIDE: u64 = 1_024;

/// Number and size of the files of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    files: u64,
    bytes: u64,
}

/// Returns a summary of the entries with these numbers, below a path of `front` bytes. Unreadable
/// entries are skipped. Returns `None` if cancelled.
pub fn summary(
    archive: &dyn Archive,
    numbers: Range<u64>,
    front: usize,
    awaited: &dyn Fn() -> bool,
) -> Option<Vec<(&'static str, String)>> {
    let mut fields = Vec::new();
    let mut kinds: HashMap<String, Share> = HashMap::new();
    // The smallest of the largest files is on top; of equal sizes, the later one.
    let mut largest: BinaryHeap<Reverse<(u64, Reverse<Vec<u8>>)>> = BinaryHeap::new();
    for (index, entry) in (0u64..).zip(archive.entries(numbers)) {
        if index % STRIDE == 0 && !awaited() {
            return None;
        }
        let Some(entry) = entry.ok().filter(|entry| entry.kind == Kind::File) else { continue };
        let kind = kind(entry.path.name());
        let known = kinds.len() < MAX_TYPES || kinds.contains_key(&kind);
        let share = kinds.entry(if known { kind } else { "other".to_owned() }).or_default();
        share.files += 1;
        share.bytes = share.bytes.saturating_add(entry.size);
        if largest.len() < MAX_SHOWN || largest.peek().is_some_and(|Reverse((least, _))| entry.size > *least) {
            largest.push(Reverse((entry.size, Reverse(entry.path.as_bytes().to_vec()))));
            if largest.len() > MAX_SHOWN {
                largest.pop();
            }
        }
    }
    if largest.len() < 2 {
        return Some(fields);
    }
    let mut kinds: Vec<(String, Share)> = kinds.into_iter().collect();
    kinds.sort_by(|(a, of_a), (b, of_b)| of_b.bytes.cmp(&of_a.bytes).then(of_b.files.cmp(&of_a.files)).then(a.cmp(b)));
    let rest = kinds.split_off(kinds.len().min(MAX_SHOWN));
    let size = |bytes| SizeStyle::Binary.show(bytes);
    for (index, (kind, Share { files, bytes })) in kinds.iter().enumerate() {
        let label = if index == 0 { "types" } else { "" };
        fields.push((label, format!("{:>10}  {kind}, {}", size(*bytes), nra_text::counted(*files, "file", "files"))));
    }
    if !rest.is_empty() {
        let bytes = rest.iter().fold(0, |sum: u64, (_, share)| sum.saturating_add(share.bytes));
        fields.push(("", format!("{:>10}  {}", size(bytes), nra_text::counted(rest.len() as u64, "more type", "more types"))));
    }
    for (index, Reverse((bytes, Reverse(path)))) in largest.into_sorted_vec().into_iter().enumerate() {
        let label = if index == 0 { "largest" } else { "" };
        fields.push((label, format!("{:>10}  {}", size(bytes), glyphs::printable(path.get(front..).unwrap_or_default()))));
    }
    Some(fields)
}

/// Returns the type of a file: its extension.
fn kind(name: &[u8]) -> String {
    match name.iter().rposition(|&byte| byte == b'.') {
        // A leading dot marks a hidden file, not an extension.
        Some(dot) if dot > 0 && (1..=MAX_EXTENSION).contains(&(name.len() - dot - 1)) => {
            glyphs::printable(&name[dot..].to_ascii_lowercase())
        }
        _ => "no extension".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn lines(files: &[(&str, &[u8])], below: &str) -> Vec<String> {
        let archive = sample::with_contents(files);
        let numbers = archive.subtree(Some(below.as_bytes())).unwrap();
        let fields = summary(&*archive, numbers, below.len() + 1, &|| true).unwrap();
        let words = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
        fields.iter().map(|(label, value)| format!("{label}: {}", words(value))).collect()
    }

    #[test]
    fn types_and_largest_files_are_listed() {
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
                "types: 10 B .png, 1 file",
                ": 7 B .json, 2 files",
                ": 6 B no extension, 2 files",
                "largest: 10 B x.png",
                ": 5 B deep/Makefile",
                ": 4 B b.json",
                ": 3 B a.JSON",
                ": 1 B .hidden",
            ]
        );
        // A single file needs no summary.
        assert_eq!(lines(&[("d/a.json", b"123"), ("e", b"")], "d"), [""; 0]);
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..50).map(|number| format!("d/file.{number:02}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"xy"[..])).collect();
        let lines = lines(&files, "d");
        assert_eq!((lines.len(), lines[MAX_SHOWN].as_str()), (2 * MAX_SHOWN + 1, ": 88 B 44 more types"));
        assert_eq!(lines[MAX_SHOWN + 1], "largest: 2 B file.00");
        let archive = sample::with_contents(&files);
        assert_eq!(summary(&*archive, 0..9, 0, &|| false), None);
    }
}
