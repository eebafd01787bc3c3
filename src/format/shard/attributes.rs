//! Attributes that keep everything in a Shard file except for names and content.
//!
//! They are in [`Namespace::Foreign`]. With them, an unchanged list of entries can be written as a file
//! with the same bytes.

use crate::layout::{HEADER_LEN, Header, aligned, flags, index_end};
use crate::reader::Shard;
use nra_core::entry::{Attribute, Namespace};
use nra_core::limits::MAX_ATTRIBUTE_VALUE;

/// Prefix of the names of these attributes.
const NAME_PREFIX: &[u8] = b"shard:";
/// Attribute of the archive: the 64 bytes of the header as 128 hex digits.
pub const HEADER_ATTRIBUTE: &[u8] = b"shard:header";
/// Attribute of the archive: differences from the usual layout, as words separated by spaces. Omitted if
/// there are none.
pub const LAYOUT_ATTRIBUTE: &[u8] = b"shard:layout";
/// Attribute of the archive: the metadata as stored, in JSON. Long metadata continue in
/// `shard:metadata:01`, `shard:metadata:02` …
pub const METADATA_ATTRIBUTE: &[u8] = b"shard:metadata";
/// Attribute of an entry: its name, if it differs from its path.
pub const NAME_ATTRIBUTE: &[u8] = b"shard:name";
/// Attribute of an entry: number in the index, flags, content type and tags, in decimal digits separated
/// by `:`.
pub const RECORD_ATTRIBUTE: &[u8] = b"shard:record";
/// Largest number of attributes for the metadata, within the limit of an archive.
const MAX_METADATA_PARTS: usize = 12;
/// Word of [`LAYOUT_ATTRIBUTE`]: names are not followed by a NUL byte.
const BARE_NAMES: &str = "bare-names";
/// Word of [`LAYOUT_ATTRIBUTE`]: the end of the last entry is padded.
const PADDED_END: &str = "padded-end";
/// Word of [`LAYOUT_ATTRIBUTE`]: the index has a property that nra does not write.
const UNUSUAL: &str = "unusual";

/// The properties of the Shard file that entries came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The header.
    pub header: Header,
    /// Each name is followed by a NUL byte.
    pub nul_terminated: bool,
    /// The end of the last entry is padded.
    pub padded_end: bool,
    /// The index has a property that nra does not write.
    pub unusual: bool,
}

impl Origin {
    /// Returns the properties of a file.
    pub fn of(shard: &Shard) -> Self {
        let header = *shard.header();
        let (entries, data_end) = (shard.entries(), shard.data_end());
        let follows = |pair: &[super::IndexEntry]| {
            u64::from(pair[1].name_offset) == u64::from(pair[0].name_offset) + u64::from(pair[0].name_len)
        };
        let names_len: u64 = entries.iter().map(|entry| u64::from(entry.name_len)).sum();
        let bare = aligned(index_end(header.entry_count) + names_len, header.alignment);
        let usual = aligned(index_end(header.entry_count) + names_len + entries.len() as u64, header.alignment);
        // The offsets of names show it, or else the length of the names section.
        let is_bare = entries.windows(2).any(follows)
            || (!header.has(flags::STREAMING) && usual != Some(header.data_offset) && bare == Some(header.data_offset));
        let padded_end = header.metadata_offset == 0
            && header.file_len > data_end
            && aligned(data_end, header.alignment) == Some(header.file_len);
        Self { header, nul_terminated: !is_bare, padded_end, unusual: shard.is_unusual() }
    }

    /// Returns the attributes that represent these properties.
    pub fn attributes(&self) -> Vec<Attribute> {
        let digits = self.header.encode().iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        let words = [(BARE_NAMES, !self.nul_terminated), (PADDED_END, self.padded_end), (UNUSUAL, self.unusual)];
        let words: Vec<&str> = words.into_iter().filter(|(_, holds)| *holds).map(|(word, _)| word).collect();
        let layout = (!words.is_empty()).then(|| foreign_attribute(LAYOUT_ATTRIBUTE, words.join(" ").into_bytes()));
        std::iter::once(foreign_attribute(HEADER_ATTRIBUTE, digits)).chain(layout).collect()
    }

    /// Parses the attributes. Returns `None` if they are missing or invalid.
    pub fn parse(attributes: &[Attribute]) -> Option<Self> {
        let text = std::str::from_utf8(attribute_value(attributes, HEADER_ATTRIBUTE)?).ok().filter(|text| text.is_ascii())?;
        let mut bytes = [0; HEADER_LEN];
        if text.len() != 2 * HEADER_LEN {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        let file_len = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"));
        let layout =
            attribute_value(attributes, LAYOUT_ATTRIBUTE).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        let has_word = |word: &str| layout.split(' ').any(|other| other == word);
        let header = Header::parse(&bytes, file_len).ok()?;
        Some(Self { header, nul_terminated: !has_word(BARE_NAMES), padded_end: has_word(PADDED_END), unusual: has_word(UNUSUAL) })
    }
}

/// Returns metadata as attributes, or `None` if they are too long.
pub fn metadata_attributes(metadata: &[u8]) -> Option<Vec<Attribute>> {
    if metadata.is_empty() {
        return Some(vec![foreign_attribute(METADATA_ATTRIBUTE, Vec::new())]);
    }
    let parts = metadata.chunks(MAX_ATTRIBUTE_VALUE);
    let attribute = |(at, part): (usize, &[u8])| foreign_attribute(&part_name(at), part.to_vec());
    (parts.len() <= MAX_METADATA_PARTS).then(|| parts.enumerate().map(attribute).collect())
}

/// Returns the metadata that attributes hold.
pub fn metadata_from_attributes(attributes: &[Attribute]) -> Option<Vec<u8>> {
    let mut metadata = attribute_value(attributes, METADATA_ATTRIBUTE)?.to_vec();
    for at in 1..MAX_METADATA_PARTS {
        let Some(part) = attribute_value(attributes, &part_name(at)) else { break };
        metadata.extend_from_slice(part);
    }
    Some(metadata)
}

/// Returns whether a Shard file can represent an attribute.
pub fn is_shard_attribute(attribute: &Attribute) -> bool {
    attribute.namespace == Namespace::Foreign && attribute.name.starts_with(NAME_PREFIX)
}

/// Returns whether an attribute holds metadata or a part of them.
pub fn is_metadata_attribute(attribute: &Attribute) -> bool {
    is_shard_attribute(attribute) && attribute.name.starts_with(METADATA_ATTRIBUTE)
}

/// Returns a new attribute for Shard files.
pub(super) fn foreign_attribute(name: &[u8], value: Vec<u8>) -> Attribute {
    Attribute { namespace: Namespace::Foreign, name: name.into(), value: value.into() }
}

/// Returns the value of the attribute with this name.
pub fn attribute_value<'a>(attributes: &'a [Attribute], name: &[u8]) -> Option<&'a [u8]> {
    let found = attributes.iter().find(|attribute| attribute.namespace == Namespace::Foreign && *attribute.name == *name);
    found.map(|attribute| &*attribute.value)
}

fn part_name(at: usize) -> Vec<u8> {
    if at == 0 { METADATA_ATTRIBUTE.to_vec() } else { [METADATA_ATTRIBUTE, format!(":{at:02}").as_bytes()].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_any_length_are_restored() {
        for len in [0, 1, MAX_ATTRIBUTE_VALUE, MAX_ATTRIBUTE_VALUE + 1, MAX_METADATA_PARTS * MAX_ATTRIBUTE_VALUE] {
            let metadata: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let attributes = metadata_attributes(&metadata).unwrap();
            assert!(attributes.is_sorted_by(|a, b| a.name < b.name));
            assert!(
                attributes.iter().all(|attribute| attribute.value.len() <= MAX_ATTRIBUTE_VALUE && is_shard_attribute(attribute))
            );
            assert!(metadata_from_attributes(&attributes) == Some(metadata), "{len}");
        }
        assert!(metadata_attributes(&vec![0; MAX_METADATA_PARTS * MAX_ATTRIBUTE_VALUE + 1]).is_none());
        assert_eq!(metadata_from_attributes(&[]), None);
    }

    #[test]
    fn invalid_header_attribute_is_ignored() {
        for text in [&b""[..], b"53", &[b'0'; 128], &[0xff; 128], &[b'+'; 128]] {
            assert_eq!(Origin::parse(&[foreign_attribute(HEADER_ATTRIBUTE, text.to_vec())]), None);
        }
    }
}
