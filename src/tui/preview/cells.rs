//! Splits separated values into cells.

/// A state machine that splits separated values byte by byte. Quotes protect separators and line
/// breaks; a doubled quote is a literal one.
pub struct Cells {
    separator: u8,
    at: CellState,
}

/// The state within a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellState {
    Start,
    Plain,
    Quotes,
    /// After a quote within quotes: it ends the quoted part unless another quote follows.
    Quote,
}

/// The role of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ByteRole {
    Value,
    Quote,
    CellEnd,
    RowEnd,
}

impl Cells {
    /// Starts at the beginning of a row.
    pub fn new(separator: u8) -> Self {
        Self { separator, at: CellState::Start }
    }

    pub fn classify(&mut self, byte: u8) -> ByteRole {
        let (at, part) = match (self.at, byte) {
            (CellState::Start, b'"') => (CellState::Quotes, ByteRole::Quote),
            (CellState::Quotes, b'"') => (CellState::Quote, ByteRole::Quote),
            (CellState::Quotes, _) | (CellState::Quote, b'"') => (CellState::Quotes, ByteRole::Value),
            (_, b'\n') => (CellState::Start, ByteRole::RowEnd),
            (_, byte) if byte == self.separator => (CellState::Start, ByteRole::CellEnd),
            _ => (CellState::Plain, ByteRole::Value),
        };
        self.at = at;
        part
    }
}
