//! Translates command lines of nra before version 5 into the current form.
//!
//! Only the old commands accept the old options. `pack` and `info` exist in both: their old form is
//! detected by `-i`, which the current commands do not have.

use std::ffi::{OsStr, OsString};

/// An old option.
struct OldOption {
    /// Its spellings.
    names: &'static [&'static str],
    /// It takes a value.
    takes_value: bool,
    becomes: Becomes,
}

/// The current form of an old option.
enum Becomes {
    /// The value alone.
    Value,
    /// The value alone, before all other arguments.
    First,
    /// An option with the same value.
    Option(&'static str),
    /// One of these options, depending on the value.
    Choice(&'static [(&'static str, &'static str)]),
    /// This argument without a value.
    Flag(&'static str),
}

const INPUT: OldOption = OldOption { names: &["-i", "--input"], takes_value: true, becomes: Becomes::Value };
const ARCHIVE: OldOption = OldOption { names: &["-a", "--archive", "-u", "--url"], takes_value: true, becomes: Becomes::First };
const ENTRY: OldOption = OldOption { names: &["--file-id"], takes_value: true, becomes: Becomes::Value };
const UNPACK: [OldOption; 4] =
    [INPUT, ARCHIVE, ENTRY, OldOption { names: &["-o", "--output"], takes_value: true, becomes: Becomes::Option("--directory") }];
const READ: [OldOption; 3] = [INPUT, ARCHIVE, ENTRY];
const APPEND: [OldOption; 5] = [INPUT, ARCHIVE, LEVEL, DICTIONARY, AIM];
const LEVEL: OldOption = OldOption { names: &["--zstd-level"], takes_value: true, becomes: Becomes::Option("--level") };
const DICTIONARY: OldOption = OldOption { names: &["--dictionary"], takes_value: false, becomes: Becomes::Flag("--dict=auto") };
const AIM: OldOption = OldOption {
    names: &["--optimize-for"],
    takes_value: true,
    becomes: Becomes::Choice(&[("speed", "--fast"), ("size", "--best")]),
};
const PACK: [OldOption; 5] = [
    INPUT,
    // The title of the archive.
    OldOption { names: &["-n", "--name"], takes_value: true, becomes: Becomes::Option("--message") },
    LEVEL,
    DICTIONARY,
    AIM,
];

/// Returns the arguments in their current form.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(position) = arguments.iter().skip(1).position(|argument| !argument.as_encoded_bytes().starts_with(b"-")) else {
        return arguments;
    };
    let verb = position + 1;
    let has_input =
        || arguments[verb..].iter().any(|argument| split(argument).is_some_and(|(name, _)| INPUT.names.contains(&name)));
    let old: &[OldOption] = match arguments[verb].to_str() {
        Some("unpack" | "unpack-beta") => &UNPACK,
        Some("info-beta" | "stream" | "stream-beta") => &READ,
        Some("info") if has_input() => &READ,
        Some("append") => &APPEND,
        Some("pack-beta") => &PACK,
        Some("pack") if has_input() => &PACK,
        _ => return arguments,
    };
    let (mut current, rest): (Vec<OsString>, _) = (arguments[..=verb].to_vec(), arguments[verb + 1..].to_vec());
    let mut rest = rest.into_iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            current.push(argument);
            current.extend(rest.by_ref());
            break;
        }
        let found = split(&argument).and_then(|(name, value)| Some((old.iter().find(|old| old.names.contains(&name))?, value)));
        let Some((old, value)) = found else {
            current.push(argument);
            continue;
        };
        let value = if old.takes_value { value.map(OsStr::to_owned).or_else(|| rest.next()) } else { None };
        match (&old.becomes, value) {
            (Becomes::Flag(flag), _) => current.push((*flag).into()),
            (Becomes::Value, Some(value)) => current.push(value),
            (Becomes::First, Some(value)) => current.insert(verb + 1, value),
            (Becomes::Option(name), Some(value)) => current.extend([OsString::from(name), value]),
            (Becomes::Choice(choices), Some(value)) => {
                let chosen = choices.iter().find(|(name, _)| value == *name);
                current.push(chosen.map_or(value, |(_, option)| OsString::from(option)));
            }
            // The value is missing: the parser reports it.
            (_, None) => current.push(argument),
        }
    }
    current
}

/// Splits `--name=value`. Returns other arguments as name, and `None` if they are not UTF-8.
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
    fn old_command_lines_are_translated() {
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
            // Current forms stay unchanged.
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
