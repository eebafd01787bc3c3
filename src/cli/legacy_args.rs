//! Command lines of earlier versions: their verbs with their options, turned into those of today.
//!
//! Today's verbs keep today's options. `pack` and `info` were verbs already: there `-i`, which they do not have today, tells the old form.

use std::ffi::{OsStr, OsString};

/// An option of an earlier version.
struct Old {
    /// Its spellings.
    names: &'static [&'static str],
    /// It has a value.
    valued: bool,
    becomes: Becomes,
}

/// What an old option is today.
enum Becomes {
    /// The value alone.
    Value,
    /// The value alone, in front of all others.
    First,
    /// An option with the same value.
    Option(&'static str),
    /// These options by value.
    Choice(&'static [(&'static str, &'static str)]),
    /// This argument, which has no value of its own.
    Flag(&'static str),
}

const INPUT: Old = Old { names: &["-i", "--input"], valued: true, becomes: Becomes::Value };
const ARCHIVE: Old = Old { names: &["-a", "--archive", "-u", "--url"], valued: true, becomes: Becomes::First };
const ENTRY: Old = Old { names: &["--file-id"], valued: true, becomes: Becomes::Value };
const UNPACK: [Old; 4] =
    [INPUT, ARCHIVE, ENTRY, Old { names: &["-o", "--output"], valued: true, becomes: Becomes::Option("--directory") }];
const READ: [Old; 3] = [INPUT, ARCHIVE, ENTRY];
const APPEND: [Old; 5] = [INPUT, ARCHIVE, LEVEL, DICTIONARY, AIM];
const LEVEL: Old = Old { names: &["--zstd-level"], valued: true, becomes: Becomes::Option("--level") };
const DICTIONARY: Old = Old { names: &["--dictionary"], valued: false, becomes: Becomes::Flag("--dict=auto") };
const AIM: Old =
    Old { names: &["--optimize-for"], valued: true, becomes: Becomes::Choice(&[("speed", "--fast"), ("size", "--best")]) };
const PACK: [Old; 5] = [
    INPUT,
    // The title of the archive.
    Old { names: &["-n", "--name"], valued: true, becomes: Becomes::Option("--message") },
    LEVEL,
    DICTIONARY,
    AIM,
];

/// Returns the arguments as today's version understands them.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(place) = arguments.iter().skip(1).position(|argument| !argument.as_encoded_bytes().starts_with(b"-")) else {
        return arguments;
    };
    let verb = place + 1;
    let has_input =
        || arguments[verb..].iter().any(|argument| split(argument).is_some_and(|(name, _)| INPUT.names.contains(&name)));
    let old: &[Old] = match arguments[verb].to_str() {
        Some("unpack" | "unpack-beta") => &UNPACK,
        Some("info-beta" | "stream" | "stream-beta") => &READ,
        Some("info") if has_input() => &READ,
        Some("append") => &APPEND,
        Some("pack-beta") => &PACK,
        Some("pack") if has_input() => &PACK,
        _ => return arguments,
    };
    let (mut today, rest): (Vec<OsString>, _) = (arguments[..=verb].to_vec(), arguments[verb + 1..].to_vec());
    let mut rest = rest.into_iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            today.push(argument);
            today.extend(rest.by_ref());
            break;
        }
        let found = split(&argument).and_then(|(name, value)| Some((old.iter().find(|old| old.names.contains(&name))?, value)));
        let Some((old, value)) = found else {
            today.push(argument);
            continue;
        };
        let value = if old.valued { value.map(OsStr::to_owned).or_else(|| rest.next()) } else { None };
        match (&old.becomes, value) {
            (Becomes::Flag(flag), _) => today.push((*flag).into()),
            (Becomes::Value, Some(value)) => today.push(value),
            (Becomes::First, Some(value)) => today.insert(verb + 1, value),
            (Becomes::Option(name), Some(value)) => today.extend([OsString::from(name), value]),
            (Becomes::Choice(choices), Some(value)) => {
                let chosen = choices.iter().find(|(name, _)| value == *name);
                today.push(chosen.map_or(value, |(_, option)| OsString::from(option)));
            }
            // A value is missing: what is left says so by itself.
            (_, None) => today.push(argument),
        }
    }
    today
}

/// Splits `--name=value`; other arguments are names alone. `None` for what is no text before the value.
fn split(argument: &OsStr) -> Option<(&str, Option<&OsStr>)> {
    let text = argument.to_str()?;
    match text.split_once('=').filter(|_| text.starts_with("--")) {
        Some((name, value)) => Some((name, Some(OsStr::new(value)))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lines_run_unchanged() {
        for (old, today) in [
            ("nra unpack-beta -i a.nra -o out", "nra unpack-beta a.nra --directory out"),
            ("nra unpack --input=a.nra --output=out -q", "nra unpack a.nra --directory out -q"),
            ("nra info-beta -i a.nra --verbose", "nra info-beta a.nra --verbose"),
            ("nra info -i a.nra", "nra info a.nra"),
            ("nra pack-beta -i d -o a.nra -n Title --codec lz4", "nra pack-beta d -o a.nra --message Title --codec lz4"),
            ("nra pack -i d -o a.nra --optimize-for speed", "nra pack d -o a.nra --fast"),
            ("nra pack-beta -i d -o a.nra --zstd-level 9 --dictionary", "nra pack-beta d -o a.nra --level 9 --dict=auto"),
            ("nra append -i d -a a.nra", "nra append a.nra d"),
            ("nra append a.nra -i d --zstd-level 3", "nra append a.nra d --level 3"),
            ("nra unpack --archive a.nra -o x --file-id y", "nra unpack a.nra --directory x y"),
            ("nra stream-beta --file-id 1 -u http://h/a.nra", "nra stream-beta http://h/a.nra 1"),
            ("nra -q unpack -i", "nra -q unpack -i"),
            // Today's forms stay.
            ("nra pack d -n -o a.nra", "nra pack d -n -o a.nra"),
            ("nra extract -i a.nra", "nra extract -i a.nra"),
            ("nra unpack a.nra -- -i x", "nra unpack a.nra -- -i x"),
            ("nra grep a.nra -i x", "nra grep a.nra -i x"),
            ("nra --help", "nra --help"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(translate(words(old)), words(today), "{old}");
        }
    }
}
