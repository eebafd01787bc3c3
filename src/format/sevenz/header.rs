//! Parses the entries in a header.

use super::streams::{HeaderError, Streams, internal};
use super::{Bits, number, sized};
use nra_core::entry::{Kind, Timestamp};
use nra_core::wire::{Cursor, Malformed};

/// IDs of parts.
const END: u64 = 0;
const ARCHIVE_PROPERTIES: u64 = 2;
const ADDITIONAL_STREAMS: u64 = 3;
const MAIN_STREAMS: u64 = 4;
const FILES: u64 = 5;
/// IDs of the properties of files.
const EMPTY_STREAM: u64 = 0x0e;
const EMPTY_FILE: u64 = 0x0f;
const ANTI: u64 = 0x10;
const NAMES: u64 = 0x11;
const MODIFIED: u64 = 0x14;
const ATTRIBUTES: u64 = 0x15;
/// Attributes of a directory, of a file with a Unix mode in the high half, and of a read-only file.
const DIRECTORY: u32 = 0x10;
const UNIX: u32 = 0x8000;
const READ_ONLY: u32 = 1;
/// Seconds from 1601 to 1970.
const EPOCH: i64 = 11_644_473_600;

/// An entry as stored in the header.
#[derive(Debug)]
pub(super) struct File {
    /// Name, with `/` between its components.
    pub name: Vec<u8>,
    pub modified: Option<Timestamp>,
    /// Windows attributes and Unix mode.
    pub attributes: Option<u32>,
    /// It has content: the next one of the streams.
    pub has_content: bool,
    pub is_directory: bool,
    /// It requests the deletion of an entry.
    pub is_anti: bool,
}

impl File {
    /// Returns the kind and the permissions.
    pub fn kind(&self) -> (Kind, u16) {
        let attributes = self.attributes.unwrap_or_default();
        let mode = u16::try_from(attributes >> 16).expect("the high half");
        let is_unix = attributes & UNIX != 0 && mode != 0;
        let kind = match mode & 0o170_000 {
            0o040_000 if is_unix => Kind::Directory,
            0o120_000 if is_unix && self.has_content => Kind::Symlink,
            0o010_000 if is_unix && !self.has_content => Kind::Fifo,
            0o020_000 if is_unix && !self.has_content => Kind::CharacterDevice,
            0o060_000 if is_unix && !self.has_content => Kind::BlockDevice,
            _ => Kind::File,
        };
        let is_directory = self.is_directory || attributes & DIRECTORY != 0;
        let kind = match kind {
            // Content decides: a directory has none.
            Kind::File | Kind::Directory if is_directory && !self.has_content => Kind::Directory,
            Kind::Directory => Kind::File,
            kind => kind,
        };
        let mode = match kind {
            _ if is_unix => mode & 0o7777,
            Kind::Directory => 0o755,
            _ if attributes & READ_ONLY != 0 => 0o444,
            _ => 0o644,
        };
        (kind, mode)
    }
}

/// Parses a header after its ID and passes each file to `each`. `body` is the length of the packed
/// streams.
pub(super) fn parse(
    text: &[u8],
    body: u64,
    each: &mut dyn FnMut(File) -> nra_core::error::Result<()>,
) -> Result<Streams, HeaderError> {
    let mut cursor = Cursor::new(text);
    let mut streams = Streams::default();
    let mut id = number(&mut cursor)?;
    if id == ARCHIVE_PROPERTIES {
        while number(&mut cursor)? != END {
            sized(&mut cursor, "bytes of properties")?;
        }
        id = number(&mut cursor)?;
    }
    if id == ADDITIONAL_STREAMS {
        return Err(HeaderError::Unsupported("additional streams".into()));
    }
    if id == MAIN_STREAMS {
        streams = Streams::parse(&mut cursor, text, body)?;
        id = number(&mut cursor)?;
    }
    let mut with_content = 0;
    if id == FILES {
        with_content = parse_files(&mut cursor, each)?;
        id = number(&mut cursor)?;
    }
    if id != END {
        return Err(Malformed::from(format!("unexpected part {id:#x} in a header")).into());
    }
    if with_content != streams.contents.len() {
        let contents = streams.contents.len();
        return Err(format!("{with_content} files have content, but there are {contents} contents").into());
    }
    Ok(streams)
}

/// Parses the files. Returns the number of files with content.
fn parse_files(cursor: &mut Cursor<'_>, each: &mut dyn FnMut(File) -> nra_core::error::Result<()>) -> Result<usize, HeaderError> {
    let count = number(cursor)?;
    // Each file has a name of at least two bytes.
    let max = (cursor.remaining() / 2) as u64;
    let count = usize::try_from(count).ok().filter(|_| count <= max);
    let count = count.ok_or_else(|| format!("more files than the {max} that fit in the remaining bytes"))?;
    let none = || Bits(Some(&[]));
    let (mut empty, mut empty_file, mut anti) = (none(), none(), none());
    let mut names: &[u8] = &[];
    let (mut times, mut attributes): (Values<'_>, Values<'_>) = (None, None);
    let mut empties = 0;
    loop {
        let id = number(cursor)?;
        if id == END {
            break;
        }
        let mut part = Cursor::new(sized(cursor, "bytes of a part")?);
        match id {
            EMPTY_STREAM => {
                empty = Bits::read(&mut part, count)?;
                empties = (0..count).filter(|&number| empty.get(number)).count();
            }
            EMPTY_FILE => empty_file = Bits::read(&mut part, empties)?,
            ANTI => anti = Bits::read(&mut part, empties)?,
            NAMES => {
                internal(&mut part)?;
                names = part.take(part.remaining())?;
            }
            MODIFIED => times = Some(parse_values(&mut part, count)?),
            ATTRIBUTES => attributes = Some(parse_values(&mut part, count)?),
            // Access and creation times, comments, padding.
            _ => {}
        }
    }
    let (mut nth_empty, mut with_content) = (0, 0);
    for number in 0..count {
        let has_content = !empty.get(number);
        let name = parse_name(&mut names)?;
        let modified = next_value(&mut times, number, Cursor::u64)?;
        let attributes = next_value(&mut attributes, number, Cursor::u32)?;
        each(File {
            name,
            modified: modified.and_then(time),
            attributes,
            has_content,
            is_directory: !has_content && !empty_file.get(nth_empty),
            is_anti: !has_content && anti.get(nth_empty),
        })
        .map_err(HeaderError::Other)?;
        nth_empty += usize::from(!has_content);
        with_content += usize::from(has_content);
    }
    if !names.is_empty() {
        return Err(Malformed::from("more names than files").into());
    }
    Ok(with_content)
}

/// The values of a property, and the files that have one.
type Values<'a> = Option<(Bits<'a>, Cursor<'a>)>;

fn parse_values<'a>(part: &mut Cursor<'a>, count: usize) -> Result<(Bits<'a>, Cursor<'a>), HeaderError> {
    let known = Bits::read_all_or(part, count)?;
    internal(part)?;
    Ok((known, *part))
}

/// Returns the value of a file if it has one.
fn next_value<'a, T>(
    values: &mut Values<'a>,
    number: usize,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    values.as_mut().filter(|(known, _)| known.get(number)).map(|(_, values)| read(values)).transpose()
}

/// The characters that 7-Zip stores for the bytes 80 to FF of a Unix name that is not UTF-8. They
/// are converted back.
const ESCAPES: std::ops::RangeInclusive<char> = '\u{ef80}'..='\u{efff}';

/// Parses a name: UTF-16 up to a zero. Unpaired surrogates are replaced.
fn parse_name(names: &mut &[u8]) -> Result<Vec<u8>, Malformed> {
    let (units, _) = names.as_chunks::<2>();
    let len = units.iter().position(|unit| *unit == [0, 0]).ok_or("a name without an end")?;
    let units = units[..len].iter().map(|unit| u16::from_le_bytes(*unit));
    let mut name = Vec::with_capacity(len);
    for character in char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)) {
        if ESCAPES.contains(&character) {
            name.push(u8::try_from(u32::from(character) & 0xff).expect("eight bits"));
        } else {
            name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    *names = &names[2 * len + 2..];
    Ok(name)
}

/// Converts a Windows time: units of 100 ns since 1601.
fn time(ticks: u64) -> Option<Timestamp> {
    let ticks = i64::try_from(ticks).ok().filter(|&ticks| ticks > 0)?;
    let nanoseconds = u32::try_from(ticks % 10_000_000 * 100).expect("less than a second");
    Some(Timestamp { seconds: ticks / 10_000_000 - EPOCH, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(attributes: Option<u32>, has_content: bool, is_directory: bool) -> (Kind, u16) {
        let name = b"x".to_vec();
        File { name, modified: None, attributes, has_content, is_directory, is_anti: false }.kind()
    }

    #[test]
    fn attributes_determine_kind_and_mode() {
        let unix = |mode: u32| Some(mode << 16 | UNIX);
        assert_eq!(file(None, true, false), (Kind::File, 0o644));
        assert_eq!(file(None, false, true), (Kind::Directory, 0o755));
        assert_eq!(file(Some(READ_ONLY), true, false), (Kind::File, 0o444));
        assert_eq!(file(Some(DIRECTORY), false, false), (Kind::Directory, 0o755));
        assert_eq!(file(unix(0o100_755), true, false), (Kind::File, 0o755));
        assert_eq!(file(unix(0o040_700), false, true), (Kind::Directory, 0o700));
        assert_eq!(file(unix(0o120_777), true, false), (Kind::Symlink, 0o777));
        assert_eq!(file(unix(0o010_600), false, false), (Kind::Fifo, 0o600));
        // A contradicting kind becomes a file if there is content.
        assert_eq!(file(unix(0o040_700), true, false), (Kind::File, 0o700));
        assert_eq!(file(unix(0o120_777), false, false), (Kind::File, 0o777));
    }

    #[test]
    fn times_and_names_are_converted() {
        assert_eq!(time(0), None);
        assert_eq!(time(116_444_736_000_000_000), Some(Timestamp { seconds: 0, nanoseconds: 0 }));
        assert_eq!(time(116_444_735_999_999_999), Some(Timestamp { seconds: -1, nanoseconds: 999_999_900 }));
        let mut names: &[u8] = &[b'a', 0, 0xe4, 0, 0, 0, 0, 0xd8, 0, 0];
        assert_eq!(parse_name(&mut names).unwrap(), "aä".as_bytes());
        assert_eq!(parse_name(&mut names).unwrap(), "\u{fffd}".as_bytes());
        assert!(parse_name(&mut names).is_err());
        // A character of 7-Zip's range is a byte; its neighbors are text.
        let mut names: &[u8] = &[0x80, 0xef, b'b', 0, 0xff, 0xef, 0x7f, 0xef, 0, 0xf0, 0, 0];
        assert_eq!(parse_name(&mut names).unwrap(), b"\x80b\xff\xee\xbd\xbf\xef\x80\x80");
    }
}
