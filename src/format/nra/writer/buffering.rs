//! Collecting chunks in open buffers. Entries wait for the buffers that hold their content.
//!
//! Spec: nra.md, section 7.

use std::io::Write;
use std::sync::Arc;

use crate::content::{Content, EntryContent as _};
use crate::writer::append::check_record;
use crate::writer::block_writer::QueueItem;
use crate::writer::chunk_buffer::{BufferedChunk, ChunkBuffer, MAX_WAITING, MAX_WEIGHT, aligned};
use crate::writer::chunk_table::{BufferId, ChunkId};
use crate::writer::cut::MAX_UNCOMPRESSED_BLOCK;
use crate::writer::index::{Added, ContentSource, weight};
use crate::writer::{EntryId, Writer, cannot_store, dictionary};
use nra_core::checksum::content_checksum;
use nra_core::codec::Codec;
use nra_core::digest::Digest;
use nra_core::entry::Entry;
use nra_core::error::{Error, Result};
use nra_core::limits::{self, MAX_BLOCK_RAW, MAX_LIST_EXTENTS};

impl<W: Write + Send> Writer<W> {
    /// Checks a new entry and resets the fields that the writer sets.
    pub(super) fn check_new_entry(&self, mut entry: Entry) -> Result<Entry> {
        if self.open_file.is_some() {
            return Err(Error::usage("an entry was added before the open file was ended"));
        }
        entry.size = 0;
        *entry.content_mut() = Content::None;
        check_record(&entry).map(|()| entry)
    }

    /// Stores a chunk unless it is present, and records the open buffer that holds it.
    pub(super) fn store_chunk(
        &mut self,
        bytes: &[u8],
        digest: Digest,
        incompressible: bool,
        buffers: &mut [BufferId; 3],
    ) -> Result<ChunkId> {
        limits::check("length of a chunk", bytes.len() as u64, MAX_BLOCK_RAW.into())?;
        let raw_len = u32::try_from(bytes.len()).expect("checked above");
        self.given_bytes = self.given_bytes.saturating_add(raw_len.into());
        let known = match self.index.chunks.find(&digest) {
            None => self.find_in_base(bytes, digest)?,
            known => known,
        };
        let id = match known {
            Some(id) => {
                self.deduplicated_bytes += u64::from(raw_len);
                id
            }
            None if incompressible || self.policy.method.codec == Codec::None => {
                if !self.incompressible_chunks.is_empty()
                    && aligned(self.incompressible_chunks.bytes.len(), self.policy.align) + bytes.len() > MAX_UNCOMPRESSED_BLOCK
                {
                    self.close_incompressible()?;
                }
                let id = self.index.chunks.insert(digest, raw_len, self.incompressible_chunks.id)?;
                let chunk = BufferedChunk { id, raw_len, digest, checksum: content_checksum(bytes) };
                self.incompressible_chunks.push(chunk, bytes, self.policy.align);
                id
            }
            None => {
                if !self.compressible_chunks.is_empty() && self.compressible_chunks.bytes.len() + bytes.len() > self.buffer_bytes
                {
                    self.close_compressible()?;
                }
                let id = self.index.chunks.insert(digest, raw_len, self.compressible_chunks.id)?;
                self.compressible_chunks.push(BufferedChunk { id, raw_len, digest, checksum: 0 }, bytes, 0);
                id
            }
        };
        let placement = self.index.chunks.placement(id);
        if placement.raw_len != raw_len {
            return Err(Error::usage(format!("digest {digest} was passed for contents of different lengths")));
        }
        self.add_buffer(placement.buffer, buffers);
        Ok(id)
    }

    /// Adds a buffer that holds a chunk to the buffers of an entry, if it is open.
    pub(super) fn add_buffer(&self, buffer: BufferId, buffers: &mut [BufferId; 3]) {
        if buffer == self.incompressible_chunks.id {
            buffers[0] = buffer;
        } else if buffer == self.compressible_chunks.id {
            buffers[1] = buffer;
        }
    }

    /// Sets the link group of an entry that is not recorded yet, even to a false one.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn force_group(&mut self, id: EntryId, group: u64) {
        self.index.entry_mut(id).entry.link_group = group;
    }

    pub(super) fn insert(&mut self, mut entry: Entry, source: ContentSource, buffers: [BufferId; 3]) -> Result<EntryId> {
        let group = self.index.group(std::mem::take(&mut entry.link_group));
        if !self.index.fits_group(group, &entry, &source) {
            return Err(cannot_store(&entry, "the link group of an entry with other content or metadata"));
        }
        let id = EntryId::new(self.index.entries.len())?;
        let first = self.index.first_of_group(group, id);
        // The extent map is then written once, and all names record the same content.
        let source = if matches!(source, ContentSource::Parts(..)) && first != id { ContentSource::Same(first) } else { source };
        self.insert_in_group(entry, source, buffers, group)
    }

    /// Adds an entry. It waits for the open buffers that hold its content.
    pub(super) fn insert_in_group(
        &mut self,
        mut entry: Entry,
        source: ContentSource,
        mut buffers: [BufferId; 3],
        group: u64,
    ) -> Result<EntryId> {
        let id = EntryId::new(self.index.entries.len())?;
        self.index.join_group(group);
        entry.link_group = group;
        let (parts, find_in_base) =
            if let ContentSource::Parts(parts, _) = &source { (parts.len(), size_of_val(&**parts)) } else { (1, 0) };
        // The parts of an extent map stay in memory until its blocks are written, although its
        // record is short.
        let weight = weight(&entry, parts) + if parts > MAX_LIST_EXTENTS { find_in_base } else { 0 };
        let mut pending_buffers = 0;
        for (buffer, buffers) in [&mut self.incompressible_chunks, &mut self.compressible_chunks].into_iter().zip(buffers) {
            if buffers == buffer.id && !buffer.is_empty() {
                buffer.wait(id, weight);
                pending_buffers += 1;
            }
        }
        if pending_buffers == 0 {
            self.contentless.push(id);
            self.contentless_weight += weight;
            buffers[2] = self.contentless_batch;
        }
        self.index.entries.push(Added { entry, source, buffers, group, pending_buffers, removed: false });
        if self.incompressible_chunks.is_crowded() {
            self.close_incompressible()?;
        }
        if self.compressible_chunks.is_crowded() {
            self.close_compressible()?;
        }
        if self.contentless.len() >= MAX_WAITING || self.contentless_weight >= MAX_WEIGHT {
            self.close_contentless()?;
        }
        Ok(id)
    }

    /// Returns whether an entry with these buffers waits for an open one.
    pub(super) fn is_buffered(&self, buffers: &[BufferId; 3]) -> bool {
        buffers[0] == self.incompressible_chunks.id && !self.incompressible_chunks.is_empty()
            || buffers[1] == self.compressible_chunks.id && !self.compressible_chunks.is_empty()
            || buffers[2] == self.contentless_batch
    }

    pub(super) fn close_incompressible(&mut self) -> Result<()> {
        if self.incompressible_chunks.is_empty() {
            return Ok(());
        }
        let next = self.next_buffer();
        let mut buffer = std::mem::replace(&mut self.incompressible_chunks, next);
        self.attach_contentless(&mut buffer);
        self.block_writer.push(QueueItem::Incompressible(buffer), &mut self.index)
    }

    pub(super) fn close_compressible(&mut self) -> Result<()> {
        if self.compressible_chunks.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.dictionary_undecided)
            && let Some(dictionary) =
                dictionary::train(&self.compressible_chunks, self.policy, &mut self.block_writer.compressors)?
        {
            self.block_writer.push(QueueItem::Dictionary(Arc::new(dictionary)), &mut self.index)?;
        }
        let next = self.next_buffer();
        let mut buffer = std::mem::replace(&mut self.compressible_chunks, next);
        self.attach_contentless(&mut buffer);
        self.block_writer.push(QueueItem::Compressible(buffer), &mut self.index)
    }

    pub(super) fn close_contentless(&mut self) -> Result<()> {
        let entries = self.take_contentless();
        if entries.is_empty() { Ok(()) } else { self.block_writer.push(QueueItem::Entries(entries), &mut self.index) }
    }

    /// Makes the entries without new content wait for a buffer that is being closed.
    pub(super) fn attach_contentless(&mut self, buffer: &mut ChunkBuffer) {
        for id in self.take_contentless() {
            buffer.wait(id, 0);
            self.index.entry_mut(id).pending_buffers = 1;
        }
    }

    /// Removes and returns the entries without new content.
    pub(super) fn take_contentless(&mut self) -> Vec<EntryId> {
        self.contentless_weight = 0;
        self.contentless_batch += 1;
        std::mem::take(&mut self.contentless)
    }

    pub(super) fn next_buffer(&mut self) -> ChunkBuffer {
        let id = self.next_buffer_id();
        ChunkBuffer::new(id, self.block_writer.spare.pop().unwrap_or_default())
    }

    pub(super) fn next_buffer_id(&mut self) -> BufferId {
        self.last_buffer += 1;
        self.last_buffer
    }
}
