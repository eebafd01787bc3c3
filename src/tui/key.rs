//! A key with its modifiers, and its name in the help and in the configuration: `j`, `G`, `ctrl-d`,
//! `alt-up`, `f5`, `space`.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub code: KeyCode,
    /// Control and Alt. Shift only where the character does not imply it.
    pub modifiers: KeyModifiers,
}

/// Keys that have a name instead of a character.
const NAMED: [(&str, KeyCode); 16] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("space", KeyCode::Char(' ')),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("ins", KeyCode::Insert),
    ("del", KeyCode::Delete),
];

impl Key {
    /// Returns the key without modifiers.
    pub fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: KeyModifiers::NONE }
    }

    /// Returns the character that the key types, if any.
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if !self.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => Some(c),
            _ => None,
        }
    }
}

/// Escape sequences of keys without a character, after `ESC [` or `ESC O`.
const SEQUENCES: [(&[u8], KeyCode); 12] = [
    (b"A", KeyCode::Up),
    (b"B", KeyCode::Down),
    (b"C", KeyCode::Right),
    (b"D", KeyCode::Left),
    (b"H", KeyCode::Home),
    (b"F", KeyCode::End),
    (b"1~", KeyCode::Home),
    (b"2~", KeyCode::Insert),
    (b"3~", KeyCode::Delete),
    (b"4~", KeyCode::End),
    (b"5~", KeyCode::PageUp),
    (b"6~", KeyCode::PageDown),
];

impl Key {
    /// Decodes the keys in bytes from a terminal. Unknown escape sequences are skipped.
    pub fn decode(mut bytes: &[u8]) -> Vec<Self> {
        let mut keys = Vec::new();
        while let [first, rest @ ..] = bytes {
            bytes = rest;
            let code = match first {
                0x1b => match rest {
                    [b'[' | b'O', rest @ ..] => {
                        let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(rest.len(), |end| end + 1);
                        bytes = &rest[end..];
                        match SEQUENCES.iter().find(|(sequence, _)| *sequence == &rest[..end]) {
                            Some((_, code)) => *code,
                            None => continue,
                        }
                    }
                    _ => KeyCode::Esc,
                },
                b'\r' | b'\n' => KeyCode::Enter,
                b'\t' => KeyCode::Tab,
                0x7f => KeyCode::Backspace,
                0 => continue,
                0x01..=0x1a => {
                    let letter = KeyCode::Char(char::from(first - 1 + b'a'));
                    keys.push(Self { code: letter, modifiers: KeyModifiers::CONTROL });
                    continue;
                }
                _ => {
                    let whole = std::iter::once(*first).chain(rest.iter().copied()).take(4).collect::<Vec<u8>>();
                    let Some(c) = whole.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next()) else { continue };
                    bytes = &rest[c.len_utf8() - 1..];
                    KeyCode::Char(c)
                }
            };
            keys.push(Self::plain(code));
        }
        keys
    }
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        // Line feeds typed before raw mode was enabled stand for Enter.
        if (event.code, event.modifiers) == (KeyCode::Char('j'), KeyModifiers::CONTROL) {
            return Self::plain(KeyCode::Enter);
        }
        let mut modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        // Terminals disagree on whether a capital letter includes Shift.
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers -= KeyModifiers::SHIFT;
        }
        Self { code: event.code, modifiers }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (modifier, name) in [(KeyModifiers::CONTROL, "ctrl-"), (KeyModifiers::ALT, "alt-"), (KeyModifiers::SHIFT, "shift-")] {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        if let Some((name, _)) = NAMED.iter().find(|(_, code)| *code == self.code) {
            return f.write_str(name);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(number) => write!(f, "f{number}"),
            _ => f.write_str("unknown"),
        }
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        loop {
            let (modifier, tail) = match rest {
                _ if rest.starts_with("ctrl-") => (KeyModifiers::CONTROL, &rest[5..]),
                _ if rest.starts_with("alt-") => (KeyModifiers::ALT, &rest[4..]),
                _ if rest.starts_with("shift-") => (KeyModifiers::SHIFT, &rest[6..]),
                _ => break,
            };
            modifiers |= modifier;
            rest = tail;
        }
        let mut characters = rest.chars();
        let code = match (characters.next(), characters.as_str()) {
            (Some(c), "") => Some(KeyCode::Char(c)),
            (Some('f'), number) if number.parse::<u8>().is_ok_and(|number| (1..=24).contains(&number)) => {
                Some(KeyCode::F(number.parse().expect("just parsed")))
            }
            _ => NAMED.iter().find(|(name, _)| *name == rest).map(|(_, code)| *code),
        };
        let code = code.ok_or_else(|| format!("unknown key '{text}' (examples: j, G, ctrl-d, alt-up, f5, space)"))?;
        if modifiers.contains(KeyModifiers::SHIFT) && matches!(code, KeyCode::Char(_)) {
            return Err(format!("key '{text}': use the capital letter instead of shift"));
        }
        Ok(Self { code, modifiers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_round_trip() {
        for name in ["j", "G", "-", "ctrl-d", "alt-up", "shift-down", "f5", "f12", "space", "del", "ctrl-alt-x", "é"] {
            assert_eq!(name.parse::<Key>().map(|key| key.to_string()), Ok(name.to_owned()));
        }
        for name in ["", "jj", "f0", "f25", "hyper-x", "shift-a"] {
            assert!(name.parse::<Key>().is_err(), "{name}");
        }
    }

    #[test]
    fn bytes_are_decoded() {
        let names = |bytes: &[u8]| Key::decode(bytes).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(names("jé日 \r\t\x7f\x04G".as_bytes()), "j é 日 space enter tab backspace ctrl-d G");
        assert_eq!(names(b"\x1b[A\x1bOB\x1b[3~\x1b[1;5Cx\x1b"), "up down del x esc");
        assert_eq!(names(b"\xff\xc3"), "");
        assert_eq!(names(b"\x1b["), "");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decoded(bytes: Vec<u8>) {
            assert!(Key::decode(&bytes).len() <= bytes.len());
        }
    }

    #[test]
    fn capitals_do_not_need_shift() {
        let event = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(Key::from(event).to_string(), "G");
        assert_eq!(Key::from(event).typed(), Some('G'));
        assert_eq!("ctrl-d".parse::<Key>().unwrap().typed(), None);
    }
}
