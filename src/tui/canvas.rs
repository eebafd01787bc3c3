//! Picture output: the graphics protocol of the terminal and the size of its cells.

use serde::Deserialize;

/// Cell size in pixels if the terminal does not report it. Small, so that no picture exceeds its
/// pane.
pub const DEFAULT_FONT: (u16, u16) = (8, 16);

/// The setting for pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pictures {
    /// Detected from the terminal.
    #[default]
    Auto,
    /// The kitty graphics protocol.
    Kitty,
    /// The iTerm2 protocol.
    Iterm2,
    /// Sixel graphics.
    Sixel,
    /// Half blocks.
    Blocks,
    /// No pictures; only format and size are shown.
    Off,
}

/// The way pictures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// Half blocks, two pixels per cell.
    #[default]
    Blocks,
    /// The kitty protocol, with placeholders.
    Kitty,
    /// The iTerm2 protocol.
    Iterm2,
    /// Sixel graphics.
    Sixel,
    /// Not drawn.
    Off,
}

impl Protocol {
    /// Returns whether the pixels are sent to the terminal.
    pub fn sends_pixels(self) -> bool {
        matches!(self, Self::Kitty | Self::Iterm2 | Self::Sixel)
    }
}

/// The target of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Canvas {
    /// The protocol.
    pub protocol: Protocol,
    /// Width and height of a cell, in pixels.
    pub font: (u16, u16),
    /// Columns and rows available for a picture, in cells.
    pub cells: (u16, u16),
}

impl Default for Canvas {
    fn default() -> Self {
        Self { protocol: Protocol::default(), font: DEFAULT_FONT, cells: (0, 0) }
    }
}

impl Pictures {
    /// Returns the protocol of the setting; `None` if it is to be detected.
    ///
    /// The kitty protocol needs colours and non-ASCII characters: the picture number is encoded as
    /// a colour, and placeholder characters mark its position. Half blocks replace it on other
    /// screens.
    pub fn protocol(self, rich: bool) -> Option<Protocol> {
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

/// Detects the protocol from the environment; `None` if the terminal has to be asked.
pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    let value = |name: &str| variable(name).unwrap_or_default();
    let has = |name: &str| !value(name).is_empty();
    let term = value("TERM");
    // A multiplexer forwards pictures only if its settings and the outer terminal support it, which
    // cannot be detected.
    if has("TMUX") || has("STY") || term.starts_with("tmux") || term.starts_with("screen") || term == "dumb" || term == "linux" {
        return Some(Protocol::Blocks);
    }
    // `TERM` is set by the terminal itself. The variables below may be inherited from the terminal
    // in which this one was started.
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

    fn detected(pairs: &'static [(&str, &str)]) -> Option<Protocol> {
        detect(move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn protocol_is_detected_from_environment() {
        assert_eq!(detected(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(detected(&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")]), Some(Protocol::Kitty));
        assert_eq!(detected(&[("TERM", "xterm-ghostty"), ("TERM_PROGRAM", "ghostty")]), Some(Protocol::Kitty));
        assert_eq!(detected(&[("TERM", "xterm-256color"), ("LC_TERMINAL", "iTerm2")]), Some(Protocol::Iterm2));
        assert_eq!(detected(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")]), Some(Protocol::Iterm2));
        assert_eq!(detected(&[("TERM", "foot")]), None);
    }

    #[test]
    fn inherited_variables_are_ignored() {
        // The terminal of an editor that was started from kitty.
        assert_eq!(detected(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "vscode"), ("KITTY_WINDOW_ID", "1")]), None);
        // In tmux, in kitty.
        assert_eq!(detected(&[("TERM", "tmux-256color"), ("TMUX", "/a,1,0"), ("KITTY_WINDOW_ID", "1")]), Some(Protocol::Blocks));
        assert_eq!(detected(&[("TERM", "screen"), ("LC_TERMINAL", "iTerm2")]), Some(Protocol::Blocks));
    }

    #[test]
    fn setting_is_used_if_supported() {
        assert_eq!(Pictures::Auto.protocol(true), None);
        assert_eq!(Pictures::Kitty.protocol(true), Some(Protocol::Kitty));
        assert_eq!(Pictures::Kitty.protocol(false), Some(Protocol::Blocks));
        assert_eq!(Pictures::Sixel.protocol(false), Some(Protocol::Sixel));
    }
}
