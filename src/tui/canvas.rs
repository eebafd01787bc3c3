//! What pictures are drawn on: how the terminal takes them, and how large its cells are.

use serde::Deserialize;

/// Pixels of a cell where the terminal does not tell: small ones, so that no picture grows out of
/// its pane.
pub const FONT: (u16, u16) = (8, 16);

/// How pictures shall be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pictures {
    /// As the terminal can.
    #[default]
    Auto,
    /// By the protocol of kitty.
    Kitty,
    /// By that of iTerm2.
    Iterm2,
    /// As sixels.
    Sixel,
    /// With half blocks.
    Blocks,
    /// Not at all: format and size are told.
    Off,
}

/// How pictures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// With half blocks, two pixels a cell.
    #[default]
    Blocks,
    /// By the protocol of kitty, with placeholders.
    Kitty,
    /// By that of iTerm2.
    Iterm2,
    /// As sixels.
    Sixel,
    /// Not at all.
    Off,
}

impl Protocol {
    /// Says whether the terminal is sent the pixels themselves.
    pub fn is_sent(self) -> bool {
        matches!(self, Self::Kitty | Self::Iterm2 | Self::Sixel)
    }
}

/// Where pictures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Canvas {
    /// How.
    pub protocol: Protocol,
    /// Columns and rows of a cell, pixels.
    pub font: (u16, u16),
    /// Columns and rows for a picture, cells.
    pub cells: (u16, u16),
}

impl Default for Canvas {
    fn default() -> Self {
        Self { protocol: Protocol::default(), font: FONT, cells: (0, 0) }
    }
}

impl Pictures {
    /// Returns the protocol that was asked for; `None` when the terminal decides. Kitty's is not
    /// used where the screen has no colours or nothing but ASCII: a colour tells the terminal which
    /// picture is meant, and other characters where it lies.
    pub fn chosen(self, rich: bool) -> Option<Protocol> {
        match self {
            Self::Auto => None,
            Self::Kitty if !rich => Some(Protocol::Blocks),
            Self::Kitty => Some(Protocol::Kitty),
            Self::Iterm2 => Some(Protocol::Iterm2),
            Self::Sixel => Some(Protocol::Sixel),
            Self::Blocks => Some(Protocol::Blocks),
            Self::Off => Some(Protocol::Off),
        }
    }
}

/// Says which protocol a terminal knows, by its environment; `None` when only the terminal itself
/// could tell.
pub fn known(variable: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    let value = |name: &str| variable(name).unwrap_or_default();
    let has = |name: &str| !value(name).is_empty();
    let term = value("TERM");
    // A multiplexer hands pictures on only if it, its settings and the terminal behind it all go
    // along, and nothing tells.
    if has("TMUX") || has("STY") || term.starts_with("tmux") || term.starts_with("screen") || term == "dumb" || term == "linux" {
        return Some(Protocol::Blocks);
    }
    // What is in front is told by the terminal itself; what comes later may be left of the one that
    // it was started from.
    if term.contains("kitty") || term.contains("ghostty") {
        return Some(Protocol::Kitty);
    }
    match value("TERM_PROGRAM").as_str() {
        "ghostty" => return Some(Protocol::Kitty),
        "iTerm.app" | "WezTerm" | "mintty" => return Some(Protocol::Iterm2),
        "" => {}
        _ => return None,
    }
    if value("LC_TERMINAL") == "iTerm2" || has("WEZTERM_EXECUTABLE") {
        return Some(Protocol::Iterm2);
    }
    has("KITTY_WINDOW_ID").then_some(Protocol::Kitty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &'static [(&str, &str)]) -> Option<Protocol> {
        known(move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn picture_protocol_is_detected_from_environment() {
        assert_eq!(told(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(told(&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")]), Some(Protocol::Kitty));
        assert_eq!(told(&[("TERM", "xterm-ghostty"), ("TERM_PROGRAM", "ghostty")]), Some(Protocol::Kitty));
        assert_eq!(told(&[("TERM", "xterm-256color"), ("LC_TERMINAL", "iTerm2")]), Some(Protocol::Iterm2));
        assert_eq!(told(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")]), Some(Protocol::Iterm2));
        assert_eq!(told(&[("TERM", "foot")]), None);
    }

    #[test]
    fn variables_of_other_terminals_are_ignored() {
        // An editor's terminal, started from kitty.
        assert_eq!(told(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "vscode"), ("KITTY_WINDOW_ID", "1")]), None);
        // Within tmux, within kitty.
        assert_eq!(told(&[("TERM", "tmux-256color"), ("TMUX", "/a,1,0"), ("KITTY_WINDOW_ID", "1")]), Some(Protocol::Blocks));
        assert_eq!(told(&[("TERM", "screen"), ("LC_TERMINAL", "iTerm2")]), Some(Protocol::Blocks));
    }

    #[test]
    fn chosen_protocol_is_used_where_possible() {
        assert_eq!(Pictures::Auto.chosen(true), None);
        assert_eq!(Pictures::Kitty.chosen(true), Some(Protocol::Kitty));
        assert_eq!(Pictures::Kitty.chosen(false), Some(Protocol::Blocks));
        assert_eq!(Pictures::Sixel.chosen(false), Some(Protocol::Sixel));
    }
}
