//! Formats JSON: every value of an object or array on its own indented line.

use crate::preview::syntax::Line;
use crate::preview::text::printable_line;

/// Maximum size of the lines, in bytes.
pub(super) const MAX_TEXT: usize = 2 << 20;
/// Maximum depth that is indented.
const MAX_DEPTH: usize = 40;

/// Lines under construction.
#[derive(Default)]
pub(super) struct Lines {
    /// The finished lines.
    pub(super) done: Vec<Line>,
    /// For each line, the index of the line that closes what it opens, or its own index.
    pub(super) ends: Vec<usize>,
    /// Lines that open an object or array that is not closed yet.
    open: Vec<usize>,
    /// The current line.
    pub(super) text: Vec<u8>,
    /// Its offset in the content.
    offset: u64,
    bytes: usize,
}

impl Lines {
    /// Finishes the line. The next one starts at offset `at` of the content.
    pub(super) fn end(&mut self, at: u64) {
        if self.text.iter().any(|&byte| byte != b' ') {
            let line = printable_line(&self.text, self.offset);
            self.bytes += line.text.len() + size_of::<Line>();
            self.ends.push(self.done.len());
            self.done.push(line);
        }
        self.offset = at;
        let indent = 2 * self.open.len().min(MAX_DEPTH);
        self.text.clear();
        self.text.resize(indent, b' ');
    }

    /// Formats content that starts at offset `base` and returns how many bytes fit. Invalid JSON is
    /// not rejected; it results in odd lines.
    pub(super) fn indent(&mut self, bytes: &[u8], base: u64) -> usize {
        self.end(base);
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
                    if self.open.is_empty() {
                        self.end(base + at as u64);
                    }
                    self.text.push(byte);
                    let next = bytes[at + 1..].iter().position(|byte| !byte.is_ascii_whitespace());
                    let next = next.map(|next| at + 1 + next);
                    // Empty objects and arrays stay on one line.
                    if let Some(next) = next.filter(|next| bytes[*next] == byte + 2) {
                        self.text.push(bytes[next]);
                        at = next + 1;
                        continue;
                    }
                    self.open.push(self.done.len());
                    self.end(base + at as u64 + 1);
                }
                b'}' | b']' => {
                    let opened = self.open.pop();
                    self.end(base + at as u64);
                    self.text.push(byte);
                    if let Some(opened) = opened {
                        self.ends[opened] = self.done.len();
                    }
                }
                b',' => {
                    self.text.push(byte);
                    self.end(base + at as u64 + 1);
                }
                b':' => self.text.extend(b": "),
                // A break between records.
                b'\n' if self.open.is_empty() => self.end(base + at as u64 + 1),
                byte if byte.is_ascii_whitespace() => {}
                _ => self.text.push(byte),
            }
            at += 1;
        }
        let open = std::mem::take(&mut self.open);
        self.end(base + at as u64);
        for opened in open {
            self.ends[opened] = self.done.len() - 1;
        }
        at
    }
}

/// Returns the length of a string with its quotes, even if it is unterminated.
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

    fn lines(json: &str) -> Vec<String> {
        let mut lines = Lines::default();
        lines.indent(json.as_bytes(), 0);
        lines.done.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn each_value_has_a_line() {
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

    proptest! {
        #[test]
        fn nothing_but_white_space_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lines = Lines::default();
            prop_assert_eq!(lines.indent(&bytes, 0), bytes.len());
            let offsets: Vec<u64> = lines.done.iter().map(|line| line.offset).collect();
            prop_assert!(offsets.is_sorted());
        }
    }
}
