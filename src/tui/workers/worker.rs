//! Worker threads: how they get requests, respond, and notice that a request is cancelled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};

use crate::effect::RequestId;
use crate::event::{Event, Response};
use crate::requests::SharedRequests;
use nra_format::archive::Archive;

/// The error for a response lost to a bug.
pub const FAULT: &str = "internal error: a response is missing";

/// Time between two progress reports of a search.
pub const PROGRESS: Duration = Duration::from_millis(100);

/// Returns the result of `work`, or `failed` if it panics, so that a bug does not leave a request
/// without a response.
pub fn catch_fault<T>(failed: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(failed)
}

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

/// The requests a worker responds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServePolicy {
    /// The newest one: it stops when another one is queued.
    Newest,
    /// All awaited ones, in order.
    All,
}

/// Sends the responses to a request.
pub struct Responder<'a> {
    pub id: RequestId,
    pub events: &'a Sender<Event>,
    /// Returns whether the response is still awaited.
    pub is_awaited: &'a (dyn Fn() -> bool + Sync),
}

impl Responder<'_> {
    /// Sends a response. The receiver is gone when the browser exits.
    pub fn respond(&self, response: Response) {
        drop(self.events.send(Event::Response(self.id, response)));
    }
}

impl WorkerContext {
    /// Starts a thread that passes awaited requests to `work`.
    pub fn serve<T: Send + 'static>(
        &self,
        policy: ServePolicy,
        mut work: impl FnMut(T, &Responder<'_>) + Send + 'static,
    ) -> Sender<(RequestId, T)> {
        let (sender, requests) = unbounded();
        let (events, awaited) = (self.events.clone(), Arc::clone(&self.awaited));
        thread::spawn(move || {
            while let Ok((id, request)) = requests.recv() {
                let is_awaited = || awaited.awaits(id) && (policy == ServePolicy::All || requests.is_empty());
                if is_awaited() {
                    work(request, &Responder { id, events: &events, is_awaited: &is_awaited });
                }
            }
        });
        sender
    }

    /// Passes one request to `work` on a thread of its own.
    pub fn once<T: Send + 'static>(&self, id: RequestId, request: T, work: impl FnOnce(T, &Responder<'_>) + Send + 'static) {
        let (events, awaited) = (self.events.clone(), Arc::clone(&self.awaited));
        thread::spawn(move || work(request, &Responder { id, events: &events, is_awaited: &|| awaited.awaits(id) }));
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::Receiver;

    use super::*;
    use crate::effect::RequestKind;
    use crate::requests::Requests;

    const LONG: Duration = Duration::from_secs(60);

    const RESPONSE: Response = Response::MarkTotals(None);

    /// Starts a worker that reports when it begins a request, and responds once it is cancelled.
    fn patient(context: &WorkerContext, policy: ServePolicy) -> Sender<(RequestId, ())> {
        context.serve(policy, |(), responder| {
            responder.events.send(Event::Tick).unwrap();
            while (responder.is_awaited)() {
                thread::yield_now();
            }
            responder.respond(RESPONSE);
        })
    }

    fn context() -> (WorkerContext, Receiver<Event>) {
        let (events, received) = unbounded();
        (WorkerContext { archive: crate::tests::sample::archive(&["a"]), events, awaited: Arc::default() }, received)
    }

    #[test]
    fn workers_stop_with_their_context() {
        let (context, received) = context();
        let requests = patient(&context, ServePolicy::Newest);
        let id = Requests::default().newest(RequestKind::Inspect);
        requests.send((id, ())).unwrap();
        assert_eq!(received.recv(), Ok(Event::Tick));
        assert!(received.try_recv().is_err());
        drop(context);
        assert_eq!(received.recv_timeout(LONG), Ok(Event::Response(id, RESPONSE)));
    }

    #[test]
    fn workers_stop_on_cancelled_requests() {
        for policy in [ServePolicy::Newest, ServePolicy::All] {
            let (context, from) = context();
            let sender = patient(&context, policy);
            let mut requests = Requests::default();
            let (before, id) = (requests.newest(RequestKind::Marks), requests.make(RequestKind::Inspect));
            context.awaited.publish(&requests);
            sender.send((id, ())).unwrap();
            assert_eq!(from.recv(), Ok(Event::Tick));
            // Another request of the same kind waits, or replaces it.
            sender.send((before, ())).unwrap();
            let first = from.recv_timeout(Duration::from_millis(50));
            assert_eq!(first.is_ok(), policy == ServePolicy::Newest);
            requests.cancel(RequestKind::Inspect);
            context.awaited.publish(&requests);
            let both = [first.or_else(|_| from.recv_timeout(LONG)), from.recv_timeout(LONG)];
            assert_eq!(both, [Ok(Event::Response(id, RESPONSE)), Ok(Event::Tick)]);
            // A cancelled request is skipped.
            sender.send((id, ())).unwrap();
            let next = requests.make(RequestKind::Completions);
            requests.cancel(RequestKind::Marks);
            context.awaited.publish(&requests);
            sender.send((next, ())).unwrap();
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Response(before, RESPONSE)));
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Tick));
            requests.cancel(RequestKind::Completions);
            context.awaited.publish(&requests);
            assert_eq!(from.recv_timeout(LONG), Ok(Event::Response(next, RESPONSE)));
        }
    }
}
