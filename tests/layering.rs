//! Arrows between modules point one way: `cli` → `convert` → `format`.

use std::fs;
use std::path::{Path, PathBuf};

/// For each module the modules of this crate that it may name.
const ALLOWED: [(&str, &[&str]); 4] = [
    ("format", &["format"]),
    ("convert", &["convert", "format"]),
    ("cli", &["cli", "convert", "format"]),
    ("fuzzing", &["fuzzing", "format"]),
];

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
        let mut files = Vec::new();
        sources(&root.join(module), &mut files);
        assert!(!files.is_empty(), "no sources in src/{module}");
        for file in files {
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
    for module in ["format", "convert"] {
        let mut files = Vec::new();
        sources(&root.join(module), &mut files);
        for file in files {
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
