//! Content on its way: data as it is stored, and the holes between its parts.

use std::collections::VecDeque;

use super::decoder::Event;
use super::header::padded;
use super::sparse::Segment;

/// The content of an entry that is being read.
#[derive(Debug)]
pub(super) struct Content {
    /// Data to come, bytes.
    stored: u64,
    /// Position in the file.
    at: u64,
    /// Length with holes, bytes.
    size: u64,
    /// Parts of data to come: offset in the file and length.
    segments: VecDeque<Segment>,
    /// Bytes behind the data, up to whole blocks.
    padding: u64,
}

impl Content {
    /// Begins content without holes.
    pub(super) fn whole(stored: u64) -> Self {
        let segments = if stored > 0 { VecDeque::from([(0, stored)]) } else { VecDeque::new() };
        Self { stored, at: 0, size: stored, segments, padding: padded(stored) - stored }
    }

    /// Begins content of `size` bytes, of which these parts are data.
    pub(super) fn sparse(size: u64, stored: u64, map: Vec<Segment>) -> Self {
        Self { stored, at: 0, size, segments: map.into(), padding: padded(stored) - stored }
    }

    /// Begins the content of what is no file: its data is passed over.
    pub(super) fn none(stored: u64) -> Self {
        Self { stored: 0, at: 0, size: 0, segments: VecDeque::new(), padding: padded(stored) }
    }

    /// Returns the bytes of the archive that are to come, with those behind the data.
    pub(super) fn left(&self) -> u64 {
        self.stored.saturating_add(self.padding)
    }

    /// Returns what is to be passed over when all parts have come.
    pub(super) fn padding(&self) -> u64 {
        self.padding
    }

    /// Takes a part of `input` from its start, and tells how much that is and what it means: data, a hole, the end, or that more is needed.
    pub(super) fn step<'a>(&mut self, input: &'a [u8]) -> (usize, Event<'a>) {
        if let Some((offset, len)) = self.segments.front_mut() {
            if *offset > self.at {
                let hole = *offset - self.at;
                self.at = *offset;
                return (0, Event::Hole(hole));
            }
            let take = usize::try_from(*len).unwrap_or(usize::MAX).min(input.len());
            if take == 0 {
                return (0, Event::More);
            }
            let taken = take as u64;
            (*offset, *len, self.at, self.stored) = (*offset + taken, *len - taken, self.at + taken, self.stored - taken);
            if *len == 0 {
                self.segments.pop_front();
            }
            return (take, Event::Data(&input[..take]));
        }
        if self.at < self.size {
            let hole = self.size - self.at;
            self.at = self.size;
            return (0, Event::Hole(hole));
        }
        (0, Event::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of some bytes, handed in pieces of `step`.
    fn events(mut content: Content, bytes: &[u8], step: usize) -> Vec<String> {
        let (mut at, mut told) = (0, Vec::new());
        loop {
            let (taken, event) = content.step(&bytes[at..bytes.len().min(at + step)]);
            at += taken;
            match event {
                Event::Data(bytes) => told.push(format!("{bytes:?}")),
                Event::Hole(len) => told.push(format!("hole {len}")),
                Event::End => return told,
                event => return told.into_iter().chain([format!("{event:?}")]).collect(),
            }
        }
    }

    #[test]
    fn holes_lie_between_parts_and_around_them() {
        let content = || Content::sparse(20, 5, vec![(2, 2), (4, 1), (10, 2)]);
        assert_eq!((content().left(), content().padding()), (512, 507));
        assert_eq!(events(content(), &[1, 2, 3, 4, 5], 9), ["hole 2", "[1, 2]", "[3]", "hole 5", "[4, 5]", "hole 8"]);
        assert_eq!(events(content(), &[1, 2, 3], 1), ["hole 2", "[1]", "[2]", "[3]", "hole 5", "More"]);
        assert_eq!(events(Content::sparse(7, 0, vec![]), &[], 1), ["hole 7"]);
    }

    #[test]
    fn what_is_no_file_has_none() {
        assert_eq!(events(Content::whole(2), &[1, 2], 9), ["[1, 2]"]);
        assert!(events(Content::whole(0), &[], 9).is_empty() && events(Content::none(700), &[1], 9).is_empty());
        assert_eq!((Content::none(700).left(), Content::whole(700).left()), (1024, 1024));
    }
}
