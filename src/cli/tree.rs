//! Prints entries as a tree.

use crate::report::CommandResult;
use crate::ui::Ui;
use nra_format::entry::{Entry, Kind};
use nra_format::path::EntryPath;

/// Rows of a tree, in path order.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    last: Option<EntryPath>,
}

#[derive(Debug)]
struct Row {
    name: Box<[u8]>,
    /// Number of components before the name.
    depth: usize,
    kind: Kind,
    size: u64,
}

/// Line drawing characters.
struct Strokes {
    branch: &'static str,
    last: &'static str,
    line: &'static str,
    blank: &'static str,
}

const DRAWN: Strokes = Strokes { branch: "├── ", last: "└── ", line: "│   ", blank: "    " };
/// For screen readers: only indentation.
const INDENTED: Strokes = Strokes { branch: "  ", last: "  ", line: "  ", blank: "  " };

impl Rows {
    /// Adds the next entry in path order, including its parents if they were not selected. Skips
    /// entries with more than `depth` components.
    pub fn push(&mut self, entry: &Entry, depth: Option<usize>) {
        let limit = depth.unwrap_or(usize::MAX);
        let components: Vec<&[u8]> = entry.path.components().collect();
        let known = self.last.as_ref().map_or(0, |last| last.components().zip(&components).take_while(|(a, b)| a == *b).count());
        for (depth, name) in components.iter().enumerate().skip(known).take_while(|(depth, _)| *depth < limit) {
            let own = depth + 1 == components.len();
            let (kind, size) = if own { (entry.kind, entry.size) } else { (Kind::Directory, 0) };
            self.rows.push(Row { name: (*name).into(), depth, kind, size });
        }
        self.last = Some(entry.path.clone());
    }

    /// Prints the tree.
    pub fn print(&self, long: bool, ui: &mut Ui) -> CommandResult<()> {
        let strokes = if ui.console().options().accessible { &INDENTED } else { &DRAWN };
        let last = self.last_siblings();
        // Whether each parent of the current row is the last of its siblings.
        let mut above: Vec<bool> = Vec::new();
        let mut line = String::new();
        for (row, &is_last) in self.rows.iter().zip(&last) {
            above.truncate(row.depth);
            line.clear();
            line.extend(above.iter().map(|&ended| if ended { strokes.blank } else { strokes.line }));
            line.push_str(if is_last { strokes.last } else { strokes.branch });
            let mut after = String::new();
            if let Some(style) = ui.kind_style(row.kind) {
                line.push_str(&style.to_string());
                after = format!("{style:#}");
            }
            if row.kind == Kind::Directory {
                after.push('/');
            } else if long && row.kind == Kind::File {
                after.push_str(&format!("  {}", ui.size(row.size)));
            }
            ui.name_line(&line, &row.name, after)?;
            above.push(is_last);
        }
        Ok(())
    }

    /// Returns for each row whether it is the last of its siblings.
    fn last_siblings(&self) -> Vec<bool> {
        let mut last = vec![true; self.rows.len()];
        let mut later: Vec<bool> = Vec::new();
        for (row, is_last) in self.rows.iter().zip(&mut last).rev() {
            later.resize(row.depth + 1, false);
            *is_last = !later[row.depth];
            later[row.depth] = true;
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Form;

    fn tree(paths: &[&str], depth: Option<usize>) -> String {
        let mut rows = Rows::default();
        for path in paths {
            let kind = if path.ends_with('f') { Kind::File } else { Kind::Directory };
            rows.push(&Entry::new(EntryPath::try_from(*path).unwrap(), kind), depth);
        }
        let (mut ui, out, _) = Ui::for_test(Form::Text);
        rows.print(false, &mut ui).unwrap();
        ui.flush().unwrap();
        out.text()
    }

    #[test]
    fn rows_are_connected_to_siblings() {
        assert_eq!(
            tree(&["a", "a/b", "a/b/1f", "a/c", "a/c/2f", "d", "d/e/3f"], None),
            "├── a/\n│   ├── b/\n│   │   └── 1f\n│   └── c/\n│       └── 2f\n└── d/\n    └── e/\n        └── 3f\n"
        );
        assert_eq!(tree(&["a", "a/b", "a/b/1f", "d/e/3f"], Some(1)), "├── a/\n└── d/\n");
        assert_eq!(tree(&["a/b/1f", "a/b/2f"], Some(2)), "└── a/\n    └── b/\n");
        assert_eq!(tree(&[], None), "");
    }
}
