//! Archive → directory.
//!
//! This module owns everything that writes entries of an archive to a file system, whatever the container. It promises:
//!
//! - Nothing outside the target is made, changed or followed. Every step starts at the handle of a directory below the target and
//!   takes one name without following a symlink, so neither names nor links in the archive, nor symlinks that are there already,
//!   nor the length of paths matter. Set-id bits, capabilities and devices come back on request only.
//! - What is there is not touched without a policy: conflicts are found before anything is written. Under a policy the old file
//!   stands until the new one is whole.
//! - A file that could not be written whole does not stay. Damage costs the entries it touches; each is named in a warning.
//! - Memory is bounded by [`Options::memory_bytes`], but for what it takes to remember hard links and answers to conflicts.
//!
//! Directories are finished (mode, owner, time) when nothing more goes into them, symlinks are made last.

mod dest_name;
mod fault;
mod files;
mod held;
mod item;
mod large;
mod nodes;
mod options;
mod plan;
mod root;
mod rules;
mod run;
mod survey;
mod tree;
mod work;

use std::sync::Arc;

pub use options::{Action, Answer, Ask, Conflict, DirectorySink, DirectoryStats, DirectoryTarget, Event, Observe, Overwrite};

use crate::options::Options;
use crate::select::Selection;
use crate::stats::Stats;
use fault::Fault;
use item::Item;
use nra_format::archive::{Access, Archive};
use nra_format::entry::{Attribute, Entry, Metadata};
use nra_format::error::{Error, Resource, Result};
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::top::Top;
use plan::{Batch, Clashes, Planner};
use root::Root;
use run::Run;
use survey::{Decisions, Outlook, Sums, Survey};
use tree::{ROOT, Tree, is_dated};

/// How one extraction works.
struct Settings<'a> {
    sink: DirectorySink<'a>,
    options: &'a Options,
    dry_run: bool,
}

/// Extracts the selected entries of `archive`.
///
/// Entries that can't be made are skipped and named in warnings; so are damaged ones (`damage` set).
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
    let mut stats = Stats { skipped: directory.omitted, damaged: directory.damaged, ..Stats::default() };
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
    if options.dry_run {
        return rehearse(&selected, &root, options, monitor);
    }
    let decisions = survey(&selected, &root, options, monitor, &mut |_, _| Ok(()))?;
    let run = Run::new(archive, options, monitor, decisions, &root.path);
    run.lost(selected.lost, if selection.is_all() { archive.skipped_entries() } else { 0 });
    // Patterns that match nothing are a mistake; rules may leave out all there is.
    if selected.sums.entries == 0 && !selection.has_only_rules() {
        return Ok(run.stats(&root.path));
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
        // Also after a failure: what is there shall not be open to others than the archive says.
        root::finish(&handle, &root.path, attributes, &run.rules, monitor);
    } else if dated {
        // As for directories below it; that it can't be is no news of a directory that is somebody else's.
        let _ = run.rules.keep_time(&handle, time);
    }
    done?;
    run.rules.warn_stripped(monitor);
    Ok(run.stats(&root.path))
}

/// The selected entries: all of them when they fit into memory, else the means to get them again.
struct Selected<'a> {
    archive: &'a dyn Archive,
    selection: &'a Selection,
    options: &'a Settings<'a>,
    monitor: &'a dyn Monitor,
    held: Option<Vec<Item>>,
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
                    let Some(item) = survey::item(options, entry) else { continue };
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

    /// Reads the start of the content that is reached first of what is encrypted, so that a key that is missing or wrong leaves nothing behind.
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
            // What else is wrong with it is told when it is its turn.
            _ => Ok(()),
        }
    }

    /// Calls `each` for all items until it fails.
    fn try_each(&self, mut each: impl FnMut(&Item) -> Result<()>) -> Result<()> {
        if let Some(held) = &self.held {
            return held.iter().try_for_each(each);
        }
        for item in self.again()? {
            self.monitor.check()?;
            each(&item?)?;
        }
        Ok(())
    }

    /// Iterates over all items anew; what is damaged has been reported.
    fn again(&self) -> Result<impl Iterator<Item = Result<Item>> + 'a> {
        let options = self.options;
        Ok(self.selection.entries(self.archive)?.filter_map(move |entry| match entry {
            Ok(entry) => survey::item(options, entry).map(Ok),
            Err(Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. }) => None,
            Err(error) => Some(Err(error)),
        }))
    }
}

/// Memory that planned entries take.
#[derive(Default)]
struct Cost {
    used: usize,
    /// Of the last entry: the next one mostly shares it.
    metadata: Option<Arc<Metadata>>,
}

impl Cost {
    /// Counts an entry, with some for its place in lists.
    fn add(&mut self, item: &Item) {
        let Entry { path, target, metadata, .. } = &item.entry;
        let own = size_of::<Item>() + path.as_bytes().len() + target.len() + 64;
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

/// Tells what would be done, and why not with what is skipped.
fn rehearse(selected: &Selected<'_>, root: &Root, options: &Settings<'_>, monitor: &dyn Monitor) -> Result<DirectoryStats> {
    let run = Run::new(selected.archive, options, monitor, Survey::nothing_there(options), &root.path);
    run.lost(selected.lost, if selected.selection.is_all() { selected.archive.skipped_entries() } else { 0 });
    let mut clashes = Clashes::new(is_ambiguous(options));
    survey(selected, root, options, monitor, &mut |item, outlook| {
        let admitted = clashes.check(item).map_err(Fault::omit).and_then(|()| run.rules.admit(item.entry.kind));
        match admitted.and_then(|()| outlook.map_err(Fault::omit)) {
            Ok(action) => {
                run.rehearsed(item, action);
                Ok(())
            }
            Err(fault) => run.failed(item, fault),
        }
    })?;
    Ok(run.stats(&root.path))
}

/// Finds conflicts and settles them; `each` is told what will be done with each entry.
fn survey(
    selected: &Selected<'_>,
    root: &Root,
    options: &Settings<'_>,
    monitor: &dyn Monitor,
    each: &mut dyn FnMut(&Item, Outlook) -> Result<()>,
) -> Result<Decisions> {
    let Some(handle) = root.handle.as_ref().filter(|_| !root.empty) else {
        if options.dry_run {
            selected.try_each(|item| each(item, Ok(Action::Create)))?;
        }
        return Ok(Survey::nothing_there(options));
    };
    let mut survey = Survey::new(options, Arc::clone(handle));
    selected.try_each(|item| {
        monitor.check()?;
        let outlook = survey.look(item)?;
        each(item, outlook)
    })?;
    survey.finish(&root.path)
}

/// Says whether two entries can come to the same path.
fn is_ambiguous(options: &Settings<'_>) -> bool {
    options.sink.flat || options.sink.strip_components > 0
}

/// Makes everything, batch by batch.
fn make_batches(run: &Run<'_>, mut tree: Tree, mut selected: Selected<'_>, budget: usize) -> Result<()> {
    let mut planner = Planner::new(is_ambiguous(run.options));
    if let Some(held) = selected.held.take() {
        let mut batch = Batch::default();
        for item in held {
            planner.add(&mut tree, &mut batch, item);
        }
        return make_batch(run, &mut tree, batch, 1, |_| false);
    }
    let mut items = selected.again()?.peekable();
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

/// Makes one batch: directories from number `first` on, files, links, nodes; then finishes the directories that don't stay open.
fn make_batch(run: &Run<'_>, tree: &mut Tree, batch: Batch, first: u32, stays_open: impl Fn(u32) -> bool) -> Result<()> {
    let result = fill(run, tree, batch, first);
    // Also after a failure: what was made shall be as it should be.
    let mut faults = Ok(());
    for number in (ROOT + 1..tree.len()).rev().filter(|number| !stays_open(*number) || result.is_err()) {
        if let Err(fault) = nodes::finish_directory(run, tree, number) {
            let failed = match &tree.node(number).item {
                Some(item) => run.failed(item, fault),
                None => Ok(()),
            };
            faults = faults.and(failed);
        }
    }
    result.and(faults)
}

fn fill(run: &Run<'_>, tree: &mut Tree, batch: Batch, first: u32) -> Result<()> {
    for (item, why) in batch.refused {
        run.failed(&item, Fault::omit(why))?;
    }
    for number in first..tree.len() {
        run.monitor.check()?;
        nodes::make_directory(run, tree, number)?;
    }
    work::make_files(run, tree, batch.files)?;
    let mut memory = files::Memory::default();
    for job in &batch.links {
        run.monitor.check()?;
        work::make_link(run, tree, &mut memory, job)?;
    }
    for (item, parent) in batch.specials.iter().chain(&batch.symlinks) {
        run.monitor.check()?;
        nodes::make_node(run, tree, item, *parent).or_else(|fault| run.failed(item, fault))?;
    }
    Ok(())
}
