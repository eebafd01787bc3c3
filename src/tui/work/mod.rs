//! Does effects on threads, which answer with events.

mod arrange;
mod change;
mod complete;
mod details;
mod duplicates;
mod find;
pub mod jobs;
mod map;
mod marks;
mod plans;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result, reason};
use crate::tui::asked::{Asked, Awaited, Subject, Ticket};
use crate::tui::effect::{Door, Effect, FactsRequest, JumpRequest, MarksRequest, Outside, Request};
use crate::tui::event::Event;
use crate::tui::preview;
use crate::tui::preview::seek::{self, Place, Seek};
use crate::tui::rows;
use crate::tui::state::arrange::{ArrangeAnswer, ArrangeRequest};
use crate::tui::state::finder::{FindAnswer, FindRequest};
use crate::tui::state::jobs::JobId;
use crate::tui::state::line::Facts;
use crate::tui::state::listing::{NoRows, RowsAnswer, RowsRequest};
use crate::tui::state::pane::{Found, PreviewAnswer, PreviewRequest, StopsAnswer, StopsRequest};
use crate::tui::state::sizes::{MapAnswer, MapRequest};

pub use find::{Finder, rank};

/// What is said where an answer should be.
pub const FAULT: &str = "a fault in nra itself: an answer is missing";
/// How far a search is, is told this often.
const PROGRESS: Duration = Duration::from_millis(100);

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

/// The way to a thread: requests with their numbers.
type Requests<T> = Sender<(Ticket, T)>;

impl Work {
    /// Starts the threads. When this is dropped nobody waits for them any more: they end what they are at, and themselves.
    pub fn start(archive: &Arc<dyn Archive>, events: &Sender<Event>) -> Self {
        let desk = Desk { archive: Arc::clone(archive), events: events.clone(), awaited: Arc::default() };
        let mut finder = find::Finder::default();
        let previewed = Arc::clone(archive);
        Self {
            rows: desk.serve(Answered::Newest, |archive, request, line| {
                // Rows that were given up for others need no answer.
                if let Some(answer) = rows(archive, request, &|| line.is_awaited()) {
                    line.tell(Event::Rows(answer));
                }
            }),
            facts: desk.serve(Answered::Newest, |archive, request, line| {
                line.tell(facts(archive, request, &|| line.is_awaited()));
            }),
            previews: desk.serve(Answered::Newest, move |_, request, line| {
                line.tell(Event::Preview(preview(&previewed, request, &|| line.is_awaited())));
            }),
            stops: desk.serve(Answered::Newest, |archive, request: StopsRequest, line| {
                stops(archive, &request, &|| line.is_awaited(), &mut |event| line.tell(event));
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
                let place = jump(archive, &request, &|| line.is_awaited());
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
                inspect(archive, &entry, &mut |event| line.answer(event), &|| line.is_awaited());
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
                self.desk.once(ticket, failed, move |archive| Some(content(archive, &entry)));
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

/// What all threads work with.
struct Desk {
    archive: Arc<dyn Archive>,
    events: Sender<Event>,
    awaited: Arc<Awaited>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.awaited.end();
    }
}

/// Which requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// The newest, as long as there is none behind it.
    Newest,
    /// All that are awaited, one after the other.
    All,
}

/// The way back from a thread to the screen.
struct Answers<'a, T> {
    events: &'a Sender<Event>,
    requests: &'a Receiver<(Ticket, T)>,
    answered: Answered,
    awaited: &'a Awaited,
    ticket: Ticket,
}

impl<T> Answers<'_, T> {
    /// Sends an answer that brings a number of its own.
    fn tell(&self, event: Event) {
        // Nobody listens any more when the browser ends.
        drop(self.events.send(event));
    }

    /// Sends an answer with the number of the request.
    fn answer(&self, event: Event) {
        self.tell(Event::Answer(self.ticket, Box::new(event)));
    }

    /// Says whether the answer is still awaited.
    fn is_awaited(&self) -> bool {
        self.awaited.holds(self.ticket) && (self.answered == Answered::All || self.is_newest())
    }

    /// Says whether there is no request behind it.
    fn is_newest(&self) -> bool {
        self.requests.is_empty()
    }
}

/// Returns what work comes to. A panic is a fault of this program: what waits for the answer gets `failed` instead, and goes on.
pub fn answered<T>(failed: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(failed)
}

/// What a thread is asked for.
trait Served: Send + 'static {
    /// Returns the answer when there is none to be had, without the number of the request.
    fn failed(&self) -> Event;
}

impl Served for RowsRequest {
    fn failed(&self) -> Event {
        let page = Err(NoRows::Failed(FAULT.to_owned()));
        Event::Rows(RowsAnswer { generation: self.generation, want: self.want.clone(), page })
    }
}

impl Served for FactsRequest {
    fn failed(&self) -> Event {
        let mut unknown: Vec<(u64, Facts)> = self.entries.iter().map(|(number, _)| (*number, Facts::default())).collect();
        unknown.sort_by_key(|(number, _)| *number);
        Event::Facts(self.generation, unknown)
    }
}

impl Served for PreviewRequest {
    fn failed(&self) -> Event {
        let (generation, preview) = (self.generation, Err(FAULT.to_owned()));
        Event::Preview(PreviewAnswer { generation, preview, found: Found::Unsought, sealed: None, damage: None })
    }
}

impl Served for StopsRequest {
    // Nothing waits for the places.
    fn failed(&self) -> Event {
        Event::Trouble(FAULT.to_owned())
    }
}

impl Served for ArrangeRequest {
    fn failed(&self) -> Event {
        Event::Arranged(ArrangeAnswer { request: self.clone(), found: Err(FAULT.to_owned()) })
    }
}

impl Served for MapRequest {
    fn failed(&self) -> Event {
        Event::Mapped(MapAnswer { generation: self.generation, map: Err(FAULT.to_owned()) })
    }
}

impl Served for JumpRequest {
    fn failed(&self) -> Event {
        Event::Jumped(self.generation, Err(FAULT.to_owned()))
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

impl Served for MarksRequest {
    fn failed(&self) -> Event {
        match self {
            Self::Numbers(_, change) | Self::Glob(.., change) => Event::Marked(Err(FAULT.to_owned()), *change),
            Self::Totals(request) => Event::MarkTotals(request.generation, None),
        }
    }
}

/// Everything that is known of an entry.
impl Served for Entry {
    fn failed(&self) -> Event {
        Event::Inspected(Err(FAULT.to_owned()))
    }
}

/// What compacting an archive would save.
impl Served for PathBuf {
    fn failed(&self) -> Event {
        Event::Weighed(Err(FAULT.to_owned()))
    }
}

impl Desk {
    /// Starts a thread that answers requests.
    fn serve<T: Served>(
        &self,
        which: Answered,
        mut work: impl FnMut(&dyn Archive, T, &Answers<'_, T>) + Send + 'static,
    ) -> Requests<T> {
        let (sender, requests): (Requests<T>, _) = unbounded();
        let (archive, events, awaited) = (Arc::clone(&self.archive), self.events.clone(), Arc::clone(&self.awaited));
        thread::spawn(move || {
            while let Ok((ticket, request)) = requests.recv() {
                let answers = Answers { events: &events, requests: &requests, answered: which, awaited: &awaited, ticket };
                if !answers.is_awaited() {
                    continue;
                }
                let failed = request.failed();
                let work = || {
                    work(&*archive, request, &answers);
                    None
                };
                // Those that bring a number of their own do so within the other one, too.
                if let Some(failed) = answered(Some(failed), work) {
                    answers.answer(failed);
                }
            }
        });
        sender
    }

    /// Answers one request on a thread of its own.
    fn once(&self, ticket: Ticket, failed: Event, work: impl FnOnce(&dyn Archive) -> Option<Event> + Send + 'static) {
        let (archive, events) = (Arc::clone(&self.archive), self.events.clone());
        thread::spawn(move || {
            let event = answered(Some(failed), || work(&*archive));
            event.map(|event| drop(events.send(Event::Answer(ticket, Box::new(event)))))
        });
    }
}

fn rows(archive: &dyn Archive, request: RowsRequest, go_on: &dyn Fn() -> bool) -> Option<RowsAnswer> {
    let RowsRequest { generation, scope, want, count } = request;
    let page = match rows::page(archive, &scope, &want, count, go_on) {
        Err(Error::Cancelled) => return None,
        Err(Error::NotFound { .. }) => Err(NoRows::Gone),
        page => page.map_err(|error| NoRows::Failed(told(&error))),
    };
    Some(RowsAnswer { generation, want, page })
}

fn jump(archive: &dyn Archive, request: &JumpRequest, go_on: &dyn Fn() -> bool) -> Event {
    let place = rows::typed::place(archive, &request.scope, request.from, request.behind, &request.typed, go_on);
    Event::Jumped(request.generation, place.map_err(|error| told(&error)))
}

/// Finds out facts, as long as they are awaited; tells what it has got by then.
fn facts(archive: &dyn Archive, request: FactsRequest, go_on: &dyn Fn() -> bool) -> Event {
    let mut known: Vec<(u64, Facts)> = Vec::new();
    for (number, entry) in &request.entries {
        // A fact that does not read is a fact that is not shown.
        let fact = fact(archive, entry, go_on).unwrap_or_default();
        let whole = go_on();
        // Of a directory it may be half a sum.
        if whole || entry.kind == Kind::File {
            known.push((*number, fact));
        }
        if !whole {
            break;
        }
    }
    known.sort_by_key(|(number, _)| *number);
    Event::Facts(request.generation, known)
}

fn fact(archive: &dyn Archive, entry: &Entry, go_on: &dyn Fn() -> bool) -> Result<Facts> {
    let mut facts = Facts::default();
    match entry.kind {
        Kind::Directory => {
            // Where the index is damaged that takes a look at every entry.
            if !archive.is_recovered() {
                facts.numbers = rows::subtree(archive, &entry.path, go_on).ok().map(|numbers| (numbers.start, numbers.end));
            }
            facts.content_bytes = rows::totals(archive, &entry.path, go_on)?.map(|totals| totals.content_bytes);
        }
        Kind::File => facts.stored_bytes = archive.stored_bytes(entry)?,
        _ => {}
    }
    Ok(facts)
}

fn preview(archive: &Arc<dyn Archive>, request: PreviewRequest, awaited: &dyn Fn() -> bool) -> PreviewAnswer {
    let PreviewRequest { generation, entry, mut request } = request;
    let mut found = Found::Unsought;
    if let Some(seek) = request.seek.take() {
        match seek::place(&**archive, &entry, &seek, awaited) {
            Ok(Some(Place { offset, line, around })) => {
                found = if around { Found::Around(offset) } else { Found::At(offset) };
                request.place = offset;
                // A row whose place its quotes tell is the first one: of the line breaks before it some may stand within quotes.
                let back = if matches!(seek, Seek::Row(..)) { 1 } else { request.limits.back() };
                request.offset = offset.saturating_sub(back);
                request.anchor = line.map(|line| (offset, line));
            }
            Ok(None) => {
                let found = Found::Nowhere;
                return PreviewAnswer { generation, preview: Err(String::new()), found, sealed: None, damage: None };
            }
            Err(error) => {
                let sealed = sealed(&error);
                return PreviewAnswer { generation, preview: Err(told(&error)), found, sealed, damage: None };
            }
        }
    }
    let loaded = preview::load_around_damage(archive, &entry, &request, awaited);
    let sealed = loaded.as_ref().err().and_then(sealed);
    let (preview, damage) = match loaded {
        Ok((preview, damage)) => (Ok(preview), damage.map(|error| told(&error))),
        Err(error) => (Err(told(&error)), None),
    };
    PreviewAnswer { generation, preview, found, sealed, damage }
}

/// Tells where a text stands, and now and then how far that is known.
fn stops(archive: &dyn Archive, request: &StopsRequest, awaited: &dyn Fn() -> bool, tell: &mut dyn FnMut(Event)) {
    let StopsRequest { generation, entry, needle, by_line } = request;
    let answer = |places: &[u64], all| Event::Stops(StopsAnswer { generation: *generation, places: places.into(), all });
    let mut told = Instant::now();
    let found = seek::stops(archive, entry, needle, *by_line, awaited, &mut |places| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            tell(answer(places, false));
        }
    });
    // Damage on the way leaves what was counted.
    if let Ok((places, all)) = found {
        tell(answer(&places, all));
    }
}

/// Content that goes through the clipboards of most terminals, bytes.
const CLIPBOARD: u64 = 64 << 10;

/// Reads the content of an entry for the clipboard.
fn content(archive: &dyn Archive, entry: &Entry) -> Event {
    if entry.size > CLIPBOARD {
        return Event::Content(Err("the content is too long for the clipboard: 64 KiB at most".to_owned()));
    }
    let mut content = vec![0; usize::try_from(entry.size).expect("no more than a clipboard takes")];
    match archive.read_at(entry, 0, &mut content) {
        Ok(read) => {
            content.truncate(read);
            Event::Content(Ok(content))
        }
        Err(error) => match sealed(&error) {
            Some(wrong) => Event::Locked(Door::Content, wrong),
            None => Event::Content(Err(told(&error))),
        },
    }
}

/// Tells what is known of an entry, and once more when all others have been looked at for its content.
fn inspect(archive: &dyn Archive, entry: &Entry, tell: &mut dyn FnMut(Event), go_on: &dyn Fn() -> bool) {
    let sheet = details::facts(archive, entry, go_on).map_err(|error| told(&error));
    tell(Event::Inspected(sheet.clone()));
    if let Some(sheet) = sheet.ok().and_then(|sheet| details::more(archive, entry, sheet, go_on)) {
        tell(Event::Inspected(Ok(sheet)));
    }
}

/// Says whether something needs a password, and then whether one was given that is wrong.
pub fn sealed(error: &Error) -> Option<bool> {
    match error {
        Error::KeyNeeded => Some(false),
        Error::WrongKey => Some(true),
        _ => None,
    }
}

/// Returns an error with its causes in one harmless line.
pub fn told(error: &(dyn std::error::Error + 'static)) -> String {
    // Those of the system without their numbers.
    let own = |error: &(dyn std::error::Error + 'static)| error.downcast_ref().map_or_else(|| error.to_string(), reason);
    let mut line = own(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {}", own(error)));
        cause = error.source();
    }
    crate::text::harmless(&line)
}

/// Does an effect at once, as the threads would, and returns the answers; `None` for those that concern the terminal.
#[cfg(test)]
pub fn answers(archive: &Arc<dyn Archive>, effect: Effect) -> Option<Vec<Event>> {
    let one = |event| Some(vec![event]);
    let shared = archive;
    let archive = &**shared;
    match effect {
        Effect::Rows(request) => one(Event::Rows(rows(archive, request, &|| true)?)),
        Effect::Facts(request) => one(facts(archive, request, &|| true)),
        Effect::Preview(request) => one(Event::Preview(preview(shared, request, &|| true))),
        Effect::Stops(request) => {
            let mut events = Vec::new();
            stops(archive, &request, &|| true, &mut |event| events.push(event));
            Some(events)
        }
        Effect::Arrange(request) => {
            Some(arrange::arrange(archive, &request, &|_| true).map(Event::Arranged).into_iter().collect())
        }
        Effect::Map(request) => one(Event::Mapped(map::map(archive, &request, &|| true)?)),
        Effect::Jump(request) => one(jump(archive, &request, &|| true)),
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
            Request::Content(entry) => one(content(archive, &entry)),
            Request::Weigh(file) => one(jobs::weigh(archive, &file, &|| true)),
            Request::Complete(typed, only_directories) => one(complete::complete(&typed, only_directories)),
            Request::Check(check) => one(Event::Checked(change::check(archive, check))),
            Request::Inspect(entry) => {
                let mut events = Vec::new();
                inspect(archive, &entry, &mut |event| events.push(event), &|| true);
                Some(events)
            }
            _ => None,
        },
        Effect::Start(id, task) => {
            let (sender, events) = unbounded();
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

    use super::*;
    use crate::format::archive::{Access, Depth, Info, Part, Totals, Verdict};
    use crate::format::crypt::Keyring;
    use crate::format::digest::Digest;
    use crate::format::path::EntryPath;
    use crate::format::progress::Monitor;
    use crate::tui::effect::{Check, Task, TotalsRequest};
    use crate::tui::rows::{Scope, Want};
    use crate::tui::state::arrange::{Arrangement, Sort};
    use crate::tui::state::jobs::News;
    use crate::tui::state::marks::Change;
    use crate::tui::state::staged::{Stage, Staged};

    impl Served for () {
        fn failed(&self) -> Event {
            Event::Tick
        }
    }

    /// A thread that works until nobody waits any more, and then says so.
    fn patient(desk: &Desk, answered: Answered) -> Requests<()> {
        desk.serve(answered, |_, (), line| {
            line.tell(Event::Tick);
            while line.is_awaited() {
                thread::yield_now();
            }
            line.answer(Event::Tick);
        })
    }

    fn desk() -> (Desk, Receiver<Event>) {
        let (events, told) = unbounded();
        (Desk { archive: crate::tui::sample::archive(&["a"]), events, awaited: Arc::default() }, told)
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

    #[test]
    fn errors_are_told_without_numbers() {
        let error = Error::io("write", "out/a", std::io::Error::from_raw_os_error(28));
        assert_eq!(told(&error), "cannot write out/a: no space left on device");
    }

    #[test]
    fn work_ends_with_whoever_asked() {
        let (desk, told) = desk();
        let requests = patient(&desk, Answered::Newest);
        let ticket = Asked::default().ticket(Subject::Sheet);
        requests.send((ticket, ())).unwrap();
        assert_eq!(told.recv(), Ok(Event::Tick));
        assert!(told.try_recv().is_err());
        drop(desk);
        assert_eq!(told.recv_timeout(LONG), Ok(Event::Answer(ticket, Box::new(Event::Tick))));
    }

    #[test]
    fn work_ends_when_its_answer_is_not_awaited_any_more() {
        for answered in [Answered::Newest, Answered::All] {
            let (desk, from) = desk();
            let requests = patient(&desk, answered);
            let mut asked = Asked::default();
            let (before, ticket) = (asked.ticket(Subject::Marks), asked.ask(Subject::Sheet));
            desk.awaited.renew(&asked);
            requests.send((ticket, ())).unwrap();
            assert_eq!(from.recv(), Ok(Event::Tick));
            // Another one of the same kind waits for its turn, or takes it.
            requests.send((before, ())).unwrap();
            let first = from.recv_timeout(Duration::from_millis(50));
            assert_eq!(first.is_ok(), answered == Answered::Newest);
            asked.forget(Subject::Sheet);
            desk.awaited.renew(&asked);
            let both = [first.or_else(|_| from.recv_timeout(LONG)), from.recv_timeout(LONG)];
            assert_eq!(both, [Ok(Event::Answer(ticket, Box::new(Event::Tick))), Ok(Event::Tick)]);
            // What nobody awaits is not begun: the thread is done with it when it begins what comes behind.
            requests.send((ticket, ())).unwrap();
            let next = asked.ask(Subject::Names);
            asked.forget(Subject::Marks);
            desk.awaited.renew(&asked);
            requests.send((next, ())).unwrap();
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Answer(before, Box::new(Event::Tick))));
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Tick));
            asked.forget(Subject::Names);
            desk.awaited.renew(&asked);
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Answer(next, Box::new(Event::Tick))));
        }
    }
}
