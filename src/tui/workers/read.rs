//! Reads for the screen: rows and their details, previews, content for the clipboard.

use std::sync::Arc;
use std::time::Instant;

use crate::effect::JumpRequest;
use crate::event::Event;
use crate::open_target::OpenTarget;
use crate::preview;
use crate::preview::seek::{self, Place, Seek};
use crate::rows;
use crate::state::line::Facts;
use crate::state::listing::{RowsError, RowsRequest, RowsResponse};
use crate::state::pane::{Found, OccurrencesRequest, OccurrencesResponse, PreviewRequest, PreviewResponse};
use crate::workers::errors::{error_message, missing_password};
use crate::workers::properties;
use crate::workers::worker::PROGRESS;
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};

pub fn rows(archive: &dyn Archive, request: RowsRequest, go_on: &dyn Fn() -> bool) -> Option<RowsResponse> {
    let RowsRequest { scope, want, count } = request;
    let page = match rows::page(archive, &scope, &want, count, go_on) {
        Err(Error::Cancelled) => return None,
        Err(Error::NotFound { .. }) => Err(RowsError::Gone),
        page => page.map_err(|error| RowsError::Failed(error_message(&error))),
    };
    Some(RowsResponse { want, page })
}

pub fn jump(archive: &dyn Archive, request: &JumpRequest, go_on: &dyn Fn() -> bool) -> Event {
    let place = rows::jump::place(archive, &request.scope, request.from, request.behind, &request.typed, go_on);
    Event::Jumped(place.map_err(|error| error_message(&error)))
}

/// Reads details of rows as long as they are awaited, and returns those read by then.
pub fn details(archive: &dyn Archive, entries: &[(u64, Entry)], go_on: &dyn Fn() -> bool) -> Event {
    let mut known: Vec<(u64, Facts)> = Vec::new();
    for (number, entry) in entries {
        // Details that cannot be read are not shown.
        let fact = fact(archive, entry, go_on).unwrap_or_default();
        let whole = go_on();
        // The sum of a directory may be incomplete.
        if whole || entry.kind == Kind::File {
            known.push((*number, fact));
        }
        if !whole {
            break;
        }
    }
    known.sort_by_key(|(number, _)| *number);
    Event::Details(known)
}

fn fact(archive: &dyn Archive, entry: &Entry, go_on: &dyn Fn() -> bool) -> Result<Facts> {
    let mut facts = Facts::default();
    match entry.kind {
        Kind::Directory => {
            // With a damaged index this would read every entry.
            if !archive.is_index_damaged() {
                facts.numbers = rows::subtree(archive, &entry.path, go_on).ok().map(|numbers| (numbers.start, numbers.end));
            }
            facts.content_bytes = rows::totals(archive, &entry.path, go_on)?.map(|totals| totals.content_bytes);
        }
        Kind::File => facts.stored_bytes = archive.stored_bytes(entry)?,
        _ => {}
    }
    Ok(facts)
}

pub fn preview(archive: &Arc<dyn Archive>, request: PreviewRequest, awaited: &dyn Fn() -> bool) -> PreviewResponse {
    let PreviewRequest { entry, mut request } = request;
    let mut found = Found::Unsought;
    if let Some(seek) = request.seek.take() {
        match seek::place(&**archive, &entry, &seek, awaited) {
            Ok(Some(Place { offset, line, around })) => {
                found = if around { Found::Around(offset) } else { Found::At(offset) };
                request.place = offset;
                // A row whose place its quotes tell is the first one: of the line breaks before it
                // some may stand within quotes.
                let back = if matches!(seek, Seek::Row(..)) { 1 } else { request.limits.back() };
                request.offset = offset.saturating_sub(back);
                request.anchor = line.map(|line| (offset, line));
            }
            Ok(None) => {
                let found = Found::Nowhere;
                return PreviewResponse { preview: Err(String::new()), found, sealed: None, damage: None };
            }
            Err(error) => {
                let sealed = missing_password(&error);
                return PreviewResponse { preview: Err(error_message(&error)), found, sealed, damage: None };
            }
        }
    }
    let loaded = preview::load_around_damage(archive, &entry, &request, awaited);
    let sealed = loaded.as_ref().err().and_then(missing_password);
    let (preview, damage) = match loaded {
        Ok((preview, damage)) => (Ok(preview), damage.map(|error| error_message(&error))),
        Err(error) => (Err(error_message(&error)), None),
    };
    PreviewResponse { preview, found, sealed, damage }
}

/// Reports all occurrences of a text, and those found so far from time to time.
pub fn stops(archive: &dyn Archive, request: &OccurrencesRequest, awaited: &dyn Fn() -> bool, tell: &mut dyn FnMut(Event)) {
    let OccurrencesRequest { entry, needle, by_line } = request;
    let answer = |places: &[u64], all| Event::Occurrences(OccurrencesResponse { places: places.into(), all });
    let mut told = Instant::now();
    let found = seek::stops(archive, entry, needle, *by_line, awaited, &mut |places| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            tell(answer(places, false));
        }
    });
    // After damage, the count so far stays.
    if let Ok((places, all)) = found {
        tell(answer(&places, all));
    }
}

/// Most content that clipboards of terminals accept, bytes.
const CLIPBOARD: u64 = 64 << 10;

/// Reads the content of an entry for the clipboard.
pub fn content(archive: &dyn Archive, entry: &Entry) -> Event {
    if entry.size > CLIPBOARD {
        return Event::Content(Err("the content is too large for the clipboard: 64 KiB at most".to_owned()));
    }
    let mut content = vec![0; usize::try_from(entry.size).expect("no more than a clipboard takes")];
    match archive.read_at(entry, 0, &mut content) {
        Ok(read) => {
            content.truncate(read);
            Event::Content(Ok(content))
        }
        Err(error) => match missing_password(&error) {
            Some(wrong) => Event::Locked(OpenTarget::Unlocked, wrong),
            None => Event::Content(Err(error_message(&error))),
        },
    }
}

/// Reports the properties of an entry, and again with those that need a search of all entries.
pub fn inspect(archive: &dyn Archive, entry: &Entry, tell: &mut dyn FnMut(Event), go_on: &dyn Fn() -> bool) {
    let details = properties::facts(archive, entry, go_on).map_err(|error| error_message(&error));
    tell(Event::Inspected(details.clone()));
    if let Some(details) = details.ok().and_then(|details| properties::more(archive, entry, details, go_on)) {
        tell(Event::Inspected(Ok(details)));
    }
}
