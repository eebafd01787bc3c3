//! A key with its modifiers, and its name in the help and in the configuration: `j`, `G`, `ctrl-d`, `alt-up`, `f5`, `space`.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key as it was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which one.
    pub code: KeyCode,
    /// Control, alt; shift only where the character does not show it.
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

    /// Returns the character that the key types, if it types one.
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if !self.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => Some(c),
            _ => None,
        }
    }
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        let mut modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        // Terminals disagree on whether a capital letter comes with shift.
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
        let code = code.ok_or_else(|| format!("no key '{text}' (examples: j, G, ctrl-d, alt-up, f5, space)"))?;
        if modifiers.contains(KeyModifiers::SHIFT) && matches!(code, KeyCode::Char(_)) {
            return Err(format!("key '{text}': write the capital letter instead of shift"));
        }
        Ok(Self { code, modifiers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_keys() {
        for name in ["j", "G", "-", "ctrl-d", "alt-up", "shift-down", "f5", "f12", "space", "del", "ctrl-alt-x", "é"] {
            assert_eq!(name.parse::<Key>().map(|key| key.to_string()), Ok(name.to_owned()));
        }
        for name in ["", "jj", "f0", "f25", "hyper-x", "shift-a"] {
            assert!(name.parse::<Key>().is_err(), "{name}");
        }
    }

    #[test]
    fn capitals_come_without_shift() {
        let event = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(Key::from(event).to_string(), "G");
        assert_eq!(Key::from(event).typed(), Some('G'));
        assert_eq!("ctrl-d".parse::<Key>().unwrap().typed(), None);
    }
}
