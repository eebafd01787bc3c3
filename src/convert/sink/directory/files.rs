//! Creates regular files: open with the final mode, write, set the time, close.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::buffered::BufferedContent;
use super::dest_name::{DestName, Refusal};
use super::extraction::{Extraction, Inode};
use super::fault::Fault;
use super::options::Action;
use super::plan::Job;
use super::restore_rules::{Plan, SET_ID, mode};
use super::selected::{SelectedEntry, split};
use super::tree::{ROOT, Tree};
use crate::source::walk::reason;
use nra_format::archive::{Access, Part};
use nra_format::entry::{Kind, Metadata};
use nra_format::error::Error;

/// State that a worker keeps between files.
#[derive(Default)]
pub(super) struct Memory {
    directory: Option<(u32, Arc<OwnedFd>)>,
    plan: Option<(Arc<Metadata>, Option<u32>, Plan)>,
}

impl Memory {
    /// Returns the handle of a directory.
    pub(super) fn directory(&mut self, tree: &Tree, number: u32) -> Result<Arc<OwnedFd>, Errno> {
        if let Some((known, handle)) = &self.directory
            && *known == number
        {
            return Ok(Arc::clone(handle));
        }
        let handle = tree.handle(number)?;
        self.directory = Some((number, Arc::clone(&handle)));
        Ok(handle)
    }

    /// Returns which metadata of a file is restored.
    fn plan(&mut self, run: &Extraction<'_>, metadata: &Arc<Metadata>, group: Option<u32>) -> Plan {
        match &self.plan {
            Some((known, of, plan)) if Arc::ptr_eq(known, metadata) && *of == group => plan.clone(),
            _ => {
                let plan = run.rules.plan(Kind::File, metadata, group);
                self.plan = Some((Arc::clone(metadata), group, plan.clone()));
                plan
            }
        }
    }
}

/// A file that is being written.
pub(super) struct Draft {
    /// The open file.
    pub file: OwnedFd,
    /// Its directory.
    pub directory: Arc<OwnedFd>,
    /// Number of its directory.
    parent: u32,
    dest_name: DestName,
    plan: Plan,
    /// Its mode is more restrictive than the final one.
    closed: bool,
    /// It has its final name, or was removed.
    settled: AtomicBool,
}

impl Draft {
    /// Removes the file.
    pub(super) fn abandon(&self) {
        if !self.settled.swap(true, Ordering::AcqRel) {
            self.dest_name.abandon(&self.directory);
        }
    }

    /// Gives the file its final name.
    fn commit(&self) -> Result<(), Fault> {
        self.dest_name.commit(&self.directory)?;
        self.settled.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Draft {
    /// Removes an unfinished file.
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Creates the file of `item` in directory number `parent` with its content, which is read unless
/// it is `buffered`.
pub(super) fn make_file(
    run: &Extraction<'_>,
    tree: &Tree,
    memory: &mut Memory,
    (item, parent): &Job,
    buffered: Option<BufferedContent>,
) -> Result<(), Fault> {
    let draft = open(run, tree, memory, item, *parent)?;
    let written = match buffered {
        Some(content) => write(run, item, &draft.file, 0..item.entry.size, |sink| content.pass_to(sink)),
        None => write_range(run, item, &draft.file, 0..item.entry.size),
    };
    match written.and_then(|()| finish(run, tree, item, &draft)) {
        Ok(action) => {
            report(run, tree, item, &draft, action);
            Ok(())
        }
        Err(fault) => {
            draft.abandon();
            Err(fault)
        }
    }
}

/// Creates the file.
pub(super) fn open(
    run: &Extraction<'_>,
    tree: &Tree,
    memory: &mut Memory,
    item: &SelectedEntry,
    parent: u32,
) -> Result<Draft, Fault> {
    let (_, name) = split(item.path());
    tree.check(parent)?;
    let directory = memory.directory(tree, parent).map_err(|errno| Fault::system("open its directory", name, errno))?;
    let plan = memory.plan(run, &item.entry.metadata, tree.node(parent).group);
    // The owner needs write permission to set attributes. Other users must not read the file before
    // it has the right owner.
    let closed = plan.owner.is_some() || plan.xattrs || !run.rules.survives_creation(plan.mode);
    let first = if closed { Mode::RUSR | Mode::WUSR } else { mode(plan.mode) };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (file, dest_name) = run.claim(&directory, item, |name| {
        rustix::fs::openat(&directory, name, flags, first).map_err(|errno| run.refused(parent, "create file", name, errno))
    })?;
    run.rules.note_stripped(Kind::File, &item.entry.metadata);
    Ok(Draft { file, directory, parent, dest_name, plan, closed, settled: AtomicBool::new(false) })
}

/// Reads and writes the content in `range`. Holes are not written.
pub(super) fn write_range(run: &Extraction<'_>, item: &SelectedEntry, file: &OwnedFd, range: Range<u64>) -> Result<(), Fault> {
    let (archive, entry) = (run.archive, &item.entry);
    write(run, item, file, range.clone(), |sink| {
        if range == (0..entry.size) {
            archive.with_content(entry, Access::Sequential, sink)
        } else {
            archive.with_range(entry, range, Access::Sequential, sink)
        }
    })
}

/// Writes the content in `range`, which `content` passes on.
fn write(
    run: &Extraction<'_>,
    item: &SelectedEntry,
    file: &OwnedFd,
    Range { start, end }: Range<u64>,
    content: impl FnOnce(&mut dyn FnMut(Part<'_>) -> nra_format::error::Result<()>) -> nra_format::error::Result<()>,
) -> Result<(), Fault> {
    if start == end {
        return Ok(());
    }
    let (mut offset, mut written) = (start, start);
    let mut fault = None;
    let name = split(item.path()).1;
    let mut write = |part: Part<'_>| {
        run.monitor.check()?;
        let len = match part {
            Part::Data(bytes) => bytes.len() as u64,
            Part::Hole(len) => len,
        };
        let next = offset.checked_add(len).filter(|next| *next <= end);
        let step = match (next, part) {
            (None, _) => Err(Fault::Skip { message: "the content is longer than its size".into(), damage: true }),
            (Some(next), Part::Data(bytes)) => write_at(file, bytes, offset, name).map(|()| {
                written = next;
                run.wrote(len);
            }),
            (Some(_), Part::Hole(_)) => {
                run.wrote(len);
                Ok(())
            }
        };
        offset = next.unwrap_or(offset);
        step.map_err(|reason| {
            fault = Some(reason);
            Error::Cancelled
        })
    };
    match (content(&mut write), fault) {
        (_, Some(fault)) => return Err(fault),
        (Err(error), None) => return Err(Fault::reading(error.of_entry(item.path()))),
        (Ok(()), None) => {}
    }
    if offset != end {
        return Err(Fault::Skip {
            message: format!("the content ends after {offset} of {} bytes", item.entry.size),
            damage: true,
        });
    }
    if written < end && end == item.entry.size {
        // A hole at the end.
        rustix::fs::ftruncate(file, end).map_err(|errno| Fault::system("set length of file", name, errno))?;
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub(super) fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64, name: &[u8]) -> Result<(), Fault> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Fault::system("write", name, Errno::NOSPC)),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Fault::system("write", name, errno)),
        }
    }
    Ok(())
}

/// Restores the metadata of the file, and gives it its final name.
pub(super) fn finish(run: &Extraction<'_>, tree: &Tree, item: &SelectedEntry, draft: &Draft) -> Result<Action, Fault> {
    let (file, plan) = (&draft.file, &draft.plan);
    let name = split(item.path()).1;
    let mut bits = plan.mode;
    if let Some((user, group)) = plan.ids()
        && let Err(errno) = rustix::fs::fchown(file, user, group)
    {
        run.degraded(item, format!("owner not restored: {}", reason(errno)));
        bits &= !SET_ID;
    }
    if run.options.sink.special && bits & SET_ID != u32::from(item.entry.metadata.mode) & SET_ID {
        run.rules.strip();
    }
    if draft.closed {
        set_xattrs(run, item, |name| !is_acl(name), |name, value| rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()));
        rustix::fs::fchmod(file, mode(bits)).map_err(|errno| Fault::system("set mode", name, errno))?;
        set_xattrs(run, item, is_acl, |name, value| rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()));
    }
    if let Some(times) = run.rules.times(&item.entry) {
        run.restored(item, "time", rustix::fs::futimens(file, &times));
    }
    if item.entry.link_group != 0 {
        let stat = rustix::fs::fstat(file).map_err(|errno| Fault::system("read metadata of new file", name, errno))?;
        draft.commit()?;
        run.add_first_link(item, &final_path(tree, draft), Inode::of(&stat));
    } else {
        draft.commit()?;
    }
    Ok(draft.dest_name.action)
}

/// Reports a file that is done.
pub(super) fn report(run: &Extraction<'_>, tree: &Tree, item: &SelectedEntry, draft: &Draft, action: Action) {
    run.done(item, &final_path(tree, draft), action);
}

fn final_path(tree: &Tree, draft: &Draft) -> Vec<u8> {
    tree.path_of(draft.parent, draft.dest_name.name())
}

/// Returns whether an attribute is an access control list, which depends on the mode.
pub(super) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// Sets the attributes that `which` selects with `set`, and warns about those that fail.
pub(super) fn set_xattrs(
    run: &Extraction<'_>,
    item: &SelectedEntry,
    which: impl Fn(&[u8]) -> bool,
    set: impl Fn(&[u8], &[u8]) -> Result<(), Errno>,
) {
    for attribute in run.rules.attributes(&item.entry.metadata).filter(|attribute| which(&attribute.name)) {
        let name = nra_format::path::Quoted::new(&attribute.name);
        run.restored(item, &format!("extended attribute {name}"), set(&attribute.name, &attribute.value));
    }
}

/// Result of creating a hard link.
pub(super) enum Linked {
    /// It was created.
    Made,
    /// There is no file to link to, so it becomes a separate file.
    Alone,
    /// Linking failed for this reason, so it becomes a separate file.
    Refused(String),
}

/// Links `item` to the first created file of its link group, if possible.
pub(super) fn link(run: &Extraction<'_>, tree: &Tree, item: &SelectedEntry, parent: u32) -> Result<Linked, Fault> {
    let Some(first) = run.first_link(item) else { return Ok(Linked::Alone) };
    let (first_directory, first_name) = split(&first.path);
    let name = split(item.path()).1;
    tree.check(parent)?;
    let root = tree.handle(ROOT).map_err(|errno| Fault::system("open target", name, errno))?;
    let from = match super::tree::open_below(&root, first_directory) {
        Ok(from) => from,
        Err(errno) => return Ok(Linked::Refused(reason(errno))),
    };
    let directory = tree.handle(parent).map_err(|errno| Fault::system("open its directory", name, errno))?;
    let linked =
        run.claim(&directory, item, |name| match rustix::fs::linkat(&from, first_name, &directory, name, AtFlags::empty()) {
            Ok(()) => Ok(None),
            Err(Errno::EXIST) => Err(Refusal::Exists),
            Err(errno) => Ok(Some(errno)),
        });
    let (refused, dest_name) = linked?;
    if let Some(errno) = refused {
        return Ok(Linked::Refused(reason(errno)));
    }
    // Another process may have replaced the file.
    let same = rustix::fs::statat(&directory, dest_name.current(), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| Inode::of(&stat) == first.inode);
    if !same {
        dest_name.abandon(&directory);
        return Ok(Linked::Refused("the first name refers to another file now".to_owned()));
    }
    dest_name.commit(&directory).inspect_err(|_| dest_name.abandon(&directory))?;
    run.wrote(item.entry.size);
    run.done(item, &tree.path_of(parent, dest_name.name()), Action::Link);
    Ok(Linked::Made)
}

impl Inode {
    #[allow(clippy::useless_conversion, reason = "the types differ between systems")]
    fn of(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev.into(), number: stat.st_ino.into() }
    }
}
