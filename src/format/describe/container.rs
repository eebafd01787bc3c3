//! Describes archives by their entries.

use std::sync::Arc;

use crate::describe::{Description, MAX_ROWS};
use crate::registry::detect;
use nra_core::archive::OpenOptions;
use nra_core::container::Engine;
use nra_core::entry::Kind;
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Limit of the engine's cache and of its index, bytes.
const MAX_MEMORY: u64 = 8 << 20;
/// Longest compressed stream that is decoded for its listing, bytes.
const MAX_STREAM: u64 = 8 << 20;
/// Maximum ratio of decoded and stored bytes after the first GiB.
const MAX_RATIO: u64 = 64;

/// How the entries of an archive are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Through its index, or by walking its headers.
    Direct,
    /// By decoding a stream.
    Stream,
}

/// Returns how the entries of an archive are found, or `None` if these first 512 bytes are not
/// those of an archive.
pub fn access(first: &[u8]) -> Option<Access> {
    // An empty tar archive has nothing to list.
    if first.iter().all(|&byte| byte == 0) {
        return None;
    }
    detect(first).map(|engine| match engine {
        Engine::Compressed(_) => Access::Stream,
        _ => Access::Direct,
    })
}

/// Lists an archive. Returns `None` if the source is not one.
pub fn describe(source: &Arc<dyn ReadAt>, access: Access) -> Result<Option<Description>> {
    let mut table = Description::new("archive", &["name", "bytes"]);
    if access == Access::Stream && source.len() > MAX_STREAM {
        table.fact("compressed", format!("{} bytes", source.len()));
        table.fact("listed", format!("up to {MAX_STREAM} bytes; press enter to open it"));
        return Ok(Some(table));
    }
    let options =
        OpenOptions { cache_bytes: MAX_MEMORY, index_bytes: MAX_MEMORY, stream_ratio: MAX_RATIO, ..OpenOptions::default() };
    let archive = match crate::registry::open(Arc::clone(source), &options) {
        Ok(archive) => archive,
        Err(Error::KeyNeeded) => {
            table.fact("encrypted", "press enter for the password");
            return Ok(Some(table));
        }
        Err(Error::NotAnArchive { .. } | Error::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    table.fact("format", archive.container().to_string());
    table.fact("entries", archive.entry_count().to_string());
    // Some containers describe their entries.
    let Description { facts, heads, rows, row_count, .. } = archive.describe(None)?.unwrap_or_default();
    table.facts.extend(facts);
    if !rows.is_empty() {
        return Ok(Some(Description { heads, rows, row_count, ..table }));
    }
    for entry in archive.entries(0..archive.entry_count()).take(MAX_ROWS) {
        // Entries that cannot be read are skipped.
        let Ok(entry) = entry else { continue };
        let name = String::from_utf8_lossy(entry.path.as_bytes());
        match entry.kind {
            Kind::Directory => table.row(&[&format!("{name}/"), ""]),
            Kind::File => table.row(&[&name, &entry.size.to_string()]),
            _ => table.row(&[&name, ""]),
        }
    }
    table.row_count = archive.entry_count();
    Ok(Some(table))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;
    use crate::describe::describe as describe_source;
    use nra_core::source::MemorySource;

    fn tar() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["docs/a.txt", "docs/b.txt"] {
            let mut header = tar::Header::new_ustar();
            header.set_size(5);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append_data(&mut header, name, &b"hello"[..]).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn source(bytes: Vec<u8>) -> Arc<dyn ReadAt> {
        Arc::new(MemorySource::new(bytes))
    }

    #[test]
    fn archives_are_listed() {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["docs/a.txt", "docs/b.txt"] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(b"hello").unwrap();
        }
        let zip = zip.finish().unwrap().into_inner();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar()).unwrap();
        for bytes in [zip, tar(), gzip.finish().unwrap()] {
            let table = describe_source(&source(bytes)).unwrap().unwrap();
            let names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).filter(|name| !name.ends_with('/')).collect();
            assert_eq!(names, ["docs/a.txt", "docs/b.txt"]);
            assert_eq!(table.rows.last().unwrap()[1], "5");
            assert_eq!(table.row_count, table.rows.len() as u64);
        }
    }

    #[test]
    fn tensors_of_a_shard_file_are_described() {
        let bytes = include_bytes!("../../../tests/fixtures/shard/go_tensorv1.mosh");
        let table = describe_source(&source(bytes.to_vec())).unwrap().unwrap();
        assert_eq!(table.facts[0].1, "Shard 2 (ModelShard)");
        assert_eq!((table.row_count, table.rows[0][..3].join(" ").as_str()), (6, "model.embed.weight f32 2 × 3"));
    }

    #[test]
    fn long_stream_is_not_decoded() {
        let mut bytes = b"\x1f\x8b\x08".to_vec();
        bytes.resize(usize::try_from(MAX_STREAM).unwrap() + 1, 0);
        let table = describe_source(&source(bytes)).unwrap().unwrap();
        assert!(table.rows.is_empty() && table.facts[1].1.contains("press enter to open it"), "{table:?}");
    }
}
