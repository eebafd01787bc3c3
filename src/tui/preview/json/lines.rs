//! Lines made of JSON: every value of an object or a list on one, indented.

use crate::preview::text::{Line, shown};

/// Bytes that the lines take at most.
pub(super) const MAX_TEXT: usize = 2 << 20;
/// Levels that are indented further than the one above.
const MAX_DEPTH: usize = 40;

/// Lines in the making.
#[derive(Default)]
pub(super) struct Lines {
    /// The lines that are done.
    pub(super) done: Vec<Line>,
    /// Index of the line that ends what a line begins; its own where it begins nothing.
    pub(super) ends: Vec<usize>,
    /// The lines that begin what has not ended.
    open: Vec<usize>,
    /// The line that is being written.
    pub(super) text: Vec<u8>,
    /// Where it began in the content.
    offset: u64,
    bytes: usize,
}

impl Lines {
    /// Ends the line; the next one begins at `at` in the content.
    pub(super) fn end(&mut self, at: u64) {
        if !self.is_blank() {
            let line = shown(&self.text, self.offset);
            self.bytes += line.text.len() + size_of::<Line>();
            self.ends.push(self.done.len());
            self.done.push(line);
        }
        self.offset = at;
        let indent = 2 * self.open.len().min(MAX_DEPTH);
        self.text.clear();
        self.text.resize(indent, b' ');
    }

    /// Says whether the line has nothing but its indent.
    fn is_blank(&self) -> bool {
        self.text.iter().all(|&byte| byte == b' ')
    }

    /// Takes content that begins at `base` and returns how much of it there was room for. Nothing is refused: what is no JSON comes out in odd lines.
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
                    let behind = bytes[at + 1..].iter().position(|byte| !byte.is_ascii_whitespace());
                    let behind = behind.map(|behind| at + 1 + behind);
                    // What is empty stays together.
                    if let Some(behind) = behind.filter(|behind| bytes[*behind] == byte + 2) {
                        self.text.push(bytes[behind]);
                        at = behind + 1;
                        continue;
                    }
                    self.open.push(self.done.len());
                    self.end(base + at as u64 + 1);
                }
                b'}' | b']' => {
                    let begun = self.open.pop();
                    self.end(base + at as u64);
                    self.text.push(byte);
                    if let Some(begun) = begun {
                        self.ends[begun] = self.done.len();
                    }
                }
                b',' => {
                    self.text.push(byte);
                    self.end(base + at as u64 + 1);
                }
                b':' => self.text.extend(b": "),
                // Between values of their own.
                b'\n' if self.open.is_empty() => self.end(base + at as u64 + 1),
                byte if byte.is_ascii_whitespace() => {}
                _ => self.text.push(byte),
            }
            at += 1;
        }
        let open = std::mem::take(&mut self.open);
        self.end(base + at as u64);
        for begun in open {
            self.ends[begun] = self.done.len() - 1;
        }
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

    fn lines(json: &str) -> Vec<String> {
        let mut lines = Lines::default();
        lines.indent(json.as_bytes(), 0);
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
