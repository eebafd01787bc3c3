//! Packs files on disk.
//!
//! A walk yields names in windows. Each window is sorted into the order of storage. Threads read
//! its files in batches, which arrive in that order. This thread passes them to the [`Writer`]. The
//! same tree and options give the same order, and so with [`Options::reproducible`] the same bytes,
//! whatever the threads do. Content in memory is bounded by the budget; names in memory by the
//! window.

mod add;
mod content;
mod describe;
mod input;
mod order;
mod plan;
mod read;
mod sizes;
mod skip;
mod store;

use std::fs::Metadata;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use self::add::ExistingEntries;
pub(crate) use self::add::{add, add_to};
use self::describe::{Describer, LastMetadata};
use self::input::Resolved;
pub use self::input::{Input, pack_output};
use self::plan::Plan;
use self::read::Context;
use self::sizes::expect_bytes;
use self::store::Store;
use crate::options::Options;
use crate::pipeline::Visit;
use crate::sink::output::Output;
use crate::sink::{Destination, NraSink, named};
use crate::source::walk::{AttributeReader, Filter, Walk, WalkOptions, Window};
use crate::stats::Stats;
use nra_format::entry::{Attribute, Kind, Timestamp};
use nra_format::error::{Error, Result};
use nra_format::nra::writer::Writer;
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::top::Top;

/// Names that are sorted together: more would hardly improve compression.
const WINDOW_NAMES: usize = 1_000_000;

/// The files and directories that are packed, and how they are stored.
///
/// One directory as the only input gives its content, with paths relative to it. Anything else is
/// stored under its own name.
#[derive(Debug, Clone)]
pub struct WalkSource {
    /// Files and directories.
    pub inputs: Vec<Input>,
    /// Which of the files below them are skipped.
    pub filter: Filter,
    /// Everything is stored below this path.
    pub prefix: Vec<u8>,
    /// Store the targets of symlinks instead of the symlinks.
    pub follow_symlinks: bool,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// Attributes of each entry, of other namespaces than that of extended attributes.
    pub tags: Vec<Attribute>,
    /// Media types of the files that a pattern matches (see
    /// [`Selection`](crate::select::Selection)); the last match counts.
    pub media_types: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names that are put into order together; each takes about 64 bytes of memory.
    pub window_names: usize,
}

impl Default for WalkSource {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            filter: Filter::default(),
            prefix: Vec::new(),
            follow_symlinks: false,
            one_file_system: false,
            tags: Vec::new(),
            media_types: Vec::new(),
            window_names: WINDOW_NAMES,
        }
    }
}

impl WalkSource {
    /// Returns these inputs, stored as they are.
    pub fn new(inputs: impl Into<Vec<Input>>) -> Self {
        Self { inputs: inputs.into(), ..Self::default() }
    }

    /// Finds the inputs.
    fn resolve(&self, monitor: &dyn Monitor) -> Result<Resolved> {
        input::resolve(&self.inputs, &self.prefix, self.follow_symlinks, monitor)
    }

    fn walk_options(&self, options: &Options) -> WalkOptions {
        WalkOptions {
            filter: self.filter.clone(),
            follow: self.follow_symlinks,
            one_file_system: self.one_file_system,
            xattrs: options.metadata.xattrs,
            threads: options.threads,
        }
    }
}

/// Packs files into a new .nra archive. Names that can't be read are skipped with a warning.
///
/// A dry run stores all entries without their content in an archive that is not written, and passes
/// them to `dry_run`.
pub(crate) fn pack(
    source: &WalkSource,
    destination: Destination,
    sink: &NraSink,
    dry_run: Option<Visit<'_>>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let replaced = match &destination {
        Destination::File { path, .. } => add::identity(path).ok(),
        Destination::Stream(_) | Destination::Null => None,
    };
    if let Some(replaced) = replaced {
        reject_input(&source.inputs, replaced, "pack", InputIsOutput)?;
    }
    let resolved = source.resolve(monitor)?;
    let mut walk = Walk::new(source.walk_options(options), resolved.starts)?;
    let describer = Describer::new(source, options)?;
    let output = Output::create(if dry_run.is_some() { Destination::Null } else { destination })?;
    let name = output.name().clone();
    let own = output.identity().into_iter().chain(replaced).collect();
    let (mut writer_options, read_bytes) = options.writer(&sink.writer);
    if let Some(top) = &resolved.top {
        writer_options.attributes.extend(top_attributes(top, &source.inputs[0], &describer, options, monitor)?);
        writer_options.attributes.sort_unstable();
    }
    let job = Job { describer, source, options, own, known: None, dry_run, read_bytes, monitor };
    let writer = Writer::create(output, writer_options).map_err(|error| named(error, &name))?;
    let (output, stats) = job.run(&mut walk, writer).map_err(|error| named(error, &name))?;
    monitor.check()?;
    if stats.written.entries == 0 && stats.skipped > 0 && resolved.top.is_none() {
        let path = source.inputs[0].location().into_os_string().into_encoded_bytes();
        return Err(Error::io("pack", path, std::io::Error::other("nothing could be read")));
    }
    output.publish(options.sync)?;
    Ok(stats)
}

/// The cause of an error about an input that is the output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputIsOutput;

impl std::fmt::Display for InputIsOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is the output file")
    }
}

impl std::error::Error for InputIsOutput {}

/// Rejects an input that is the file of this device and inode. Below an input directory that file
/// is only skipped.
fn reject_input(
    inputs: &[Input],
    file: (u64, u64),
    action: &'static str,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Result<()> {
    for input in inputs {
        let location = input.location();
        if location.symlink_metadata().is_ok_and(|own| own.is_file() && (own.dev(), own.ino()) == file) {
            return Err(Error::io(action, location.into_os_string().into_encoded_bytes(), std::io::Error::other(why)));
        }
    }
    Ok(())
}

/// Packs the windows of a walk.
struct Job<'a> {
    describer: Describer,
    source: &'a WalkSource,
    options: &'a Options,
    /// Files that are the archive itself.
    own: Vec<(u64, u64)>,
    /// The archive that is added to.
    known: Option<ExistingEntries>,
    /// Receives the entries of a dry run, which reads no content.
    dry_run: Option<Visit<'a>>,
    /// Memory for reading ahead.
    read_bytes: u64,
    monitor: &'a dyn Monitor,
}

impl Job<'_> {
    /// Stores everything that `walk` finds and finishes the archive.
    fn run<W: Write + Send>(&self, walk: &mut Walk, mut writer: Writer<W>) -> Result<(W, Stats)> {
        let stats = self.fill(walk, &mut writer)?;
        let (out, written) = writer.finish(self.monitor)?;
        Ok((out, Stats { written, skipped: stats.skipped + written.skipped, ..stats }))
    }

    /// Stores everything that `walk` finds.
    fn fill<W: Write + Send>(&self, walk: &mut Walk, writer: &mut Writer<W>) -> Result<Stats> {
        let mut store = Store::new(writer, self.dry_run.is_some());
        let mut first = true;
        let mut before = 0;
        while !walk.is_done() {
            let mut window = walk.next_window(self.source.window_names, self.monitor)?;
            // Names of one inode can lie in different windows only if there are several.
            let defer = !(first && walk.is_done());
            first = false;
            before += self.store(&mut store, walk, &mut window, before, defer)?;
        }
        let mut window = store.take_deferred();
        if !window.names.is_empty() {
            self.store(&mut store, walk, &mut window, before, false)?;
        }
        store.skip(walk.skipped());
        if let Some(visit) = self.dry_run {
            store.visit(visit)?;
        }
        Ok(Stats { conflicts: self.known.as_ref().map_or(0, ExistingEntries::conflicts), ..store.stats() })
    }

    /// Stores a window: directories, then names in the order of storage. Returns the number of
    /// names; there were `before` in earlier windows.
    fn store<W: Write + Send>(
        &self,
        store: &mut Store<'_, W>,
        walk: &Walk,
        window: &mut Window,
        before: u64,
        defer: bool,
    ) -> Result<u64> {
        let Self { monitor, source, options, .. } = *self;
        let tree = walk.tree();
        let plan = Plan::new(tree, window, monitor);
        let count = window.directories.len() + plan.len();
        monitor.expect(Counter::Entries, u64::try_from(count).unwrap_or(u64::MAX));
        let mut last = LastMetadata::default();
        let mut path = Vec::new();
        for (id, facts, attributes) in std::mem::take(&mut window.directories) {
            tree.stored_path(id, &mut path);
            if !path.is_empty()
                && let Ok(path) = EntryPath::new(path.as_slice())
            {
                let entry = self.describer.entry(path, Kind::Directory, &facts, attributes, &mut last);
                store.add_directory(entry, self.known.as_ref(), monitor)?;
            }
        }
        let context = Context {
            tree,
            handles: walk.handles(),
            window,
            plan: &plan,
            describer: &self.describer,
            monitor,
            follow: source.follow_symlinks,
            xattrs: options.metadata.xattrs,
            // The file system decides which zero bytes are holes.
            holes: !options.reproducible,
            own: &self.own,
            known: self.known.as_ref(),
            links_before: before,
            defer,
            dry_run: self.dry_run.is_some(),
        };
        let (at_work, over) = crossbeam_channel::bounded(0);
        std::thread::scope(|scope| {
            if !defer && !context.dry_run {
                // Without this thread, the total is unknown.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || expect_bytes(context, &over));
            }
            let stored = store.store(context, options.threads, self.read_bytes);
            drop(at_work);
            stored
        })?;
        Ok(u64::try_from(plan.len()).unwrap_or(u64::MAX))
    }
}

/// Returns the metadata of the top directory (nra.md, section 12).
fn top_attributes(
    top: &Metadata,
    input: &Input,
    describer: &Describer,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Vec<Attribute>> {
    let location = input.location();
    let path = if location.as_os_str().is_empty() { Path::new(".") } else { &location };
    let shown = path.as_os_str().as_bytes();
    // Nothing could be packed from an unreadable directory.
    let handle = std::fs::File::open(path).map_err(|error| Error::io("read", shown, error))?;
    let mut xattrs = Vec::new();
    if options.metadata.xattrs {
        let (found, lost) = AttributeReader::default().read(&handle);
        xattrs = found;
        describer.narrow(&mut xattrs);
        if let Some(lost) = lost {
            monitor.warn(Warning::degraded(shown, lost.to_string()));
        }
    }
    let own = Timestamp { seconds: top.mtime(), nanoseconds: u32::try_from(top.mtime_nsec()).unwrap_or(0) };
    let modified = options.metadata.time(Some(own));
    let mode = u16::try_from(top.permissions().mode() & 0o7777).ok();
    Ok(Top { mode, owner: describer.owner(top.uid(), top.gid()), modified, xattrs }.into_attributes())
}
