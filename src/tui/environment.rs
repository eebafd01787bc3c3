//! Environment variables. They are read once, when the browser starts.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The variables that are set.
#[derive(Debug, Clone, Default)]
pub struct Environment(HashMap<OsString, OsString>);

impl Environment {
    /// Reads the environment of the process.
    pub fn read() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Returns the value of a variable, unless it is not UTF-8.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(OsString::from(name).as_os_str())?.to_str().map(str::to_owned)
    }

    /// Returns the path in a variable, unless it is empty.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(OsString::from(name).as_os_str()).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// Returns the first of these variables that is not blank, or `default`.
    pub fn command(&self, variables: &[&str], default: &str) -> String {
        let set = |name: &&str| self.text(name).filter(|command| !command.trim().is_empty());
        variables.iter().find_map(set).unwrap_or_else(|| default.to_owned())
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_valid_command_is_used() {
        let environment = Environment::from([("VISUAL", " "), ("EDITOR", "ed -s"), ("NRA_CONFIG", "")]);
        assert_eq!(environment.command(&["VISUAL", "EDITOR"], "vi"), "ed -s");
        assert_eq!(environment.command(&["PAGER"], "less"), "less");
        assert_eq!((environment.path("NRA_CONFIG"), environment.path("EDITOR")), (None, Some("ed -s".into())));
    }
}
