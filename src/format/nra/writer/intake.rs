//! What is given, until it can be placed: pieces go into runs that are open, entries wait for those.
//!
//! Spec: nra.md, section 7.

use crate::content::HasContent as _;
use std::io::Write;
use std::sync::Arc;

use crate::content::Content;
use crate::records;
use crate::writer::cutter::MAX_RAW_BLOCK;
use crate::writer::index::{Added, Source, weight};
use crate::writer::pieces::{PieceId, RunId};
use crate::writer::placing::Item;
use crate::writer::run::{MAX_WAITING, MAX_WEIGHT, Run, RunPiece, aligned};
use crate::writer::{EntryId, MAX_RECORD, Writer, dictionary, refused};
use nra_core::checksum::content_checksum;
use nra_core::codec::Codec;
use nra_core::digest::Digest;
use nra_core::entry::Entry;
use nra_core::error::{Error, Result};
use nra_core::limits::{MAX_BLOCK_RAW, MAX_LIST_EXTENTS};

impl<W: Write + Send> Writer<W> {
    /// Checks a new entry and takes off what the writer sets.
    pub(super) fn admit(&self, mut entry: Entry) -> Result<Entry> {
        if self.current.is_some() {
            return Err(Error::Usage { detail: "an entry was added before the file that was begun has ended".into() });
        }
        entry.size = 0;
        *entry.content_mut() = Content::None;
        records::check(&entry).map_err(|detail| refused(&entry, &detail))?;
        let weight = weight(&entry, 0);
        if weight > MAX_RECORD {
            let limit = MAX_RECORD as u64;
            return Err(Error::Limit { what: "length of a record", found: weight as u64, limit });
        }
        Ok(entry)
    }

    /// Stores a piece unless it is there, and notes the open run that it is in.
    pub(super) fn store(
        &mut self,
        bytes: &[u8],
        digest: Digest,
        incompressible: bool,
        touched: &mut [RunId; 3],
    ) -> Result<PieceId> {
        let limit = MAX_BLOCK_RAW.into();
        let raw_len = u32::try_from(bytes.len()).ok().filter(|&len| len <= MAX_BLOCK_RAW).ok_or(Error::Limit {
            what: "length of a piece",
            found: bytes.len() as u64,
            limit,
        })?;
        self.given_bytes = self.given_bytes.saturating_add(raw_len.into());
        let known = match self.index.pieces.find(&digest) {
            None => self.held(bytes, digest)?,
            known => known,
        };
        let id = match known {
            Some(id) => {
                self.deduplicated_bytes += u64::from(raw_len);
                id
            }
            None if incompressible || self.policy.method.codec == Codec::None => {
                if !self.raw.is_empty() && aligned(self.raw.bytes.len(), self.policy.align) + bytes.len() > MAX_RAW_BLOCK {
                    self.close_raw()?;
                }
                let id = self.index.pieces.insert(digest, raw_len, self.raw.id)?;
                let piece = RunPiece { id, raw_len, digest, checksum: content_checksum(bytes) };
                self.raw.push(piece, bytes, self.policy.align);
                id
            }
            None => {
                if !self.packed.is_empty() && self.packed.bytes.len() + bytes.len() > self.run_bytes {
                    self.close_packed()?;
                }
                let id = self.index.pieces.insert(digest, raw_len, self.packed.id)?;
                self.packed.push(RunPiece { id, raw_len, digest, checksum: 0 }, bytes, 0);
                id
            }
        };
        let place = self.index.pieces.place(id);
        if place.raw_len != raw_len {
            return Err(Error::Usage { detail: format!("digest {digest} was given for contents of different lengths") });
        }
        if place.run == self.raw.id {
            touched[0] = place.run;
        } else if place.run == self.packed.id {
            touched[1] = place.run;
        }
        Ok(id)
    }

    /// Gives an entry that waits for its block a link group, true or not.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn force_group(&mut self, id: EntryId, group: u64) {
        self.index.entry_mut(id).entry.link_group = group;
    }

    pub(super) fn insert(&mut self, mut entry: Entry, source: Source, touched: [RunId; 3]) -> Result<EntryId> {
        let group = self.index.group(std::mem::take(&mut entry.link_group));
        if !self.index.fits_group(group, &entry, &source) {
            return Err(refused(&entry, "the link group of an entry with other content or metadata"));
        }
        let id = EntryId::new(self.index.entries.len())?;
        let first = self.index.first_of_group(group, id);
        // So that an extent map is written once, and all names say the same of it.
        let source = if matches!(source, Source::Parts(..)) && first != id { Source::Same(first) } else { source };
        self.insert_in_group(entry, source, touched, group)
    }

    /// Adds an entry and lets it wait for the open runs that its content is in.
    pub(super) fn insert_in_group(
        &mut self,
        mut entry: Entry,
        source: Source,
        mut touched: [RunId; 3],
        group: u64,
    ) -> Result<EntryId> {
        let id = EntryId::new(self.index.entries.len())?;
        self.index.join_group(group);
        entry.link_group = group;
        let (parts, held) = if let Source::Parts(parts, _) = &source { (parts.len(), size_of_val(&**parts)) } else { (1, 0) };
        // The parts of an extent map are held until its blocks are placed, though its record is short.
        let weight = weight(&entry, parts) + if parts > MAX_LIST_EXTENTS { held } else { 0 };
        let mut waits = 0;
        for (run, touched) in [&mut self.raw, &mut self.packed].into_iter().zip(touched) {
            if touched == run.id && !run.is_empty() {
                run.wait(id, weight);
                waits += 1;
            }
        }
        if waits == 0 {
            self.loose.push(id);
            self.loose_weight += weight;
            touched[2] = self.loose_batch;
        }
        self.index.entries.push(Added { entry, source, touched, group, waits, gone: false });
        if self.raw.is_crowded() {
            self.close_raw()?;
        }
        if self.packed.is_crowded() {
            self.close_packed()?;
        }
        if self.loose.len() >= MAX_WAITING || self.loose_weight >= MAX_WEIGHT {
            self.close_loose()?;
        }
        Ok(id)
    }

    /// Says whether an entry that touched these runs waits for one that is open.
    pub(super) fn is_open(&self, touched: &[RunId; 3]) -> bool {
        touched[0] == self.raw.id && !self.raw.is_empty()
            || touched[1] == self.packed.id && !self.packed.is_empty()
            || touched[2] == self.loose_batch
    }

    pub(super) fn close_raw(&mut self) -> Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let next = self.next_run();
        let mut run = std::mem::replace(&mut self.raw, next);
        self.attach_loose(&mut run);
        self.placing.push(Item::Raw(run), &mut self.index)
    }

    pub(super) fn close_packed(&mut self) -> Result<()> {
        if self.packed.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.undecided)
            && let Some(dictionary) = dictionary::train(&self.packed, self.policy, &mut self.placing.bench)?
        {
            self.placing.push(Item::Dictionary(Arc::new(dictionary)), &mut self.index)?;
        }
        let next = self.next_run();
        let mut run = std::mem::replace(&mut self.packed, next);
        self.attach_loose(&mut run);
        self.placing.push(Item::Packed { run, cut: None }, &mut self.index)
    }

    pub(super) fn close_loose(&mut self) -> Result<()> {
        let entries = std::mem::take(&mut self.loose);
        self.loose_weight = 0;
        self.loose_batch += 1;
        if entries.is_empty() { Ok(()) } else { self.placing.push(Item::Entries(entries), &mut self.index) }
    }

    /// Lets the entries without new content wait for a run that is closed.
    pub(super) fn attach_loose(&mut self, run: &mut Run) {
        for id in self.loose.drain(..) {
            run.wait(id, 0);
            self.index.entry_mut(id).waits = 1;
        }
        self.loose_weight = 0;
        self.loose_batch += 1;
    }

    pub(super) fn next_run(&mut self) -> Run {
        let id = self.next_run_id();
        Run::new(id, self.placing.take_spare())
    }

    pub(super) fn next_run_id(&mut self) -> RunId {
        self.last_run += 1;
        self.last_run
    }
}
