//! How far work is at one moment, in figures for people and as JSON.

use std::time::Duration;

use serde::Serialize;

use nra_text::{self, SizeStyle};

/// What has been done at one moment.
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
    /// Of an input that does not tell how much content it has.
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
    /// What is measured: content where its sum is known, else what was taken of the input, else entries.
    pub(super) fn parts(&self) -> Option<(u64, u64)> {
        let content = self.total_bytes.map(|total| (self.bytes, total));
        content.or(self.input()).or(self.total_entries.map(|total| (self.entries, total)))
    }

    /// What was taken of the input, where the sum of its content is not known.
    fn input(&self) -> Option<(u64, u64)> {
        self.total_input_bytes.filter(|_| self.total_bytes.is_none()).map(|total| (self.input_bytes.unwrap_or(0), total))
    }

    /// Seconds left by the mean rate; `None` until it has settled.
    pub(super) fn eta(&self, elapsed: Duration) -> Option<u64> {
        let (part, whole) = self.parts()?;
        if elapsed < Duration::from_secs(2) || part == 0 || part >= whole {
            return None;
        }
        let left = elapsed.as_secs_f64() * (whole - part) as f64 / part as f64;
        // From seconds of work to the end of it: far below 2^53.
        Some(left.round().min(u32::MAX.into()) as u64)
    }

    /// The figures, the most telling first.
    pub(super) fn figures(&self, sizes: SizeStyle) -> Vec<String> {
        let mut figures = Vec::new();
        let parts = self.parts();
        if let Some((part, whole)) = parts {
            // All is done when the work ends: until then an index may be to write.
            figures.push(format!("{} %", (part.min(whole).saturating_mul(100) / whole.max(1)).min(99)));
        }
        if let Some((taken, whole)) = self.input() {
            figures.push(format!("{}/{} read", sizes.show(taken), sizes.show(whole)));
        }
        // Of what goes before the work there is no content yet.
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

/// Joins as many figures from the first on as find room in `width` columns.
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
    fn figures_are_words_for_people() {
        assert_eq!(snapshot().line(SizeStyle::Binary), "packing: 25 %  10.0 MiB/40.0 MiB  2.0 MiB/s  60,000 entries  ETA 0:15");
        let unknown = Snapshot { total_bytes: None, eta_seconds: None, ..snapshot() };
        assert_eq!(unknown.line(SizeStyle::Binary), "packing: 10.0 MiB  2.0 MiB/s  60,000 entries");
        let written = Snapshot { bytes: 40 << 20, ..snapshot() };
        assert_eq!(written.line(SizeStyle::Binary), "packing: 99 %  40.0 MiB/40.0 MiB  8.0 MiB/s  60,000 entries  finishing");
    }

    #[test]
    fn the_estimate_is_never_negative() {
        let more_than_expected = Snapshot { bytes: 50 << 20, ..snapshot() };
        assert_eq!(more_than_expected.eta(Duration::from_secs(5)), None);
        assert_eq!(snapshot().eta(Duration::from_secs(5)), Some(15));
        assert_eq!(snapshot().eta(Duration::from_secs(1)), None);
    }

    #[test]
    fn without_a_sum_of_content_the_input_is_measured() {
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
    fn on_a_narrow_screen_the_last_figures_go() {
        let figures = snapshot().figures(SizeStyle::Binary);
        assert_eq!(fitting(&figures, 59), "25 %  10.0 MiB/40.0 MiB  2.0 MiB/s  60,000 entries");
        assert_eq!(fitting(&figures, 25), "25 %  10.0 MiB/40.0 MiB");
        assert_eq!(fitting(&figures, 3), "");
    }
}
