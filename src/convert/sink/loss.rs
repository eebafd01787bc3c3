//! Reports properties of a whole archive that a target can't hold. The table in `docs/convert.md` lists all losses.

use nra_format::archive::Archive;
use nra_format::entry::Attribute;
use nra_format::error::{Error, Result};
use nra_format::progress::{Monitor, Severity, Warning};
use nra_format::shard;

/// The format that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    /// A new NRA archive.
    Nra,
    /// A tar archive.
    Tar,
    /// A zip archive.
    Zip,
    /// A Shard file.
    Shard,
    /// An archive of NRA 4.5.
    Nra4,
}

impl Container {
    /// Returns its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nra => "archive of NRA 5",
            Self::Tar => "tar archive",
            Self::Zip => "zip archive",
            Self::Shard => "Shard file",
            Self::Nra4 => "file of NRA 4.5",
        }
    }
}

/// Returns the message that an entry loses `count` attributes, at least one.
pub(crate) fn attributes_lost(count: usize, kind: &str) -> String {
    let what = if count == 1 { "an attribute".to_owned() } else { format!("{count} attributes") };
    format!("{what} can't be kept in a {kind}")
}

/// Returns the message that a file loses its holes.
pub(crate) fn holes_filled(target: Container) -> String {
    format!("its holes are filled with zero bytes in a {}", target.name())
}

/// Reports what of `archive` is lost. Sinks of NRA call [`warn_unencrypted`] themselves, because they can encrypt.
pub(crate) fn warn_archive_losses(archive: &dyn Archive, target: Container, monitor: &dyn Monitor) {
    if !matches!(target, Container::Nra | Container::Nra4) {
        warn_unencrypted(archive, false, monitor);
    }
    let info = archive.info();
    // A damaged commit counts, too.
    let earlier = archive.commits().nth(1).is_some();
    // A Shard file keeps the attributes that came from one. Other formats lose nothing by dropping its layout. NRA 4.5 keeps attributes
    // of entries, which are incomplete without those of the archive.
    let is_shard_attribute = |attribute: &Attribute| match target {
        Container::Shard => shard::is_shard_attribute(attribute),
        Container::Nra4 => false,
        Container::Nra | Container::Tar | Container::Zip => {
            shard::is_shard_attribute(attribute) && !shard::is_metadata_attribute(attribute)
        }
    };
    let attributes =
        info.attributes.iter().any(|attribute| !attribute.describes_top_directory() && !is_shard_attribute(attribute));
    let kind = (target != Container::Nra).then(|| target.name());
    let not_in = |what: &str| kind.map(|kind| format!("{what} can't be kept in a {kind}"));
    let losses =
        [earlier.then(|| "earlier commits are not kept".to_owned()), not_in("attributes of the archive").filter(|_| attributes)];
    for message in losses.into_iter().flatten() {
        monitor.warn(Warning::degraded([], message));
    }
}

/// Reports problems of `archive` that were found while its whole index was read.
///
/// # Errors
///
/// `Corrupt` if its index is damaged, unless `keep_going` is set.
pub(crate) fn report_index_state(archive: &dyn Archive, keep_going: bool, monitor: &dyn Monitor) -> Result<()> {
    let damage = archive.is_index_damaged();
    let mut remarks = archive.remarks();
    if damage && !keep_going {
        let detail = if remarks.is_empty() { "entries may be missing".to_owned() } else { remarks.join("; ") };
        return Err(Error::corrupt("index", 0, detail));
    }
    if damage && remarks.is_empty() {
        remarks.push("the index is damaged; entries were found without it".to_owned());
    }
    let severity = match (archive.is_index_damaged(), archive.skips_entries()) {
        (true, _) => Severity::Damage,
        (false, true) => Severity::Degraded,
        (false, false) => Severity::Remark,
    };
    for message in remarks {
        monitor.warn(Warning::new(severity, [], message));
    }
    Ok(())
}

/// Reports that `archive` is encrypted and the output is not.
pub(crate) fn warn_unencrypted(archive: &dyn Archive, encrypts: bool, monitor: &dyn Monitor) {
    if archive.info().encrypted && !encrypts {
        let message = "the input is encrypted, what is made of it is not (convert -e encrypts that too)";
        monitor.warn(Warning::remark([], message));
    }
}
