//! How archives are opened.

use std::num::NonZero;
use std::thread::available_parallelism;

use crate::container::Engine;
use crate::crypt::{Keyring, Secret};
use crate::names::NameEncoding;

/// How archives are opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Bound for decoded blocks and pages kept in memory, bytes. Default: 128 MiB.
    pub cache_bytes: u64,
    /// Threads that decode a stream which several can decode. Default: one a core.
    pub threads: NonZero<usize>,
    /// Go by the directories of the blocks where the index is damaged. Default: yes.
    pub recover: bool,
    /// Bound for what an index takes that has to be held in memory, bytes: that of every container but NRA 5. Default: 2 GiB.
    pub index_bytes: u64,
    /// Bound for an archive that is read from a stream and kept in memory, bytes. Default: 1 GiB.
    pub stream_limit: u64,
    /// Bound for what a compressed stream may grow to, in times its length; the first GiB is free. Default: 2,000, which deflate can't reach.
    pub stream_ratio: u64,
    /// Number of the commit to read. Default: the newest.
    pub commit: Option<u64>,
    /// What opens an encrypted archive. Default: nothing.
    pub key: Option<Secret>,
    /// Keys of an NRA archive, unlocked before. Where it has the same key slots it is opened by them instead of `key`: to try a password takes its time.
    /// Default: nothing.
    pub unlocked: Option<Keyring>,
    /// Encoding of names in containers that do not tell it. Default: as each container has it.
    pub names: Option<NameEncoding>,
    /// The engine that reads it. Default: detected from its content.
    pub engine: Option<Engine>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            threads: available_parallelism().unwrap_or(NonZero::<usize>::MIN),
            recover: true,
            index_bytes: 2 << 30,
            stream_limit: 1 << 30,
            stream_ratio: 2_000,
            commit: None,
            key: None,
            unlocked: None,
            names: None,
            engine: None,
        }
    }
}
