//! Zip archives, as in `nra_open`. If the crate `zip` reads a member, too, both return the same
//! content.
#![no_main]

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nra::format::archive::Archive;
use nra::format::entry::Kind;
use nra::format::source::{MemorySource, ReadAt};
use nra::format::zip::{ZipArchive, ZipBackend};
use nra_fuzz::{MAX_CONTENT, check_archive, check_text, content_of, limited_options};

/// Most members that are compared.
const MOST: usize = 50;

fuzz_target!(|data: &[u8]| {
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(data.to_vec()));
    match ZipBackend::probe(&source, &limited_options()) {
        Ok(Some(archive)) => {
            check_archive(&archive);
            compare(&archive, data);
        }
        Ok(None) => {}
        Err(error) => check_text(&error.to_string()),
    }
});

/// Compares the content of a name that both list once and that is unambiguous.
fn compare(archive: &ZipArchive, data: &[u8]) {
    // With a damaged directory, each implementation recovers what it can.
    if archive.is_index_damaged() {
        return;
    }
    // With several end records, as in concatenated archives, the two may choose different ones.
    if data.windows(4).filter(|bytes| bytes == b"PK\x05\x06").count() > 1 {
        return;
    }
    let Ok(mut theirs) = zip::ZipArchive::new(Cursor::new(data)) else { return };
    let mut names: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut members = Vec::new();
    for number in 0..theirs.len().min(MOST) {
        let Ok(member) = theirs.by_index_raw(number) else { continue };
        let Ok(name) = member.name().map(|name| name.as_bytes().to_vec()) else { continue };
        *names.entry(name.clone()).or_default() += 1;
        members.push((number, name, member.size(), member.is_file()));
    }
    let is_whole = theirs.len() <= MOST;
    for (number, name, size, is_file) in members.iter().filter(|(_, name, ..)| names[name] == 1) {
        let mut content = || {
            let mut content = Vec::new();
            let member = theirs.by_index(*number).ok()?;
            member.take(MAX_CONTENT + 1).read_to_end(&mut content).ok().map(|_| content)
        };
        let Ok(found) = archive.find(name) else { continue };
        let Some((_, entry)) = found else {
            // A name may be invalid, be hidden by one that differs in slashes and dots, or
            // contradict an extra field.
            let hides = |(_, other, ..): &(usize, Vec<u8>, u64, bool)| {
                other != name && (other.starts_with(name) || name.starts_with(other))
            };
            let is_plain = name.is_ascii() && name.iter().all(|byte| byte.is_ascii_alphanumeric());
            if is_whole && *is_file && is_plain && !members.iter().any(hides) && archive.remarks().is_empty() {
                let len = content().map(|content| content.len());
                assert_eq!(len, None, "missing: {}", name.escape_ascii());
            }
            continue;
        };
        if entry.kind != Kind::File {
            continue;
        }
        let Some(ours) = content_of(archive, &entry, None) else { continue };
        let Some(content) = content() else { continue };
        assert_eq!(ours, content, "{}", entry.path);
        assert_eq!((entry.size, *size), (content.len() as u64, content.len() as u64), "{}", entry.path);
    }
}
