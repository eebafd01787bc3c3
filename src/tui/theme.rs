//! Colours by role. No information is conveyed by colour alone: every role also has a symbol, a
//! word or a modifier.

use ratatui::style::{Color, Modifier, Style};

/// The colours that a terminal supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// None: only bold, dim and reverse.
    Mono,
    /// The 16 colours of the terminal's own theme.
    #[default]
    Ansi,
    /// 256 colours.
    Indexed,
    /// 24-bit colours.
    True,
}

/// The background that the colours are chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Background {
    /// Light text on dark.
    #[default]
    Dark,
    /// Dark text on light.
    Light,
}

/// The style of each role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    pub depth: Depth,
    pub text: Style,
    /// Less important text: column headers, rules, line numbers.
    pub dim: Style,
    /// Names of directories.
    pub directory: Style,
    /// Names of symlinks.
    pub link: Style,
    /// Names of FIFOs and devices.
    pub special: Style,
    /// The row under the cursor in the focused pane.
    pub cursor: Style,
    /// The row under the cursor in the other pane.
    pub cursor_away: Style,
    /// Marked rows.
    pub mark: Style,
    /// Titles, keys, the path.
    pub accent: Style,
    /// Matching letters of a search.
    pub hit: Style,
    pub warning: Style,
    pub error: Style,
    pub success: Style,
    /// Control characters and other bytes that are not text.
    pub symbol: Style,
    /// Frame of a dialog.
    pub frame: Style,
    /// Background of a dialog.
    pub dialog: Style,
    /// The filled part of a bar.
    pub bar: Style,
}

/// One colour in each depth: of the 16, of the 256, in 24 bits.
struct Shade(Color, u8, (u8, u8, u8));

impl Shade {
    fn at(&self, depth: Depth) -> Option<Color> {
        match depth {
            Depth::Mono => None,
            Depth::Ansi => Some(self.0),
            Depth::Indexed => Some(Color::Indexed(self.1)),
            Depth::True => Some(Color::Rgb(self.2.0, self.2.1, self.2.2)),
        }
    }

    fn front(&self, depth: Depth) -> Style {
        self.at(depth).map_or_else(Style::new, |color| Style::new().fg(color))
    }
}

impl Default for Theme {
    fn default() -> Self {
        Self::new(Background::default(), Depth::default())
    }
}

impl Theme {
    pub fn new(ground: Background, depth: Depth) -> Self {
        let dark = ground == Background::Dark;
        let pick = |on_dark: Shade, on_light: Shade| if dark { on_dark } else { on_light };
        let blue = pick(Shade(Color::Blue, 110, (137, 180, 250)), Shade(Color::Blue, 25, (30, 92, 179)));
        let teal = pick(Shade(Color::Cyan, 116, (130, 205, 205)), Shade(Color::Cyan, 30, (0, 118, 125)));
        let green = pick(Shade(Color::Green, 114, (150, 205, 140)), Shade(Color::Green, 28, (45, 125, 45)));
        let yellow = pick(Shade(Color::Yellow, 222, (230, 200, 130)), Shade(Color::Yellow, 130, (150, 95, 0)));
        let red = pick(Shade(Color::Red, 210, (240, 140, 150)), Shade(Color::Red, 124, (180, 30, 40)));
        let violet = pick(Shade(Color::Magenta, 183, (200, 170, 240)), Shade(Color::Magenta, 91, (125, 60, 160)));
        let gray = pick(Shade(Color::DarkGray, 245, (138, 143, 158)), Shade(Color::DarkGray, 243, (110, 114, 125)));
        let ground_of_cursor = pick(Shade(Color::Reset, 237, (49, 53, 68)), Shade(Color::Reset, 253, (218, 224, 235)));
        let ground_of_dialog = pick(Shade(Color::Reset, 235, (30, 32, 44)), Shade(Color::Reset, 255, (244, 246, 250)));

        let bold = Style::new().add_modifier(Modifier::BOLD);
        let dim = if depth == Depth::Mono { Style::new().add_modifier(Modifier::DIM) } else { gray.front(depth) };
        let rich = matches!(depth, Depth::Indexed | Depth::True);
        let ground = |shade: &Shade| shade.at(depth).map_or_else(Style::new, |color| Style::new().bg(color));
        let cursor = if rich {
            ground(&ground_of_cursor).add_modifier(Modifier::BOLD)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        };
        let cursor_away = if rich { ground(&ground_of_cursor) } else { Style::new().add_modifier(Modifier::UNDERLINED) };
        Self {
            depth,
            text: Style::new(),
            dim,
            directory: blue.front(depth).patch(bold),
            link: teal.front(depth),
            special: yellow.front(depth),
            cursor,
            cursor_away,
            mark: yellow.front(depth).patch(bold),
            accent: if depth == Depth::Mono { bold } else { blue.front(depth).patch(bold) },
            hit: yellow.front(depth).add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            warning: yellow.front(depth),
            error: red.front(depth).patch(bold),
            success: green.front(depth),
            symbol: if depth == Depth::Mono { Style::new().add_modifier(Modifier::REVERSED) } else { violet.front(depth) },
            frame: if depth == Depth::Mono { Style::new() } else { blue.front(depth) },
            dialog: if rich { ground(&ground_of_dialog) } else { Style::new() },
            bar: if depth == Depth::Mono { bold } else { green.front(depth) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monochrome_roles_differ_by_modifier() {
        let mono = Theme::new(Background::Dark, Depth::Mono);
        for style in [mono.text, mono.dim, mono.directory, mono.cursor, mono.mark, mono.error, mono.hit, mono.dialog] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert_ne!(mono.cursor, mono.text);
        assert_ne!(mono.cursor, mono.cursor_away);
        assert_ne!(mono.dim, mono.text);
    }

    #[test]
    fn ansi_colours_come_from_the_terminal() {
        let ansi = Theme::new(Background::Light, Depth::Ansi);
        assert_eq!(ansi.directory.fg, Some(Color::Blue));
        assert!(ansi.cursor.add_modifier.contains(Modifier::REVERSED));
        assert!(matches!(Theme::new(Background::Light, Depth::True).directory.fg, Some(Color::Rgb(..))));
    }
}
