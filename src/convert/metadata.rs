//! Which metadata of entries is kept.

use std::sync::Arc;

pub use crate::source::files::{GivenOwner, OwnerPolicy};
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

/// Reduces metadata to what is kept. Consecutive equal metadata is shared.
#[derive(Debug)]
pub(crate) struct Narrower<'a> {
    policy: &'a MetadataPolicy,
    last: Option<(Arc<Metadata>, Arc<Metadata>)>,
}

impl<'a> Narrower<'a> {
    pub(crate) fn new(policy: &'a MetadataPolicy) -> Self {
        Self { policy, last: None }
    }

    /// Reduces the metadata of an entry.
    pub(crate) fn narrow(&mut self, entry: &mut Entry) {
        self.times(entry);
        entry.metadata = self.metadata(&entry.metadata);
    }

    /// Reduces the time of an entry.
    pub(crate) fn times(&self, entry: &mut Entry) {
        entry.modified = self.time(entry.modified);
    }

    fn time(&self, modified: Option<Timestamp>) -> Option<Timestamp> {
        let MetadataPolicy { times, latest, .. } = *self.policy;
        modified.filter(|_| times).map(|time| latest.map_or(time, |latest| time.min(latest)))
    }

    /// Reduces the metadata of the top directory.
    pub(crate) fn top(&self, mut top: Top) -> Top {
        top.modified = self.time(top.modified);
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
        let Owner { user_id, group_id, ref user, ref group } = *owner;
        match &self.policy.owner {
            OwnerPolicy::Omit => None,
            OwnerPolicy::Ids => Some(Owner { user_id, group_id, ..Owner::default() }),
            OwnerPolicy::Names => Some(owner.clone()),
            OwnerPolicy::Given(given) => Some(given.or(|| (user_id, user.clone()), || (group_id, group.clone()))),
        }
    }

    fn keeps(&self, attribute: &Attribute) -> bool {
        let MetadataPolicy { xattrs, portable, .. } = *self.policy;
        if attribute.namespace != Namespace::Xattr {
            return true;
        }
        xattrs && !(portable && attribute.is_system_xattr())
    }
}
