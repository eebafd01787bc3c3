//! Entries made from what the system knows of a file, as far as the options want it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::WalkSource;
use crate::accounts::Accounts;
use crate::metadata::MetadataPolicy;
use crate::options::Options;
use crate::select::Selection;
use crate::source::walk::Facts;
use nra_format::entry::{Attribute, Entry, Kind, MEDIA_TYPE, Metadata, Namespace, Owner, Timestamp};
use nra_format::error::Result;
use nra_format::limits::MAX_OWNER_NAME;
use nra_format::path::EntryPath;

/// How many different sets of metadata are remembered; beyond that (every file with attributes of its own) it starts afresh.
const REMEMBERED: usize = 4_096;

/// What is recorded of owners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OwnerPolicy {
    /// Ids and names.
    #[default]
    Names,
    /// Ids alone.
    Ids,
    /// Nothing.
    Omit,
    /// This one, whoever owns the file.
    Given(GivenOwner),
}

/// An owner that takes the place of others. Names are empty when they are not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenOwner {
    /// Id and name of the user; `None` = as it is.
    pub user: Option<(u64, Box<[u8]>)>,
    /// Id and name of the group; `None` = as it is.
    pub group: Option<(u64, Box<[u8]>)>,
}

impl GivenOwner {
    /// Returns the owner of something that has none, if both are given.
    pub(crate) fn whole(&self) -> Option<Owner> {
        let ((user_id, user), (group_id, group)) = (self.user.clone()?, self.group.clone()?);
        Some(Owner { user_id, group_id, user, group })
    }

    /// Returns the owner of something that has these, where it is not given.
    pub(crate) fn or(&self, user: impl FnOnce() -> (u64, Box<[u8]>), group: impl FnOnce() -> (u64, Box<[u8]>)) -> Owner {
        let (user_id, user) = self.user.clone().unwrap_or_else(user);
        let (group_id, group) = self.group.clone().unwrap_or_else(group);
        Owner { user_id, group_id, user, group }
    }
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
    /// Files that have a media type, and that as an attribute; the last that matches counts.
    media_types: Vec<(Selection, Attribute)>,
    common: Mutex<HashMap<Common, Arc<Metadata>>>,
    accounts: Accounts,
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
    /// Prepares the description that `source` and `options` ask for.
    ///
    /// # Errors
    ///
    /// `Usage` when a pattern makes no sense.
    pub(super) fn new(source: &WalkSource, options: &Options) -> Result<Self> {
        let mut tags = source.tags.clone();
        tags.sort_unstable();
        let mut media_types = Vec::with_capacity(source.media_types.len());
        for (pattern, media_type) in &source.media_types {
            let value = media_type.as_slice().into();
            let attribute = Attribute { namespace: Namespace::Nra, name: MEDIA_TYPE.into(), value };
            media_types.push((Selection::new([pattern])?, attribute));
        }
        let (common, accounts) = (Mutex::default(), Accounts::default());
        let MetadataPolicy { ref owner, times, latest, portable, .. } = options.metadata;
        Ok(Self { owner: owner.clone(), times, latest, portable, tags, media_types, common, accounts })
    }

    /// Returns the attributes of an entry: what is left of those of the file system, and those that were given.
    fn attributes(&self, entry: &Entry, mut attributes: Vec<Attribute>) -> Vec<Attribute> {
        self.narrow(&mut attributes);
        // Those of the file system are of another namespace, which comes first.
        attributes.extend(self.tags.iter().cloned());
        if entry.kind == Kind::File
            && let Some((_, media_type)) = self.media_types.iter().rev().find(|(files, _)| files.matches(entry))
        {
            media_type.clone().insert_into(&mut attributes);
        }
        attributes
    }

    /// Removes the attributes that are not recorded.
    pub(super) fn narrow(&self, attributes: &mut Vec<Attribute>) {
        if self.portable {
            attributes.retain(|attribute| !attribute.is_system_xattr());
        }
    }

    /// Returns an entry without content.
    pub(super) fn entry(
        &self,
        path: EntryPath,
        kind: Kind,
        facts: &Facts,
        attributes: Vec<Attribute>,
        last: &mut LastMetadata,
    ) -> Entry {
        let mut entry = Entry::new(path, kind);
        let attributes = self.attributes(&entry, attributes);
        entry.metadata = self.metadata(facts, attributes, last);
        entry.modified = self.time(facts);
        entry.device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice).then_some(facts.device);
        entry
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
        let user = || recorded(self.accounts.user_name(user_id));
        let group = || recorded(self.accounts.group_name(group_id));
        let (user_id, group_id) = (user_id.into(), group_id.into());
        match &self.owner {
            OwnerPolicy::Omit => None,
            OwnerPolicy::Ids => Some(Owner { user_id, group_id, ..Owner::default() }),
            OwnerPolicy::Names => Some(Owner { user_id, group_id, user: user(), group: group() }),
            OwnerPolicy::Given(given) => Some(given.or(|| (user_id, user()), || (group_id, group()))),
        }
    }
}

/// Returns the name to record, empty when there is none that fits an archive.
fn recorded(name: Option<Box<[u8]>>) -> Box<[u8]> {
    name.filter(|name| name.len() <= MAX_OWNER_NAME).unwrap_or_default()
}
