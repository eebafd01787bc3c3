//! The rest of a run after the screen is closed: jobs that continue, and their results.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use signal_hook::iterator::Handle;

use crate::event::Event;
use crate::session::Session;
use crate::state::{JobEvent, JobId, Quit};

pub use crate::state::{Ending, Job};

/// Interval between two reports of a running job.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// A report on a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobReport {
    /// This many jobs continue.
    Continuing(usize),
    /// A job is still running.
    Running(Job),
    /// A job has ended.
    Ended(Job),
}

/// A run without its screen.
pub struct BackgroundRun {
    session: Session,
    signals: Handle,
    /// Jobs whose end has not been reported.
    awaited: Vec<JobId>,
    queue: VecDeque<JobReport>,
    report_interval: Duration,
}

impl BackgroundRun {
    pub(super) fn new(session: Session, signals: Handle) -> Self {
        // Nothing is shown, so no response is awaited.
        session.workers.cancel_all();
        let (mut queue, mut awaited) = (VecDeque::new(), Vec::new());
        let running = session.state.jobs.running().count();
        if running > 0 && session.detached {
            awaited.extend(session.state.jobs.running().map(|job| job.id));
            queue.push_back(JobReport::Continuing(running));
        }
        // The user waited for these jobs without seeing their results.
        if let Some(Quit { since, .. }) = session.state.quit {
            let ended = session.state.jobs.list.iter().filter(|job| job.ending.is_some() && job.updated >= since);
            queue.extend(ended.cloned().map(JobReport::Ended));
        }
        Self { session, signals, awaited, queue, report_interval: REPORT_INTERVAL }
    }

    /// Returns the signal that asked the program to exit, if any.
    pub fn ended_by(&self) -> Option<i32> {
        self.session.ended_by
    }

    /// Returns whether no archive was shown.
    pub fn is_vacant(&self) -> bool {
        self.session.state.opening.no_archive
    }

    /// Waits for the next report; `None` when all jobs have ended. A signal stops them.
    pub fn next_report(&mut self) -> Option<JobReport> {
        loop {
            if let Some(report) = self.queue.pop_front() {
                return Some(report);
            }
            if self.awaited.is_empty() {
                return None;
            }
            match self.session.events.recv_timeout(self.report_interval) {
                Ok(Event::Job(id, event)) => self.update_job(id, event),
                Ok(Event::Terminate(signal)) => {
                    self.session.ended_by = Some(signal);
                    self.awaited.iter().for_each(|id| self.session.workers.stop(*id));
                }
                // Responses for the closed screen.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.queue.extend(self.session.state.jobs.running().cloned().map(JobReport::Running))
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn update_job(&mut self, id: JobId, event: JobEvent) {
        let ended = matches!(event, JobEvent::End(..));
        let now = self.session.now();
        if let Some(job) = self.session.state.jobs.update(id, event, now)
            && ended
        {
            self.awaited.retain(|other| *other != id);
            self.queue.push_back(JobReport::Ended(job.clone()));
        }
    }
}

impl Drop for BackgroundRun {
    fn drop(&mut self) {
        self.signals.close();
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;
    use signal_hook::iterator::Signals;

    use super::*;
    use crate::effect::Effect;
    use crate::keymap::Keymap;
    use crate::state::task::Task;
    use crate::state::{Ending, Facts, State};
    use crate::tests::sample;
    use crate::theme::{Background, Depth, Theme};
    use crate::workers::Workers;

    /// Returns a run with a running job.
    fn session() -> Session {
        let (sender, events) = unbounded();
        let archive = sample::with_contents(&[("a", b"content")]);
        let theme = Theme::new(Background::Dark, Depth::Mono);
        let mut state = State::new(Facts::default(), theme, Keymap::default(), 80, 24);
        let id = state.jobs.add("verify a".to_owned(), Duration::ZERO).id;
        let mut workers = Workers::start(&archive, &sender);
        workers.perform(Effect::Start(id, Task::Verify { ranges: None }));
        Session::new(state, workers, events)
    }

    fn background(session: Session) -> BackgroundRun {
        BackgroundRun::new(session, Signals::new(std::iter::empty::<i32>()).unwrap().handle())
    }

    #[test]
    fn background_jobs_finish() {
        let mut session = session();
        session.detached = true;
        session.state.quit = Some(Quit { since: Duration::ZERO, drops: false });
        let mut run = background(session);
        assert_eq!(run.next_report(), Some(JobReport::Continuing(1)));
        let Some(JobReport::Ended(job)) = run.next_report() else { panic!("no end") };
        assert!(matches!(job.ending, Some((Ending::Done, _))), "{job:?}");
        assert_eq!((run.next_report(), run.ended_by()), (None, None));
    }

    #[test]
    fn running_jobs_are_reported_and_stopped_by_signal() {
        let (sender, events) = unbounded();
        let mut session = session();
        session.events = events;
        let id = session.state.jobs.running().next().unwrap().id;
        session.detached = true;
        let mut run = background(session);
        run.report_interval = Duration::from_millis(20);
        assert_eq!(run.next_report(), Some(JobReport::Continuing(1)));
        for _ in 0..2 {
            assert!(matches!(run.next_report(), Some(JobReport::Running(job)) if job.id == id));
        }
        // Stopped jobs clean up, so they are waited for.
        sender.send(Event::Terminate(15)).unwrap();
        assert!(matches!(run.next_report(), Some(JobReport::Running(_))) && run.ended_by() == Some(15));
        sender.send(Event::Job(id, JobEvent::End(Ending::Cancelled, "stopped".to_owned()))).unwrap();
        assert!(matches!(run.next_report(), Some(JobReport::Ended(job)) if matches!(job.ending, Some((Ending::Cancelled, _)))));
        assert_eq!(run.next_report(), None);
    }

    #[test]
    fn only_awaited_jobs_are_reported() {
        assert_eq!(background(session()).next_report(), None);
        let mut session = session();
        let early = session.state.jobs.add("early".to_owned(), Duration::ZERO).id;
        let late = session.state.jobs.add("late".to_owned(), Duration::ZERO).id;
        for (id, at) in [(early, 1), (late, 3)] {
            session.state.jobs.update(id, JobEvent::End(Ending::Done, String::new()), Duration::from_secs(at));
        }
        session.state.quit = Some(Quit { since: Duration::from_secs(2), drops: false });
        let mut run = background(session);
        assert!(matches!(run.next_report(), Some(JobReport::Ended(job)) if job.title == "late"));
        assert_eq!(run.next_report(), None);
    }
}
