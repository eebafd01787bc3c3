//! Values as text: sizes, counts, times, names.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use serde::Serialize;

use nra_core::entry::{Kind, Timestamp};
use nra_core::path::{Quoted, is_unsafe_to_show};

/// How sizes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SizeStyle {
    /// Powers of 1,024: `1.5 KiB`.
    #[default]
    Binary,
    /// Powers of 1,000: `1.5 kB`.
    Decimal,
    /// Bytes: `1536 B`, in a column `1536`.
    Exact,
}

impl SizeStyle {
    /// Returns `bytes` as text for a column: exact sizes have no unit.
    pub fn column(self, bytes: u64) -> String {
        if self == Self::Exact { bytes.to_string() } else { self.show(bytes) }
    }

    /// Returns `bytes` as text.
    pub fn show(self, bytes: u64) -> String {
        let (step, units) = match self {
            Self::Exact => return format!("{bytes} B"),
            Self::Binary => (1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
            Self::Decimal => (1000.0, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]),
        };
        let mut value = bytes as f64;
        let mut unit = 0;
        // Rounding must not show 1024.0 of the smaller unit.
        while value >= step - 0.05 && unit + 1 < units.len() && (unit > 0 || value >= step) {
            value /= step;
            unit += 1;
        }
        if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
    }
}

/// Message for text that is not a size.
const NO_SIZE: &str = "invalid size (examples: 4096, 64K, 1.5G)";

/// Parses a size: a number with an optional unit. `K`, `KiB` … `E` are powers of 1024; `kB`, `MB` …
/// are powers of 1000.
///
/// # Errors
///
/// The reason why the text is not a size.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    if number.is_empty() {
        return Err(NO_SIZE.to_owned());
    }
    let (prefix, step) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => ("", 1024u64),
        lower if lower.len() == 2 && lower.ends_with('b') => (&unit[..1], 1000),
        lower if lower.len() == 1 || (lower.len() == 3 && lower.ends_with("ib")) => (&unit[..1], 1024),
        _ => return Err(format!("unknown unit '{unit}' (use K, M, G, T, P or E, optionally followed by iB or B)")),
    };
    let power = match prefix.to_ascii_lowercase().as_str() {
        "" => 0,
        other => match "kmgtpe".find(other) {
            Some(at) => at + 1,
            None => return Err(format!("unknown unit '{unit}' (use K, M, G, T, P or E, optionally followed by iB or B)")),
        },
    };
    let factor = step.checked_pow(u32::try_from(power).expect("at most 6")).expect("1024^6 fits 64 bits");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| "too large".to_owned());
    }
    let value = number.parse::<f64>().map_err(|_| NO_SIZE.to_owned())? * factor as f64;
    // Fractions of a byte are dropped. Values that do not fit saturate and are rejected.
    if value < u64::MAX as f64 { Ok(value as u64) } else { Err("too large".to_owned()) }
}

/// Parses a point in time: a date, a time (in UTC, unless it has a zone), `@SECONDS` since 1970, or
/// an age such as `90m`, `12h`, `7d` or `2w`.
///
/// # Errors
///
/// Lists examples if the text is not a time.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let bad = || "invalid time (examples: 2026-01-31, 2026-01-31T12:00:00Z, @1700000000, 7d)".to_owned();
    let utc = jiff::tz::TimeZone::UTC;
    let time = if let Some(seconds) = text.strip_prefix('@') {
        return Ok(Timestamp { seconds: seconds.parse().map_err(|_| bad())?, nanoseconds: 0 });
    } else if let Some(ago) = parse_ago(text) {
        jiff::Timestamp::now().checked_sub(std::time::Duration::from_secs(ago)).map_err(|_| bad())?
    } else if let Ok(time) = text.parse::<jiff::Timestamp>() {
        time
    } else if let Ok(time) = text.parse::<jiff::civil::DateTime>() {
        utc.to_timestamp(time).map_err(|_| bad())?
    } else {
        let date = text.parse::<jiff::civil::Date>().map_err(|_| bad())?;
        utc.to_timestamp(date.at(0, 0, 0, 0)).map_err(|_| bad())?
    };
    // Before 1970, jiff's seconds and nanoseconds are both negative. Ours count up from the
    // preceding second.
    let nanoseconds = i64::from(time.subsec_nanosecond());
    let seconds = time.as_second() - i64::from(nanoseconds < 0);
    Ok(Timestamp { seconds, nanoseconds: u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).expect("below 10^9") })
}

/// Parses `90m`, `12h`, `7d`, `2w` into seconds.
fn parse_ago(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(factor)
}

/// Returns a number with its digits in groups of three.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a number with the singular or plural of a word: `1 entry`, `2 entries`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Returns a part of a whole as percentage with one decimal: `87.6 %`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// Returns a share as a percentage; `None` if it exceeds the whole.
pub fn share(part: u64, whole: u64) -> Option<String> {
    (part <= whole && whole > 0).then(|| percent(part, whole))
}

/// Returns a part of a whole as percentage without decimals: `88 %`.
pub fn whole_percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// Returns a duration for people: `0.42 s`, `3.1 s`, `2:05`, `1:02:05`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{:.2} s", duration.as_secs_f64()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

fn instant(time: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(time.seconds, i32::try_from(time.nanoseconds).ok()?).ok()
}

/// Returns a time in RFC 3339, UTC, with as many decimals as needed. Times after the year 9999 are
/// seconds: `@SECONDS`.
pub fn rfc3339(time: Timestamp) -> String {
    instant(time).map_or_else(|| format!("@{}", time.seconds), |time| time.to_string())
}

/// Returns a time for a table, to the second, UTC: `2026-11-28 03:30:00`.
pub fn table_time(time: Timestamp) -> String {
    instant(time).map_or_else(|| format!("@{}", time.seconds), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Returns kind and permissions as `ls -l` does: `-rw-r--r--`.
pub fn mode(kind: Kind, mode: u16) -> String {
    let mut text = String::with_capacity(10);
    text.push(match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::CharacterDevice => 'c',
        Kind::BlockDevice => 'b',
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Returns the name of a kind, as in JSON.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::CharacterDevice => "character-device",
        Kind::BlockDevice => "block-device",
    }
}

/// Escapes characters that could affect a terminal, for example as `\x1b`.
pub fn harmless(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => clean.push_str("\\n"),
            '\t' => clean.push_str("\\t"),
            '\r' => clean.push_str("\\r"),
            c if is_unsafe_to_show(c) => {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    let _ = write!(clean, "\\x{byte:02x}");
                }
            }
            c => clean.push(c),
        }
    }
    clean
}

/// Zero-width joiner: combines two pictures into one.
const JOINER: char = '\u{200d}';

/// Returns bytes as one line of text for a screen: control characters as their symbols (`␊`),
/// characters that reorder text as `·`, invalid UTF-8 as `\xff`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        let mut before = ' ';
        let mut chars = part.valid().chars().peekable();
        while let Some(c) = chars.next() {
            // Joiners between pictures are dropped: terminals disagree on the width of a joined
            // picture.
            let joins = c == JOINER && is_pictorial(before) && chars.peek().is_some_and(|next| is_pictorial(*next));
            if !joins {
                text.push(printable_char(c));
            }
            before = c;
        }
        for byte in part.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns the character that represents `c` on a screen.
pub fn printable_char(c: char) -> char {
    match c {
        '\u{7f}' => '\u{2421}',
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('·'),
        c if is_unsafe_to_show(c) => '·',
        c => c,
    }
}

/// Returns whether `c` is a picture or a modifier of one.
fn is_pictorial(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns a name for a line of output: raw or quoted (`$'a\nb'`, see [`Quoted`]).
///
/// For a terminal, names that would not display correctly are quoted. Elsewhere, names with control
/// characters are quoted, because each line is a name and the output of a pipe may end on a
/// terminal. Names that look quoted are quoted again, so that [`unquoted`] restores every name.
pub fn name(bytes: &[u8], terminal: bool) -> Cow<'_, [u8]> {
    let is_plain = !bytes.is_empty()
        && !bytes.starts_with(b"$'")
        && match std::str::from_utf8(bytes) {
            _ if !terminal => !bytes.iter().any(u8::is_ascii_control),
            Ok(text) => !text.chars().any(is_unsafe_to_show),
            Err(_) => false,
        };
    if is_plain { Cow::Borrowed(bytes) } else { Cow::Owned(Quoted::in_dollars(bytes).to_string().into_bytes()) }
}

/// Returns a path or argument for a message, quoted if necessary.
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    Quoted::new(text.as_ref().as_encoded_bytes()).to_string()
}

/// Returns the name in a line of output or a word. Reverses [`name`].
pub fn unquoted(line: &[u8]) -> Cow<'_, [u8]> {
    nra_core::path::unquoted(line).map_or(Cow::Borrowed(line), Cow::Owned)
}

/// Removes the middle of a text that is longer than `limit` characters.
pub fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= limit {
        return Cow::Borrowed(text);
    }
    let start = limit / 2;
    let end = limit.saturating_sub(start + 1);
    Cow::Owned(text.chars().take(start).chain(['…']).chain(text.chars().skip(length - end)).collect())
}

/// The path of an archive in JSON: text, and the exact bytes if they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArchiveField {
    archive: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_b64: Option<String>,
}

impl ArchiveField {
    /// Wraps the path of an archive.
    pub fn new(path: &Path) -> Self {
        let field = PathField::new(path.as_os_str().as_encoded_bytes());
        Self { archive: field.path.into_owned(), archive_b64: field.path_b64 }
    }
}

/// A path in JSON: text, and the exact bytes if they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathField<'a> {
    /// The path. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub path: Cow<'a, str>,
    /// The bytes in base64 if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_b64: Option<String>,
}

impl<'a> PathField<'a> {
    /// Wraps the bytes of a path.
    pub fn new(bytes: &'a [u8]) -> Self {
        let path = String::from_utf8_lossy(bytes);
        let path_b64 = matches!(path, Cow::Owned(_)).then(|| base64::engine::general_purpose::STANDARD.encode(bytes));
        Self { path, path_b64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_and_parsed() {
        for (bytes, binary, decimal) in [
            (0, "0 B", "0 B"),
            (1000, "1000 B", "1.0 kB"),
            (1023, "1023 B", "1.0 kB"),
            (1536, "1.5 KiB", "1.5 kB"),
            (1_048_575, "1.0 MiB", "1.0 MB"),
            (u64::MAX, "16.0 EiB", "18.4 EB"),
        ] {
            assert_eq!(SizeStyle::Binary.show(bytes), binary);
            assert_eq!(SizeStyle::Decimal.show(bytes), decimal);
            assert_eq!(SizeStyle::Exact.show(bytes), format!("{bytes} B"));
            assert_eq!(SizeStyle::Exact.column(bytes), bytes.to_string());
            assert_eq!(SizeStyle::Binary.column(bytes), binary);
        }
        for (text, bytes) in
            [("0", 0), ("10", 10), ("1K", 1024), ("1KiB", 1024), ("1kB", 1000), ("1.5M", 3 << 19), ("2 GiB", 2 << 30), ("7b", 7)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "1X", "1.2.3", "99999999999E", "-1", "1KiBB", "é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn long_names_are_shortened_in_the_middle() {
        assert_eq!(shorten("short", 10), "short");
        assert_eq!(shorten("abcdefghijklmnop", 9), "abcd…mnop");
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (60_000, "60,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), shown);
        }
        assert_eq!(counted(1, "entry", "entries"), "1 entry");
        assert_eq!(percent(876, 1000), "87.6 %");
        assert_eq!(percent(1, 0), "-");
        assert_eq!((share(876, 1000).as_deref(), share(1001, 1000), share(0, 0)), (Some("87.6 %"), None, None));
    }

    #[test]
    fn times_are_utc() {
        let time = Timestamp { seconds: 0, nanoseconds: 500_000_000 };
        assert_eq!(rfc3339(time), "1970-01-01T00:00:00.5Z");
        assert_eq!(table_time(time), "1970-01-01 00:00:00");
        assert_eq!(rfc3339(Timestamp { seconds: i64::MAX, nanoseconds: 0 }), format!("@{}", i64::MAX));
        assert_eq!(duration(Duration::from_millis(3100)), "3.1 s");
        assert_eq!(duration(Duration::from_secs(3725)), "1:02:05");
    }

    #[test]
    fn times_are_parsed_as_utc() {
        let at = |seconds, nanoseconds| Ok(Timestamp { seconds, nanoseconds });
        assert_eq!(parse_time("1970-01-02"), at(86_400, 0));
        assert_eq!(parse_time("1970-01-01T00:00:01.5Z"), at(1, 500_000_000));
        assert_eq!(parse_time("1970-01-01T00:00:01"), at(1, 0));
        assert_eq!(parse_time("1969-12-31T23:59:59.5Z"), at(-1, 500_000_000));
        assert_eq!(parse_time("@-5"), at(-5, 0));
        assert!(
            parse_time("7d").is_ok() && parse_time("yesterday").is_err() && parse_time("").is_err() && parse_time("é").is_err()
        );
    }

    #[test]
    fn modes_are_formatted_like_ls() {
        assert_eq!(mode(Kind::File, 0o644), "-rw-r--r--");
        assert_eq!(mode(Kind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode(Kind::File, 0o6700), "-rws--S---");
    }

    #[test]
    fn names_are_raw_or_quoted() {
        for (bytes, terminal, expected) in [
            (&b"a b"[..], false, &b"a b"[..]),
            (b"a 'b'", true, b"a 'b'"),
            ("ä/ö".as_bytes(), true, "ä/ö".as_bytes()),
            (b"a\x1b[0m", true, b"$'a\\x1b[0m'"),
            (b"a\x1b[0m", false, b"$'a\\x1b[0m'"),
            (b"a\nb", false, b"$'a\\nb'"),
            (b"$'a'", false, b"$'$\\'a\\''"),
            (b"$'", false, b"$'$\\''"),
            ("a\u{200d}b".as_bytes(), false, "a\u{200d}b".as_bytes()),
            ("a\u{200d}b".as_bytes(), true, b"$'a\\xe2\\x80\\x8db'"),
            (b"\xff", true, b"$'\\xff'"),
            (b"\xff", false, b"\xff"),
        ] {
            let shown = name(bytes, terminal);
            assert_eq!(&*shown, expected);
            assert_eq!(&*unquoted(&shown), bytes);
        }
        assert_eq!(PathField::new(b"\xff").path_b64.as_deref(), Some("/w=="));
    }
}
