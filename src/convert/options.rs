//! Options that apply to every source and every sink.

use crate::limits::Limits;
use crate::metadata::{MetadataPolicy, OwnerPolicy};
use nra_format::archive::OpenOptions;
use nra_format::nra::writer::WriterOptions;

/// How to convert. Settings of one source or one sink are part of that [`Source`](crate::Source) or
/// [`Sink`](crate::Sink).
#[derive(Debug, Clone)]
pub struct Options {
    /// How files and streams are opened.
    pub open: OpenOptions,
    /// Which metadata of each entry is kept.
    pub metadata: MetadataPolicy,
    /// Limits for the decoded size of the input.
    pub limits: Limits,
    /// Skip damaged entries and keep the rest. Otherwise damage ends the conversion.
    pub keep_going: bool,
    /// Create the same bytes from the same input and options. Omits owners unless one is given,
    /// attributes that depend on the machine and holes of the file system. The time of the commit
    /// is [`MetadataPolicy::latest`].
    pub reproducible: bool,
    /// Message of the commit, or the comment or description in other formats. If empty, that of the
    /// input is used.
    pub message: String,
    /// Worker threads; 0 = one per processor.
    pub threads: usize,
    /// Memory for queued content, bytes. Indexes and the caches of an open input need additional
    /// memory.
    pub memory_bytes: u64,
    /// Flush the output to disk before it gets its name.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            open: OpenOptions::default(),
            metadata: MetadataPolicy::default(),
            limits: Limits::default(),
            keep_going: false,
            reproducible: false,
            message: String::new(),
            threads: 0,
            memory_bytes: 256 << 20,
            sync: true,
        }
    }
}

impl Options {
    /// Returns the options with derived settings filled in: the number of threads, and the metadata
    /// of a reproducible output.
    pub(crate) fn resolved(&self) -> Self {
        let mut options = self.clone();
        if options.threads == 0 {
            options.threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        }
        if options.reproducible {
            options.metadata.portable = true;
            if !matches!(options.metadata.owner, OwnerPolicy::Given(_)) {
                options.metadata.owner = OwnerPolicy::Omit;
            }
        }
        options
    }

    /// Returns the options of an NRA writer with these `settings`, and the remaining memory for
    /// reading, bytes.
    pub(crate) fn writer(&self, settings: &WriterOptions) -> (WriterOptions, u64) {
        let mut writer = settings.clone();
        writer.threads = self.threads;
        writer.memory_bytes = self.memory_bytes;
        writer.message.clone_from(&self.message);
        writer.reproducible = self.reproducible;
        if self.reproducible {
            writer.time = self.metadata.latest;
        }
        let read_bytes = writer.share_memory();
        (writer, read_bytes)
    }
}
