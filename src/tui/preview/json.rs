//! JSON on lines of its own making: every value of an object or a list on one, indented.

use crate::format::archive::Archive;
use crate::format::entry::Entry;
use crate::format::error::Result;
use crate::tui::preview::text::{Line, Page, shown};

/// Bytes of content that are shown.
const WINDOW: u64 = 256 << 10;
/// Bytes that the lines take at most.
const MAX_TEXT: usize = 2 << 20;
/// Levels that are indented further than the one above.
const MAX_DEPTH: usize = 40;
/// A first line longer than this was not written for people.
const LONG: usize = 240;

/// Says whether content is JSON that nobody can read as it is: it begins as JSON does, and with a long line.
pub fn is_dense(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.len() > LONG && begins(head)
}

/// Says whether content begins as an object or a list of JSON does.
pub fn begins(head: &[u8]) -> bool {
    let mut bytes = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    match bytes.next() {
        Some(b'{') => matches!(bytes.next(), Some(b'"' | b'}')),
        Some(b'[') => bytes.next().is_some_and(|byte| b"[{\"]-tfn".contains(byte) || byte.is_ascii_digit()),
        _ => false,
    }
}

/// Loads the start of an entry as indented lines.
///
/// # Errors
///
/// As reading the archive does.
pub fn load(archive: &dyn Archive, entry: &Entry) -> Result<Page> {
    let mut bytes = vec![0; usize::try_from(WINDOW.min(entry.size)).expect("no more than a window")];
    let read = archive.read_at(entry, 0, &mut bytes)?;
    bytes.truncate(read);
    let whole = bytes.len() as u64 == entry.size;
    let mut lines = Lines::default();
    let read = lines.indent(&bytes);
    if !whole || read < bytes.len() {
        lines.text = "… there is more: the text has all of it".as_bytes().to_vec();
        lines.end(read);
    }
    Ok(Page { lines: lines.done, first_number: Some(1), at_start: true, at_end: true })
}

/// Lines in the making.
#[derive(Default)]
struct Lines {
    done: Vec<Line>,
    /// The line that is being written.
    text: Vec<u8>,
    /// Where it began in the content.
    offset: usize,
    depth: usize,
    bytes: usize,
}

impl Lines {
    /// Ends the line; the next one begins at `at` in the content.
    fn end(&mut self, at: usize) {
        if !self.text.is_empty() {
            let line = shown(&self.text, self.offset as u64);
            self.bytes += line.text.len() + size_of::<Line>();
            self.done.push(line);
        }
        self.offset = at;
        let indent = 2 * self.depth.min(MAX_DEPTH);
        self.text.clear();
        self.text.resize(indent, b' ');
    }

    /// Says whether the line has nothing but its indent.
    fn is_blank(&self) -> bool {
        self.text.iter().all(|&byte| byte == b' ')
    }

    /// Takes content and returns how much of it there was room for. Nothing is refused: what is no JSON comes out in odd lines.
    fn indent(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.bytes < MAX_TEXT {
            let byte = bytes[at];
            match byte {
                b'"' => {
                    let end = string(&bytes[at..]);
                    self.text.extend(&bytes[at..at + end]);
                    at += end;
                    continue;
                }
                b'{' | b'[' => {
                    self.text.push(byte);
                    let behind = bytes[at + 1..].iter().position(|byte| !byte.is_ascii_whitespace());
                    let behind = behind.map(|behind| at + 1 + behind);
                    // What is empty stays together.
                    if let Some(behind) = behind.filter(|behind| bytes[*behind] == byte + 2) {
                        self.text.push(bytes[behind]);
                        at = behind + 1;
                        continue;
                    }
                    self.depth += 1;
                    self.end(at + 1);
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.is_blank() {
                        self.text.clear();
                    }
                    self.end(at);
                    self.text.push(byte);
                }
                b',' => {
                    self.text.push(byte);
                    self.end(at + 1);
                }
                b':' => self.text.extend(b": "),
                // Between values of their own, as in JSON lines.
                b'\n' if self.depth == 0 => self.end(at + 1),
                byte if byte.is_ascii_whitespace() => {}
                _ => self.text.push(byte),
            }
            at += 1;
        }
        self.depth = 0;
        self.end(at);
        at
    }
}

/// Returns the length of a string with its quotes, or of what there is of it.
fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'\\' => 2,
            b'"' => return at + 1,
            _ => 1,
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::sample;

    fn lines(json: &str) -> Vec<String> {
        let mut lines = Lines::default();
        lines.indent(json.as_bytes());
        lines.done.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn values_stand_on_lines() {
        let json = r#"{"a":[1,2,{}],"b":{"c":"x,\"{y"},"d":[ ]}"#;
        let expected = [
            "{",
            "  \"a\": [",
            "    1,",
            "    2,",
            "    {}",
            "  ],",
            "  \"b\": {",
            "    \"c\": \"x,\\\"{y\"",
            "  },",
            "  \"d\": []",
            "}",
        ];
        assert_eq!(lines(json), expected);
        assert_eq!(lines("{\"a\":1}\n{\"a\":2}\n"), ["{", "  \"a\": 1", "}", "{", "  \"a\": 2", "}"]);
        assert_eq!(lines("\"cut \\"), ["\"cut \\"]);
    }

    #[test]
    fn what_lies_deep_takes_no_more_room_than_there_is() {
        let content = vec![b'['; 300 << 10];
        let archive = sample::with_contents(&[("deep.json", &content)]);
        let page = load(&*archive, &archive.entry(0).unwrap()).unwrap();
        let bytes: usize = page.lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= MAX_TEXT + (8 << 10), "{bytes}");
        assert!(page.lines.last().unwrap().text.contains("there is more"));
    }

    #[test]
    fn dense_json_is_told() {
        let dense = format!("{{\"a\":[{}]}}", "1,".repeat(200));
        assert!(is_dense(dense.as_bytes()));
        assert!(!is_dense(b"{\n  \"a\": 1\n}\n"));
        assert!(!is_dense(format!("[section {}]", "x".repeat(300)).as_bytes()));
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lines = Lines::default();
            prop_assert_eq!(lines.indent(&bytes), bytes.len());
            let offsets: Vec<u64> = lines.done.iter().map(|line| line.offset).collect();
            prop_assert!(offsets.is_sorted());
        }
    }
}
