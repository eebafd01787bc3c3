//! Does effects on threads, which answer with events.

mod arrange;
mod change;
mod complete;
mod desk;
mod details;
mod duplicates;
mod errors;
mod find;
pub mod jobs;
mod map;
mod marks;
mod plans;
mod read;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use crate::asked::{Asked, Subject, Ticket};
use crate::effect::{Effect, FactsRequest, JumpRequest, MarksRequest, Outside, Request};
use crate::event::Event;
use crate::state::arrange::ArrangeRequest;
use crate::state::finder::{FindAnswer, FindRequest};
use crate::state::jobs::JobId;
use crate::state::listing::RowsRequest;
use crate::state::pane::{PreviewRequest, StopsRequest};
use crate::state::sizes::MapRequest;
use nra_format::archive::Archive;
use nra_format::entry::Entry;

use desk::{Answered, Desk, PROGRESS, Requests, Served};

pub use desk::{FAULT, answered};
pub use errors::{sealed, told};
pub use find::{Finder, rank};

/// Returns memory for so many things, of which there may be millions, and which are gone again soon.
///
/// Where they are many it is more from the beginning than glibc ever keeps: freed blocks of up to 32 MiB have it keep as much of everything else that is
/// freed, in each thread. Of larger ones the system gives only what is written to, and takes all back.
fn room_for<T>(count: u64) -> Vec<T> {
    const FEW: usize = 64 << 10;
    const MANY: usize = 33 << 20;
    let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<T>());
    Vec::with_capacity(if bytes > FEW { MANY } else { bytes } / size_of::<T>())
}

/// Threads that read an archive for the screen, and jobs.
pub struct Work {
    desk: Desk,
    rows: Requests<RowsRequest>,
    facts: Requests<FactsRequest>,
    previews: Requests<PreviewRequest>,
    stops: Requests<StopsRequest>,
    arrange: Requests<ArrangeRequest>,
    map: Requests<MapRequest>,
    jump: Requests<JumpRequest>,
    find: Requests<Search>,
    /// The search by typing is open.
    searches: bool,
    marks: Requests<MarksRequest>,
    inspect: Requests<Entry>,
    weigh: Requests<PathBuf>,
    jobs: jobs::Jobs,
}

/// What the thread of the search by typing is asked.
enum Search {
    Find(FindRequest),
    /// Nobody types any more: what was kept for the next letter may go.
    Forget,
}

impl Work {
    /// Starts the threads. When this is dropped nobody waits for them any more: they end what they are at, and themselves.
    pub fn start(archive: &Arc<dyn Archive>, events: &Sender<Event>) -> Self {
        let desk = Desk { archive: Arc::clone(archive), events: events.clone(), awaited: Arc::default() };
        let mut finder = find::Finder::default();
        let previewed = Arc::clone(archive);
        Self {
            rows: desk.serve(Answered::Newest, |archive, request, line| {
                // Rows that were given up for others need no answer.
                if let Some(answer) = read::rows(archive, request, &|| line.is_awaited()) {
                    line.tell(Event::Rows(answer));
                }
            }),
            facts: desk.serve(Answered::Newest, |archive, request, line| {
                line.tell(read::facts(archive, request, &|| line.is_awaited()));
            }),
            previews: desk.serve(Answered::Newest, move |_, request, line| {
                line.tell(Event::Preview(read::preview(&previewed, request, &|| line.is_awaited())));
            }),
            stops: desk.serve(Answered::Newest, |archive, request: StopsRequest, line| {
                read::stops(archive, &request, &|| line.is_awaited(), &mut |event| line.tell(event));
            }),
            arrange: desk.serve(Answered::Newest, |archive, request: ArrangeRequest, line| {
                let told = Cell::new(Instant::now());
                let share = |share: f64| {
                    if told.get().elapsed() >= PROGRESS {
                        told.set(Instant::now());
                        line.tell(Event::Arranging(request.generation, share));
                    }
                    line.is_awaited()
                };
                if let Some(answer) = arrange::arrange(archive, &request, &share) {
                    line.tell(Event::Arranged(answer));
                }
            }),
            map: desk.serve(Answered::Newest, |archive, request, line| {
                if let Some(answer) = map::map(archive, &request, &|| line.is_awaited()) {
                    line.tell(Event::Mapped(answer));
                }
            }),
            jump: desk.serve(Answered::Newest, |archive, request, line| {
                let place = read::jump(archive, &request, &|| line.is_awaited());
                // Keys wait for the answer, or for that to the request behind it.
                if line.is_newest() {
                    line.tell(place);
                }
            }),
            find: desk.serve(Answered::Newest, move |archive, search, line| match search {
                Search::Find(request) => finder.find(archive, &request, &mut |answer| {
                    if let Some(answer) = answer {
                        line.tell(Event::Found(answer));
                    }
                    line.is_awaited()
                }),
                Search::Forget => finder.forget(),
            }),
            searches: false,
            marks: desk.serve(Answered::All, |archive, request, line| {
                if let Some(answer) = marks::answer(archive, request, &|| line.is_awaited()) {
                    line.answer(answer);
                }
            }),
            inspect: desk.serve(Answered::Newest, |archive, entry, line| {
                read::inspect(archive, &entry, &mut |event| line.answer(event), &|| line.is_awaited());
            }),
            weigh: desk.serve(Answered::Newest, |archive, file: PathBuf, line| {
                line.answer(jobs::weigh(archive, &file, &|| line.is_awaited()));
            }),
            jobs: jobs::Jobs::default(),
            desk,
        }
    }

    /// Returns the archive that is open.
    pub fn archive(&self) -> &Arc<dyn Archive> {
        &self.desk.archive
    }

    /// Lets the threads know what is awaited by now; they end what is not.
    pub fn renew(&mut self, asked: &Asked) {
        self.desk.awaited.renew(asked);
        let searches = asked.awaits_any(Subject::Finder);
        if std::mem::replace(&mut self.searches, searches) && !searches {
            // Its number is that of what nobody awaits: it counts for nothing once there is another search.
            drop(self.find.send((asked.ticket(Subject::Finder), Search::Forget)));
        }
    }

    /// Returns what says whether the answer to a request is still awaited.
    pub fn awaits(&self, ticket: Ticket) -> impl Fn() -> bool + Send + 'static {
        let awaited = Arc::clone(&self.desk.awaited);
        move || awaited.holds(ticket)
    }

    /// Lets the threads know that nothing is awaited any more. Jobs go on.
    pub fn rest(&self) {
        self.desk.awaited.end();
    }

    /// Asks a job to stop.
    pub fn stop(&self, id: JobId) {
        self.jobs.stop(id);
    }

    /// Turns to another archive. Jobs go on with the one they were started for.
    pub fn turn_to(&mut self, archive: &Arc<dyn Archive>) {
        let jobs = std::mem::take(&mut self.jobs);
        *self = Self { jobs, ..Self::start(archive, &self.desk.events) };
    }

    /// Hands an effect to its thread, which does nothing unless its answer is awaited by what [`Work::renew`] was told last. What concerns the
    /// terminal, or leads to another archive, comes back.
    pub fn perform(&mut self, effect: Effect) -> Option<Outside> {
        let of = |subject, number| Ticket { subject, number };
        // The threads live as long as the channels.
        match effect {
            Effect::Rows(request) => drop(self.rows.send((of(Subject::List, request.generation), request))),
            Effect::Facts(request) => drop(self.facts.send((of(Subject::List, request.generation), request))),
            Effect::Jump(request) => drop(self.jump.send((of(Subject::List, request.generation), request))),
            Effect::Arrange(request) => drop(self.arrange.send((of(Subject::Order, request.generation), request))),
            Effect::Map(request) => drop(self.map.send((of(Subject::Map, request.generation), request))),
            Effect::Preview(request) => drop(self.previews.send((of(Subject::Preview, request.generation), request))),
            Effect::Stops(request) => drop(self.stops.send((of(Subject::Stops, request.generation), request))),
            Effect::Find(request) => drop(self.find.send((of(Subject::Finder, request.generation), Search::Find(request)))),
            Effect::Totals(request) => {
                let number = of(Subject::Totals, request.generation);
                drop(self.marks.send((number, MarksRequest::Totals(request))));
            }
            Effect::Request(ticket, request) => return self.request(ticket, request),
            Effect::Start(id, task) => self.jobs.start(id, task, &self.desk.archive, &self.desk.events),
            Effect::Stop(id) => self.stop(id),
            Effect::Pause(id, pause) => self.jobs.pause(id, pause),
            Effect::Copy(text) => return Some(Outside::Copy(text)),
            Effect::Page(entry) => return Some(Outside::Page(entry)),
            Effect::Edit(copy) => return Some(Outside::Edit(copy)),
            Effect::Launch(entry) => return Some(Outside::Launch(entry)),
            Effect::Suspend => return Some(Outside::Suspend),
            Effect::Retake => return Some(Outside::Retake),
            Effect::Redraw => return Some(Outside::Redraw),
            Effect::Detach => return Some(Outside::Detach),
            Effect::Quit => return Some(Outside::Quit),
        }
        None
    }

    /// Hands a request to its thread.
    fn request(&mut self, ticket: Ticket, request: Request) -> Option<Outside> {
        match request {
            Request::Marks(marks) => drop(self.marks.send((ticket, marks))),
            Request::Inspect(entry) => drop(self.inspect.send((ticket, entry))),
            // Once in a while, and a network file system may take its time.
            Request::Check(check) => {
                let failed = Event::Checked(Err(FAULT.to_owned()));
                self.desk.once(ticket, failed, move |archive| Some(Event::Checked(change::check(archive, check))));
            }
            Request::Weigh(file) => drop(self.weigh.send((ticket, file))),
            Request::Content(entry) => {
                let failed = Event::Content(Err(FAULT.to_owned()));
                self.desk.once(ticket, failed, move |archive| Some(read::content(archive, &entry)));
            }
            Request::Room(typed) => {
                self.desk.once(ticket, Event::Trouble(FAULT.to_owned()), move |_| complete::room(&typed).map(Event::Room));
            }
            Request::Complete(typed, only_directories) => {
                let complete = move |_: &dyn Archive| Some(complete::complete(&typed, only_directories));
                self.desk.once(ticket, Event::Trouble(FAULT.to_owned()), complete);
            }
            Request::Open(door, password) => return Some(Outside::Open(ticket, door, password)),
            Request::Commits => return Some(Outside::Commits(ticket)),
            Request::Archives => return Some(Outside::Archives(ticket)),
            Request::Fetch(entry) => return Some(Outside::Fetch(ticket, entry)),
        }
        None
    }
}

impl Served for Search {
    fn failed(&self) -> Event {
        // What is not kept any more was for nobody.
        let Self::Find(request) = self else { return Event::Tick };
        let (generation, error) = (request.generation, Some(FAULT.to_owned()));
        Event::Found(FindAnswer { generation, hits: Vec::new(), matches: 0, searched: 0, complete: true, error })
    }
}

/// Does an effect at once, as the threads would, and returns the answers; `None` for those that concern the terminal.
#[cfg(test)]
pub fn answers(archive: &Arc<dyn Archive>, effect: Effect) -> Option<Vec<Event>> {
    let one = |event| Some(vec![event]);
    let shared = archive;
    let archive = &**shared;
    match effect {
        Effect::Rows(request) => one(Event::Rows(read::rows(archive, request, &|| true)?)),
        Effect::Facts(request) => one(read::facts(archive, request, &|| true)),
        Effect::Preview(request) => one(Event::Preview(read::preview(shared, request, &|| true))),
        Effect::Stops(request) => {
            let mut events = Vec::new();
            read::stops(archive, &request, &|| true, &mut |event| events.push(event));
            Some(events)
        }
        Effect::Arrange(request) => {
            Some(arrange::arrange(archive, &request, &|_| true).map(Event::Arranged).into_iter().collect())
        }
        Effect::Map(request) => one(Event::Mapped(map::map(archive, &request, &|| true)?)),
        Effect::Jump(request) => one(read::jump(archive, &request, &|| true)),
        Effect::Find(request) => {
            let mut answers = Vec::new();
            find::Finder::default().find(archive, &request, &mut |answer| {
                answers.extend(answer.map(Event::Found));
                true
            });
            Some(answers)
        }
        Effect::Totals(request) => one(marks::answer(archive, MarksRequest::Totals(request), &|| true)?),
        Effect::Request(_, request) => match request {
            // It differs from machine to machine.
            Request::Room(_) => Some(Vec::new()),
            Request::Marks(marks) => one(marks::answer(archive, marks, &|| true)?),
            Request::Content(entry) => one(read::content(archive, &entry)),
            Request::Weigh(file) => one(jobs::weigh(archive, &file, &|| true)),
            Request::Complete(typed, only_directories) => one(complete::complete(&typed, only_directories)),
            Request::Check(check) => one(Event::Checked(change::check(archive, check))),
            Request::Inspect(entry) => {
                let mut events = Vec::new();
                read::inspect(archive, &entry, &mut |event| events.push(event), &|| true);
                Some(events)
            }
            _ => None,
        },
        Effect::Start(id, task) => {
            let (sender, events) = crossbeam_channel::unbounded();
            let teller = jobs::Teller::new(id, jobs::Rein::free(id), sender);
            let (ending, text) = jobs::perform(shared, &task, &teller);
            teller.end(ending, text);
            Some(events.try_iter().collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use crossbeam_channel::unbounded;

    use super::*;
    use crate::effect::{Check, Task, TotalsRequest};
    use crate::preview;
    use crate::rows::{Scope, Want};
    use crate::state::arrange::{Arrangement, Sort};
    use crate::state::jobs::News;
    use crate::state::marks::Change;
    use crate::state::staged::{Stage, Staged};
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
    fn a_fault_is_an_answer_too() {
        let (events, told) = unbounded();
        let mut work = Work::start(&(Arc::new(Faulty) as Arc<dyn Archive>), &events);
        let mut asked = Asked::default();
        let shown =
            [Subject::List, Subject::Order, Subject::Map, Subject::Totals, Subject::Preview, Subject::Stops, Subject::Finder];
        shown.into_iter().for_each(|subject| asked.await_number(subject, Some(1)));
        work.renew(&asked);
        let path = EntryPath::try_from("a").unwrap();
        let entry = Entry { size: 10, ..Entry::new(path.clone(), Kind::File) };
        let (generation, directory, scope) = (1, None, Scope::default());
        let arrangement = Arrangement { sort: Sort::Size, ..Arrangement::default() };
        let totals = TotalsRequest { generation, ranges: Arc::new(vec![0..1, 2..3]) };
        let request = |request: Request| Effect::Request(asked.ticket(request.subject()), request);
        let effects = [
            Effect::Rows(RowsRequest { generation, scope: scope.clone(), want: Want::Start, count: 10 }),
            Effect::Facts(FactsRequest { generation, entries: vec![(0, entry.clone())] }),
            Effect::Preview(PreviewRequest { generation, entry: entry.clone(), request: preview::Request::default() }),
            Effect::Stops(StopsRequest { generation, entry: entry.clone(), needle: "x".to_owned(), by_line: false }),
            Effect::Arrange(ArrangeRequest { generation, directory: None, open: Default::default(), arrangement }),
            Effect::Map(MapRequest { generation, directory: None }),
            Effect::Jump(JumpRequest { generation, scope, from: 0, behind: false, typed: "x".to_owned() }),
            Effect::Find(FindRequest { generation, directory, pattern: "x".to_owned() }),
            Effect::Totals(totals),
            request(Request::Marks(MarksRequest::Numbers(Arc::new(vec![0]), Change::Add))),
            request(Request::Inspect(entry.clone())),
            request(Request::Weigh(PathBuf::from("none"))),
            request(Request::Content(entry)),
            request(Request::Check(Check::Plan(Stage::MakeDirectory(path), Staged::default()))),
            Effect::Start(1, Task::Verify { ranges: None }),
        ];
        for effect in effects {
            let begun = format!("{effect:?}");
            work.perform(effect);
            let is_last = |event: &Event| !matches!(event, Event::Job(_, News::Progress(..)));
            let answer = std::iter::from_fn(|| told.recv_timeout(LONG).ok()).find(is_last);
            let answer = answer.unwrap_or_else(|| panic!("no answer to {begun}"));
            // A fact, or a sum, that is not known is not shown.
            let quiet = matches!(&answer, Event::Answer(_, event) if matches!(**event, Event::Facts(..) | Event::MarkTotals(..)));
            assert!(quiet || format!("{answer:?}").contains("a fault in nra itself"), "{begun}: {answer:?}");
        }
    }
}
