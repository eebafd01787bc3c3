//! Bookmarks, and the results of the last search.

use crossterm::event::KeyCode;

use crate::effect::Effect;
use crate::glyphs;
use crate::key::Key;
use crate::state::{Choice, Dialog, Menu, SearchResults, State, Tone};
use crate::update::browse;
use nra_format::path::EntryPath;

const LETTERS: std::ops::RangeInclusive<char> = 'a'..='z';

/// Asks for the letter of a bookmark.
pub fn keep(state: &mut State) {
    if let Some(entry) = state.listing.entry() {
        state.dialogs.push(Dialog::Bookmark(entry.path.clone()));
    }
}

/// Sets a bookmark, or removes it.
pub fn name(state: &mut State, path: EntryPath, key: Key) {
    let free = || LETTERS.clone().find(|letter| !state.places.bookmarks.contains_key(letter));
    let letter = match (key.code, key.typed()) {
        (KeyCode::Esc, _) => return,
        (KeyCode::Enter, _) => free(),
        (KeyCode::Delete | KeyCode::Backspace, _) => {
            state.places.bookmarks.retain(|_, kept| *kept != path);
            return state.notify(Tone::Info, "Bookmark removed");
        }
        (_, Some(letter)) if LETTERS.contains(&letter) => Some(letter),
        _ => return state.notify(Tone::Warning, "Bookmarks are named a to z"),
    };
    match letter {
        Some(letter) => {
            state.places.bookmarks.insert(letter, path);
            state.notify(Tone::Info, format!("Bookmark {letter} set: '{letter} goes there"));
        }
        None => state.notify(Tone::Warning, "All bookmarks from a to z are used"),
    }
}

pub fn choose(state: &mut State) {
    if state.places.bookmarks.is_empty() {
        return state.notify(Tone::Warning, "No bookmarks: m sets one");
    }
    let item = |(letter, path): (&char, &EntryPath)| (*letter, glyphs::printable(path.as_bytes()), Choice::Go(path.clone()));
    let items = state.places.bookmarks.iter().map(item).collect();
    state.dialogs.push(Dialog::Menu(Menu::new("Bookmarks", items)));
}

/// Goes to the next or previous search result.
pub fn step(state: &mut State, step: isize, effects: &mut Vec<Effect>) {
    let SearchResults { paths, at, matches } = &mut state.places.results;
    let kept = paths.len();
    let more = *matches > kept as u64;
    match at.checked_add_signed(step).filter(|next| *next < kept) {
        Some(next) => {
            *at = next;
            let of = if more { format!("the best {kept} of {}", nra_text::count(*matches)) } else { kept.to_string() };
            let (path, text) = (paths[next].clone(), format!("{} of {of} found", next + 1));
            browse::reach(state, path, effects);
            state.notify(Tone::Info, text);
        }
        None if paths.is_empty() => state.notify(Tone::Warning, "No search yet: / searches"),
        None if more => {
            let text = format!(
                "Only the best {kept} of {} are listed: type more letters to narrow the search",
                nra_text::count(*matches)
            );
            state.notify(Tone::Warning, text);
        }
        None => state.notify(Tone::Warning, "No more results"),
    }
}
