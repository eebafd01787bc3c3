//! Work in the background: how far it is, how fast it goes, what it said.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::task::Task;

/// Time constant of the smoothed rate, seconds.
const SMOOTH: f64 = 2.0;
/// No estimate is given before a job has run this long.
const SETTLE: Duration = Duration::from_millis(500);
/// Finished jobs that are kept.
const KEEP: usize = 50;

/// Number of a job.
pub type JobId = u64;

/// Where what a job said is shown from: one of its sentences, and a row of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPlace {
    /// Index of the sentence.
    pub sentence: usize,
    /// Index of the row.
    pub row: usize,
}

/// How far a job is.
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

/// What a job's speed and end are told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes done, and to do; 0 if that is not known.
    Bytes(u64, u64),
    /// The same of entries, where they have no content.
    Entries(u64, u64),
}

impl Amount {
    /// Returns what is done, and what there is to do.
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

/// What a job tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// It waits for its turn, or does no longer.
    Waiting(bool),
    /// How far it is, and the path in work.
    Progress(Progress, String),
    /// Something went wrong without ending it.
    Warning(String),
    /// It reads content that needs a password: what was to be done; the password that was given, if any, is wrong.
    NeedsPassword(Box<Task>, bool),
    /// The changes it was given are in the archive, as the commit of this number, whatever else it has to say.
    Written(u64),
    /// The archive it was started for is damaged: what is known of that.
    Damage(Vec<String>),
    /// It is over.
    End(Ending, String),
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was done.
    Done,
    /// Done, but something is missing or wrong.
    Degraded,
    /// It failed.
    Failed,
    /// The user stopped it.
    Cancelled,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What it does, for people.
    pub title: String,
    /// How far it is.
    pub progress: Progress,
    /// The path in work.
    pub current: String,
    /// How it ended, and a sentence on it.
    pub ending: Option<(Ending, String)>,
    /// What went wrong on the way.
    pub log: Vec<String>,
    /// What it took the marks of, as long as it is under way: it is marked again when nothing comes of the work.
    pub marks: Arc<Vec<Range<u64>>>,
    /// Which of the archives that were shown it was started for.
    pub epoch: u64,
    /// The identity of that archive, if it has one.
    pub archive: Option<[u8; 16]>,
    /// It has been asked to stop.
    pub stopping: bool,
    /// It waits until it may go on.
    pub paused: bool,
    /// It waits until others have ended.
    pub waiting: bool,
    /// Bytes a second, or entries, smoothed.
    pub rate: f64,
    started: Duration,
    /// When it ended, or last told something.
    pub updated: Duration,
}

impl Job {
    /// Returns how much is done, 0 to 1, if that is known.
    pub fn share(&self) -> Option<f64> {
        let Progress { entries, all_entries, bytes, all_bytes } = self.progress;
        let part = |done: u64, all: u64| (all > 0).then(|| (done as f64 / all as f64).min(1.0));
        part(bytes, all_bytes).or_else(|| part(entries, all_entries))
    }

    /// Returns how long it will still take, once that can be told.
    pub fn left(&self) -> Option<Duration> {
        let (done, all) = self.progress.amount().numbers();
        if all == 0 || self.rate < 1.0 || self.updated - self.started < SETTLE {
            return None;
        }
        Some(Duration::from_secs_f64((all.saturating_sub(done) as f64 / self.rate).min(1e7)))
    }

    /// Returns how long it has run.
    pub fn elapsed(&self) -> Duration {
        self.updated - self.started
    }

    /// Lets it wait, or go on. The time that it waits says nothing about its speed.
    pub fn pause(&mut self, pause: bool, now: Duration) {
        self.paused = pause;
        self.updated = now;
    }

    fn take(&mut self, news: JobEvent, now: Duration) {
        let elapsed = (now - self.updated).as_secs_f64();
        match news {
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
                // How long it takes is told from here on.
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
    /// The jobs.
    pub list: Vec<Job>,
    /// Damage that jobs have found, by the ID of the archive, until the archive is opened again.
    pub damage: BTreeMap<[u8; 16], Vec<String>>,
    /// The target of the last extraction.
    pub last_target: String,
    last: JobId,
}

impl Jobs {
    /// Adds a job and returns its number.
    pub fn add(&mut self, title: String, now: Duration) -> JobId {
        self.last += 1;
        let done = self.list.iter().filter(|job| job.ending.is_some()).count();
        if done >= KEEP
            && let Some(oldest) = self.list.iter().position(|job| job.ending.is_some())
        {
            self.list.remove(oldest);
        }
        self.list.push(Job {
            id: self.last,
            title,
            progress: Progress::default(),
            current: String::new(),
            ending: None,
            log: Vec::new(),
            marks: Arc::default(),
            epoch: 0,
            archive: None,
            stopping: false,
            paused: false,
            waiting: false,
            rate: 0.0,
            started: now,
            updated: now,
        });
        self.last
    }

    /// Notes for which archive a job is: the `epoch`th to be shown, and its identity.
    pub fn belongs(&mut self, id: JobId, epoch: u64, archive: Option<[u8; 16]>) {
        if let Some(job) = self.list.iter_mut().find(|job| job.id == id) {
            (job.epoch, job.archive) = (epoch, archive);
        }
    }

    /// Notes what a job took the marks of.
    pub fn took(&mut self, id: JobId, marks: Arc<Vec<Range<u64>>>) {
        if let Some(job) = self.list.iter_mut().find(|job| job.id == id) {
            job.marks = marks;
        }
    }

    /// Keeps a sentence among the jobs, to be read again.
    pub fn note(&mut self, title: String, ending: Ending, text: String, now: Duration) {
        if !self.list.iter().any(|job| job.title == title && job.ending.as_ref().is_some_and(|(_, told)| *told == text)) {
            let id = self.add(title, now);
            self.take(id, JobEvent::End(ending, text), now);
        }
    }

    /// Takes what a job tells and returns the job.
    pub fn take(&mut self, id: JobId, news: JobEvent, now: Duration) -> Option<&mut Job> {
        let job = self.list.iter_mut().find(|job| job.id == id)?;
        job.take(news, now);
        Some(job)
    }

    /// Returns the place of a job in the list from the newest on: the first one when it is not there any more.
    pub fn place(&self, id: Option<JobId>) -> usize {
        self.list.iter().rev().position(|job| Some(job.id) == id).unwrap_or(0)
    }

    /// Returns the job at a place in the list from the newest on.
    pub fn at(&self, place: usize) -> Option<JobId> {
        self.list.iter().rev().nth(place).map(|job| job.id)
    }

    /// Returns the jobs that run.
    pub fn running(&self) -> impl Iterator<Item = &Job> {
        self.list.iter().filter(|job| job.ending.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_job_tells_when_it_ends() {
        let mut jobs = Jobs::default();
        let id = jobs.add("extract".to_owned(), Duration::ZERO);
        for tenth in 1..=20u64 {
            let progress = Progress { bytes: tenth * 100, all_bytes: 4_000, ..Progress::default() };
            jobs.take(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(tenth * 100));
            assert_eq!(jobs.list[0].left().is_some(), tenth >= 5);
        }
        let job = &jobs.list[0];
        assert!((job.rate - 1_000.0).abs() < 1.0, "{}", job.rate);
        assert_eq!(job.share(), Some(0.5));
        assert_eq!(job.left().unwrap().as_secs_f64().round(), 2.0);
        // A break of an hour changes nothing.
        jobs.list[0].pause(true, Duration::from_secs(2));
        jobs.list[0].pause(false, Duration::from_secs(3_602));
        let progress = Progress { bytes: 2_100, all_bytes: 4_000, ..Progress::default() };
        jobs.take(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(3_602_100));
        assert!((jobs.list[0].rate - 1_000.0).abs() < 1.0, "{}", jobs.list[0].rate);
        jobs.take(id, JobEvent::End(Ending::Done, "done".to_owned()), Duration::from_secs(3_603));
        assert_eq!(jobs.running().count(), 0);
        assert_eq!(jobs.list[0].elapsed(), Duration::from_secs(3_603));
    }

    #[test]
    fn files_without_content_are_counted() {
        let mut jobs = Jobs::default();
        let id = jobs.add("extract".to_owned(), Duration::ZERO);
        for tenth in 1..=20u64 {
            let progress = Progress { entries: tenth * 100, all_entries: 4_000, ..Progress::default() };
            jobs.take(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(tenth * 100));
        }
        assert!((jobs.list[0].rate - 1_000.0).abs() < 1.0, "{}", jobs.list[0].rate);
        assert_eq!(jobs.list[0].left().unwrap().as_secs_f64().round(), 2.0);
        // Where there is content after all, the speed is that of bytes, from then on.
        let progress = Progress { entries: 2_001, bytes: 1, ..Progress::default() };
        jobs.take(id, JobEvent::Progress(progress, String::new()), Duration::from_millis(2_100));
        assert_eq!((jobs.list[0].rate, jobs.list[0].left()), (0.0, None));
    }

    #[test]
    fn old_jobs_are_forgotten() {
        let mut jobs = Jobs::default();
        for _ in 0..200 {
            let id = jobs.add(String::new(), Duration::ZERO);
            jobs.take(id, JobEvent::End(Ending::Done, String::new()), Duration::ZERO);
        }
        assert!(jobs.list.len() <= KEEP + 1);
    }
}
