//! Describes HDF5 files: groups and datasets, with their types and shapes.
//!
//! Both versions of object headers are read, and groups with a symbol table or compact links.
//! Groups with dense link storage (many links, in files of the newer version) are named, but not
//! entered.

use std::collections::{HashSet, VecDeque};

use crate::describe::bytes::little_at as number;
use crate::describe::{Description, MAX_TEXT, bytes, known, product, shape};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Signature of a file.
pub const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Most objects that are read.
const MAX_OBJECTS: usize = 2_000;
/// Most message blocks of an object, and most nodes of a group.
const MAX_BLOCKS: usize = 256;
/// Longest message block of an object, and longest heap of names of a group, bytes.
const MAX_BLOCK: u64 = 1 << 20;
/// Most bytes of all these, bytes.
const MAX_READ: u64 = 16 << 20;
/// Most dimensions of a dataset.
const MAX_RANK: usize = 32;

const DATASPACE: u64 = 0x01;
const LINKS: u64 = 0x02;
const DATATYPE: u64 = 0x03;
const LINK: u64 = 0x06;
const CONTINUATION: u64 = 0x10;
const SYMBOLS: u64 = 0x11;

/// An object as described by its messages.
#[derive(Default)]
struct Object {
    shape: Option<Vec<u64>>,
    kind: String,
    size: u64,
    /// Names and addresses of the objects in a group.
    children: Vec<(String, u64)>,
    is_group: bool,
    is_dense: bool,
}

/// The file, and the number of bytes that may still be read.
struct File<'a> {
    source: &'a dyn ReadAt,
    remaining: u64,
}

/// Describes a file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let mut table = Description::new("HDF5", &["name", "type", "shape", "bytes"]);
    let header = bytes::up_to(source, 0, 128)?;
    let version = number(&header, 8, 1);
    table.fact("superblock version", version.to_string());
    let (widths, root) = match version {
        0 | 1 => {
            // The entry of the root group follows four addresses: its name, then its address.
            let at = if version == 0 { 24 } else { 28 } + 4 * 8 + 8;
            ((number(&header, 13, 1), number(&header, 14, 1)), number(&header, at, 8))
        }
        2 | 3 => ((number(&header, 9, 1), number(&header, 10, 1)), number(&header, 36, 8)),
        _ => return Err(Error::Unsupported { what: "version of HDF5", found: version.to_string(), known: "0 to 3".to_owned() }),
    };
    if widths != (8, 8) {
        table.fact("addresses", format!("unsupported width of {} bytes", widths.0));
        return Ok(table);
    }
    let mut file = File { source, remaining: MAX_READ };
    let (mut groups, mut datasets) = (0u64, 0u64);
    let (mut queue, mut seen) = (VecDeque::from([(String::new(), root)]), HashSet::from([root]));
    for _ in 0..MAX_OBJECTS {
        let Some((path, address)) = queue.pop_front() else { break };
        let object = match file.object(address) {
            Ok(object) => object,
            Err(error) if path.is_empty() => return Err(error),
            Err(_) => {
                table.row(&[&path, "damaged", "", ""]);
                continue;
            }
        };
        if let Some(sizes) = &object.shape {
            datasets += 1;
            let total = product(sizes).and_then(|count| count.checked_mul(object.size));
            table.row(&[&path, &object.kind, &shape(sizes), &known(total)]);
        } else if object.is_group {
            groups += 1;
            if object.is_dense {
                table.row(&[&format!("{path}/"), "many entries, not listed", "", ""]);
            } else if object.children.is_empty() && !path.is_empty() {
                table.row(&[&format!("{path}/"), "empty group", "", ""]);
            }
        }
        for (name, address) in object.children {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            // A link may lead back to a parent group.
            if path.len() <= 4 * MAX_TEXT && seen.len() < MAX_OBJECTS && seen.insert(address) {
                queue.push_back((path, address));
            }
        }
    }
    table.rows.sort();
    table.fact("groups", groups.to_string());
    table.fact("datasets", datasets.to_string());
    Ok(table)
}

impl File<'_> {
    fn read(&mut self, structure: &'static str, at: u64, len: u64) -> Result<Vec<u8>> {
        self.remaining =
            self.remaining.checked_sub(len).ok_or(Error::Limit { what: structure, found: len, limit: self.remaining })?;
        bytes::exactly(self.source, structure, at, len, MAX_BLOCK)
    }

    /// Reads the messages of an object.
    fn object(&mut self, address: u64) -> Result<Object> {
        let mut object = Object::default();
        let header = bytes::up_to(self.source, address, 64)?;
        // The message blocks and, in the newer version, whether messages have a creation index.
        let mut blocks = VecDeque::new();
        let numbered = if header.starts_with(b"OHDR") {
            let flags = number(&header, 5, 1);
            let at = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
            let width = 1usize << (flags & 3);
            blocks.push_back((address.saturating_add((at + width) as u64), number(&header, at, width)));
            Some(flags & 4 != 0)
        } else if header.first() == Some(&1) {
            blocks.push_back((address.saturating_add(16), number(&header, 8, 4)));
            None
        } else {
            return Err(Error::corrupt("HDF5 object", address, "its signature is missing"));
        };
        for _ in 0..MAX_BLOCKS {
            let Some((at, len)) = blocks.pop_front() else { break };
            let block = self.read("HDF5 object", at, len)?;
            let mut rest = match numbered {
                // The messages are between a signature and a checksum.
                Some(_) if block.starts_with(b"OCHK") => block.get(4..block.len().saturating_sub(4)).unwrap_or_default(),
                _ => block.as_slice(),
            };
            loop {
                let (kind, len, header_len) = match numbered {
                    Some(numbered) => (number(rest, 0, 1), number(rest, 1, 2), if numbered { 6 } else { 4 }),
                    None => (number(rest, 0, 2), number(rest, 2, 2), 8),
                };
                let end = header_len + usize::try_from(len).expect("two bytes");
                let Some(body) = rest.get(header_len..end) else { break };
                match kind {
                    CONTINUATION => blocks.push_back((number(body, 0, 8), number(body, 8, 8))),
                    SYMBOLS => self.symbols(number(body, 0, 8), number(body, 8, 8), &mut object)?,
                    kind => object.add_message(kind, body),
                }
                rest = &rest[end..];
            }
        }
        Ok(object)
    }

    /// Reads the symbol table of a group: a tree of nodes, and a heap of names.
    fn symbols(&mut self, tree: u64, heap: u64, object: &mut Object) -> Result<()> {
        object.is_group = true;
        let header = self.read("HDF5 heap", heap, 32)?;
        if !header.starts_with(b"HEAP") {
            return Err(Error::corrupt("HDF5 heap", heap, "its signature is missing"));
        }
        let names = self.read("HDF5 heap", number(&header, 24, 8), number(&header, 8, 8))?;
        let mut nodes = VecDeque::from([tree]);
        for _ in 0..MAX_BLOCKS {
            let Some(at) = nodes.pop_front() else { break };
            let header = self.read("HDF5 tree", at, 8)?;
            match header.get(..4) {
                Some(b"TREE") => {
                    let used = number(&header, 6, 2);
                    let body = self.read("HDF5 tree", at.saturating_add(24), used * 16 + 8)?;
                    // Each address is between two keys.
                    nodes.extend(body.chunks_exact(16).map(|pair| number(pair, 8, 8)));
                }
                Some(b"SNOD") => {
                    let body = self.read("HDF5 symbols", at.saturating_add(8), number(&header, 6, 2) * 40)?;
                    for symbol in body.chunks_exact(40) {
                        let from = usize::try_from(number(symbol, 0, 8)).unwrap_or(usize::MAX);
                        let name = names.get(from..).unwrap_or_default();
                        object.add_child(name.split(|byte| *byte == 0).next().unwrap_or_default(), number(symbol, 8, 8));
                    }
                }
                _ => return Err(Error::corrupt("HDF5 tree", at, "its signature is missing")),
            }
        }
        Ok(())
    }
}

impl Object {
    fn add_child(&mut self, name: &[u8], address: u64) {
        if self.children.len() < MAX_OBJECTS {
            self.children.push((String::from_utf8_lossy(&name[..name.len().min(MAX_TEXT)]).into_owned(), address));
        }
    }

    fn add_message(&mut self, kind: u64, body: &[u8]) {
        match kind {
            DATASPACE => {
                let rank = usize::try_from(number(body, 1, 1)).expect("a byte").min(MAX_RANK);
                let at = if number(body, 0, 1) == 1 { 8 } else { 4 };
                self.shape = Some((0..rank).map(|dimension| number(body, at + dimension * 8, 8)).collect());
            }
            DATATYPE => {
                self.size = number(body, 4, 4);
                let bits = self.size.saturating_mul(8);
                self.kind = match number(body, 0, 1) & 0xf {
                    0 => format!("{}int{bits}", if number(body, 1, 1) & 8 == 0 { "u" } else { "" }),
                    1 => format!("float{bits}"),
                    2 => "time".to_owned(),
                    3 => format!("text of {} bytes", self.size),
                    4 => format!("bit field of {bits} bits"),
                    5 => "opaque".to_owned(),
                    6 => format!("record of {} fields", number(body, 1, 2)),
                    7 => "reference".to_owned(),
                    8 => "enumeration".to_owned(),
                    9 if number(body, 1, 1) & 0xf == 1 => "text".to_owned(),
                    9 => "lists".to_owned(),
                    10 => "arrays".to_owned(),
                    class => format!("class {class}"),
                };
            }
            LINKS => {
                self.is_group = true;
                // Links are dense if there is a heap for them.
                let at = if number(body, 1, 1) & 1 != 0 { 10 } else { 2 };
                self.is_dense = body.len() >= at + 8 && number(body, at, 8) != u64::MAX;
            }
            LINK => {
                self.is_group = true;
                let flags = number(body, 1, 1);
                let mut at = 2;
                let hard = flags & 8 == 0 || number(body, at, 1) == 0;
                for (bit, len) in [(8, 1), (4, 8), (0x10, 1)] {
                    at += if flags & bit != 0 { len } else { 0 };
                }
                let width = 1usize << (flags & 3);
                let from = at + width;
                let to = from.saturating_add(usize::try_from(number(body, at, width)).unwrap_or(usize::MAX));
                if let Some(name) = body.get(from..to).filter(|_| hard) {
                    self.add_child(name, number(body, to, 8));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    /// Written by h5py 3.16 with the oldest and the newest format: a group of two datasets, an
    /// empty group, a record, a text.
    const FILES: [&[u8]; 2] = [include_bytes!("old.h5"), include_bytes!("new.h5")];

    #[test]
    fn datasets_of_both_versions_are_described() {
        for (file, version) in FILES.into_iter().zip(["0", "3"]) {
            let table = describe(&MemorySource::new(file.to_vec())).unwrap();
            let facts: Vec<&str> = table.facts.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(facts, [version, "3", "4"], "{table:?}");
            let rows: Vec<[&str; 4]> = table.rows.iter().map(|row| std::array::from_fn(|at| row[at].as_str())).collect();
            assert_eq!(
                rows,
                [
                    ["empty/", "empty group", "", ""],
                    ["model/bias", "int16", "5", "10"],
                    ["model/weights", "float32", "3 × 4", "48"],
                    ["note", "text", "1", "16"],
                    ["points", "record of 2 fields", "2", "24"],
                ]
            );
        }
    }

    #[test]
    fn damaged_files_never_panic() {
        for file in FILES {
            for at in 8..file.len() {
                for value in [0, 1, 0xff] {
                    let mut file = file.to_vec();
                    file[at] = value;
                    let _ = describe(&MemorySource::new(file));
                }
            }
            for cut in (8..file.len()).step_by(5) {
                let _ = describe(&MemorySource::new(file[..cut].to_vec()));
            }
        }
    }
}
