//! Writes compressed members in order and records them in the central directory.

use std::io::{self, Write};

use super::compress::{Done, Job};
use crate::sink::export::Counted;
use crate::sink::output::Output;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result, Subject};
use nra_format::worker_pool::WorkerPool;
use nra_format::zip::{Header, Method, Packed, end};

/// Bytes collected before they are written.
const BUFFER: usize = 256 << 10;

/// The compression threads, the file and its central directory so far.
pub(super) struct ZipOutput {
    pool: WorkerPool<'static, Job, io::Result<Done>>,
    /// Checksum of the completed parts.
    crc: crc32fast::Hasher,
    out: io::BufWriter<Counted>,
    /// Offset of the next byte.
    pub(super) offset: u64,
    directory: Vec<u8>,
    members: u64,
    /// Name of the file, for messages.
    name: Subject,
    scratch: Vec<u8>,
}

impl ZipOutput {
    pub(super) fn new(pool: WorkerPool<'static, Job, io::Result<Done>>, output: Output) -> Self {
        let name = output.name().clone();
        Self {
            pool,
            crc: crc32fast::Hasher::new(),
            out: io::BufWriter::with_capacity(BUFFER, Counted::new(output)),
            offset: 0,
            directory: Vec::new(),
            members: 0,
            name,
            scratch: Vec::new(),
        }
    }

    /// Sends a job as soon as there is room for it.
    pub(super) fn send(&mut self, job: Job) -> Result<()> {
        let (Job::Members(raw, _) | Job::Part { raw, .. }) = &job;
        let len = raw.len() as u64;
        while !self.pool.has_room(len) {
            self.receive()?;
        }
        self.pool.send(job, len)
    }

    /// Writes the results of all jobs sent so far.
    pub(super) fn drain(&mut self) -> Result<()> {
        while self.receive()? {}
        Ok(())
    }

    /// Writes the next result. Returns whether there was one.
    fn receive(&mut self) -> Result<bool> {
        let Some(done) = self.pool.receive() else { return Ok(false) };
        let Done { stored, members, crc } = done.map_err(|error| self.failed(error))?;
        self.crc.combine(&crc);
        let mut rest = &stored[..];
        for member in members {
            let (method, packed) = member.packed.expect("set by the compression thread");
            let stored_len = usize::try_from(packed.stored_len).expect("the content is in memory");
            let (content, more) = rest.split_at(stored_len);
            rest = more;
            let name = name(&member.entry);
            let header = header(&name, &member.entry, method, member.len as u64, Some(packed));
            let offset = self.offset;
            self.put(|out| header.local(out))?;
            self.write(content)?;
            self.record(&header, packed, offset);
        }
        self.write(rest)?;
        Ok(true)
    }

    /// Returns the checksum of all parts since the last call.
    pub(super) fn take_crc(&mut self) -> u32 {
        std::mem::take(&mut self.crc).finalize()
    }

    /// Writes the bytes that `make` appends.
    pub(super) fn put(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        make(&mut bytes);
        let written = self.write(&bytes);
        self.scratch = bytes;
        written
    }

    /// Writes bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| self.failed(error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Records a member whose local header is at `offset`.
    pub(super) fn record(&mut self, header: &Header<'_>, packed: Packed, offset: u64) {
        header.central(packed, offset, &mut self.directory);
        self.members += 1;
    }

    /// Writes remaining members, the central directory and the comment.
    pub(super) fn finish(mut self, comment: &[u8]) -> Result<Counted> {
        self.drain()?;
        let (start, directory) = (self.offset, std::mem::take(&mut self.directory));
        self.write(&directory)?;
        let members = self.members;
        self.put(|out| end(members, start, directory.len() as u64, comment, out))?;
        let Self { out, name, .. } = self;
        out.into_inner().map_err(|error| Error::io("write", &name, error.into_error()))
    }

    /// Converts a system error into one that names the file.
    pub(super) fn failed(&self, error: io::Error) -> Error {
        Error::io("write", &self.name, error)
    }
}

/// Returns the zip name of an entry: directories end with a slash.
pub(super) fn name(entry: &Entry) -> Vec<u8> {
    let mut name = entry.path.as_bytes().to_vec();
    if entry.kind == Kind::Directory {
        name.push(b'/');
    }
    name
}

/// Returns the headers of a member.
pub(super) fn header<'a>(name: &'a [u8], entry: &Entry, method: Method, size: u64, packed: Option<Packed>) -> Header<'a> {
    Header {
        name,
        kind: entry.kind,
        mode: entry.metadata.mode,
        owner: entry.metadata.owner.as_ref().map(|owner| (owner.user_id, owner.group_id)),
        modified: entry.modified,
        method,
        size,
        packed,
    }
}
