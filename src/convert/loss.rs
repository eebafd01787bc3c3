//! What an archive as a whole has that a target can't hold. The table in `docs/convert.md` has all losses.

use crate::format::archive::Archive;
use crate::format::entry::Namespace;
use crate::format::error::Result;
use crate::format::progress::{Monitor, Warning};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum Target {
    /// A new NRA archive.
    Nra,
    /// A tar archive.
    Tar,
}

/// Tells what of `archive` does not come along.
///
/// # Errors
///
/// As reading its commits does.
pub(in crate::convert) fn tell_whole(archive: &dyn Archive, target: Target, monitor: &dyn Monitor) -> Result<()> {
    let info = archive.info();
    let earlier = archive.commits().take(2).collect::<Result<Vec<_>>>()?.len() > 1;
    let attributes = info.attributes.iter().any(|attribute| attribute.namespace != Namespace::Nra);
    let is_tar = target == Target::Tar;
    let losses = [
        (earlier, "earlier commits are not kept"),
        (is_tar && attributes, "attributes of the archive can't be kept in a tar archive"),
        (is_tar && !info.message.is_empty(), "the message of the commit can't be kept in a tar archive"),
    ];
    for (_, message) in losses.into_iter().filter(|(lost, _)| *lost) {
        monitor.warn(Warning { path: Vec::new(), message: message.into(), degraded: true, damage: false });
    }
    Ok(())
}
