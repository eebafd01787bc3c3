//! Does effects on threads, which answer with events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
use crate::format::error::Result;
use crate::tui::effect::{Effect, FactsRequest};
use crate::tui::event::Event;
use crate::tui::preview;
use crate::tui::rows;
use crate::tui::state::listing::{Facts, RowsAnswer, RowsRequest};
use crate::tui::state::pane::{PreviewAnswer, PreviewRequest};

/// Threads that read an archive for the screen.
pub struct Work {
    rows: Sender<RowsRequest>,
    facts: Sender<FactsRequest>,
    previews: Sender<PreviewRequest>,
}

impl Work {
    /// Starts the threads. They end when this is dropped.
    pub fn start(archive: &Arc<dyn Archive>, events: &Sender<Event>) -> Self {
        Self {
            rows: serve(archive, events, newest, |archive, request| Event::Rows(rows(archive, request))),
            facts: serve(archive, events, of_newest_list, |archive, request| facts(archive, request)),
            previews: serve(archive, events, newest, |archive, request| Event::Preview(preview(archive, request))),
        }
    }

    /// Hands an effect to its thread. Effects that concern the terminal come back.
    pub fn perform(&self, effect: Effect) -> Option<Effect> {
        // The threads live as long as the channels.
        match effect {
            Effect::Rows(request) => drop(self.rows.send(request)),
            Effect::Facts(request) => drop(self.facts.send(request)),
            Effect::Preview(request) => drop(self.previews.send(request)),
            other => return Some(other),
        }
        None
    }
}

/// Does an effect at once and returns the answer; `None` for those that concern the terminal.
pub fn answer(archive: &dyn Archive, effect: Effect) -> Option<Event> {
    match effect {
        Effect::Rows(request) => Some(Event::Rows(rows(archive, request))),
        Effect::Facts(request) => Some(facts(archive, request)),
        Effect::Preview(request) => Some(Event::Preview(preview(archive, request))),
        _ => None,
    }
}

/// Starts a thread that answers requests; `choose` drops those that nobody waits for any more.
fn serve<T: Send + 'static>(
    archive: &Arc<dyn Archive>,
    events: &Sender<Event>,
    choose: fn(&mut Vec<T>),
    work: fn(&dyn Archive, T) -> Event,
) -> Sender<T> {
    let (sender, requests): (Sender<T>, Receiver<T>) = unbounded();
    let (archive, events) = (Arc::clone(archive), events.clone());
    thread::spawn(move || {
        let mut queue: Vec<T> = Vec::new();
        while let Ok(request) = requests.recv() {
            queue.push(request);
            queue.extend(requests.try_iter());
            choose(&mut queue);
            for request in queue.drain(..) {
                // A panic is a fault of this program; the screen goes on without the answer.
                if let Ok(event) = catch_unwind(AssertUnwindSafe(|| work(&*archive, request)))
                    && events.send(event).is_err()
                {
                    return;
                }
            }
        }
    });
    sender
}

fn newest<T>(queue: &mut Vec<T>) {
    queue.drain(..queue.len().saturating_sub(1));
}

fn of_newest_list(queue: &mut Vec<FactsRequest>) {
    let newest = queue.iter().map(|request| request.generation).max();
    queue.retain(|request| Some(request.generation) == newest);
}

fn rows(archive: &dyn Archive, request: RowsRequest) -> RowsAnswer {
    let RowsRequest { generation, scope, want, count } = request;
    let page = rows::page(archive, &scope, &want, count).map_err(|error| told(&error));
    RowsAnswer { generation, want, page }
}

fn facts(archive: &dyn Archive, request: FactsRequest) -> Event {
    // A fact that does not read is a fact that is not shown.
    let mut known: Vec<(u64, Facts)> =
        request.entries.iter().map(|(number, entry)| (*number, fact(archive, entry).unwrap_or_default())).collect();
    known.sort_by_key(|(number, _)| *number);
    Event::Facts(request.generation, known)
}

fn fact(archive: &dyn Archive, entry: &Entry) -> Result<Facts> {
    let mut facts = Facts::default();
    match entry.kind {
        Kind::Directory => {
            let below = archive.subtree(Some(entry.path.as_bytes()))?;
            facts.content_bytes = Some(archive.totals(below)?.content_bytes);
        }
        Kind::File => facts.stored_bytes = archive.stored_bytes(entry)?,
        _ => {}
    }
    Ok(facts)
}

fn preview(archive: &dyn Archive, request: PreviewRequest) -> PreviewAnswer {
    let preview = preview::load(archive, &request.entry, &request.request).map_err(|error| told(&error));
    PreviewAnswer { generation: request.generation, preview }
}

/// Returns an error with its causes in one harmless line.
pub fn told(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    crate::text::harmless(&line)
}
