//! The user's settings: a TOML file. Each error is reported with its line, and the other settings
//! apply.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::path::Path;

use etcetera::BaseStrategy;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::canvas::Pictures;
use crate::environment::Environment;
use crate::key::Key;
use crate::keymap::Keymap;
use crate::layout::Column;
use crate::limits::Limits;
use nra_format::error::reason;
use nra_text::parse_size;

/// Maximum length of the file, bytes.
const MAX_LEN: u64 = 1 << 20;

/// Default launcher.
const LAUNCHER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The setting for colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThemeName {
    /// Detected from the terminal.
    #[default]
    Auto,
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
    /// No colours.
    Mono,
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Colours.
    pub theme: ThemeName,
    /// The setting for pictures.
    pub pictures: Pictures,
    /// The browser handles the mouse.
    pub mouse: bool,
    /// The preview is shown at the start.
    pub preview: bool,
    /// The terminal's cursor follows the focus.
    pub linear: bool,
    /// The position is stored for the next run.
    pub remember: bool,
    /// Columns, if there is room.
    pub columns: Vec<Column>,
    /// Command that opens a file in its default program.
    pub launcher: String,
    /// Limits of reading.
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

/// A number, or a size such as `"32M"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Size(String),
}

/// A value with its position in the file.
type Value<'a> = Spanned<DeValue<'a>>;

/// Reads settings and collects errors.
struct Reader<'a> {
    text: &'a str,
    errors: Vec<String>,
}

impl Reader<'_> {
    fn line(&self, at: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    fn report(&mut self, at: &Range<usize>, error: impl Display) {
        self.errors.push(format!("line {}: {error}", self.line(at)));
    }

    /// Returns the result, or reports the error.
    fn check<T>(&mut self, at: &Range<usize>, result: Result<T, impl Display>) -> Option<T> {
        result.map_err(|error| self.report(at, error)).ok()
    }

    fn value<T: DeserializeOwned>(&mut self, value: Value<'_>) -> Option<T> {
        let whole = value.span();
        T::deserialize(ValueDeserializer::from(value))
            .map_err(|error| self.report(&error.span().unwrap_or(whole), error.message().replace('\n', " ")))
            .ok()
    }

    fn set<T: DeserializeOwned>(&mut self, setting: &mut T, value: Value<'_>) {
        if let Some(value) = self.value(value) {
            *setting = value;
        }
    }

    fn launcher(&mut self, launcher: &mut String, value: Value<'_>) {
        let at = value.span();
        match self.value::<String>(value) {
            Some(words) if words.trim().is_empty() => self.report(&at, "launcher must not be empty"),
            words => *launcher = words.unwrap_or_else(|| std::mem::take(launcher)),
        }
    }

    fn columns(&mut self, columns: &mut Vec<Column>, value: Value<'_>) {
        let Some(names) = self.value::<Vec<Spanned<String>>>(value) else { return };
        let mut known = Vec::new();
        for name in &names {
            let titles = || Column::CHOICES.map(Column::title).join(", ");
            match Column::CHOICES.into_iter().find(|column| column.title() == name.get_ref()) {
                Some(column) => known.push(column),
                None => self.report(&name.span(), format!("no column '{}' (known: {})", name.get_ref(), titles())),
            }
        }
        // An empty list means names only.
        if names.is_empty() || !known.is_empty() {
            *columns = known;
        }
    }

    fn table<'t>(&mut self, value: Value<'t>) -> DeTable<'t> {
        let at = value.span();
        match value.into_inner() {
            DeValue::Table(table) => table,
            other => {
                self.report(&at, format!("invalid type: {}, expected a table", other.type_str()));
                DeTable::default()
            }
        }
    }

    fn limits(&mut self, limits: &mut Limits, value: Value<'_>) {
        for (name, amount) in self.table(value) {
            let Some(amount) = self.value::<Amount>(amount) else { continue };
            let number = match amount {
                Amount::Number(number) => Ok(number),
                Amount::Size(size) => parse_size(&size),
            };
            let set = number.and_then(|number| limits.set(name.get_ref(), number));
            self.check(&name.span(), set);
        }
    }

    fn keys(&mut self, keymap: &mut Keymap, value: Value<'_>) {
        let commands = self.table(value);
        // Commands whose keys are set further down do not lose them.
        let mut later: BTreeSet<String> = commands.keys().map(|name| name.get_ref().to_string()).collect();
        for (name, keys) in commands {
            let Some(written) = self.value::<Vec<Spanned<String>>>(keys) else { continue };
            later.remove(name.get_ref().as_ref());
            let mut keys = Vec::new();
            for key in &written {
                keys.extend(self.check(&key.span(), key.get_ref().parse::<Key>()).map(|parsed| (parsed, key.span())));
            }
            // If all keys are invalid, the command keeps the previous ones.
            if keys.is_empty() && !written.is_empty() {
                continue;
            }
            let set = keymap.set(name.get_ref(), keys.iter().map(|(key, _)| *key).collect());
            for (key, loser) in self.check(&name.span(), set).unwrap_or_default() {
                if !later.contains(loser) {
                    let place = keys.iter().find(|(other, _)| *other == key).map_or_else(|| name.span(), |(_, at)| at.clone());
                    self.report(&place, format!("'{key}' is now assigned to {}, no longer to {loser}", name.get_ref()));
                }
            }
        }
    }
}

impl Config {
    /// Parses settings. Returns errors and warnings with their lines as well. Invalid settings keep
    /// their defaults; if the text is not TOML, all do.
    pub fn parse(text: &str) -> (Self, Vec<String>) {
        let (mut config, mut reader) = (Self::default(), Reader { text, errors: Vec::new() });
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let why = format!("{}; it is ignored", error.message().replace('\n', " "));
                reader.report(&error.span().unwrap_or_default(), why);
                return (config, reader.errors);
            }
        };
        for (name, value) in table {
            match name.get_ref().as_ref() {
                "theme" => reader.set(&mut config.theme, value),
                "pictures" => reader.set(&mut config.pictures, value),
                "mouse" => reader.set(&mut config.mouse, value),
                "preview" => reader.set(&mut config.preview, value),
                "linear" => reader.set(&mut config.linear, value),
                "remember" => reader.set(&mut config.remember, value),
                "columns" => reader.columns(&mut config.columns, value),
                "launcher" => reader.launcher(&mut config.launcher, value),
                "limits" => reader.limits(&mut config.limits, value),
                "keys" => reader.keys(&mut config.keymap, value),
                other => reader.report(&name.span(), format!("no setting '{other}'")),
            }
        }
        (config, reader.errors)
    }

    /// Reads the settings from `$NRA_CONFIG`, or from `nra/config.toml` in the configuration
    /// directory, which may be missing. Returns errors and warnings with file and line as well.
    pub fn read(environment: &Environment) -> (Self, Vec<String>) {
        let named = environment.path("NRA_CONFIG");
        let default = || Some(etcetera::choose_base_strategy().ok()?.config_dir().join("nra").join("config.toml"));
        match (&named, named.clone().or_else(default)) {
            (_, None) => Default::default(),
            (named, Some(path)) => Self::read_file(&path, named.is_some()),
        }
    }

    /// Reads the settings from a file, which may be missing unless it was named.
    fn read_file(path: &Path, named: bool) -> (Self, Vec<String>) {
        let message = |what: &str| nra_text::harmless(&format!("{}: {what}", path.display()));
        match text_of(path) {
            Ok(text) => {
                let (config, errors) = Self::parse(&text);
                (config, errors.iter().map(|error| message(error)).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !named => Default::default(),
            Err(error) => (Self::default(), vec![message(&format!("{}; it is ignored", reason(&error)))]),
        }
    }
}

/// Reads the text of a settings file.
fn text_of(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.len() > MAX_LEN {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    String::from_utf8(std::fs::read(path)?).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        io::Error::other(format!("line {line}: not UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keymap::{Action, Place};

    #[test]
    fn keys_and_colours_can_be_set() {
        let (config, warnings) = Config::parse("theme = \"light\"\nmouse = false\n\n[keys]\nextract = [\"ctrl-x\", \"j\"]\n");
        assert_eq!((config.theme, config.mouse, config.preview), (ThemeName::Light, false, true));
        let action = |key: &str| config.keymap.action(Place::List, key.parse().unwrap());
        assert_eq!(action("ctrl-x"), Some(Action::Extract));
        // Keys taken from another command are reported; the old keys are free.
        assert_eq!(warnings, ["line 5: 'j' is now assigned to extract, no longer to down"]);
        assert_eq!(action("j"), Some(Action::Extract));
        assert_eq!(action("down"), Some(Action::Down));
        assert_eq!(action("e"), None);
        assert_eq!(Config::parse(""), (Config::default(), Vec::new()));
        assert_eq!(Config::parse("pictures = \"sixel\"").0.pictures, Pictures::Sixel);
        assert!(!Config::parse("remember = false").0.remember);
        assert_eq!(Config::parse("columns = [\"mode\"]").0.columns, [Column::Mode]);
        assert_eq!(Config::parse("launcher = \"gio open\"").0.launcher, "gio open");
        let limits = Config::parse("[limits]\npicture = \"8M\"\ndirectory = 10\n").0.limits;
        assert_eq!(limits, Limits { picture: 8 << 20, directory: 10, ..Limits::default() });
    }

    #[test]
    fn settings_errors_have_line_numbers() {
        for (text, line, why) in [
            ("theme = \"pink\"\n", 1, "unknown variant"),
            ("\npictures = \"ascii\"\n", 2, "unknown variant"),
            ("\n\ncolour = 1\n", 3, "no setting"),
            ("mouse = true\n[keys]\nextract = [\"hyper-x\"]\n", 3, "unknown key"),
            ("[keys]\n\nextrac = [\"x\"]\n", 3, "unknown command"),
            ("[keys\n", 1, ""),
            ("launcher = \"\"\n", 1, "must not be empty"),
            ("[limits]\nwindow = \"256K\"\npicture = \"much\"\n", 3, "invalid size"),
            ("[limits]\n\nwindow = 10\n", 3, "65536 to"),
            ("[limits]\npictures = 10\n", 2, "no limit"),
            ("[limits]\npicture = -1\n", 2, ""),
            ("columns = [\"size\",\n\"colour\"]\n", 2, "no column"),
        ] {
            let (_, errors) = Config::parse(text);
            let errors = errors.join("; ");
            assert!(errors.starts_with(&format!("line {line}: ")) && errors.contains(why), "{text:?}: {errors}");
        }
    }

    #[test]
    fn valid_settings_apply_beside_errors() {
        let (config, errors) = Config::parse(
            "theme = \"pink\"\nmouse = false\ncolour = 1\ncolumns = [\"mode\", \"colour\"]\nlauncher = \" \"\nlinear = \"yes\"\n\
             [limits]\npicture = \"8M\"\nwindow = 10\n[keys]\nextract = [\"ctrl-x\", \"hyper-x\"]\nwrap = [\"hyper-y\"]\nextrac = [\"x\"]\n",
        );
        let mut lines: Vec<&str> = errors.iter().map(|fault| fault.split_once(':').unwrap().0).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            ["line 1", "line 11", "line 12", "line 13", "line 3", "line 4", "line 5", "line 6", "line 9"],
            "{errors:?}"
        );
        assert_eq!((config.theme, config.mouse, config.linear), (ThemeName::Auto, false, false));
        assert_eq!((config.columns, config.launcher.as_str()), (vec![Column::Mode], LAUNCHER));
        assert_eq!(config.limits, Limits { picture: 8 << 20, ..Limits::default() });
        let action = |key: &str| config.keymap.action(Place::List, key.parse().unwrap());
        assert_eq!((action("ctrl-x"), action("e"), action("w")), (Some(Action::Extract), None, Some(Action::Wrap)));
    }

    #[test]
    fn reassigned_keys_are_reported() {
        let warnings = |text: &str| Config::parse(text).1;
        // Swapped keys.
        assert_eq!(warnings("[keys]\nextract = [\"j\"]\ndown = [\"e\"]\n"), [""; 0]);
        // One key for two commands.
        assert_eq!(
            warnings("[keys]\nwrap = [\"ctrl-y\"]\nextract = [\n  \"ctrl-y\",\n]\n"),
            ["line 2: 'ctrl-y' is now assigned to wrap, no longer to extract"]
        );
        // A key may have another command in another place.
        assert_eq!(warnings("[keys]\nstop = [\"e\"]\n"), [""; 0]);
    }

    #[test]
    fn unreadable_settings_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        assert_eq!(Config::read_file(&path, false), Default::default());
        let errors = |named| Config::read_file(&path, named).1.join("; ");
        assert!(errors(true).contains("config.toml: no such file or directory; it is ignored"), "{}", errors(true));
        std::fs::write(&path, b"mouse = true\n# caf\xe9\n").unwrap();
        assert!(errors(true).contains("config.toml: line 2: not UTF-8; it is ignored"), "{}", errors(true));
        std::fs::write(&path, b"[keys]\nextract = [\"j\"]\n").unwrap();
        let (_, warnings) = Config::read_file(&path, true);
        assert!(warnings[0].ends_with("config.toml: line 2: 'j' is now assigned to extract, no longer to down"), "{warnings:?}");
    }
}
