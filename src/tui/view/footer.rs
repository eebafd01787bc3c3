//! Draws the status line and the key hints.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use crate::glyphs;
use crate::hints;
use crate::keymap::Action;
use crate::state::{Jump, State, Tone};
use crate::theme::Theme;
use crate::view::{jobs, put, put_right};
use nra_format::entry::Entry;
use nra_text::{self, SizeStyle};

/// Separator between notes.
const SEPARATOR: &str = " · ";

pub fn status(state: &State, area: Rect, buffer: &mut Buffer) {
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let place = state.listing.position().map_or_else(String::new, |place| format!("{:.0} %", place * 100.0));
    let help = hints::hints(state).into_iter().next().filter(|_| state.areas().hints.is_empty());
    let place = match help {
        Some(hint) => format!("{place}  {} {}", hint.key, hint.word).trim_start().to_owned(),
        None => place,
    };
    put_right(buffer, inner, 0, &place, state.settings.theme.dim);
    let room = usize::from(inner.width).saturating_sub(if place.is_empty() { 0 } else { glyphs::width(&place) + 2 });
    let mut x = 0;
    if state.status.message.is_none()
        && let Some(job) = state.jobs.running().last()
    {
        let stop = state.settings.keymap.key(Action::StopShown).filter(|_| inner.width >= 70 && state.dialogs.is_empty());
        let stop = stop.map_or_else(String::new, |key| format!("  {key} stop"));
        // Notes on marks and pending changes keep their room, unless they are longer than the
        // job's.
        let noted = glyphs::width(&all_notes(state, true).join(SEPARATOR));
        let noted = if (1..=room / 3).contains(&noted) { noted + 2 } else { 0 };
        x = jobs::bar(job, &state.settings.theme, inner, 0, room.saturating_sub(glyphs::width(&stop) + noted), buffer);
        x = put(buffer, inner, x, 0, &stop, state.settings.theme.dim) + 2;
    }
    let room = room.saturating_sub(usize::from(x));
    let (line, style) = match &state.status.message {
        Some(message) => {
            let style = match message.tone {
                Tone::Info => state.settings.theme.success,
                Tone::Warning => state.settings.theme.warning,
                Tone::Error => state.settings.theme.error,
            };
            (message.text.clone(), style)
        }
        None if state.opening.target.is_some() => ("opening …".to_owned(), state.settings.theme.dim),
        None if state.listing.lost > 0 => {
            let lost = nra_text::counted(state.listing.lost, "unreadable entry", "unreadable entries");
            (format!("{lost} here: the archive is damaged (R: recover)"), state.settings.theme.error)
        }
        None if state.marks.anchor.is_some() => {
            ("marking a range: v ends it, esc cancels it".to_owned(), state.settings.theme.mark)
        }
        None => match notes(state, room) {
            notes if notes.is_empty() => {
                (state.listing.entry().map(|entry| about(entry, room)).unwrap_or_default(), state.settings.theme.dim)
            }
            notes => (notes, state.settings.theme.mark),
        },
    };
    if state.status.message.is_some() && glyphs::width(&line) > room && !state.settings.linear {
        return sentence(&line, style, inner, buffer);
    }
    put(buffer, inner, x, 0, &glyphs::fit(&line, room), style);
}

/// Draws a message that is too long for the status line, using the rows above it as well.
fn sentence(text: &str, style: Style, area: Rect, buffer: &mut Buffer) {
    let most = usize::from(area.y).max(1);
    let room = usize::from(area.width);
    let lines: Vec<&str> = glyphs::wrapped(text, room).collect();
    let shown = u16::try_from(lines.len().min(most)).unwrap_or(1);
    let area = Rect { y: area.y + 1 - shown, height: shown, ..area };
    Clear.render(Rect { x: area.x.saturating_sub(1), width: area.width + 2, ..area }, buffer);
    for (row, line) in (0..shown).zip(&lines) {
        put(buffer, area, 0, row, line, style);
    }
    if lines.len() > usize::from(shown) {
        put_right(buffer, area, shown - 1, " …", style);
    }
}

/// Draws the jump prompt and returns the cursor position.
pub fn jump(jump: &Jump, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (keys, style) = match jump.missed {
        true => ("no match · esc close", theme.warning),
        false => ("tab next · esc close", theme.dim),
    };
    input_line("to: ", &glyphs::printable(jump.typed.as_bytes()), (keys, style), theme, area, buffer)
}

/// Draws the prompt for the letter of a bookmark and returns the cursor position.
pub fn bookmark(theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    input_line("bookmark (a-z, enter, del): ", "", ("esc cancel", theme.dim), theme, area, buffer)
}

/// Draws a prompt in the status line with the end of the input and its keys. Returns the cursor
/// position.
fn input_line(
    what: &str,
    typed: &str,
    (keys, style): (&str, Style),
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    Clear.render(area, buffer);
    buffer.set_style(area, theme.text);
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let keys = if inner.width < 30 { "" } else { keys };
    put_right(buffer, inner, 0, keys, style);
    let x = put(buffer, inner, 0, 0, what, theme.accent);
    let room = usize::from(inner.width.saturating_sub(x)).saturating_sub(glyphs::width(keys) + 3);
    let x = put(buffer, inner, x, 0, glyphs::end(typed, room), theme.text);
    Some(Position { x: inner.x + x, y: inner.y })
}

/// Draws previous messages, one per line, newest at the bottom.
pub fn previous_messages(state: &State, area: Rect, buffer: &mut Buffer) {
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let top = usize::from(area.height).saturating_sub(state.status.previous.len());
    for (row, line) in (0..area.height).skip(top).zip(&state.status.previous) {
        put(buffer, inner, 0, row, &glyphs::fit(line, usize::from(inner.width)), state.settings.theme.dim);
    }
}

/// Returns notes on marks, pending changes, filter and progress: the long form if there is room,
/// else the short form, cut if necessary.
fn notes(state: &State, room: usize) -> String {
    let long = all_notes(state, false).join(SEPARATOR);
    if glyphs::width(&long) <= room {
        long
    } else {
        glyphs::fit_start(&all_notes(state, true).join(SEPARATOR), room).into_owned()
    }
}

fn all_notes(state: &State, brief: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |words: &str, more: String| notes.push(if brief { words.to_owned() } else { format!("{words}{more}") });
    if !state.marks.is_empty() {
        let size = state.marks.content_bytes.map_or_else(String::new, |bytes| format!(", {}", SizeStyle::Binary.show(bytes)));
        add(&format!("{} marked", nra_text::count(state.marks.count())), size);
    }
    if !state.changes.pending.is_empty() {
        add(&state.changes.pending.summary(), ": W write, u undo, P show".to_owned());
    }
    if !state.arrangement.wanted.filter.is_empty() {
        add(&format!("filter: {}", state.arrangement.wanted.filter), String::new());
    }
    if !state.arrangement.wanted.query.is_empty() {
        match state.arrangement.found.summary.as_str() {
            "" => add(&format!("query: {}", state.arrangement.wanted.query), " (esc clears it)".to_owned()),
            summary => add(summary, String::new()),
        }
    }
    if state.arrangement.loading {
        let what = if state.arrangement.wanted.query.is_empty() { "arranging …" } else { "searching …" };
        let has_progress = state.arrangement.progress > 0.0;
        let share = if has_progress { format!(" {:.0} %", state.arrangement.progress * 100.0) } else { String::new() };
        add(&format!("{what}{share}"), if has_progress { ", esc stops it".to_owned() } else { String::new() });
    }
    if state.archive.damaged {
        add("the archive is damaged", ": readable entries are shown (R: recover)".to_owned());
    }
    notes
}

/// Returns a summary of an entry like `ls -l`, with its whole name. The owner is omitted if there
/// is little room.
fn about(entry: &Entry, room: usize) -> String {
    let mut line = nra_text::mode(entry.kind, entry.metadata.mode);
    if let Some(owner) = entry.metadata.owner.as_ref().filter(|_| room >= 50) {
        let name = |name: &[u8], id: u64| if name.is_empty() { id.to_string() } else { glyphs::printable_within(name, room) };
        line.push_str(&format!("  {} {}", name(&owner.user, owner.user_id), name(&owner.group, owner.group_id)));
    }
    format!("{line}  {}", glyphs::printable_within(entry.path.name(), room))
}

pub fn hints(state: &State, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    for hint in hints::hints(state) {
        let x = put(buffer, hint.area, 0, 0, &hint.key, state.settings.theme.accent);
        put(buffer, hint.area, x + 1, 0, hint.word, state.settings.theme.dim);
    }
}
