//! What an archive as a whole has that a target can't hold. The table in `docs/convert.md` has all losses.

use crate::format::archive::Archive;
use crate::format::error::Result;
use crate::format::progress::{Monitor, Warning};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Target {
    /// A new NRA archive.
    Nra,
    /// A tar archive.
    Tar,
    /// A zip archive.
    Zip,
}

/// Tells what of `archive` does not come along.
///
/// # Errors
///
/// As reading its commits does.
pub(in crate::convert) fn tell_whole(archive: &dyn Archive, target: Target, monitor: &dyn Monitor) -> Result<()> {
    if target != Target::Nra {
        tell_secrecy(archive, false, monitor);
    }
    let info = archive.info();
    let earlier = archive.commits().take(2).collect::<Result<Vec<_>>>()?.len() > 1;
    let attributes = info.attributes.iter().any(|attribute| !attribute.is_of_root());
    let kind = match target {
        Target::Nra => None,
        Target::Tar => Some("tar"),
        Target::Zip => Some("zip"),
    };
    let not_in = |what: &str| kind.map(|kind| format!("{what} can't be kept in a {kind} archive"));
    let losses = [
        earlier.then(|| "earlier commits are not kept".to_owned()),
        not_in("attributes of the archive").filter(|_| attributes),
        not_in("the message of the commit").filter(|_| !info.message.is_empty()),
    ];
    for message in losses.into_iter().flatten() {
        monitor.warn(Warning { path: Vec::new(), message, degraded: true, damage: false });
    }
    Ok(())
}

/// Tells when `archive` is encrypted and what is made of it is not.
pub(in crate::convert) fn tell_secrecy(archive: &dyn Archive, encrypts: bool, monitor: &dyn Monitor) {
    if archive.info().encrypted && !encrypts {
        let message = "the input is encrypted, what is made of it is not (convert -e encrypts that too)".into();
        monitor.warn(Warning { path: Vec::new(), message, degraded: false, damage: false });
    }
}
