//! Worker threads: how they get requests, respond, and notice that a request is cancelled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::effect::{JumpRequest, MarksRequest};
use crate::event::Event;
use crate::requests::{RequestId, SharedRequests};
use crate::state::arrange::ArrangeRequest;
use crate::state::line::Facts;
use crate::state::listing::{RowsError, RowsRequest, RowsResponse};
use crate::state::pane::{Found, OccurrencesRequest, PreviewRequest, PreviewResponse};
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

/// The error for a response lost to a bug.
pub const FAULT: &str = "internal error: a response is missing";

/// Time between two progress reports of a search.
pub const PROGRESS: Duration = Duration::from_millis(100);

/// The channel to a worker: requests with their IDs.
pub type RequestSender<T> = Sender<(RequestId, T)>;

/// What all workers share.
pub struct WorkerContext {
    pub archive: Arc<dyn Archive>,
    pub events: Sender<Event>,
    pub awaited: Arc<SharedRequests>,
}

impl Drop for WorkerContext {
    fn drop(&mut self) {
        self.awaited.cancel_all();
    }
}

/// Which requests a worker responds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServePolicy {
    /// The newest one: it stops when another one is queued.
    Newest,
    /// All awaited ones, in order.
    All,
}

/// Sends the responses to a request.
pub struct Responder<'a, T> {
    events: &'a Sender<Event>,
    requests: &'a Receiver<(RequestId, T)>,
    answered: ServePolicy,
    awaited: &'a SharedRequests,
    id: RequestId,
}

impl<T> Responder<'_, T> {
    /// Sends an event.
    fn send(&self, event: Event) {
        // The receiver is gone when the browser exits.
        drop(self.events.send(event));
    }

    /// Sends a response with the ID of the request.
    pub fn respond(&self, event: Event) {
        self.send(Event::Response(self.id, Box::new(event)));
    }

    /// Returns whether the response is still awaited.
    pub fn is_awaited(&self) -> bool {
        self.awaited.awaits(self.id) && (self.answered == ServePolicy::All || self.is_newest())
    }

    /// Returns whether no other request is queued.
    pub fn is_newest(&self) -> bool {
        self.requests.is_empty()
    }
}

/// Returns the result of `work`, or `failed` if it panics, so that a bug does not leave a request
/// without a response.
pub fn catch_fault<T>(failed: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(failed)
}

/// A request for a worker.
pub trait WorkerRequest: Send + 'static {
    /// Returns the response if the worker panics.
    fn fault_response(&self) -> Event;
}

impl WorkerRequest for RowsRequest {
    fn fault_response(&self) -> Event {
        let page = Err(RowsError::Failed(FAULT.to_owned()));
        Event::Rows(RowsResponse { want: self.want.clone(), page })
    }
}

/// Details of rows.
impl WorkerRequest for Vec<(u64, Entry)> {
    fn fault_response(&self) -> Event {
        let mut unknown: Vec<(u64, Facts)> = self.iter().map(|(number, _)| (*number, Facts::default())).collect();
        unknown.sort_by_key(|(number, _)| *number);
        Event::Details(unknown)
    }
}

impl WorkerRequest for PreviewRequest {
    fn fault_response(&self) -> Event {
        let preview = Err(FAULT.to_owned());
        Event::Preview(PreviewResponse { preview, found: Found::Unsought, sealed: None, damage: None })
    }
}

impl WorkerRequest for OccurrencesRequest {
    // Nothing waits for this response.
    fn fault_response(&self) -> Event {
        Event::Error(FAULT.to_owned())
    }
}

impl WorkerRequest for ArrangeRequest {
    fn fault_response(&self) -> Event {
        Event::Arranged(Err(FAULT.to_owned()))
    }
}

/// The map of sizes of a directory.
impl WorkerRequest for Option<EntryPath> {
    fn fault_response(&self) -> Event {
        Event::Mapped(Err(FAULT.to_owned()))
    }
}

impl WorkerRequest for JumpRequest {
    fn fault_response(&self) -> Event {
        Event::Jumped(Err(FAULT.to_owned()))
    }
}

impl WorkerRequest for MarksRequest {
    fn fault_response(&self) -> Event {
        match self {
            Self::Numbers(_, change) | Self::Glob(.., change) => Event::Marked(Err(FAULT.to_owned()), *change),
            Self::Totals(_) => Event::MarkTotals(None),
        }
    }
}

/// The properties of an entry.
impl WorkerRequest for Entry {
    fn fault_response(&self) -> Event {
        Event::Inspected(Err(FAULT.to_owned()))
    }
}

/// What compacting an archive would save.
impl WorkerRequest for PathBuf {
    fn fault_response(&self) -> Event {
        Event::CompactEstimate(Err(FAULT.to_owned()))
    }
}

impl WorkerContext {
    /// Starts a worker.
    pub fn serve<T: WorkerRequest>(
        &self,
        which: ServePolicy,
        mut work: impl FnMut(&dyn Archive, T, &Responder<'_, T>) + Send + 'static,
    ) -> RequestSender<T> {
        let (sender, requests): (RequestSender<T>, _) = unbounded();
        let (archive, events, awaited) = (Arc::clone(&self.archive), self.events.clone(), Arc::clone(&self.awaited));
        thread::spawn(move || {
            while let Ok((id, request)) = requests.recv() {
                let answers = Responder { events: &events, requests: &requests, answered: which, awaited: &awaited, id };
                if !answers.is_awaited() {
                    continue;
                }
                let failed = request.fault_response();
                let work = || {
                    work(&*archive, request, &answers);
                    None
                };
                if let Some(failed) = catch_fault(Some(failed), work) {
                    answers.respond(failed);
                }
            }
        });
        sender
    }

    /// Responds to one request on a thread.
    pub fn once(&self, id: RequestId, failed: Event, work: impl FnOnce(&dyn Archive) -> Option<Event> + Send + 'static) {
        let (archive, events) = (Arc::clone(&self.archive), self.events.clone());
        thread::spawn(move || {
            let event = catch_fault(Some(failed), || work(&*archive));
            event.map(|event| drop(events.send(Event::Response(id, Box::new(event)))))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::{RequestKind, Requests};

    const LONG: Duration = Duration::from_secs(60);

    impl WorkerRequest for () {
        fn fault_response(&self) -> Event {
            Event::Tick
        }
    }

    /// A thread that works until nobody waits any more, and then says so.
    fn patient(context: &WorkerContext, answered: ServePolicy) -> RequestSender<()> {
        context.serve(answered, |_, (), responder| {
            responder.send(Event::Tick);
            while responder.is_awaited() {
                thread::yield_now();
            }
            responder.respond(Event::Tick);
        })
    }

    fn context() -> (WorkerContext, Receiver<Event>) {
        let (events, told) = unbounded();
        (WorkerContext { archive: crate::sample::archive(&["a"]), events, awaited: Arc::default() }, told)
    }

    #[test]
    fn workers_stop_with_their_context() {
        let (context, told) = context();
        let requests = patient(&context, ServePolicy::Newest);
        let id = Requests::default().newest(RequestKind::Inspect);
        requests.send((id, ())).unwrap();
        assert_eq!(told.recv(), Ok(Event::Tick));
        assert!(told.try_recv().is_err());
        drop(context);
        assert_eq!(told.recv_timeout(LONG), Ok(Event::Response(id, Box::new(Event::Tick))));
    }

    #[test]
    fn workers_stop_on_cancelled_requests() {
        for answered in [ServePolicy::Newest, ServePolicy::All] {
            let (context, from) = context();
            let sender = patient(&context, answered);
            let mut requests = Requests::default();
            let (before, id) = (requests.newest(RequestKind::Marks), requests.make(RequestKind::Inspect));
            context.awaited.publish(&requests);
            sender.send((id, ())).unwrap();
            assert_eq!(from.recv(), Ok(Event::Tick));
            // Another one of the same kind waits for its turn, or takes it.
            sender.send((before, ())).unwrap();
            let first = from.recv_timeout(Duration::from_millis(50));
            assert_eq!(first.is_ok(), answered == ServePolicy::Newest);
            requests.cancel(RequestKind::Inspect);
            context.awaited.publish(&requests);
            let both = [first.or_else(|_| from.recv_timeout(LONG)), from.recv_timeout(LONG)];
            assert_eq!(both, [Ok(Event::Response(id, Box::new(Event::Tick))), Ok(Event::Tick)]);
            // What nobody awaits is not begun: the thread is done with it when it begins what comes
            // behind.
            sender.send((id, ())).unwrap();
            let next = requests.make(RequestKind::Completions);
            requests.cancel(RequestKind::Marks);
            context.awaited.publish(&requests);
            sender.send((next, ())).unwrap();
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Response(before, Box::new(Event::Tick))));
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Tick));
            requests.cancel(RequestKind::Completions);
            context.awaited.publish(&requests);
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Response(next, Box::new(Event::Tick))));
        }
    }
}
