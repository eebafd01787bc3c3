//! Descriptions of content from its headers, as text and as JSON.

use serde::Serialize;

use nra_format::describe::Description;

/// Rows printed as text. JSON contains all rows.
const SHOWN: usize = 20;
/// Characters of a cell printed as text.
const MAX_CELL: usize = 40;

/// A description as JSON.
#[derive(Debug, Serialize)]
pub struct DescriptionRecord {
    format: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    brief: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    facts: Vec<FactRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    row_count: Option<u64>,
}

#[derive(Debug, Serialize)]
struct FactRecord {
    label: String,
    value: String,
}

impl From<Description> for DescriptionRecord {
    fn from(table: Description) -> Self {
        let (dtype, shape) = table.elements.map_or((None, None), |elements| (Some(elements.dtype), Some(elements.shape)));
        Self {
            format: table.format,
            brief: table.brief,
            dtype,
            shape,
            facts: table.facts.into_iter().map(|(label, value)| FactRecord { label, value }).collect(),
            row_count: (!table.heads.is_empty()).then_some(table.row_count),
            columns: table.heads,
            rows: table.rows,
        }
    }
}

/// Returns the rows of a description in aligned columns, with headings. Empty if there are no rows.
pub fn lines(table: &Description) -> Vec<String> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    let shown = &table.rows[..table.rows.len().min(SHOWN)];
    let heads = table.heads.iter().map(|head| (*head).to_owned()).collect();
    let rows = shown.iter().map(|row| row.iter().map(|cell| cut(&nra_text::harmless(cell))).collect());
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.heads.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    let more = table.row_count - shown.len() as u64;
    if more > 0 {
        lines.push(format!("… and {} more", nra_text::count(more)));
    }
    lines
}

/// Truncates a text and appends `…`.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CELL) {
        None => text.to_owned(),
        Some(_) => text.chars().take(MAX_CELL - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_and_limited() {
        let row = |name: &str, size: &str| vec![name.to_owned(), size.to_owned()];
        let mut table = Description::default();
        assert!(lines(&table).is_empty());
        table.heads = vec!["name", "type"];
        table.rows = vec![row("a", "f32"), row("ä longer\u{1b} name", ""), row(&"x".repeat(90), "i8")];
        table.row_count = 3;
        let found = lines(&table);
        assert_eq!(found[1].find("f32"), Some(42));
        assert!(!found[2].contains('\u{1b}') && found[3].contains('…'), "{found:?}");
        table.rows = vec![row("a", "b"); 30];
        table.row_count = 1_030;
        assert_eq!(lines(&table).len(), 22);
        assert_eq!(lines(&table)[21], "… and 1,010 more");
    }
}
