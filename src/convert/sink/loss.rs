//! Reports properties that a target cannot store. The table in `docs/convert.md` lists all losses.

use super::export::Exporter;
use crate::entry_error::within;
use nra_format::archive::{Archive, Part};
use nra_format::container::Engine;
use nra_format::entry::{Attribute, Entry};
use nra_format::error::{Error, Result};
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::shard;
use nra_format::zeros::each_run;

/// Returns the name of an archive of this format in messages, with article.
pub(crate) fn noun(format: Engine) -> &'static str {
    match format {
        Engine::Nra5 => "an NRA 5 archive",
        Engine::Nra4 => "an NRA 4.5 archive",
        Engine::Shard => "a Shard file",
        Engine::Tar | Engine::Compressed(_) => "a tar archive",
        Engine::Zip => "a zip archive",
        Engine::SevenZ => "a 7z archive",
    }
}

/// Returns the message that an entry loses `count` attributes, at least one.
pub(crate) fn attributes_lost(count: usize, format: Engine) -> String {
    let lost = if count == 1 { "an attribute".to_owned() } else { format!("{count} attributes") };
    format!("{lost} can't be kept in {}", noun(format))
}

/// Returns the message that a file loses its holes.
pub(crate) fn holes_filled(format: Engine) -> String {
    format!("its holes are filled with zero bytes in {}", noun(format))
}

/// Passes the content of an entry to `sink`, for a target that cannot store holes: they become zero
/// bytes, which is reported.
pub(crate) fn without_holes(
    exporter: &Exporter<'_>,
    stored: &Entry,
    format: Engine,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut has_holes, mut len) = (false, 0u64);
    let read = exporter.content(stored, &mut |part| {
        has_holes |= matches!(part, Part::Hole(_));
        each_run(part, &mut |bytes| {
            len += bytes.len() as u64;
            exporter.monitor.check()?;
            exporter.monitor.add(Counter::Bytes, bytes.len() as u64);
            sink(bytes)
        })
    });
    read.map_err(|error| within(error, &stored.path))?;
    if len != stored.size {
        let detail = format!("{} bytes expected, {len} found", stored.size);
        return Err(within(Error::corrupt("content", 0, detail), &stored.path));
    }
    if has_holes {
        exporter.lost(&stored.path, holes_filled(format));
    }
    Ok(())
}

/// Reports properties of `archive` that the target cannot store. Sinks of NRA call
/// [`warn_unencrypted`] themselves, because they can encrypt.
pub(crate) fn warn_archive_losses(archive: &dyn Archive, format: Engine, monitor: &dyn Monitor) {
    if !matches!(format, Engine::Nra5 | Engine::Nra4) {
        warn_unencrypted(archive, false, monitor);
    }
    let info = archive.info();
    // A damaged commit counts, too.
    let earlier = archive.commits().nth(1).is_some();
    // A Shard file keeps the attributes that came from one. Other formats lose nothing by dropping
    // its layout. NRA 4.5 keeps attributes of entries, which are incomplete without those of the
    // archive.
    let is_shard_attribute = |attribute: &Attribute| match format {
        Engine::Shard => shard::is_shard_attribute(attribute),
        Engine::Nra4 => false,
        _ => shard::is_shard_attribute(attribute) && !shard::is_metadata_attribute(attribute),
    };
    let attributes =
        info.attributes.iter().any(|attribute| !attribute.describes_top_directory() && !is_shard_attribute(attribute));
    let loses_attributes = attributes && format != Engine::Nra5;
    let losses = [
        earlier.then(|| "earlier commits are not kept".to_owned()),
        loses_attributes.then(|| format!("attributes of the archive can't be kept in {}", noun(format))),
    ];
    for message in losses.into_iter().flatten() {
        monitor.warn(Warning::degraded([], message));
    }
}

/// Reports that `archive` is encrypted and the output is not.
pub(crate) fn warn_unencrypted(archive: &dyn Archive, encrypts: bool, monitor: &dyn Monitor) {
    if archive.info().encrypted && !encrypts {
        let message = "the input is encrypted, but the output is not (use convert -e to encrypt it)";
        monitor.warn(Warning::remark([], message));
    }
}
