//! Decides about a dictionary from the first run.

use crate::writer::cutter::{CutPolicy, cut};
use crate::writer::run::Run;
use crate::writer::workers::Bench;
use nra_core::codec::Dictionary;
use nra_core::error::Result;

/// Longest dictionary, bytes: it is fetched before the first block that needs it.
const MAX_LEN: usize = 32 << 10;
/// Content below which a dictionary is not thought of, bytes.
const CONTENT_MIN: usize = 512 << 10;
/// Content that the training looks at, bytes.
const TRAINING: usize = 1 << 20;
/// Most bytes of one piece that the training looks at.
const TRAINING_PIECE: usize = 16 << 10;
/// Length of the samples that it is given, bytes.
const SAMPLE: usize = 4 << 10;
/// Content that is compressed both ways to see whether it pays, bytes.
const TRIAL: usize = 1 << 20;

/// Trains a dictionary on a run and returns it if it makes the run at least 3 % shorter, its own length included.
pub(super) fn train(run: &Run, policy: CutPolicy, bench: &mut Bench) -> Result<Option<Dictionary>> {
    if run.bytes.len() < CONTENT_MIN {
        return Ok(None);
    }
    let mut pieces = Vec::with_capacity(run.pieces.len());
    let mut at = 0;
    for piece in &run.pieces {
        pieces.push(&run.bytes[at..at + piece.raw_len as usize]);
        at += piece.raw_len as usize;
    }
    let considered: usize = pieces.iter().map(|piece| piece.len().min(TRAINING_PIECE)).sum();
    let step = (considered / TRAINING).max(1);
    let samples: Vec<&[u8]> =
        pieces.iter().step_by(step).flat_map(|piece| piece[..piece.len().min(TRAINING_PIECE)].chunks(SAMPLE)).collect();
    let Some(dictionary) = Dictionary::train(&samples, MAX_LEN) else { return Ok(None) };

    let mut len = 0;
    let lens: Vec<u32> = run
        .pieces
        .iter()
        .map(|piece| piece.raw_len)
        .take_while(|&piece| {
            let first = len == 0;
            len += piece as usize;
            first || len <= TRIAL
        })
        .collect();
    let trial = &run.bytes[..lens.iter().map(|&len| len as usize).sum()];
    let with = cut(bench, policy, Some(&dictionary), trial, &lens)?.stored.len();
    let without = cut(bench, policy, None, trial, &lens)?.stored.len();
    // The dictionary serves the whole archive, of which this run is all that is known.
    let share = dictionary.as_bytes().len() * trial.len() / run.bytes.len();
    Ok(((with + share) * 100 <= without * 97).then_some(dictionary))
}
