//! Users and groups of this system, by ID and by name.
//!
//! Each is looked up once, because a lookup may involve a server. [`UsersCache`] also remembers IDs
//! and names that don't exist.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uzers::{Groups, Users, UsersCache};

/// IDs and names of accounts. Shared by all threads.
#[derive(Default)]
pub(crate) struct Accounts(Mutex<UsersCache>);

impl Accounts {
    fn cache(&self) -> MutexGuard<'_, UsersCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of a user, if there is one.
    pub(crate) fn user_name(&self, id: u32) -> Option<Box<[u8]>> {
        self.cache().get_user_by_uid(id).map(|user| user.name().as_bytes().into())
    }

    /// Returns the name of a group, if there is one.
    pub(crate) fn group_name(&self, id: u32) -> Option<Box<[u8]>> {
        self.cache().get_group_by_gid(id).map(|group| group.name().as_bytes().into())
    }

    /// Returns the ID of the user with this name, if there is one.
    pub(crate) fn user_id(&self, name: &[u8]) -> Option<u32> {
        self.cache().get_user_by_name(OsStr::from_bytes(name)).map(|user| user.uid())
    }

    /// Returns the ID of the group with this name, if there is one.
    pub(crate) fn group_id(&self, name: &[u8]) -> Option<u32> {
        self.cache().get_group_by_name(OsStr::from_bytes(name)).map(|group| group.gid())
    }
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
}
