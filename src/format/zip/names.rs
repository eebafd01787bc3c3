//! Names of members, whose encoding a zip archive does not always tell.

use std::borrow::Cow;

use crate::record::Record;
use nra_core::names::NameEncoding;

/// Returns the name of a member, with `/` between its parts.
///
/// UTF-8 where the archive says so; else `encoding`, if that is known; else the bytes as they are where the writer was a Unix program, and
/// code page 437, as the format has it, where it was not.
pub(super) fn name<'a>(record: &Record<'a>, encoding: Option<&NameEncoding>) -> Cow<'a, [u8]> {
    if let Some(name) = unicode_path(record) {
        return Cow::Borrowed(name);
    }
    let is_dos = [0, 6, 10, 11, 14].contains(&record.host);
    if record.is_utf8() || record.name.is_ascii() || !is_dos && encoding.is_none() {
        return separated(Cow::Borrowed(record.name), is_dos);
    }
    if let Some(encoding) = encoding {
        return separated(encoding.decode(record.name), is_dos);
    }
    // Many programs write UTF-8 without saying so; text of another encoding is hardly ever valid UTF-8.
    if std::str::from_utf8(record.name).is_ok() {
        return separated(Cow::Borrowed(record.name), is_dos);
    }
    separated(NameEncoding::cp437().decode(record.name), is_dos)
}

/// Takes backslashes for slashes in a name of a DOS program that has no slash.
fn separated(name: Cow<'_, [u8]>, is_dos: bool) -> Cow<'_, [u8]> {
    if is_dos && name.contains(&b'\\') && !name.contains(&b'/') {
        return name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
    }
    name
}

/// Returns the name in the field of Info-ZIP, if it belongs to the name that stands in the record.
fn unicode_path<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let (&1, rest) = record.field(0x7075)?.split_first()? else { return None };
    let (crc, name) = rest.split_first_chunk()?;
    let mut found = crc32fast::Hasher::new();
    found.update(record.name);
    (u32::from_le_bytes(*crc) == found.finalize() && std::str::from_utf8(name).is_ok()).then_some(name)
}
