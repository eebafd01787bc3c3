//! Options for opening archives.

use std::num::NonZero;
use std::thread::available_parallelism;

use crate::container::Engine;
use crate::crypt::{Keyring, Secret};
use crate::names::NameEncoding;

/// Options for opening archives.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Maximum size of the cache of decoded blocks and pages, bytes. Large blocks may use the same
    /// again, and two of them are cached whatever their size. Default: 128 MiB.
    pub cache_bytes: u64,
    /// Threads that decode a stream if it can be decoded in parallel. Default: one per core.
    pub threads: NonZero<usize>,
    /// Find entries by block indexes if the index is damaged. Default: yes.
    pub recover: bool,
    /// Maximum size of an index that is kept in memory, bytes. Applies to all containers except NRA 5. Default: 2 GiB.
    pub index_bytes: u64,
    /// Maximum length of an archive that is read from a stream into memory, bytes. Default: 1 GiB.
    pub stream_limit: u64,
    /// Maximum ratio of decoded to stored bytes of a compressed stream. Does not apply to the first GiB. Default: 2,000, which deflate cannot reach.
    pub stream_ratio: u64,
    /// Number of the commit to read. Default: the newest.
    pub commit: Option<u64>,
    /// Password or key of an encrypted archive. Default: none.
    pub key: Option<Secret>,
    /// Unlocked keys of an NRA archive. Used instead of `key` if the archive has the same key slots, because unlocking by password is slow.
    /// Default: none.
    pub unlocked: Option<Keyring>,
    /// Encoding of names if the container does not declare it. Default: depends on the container.
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
