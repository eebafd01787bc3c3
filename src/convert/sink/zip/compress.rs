//! Compresses members on worker threads.

use std::io;

use flate2::{Compress, Compression as Effort, FlushCompress, Status};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use nra_format::codec::looks_incompressible;
use nra_format::entry::{Entry, Kind};
use nra_format::zip::{Method, Packed};

/// Window of deflate, bytes.
pub(super) const WINDOW: usize = 32 << 10;

/// How members are compressed. Incompressible content is stored uncompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZipCompression {
    /// Not at all.
    Stored,
    /// Deflate, level 1 to 9.
    Deflate(u32),
    /// Zstandard, level 1 to 22.
    Zstd(i32),
}

/// A member whose content is in a batch.
pub(super) struct Member {
    pub(super) entry: Entry,
    /// Length of its content, bytes.
    pub(super) len: usize,
    /// Method and lengths, once it is compressed.
    pub(super) packed: Option<(Method, Packed)>,
}

/// Work for a thread.
pub(super) enum Job {
    /// Whole members, their contents one after another.
    Members(Vec<u8>, Vec<Member>),
    /// A part of a long member to deflate, and the content before it.
    Part { raw: Vec<u8>, before: Vec<u8>, is_last: bool },
}

/// The result of a job: the stored bytes.
pub(super) struct Done {
    pub(super) stored: Vec<u8>,
    pub(super) members: Vec<Member>,
    /// Checksum of a part.
    pub(super) crc: crc32fast::Hasher,
}

/// A compressor, one per thread.
pub(super) struct Compressor {
    compression: ZipCompression,
    deflate: Option<Compress>,
    zstd: Option<CCtx<'static>>,
    scratch: Vec<u8>,
}

impl Compressor {
    pub(super) fn new(compression: ZipCompression) -> Self {
        Self { compression, deflate: None, zstd: None, scratch: Vec::new() }
    }

    /// Executes a job.
    pub(super) fn run(&mut self, job: Job) -> io::Result<Done> {
        let mut done = Done { stored: Vec::new(), members: Vec::new(), crc: crc32fast::Hasher::new() };
        match job {
            Job::Members(raw, mut members) => {
                let mut at = 0;
                for member in &mut members {
                    let content = &raw[at..at + member.len];
                    at += member.len;
                    let start = done.stored.len();
                    // Some programs do not decompress the target of a symlink.
                    let is_link = member.entry.kind == Kind::Symlink;
                    let method = self.member(content, is_link, &mut done.stored)?;
                    let stored_len = (done.stored.len() - start) as u64;
                    member.packed = Some((method, Packed { crc: crc32fast::hash(content), stored_len }));
                }
                done.members = members;
            }
            Job::Part { raw, before, is_last } => {
                done.crc.update(&raw);
                self.part(&raw, &before, is_last, &mut done.stored)?;
            }
        }
        Ok(done)
    }

    /// Appends the stored bytes of a whole member.
    fn member(&mut self, content: &[u8], uncompressed: bool, out: &mut Vec<u8>) -> io::Result<Method> {
        let start = out.len();
        let shrinks = !uncompressed && !content.is_empty() && !looks_incompressible(content);
        let method = match self.compression {
            ZipCompression::Deflate(level) if shrinks => {
                let deflate = self.deflate.get_or_insert_with(|| Compress::new(Effort::new(level), false));
                deflate.reset();
                // If the output is longer than the content, the content is stored uncompressed.
                out.reserve(content.len());
                let status = deflate.compress_vec(content, out, FlushCompress::Finish)?;
                if status == Status::StreamEnd { Method::Deflate } else { Method::Stored }
            }
            ZipCompression::Zstd(level) if shrinks => {
                self.scratch.clear();
                self.scratch.reserve(zstd_safe::compress_bound(content.len()));
                let context = context(&mut self.zstd, level)?;
                context.compress2(&mut self.scratch, content).map_err(zstd_error)?;
                out.extend_from_slice(&self.scratch);
                Method::Zstd
            }
            _ => Method::Stored,
        };
        if method == Method::Stored || out.len() - start >= content.len() {
            out.truncate(start);
            out.extend_from_slice(content);
            return Ok(Method::Stored);
        }
        Ok(method)
    }

    /// Appends a part of a deflate stream. It ends at a byte boundary; the last part ends the
    /// stream.
    fn part(&mut self, raw: &[u8], before: &[u8], is_last: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let level = match self.compression {
            ZipCompression::Deflate(level) if !looks_incompressible(raw) => Effort::new(level),
            _ => Effort::none(),
        };
        let mut deflate = Compress::new(level, false);
        if level != Effort::none() {
            deflate.set_dictionary(before)?;
        }
        let (flush, mut consumed) = (if is_last { FlushCompress::Finish } else { FlushCompress::Sync }, 0);
        loop {
            out.reserve(raw.len() - consumed + (raw.len() >> 6) + 64);
            let status = deflate.compress_vec(&raw[consumed..], out, flush)?;
            consumed = usize::try_from(deflate.total_in()).expect("at most the length of the input");
            let is_done = if is_last { status == Status::StreamEnd } else { consumed == raw.len() && out.len() < out.capacity() };
            if is_done {
                return Ok(());
            }
        }
    }
}

/// An unfinished zstd frame, for content that is too long for memory.
pub(super) struct Frame(CCtx<'static>);

impl Frame {
    /// Starts a frame for `len` bytes.
    pub(super) fn new(level: i32, len: u64) -> io::Result<Self> {
        let mut slot = None;
        context(&mut slot, level)?.set_pledged_src_size(Some(len)).map_err(zstd_error)?;
        Ok(Self(slot.expect("created above")))
    }

    /// Compresses bytes and appends the output so far. An empty slice ends the frame.
    pub(super) fn push(&mut self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let directive = if raw.is_empty() { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
        let mut input = InBuffer::around(raw);
        loop {
            out.reserve(CCtx::out_size());
            let at = out.len();
            let mut output = OutBuffer::around_pos(out, at);
            let left = self.0.compress_stream2(&mut output, &mut input, directive).map_err(zstd_error)?;
            if if raw.is_empty() { left == 0 } else { input.pos == raw.len() } {
                return Ok(());
            }
        }
    }
}

fn context<'a>(slot: &'a mut Option<CCtx<'static>>, level: i32) -> io::Result<&'a mut CCtx<'static>> {
    let context = slot.get_or_insert_with(CCtx::create);
    context.set_parameter(CParameter::CompressionLevel(level)).map_err(zstd_error)?;
    Ok(context)
}

fn zstd_error(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::DeflateDecoder;
    use std::io::Read;

    #[test]
    fn parts_form_one_stream() {
        let text: Vec<u8> = (0..60_000u32).flat_map(|n| (n * n / 7).to_string().into_bytes()).collect();
        let noise: Vec<u8> = (0..4_000u64).flat_map(|n| nra_format::digest::Digest::of(&n.to_le_bytes()).0).collect();
        let content = [&text[..], &noise, &text[..1000]].concat();
        for len in [WINDOW, 50_000, content.len()] {
            let mut compressor = Compressor::new(ZipCompression::Deflate(6));
            let (mut stored, mut before, mut crc) = (Vec::new(), Vec::new(), crc32fast::Hasher::new());
            let parts = content.chunks(len).chain([&[][..]]);
            for raw in parts {
                let job = Job::Part { raw: raw.to_vec(), before, is_last: raw.is_empty() };
                let done = compressor.run(job).unwrap();
                stored.extend(done.stored);
                crc.combine(&done.crc);
                before = raw[raw.len().saturating_sub(WINDOW)..].to_vec();
            }
            let mut back = Vec::new();
            DeflateDecoder::new(&stored[..]).read_to_end(&mut back).unwrap();
            assert!(back == content, "parts of {len}");
            assert_eq!(crc.finalize(), crc32fast::hash(&content));
            assert!(stored.len() < content.len());
        }
    }

    #[test]
    fn incompressible_content_is_stored() {
        for compression in [ZipCompression::Stored, ZipCompression::Deflate(9), ZipCompression::Zstd(19)] {
            let mut compressor = Compressor::new(compression);
            for content in [&b""[..], b"abc", &nra_format::digest::Digest::of(b"x").0] {
                let mut out = b"before".to_vec();
                assert_eq!(compressor.member(content, false, &mut out).unwrap(), Method::Stored);
                assert_eq!(&out[6..], content);
            }
            assert_eq!(compressor.member(&[b'a'; 500], true, &mut Vec::new()).unwrap(), Method::Stored);
        }
    }
}
