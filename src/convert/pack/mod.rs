//! Directory to archive.
//!
//! A walk gives names in windows; each window is put into the order of storage; threads read its files in batches that come back
//! in that order; this thread hands them to the [`Writer`]. The same tree and options give the same order, and so with
//! [`PackOptions::reproducible`] the same bytes, whatever the threads do. Content in memory is bounded by the budget; names in
//! memory by the window.

mod add;
mod content;
mod describe;
mod input;
mod order;
mod plan;
mod read;
mod refusal;
mod sizes;
mod store;

use std::fs::Metadata;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, statat};

use self::add::Known;
pub use self::add::{AddPolicy, add, add_to, plan};
use self::describe::{Describer, LastMetadata};
pub use self::describe::{GivenOwner, OwnerPolicy};
pub use self::input::{Input, default_output};
use self::plan::Plan;
use self::read::Context;
use self::sizes::expect_bytes;
use self::store::Store;
pub use crate::output::Destination;
use crate::output::Output;
pub use crate::walk::Filter;
use crate::walk::{AttributeReader, Facts, NameKind, Walk, WalkOptions, Window, join};
use nra_format::entry::{Attribute, Kind, Timestamp};
use nra_format::error::{Error, Result, Subject};
use nra_format::nra::writer::{Writer, WriterOptions, WriterStats};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::top::Top;

/// Names that are put into order together: more would hardly compress better.
const WINDOW_NAMES: usize = 1_000_000;

/// How to pack. The default keeps everything that an archive can hold.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// How the archive is written; also threads and memory budget of the whole.
    pub writer: WriterOptions,
    /// What is left out.
    pub filter: Filter,
    /// Everything is stored below this path.
    pub prefix: Vec<u8>,
    /// Store what symlinks lead to instead of the symlinks.
    pub follow_symlinks: bool,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// What is recorded of owners.
    pub owner: OwnerPolicy,
    /// Record extended attributes, POSIX ACLs among them.
    pub xattrs: bool,
    /// Given to each entry, of the namespaces behind that of extended attributes.
    pub tags: Vec<Attribute>,
    /// Media types of the files that a PATTERN matches (see [`Selection`](crate::select::Selection)); the last that matches counts.
    pub media_types: Vec<(Vec<u8>, Vec<u8>)>,
    /// Record times of modification.
    pub times: bool,
    /// Same tree and options, same bytes: no owner, no time of the commit unless `latest` is given, and zero bytes instead of holes.
    pub reproducible: bool,
    /// Later times are replaced by this one, which is also the time of the commit in a reproducible archive.
    pub latest: Option<Timestamp>,
    /// Make sure that the archive is on disk before it gets its name.
    pub sync: bool,
    /// Names that are put into order together; each takes about 64 bytes of memory.
    pub window_names: usize,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            writer: WriterOptions::default(),
            filter: Filter::default(),
            prefix: Vec::new(),
            follow_symlinks: false,
            one_file_system: false,
            owner: OwnerPolicy::Names,
            xattrs: true,
            tags: Vec::new(),
            media_types: Vec::new(),
            times: true,
            reproducible: false,
            latest: None,
            sync: true,
            window_names: WINDOW_NAMES,
        }
    }
}

/// What was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackStats {
    /// What the archive holds.
    pub written: WriterStats,
    /// Names that gave no entry, and directories that were not read to their end; a warning said why for each.
    pub left_out: u64,
    /// Those of them that were left out for what the archive has in their way.
    pub in_the_way: u64,
    /// Entries that an update found as they are in the archive.
    pub unchanged: u64,
}

/// Packs `inputs` into a new archive.
///
/// One directory as the only input gives its content, with paths relative to it; anything else is stored under its own name.
/// What can't be read is left out with a warning.
///
/// # Errors
///
/// `Io` when an input is missing or the archive can't be written, `Usage` for options that make no sense, `Cancelled`. Then
/// nothing is left under the name of the destination, and what was there before is untouched.
pub fn pack(inputs: &[Input], destination: Destination, options: &PackOptions, monitor: &dyn Monitor) -> Result<PackStats> {
    refuse_own(inputs, &destination)?;
    let resolved = input::resolve(inputs, &options.prefix, options.follow_symlinks, monitor)?;
    let mut walk = Walk::new(walk_options(options), resolved.starts)?;
    let describer = Describer::new(options)?;
    let output = Output::create(destination)?;
    let name = output.name().clone();
    let own = output.identities();
    let (mut writer_options, read_bytes) = share(options);
    if let Some(top) = &resolved.top {
        writer_options.attributes.extend(top_attributes(top, &inputs[0], &describer, options, monitor)?);
        writer_options.attributes.sort_unstable();
    }
    let job = Job { describer, options, own, known: None, threads: writer_options.threads.max(1), read_bytes, monitor };
    let writer = Writer::create(output, writer_options).map_err(|error| named(error, &name))?;
    let (output, stats) = job.run(&mut walk, writer).map_err(|error| named(error, &name))?;
    monitor.check()?;
    if stats.written.entries == 0 && stats.left_out > 0 && resolved.top.is_none() {
        let path = inputs[0].location().into_os_string().into_encoded_bytes();
        return Err(Error::io("pack", path, std::io::Error::other("nothing could be read")));
    }
    output.publish(options.sync)?;
    Ok(stats)
}

/// Why an input is refused.
const TAKES_ITS_PLACE: &str = "it is where the archive is to go";

/// Refuses an input that the archive would take the place of. What lies in a directory is another matter: the archive itself, from an earlier run.
fn refuse_own(inputs: &[Input], destination: &Destination) -> Result<()> {
    let Destination::File { path, .. } = destination else { return Ok(()) };
    let Ok(target) = std::fs::metadata(path).map(|target| (target.dev(), target.ino())) else { return Ok(()) };
    refuse_input(inputs, target, "pack", TAKES_ITS_PLACE)
}

/// Refuses an input that is the file of this device and inode.
fn refuse_input(inputs: &[Input], file: (u64, u64), action: &'static str, why: &'static str) -> Result<()> {
    for input in inputs {
        let location = input.location();
        if location.symlink_metadata().is_ok_and(|own| own.is_file() && (own.dev(), own.ino()) == file) {
            return Err(Error::io(action, location.into_os_string().into_encoded_bytes(), std::io::Error::other(why)));
        }
    }
    Ok(())
}

/// Returns the options of the writer, and the memory that is left for reading, bytes.
fn share(options: &PackOptions) -> (WriterOptions, u64) {
    let mut writer = options.writer.clone();
    let read_bytes = writer.share_memory();
    writer.reproducible |= options.reproducible;
    if options.reproducible {
        writer.time = options.latest;
    }
    (writer, read_bytes)
}

/// Tells what [`pack`] would store in the file `output`, in the order of paths: path and kind of each entry. Nothing is read but directories; what packing would leave out is told as
/// packing does.
///
/// # Errors
///
/// As [`pack`], as far as that concerns inputs.
pub fn survey(
    inputs: &[Input],
    output: &Path,
    options: &PackOptions,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&EntryPath, Kind) -> Result<()>,
) -> Result<()> {
    let own = add::identity(output).ok();
    if let Some(own) = own {
        refuse_input(inputs, own, "pack", TAKES_ITS_PLACE)?;
    }
    look(inputs, own, options, None, monitor, visit)
}

/// As [`survey`], but for what `known` has, or has something else in the way of.
fn look(
    inputs: &[Input],
    own: Option<(u64, u64)>,
    options: &PackOptions,
    known: Option<&Known>,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&EntryPath, Kind) -> Result<()>,
) -> Result<()> {
    let resolved = input::resolve(inputs, &options.prefix, options.follow_symlinks, monitor)?;
    let describer = Describer::new(options)?;
    let mut walk = Walk::new(walk_options(options), resolved.starts)?;
    let mut found: Vec<(EntryPath, Kind)> = Vec::new();
    while !walk.is_done() {
        let mut window = walk.next_window(options.window_names, monitor)?;
        let (tree, handles) = (walk.tree(), walk.handles());
        // Tells what an earlier input has the path of.
        let plan = Plan::new(tree, &mut window, monitor);
        let mut bytes = Vec::new();
        let mut note = |bytes: &[u8], kind: Kind, facts: &dyn Fn() -> Option<Facts>| {
            let Ok(path) = EntryPath::new(bytes) else { return };
            if let Some(known) = known {
                let old = known.find(&path);
                if let Some(message) = known.bars(old.as_ref(), kind).or_else(|| known.blocks(&path.parent()?)) {
                    return monitor.warn(Warning::degraded(bytes, message));
                }
                if old.is_some_and(|old| facts().is_some_and(|facts| known.stays(&old, kind, &facts, &describer))) {
                    return;
                }
            }
            found.push((path, kind));
        };
        for (id, facts, _) in &window.directories {
            tree.stored_path(*id, &mut bytes);
            note(&bytes, Kind::Directory, &|| Some(*facts));
        }
        for name in plan.names(&window) {
            let path = || tree.shown_path(name.directory, window.name(name));
            if own.is_some_and(|own| own.1 == name.inode && refusal::is_file(handles, tree, name, window.name(name), own)) {
                monitor.warn(Warning::remark(path(), refusal::OWN));
                continue;
            }
            if let Some(message) = refusal::refusal(handles, tree, name, window.name(name)) {
                monitor.warn(Warning::degraded(path(), message));
                continue;
            }
            if options.follow_symlinks
                && name.kind == NameKind::Symlink
                && let Ok(directory) = handles.get(tree, name.directory)
                && let Some(message) = refusal::leads_nowhere(&directory, window.name(name))
            {
                monitor.warn(Warning::remark(path(), message));
            }
            tree.stored_path(name.directory, &mut bytes);
            join(&mut bytes, window.name(name));
            let kind = match name.kind {
                NameKind::File => Kind::File,
                NameKind::Symlink => Kind::Symlink,
                NameKind::Directory => Kind::Directory,
                NameKind::Fifo => Kind::Fifo,
                NameKind::CharacterDevice => Kind::CharacterDevice,
                NameKind::BlockDevice => Kind::BlockDevice,
                NameKind::Other => continue,
            };
            note(&bytes, kind, &|| {
                let directory = handles.get(tree, name.directory).ok()?;
                Some(Facts::new(&statat(&directory, window.name(name), AtFlags::SYMLINK_NOFOLLOW).ok()?))
            });
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same && later.1 != earlier.1 && (later.1 == Kind::Directory || earlier.1 == Kind::Directory) {
            earlier.1 = Kind::Directory;
            let message = "left out: another input has a directory of this path".to_owned();
            monitor.warn(Warning::degraded(later.0.as_bytes(), message));
        }
        same
    });
    found.iter().try_for_each(|(path, kind)| visit(path, *kind))
}

fn walk_options(options: &PackOptions) -> WalkOptions {
    WalkOptions {
        filter: options.filter.clone(),
        follow: options.follow_symlinks,
        one_file_system: options.one_file_system,
        xattrs: options.xattrs,
        threads: options.writer.threads.max(1),
    }
}

/// Puts the name of the archive into an error of the writer, which does not know it.
pub fn named(error: Error, name: impl Into<Subject>) -> Error {
    match error {
        Error::Io { action, subject: Subject::Output, source } => Error::io(action, name, source),
        error => error,
    }
}

/// What packing the windows of a walk needs.
struct Job<'a> {
    describer: Describer,
    options: &'a PackOptions,
    /// Files that are the archive itself.
    own: Vec<(u64, u64)>,
    /// The archive that is added to.
    known: Option<Known>,
    threads: usize,
    /// Memory for reading ahead.
    read_bytes: u64,
    monitor: &'a dyn Monitor,
}

impl Job<'_> {
    /// Stores everything that `walk` finds and finishes the archive.
    fn run<W: Write + Send>(&self, walk: &mut Walk, writer: Writer<W>) -> Result<(W, PackStats)> {
        let (out, stats) = self.fill(walk, writer)?.finish(self.monitor)?;
        Ok((out, PackStats { in_the_way: self.known.as_ref().map_or(0, Known::in_the_way), ..stats }))
    }

    /// Stores everything that `walk` finds.
    fn fill<W: Write + Send>(&self, walk: &mut Walk, writer: Writer<W>) -> Result<Store<W>> {
        let mut store = Store::new(writer);
        let mut first = true;
        let mut before = 0;
        while !walk.is_done() {
            let mut window = walk.next_window(self.options.window_names, self.monitor)?;
            // Names of one inode can lie in different windows only if there are several.
            let defer = !(first && walk.is_done());
            first = false;
            before += self.store(&mut store, walk, &mut window, before, defer)?;
        }
        let mut window = store.take_deferred();
        if !window.names.is_empty() {
            self.store(&mut store, walk, &mut window, before, false)?;
        }
        store.leave_out(walk.left_out());
        Ok(store)
    }

    /// Stores a window: directories, then names in the order of storage. Returns the number of names; there were `before` in
    /// earlier windows.
    fn store<W: Write + Send>(
        &self,
        store: &mut Store<W>,
        walk: &Walk,
        window: &mut Window,
        before: u64,
        defer: bool,
    ) -> Result<u64> {
        let Self { monitor, options, .. } = *self;
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
            follow: options.follow_symlinks,
            xattrs: options.xattrs,
            // Which zero bytes are holes is up to the file system.
            holes: !options.reproducible,
            own: &self.own,
            known: self.known.as_ref(),
            links_before: before,
            defer,
        };
        let (at_work, over) = crossbeam_channel::bounded(0);
        std::thread::scope(|scope| {
            if !defer {
                // Without the thread there is no total.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || expect_bytes(context, &over));
            }
            let stored = store.store(context, self.threads, self.read_bytes);
            drop(at_work);
            stored
        })?;
        Ok(u64::try_from(plan.len()).unwrap_or(u64::MAX))
    }
}

/// What is recorded of the directory whose content is packed (nra.md, section 12).
fn top_attributes(
    top: &Metadata,
    input: &Input,
    describer: &Describer,
    options: &PackOptions,
    monitor: &dyn Monitor,
) -> Result<Vec<Attribute>> {
    let location = input.location();
    let path = if location.as_os_str().is_empty() { Path::new(".") } else { &location };
    let shown = path.as_os_str().as_bytes();
    // Nothing at all could be packed of a directory that can't be read.
    let handle = std::fs::File::open(path).map_err(|error| Error::io("read", shown, error))?;
    let mut xattrs = Vec::new();
    if options.xattrs {
        let (found, lost) = AttributeReader::default().read(&handle);
        xattrs = found;
        describer.narrow(&mut xattrs);
        if let Some(lost) = lost {
            monitor.warn(Warning::degraded(shown, lost.to_string()));
        }
    }
    let own = Timestamp { seconds: top.mtime(), nanoseconds: u32::try_from(top.mtime_nsec()).unwrap_or(0) };
    let modified = options.times.then(|| options.latest.map_or(own, |latest| own.min(latest)));
    let mode = u16::try_from(top.permissions().mode() & 0o7777).ok();
    Ok(Top { mode, owner: describer.owner(top.uid(), top.gid()), modified, xattrs }.into_attributes())
}
