//! Queries the terminal for its background (OSC 11) and for sixel support (DA1).
//!
//! Both are queried together, before keys are read. Keys typed meanwhile are kept.

use std::io::{self, Write, stdin, stdout};
use std::time::{Duration, Instant};

use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use crate::event::Event;
use crate::key::Key;
use crate::theme::Background;

/// Longest silence of the terminal, tenths of a second. A terminal without support does not
/// respond, but the line may be slow.
const TENTHS: u8 = 5;
/// Longest time for a response, whatever is typed.
const LONGEST: Duration = Duration::from_secs(2);
/// Longest time between two parts of a late response.
const LATE: Duration = Duration::from_millis(300);
/// Longest response, bytes.
const MAX_REPLY: usize = 1024;

/// The response of the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TerminalReply {
    pub background: Option<Background>,
    pub sixel: bool,
    /// Keys that were pressed meanwhile.
    pub typed: Vec<Key>,
}

/// Queries the terminal for sixel support, and for its background if `background`. It does nothing
/// if keys are waiting, which the response would be mixed with. Call it in raw mode, while nothing
/// else reads from the terminal.
pub fn query(background: bool) -> io::Result<TerminalReply> {
    if crossterm::event::poll(Duration::ZERO).unwrap_or(true) {
        return Ok(TerminalReply::default());
    }
    let before = tcgetattr(stdin())?;
    let mut timed = before.clone();
    // A read returns available bytes, or nothing after a time-out.
    timed.special_codes[SpecialCodeIndex::VMIN] = 0;
    timed.special_codes[SpecialCodeIndex::VTIME] = TENTHS;
    tcsetattr(stdin(), OptionalActions::Now, &timed)?;
    let reply = ask(background);
    tcsetattr(stdin(), OptionalActions::Now, &before)?;
    Ok(parse_reply(&reply?))
}

fn ask(background: bool) -> io::Result<Vec<u8>> {
    // Every terminal responds to the second query, and in order, which distinguishes silence from
    // slowness.
    let queries: &[u8] = if background { b"\x1b]11;?\x1b\\\x1b[c" } else { b"\x1b[c" };
    stdout().write_all(queries)?;
    stdout().flush()?;
    let (mut reply, mut part, started) = (Vec::new(), [0; 256], Instant::now());
    while reply.len() < MAX_REPLY && attributes(&reply).is_none() && started.elapsed() < LONGEST {
        match rustix::io::read(stdin(), &mut part) {
            Ok(0) => break,
            Ok(len) => reply.extend(&part[..len]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(reply)
}

/// Separates responses from keys.
fn parse_reply(bytes: &[u8]) -> TerminalReply {
    let mut rest = bytes.to_vec();
    let sixel = attributes(&rest).is_some_and(|(start, end)| {
        let reply: Vec<u8> = rest.drain(start..=end).collect();
        // The first number is the class of the terminal, the others are its features.
        reply[3..reply.len() - 1].split(|byte| *byte == b';').skip(1).any(|number| number == b"4")
    });
    let background = color(&rest).and_then(|(start, end)| {
        let reply: Vec<u8> = rest.drain(start..end).collect();
        let text = std::str::from_utf8(&reply[5..]).ok()?;
        let text = text.trim_end_matches(['\x07', '\\', '\x1b']);
        Some(if lightness(text)? > 0.5 { Background::Light } else { Background::Dark })
    });
    TerminalReply { background, sixel, typed: Key::decode(&rest) }
}

/// Returns whether a key may be the start of a late response: `ESC ]`.
pub fn begins_late(event: &Event) -> bool {
    is_key(event, "alt-]")
}

/// Reads the rest of a late response from `next`, which returns `None` after a time-out. Returns
/// the keys if it was not a response.
pub fn rest_of_late(next: &mut dyn FnMut(Duration) -> io::Result<Option<Event>>) -> io::Result<Option<Vec<Event>>> {
    let mut events = Vec::new();
    while events.len() < MAX_REPLY
        && let Some(event) = next(LATE)?
    {
        if is_key(&event, "ctrl-g") || is_key(&event, "alt-\\") {
            return Ok(None);
        }
        let follows = events.len() >= 3 || is_key(&event, ["1", "1", ";"][events.len()]);
        events.push(event);
        if !follows {
            break;
        }
    }
    Ok(Some(events))
}

fn is_key(event: &Event, name: &str) -> bool {
    matches!(event, Event::Key(key) if name.parse() == Ok(*key))
}

/// Returns the position of a response to DA1, `ESC [ ? 62 ; 4 c`: its first and last byte.
fn attributes(bytes: &[u8]) -> Option<(usize, usize)> {
    let start = find(bytes, b"\x1b[?")?;
    let end = bytes[start + 3..].iter().position(|byte| !byte.is_ascii_digit() && *byte != b';')? + start + 3;
    (bytes[end] == b'c').then_some((start, end))
}

/// Returns start and end of a response to OSC 11: `ESC ] 11 ; rgb:… BEL`, or `ESC \` instead of
/// BEL.
fn color(bytes: &[u8]) -> Option<(usize, usize)> {
    let start = find(bytes, b"\x1b]11;")?;
    let rest = &bytes[start + 5..];
    let end = rest.iter().position(|byte| matches!(byte, 0x07 | 0x1b))? + start + 5;
    Some((start, if bytes[end..].starts_with(b"\x1b\\") { end + 2 } else { end + 1 }))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

/// Returns the perceived lightness of `rgb:ffff/ffff/ffff`, 0 to 1. A channel has one to four
/// digits.
fn lightness(text: &str) -> Option<f64> {
    let channels = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
    let mut values = channels.split('/').map(|digits| {
        let most = 16u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1).filter(|most| *most > 0)?;
        Some(f64::from(u32::from_str_radix(digits, 16).ok()?) / f64::from(most))
    });
    let mut next = || values.next().flatten();
    Some(0.299 * next()? + 0.587 * next()? + 0.114 * next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &str) -> Vec<Key> {
        names.split_whitespace().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn late_response_is_not_a_key() {
        let take = |typed: &str| {
            let mut typed = keys(typed).into_iter().map(Event::Key);
            let left = rest_of_late(&mut |_| Ok(typed.next())).unwrap().unwrap_or_default();
            let named = |event: Event| if let Event::Key(key) = event { key.to_string() } else { unreachable!() };
            left.into_iter().chain(typed).map(named).collect::<Vec<_>>().join(" ")
        };
        assert!(begins_late(&Event::Key("alt-]".parse().unwrap())) && !begins_late(&Event::Key("]".parse().unwrap())));
        for end in ["ctrl-g", "alt-\\"] {
            assert_eq!(take(&format!("1 1 ; r g b : 0 0 / f f / 0 0 {end} j d")), "j d");
        }
        // Typed by the user.
        assert_eq!([take(""), take("j d"), take("1 d"), take("1 1 ; r")], ["", "j d", "1 d", "1 1 ; r"]);
    }

    #[test]
    fn sixel_support_is_detected() {
        let reply = |bytes: &[u8]| (parse_reply(bytes).sixel, parse_reply(bytes).typed);
        assert_eq!(reply(b"\x1b[?62;4;22c"), (true, vec![]));
        assert_eq!(reply(b"\x1b[?64;1;2;6c"), (false, vec![]));
        // The class of a terminal is no ability, nor is 14 or 42.
        assert_eq!(reply(b"\x1b[?4;14;42c"), (false, vec![]));
        assert_eq!(reply(b"j\x1b[?1;4ck"), (true, keys("j k")));
        for cut in 0..8 {
            assert!(!reply(&b"\x1b[?62;4c"[..cut]).0);
        }
    }

    #[test]
    fn background_is_detected_and_keys_are_kept() {
        for (reply, background) in [
            ("rgb:ffff/ffff/ffff\x07", Some(Background::Light)),
            ("rgb:1e1e/1e1e/2e2e\x1b\\", Some(Background::Dark)),
            ("rgb:f/f/8\x07", Some(Background::Light)),
            ("rgba:0000/0000/0000/ffff\x07", Some(Background::Dark)),
            ("rgb:/0/0\x07", None),
            ("white\x07", None),
            ("rgb:fffffffffffffff/0/0\x07", None),
        ] {
            let bytes = format!("j\x1b]11;{reply}/\x1b[?62;4ck\r");
            assert_eq!(
                parse_reply(bytes.as_bytes()),
                TerminalReply { background, sixel: true, typed: keys("j / k enter") },
                "{reply:?}"
            );
        }
        // Silence, with keys.
        assert_eq!(parse_reply(b"\x1b[B\x1b[5~G").typed, keys("down pageup G"));
    }
}
