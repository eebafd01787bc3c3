//! What is made of errors for the screen.

use nra_format::error::{Error, reason};

/// Says whether something needs a password, and then whether one was given that is wrong.
pub fn sealed(error: &Error) -> Option<bool> {
    match error {
        Error::KeyNeeded => Some(false),
        Error::WrongKey => Some(true),
        _ => None,
    }
}

/// Returns an error with its causes in one harmless line.
pub fn told(error: &(dyn std::error::Error + 'static)) -> String {
    // Those of the system without their numbers.
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
    fn errors_are_told_without_numbers() {
        let error = Error::io("write", "out/a", std::io::Error::from_raw_os_error(28));
        assert_eq!(told(&error), "cannot write out/a: no space left on device");
    }
}
