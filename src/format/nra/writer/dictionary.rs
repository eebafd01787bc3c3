//! Training a dictionary with the first chunk buffer.

use crate::writer::chunk_buffer::ChunkBuffer;
use crate::writer::compressors::Compressors;
use crate::writer::cut::{CutPolicy, cut};
use nra_core::codec::Dictionary;
use nra_core::error::Result;

/// Longest dictionary, bytes. It is read before the first block that needs it.
const MAX_LEN: usize = 32 << 10;
/// Least content for training a dictionary, bytes.
const CONTENT_MIN: usize = 512 << 10;
/// Content used for training, bytes.
const TRAINING: usize = 1 << 20;
/// Most bytes of one chunk used for training.
const TRAINING_CHUNK: usize = 16 << 10;
/// Length of training samples, bytes.
const SAMPLE: usize = 4 << 10;
/// Content that is compressed both ways for comparison, bytes.
const TRIAL: usize = 1 << 20;

/// Trains a dictionary with a buffer. Returns it if it makes the buffer at least 3 % shorter,
/// including its own length.
pub(super) fn train(buffer: &ChunkBuffer, policy: CutPolicy, compressors: &mut Compressors) -> Result<Option<Dictionary>> {
    if buffer.bytes.len() < CONTENT_MIN {
        return Ok(None);
    }
    let mut chunks = Vec::with_capacity(buffer.chunks.len());
    let mut at = 0;
    for chunk in &buffer.chunks {
        chunks.push(&buffer.bytes[at..at + chunk.raw_len as usize]);
        at += chunk.raw_len as usize;
    }
    let considered: usize = chunks.iter().map(|chunk| chunk.len().min(TRAINING_CHUNK)).sum();
    let step = (considered / TRAINING).max(1);
    let samples: Vec<&[u8]> =
        chunks.iter().step_by(step).flat_map(|chunk| chunk[..chunk.len().min(TRAINING_CHUNK)].chunks(SAMPLE)).collect();
    let Some(dictionary) = Dictionary::train(&samples, MAX_LEN) else { return Ok(None) };

    let mut len = 0;
    let lens: Vec<u32> = buffer
        .chunks
        .iter()
        .map(|chunk| chunk.raw_len)
        .take_while(|&chunk| {
            let first = len == 0;
            len += chunk as usize;
            first || len <= TRIAL
        })
        .collect();
    let trial = &buffer.bytes[..lens.iter().map(|&len| len as usize).sum()];
    let with = cut(compressors, policy, Some(&dictionary), trial, &lens)?.stored.len();
    let without = cut(compressors, policy, None, trial, &lens)?.stored.len();
    // The dictionary serves the whole archive, of which only this buffer is known.
    let share = dictionary.as_bytes().len() * trial.len() / buffer.bytes.len();
    Ok(((with + share) * 100 <= without * 97).then_some(dictionary))
}
