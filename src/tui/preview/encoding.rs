//! Detects the encoding of text from its first bytes.

use std::borrow::Cow;

use encoding_rs::{UTF_16BE, UTF_16LE, WINDOWS_1252};
use regex::bytes::{Regex, RegexBuilder};

/// A text encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8, including ASCII.
    #[default]
    Utf8,
    Utf16Le,
    Utf16Be,
    /// Latin-1 with the additions of Windows-1252.
    Latin,
}

impl Encoding {
    /// Detects the encoding of text from its start. Returns `None` for binary content.
    ///
    /// UTF-16 requires a byte order mark. Latin-1 is assumed for content that is not UTF-8, has no
    /// control characters and is mostly ASCII.
    pub fn detect(head: &[u8]) -> Option<Self> {
        for (mark, encoding) in [(b"\xff\xfe", Self::Utf16Le), (b"\xfe\xff", Self::Utf16Be)] {
            // Two zero bytes after the mark would mean UTF-32.
            if head.starts_with(mark) && head.get(2..4) != Some(b"\0\0") {
                let text = encoding.decode(&head[..head.len() & !1]);
                return is_text(&String::from_utf8_lossy(&text), text.len()).then_some(encoding);
            }
        }
        if is_utf8(head) {
            return Some(Self::Utf8);
        }
        let high = head.iter().filter(|byte| !byte.is_ascii()).count();
        let control = |byte: &u8| matches!(byte, 0..=8 | 11 | 14..=0x1a | 0x1c..=0x1f | 0x7f | 0x81 | 0x8d | 0x8f | 0x90 | 0x9d);
        (high * 3 <= head.len() && !head.iter().any(control)).then_some(Self::Latin)
    }

    /// Returns the name, unless it is the usual encoding.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Utf8 => None,
            Self::Utf16Le | Self::Utf16Be => Some("UTF-16"),
            Self::Latin => Some("Latin-1"),
        }
    }

    /// Returns the length of a code unit, in bytes.
    pub fn unit(self) -> usize {
        if matches!(self, Self::Utf16Le | Self::Utf16Be) { 2 } else { 1 }
    }

    /// Iterates over the offsets after line breaks. The bytes start with a whole code unit.
    pub fn lines(self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let newline: &[u8] = match self {
            Self::Utf8 | Self::Latin => b"\n",
            Self::Utf16Le => b"\n\0",
            Self::Utf16Be => b"\0\n",
        };
        let units = bytes.chunks_exact(self.unit()).enumerate();
        units.filter(move |(_, unit)| *unit == newline).map(move |(at, _)| (at + 1) * newline.len())
    }

    /// Converts text to UTF-8, without a byte order mark.
    pub fn decode(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        let encoding = match self {
            Self::Utf8 => return Cow::Borrowed(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
            Self::Utf16Le => UTF_16LE,
            Self::Utf16Be => UTF_16BE,
            Self::Latin => WINDOWS_1252,
        };
        Cow::Owned(encoding.decode_with_bom_removal(bytes).0.into_owned().into_bytes())
    }

    /// Builds a search pattern for text in this encoding.
    pub fn pattern(self, needle: &str) -> Option<Regex> {
        if self == Self::Utf8 {
            return pattern(needle);
        }
        let any_case = !needle.chars().any(char::is_uppercase);
        let mut pattern = "(?s-u)".to_owned();
        for c in needle.chars() {
            let mut ways = vec![self.bytes(c)];
            if any_case {
                ways.extend(c.to_uppercase().next().map(|upper| self.bytes(upper)));
            }
            let ways: Vec<String> = ways.iter().map(|way| way.iter().map(|byte| format!("\\x{byte:02x}")).collect()).collect();
            pattern.push_str(&format!("(?:{})", ways.join("|")));
        }
        RegexBuilder::new(&pattern).build().ok()
    }

    fn bytes(self, c: char) -> Vec<u8> {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter();
        match self {
            Self::Utf16Le => units.flat_map(|unit| unit.to_le_bytes()).collect(),
            Self::Utf16Be => units.flat_map(|unit| unit.to_be_bytes()).collect(),
            Self::Utf8 => c.to_string().into_bytes(),
            Self::Latin => WINDOWS_1252.encode(&c.to_string()).0.into_owned(),
        }
    }
}

/// Compiles a text to a pattern. Without capitals, it matches both cases.
pub fn pattern(needle: &str) -> Option<Regex> {
    let any_case = !needle.chars().any(char::is_uppercase);
    RegexBuilder::new(&regex::escape(needle)).case_insensitive(any_case).build().ok()
}

/// Returns whether bytes are UTF-8 text: no NUL, hardly any invalid sequences, few control
/// characters.
fn is_utf8(head: &[u8]) -> bool {
    if head.contains(&0) {
        return false;
    }
    let mut invalid = 0;
    let mut valid = String::new();
    let mut parts = head.utf8_chunks().peekable();
    while let Some(part) = parts.next() {
        valid.push_str(part.valid());
        // The last character may be cut off.
        if parts.peek().is_some() {
            invalid += part.invalid().len();
        }
    }
    // One invalid byte in twenty suggests Latin-1 rather than damage.
    invalid * 200 <= head.len() && is_text(&valid, head.len())
}

/// Returns whether text of `len` bytes has few control characters.
fn is_text(text: &str, len: usize) -> bool {
    let strange = text.chars().filter(|c| c.is_control() && !c.is_whitespace() && *c != '\u{1b}').count();
    strange * 20 <= len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn encodings_are_detected_from_the_start() {
        assert_eq!(Encoding::detect("naïve\n\tcafé".as_bytes()), Some(Encoding::Utf8));
        assert_eq!(Encoding::detect(&"日本".as_bytes()[..5]), Some(Encoding::Utf8));
        assert_eq!(Encoding::detect(b"\x1b[31mred\x1b[0m"), Some(Encoding::Utf8));
        assert_eq!(Encoding::detect(&utf16("Grüße\n")), Some(Encoding::Utf16Le));
        let swapped: Vec<u8> = utf16("Grüße\n").chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        assert_eq!(Encoding::detect(&swapped), Some(Encoding::Utf16Be));
        assert_eq!(Encoding::detect(b"Gr\xfc\xdfe aus K\xf6ln\n"), Some(Encoding::Latin));
        for bytes in [&b"PK\x03\x04\0\0"[..], &[0x89, 0xff, 0xfe, 0x91, 0x80, 0x81], b"\xff\xfe\0\0a\0\0\0", b"\x01abc\xe9 def"] {
            assert_eq!(Encoding::detect(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn text_is_decoded_and_searched() {
        let text = utf16("One\r\nGrüße\n");
        let lines: Vec<usize> = Encoding::Utf16Le.lines(&text).collect();
        assert_eq!(lines, [12, 24]);
        assert_eq!(&*Encoding::Utf16Le.decode(&text[..12]), b"One\r\n");
        let found =
            |encoding: Encoding, needle: &str, text: &[u8]| encoding.pattern(needle).unwrap().find(text).map(|at| at.start());
        assert_eq!(found(Encoding::Utf16Le, "grüße", &text), Some(12));
        assert_eq!(found(Encoding::Utf16Le, "GRüße", &text), None);
        assert_eq!(found(Encoding::Latin, "köln", b"aus K\xf6ln"), Some(4));
        assert_eq!(&*Encoding::Latin.decode(b"\x80 5 f\xfcr"), "€ 5 für".as_bytes());
    }
}
