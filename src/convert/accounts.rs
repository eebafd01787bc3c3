//! Users and groups of this system, by number and by name.
//!
//! The system is asked once for each of them (it may have to ask a server); what it says is remembered.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::Hash;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// Numbers and names of accounts; shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    users: Names,
    groups: Names,
}

impl Accounts {
    /// Returns the name of a user, if there is one.
    pub(crate) fn user_name(&self, id: u32) -> Option<Box<[u8]>> {
        ask_once(&self.users.names, &id, |&id| uzers::get_user_by_uid(id).map(|user| user.name().as_bytes().into()))
    }

    /// Returns the name of a group, if there is one.
    pub(crate) fn group_name(&self, id: u32) -> Option<Box<[u8]>> {
        ask_once(&self.groups.names, &id, |&id| uzers::get_group_by_gid(id).map(|group| group.name().as_bytes().into()))
    }

    /// Returns the number of a user of this name; an empty name has none.
    pub(crate) fn user_id(&self, name: &[u8]) -> Option<u32> {
        self.users.id(name, |name| uzers::get_user_by_name(name).map(|user| user.uid()))
    }

    /// Returns the number of a group of this name; an empty name has none.
    pub(crate) fn group_id(&self, name: &[u8]) -> Option<u32> {
        self.groups.id(name, |name| uzers::get_group_by_name(name).map(|group| group.gid()))
    }
}

/// What the system said of one kind of account.
#[derive(Debug, Default)]
struct Names {
    names: Mutex<HashMap<u32, Option<Box<[u8]>>>>,
    ids: Mutex<HashMap<Vec<u8>, Option<u32>>>,
}

impl Names {
    fn id(&self, name: &[u8], ask: impl Fn(&OsStr) -> Option<u32>) -> Option<u32> {
        // The name comes from an archive; the system takes texts that end at a NUL.
        if name.is_empty() || name.contains(&0) {
            return None;
        }
        ask_once(&self.ids, name, |name| ask(OsStr::from_bytes(name)))
    }
}

/// Returns what is remembered for `key`, or what `ask` says.
fn ask_once<K, V>(known: &Mutex<HashMap<K::Owned, Option<V>>>, key: &K, ask: impl Fn(&K) -> Option<V>) -> Option<V>
where
    K: ToOwned<Owned: Hash + Eq> + Hash + Eq + ?Sized,
    V: Clone,
{
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known.get(key) {
        return answer.clone();
    }
    let answer = ask(key);
    known.insert(key.to_owned(), answer.clone());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_root_both_ways() {
        let accounts = Accounts::default();
        for _ in 0..2 {
            assert_eq!(accounts.user_id(b"root"), Some(0));
            assert_eq!(accounts.user_name(0).as_deref(), Some(&b"root"[..]));
            assert_eq!(accounts.group_id(b"root"), Some(0));
            assert_eq!(accounts.group_name(0).as_deref(), Some(&b"root"[..]));
        }
    }

    #[test]
    fn names_that_nobody_has_give_nothing() {
        let accounts = Accounts::default();
        for name in [&b""[..], b"root\0", b"no such account", b"\xff"] {
            assert_eq!((accounts.user_id(name), accounts.group_id(name)), (None, None));
        }
    }

    #[test]
    fn one_question_for_each_account() {
        let (known, asked) = (Mutex::<HashMap<Vec<u8>, Option<u32>>>::default(), std::cell::Cell::new(0));
        let ask = |name: &[u8]| {
            asked.set(asked.get() + 1);
            (name == b"a").then_some(7)
        };
        for _ in 0..3 {
            assert_eq!(ask_once(&known, &b"a"[..], ask), Some(7));
            assert_eq!(ask_once(&known, &b"b"[..], ask), None);
        }
        assert_eq!(asked.get(), 2);
    }
}
