//! The content of an entry: stored data, and the holes between its segments.

use std::collections::VecDeque;

use super::decoder::Event;
use super::header::padded;
use super::sparse::Segment;

/// The unread content of an entry.
#[derive(Debug)]
pub(super) struct Content {
    /// Data not yet read, bytes.
    stored: u64,
    /// Position in the file.
    at: u64,
    /// Length including holes, bytes.
    size: u64,
    /// Segments not yet read: offset in the file and length.
    segments: VecDeque<Segment>,
    /// Bytes after the data, up to the next block.
    padding: u64,
}

impl Content {
    /// Returns content without holes.
    pub(super) fn whole(stored: u64) -> Self {
        let segments = if stored > 0 { VecDeque::from([(0, stored)]) } else { VecDeque::new() };
        Self { stored, at: 0, size: stored, segments, padding: padded(stored) - stored }
    }

    /// Returns content of `size` bytes with data in the segments of `map`.
    pub(super) fn sparse(size: u64, stored: u64, map: Vec<Segment>) -> Self {
        Self { stored, at: 0, size, segments: map.into(), padding: padded(stored) - stored }
    }

    /// Returns the content of an entry that is not a file: its data is skipped.
    pub(super) fn skipped(stored: u64) -> Self {
        Self { stored: 0, at: 0, size: 0, segments: VecDeque::new(), padding: padded(stored) }
    }

    /// Returns the number of unread bytes of the archive, including padding.
    pub(super) fn remaining(&self) -> u64 {
        self.stored.saturating_add(self.padding)
    }

    /// Returns the number of bytes to skip after the data.
    pub(super) fn padding(&self) -> u64 {
        self.padding
    }

    /// Consumes the start of `input`. Returns its length and what it contains: data, a hole, the
    /// end, or [`Event::More`] if more input is needed.
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

    /// Returns the events of some bytes that arrive in chunks of `step`.
    fn events(mut content: Content, bytes: &[u8], step: usize) -> Vec<String> {
        let (mut at, mut events) = (0, Vec::new());
        loop {
            let (taken, event) = content.step(&bytes[at..bytes.len().min(at + step)]);
            at += taken;
            match event {
                Event::Data(bytes) => events.push(format!("{bytes:?}")),
                Event::Hole(len) => events.push(format!("hole {len}")),
                Event::End => return events,
                event => return events.into_iter().chain([format!("{event:?}")]).collect(),
            }
        }
    }

    #[test]
    fn sparse_content_yields_holes_between_and_around_segments() {
        let content = || Content::sparse(20, 5, vec![(2, 2), (4, 1), (10, 2)]);
        assert_eq!((content().remaining(), content().padding()), (512, 507));
        assert_eq!(events(content(), &[1, 2, 3, 4, 5], 9), ["hole 2", "[1, 2]", "[3]", "hole 5", "[4, 5]", "hole 8"]);
        assert_eq!(events(content(), &[1, 2, 3], 1), ["hole 2", "[1]", "[2]", "[3]", "hole 5", "More"]);
        assert_eq!(events(Content::sparse(7, 0, vec![]), &[], 1), ["hole 7"]);
    }

    #[test]
    fn skipped_content_yields_no_data() {
        assert_eq!(events(Content::whole(2), &[1, 2], 9), ["[1, 2]"]);
        assert!(events(Content::whole(0), &[], 9).is_empty() && events(Content::skipped(700), &[1], 9).is_empty());
        assert_eq!((Content::skipped(700).remaining(), Content::whole(700).remaining()), (1024, 1024));
    }
}
