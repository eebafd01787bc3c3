//! What an archive as a whole has that a target can't hold. The table in `docs/convert.md` has all losses.

use crate::format::archive::Archive;
use crate::format::error::{Error, Result};
use crate::format::progress::{Monitor, Warning};
use crate::format::shard;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Target {
    /// A new NRA archive.
    Nra,
    /// A tar archive.
    Tar,
    /// A zip archive.
    Zip,
    /// A Shard file.
    Shard,
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
    let attributes = info.attributes.iter().any(|attribute| {
        // A Shard file has a place for what came from one.
        let is_own = target == Target::Shard && shard::is_own(attribute);
        !attribute.is_of_root() && !is_own
    });
    let kind = match target {
        Target::Nra => None,
        Target::Tar => Some("tar archive"),
        Target::Zip => Some("zip archive"),
        Target::Shard => Some("Shard file"),
    };
    // Tar and zip archives have comments.
    let message = target == Target::Shard && !info.message.is_empty();
    let not_in = |what: &str| kind.map(|kind| format!("{what} can't be kept in a {kind}"));
    let losses = [
        earlier.then(|| "earlier commits are not kept".to_owned()),
        not_in("attributes of the archive").filter(|_| attributes),
        not_in("the message of the commit").filter(|_| message),
    ];
    for message in losses.into_iter().flatten() {
        monitor.warn(Warning { path: Vec::new(), message, degraded: true, damage: false });
    }
    Ok(())
}

/// Tells what came to light about `archive`, when all of its index has been read.
///
/// # Errors
///
/// `Corrupt` when its index is damaged, unless the work is to `keep_going`.
pub(in crate::convert) fn tell_state(archive: &dyn Archive, keep_going: bool, monitor: &dyn Monitor) -> Result<()> {
    let damage = archive.is_recovered();
    let mut remarks = archive.remarks();
    if damage && !keep_going {
        let detail = if remarks.is_empty() { "entries may be missing".to_owned() } else { remarks.join("; ") };
        return Err(Error::corrupt("index", 0, detail));
    }
    if damage && remarks.is_empty() {
        remarks.push("the index is damaged; entries were found without it".to_owned());
    }
    let degraded = damage || archive.omits_entries();
    for message in remarks {
        monitor.warn(Warning { path: Vec::new(), message, degraded, damage });
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
