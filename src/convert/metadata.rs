//! What is kept of the metadata of entries.

use std::sync::Arc;

pub use crate::source::files::{GivenOwner, OwnerPolicy};
use nra_format::entry::{Attribute, Entry, Metadata, Namespace, Owner, Timestamp};
use nra_format::top::Top;

/// What is kept of each entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPolicy {
    /// What is kept of owners.
    pub owner: OwnerPolicy,
    /// Keep extended attributes, POSIX ACLs among them.
    pub xattrs: bool,
    /// Keep times of modification.
    pub times: bool,
    /// Later times are replaced by this one.
    pub latest: Option<Timestamp>,
    /// Leave out attributes that depend on the machine.
    pub portable: bool,
}

impl Default for MetadataPolicy {
    fn default() -> Self {
        Self { owner: OwnerPolicy::Names, xattrs: true, times: true, latest: None, portable: false }
    }
}

/// Narrows metadata to what is kept; equal ones in a row are shared.
#[derive(Debug)]
pub(crate) struct Narrower<'a> {
    policy: &'a MetadataPolicy,
    last: Option<(Arc<Metadata>, Arc<Metadata>)>,
}

impl<'a> Narrower<'a> {
    pub(crate) fn new(policy: &'a MetadataPolicy) -> Self {
        Self { policy, last: None }
    }

    /// Narrows an entry.
    pub(crate) fn narrow(&mut self, entry: &mut Entry) {
        self.times(entry);
        entry.metadata = self.metadata(&entry.metadata);
    }

    /// Narrows the time of an entry.
    pub(crate) fn times(&self, entry: &mut Entry) {
        entry.modified = self.time(entry.modified);
    }

    fn time(&self, modified: Option<Timestamp>) -> Option<Timestamp> {
        let MetadataPolicy { times, latest, .. } = *self.policy;
        modified.filter(|_| times).map(|time| latest.map_or(time, |latest| time.min(latest)))
    }

    /// Narrows what is said of the directory above all entries.
    pub(crate) fn top(&self, mut top: Top) -> Top {
        top.modified = self.time(top.modified);
        top.owner = top.owner.as_ref().and_then(|owner| self.owner(Some(owner)));
        top.xattrs.retain(|attribute| self.keeps(attribute));
        top
    }

    /// Narrows the attributes of an archive, some of which are about the directory above all entries.
    pub(crate) fn whole(&self, attributes: &[Attribute]) -> Vec<Attribute> {
        let others = attributes.iter().filter(|attribute| !Top::has(attribute)).cloned();
        others.chain(self.top(Top::of_archive(attributes)).into_attributes()).collect()
    }

    /// Returns metadata that is shared with the last one if that is equal.
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
