//! Splits a command line as bash passes it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Characters besides blanks and quotes at which bash starts a new word for completion.
const SEPARATORS: &[u8] = b"@=:<>";

/// Splits a line into the words after the program name, without quotes. The last one, perhaps
/// empty, is being typed. Also returns the offset in it after the last separator of bash, which
/// replaces only the text from there.
pub fn split(line: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let mut words = vec![Vec::new()];
    let mut replaced = 0;
    // A word has started, perhaps an empty one in quotes.
    let mut started = false;
    let mut quote = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        let word = words.last_mut().expect("there is always one");
        match (quote, byte) {
            (None, b' ' | b'\t' | b'\n') => {
                if started {
                    words.push(Vec::new());
                }
                (started, replaced) = (false, 0);
                continue;
            }
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None | Some(b'"'), b'\\') => word.extend(bytes.next()),
            _ => {
                word.push(byte);
                if quote.is_none() && SEPARATORS.contains(&byte) {
                    replaced = word.len();
                }
            }
        }
        started = true;
    }
    words.remove(0);
    (words, replaced)
}

/// Replaces `~/` by the home directory.
pub fn expand_home(word: Vec<u8>, home: &OsStr) -> Vec<u8> {
    match word.strip_prefix(b"~/") {
        Some(rest) if !home.is_empty() => [home.as_bytes(), b"/", rest].concat(),
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_like_bash() {
        for (line, expected, replaced) in [
            ("nra ", &[""][..], 0),
            ("nra li", &["li"], 0),
            ("nra  list a\\ b.nra \"c d\" 'e f", &["list", "a b.nra", "c d", "e f"], 0),
            ("nra list '' ", &["list", "", ""], 0),
            ("nra list a --sort=s", &["list", "a", "--sort=s"], 7),
            ("nra cat a b:c", &["cat", "a", "b:c"], 2),
            ("nra cat a 'b:c", &["cat", "a", "b:c"], 0),
            ("nra cat a b\\:c", &["cat", "a", "b:c"], 0),
            ("nra cat \"a\\\"b\"", &["cat", "a\"b"], 0),
            ("nra", &[], 0),
        ] {
            let (words, at) = split(line.as_bytes());
            assert_eq!((words, at), (expected.iter().map(|word| word.as_bytes().to_vec()).collect(), replaced), "{line}");
        }
        assert_eq!(expand_home(b"~/a".to_vec(), OsStr::new("/h")), b"/h/a");
        assert_eq!(expand_home(b"~a".to_vec(), OsStr::new("/h")), b"~a");
    }
}
