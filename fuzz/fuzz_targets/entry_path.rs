//! Paths: validity, order and display.
#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use nra::format::path::{EntryPath, Quoted, check, compare};
use nra_fuzz::check_text;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (a, b) = input;
    for bytes in [a, b] {
        let shown = Quoted::new(bytes).to_string();
        check_text(&shown);
        assert_eq!(unquote(&shown).as_deref(), Some(bytes), "{shown}");
    }
    assert_eq!(compare(a, b), compare(b, a).reverse());
    assert_eq!(compare(a, b) == Ordering::Equal, a == b);
    let (Ok(path), other) = (EntryPath::new(a), EntryPath::new(b)) else {
        assert!(check(a).is_err());
        return;
    };
    assert_eq!(path.to_string(), Quoted::new(a).to_string());
    let components: Vec<&[u8]> = path.components().collect();
    assert_eq!(components.join(&b"/"[..]), a);
    assert!(components.iter().all(|name| !matches!(*name, b"" | b"." | b"..") && !name.contains(&0) && !name.contains(&b'/')));
    match path.parent() {
        Some(parent) => {
            assert_eq!(check(parent.as_bytes()), Ok(()));
            assert!(path.is_below(&parent) && parent < path);
            assert_eq!(parent.join(path.name()).as_ref(), Ok(&path));
        }
        None => assert_eq!(path.name(), a),
    }
    if let Ok(child) = path.join(b) {
        assert!(child.is_below(&path) && path < child);
    }
    if let Ok(other) = other {
        // In path order, everything below a directory directly follows it.
        let below = |path: &EntryPath| EntryPath::new([path.as_bytes(), b"/x"].concat()).ok();
        if let Some(child) = below(&path)
            && path < other
            && !other.is_below(&path)
        {
            assert!(child < other);
        }
    }
});

/// Parses a word as a shell does.
fn unquote(shown: &str) -> Option<Vec<u8>> {
    if let Some(inner) = shown.strip_prefix("$'") {
        let mut rest = inner.strip_suffix('\'')?.as_bytes();
        let mut bytes = Vec::new();
        while let [byte, tail @ ..] = rest {
            rest = tail;
            if *byte != b'\\' {
                bytes.push(*byte);
                continue;
            }
            let [escape, tail @ ..] = rest else { return None };
            rest = tail;
            bytes.push(match escape {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'\'' | b'\\' => *escape,
                b'x' => {
                    let (digits, tail) = rest.split_at_checked(2)?;
                    rest = tail;
                    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
                }
                _ => return None,
            });
        }
        return Some(bytes);
    }
    if let Some(inner) = shown.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'')?;
        return (!inner.contains('\'')).then(|| inner.into());
    }
    let special = |c: char| c.is_whitespace() || "'\"\\$`!*?[]{}()<>|&;#".contains(c);
    (!shown.is_empty() && !shown.contains(special)).then(|| shown.into())
}
