//! Finds files with identical content, and the space that this saves or wastes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::RandomState;
use std::ops::Range;

use crate::state::Found;
use crate::workers::room_for;
use nra_format::archive::Archive;
use nra_format::container::Container;
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind};
use nra_format::error::Result;
use nra_text::{self, SizeStyle};

/// Groups of files with identical content, in few allocations: there may be half a million.
struct Groups {
    /// Redundant bytes of each group, and the range of its numbers.
    list: Vec<(u64, Range<usize>)>,
    numbers: Vec<u64>,
}

impl Groups {
    /// Adds files with identical content, unless there is only one.
    fn add(&mut self, redundant: u64, mut numbers: Vec<u64>) {
        if numbers.len() > 1 {
            numbers.sort_unstable();
            let start = self.numbers.len();
            self.numbers.extend(&numbers);
            self.list.push((redundant, start..self.numbers.len()));
        }
    }
}

/// Finds duplicates among the entries that `keep` accepts. `share` receives the progress, 0 to 1,
/// and returns false to cancel. Returns `None` if cancelled. Unreadable entries are skipped.
pub fn find(
    archive: &dyn Archive,
    below: Range<u64>,
    keep: &dyn Fn(&Entry) -> bool,
    share: &dyn Fn(f64) -> bool,
) -> Result<Option<Found>> {
    // NRA 5 stores identical content once. In other formats it has to be read and compared.
    let once = archive.container() == Container::Nra5;
    let mut groups = Groups { list: Vec::new(), numbers: room_for(below.end - below.start) };
    let whole = if once {
        // Sixteen bytes per file, because there may be millions. The hash keys are random, so that
        // no archive can contain prepared collisions.
        let keys = RandomState::new();
        sorted(archive, below, keep, |entry| entry.content_fingerprint(&keys), share).is_some_and(|files| {
            grouped(
                &files,
                |key| *key,
                share,
                |same, _| {
                    let size = archive.entry(same[0].1).map_or(0, |entry| entry.size);
                    groups.add(size.saturating_mul(same.len() as u64 - 1), same.iter().map(|file| file.1).collect());
                    true
                },
            )
        })
    } else {
        // Files of one size in storage order, so that those that share stored content are
        // neighbours.
        let keys = RandomState::new();
        let key = |entry: &Entry| (entry.size, (entry.position(), entry.content_fingerprint(&keys)));
        sorted(archive, below, keep, key, share)
            .is_some_and(|files| grouped(&files, |key| key.0, share, |same, on| by_digest(archive, same, &mut groups, on)))
    };
    Ok(whole.then(|| summarize(groups, once)))
}

/// Returns the accepted files with content, sorted by key, with their numbers. Returns `None` if
/// cancelled.
fn sorted<K: Ord>(
    archive: &dyn Archive,
    below: Range<u64>,
    keep: &dyn Fn(&Entry) -> bool,
    key: impl Fn(&Entry) -> K,
    share: &dyn Fn(f64) -> bool,
) -> Option<Vec<(K, u64)>> {
    let count = (below.end - below.start).max(1) as f64;
    let mut files = room_for(below.end - below.start);
    for number in below.clone() {
        if !share((number - below.start) as f64 / count / 2.0) {
            return None;
        }
        let Ok(entry) = archive.entry(number) else { continue };
        if entry.kind == Kind::File && entry.size > 0 && keep(&entry) {
            files.push((key(&entry), number));
        }
    }
    files.sort_unstable();
    Some(files)
}

/// Passes each group of files with equal `of(key)` to `take`, with a function for its progress.
/// Returns false if cancelled.
fn grouped<K, C: PartialEq>(
    files: &[(K, u64)],
    of: impl Fn(&K) -> C,
    share: &dyn Fn(f64) -> bool,
    mut take: impl FnMut(&[(K, u64)], &dyn Fn(usize) -> bool) -> bool,
) -> bool {
    let mut done = 0;
    files.chunk_by(|a, b| of(&a.0) == of(&b.0)).all(|same| {
        let on = |read: usize| share(0.5 + (done + read) as f64 / files.len() as f64 / 2.0);
        let goes_on = on(0) && (same.len() < 2 || take(same, &on));
        done += same.len();
        goes_on
    })
}

/// Groups files of one size, in storage order, by the digests of their content. Content that is
/// stored once under several names is read once. Returns false if cancelled.
fn by_digest<K: PartialEq>(
    archive: &dyn Archive,
    files: &[((u64, K), u64)],
    groups: &mut Groups,
    on: &dyn Fn(usize) -> bool,
) -> bool {
    // The number of copies of each content, and its files.
    let mut contents: HashMap<Digest, (u64, Vec<u64>)> = HashMap::new();
    let mut read = 0;
    for names in files.chunk_by(|((_, a), _), ((_, b), _)| a == b) {
        if !on(read) {
            return false;
        }
        read += names.len();
        let digest = archive.entry(names[0].1).and_then(|entry| archive.digest(&entry));
        if let Ok(Some(digest)) = digest {
            let (stored, numbers) = contents.entry(digest).or_default();
            *stored += 1;
            numbers.extend(names.iter().map(|(_, number)| *number));
        }
    }
    let size = files.first().map_or(0, |((size, _), _)| *size);
    contents.into_values().for_each(|(stored, numbers)| groups.add(size.saturating_mul(stored - 1), numbers));
    true
}

fn summarize(groups: Groups, once: bool) -> Found {
    let Groups { mut list, numbers } = groups;
    list.sort_unstable_by_key(|(redundant, group)| (Reverse(*redundant), numbers[group.start]));
    let redundant = list.iter().map(|(redundant, _)| *redundant).fold(0, u64::saturating_add);
    let mut firsts: Vec<u64> = list.iter().map(|(_, group)| numbers[group.start]).collect();
    firsts.sort_unstable();
    let mut in_order = room_for(numbers.len() as u64);
    list.into_iter().for_each(|(_, group)| in_order.extend_from_slice(&numbers[group]));
    if in_order.is_empty() {
        return Found { summary: "No duplicate files (esc goes back)".to_owned(), ..Found::default() };
    }
    let summary = format!(
        "{} of {}, {} {}",
        nra_text::counted(in_order.len() as u64, "file", "files"),
        nra_text::counted(firsts.len() as u64, "content", "contents"),
        SizeStyle::Binary.show(redundant),
        if once { "saved" } else { "stored again" },
    );
    Found { numbers: in_order.into(), firsts: firsts.into(), summary }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn found(archive: &dyn Archive, below: std::ops::Range<u64>) -> (Vec<String>, String) {
        let found = find(archive, below, &|_| true, &|_| true).unwrap().unwrap();
        let name = |number: &u64| archive.entry(*number).unwrap().path.to_string();
        assert!(found.firsts.iter().all(|first| found.numbers.contains(first)));
        (found.numbers.iter().map(name).collect(), found.summary)
    }

    const FILES: [(&str, &[u8]); 7] = [
        ("a", b"same"),
        ("b", b"this is longer"),
        ("c", b"same"),
        ("d/e", b"same"),
        ("d/f", b"this is longer"),
        ("d/g", b"emas"),
        ("d/h", b""),
    ];

    #[test]
    fn duplicates_are_grouped() {
        let archive = sample::with_contents(&FILES);
        let (names, summary) = found(&*archive, 0..archive.entry_count());
        assert_eq!(names, ["b", "d/f", "a", "c", "d/e"]);
        assert_eq!(summary, "5 files of 2 contents, 22 B saved");
        // Within a directory alone nothing is there twice.
        let none = found(&*archive, 3..archive.entry_count());
        assert_eq!(none, (Vec::new(), "No duplicate files (esc goes back)".to_owned()));
        assert!(find(&*archive, 0..3, &|_| true, &|_| false).unwrap().is_none());
        let some = find(&*archive, 0..archive.entry_count(), &|entry| entry.size > 4, &|_| true).unwrap().unwrap();
        assert_eq!(some.numbers.len(), 2);
    }

    #[test]
    fn duplicates_are_found_by_content() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("a.tar");
        let mut tar = Vec::new();
        let link: (&str, &[u8]) = ("z", b"");
        for (name, content) in FILES.into_iter().chain([link]) {
            let mut header = [0; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[100..107].copy_from_slice(b"0000644");
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[156] = if name == "z" { b'1' } else { b'0' };
            // The target of a hard link.
            header[157] = if name == "z" { b'a' } else { 0 };
            header[257..265].copy_from_slice(b"ustar\x0000");
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            tar.extend(header);
            tar.extend(content);
            tar.resize(tar.len().next_multiple_of(512), 0);
        }
        tar.resize(tar.len() + 1024, 0);
        std::fs::write(&file, tar).unwrap();
        let archive = nra_format::archive::open_path(&file, &Default::default()).unwrap();
        let (names, summary) = found(&*archive, 0..archive.entry_count());
        assert_eq!(names, ["b", "d/f", "a", "c", "d/e", "z"]);
        assert_eq!(summary, "6 files of 2 contents, 22 B stored again");
        // Contents may begin at one place and differ.
        let number = |name: &[u8]| archive.find(name).unwrap().unwrap().0;
        let files = [((4, (1, 2)), number(b"a")), ((4, (1, 3)), number(b"d/g")), ((4, (1, 4)), number(b"c"))];
        let mut groups = Groups { list: Vec::new(), numbers: Vec::new() };
        assert!(by_digest(&*archive, &files, &mut groups, &|_| true));
        assert_eq!((groups.list, groups.numbers), (vec![(4, 0..2)], vec![number(b"a"), number(b"c")]));
    }
}
