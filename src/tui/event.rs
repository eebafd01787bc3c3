//! What happens: keys, the size of the screen, answers of the threads, time.

use crossterm::event::MouseEvent;

use crate::tui::key::Key;
use crate::tui::state::listing::{Facts, RowsAnswer};
use crate::tui::state::pane::PreviewAnswer;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// Something was pasted.
    Paste(String),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The screen has this many columns and rows.
    Resize(u16, u16),
    /// Rows have come.
    Rows(RowsAnswer),
    /// Facts about rows have come: of a list of this number, by the numbers of entries.
    Facts(u64, Vec<(u64, Facts)>),
    /// A preview has come.
    Preview(PreviewAnswer),
    /// Only time has passed.
    Tick,
    /// The system asks the program to end.
    Terminate,
}
