//! What the user can ask for. Keys, mouse and palette all end here.

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Cursor or text down by one row.
    Down,
    /// Up by one row.
    Up,
    /// Down by half a screen.
    HalfDown,
    /// Up by half a screen.
    HalfUp,
    /// Down by a screen.
    PageDown,
    /// Up by a screen.
    PageUp,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Into the directory, or to the content of the file.
    Enter,
    /// To the directory above.
    Parent,
    /// Text to the left.
    Left,
    /// Text to the right.
    Right,
    /// Preview beside the list on or off.
    Preview,
    /// Focus to the other pane.
    Focus,
    /// Preview over the whole screen, or back.
    Zoom,
    /// Preview by what the content is.
    AsAuto,
    /// Preview as text.
    AsText,
    /// Preview as bytes.
    AsHex,
    /// Preview as facts.
    AsInfo,
    /// Long lines go on in the next row, or are cut.
    Wrap,
    /// The keys of this place.
    Help,
    /// Close what is on top, or end.
    Quit,
    /// End now.
    QuitNow,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Draw everything anew.
    Redraw,
}
