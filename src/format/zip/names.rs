//! Decodes names of members, whose encoding a zip archive does not always declare.

use std::borrow::Cow;

use crate::record::Record;
use nra_core::names::NameEncoding;

/// Returns the name of a member, with `/` between its components.
///
/// It is UTF-8 if the record says so. Otherwise it has the given `encoding`. If there is none,
/// names from Unix programs are returned unchanged, and others are in code page 437, the default of
/// the format.
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
    // Many programs write UTF-8 without the flag. Text in another encoding is rarely valid UTF-8.
    if std::str::from_utf8(record.name).is_ok() {
        return separated(Cow::Borrowed(record.name), is_dos);
    }
    separated(NameEncoding::cp437().decode(record.name), is_dos)
}

/// Replaces backslashes with slashes in a name from a DOS program that contains no slash.
fn separated(name: Cow<'_, [u8]>, is_dos: bool) -> Cow<'_, [u8]> {
    if is_dos && name.contains(&b'\\') && !name.contains(&b'/') {
        return name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
    }
    name
}

/// Returns the name in Info-ZIP's field if it belongs to the name in the record.
fn unicode_path<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let (&1, rest) = record.field(0x7075)?.split_first()? else { return None };
    let (crc, name) = rest.split_first_chunk()?;
    let mut found = crc32fast::Hasher::new();
    found.update(record.name);
    (u32::from_le_bytes(*crc) == found.finalize() && std::str::from_utf8(name).is_ok()).then_some(name)
}
