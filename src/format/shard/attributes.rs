//! What a Shard file has beside names and content, as attributes of an archive, and read back from them.
//!
//! All lie in [`Namespace::Foreign`]. With them and an unchanged list of entries the same file can be written again.

use crate::layout::{HEADER_LEN, Header, aligned, flags, index_end};
use crate::reader::Shard;
use nra_core::entry::{Attribute, Namespace};
use nra_core::limits::MAX_ATTRIBUTE_VALUE;

/// What the names of all these attributes begin with.
const OWN: &[u8] = b"shard:";
/// Attribute of the archive: the 64 bytes of the header as 128 hex digits.
pub const HEADER: &[u8] = b"shard:header";
/// Attribute of the archive: in what the file differs from the usual layout, words with spaces between them. Left out when it does not.
pub const LAYOUT: &[u8] = b"shard:layout";
/// Attribute of the archive: the metadata, JSON as it stands in the file. Longer ones go on in `shard:metadata:01`, `shard:metadata:02` …
pub const METADATA: &[u8] = b"shard:metadata";
/// Attribute of an entry: its name, where that is not its path.
pub const NAME: &[u8] = b"shard:name";
/// Attribute of an entry: number in the index, flags, content type and tags, decimal digits with `:` between them.
pub const RECORD: &[u8] = b"shard:record";
/// Attributes that the metadata may take: as many as an archive has room for.
const MAX_PARTS: usize = 12;
/// Word of [`LAYOUT`]: names have no NUL byte behind them.
const BARE_NAMES: &str = "bare-names";
/// Word of [`LAYOUT`]: the end of the last entry is padded.
const PADDED_END: &str = "padded-end";
/// Word of [`LAYOUT`]: the index has something that is not written again.
const UNUSUAL: &str = "unusual";

/// How the file was made that entries came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Its header.
    pub header: Header,
    /// Each name is followed by a NUL byte.
    pub terminated: bool,
    /// The end of the last entry is padded.
    pub padded_end: bool,
    /// The index has something that is not written again.
    pub unusual: bool,
}

impl Origin {
    /// Finds out how a file was made.
    pub fn of(shard: &Shard) -> Self {
        let header = *shard.header();
        let (entries, data_end) = (shard.entries(), shard.data_end());
        let follows = |pair: &[super::IndexEntry]| {
            u64::from(pair[1].name_offset) == u64::from(pair[0].name_offset) + u64::from(pair[0].name_len)
        };
        let names: u64 = entries.iter().map(|entry| u64::from(entry.name_len)).sum();
        let bare = aligned(index_end(header.entry_count) + names, header.alignment);
        let usual = aligned(index_end(header.entry_count) + names + entries.len() as u64, header.alignment);
        // Offsets tell it, or else the room that the names take.
        let is_bare = entries.windows(2).any(follows)
            || (!header.has(flags::STREAMING) && usual != Some(header.data_offset) && bare == Some(header.data_offset));
        let padded_end = header.metadata_offset == 0
            && header.file_len > data_end
            && aligned(data_end, header.alignment) == Some(header.file_len);
        Self { header, terminated: !is_bare, padded_end, unusual: shard.is_unusual() }
    }

    /// Returns the attributes that tell it.
    pub fn attributes(&self) -> Vec<Attribute> {
        let digits = self.header.encode().iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        let words = [(BARE_NAMES, !self.terminated), (PADDED_END, self.padded_end), (UNUSUAL, self.unusual)];
        let words: Vec<&str> = words.into_iter().filter(|(_, holds)| *holds).map(|(word, _)| word).collect();
        let layout = (!words.is_empty()).then(|| foreign(LAYOUT, words.join(" ").into_bytes()));
        std::iter::once(foreign(HEADER, digits)).chain(layout).collect()
    }

    /// Reads it back; `None` when the attributes do not tell it, or nothing that makes sense.
    pub fn parse(attributes: &[Attribute]) -> Option<Self> {
        let text = std::str::from_utf8(value(attributes, HEADER)?).ok().filter(|text| text.is_ascii())?;
        let mut bytes = [0; HEADER_LEN];
        if text.len() != 2 * HEADER_LEN {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        let file_len = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"));
        let layout = value(attributes, LAYOUT).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        let says = |word: &str| layout.split(' ').any(|other| other == word);
        let header = Header::parse(&bytes, file_len).ok()?;
        Some(Self { header, terminated: !says(BARE_NAMES), padded_end: says(PADDED_END), unusual: says(UNUSUAL) })
    }
}

/// Returns metadata as attributes, or `None` when they are too long.
pub fn metadata_attributes(metadata: &[u8]) -> Option<Vec<Attribute>> {
    if metadata.is_empty() {
        return Some(vec![foreign(METADATA, Vec::new())]);
    }
    let parts = metadata.chunks(MAX_ATTRIBUTE_VALUE);
    let attribute = |(at, part): (usize, &[u8])| foreign(&part_name(at), part.to_vec());
    (parts.len() <= MAX_PARTS).then(|| parts.enumerate().map(attribute).collect())
}

/// Reads metadata back from attributes.
pub fn metadata_of(attributes: &[Attribute]) -> Option<Vec<u8>> {
    let mut metadata = value(attributes, METADATA)?.to_vec();
    for at in 1..MAX_PARTS {
        let Some(part) = value(attributes, &part_name(at)) else { break };
        metadata.extend_from_slice(part);
    }
    Some(metadata)
}

/// Says whether an attribute is one that a Shard file has a place for.
pub fn is_own(attribute: &Attribute) -> bool {
    attribute.namespace == Namespace::Foreign && attribute.name.starts_with(OWN)
}

/// Says whether an attribute is a part of the metadata.
pub fn is_metadata(attribute: &Attribute) -> bool {
    is_own(attribute) && attribute.name.starts_with(METADATA)
}

/// Returns an attribute of this kind.
pub(super) fn foreign(name: &[u8], value: Vec<u8>) -> Attribute {
    Attribute { namespace: Namespace::Foreign, name: name.into(), value: value.into() }
}

/// Returns the value of an attribute of this kind.
pub fn value<'a>(attributes: &'a [Attribute], name: &[u8]) -> Option<&'a [u8]> {
    let found = attributes.iter().find(|attribute| attribute.namespace == Namespace::Foreign && *attribute.name == *name);
    found.map(|attribute| &*attribute.value)
}

fn part_name(at: usize) -> Vec<u8> {
    if at == 0 { METADATA.to_vec() } else { [METADATA, format!(":{at:02}").as_bytes()].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_any_length_come_back() {
        for len in [0, 1, MAX_ATTRIBUTE_VALUE, MAX_ATTRIBUTE_VALUE + 1, MAX_PARTS * MAX_ATTRIBUTE_VALUE] {
            let metadata: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let attributes = metadata_attributes(&metadata).unwrap();
            assert!(attributes.is_sorted_by(|a, b| a.name < b.name));
            assert!(attributes.iter().all(|attribute| attribute.value.len() <= MAX_ATTRIBUTE_VALUE && is_own(attribute)));
            assert!(metadata_of(&attributes) == Some(metadata), "{len}");
        }
        assert!(metadata_attributes(&vec![0; MAX_PARTS * MAX_ATTRIBUTE_VALUE + 1]).is_none());
        assert_eq!(metadata_of(&[]), None);
    }

    #[test]
    fn what_is_no_header_is_nothing() {
        for text in [&b""[..], b"53", &[b'0'; 128], &[0xff; 128], &[b'+'; 128]] {
            assert_eq!(Origin::parse(&[foreign(HEADER, text.to_vec())]), None);
        }
    }
}
