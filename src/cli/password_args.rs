//! Options for passwords and keys.

use std::path::PathBuf;

use clap::Args;

use nra_format::crypt::Secret;

/// Options that give the password or key of an encrypted archive.
#[derive(Debug, Clone, Default, Args)]
pub struct KeyArgs {
    /// Prompt for the password
    #[arg(short = 'p', group = "key", help_heading = "Encryption", hide_short_help = true)]
    pub(crate) ask: bool,
    /// Use TEXT as password; visible to other users while nra runs
    #[arg(long, value_name = "TEXT", group = "key", value_parser = parse_password, help_heading = "Encryption", hide_short_help = true)]
    pub(crate) password: Option<Secret>,
    /// Read the password from FILE, without the final newline
    #[arg(long, value_name = "FILE", group = "key", help_heading = "Encryption", hide_short_help = true)]
    pub(crate) password_file: Option<PathBuf>,
    /// Read a key from FILE: 32 bytes or 64 hexadecimal digits
    ///
    /// Without any of these options, nra uses the variable NRA_ENCRYPTION_KEY (64 hexadecimal
    /// digits), then NRA_PASSWORD.
    #[arg(long, value_name = "FILE", group = "key", help_heading = "Encryption", hide_short_help = true)]
    pub(crate) key_file: Option<PathBuf>,
    /// Never prompt.
    #[arg(skip)]
    pub(crate) silent: bool,
}

/// Options that give a new password or key.
#[derive(Debug, Clone, Default, Args)]
pub struct NewKeyArgs {
    /// Use TEXT as new password; visible to other users while nra runs
    #[arg(long, value_name = "TEXT", group = "new_key", value_parser = parse_password)]
    pub(crate) new_password: Option<Secret>,
    /// Read the new password from FILE, without the final newline
    #[arg(long, value_name = "FILE", group = "new_key")]
    pub(crate) new_password_file: Option<PathBuf>,
    /// Read the new key from FILE: 32 bytes or 64 hexadecimal digits
    #[arg(long, value_name = "FILE", group = "new_key")]
    pub(crate) new_key_file: Option<PathBuf>,
}

fn parse_password(text: &str) -> Result<Secret, String> {
    if text.is_empty() { Err("the password is empty".into()) } else { Ok(Secret::password(text)) }
}

impl KeyArgs {
    /// Returns whether one of these options is given.
    pub fn is_given(&self) -> bool {
        self.ask || self.password.is_some() || self.password_file.is_some() || self.key_file.is_some()
    }

    /// Returns whether the user asked for a prompt.
    pub fn prompts(&self) -> bool {
        self.ask
    }

    /// Returns the same options without prompts.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self { silent: true, ..self.clone() }
    }
}
