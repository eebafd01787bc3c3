//! Does effects on threads, which answer with events.

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
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use crate::effect::{Effect, JumpRequest, MarksRequest, Request};
use crate::event::Event;
use crate::requests::{RequestId, RequestKind, Requests};
use crate::state::arrange::ArrangeRequest;
use crate::state::finder::{FindRequest, FindResponse};
use crate::state::jobs::JobId;
use crate::state::listing::RowsRequest;
use crate::state::pane::{OccurrencesRequest, PreviewRequest};
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

use worker::{PROGRESS, RequestSender, ServePolicy, WorkerContext, WorkerRequest};

pub use errors::{error_message, missing_password};
pub use find::{Finder, rank};
pub use worker::{FAULT, catch_fault};

/// Returns memory for so many things, of which there may be millions, and which are gone again
/// soon.
///
/// Where they are many it is more from the beginning than glibc ever keeps: freed blocks of up to
/// 32 MiB have it keep as much of everything else that is freed, in each thread. Of larger ones the
/// system gives only what is written to, and takes all back.
fn room_for<T>(count: u64) -> Vec<T> {
    const FEW: usize = 64 << 10;
    const MANY: usize = 33 << 20;
    let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<T>());
    Vec::with_capacity(if bytes > FEW { MANY } else { bytes } / size_of::<T>())
}

/// Threads that read an archive for the screen, and jobs.
pub struct Workers {
    context: WorkerContext,
    rows: RequestSender<RowsRequest>,
    details: RequestSender<Vec<(u64, Entry)>>,
    previews: RequestSender<PreviewRequest>,
    stops: RequestSender<OccurrencesRequest>,
    arrange: RequestSender<ArrangeRequest>,
    map: RequestSender<Option<EntryPath>>,
    jump: RequestSender<JumpRequest>,
    find: RequestSender<Search>,
    /// The search by typing is open.
    searches: bool,
    marks: RequestSender<MarksRequest>,
    inspect: RequestSender<Entry>,
    weigh: RequestSender<PathBuf>,
    jobs: jobs::Jobs,
}

/// What the thread of the search by typing is asked.
enum Search {
    Find(FindRequest),
    /// Nobody types any more: what was kept for the next letter may go.
    Forget,
}

impl Workers {
    /// Starts the threads. When this is dropped nobody waits for them any more: they end what they
    /// are at, and themselves.
    pub fn start(archive: &Arc<dyn Archive>, events: &Sender<Event>) -> Self {
        let context = WorkerContext { archive: Arc::clone(archive), events: events.clone(), awaited: Arc::default() };
        let mut finder = find::Finder::default();
        let previewed = Arc::clone(archive);
        Self {
            rows: context.serve(ServePolicy::Newest, |archive, request, responder| {
                // Rows that were given up for others need no answer.
                if let Some(answer) = read::rows(archive, request, &|| responder.is_awaited()) {
                    responder.respond(Event::Rows(answer));
                }
            }),
            details: context.serve(ServePolicy::Newest, |archive, entries: Vec<(u64, Entry)>, responder| {
                responder.respond(read::details(archive, &entries, &|| responder.is_awaited()));
            }),
            previews: context.serve(ServePolicy::Newest, move |_, request, responder| {
                responder.respond(Event::Preview(read::preview(&previewed, request, &|| responder.is_awaited())));
            }),
            stops: context.serve(ServePolicy::Newest, |archive, request: OccurrencesRequest, responder| {
                read::stops(archive, &request, &|| responder.is_awaited(), &mut |event| responder.respond(event));
            }),
            arrange: context.serve(ServePolicy::Newest, |archive, request: ArrangeRequest, responder| {
                let told = Cell::new(Instant::now());
                let share = |share: f64| {
                    if told.get().elapsed() >= PROGRESS {
                        told.set(Instant::now());
                        responder.respond(Event::ArrangeProgress(share));
                    }
                    responder.is_awaited()
                };
                if let Some(answer) = arrange::arrange(archive, &request, &share) {
                    responder.respond(Event::Arranged(answer));
                }
            }),
            map: context.serve(ServePolicy::Newest, |archive, request, responder| {
                if let Some(answer) = map::map(archive, Option::as_ref(&request), &|| responder.is_awaited()) {
                    responder.respond(Event::Mapped(answer));
                }
            }),
            jump: context.serve(ServePolicy::Newest, |archive, request, responder| {
                let place = read::jump(archive, &request, &|| responder.is_awaited());
                responder.respond(place);
            }),
            find: context.serve(ServePolicy::Newest, move |archive, search, responder| match search {
                Search::Find(request) => finder.find(archive, &request, &mut |answer| {
                    if let Some(answer) = answer {
                        responder.respond(Event::Found(answer));
                    }
                    responder.is_awaited()
                }),
                Search::Forget => finder.forget(),
            }),
            searches: false,
            marks: context.serve(ServePolicy::All, |archive, request, responder| {
                if let Some(answer) = marks::answer(archive, request, &|| responder.is_awaited()) {
                    responder.respond(answer);
                }
            }),
            inspect: context.serve(ServePolicy::Newest, |archive, entry, responder| {
                read::inspect(archive, &entry, &mut |event| responder.respond(event), &|| responder.is_awaited());
            }),
            weigh: context.serve(ServePolicy::Newest, |archive, file: PathBuf, responder| {
                responder.respond(jobs::weigh(archive, &file, &|| responder.is_awaited()));
            }),
            jobs: jobs::Jobs::default(),
            context,
        }
    }

    /// Returns the archive that is open.
    pub fn archive(&self) -> &Arc<dyn Archive> {
        &self.context.archive
    }

    /// Publishes which requests are awaited; workers stop the others.
    pub fn publish(&mut self, requests: &Requests) {
        self.context.awaited.publish(requests);
        let searches = requests.is_made(RequestKind::Find);
        if std::mem::replace(&mut self.searches, searches) && !searches {
            drop(self.find.send((requests.newest(RequestKind::Find), Search::Forget)));
        }
    }

    /// Returns what says whether the answer to a request is still awaited.
    pub fn awaits(&self, id: RequestId) -> impl Fn() -> bool + Send + 'static {
        let awaited = Arc::clone(&self.context.awaited);
        move || awaited.awaits(id)
    }

    /// Lets the threads know that nothing is awaited any more. Jobs go on.
    pub fn rest(&self) {
        self.context.awaited.cancel_all();
    }

    /// Asks a job to stop.
    pub fn stop(&self, id: JobId) {
        self.jobs.stop(id);
    }

    /// Turns to another archive. Jobs go on with the one they were started for.
    pub fn turn_to(&mut self, archive: &Arc<dyn Archive>) {
        let jobs = std::mem::take(&mut self.jobs);
        *self = Self { jobs, ..Self::start(archive, &self.context.events) };
    }

    /// Performs an effect, and returns those that concern the terminal or open an archive. A worker
    /// skips a request that is not awaited according to [`Workers::publish`].
    pub fn perform(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Request(id, request) => return self.request(id, request),
            Effect::Start(id, task) => self.jobs.start(id, task, &self.context.archive, &self.context.events),
            Effect::Stop(id) => self.stop(id),
            Effect::Pause(id, pause) => self.jobs.pause(id, pause),
            other => return Some(other),
        }
        None
    }

    /// Passes a request to its worker, and returns those that have none.
    fn request(&mut self, id: RequestId, request: Request) -> Option<Effect> {
        // The workers live as long as the channels.
        match request {
            Request::Rows(rows) => drop(self.rows.send((id, rows))),
            Request::Details(entries) => drop(self.details.send((id, entries))),
            Request::Jump(jump) => drop(self.jump.send((id, jump))),
            Request::Arrange(arrange) => drop(self.arrange.send((id, arrange))),
            Request::Map(directory) => drop(self.map.send((id, directory))),
            Request::Preview(preview) => drop(self.previews.send((id, preview))),
            Request::Occurrences(text) => drop(self.stops.send((id, text))),
            Request::Find(find) => drop(self.find.send((id, Search::Find(find)))),
            Request::Marks(marks) => drop(self.marks.send((id, marks))),
            Request::Inspect(entry) => drop(self.inspect.send((id, entry))),
            Request::CompactEstimate(file) => drop(self.weigh.send((id, file))),
            // Rare, and slow on a network file system.
            Request::Check(check) => {
                let failed = Event::CheckDone(Err(FAULT.to_owned()));
                self.context.once(id, failed, move |archive| Some(Event::CheckDone(changes::check(archive, check))));
            }
            Request::Content(entry) => {
                let failed = Event::Content(Err(FAULT.to_owned()));
                self.context.once(id, failed, move |archive| Some(read::content(archive, &entry)));
            }
            Request::FreeSpace(typed) => {
                self.context.once(id, Event::Error(FAULT.to_owned()), move |_| complete::room(&typed).map(Event::FreeSpace));
            }
            Request::Completions(typed, only_directories) => {
                let complete = move |_: &dyn Archive| Some(complete::complete(&typed, only_directories));
                self.context.once(id, Event::Error(FAULT.to_owned()), complete);
            }
            Request::Open(..) | Request::Commits | Request::Archives | Request::Copy(_) => {
                return Some(Effect::Request(id, request));
            }
        }
        None
    }
}

impl WorkerRequest for Search {
    fn fault_response(&self) -> Event {
        // What is not kept any more was for nobody.
        let Self::Find(_) = self else { return Event::Tick };
        let error = Some(FAULT.to_owned());
        Event::Found(FindResponse { hits: Vec::new(), matches: 0, searched: 0, complete: true, error })
    }
}

/// Performs an effect at once, as the workers would, and returns the events; `None` for effects
/// that concern the terminal or open an archive.
#[cfg(test)]
pub fn answers(archive: &Arc<dyn Archive>, effect: Effect) -> Option<Vec<Event>> {
    match effect {
        Effect::Request(_, request) => responses(archive, request),
        Effect::Start(id, task) => {
            let (sender, events) = crossbeam_channel::unbounded();
            let teller = jobs::JobMonitor::new(id, jobs::JobControl::free(id), sender);
            let (ending, text) = jobs::perform(archive, &task, &teller);
            teller.end(ending, text);
            Some(events.try_iter().collect())
        }
        _ => None,
    }
}

/// Returns the responses to a request; `None` for requests that open an archive or need the
/// terminal.
#[cfg(test)]
fn responses(shared: &Arc<dyn Archive>, request: Request) -> Option<Vec<Event>> {
    let archive = &**shared;
    let mut events = Vec::new();
    match request {
        Request::Rows(request) => events.push(Event::Rows(read::rows(archive, request, &|| true)?)),
        Request::Details(entries) => events.push(read::details(archive, &entries, &|| true)),
        Request::Preview(request) => events.push(Event::Preview(read::preview(shared, request, &|| true))),
        Request::Occurrences(request) => read::stops(archive, &request, &|| true, &mut |event| events.push(event)),
        Request::Arrange(request) => events.extend(arrange::arrange(archive, &request, &|_| true).map(Event::Arranged)),
        Request::Map(directory) => events.push(Event::Mapped(map::map(archive, directory.as_ref(), &|| true)?)),
        Request::Jump(request) => events.push(read::jump(archive, &request, &|| true)),
        Request::Find(request) => find::Finder::default().find(archive, &request, &mut |answer| {
            events.extend(answer.map(Event::Found));
            true
        }),
        Request::Marks(marks) => events.push(marks::answer(archive, marks, &|| true)?),
        // It differs from machine to machine.
        Request::FreeSpace(_) => {}
        Request::Content(entry) => events.push(read::content(archive, &entry)),
        Request::CompactEstimate(file) => events.push(jobs::weigh(archive, &file, &|| true)),
        Request::Completions(typed, only_directories) => events.push(complete::complete(&typed, only_directories)),
        Request::Check(check) => events.push(Event::CheckDone(changes::check(archive, check))),
        Request::Inspect(entry) => read::inspect(archive, &entry, &mut |event| events.push(event), &|| true),
        Request::Open(..) | Request::Commits | Request::Archives | Request::Copy(_) => return None,
    }
    Some(events)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use crossbeam_channel::unbounded;

    use super::*;
    use crate::effect::Check;
    use crate::preview;
    use crate::rows::{Scope, Want};
    use crate::state::arrange::{Arrangement, Sort};
    use crate::state::jobs::JobEvent;
    use crate::state::marks::Change;
    use crate::state::pending::{PendingChange, PendingChanges};
    use crate::task::Task;
    use nra_format::archive::{Access, Depth, Info, Part, Totals, Verdict};
    use nra_format::crypt::Keyring;
    use nra_format::digest::Digest;
    use nra_format::entry::Kind;
    use nra_format::error::Result;
    use nra_format::path::EntryPath;
    use nra_format::progress::Monitor;

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

        fn with_content(&self, _: &Entry, _: Access, _: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
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
        let (events, told) = unbounded();
        let mut work = Workers::start(&(Arc::new(Faulty) as Arc<dyn Archive>), &events);
        let mut requests = Requests::default();
        let path = EntryPath::try_from("a").unwrap();
        let entry = Entry { size: 10, ..Entry::new(path.clone(), Kind::File) };
        let scope = Scope::default();
        let arrangement = Arrangement { sort: Sort::Size, ..Arrangement::default() };
        let asked = [
            Request::Rows(RowsRequest { scope: scope.clone(), want: Want::Start, count: 10 }),
            Request::Details(vec![(0, entry.clone())]),
            Request::Preview(PreviewRequest { entry: entry.clone(), request: preview::Request::default() }),
            Request::Occurrences(OccurrencesRequest { entry: entry.clone(), needle: "x".to_owned(), by_line: false }),
            Request::Arrange(ArrangeRequest { directory: None, open: Default::default(), arrangement }),
            Request::Map(None),
            Request::Jump(JumpRequest { scope, from: 0, behind: false, typed: "x".to_owned() }),
            Request::Find(FindRequest { directory: None, pattern: "x".to_owned() }),
            Request::Marks(MarksRequest::Totals(Arc::new(vec![0..1, 2..3]))),
            Request::Marks(MarksRequest::Numbers(Arc::new(vec![0]), Change::Add)),
            Request::Inspect(entry.clone()),
            Request::CompactEstimate(PathBuf::from("none")),
            Request::Content(entry),
            Request::Check(Check::Change(PendingChange::MakeDirectory(path), PendingChanges::default())),
        ];
        let asked: Vec<Effect> =
            asked.into_iter().map(|request| Effect::Request(requests.make(request.kind()), request)).collect();
        work.publish(&requests);
        let effects = asked.into_iter().chain([Effect::Start(1, Task::Verify { ranges: None })]);
        for effect in effects {
            let begun = format!("{effect:?}");
            work.perform(effect);
            let is_last = |event: &Event| !matches!(event, Event::Job(_, JobEvent::Progress(..)));
            let answer = std::iter::from_fn(|| told.recv_timeout(LONG).ok()).find(is_last);
            let answer = answer.unwrap_or_else(|| panic!("no answer to {begun}"));
            // A fact, or a sum, that is not known is not shown.
            let quiet =
                matches!(&answer, Event::Response(_, event) if matches!(**event, Event::Details(..) | Event::MarkTotals(..)));
            assert!(quiet || format!("{answer:?}").contains("internal error"), "{begun}: {answer:?}");
        }
    }
}
