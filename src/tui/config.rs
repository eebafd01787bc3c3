//! The user's settings: a TOML file, checked as a whole; what is wrong in it is told with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::Deserialize;
use toml::Spanned;

use crate::text::parse_size;
use crate::tui::canvas::Pictures;
use crate::tui::key::Key;
use crate::tui::keymap::Keymap;
use crate::tui::layout::Column;
use crate::tui::limits::Limits;

/// Longest file that is read, bytes.
const MAX_LEN: u64 = 1 << 20;

/// What opens files unless the settings say otherwise.
const LAUNCHER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Which colours are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThemeName {
    /// As the terminal says.
    #[default]
    Auto,
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
    /// None.
    Mono,
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Colours.
    pub theme: ThemeName,
    /// How pictures are drawn.
    pub pictures: Pictures,
    /// The mouse belongs to the browser.
    pub mouse: bool,
    /// The preview is on at the start.
    pub preview: bool,
    /// The terminal's cursor follows.
    pub linear: bool,
    /// Where one was is kept for the next time.
    pub remember: bool,
    /// Columns that are shown where there is room.
    pub columns: Vec<Column>,
    /// What opens files in the program that the system has for them.
    pub launcher: String,
    /// How much is looked at.
    pub limits: Limits,
    /// Keys.
    pub keymap: Keymap,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            theme: ThemeName::default(),
            pictures: Pictures::default(),
            mouse: true,
            preview: true,
            linear: false,
            remember: true,
            columns: Column::CHOICES.to_vec(),
            launcher: LAUNCHER.to_owned(),
            limits: Limits::default(),
            keymap: Keymap::default(),
        }
    }
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    theme: ThemeName,
    #[serde(default)]
    pictures: Pictures,
    #[serde(default = "yes")]
    mouse: bool,
    #[serde(default = "yes")]
    preview: bool,
    #[serde(default)]
    linear: bool,
    #[serde(default = "yes")]
    remember: bool,
    #[serde(default)]
    columns: Option<Vec<Spanned<String>>>,
    launcher: Option<Spanned<String>>,
    #[serde(default)]
    limits: BTreeMap<Spanned<String>, Spanned<Amount>>,
    #[serde(default)]
    keys: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
}

fn yes() -> bool {
    true
}

/// A number, or a size in words: `"32M"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Words(String),
}

impl Config {
    /// Reads settings. What works other than may have been meant is told beside them, with its line.
    ///
    /// # Errors
    ///
    /// What is wrong, with its line.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), String> {
        let line = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line(at), error.message().replace('\n', " "))
        })?;
        let mut keymap = Keymap::default();
        let mut warnings = Vec::new();
        // Those whose keys are set further down lose nothing that they keep.
        let mut to_come: BTreeSet<&str> = file.keys.keys().map(|name| name.get_ref().as_str()).collect();
        for (name, keys) in &file.keys {
            to_come.remove(name.get_ref().as_str());
            let place = |key: &Key| {
                let written = keys.iter().find(|written| written.get_ref().parse().as_ref() == Ok(key));
                line(written.map_or(0, |written| written.span().start))
            };
            let parse = |key: &Spanned<String>| {
                key.get_ref().parse::<Key>().map_err(|error| format!("line {}: {error}", line(key.span().start)))
            };
            let parsed: Vec<Key> = keys.iter().map(parse).collect::<Result<_, _>>()?;
            let taken = keymap.set(name.get_ref(), parsed);
            let taken = taken.map_err(|error| format!("line {}: {error}", line(name.span().start)))?;
            for (key, loser) in taken.into_iter().filter(|(_, loser)| !to_come.contains(loser)) {
                warnings.push(format!("line {}: '{key}' is for {} now, no longer for {loser}", place(&key), name.get_ref()));
            }
        }
        let column = |name: &Spanned<String>| {
            let known = Column::CHOICES.into_iter().find(|column| column.title() == name.get_ref());
            let unknown = || {
                let titles = Column::CHOICES.map(Column::title).join(", ");
                format!("line {}: no column '{}' (known: {titles})", line(name.span().start), name.get_ref())
            };
            known.ok_or_else(unknown)
        };
        let columns = match &file.columns {
            Some(names) => names.iter().map(column).collect::<Result<_, _>>()?,
            None => Column::CHOICES.to_vec(),
        };
        let mut limits = Limits::default();
        for (name, amount) in &file.limits {
            let number = match amount.get_ref() {
                Amount::Number(number) => Ok(*number),
                Amount::Words(words) => parse_size(words),
            };
            let set = number.and_then(|number| limits.set(name.get_ref(), number));
            set.map_err(|error| format!("line {}: {error}", line(name.span().start)))?;
        }
        let launcher = match &file.launcher {
            Some(words) if words.get_ref().trim().is_empty() => {
                return Err(format!("line {}: launcher is empty: it is a command", line(words.span().start)));
            }
            words => words.as_ref().map_or(LAUNCHER, |words| words.get_ref()).to_owned(),
        };
        let File { theme, pictures, mouse, preview, linear, remember, .. } = file;
        Ok((Self { theme, pictures, mouse, preview, linear, remember, columns, launcher, limits, keymap }, warnings))
    }

    /// Reads the settings of the user: `$NRA_CONFIG`, or `nra/config.toml` in the directory for configuration. No file there is no failure.
    /// What works other than may have been meant is told beside them.
    ///
    /// # Errors
    ///
    /// What is wrong, with file and line.
    pub fn read() -> Result<(Self, Vec<String>), String> {
        let named = std::env::var_os("NRA_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let usual = || Some(etcetera::choose_base_strategy().ok()?.config_dir().join("nra").join("config.toml"));
        match (&named, named.clone().or_else(usual)) {
            (_, None) => Ok(Default::default()),
            (named, Some(path)) => Self::read_file(&path, named.is_some()),
        }
    }

    /// Reads the settings in a file, which may be missing unless somebody named it.
    fn read_file(path: &Path, named: bool) -> Result<(Self, Vec<String>), String> {
        let told = |error: &dyn std::fmt::Display| {
            let text = error.to_string();
            // Numbers of the system say nothing to people.
            let words = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
            crate::text::harmless(&format!("{}: {words}", path.display()))
        };
        match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => return Ok(Default::default()),
            Ok(facts) if facts.len() > MAX_LEN => return Err(told(&"longer than 1 MiB")),
            _ => {}
        }
        let bytes = std::fs::read(path).map_err(|error| told(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            told(&format!("line {}: not UTF-8", good.iter().filter(|&&byte| byte == b'\n').count() + 1))
        })?;
        let (config, warnings) = Self::parse(&text).map_err(|error| told(&error))?;
        Ok((config, warnings.iter().map(|warning| told(warning)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::action::Action;
    use crate::tui::keymap::Place;

    #[test]
    fn keys_and_colours_can_be_set() {
        let (config, warnings) =
            Config::parse("theme = \"light\"\nmouse = false\n\n[keys]\nextract = [\"ctrl-x\", \"j\"]\n").unwrap();
        assert_eq!((config.theme, config.mouse, config.preview), (ThemeName::Light, false, true));
        let action = |key: &str| config.keymap.action(Place::List, key.parse().unwrap());
        assert_eq!(action("ctrl-x"), Some(Action::Extract));
        // Taken from what had it, which is told; the old keys are free.
        assert_eq!(warnings, ["line 5: 'j' is for extract now, no longer for down"]);
        assert_eq!(action("j"), Some(Action::Extract));
        assert_eq!(action("down"), Some(Action::Down));
        assert_eq!(action("e"), None);
        assert_eq!(Config::parse("").unwrap(), (Config::default(), Vec::new()));
        assert_eq!(Config::parse("pictures = \"sixel\"").unwrap().0.pictures, Pictures::Sixel);
        assert!(!Config::parse("remember = false").unwrap().0.remember);
        assert_eq!(Config::parse("columns = [\"mode\"]").unwrap().0.columns, [Column::Mode]);
        assert_eq!(Config::parse("launcher = \"gio open\"").unwrap().0.launcher, "gio open");
        let limits = Config::parse("[limits]\npicture = \"8M\"\ndirectory = 10\n").unwrap().0.limits;
        assert_eq!(limits, Limits { picture: 8 << 20, directory: 10, ..Limits::default() });
    }

    #[test]
    fn faults_are_told_with_their_line() {
        for (text, line, why) in [
            ("theme = \"pink\"\n", 1, "unknown variant"),
            ("\npictures = \"ascii\"\n", 2, "unknown variant"),
            ("\n\ncolour = 1\n", 3, "unknown field"),
            ("mouse = true\n[keys]\nextract = [\"hyper-x\"]\n", 3, "no key"),
            ("[keys]\n\nextrac = [\"x\"]\n", 3, "no command"),
            ("[keys\n", 1, ""),
            ("launcher = \"\"\n", 1, "a command"),
            ("[limits]\nwindow = \"256K\"\npicture = \"much\"\n", 3, "not a size"),
            ("[limits]\n\nwindow = 10\n", 3, "65536 to"),
            ("[limits]\npictures = 10\n", 2, "no limit"),
            ("[limits]\npicture = -1\n", 2, ""),
            ("columns = [\"size\",\n\"colour\"]\n", 2, "no column"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn keys_that_change_their_meaning_are_told() {
        let warnings = |text: &str| Config::parse(text).unwrap().1;
        // Exchanged: both are as they were set.
        assert_eq!(warnings("[keys]\nextract = [\"j\"]\ndown = [\"e\"]\n"), [""; 0]);
        // Set twice: one of them does not get it.
        assert_eq!(
            warnings("[keys]\nwrap = [\"ctrl-y\"]\nextract = [\n  \"ctrl-y\",\n]\n"),
            ["line 2: 'ctrl-y' is for wrap now, no longer for extract"]
        );
        // In other places it may mean something else.
        assert_eq!(warnings("[keys]\nstop = [\"e\"]\n"), [""; 0]);
    }

    #[test]
    fn a_file_that_does_not_read_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        assert_eq!(Config::read_file(&path, false).unwrap(), Default::default());
        assert!(Config::read_file(&path, true).unwrap_err().contains("config.toml: No such file"));
        std::fs::write(&path, b"mouse = true\n# caf\xe9\n").unwrap();
        assert!(Config::read_file(&path, true).unwrap_err().ends_with("config.toml: line 2: not UTF-8"));
        std::fs::write(&path, b"[keys]\nextract = [\"j\"]\n").unwrap();
        let (_, warnings) = Config::read_file(&path, true).unwrap();
        assert!(warnings[0].ends_with("config.toml: line 2: 'j' is for extract now, no longer for down"), "{warnings:?}");
    }
}
