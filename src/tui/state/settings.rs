//! Settings that hold for a whole run.

use crate::keymap::Keymap;
use crate::theme::Theme;

/// Settings that hold for a whole run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Keys.
    pub keymap: Keymap,
    /// Colours.
    pub theme: Theme,
    /// The cursor of the terminal follows the focus, for screen readers.
    pub linear: bool,
    /// Only ASCII characters are drawn.
    pub ascii: bool,
}
