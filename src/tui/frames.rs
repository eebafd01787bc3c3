//! Positions of dialogs on the screen. Drawing and mouse clicks use the same positions.

use ratatui::layout::{Margin, Position, Rect};

use crate::glyphs;
use crate::key::Key;
use crate::keymap::HELP;
use crate::layout::{Choices, centred};
use crate::preview::Scrolled;
use crate::preview::details::Line;
use crate::preview::walk::{RowPart, Walk};
use crate::state::task::POLICIES;
use crate::state::{Dialog, FindKind, Finder, Job, Prompt, State};

/// Width of a prompt, in columns.
const PROMPT: u16 = 62;
/// Separator between the keys of a dialog.
const SEPARATOR: &str = " · ";

/// The frame of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The area including the border.
    pub area: Rect,
    pub title: String,
    /// The title inside the frame, line by line, if the border has no room for it.
    pub title_lines: Vec<String>,
    /// The keys shown in the border. If there is not room for all, the first and the last.
    pub keys: String,
}

impl Frame {
    /// Returns the area inside the border.
    pub fn inside(&self) -> Rect {
        self.area.inner(Margin::new(2, 1))
    }

    /// Returns the area inside the border below the title.
    pub fn inner(&self) -> Rect {
        below(self.inside(), self.title_lines.len())
    }

    /// Returns the key shown at a position of the screen.
    pub fn key_at(&self, at: Position) -> Option<Key> {
        if at.y + 1 != self.area.bottom() {
            return None;
        }
        let mut from = usize::from(self.area.x) + 2;
        for hint in self.keys.split(SEPARATOR) {
            let to = from + glyphs::width(hint);
            if (from..to).contains(&usize::from(at.x)) {
                let name = hint.split(' ').next().unwrap_or_default();
                return if name == "↑" { "down".parse().ok() } else { name.parse().ok() };
            }
            from = to + glyphs::width(SEPARATOR);
        }
        None
    }
}

/// Returns an area without its first rows.
fn below(area: Rect, rows: usize) -> Rect {
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

fn title(dialog: &Dialog) -> String {
    match dialog {
        Dialog::Jump(_) | Dialog::Bookmark(_) => String::new(),
        Dialog::Help { place, .. } => format!("Keys: {}", place.title()),
        Dialog::Prompt(prompt) => prompt.title.clone(),
        Dialog::Menu(menu) => menu.title.clone(),
        Dialog::Finder(finder) => match finder.over {
            FindKind::Paths if finder.whole == Some(true) => "Find in the whole archive".to_owned(),
            FindKind::Paths => "Find in this directory".to_owned(),
            FindKind::Commands => "Commands".to_owned(),
            FindKind::Archives => "Open an archive".to_owned(),
        },
        // The path is the first field of the details.
        Dialog::Details { title, .. } => title.clone(),
        Dialog::Commits { .. } => "Commits".to_owned(),
        Dialog::PendingChanges { .. } => "Pending changes".to_owned(),
        Dialog::Jobs { .. } => "Jobs".to_owned(),
    }
}

/// Splits a title between the border and up to `most` lines below it. A longer title loses its
/// middle.
fn split_title(title: String, width: u16, most: u16) -> (String, Vec<String>) {
    let columns = usize::from(width.saturating_sub(4));
    if glyphs::width(&title) <= columns || most < 2 {
        return (glyphs::fit(&title, columns).into_owned(), Vec::new());
    }
    let most = usize::from(most);
    let title = glyphs::fit(&title, columns * most);
    let lines = |room| glyphs::wrapped(&glyphs::fit(&title, room), columns).map(str::to_owned).collect::<Vec<_>>();
    // Wrapping leaves line ends empty, so the length that fits is found by bisection.
    let (mut fits, mut beyond) = (columns, columns * most + 1);
    while beyond - fits > 1 {
        let room = usize::midpoint(fits, beyond);
        if lines(room).len() <= most { fits = room } else { beyond = room }
    }
    (String::new(), lines(fits))
}

/// Returns the frame of a dialog; `None` if it has none.
pub fn frame(dialog: &Dialog, state: &State) -> Option<Frame> {
    let screen = state.screen;
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let low = screen.height.saturating_sub(2);
    let lower = screen.height.saturating_sub(4).max(2);
    let (width, height, keys) = match dialog {
        Dialog::Jump(_) | Dialog::Bookmark(_) => return None,
        Dialog::Help { place, .. } => {
            let lines = state.settings.keymap.help(*place, HELP.min(screen.width.saturating_sub(4))).len();
            (HELP, rows(lines).min(low), "/ search · esc close")
        }
        Dialog::Prompt(prompt) => {
            let keys = match (prompt.policy, prompt.purpose.is_path()) {
                (Some(_), _) => "enter · ↑ ↓ choose · tab complete · esc cancel",
                (None, true) => "enter · tab complete · esc cancel",
                (None, false) => "enter · esc cancel",
            };
            let width = PROMPT.min(screen.width.saturating_sub(4));
            let [note, error, policy] =
                [&prompt.note, error_text(&prompt.error), &policy_text(prompt)].map(|text| wrapped(text, width).len());
            let height = note + 1 + error.max(1) + policy;
            (PROMPT, rows(height), keys)
        }
        Dialog::Menu(menu) => {
            let (width, height) = menu.size(screen);
            (width, height, "esc cancel")
        }
        Dialog::Finder(finder) => {
            let width = if finder.over == FindKind::Paths { 96 } else { 76 };
            let keys = match (finder.over, finder.whole) {
                (FindKind::Commands, _) => "enter run · esc cancel",
                (_, Some(true)) => "enter go · tab this directory · esc cancel",
                (_, Some(false)) => "enter go · tab whole archive · esc cancel",
                (_, None) => "enter go · esc cancel",
            };
            (width.min(screen.width.saturating_sub(6)), screen.height.saturating_sub(4).clamp(3, 24), keys)
        }
        Dialog::Details { details, .. } => {
            let width = |line: &Line| match line {
                Line::Field(label, value) => glyphs::width(label).max(12) + 2 + glyphs::width(value),
                Line::Child(name, ..) => glyphs::width(name) + 12,
                Line::Remark(text) | Line::Problem(text) => glyphs::width(text),
                Line::Space => 0,
            };
            let width = details.lines.iter().map(width).max().unwrap_or(0).clamp(30, 90);
            (rows(width), rows(details.lines.len().max(1)).min(low), "esc close")
        }
        Dialog::Commits { list, .. } => {
            let width = screen.width.saturating_sub(8).clamp(30, 96);
            (width, rows(list.len()).min(lower).max(2), "enter go · esc close")
        }
        Dialog::PendingChanges { .. } => {
            let pending = state.changes.pending.list();
            let width = pending.iter().map(|change| glyphs::width(&change.describe())).max().unwrap_or(0).clamp(44, 96);
            (rows(width), rows(pending.len()).min(lower).max(2), "u undo · W write all · esc close")
        }
        Dialog::Jobs { job: chosen, .. } => {
            let width = screen.width.saturating_sub(8).clamp(30, 100);
            let most = screen.height.saturating_sub(4).clamp(3, 30);
            let log = job(state, state.jobs.place(*chosen));
            let log = log.map_or(0, |job| Log::new(job, width).from(RowPart::default()).take(most.into()).count());
            let height = state.jobs.list.len() * 2 + if log == 0 { 0 } else { log + 1 };
            (width, rows(height).clamp(2, most), "p pause · x stop · esc close")
        }
    };
    let width = (width + 4).min(screen.width);
    let (title, title_lines) = split_title(title(dialog), width, screen.height / 3);
    let area = centred(width, (height + 2).saturating_add(rows(title_lines.len())), screen);
    let mut keys: Vec<&str> = keys.split(SEPARATOR).collect();
    while keys.len() > 2 && glyphs::width(&keys.join(SEPARATOR)) + 4 > usize::from(area.width) {
        keys.remove(keys.len() - 2);
    }
    Some(Frame { area, title, title_lines, keys: keys.join(SEPARATOR) })
}

pub fn wrapped(text: &str, width: u16) -> Vec<&str> {
    glyphs::wrapped(text, usize::from(width)).collect()
}

/// Returns the chosen policy for existing files; empty if there is no choice.
pub fn policy_text(prompt: &Prompt) -> String {
    let policy = prompt.policy.and_then(|policy| POLICIES.get(policy));
    policy.map_or_else(String::new, |(text, _)| format!("if a file exists: {text}"))
}

/// Returns a job by its index in the list of jobs, newest first.
pub fn job(state: &State, index: usize) -> Option<&Job> {
    state.jobs.list.iter().rev().nth(index)
}

/// The log of a job: its title and result if they were cut in the list, then its messages.
///
/// A log may have a thousand long messages; only the visible ones are wrapped.
pub struct Log<'a> {
    messages: Vec<&'a str>,
    width: u16,
}

impl Scrolled for Log<'_> {
    fn rows(&self) -> usize {
        self.messages.len()
    }

    fn height(&self, row: usize, columns: u16) -> usize {
        self.messages.get(row).map_or(1, |message| wrapped(message, columns).len())
    }
}

impl<'a> Log<'a> {
    /// Returns the log of a job, to be wrapped to a width.
    pub fn new(job: &'a Job, width: u16) -> Self {
        let is_cut = |text: &&str| glyphs::width(text) + 2 > usize::from(width);
        let title = Some(job.title.as_str()).filter(is_cut);
        let ending = job.ending.as_ref().map(|(_, text)| text.as_str()).filter(is_cut);
        Self { messages: title.into_iter().chain(ending).chain(job.log.iter().map(String::as_str)).collect(), width }
    }

    /// Returns the screen rows from a position on.
    pub fn from(&self, top: RowPart) -> impl Iterator<Item = &'a str> {
        let rows = self.messages.iter().skip(top.row).flat_map(|message| glyphs::wrapped(message, usize::from(self.width)));
        rows.skip(top.part)
    }

    /// Moves a position by screen rows, as far as the end of the log remains at the end of the
    /// screen.
    fn scroll(&self, top: RowPart, rows: isize, height: usize) -> RowPart {
        let walk = Walk { rows: self, wrap: Some(self.width) };
        let last = walk.end(height);
        let to = match rows {
            isize::MIN => RowPart::default(),
            isize::MAX => last,
            _ if rows < 0 => walk.up(top, rows.unsigned_abs()),
            _ => walk.down(top, rows.unsigned_abs()).0,
        };
        to.min(last)
    }
}

/// Returns how many jobs fit into `rows`, at two rows each. If there is a log below, jobs get at
/// most half of the rows.
pub fn jobs_shown(rows: u16, has_log: bool) -> usize {
    usize::from(if has_log { (rows / 2).max(2) } else { rows } / 2).max(1)
}

/// Returns the list of choices in the inner area of a dialog; `None` if it has none.
pub fn choices(dialog: &Dialog, state: &State, inner: Rect) -> Option<Choices> {
    match dialog {
        Dialog::Menu(menu) => {
            let lines = menu.text(inner.width, inner.height).len();
            let area = below(inner, lines + usize::from(lines > 0));
            Some(Choices::new(area, menu.rows_per_item(inner.width), menu.cursor, menu.items.len()))
        }
        Dialog::Finder(finder) => {
            let list = below(inner, 1 + wrapped(error_text(&finder.results.error), inner.width).len());
            let each = if is_wrapped(finder, list.width) { 2 } else { 1 };
            Some(Choices::new(list, each, finder.cursor, finder.results.hits.len()))
        }
        Dialog::Commits { list, cursor } => Some(Choices::new(inner, 1, *cursor, list.len())),
        Dialog::PendingChanges { cursor } => Some(Choices::new(inner, 1, *cursor, state.changes.pending.list().len())),
        Dialog::Jobs { job: chosen, .. } => {
            let cursor = state.jobs.place(*chosen);
            let has_log = job(state, cursor).is_some_and(|job| !Log::new(job, inner.width).messages.is_empty());
            let rows = 2 * u16::try_from(jobs_shown(inner.height, has_log)).unwrap_or(u16::MAX);
            let area = Rect { height: rows.min(inner.height), ..inner };
            Some(Choices::new(area, 2, cursor, state.jobs.list.len()))
        }
        Dialog::Help { .. } | Dialog::Prompt(_) | Dialog::Jump(_) | Dialog::Bookmark(_) | Dialog::Details { .. } => None,
    }
}

/// Returns the area of the log: below the jobs, after an empty row.
pub fn log_area(jobs: Choices, inner: Rect) -> Rect {
    below(inner, jobs.rows().count() * 2 + 1)
}

/// Returns the scroll position of the log after moving by some rows. The log cannot be scrolled
/// past its end.
pub fn log_moved(dialog: &Dialog, state: &State, inner: Rect, rows: isize) -> RowPart {
    let (Dialog::Jobs { job: chosen, top }, Some(jobs)) = (dialog, choices(dialog, state, inner)) else {
        return RowPart::default();
    };
    let area = log_area(jobs, inner);
    let job = job(state, state.jobs.place(*chosen));
    job.map_or_else(RowPart::default, |job| Log::new(job, area.width).scroll(*top, rows, area.height.into()))
}

/// Returns the text of an error; empty if there is none.
pub fn error_text(error: &Option<String>) -> &str {
    error.as_deref().unwrap_or_default()
}

/// Returns whether commands need two rows each because some are too long for one.
fn is_wrapped(finder: &Finder, width: u16) -> bool {
    let room = usize::from(width).saturating_sub(2);
    finder.over == FindKind::Commands && finder.results.hits.iter().any(|hit| glyphs::width(&hit.text) > room)
}
