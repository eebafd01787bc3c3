//! Numbers for what is asked of threads, so that an answer that comes late is told from one that is awaited, and so that a thread knows when nobody
//! waits any more.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Another archive, or another commit.
    Opening,
    /// Whether what was typed can be done.
    Check,
    /// What to mark.
    Marks,
    /// What is known of an entry.
    Sheet,
    /// What compacting would save.
    Weight,
    /// The commits.
    Commits,
    /// Content for the clipboard.
    Content,
    /// How much room there is on disk for what is being typed.
    Room,
    /// Names on disk that begin like it.
    Names,
    /// Archives beside the one that is shown.
    Archives,
    /// Content for an editor.
    Copy,
    /// Rows, and what is known of them. This and what follows is numbered by what is on the screen: the list, the preview.
    List,
    /// The order of the list.
    Order,
    /// The map of sizes.
    Map,
    /// What the marks add up to.
    Totals,
    /// The preview.
    Preview,
    /// Where a text stands in it.
    Stops,
    /// Hits of a search by typing.
    Finder,
}

/// How many subjects there are.
const SUBJECTS: usize = Subject::Finder as usize + 1;
/// The number of what nobody awaits.
const NOTHING: u64 = u64::MAX;

/// The number of a request; its answer brings it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// What was asked for.
    pub subject: Subject,
    /// Which request it was.
    pub number: u64,
}

/// What answers are awaited.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    numbers: [u64; SUBJECTS],
    /// Requests for marks that are not answered yet.
    marks: usize,
    /// How many archives have been shown: all numbers of entries belong to one.
    pub epoch: u64,
}

impl Asked {
    /// Returns the number of the request that is awaited.
    pub fn ticket(&self, subject: Subject) -> Ticket {
        Ticket { subject, number: self.numbers[subject as usize] }
    }

    /// Asks anew: what was asked before is not awaited any more. Of marks all requests are, until they are cleared.
    pub fn ask(&mut self, subject: Subject) -> Ticket {
        match subject {
            Subject::Marks => self.marks += 1,
            _ => self.forget(subject),
        }
        self.ticket(subject)
    }

    /// Takes that a request is answered.
    pub fn answered(&mut self, ticket: Ticket) {
        if ticket.subject == Subject::Marks {
            self.marks = self.marks.saturating_sub(1);
        }
    }

    /// Says whether it is still being found out what to mark.
    pub fn finds_marks(&self) -> bool {
        self.marks > 0
    }

    /// Awaits no answer any more.
    pub fn forget(&mut self, subject: Subject) {
        self.numbers[subject as usize] += 1;
        if subject == Subject::Marks {
            self.marks = 0;
        }
    }

    /// Awaits the answer of this number, or none.
    pub fn await_number(&mut self, subject: Subject, number: Option<u64>) {
        self.numbers[subject as usize] = number.unwrap_or(NOTHING);
    }

    /// Awaits nothing that was asked of the archive shown so far.
    pub fn turn(&mut self) {
        self.epoch += 1;
        self.marks = 0;
        self.numbers.iter_mut().for_each(|number| *number = number.wrapping_add(1));
    }

    /// Says whether any answer of what is numbered by the screen is awaited.
    pub fn awaits_any(&self, subject: Subject) -> bool {
        self.numbers[subject as usize] != NOTHING
    }

    /// Says whether an answer is awaited.
    pub fn awaits(&self, ticket: Ticket) -> bool {
        self.ticket(ticket.subject) == ticket
    }
}

/// What is awaited, as threads see it.
#[derive(Debug, Default)]
pub struct Awaited([AtomicU64; SUBJECTS]);

impl Awaited {
    /// Takes what is awaited by now.
    pub fn renew(&self, asked: &Asked) {
        for (number, now) in self.0.iter().zip(asked.numbers) {
            number.store(now, Ordering::Relaxed);
        }
    }

    /// Awaits nothing any more.
    pub fn end(&self) {
        self.0.iter().for_each(|number| number.store(NOTHING, Ordering::Relaxed));
    }

    /// Says whether the answer to a request is awaited.
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.0[ticket.subject as usize].load(Ordering::Relaxed) == ticket.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_answers_are_told_from_others() {
        let mut asked = Asked::default();
        let (opening, marks) = (asked.ask(Subject::Opening), asked.ask(Subject::Marks));
        let more = asked.ask(Subject::Marks);
        assert!(asked.awaits(opening) && asked.awaits(marks) && asked.awaits(more));
        asked.answered(marks);
        asked.answered(opening);
        assert!(asked.finds_marks());
        asked.answered(more);
        assert!(!asked.finds_marks());
        let next = asked.ask(Subject::Opening);
        assert!(!asked.awaits(opening) && asked.awaits(next));
        asked.turn();
        assert!(!asked.awaits(next) && !asked.awaits(marks) && asked.epoch == 1);
        let marks = asked.ask(Subject::Marks);
        asked.forget(Subject::Marks);
        assert!(!asked.awaits(marks));
    }
}
