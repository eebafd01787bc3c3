//! Blocks of another archive, taken over without compressing them again.
//!
//! A moved block gets a directory of its own: the pieces as they were, the records of entries that were finished since the block
//! before. Spec: nra.md, section 7.

use std::io::Write;

use crate::directory::Pieces;
use crate::frame::FrameKind;
use crate::writer::index::PieceOrHole;
use crate::writer::output::NewFrame;
use crate::writer::{Writer, grown, nothing_begun};
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::error::{Error, Result};

/// A block that is taken over.
pub(crate) struct Adopted<'a> {
    pub codec: Codec,
    pub raw_len: u32,
    /// Payload, stored.
    pub stored: &'a [u8],
    pub pieces: &'a Pieces,
    /// Offset of its dictionary in this archive, 0 = none.
    pub dictionary: u64,
    /// Its payload starts at a multiple of this, bytes.
    pub align: u32,
}

impl<W: Write + Send> Writer<W> {
    /// Says whether this commit has a piece with the digest.
    pub(crate) fn has_piece(&self, digest: &Digest) -> bool {
        self.index.pieces.find(digest).is_some()
    }

    /// Writes a dictionary for blocks that are taken over, and returns its offset.
    pub(crate) fn adopt_dictionary(&mut self, dictionary: &Dictionary) -> Result<u64> {
        self.settle_runs()?;
        let bytes = dictionary.as_bytes();
        let raw_len = u32::try_from(bytes.len()).expect("dictionaries are short");
        let frame = NewFrame::payload(FrameKind::Dictionary, Codec::None, raw_len, bytes);
        Ok(self.placing.output.frame(frame)?.offset)
    }

    /// Writes a block as it is. None of its pieces may be there already ([`Writer::has_piece`]).
    pub(crate) fn adopt(&mut self, block: &Adopted<'_>) -> Result<()> {
        self.settle_runs()?;
        let run = self.next_run_id();
        let loose = std::mem::take(&mut self.loose);
        self.loose_weight = 0;
        self.loose_batch += 1;
        self.placing.adopt(block, run, &loose, &mut self.index)
    }

    /// Adds a piece to the file that was begun.
    ///
    /// # Errors
    ///
    /// `Usage` for one that [`Writer::has_piece`] does not know.
    pub(crate) fn known_piece(&mut self, digest: &Digest) -> Result<()> {
        let unknown = || Error::Usage { detail: "a piece that is not in the archive was added by its digest".into() };
        let id = self.index.pieces.find(digest).ok_or_else(unknown)?;
        let place = self.index.pieces.place(id);
        let mut current = self.current.take().ok_or_else(nothing_begun)?;
        current.size = grown(current.size, place.raw_len.into())?;
        self.given_bytes = self.given_bytes.saturating_add(place.raw_len.into());
        if place.run == self.raw.id {
            current.touched[0] = place.run;
        } else if place.run == self.packed.id {
            current.touched[1] = place.run;
        }
        current.parts.push(PieceOrHole::Piece(id));
        self.current = Some(current);
        Ok(())
    }

    /// Places what is in work, so that what is written next does not depend on when a worker is done.
    fn settle_runs(&mut self) -> Result<()> {
        if !self.raw.is_empty() || !self.packed.is_empty() {
            self.close_raw()?;
            self.close_packed()?;
        }
        self.placing.settle(&mut self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::WriterOptions;
    use nra_core::entry::{Entry, Kind};
    use nra_core::path::EntryPath;

    #[test]
    fn a_piece_that_is_not_there_is_refused() {
        let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
        writer.begin(Entry::new(EntryPath::try_from("a").unwrap(), Kind::File)).unwrap();
        let (known, unknown) = (Digest::of(b"known"), Digest::of(b"unknown"));
        writer.piece(b"known", known, false).unwrap();
        assert!(matches!(writer.known_piece(&unknown), Err(Error::Usage { .. })));
        // The file that was begun is as it was.
        writer.known_piece(&known).unwrap();
        writer.end(None).unwrap();
    }
}
