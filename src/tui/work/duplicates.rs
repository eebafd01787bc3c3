//! Which files have the same content, and what that saves, or could.

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::archive::Archive;
use crate::format::digest::Digest;
use crate::format::entry::{Entry, Kind};
use crate::format::error::Result;
use crate::text::{self, SizeStyle};

/// Different contents that may begin at one place before the rest is given up.
const MAX_AT_PLACE: usize = 64;

/// Files that have their content in common with others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Duplicates {
    /// Their numbers, those of one content one behind the other; first what takes most.
    pub numbers: Vec<u64>,
    /// Numbers of the first one of each content, ascending.
    pub firsts: Arc<[u64]>,
    /// What it adds up to, in words.
    pub told: String,
}

/// A file: size, place of its content, number. Four numbers, for there may be millions.
type File = (u64, (u64, u64), u64);

/// Files of one content.
struct Group {
    size: u64,
    numbers: Vec<u64>,
}

impl Group {
    /// Bytes of all but one of them.
    fn again(&self) -> u64 {
        self.size.saturating_mul(self.numbers.len() as u64 - 1)
    }
}

/// Finds what `keep` keeps of some numbers. `share` takes how far that is, 0 to 1, and says whether anybody still waits; `None` when nobody does.
///
/// # Errors
///
/// As reading the index does; entries that do not read are left out.
pub fn find(
    archive: &dyn Archive,
    below: std::ops::Range<u64>,
    keep: &dyn Fn(&Entry) -> bool,
    share: &dyn Fn(f64) -> bool,
) -> Result<Option<Duplicates>> {
    let count = (below.end - below.start).max(1) as f64;
    let mut files: Vec<File> = Vec::new();
    for number in below.clone() {
        if !share((number - below.start) as f64 / count / 2.0) {
            return Ok(None);
        }
        let Ok(entry) = archive.entry(number) else { continue };
        if entry.kind == Kind::File && entry.size > 0 && keep(&entry) {
            files.push((entry.size, entry.place(), number));
        }
    }
    files.sort_unstable();
    // NRA 5 stores a content once. Elsewhere it has to be read to know it again.
    let once = archive.info().format.starts_with("NRA 5");
    let mut groups = Vec::new();
    let mut done = 0;
    for same in files.chunk_by(|a, b| a.0 == b.0) {
        if !share(0.5 + done as f64 / files.len() as f64 / 2.0) {
            return Ok(None);
        }
        done += same.len();
        if same.len() < 2 {
            continue;
        }
        if once {
            same.chunk_by(|a, b| a.1 == b.1).for_each(|same| by_place(archive, same, &mut groups));
        } else {
            let on = |read: usize| share(0.5 + (done - same.len() + read) as f64 / files.len() as f64 / 2.0);
            if !by_digest(archive, same, &mut groups, &on) {
                return Ok(None);
            }
        }
    }
    Ok(Some(told(groups, once)))
}

/// Groups files whose content begins at one place.
fn by_place(archive: &dyn Archive, files: &[File], groups: &mut Vec<Group>) {
    let mut contents: Vec<(Entry, Group)> = Vec::new();
    for (size, _, number) in files.iter().filter(|_| files.len() > 1) {
        let Ok(entry) = archive.entry(*number) else { continue };
        match contents.iter().position(|(first, _)| first.shares_content(&entry)) {
            Some(known) => contents[known].1.numbers.push(*number),
            None if contents.len() < MAX_AT_PLACE => contents.push((entry, Group { size: *size, numbers: vec![*number] })),
            None => {}
        }
    }
    groups.extend(contents.into_iter().map(|(_, group)| group).filter(|group| group.numbers.len() > 1));
}

/// Groups files of one size by the digests of their content; says whether anybody still waits.
fn by_digest(archive: &dyn Archive, files: &[File], groups: &mut Vec<Group>, on: &dyn Fn(usize) -> bool) -> bool {
    let mut contents: HashMap<Digest, Vec<u64>> = HashMap::new();
    // They come in the order of storage.
    for (read, (.., number)) in files.iter().enumerate() {
        if !on(read) {
            return false;
        }
        let digest = archive.entry(*number).and_then(|entry| archive.digest(&entry));
        if let Ok(Some(digest)) = digest {
            contents.entry(digest).or_default().push(*number);
        }
    }
    let size = files.first().map_or(0, |file| file.0);
    groups.extend(contents.into_values().filter(|numbers| numbers.len() > 1).map(|numbers| Group { size, numbers }));
    true
}

fn told(mut groups: Vec<Group>, once: bool) -> Duplicates {
    groups.iter_mut().for_each(|group| group.numbers.sort_unstable());
    groups.sort_by_key(|group| (std::cmp::Reverse(group.again()), group.numbers[0]));
    let again = groups.iter().map(Group::again).fold(0, u64::saturating_add);
    let mut firsts: Vec<u64> = groups.iter().map(|group| group.numbers[0]).collect();
    firsts.sort_unstable();
    let numbers: Vec<u64> = groups.into_iter().flat_map(|group| group.numbers).collect();
    if numbers.is_empty() {
        return Duplicates {
            told: "no two files have their content in common (esc goes back)".to_owned(),
            ..Duplicates::default()
        };
    }
    let told = format!(
        "{} of {}, {} {}",
        text::counted(numbers.len() as u64, "file", "files"),
        text::counted(firsts.len() as u64, "content", "contents"),
        SizeStyle::Binary.show(again),
        if once { "saved" } else { "stored again" },
    );
    Duplicates { numbers, firsts: firsts.into(), told }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::sample;

    fn found(archive: &dyn Archive, below: std::ops::Range<u64>) -> (Vec<String>, String) {
        let found = find(archive, below, &|_| true, &|_| true).unwrap().unwrap();
        let name = |number: &u64| archive.entry(*number).unwrap().path.to_string();
        assert!(found.firsts.iter().all(|first| found.numbers.contains(first)));
        (found.numbers.iter().map(name).collect(), found.told)
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
    fn files_of_one_content_stand_together() {
        let archive = sample::with_contents(&FILES);
        let (names, told) = found(&*archive, 0..archive.entry_count());
        assert_eq!(names, ["b", "d/f", "a", "c", "d/e"]);
        assert_eq!(told, "5 files of 2 contents, 22 B saved");
        // Within a directory alone nothing is there twice.
        let none = found(&*archive, 3..archive.entry_count());
        assert_eq!(none, (Vec::new(), "no two files have their content in common (esc goes back)".to_owned()));
        assert!(find(&*archive, 0..3, &|_| true, &|_| false).unwrap().is_none());
        let some = find(&*archive, 0..archive.entry_count(), &|entry| entry.size > 4, &|_| true).unwrap().unwrap();
        assert_eq!(some.numbers.len(), 2);
    }

    #[test]
    fn content_that_is_stored_again_is_known_by_what_it_is() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("a.tar");
        let mut tar = Vec::new();
        for (name, content) in FILES {
            let mut header = [0; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[100..107].copy_from_slice(b"0000644");
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[156] = b'0';
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
        let archive = crate::format::archive::open_path(&file, &Default::default()).unwrap();
        let (names, told) = found(&*archive, 0..archive.entry_count());
        assert_eq!(names, ["b", "d/f", "a", "c", "d/e"]);
        assert_eq!(told, "5 files of 2 contents, 22 B stored again");
    }
}
