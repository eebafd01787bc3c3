//! Jobs: as a bar in the status line, and as a list with what they said.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::text::{self, SizeStyle};
use crate::tui::frames::{self, Frame, Log};
use crate::tui::glyphs;
use crate::tui::layout::Choices;
use crate::tui::state::State;
use crate::tui::state::jobs::{Amount, Ending, Job, LogPlace, Progress};
use crate::tui::theme::Theme;
use crate::tui::view::{dialog, put};

/// Columns of a bar.
const BAR: u16 = 12;

/// Draws how far a job is, in at most `room` columns, and returns the column behind it.
pub fn bar(job: &Job, theme: &Theme, area: Rect, row: u16, room: usize, buffer: &mut Buffer) -> u16 {
    let mut x =
        put(buffer, area, 0, row, glyphs::start(&job.title, room.saturating_sub(usize::from(BAR) + 30).max(7)), theme.text);
    x = match job.share() {
        Some(share) => meter(share, theme, area, x + 1, row, buffer),
        None => x,
    };
    put(buffer, area, x + 1, row, &figures(job), theme.dim)
}

/// Draws a share as a bar and percent.
fn meter(share: f64, theme: &Theme, area: Rect, column: u16, row: u16, buffer: &mut Buffer) -> u16 {
    // From 0 to the width of the bar.
    let done = (share.clamp(0.0, 1.0) * f64::from(BAR)).round() as usize;
    let x = put(buffer, area, column, row, &"█".repeat(done), theme.bar);
    let x = put(buffer, area, x, row, &"░".repeat(usize::from(BAR) - done), theme.dim);
    put(buffer, area, x + 1, row, &format!("{:.0} %", share * 100.0), theme.text)
}

/// Speed and time left, or what has been done.
fn figures(job: &Job) -> String {
    if job.stopping {
        return "stopping …".to_owned();
    }
    if job.paused {
        return "paused".to_owned();
    }
    if job.waiting {
        return "waiting".to_owned();
    }
    let (amount, rate) = (job.progress.amount(), job.rate as u64);
    let (done, rate) = match amount {
        Amount::Bytes(done, _) => (SizeStyle::Binary.show(done), SizeStyle::Binary.show(rate)),
        Amount::Entries(done, _) => (text::counted(done, "entry", "entries"), text::count(rate)),
    };
    let rate = if job.rate >= 1.0 { format!(" {rate}/s") } else { String::new() };
    let left = job
        .left()
        .map_or_else(|| "--:--".to_owned(), |left| text::duration(std::time::Duration::from_secs(left.as_secs().max(1))));
    format!("{done}{rate} ETA {left}")
}

/// Draws the list of jobs, the newest on top, and what the one under the cursor said, from a line on.
pub fn view(state: &State, jobs: Choices, cursor: usize, top: LogPlace, frame: &Frame, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.theme;
    let area = dialog::frame(frame, theme, state.screen, buffer);
    if state.jobs.list.is_empty() {
        put(buffer, area, 0, 0, "no job has run yet", theme.dim);
        return None;
    }
    for (index, rows) in jobs.rows() {
        if let Some(job) = frames::job(state, index) {
            told(job, theme, rows, buffer);
        }
        if index == cursor {
            buffer.set_style(Rect { height: 1, ..rows }, theme.cursor);
        }
    }
    let below = frames::log_area(jobs, area);
    if let Some(job) = frames::job(state, cursor) {
        for (row, line) in (0..below.height).zip(Log::new(job, below.width).from(top)) {
            put(buffer, below, 0, row, line, theme.warning);
        }
    }
    jobs.cursor()
}

/// Draws a job in two rows: what it is, and how far, or how it ended.
fn told(job: &Job, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (sign, style, text) = match &job.ending {
        None if job.paused => ("‖", theme.warning, "paused: p goes on".to_owned()),
        None if job.waiting => ("…", theme.dim, "waiting for its turn: x takes it away".to_owned()),
        None => ("▶", theme.accent, job.current.clone()),
        Some((Ending::Done, text)) => ("✓", theme.success, text.clone()),
        Some((Ending::Degraded, text)) => ("!", theme.warning, text.clone()),
        Some((Ending::Cancelled, text)) => ("■", theme.warning, text.clone()),
        Some((Ending::Failed, text)) => ("✗", theme.error, text.clone()),
    };
    put(buffer, area, 0, 0, sign, style);
    let width = usize::from(area.width.saturating_sub(2));
    match job.ending {
        None => drop(bar(job, theme, Rect { x: area.x + 2, width: area.width - 2, ..area }, 0, width, buffer)),
        Some(_) => {
            let elapsed = job.elapsed();
            // A remark takes no time.
            let time = if elapsed.is_zero() && job.progress == Progress::default() {
                String::new()
            } else {
                format!("  {}", text::duration(elapsed))
            };
            let title = format!("{}{time}", job.title);
            put(buffer, area, 2, 0, &glyphs::fit(&title, width), theme.text);
        }
    }
    put(buffer, area, 2, 1, &glyphs::fit(&text, width), style);
}
