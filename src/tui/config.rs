//! The user's settings: a TOML file, checked as a whole; what is wrong in it is told with its line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etcetera::BaseStrategy;
use serde::Deserialize;
use toml::Spanned;

use crate::tui::canvas::Pictures;
use crate::tui::key::Key;
use crate::tui::keymap::Keymap;
use crate::tui::layout::Column;

/// Longest file that is read, bytes.
const MAX_LEN: u64 = 1 << 20;

/// Which colours are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
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
    #[serde(default)]
    keys: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
}

fn yes() -> bool {
    true
}

impl Config {
    /// Reads settings.
    ///
    /// # Errors
    ///
    /// What is wrong, with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line(at), error.message().replace('\n', " "))
        })?;
        let mut keymap = Keymap::default();
        for (name, keys) in &file.keys {
            let parse = |key: &Spanned<String>| {
                key.get_ref().parse::<Key>().map_err(|error| format!("line {}: {error}", line(key.span().start)))
            };
            let keys: Vec<Key> = keys.iter().map(parse).collect::<Result<_, _>>()?;
            keymap.set(name.get_ref(), keys).map_err(|error| format!("line {}: {error}", line(name.span().start)))?;
        }
        let column = |name: &Spanned<String>| {
            let known = Column::CHOICES.into_iter().find(|column| column.title() == name.get_ref());
            let unknown = || {
                format!("line {}: no column '{}' (known: size, ratio, modified, mode)", line(name.span().start), name.get_ref())
            };
            known.ok_or_else(unknown)
        };
        let columns = match &file.columns {
            Some(names) => names.iter().map(column).collect::<Result<_, _>>()?,
            None => Column::CHOICES.to_vec(),
        };
        let File { theme, pictures, mouse, preview, linear, remember, .. } = file;
        Ok(Self { theme, pictures, mouse, preview, linear, remember, columns, keymap })
    }

    /// Reads the settings of the user: `$NRA_CONFIG`, or `nra/config.toml` in the directory for configuration. No file is no failure.
    ///
    /// # Errors
    ///
    /// What is wrong, with file and line.
    pub fn read() -> Result<Self, String> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let told = |error: &dyn std::fmt::Display| crate::text::harmless(&format!("{}: {error}", path.display()));
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Ok(facts) if facts.len() > MAX_LEN => return Err(told(&"longer than 1 MiB")),
            _ => {}
        }
        let text = std::fs::read_to_string(&path).map_err(|error| told(&error))?;
        Self::parse(&text).map_err(|error| told(&error))
    }
}

/// Returns where the settings are, if anywhere.
fn path() -> Option<PathBuf> {
    match std::env::var_os("NRA_CONFIG") {
        Some(path) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => Some(etcetera::choose_base_strategy().ok()?.config_dir().join("nra").join("config.toml")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::action::Action;
    use crate::tui::keymap::Place;

    #[test]
    fn keys_and_colours_can_be_set() {
        let config = Config::parse("theme = \"light\"\nmouse = false\n\n[keys]\nextract = [\"ctrl-x\", \"j\"]\n").unwrap();
        assert_eq!((config.theme, config.mouse, config.preview), (ThemeName::Light, false, true));
        let action = |key: &str| config.keymap.action(Place::List, key.parse().unwrap());
        assert_eq!(action("ctrl-x"), Some(Action::Extract));
        // Taken from what had it; the old keys are free.
        assert_eq!(action("j"), Some(Action::Extract));
        assert_eq!(action("down"), Some(Action::Down));
        assert_eq!(action("e"), None);
        assert_eq!(Config::parse("").unwrap(), Config::default());
        assert_eq!(Config::parse("pictures = \"sixel\"").unwrap().pictures, Pictures::Sixel);
        assert!(!Config::parse("remember = false").unwrap().remember);
        assert_eq!(Config::parse("columns = [\"mode\"]").unwrap().columns, [Column::Mode]);
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
            ("columns = [\"size\",\n\"colour\"]\n", 2, "no column"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(why), "{text:?}: {error}");
        }
    }
}
