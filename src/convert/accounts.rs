//! Users and groups of this system, by ID and by name.
//!
//! Each is looked up once, because the system may have to query a server. The results are cached.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::Hash;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// IDs and names of accounts, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    users: Names,
    groups: Names,
}

impl Accounts {
    /// Returns the name of a user, if there is one.
    pub(crate) fn user_name(&self, id: u32) -> Option<Box<[u8]>> {
        cached(&self.users.names, &id, |&id| uzers::get_user_by_uid(id).map(|user| user.name().as_bytes().into()))
    }

    /// Returns the name of a group, if there is one.
    pub(crate) fn group_name(&self, id: u32) -> Option<Box<[u8]>> {
        cached(&self.groups.names, &id, |&id| uzers::get_group_by_gid(id).map(|group| group.name().as_bytes().into()))
    }

    /// Returns the ID of the user of this name. No user has an empty name.
    pub(crate) fn user_id(&self, name: &[u8]) -> Option<u32> {
        self.users.id(name, |name| uzers::get_user_by_name(name).map(|user| user.uid()))
    }

    /// Returns the ID of the group of this name. No group has an empty name.
    pub(crate) fn group_id(&self, name: &[u8]) -> Option<u32> {
        self.groups.id(name, |name| uzers::get_group_by_name(name).map(|group| group.gid()))
    }
}

/// Cached results for one kind of account.
#[derive(Debug, Default)]
struct Names {
    names: Mutex<HashMap<u32, Option<Box<[u8]>>>>,
    ids: Mutex<HashMap<Vec<u8>, Option<u32>>>,
}

impl Names {
    fn id(&self, name: &[u8], look_up: impl Fn(&OsStr) -> Option<u32>) -> Option<u32> {
        // The name comes from an archive. For the system, a NUL would end it.
        if name.is_empty() || name.contains(&0) {
            return None;
        }
        cached(&self.ids, name, |name| look_up(OsStr::from_bytes(name)))
    }
}

/// Returns the cached result for `key`, or that of `look_up`.
fn cached<K, V>(cache: &Mutex<HashMap<K::Owned, Option<V>>>, key: &K, look_up: impl Fn(&K) -> Option<V>) -> Option<V>
where
    K: ToOwned<Owned: Hash + Eq> + Hash + Eq + ?Sized,
    V: Clone,
{
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(result) = cache.get(key) {
        return result.clone();
    }
    let result = look_up(key);
    cache.insert(key.to_owned(), result.clone());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_id_and_name() {
        let accounts = Accounts::default();
        for _ in 0..2 {
            assert_eq!(accounts.user_id(b"root"), Some(0));
            assert_eq!(accounts.user_name(0).as_deref(), Some(&b"root"[..]));
            assert_eq!(accounts.group_id(b"root"), Some(0));
            assert_eq!(accounts.group_name(0).as_deref(), Some(&b"root"[..]));
        }
    }

    #[test]
    fn unknown_names_have_no_id() {
        let accounts = Accounts::default();
        for name in [&b""[..], b"root\0", b"no such account", b"\xff"] {
            assert_eq!((accounts.user_id(name), accounts.group_id(name)), (None, None));
        }
    }

    #[test]
    fn each_account_is_looked_up_once() {
        let (cache, count) = (Mutex::<HashMap<Vec<u8>, Option<u32>>>::default(), std::cell::Cell::new(0));
        let look_up = |name: &[u8]| {
            count.set(count.get() + 1);
            (name == b"a").then_some(7)
        };
        for _ in 0..3 {
            assert_eq!(cached(&cache, &b"a"[..], look_up), Some(7));
            assert_eq!(cached(&cache, &b"b"[..], look_up), None);
        }
        assert_eq!(count.get(), 2);
    }
}
