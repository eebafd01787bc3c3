//! Passwords and keys: options, environment variables and prompts.
//!
//! Options take precedence over variables. Prompts read from the terminal itself, without echo, and
//! only if there is one. Typed passwords are wiped from memory after use.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::archive_errors::{KEY_HINT, explain};
use crate::console::wait_for;
use crate::password_args::{KeyArgs, NewKeyArgs};
use crate::report::{CommandResult, Failure};
use crate::signals::{self, CleanStop};
use nra_format::Error;
use nra_format::archive::{Archive, OpenOptions};
use nra_format::crypt::{KEY_LEN, Keyring, Secret};
use nra_format::nra::reader::NraReader;
use nra_format::source::{FileSource, ReadAt};

/// Longest file with a password or key, bytes.
const MAX_FILE: u64 = 64 << 10;
/// How often the user may try a password.
const TRIES: usize = 3;
/// As [`KEY_HINT`], for a new password or key.
const NEW_HINT: &str = "use --new-password-file or --new-key-file";

impl KeyArgs {
    /// Returns the password or key from the options, without a prompt.
    fn given(&self) -> CommandResult<Option<Secret>> {
        from_options(self.password.as_ref(), self.password_file.as_deref(), self.key_file.as_deref())
    }

    /// Returns the password or key from options or variables.
    fn without_prompt(&self) -> CommandResult<Option<Secret>> {
        self.given()?.map_or_else(from_environment, |secret| Ok(Some(secret)))
    }

    /// Returns the password or key for the archive `name` before it is opened.
    pub fn for_opening(&self, name: &str) -> CommandResult<Option<Secret>> {
        if self.ask { prompt_password(&format!("Password for {name}: ")).map(Some) } else { self.without_prompt() }
    }

    /// Calls `open` with the password or key for the archive `name`. Prompts if one is needed and
    /// allows three attempts. The outer error is that of a password or prompt, the inner one that
    /// of `open`.
    pub fn open<T>(
        &self,
        name: &str,
        mut open: impl FnMut(Option<Secret>) -> Result<T, Error>,
    ) -> CommandResult<Result<T, Error>> {
        if !self.ask {
            let given = self.without_prompt()?;
            let is_given = given.is_some();
            match open(given) {
                Err(Error::KeyNeeded) if !is_given && !self.silent && can_prompt() => {}
                opened => return Ok(opened),
            }
        }
        let mut opened = open(Some(prompt_password(&format!("Password for {name}: "))?));
        for _ in 1..TRIES {
            if !matches!(opened, Err(Error::WrongKey)) {
                break;
            }
            opened = open(Some(prompt_password(&format!("Wrong password for {name}, try again: "))?));
        }
        Ok(opened)
    }

    /// Prompts for the password of the archive `name`; `None` if there is no terminal.
    pub fn prompt(&self, name: &str) -> CommandResult<Option<Secret>> {
        if self.silent || !can_prompt() { Ok(None) } else { prompt_password(&format!("Password for {name}: ")).map(Some) }
    }

    /// Returns the password or key of a new archive.
    /// Fails if there is none and no terminal.
    pub fn for_new_archive(&self) -> CommandResult<Secret> {
        if !self.ask
            && let Some(secret) = self.without_prompt()?
        {
            return Ok(secret);
        }
        prompt_twice("Password: ")
    }

    /// Returns the keys of the archive `name` in `source`, unlocked; `None` if it is not encrypted.
    pub fn unlock(&self, source: &Arc<dyn ReadAt>, name: &str) -> CommandResult<Option<Keyring>> {
        if !matches!(NraReader::keys(Arc::clone(source)), Ok(Some(_))) {
            return Ok(None);
        }
        let opened =
            self.open(name, |key| NraReader::open(Arc::clone(source), &OpenOptions { key, ..OpenOptions::default() }))?;
        Ok(opened.map_err(|error| explain(error, name))?.keyring().cloned())
    }

    /// As [`KeyArgs::unlock`], for the archive at `path`.
    pub fn unlock_file(&self, path: &Path) -> CommandResult<Option<Keyring>> {
        let name = nra_text::quoted(path);
        let source: Arc<dyn ReadAt> = Arc::new(FileSource::open(path).map_err(|error| explain(error, &name))?);
        self.unlock(&source, &name)
    }
}

impl NewKeyArgs {
    /// Returns the new password or key. Prompts if no option gives it.
    /// Fails if there is none and no terminal.
    pub fn secret(&self) -> CommandResult<Secret> {
        let files = (self.new_password_file.as_deref(), self.new_key_file.as_deref());
        match from_options(self.new_password.as_ref(), files.0, files.1)? {
            Some(secret) => Ok(secret),
            None => prompt_twice("New password: ").map_err(|failure| if can_prompt() { failure } else { no_terminal(NEW_HINT) }),
        }
    }
}

fn from_options(
    password: Option<&Secret>,
    password_file: Option<&Path>,
    key_file: Option<&Path>,
) -> CommandResult<Option<Secret>> {
    if let Some(path) = password_file {
        return password_of(path).map(Some);
    }
    if let Some(path) = key_file {
        return key_of(path).map(Some);
    }
    Ok(password.cloned())
}

/// Returns the key or password from the environment. The key takes precedence.
fn from_environment() -> CommandResult<Option<Secret>> {
    let variable = |name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        Some(Zeroizing::new(value.into_encoded_bytes()))
    };
    if let Some(key) = variable("NRA_ENCRYPTION_KEY") {
        let digits = std::str::from_utf8(&key).ok().and_then(Secret::from_hex);
        let failure = || Failure::key("invalid NRA_ENCRYPTION_KEY: expected 64 hexadecimal digits");
        return digits.map(Some).ok_or_else(failure);
    }
    Ok(variable("NRA_PASSWORD").map(|password| Secret::password(password.as_slice())))
}

fn read_file(path: &Path) -> CommandResult<Zeroizing<Vec<u8>>> {
    let fail = |error| Error::io("read", path.as_os_str().as_bytes(), error);
    let file = File::open(path).map_err(fail)?;
    // The buffer must not grow: its old memory would not be wiped.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize + 1));
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::key(format!("{} is too long to be a password or key", shown(path))));
    }
    Ok(bytes)
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn password_of(path: &Path) -> CommandResult<Secret> {
    let bytes = read_file(path)?;
    match without_line_end(&bytes) {
        b"" => Err(Failure::key(format!("{} contains no password", shown(path)))),
        password => Ok(Secret::password(password)),
    }
}

fn key_of(path: &Path) -> CommandResult<Secret> {
    let bytes = read_file(path)?;
    if let Ok(key) = <[u8; KEY_LEN]>::try_from(&bytes[..]) {
        return Ok(Secret::user_key(key));
    }
    let digits = std::str::from_utf8(without_line_end(&bytes)).ok().and_then(Secret::from_hex);
    let failure = || {
        let failure = Failure::key(format!("{} is not a key: expected 32 bytes or 64 hexadecimal digits", shown(path)));
        failure.hint("create a key with head -c 32 /dev/urandom > FILE")
    };
    digits.ok_or_else(failure)
}

fn shown(path: &Path) -> String {
    nra_text::quoted(path)
}

/// Returns whether there is a terminal for prompts.
fn can_prompt() -> bool {
    (io::stderr().is_terminal() || io::stdin().is_terminal()) && File::open("/dev/tty").is_ok()
}

fn no_terminal(hint: &str) -> Failure {
    Failure::key("cannot prompt for the password: no terminal").hint(hint)
}

fn prompt_password(question: &str) -> CommandResult<Secret> {
    if !can_prompt() {
        return Err(no_terminal(KEY_HINT));
    }
    let terminal = File::open("/dev/tty").and_then(|terminal| {
        let modes = rustix::termios::tcgetattr(&terminal)?;
        Ok((terminal, modes))
    });
    let answer = {
        // An interrupt must not end the process here: it would leave the terminal without echo.
        let _clean_stop = CleanStop::begin();
        let question = question.to_owned();
        wait_for(move || rpassword::prompt_password(question).map(Zeroizing::new)).inspect_err(|_| {
            if let Ok((terminal, modes)) = &terminal {
                // If this fails, the terminal stays without echo; there is no way to report it.
                let _ = rustix::termios::tcsetattr(terminal, rustix::termios::OptionalActions::Now, modes);
            }
        })?
    };
    let answer = answer.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted if signals::stopped() => Error::Cancelled.into(),
        _ => Failure::key(format!("cannot read the password: {error}")),
    })?;
    if answer.is_empty() {
        return Err(Failure::key("no password entered"));
    }
    Ok(Secret::password(answer.as_bytes()))
}

fn prompt_twice(question: &str) -> CommandResult<Secret> {
    let first = prompt_password(question)?;
    let second = prompt_password("Repeat password: ")?;
    match (&first, &second) {
        (Secret::Password(a), Secret::Password(b)) if a == b => Ok(first),
        _ => Err(Failure::key("the passwords do not match")),
    }
}
