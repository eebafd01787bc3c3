//! Extracts entries to a directory on disk, whatever the container.
//!
//! - Nothing outside the target is created, changed or followed. Each step starts at the handle of
//!   a directory below the target and uses one name without following a symlink. Names and symlinks
//!   in the archive, existing symlinks and long paths can't redirect it. Set-id bits, capabilities
//!   and devices are only restored on request.
//! - Existing files are changed only if the policy permits it. Conflicts are found before anything
//!   is written, and an old file stays until the new one is complete.
//! - Incomplete files are removed. Damage affects single entries, and a warning names each of them.
//! - Memory is bounded by [`Options::memory_bytes`], except for the lists of hard links and of
//!   answers about conflicts.
//!
//! Symlinks are created last. A directory gets its mode, owner and time when no further entries go
//! into it.

mod buffered;
mod conflicts;
mod dest_name;
mod extraction;
mod fault;
mod files;
mod large;
mod options;
mod plan;
mod restore_rules;
mod root;
mod selected;
mod special_files;
mod tree;
mod work;

use std::sync::Arc;

pub use options::{Action, Answer, Ask, Conflict, DirectorySink, DirectoryStats, DirectoryTarget, Event, Observe, Overwrite};

use crate::options::Options;
use crate::select::Selection;
use crate::stats::Stats;
use conflicts::{ConflictFinder, Decisions, Expected};
use extraction::Extraction;
use fault::Fault;
use nra_format::archive::{Access, Archive};
use nra_format::entry::{Attribute, Entry, Metadata};
use nra_format::error::{Error, Resource, Result};
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::top::Top;
use plan::{Batch, Collisions, Planner};
use root::Root;
use selected::{SelectedEntry, Sums};
use tree::{ROOT, Tree, is_dated};

/// The settings of one extraction.
struct Settings<'a> {
    sink: DirectorySink<'a>,
    options: &'a Options,
    dry_run: bool,
}

/// Extracts the selected entries of `archive`. Damaged entries and entries that can't be created
/// are skipped with a warning.
///
/// A dry run reports what would be done with each entry, and ends before the first one is written.
pub(crate) fn extract(
    archive: &dyn Archive,
    selection: &Selection,
    sink: DirectorySink<'_>,
    dry_run: bool,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let settings = Settings { sink, options, dry_run };
    let directory = extract_to(archive, selection, &settings, monitor)?;
    let mut stats = Stats { skipped: directory.skipped, damaged: directory.damaged, ..Stats::default() };
    stats.input_bytes = archive.info().archive_bytes;
    (stats.written.entries, stats.written.files) = (directory.made(), directory.files);
    stats.written.content_bytes = directory.bytes;
    Ok(Stats { directory, ..stats })
}

fn extract_to(
    archive: &dyn Archive,
    selection: &Selection,
    options: &Settings<'_>,
    monitor: &dyn Monitor,
) -> Result<DirectoryStats> {
    // At least one entry at a time.
    let budget = usize::try_from(options.options.memory_bytes / 2).unwrap_or(usize::MAX).max(1);
    let selected = Selected::collect(archive, selection, options, monitor, budget)?;
    let limit = options.options.limits.bytes;
    if selected.sums.distinct_bytes > limit {
        return Err(Error::ResourceLimit { resource: Resource::Content, found: selected.sums.distinct_bytes, limit });
    }
    // An archive without entries is a directory without any.
    let folder = selected.sums.several || selected.sums.entries == 0 && selection.is_all();
    let root = Root::find(&options.sink.target, folder)?;
    let mut run = Extraction::new(archive, options, monitor, &root.path);
    run.lost(selected.lost, if selection.is_all() { archive.skipped_entries() } else { 0 });
    let mut collisions = Collisions::new(is_ambiguous(options));
    let decisions = find_conflicts(&selected, &root, &mut |item, expected| {
        if !options.dry_run {
            return Ok(());
        }
        let admitted = collisions.check(item).map_err(Fault::skip).and_then(|()| run.rules.admit(item.entry.kind));
        match admitted.and_then(|()| expected.map_err(Fault::skip)) {
            Ok(action) => {
                run.wrote(item.entry.size);
                run.done(item, item.path(), action);
                Ok(())
            }
            Err(fault) => run.failed(item, fault),
        }
    })?;
    if options.dry_run {
        return Ok(run.stats());
    }
    run.decisions = decisions;
    // Patterns that match nothing are an error. Selection rules may exclude all entries.
    if selected.sums.entries == 0 && !selection.has_only_rules() {
        return Ok(run.stats());
    }
    monitor.expect(Counter::Entries, selected.sums.entries);
    monitor.expect(Counter::Bytes, selected.sums.bytes);
    selected.try_key()?;
    let (handle, made) = root.make(&run.rules)?;
    root::check_space(&handle, &root.path, selected.sums.distinct_bytes, monitor);
    let whole = selected.sums.entries == archive.entry_count() && options.sink.strip_components == 0 && !options.sink.flat;
    let attributes: &[Attribute] = if whole { &archive.info().attributes } else { &[] };
    let time = Top::of_archive(attributes).modified;
    let dated = !made && time.is_some_and(|time| rustix::fs::fstat(&*handle).is_ok_and(|stat| is_dated(&stat, time)));
    let done = make_batches(&run, Tree::new(Arc::clone(&handle)), selected, budget);
    if made {
        // Also after an error: the permissions of existing content must be those of the archive.
        root::finish(&handle, &root.path, attributes, &run.rules, monitor);
    } else if dated {
        // As for directories below it. An error is not reported: the directory may belong to
        // another user.
        let _ = run.rules.keep_time(&handle, time);
    }
    done?;
    run.rules.warn_stripped(monitor);
    Ok(run.stats())
}

/// The selected entries. They are held if they fit into memory, and read again otherwise.
struct Selected<'a> {
    archive: &'a dyn Archive,
    selection: &'a Selection,
    options: &'a Settings<'a>,
    monitor: &'a dyn Monitor,
    held: Option<Vec<SelectedEntry>>,
    sums: Sums,
    /// Parts of the index that are damaged.
    lost: u64,
}

impl<'a> Selected<'a> {
    fn collect(
        archive: &'a dyn Archive,
        selection: &'a Selection,
        options: &'a Settings<'a>,
        monitor: &'a dyn Monitor,
        budget: usize,
    ) -> Result<Self> {
        let mut selected = Self { archive, selection, options, monitor, held: None, sums: Sums::default(), lost: 0 };
        let (mut held, mut cost) = (Some(Vec::new()), Cost::default());
        for entry in selection.entries(archive)? {
            monitor.check()?;
            match entry {
                Ok(entry) => {
                    let Some(item) = SelectedEntry::new(options, entry) else { continue };
                    selected.sums.add(&item);
                    cost.add(&item);
                    if cost.used > budget {
                        held = None;
                    }
                    if let Some(held) = &mut held {
                        held.push(item);
                    }
                }
                Err(error @ (Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. })) => {
                    selected.lost += 1;
                    let message = format!("entries are lost: {error}");
                    monitor.warn(Warning::damage([], message));
                }
                Err(error) => return Err(error),
            }
        }
        selected.held = held;
        Ok(selected)
    }

    /// Reads one byte of the first encrypted content, so that a missing or wrong key is reported
    /// before anything is written.
    fn try_key(&self) -> Result<()> {
        if !self.archive.info().encrypted || self.archive.keyring().is_some() {
            return Ok(());
        }
        let mut first: Option<Entry> = None;
        self.try_each(|item| {
            let entry = &item.entry;
            let is_earlier = first.as_ref().is_none_or(|first| entry.position() < first.position());
            if is_earlier && entry.size > 0 && self.archive.is_encrypted(entry) {
                first = Some(entry.clone());
            }
            Ok(())
        })?;
        let Some(entry) = first else { return Ok(()) };
        match self.archive.with_range(&entry, 0..1, Access::Random, &mut |_| Ok(())) {
            Err(error @ (Error::KeyNeeded | Error::WrongKey)) => Err(error.of_entry(entry.path.as_bytes())),
            // Other errors are reported when the entry is extracted.
            _ => Ok(()),
        }
    }

    /// Calls `each` for all items until it fails.
    fn try_each(&self, mut each: impl FnMut(&SelectedEntry) -> Result<()>) -> Result<()> {
        if let Some(held) = &self.held {
            return held.iter().try_for_each(each);
        }
        for item in self.reread()? {
            self.monitor.check()?;
            each(&item?)?;
        }
        Ok(())
    }

    /// Reads all items again. Damage was reported the first time.
    fn reread(&self) -> Result<impl Iterator<Item = Result<SelectedEntry>> + 'a> {
        let options = self.options;
        Ok(self.selection.entries(self.archive)?.filter_map(move |entry| match entry {
            Ok(entry) => SelectedEntry::new(options, entry).map(Ok),
            Err(Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. }) => None,
            Err(error) => Some(Err(error)),
        }))
    }
}

/// Memory that held entries take, bytes.
#[derive(Default)]
struct Cost {
    used: usize,
    /// That of the last entry, which the next one usually shares.
    metadata: Option<Arc<Metadata>>,
}

impl Cost {
    /// Counts an entry and the overhead of the lists that hold it.
    fn add(&mut self, item: &SelectedEntry) {
        let Entry { path, target, metadata, .. } = &item.entry;
        let own = size_of::<SelectedEntry>() + path.as_bytes().len() + target.len() + 64;
        self.used = self.used.saturating_add(own).saturating_add(item.entry.location.heap_bytes());
        let shared = self.metadata.as_ref().is_some_and(|last| Arc::ptr_eq(&last.attributes, &metadata.attributes));
        if !shared {
            let values = metadata.attributes.iter().map(|attribute| {
                size_of::<Attribute>().saturating_add(attribute.name.len()).saturating_add(attribute.value.len())
            });
            self.used = values.fold(self.used, usize::saturating_add);
            self.metadata = Some(Arc::clone(metadata));
        }
    }
}

/// Finds conflicts and decides how to resolve them. `each` receives every entry and what is
/// expected to be done with it.
///
/// # Errors
///
/// `Conflict` if the policy does not settle a conflict; nothing is written then.
fn find_conflicts(
    selected: &Selected<'_>,
    root: &Root,
    each: &mut dyn FnMut(&SelectedEntry, Expected) -> Result<()>,
) -> Result<Decisions> {
    let options = selected.options;
    let Some(handle) = root.handle.as_ref().filter(|_| !root.empty) else {
        if options.dry_run {
            selected.try_each(|item| each(item, Ok(Action::Create)))?;
        }
        return Ok(Decisions::of_policy(options.sink.overwrite));
    };
    let mut finder = ConflictFinder::new(options, Arc::clone(handle));
    selected.try_each(|item| {
        selected.monitor.check()?;
        let expected = finder.check(item)?;
        each(item, expected)
    })?;
    finder.finish(&root.path)
}

/// Returns whether two entries can have the same path below the target.
fn is_ambiguous(options: &Settings<'_>) -> bool {
    options.sink.flat || options.sink.strip_components > 0
}

/// Creates everything, batch by batch.
fn make_batches(run: &Extraction<'_>, mut tree: Tree, mut selected: Selected<'_>, budget: usize) -> Result<()> {
    let mut planner = Planner::new(is_ambiguous(run.options));
    if let Some(held) = selected.held.take() {
        let mut batch = Batch::default();
        for item in held {
            planner.add(&mut tree, &mut batch, item);
        }
        return make_batch(run, &mut tree, batch, 1, |_| false);
    }
    let mut items = selected.reread()?.peekable();
    while items.peek().is_some() {
        let (mut batch, mut cost) = (Batch::default(), Cost::default());
        let first = tree.len();
        while cost.used < budget
            && let Some(item) = items.next()
        {
            let item = item?;
            cost.add(&item);
            planner.add(&mut tree, &mut batch, item);
        }
        let last = items.peek().is_none();
        make_batch(run, &mut tree, batch, first, |number| !last && planner.is_open(number))?;
        planner.prune(&mut tree);
    }
    Ok(())
}

/// Creates one batch: directories from number `first` on, files, links, nodes. Then finishes the
/// directories that don't stay open.
fn make_batch(run: &Extraction<'_>, tree: &mut Tree, batch: Batch, first: u32, stays_open: impl Fn(u32) -> bool) -> Result<()> {
    let result = fill(run, tree, batch, first);
    // Also after an error, so that created directories get their permissions.
    let mut faults = Ok(());
    for number in (ROOT + 1..tree.len()).rev().filter(|number| !stays_open(*number) || result.is_err()) {
        if let Err(fault) = special_files::finish_directory(run, tree, number) {
            let failed = match &tree.node(number).item {
                Some(item) => run.failed(item, fault),
                None => Ok(()),
            };
            faults = faults.and(failed);
        }
    }
    result.and(faults)
}

fn fill(run: &Extraction<'_>, tree: &mut Tree, batch: Batch, first: u32) -> Result<()> {
    for (item, why) in batch.rejected {
        run.failed(&item, Fault::skip(why))?;
    }
    for number in first..tree.len() {
        run.monitor.check()?;
        special_files::make_directory(run, tree, number)?;
    }
    work::make_files(run, tree, batch.files)?;
    let mut memory = files::Memory::default();
    for job in &batch.links {
        run.monitor.check()?;
        work::make_link(run, tree, &mut memory, job)?;
    }
    for (item, parent) in batch.specials.iter().chain(&batch.symlinks) {
        run.monitor.check()?;
        special_files::make_node(run, tree, item, *parent).or_else(|fault| run.failed(item, fault))?;
    }
    Ok(())
}
