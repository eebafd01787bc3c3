//! Decoding the stored bytes of a block.

use std::cell::RefCell;

use zstd_safe::{DCtx, DDict, InBuffer, OutBuffer};

use super::manifest::{Coding, MAX_WHOLE};

/// Tags of blocks of 4.5.
pub(super) mod tag {
    /// A zstd frame follows.
    pub(in super::super) const ZSTD: u8 = 1;
    /// The raw length (4 bytes) and an LZ4 block follow.
    pub(in super::super) const LZ4: u8 = 2;
}

thread_local! {
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// A dictionary for all zstd blocks of an archive.
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    prepared: DDict<'static>,
}

impl Dictionary {
    /// Prepares it, or says nothing when it is not valid.
    pub(super) fn new(bytes: Vec<u8>) -> Option<Self> {
        let prepared = DDict::try_create(&bytes)?;
        Some(Self { bytes, prepared })
    }
}

/// Decodes the first `len` bytes of the content of a block; what follows is not needed.
///
/// # Errors
///
/// What is wrong, as a sentence.
pub(super) fn decode(coding: Coding, stored: &[u8], len: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, String> {
    let content = match (coding, stored) {
        (Coding::Tagged, []) => return Err("it is empty".into()),
        (Coding::Tagged, [tag::LZ4, rest @ ..]) => lz4(rest, len)?,
        (Coding::Tagged, [tag::ZSTD, frame @ ..]) | (Coding::Tagged | Coding::Zstd, frame) => zstd(frame, len, dictionary)?,
        (Coding::None, content) => content[..len.min(content.len())].to_vec(),
        (Coding::Unknown, _) => return Err("its compression is one that no version reads".into()),
    };
    if content.len() < len {
        return Err(format!("it has {} bytes of content, its chunks need {len}", content.len()));
    }
    Ok(content)
}

fn lz4(stored: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let Some((raw_len, block)) = stored.split_first_chunk() else { return Err("lz4: cut off".into()) };
    let raw_len = u32::from_le_bytes(*raw_len);
    if u64::from(raw_len) > MAX_WHOLE {
        return Err(format!("lz4: {raw_len} bytes of content, more than {MAX_WHOLE}"));
    }
    let mut content = vec![0; usize::try_from(raw_len).expect("at most 128 MiB")];
    let found = lz4_flex::block::decompress_into(block, &mut content).map_err(|error| format!("lz4: {error}"))?;
    content.truncate(found.min(len));
    Ok(content)
}

fn zstd(frame: &[u8], len: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, String> {
    let mut content = Vec::with_capacity(len);
    let whole = CONTEXT.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = DCtx::try_create();
        }
        let context = slot.as_mut().ok_or("zstd: out of memory")?;
        match dictionary {
            None => context.decompress(&mut content, frame),
            Some(dictionary) => context.decompress_using_ddict(&mut content, frame, &dictionary.prepared),
        }
        .map_err(name)
    });
    if whole.is_err() {
        // There may be more than is needed: bytes of chunks that were stored again later.
        content.clear();
        let mut stream = Stream::new(dictionary)?;
        let mut input = InBuffer::around(frame);
        let mut output = OutBuffer::around(&mut content);
        stream.decode(&mut input, &mut output)?;
    }
    Ok(content)
}

/// Decodes zstd frames piece by piece.
pub(super) struct Stream {
    context: DCtx<'static>,
}

impl Stream {
    pub(super) fn new(dictionary: Option<&Dictionary>) -> Result<Self, String> {
        let mut context = DCtx::try_create().ok_or("zstd: out of memory")?;
        if let Some(dictionary) = dictionary {
            context.load_dictionary(&dictionary.bytes).map_err(name)?;
        }
        Ok(Self { context })
    }

    /// Decodes until the input is used up or the output is full.
    pub(super) fn decode(&mut self, input: &mut InBuffer<'_>, output: &mut OutBuffer<'_, Vec<u8>>) -> Result<(), String> {
        loop {
            let before = (input.pos(), output.pos());
            if output.pos() == output.capacity() {
                return Ok(());
            }
            self.context.decompress_stream(output, input).map_err(name)?;
            if before == (input.pos(), output.pos()) {
                return Ok(());
            }
        }
    }
}

fn name(code: zstd_safe::ErrorCode) -> String {
    format!("zstd: {}", zstd_safe::get_error_name(code))
}
