//! Error messages for the screen.

use nra_format::error::{Error, reason};

/// Returns whether an error means a missing password: `Some(true)` if a wrong one was given.
pub fn missing_password(error: &Error) -> Option<bool> {
    match error {
        Error::KeyNeeded => Some(false),
        Error::WrongKey => Some(true),
        _ => None,
    }
}

/// Returns an error with its causes as one line, escaped for the terminal.
pub fn error_message(error: &(dyn std::error::Error + 'static)) -> String {
    // System errors are shown without their numbers.
    let own = |error: &(dyn std::error::Error + 'static)| error.downcast_ref().map_or_else(|| error.to_string(), reason);
    let mut line = own(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {}", own(error)));
        cause = error.source();
    }
    nra_text::harmless(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_have_no_system_numbers() {
        let error = Error::io("write", "out/a", std::io::Error::from_raw_os_error(28));
        assert_eq!(error_message(&error), "cannot write out/a: no space left on device");
    }
}
