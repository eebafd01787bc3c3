//! Decides which metadata is restored: modes, owners, times, extended attributes.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use super::Settings;
use super::fault::Fault;
use crate::accounts::Accounts;
use crate::metadata::OwnerPolicy;
use crate::options::Options;
use crate::proc::umask;
use nra_format::entry::{Attribute, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra_format::progress::{Monitor, Warning};

/// Set-user-id bit.
const SET_USER: u32 = 0o4000;
/// Set-group-id bit.
const SET_GROUP: u32 = 0o2000;
/// Both.
pub(super) const SET_ID: u32 = SET_USER | SET_GROUP;
/// Attribute that gives a program privileges of root.
const CAPABILITY: &[u8] = b"security.capability";

/// Sticky bit.
const STICKY: u32 = 0o1000;
/// Label of a security policy.
const SELINUX: &[u8] = b"security.selinux";

/// The metadata of an entry that is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Mode bits.
    pub mode: u32,
    /// Owner to set.
    pub owner: Option<(u32, u32)>,
    /// Set extended attributes.
    pub xattrs: bool,
}

/// Decides which metadata of each entry is restored.
pub(super) struct RestoreRules {
    root: bool,
    /// Bits removed from the modes of entries.
    mask: u32,
    /// Bits removed from the mode of a directory whose mode is unknown.
    umask: u32,
    /// Bits that the system removes at creation.
    process_umask: u32,
    special: bool,
    owner: bool,
    numeric_owner: bool,
    xattrs: bool,
    times: bool,
    user: u32,
    group: u32,
    accounts: Accounts,
    /// Number of skipped devices.
    devices: AtomicU64,
    /// Number of entries without their set-id bits or capabilities.
    stripped: AtomicU64,
    /// Number of entries without attributes that only root can set.
    privileged: AtomicU64,
}

impl RestoreRules {
    /// Sets up the rules for this process.
    pub(super) fn new(options: &Settings<'_>) -> Self {
        let Settings { sink, options: Options { metadata, .. }, .. } = options;
        let root = rustix::process::geteuid().is_root();
        let process_umask = umask();
        let umask = sink.umask.unwrap_or(process_umask) & 0o777;
        Self {
            root,
            mask: if sink.exact_modes.unwrap_or(root) { 0 } else { umask },
            umask,
            process_umask,
            special: sink.special,
            owner: metadata.owner != OwnerPolicy::Omit && root,
            numeric_owner: metadata.owner == OwnerPolicy::Ids,
            xattrs: metadata.xattrs,
            times: metadata.times,
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            accounts: Accounts::default(),
            devices: AtomicU64::new(0),
            stripped: AtomicU64::new(0),
            privileged: AtomicU64::new(0),
        }
    }

    /// Returns what is restored on a new file of `kind` in a directory with the inherited `group`.
    pub(super) fn plan(&self, kind: Kind, metadata: &Metadata, group: Option<u32>) -> Plan {
        let mut mode = u32::from(metadata.mode) & 0o7777 & !self.mask;
        let ids = metadata.owner.as_ref().and_then(|owner| self.ids(owner));
        let own = (self.user, group.unwrap_or(self.group));
        if !self.special {
            mode &= !SET_ID;
            // The sticky bit has no effect on files here, but has on other systems.
            if kind != Kind::Directory {
                mode &= 0o777;
            }
        } else if kind != Kind::Directory {
            mode &= !self.foreign_set_id(ids, own);
        }
        Plan { mode, owner: ids.filter(|ids| self.owner && *ids != own), xattrs: self.attributes(metadata).next().is_some() }
    }

    /// Returns the set-id bits that would give a program another identity than that in the archive,
    /// because its owner or group is not restored.
    fn foreign_set_id(&self, ids: Option<(u32, u32)>, own: (u32, u32)) -> u32 {
        match ids {
            Some(_) if self.owner => 0,
            Some(ids) => (if ids.0 == own.0 { 0 } else { SET_USER }) | (if ids.1 == own.1 { 0 } else { SET_GROUP }),
            None => SET_ID,
        }
    }

    /// Counts a file without its set-id bits.
    pub(super) fn strip(&self) {
        self.stripped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry if a property is deliberately not restored: set-id bits, the sticky bit of a
    /// file, capabilities, attributes that only root can set.
    pub(super) fn note_stripped(&self, kind: Kind, metadata: &Metadata) {
        let kept = match kind {
            Kind::Symlink => return self.note_privileged(metadata),
            Kind::Directory => SET_ID,
            _ => SET_ID | STICKY,
        };
        let has_capability = || self.root && self.xattrs && metadata.attributes.iter().any(|a| is_xattr(a, CAPABILITY));
        if !self.special && (u32::from(metadata.mode) & kept != 0 || has_capability()) {
            self.stripped.fetch_add(1, Ordering::Relaxed);
        }
        self.note_privileged(metadata);
    }

    fn note_privileged(&self, metadata: &Metadata) {
        // The system sets the label of new files.
        let lost = |a: &Attribute| a.is_system_xattr() && &*a.name != SELINUX;
        if !self.root && self.xattrs && metadata.attributes.iter().any(lost) {
            self.privileged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Warns about the entries that [`RestoreRules::note_stripped`] counted.
    pub(super) fn warn_stripped(&self, monitor: &dyn Monitor) {
        let warn = |count: &AtomicU64, what: &str, why: &str| {
            let entries = match count.load(Ordering::Relaxed) {
                0 => return,
                1 => "1 entry".to_owned(),
                n => format!("{n} entries"),
            };
            let message = format!("{what} of {entries} not restored{why}");
            monitor.warn(Warning::remark([], message));
        };
        let why = if self.special { ": their owner is unknown or not restored" } else { "" };
        warn(&self.stripped, "set-id bits or capabilities", why);
        warn(&self.privileged, "security or trusted attributes", ": only root can set them");
    }

    /// Returns the number of entries that `special` would restore more completely.
    pub(super) fn untrusted(&self) -> u64 {
        self.devices.load(Ordering::Relaxed) + self.stripped.load(Ordering::Relaxed)
    }

    /// Returns the mode of a directory that is not an entry.
    pub(super) fn default_directory_mode(&self) -> u32 {
        0o777 & !self.umask
    }

    /// Returns whether times are restored.
    pub(super) fn restores_times(&self) -> bool {
        self.times
    }

    /// Returns whether the system sets this mode unchanged at creation.
    pub(super) fn survives_creation(&self, mode: u32) -> bool {
        mode & (self.process_umask | SET_ID) == 0
    }

    /// Returns an error for a kind that is not created.
    pub(super) fn admit(&self, kind: Kind) -> Result<(), Fault> {
        match kind {
            Kind::CharacterDevice | Kind::BlockDevice if !self.special => {
                self.devices.fetch_add(1, Ordering::Relaxed);
                Err(Fault::skip("skipped: a device"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the times to set, if any.
    pub(super) fn times(&self, entry: &Entry) -> Option<Timestamps> {
        entry.modified.filter(|_| self.times).map(timestamps)
    }

    /// Restores the time of an existing directory, if times are restored and it has changed.
    pub(super) fn keep_time(&self, handle: &OwnedFd, time: Option<Timestamp>) -> Result<(), Errno> {
        let Some(time) = time.filter(|_| self.times) else { return Ok(()) };
        if modified(&rustix::fs::fstat(handle)?) == time { Ok(()) } else { rustix::fs::futimens(handle, &timestamps(time)) }
    }

    /// Iterates over the extended attributes that are restored.
    pub(super) fn attributes<'a>(&'a self, metadata: &'a Metadata) -> impl Iterator<Item = &'a Attribute> {
        metadata.attributes.iter().filter(|attribute| {
            self.xattrs
                && attribute.namespace == Namespace::Xattr
                && (self.root || !attribute.is_system_xattr())
                && (self.special || &*attribute.name != CAPABILITY)
        })
    }

    /// Returns the IDs of an owner on this system: by name if the name is known here, otherwise the
    /// stored IDs.
    fn ids(&self, owner: &Owner) -> Option<(u32, u32)> {
        let mut user = u32::try_from(owner.user_id).ok();
        let mut group = u32::try_from(owner.group_id).ok();
        if !self.numeric_owner {
            user = self.accounts.user_id(&owner.user).or(user);
            group = self.accounts.group_id(&owner.group).or(group);
        }
        // The highest ID means "do not change" to the system.
        user.zip(group).filter(|(user, group)| *user != u32::MAX && *group != u32::MAX)
    }
}

impl Plan {
    /// Returns user and group to set, as the system calls take them.
    pub(super) fn ids(&self) -> Option<(Option<Uid>, Option<Gid>)> {
        self.owner.map(|(user, group)| (Some(Uid::from_raw(user)), Some(Gid::from_raw(group))))
    }
}

fn is_xattr(attribute: &Attribute, name: &[u8]) -> bool {
    attribute.namespace == Namespace::Xattr && *attribute.name == *name
}

/// Returns times for the system calls. The time of last access is not changed.
pub(super) fn timestamps(modified: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        // Larger values are special.
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.min(999_999_999).into() },
    }
}

/// Returns the modification time in a status.
#[allow(clippy::useless_conversion, reason = "the type differs between systems")]
pub(super) fn modified(stat: &Stat) -> Timestamp {
    Timestamp { seconds: i64::from(stat.st_mtime), nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) }
}

/// Returns mode bits for the system.
pub(super) fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::directory::{DirectorySink, DirectoryTarget};

    fn rules(change: impl FnOnce(&mut DirectorySink<'_>, &mut Options)) -> RestoreRules {
        let mut sink = DirectorySink::new(DirectoryTarget::Exactly(".".into()));
        sink.umask = Some(0o027);
        let mut options = Options::default();
        change(&mut sink, &mut options);
        RestoreRules::new(&Settings { sink, options: &options, dry_run: false })
    }

    #[test]
    fn modes_follow_mask_and_kind() {
        let metadata = Metadata { mode: 0o7666, ..Metadata::default() };
        let exact = rules(|sink, _| sink.exact_modes = Some(true));
        assert_eq!(exact.plan(Kind::File, &metadata, None).mode, 0o666);
        assert_eq!(exact.plan(Kind::Directory, &metadata, None).mode, 0o1666);
        let masked = rules(|sink, _| sink.exact_modes = Some(false));
        assert_eq!(masked.plan(Kind::File, &metadata, None).mode, 0o640);
        let special = rules(|sink, _| (sink.exact_modes, sink.special) = (Some(true), true));
        assert_eq!(special.plan(Kind::Directory, &metadata, None).mode, 0o7666);
        assert_eq!(special.default_directory_mode(), 0o750);
    }

    #[test]
    fn set_id_bits_need_restored_owner() {
        let of = |user: u32, group: u32| {
            let owner = Owner { user_id: user.into(), group_id: group.into(), ..Owner::default() };
            Metadata { mode: 0o7755, owner: Some(owner), ..Metadata::default() }
        };
        let rules = rules(|sink, options| {
            (sink.exact_modes, sink.special, options.metadata.owner) = (Some(true), true, OwnerPolicy::Omit);
        });
        let mode = |metadata: &Metadata| rules.plan(Kind::File, metadata, None).mode;
        let (user, group) = (rules.user, rules.group);
        assert_eq!(mode(&of(user, group)), 0o7755);
        assert_eq!(mode(&of(user + 1, group)), 0o3755);
        assert_eq!(mode(&of(user, group + 1)), 0o5755);
        assert_eq!(mode(&Metadata { owner: None, ..of(user, group) }), 0o1755);
        assert_eq!(
            rules.plan(Kind::File, &of(user, group), Some(group + 1)).mode,
            0o5755,
            "the directory gives it another group"
        );
    }

    #[test]
    fn capabilities_need_special() {
        let attribute = |name: &[u8]| Attribute { namespace: Namespace::Xattr, name: name.into(), value: [1].into() };
        let attributes = [attribute(CAPABILITY), attribute(b"user.x")].into();
        let metadata = Metadata { attributes, ..Metadata::default() };
        let names = |rules: &RestoreRules| rules.attributes(&metadata).map(|a| a.name.to_vec()).collect::<Vec<_>>();
        assert_eq!(names(&rules(|_, _| {})), [b"user.x".to_vec()]);
        assert!(names(&rules(|_, options| options.metadata.xattrs = false)).is_empty());
    }
}
