//! Positions of dialogs on the screen, for drawing and for clicks.

use ratatui::layout::{Position, Rect};

use crate::glyphs;
use crate::key::Key;
use crate::keymap::HELP;
use crate::layout::{Choices, centred};
use crate::preview::sheet::Line;
use crate::state::dialog::Prompt;
use crate::state::finder::{Finder, Over};
use crate::state::jobs::{Job, LogPlace};
use crate::state::{Dialog, State};
use crate::update::POLICIES;

/// Columns of a prompt.
const PROMPT: u16 = 62;
/// What stands between the keys of a dialog.
const BETWEEN: &str = " · ";

/// A dialog's frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// With its border.
    pub area: Rect,
    /// What it is about, in its border.
    pub title: String,
    /// The same within, line by line, where the border has no room for it.
    pub told: Vec<String>,
    /// The keys that it tells in its border, as far as there is room: where there is not, the first
    /// and the last.
    pub keys: String,
}

impl Frame {
    /// Returns the area inside of the border.
    pub fn inside(&self) -> Rect {
        let Rect { x, y, width, height } = self.area;
        Rect { x: x + width.min(2), y: y + height.min(1), width: width.saturating_sub(4), height: height.saturating_sub(2) }
    }

    /// Returns what of that is below the title.
    pub fn inner(&self) -> Rect {
        below(self.inside(), self.told.len())
    }

    /// Returns the key that is told at a place of the screen.
    pub fn key_at(&self, at: Position) -> Option<Key> {
        if at.y + 1 != self.area.bottom() {
            return None;
        }
        let mut from = usize::from(self.area.x) + 2;
        for told in self.keys.split(BETWEEN) {
            let to = from + glyphs::width(told);
            if (from..to).contains(&usize::from(at.x)) {
                let name = told.split(' ').next().unwrap_or_default();
                return if name == "↑" { "down".parse().ok() } else { name.parse().ok() };
            }
            from = to + glyphs::width(BETWEEN);
        }
        None
    }
}

/// Returns an area without so many rows at its top.
fn below(area: Rect, rows: usize) -> Rect {
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// Returns what a dialog is about.
fn title(dialog: &Dialog) -> String {
    match dialog {
        Dialog::Jump(_) | Dialog::Bookmark(_) => String::new(),
        Dialog::Help { place, .. } => format!("Keys: {}", place.title()),
        Dialog::Prompt(prompt) => prompt.title.clone(),
        Dialog::Menu(menu) => menu.title.clone(),
        Dialog::Finder(finder) => match finder.over {
            Over::Paths if finder.whole == Some(true) => "Find in the whole archive".to_owned(),
            Over::Paths => "Find below here".to_owned(),
            Over::Commands => "Commands".to_owned(),
            Over::Archives => "Open an archive".to_owned(),
        },
        // The path is the first of the facts.
        Dialog::Sheet { title, .. } => title.clone(),
        Dialog::Commits { .. } => "Commits".to_owned(),
        Dialog::PendingChanges { .. } => "Pending changes".to_owned(),
        Dialog::Jobs { .. } => "Jobs".to_owned(),
    }
}

/// Divides a title between the border and the lines below it, of which there are no more than so
/// many; what is longer loses its middle.
fn divided(title: String, width: u16, most: u16) -> (String, Vec<String>) {
    let columns = usize::from(width.saturating_sub(4));
    if glyphs::width(&title) <= columns || most < 2 {
        return (glyphs::fit(&title, columns).into_owned(), Vec::new());
    }
    let most = usize::from(most);
    let title = glyphs::fit(&title, columns * most);
    let lines = |room| glyphs::wrapped(&glyphs::fit(&title, room), columns).map(str::to_owned).collect::<Vec<_>>();
    // Words leave the ends of lines empty: how much goes in is found by halves.
    let (mut fits, mut beyond) = (columns, columns * most + 1);
    while beyond - fits > 1 {
        let room = usize::midpoint(fits, beyond);
        if lines(room).len() <= most { fits = room } else { beyond = room }
    }
    (String::new(), lines(fits))
}

/// Returns the frame of a dialog; `None` for one that has none.
pub fn frame(dialog: &Dialog, state: &State) -> Option<Frame> {
    let screen = state.screen;
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let low = screen.height.saturating_sub(2);
    let lower = screen.height.saturating_sub(4).max(2);
    let (width, height, keys) = match dialog {
        Dialog::Jump(_) | Dialog::Bookmark(_) => return None,
        Dialog::Help { place, .. } => {
            let lines = state.settings.keymap.help(*place, HELP.min(screen.width.saturating_sub(4))).len();
            (HELP, rows(lines).min(low), "/ searches · esc closes")
        }
        Dialog::Prompt(prompt) => {
            let keys = match (prompt.policy, prompt.purpose.is_path()) {
                (Some(_), _) => "enter · ↑ ↓ choose · tab completes · esc cancels",
                (None, true) => "enter · tab completes · esc cancels",
                (None, false) => "enter · esc cancels",
            };
            let width = PROMPT.min(screen.width.saturating_sub(4));
            let policy = prompt.policy.map_or(0, |policy| policy_told(policy, width).len());
            let height = note(prompt, width).len() + 1 + faults(prompt, width).len().max(1) + policy;
            (PROMPT, rows(height), keys)
        }
        Dialog::Menu(menu) => {
            let (width, height) = menu.size(screen);
            (width, height, "esc cancels")
        }
        Dialog::Finder(finder) => {
            let width = if finder.over == Over::Paths { 96 } else { 76 };
            let keys = match (finder.over, finder.whole) {
                (Over::Commands, _) => "enter does it · esc cancels",
                (_, Some(true)) => "enter goes there · tab below here · esc cancels",
                (_, Some(false)) => "enter goes there · tab whole archive · esc cancels",
                (_, None) => "enter goes there · esc cancels",
            };
            (width.min(screen.width.saturating_sub(6)), screen.height.saturating_sub(4).clamp(3, 24), keys)
        }
        Dialog::Sheet { sheet, .. } => {
            let width = |line: &Line| match line {
                Line::Fact(label, value) => glyphs::width(label).max(12) + 2 + glyphs::width(value),
                Line::Child(name, ..) => glyphs::width(name) + 12,
                Line::Remark(text) | Line::Problem(text) => glyphs::width(text),
                Line::Space => 0,
            };
            let width = sheet.lines.iter().map(width).max().unwrap_or(0).clamp(30, 90);
            (rows(width), rows(sheet.lines.len().max(1)).min(low), "esc closes")
        }
        Dialog::Commits { list, .. } => {
            let width = screen.width.saturating_sub(8).clamp(30, 96);
            (width, rows(list.len()).min(lower).max(2), "enter goes there · esc closes")
        }
        Dialog::PendingChanges { .. } => {
            let plans = state.changes.pending.list();
            let width = plans.iter().map(|plan| glyphs::width(&plan.describe())).max().unwrap_or(0).clamp(44, 96);
            (rows(width), rows(plans.len()).min(lower).max(2), "u undoes it · W writes all · esc closes")
        }
        Dialog::Jobs { job: chosen, .. } => {
            let width = screen.width.saturating_sub(8).clamp(30, 100);
            let most = screen.height.saturating_sub(4).clamp(3, 30);
            let log = job(state, state.jobs.place(*chosen));
            let log = log.map_or(0, |job| Log::new(job, width).from(LogPlace::default()).take(most.into()).count());
            let height = state.jobs.list.len() * 2 + if log == 0 { 0 } else { log + 1 };
            (width, rows(height).clamp(2, most), "p pauses · x stops · esc closes")
        }
    };
    let width = (width + 4).min(screen.width);
    let (title, told) = divided(title(dialog), width, screen.height / 3);
    let area = centred(width, (height + 2).saturating_add(rows(told.len())), screen);
    let mut keys: Vec<&str> = keys.split(BETWEEN).collect();
    while keys.len() > 2 && glyphs::width(&keys.join(BETWEEN)) + 4 > usize::from(area.width) {
        keys.remove(keys.len() - 2);
    }
    Some(Frame { area, title, told, keys: keys.join(BETWEEN) })
}

/// Returns what a prompt says about itself, in lines of a width.
pub fn note(prompt: &Prompt, width: u16) -> Vec<&str> {
    glyphs::wrapped(&prompt.note, usize::from(width)).collect()
}

/// Returns what was wrong with what was typed, in lines of a width.
pub fn faults(prompt: &Prompt, width: u16) -> Vec<&str> {
    prompt.error.as_deref().map_or_else(Vec::new, |error| glyphs::wrapped(error, usize::from(width)).collect())
}

/// Returns what becomes of existing files, in lines of a width.
pub fn policy_told(policy: usize, width: u16) -> Vec<String> {
    let told = format!("if a file exists: {}", POLICIES.get(policy).map_or("", |(told, _)| told));
    glyphs::wrapped(&told, usize::from(width)).map(str::to_owned).collect()
}

/// Returns a job by its place in the list of jobs, the newest first.
pub fn job(state: &State, index: usize) -> Option<&Job> {
    state.jobs.list.iter().rev().nth(index)
}

/// What a job said, in rows of a width: what it is and how it ended where its own rows have no room
/// for that, and what went wrong on the way. There may be a thousand long sentences: no others are
/// cut into rows than those that are looked at.
pub struct Log<'a> {
    sentences: Vec<&'a str>,
    width: usize,
}

impl<'a> Log<'a> {
    /// Returns that of a job.
    pub fn new(job: &'a Job, width: u16) -> Self {
        let width = usize::from(width);
        let is_cut = |text: &&str| glyphs::width(text) + 2 > width;
        let title = Some(job.title.as_str()).filter(is_cut);
        let ending = job.ending.as_ref().map(|(_, text)| text.as_str()).filter(is_cut);
        Self { sentences: title.into_iter().chain(ending).chain(job.log.iter().map(String::as_str)).collect(), width }
    }

    /// Returns the rows from a place on.
    pub fn from(&self, place: LogPlace) -> impl Iterator<Item = &'a str> {
        let rows = self.sentences.iter().skip(place.sentence).flat_map(|sentence| glyphs::wrapped(sentence, self.width));
        rows.skip(place.row)
    }

    /// Returns the place so many rows down, or up, but none from which on there are fewer rows than
    /// `height`, unless it is the first.
    fn moved(&self, place: LogPlace, rows: isize, height: usize) -> LogPlace {
        let last = self.above(LogPlace { sentence: self.sentences.len(), row: 0 }, height);
        let to = match rows {
            isize::MIN => LogPlace::default(),
            isize::MAX => last,
            rows if rows < 0 => self.above(place, rows.unsigned_abs()),
            rows => self.below(place, rows.unsigned_abs()),
        };
        to.min(last)
    }

    fn above(&self, LogPlace { mut sentence, mut row }: LogPlace, mut rows: usize) -> LogPlace {
        while row < rows && sentence > 0 {
            rows -= row;
            sentence -= 1;
            row = self.rows(sentence);
        }
        LogPlace { sentence, row: row.saturating_sub(rows) }
    }

    fn below(&self, LogPlace { mut sentence, row }: LogPlace, rows: usize) -> LogPlace {
        let mut row = row + rows;
        while sentence < self.sentences.len() && row >= self.rows(sentence) {
            row -= self.rows(sentence);
            sentence += 1;
        }
        LogPlace { sentence, row }
    }

    fn rows(&self, sentence: usize) -> usize {
        glyphs::wrapped(self.sentences[sentence], self.width).count()
    }
}

/// Returns how many jobs are shown in so many rows, two rows each: at most half of them when there
/// is a log below.
pub fn jobs_shown(rows: u16, has_log: bool) -> usize {
    usize::from(if has_log { (rows / 2).max(2) } else { rows } / 2).max(1)
}

/// Returns the list of a dialog; `None` for one that has none.
pub fn choices(dialog: &Dialog, state: &State, frame: &Frame) -> Option<Choices> {
    let inner = frame.inner();
    match dialog {
        Dialog::Menu(menu) => {
            let told = menu.told(inner.width, inner.height).len();
            Some(Choices::new(below(inner, told + usize::from(told > 0)), menu.each(inner.width), menu.cursor, menu.items.len()))
        }
        Dialog::Finder(finder) => {
            let list = below(inner, 1 + finder_fault(finder, inner.width).len());
            let each = if is_wrapped(finder, list.width) { 2 } else { 1 };
            Some(Choices::new(list, each, finder.cursor, finder.hits.len()))
        }
        Dialog::Commits { list, cursor } => Some(Choices::new(inner, 1, *cursor, list.len())),
        Dialog::PendingChanges { cursor } => Some(Choices::new(inner, 1, *cursor, state.changes.pending.list().len())),
        Dialog::Jobs { job: chosen, .. } => {
            let cursor = state.jobs.place(*chosen);
            let has_log = job(state, cursor).is_some_and(|job| !Log::new(job, inner.width).sentences.is_empty());
            let rows = 2 * u16::try_from(jobs_shown(inner.height, has_log)).unwrap_or(u16::MAX);
            let area = Rect { height: rows.min(inner.height), ..inner };
            Some(Choices::new(area, 2, cursor, state.jobs.list.len()))
        }
        Dialog::Help { .. } | Dialog::Prompt(_) | Dialog::Jump(_) | Dialog::Bookmark(_) | Dialog::Sheet { .. } => None,
    }
}

/// Returns where stands what a job said: below the jobs, with an empty row between.
pub fn log_area(jobs: Choices, inner: Rect) -> Rect {
    below(inner, jobs.rows().count() * 2 + 1)
}

/// Returns from where what the job under the cursor said is shown when it goes so many rows down,
/// or up: there are no empty rows below its end.
pub fn log_moved(dialog: &Dialog, state: &State, frame: &Frame, rows: isize) -> LogPlace {
    let (Dialog::Jobs { job: chosen, top }, Some(jobs)) = (dialog, choices(dialog, state, frame)) else {
        return LogPlace::default();
    };
    let area = log_area(jobs, frame.inner());
    let job = job(state, state.jobs.place(*chosen));
    job.map_or_else(LogPlace::default, |job| Log::new(job, area.width).moved(*top, rows, area.height.into()))
}

/// Returns why a search ended, in lines of a width.
pub fn finder_fault(finder: &Finder, width: u16) -> Vec<&str> {
    finder.error.as_deref().map_or_else(Vec::new, |error| glyphs::wrapped(error, usize::from(width)).collect())
}

/// Says whether commands take two rows each, because some are longer than one.
fn is_wrapped(finder: &Finder, width: u16) -> bool {
    let room = usize::from(width).saturating_sub(2);
    finder.over == Over::Commands && finder.hits.iter().any(|hit| glyphs::width(&hit.text) > room)
}
