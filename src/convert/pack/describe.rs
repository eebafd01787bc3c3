//! Entries made from what the system knows of a file, as far as the options want it.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::convert::walk::Facts;
use crate::format::entry::{Attribute, Entry, Kind, Location, Metadata, Owner, Timestamp};
use crate::format::limits::MAX_OWNER_NAME;
use crate::format::nra::content::Content;
use crate::format::path::EntryPath;

/// How many different sets of metadata are remembered; beyond that (every file with attributes of its own) it starts afresh.
const REMEMBERED: usize = 4_096;

/// What is recorded of owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnerPolicy {
    /// Ids and names.
    #[default]
    Names,
    /// Ids alone.
    Ids,
    /// Nothing.
    Omit,
}

/// Makes entries; shared by all threads.
#[derive(Debug)]
pub(super) struct Describer {
    owner: OwnerPolicy,
    times: bool,
    /// No time is later than this.
    latest: Option<Timestamp>,
    /// Leave out attributes that depend on the machine.
    portable: bool,
    /// Given to each entry, sorted.
    tags: Vec<Attribute>,
    common: Mutex<HashMap<Common, Arc<Metadata>>>,
    users: Mutex<HashMap<u32, Box<[u8]>>>,
    groups: Mutex<HashMap<u32, Box<[u8]>>>,
}

/// What two files with equal metadata have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Common {
    mode: u16,
    user_id: u32,
    group_id: u32,
    attributes: Vec<Attribute>,
}

/// The last metadata of one thread: mostly the next file has the same.
#[derive(Debug, Default)]
pub(super) struct LastMetadata(Option<(Common, Arc<Metadata>)>);

impl Describer {
    /// Prepares. `latest`: later times are replaced by it. `portable`: attributes that depend on the machine are left out.
    pub(super) fn new(owner: OwnerPolicy, times: bool, latest: Option<Timestamp>, portable: bool) -> Self {
        let (common, users, groups) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { owner, times, latest, portable, tags: Vec::new(), common, users, groups }
    }

    /// Gives each entry these attributes, too.
    pub(super) fn with_tags(mut self, tags: &[Attribute]) -> Self {
        self.tags = tags.to_vec();
        self.tags.sort_unstable();
        self
    }

    /// Removes the attributes that are not recorded.
    pub(super) fn narrow(&self, attributes: &mut Vec<Attribute>) {
        if self.portable {
            attributes.retain(|attribute| !attribute.name.starts_with(b"security.") && !attribute.name.starts_with(b"trusted."));
        }
    }

    /// Returns an entry without content.
    pub(super) fn entry(
        &self,
        path: EntryPath,
        kind: Kind,
        facts: &Facts,
        mut attributes: Vec<Attribute>,
        last: &mut LastMetadata,
    ) -> Entry {
        self.narrow(&mut attributes);
        // Those of the file system are of another namespace, which comes first.
        attributes.extend(self.tags.iter().cloned());
        Entry {
            path,
            kind,
            metadata: self.metadata(facts, attributes, last),
            modified: self.time(facts),
            size: 0,
            link_group: 0,
            target: Box::default(),
            device: matches!(kind, Kind::CharacterDevice | Kind::BlockDevice).then_some(facts.device),
            implied: false,
            location: Location::Nra(Content::None),
        }
    }

    /// Returns the time to record.
    pub(super) fn time(&self, facts: &Facts) -> Option<Timestamp> {
        self.times.then(|| self.latest.map_or(facts.modified, |latest| facts.modified.min(latest)))
    }

    fn metadata(&self, facts: &Facts, attributes: Vec<Attribute>, last: &mut LastMetadata) -> Arc<Metadata> {
        let common = Common { mode: facts.mode, user_id: facts.user_id, group_id: facts.group_id, attributes };
        if let Some((known, metadata)) = &last.0
            && *known == common
        {
            return metadata.clone();
        }
        let mut all = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = match all.get(&common) {
            Some(metadata) => metadata.clone(),
            None => {
                let metadata = Arc::new(Metadata {
                    mode: common.mode,
                    owner: self.owner(facts.user_id, facts.group_id),
                    attributes: common.attributes.clone().into(),
                });
                if all.len() >= REMEMBERED {
                    all.clear();
                }
                all.insert(common.clone(), metadata.clone());
                metadata
            }
        };
        last.0 = Some((common, metadata.clone()));
        metadata
    }

    /// Returns the owner to record.
    pub(super) fn owner(&self, user_id: u32, group_id: u32) -> Option<Owner> {
        let (user, group) = match self.owner {
            OwnerPolicy::Omit => return None,
            OwnerPolicy::Ids => (Box::default(), Box::default()),
            OwnerPolicy::Names => (
                look_up(&self.users, user_id, |id| uzers::get_user_by_uid(id).map(|user| user.name().as_bytes().into())),
                look_up(&self.groups, group_id, |id| uzers::get_group_by_gid(id).map(|group| group.name().as_bytes().into())),
            ),
        };
        Some(Owner { user_id: user_id.into(), group_id: group_id.into(), user, group })
    }
}

/// Returns the name for an id, empty when there is none that fits an archive.
fn look_up(known: &Mutex<HashMap<u32, Box<[u8]>>>, id: u32, ask: impl Fn(u32) -> Option<Box<[u8]>>) -> Box<[u8]> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(id).or_insert_with(|| ask(id).filter(|name| name.len() <= MAX_OWNER_NAME).unwrap_or_default()).clone()
}
