//! The path bar in the header: the path, cut to the available width, and the targets of its parts.

use crate::glyphs;
use crate::state::{READ_ONLY, SEPARATOR, State, WRITE_PROTECTED};
use nra_text::{self, SizeStyle};

/// Placeholder for parts without room.
const ELLIPSIS: &str = "…";

/// A part of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPart {
    pub text: String,
    /// Number of path components up to this part; `None` for the placeholder.
    pub depth: Option<usize>,
}

/// Returns the parts that fit into the header: the name of the archive and as many directories as
/// possible, starting with the innermost.
pub fn parts(state: &State, room: usize) -> Vec<PathPart> {
    let name = PathPart { text: state.archive.name.clone(), depth: Some(0) };
    let Some(directory) = &state.listing.scope.directory else { return vec![cut(name, room)] };
    let separator = glyphs::width(SEPARATOR);
    let mut used = glyphs::width(&name.text);
    let mut depth = directory.components().count();
    // From the innermost outwards until the room is used: a path may have thousands of components.
    let mut inner = Vec::new();
    for component in directory.components().rev() {
        let part = PathPart { text: glyphs::printable(component), depth: Some(depth) };
        let with = used + separator + glyphs::width(&part.text);
        // The placeholder for skipped parts needs room too.
        let more = if depth > 1 { separator + glyphs::width(ELLIPSIS) } else { 0 };
        if with + more > room {
            break;
        }
        inner.push(part);
        (used, depth) = (with, depth - 1);
    }
    if inner.is_empty() {
        return vec![cut(PathPart { text: glyphs::printable(directory.name()), depth: Some(depth) }, room)];
    }
    let mut all = vec![name];
    if depth > 0 {
        all.push(PathPart { text: ELLIPSIS.to_owned(), depth: None });
    }
    all.extend(inner.into_iter().rev());
    all
}

/// Cuts a single part to the available room.
fn cut(part: PathPart, room: usize) -> PathPart {
    PathPart { text: glyphs::fit(&part.text, room).into_owned(), ..part }
}

/// Returns the totals of the archive, as detailed as a screen of this width permits.
pub fn totals(state: &State, width: u16) -> String {
    // No archive is open yet: the browser asks for a password or for the archive.
    if state.opening.no_archive {
        return String::new();
    }
    let info = &state.archive.info;
    let entries = nra_text::counted(info.entries, "entry", "entries");
    let content = SizeStyle::Binary.show(info.content_bytes);
    let whole = SizeStyle::Binary.show(info.archive_bytes);
    if state.archive.damaged {
        // The number of readable entries is unknown.
        return match width {
            56.. => format!("damaged · {whole}"),
            36.. => "damaged".to_owned(),
            _ => String::new(),
        };
    }
    if let Some(number) = info.commit.filter(|_| state.archive.is_past) {
        return match width {
            80.. => format!("earlier commit {number} · {entries} · {content}"),
            56.. => format!("earlier commit {number}"),
            36.. => format!("commit {number}"),
            _ => format!("@{number}"),
        };
    }
    let is_kept = [Err(READ_ONLY), Err(WRITE_PROTECTED)].contains(&state.archive.file);
    match width {
        80.. if is_kept => format!("read-only · {entries} · {content} → {whole}"),
        80.. => format!("{entries} · {content} → {whole}"),
        56.. => format!("{entries} · {content}"),
        36.. => nra_text::count(info.entries),
        _ => String::new(),
    }
}

/// Returns the columns that the header leaves for the path.
pub fn room(state: &State, width: u16) -> usize {
    let totals = totals(state, width);
    usize::from(width.saturating_sub(2)).saturating_sub(if totals.is_empty() { 0 } else { glyphs::width(&totals) + 2 })
}
