//! Runs the reading threads and hands what they read to the writer, in order.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::ops::Range;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::add::{KeptName, Known};
use super::batch::{Batch, Delivery, Item, Outlet, Placed, Unmeasured};
use super::plan::Plan;
use super::read::{Context, MIN_BUFFER, Reader};
use super::{PackStats, Standing, touch};
use crate::convert::walk::{Window, join};
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::nra::writer::{EntryId, NewContent, Writer};
use crate::format::path::EntryPath;
use crate::format::progress::{Counter, Monitor, Warning};

/// Names in one job, at most. Enough that handing over costs nothing, few enough that threads share the work evenly.
const JOB_NAMES: usize = 256;
/// Jobs in work or waiting for each thread.
const JOBS_AHEAD: usize = 2;
/// Batches that a job may have waiting.
const BATCHES_AHEAD: usize = 2;
/// Largest buffer of a batch, bytes. Longer ones are slower: what was read has left the cache when it is written.
const MAX_BUFFER: usize = 1 << 20;

/// A run of places to read, and where the batches go.
struct Job {
    places: Range<u32>,
    out: Sender<Delivery>,
}

/// How reading ahead shares its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buffers {
    /// Threads that read.
    threads: usize,
    /// Batches that a job may have waiting.
    batches_ahead: usize,
    /// Length of a buffer.
    bytes: usize,
    /// Buffers in use at most.
    count: usize,
}

impl Buffers {
    /// Divides `total` bytes among up to `threads`; with little memory batches get shorter, then fewer, then the threads.
    fn new(threads: usize, total: u64) -> Self {
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        // One for each batch that waits, one that each job fills, and one that is written.
        let count = |threads: usize, batches_ahead: usize| threads * JOBS_AHEAD * batches_ahead + threads + 1;
        let affordable = total / MIN_BUFFER;
        let batches_ahead = (1..=BATCHES_AHEAD).rev().find(|&ahead| count(threads, ahead) <= affordable).unwrap_or(1);
        let threads = (1..=threads).rev().find(|&threads| count(threads, batches_ahead) <= affordable).unwrap_or(1);
        let count = count(threads, batches_ahead);
        Self { threads, batches_ahead, bytes: (total / count).clamp(MIN_BUFFER, MAX_BUFFER), count }
    }
}

/// The writing end.
pub(super) struct Feed<W: Write + Send> {
    writer: Writer<W>,
    left_out: u64,
    /// The file that was begun could not be: its pieces go nowhere.
    skipping: bool,
    /// The file that was begun, while its pieces come, if it has several names.
    begun: Option<Entry>,
    /// Files with several names, by the place of the first: identity, entry, number.
    linked: HashMap<u32, ((u64, u64), Entry, EntryId)>,
    /// Files with several names that the archive which is updated has, by the place of the first.
    kept: HashMap<u32, KeptName>,
    unchanged: u64,
    deferred: Window,
    /// Path of the entry in work, for messages.
    path: Vec<u8>,
}

impl<W: Write + Send> Feed<W> {
    /// Feeds `writer`.
    pub(super) fn new(writer: Writer<W>) -> Self {
        Self {
            path: Vec::new(),
            writer,
            left_out: 0,
            skipping: false,
            begun: None,
            linked: HashMap::new(),
            kept: HashMap::new(),
            unchanged: 0,
            deferred: Window::default(),
        }
    }

    /// Takes the names that were put off.
    pub(super) fn take_deferred(&mut self) -> Window {
        std::mem::take(&mut self.deferred)
    }

    /// Finishes the archive.
    ///
    /// # Errors
    ///
    /// As [`Writer::finish`].
    pub(super) fn finish(self, monitor: &dyn Monitor) -> Result<(W, PackStats)> {
        let (out, written) = self.writer.finish(monitor)?;
        Ok((out, PackStats { written, left_out: self.left_out, unchanged: self.unchanged }))
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// What writing gives; an entry that the format can't hold is left out with a warning.
    pub(super) fn add(&mut self, entry: Entry, content: NewContent<'_>, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        let bytes = match content {
            NewContent::Whole { bytes, .. } => bytes.len() as u64,
            NewContent::None => 0,
        };
        self.note(&entry.path);
        monitor.current(&self.path);
        let added = self.writer.add(entry, content);
        self.settle(added, bytes, monitor)
    }

    /// Adds an entry without content unless the archive that is updated has it.
    ///
    /// # Errors
    ///
    /// As [`Feed::add`].
    pub(super) fn add_known(&mut self, entry: Entry, known: Option<&Known>, monitor: &dyn Monitor) -> Result<()> {
        match known.map_or(Standing::New, |known| known.standing(&entry, 0)) {
            Standing::New => self.add(entry, NewContent::None, monitor).map(drop),
            Standing::Touched => self.touch(&entry, monitor),
            Standing::Same => {
                self.skip(monitor);
                Ok(())
            }
        }
    }

    /// Counts an entry that stays as it is.
    fn skip(&mut self, monitor: &dyn Monitor) {
        self.unchanged += 1;
        monitor.add(Counter::Entries, 1);
    }

    /// Gives the entry of the archive the metadata of this one.
    fn touch(&mut self, entry: &Entry, monitor: &dyn Monitor) -> Result<()> {
        self.note(&entry.path);
        monitor.current(&self.path);
        let changed = self.writer.change(&entry.path, |old| touch(old, entry));
        self.settle(changed, 0, monitor).map(drop)
    }

    /// Remembers what is in work.
    fn note(&mut self, path: &EntryPath) {
        self.path.clear();
        self.path.extend_from_slice(path.as_bytes());
    }

    /// Counts the entry of `path` that was added, or warns that it can't be held.
    fn settle(&mut self, added: Result<EntryId>, bytes: u64, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        match added {
            Ok(id) => {
                monitor.add(Counter::Entries, 1);
                monitor.add(Counter::Bytes, bytes);
                Ok(Some(id))
            }
            Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => {
                self.left_out += 1;
                let message = format!("left out: {error}");
                monitor.warn(Warning { path: self.path.clone(), message, degraded: true, damage: false });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads and adds all names of a window. Reading ahead takes up to `read_bytes`.
    ///
    /// # Errors
    ///
    /// What writing gives, and `Cancelled`.
    pub(super) fn store(&mut self, context: Context<'_>, threads: usize, read_bytes: u64) -> Result<()> {
        self.linked.clear();
        self.kept.clear();
        let places = context.plan.len();
        if places == 0 {
            return Ok(());
        }
        let Buffers { threads, batches_ahead, bytes: buffer_bytes, count: buffers } =
            Buffers::new(threads.min(places), read_bytes);
        let jobs_ahead = threads * JOBS_AHEAD;
        let job_names = (places / (threads * 8)).clamp(1, JOB_NAMES);
        let (spare_in, spare) = bounded::<Vec<u8>>(buffers);
        thread::scope(|scope| {
            let (job_in, jobs) = bounded::<Job>(jobs_ahead);
            let (measure_in, unmeasured) = unbounded::<Unmeasured>();
            for _ in 0..threads {
                let (jobs, unmeasured) = (jobs.clone(), unmeasured.clone());
                let outlet = Outlet::new(spare.clone(), buffer_bytes, Some(measure_in.clone()));
                scope.spawn(move || work(context, &jobs, outlet));
                // Pieces of one large file are measured by all threads.
                scope.spawn(move || unmeasured.into_iter().for_each(Unmeasured::finish));
            }
            drop((jobs, measure_in, unmeasured));
            let mut starts = (0..places).step_by(job_names);
            let mut waiting: VecDeque<Receiver<Delivery>> = VecDeque::with_capacity(jobs_ahead);
            loop {
                while waiting.len() < jobs_ahead
                    && let Some(start) = starts.next()
                {
                    let places = place(start)..place((start + job_names).min(places));
                    let (out, batches) = bounded(batches_ahead);
                    if job_in.send(Job { places, out }).is_err() {
                        // The threads are gone: stopped, or in a panic that goes on when they are joined.
                        return context.monitor.check();
                    }
                    waiting.push_back(batches);
                }
                let Some(batches) = waiting.pop_front() else { return Ok(()) };
                for delivery in batches {
                    context.monitor.check()?;
                    if let Some(bytes) = self.take_batch(delivery, context, buffer_bytes)? {
                        // A full store of buffers drops this one.
                        let _ = spare_in.try_send(bytes);
                    }
                }
                context.monitor.check()?;
            }
        })
    }

    /// Adds what a batch holds; returns its buffer, or nothing when it never came because the work was stopped.
    fn take_batch(&mut self, delivery: Delivery, context: Context<'_>, buffer_bytes: usize) -> Result<Option<Vec<u8>>> {
        let mut batch = match delivery {
            Delivery::Ready(batch) => batch,
            Delivery::Soon(batch) => match batch.recv() {
                Ok(batch) => batch,
                Err(_) => return Ok(None),
            },
        };
        for item in std::mem::take(&mut batch.items) {
            self.take(item, &batch, context, buffer_bytes)?;
        }
        Ok(Some(batch.bytes))
    }

    fn take(&mut self, placed: Placed, batch: &Batch, context: Context<'_>, buffer_bytes: usize) -> Result<()> {
        let Placed { place, identity, item } = placed;
        let monitor = context.monitor;
        match item {
            Item::Own => {}
            Item::Same(path) => {
                self.skip(monitor);
                if let (Some(identity), Some(path)) = (identity, path)
                    && context.plan.names_of_inode(place) > 1
                {
                    self.kept.insert(place, (identity, path));
                }
            }
            Item::Touched(entry) => self.touch(&entry, monitor)?,
            Item::Nothing => self.left_out += 1,
            Item::Plain(entry) => {
                let copy = identity.map(|_| entry.clone());
                let id = self.add(entry, NewContent::None, monitor)?;
                self.remember(place, identity, copy, id, context.plan);
            }
            Item::Whole(entry, piece) => {
                let copy = identity.map(|_| entry.clone());
                let bytes = batch.run(piece.run);
                let content = NewContent::Whole { bytes, digest: piece.digest, incompressible: piece.incompressible };
                let id = self.add(entry, content, monitor)?;
                self.remember(place, identity, copy, id, context.plan);
            }
            Item::Begin(entry) => {
                monitor.current(entry.path.as_bytes());
                self.begun = Some(entry.clone());
                match self.writer.begin(entry) {
                    Ok(()) => self.skipping = false,
                    Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => self.give_up(&error, monitor),
                    Err(error) => return Err(error),
                }
            }
            Item::Piece(piece) if !self.skipping => {
                let bytes = batch.run(piece.run);
                monitor.add(Counter::Bytes, piece.run.len as u64);
                let added = self.writer.piece(bytes, piece.digest, piece.incompressible);
                self.or_give_up(added, monitor)?;
            }
            Item::Hole(len) if !self.skipping => {
                monitor.add(Counter::Bytes, len);
                let added = self.writer.hole(len);
                self.or_give_up(added, monitor)?;
            }
            Item::End(digest) if !self.skipping => {
                let entry = self.begun.take().expect("a file that ends was begun");
                let ended = self.writer.end(digest);
                self.note(&entry.path);
                let id = self.settle(ended, 0, monitor)?;
                self.remember(place, identity, Some(entry), id, context.plan);
            }
            Item::Abandon if !self.skipping => self.writer.abandon(),
            Item::Piece(_) | Item::Hole(_) | Item::End(_) | Item::Abandon => {}
            Item::Cut(_) => unreachable!("pieces are measured before a batch arrives"),
            Item::Link(identity) => self.link(place, identity, context, buffer_bytes)?,
            Item::Defer => {
                let name = &context.window.names[context.plan.name_at(place)];
                self.deferred.push(name.directory, name.kind, name.inode, context.window.name(name));
            }
        }
        Ok(())
    }

    fn or_give_up(&mut self, added: Result<()>, monitor: &dyn Monitor) -> Result<()> {
        match added {
            Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => {
                self.writer.abandon();
                self.give_up(&error, monitor);
                Ok(())
            }
            result => result,
        }
    }

    /// Drops the file that was begun.
    fn give_up(&mut self, error: &Error, monitor: &dyn Monitor) {
        self.skipping = true;
        self.left_out += 1;
        if let Some(entry) = self.begun.take() {
            let message = format!("left out: {error}");
            monitor.warn(Warning { path: entry.path.as_bytes().to_vec(), message, degraded: true, damage: false });
        }
    }

    fn remember(&mut self, place: u32, identity: Option<(u64, u64)>, entry: Option<Entry>, id: Option<EntryId>, plan: &Plan) {
        if let (Some(identity), Some(entry), Some(id)) = (identity, entry, id)
            && plan.names_of_inode(place) > 1
        {
            self.linked.insert(place, (identity, entry, id));
        }
    }

    /// Adds a further name of a file, or reads the file after all when the first name came to nothing or is another file.
    fn link(&mut self, place: u32, identity: (u64, u64), context: Context<'_>, buffer_bytes: usize) -> Result<()> {
        if let Some(first) = context.plan.first_of(place)
            && let Some((known, path)) = self.kept.remove(&first)
            && known == identity
        {
            // The archive has the first name and not this one.
            let id = self.writer.keep(&path)?;
            self.linked.insert(first, (identity, Entry::new(path, Kind::File), id));
        }
        let first = context.plan.first_of(place).and_then(|first| self.linked.get(&first));
        if let Some((known, entry, id)) = first
            && *known == identity
        {
            let (mut entry, id) = (entry.clone(), *id);
            let name = &context.window.names[context.plan.name_at(place)];
            let mut path = Vec::new();
            context.tree.stored_path(name.directory, &mut path);
            join(&mut path, context.window.name(name));
            let Ok(path) = EntryPath::new(path) else { return Ok(()) };
            self.note(&path);
            entry.path = path;
            context.monitor.current(&self.path);
            let added = self.writer.add_link(entry, id);
            self.settle(added, 0, context.monitor)?;
            return Ok(());
        }
        thread::scope(|scope| {
            let (out, batches) = bounded(BATCHES_AHEAD);
            let (_, spare) = bounded(0);
            let mut outlet = Outlet::new(spare, buffer_bytes, None);
            outlet.turn_to(out);
            scope.spawn(move || Reader::new(context).read(place, false, &mut outlet).and_then(|()| outlet.close()));
            for delivery in batches {
                self.take_batch(delivery, context, buffer_bytes)?;
            }
            context.monitor.check()
        })
    }
}

/// Reads jobs until there are no more, or nobody wants them.
fn work(context: Context<'_>, jobs: &Receiver<Job>, mut outlet: Outlet) {
    let mut reader = Reader::new(context);
    for Job { places, out } in jobs {
        outlet.turn_to(out);
        for place in places {
            if context.monitor.cancelled() || reader.read(place, true, &mut outlet).is_err() {
                return;
            }
        }
        if outlet.close().is_err() {
            return;
        }
    }
}

fn place(number: usize) -> u32 {
    u32::try_from(number).expect("a window has fewer than 2^32 names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_stays_within_its_memory() {
        for threads in [1, 2, 7, 64, 1000] {
            for total in [4 << 20, 8 << 20, 64 << 20, 1 << 30] {
                let buffers = Buffers::new(threads, total);
                assert!(buffers.bytes as u64 * buffers.count as u64 <= total, "{threads} {total} {buffers:?}");
                assert!(buffers.threads >= 1 && buffers.threads <= threads);
            }
        }
        assert_eq!(Buffers::new(2, 64 << 20), Buffers { threads: 2, batches_ahead: 2, bytes: 1 << 20, count: 11 });
        assert_eq!(Buffers::new(8, 0), Buffers { threads: 1, batches_ahead: 1, bytes: MIN_BUFFER, count: 4 });
    }
}
