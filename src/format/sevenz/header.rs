//! The entries of an archive: the part of a header that tells of files.

use super::streams::{Refused, Streams, internal};
use super::{Bits, number, sized};
use nra_core::entry::{Kind, Timestamp};
use nra_core::wire::{Cursor, Malformed};

/// Ids of parts.
const END: u64 = 0;
const ARCHIVE_PROPERTIES: u64 = 2;
const ADDITIONAL_STREAMS: u64 = 3;
const MAIN_STREAMS: u64 = 4;
const FILES: u64 = 5;
/// Ids of what is told of all files.
const EMPTY_STREAM: u64 = 0x0e;
const EMPTY_FILE: u64 = 0x0f;
const ANTI: u64 = 0x10;
const NAMES: u64 = 0x11;
const MODIFIED: u64 = 0x14;
const ATTRIBUTES: u64 = 0x15;
/// Attribute of a directory, and of one whose high half is a Unix mode.
const DIRECTORY: u32 = 0x10;
const UNIX: u32 = 0x8000;
const READ_ONLY: u32 = 1;
/// 100 ns from 1601 to 1970.
const EPOCH: i64 = 11_644_473_600;

/// An entry as the header has it.
#[derive(Debug)]
pub(super) struct File {
    /// Name, with `/` between its parts.
    pub name: Vec<u8>,
    pub modified: Option<Timestamp>,
    /// Windows attributes, and a Unix mode.
    pub attributes: Option<u32>,
    /// It has content: the next part of the streams.
    pub has_content: bool,
    pub is_directory: bool,
    /// It says that an entry is to be removed.
    pub is_anti: bool,
}

impl File {
    /// Returns what it is and its permissions.
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
            // Content is what decides: a directory has none.
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

/// Parses a header behind its id. `body`: bytes of content that the archive has. Each file is handed out together with the streams.
pub(super) fn parse(
    text: &[u8],
    body: u64,
    each: &mut dyn FnMut(File) -> nra_core::error::Result<()>,
) -> Result<Streams, Stopped> {
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
        return Err(Refused::Unsupported("parts in streams of their own".into()).into());
    }
    if id == MAIN_STREAMS {
        streams = Streams::parse(&mut cursor, text, body)?;
        id = number(&mut cursor)?;
    }
    let mut with_content = 0;
    if id == FILES {
        with_content = files(&mut cursor, each)?;
        id = number(&mut cursor)?;
    }
    if id != END {
        return Err(Malformed::from(format!("part {id:#x} is not expected in a header")).into());
    }
    if with_content != streams.parts.len() {
        let members = streams.parts.len();
        return Err(format!("{with_content} files have content, and there are {members} contents").into());
    }
    Ok(streams)
}

/// Why a header was not read to its end.
pub(super) enum Stopped {
    Refused(Refused),
    Failed(nra_core::error::Error),
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Malformed> for Stopped {
    fn from(malformed: Malformed) -> Self {
        Self::Refused(malformed.into())
    }
}

/// Takes the files; returns how many have content.
fn files(cursor: &mut Cursor<'_>, each: &mut dyn FnMut(File) -> nra_core::error::Result<()>) -> Result<usize, Stopped> {
    let count = number(cursor)?;
    // Each has a name, of which its end alone takes two bytes.
    let most = (cursor.remaining() / 2) as u64;
    let count = usize::try_from(count).ok().filter(|_| count <= most);
    let count = count.ok_or_else(|| format!("more files than the {most} that fit into the bytes that follow"))?;
    let none = Bits(Some(&[]));
    let (mut empty, mut empty_file, mut anti) = (none, Bits(Some(&[])), Bits(Some(&[])));
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
                empty = Bits::take(&mut part, count)?;
                empties = (0..count).filter(|&number| empty.get(number)).count();
            }
            EMPTY_FILE => empty_file = Bits::take(&mut part, empties)?,
            ANTI => anti = Bits::take(&mut part, empties)?,
            NAMES => {
                internal(&mut part)?;
                names = part.take(part.remaining())?;
            }
            MODIFIED => times = Some(values(&mut part, count)?),
            ATTRIBUTES => attributes = Some(values(&mut part, count)?),
            // Times of access and creation, comments, padding.
            _ => {}
        }
    }
    let (mut nth_empty, mut with_content) = (0, 0);
    for number in 0..count {
        let has_content = !empty.get(number);
        let name = take_name(&mut names)?;
        let modified = match &mut times {
            Some((known, values)) if known.get(number) => Some(values.u64()?),
            _ => None,
        };
        let attributes = match &mut attributes {
            Some((known, values)) if known.get(number) => Some(values.u32()?),
            _ => None,
        };
        each(File {
            name,
            modified: modified.and_then(time),
            attributes,
            has_content,
            is_directory: !has_content && !empty_file.get(nth_empty),
            is_anti: !has_content && anti.get(nth_empty),
        })
        .map_err(Stopped::Failed)?;
        nth_empty += usize::from(!has_content);
        with_content += usize::from(has_content);
    }
    if !names.is_empty() {
        return Err(Malformed::from("more names than files").into());
    }
    Ok(with_content)
}

/// Which files have a value, and the values of those.
type Values<'a> = Option<(Bits<'a>, Cursor<'a>)>;

fn values<'a>(part: &mut Cursor<'a>, count: usize) -> Result<(Bits<'a>, Cursor<'a>), Refused> {
    let known = Bits::take_all_or(part, count)?;
    internal(part)?;
    Ok((known, *part))
}

/// What 7-Zip writes for the bytes 80 to FF of a Unix name that is no UTF-8; it gives the bytes back.
const ESCAPES: std::ops::RangeInclusive<char> = '\u{ef80}'..='\u{efff}';

/// Takes a name: UTF-16 up to a zero. What is no text becomes what Unix has for it.
fn take_name(names: &mut &[u8]) -> Result<Vec<u8>, Malformed> {
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

/// Returns a time of Windows: 100 ns since 1601.
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
    fn kinds_and_modes_are_told_by_attributes() {
        let unix = |mode: u32| Some(mode << 16 | UNIX);
        assert_eq!(file(None, true, false), (Kind::File, 0o644));
        assert_eq!(file(None, false, true), (Kind::Directory, 0o755));
        assert_eq!(file(Some(READ_ONLY), true, false), (Kind::File, 0o444));
        assert_eq!(file(Some(DIRECTORY), false, false), (Kind::Directory, 0o755));
        assert_eq!(file(unix(0o100_755), true, false), (Kind::File, 0o755));
        assert_eq!(file(unix(0o040_700), false, true), (Kind::Directory, 0o700));
        assert_eq!(file(unix(0o120_777), true, false), (Kind::Symlink, 0o777));
        assert_eq!(file(unix(0o010_600), false, false), (Kind::Fifo, 0o600));
        // What contradicts itself is a file where there is content.
        assert_eq!(file(unix(0o040_700), true, false), (Kind::File, 0o700));
        assert_eq!(file(unix(0o120_777), false, false), (Kind::File, 0o777));
    }

    #[test]
    fn times_and_names() {
        assert_eq!(time(0), None);
        assert_eq!(time(116_444_736_000_000_000), Some(Timestamp { seconds: 0, nanoseconds: 0 }));
        assert_eq!(time(116_444_735_999_999_999), Some(Timestamp { seconds: -1, nanoseconds: 999_999_900 }));
        let mut names: &[u8] = &[b'a', 0, 0xe4, 0, 0, 0, 0, 0xd8, 0, 0];
        assert_eq!(take_name(&mut names).unwrap(), "aä".as_bytes());
        assert_eq!(take_name(&mut names).unwrap(), "\u{fffd}".as_bytes());
        assert!(take_name(&mut names).is_err());
        // 7-Zip has stored a byte as this; what lies beside that range is text.
        let mut names: &[u8] = &[0x80, 0xef, b'b', 0, 0xff, 0xef, 0x7f, 0xef, 0, 0xf0, 0, 0];
        assert_eq!(take_name(&mut names).unwrap(), b"\x80b\xff\xee\xbd\xbf\xef\x80\x80");
    }
}
