//! Arrows between modules point one way, as `docs/architecture.md` says: `cli` → `tui` → `convert` → `format`, and within `format` an
//! engine knows nothing of the others.

use std::fs;
use std::path::{Path, PathBuf};

/// For each module at the top those that it may name.
const ALLOWED: [(&str, &[&str]); 7] = [
    ("format", &["format"]),
    ("convert", &["convert", "format"]),
    ("text", &["text", "format"]),
    ("tui", &["tui", "text", "convert", "format"]),
    ("cli", &["cli", "tui", "text", "convert", "format"]),
    ("fuzzing", &["fuzzing", "format"]),
    ("testing", &[]),
];

/// Modules within `format`, and those beside them that they may not name outside of tests.
const STRANGERS: [(&str, &[&str]); 8] = [
    ("crypt", &["nra4", "zip", "tar", "sevenz", "shard", "table", "archive"]),
    ("table", &["nra", "nra4", "zip", "tar", "sevenz", "shard"]),
    ("nra", &["nra4", "zip", "tar", "sevenz", "shard", "table"]),
    ("nra4", &["nra", "zip", "tar", "sevenz", "shard"]),
    ("zip", &["nra", "nra4", "tar", "sevenz", "shard"]),
    ("tar", &["nra", "nra4", "zip", "sevenz", "shard"]),
    ("sevenz", &["nra", "nra4", "zip", "tar", "shard"]),
    ("stream", &["nra", "nra4", "zip", "sevenz", "shard"]),
];

/// A path of modules that a source names, from the top of the crate.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: usize,
    path: Vec<String>,
    in_tests: bool,
}

/// A word or a sign of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    line: usize,
    text: String,
}

/// Takes a source apart; comments and what stands in quotes are left out.
fn tokens(source: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let bytes = source.as_bytes();
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(at) {
        let rest = &source[at..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let raw =
            rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r').map(|rest| rest.bytes().take_while(|&b| b == b'#').count());
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) =
            raw.filter(|hashes| rest.trim_start_matches(['b', 'r', '#']).starts_with('"') && rest[..*hashes + 3].contains('"'))
        {
            let open = rest.find('"').expect("just seen");
            let end = format!("\"{}", "#".repeat(hashes));
            open + 1 + rest[open + 1..].find(&end).map_or(rest.len() - open - 1, |close| close + end.len())
        } else if byte == b'"' {
            let mut end = 1;
            while end < rest.len() && rest.as_bytes()[end] != b'"' {
                end += if rest.as_bytes()[end] == b'\\' { 2 } else { 1 };
            }
            end + 1
        } else if byte == b'\'' {
            // A character, or the name of a lifetime.
            let mut characters = rest.chars().skip(1);
            match (characters.next(), characters.next()) {
                (Some('\\'), Some(_)) => 3 + rest[3..].find('\'').map_or(0, |end| end + 1),
                (Some(c), Some('\'')) => 2 + c.len_utf8(),
                _ => 1,
            }
        } else if rest.starts_with(is_word) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            found.push(Token { line, text: rest[..end].to_owned() });
            end
        } else {
            let length = if rest.starts_with("::") { 2 } else { rest.chars().next().map_or(1, char::len_utf8) };
            if !rest.starts_with(char::is_whitespace) {
                found.push(Token { line, text: rest[..length].to_owned() });
            }
            length
        };
        let length = length.min(rest.len());
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// Returns the modules that a source names by `crate::` or `super::`, also in trees. `place` is the path of the module it is.
fn named(source: &str, place: &[String]) -> Vec<Named> {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut found = Vec::new();
    // The modules opened by `mod NAME {`, with the depth of braces they stand at.
    let mut inner: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut at = 0;
    while at < tokens.len() {
        match text(at) {
            "{" => {
                depth += 1;
                if at >= 2 && text(at - 2) == "mod" {
                    inner.push((text(at - 1).to_owned(), depth));
                }
            }
            "}" => {
                if inner.last().is_some_and(|(_, opened)| *opened == depth) {
                    inner.pop();
                }
                depth -= 1;
            }
            "crate" | "super" if text(at + 1) == "::" && (at == 0 || text(at - 1) != "::") => {
                let mut base: Vec<String> = if text(at) == "crate" {
                    Vec::new()
                } else {
                    place.iter().cloned().chain(inner.iter().map(|(name, _)| name.clone())).collect()
                };
                let mut next = at;
                while text(next) == "super" && text(next + 1) == "::" {
                    base.pop();
                    next += 2;
                }
                if text(at) == "crate" {
                    next += 2;
                }
                let in_tests = inner.iter().any(|(name, _)| name == "tests") || place.iter().any(|name| name == "tests");
                tree(&tokens, next, &base, &mut |line, path| found.push(Named { line, path, in_tests }));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Follows a path, or a tree of them in braces, to at most two modules; returns where it ends.
fn tree(tokens: &[Token], mut at: usize, base: &[String], found: &mut impl FnMut(usize, Vec<String>)) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    if text(at) == "{" {
        at += 1;
        while at < tokens.len() && text(at) != "}" {
            at = tree(tokens, at, base, found);
            if text(at) == "as" {
                at += 2;
            }
            if text(at) == "," {
                at += 1;
            }
        }
        return at + 1;
    }
    let mut path = base.to_vec();
    let line = tokens.get(at).map_or(0, |token| token.line);
    path.push(text(at).to_owned());
    if text(at + 1) == "::" && (text(at + 2) == "{" || path.len() < 2) {
        return tree(tokens, at + 2, &path, found);
    }
    path.truncate(2);
    found(line, path);
    at += 1;
    while text(at) == "::" {
        at += 2;
    }
    at
}

/// Returns the sources of the crate with the paths of the modules they are.
fn sources() -> Vec<(PathBuf, Vec<String>)> {
    fn collect(directory: &Path, above: &[String], found: &mut Vec<(PathBuf, Vec<String>)>) {
        for item in fs::read_dir(directory).expect("source directory is readable") {
            let path = item.expect("directory entry is readable").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("names of sources are text").to_owned();
            let module: Vec<String> = above.iter().cloned().chain([name.clone()]).collect();
            if path.is_dir() {
                collect(&path, &module, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let is_above = matches!(name.as_str(), "mod" | "lib" | "main");
                found.push((path, if is_above { above.to_vec() } else { module }));
            }
        }
    }
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut found);
    assert!(found.len() > 100, "{}", found.len());
    found
}

#[test]
fn modules_use_only_what_lies_below_them() {
    let mut wrong = Vec::new();
    for (file, place) in sources().iter().filter(|(_, place)| !place.is_empty()) {
        let source = fs::read_to_string(file).expect("source is readable");
        let (_, allowed) =
            ALLOWED.iter().find(|(module, _)| *module == place[0]).unwrap_or_else(|| panic!("{place:?} is in no row"));
        let strangers = match &place[..] {
            [top, module, ..] if top == "format" => {
                STRANGERS.iter().find(|(name, _)| name == module).map_or(&[][..], |(_, names)| names)
            }
            _ => &[],
        };
        for Named { line, path, in_tests } in named(&source, place) {
            let is_module = ALLOWED.iter().any(|(name, _)| *name == path[0]);
            let is_strange =
                !in_tests && path[0] == "format" && path.get(1).is_some_and(|second| strangers.contains(&second.as_str()));
            let is_allowed = allowed.contains(&path[0].as_str()) || in_tests && path[0] == "testing";
            if is_module && !is_allowed || is_strange {
                wrong.push(format!("{}:{line}: {} uses {}", file.display(), place.join("::"), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_ways_to_name_a_module_are_seen() {
    let source = r##"
        use crate::{tui, convert::{pack, extract as x}, format::path::{self, Quoted}};
        use super::super::super::tui::run;
        // crate::comment
        const TEXT: &str = "crate::text";
        const RAW: &str = r#"crate::"raw"#;
        fn f<'a>(c: char) -> bool { c == '"' || crate::cli::line(b'\'') }
        mod tests { use super::super::other; use super::*; }
    "##;
    let place = ["format", "nra", "reader"].map(str::to_owned);
    let seen: Vec<String> = named(source, &place).into_iter().map(|named| named.path.join("::")).collect();
    assert_eq!(
        seen,
        [
            "tui",
            "convert::pack",
            "convert::extract",
            "format::path",
            "format::path",
            "tui::run",
            "cli::line",
            "format::nra",
            "format::nra"
        ]
    );
}
