//! Which metadata of entries is kept.

use std::sync::Arc;

use nra_format::entry::{Attribute, Entry, Metadata, Namespace, Owner, Timestamp};
use nra_format::top::Top;

/// Which metadata of each entry is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPolicy {
    /// Which facts about owners are kept.
    pub owner: OwnerPolicy,
    /// Keep extended attributes, including POSIX ACLs.
    pub xattrs: bool,
    /// Keep modification times.
    pub times: bool,
    /// Later times are replaced by this one.
    pub latest: Option<Timestamp>,
    /// Skip attributes that depend on the machine.
    pub portable: bool,
}

impl Default for MetadataPolicy {
    fn default() -> Self {
        Self { owner: OwnerPolicy::Names, xattrs: true, times: true, latest: None, portable: false }
    }
}

impl MetadataPolicy {
    /// Returns the time to keep.
    pub(crate) fn time(&self, modified: Option<Timestamp>) -> Option<Timestamp> {
        modified.filter(|_| self.times).map(|time| self.latest.map_or(time, |latest| time.min(latest)))
    }
}

/// Which facts about owners are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OwnerPolicy {
    /// IDs and names.
    #[default]
    Names,
    /// IDs only.
    Ids,
    /// Nothing.
    Omit,
    /// This owner, in place of the owner of the file.
    Given(GivenOwner),
}

impl OwnerPolicy {
    /// Returns the owner to keep of a file with these IDs. `user` and `group` return the names.
    pub(crate) fn apply(
        &self,
        (user_id, group_id): (u64, u64),
        user: impl FnOnce() -> Box<[u8]>,
        group: impl FnOnce() -> Box<[u8]>,
    ) -> Option<Owner> {
        match self {
            Self::Omit => None,
            Self::Ids => Some(Owner { user_id, group_id, ..Owner::default() }),
            Self::Names => Some(Owner { user_id, group_id, user: user(), group: group() }),
            Self::Given(given) => {
                let (user_id, user) = given.user.clone().unwrap_or_else(|| (user_id, user()));
                let (group_id, group) = given.group.clone().unwrap_or_else(|| (group_id, group()));
                Some(Owner { user_id, group_id, user, group })
            }
        }
    }
}

/// An owner that replaces others. Empty names are not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenOwner {
    /// ID and name of the user; `None`: unchanged.
    pub user: Option<(u64, Box<[u8]>)>,
    /// ID and name of the group; `None`: unchanged.
    pub group: Option<(u64, Box<[u8]>)>,
}

impl GivenOwner {
    /// Returns the owner of a file that has none, if user and group are given.
    fn whole(&self) -> Option<Owner> {
        let ((user_id, user), (group_id, group)) = (self.user.clone()?, self.group.clone()?);
        Some(Owner { user_id, group_id, user, group })
    }
}

/// Removes the metadata that the policy excludes. Consecutive equal metadata is shared.
#[derive(Debug)]
pub(crate) struct MetadataFilter<'a> {
    policy: &'a MetadataPolicy,
    last: Option<(Arc<Metadata>, Arc<Metadata>)>,
}

impl<'a> MetadataFilter<'a> {
    pub(crate) fn new(policy: &'a MetadataPolicy) -> Self {
        Self { policy, last: None }
    }

    /// Removes excluded metadata from an entry.
    pub(crate) fn narrow(&mut self, entry: &mut Entry) {
        self.times(entry);
        entry.metadata = self.metadata(&entry.metadata);
    }

    /// Reduces the time of an entry.
    pub(crate) fn times(&self, entry: &mut Entry) {
        entry.modified = self.policy.time(entry.modified);
    }

    /// Reduces the metadata of the top directory.
    pub(crate) fn top(&self, mut top: Top) -> Top {
        top.modified = self.policy.time(top.modified);
        top.owner = top.owner.as_ref().and_then(|owner| self.owner(Some(owner)));
        top.xattrs.retain(|attribute| self.keeps(attribute));
        top
    }

    /// Reduces the attributes of an archive, some of which describe the top directory.
    pub(crate) fn whole(&self, attributes: &[Attribute]) -> Vec<Attribute> {
        let others = attributes.iter().filter(|attribute| !Top::has(attribute)).cloned();
        others.chain(self.top(Top::of_archive(attributes)).into_attributes()).collect()
    }

    /// Reduces metadata, sharing it with the previous one if that is equal.
    pub(crate) fn share(&mut self, metadata: Metadata) -> Arc<Metadata> {
        match &self.last {
            Some((known, narrowed)) if **known == metadata => narrowed.clone(),
            _ => self.metadata(&Arc::new(metadata)),
        }
    }

    fn metadata(&mut self, metadata: &Arc<Metadata>) -> Arc<Metadata> {
        if let Some((known, narrowed)) = &self.last
            && (Arc::ptr_eq(known, metadata) || known == metadata)
        {
            return narrowed.clone();
        }
        let narrowed = Arc::new(Metadata {
            mode: metadata.mode,
            owner: self.owner(metadata.owner.as_ref()),
            attributes: metadata.attributes.iter().filter(|attribute| self.keeps(attribute)).cloned().collect(),
        });
        self.last = Some((metadata.clone(), narrowed.clone()));
        narrowed
    }

    fn owner(&self, owner: Option<&Owner>) -> Option<Owner> {
        let Some(owner) = owner else {
            return if let OwnerPolicy::Given(given) = &self.policy.owner { given.whole() } else { None };
        };
        let names = (|| owner.user.clone(), || owner.group.clone());
        self.policy.owner.apply((owner.user_id, owner.group_id), names.0, names.1)
    }

    fn keeps(&self, attribute: &Attribute) -> bool {
        let MetadataPolicy { xattrs, portable, .. } = *self.policy;
        if attribute.namespace != Namespace::Xattr {
            return true;
        }
        xattrs && !(portable && attribute.is_system_xattr())
    }
}
