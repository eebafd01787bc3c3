//! Options that mean the same for every source and every sink.

use crate::limits::Limits;
use crate::metadata::{MetadataPolicy, OwnerPolicy};
use nra_format::archive::OpenOptions;
use nra_format::nra::writer::WriterOptions;

/// How to convert. Settings of one source or one sink are part of that [`Source`](crate::Source) or [`Sink`](crate::Sink).
#[derive(Debug, Clone)]
pub struct Options {
    /// How files and streams are opened.
    pub open: OpenOptions,
    /// Which metadata of each entry is kept.
    pub metadata: MetadataPolicy,
    /// Bounds of what the input may grow to.
    pub limits: Limits,
    /// Skip damaged entries and keep the rest. Otherwise damage ends the conversion.
    pub keep_going: bool,
    /// The same input and options give the same bytes: no owner unless one is given, no attributes of the machine, zero bytes instead of
    /// holes of the file system, and no time of the commit but [`MetadataPolicy::latest`].
    pub reproducible: bool,
    /// Message of the commit, or the comment or description of other formats. Empty: that of the input, if it has one.
    pub message: String,
    /// Worker threads; 0 = one per processor.
    pub threads: usize,
    /// Memory for content that waits, bytes. Indexes, and the caches of an input that is open already, come on top.
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
    /// Returns the options with everything that follows from others filled in: the number of threads, and the metadata of a reproducible output.
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

    /// Returns the options of a writer of .nra with these `settings`, and the memory that is left for reading, bytes.
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
