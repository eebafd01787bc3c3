//! Untrusted text on the screen: made printable and cut to a width.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

pub use nra_text::printable;

/// Columns between tab stops.
pub const TAB: usize = 4;

/// Returns the ASCII replacement of a symbol.
pub fn ascii(symbol: &str) -> char {
    match symbol.chars().next().unwrap_or(' ') {
        '─' | '‖' => '-',
        '│' | '▏' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '╭' | '╮' | '╰' | '╯' => '+',
        '▸' | '▶' | '›' | '→' => '>',
        '▾' | '↓' => 'v',
        '▴' | '↑' => '^',
        '●' | '•' => '*',
        '◐' | '○' => 'o',
        '✗' => 'x',
        '✓' => '+',
        '■' | '█' | '▉' | '▊' | '▋' | '▌' | '▍' | '▎' | '▀' | '▄' => '#',
        '░' | '·' | '…' => '.',
        _ => '?',
    }
}

/// Iterates over grapheme clusters: letters with their accents.
pub fn graphemes(text: &str) -> impl Iterator<Item = &str> {
    text.graphemes(true)
}

/// Returns the number of columns that `text` occupies.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns the longest prefix of `text` that fits into `columns`.
pub fn start(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let mut end = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += width(grapheme);
        if used > columns {
            return &text[..end];
        }
        end = at + grapheme.len();
    }
    text
}

/// Returns the longest suffix of `text` that fits into `columns`.
pub fn end(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let mut from = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        used += width(grapheme);
        if used > columns {
            return &text[from..];
        }
        from = at;
    }
    text
}

/// Returns `text`, or its start and end joined by `…` if it needs more than `columns`.
///
/// The end is kept because it distinguishes names and contains the extension.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    match columns {
        0 => Cow::Borrowed(""),
        1 => Cow::Borrowed("…"),
        _ => {
            let tail = (columns - 1) / 2;
            Cow::Owned(format!("{}…{}", start(text, columns - 1 - tail), end(text, tail)))
        }
    }
}

/// Returns `text`, or its start followed by `…` if it needs more than `columns`. For sentences,
/// whose start matters most.
pub fn fit_start(text: &str, columns: usize) -> Cow<'_, str> {
    match columns {
        _ if width(text) <= columns => Cow::Borrowed(text),
        0 | 1 => Cow::Borrowed(""),
        _ => Cow::Owned(format!("{}…", start(text, columns - 1))),
    }
}

/// Makes bytes printable like [`printable`] and cuts them like [`fit`]. Of a long input, only both
/// ends are examined.
pub fn printable_within(bytes: &[u8], columns: usize) -> String {
    /// Bytes examined per column at each end: enough for any alphabet with accents.
    const BYTES: usize = 8;
    let end = BYTES * (columns + 1);
    if bytes.len() <= 2 * end {
        return fit(&printable(bytes), columns).into_owned();
    }
    // Cut at character boundaries.
    let is_within = |at: &usize| bytes[*at] & 0xc0 == 0x80;
    let front = (end - 3..=end).rev().find(|at| !is_within(at)).unwrap_or(end);
    let back = (bytes.len() - end..bytes.len()).find(|at| !is_within(at)).unwrap_or(bytes.len() - end);
    fit(&format!("{}…{}", printable(&bytes[..front]), printable(&bytes[back..])), columns).into_owned()
}

/// Returns `text` without its first `columns` columns. A wide character that is cut in two becomes
/// a space.
pub fn skip(text: &str, columns: usize) -> Cow<'_, str> {
    let front = start(text, columns);
    let rest = &text[front.len()..];
    if width(front) == columns || rest.is_empty() {
        return Cow::Borrowed(rest);
    }
    let cut = rest.graphemes(true).next().map_or(0, str::len);
    Cow::Owned(format!(" {}", &rest[cut..]))
}

/// Splits text into lines of at most `width` columns, at spaces if possible.
pub fn wrapped(text: &str, width: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let fits = start(rest, width);
        if fits.is_empty() {
            return None;
        }
        let cut = match fits.rfind(' ') {
            Some(space) if fits.len() < rest.len() && space > 0 => space,
            _ => fits.len(),
        };
        let (line, tail) = rest.split_at(cut);
        rest = tail.trim_start();
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use nra_format::path::is_unsafe_to_show;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable(b"a\n\x1b[31m\x7f\xff"), "a␊␛[31m␡\\xff");
        assert_eq!(printable("a\u{202e}b\u{85}".as_bytes()), "a·b·");
        assert_eq!(printable("日本 é".as_bytes()), "日本 é");
        // Joined emoji are shown side by side; other joiners become visible.
        assert_eq!(printable("👨\u{200d}👩\u{200d}👧.txt".as_bytes()), "👨👩👧.txt");
        assert_eq!(printable("❤\u{fe0f}\u{200d}🔥 a\u{200d}b 👨\u{200d}".as_bytes()), "❤\u{fe0f}🔥 a·b 👨·");
    }

    #[test]
    fn long_names_are_cut_in_the_middle() {
        assert_eq!(fit("short.txt", 9), "short.txt");
        assert_eq!(fit("a-very-long-name.txt", 11), "a-ver…e.txt");
        assert_eq!(fit("日本語日本語", 6), "日…語");
        assert_eq!(fit("abc", 1), "…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(printable_within(&"日本語".repeat(9_999).into_bytes(), 6), "日…語");
        assert_eq!(printable_within(&[0xff; 9_999], 9), "\\xff…\\xff");
        assert_eq!(printable_within(&"a\u{301}".repeat(30).into_bytes(), 30), "a\u{301}".repeat(30));
        assert_eq!(skip("日本", 1), " 本");
        assert_eq!(skip("abc", 5), "");
    }

    proptest! {
        #[test]
        fn cut_text_fits(bytes in proptest::collection::vec(any::<u8>(), 0..60), columns in 0usize..40) {
            let text = printable(&bytes);
            prop_assert!(!text.chars().any(is_unsafe_to_show));
            prop_assert!(width(&fit(&text, columns)) <= columns);
            prop_assert!(width(&printable_within(&bytes.repeat(20), columns)) <= columns);
            prop_assert!(width(start(&text, columns)) <= columns);
        }
    }
}
