//! Draws jobs: as a bar in the status line, and as a list with their logs.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::frames::{self, Log};
use crate::glyphs;
use crate::layout::Choices;
use crate::preview::walk::RowPart;
use crate::state::{Amount, Ending, Job, Progress, State};
use crate::theme::Theme;
use crate::view::put;
use nra_text::{self, SizeStyle};

/// Width of a bar, in columns.
const BAR: u16 = 12;
/// Minimum width of a job title, in columns: enough to recognise the operation.
const NAME: usize = 7;

/// The form in which progress is shown.
#[derive(Clone, Copy)]
enum Meter {
    /// As a bar and a percentage.
    Bar,
    /// As a percentage.
    Percent,
    /// Not shown.
    Nothing,
}

/// Draws the progress of a job in at most `room` columns and returns the column after it.
///
/// If there is not enough room, the title is cut first, then the amount, the bar and the speed are
/// dropped. The remaining time is always shown.
pub fn bar(job: &Job, theme: &Theme, area: Rect, row: u16, room: usize, buffer: &mut Buffer) -> u16 {
    let figures = figures(job);
    let percent = job.share().map(|share| format!("{:.0} %", share * 100.0));
    let meter_columns = |meter: Meter| match (&percent, meter) {
        (None, _) | (_, Meter::Nothing) => 0,
        (Some(percent), Meter::Percent) => glyphs::width(percent) + 1,
        (Some(percent), Meter::Bar) => usize::from(BAR) + glyphs::width(percent) + 2,
    };
    let way = |(meter, index): (Meter, usize)| (meter, figures[index.min(figures.len() - 1)].as_str());
    let used = |(meter, figures): (Meter, &str)| meter_columns(meter) + glyphs::width(figures) + 1;
    let name = glyphs::width(&job.title).min(NAME);
    let ways = [(Meter::Bar, 0), (Meter::Bar, 1), (Meter::Percent, 1), (Meter::Percent, 2)].map(way);
    let fits = ways.into_iter().find(|way| used(*way) + name <= room);
    let (shown, figures) = fits.unwrap_or(way((Meter::Nothing, 2)));
    let title = glyphs::fit_start(&job.title, room.saturating_sub(used((shown, figures))));
    let mut x = put(buffer, area, 0, row, &title, theme.text);
    if let (Some(share), Meter::Bar) = (job.share(), shown) {
        x = meter(share, theme, area, x + 1, row, buffer);
    }
    if let (Some(percent), Meter::Bar | Meter::Percent) = (&percent, shown) {
        x = put(buffer, area, x + 1, row, percent, theme.text);
    }
    put(buffer, area, x + 1, row, figures, theme.dim)
}

/// Draws a progress bar.
fn meter(share: f64, theme: &Theme, area: Rect, column: u16, row: u16, buffer: &mut Buffer) -> u16 {
    // Between 0 and the width of the bar.
    let done = (share.clamp(0.0, 1.0) * f64::from(BAR)).round() as usize;
    let x = put(buffer, area, column, row, &"█".repeat(done), theme.bar);
    put(buffer, area, x, row, &"░".repeat(usize::from(BAR) - done), theme.dim)
}

/// Returns the amount, speed and remaining time in increasingly short forms, or why the job does
/// not run.
fn figures(job: &Job) -> Vec<String> {
    let idle = match job {
        Job { stopping: true, .. } => Some("stopping …"),
        Job { paused: true, .. } => Some("paused"),
        Job { waiting: true, .. } => Some("queued"),
        _ => None,
    };
    if let Some(idle) = idle {
        return vec![idle.to_owned()];
    }
    let (amount, rate) = (job.progress.amount(), job.rate as u64);
    let (done, rate) = match amount {
        Amount::Bytes(done, _) => (SizeStyle::Binary.show(done), SizeStyle::Binary.show(rate)),
        Amount::Entries(done, _) => (nra_text::counted(done, "entry", "entries"), nra_text::count(rate)),
    };
    let rate = if job.rate >= 1.0 { format!("{rate}/s ") } else { String::new() };
    let left = job
        .remaining()
        .map_or_else(|| "--:--".to_owned(), |left| nra_text::duration(std::time::Duration::from_secs(left.as_secs().max(1))));
    vec![format!("{done} {rate}ETA {left}"), format!("{rate}ETA {left}"), format!("ETA {left}")]
}

/// Draws the list of jobs, newest on top, and the log of the job under the cursor from a position
/// on.
pub fn view(state: &State, jobs: Choices, cursor: usize, top: RowPart, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.settings.theme;
    if state.jobs.list.is_empty() {
        put(buffer, area, 0, 0, "No jobs yet", theme.dim);
        return None;
    }
    for (index, rows) in jobs.rows() {
        if let Some(job) = frames::job(state, index) {
            draw_job(job, theme, rows, buffer);
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

/// Draws a job in two rows: its title, and its progress or result.
fn draw_job(job: &Job, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (sign, style, text) = match &job.ending {
        None if job.paused => ("‖", theme.warning, "paused: p resumes it".to_owned()),
        None if job.waiting => ("…", theme.dim, "queued: x removes it".to_owned()),
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
            // A message without work has no duration.
            let time = if elapsed.is_zero() && job.progress == Progress::default() {
                String::new()
            } else {
                format!("  {}", nra_text::duration(elapsed))
            };
            let title = format!("{}{time}", job.title);
            put(buffer, area, 2, 0, &glyphs::fit(&title, width), theme.text);
        }
    }
    put(buffer, area, 2, 1, &glyphs::fit(&text, width), style);
}
