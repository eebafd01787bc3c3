//! Headers that precede an entry: long names, and pax records for the entry or for all entries.

use std::sync::Arc;

use super::attributes;
use super::header::{Header, text};
use super::pax::{Invalid, Records};
use super::remarks::Remarks;
use nra_core::entry::{Attribute, Timestamp};
use nra_core::limits::MAX_MESSAGE;
use nra_core::names::NameEncoding;

/// Longest pax header or long name, bytes: enough for a path and a link of 64 KiB and many
/// attributes of 1 MiB.
pub(super) const MAX_EXTENSION: u64 = 16 << 20;
/// Memory for global records, bytes. They are merged with the records of each entry.
const MAX_GLOBAL: u64 = 1 << 20;

/// The kind of an extension header, which describes the next entry or the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    LongName,
    LongLink,
    Records,
    GlobalRecords,
}

impl Extension {
    /// Returns the extension that a header type stands for.
    pub(super) fn of(kind: u8) -> Option<Self> {
        match kind {
            b'L' => Some(Self::LongName),
            b'K' => Some(Self::LongLink),
            // POSIX, and Solaris before that.
            b'x' | b'X' => Some(Self::Records),
            b'g' => Some(Self::GlobalRecords),
            _ => None,
        }
    }
}

/// The records and long names read so far.
#[derive(Debug, Default)]
pub(super) struct Preface {
    global: Records,
    /// The attributes in `global`, parsed when an entry first needs them.
    global_attributes: Option<Arc<[Attribute]>>,
    next: Records,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Encoding of names outside of pax records.
    names: Option<NameEncoding>,
    comment: Option<String>,
    /// A comment was skipped.
    comment_is_skipped: bool,
}

impl Preface {
    /// Decodes names and link targets in headers from this encoding.
    pub(super) fn with_names(self, names: Option<NameEncoding>) -> Self {
        Self { names, ..self }
    }

    /// Adds the content of an extension header.
    pub(super) fn add(&mut self, extension: Extension, bytes: &[u8], remarks: &mut Remarks) -> Result<(), Invalid> {
        match extension {
            Extension::LongName => self.long_name = Some(text(bytes).to_vec()),
            Extension::LongLink => self.long_link = Some(text(bytes).to_vec()),
            Extension::Records => self.next.parse(bytes, MAX_EXTENSION)?,
            Extension::GlobalRecords => {
                let parsed = self.global.parse(bytes, MAX_GLOBAL);
                self.global_attributes = None;
                self.keep_comment(remarks);
                parsed?;
            }
        }
        Ok(())
    }

    /// Keeps the first valid comment.
    fn keep_comment(&mut self, remarks: &mut Remarks) {
        let Some(comment) = self.global.get("comment").filter(|_| self.comment.is_none()) else { return };
        match std::str::from_utf8(comment) {
            Ok(comment) if comment.len() <= MAX_MESSAGE => self.comment = Some(comment.to_owned()),
            _ if self.comment_is_skipped => {}
            _ => {
                let len = comment.len();
                self.comment_is_skipped = true;
                remarks.add(format!("the comment of {len} bytes is skipped: it is too long or not UTF-8"));
            }
        }
    }

    /// Returns the comment of the archive.
    pub(super) fn comment(&self) -> Option<String> {
        self.comment.clone()
    }

    /// Returns whether an extension header was read whose entry has not been read.
    pub(super) fn is_pending(&self) -> bool {
        !self.next.is_empty() || self.long_name.is_some() || self.long_link.is_some()
    }

    /// Drops the extension headers of the next entry.
    pub(super) fn clear_next(&mut self) {
        (self.next, self.long_name, self.long_link) = (Records::default(), None, None);
    }

    /// Drops the global records, because another archive starts.
    pub(super) fn clear_global(&mut self) {
        self.global = Records::default();
        self.global_attributes = None;
    }

    /// Returns the records of the next entry, without the global ones.
    pub(super) fn next_records(&self) -> &Records {
        &self.next
    }

    /// Returns the value of a record of the entry, or else of the global records.
    pub(super) fn record(&self, key: &str) -> Option<&[u8]> {
        self.next.get(key).or_else(|| self.global.get(key))
    }

    /// Returns the value of a numeric record.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Invalid> {
        Ok(match self.next.number(key)? {
            Some(number) => Some(number),
            None => self.global.number(key)?,
        })
    }

    /// Returns the modification time in the records.
    pub(super) fn modified(&self) -> Option<Timestamp> {
        self.next.time("mtime").or_else(|| self.global.time("mtime"))
    }

    /// Returns the name of the entry with this header.
    pub(super) fn name(&self, header: &Header<'_>) -> Vec<u8> {
        match (self.next.get("GNU.sparse.name"), self.record("path"), &self.long_name) {
            (Some(name), ..) | (None, Some(name), _) => name.to_vec(),
            (None, None, Some(name)) => self.decoded(name.clone()),
            (None, None, None) => self.decoded(header.path()),
        }
    }

    /// Returns the name given by the extension headers of a damaged header.
    pub(super) fn name_without_header(&self) -> Option<Vec<u8>> {
        self.next.get("path").map(<[u8]>::to_vec).or_else(|| self.long_name.clone())
    }

    /// Returns the link target of the entry with this header.
    pub(super) fn link(&self, header: &Header<'_>) -> Vec<u8> {
        match (self.record("linkpath"), &self.long_link) {
            (Some(link), _) => link.to_vec(),
            (None, Some(link)) => self.decoded(link.clone()),
            (None, None) => self.decoded(header.link().to_vec()),
        }
    }

    /// Returns a name of a header in UTF-8 if its encoding is known.
    fn decoded(&self, name: Vec<u8>) -> Vec<u8> {
        match &self.names {
            Some(names) => names.decode(&name).into_owned(),
            None => name,
        }
    }

    /// Returns the extended attributes in the records. Entries without attributes of their own
    /// share the global ones; remarks about those are returned once.
    pub(super) fn attributes(&mut self, remarks: &mut Vec<String>) -> Arc<[Attribute]> {
        if attributes::has_any(&self.next) {
            return attributes::parse(&self.global, &self.next, remarks);
        }
        let (global, next) = (&self.global, &self.next);
        Arc::clone(self.global_attributes.get_or_insert_with(|| attributes::parse(global, next, remarks)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::BLOCK;

    #[test]
    fn longest_extension_overrides_name() {
        let mut block = [0; BLOCK];
        block[..5].copy_from_slice(b"short");
        block[157..161].copy_from_slice(b"near");
        let header = Header::unchecked(&block);
        let (mut preface, mut remarks) = (Preface::default(), Remarks::default());
        let mut names = vec![(preface.name(&header), preface.link(&header))];
        for (extension, bytes) in [
            (Extension::LongName, &b"long\0\0"[..]),
            (Extension::LongLink, b"far"),
            (Extension::GlobalRecords, b"12 path=all\n18 linkpath=there\n"),
            (Extension::Records, b"12 path=own\n"),
            (Extension::Records, b"24 GNU.sparse.name=real\n"),
        ] {
            preface.add(extension, bytes, &mut remarks).unwrap();
            names.push((preface.name(&header), preface.link(&header)));
        }
        let expected = ["short near", "long near", "long far", "all there", "own there", "real there"];
        let names: Vec<String> = names.iter().map(|(a, b)| format!("{} {}", a.escape_ascii(), b.escape_ascii())).collect();
        assert_eq!(names, expected);
        assert!(preface.is_pending());
        preface.clear_next();
        assert!(!preface.is_pending() && preface.name(&header) == b"all" && preface.name_without_header().is_none());
        preface.clear_global();
        assert_eq!((preface.name(&header), preface.link(&header)), (b"short".to_vec(), b"near".to_vec()));
    }

    #[test]
    fn first_valid_comment_is_kept() {
        let (mut preface, mut remarks) = (Preface::default(), Remarks::default());
        for bytes in [&b"13 comment=\xff\n"[..], b"13 comment=\xfe\n", b"15 comment=one\n", b"15 comment=two\n"] {
            preface.add(Extension::GlobalRecords, bytes, &mut remarks).unwrap();
        }
        assert_eq!((preface.comment().as_deref(), remarks.take().len()), (Some("one"), 1));
    }
}
