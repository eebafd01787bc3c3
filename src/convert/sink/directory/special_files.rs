//! Creates symlinks, fifos, devices and directories, and finishes directories.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::dest_name::{NAME_EXISTS, OTHER_IN_THE_WAY, Refusal, back_up, is_replaced, other_names};
use super::extraction::Extraction;
use super::fault::Fault;
use super::files::{is_acl, set_xattrs};
use super::options::{Action, Overwrite};
use super::restore_rules::mode;
use super::selected::{SelectedEntry, split};
use super::tree::{Made, Tree, chmod_handle};
use crate::proc::path_of;
use nra_format::entry::Kind;
use nra_format::error::Result;

/// Creates a symlink, fifo or device in directory number `parent`.
pub(super) fn make_node(run: &Extraction<'_>, tree: &Tree, item: &SelectedEntry, parent: u32) -> Result<(), Fault> {
    let entry = &item.entry;
    let name = split(item.path()).1;
    tree.check(parent)?;
    run.rules.admit(entry.kind)?;
    let directory = tree.handle(parent).map_err(|errno| Fault::system("open its directory", name, errno))?;
    let plan = run.rules.plan(entry.kind, &entry.metadata, tree.node(parent).group);
    let ((), dest_name) = run.claim(&directory, item, |name| {
        make(item, &directory, name).map_err(|errno| run.refused(parent, "make it", name, errno))
    })?;
    run.rules.note_stripped(entry.kind, &entry.metadata);
    let done = restore_metadata(run, item, &directory, dest_name.current(), &plan).and_then(|()| dest_name.commit(&directory));
    if let Err(fault) = done {
        dest_name.abandon(&directory);
        return Err(fault);
    }
    run.done(item, &tree.path_of(parent, dest_name.name()), dest_name.action);
    Ok(())
}

fn make(item: &SelectedEntry, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let entry = &item.entry;
    // Other users must not use it before owner and mode are right.
    let first = Mode::RUSR | Mode::WUSR;
    let device = entry.device.map_or(0, |device| rustix::fs::makedev(device.major, device.minor));
    match entry.kind {
        Kind::Symlink => rustix::fs::symlinkat(&*entry.target, directory, name),
        Kind::Fifo => rustix::fs::mknodat(directory, name, FileType::Fifo, first, 0),
        Kind::CharacterDevice => rustix::fs::mknodat(directory, name, FileType::CharacterDevice, first, device),
        Kind::BlockDevice => rustix::fs::mknodat(directory, name, FileType::BlockDevice, first, device),
        Kind::File | Kind::Directory => Err(Errno::INVAL),
    }
}

/// Restores the metadata of a file that can't be opened.
fn restore_metadata(
    run: &Extraction<'_>,
    item: &SelectedEntry,
    directory: &OwnedFd,
    name: &[u8],
    plan: &super::restore_rules::Plan,
) -> Result<(), Fault> {
    let entry = &item.entry;
    if let Some((user, group)) = plan.ids() {
        run.restored(item, "owner", rustix::fs::chownat(directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW));
    }
    let set = |attribute: &[u8], value: &[u8]| {
        let path = [path_of(directory).as_bytes(), b"/", name].concat();
        rustix::fs::lsetxattr(path, attribute, value, XattrFlags::empty())
    };
    if plan.xattrs {
        set_xattrs(run, item, |name| !is_acl(name), set);
    }
    if entry.kind != Kind::Symlink {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(directory, name, flags, Mode::empty());
        run.restored(item, "mode", handle.and_then(|handle| rustix::fs::chmod(path_of(&handle), mode(plan.mode))));
        if plan.xattrs {
            set_xattrs(run, item, is_acl, set);
        }
    }
    if let Some(times) = run.rules.times(entry) {
        run.restored(item, "time", rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW));
    }
    Ok(())
}

/// Creates directory `number` of the tree, whose parent precedes it.
pub(super) fn make_directory(run: &Extraction<'_>, tree: &mut Tree, number: u32) -> Result<()> {
    let made = tree.check(tree.node(number).parent()).and_then(|()| make_or_find(run, tree, number));
    if made.is_err() {
        tree.node_mut(number).made = Made::Failed;
    }
    let node = tree.node(number);
    match (made, &node.item) {
        (Ok(action), Some(item)) => {
            if node.made == Made::New || run.options.sink.overwrite == Overwrite::Replace {
                run.rules.note_stripped(Kind::Directory, &item.entry.metadata);
            }
            run.done(item, &tree.path(number), action);
            Ok(())
        }
        (Ok(_), None) => Ok(()),
        (Err(fault), Some(item)) => run.failed(item, fault),
        (Err(Fault::Stop(error)), None) => Err(error),
        // The entries below it are reported.
        (Err(_), None) => Ok(()),
    }
}

/// Creates a directory, or finds an existing one. If another kind of file has its name, the policy
/// decides which of the two is renamed or removed.
fn make_or_find(run: &Extraction<'_>, tree: &mut Tree, number: u32) -> Result<Action, Fault> {
    let mut action = Action::Create;
    let mut made = tree.make(number);
    if let Err(Errno::LOOP | Errno::NOTDIR) = made {
        let overwrite = run.overwrite(&tree.path(number));
        if overwrite == Overwrite::Rename {
            action = Action::Rename;
            let name = tree.node(number).name().to_vec();
            // It must not get the name of another directory of the archive.
            let item = tree.node(number).item.clone();
            let is_free = |other: &Vec<u8>| item.as_ref().is_none_or(|item| !run.is_beside(item, other));
            made = tree.make_under(number, other_names(&name).filter(is_free));
        } else {
            action = make_room(tree, number, overwrite)?;
            made = tree.make(number);
        }
    }
    let (parent, name) = (tree.node(number).parent(), tree.node(number).name());
    match made {
        Ok(()) if tree.node(number).made == Made::New => Ok(action),
        Ok(()) => Ok(Action::Merge),
        Err(errno) => Err(match run.refused(parent, "make directory", name, errno) {
            Refusal::Fault(fault) => fault,
            Refusal::Exists => Fault::skip(NAME_EXISTS),
        }),
    }
}

/// Removes or renames a file that has the name of a directory, if the policy permits it.
fn make_room(tree: &Tree, number: u32, overwrite: Overwrite) -> Result<Action, Fault> {
    let node = tree.node(number);
    let name = node.name();
    let parent = tree.handle(node.parent()).map_err(|errno| Fault::system("open its directory", name, errno))?;
    let modified = node.item.as_ref().and_then(|item| item.entry.modified);
    if overwrite == Overwrite::Backup {
        back_up(&parent, name).map_err(|errno| Fault::system("rename", name, errno))?;
        return Ok(Action::Backup);
    }
    let existing = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| Fault::system("read metadata of existing file", name, errno))?;
    if !is_replaced(&existing, overwrite, modified) {
        return Err(Fault::skip(OTHER_IN_THE_WAY));
    }
    rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(|errno| Fault::system("remove", name, errno))?;
    Ok(Action::Replace)
}

/// Restores mode, owner, attributes and time of a directory after its last entry was created.
pub(super) fn finish_directory(run: &Extraction<'_>, tree: &Tree, number: u32) -> Result<(), Fault> {
    let node = tree.node(number);
    let known = node.item.as_ref().filter(|item| !item.entry.implied);
    let (bits, known, dated) = match node.made {
        Made::New => (Some(run.rules.default_directory_mode()), known, None),
        // Its time changes with each new entry. It is restored, so that a resumed extraction has
        // the same result as an uninterrupted one.
        Made::Old { locked, dated } => {
            (locked, known.filter(|_| run.options.sink.overwrite == Overwrite::Replace), known.filter(|_| dated))
        }
        Made::No | Made::Failed => return Ok(()),
    };
    if bits.is_none() && known.is_none() && dated.is_none() {
        return Ok(());
    }
    let fail = |errno| Fault::system("finish directory", node.name(), errno);
    let handle = tree.handle(number).map_err(fail)?;
    let Some(item) = known else {
        if let Some(bits) = bits {
            chmod_handle(&handle, mode(bits)).map_err(fail)?;
        }
        if let Some(item) = dated {
            run.restored(item, "time", run.rules.keep_time(&handle, item.entry.modified));
        }
        return Ok(());
    };
    let plan = run.rules.plan(Kind::Directory, &item.entry.metadata, tree.node(node.parent()).group);
    if let Some((user, group)) = plan.ids() {
        run.restored(item, "owner", rustix::fs::fchown(&*handle, user, group));
    }
    let set = |name: &[u8], value: &[u8]| rustix::fs::fsetxattr(&*handle, name, value, XattrFlags::empty());
    if plan.xattrs {
        set_xattrs(run, item, |name| !is_acl(name), set);
    }
    run.restored(item, "mode", chmod_handle(&handle, mode(plan.mode)));
    if plan.xattrs {
        set_xattrs(run, item, is_acl, set);
    }
    if let Some(times) = run.rules.times(&item.entry) {
        run.restored(item, "time", rustix::fs::futimens(&*handle, &times));
    }
    Ok(())
}
