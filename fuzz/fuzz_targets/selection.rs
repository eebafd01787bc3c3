//! Patterns: the entries they select, and where these are searched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nra::convert::select::Selection;
use nra::format::entry::{Entry, Kind};
use nra::format::path::EntryPath;
use nra_fuzz::{bases, check_text, open};

fuzz_target!(|input: (Vec<Vec<u8>>, Vec<u8>)| {
    let (patterns, path) = input;
    let selection = match Selection::new(&patterns) {
        Ok(selection) => selection,
        Err(error) => return check_text(&error.to_string()),
    };
    assert_eq!(selection.is_all(), patterns.is_empty());
    if let Ok(path) = EntryPath::new(path) {
        let entry = Entry::new(path.clone(), Kind::File);
        let matched = selection.matches(&entry);
        // A path as a pattern selects itself and everything below it.
        let literal = Selection::new([path.as_bytes()]);
        if let Ok(literal) = &literal {
            assert!(literal.matches(&entry));
            assert!(literal.unmatched().is_empty());
        }
        for pattern in &patterns {
            if EntryPath::new(&pattern[..]).is_ok_and(|own| own == path || path.is_below(&own)) {
                assert!(matched, "{pattern:?}");
            }
        }
        assert!(matched || !selection.unmatched().is_empty() || patterns.is_empty());
    }
    let archive = open(bases()[1].bytes.to_vec()).expect("an undamaged archive");
    let found: Vec<_> = selection.entries(&*archive).expect("no damage").map(|entry| entry.expect("no damage").path).collect();
    let expected: Vec<_> = archive
        .entries(0..archive.entry_count())
        .map(|entry| entry.expect("no damage"))
        .filter(|entry| selection.matches(entry))
        .map(|entry| entry.path)
        .collect();
    assert_eq!(found, expected, "entries outside of the ranges that were looked at");
});
