//! The path in the header, cut to its room, and where its parts lead.

use crate::text::{self, SizeStyle};
use crate::tui::glyphs;
use crate::tui::state::{READ_ONLY, State, WRITE_PROTECTED};

/// What stands between crumbs.
pub const BETWEEN: &str = " ▸ ";

/// A part of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crumb {
    /// What is shown.
    pub text: String,
    /// How many components of the path it leads to; `None` for those that had no room.
    pub depth: Option<usize>,
}

/// Returns the crumbs that fit into the header: the name of the archive and as many directories as possible, counted from the innermost.
pub fn crumbs(state: &State, room: usize) -> Vec<Crumb> {
    let mut all = vec![Crumb { text: state.archive.name.clone(), depth: Some(0) }];
    if let Some(directory) = &state.listing.scope.directory {
        all.extend(
            directory.components().enumerate().map(|(index, name)| Crumb { text: glyphs::shown(name), depth: Some(index + 1) }),
        );
    }
    let width = |crumbs: &[Crumb]| {
        let gaps = crumbs.len().saturating_sub(1) * glyphs::width(BETWEEN);
        crumbs.iter().map(|crumb| glyphs::width(&crumb.text)).sum::<usize>() + gaps
    };
    while width(&all) > room && all.len() > 2 {
        // The first crumb that goes leaves a sign; the next ones go behind it.
        if all[1].depth.is_none() {
            if all.len() == 3 {
                break;
            }
            all.remove(2);
        } else {
            all[1] = Crumb { text: "…".to_owned(), depth: None };
        }
    }
    if width(&all) > room {
        let last = all.pop().expect("the name of the archive is always there");
        return vec![Crumb { text: glyphs::fit(&last.text, room).into_owned(), ..last }];
    }
    all
}

/// Returns how much the archive holds, in as many words as a screen of this width has room for.
pub fn totals(state: &State, width: u16) -> String {
    // Nothing is open yet: a password is asked for, or which archive.
    if state.vacant {
        return String::new();
    }
    let info = &state.archive.info;
    let entries = text::counted(info.entries, "entry", "entries");
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
        36.. => text::count(info.entries),
        _ => String::new(),
    }
}

/// Returns the columns that the header leaves for crumbs.
pub fn room(state: &State, width: u16) -> usize {
    let totals = totals(state, width);
    usize::from(width.saturating_sub(2)).saturating_sub(if totals.is_empty() { 0 } else { glyphs::width(&totals) + 2 })
}
