//! Suggestions for mistyped commands and files.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

/// Names of commands in other programs, with the command of nra.
const ALIASES: [(&[&str], &str); 21] = [
    (&["create", "cf", "cvf", "czf", "cjf", "tar", "zip", "compress"], "pack"),
    (&["xf", "xvf", "xzf", "xjf", "unzip", "untar", "decompress"], "extract"),
    (&["tf", "tvf", "tzf", "dir", "show", "contents"], "list"),
    (&["test", "check", "fsck"], "verify"),
    (&["delete", "remove", "del"], "rm"),
    (&["rename", "move"], "mv"),
    (&["view", "open"], "browse"),
    (&["insert", "update"], "add"),
    (&["print", "read"], "cat"),
    (&["search", "rg"], "grep"),
    (&["locate", "fd"], "find"),
    (&["stat", "stats", "status"], "info"),
    (&["history", "snapshots", "commits"], "log"),
    (&["compare", "cmp"], "diff"),
    (&["size", "usage"], "du"),
    (&["recover", "rescue"], "salvage"),
    (&["fix", "heal"], "repair"),
    (&["gc", "prune", "vacuum"], "compact"),
    (&["undo", "rollback", "reset", "checkout"], "revert"),
    (&["passwd", "password", "rekey"], "key"),
    (&["recompress", "repack"], "convert"),
];

/// Commands that remove data: they are suggested only for very similar words.
const DESTRUCTIVE: [&str; 3] = ["rm", "mv", "compact"];

/// Files of a directory compared with a mistyped name.
const MAX_FILES: usize = 10_000;

/// Returns the file next to `path` with the most similar name.
pub fn similar_file(path: &Path) -> Option<OsString> {
    let word = path.file_name()?.to_str()?;
    let within = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = std::fs::read_dir(within).ok()?.take(MAX_FILES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let length = word.chars().count();
    // Short names are similar to anything.
    let similar = names
        .filter(|name| length > 3 && name.chars().count().abs_diff(length) <= 2)
        .map(|name| (distance(word, &name), name))
        .filter(|(steps, _)| *steps <= if length > 6 { 2 } else { 1 });
    similar.min().map(|(_, name)| path.with_file_name(name).into_os_string())
}

/// Returns the command that `word` means in other programs, or with the most similar name.
pub fn similar_command<'a>(root: &'a Command, word: &str) -> Option<&'a str> {
    let word = word.to_lowercase();
    let verbs: Vec<&str> =
        root.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name()).collect();
    if let Some((_, verb)) = ALIASES.iter().find(|(words, _)| words.contains(&word.as_str())) {
        return verbs.into_iter().find(|known| known == verb);
    }
    let length = word.chars().count();
    let max_distance = |verb: &str| if DESTRUCTIVE.contains(&verb) { 1 } else { (length / 3).clamp(1, 2) };
    let similar = verbs
        .into_iter()
        .map(|verb| (distance(&word, verb), verb))
        .filter(|(steps, verb)| *steps <= max_distance(verb) && *steps < length);
    similar.min_by_key(|(steps, _)| *steps).map(|(_, verb)| verb)
}

/// Returns the edit distance: letters to insert, delete, change or swap with the next one.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut steps = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                steps = steps.min(rows[i - 1][j - 1] + 1);
            }
            row.push(steps);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_aliases_or_similar() {
        let mut root = crate::definition();
        root.build();
        for (word, expected) in [
            ("lits", Some("list")),
            ("LIST", Some("list")),
            ("extarct", Some("extract")),
            ("create", Some("pack")),
            ("xf", Some("extract")),
            ("tf", Some("list")),
            ("unzip", Some("extract")),
            ("test", Some("verify")),
            ("delete", Some("rm")),
            ("rn", Some("rm")),
            ("view", cfg!(feature = "tui").then_some("browse")),
            ("stream-beta", None),
            ("bogus", None),
            ("x7", None),
            ("", None),
        ] {
            assert_eq!(similar_command(&root, word), expected, "{word}");
        }
        for (words, verb) in ALIASES {
            assert!(cfg!(not(feature = "tui")) || root.find_subcommand(verb).is_some(), "{verb}");
            for word in words {
                assert!(root.find_subcommand(word).is_none(), "{word} is a command");
            }
        }
    }
}
