//! Reads for the screen: rows and their details, previews, content for the clipboard.

use std::sync::Arc;
use std::time::Instant;

use crate::effect::JumpRequest;
use crate::event::{Failure, Response};
use crate::open_target::OpenTarget;
use crate::preview;
use crate::preview::seek::{self, Place, Seek};
use crate::rows;
use crate::state::{
    OccurrencesRequest, OccurrencesResponse, PreviewRequest, PreviewResponse, RowDetails, RowsError, RowsRequest, RowsResponse,
    SeekResult,
};
use crate::workers::errors::{error_message, missing_password};
use crate::workers::properties;
use crate::workers::worker::{PROGRESS, Responder};
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};

pub fn rows(archive: &dyn Archive, request: RowsRequest, awaited: &dyn Fn() -> bool) -> Option<RowsResponse> {
    let RowsRequest { scope, anchor, count } = request;
    let page = match rows::page(archive, &scope, &anchor, count, awaited) {
        Err(Error::Cancelled) => return None,
        Err(Error::NotFound { .. }) => Err(RowsError::Gone),
        page => page.map_err(|error| RowsError::Failed(error_message(&error))),
    };
    Some(RowsResponse { anchor, page })
}

pub fn jump(
    archive: &dyn Archive,
    request: &JumpRequest,
    awaited: &dyn Fn() -> bool,
) -> std::result::Result<Option<u64>, String> {
    rows::jump::place(archive, &request.scope, request.from, request.after, &request.typed, awaited)
        .map_err(|error| error_message(&error))
}

/// Reads details of rows as long as they are awaited, and returns those read by then.
pub fn details(archive: &dyn Archive, entries: &[(u64, Entry)], awaited: &dyn Fn() -> bool) -> Vec<(u64, RowDetails)> {
    let mut known: Vec<(u64, RowDetails)> = Vec::new();
    for (number, entry) in entries {
        // Details that cannot be read are not shown.
        let fact = fact(archive, entry, awaited).unwrap_or_default();
        let whole = awaited();
        // The sum of a directory may be incomplete.
        if whole || entry.kind == Kind::File {
            known.push((*number, fact));
        }
        if !whole {
            break;
        }
    }
    known.sort_by_key(|(number, _)| *number);
    known
}

fn fact(archive: &dyn Archive, entry: &Entry, awaited: &dyn Fn() -> bool) -> Result<RowDetails> {
    let mut facts = RowDetails::default();
    match entry.kind {
        Kind::Directory => {
            // With a damaged index this would read every entry.
            if !archive.is_index_damaged() {
                facts.numbers = rows::subtree(archive, &entry.path, awaited).ok().map(|numbers| (numbers.start, numbers.end));
            }
            facts.content_bytes = rows::totals(archive, &entry.path, awaited)?.map(|totals| totals.content_bytes);
        }
        Kind::File => facts.stored_bytes = archive.stored_bytes(entry)?,
        _ => {}
    }
    Ok(facts)
}

pub fn preview(archive: &Arc<dyn Archive>, request: PreviewRequest, awaited: &dyn Fn() -> bool) -> PreviewResponse {
    let PreviewRequest { entry, mut request } = request;
    let failed = |error: &Error, found| PreviewResponse {
        preview: Err(error_message(error)),
        found,
        sealed: missing_password(error),
        damage: None,
    };
    let mut found = SeekResult::Unsought;
    if let Some(seek) = request.seek.take() {
        match seek::place(&**archive, &entry, &seek, awaited) {
            Ok(Some(Place { offset, line, around })) => {
                found = if around { SeekResult::Around(offset) } else { SeekResult::At(offset) };
                request.place = offset;
                // The window starts with the row: line breaks before it may be quoted.
                let back = if matches!(seek, Seek::Row(..)) { 1 } else { request.limits.back() };
                request.offset = offset.saturating_sub(back);
                request.anchor = line.map(|line| (offset, line));
            }
            Ok(None) => {
                let found = SeekResult::Nowhere;
                return PreviewResponse { preview: Err(String::new()), found, sealed: None, damage: None };
            }
            Err(error) => return failed(&error, found),
        }
    }
    match preview::load_around_damage(archive, &entry, &request, awaited) {
        Ok((preview, damage)) => {
            let damage = damage.map(|error| error_message(&error));
            PreviewResponse { preview: Ok(preview), found, sealed: None, damage }
        }
        Err(error) => failed(&error, found),
    }
}

/// Finds all occurrences of a text, and reports those found so far from time to time. After damage,
/// the last report stands.
pub fn occurrences(archive: &dyn Archive, request: &OccurrencesRequest, responder: &Responder<'_>) -> Option<Response> {
    let OccurrencesRequest { entry, needle, by_line } = request;
    let response = |places: &[u64], all| Response::Occurrences(OccurrencesResponse { places: places.into(), all });
    let mut reported = Instant::now();
    let found = seek::occurrences(archive, entry, needle, *by_line, responder.is_awaited, &mut |places| {
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            responder.respond(response(places, false));
        }
    });
    found.ok().map(|(places, all)| response(&places, all))
}

/// Most content that clipboards of terminals accept, bytes.
const CLIPBOARD: u64 = 64 << 10;

pub fn content(archive: &dyn Archive, entry: &Entry) -> Response {
    if entry.size > CLIPBOARD {
        return Response::Content(Err("The content is too large for the clipboard: 64 KiB at most".to_owned()));
    }
    let content = archive.read_all(entry, CLIPBOARD);
    match content.as_ref().err().and_then(missing_password) {
        Some(wrong) => Response::Failed(Failure::Locked(OpenTarget::Unlocked, wrong)),
        None => Response::Content(content.map_err(|error| error_message(&error))),
    }
}

/// Reports the properties of an entry, and returns them with those that need a search of all
/// entries.
pub fn inspect(archive: &dyn Archive, entry: &Entry, responder: &Responder<'_>) -> Option<Response> {
    let details = properties::facts(archive, entry, responder.is_awaited).map_err(|error| error_message(&error));
    responder.respond(Response::Inspected(details.clone()));
    properties::more(archive, entry, details.ok()?, responder.is_awaited).map(|details| Response::Inspected(Ok(details)))
}
