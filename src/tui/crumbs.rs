//! The path in the header, fitted to its width, and the directories of its parts.

use crate::glyphs;
use crate::state::{READ_ONLY, State, WRITE_PROTECTED};
use nra_text::{self, SizeStyle};

/// What stands between crumbs.
pub const BETWEEN: &str = " ▸ ";
/// Stands for those that have no room.
const MORE: &str = "…";

/// A part of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crumb {
    /// What is shown.
    pub text: String,
    /// How many components of the path it leads to; `None` for those that had no room.
    pub depth: Option<usize>,
}

/// Returns the crumbs that fit into the header: the name of the archive and as many directories as
/// possible, counted from the innermost.
pub fn crumbs(state: &State, room: usize) -> Vec<Crumb> {
    let name = Crumb { text: state.archive.name.clone(), depth: Some(0) };
    let Some(directory) = &state.listing.scope.directory else { return vec![cut(name, room)] };
    let between = glyphs::width(BETWEEN);
    let mut used = glyphs::width(&name.text);
    let mut depth = directory.components().count();
    // From the innermost outwards until the room is used: a path may have thousands of components.
    let mut inner = Vec::new();
    for component in directory.components().rev() {
        let crumb = Crumb { text: glyphs::shown(component), depth: Some(depth) };
        let with = used + between + glyphs::width(&crumb.text);
        // Those that have no room leave a sign, which takes some.
        let more = if depth > 1 { between + glyphs::width(MORE) } else { 0 };
        if with + more > room {
            break;
        }
        inner.push(crumb);
        (used, depth) = (with, depth - 1);
    }
    if inner.is_empty() {
        return vec![cut(Crumb { text: glyphs::shown(directory.name()), depth: Some(depth) }, room)];
    }
    let mut all = vec![name];
    if depth > 0 {
        all.push(Crumb { text: MORE.to_owned(), depth: None });
    }
    all.extend(inner.into_iter().rev());
    all
}

/// Cuts a crumb that is alone to the room there is.
fn cut(crumb: Crumb, room: usize) -> Crumb {
    Crumb { text: glyphs::fit(&crumb.text, room).into_owned(), ..crumb }
}

/// Returns how much the archive holds, in as many words as a screen of this width has room for.
pub fn totals(state: &State, width: u16) -> String {
    // Nothing is open yet: a password is asked for, or which archive.
    if state.opening.no_archive {
        return String::new();
    }
    let info = &state.archive.info;
    let entries = nra_text::counted(info.entries, "entry", "entries");
    let content = SizeStyle::Binary.show(info.content_bytes);
    let whole = SizeStyle::Binary.show(info.archive_bytes);
    if state.archive.damaged {
        // Nobody knows how much of it reads.
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

/// Returns the columns that the header leaves for crumbs.
pub fn room(state: &State, width: u16) -> usize {
    let totals = totals(state, width);
    usize::from(width.saturating_sub(2)).saturating_sub(if totals.is_empty() { 0 } else { glyphs::width(&totals) + 2 })
}
