//! What stands in front of an entry and says something about it: long names, pax records of its own and of all entries.

use std::sync::Arc;

use super::attributes;
use super::header::{Header, text};
use super::pax::{Records, Wrong};
use super::remarks::Remarks;
use nra_core::entry::{Attribute, Timestamp};
use nra_core::limits::MAX_MESSAGE;
use nra_core::names::NameEncoding;

/// Longest pax header or long name, bytes: a path and a link of 64 KiB with many attributes of 1 MiB.
pub(super) const MAX_EXTENSION: u64 = 16 << 20;
/// Memory for the records that hold for all entries, bytes: each entry is put together with them.
const MAX_GLOBAL: u64 = 1 << 20;

/// Which kind of header says something about the next entry, or about the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    LongName,
    LongLink,
    Records,
    GlobalRecords,
}

impl Extension {
    /// Returns the one that a header of this kind is, if it is one.
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

/// What was said of the next entry, and of all of them.
#[derive(Debug, Default)]
pub(super) struct Preface {
    global: Records,
    /// The attributes that the records of all entries tell of, once an entry has asked for them.
    global_attributes: Option<Arc<[Attribute]>>,
    next: Records,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Encoding of names that are not in pax records.
    names: Option<NameEncoding>,
    comment: Option<String>,
    /// A comment came that can't be kept.
    comment_is_lost: bool,
}

impl Preface {
    /// Takes names and targets of links in the headers to be in this encoding.
    pub(super) fn with_names(self, names: Option<NameEncoding>) -> Self {
        Self { names, ..self }
    }

    /// Takes what belongs to a header of this kind.
    ///
    /// # Errors
    ///
    /// A sentence about records that are wrong; `Limit`.
    pub(super) fn add(&mut self, extension: Extension, bytes: &[u8], remarks: &mut Remarks) -> Result<(), Wrong> {
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

    /// Keeps the first comment, if it can be kept.
    fn keep_comment(&mut self, remarks: &mut Remarks) {
        let Some(comment) = self.global.get("comment").filter(|_| self.comment.is_none()) else { return };
        match std::str::from_utf8(comment) {
            Ok(comment) if comment.len() <= MAX_MESSAGE => self.comment = Some(comment.to_owned()),
            _ if self.comment_is_lost => {}
            _ => {
                let len = comment.len();
                self.comment_is_lost = true;
                remarks.add(format!("its comment of {len} bytes is skipped: it is too long, or not in UTF-8"));
            }
        }
    }

    /// Returns what the archive says of itself.
    pub(super) fn comment(&self) -> Option<String> {
        self.comment.clone()
    }

    /// Says whether something was said of an entry that did not come yet.
    pub(super) fn is_pending(&self) -> bool {
        !self.next.is_empty() || self.long_name.is_some() || self.long_link.is_some()
    }

    /// Forgets what was said of the next entry.
    pub(super) fn forget(&mut self) {
        (self.next, self.long_name, self.long_link) = (Records::default(), None, None);
    }

    /// Forgets what was said of all entries: another archive begins.
    pub(super) fn forget_all(&mut self) {
        self.global = Records::default();
        self.global_attributes = None;
    }

    /// Returns the records of the next entry alone.
    pub(super) fn own(&self) -> &Records {
        &self.next
    }

    /// Looks up a record: of the entry itself, or of all.
    pub(super) fn record(&self, key: &str) -> Option<&[u8]> {
        self.next.get(key).or_else(|| self.global.get(key))
    }

    /// Looks up a record that is a number.
    ///
    /// # Errors
    ///
    /// A sentence when it is none.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Wrong> {
        Ok(match self.next.number(key)? {
            Some(number) => Some(number),
            None => self.global.number(key)?,
        })
    }

    /// Returns the time of last modification that the records tell of.
    pub(super) fn modified(&self) -> Option<Timestamp> {
        self.next.time("mtime").or_else(|| self.global.time("mtime"))
    }

    /// Returns the name of an entry with this header.
    pub(super) fn name(&self, header: &Header<'_>) -> Vec<u8> {
        match (self.next.get("GNU.sparse.name"), self.record("path"), &self.long_name) {
            (Some(name), ..) | (None, Some(name), _) => name.to_vec(),
            (None, None, Some(name)) => self.decoded(name.clone()),
            (None, None, None) => self.decoded(header.path()),
        }
    }

    /// Returns the name that was told in front of a header that can't be read.
    pub(super) fn name_without_header(&self) -> Option<Vec<u8>> {
        self.next.get("path").map(<[u8]>::to_vec).or_else(|| self.long_name.clone())
    }

    /// Returns the target of a link with this header.
    pub(super) fn link(&self, header: &Header<'_>) -> Vec<u8> {
        match (self.record("linkpath"), &self.long_link) {
            (Some(link), _) => link.to_vec(),
            (None, Some(link)) => self.decoded(link.clone()),
            (None, None) => self.decoded(header.link().to_vec()),
        }
    }

    /// Returns a name of a header in UTF-8, if its encoding is known.
    fn decoded(&self, name: Vec<u8>) -> Vec<u8> {
        match &self.names {
            Some(names) => names.decode(&name).into_owned(),
            None => name,
        }
    }

    /// Returns the extended attributes that the records tell of. Those of all entries are the same ones for each that has none of its own; what is
    /// wrong with them is told of the first.
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
    fn an_entry_is_called_by_what_tells_most() {
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
        preface.forget();
        assert!(!preface.is_pending() && preface.name(&header) == b"all" && preface.name_without_header().is_none());
        preface.forget_all();
        assert_eq!((preface.name(&header), preface.link(&header)), (b"short".to_vec(), b"near".to_vec()));
    }

    #[test]
    fn the_first_comment_that_can_be_kept_counts() {
        let (mut preface, mut remarks) = (Preface::default(), Remarks::default());
        for bytes in [&b"13 comment=\xff\n"[..], b"13 comment=\xfe\n", b"15 comment=one\n", b"15 comment=two\n"] {
            preface.add(Extension::GlobalRecords, bytes, &mut remarks).unwrap();
        }
        assert_eq!((preface.comment().as_deref(), remarks.take().len()), (Some("one"), 1));
    }
}
