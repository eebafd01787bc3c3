//! Memory of decoded entries.

use std::collections::HashSet;
use std::sync::Arc;

use crate::content::{Content, EntryContent as _};
use nra_core::entry::{Attribute, Entry, Metadata};

/// Estimates the memory of decoded entries, bytes. Shared values count once.
pub(super) fn weight_of_entries(entries: &[Entry]) -> u64 {
    let mut shared = HashSet::new();
    size_of_val(entries) as u64 + entries.iter().map(|entry| weight_beside(entry, &mut shared)).sum::<u64>()
}

/// Estimates the heap memory of an entry, bytes. `shared` holds the addresses of values that were
/// counted before.
pub(super) fn weight_beside(entry: &Entry, shared: &mut HashSet<usize>) -> u64 {
    // Allocator overhead of each path, name and value.
    const HEAP: usize = 16;
    let segments = if let Content::List(segments, _) = entry.content() { size_of_val(&**segments) } else { 0 };
    let mut bytes = entry.path.as_bytes().len() + entry.target.len() + segments + HEAP;
    let metadata = &entry.metadata;
    if shared.insert(Arc::as_ptr(metadata).addr()) {
        let names = metadata.owner.as_ref().map_or(0, |owner| owner.user.len() + owner.group.len() + 2 * HEAP);
        bytes += size_of::<Metadata>() + names;
        if !metadata.attributes.is_empty() && shared.insert(metadata.attributes.as_ptr().addr()) {
            let own = |attribute: &Attribute| size_of::<Attribute>() + attribute.name.len() + attribute.value.len() + 2 * HEAP;
            bytes += metadata.attributes.iter().map(own).sum::<usize>();
        }
    }
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::entry::{Kind, Namespace};
    use nra_core::path::EntryPath;

    #[test]
    fn shared_attributes_count_once() {
        let attribute = Attribute { namespace: Namespace::User, name: (*b"tag").into(), value: vec![7; 1 << 20].into() };
        let metadata = Arc::new(Metadata { attributes: vec![attribute].into(), ..Metadata::default() });
        let other = Arc::new(Metadata { mode: 1, ..(*metadata).clone() });
        let entry = |name: &str, metadata: &Arc<Metadata>| {
            let mut entry = Entry::new(EntryPath::try_from(name).unwrap(), Kind::File);
            entry.metadata = Arc::clone(metadata);
            entry
        };
        let weight = weight_of_entries(&[entry("a", &metadata), entry("b", &metadata), entry("c", &other)]);
        assert!((1 << 20..(1 << 20) + 2_000).contains(&weight), "{weight}");
    }
}
