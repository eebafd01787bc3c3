//! Arrows between modules point one way: `cli` → `tui` → `convert` → `format`.

use std::fs;
use std::path::{Path, PathBuf};

/// For each module the modules of this crate that it may name.
const ALLOWED: [(&str, &[&str]); 6] = [
    ("format", &["format"]),
    ("convert", &["convert", "format"]),
    ("text", &["text", "format"]),
    ("tui", &["tui", "text", "convert", "format"]),
    ("cli", &["cli", "tui", "text", "convert", "format"]),
    ("fuzzing", &["fuzzing", "format"]),
];

/// Finds the sources of a module: `NAME.rs` and what is in the directory `NAME`.
fn module(root: &Path, name: &str) -> Vec<PathBuf> {
    let (file, directory) = (root.join(name).with_extension("rs"), root.join(name));
    let mut files: Vec<PathBuf> = file.is_file().then_some(file).into_iter().collect();
    if directory.is_dir() {
        sources(&directory, &mut files);
    }
    assert!(!files.is_empty(), "no sources of {name}");
    files
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for item in fs::read_dir(directory).expect("source directory is readable") {
        let path = item.expect("directory entry is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn modules_use_only_what_lies_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (module, allowed) in ALLOWED {
        for file in self::module(&root, module) {
            let text = fs::read_to_string(&file).expect("source is readable");
            for (number, line) in text.lines().enumerate() {
                for (at, _) in line.match_indices("crate::") {
                    let named: String = line[at + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    let is_module = ALLOWED.iter().any(|(name, _)| *name == named);
                    if is_module && !allowed.contains(&named.as_str()) {
                        wrong.push(format!("{}:{}: {module} uses {named}", file.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_engine_prints_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for name in ["format", "convert", "text", "tui"] {
        for file in module(&root, name) {
            // Tests may print.
            if file.strip_prefix(&root).expect("found below it").components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let text = fs::read_to_string(&file).expect("source is readable");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("]
                .iter()
                .any(|word| code.lines().any(|line| line.contains(word) && !line.trim_start().starts_with("//")))
            {
                wrong.push(file.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
