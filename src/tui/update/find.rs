//! Search while typing: paths, commands, archives.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crossterm::event::KeyCode;

use crate::effect::{Effect, Request};
use crate::glyphs;
use crate::key::Key;
use crate::keymap::{Command, Place};
use crate::open_target::OpenTarget;
use crate::state::{Dialog, FindKind, FindRequest, FindResponse, Finder, Focus, Hit, HitTarget, SearchResults, State};
use crate::update::{actions, browse, changes};
use crate::workers::rank;

/// Opens the search over paths.
pub fn paths(state: &mut State, effects: &mut Vec<Effect>) {
    let whole = state.listing.scope.directory.as_ref().map(|_| false);
    state.dialogs.push(Dialog::Finder(Finder { whole, ..Finder::new(FindKind::Paths) }));
    typed(state, effects);
}

/// Opens the search over commands.
pub fn commands(state: &mut State) {
    state.dialogs.push(Dialog::Finder(Finder::new(FindKind::Commands)));
    typed(state, &mut Vec::new());
}

/// Opens the search over the archives of this directory.
pub fn archives(state: &mut State) {
    state.dialogs.push(Dialog::Finder(Finder::new(FindKind::Archives)));
    typed(state, &mut Vec::new());
}

/// Opens the search over archives, and reads their list again.
pub fn other_archives(state: &mut State, effects: &mut Vec<Effect>) {
    state.opening.listing = true;
    effects.push(state.request(Request::Archives));
    archives(state);
}

/// Shows the archives to choose from.
pub fn set_archives(state: &mut State, archives: Vec<PathBuf>, effects: &mut Vec<Effect>) {
    state.opening.listing = false;
    if archives == state.opening.archives && !archives.is_empty() {
        return;
    }
    state.opening.archives = archives;
    let Some(Dialog::Finder(finder)) = state.dialogs.last() else { return };
    let cursor = finder.cursor;
    typed(state, effects);
    if let Some(Dialog::Finder(finder)) = state.dialogs.last_mut() {
        finder.cursor = cursor;
        finder.step(0);
    }
}

pub fn typed(state: &mut State, effects: &mut Vec<Effect>) {
    let place = if state.layout.focus == Focus::List { Place::List } else { Place::Preview };
    let Some(Dialog::Finder(finder)) = state.dialogs.last_mut() else { return };
    finder.cursor = 0;
    // Previous results are for another text.
    let hits = std::mem::take(&mut finder.results.hits);
    (finder.results, finder.answered) = (FindResponse { hits, ..FindResponse::default() }, false);
    let pattern = finder.input.value().to_owned();
    match finder.over {
        FindKind::Paths => {
            let directory = state.listing.scope.directory.clone().filter(|_| finder.whole != Some(true));
            effects.push(state.request(Request::Find(FindRequest { directory, pattern })));
        }
        FindKind::Commands => {
            let here: Vec<_> = state.settings.keymap.commands().filter(|(command, _)| command.works_in(place)).collect();
            let text = |(command, keys): &(&Command, &[Key])| {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                let keys = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(", ")) };
                format!("{}: {}{keys}", command.name, command.help)
            };
            let texts: Vec<String> = here.iter().map(text).collect();
            finder.show_results(ranked(&pattern, &texts, |index| HitTarget::Action(here[index].0.action)));
        }
        FindKind::Archives => {
            let texts: Vec<String> =
                state.opening.archives.iter().map(|path| glyphs::printable(path.as_os_str().as_bytes())).collect();
            let response = ranked(&pattern, &texts, |index| HitTarget::Archive(state.opening.archives[index].clone()));
            finder.show_results(FindResponse { complete: !state.opening.listing || !texts.is_empty(), ..response });
        }
    }
}

fn ranked(pattern: &str, texts: &[String], target: impl Fn(usize) -> HitTarget) -> FindResponse {
    let hit = |(index, matched): (usize, Vec<u32>)| Hit { target: target(index), text: texts[index].clone(), matched };
    let mut ranked = rank(pattern, texts);
    // Texts that contain the words hide those that only have the letters.
    let words: Vec<String> = pattern.split_whitespace().map(str::to_lowercase).collect();
    let has_words = |(index, _): &(usize, Vec<u32>)| words.iter().all(|word| texts[*index].to_lowercase().contains(word));
    if ranked.iter().any(has_words) {
        ranked.retain(has_words);
    }
    let hits: Vec<Hit> = ranked.into_iter().map(hit).collect();
    FindResponse { matches: hits.len() as u64, hits, searched: texts.len() as u64, complete: true, error: None }
}

pub fn show_results(state: &mut State, response: FindResponse) {
    if let Some(Dialog::Finder(finder)) = state.dialogs.last_mut() {
        finder.show_results(response);
    }
}

/// Returns by how many results a key moves the cursor.
pub fn step(key: Key) -> Option<isize> {
    let control = key.typed().is_none();
    match key.code {
        KeyCode::Down => Some(1),
        KeyCode::Up => Some(-1),
        KeyCode::Char('n') if control => Some(1),
        KeyCode::Char('p') if control => Some(-1),
        KeyCode::PageDown => Some(10),
        KeyCode::PageUp => Some(-10),
        _ => None,
    }
}

/// Opens the result under the cursor.
pub fn accept(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(Dialog::Finder(finder)) = state.dialogs.last() else { return };
    let (cursor, FindResponse { hits, matches, .. }) = (finder.cursor, finder.results.clone());
    let Some(hit) = hits.get(cursor).cloned() else { return };
    // Without an archive the dialog stays open until one is.
    if !(state.opening.no_archive && matches!(hit.target, HitTarget::Archive(_))) {
        state.dialogs.pop();
    }
    match hit.target {
        HitTarget::Entry(path) => {
            let paths =
                hits.into_iter().filter_map(|hit| if let HitTarget::Entry(path) = hit.target { Some(path) } else { None });
            state.places.results = SearchResults { paths: paths.collect(), at: cursor, matches };
            browse::reach(state, path, effects);
        }
        HitTarget::Action(action) => actions::run(state, action, effects),
        HitTarget::Archive(path) => changes::open(state, OpenTarget::File(path), effects),
    }
}
