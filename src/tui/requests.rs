//! The table of the requests whose responses are awaited.
//!
//! A response carries the ID of its request. A response that is no longer awaited changes nothing,
//! and a worker stops when the request it works on is no longer awaited.

use std::sync::atomic::{AtomicU64, Ordering};

use strum::EnumCount;

use crate::effect::{RequestId, RequestKind};

/// The requests of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The number that is awaited.
    number: u64,
    /// A request with this number has been made.
    made: bool,
    /// Requests with this number that have no response yet.
    unanswered: usize,
}

/// The requests whose responses are awaited.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    slots: [Slot; RequestKind::COUNT],
    /// Number of archives shown so far. Entry numbers belong to one of them.
    pub epoch: u64,
}

impl Requests {
    pub fn newest(&self, kind: RequestKind) -> RequestId {
        RequestId { kind, number: self.slots[kind as usize].number }
    }

    /// Makes a request. Earlier requests of its kind are no longer awaited, except those of
    /// [`RequestKind::Marks`] and [`RequestKind::Details`], whose responses add up.
    pub fn make(&mut self, kind: RequestKind) -> RequestId {
        if !matches!(kind, RequestKind::Marks | RequestKind::Details) {
            self.cancel(kind);
        }
        let slot = &mut self.slots[kind as usize];
        slot.made = true;
        slot.unanswered += 1;
        self.newest(kind)
    }

    /// Records a response.
    pub fn record_response(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.kind as usize];
        slot.unanswered = slot.unanswered.saturating_sub(1);
    }

    pub fn cancel(&mut self, kind: RequestKind) {
        let slot = &mut self.slots[kind as usize];
        *slot = Slot { number: slot.number.wrapping_add(1), ..Slot::default() };
    }

    /// Cancels all requests, because another archive is shown.
    pub fn cancel_all(&mut self) {
        self.epoch += 1;
        for slot in &mut self.slots {
            *slot = Slot { number: slot.number.wrapping_add(1), ..Slot::default() };
        }
    }

    /// Returns whether a request of a kind has been made and not cancelled.
    pub fn is_made(&self, kind: RequestKind) -> bool {
        self.slots[kind as usize].made
    }

    /// Returns whether a request of a kind has no response yet.
    pub fn is_unanswered(&self, kind: RequestKind) -> bool {
        self.slots[kind as usize].unanswered > 0
    }

    pub fn awaits(&self, id: RequestId) -> bool {
        self.newest(id.kind) == id
    }
}

/// The awaited requests, as workers see them.
#[derive(Debug, Default)]
pub struct SharedRequests([AtomicU64; RequestKind::COUNT]);

impl SharedRequests {
    const NONE: u64 = u64::MAX;

    pub fn publish(&self, requests: &Requests) {
        for (number, slot) in self.0.iter().zip(&requests.slots) {
            number.store(slot.number, Ordering::Relaxed);
        }
    }

    pub fn cancel_all(&self) {
        self.0.iter().for_each(|number| number.store(Self::NONE, Ordering::Relaxed));
    }

    pub fn awaits(&self, id: RequestId) -> bool {
        self.0[id.kind as usize].load(Ordering::Relaxed) == id.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outdated_requests_are_not_awaited() {
        let mut requests = Requests::default();
        let (open, marks) = (requests.make(RequestKind::Open), requests.make(RequestKind::Marks));
        let more = requests.make(RequestKind::Marks);
        assert!(requests.awaits(open) && requests.awaits(marks) && requests.awaits(more));
        requests.record_response(marks);
        requests.record_response(open);
        assert!(requests.is_unanswered(RequestKind::Marks));
        requests.record_response(more);
        assert!(!requests.is_unanswered(RequestKind::Marks) && requests.is_made(RequestKind::Marks));
        let next = requests.make(RequestKind::Open);
        assert!(!requests.awaits(open) && requests.awaits(next));
        requests.cancel_all();
        assert!(!requests.awaits(next) && !requests.awaits(marks) && requests.epoch == 1);
        let marks = requests.make(RequestKind::Marks);
        requests.cancel(RequestKind::Marks);
        assert!(!requests.awaits(marks) && !requests.is_made(RequestKind::Marks));
    }

    #[test]
    fn workers_see_what_is_published() {
        let (mut requests, shared) = (Requests::default(), SharedRequests::default());
        let id = requests.make(RequestKind::Rows);
        assert!(!shared.awaits(id));
        shared.publish(&requests);
        assert!(shared.awaits(id));
        shared.cancel_all();
        assert!(!shared.awaits(id));
    }
}
