//! NPZ: a zip archive of NPY files.

use std::sync::Arc;

use crate::describe::{Description, known, npy, shape};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::source::{MemorySource, ReadAt};

/// Arrays whose headers are read.
const MAX_ARRAYS: usize = 200;
/// Bytes of an array that are decoded for its header: numpy writes 128 unless the type is a long record.
const START: u64 = 4 << 10;
/// Bound for what the zip engine keeps of content and of its directory, bytes.
const CACHE: u64 = 4 << 20;

/// Says whether a zip archive begins with an NPY file.
pub fn is_npz(head: &[u8]) -> bool {
    let len = head.get(26..28).map_or(0, |len| usize::from(len[0]) | usize::from(len[1]) << 8);
    // A longer name is not whole here; the directory at the end of the file has it.
    head.get(30..30 + len).map_or(len > 0, |name| name.ends_with(b".npy"))
}

/// Reads an NPZ file.
pub fn describe(source: &Arc<dyn ReadAt>) -> Result<Description> {
    let options = OpenOptions { cache_bytes: CACHE, index_bytes: CACHE, ..OpenOptions::default() };
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
        match (seen < MAX_ARRAYS).then(|| start(&*archive, &entry)).transpose() {
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

fn start(archive: &dyn Archive, entry: &Entry) -> Result<npy::Array> {
    let mut head = vec![0; usize::try_from(entry.size.min(START)).expect("a few KiB")];
    let read = archive.read_at(entry, 0, &mut head)?;
    head.truncate(read);
    npy::array(&MemorySource::new(head))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    #[test]
    fn arrays_stored_and_deflated() {
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
