//! NPZ: a zip archive of NPY files.

use std::sync::Arc;

use crate::describe::{Description, bytes, known, npy, shape};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::source::{MemorySource, ReadAt};

/// Most arrays whose headers are read.
const MAX_ARRAYS: usize = 200;
/// Bytes of an array decoded for its header. numpy's header has 128 bytes unless the type is a long
/// record.
const START_LEN: u64 = 4 << 10;
/// Limit of the zip engine's cache and of its index, bytes.
const MAX_MEMORY: u64 = 4 << 20;

/// Returns whether a zip archive starts with an NPY file.
pub fn is_npz(first: &[u8]) -> bool {
    let len = usize::try_from(bytes::little_at(first, 26, 2)).expect("two bytes");
    // A longer name is truncated here; the full name is in the central directory.
    first.get(30..30 + len).map_or(len > 0, |name| name.ends_with(b".npy"))
}

/// Describes an NPZ file.
pub fn describe(source: &Arc<dyn ReadAt>) -> Result<Description> {
    let options = OpenOptions { cache_bytes: MAX_MEMORY, index_bytes: MAX_MEMORY, ..OpenOptions::default() };
    let archive = crate::registry::open(Arc::clone(source), &options)?;
    let mut table = Description::new("NPZ", &["name", "type", "shape", "bytes"]);
    let mut others = 0u64;
    for (seen, entry) in archive.entries(0..archive.entry_count()).enumerate() {
        let entry = entry?;
        if entry.kind != Kind::File {
            continue;
        }
        let Some(name) = entry.path.as_bytes().strip_suffix(b".npy") else {
            others += 1;
            continue;
        };
        let name = String::from_utf8_lossy(name);
        match (seen < MAX_ARRAYS).then(|| read_header(&*archive, &entry)).transpose() {
            Ok(Some(array)) => table.row(&[&name, &array.dtype(), &shape(&array.shape), &known(array.bytes())]),
            Ok(None) => table.row(&[&name, "", "", &entry.size.to_string()]),
            Err(_) => table.row(&[&name, "not an array", "", &entry.size.to_string()]),
        }
    }
    table.fact("arrays", table.row_count.to_string());
    if others > 0 {
        table.fact("other files", others.to_string());
    }
    Ok(table)
}

fn read_header(archive: &dyn Archive, entry: &Entry) -> Result<npy::Array> {
    let mut start = vec![0; usize::try_from(entry.size.min(START_LEN)).expect("a few KiB")];
    let read = archive.read_at(entry, 0, &mut start)?;
    start.truncate(read);
    npy::array(&MemorySource::new(start))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    #[test]
    fn stored_and_deflated_arrays_are_described() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, method) in [("a", CompressionMethod::Stored), ("b/c", CompressionMethod::Deflated)] {
            zip.start_file(format!("{name}.npy"), SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(b"\x93NUMPY\x01\0\x2f\0{'descr': '<i8', 'shape': (2, 5), 'x': 'yzabc'}").unwrap();
            zip.write_all(&[0; 80]).unwrap();
        }
        zip.start_file("readme", SimpleFileOptions::default()).unwrap();
        let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(zip.finish().unwrap().into_inner()));
        let table = super::super::describe(&source).unwrap().unwrap();
        assert_eq!(table.rows, [["a", "int64", "2 × 5", "80"], ["b/c", "int64", "2 × 5", "80"]]);
        assert_eq!(table.facts[1], ("other files".to_owned(), "1".to_owned()));
    }
}
