//! Numbers for what is asked of threads, so that an answer that comes late is told from one that is awaited.

/// What is asked for. Requests that change with the list or the preview have numbers of those instead.
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
    /// The commits.
    Commits,
    /// Content for the clipboard.
    Content,
}

/// How many subjects there are.
const SUBJECTS: usize = Subject::Content as usize + 1;

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
        if subject != Subject::Marks {
            self.forget(subject);
        }
        self.ticket(subject)
    }

    /// Awaits no answer any more.
    pub fn forget(&mut self, subject: Subject) {
        self.numbers[subject as usize] += 1;
    }

    /// Awaits nothing that was asked of the archive shown so far.
    pub fn turn(&mut self) {
        self.epoch += 1;
        self.numbers.iter_mut().for_each(|number| *number += 1);
    }

    /// Says whether an answer is awaited.
    pub fn awaits(&self, ticket: Ticket) -> bool {
        self.ticket(ticket.subject) == ticket
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
        let next = asked.ask(Subject::Opening);
        assert!(!asked.awaits(opening) && asked.awaits(next));
        asked.turn();
        assert!(!asked.awaits(next) && !asked.awaits(marks) && asked.epoch == 1);
        let marks = asked.ask(Subject::Marks);
        asked.forget(Subject::Marks);
        assert!(!asked.awaits(marks));
    }
}
