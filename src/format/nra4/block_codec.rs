//! Decodes the stored bytes of a block.

use std::cell::RefCell;

use zstd_safe::{DCtx, DDict, InBuffer, OutBuffer};

use super::manifest::{BlockCodec, MAX_BLOCK_RAW_LEN};

/// Values of the first byte of a block of 4.5.
pub(super) mod tag {
    /// A zstd frame follows.
    pub(in super::super) const ZSTD: u8 = 1;
    /// The raw length (4 bytes) and an LZ4 block follow.
    pub(in super::super) const LZ4: u8 = 2;
}

thread_local! {
    static ZSTD_CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// The dictionary that all zstd blocks of an archive share.
pub(super) struct Dictionary {
    bytes: Vec<u8>,
    prepared: DDict<'static>,
}

impl Dictionary {
    /// Prepares a dictionary. Returns `None` if it is not valid.
    pub(super) fn new(bytes: Vec<u8>) -> Option<Self> {
        let prepared = DDict::try_create(&bytes)?;
        Some(Self { bytes, prepared })
    }
}

/// The detail of the error for a codec that no version supports.
pub(super) const UNSUPPORTED: &str = "unsupported compression";

/// Decodes the first `len` bytes of a block.
pub(super) fn decode(codec: BlockCodec, stored: &[u8], len: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, String> {
    let content = match (codec, stored) {
        (BlockCodec::Tagged, []) => return Err("no stored bytes".into()),
        (BlockCodec::Tagged, [tag::LZ4, rest @ ..]) => lz4(rest, len)?,
        (BlockCodec::Tagged, [tag::ZSTD, frame @ ..]) | (BlockCodec::Tagged | BlockCodec::Zstd, frame) => {
            zstd(frame, len, dictionary)?
        }
        (BlockCodec::None, content) => content[..len.min(content.len())].to_vec(),
        (BlockCodec::Unknown, _) => return Err(UNSUPPORTED.into()),
    };
    if content.len() < len {
        return Err(format!("{} bytes of content found, its chunks need {len}", content.len()));
    }
    Ok(content)
}

fn lz4(stored: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let Some((raw_len, block)) = stored.split_first_chunk() else { return Err("lz4: truncated length".into()) };
    let raw_len = u32::from_le_bytes(*raw_len);
    if u64::from(raw_len) > MAX_BLOCK_RAW_LEN {
        return Err(format!("lz4: {raw_len} bytes of content, the limit is {MAX_BLOCK_RAW_LEN}"));
    }
    let mut content = vec![0; usize::try_from(raw_len).expect("at most 128 MiB")];
    let decoded_len = lz4_flex::block::decompress_into(block, &mut content).map_err(|error| format!("lz4: {error}"))?;
    content.truncate(decoded_len.min(len));
    Ok(content)
}

fn zstd(frame: &[u8], len: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, String> {
    let mut content = Vec::with_capacity(len);
    let decoded = ZSTD_CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = DCtx::try_create();
        }
        let context = context.as_mut().ok_or("zstd: out of memory")?;
        match dictionary {
            None => context.decompress(&mut content, frame),
            Some(dictionary) => context.decompress_using_ddict(&mut content, frame, &dictionary.prepared),
        }
        .map_err(zstd_error)
    });
    if decoded.is_err() {
        // The frame may hold more than `len` bytes: chunks that were stored again later.
        content.clear();
        let mut decoder = FrameDecoder::new(dictionary)?;
        let mut input = InBuffer::around(frame);
        let mut output = OutBuffer::around(&mut content);
        decoder.decode(&mut input, &mut output)?;
    }
    Ok(content)
}

/// A streaming decoder for zstd frames.
pub(super) struct FrameDecoder {
    context: DCtx<'static>,
}

impl FrameDecoder {
    pub(super) fn new(dictionary: Option<&Dictionary>) -> Result<Self, String> {
        let mut context = DCtx::try_create().ok_or("zstd: out of memory")?;
        if let Some(dictionary) = dictionary {
            context.load_dictionary(&dictionary.bytes).map_err(zstd_error)?;
        }
        Ok(Self { context })
    }

    /// Decodes until the input is exhausted or the output is full.
    pub(super) fn decode(&mut self, input: &mut InBuffer<'_>, output: &mut OutBuffer<'_, Vec<u8>>) -> Result<(), String> {
        loop {
            let before = (input.pos(), output.pos());
            if output.pos() == output.capacity() {
                return Ok(());
            }
            self.context.decompress_stream(output, input).map_err(zstd_error)?;
            if before == (input.pos(), output.pos()) {
                return Ok(());
            }
        }
    }
}

fn zstd_error(code: zstd_safe::ErrorCode) -> String {
    format!("zstd: {}", zstd_safe::get_error_name(code))
}
