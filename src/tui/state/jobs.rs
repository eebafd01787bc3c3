//! Jobs: progress, speed, log.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::state::task::Task;

/// Time constant of the smoothed rate, seconds.
const SMOOTH: f64 = 2.0;
/// No estimate is given before a job has run this long.
const SETTLE: Duration = Duration::from_millis(500);
/// Most ended jobs that are kept.
const KEEP: usize = 50;

/// Number of a job.
pub type JobId = u64;

/// Progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Entries done.
    pub entries: u64,
    /// Entries to do, 0 if not known.
    pub all_entries: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Bytes to do, 0 if not known.
    pub all_bytes: u64,
}

/// The numbers from which speed and remaining time are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes done and to do; 0 if unknown.
    Bytes(u64, u64),
    /// Entries done and to do, if they have no content.
    Entries(u64, u64),
}

impl Amount {
    /// Returns what is done and what is to do.
    fn numbers(self) -> (u64, u64) {
        let (Self::Bytes(done, all) | Self::Entries(done, all)) = self;
        (done, all)
    }
}

impl Progress {
    /// Returns what is done.
    pub fn amount(&self) -> Amount {
        if self.bytes == 0 && self.all_bytes == 0 {
            Amount::Entries(self.entries, self.all_entries)
        } else {
            Amount::Bytes(self.bytes, self.all_bytes)
        }
    }
}

/// An event of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// It waits for its turn, or has started.
    Waiting(bool),
    /// Progress and current path.
    Progress(Progress, String),
    Warning(String),
    /// It needs a password: the job to restart; true if a wrong password was given.
    NeedsPassword(Box<Task>, bool),
    /// Its changes are written as the commit with this number.
    Written(u64),
    /// It has found damage in its archive.
    Damage(Vec<String>),
    End(Ending, String),
}

/// The outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// Done with warnings.
    Degraded,
    Failed,
    /// The user stopped it.
    Cancelled,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Job {
    pub id: JobId,
    pub title: String,
    pub progress: Progress,
    pub current: String,
    /// Its outcome, and the message about it.
    pub ending: Option<(Ending, String)>,
    pub log: Vec<String>,
    /// The marked entries it works on. They are marked again if it fails.
    pub marks: Arc<Vec<Range<u64>>>,
    /// Epoch of the archive it was started for.
    pub epoch: u64,
    /// ID of that archive, if it has one.
    pub archive: Option<[u8; 16]>,
    pub stopping: bool,
    pub paused: bool,
    /// It waits for its turn.
    pub waiting: bool,
    /// Bytes or entries per second, smoothed.
    pub rate: f64,
    started: Duration,
    /// Time of its last event.
    pub updated: Duration,
}

impl Job {
    /// Returns the share that is done, 0 to 1, if it is known.
    pub fn share(&self) -> Option<f64> {
        let Progress { entries, all_entries, bytes, all_bytes } = self.progress;
        let part = |done: u64, all: u64| (all > 0).then(|| (done as f64 / all as f64).min(1.0));
        part(bytes, all_bytes).or_else(|| part(entries, all_entries))
    }

    /// Returns the remaining time, once it can be estimated.
    pub fn remaining(&self) -> Option<Duration> {
        let (done, all) = self.progress.amount().numbers();
        if all == 0 || self.rate < 1.0 || self.updated - self.started < SETTLE {
            return None;
        }
        Some(Duration::from_secs_f64((all.saturating_sub(done) as f64 / self.rate).min(1e7)))
    }

    /// Returns its running time.
    pub fn elapsed(&self) -> Duration {
        self.updated - self.started
    }

    /// Pauses or resumes it. Paused time does not count for its speed.
    pub fn pause(&mut self, pause: bool, now: Duration) {
        self.paused = pause;
        self.updated = now;
    }

    fn update(&mut self, event: JobEvent, now: Duration) {
        let elapsed = (now - self.updated).as_secs_f64();
        match event {
            JobEvent::Progress(progress, current) => {
                let (before, now_done) = (self.progress.amount(), progress.amount());
                if std::mem::discriminant(&before) != std::mem::discriminant(&now_done) {
                    self.rate = 0.0;
                } else if elapsed > 0.0 {
                    let rate = now_done.numbers().0.saturating_sub(before.numbers().0) as f64 / elapsed;
                    let weight = if self.rate == 0.0 { 1.0 } else { 1.0 - (-elapsed / SMOOTH).exp() };
                    self.rate += (rate - self.rate) * weight;
                }
                self.progress = progress;
                self.current = current;
                self.updated = now;
            }
            JobEvent::Waiting(waiting) => {
                self.waiting = waiting;
                // Its running time starts now.
                (self.started, self.updated) = (now, now);
            }
            JobEvent::Warning(text) => self.log.push(text),
            JobEvent::NeedsPassword(..) | JobEvent::Written(_) | JobEvent::Damage(_) => {}
            JobEvent::End(ending, text) => {
                self.ending = Some((ending, text));
                self.updated = now;
            }
        }
    }
}

/// All jobs of this run, the oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Jobs {
    pub list: Vec<Job>,
    /// Damage that jobs have found, by the ID of the archive, until the archive is opened again.
    pub damage: BTreeMap<[u8; 16], Vec<String>>,
    pub last_target: String,
    last: JobId,
}

impl Jobs {
    pub fn add(&mut self, title: String, now: Duration) -> &mut Job {
        self.last += 1;
        let done = self.list.iter().filter(|job| job.ending.is_some()).count();
        if done >= KEEP
            && let Some(oldest) = self.list.iter().position(|job| job.ending.is_some())
        {
            self.list.remove(oldest);
        }
        self.list.push(Job { id: self.last, title, started: now, updated: now, ..Job::default() });
        self.list.last_mut().expect("just added")
    }

    /// Adds a message to the list of jobs, unless it is there.
    pub fn note(&mut self, title: String, ending: Ending, text: String, now: Duration) {
        if !self.list.iter().any(|job| job.title == title && job.ending.as_ref().is_some_and(|(_, known)| *known == text)) {
            self.add(title, now).update(JobEvent::End(ending, text), now);
        }
    }

    pub fn update(&mut self, id: JobId, event: JobEvent, now: Duration) -> Option<&mut Job> {
        let job = self.list.iter_mut().find(|job| job.id == id)?;
        job.update(event, now);
        Some(job)
    }

    /// Returns the index of a job in the list, the newest first; 0 if it is gone.
    pub fn place(&self, id: Option<JobId>) -> usize {
        self.list.iter().rev().position(|job| Some(job.id) == id).unwrap_or(0)
    }

    /// Returns the job at an index of the list, the newest first.
    pub fn at(&self, place: usize) -> Option<JobId> {
        self.list.iter().rev().nth(place).map(|job| job.id)
    }

    pub fn running(&self) -> impl Iterator<Item = &Job> {
        self.list.iter().filter(|job| job.ending.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_job_estimates_remaining_time() {
        let mut jobs = Jobs::default();
        let id = jobs.add("extract".to_owned(), Duration::ZERO).id;
        for tenth in 1..=20u64 {
            let progress = Progress { bytes: tenth * 100, all_bytes: 4_000, ..Progress::default() };
            jobs.update(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(tenth * 100));
            assert_eq!(jobs.list[0].remaining().is_some(), tenth >= 5);
        }
        let job = &jobs.list[0];
        assert!((job.rate - 1_000.0).abs() < 1.0, "{}", job.rate);
        assert_eq!(job.share(), Some(0.5));
        assert_eq!(job.remaining().unwrap().as_secs_f64().round(), 2.0);
        // A break of an hour changes nothing.
        jobs.list[0].pause(true, Duration::from_secs(2));
        jobs.list[0].pause(false, Duration::from_secs(3_602));
        let progress = Progress { bytes: 2_100, all_bytes: 4_000, ..Progress::default() };
        jobs.update(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(3_602_100));
        assert!((jobs.list[0].rate - 1_000.0).abs() < 1.0, "{}", jobs.list[0].rate);
        jobs.update(id, JobEvent::End(Ending::Done, "done".to_owned()), Duration::from_secs(3_603));
        assert_eq!(jobs.running().count(), 0);
        assert_eq!(jobs.list[0].elapsed(), Duration::from_secs(3_603));
    }

    #[test]
    fn jobs_without_content_count_entries() {
        let mut jobs = Jobs::default();
        let id = jobs.add("extract".to_owned(), Duration::ZERO).id;
        for tenth in 1..=20u64 {
            let progress = Progress { entries: tenth * 100, all_entries: 4_000, ..Progress::default() };
            jobs.update(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(tenth * 100));
        }
        assert!((jobs.list[0].rate - 1_000.0).abs() < 1.0, "{}", jobs.list[0].rate);
        assert_eq!(jobs.list[0].remaining().unwrap().as_secs_f64().round(), 2.0);
        // As soon as there is content, the speed is measured in bytes.
        let progress = Progress { entries: 2_001, bytes: 1, ..Progress::default() };
        jobs.update(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(2_100));
        assert_eq!((jobs.list[0].rate, jobs.list[0].remaining()), (0.0, None));
    }

    #[test]
    fn old_jobs_are_dropped() {
        let mut jobs = Jobs::default();
        for _ in 0..200 {
            let id = jobs.add(String::new(), Duration::ZERO).id;
            jobs.update(id, JobEvent::End(Ending::Done, String::new()), Duration::ZERO);
        }
        assert!(jobs.list.len() <= KEEP + 1);
    }
}
