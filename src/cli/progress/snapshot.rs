//! Progress at one moment, as text and as JSON.

use std::time::Duration;

use serde::Serialize;

use nra_text::{self, SizeStyle};

/// Progress at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Snapshot {
    #[serde(rename = "type")]
    pub(super) record: &'static str,
    pub(super) verb: &'static str,
    pub(super) entries: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_entries: Option<u64>,
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_bytes: Option<u64>,
    /// Bytes read of an input whose content size is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_input_bytes: Option<u64>,
    pub(super) seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eta_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    #[serde(skip)]
    pub(super) is_prelude: bool,
}

impl Snapshot {
    /// Returns progress and total: of content if known, else of input bytes, else of entries.
    pub(super) fn parts(&self) -> Option<(u64, u64)> {
        let content = self.total_bytes.map(|total| (self.bytes, total));
        content.or(self.input()).or(self.total_entries.map(|total| (self.entries, total)))
    }

    /// Returns input bytes read and total, if the total content is unknown.
    fn input(&self) -> Option<(u64, u64)> {
        self.total_input_bytes.filter(|_| self.total_bytes.is_none()).map(|total| (self.input_bytes.unwrap_or(0), total))
    }

    /// Returns the remaining seconds at the mean rate; `None` until it is stable.
    pub(super) fn eta(&self, elapsed: Duration) -> Option<u64> {
        let (part, whole) = self.parts()?;
        if elapsed < Duration::from_secs(2) || part == 0 || part >= whole {
            return None;
        }
        let left = elapsed.as_secs_f64() * (whole - part) as f64 / part as f64;
        // From seconds of work to the end of it: far below 2^53.
        Some(left.round().min(u32::MAX.into()) as u64)
    }

    /// Returns the figures, the most important first.
    pub(super) fn figures(&self, sizes: SizeStyle) -> Vec<String> {
        let mut figures = Vec::new();
        let parts = self.parts();
        if let Some((part, whole)) = parts {
            // Show 100 % only at the end: the index may still have to be written.
            figures.push(format!("{} %", (part.min(whole).saturating_mul(100) / whole.max(1)).min(99)));
        }
        if let Some((taken, whole)) = self.input() {
            figures.push(format!("{}/{} read", sizes.show(taken), sizes.show(whole)));
        }
        // A prelude processes no content.
        if self.is_prelude {
            figures.extend(self.eta_seconds.map(eta));
            return figures;
        }
        figures.push(match self.total_bytes {
            Some(total) => format!("{}/{}", sizes.show(self.bytes), sizes.show(total)),
            None => sizes.show(self.bytes),
        });
        if let Some(rate) = self.bytes.checked_div(self.seconds) {
            figures.push(format!("{}/s", sizes.show(rate)));
        }
        figures.push(nra_text::counted(self.entries, "entry", "entries"));
        match parts {
            Some((part, whole)) if part >= whole => figures.push("finishing".to_owned()),
            Some(_) => {
                figures.push(self.eta_seconds.map_or_else(|| "ETA --:--".to_owned(), eta));
            }
            None => {}
        }
        figures
    }

    pub(super) fn line(&self, sizes: SizeStyle) -> String {
        let figures = self.figures(sizes);
        if figures.is_empty() { self.verb.to_owned() } else { format!("{}: {}", self.verb, figures.join("  ")) }
    }
}

fn eta(left: u64) -> String {
    format!("ETA {}:{:02}", left / 60, left % 60)
}

/// Joins the first figures, as many as fit into `width` columns.
pub(super) fn fitting(figures: &[String], width: usize) -> String {
    let mut line = String::new();
    for figure in figures {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.chars().count() + gap.len() + figure.chars().count() > width {
            break;
        }
        line.push_str(gap);
        line.push_str(figure);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            record: "progress",
            verb: "packing",
            entries: 60_000,
            total_entries: None,
            bytes: 10 << 20,
            total_bytes: Some(40 << 20),
            input_bytes: None,
            total_input_bytes: None,
            seconds: 5,
            eta_seconds: Some(15),
            path: None,
            is_prelude: false,
        }
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(snapshot().line(SizeStyle::Binary), "packing: 25 %  10.0 MiB/40.0 MiB  2.0 MiB/s  60,000 entries  ETA 0:15");
        let unknown = Snapshot { total_bytes: None, eta_seconds: None, ..snapshot() };
        assert_eq!(unknown.line(SizeStyle::Binary), "packing: 10.0 MiB  2.0 MiB/s  60,000 entries");
        let written = Snapshot { bytes: 40 << 20, ..snapshot() };
        assert_eq!(written.line(SizeStyle::Binary), "packing: 99 %  40.0 MiB/40.0 MiB  8.0 MiB/s  60,000 entries  finishing");
    }

    #[test]
    fn eta_is_never_negative() {
        let more_than_expected = Snapshot { bytes: 50 << 20, ..snapshot() };
        assert_eq!(more_than_expected.eta(Duration::from_secs(5)), None);
        assert_eq!(snapshot().eta(Duration::from_secs(5)), Some(15));
        assert_eq!(snapshot().eta(Duration::from_secs(1)), None);
    }

    #[test]
    fn input_is_measured_if_content_total_is_unknown() {
        let (input_bytes, total_input_bytes) = (Some(5 << 20), Some(20 << 20));
        let unknown = Snapshot { total_entries: None, total_bytes: None, input_bytes, total_input_bytes, ..snapshot() };
        let line = unknown.line(SizeStyle::Binary);
        assert!(line.starts_with("packing: 25 %  5.0 MiB/20.0 MiB read  10.0 MiB  2.0 MiB/s  60,000 entries"), "{line}");
        let prelude = Snapshot { is_prelude: true, ..unknown };
        assert_eq!(prelude.line(SizeStyle::Binary), "packing: 25 %  5.0 MiB/20.0 MiB read  ETA 0:15");
        let known = Snapshot { input_bytes, total_input_bytes, ..snapshot() };
        assert!(!known.line(SizeStyle::Binary).contains("read"));
    }

    #[test]
    fn narrow_screen_drops_last_figures() {
        let figures = snapshot().figures(SizeStyle::Binary);
        assert_eq!(fitting(&figures, 59), "25 %  10.0 MiB/40.0 MiB  2.0 MiB/s  60,000 entries");
        assert_eq!(fitting(&figures, 25), "25 %  10.0 MiB/40.0 MiB");
        assert_eq!(fitting(&figures, 3), "");
    }
}
