//! Creates entries from the status of files, with the metadata that the options select.

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

/// Maximum number of cached sets of metadata. A full cache is cleared.
const REMEMBERED: usize = 4_096;

/// Creates entries. Shared by all threads.
pub(super) struct Describer {
    policy: MetadataPolicy,
    /// Attributes of each entry, sorted.
    tags: Vec<Attribute>,
    /// Selections of files with their media types as attributes. The last match counts.
    media_types: Vec<(Selection, Attribute)>,
    common: Mutex<HashMap<Common, Arc<Metadata>>>,
    accounts: Accounts,
}

/// The metadata that files share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Common {
    mode: u16,
    user_id: u32,
    group_id: u32,
    attributes: Vec<Attribute>,
}

/// The last metadata of one thread. The next file usually has the same.
#[derive(Debug, Default)]
pub(super) struct LastMetadata(Option<(Common, Arc<Metadata>)>);

impl Describer {
    /// Creates a describer for these options.
    ///
    /// # Errors
    ///
    /// `Usage` for an invalid pattern.
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
        Ok(Self { policy: options.metadata.clone(), tags, media_types, common, accounts })
    }

    /// Returns the attributes of an entry: the recorded ones of the file system, and those of the
    /// options.
    fn attributes(&self, entry: &Entry, mut attributes: Vec<Attribute>) -> Vec<Attribute> {
        self.narrow(&mut attributes);
        // The namespace of attributes of the file system sorts first.
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
        if self.policy.portable {
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
        self.policy.time(Some(facts.modified))
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
        self.policy.owner.apply((user_id.into(), group_id.into()), user, group)
    }
}

/// Returns the name to record; empty if there is none or it is too long for an archive.
fn recorded(name: Option<Box<[u8]>>) -> Box<[u8]> {
    name.filter(|name| name.len() <= MAX_OWNER_NAME).unwrap_or_default()
}
