//! What the outside shall do: read, write, end. Answers come back as events.

use crate::tui::state::listing::RowsRequest;
use crate::tui::state::pane::PreviewRequest;

/// Something to do outside of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Fetch rows.
    Rows(RowsRequest),
    /// Find out what rows show beside their entries.
    Facts(FactsRequest),
    /// Read a preview.
    Preview(PreviewRequest),
    /// Stop the process until the shell continues it.
    Suspend,
    /// Draw every cell.
    Redraw,
    /// End.
    Quit,
}

/// Asks for facts about rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactsRequest {
    /// Which list this is for.
    pub generation: u64,
    /// The rows: number and entry.
    pub entries: Vec<(u64, crate::format::entry::Entry)>,
}
