//! Opens archives and commits on threads while the browser runs.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::Sender;

use crate::effect::{Effect, RequestId};
use crate::event::{Event, Failure, Response};
use crate::open_target::{OpenTarget, Password};
use crate::options::{Opened, Options};
use crate::session::{Found, Session};
use crate::state::Facts;
use crate::workers::{FAULT, catch_fault, error_message, missing_password};
use crate::{glyphs, nested};
use nra_format::archive::{Archive, OpenOptions};
use nra_format::crypt::Secret;
use nra_format::error::Result;
use nra_format::nra::writer::{Writer, WriterOptions};
use nra_format::progress::Recorder;
use nra_format::source::MemorySource;

/// Most commits that are listed.
const MAX_COMMITS: usize = 1_000;

/// Goes back to the archive around the one shown, which is still open.
pub fn step_out(id: RequestId, session: &mut Session) -> Vec<Effect> {
    let Some((facts, archive)) = session.outer.last().cloned() else { return Vec::new() };
    keep(&session.opened, id, (archive, None));
    session.feed(Event::Response(id, Response::Opened(Box::new(facts))))
}

/// Opens a target, with a password if one was typed.
pub fn open(
    id: RequestId,
    target: OpenTarget,
    password: Option<Password>,
    session: &Session,
    events: &Sender<Event>,
    options: &Options,
) {
    let (file, shown) = (session.file.clone(), &session.state.archive);
    let secret = password.map(|password| secret(password, target == OpenTarget::Unlocked && shown.has_keys_only()));
    // A nested archive is opened again from the one around it.
    let (source, outer, around) = match (&target, &shown.inside, session.outer.last()) {
        (OpenTarget::Unlocked, Some(entry), Some((facts, archive))) => (OpenTarget::Nested(entry.clone()), archive, facts),
        _ => (target.clone(), session.workers.archive(), shown),
    };
    let (outer, name, depth) = (Arc::clone(outer), around.name.clone(), around.depth);
    let (options, slot) = (options.clone(), Arc::clone(&session.opened));
    let find = move || {
        let OpenTarget::Nested(entry) = source else {
            return (options.opener)(&source, &file, secret).map(|opened| (opened.facts(&options), opened));
        };
        let archive = nested::open(&*outer, &entry, secret, options.config.limits.archive)?;
        let name = format!("{name} ▸ {}", glyphs::printable(entry.path.name()));
        let opened = Opened { archive, name, path: None, is_past: false, remains: None };
        Ok((Facts { depth: depth + 1, inside: Some(entry), ..opened.facts(&options) }, opened))
    };
    let open = move || match find() {
        Ok((facts, opened)) => {
            keep(&slot, id, (opened.archive, opened.path));
            Response::Opened(Box::new(facts))
        }
        Err(error) => Response::Failed(match missing_password(&error) {
            Some(wrong) => Failure::Locked(target, wrong),
            None => Failure::Error(error_message(&error)),
        }),
    };
    let (previous, is_awaited, events) = (Arc::clone(&session.opening), session.workers.awaits(id), events.clone());
    thread::spawn(move || {
        let fault = Response::Failed(Failure::Error(FAULT.to_owned()));
        let response = after_previous(&previous, is_awaited, || catch_fault(fault, open));
        response.map(|response| drop(events.send(Event::Response(id, response))))
    });
}

/// Stores an archive until it is shown.
fn keep(slot: &Mutex<HashMap<RequestId, Found>>, id: RequestId, found: Found) {
    slot.lock().unwrap_or_else(PoisonError::into_inner).insert(id, found);
}

/// Lists the commits of the archive, the newest first.
pub fn list_commits(id: RequestId, session: &Session, events: &Sender<Event>, options: &Options) {
    let (opener, events, file) = (Arc::clone(&options.opener), events.clone(), session.file.clone());
    let list = move || {
        let commits = opener(&OpenTarget::Commit(None), &file, None)
            .and_then(|opened| opened.archive.commits().take(MAX_COMMITS).collect::<Result<Vec<_>>>());
        commits.map_err(|error| error_message(&error))
    };
    thread::spawn(move || {
        let commits = Response::Commits(catch_fault(Err(FAULT.to_owned()), list));
        drop(events.send(Event::Response(id, commits)));
    });
}

/// Does work after earlier work has ended, unless it was cancelled meanwhile. A cancelled opening
/// keeps reading for a while, so repeated attempts would otherwise read several archives at once.
fn after_previous<T>(opening: &Mutex<()>, is_awaited: impl Fn() -> bool, work: impl FnOnce() -> T) -> Option<T> {
    let _opening = opening.lock().unwrap_or_else(PoisonError::into_inner);
    is_awaited().then(work)
}

/// Returns the typed password, or the typed key for formats without passwords.
fn secret(Password(typed): Password, keys_only: bool) -> Secret {
    let key = std::str::from_utf8(&typed).ok().filter(|_| keys_only).and_then(|digits| Secret::from_hex(digits.trim()));
    key.unwrap_or(Secret::Password(typed))
}

/// Returns an empty archive, to show before one is chosen.
pub fn nothing() -> io::Result<Opened> {
    let empty = || -> Result<Box<dyn Archive>> {
        let (bytes, _) = Writer::create(Vec::new(), WriterOptions::default())?.finish(&Recorder::default())?;
        nra_format::archive::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
    };
    let archive = empty().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Opened { archive: Arc::from(archive), name: String::new(), path: None, is_past: false, remains: None })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_archive_is_opened_at_a_time() {
        let previous = Mutex::new(());
        let (at_once, most, awaited) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(true));
        let open = || {
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            at_once.fetch_sub(1, Ordering::SeqCst);
        };
        let done = thread::scope(|scope| {
            let tries = [0; 4].map(|_| scope.spawn(|| after_previous(&previous, || awaited.swap(false, Ordering::SeqCst), open)));
            tries.map(|one| one.join().expect("it does not panic")).into_iter().flatten().count()
        });
        // Cancelled work is not started.
        assert_eq!((done, most.into_inner()), (1, 1));
    }
}
