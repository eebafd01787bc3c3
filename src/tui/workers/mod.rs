//! Performs effects on threads, which respond with events.

mod arrange;
mod change_set;
mod changes;
mod complete;
mod duplicates;
mod errors;
mod find;
pub mod jobs;
mod map;
mod marks;
mod properties;
mod read;
mod worker;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use crate::effect::{Effect, MarksRequest, Request, RequestId, RequestKind};
use crate::event::{Event, Failure, Response};
use crate::requests::Requests;
use crate::state::{FindResponse, JobId, PreviewResponse, RowDetails, RowsError, RowsResponse, SeekResult};
use nra_format::archive::Archive;

use worker::{PROGRESS, Responder, ServePolicy, WorkerContext};

pub use errors::{error_message, missing_password};
pub use find::{Finder, rank};
pub use worker::{FAULT, catch_fault};

/// Allocates a vector for `count` elements, of which there may be millions, and which is soon
/// freed.
///
/// After glibc has freed a block of up to 32 MiB, it keeps as much of all freed memory, in each
/// thread. Larger blocks take only the memory that is written to, and return all of it.
fn room_for<T>(count: u64) -> Vec<T> {
    const FEW: usize = 64 << 10;
    const MANY: usize = 33 << 20;
    let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<T>());
    Vec::with_capacity(if bytes > FEW { MANY } else { bytes } / size_of::<T>())
}

/// Threads that read an archive for the screen, and jobs.
pub struct Workers {
    context: WorkerContext,
    /// One thread per kind of request, started by the first one.
    threads: HashMap<RequestKind, Sender<(RequestId, Request)>>,
    jobs: jobs::Jobs,
}

impl Workers {
    /// Returns the workers for an archive. Their threads end when they are dropped.
    pub fn start(archive: &Arc<dyn Archive>, events: &Sender<Event>) -> Self {
        let context = WorkerContext { archive: Arc::clone(archive), events: events.clone(), awaited: Arc::default() };
        Self { context, threads: HashMap::new(), jobs: jobs::Jobs::default() }
    }

    pub fn archive(&self) -> &Arc<dyn Archive> {
        &self.context.archive
    }

    /// Publishes which requests are awaited; workers stop the others.
    pub fn publish(&mut self, requests: &Requests) {
        self.context.awaited.publish(requests);
        // A closed search needs no paths for the next letter.
        if !requests.is_made(RequestKind::Find) {
            self.threads.remove(&RequestKind::Find);
        }
    }

    /// Returns a function that returns whether the response to a request is still awaited.
    pub fn awaits(&self, id: RequestId) -> impl Fn() -> bool + Send + 'static {
        let awaited = Arc::clone(&self.context.awaited);
        move || awaited.awaits(id)
    }

    /// Cancels all requests. Jobs continue.
    pub fn cancel_all(&self) {
        self.context.awaited.cancel_all();
    }

    pub fn stop(&self, id: JobId) {
        self.jobs.stop(id);
    }

    /// Replaces the archive. Jobs continue with the archive they were started for.
    pub fn set_archive(&mut self, archive: &Arc<dyn Archive>) {
        let jobs = std::mem::take(&mut self.jobs);
        *self = Self { jobs, ..Self::start(archive, &self.context.events) };
    }

    /// Performs an effect, and returns those that concern the terminal or open an archive. A worker
    /// skips a request that is not awaited according to [`Workers::publish`].
    pub fn perform(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Request(id, request) if request.has_worker() => self.request(id, request),
            Effect::Start(id, task) => self.jobs.start(id, task, &self.context.archive, &self.context.events),
            Effect::Stop(id) => self.stop(id),
            Effect::Pause(id, pause) => self.jobs.pause(id, pause),
            other => return Some(other),
        }
        None
    }

    fn request(&mut self, id: RequestId, request: Request) {
        let archive = Arc::clone(&self.context.archive);
        let mut finder = None;
        let work = move |request, responder: &Responder<'_>| {
            let failed = fault_response(&request);
            let respond = || {
                respond(&archive, request, &mut finder, responder);
                None
            };
            if let Some(failed) = catch_fault(Some(failed), respond) {
                responder.respond(failed);
            }
        };
        let policy = match id.kind {
            // Rare, and slow on a network file system.
            RequestKind::Check | RequestKind::Content | RequestKind::FreeSpace | RequestKind::Completions => {
                return self.context.once(id, request, work);
            }
            RequestKind::Marks => ServePolicy::All,
            _ => ServePolicy::Newest,
        };
        let thread = self.threads.entry(id.kind).or_insert_with(|| self.context.serve(policy, work));
        // The thread lives as long as the channel.
        drop(thread.send((id, request)));
    }
}

/// Responds to a request, unless it is cancelled. `finder` has the paths of the last search.
fn respond(archive: &Arc<dyn Archive>, request: Request, finder: &mut Option<Finder>, responder: &Responder<'_>) {
    let (reader, awaited) = (&**archive, responder.is_awaited);
    let response = match request {
        Request::Rows(request) => read::rows(reader, request, awaited).map(Response::Rows),
        Request::Details(entries) => Some(Response::Details(read::details(reader, &entries, awaited))),
        Request::Jump(request) => Some(Response::Jumped(read::jump(reader, &request, awaited))),
        Request::Preview(request) => Some(Response::Preview(read::preview(archive, request, awaited))),
        Request::Occurrences(request) => read::occurrences(reader, &request, responder),
        Request::Arrange(request) => {
            let reported = Cell::new(Instant::now());
            let share = |share: f64| {
                if reported.get().elapsed() >= PROGRESS {
                    reported.set(Instant::now());
                    responder.respond(Response::ArrangeProgress(share));
                }
                awaited()
            };
            arrange::arrange(reader, &request, &share).map(Response::Arranged)
        }
        Request::Map(directory) => map::map(reader, directory.as_ref(), awaited).map(Response::Mapped),
        Request::Find(request) => {
            finder.get_or_insert_default().find(reader, &request, &mut |found| {
                if let Some(found) = found {
                    responder.respond(Response::Found(found));
                }
                awaited()
            });
            None
        }
        Request::Marks(request) => marks::answer(reader, request, awaited),
        Request::Totals(ranges) => marks::totals(reader, &ranges, awaited),
        Request::Inspect(entry) => read::inspect(reader, &entry, responder),
        Request::CompactEstimate(file) => Some(Response::CompactEstimate(jobs::compact_estimate(reader, &file, awaited))),
        Request::Check(check) => Some(Response::CheckDone(changes::check(reader, check))),
        Request::Content(entry) => Some(read::content(reader, &entry)),
        Request::FreeSpace(typed) => complete::free_space(&typed).map(Response::FreeSpace),
        Request::Completions(typed, only_directories) => Some(Response::Completions(complete::paths(&typed, only_directories))),
        Request::Open(..) | Request::Commits | Request::Archives | Request::Copy(_) => None,
    };
    if let Some(response) = response {
        responder.respond(response);
    }
}

/// Returns the response if the worker panics.
fn fault_response(request: &Request) -> Response {
    let fault = || FAULT.to_owned();
    match request {
        Request::Rows(rows) => {
            Response::Rows(RowsResponse { anchor: rows.anchor.clone(), page: Err(RowsError::Failed(fault())) })
        }
        // Unknown details are not shown.
        Request::Details(entries) => {
            let mut unknown: Vec<(u64, RowDetails)> =
                entries.iter().map(|(number, _)| (*number, RowDetails::default())).collect();
            unknown.sort_by_key(|(number, _)| *number);
            Response::Details(unknown)
        }
        Request::Jump(_) => Response::Jumped(Err(fault())),
        Request::Preview(_) => {
            Response::Preview(PreviewResponse { preview: Err(fault()), found: SeekResult::Unsought, sealed: None, damage: None })
        }
        Request::Arrange(_) => Response::Arranged(Err(fault())),
        Request::Map(_) => Response::Mapped(Err(fault())),
        Request::Find(_) => Response::Found(FindResponse { complete: true, error: Some(fault()), ..FindResponse::default() }),
        Request::Marks(MarksRequest::Numbers(_, change) | MarksRequest::Glob(.., change)) => {
            Response::Marked(Err(fault()), *change)
        }
        Request::Totals(_) => Response::MarkTotals(None),
        Request::Inspect(_) => Response::Inspected(Err(fault())),
        Request::CompactEstimate(_) => Response::CompactEstimate(Err(fault())),
        Request::Check(_) => Response::CheckDone(Err(fault())),
        Request::Content(_) => Response::Content(Err(fault())),
        _ => Response::Failed(Failure::Error(fault())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ops::Range;
    use std::path::PathBuf;
    use std::time::Duration;

    use crossbeam_channel::unbounded;

    use super::*;
    use crate::effect::{Check, JumpRequest};
    use crate::layout::Column;
    use crate::preview;
    use crate::rows::{Anchor, Scope};
    use crate::state::task::Task;
    use crate::state::{
        ArrangeRequest, Arrangement, Change, FindRequest, JobEvent, OccurrencesRequest, PendingChange, PendingChanges,
        PreviewRequest, RowsRequest,
    };
    use nra_format::archive::{Access, ContentSink, Depth, Info, Totals, Verdict};
    use nra_format::crypt::Keyring;
    use nra_format::digest::Digest;
    use nra_format::entry::{Entry, Kind};
    use nra_format::error::Result;
    use nra_format::path::EntryPath;
    use nra_format::progress::Monitor;

    /// Performs an effect as the workers would, but at once, and returns the events; `None` for
    /// effects that concern the terminal or open an archive.
    pub fn perform_now(archive: &Arc<dyn Archive>, effect: Effect) -> Option<Vec<Event>> {
        let (sender, events) = crossbeam_channel::unbounded();
        match effect {
            // Free space differs from machine to machine.
            Effect::Request(_, Request::FreeSpace(_)) => {}
            Effect::Request(id, request) if request.has_worker() => {
                respond(archive, request, &mut None, &Responder { id, events: &sender, is_awaited: &|| true });
            }
            Effect::Start(id, task) => {
                let monitor = jobs::JobMonitor::new(id, jobs::JobControl::free(id), sender);
                let (ending, text) = jobs::perform(archive, &task, &monitor);
                monitor.end(ending, text);
            }
            _ => return None,
        }
        Some(events.try_iter().collect())
    }

    const LONG: Duration = Duration::from_secs(60);

    /// An archive whose engine has faults only.
    struct Faulty;

    impl Archive for Faulty {
        fn info(&self) -> &Info {
            panic!("a fault")
        }

        fn keyring(&self) -> Option<&Keyring> {
            panic!("a fault")
        }

        fn entry_count(&self) -> u64 {
            10
        }

        fn entry(&self, _: u64) -> Result<Entry> {
            panic!("a fault")
        }

        fn find(&self, _: &[u8]) -> Result<Option<(u64, Entry)>> {
            panic!("a fault")
        }

        fn subtree(&self, _: Option<&[u8]>) -> Result<Range<u64>> {
            panic!("a fault")
        }

        fn totals(&self, _: Range<u64>) -> Result<Totals> {
            panic!("a fault")
        }

        fn entries(&self, _: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
            panic!("a fault")
        }

        fn children(&self, _: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
            panic!("a fault")
        }

        fn read_at(&self, _: &Entry, _: u64, _: &mut [u8]) -> Result<usize> {
            panic!("a fault")
        }

        fn with_content(&self, _: &Entry, _: Access, _: ContentSink<'_>) -> Result<()> {
            panic!("a fault")
        }

        fn stored_bytes(&self, _: &Entry) -> Result<Option<u64>> {
            panic!("a fault")
        }

        fn digest(&self, _: &Entry) -> Result<Option<Digest>> {
            panic!("a fault")
        }

        fn verify(&self, _: Depth, _: Option<&(dyn Fn(&Entry) -> bool + Sync)>, _: &dyn Monitor) -> Result<Verdict> {
            panic!("a fault")
        }
    }

    #[test]
    fn panics_become_responses() {
        let (events, received) = unbounded();
        let mut work = Workers::start(&(Arc::new(Faulty) as Arc<dyn Archive>), &events);
        let mut requests = Requests::default();
        let path = EntryPath::try_from("a").unwrap();
        let entry = Entry { size: 10, ..Entry::new(path.clone(), Kind::File) };
        let scope = Scope::default();
        let arrangement = Arrangement { sort: Column::Size, ..Arrangement::default() };
        let asked = [
            Request::Rows(RowsRequest { scope: scope.clone(), anchor: Anchor::Start, count: 10 }),
            Request::Details(vec![(0, entry.clone())]),
            Request::Preview(PreviewRequest { entry: entry.clone(), request: preview::Request::default() }),
            Request::Occurrences(OccurrencesRequest { entry: entry.clone(), needle: "x".to_owned(), by_line: false }),
            Request::Arrange(ArrangeRequest { directory: None, open: Default::default(), arrangement }),
            Request::Map(None),
            Request::Jump(JumpRequest { scope, from: 0, after: false, typed: "x".to_owned() }),
            Request::Find(FindRequest { directory: None, pattern: "x".to_owned() }),
            Request::Totals(Arc::new(vec![0..1, 2..3])),
            Request::Marks(MarksRequest::Numbers(Arc::new(vec![0]), Change::Add)),
            Request::Inspect(entry.clone()),
            Request::CompactEstimate(PathBuf::from("none")),
            Request::Content(entry),
            Request::Check(Check::Change(PendingChange::MakeDirectory(path), PendingChanges::default())),
        ];
        let asked: Vec<Effect> =
            asked.into_iter().map(|request| Effect::Request(requests.make(RequestKind::from(&request)), request)).collect();
        work.publish(&requests);
        let effects = asked.into_iter().chain([Effect::Start(1, Task::Verify { ranges: None })]);
        for effect in effects {
            let begun = format!("{effect:?}");
            work.perform(effect);
            let is_last = |event: &Event| !matches!(event, Event::Job(_, JobEvent::Progress(..)));
            let answer = std::iter::from_fn(|| received.recv_timeout(LONG).ok()).find(is_last);
            let answer = answer.unwrap_or_else(|| panic!("no answer to {begun}"));
            // Unknown details and sums are not shown.
            let quiet = matches!(&answer, Event::Response(_, Response::Details(..) | Response::MarkTotals(..)));
            assert!(quiet || format!("{answer:?}").contains("internal error"), "{begun}: {answer:?}");
        }
    }
}
